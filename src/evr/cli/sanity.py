"""Notes on numbers that are more often a slip than meant: one line each, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from evr.cli.options import WhatRan

_MOST_NOISE = 50.0
_MOST_SAMPLED = 0.2
_MOST_EPSILON = 50.0
_GREATEST_EPSILON = 1e100  # beyond it epsilon is refused


def note(
    ran: WhatRan, event: Any = None, *, epsilon: float | None = None, delta: float | None = None, quiet: bool
) -> None:
    """Say what looks like a slip in what ran and what is asked of it."""
    if quiet:
        return
    found = list(_of_event(event)) if event is not None else []
    if delta is not None:
        found += _of_delta(delta, ran.records or _records(event))
    if epsilon is not None and _MOST_EPSILON < epsilon <= _GREATEST_EPSILON:
        found.append(
            f"epsilon = {epsilon:g} is above {_MOST_EPSILON:g}: it promises next to nothing to a single record"
        )
    for line in dict.fromkeys(found):
        print(f"note: {line}", file=sys.stderr)


def _nodes(event: Any) -> Iterator[Any]:
    stack = [event]
    while stack:
        node = stack.pop()
        yield node
        stack += getattr(node, "events", ())
        stack += [node.event] if hasattr(node, "event") else []


def _share(node: Any) -> float:
    """How likely a record is in a batch; 0 where nothing is sampled."""
    if hasattr(node, "sample_size"):
        return float(node.sample_size / node.source_dataset_size)
    return float(getattr(node, "sampling_probability", 0.0))


def _of_event(event: Any) -> Iterator[str]:
    for node in _nodes(event):
        noise, share = getattr(node, "noise_multiplier", 0.0), _share(node)
        if noise > _MOST_NOISE:
            yield (
                f"the noise multiplier {noise:g} is above {_MOST_NOISE:g}: is it a standard "
                "deviation? The multiplier is the noise on the sum over the clipping norm"
            )
        if _MOST_SAMPLED < share < 1:
            yield (
                f"the sampling probability {share:g} is above {_MOST_SAMPLED:g}: is it a "
                "percentage? A record is then in that share of all batches"
            )


def _records(event: Any) -> int | None:
    """The number of records that an event itself knows."""
    names = ("source_dataset_size", "dataset_size")
    found = [getattr(node, name, None) for node in _nodes(event) for name in names]
    return max((size for size in found if size), default=None)


def _of_delta(delta: float, records: int | None) -> Iterator[str]:
    if records and delta * records >= 1:
        yield (
            f"delta = {delta:g} is not below one over the {records:,} records: publishing a "
            "record picked at random would pass; choose a delta well below that"
        )
