"""Privacy against utility: the same training, accounted by EVR and by the FFT accountant's upper
bound.

The paper trains the last layer of a pretrained BEiT on CIFAR-100. That data is not at hand, so here
a softmax regression is trained on scikit-learn's digits (1797 images of 8 x 8, a quarter of them
held out), with the paper's noise, clipping, learning rates and numbers of iterations. Epsilon
depends on noise, probability and iterations only, so the epsilons are those of the paper's setting;
the errors are not.

- DP-GD: noise 28.914, all examples, learning rate 2, at most 60 iterations, delta 1e-5.
- DP-SGD: noise 5.971, sampling probability 4096/50000, learning rate 0.2, momentum 0.9, at most 360
  iterations, delta 1e-12.

EVR at ``tau = 0.95``: epsilon is estimated at ``tau delta``, and the guarantee is ``delta``. The
FFT accountant has ``eps_error = 0.1`` (its documentation's typical value, and the paper's in its
other figure of epsilon), and ``delta_error = 1e-10``, or a tenth of delta where that is less.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import common
import evr

TAU = 0.95
EPS_ERROR = 0.1
SEEDS = {"tiny": 3, "quick": 10, "full": 60}


class Training(NamedTuple):
    """One of the paper's two."""

    name: str
    noise: float
    probability: float
    iterations: int
    delta: float
    learning_rate: float
    momentum: float
    every: int
    at: tuple[float, ...]  # epsilons at which errors are compared


TRAININGS = (
    Training("DP-GD", 28.914, 1.0, 60, 1e-5, 2.0, 0.0, 3, (0.4, 0.6, 0.8)),
    Training("DP-SGD", 5.971, 4096 / 50000, 360, 1e-12, 0.2, 0.9, 18, (0.8, 1.2, 1.6)),
)
VERIFIED = {
    "tiny": {0.9: (1,)},
    "quick": {0.9: (2, 1), 0.95: (1,)},
    "full": {0.9: (4, 2, 1), 0.95: (4, 2, 1), 0.99: (1,)},
}
"""For each tau, the fractions (as divisors) of the iterations at which the claim is verified."""


def digits() -> tuple[Any, Any, Any, Any]:
    """Training and test images, of unit norm with a constant, and labels as rows of zeros and a
    one.
    """
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = images / np.linalg.norm(images, axis=1, keepdims=True)
    images = np.hstack([images, np.full((len(images), 1), 0.1)])
    order = np.random.default_rng(0).permutation(len(labels))
    held_out = len(labels) // 4
    one_hot = np.eye(10)[labels]
    test, train = order[:held_out], order[held_out:]
    return images[train], one_hot[train], images[test], labels[test]


def train(t: Training, data: tuple[Any, Any, Any, Any], seed: int) -> Any:
    """Test error after each iteration: per-example gradients clipped to norm 1, Gaussian noise on
    their sum.
    """
    images, targets, test_images, test_labels = data
    rng = np.random.default_rng([seed, int(t.probability < 1)])
    weights, velocity = np.zeros((images.shape[1], 10)), np.zeros((images.shape[1], 10))
    norms = np.linalg.norm(images, axis=1)
    expected = t.probability * len(images)
    errors = []
    for _ in range(t.iterations):
        taking_part = rng.random(len(images)) < t.probability
        x, y, size = images[taking_part], targets[taking_part], norms[taking_part]
        logits = x @ weights
        chances = np.exp(logits - logits.max(axis=1, keepdims=True))
        residual = chances / chances.sum(axis=1, keepdims=True) - y
        # the gradient's norm is a product of norms
        clip = 1 / np.maximum(1.0, size * np.linalg.norm(residual, axis=1))
        gradient = x.T @ (residual * clip[:, None]) + t.noise * rng.standard_normal(weights.shape)
        velocity = t.momentum * velocity + gradient / expected
        weights = weights - t.learning_rate * velocity
        errors.append(float(np.mean(np.argmax(test_images @ weights, axis=1) != test_labels)))
    return np.array(errors)


def error_at(epsilons: Any, errors: Any, epsilon: float) -> float:
    """The error after as many iterations as epsilon allows; without any, nine of ten."""
    allowed = np.flatnonzero(np.asarray(epsilons) <= epsilon)
    return float(errors[allowed[-1]]) if allowed.size else 0.9


def account(t: Training, every: int) -> dict[str, Any]:
    """Epsilon after each reported iteration, every way."""
    event = evr.dpsgd(noise_multiplier=t.noise, sampling_probability=t.probability, steps=t.iterations)
    exact = evr.online_epsilon(event, t.delta, every=every)
    estimated = evr.online_epsilon(event, TAU * t.delta, every=every)
    delta_error = min(common.DELTA_ERROR, t.delta / 10)
    coarse = common.Prv(t.noise, t.probability, t.iterations, eps_error=EPS_ERROR, delta_error=delta_error)
    fine = common.Prv(t.noise, t.probability, t.iterations, delta_error=delta_error)
    # delta_error = 1e-10
    printed = common.Prv(t.noise, t.probability, t.iterations, eps_error=EPS_ERROR)
    return {
        "iterations": exact.steps,
        "exact": exact.epsilons,
        "EVR": estimated.epsilons,
        "FFT upper bound": [coarse.epsilon(t.delta, int(k)).upper for k in exact.steps],
        "FFT upper bound, eps_error = 0.001": [fine.epsilon(t.delta, int(k)).upper for k in exact.steps],
        "FFT upper bound, delta_error = 1e-10": printed.epsilon(t.delta, t.iterations).upper,
        "moments accountant": [
            evr.estimate_epsilon(_steps(t, int(k)), t.delta, method="rdp").value for k in exact.steps
        ],
    }


