"""From a ``DpEvent`` tree to the dominating pairs of each direction with their counts.

An ordered pair of neighbours has the same direction at every step, so each direction composes by itself; the maximum of
the two curves is taken at the end, and directions are never mixed across steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from dp_accounting import NeighboringRelation, dp_event

from evr import validate
from evr.errors import OtherRelationError, UnsupportedEventError
from evr.laws import NON_PRIVATE_PAIR, Direction, Pairs, Step, merged, simplify
from evr.laws.selection import Selection
from evr.mechanisms.relations import ADD_OR_REMOVE, ZERO_OUT, Relation, name_of, relation_named
from evr.mechanisms.tree import leaves


@dataclass(frozen=True)
class Composition:
    """The distinct pairs of each direction with their counts, equal ones merged. Order carries no meaning here.

    Attributes
    ----------
    remove, add
        The steps of each direction: a law and how often it ran.
    relation
        Which data sets are neighbours.

    Examples
    --------
    >>> from evr.events import dpsgd
    >>> composition = Composition.of(dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=10**6))
    >>> [(step.count, type(step.law).__name__) for step in composition.steps(Direction.REMOVE)]
    [(1000000, 'SampledPair')]
    """

    remove: tuple[Step, ...]
    add: tuple[Step, ...]
    relation: NeighboringRelation = ADD_OR_REMOVE

    @classmethod
    def of(cls, event: dp_event.DpEvent | Composition, neighboring_relation: Relation | None = None) -> Composition:
        """Translate an event tree; raise ``UnsupportedEventError`` naming the first sub-event that has no pair.

        Without a relation it is add-or-remove, or zero-out where some mechanism knows no other. Replace-one has to be
        asked for.
        """
        relation = None if neighboring_relation is None else relation_named(neighboring_relation)
        if isinstance(event, Composition):
            if relation not in (None, event.relation):
                raise ValueError(
                    f"neighboring_relation={name_of(relation)!r}, but the composition given is "
                    f"under {name_of(event.relation)!r}: make it of its event anew"
                )
            return event
        try:
            return cls.from_counts(leaves(event, relation or ADD_OR_REMOVE), relation or ADD_OR_REMOVE)
        except OtherRelationError as error:
            if relation is not None or error.only is not ZERO_OUT:
                raise
            return cls.from_counts(leaves(event, ZERO_OUT), ZERO_OUT)

    @classmethod
    def from_counts(
        cls, counts: Iterable[tuple[Pairs, int]], relation: NeighboringRelation = ADD_OR_REMOVE
    ) -> Composition:
        """The composition of mechanisms with their counts; equal laws are merged, in each direction by itself."""
        parts = list(counts)
        remove, add = (merged(parts, direction) for direction in Direction)
        return cls(remove, add, relation)

    def steps(self, direction: Direction | str) -> tuple[Step, ...]:
        return self.remove if Direction(direction) is Direction.REMOVE else self.add

    def simplified(self, direction: Direction | str) -> tuple[Step, ...]:
        """As ``steps``, with all Gaussians folded into one."""
        return simplify(self.steps(direction))

    def exact(self, direction: Direction | str) -> tuple[Step, ...]:
        """As ``simplified``, for strict proofs: a law that is not known exactly is refused by name."""
        steps = self.simplified(direction)
        for step in steps:
            _ = step.exact_law
        return steps

    def exact_directions(self, direction: str | None = None) -> dict[Direction, tuple[Step, ...]]:
        """The exact laws of the direction asked for, or of both, or of one where they are the same laws."""
        if direction is not None:
            one = Direction(validate.one_of(("remove", "add"), direction=direction))
            return {one: self.exact(one)}
        steps = {one: self.exact(one) for one in Direction}
        if self.is_symmetric:
            del steps[Direction.ADD]
        return steps

    @cached_property
    def is_non_private(self) -> bool:
        """Whether some mechanism has no privacy at all."""
        return any(step.law == NON_PRIVATE_PAIR for step in self.remove)

    @cached_property
    def has_selection(self) -> bool:
        """Whether some step is the best of several runs, which no sample can be drawn of."""
        return any(isinstance(step.law, Selection) for step in self.remove)

    def check_drawn(self) -> None:
        """Refuse what no sample can be drawn of."""
        if self.has_selection:
            raise UnsupportedEventError(
                "a selection among several runs is proved from points of the privacy curve of one run, and no sample "
                "is drawn of it: use method='strict', and leave the options of samples out"
            )

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether both directions are the same composition, so that one computation serves both."""
        return Counter(self.simplified(Direction.REMOVE)) == Counter(self.simplified(Direction.ADD))
