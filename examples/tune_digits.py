"""A small neural network on scikit-learn's handwritten digits: learning rate, width and clipping norm are tuned, and
the whole search is certified.

The number of runs is drawn from a geometric law. Each run draws its hyper-parameters anew, trains by DP-SGD in NumPy,
and is scored on images that are public. The best network is released, and nothing else.

    python examples/tune_digits.py

Needs scikit-learn, for the data.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from train_digits import digits

import evr

NOISE, SAMPLING, STEPS = 2.0, 0.1, 100  # of every candidate: they cost the same
MEAN_RUNS = 10
DELTA = 1e-5


class Candidate(NamedTuple):
    """Hyper-parameters, drawn from a list that was written before anybody looked at the data."""

    rate: float
    width: int
    clip: float


CANDIDATES = [Candidate(rate, width, clip) for rate in (0.1, 0.5, 2.0) for width in (16, 64) for clip in (0.3, 1.0)]


class Network(NamedTuple):
    """One hidden layer of rectifiers."""

    hidden: Any
    last: Any

    def scores(self, images: Any) -> Any:
        return np.maximum(images @ self.hidden, 0.0) @ self.last

    def accuracy(self, images: Any, labels: Any) -> float:
        return float(np.mean(np.argmax(self.scores(images), axis=1) == labels))


def gradient(network: Network, images: Any, labels: Any, clip: float) -> Network:
    """The sum of the records' gradients, each clipped: its norm follows from the factors of an outer product."""
    active = np.maximum(images @ network.hidden, 0.0)
    logits = active @ network.last
    error = np.exp(logits - logits.max(axis=1, keepdims=True))
    error /= error.sum(axis=1, keepdims=True)
    error[np.arange(len(labels)), labels] -= 1.0
    back = (error @ network.last.T) * (active > 0)
    squares = [np.sum(a**2, axis=1) * np.sum(b**2, axis=1) for a, b in ((images, back), (active, error))]
    factor = np.minimum(1.0, clip / np.maximum(np.sqrt(sum(squares)), 1e-12))[:, None]
    return Network(images.T @ (back * factor), active.T @ (error * factor))


def train(candidate: Candidate, images: Any, labels: Any) -> Network:
    """What the event of one run describes: Poisson-sampled batches, noise on the sum, a divisor that is public."""
    generator = np.random.default_rng()
    width = candidate.width
    network = Network(
        generator.normal(size=(images.shape[1], width)) / np.sqrt(images.shape[1]),
        generator.normal(size=(width, 10)) / np.sqrt(width),
    )
    for _ in range(STEPS):
        batch = generator.random(len(images)) < SAMPLING
        steps = gradient(network, images[batch], labels[batch], candidate.clip)
        size = candidate.rate / (candidate.clip * SAMPLING * 1500)
        noisy = [g + NOISE * candidate.clip * generator.normal(size=g.shape) for g in steps]
        network = Network(*(w - size * g for w, g in zip(network, noisy, strict=True)))
    return network


def search(runs: int) -> tuple[Network, float] | None:
    """The best of so many runs, scored on public images; none if there is no run."""
    images, labels, public, answers = digits()
    generator = np.random.default_rng()
    found = None
    for _ in range(runs):
        network = train(CANDIDATES[generator.integers(len(CANDIDATES))], images, labels)
        score = network.accuracy(public, answers)
        if found is None or score > found[1]:
            found = network, score
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, default=Path("tuned"), help="where everything is written")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    run = evr.dpsgd(noise_multiplier=NOISE, sampling_probability=SAMPLING, steps=STEPS)
    tuning = evr.tuning(run, mean=MEAN_RUNS)
    (folder / "tuning.secret.json").write_text(json.dumps(tuning.record))  # it tells the number of runs: keep it
    alone, searched = (evr.estimate_epsilon(event, delta=DELTA).value for event in (run, tuning.event))
    print(f"One run costs epsilon {alone:.2f}, the search {searched:.2f}.")
    epsilon = float(f"{searched * 1.01:.3g}")
    out = evr.release(
        lambda: search(tuning.runs),
        tuning.event,
        epsilon=epsilon,
        delta=DELTA,
        ledger=folder / "ledger.sqlite",
        path=folder / "network.certificate.json",
    )
    network, score = out.value
    np.savez(folder / "network.npz", hidden=network.hidden, last=network.last)
    print(f"The best network is right about {score:.0%} of the public images, at {out.certificate.guarantee}.")


if __name__ == "__main__":
    main()
