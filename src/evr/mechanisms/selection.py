"""Selected parts of an event tree: the best of several runs (docs/guarantees_selection.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dp_accounting import dp_event

from evr import validate
from evr.errors import UnsupportedEventError
from evr.laws import Direction, DominatingPair, Pairs
from evr.laws.patterns.bins import IndependentBins
from evr.laws.selection import BinomialRuns, NegativeBinomialRuns, PoissonRuns, Rule, Selection, UntilGood
from evr.mechanisms.sampling import gathered
from evr.mechanisms.schemes import BinomialSelectDpEvent, ThresholdSelectDpEvent

SELECTED = (dp_event.RepeatAndSelectDpEvent, BinomialSelectDpEvent, ThresholdSelectDpEvent)

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
    """A selected part of a tree: the mechanisms of one run are gathered until it ends."""

    node: Any
    path: str
    rule: Rule
    inner: list[tuple[Pairs, int]] = field(default_factory=list)

    def pairs(self) -> Pairs | None:
        """The laws of what is selected; None if it costs nothing."""
        steps = gathered(self.inner)
        if steps is None or isinstance(steps, Pairs):
            return steps
        for step in steps[Direction.REMOVE]:
            if not isinstance(step.law, DominatingPair | IndependentBins):
                raise UnsupportedEventError(
                    f"unsupported {type(self.node).__name__} at {self.path}: a selection is bounded by proved points "
                    f"of the privacy curve of one run, and {step.law.describe()} is known by samples only. Select "
                    "among runs whose steps are on a line, such as DP-SGD with independent noise",
                    self.node,
                )
        remove, add = steps[Direction.REMOVE], steps[Direction.ADD]
        laws = Selection(self.rule, remove, add), Selection(self.rule, add, remove)
        known = all(step.exact is not None for step in (*remove, *add))
        return Pairs(*laws, laws if known else None)
