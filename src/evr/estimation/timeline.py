"""The mechanisms of an event tree in the order in which they run."""

from __future__ import annotations

from typing import Any

from dp_accounting import NeighboringRelation

from evr.laws import Pairs
from evr.mechanisms.relations import ADD_OR_REMOVE
from evr.mechanisms.tree import Begin, Visited, walk

MOST_RUNS = 5_000_000


def timeline(event: Any, relation: NeighboringRelation = ADD_OR_REMOVE) -> list[tuple[Pairs | None, int]]:
    """The mechanisms in the order in which they run, as runs of equal steps; None for a step that costs nothing."""
    bodies: list[list[tuple[Pairs | None, int]]] = [[]]
    repeats: list[Begin] = []
    for visit in walk(event, relation):
        if isinstance(visit, Visited):
            _append(bodies[-1], visit.pairs, 1)
        elif isinstance(visit, Begin):
            repeats.append(visit)
            bodies.append([])
        else:
            repeat, body = repeats.pop(), bodies.pop()
            count, path = repeat.count, repeat.path
            if len(body) == 1:
                _append(bodies[-1], body[0][0], body[0][1] * count)
                continue
            if len(body) * count > MOST_RUNS:
                raise ValueError(
                    f"count={count} at {path} repeats {len(body)} changes of mechanism: more than "
                    f"{MOST_RUNS} in all cannot be followed step by step; describe fewer "
                    "repetitions, or ask for epsilon at the end only"
                )
            for pairs, number in body * count:
                _append(bodies[-1], pairs, number)
    return bodies[0]


def _append(runs: list[tuple[Pairs | None, int]], pairs: Pairs | None, count: int) -> None:
    """One more run, or a longer one."""
    if runs and runs[-1][0] == pairs:
        runs[-1] = (pairs, runs[-1][1] + count)
    else:
        runs.append((pairs, count))
