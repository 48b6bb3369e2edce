"""From a ``DpEvent`` tree to the dominating pairs of each direction with their counts.

An ordered pair of neighbours has the same direction at every step, so each direction composes by itself; the maximum of
the two curves is taken at the end, and directions are never mixed across steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from dp_accounting import NeighboringRelation, dp_event

from evr import validate
from evr.errors import UnsupportedEventError
from evr.laws.exact import NON_PRIVATE_LAW, ExactPairs, ExactStep, exact_sampled
from evr.laws.law import Direction, LossLaw, Pairs
from evr.laws.line import poisson
from evr.laws.line.discrete import TRIVIAL_PAIR
from evr.laws.steps import NON_PRIVATE_PAIR, Step, on_a_line, simplify
from evr.mechanisms.exact import exact_steps
from evr.mechanisms.registry import MECHANISMS

_NON_PRIVATE = Pairs(NON_PRIVATE_PAIR, NON_PRIVATE_PAIR, ExactPairs.both(NON_PRIVATE_LAW))
_TRIVIAL = Pairs(TRIVIAL_PAIR, TRIVIAL_PAIR)


@dataclass(frozen=True)
class Composition:
    """The distinct pairs of each direction with their counts, equal ones merged. Order carries no meaning here.

    Examples
    --------
    >>> from evr.mechanisms.events import dpsgd
    >>> composition = Composition.of(dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=10**6))
    >>> [(step.count, type(step.law).__name__) for step in composition.steps(Direction.REMOVE)]
    [(1000000, 'SampledRemovePair')]
    """

    remove: tuple[Step, ...]
    add: tuple[Step, ...]
    parts: tuple[tuple[Pairs, int], ...] = ()
    """The mechanisms as their translators gave them, exact laws included; empty where a composition was built by hand."""

    @classmethod
    def of(
        cls,
        event: dp_event.DpEvent | Composition,
        neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    ) -> Composition:
        """Translate an event tree; raise ``UnsupportedEventError`` naming the first sub-event that has no pair."""
        if isinstance(event, Composition):
            return event
        if neighboring_relation is not NeighboringRelation.ADD_OR_REMOVE_ONE:
            raise ValueError(
                f"neighboring_relation={neighboring_relation!r} is not supported: evr accounts for ADD_OR_REMOVE_ONE"
            )
        counts: dict[Pairs, int] = {}
        for pairs, count in leaves(event):
            counts[pairs] = counts.get(pairs, 0) + count
        return cls.from_counts(counts)

    @classmethod
    def from_counts(cls, counts: dict[Pairs, int]) -> Composition:
        """Merge equal pairs, in each direction by itself."""
        merged: dict[Direction, dict[LossLaw, int]] = {direction: {} for direction in Direction}
        for pairs, count in counts.items():
            for direction in Direction:
                law = pairs.of(direction)
                merged[direction][law] = merged[direction].get(law, 0) + count
        steps = {d: tuple(Step(law, count) for law, count in m.items()) for d, m in merged.items()}
        return cls(steps[Direction.REMOVE], steps[Direction.ADD], tuple(counts.items()))

    def steps(self, direction: Direction | str) -> tuple[Step, ...]:
        """The pairs of one direction with their counts."""
        return self.remove if Direction(direction) is Direction.REMOVE else self.add

    def simplified(self, direction: Direction | str) -> tuple[Step, ...]:
        """As ``steps``, with families closed under composition folded: any number of Gaussians is one Gaussian."""
        return simplify(self.steps(direction))

    def exact(self, direction: Direction | str) -> tuple[ExactStep, ...]:
        """The exact laws of one direction with their counts, all Gaussians folded into one; a mechanism without is refused."""
        if not self.parts and self.steps(direction):
            raise UnsupportedEventError(
                "this composition was built from pairs: a strict proof needs the exact parameters of events. "
                "Give the event, with translators that return Pairs(..., exact=ExactPairs(...))"
            )
        return exact_steps(self.parts, Direction(direction))

    def exact_directions(self, direction: str | None = None) -> dict[Direction, tuple[ExactStep, ...]]:
        """The exact laws of the direction asked for, or of both, or of one where they are the same laws."""
        if direction is not None:
            one = Direction(validate.one_of(("remove", "add"), direction=direction))
            return {one: self.exact(one)}
        laws = {one: self.exact(one) for one in Direction}
        if Counter(laws[Direction.REMOVE]) == Counter(laws[Direction.ADD]):
            del laws[Direction.ADD]
        return laws

    @cached_property
    def is_non_private(self) -> bool:
        """Whether some mechanism has no privacy at all."""
        return any(step.law == NON_PRIVATE_PAIR for step in self.remove)

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether both directions are the same composition, so that one computation serves both."""
        return Counter(self.simplified(Direction.REMOVE)) == Counter(self.simplified(Direction.ADD))