def _steps(t: Training, steps: int) -> Any:
    return evr.dpsgd(noise_multiplier=t.noise, sampling_probability=t.probability, steps=steps)


def verified(t: Training, tau: float, steps: int) -> dict[str, Any]:
    """Epsilon estimated at ``tau delta``, and the attempt to prove delta."""
    epsilon = evr.estimate_epsilon(_steps(t, steps), tau * t.delta).value
    return {"iterations": steps, **common.attempt(_steps(t, steps), epsilon=epsilon, delta=t.delta, tau=tau)}


def one(t: Training, size: str) -> dict[str, Any]:
    """Everything of one training."""
    data = digits()
    (runs, seconds) = common.timed(lambda: np.array([train(t, data, seed) for seed in range(SEEDS[size])]))
    accounted = account(t, t.every if size != "tiny" else t.iterations // 4)
    errors = runs.mean(axis=0)[np.asarray(accounted["iterations"]) - 1]
    spread = runs.std(axis=0, ddof=1)[np.asarray(accounted["iterations"]) - 1] / math.sqrt(len(runs))
    compared = []
    for epsilon in t.at:
        by_evr, by_bound = (error_at(accounted[way], errors, epsilon) for way in ("EVR", "FFT upper bound"))
        compared.append(
            {
                "epsilon": epsilon,
                "error_evr": by_evr,
                "error_bound": by_bound,
                "relative_reduction": 1 - by_evr / by_bound,
            }
        )
    points = [verified(t, tau, t.iterations // part) for tau, parts in VERIFIED[size].items() for part in parts]
    return {
        "settings": {k: v for k, v in t._asdict().items() if k not in ("every", "at")}
        | {"clipping_norm": 1, "tau": TAU, "eps_error": EPS_ERROR},
        "seeds": len(runs),
        "processor_seconds_per_training": seconds / len(runs),
        "epsilons": accounted,
        "test_error": errors,
        "standard_error": spread,
        "at_equal_epsilon": compared,
        "verified": points,
    }


def compute(size: str) -> dict[str, Any]:
    return {
        "data": "scikit-learn digits, 1348 training and 449 test images",
        **{t.name: one(t, size) for t in TRAININGS},
    }


def draw(result: dict[str, Any]) -> Figure:
    figure, axes = common.panels(3, width=4.4)
    for axis, t in zip(axes, TRAININGS, strict=False):
        found = result[t.name]
        errors, spread = (common.numbers(found["test_error"]), common.numbers(found["standard_error"]))
        for label, style in (
            ("EVR", "ours"),
            ("FFT upper bound", "FFT upper bound"),
            ("moments accountant", "moments accountant"),
        ):
            x = common.numbers(found["epsilons"][label])
            kept = np.isfinite(x)
            common.line(axis, label, x[kept], errors[kept], style=style)
            if label != "moments accountant" and kept.any():
                axis.fill_between(
                    x[kept],
                    (errors - spread)[kept],
                    (errors + spread)[kept],
                    color=common.STYLES[style].colour,
                    alpha=0.2,
                    linewidth=0,
                )
        axis.set(
            xlabel="ε",
            ylabel="test error",
            title=f"{t.name}, δ = {t.delta:g}, mean ± standard error of {found['seeds']} runs",
            xlim=(0, None),
        )
        axis.legend()
        rows = found["verified"]
        colour = common.ORANGE if t.name == "DP-GD" else common.BLUE
        for tau, marker in ((0.9, "o"), (0.95, "s"), (0.99, "^")):
            chosen = sorted((r["iterations"], r["processor_seconds"]) for r in rows if r["tau"] == tau)
            if chosen:
                common.line(
                    axes[2],
                    f"{t.name}, τ = {tau:g}",
                    *zip(*chosen, strict=True),
                    style="ours",
                    color=colour,
                    marker=marker,
                    markersize=5,
                )
    axes[2].set(
        yscale="log", xlim=(0, 380), xlabel="iterations", ylabel="processor seconds", title="verification, sequential"
    )
    axes[2].set_ylim(top=axes[2].get_ylim()[1] * 30)
    axes[2].legend(ncols=2, loc="upper left")
    common.caption(
        figure, "Softmax regression on digits at equal training; EVR with τ = 0.95, FFT with eps_error = 0.1"
    )
    return figure


if __name__ == "__main__":
    common.run("utility", compute, draw)
