"""JAX Privacy's execution plan goes in, a certificate comes out.

    python examples/jax_privacy_digits.py [--folder out]

The plan is calibrated by evr's accountant, through JAX Privacy's own configuration; evr reads the
plan and verifies what it describes; and its sampler, its clipping and its noise are what trains:
logistic regression on scikit-learn's digits, behind the gate. The sum of gradients is divided by a
number that depends on how many records there are, so the guarantee is about zeroing out a record.

Needs jax-privacy 2.0 and scikit-learn.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from dp_accounting import NeighboringRelation
from jax_privacy.experimental.execution_plan import BandMFExecutionPlanConfig, DPExecutionPlan
from sklearn.datasets import load_digits

import evr

EPSILON, DELTA = 3.0, 1e-5
RECORDS, STEPS, RATE = 1500, 150, 2.0
SAMPLING_PROBABILITY = 0.2


def configuration() -> BandMFExecutionPlanConfig:
    """DP-SGD (one band), with the least noise for the claim and 1% of room for its proof."""
    return BandMFExecutionPlanConfig(
        iterations=STEPS,
        strategy=np.ones(1),
        epsilon=EPSILON,
        delta=0.99 * DELTA,
        sampling_prob=SAMPLING_PROBABILITY,
        accountant=evr.FFTAccountant(NeighboringRelation.REPLACE_SPECIAL),  # zero-out adjacency
        normalize_by=SAMPLING_PROBABILITY * RECORDS,
    )


def digits() -> tuple[Any, Any, Any, Any]:
    """Images in [0, 1] with a constant feature, and labels: training and test."""
    data = load_digits()
    images = np.hstack([data.data / 16.0, np.ones((len(data.data), 1))])
    order = np.random.default_rng(0).permutation(len(images))
    train, test = order[:RECORDS], order[RECORDS:]
    return images[train], data.target[train], images[test], data.target[test]


def loss(weights: Any, image: Any, label: Any) -> Any:
    return -jax.nn.log_softmax(image @ weights)[..., label].mean()


def train(plan: DPExecutionPlan) -> Any:
    """The plan, carried out to the letter."""
    images, labels, *_ = digits()
    weights = jnp.zeros((images.shape[1], 10))
    gradient = jax.jit(plan.clipped_grad(loss, batch_argnums=(1, 2), keep_batch_dim=False))
    state = plan.noise_addition_transform.init(weights)
    update = jax.jit(plan.noise_addition_transform.update)
    for batch in plan.batch_selection_strategy.batch_iterator(RECORDS):
        total = gradient(weights, jnp.asarray(images[batch]), jnp.asarray(labels[batch]))
        private, state = update(total, state)
        weights = weights - RATE * private
    return weights


def accuracy(weights: Any) -> float:
    *_, images, labels = digits()
    return float(np.mean(np.argmax(images @ np.asarray(weights), axis=1) == labels))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("digits"), help="where everything is written")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    config = configuration()
    out = evr.release(
        lambda: train(config.plan),
        evr.events.from_jax_privacy(config),
        epsilon=EPSILON,
        delta=DELTA,
        ledger=chosen.folder / "ledger.sqlite",
        path=chosen.folder / "model.certificate.json",
    )
    np.save(chosen.folder / "model.npy", out.value)
    print(f"released with accuracy {accuracy(out.value):.3f}")
    print(out.certificate.statement)


if __name__ == "__main__":
    main()