def leaves(event: Any, path: str = "event") -> Iterator[tuple[Pairs, int]]:
    """Every mechanism of the tree with its multiplicity; a stack, not recursion, so that depth has no limit."""
    stack: list[tuple[Any, int, str]] = [(event, 1, path)]
    while stack:
        node, count, path = stack.pop()
        if isinstance(node, dp_event.SelfComposedDpEvent):
            stack.append((node.event, _count(node, path, count), path + ".event"))
        elif isinstance(node, dp_event.ComposedDpEvent):
            events = _located(path, lambda node=node: validate.sequence(events=node.events))
            stack.extend(reversed([(child, count, f"{path}.events[{i}]") for i, child in enumerate(events)]))
        elif isinstance(node, dp_event.PoissonSampledDpEvent) and _sampling_probability(node, path) == 1:
            stack.append((node.event, count, path + ".event"))
        else:
            pairs = _mechanism(node, path)
            if isinstance(pairs, dp_event.DpEvent):
                stack.append((pairs, count, path))
            elif pairs is not None:
                yield pairs, count


def timeline(event: Any) -> Iterator[tuple[Pairs | None, int]]:
    """The mechanisms in the order in which they run, as runs of equal steps; None for a step that costs nothing."""
    if isinstance(event, dp_event.SelfComposedDpEvent):
        count = _count(event, "event")
        inner = list(timeline(event.event))
        if len(inner) == 1:
            yield inner[0][0], inner[0][1] * count
        else:
            for _ in range(count):
                yield from inner
    elif isinstance(event, dp_event.ComposedDpEvent):
        for child in event.events:
            yield from timeline(child)
    else:
        pairs = _mechanism(event, "event")
        if isinstance(pairs, dp_event.DpEvent):
            yield from timeline(pairs)
        else:
            yield pairs, 1


def _count(node: dp_event.SelfComposedDpEvent, path: str, outer: int = 1) -> int:
    """How many times in all the inner event runs, ``outer`` being how many times this one does."""
    count = _located(path, lambda: validate.positive_integer(count=node.count))
    return _located(path, lambda: validate.positive_integer(count=outer * count))


def _sampling_probability(node: dp_event.PoissonSampledDpEvent, path: str) -> float:
    return _located(path, lambda: validate.probability(sampling_probability=node.sampling_probability))


def _located(path: str, build: Any) -> Any:
    """Run ``build``; an error about a value also says where in the tree it is."""
    try:
        return build()
    except UnsupportedEventError:
        raise
    except (ValueError, TypeError) as error:
        raise type(error)(f"{error} (at {path})" if path != "event" else str(error)) from None


def _mechanism(node: Any, path: str) -> Pairs | dp_event.DpEvent | None:
    """The pairs of one mechanism, possibly sampled, or an event that stands for it; None if it costs nothing."""
    if isinstance(node, dp_event.NoOpDpEvent):
        return None
    if isinstance(node, dp_event.NonPrivateDpEvent):
        return _NON_PRIVATE
    if isinstance(node, dp_event.PoissonSampledDpEvent):
        return _sampled(node, path)
    if not isinstance(node, dp_event.DpEvent):
        raise TypeError(f"{node!r} at {path} is not a DpEvent (it is a {type(node).__name__})")
    mechanism = MECHANISMS.get(type(node))
    if mechanism is None:
        raise UnsupportedEventError(_unsupported(node, path), node)
    pairs = _located(path, lambda: mechanism.laws(node))
    return _NON_PRIVATE if pairs is None else pairs


def _sampled(node: dp_event.PoissonSampledDpEvent, path: str) -> Pairs | None:
    q = _sampling_probability(node, path)
    inner: dict[Pairs, int] = {}
    for pairs, count in leaves(node.event, path + ".event"):
        if pairs != _TRIVIAL:
            inner[pairs] = inner.get(pairs, 0) + count
    if q == 0 or not inner:
        return None
    if _NON_PRIVATE in inner:
        return _NON_PRIVATE  # as dp_accounting: sampling does not mend a mechanism without privacy
    composition = Composition.from_counts(inner)
    folded = [composition.simplified(direction) for direction in Direction]
    if any(len(steps) != 1 or steps[0].count != 1 for steps in folded):
        raise UnsupportedEventError(
            f"Poisson sampling of a composition of several mechanisms at {path} has no one-dimensional pair here: {node!r}. "
            "Sample one mechanism, or a composition of Gaussian mechanisms only; sampling each step anew is "
            "SelfComposedDpEvent(PoissonSampledDpEvent(...)).",
            node,
        )
    if not all(map(on_a_line, folded)):
        raise UnsupportedEventError(
            f"Poisson sampling of {folded[0][0].law.describe()} at {path} has no pair here: {node!r}. "
            "The scheme samples already; give its event without PoissonSampledDpEvent.",
            node,
        )
    sampled = poisson.sampled(Pairs(folded[0][0].law, folded[1][0].law), q)
    return replace(sampled, exact=_exact_sampled(tuple(inner.items()), Fraction(q)))


def _exact_sampled(inner: tuple[tuple[Pairs, int], ...], q: Fraction) -> ExactPairs | None:
    """As the sampled pairs, for what has folded into one mechanism."""
    if any(pairs.exact is None for pairs, _ in inner):
        return None
    remove, add = (exact_steps(inner, direction)[0].law for direction in Direction)
    return exact_sampled(ExactPairs(remove, add), q)


def _unsupported(node: Any, path: str) -> str:
    combinators = (
        "PoissonSampledDpEvent",
        "SelfComposedDpEvent",
        "ComposedDpEvent",
        "NoOpDpEvent",
        "NonPrivateDpEvent",
    )
    supported = [*sorted(cls.__name__ for cls in MECHANISMS), *combinators]
    return f"unsupported {type(node).__name__} at {path}: {node!r}. Supported: {', '.join(supported)}"
