"""A logistic regression as JAX Privacy's example has it (examples/dp_logistic_regression.py), small, of one band, and
recorded by two lines. Also as a program, for tests that kill it and resume it.

python jax_training.py FOLDER STEPS
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax_privacy import batch_selection

from evr.integrations.jax import record
from integrations.programs import dies

try:
    from jax_privacy.execution_plan import BandMFConfig as Config  # 2.3
except ImportError:
    from jax_privacy.experimental.execution_plan import BandMFExecutionPlanConfig as Config  # 2.0

RECORDS, BATCH, NOISE, FEATURES = 400, 40, 1.1, 5
OLD = Config.__name__ == "BandMFExecutionPlanConfig"


def configuration(steps=20, strategy=(1.0,), sampling_prob=BATCH / RECORDS, **options):
    rate = {"sampling_prob": sampling_prob, "epsilon": None, "delta": None}
    if not OLD:
        rate = {"expected_participations": sampling_prob * steps / len(strategy)}
    given = {"noise_multiplier": NOISE, "normalize_by": BATCH, **rate, **options}
    return Config(strategy=np.array(strategy), iterations=steps, **given)


def data(records=RECORDS):
    draws = np.random.default_rng(1)
    features = draws.normal(size=(records, FEATURES))
    return features, features[:, 0] > 0


def loss(weights, features, labels):
    return jnp.mean(jnp.log1p(jnp.exp(-jnp.where(labels, 1, -1) * (features @ weights))))


def train(plan, weights=None, *, batches=None, gradient=None, rng=None, records=RECORDS, after=None):
    """Their loop."""
    features, labels = data(records)
    gradient = gradient or plan.clipped_grad(loss, batch_argnums=(1, 2))

    @jax.jit
    def update(weights, x, y, padding, state):
        total = gradient(weights, x, y, is_padding_example=padding)
        noisy, state = plan.noise_addition_transform.update(total, state)
        return weights - 0.5 * noisy, state

    weights = jnp.zeros(FEATURES) if weights is None else weights
    state = plan.noise_addition_transform.init(weights)
    drawn = plan.batch_selection_strategy.batch_iterator(records, **({} if rng is None else {"rng": rng}))
    for step, batch in enumerate(drawn if batches is None else batches(drawn)):
        indices = batch_selection.pad_to_multiple_of(batch, 32) if len(batch) else np.full(32, -1)  # which fails there
        weights, state = update(weights, features[indices], labels[indices], indices == -1, state)
        if after is not None:
            after(step, weights)
    return weights


def main(folder: Path, steps: int) -> None:
    saved = folder / "weights.npz"
    begun: dict[str, Any] = dict(np.load(saved)) if saved.exists() else {"weights": np.zeros(FEATURES), "step": 0}

    def after(step, weights):
        ran = int(begun["step"]) + step + 1
        if ran % 10 == 0:
            np.savez(saved, weights=weights, step=ran)
        dies(ran)

    with record(configuration(steps - int(begun["step"])), folder / "training.record.jsonl") as recording:
        train(recording.plan, jnp.asarray(begun["weights"]), after=after)
    print("done", recording.steps, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
