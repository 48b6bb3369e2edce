"""From a ``DpEvent`` tree to the dominating pairs of each direction with their counts.

An ordered pair of neighbours has the same direction at every step, so each direction composes by
itself; the maximum of the two curves is taken at the end, and directions are never mixed across
steps.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from dp_accounting import NeighboringRelation, dp_event

from evr import validate
from evr.errors import UnsupportedEventError
from evr.laws.exact import ExactStep
from evr.laws.law import Direction, LossLaw, Pairs
from evr.laws.steps import NON_PRIVATE_PAIR, Step, simplify
from evr.mechanisms.exact import exact_steps
from evr.mechanisms.relations import (
    ADD_OR_REMOVE,
    ZERO_OUT,
    OtherRelationError,
    Relation,
    name_of,
    relation_named,
)
from evr.mechanisms.tree import leaves


@dataclass(frozen=True)
class Composition:
    """The distinct pairs of each direction with their counts, equal ones merged. Order carries no
    meaning here.

    Attributes
    ----------
    remove, add
        The steps of each direction: a law and how often it ran.
    parts
        The mechanisms as their translators gave them.
    relation
        Which data sets are neighbours.

    Examples
    --------
    >>> from evr.events import dpsgd
    >>> event = dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=10**6)
    >>> composition = Composition.of(event)
    >>> [(step.count, type(step.law).__name__) for step in composition.steps(Direction.REMOVE)]
    [(1000000, 'SampledPair')]
    """

    remove: tuple[Step, ...]
    add: tuple[Step, ...]
    parts: tuple[tuple[Pairs, int], ...] = ()
    """The mechanisms as their translators gave them, exact laws included; empty where a composition
    was built by hand.
    """
    relation: NeighboringRelation = ADD_OR_REMOVE
    """Which data sets are neighbours."""

    @classmethod
    def of(
        cls,
        event: dp_event.DpEvent | Composition,
        neighboring_relation: Relation | None = None,
    ) -> Composition:
        """Translate an event tree; raise ``UnsupportedEventError`` naming the first sub-event that
        has no pair.

        Without a relation it is add-or-remove, or zero-out where some mechanism knows no other.
        Replace-one has to be asked for.
        """
        relation = None if neighboring_relation is None else relation_named(neighboring_relation)
        if isinstance(event, Composition):
            if relation not in (None, event.relation):
                raise ValueError(
                    f"neighboring_relation={name_of(relation)!r}, but the composition given is "
                    f"under {name_of(event.relation)!r}: make it of its event anew"
                )
            return event
        if relation is not None:
            return cls._under(event, relation)
        try:
            return cls._under(event, ADD_OR_REMOVE)
        except OtherRelationError as error:
            if error.only is not ZERO_OUT:
                raise
            return cls._under(event, ZERO_OUT)

    @classmethod
    def _under(cls, event: dp_event.DpEvent, relation: NeighboringRelation) -> Composition:
        counts: dict[Pairs, int] = {}
        for pairs, count in leaves(event, relation):
            counts[pairs] = counts.get(pairs, 0) + count
        return cls.from_counts(counts, relation)

    @classmethod
    def from_counts(
        cls, counts: dict[Pairs, int], relation: NeighboringRelation = ADD_OR_REMOVE
    ) -> Composition:
        """Merge equal pairs, in each direction by itself."""
        merged: dict[Direction, dict[LossLaw, int]] = {direction: {} for direction in Direction}
        for pairs, count in counts.items():
            for direction in Direction:
                law = pairs.of(direction)
                merged[direction][law] = merged[direction].get(law, 0) + count
        steps = {d: tuple(Step(law, count) for law, count in m.items()) for d, m in merged.items()}
        return cls(steps[Direction.REMOVE], steps[Direction.ADD], tuple(counts.items()), relation)

    def steps(self, direction: Direction | str) -> tuple[Step, ...]:
        """The pairs of one direction with their counts."""
        return self.remove if Direction(direction) is Direction.REMOVE else self.add

    def simplified(self, direction: Direction | str) -> tuple[Step, ...]:
        """As ``steps``, with families closed under composition folded: any number of Gaussians is
        one Gaussian.
        """
        return simplify(self.steps(direction))

    def exact(self, direction: Direction | str) -> tuple[ExactStep, ...]:
        """The exact laws of one direction with their counts, all Gaussians folded into one; a
        mechanism without is refused.
        """
        if not self.parts and self.steps(direction):
            raise UnsupportedEventError(
                "this composition was built from pairs: a strict proof needs the exact parameters "
                "of events. Give the event, with translators that return Pairs(..., "
                "exact=ExactPairs(...))"
            )
        return exact_steps(self.parts, Direction(direction))

    def exact_directions(
        self, direction: str | None = None
    ) -> dict[Direction, tuple[ExactStep, ...]]:
        """The exact laws of the direction asked for, or of both, or of one where they are the same
        laws.
        """
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
