"""``evr describe``: the mechanisms of a composition, their counts and both dominating pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evr.cli.options import (
    BatchSize,
    DatasetSize,
    Epochs,
    Json,
    NoiseMultiplier,
    SamplingProbability,
    SpecFile,
    Steps,
    Training,
    described,
)
from evr.cli.output import as_json, number, table

if TYPE_CHECKING:
    from evr.laws import LossLaw

EPSILONS = (0.1, 0.5, 1.0, 2.0)


def command(
    spec: SpecFile = None,
    noise_multiplier: NoiseMultiplier = None,
    sampling_probability: SamplingProbability = None,
    steps: Steps = None,
    dataset_size: DatasetSize = None,
    batch_size: BatchSize = None,
    epochs: Epochs = None,
    json: Json = False,
) -> None:
    """Show what would be accounted: each mechanism, its count, its dominating pairs and the delta of a single step.

    Example: `evr describe examples/dpsgd.toml`
    """
    from evr.laws import Direction
    from evr.mechanisms import Composition

    training = Training(noise_multiplier, sampling_probability, steps, dataset_size, batch_size, epochs)
    event, _ = described(spec, training)
    composition = Composition.of(event)
    rows = [
        (direction.value, step.count, step.law.describe(), _deltas(step.law))
        for direction in Direction
        for step in composition.steps(direction)
    ]
    if json:
        steps_ = [
            {"direction": d, "count": c, "pair": p, "delta": dict(zip(map(str, EPSILONS), deltas, strict=True))}
            for d, c, p, deltas in rows
        ]
        as_json({"event": repr(event), "steps": steps_})
        return
    if not rows:
        print("Nothing that costs privacy.")
        return
    table(
        "One step of each mechanism",
        ["direction", "count", "dominating pair P | Q", *(f"delta({e:g})" for e in EPSILONS)],
        [[d, f"{c:,}", p, *("-" if x is None else number(x, 4) for x in deltas)] for d, c, p, deltas in rows],
    )


def _deltas(law: LossLaw) -> list[float | None]:
    """Delta of a single step at each epsilon, where it has a closed form."""
    from evr.laws import DominatingPair

    return [law.delta(epsilon) if isinstance(law, DominatingPair) else None for epsilon in EPSILONS]
