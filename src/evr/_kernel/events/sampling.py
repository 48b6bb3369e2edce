"""Sampled and selected parts of an event tree: their pairs, or an error that says why they have none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dp_accounting import NeighboringRelation, dp_event

from evr._basics import validate
from evr._kernel.events.noise import NOTHING, gaussians_by_square, labelled, sampled_replace_one
from evr._kernel.events.registry import unsupported
from evr._kernel.events.relations import ADD_OR_REMOVE, REPLACE_ONE
from evr._kernel.events.schemes import (
    AllocatedDpEvent,
    BallsInBinsDpEvent,
    BinomialSelectDpEvent,
    OneOfDpEvent,
    ThresholdSelectDpEvent,
)
from evr._kernel.events.training import MOST_BINS
from evr._kernel.events.users import binomial
from evr._kernel.pairs import Direction, Pairs, Step, merge_equal, reveals_nothing, simplify
from evr._kernel.pairs.exact import NON_PRIVATE_LAW, ExactBins, ExactGaussian
from evr._kernel.pairs.nested import NestedLaw, OneOf, SampledSteps
from evr._kernel.pairs.selection import (
    BinomialRuns,
    NegativeBinomialRuns,
    PoissonRuns,
    Rule,
    Selection,
    UntilGood,
)
from evr._kernel.pairs.subsampled import poisson_sampled, without_replacement
from evr.errors import UnsupportedEventError

NON_PRIVATE_PAIRS = Pairs.both(NON_PRIVATE_LAW)
_LEAST = 1e-250  # the least sampling probability above 0
FIXED_SIZE = (dp_event.SampledWithoutReplacementDpEvent, dp_event.SampledWithReplacementDpEvent)
SAMPLED = (dp_event.PoissonSampledDpEvent, *FIXED_SIZE)
_MOST_DRAWS = 10_000  # with replacement: weights are computed exactly
SELECTED = (dp_event.RepeatAndSelectDpEvent, BinomialSelectDpEvent, ThresholdSelectDpEvent)


def steps_inside(inner: Sequence[tuple[Pairs, int]]) -> dict[Direction, tuple[Step, ...]] | Pairs | None:
    """The steps of a part in each direction, or pairs if it is not private; None if it costs nothing."""
    if any(pairs == NON_PRIVATE_PAIRS for pairs, _ in inner):
        return NON_PRIVATE_PAIRS
    steps = {one: simplify(merge_equal(inner, one)) for one in Direction}
    if not any(steps.values()):
        return None
    return {one: own or (NOTHING.step(one, 1),) for one, own in steps.items()}


@dataclass(frozen=True)
class Sampling:
    """A sampled part of a tree; ``share`` is how likely a record takes part, below 1."""

    node: Any
    share: Fraction
    path: str
    relation: NeighboringRelation

    @property
    def _is_poisson(self) -> bool:
        return isinstance(self.node, dp_event.PoissonSampledDpEvent)

    @property
    def takes_norms(self) -> bool:
        """Whether what a record adds counts, as it does where one of two may be absent, and not by how much a
        record and its replacement differ: then what is inside has its laws of add-or-remove.
        """
        return self._is_poisson and self.relation is REPLACE_ONE

    def pairs(self, inner: list[tuple[Pairs, int]]) -> Pairs | None:
        """The pairs of the mechanisms inside, sampled; None if they cost nothing."""
        steps = None if self.share == 0 else steps_inside(inner)
        # as dp_accounting: sampling does not make anything private
        if steps is None or isinstance(steps, Pairs):
            return steps
        if isinstance(self.node, FIXED_SIZE) and not (
            self.relation is REPLACE_ONE and isinstance(self.node, dp_event.SampledWithoutReplacementDpEvent)
        ):
            return self._fixed_size(steps[Direction.REMOVE])
        if any(not self._is_alone(own) for own in steps.values()):
            return self._composed(steps)
        alone = {one: step for one, (step,) in steps.items()}
        remove, q = alone[Direction.REMOVE], self.share
        if not self._is_poisson:
            return Pairs.both(without_replacement(remove.law, q))
        if self.takes_norms:
            if remove != alone[Direction.ADD] or (found := sampled_replace_one(remove.law, q)) is None:
                remedy = "Under replace-one, give one kind of noise on a sum."
                raise self._no_pair(remove.floats.describe(), remedy)
            return found
        return Pairs.each(lambda direction: poisson_sampled(alone[direction].law, q, direction))

    def _fixed_size(self, steps: tuple[Step, ...]) -> Pairs:
        """Gaussian noise on batches of a fixed size (guarantees_nested, G4)."""
        law = steps[0].law
        if len(steps) != 1 or steps[0].count != 1 or not isinstance(law, ExactGaussian):
            remedy = "Give Gaussian noise, or replace-one without replacement."
            raise self._no_pair(steps[0].floats.describe(), remedy)
        # of records that take a place
        square = law.square if self.relation is REPLACE_ONE else 4 * law.square
        share, numbers = self.share, {1: Fraction(1)}  # how often the record is in a batch that holds it
        if isinstance(self.node, dp_event.SampledWithReplacementDpEvent):
            numbers = binomial(self.node.sample_size, self.share)
            share = 1 - numbers.pop(0, Fraction(0))
            numbers = {j: chance / share for j, chance in numbers.items()}
        if self.relation is ADD_OR_REMOVE:
            chances = {Fraction(j): share * chance for j, chance in numbers.items()}
            return gaussians_by_square({Fraction(0): 1 - share, **chances} if share < 1 else chances, square)
        return labelled(numbers, square, share)

    @staticmethod
    def _is_alone(steps: tuple[Step, ...]) -> bool:
        return len(steps) == 1 and steps[0].count == 1 and steps[0].is_on_a_line

    def _composed(self, steps: dict[Direction, tuple[Step, ...]]) -> Pairs:
        """Several mechanisms on one sample (guarantees_nested, G1)."""
        if self.takes_norms:
            remedy = "Under replace-one, sample one mechanism, or a composition of Gaussian mechanisms only"
            anew = f"sampling each step anew is SelfComposedDpEvent({type(self.node).__name__}(...))."
            raise self._no_pair("a composition of several mechanisms", f"{remedy}; {anew}")
        for step in steps[Direction.REMOVE]:
            if not (step.is_on_a_line or isinstance(step.law, ExactBins | NestedLaw)):
                raise self._no_pair(step.floats.describe(), "Sample mechanisms whose laws are on a line.")
        return Pairs.each(lambda one: SampledSteps(steps[one], self.share, one if self._is_poisson else None))

    def _no_pair(self, what: str, remedy: str) -> UnsupportedEventError:
        name = "Poisson sampling" if self._is_poisson else "sampling of batches of a fixed size"
        text = f"{name} of {what} at {self.path} has no one-dimensional pair here: {self.node!r}. {remedy}"
        return UnsupportedEventError(text, self.node)


def groups_of(node: OneOfDpEvent) -> list[Any]:
    """The events of the groups."""
    found = validate.sequence(events=node.events)
    if not 1 <= len(found) <= MOST_BINS:
        raise ValueError(f"events has {len(found):,} groups: give from 1 to {MOST_BINS:,}")
    return found


def blocks_of(node: AllocatedDpEvent) -> dp_event.DpEvent:
    """For each step that a record takes part in, one of about ``num_steps / num_selected`` steps
    (guarantees_state, G7, for any mechanism by guarantees_nested, G3).
    """
    steps = validate.positive_integer(num_steps=node.num_steps)
    chosen = validate.positive_integer(num_selected=node.num_selected)
    if chosen > steps:
        raise ValueError(f"num_selected={chosen!r} is above num_steps={steps!r}")
    size, larger = divmod(steps, chosen)
    sizes = [(m, count) for m, count in ((size + 1, larger), (size, chosen - larger)) if count]
    blocks = [dp_event.SelfComposedDpEvent(_block(node.event, m), count) for m, count in sizes]
    return blocks[0] if len(blocks) == 1 else dp_event.ComposedDpEvent(blocks)


def _block(event: Any, steps: int) -> dp_event.DpEvent:
    """One of some steps; of Gaussian noise it is balls in bins."""
    if type(event) is dp_event.GaussianDpEvent:
        return BallsInBinsDpEvent(event.noise_multiplier, steps, steps)
    return OneOfDpEvent([event] * steps)


def one_of(node: Any, path: str, groups: Mapping[tuple[tuple[Pairs, int], ...], int]) -> Pairs | None:
    """The laws of one of several groups (guarantees_nested, G2), by their mechanisms and how many groups have
    these; None if all cost nothing.
    """
    alike = dict[Direction, list[tuple[tuple[Step, ...], int]]]({one: [] for one in Direction})
    for inner, number in groups.items():
        steps = steps_inside(inner)
        if isinstance(steps, Pairs):
            return steps
        for one in Direction:
            alike[one].append((steps[one] if steps else (NOTHING.step(one, 1),), number))
    for step in (step for own, _ in alike[Direction.REMOVE] for step in own):
        if not (step.is_on_a_line or isinstance(step.law, ExactBins | NestedLaw)):
            why = f"{step.floats.describe()} is not on a line: groups of such laws have no pair here"
            raise unsupported(node, path, why)
    if all(reveals_nothing(step.law) for own in alike.values() for steps, _ in own for step in steps):
        return None
    return Pairs.each(lambda one: OneOf(one, tuple(alike[one])))


def part_of(node: Any, path: str, relation: NeighboringRelation) -> Sampling | Selecting | None:
    """The part of a tree that a node begins; None if it changes nothing."""
    if isinstance(node, SELECTED):
        rule = rule_of(node)
        return None if rule is None else Selecting(node, path, rule)
    if isinstance(node, dp_event.PoissonSampledDpEvent):
        q = validate.probability(sampling_probability=node.sampling_probability)
        if 0 < q < _LEAST:
            why = f"sampling_probability={q!r} is below {_LEAST:g}"
            remedy = f"give {_LEAST:g}, which covers it, or 0 if nobody is sampled"
            raise ValueError(f"{why}, where floats lose what a sampled record adds: {remedy}")
        return None if q == 1 else Sampling(node, Fraction(q), path, relation)
    size = validate.positive_integer(source_dataset_size=node.source_dataset_size)
    batch = validate.non_negative_integer(sample_size=node.sample_size)
    if isinstance(node, dp_event.SampledWithReplacementDpEvent):
        if batch > _MOST_DRAWS:
            why = f"sample_size={batch!r} is above {_MOST_DRAWS:,} draws with replacement"
            raise ValueError(f"{why}: too many weights")
        return Sampling(node, Fraction(int(batch > 0), size), path, relation)
    if batch == size and relation is ADD_OR_REMOVE:
        why = f"sample_size={batch!r} is all of source_dataset_size={size!r}"
        remedy = "give less, or neighboring_relation='replace-one'"
        raise ValueError(f"{why}, and a data set without a record has fewer: {remedy}")
    if batch > size:
        raise ValueError(f"sample_size={batch!r} is above source_dataset_size={size!r}")
    return None if batch == size else Sampling(node, Fraction(batch, size), path, relation)


_MOST_FALL = 1e3  # of log g from 0 to 1: that many bits, and cells, are followed


def rule_of(node: Any) -> Rule | None:
    """The rule of a selecting event; None where there is one run, always."""
    if isinstance(node, ThresholdSelectDpEvent):
        stop = validate.half_open_probability(stop_probability=node.stop_probability)
        return None if stop == 1 else UntilGood(Fraction(stop))
    if isinstance(node, BinomialSelectDpEvent):
        most = validate.positive_integer(most_runs=node.most_runs)
        chance = validate.open_probability(probability=node.probability)
        _check_fall(-most * math.log1p(-chance), f"most_runs={most!r} with probability={chance!r}")
        return BinomialRuns(most, Fraction(chance))
    mean, shape = validate.run_count(mean=node.mean), validate.run_shape(shape=node.shape)
    if shape == math.inf:
        _check_fall(mean, f"mean={mean!r} of a Poisson law")
        return PoissonRuns(Fraction(mean))
    if mean < 1:
        why = f"mean={mean!r} is below 1, and there is at least one run"
        raise ValueError(f"{why}: give more, or shape=inf (Poisson)")
    return None if mean == 1 else NegativeBinomialRuns(Fraction(mean), Fraction(shape))


def _check_fall(fall: float, what: str) -> None:
    if fall > _MOST_FALL:
        raise ValueError(f"{what}: so many runs are not followed; take fewer, or a geometric law (shape=1)")


@dataclass(frozen=True)
class Selecting:
    """A part of a tree of whose runs one is selected."""

    node: Any
    path: str
    rule: Rule
    takes_norms = False

    def pairs(self, inner: list[tuple[Pairs, int]]) -> Pairs | None:
        """The laws of what is selected among runs of the mechanisms inside; None if they cost nothing."""
        steps = steps_inside(inner)
        if steps is None or isinstance(steps, Pairs):
            return steps
        for step in steps[Direction.REMOVE]:
            if not (step.is_on_a_line or isinstance(step.law, ExactBins)):
                why = f"a selection needs proofs about one run, and {step.floats.describe()}"
                remedy = "Select among runs whose steps are on a line"
                raise unsupported(self.node, self.path, f"{why} is known by samples only. {remedy}")
        remove, add = steps[Direction.REMOVE], steps[Direction.ADD]
        return Pairs(Selection(self.rule, remove, add), Selection(self.rule, add, remove))
