"""Sampled and selected parts of an event tree: their pairs, or an error that says why they have none."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dp_accounting import NeighboringRelation, dp_event

from evr import validate
from evr.errors import UnsupportedEventError
from evr.laws import NON_PRIVATE_PAIR, Direction, DominatingPair, Pairs, Step, merged, on_a_line, simplify
from evr.laws.exact import NON_PRIVATE_LAW, exact_sampled, exact_without_replacement
from evr.laws.line import poisson
from evr.laws.patterns.bins import IndependentBins
from evr.laws.selection import BinomialRuns, NegativeBinomialRuns, PoissonRuns, Rule, Selection, UntilGood
from evr.mechanisms.noise import replaced
from evr.mechanisms.registry import unsupported
from evr.mechanisms.relations import REPLACE_ONE
from evr.mechanisms.schemes import BinomialSelectDpEvent, ThresholdSelectDpEvent

NON_PRIVATE_PAIRS = Pairs.both(NON_PRIVATE_PAIR, NON_PRIVATE_LAW)
_LEAST = 1e-250  # the least sampling probability above 0
SAMPLED = (dp_event.PoissonSampledDpEvent, dp_event.SampledWithoutReplacementDpEvent)
SELECTED = (dp_event.RepeatAndSelectDpEvent, BinomialSelectDpEvent, ThresholdSelectDpEvent)


def gathered(inner: list[tuple[Pairs, int]]) -> dict[Direction, tuple[Step, ...]] | Pairs | None:
    """The steps of a part of a tree in each direction, or pairs if it is not private; None if it costs nothing."""
    if any(pairs == NON_PRIVATE_PAIRS for pairs, _ in inner):
        return NON_PRIVATE_PAIRS
    steps = {one: simplify(merged(inner, one)) for one in Direction}
    return steps if any(steps.values()) else None


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

    def pairs(self, inner: list[tuple[Pairs, int]]) -> Pairs | None:
        """The pairs of the mechanisms inside, sampled; None if they cost nothing."""
        steps = None if self.share == 0 else gathered(inner)
        if steps is None or isinstance(steps, Pairs):  # as dp_accounting: sampling does not make anything private
            return steps
        if any(len(own) != 1 or own[0].count != 1 for own in steps.values()):
            anew = f"sampling each step anew is SelfComposedDpEvent({type(self.node).__name__}(...))."
            remedy = f"Sample one mechanism, or a composition of Gaussian mechanisms only; {anew}"
            raise self._no_pair("a composition of several mechanisms", remedy)
        alone = {one: step for one, (step,) in steps.items()}
        remove, q = alone[Direction.REMOVE], self.share
        if not on_a_line(alone.values()):
            why = f"The scheme samples already; give its event without {type(self.node).__name__}."
            raise self._no_pair(remove.law.describe(), why)
        if not self._is_poisson:
            exact = remove.exact and exact_without_replacement(remove.exact, q)
            return Pairs.both(poisson.sampled_without_replacement(remove.pair, q), exact)
        if self.relation is REPLACE_ONE:
            if (found := replaced(remove.exact, q)) is None:
                raise self._no_pair(remove.law.describe(), "Under replace-one, give one kind of noise on a sum.")
            return found
        known = all(step.exact is not None for step in alone.values())
        return Pairs.each(
            lambda one: poisson.sampled(alone[one].pair, q, one),
            (lambda one: exact_sampled(alone[one].exact_law, q, one)) if known else None,
        )

    def _no_pair(self, what: str, remedy: str) -> UnsupportedEventError:
        name = "Poisson sampling" if self._is_poisson else "sampling without replacement"
        text = f"{name} of {what} at {self.path} has no one-dimensional pair here: {self.node!r}. {remedy}"
        return UnsupportedEventError(text, self.node)


def part_of(node: Any, path: str, relation: NeighboringRelation) -> Sampling | Selecting | None:
    """The part of a tree that a node begins; None if it changes nothing."""
    if isinstance(node, SELECTED):
        rule = rule_of(node)
        return None if rule is None else Selecting(node, path, rule)
    if isinstance(node, dp_event.PoissonSampledDpEvent):
        q = validate.probability(sampling_probability=node.sampling_probability)
        if 0 < q < _LEAST:
            why = f"sampling_probability={q!r} is below {_LEAST:g}, where floats lose what a sampled record adds"
            raise ValueError(f"{why}: give {_LEAST:g}, which covers it, or 0 if nobody is sampled")
        return None if q == 1 else Sampling(node, Fraction(q), path, relation)
    size = validate.positive_integer(source_dataset_size=node.source_dataset_size)
    batch = validate.non_negative_integer(sample_size=node.sample_size)
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
        raise ValueError(f"mean={mean!r} is below 1, and there is at least one run: give more, or shape=inf (Poisson)")
    return None if mean == 1 else NegativeBinomialRuns(Fraction(mean), Fraction(shape))


def _check_fall(fall: float, what: str) -> None:
    if fall > _MOST_FALL:
        raise ValueError(f"{what}: so many runs are not followed; take fewer, or a geometric law (shape=1)")


@dataclass(frozen=True)
class Selecting:
    node: Any
    path: str
    rule: Rule

    def pairs(self, inner: list[tuple[Pairs, int]]) -> Pairs | None:
        """The laws of what is selected among runs of the mechanisms inside; None if they cost nothing."""
        steps = gathered(inner)
        if steps is None or isinstance(steps, Pairs):
            return steps
        for step in steps[Direction.REMOVE]:
            if not isinstance(step.law, DominatingPair | IndependentBins):
                why = f"a selection needs proofs about one run, and {step.law.describe()} is known by samples only"
                raise unsupported(self.node, self.path, f"{why}. Select among runs whose steps are on a line")
        remove, add = steps[Direction.REMOVE], steps[Direction.ADD]
        laws = Selection(self.rule, remove, add), Selection(self.rule, add, remove)
        known = all(step.exact is not None for step in (*remove, *add))
        return Pairs(*laws, laws if known else None)
