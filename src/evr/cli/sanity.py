"""Notes on numbers that are more often a slip than meant: one line each, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

_MOST_NOISE = 50.0
_MOST_SAMPLED = 0.2
_MOST_EPSILON = 50.0
_GREATEST_EPSILON = 1e100  # beyond it epsilon is refused


def note(
    event: Any = None,
    *,
    records: int | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    quiet: bool,
) -> None:
    """Say what looks like a slip in what ran and what is asked of it."""
    nodes = [] if event is None else list(_nodes(event))
    sizes = [getattr(node, name, None) or 0 for node in nodes for name in ("source_dataset_size", "dataset_size")]
    found = [line for node in nodes for line in _of_node(node)]
    records = records or max(sizes, default=0)
    if delta is not None and delta * records >= 1:
        found.append(
            f"delta = {delta:g} is not below one over the {records:,} records: publishing a record picked at random "
            "would pass; choose a delta well below that"
        )
    if epsilon is not None and _MOST_EPSILON < epsilon <= _GREATEST_EPSILON:
        found.append(
            f"epsilon = {epsilon:g} is above {_MOST_EPSILON:g}: it promises next to nothing to a single record"
        )
    for line in () if quiet else dict.fromkeys(found):
        print(f"note: {line}", file=sys.stderr)


def _nodes(event: Any) -> Iterator[Any]:
    stack = [event]
    while stack:
        node = stack.pop()
        yield node
        stack += getattr(node, "events", ())
        stack += [node.event] if hasattr(node, "event") else []


def _of_node(node: Any) -> Iterator[str]:
    noise, share = getattr(node, "noise_multiplier", 0.0), getattr(node, "sampling_probability", 0.0)
    if hasattr(node, "sample_size"):
        share = node.sample_size / node.source_dataset_size
    if noise > _MOST_NOISE:
        yield (
            f"the noise multiplier {noise:g} is above {_MOST_NOISE:g}: is it a standard deviation? The multiplier is "
            "the noise on the sum over the clipping norm"
        )
    if _MOST_SAMPLED < share < 1:
        yield (
            f"the sampling probability {share:g} is above {_MOST_SAMPLED:g}: is it a percentage? A record is then in "
            "that share of all batches"
        )
