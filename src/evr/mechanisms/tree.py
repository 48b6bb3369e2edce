"""The one walker of event trees, and two views of what it finds.

``walk`` goes through a ``DpEvent`` tree with a stack, not by recursion, so that depth has no limit.
It names the mechanisms in reading order and says where repetitions begin and end. ``leaves`` counts
them; ``timeline`` keeps their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

from dp_accounting import dp_event

from evr import validate
from evr.errors import UnsupportedEventError
from evr.laws.law import Pairs
from evr.mechanisms.registry import MECHANISMS
from evr.mechanisms.sampling import NON_PRIVATE, sampled

MOST_RUNS = 5_000_000
_COMBINATORS = (
    "PoissonSampledDpEvent",
    "SelfComposedDpEvent",
    "ComposedDpEvent",
    "NoOpDpEvent",
    "NonPrivateDpEvent",
)
_T = TypeVar("_T")


@dataclass(frozen=True)
class Visited:
    """A mechanism that runs, in all repetitions together ``count`` times; None is one that costs
    nothing.
    """

    pairs: Pairs | None
    count: int


@dataclass(frozen=True)
class Begin:
    """What follows, up to the matching ``End``, is repeated."""

    count: int
    path: str


class End(NamedTuple):
    """A repetition ends."""


class _Sampling(NamedTuple):
    """A Poisson-sampled part: its mechanisms are gathered until it ends."""

    node: dp_event.PoissonSampledDpEvent
    probability: float
    path: str
    inner: dict[Pairs, int]


def walk(event: Any, path: str = "event") -> Iterator[Visited | Begin | End]:
    """The mechanisms of the tree in reading order, and where repetitions begin and end. Sampled
    ones are named once, whole.
    """
    stack: list[tuple[Any, str]] = [(event, path)]
    counts = [1]
    samplings: list[_Sampling] = []

    def found(pairs: Pairs | None) -> Iterator[Visited]:
        if not samplings:
            yield Visited(pairs, counts[-1])
        elif pairs is not None:
            inner = samplings[-1].inner
            inner[pairs] = inner.get(pairs, 0) + counts[-1]

    while stack:
        node, path = stack.pop()
        if isinstance(node, End):
            counts.pop()
            if not samplings:
                yield node
        elif isinstance(node, _Sampling):
            samplings.pop()
            counts.pop()
            yield from found(sampled(node.node, node.probability, node.path, node.inner))
        elif isinstance(node, dp_event.SelfComposedDpEvent):
            count = _located(path, partial(validate.positive_integer, count=node.count))
            counts.append(
                _located(path, partial(validate.positive_integer, count=counts[-1] * count))
            )
            if not samplings:
                yield Begin(count, path)
            stack += [(End(), path), (node.event, path + ".event")]
        elif isinstance(node, dp_event.ComposedDpEvent):
            events = _located(path, partial(validate.sequence, events=node.events))
            stack += reversed([(child, f"{path}.events[{i}]") for i, child in enumerate(events)])
        elif isinstance(node, dp_event.PoissonSampledDpEvent):
            q = _located(
                path, partial(validate.probability, sampling_probability=node.sampling_probability)
            )
            if q != 1:
                samplings.append(_Sampling(node, q, path, {}))
                counts.append(1)
                stack.append((samplings[-1], path))
            stack.append((node.event, path + ".event"))
        else:
            pairs = _translated(node, path)
            if isinstance(pairs, dp_event.DpEvent):  # an event that stands for this one
                stack.append((pairs, path))
            else:
                yield from found(pairs)


def leaves(event: Any) -> Iterator[tuple[Pairs, int]]:
    """Every mechanism of the tree with its multiplicity."""
    for visit in walk(event):
        if isinstance(visit, Visited) and visit.pairs is not None:
            yield visit.pairs, visit.count


def timeline(event: Any) -> list[tuple[Pairs | None, int]]:
    """The mechanisms in the order in which they run, as runs of equal steps; None for a step that
    costs nothing.
    """
    bodies: list[list[tuple[Pairs | None, int]]] = [[]]
    repeats: list[Begin] = []
    for visit in walk(event):
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


def _located(path: str, build: Callable[[], _T]) -> _T:
    """Run ``build``; an error about a value also says where in the tree it is."""
    try:
        return build()
    except UnsupportedEventError:
        raise
    except (ValueError, TypeError) as error:
        raise type(error)(f"{error} (at {path})" if path != "event" else str(error)) from None


def _translated(node: Any, path: str) -> Pairs | dp_event.DpEvent | None:
    """The pairs of one mechanism, or an event that stands for it; None if it costs nothing."""
    if isinstance(node, dp_event.NoOpDpEvent):
        return None
    if isinstance(node, dp_event.NonPrivateDpEvent):
        return NON_PRIVATE
    if not isinstance(node, dp_event.DpEvent):
        raise TypeError(f"{node!r} at {path} is not a DpEvent (it is a {type(node).__name__})")
    mechanism = MECHANISMS.get(type(node))
    if mechanism is None:
        supported = ", ".join([*sorted(cls.__name__ for cls in MECHANISMS), *_COMBINATORS])
        raise UnsupportedEventError(
            f"unsupported {type(node).__name__} at {path}: {node!r}. Supported: {supported}", node
        )
    pairs = _located(path, lambda: mechanism.laws(node))
    return NON_PRIVATE if pairs is None else pairs
