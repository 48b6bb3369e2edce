"""What it takes to do again what a certificate says, told before it is done: files come from
strangers.

Estimates, on the low side: what they refuse would take at least about as long as they say. They
bound the work, and a guarantee rests on none of them.
"""

from __future__ import annotations

import math
import time
from typing import Any

from dp_accounting import NeighboringRelation

from evr.bounds.strict import StatedProof
from evr.certification.certificate import Certificate
from evr.certification.event_json import event_from_json
from evr.errors import TooLongError
from evr.laws import Direction
from evr.mechanisms import Composition
from evr.sampling import DrawPlan, built, cuda, worker_count

MAX_SECONDS = 600.0
"""Allowed by default."""

_NODE = 2e-5  # seconds, to read an event of a tree
_OUTCOME = 6e-5  # to account for an outcome of a discrete law; memory runs out with the time
_KIND = 0.3  # to account for a kind of step
_CELL = 1e-7  # to bound the losses of a cell
_ORDERS = 2000  # times that, for a cell of the paper's importance sampling
_STEP = 1e-8  # to draw a step
_GPU_STEP, _PLACED_STEP = 5e-12, 5e-8  # on a GPU, and what a GPU drew, with NumPy
_PLACE, _BITS = 3e-9, 128  # to multiply the masses of a place, for each bit, of so many at least
_PAIR = 5e-8  # to multiply the masses of two outcomes
_USUAL_OUTCOMES = 1 << 12  # of a step, where a plan does not say
_OUTCOMES = {
    "sigma": 80.0,
    "sensitivity": 1.0,
    "iterations": 0.1,
    "cycle_length": 0.1,
    "sensitivities": 500.0,
}
"""About how many outcomes, or what costs as much, the fields of an event bring along, for each unit
or entry.
"""


def duration(seconds: float) -> str:
    """A time in words.

    >>> duration(0.5), duration(90), duration(8e4), duration(1e10)
    ('1 s', '90 s', '22 hours', '317 years')
    """
    for unit, size in (
        ("years", 365.25 * 86400),
        ("days", 86400.0),
        ("hours", 3600.0),
        ("minutes", 60.0),
    ):
        if seconds >= 2 * size:
            return (
                f"{seconds / size:.3g} {unit}"
                if seconds / size >= 100
                else f"{seconds / size:.2g} {unit}"
            )
    return f"{max(1, math.ceil(seconds))} s"


class Patience:
    """How long something may take; what would take longer is refused before it is begun.

    Parameters
    ----------
    seconds
        From now on; None for as long as it takes.
    doing
        What takes its time, in words.
    """

    def __init__(self, seconds: float | None, doing: str) -> None:
        self._seconds, self._doing, self._start = (
            math.inf if seconds is None else seconds,
            doing,
            time.monotonic(),
        )

    def ask(self, seconds: float, why: str) -> None:
        """Raise if what took its time so far and so many seconds more are too long."""
        total = time.monotonic() - self._start + seconds
        if total > self._seconds:
            raise TooLongError(
                f"{self._doing} would take about {duration(total)} ({why}), and "
                f"{self._seconds:g} s are allowed: if you trust where it comes from, allow "
                "more with --max-seconds (max_seconds= in Python)"
            )


def understood(
    document: dict[str, Any],
    patience: Patience,
    *,
    relation: NeighboringRelation | None = None,
    times: float = 1.0,
) -> Composition:
    """The composition of an event given as JSON, unless that, or accounting for it ``times`` times,
    would take too long.
    """
    nodes, outcomes = _size(document)
    patience.ask(
        _NODE * nodes + _OUTCOME * outcomes,
        f"its event has {nodes:,} parts and {outcomes:.3g} outcomes",
    )
    composition = Composition.of(event_from_json(document), relation)
    kinds = max(len(composition.simplified(direction)) for direction in Direction)
    patience.ask(times * _KIND * kinds, f"it composes {kinds:,} kinds of steps")
    return composition


def _size(document: Any) -> tuple[int, float]:
    """How many parts an event given as JSON has, and about how many outcomes its discrete laws."""
    nodes, outcomes, stack = 0, 0.0, [document]
    while stack:
        value = stack.pop()
        nodes += 1
        if isinstance(value, dict):
            stack += [item for item in value.values() if isinstance(item, dict | list)]
            for key in _OUTCOMES.keys() & value.keys():
                size = len(value[key]) if isinstance(value[key], list) else value[key]
                outcomes += (
                    _OUTCOMES[key] * min(abs(size), 1e18) if isinstance(size, int | float) else 0.0
                )
        elif isinstance(value, list):
            outcomes += len(value)
            stack += [item for item in value if isinstance(item, dict | list)]
    return nodes, outcomes


def refuse_long_draws(
    certificate: Certificate, composition: Composition, workers: int | None, patience: Patience
) -> None:
    """Raise if drawing the samples of a certificate again would take too long."""
    sections = certificate.verification.directions.items()
    plans = [
        (name, one.samples, DrawPlan.from_json(one.plan))
        for name, one in sections
        if one.plan is not None
    ]
    for name, _, plan in plans:
        edges = sum(len(kind.edges or ()) for kind in plan.kinds)
        seconds = _CELL * (edges + _ORDERS * plan.cells)
        patience.ask(seconds, f"the plan of direction {name!r} has {edges + plan.cells:,} cells")
        sizes = [len(kind.edges or ()) or _USUAL_OUTCOMES for kind in plan.kinds]
        sizes += [one.number for one in plan.places]
        pairs = len(plan.places) * max(sizes, default=0) ** 2
        patience.ask(
            _PAIR * pairs, f"the plan of direction {name!r} multiplies {pairs:,} pairs of outcomes"
        )
    for name, one in sections:
        if one.strict is not None and (proof := StatedProof.from_json(one.strict)).plan is not None:
            seconds = _PLACE * max(_BITS, proof.plan.bits) * proof.plan.work
            patience.ask(
                seconds, f"the proof of direction {name!r} has {proof.plan.places:,} places"
            )
    for name, recorded, plan in plans:
        if recorded:
            proposal = built(plan, composition.simplified(name))
            work, samples = proposal.work, max(recorded, plan.block_size)
            step = (_PLACED_STEP if plan.device == "cuda" else _STEP) / worker_count(workers)
            if plan.device == "cuda" and cuda.draws(proposal):
                step = _GPU_STEP
            seconds = step * samples * work
            patience.ask(
                seconds,
                f"{samples:.3g} samples of about {work:.3g} steps each in direction {name!r}",
            )
