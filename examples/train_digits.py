"""Logistic regression on scikit-learn's handwritten digits, behind the gate.

Two ways to train, DP-GD (every record in every step) and DP-SGD (Poisson-sampled batches), each in
NumPy. What it costs is verified before the data is touched, and only then does training run. At the
end, the same training is refused, because what is claimed for it is too little.

    python examples/train_digits.py

Needs scikit-learn, for the data.
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
from dp_accounting import dp_event

import evr

CLASSES = 10
CLIP = 1.0
EPSILON = 3.0
DELTA = 1e-5  # below one over the number of records


def digits() -> tuple[Any, Any, Any, Any]:
    """Images in [0, 1] with a constant feature, and labels: training and test."""
    from sklearn.datasets import load_digits

    data = load_digits()
    images = np.hstack([data.data / 16.0, np.ones((len(data.data), 1))])
    order = np.random.default_rng(0).permutation(len(images))
    train, test = order[:1500], order[1500:]
    return images[train], data.target[train], images[test], data.target[test]


def gradients(weights: Any, images: Any, labels: Any) -> Any:
    """The gradient of each record's loss, clipped to norm 1."""
    logits = images @ weights
    scores = np.exp(logits - logits.max(axis=1, keepdims=True))
    scores /= scores.sum(axis=1, keepdims=True)
    scores[np.arange(len(labels)), labels] -= 1.0
    norms = np.linalg.norm(scores, axis=1) * np.linalg.norm(images, axis=1)
    scores *= np.minimum(1.0, CLIP / np.maximum(norms, 1e-12))[:, None]
    return images.T @ scores


def train(noise_multiplier: float, sampling_probability: float, steps: int, rate: float) -> Any:
    """What the event describes, to the letter: each record in each batch by its own coin, noise on
    the sum.
    """
    images, labels, *_ = digits()
    generator = np.random.default_rng()
    weights = np.zeros((images.shape[1], CLASSES))
    for _ in range(steps):
        batch = generator.random(len(images)) < sampling_probability
        total = gradients(weights, images[batch], labels[batch])
        total += generator.normal(0.0, noise_multiplier * CLIP, total.shape)
        weights -= rate * total / (sampling_probability * len(images))
    return weights


def accuracy(weights: Any) -> float:
    *_, images, labels = digits()
    return float(np.mean(np.argmax(images @ weights, axis=1) == labels))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ledger", type=Path, help="where attempts are counted; .evr/ledger.sqlite by default")
    parser.add_argument("--folder", type=Path, default=Path("."), help="where certificates are written")
    parser.add_argument("--name", default="digits", help="of the two releases; another run lets out another model")
    chosen = parser.parse_args()

    if importlib.util.find_spec("sklearn") is None:  # before an attempt is spent
        parser.error("scikit-learn is missing: pip install scikit-learn")
    methods = {
        "DP-GD": {"noise_multiplier": None, "sampling_probability": 1.0, "steps": 100, "rate": 1.0},
        "DP-SGD": {"noise_multiplier": None, "sampling_probability": 0.1, "steps": 300, "rate": 1.0},
    }
    for title, settings in methods.items():
        rest = {key: settings[key] for key in ("sampling_probability", "steps")}
        found = evr.calibrate(
            lambda noise, rest=rest: evr.dpsgd(noise_multiplier=noise, **rest), epsilon=EPSILON, delta=DELTA
        )
        settings["noise_multiplier"] = round(found.value * 1.0005, 4)
        event: dp_event.DpEvent = evr.dpsgd(noise_multiplier=settings["noise_multiplier"], **rest)
        claim = {"epsilon": EPSILON, "delta": DELTA, "ledger": chosen.ledger}

        out = evr.release(
            lambda settings=settings: train(**settings),
            event,
            **claim,
            name=f"{chosen.name} {title}",
            path=chosen.folder / f"{title.lower()}.certificate.json",
        )
        print(
            f"{title}: released with accuracy {accuracy(out.value):.3f}, noise multiplier "
            f"{settings['noise_multiplier']}"
        )
        print(f"{out.certificate.statement}\n")

        too_little = claim | {"delta": claim["delta"] / 2}
        refused = evr.release(
            lambda settings=settings: train(**settings),
            event,
            **too_little,
            name=f"{chosen.name} {title} half of delta",
        )
        print(f"{title}, half of that delta claimed: released is {refused.released}; nothing ran\n")


if __name__ == "__main__":
    main()
