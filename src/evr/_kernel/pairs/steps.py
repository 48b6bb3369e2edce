"""Steps: a law and how many times it is applied, seen exactly or in floats."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from evr._kernel.pairs.exact.law import ExactCurve, ExactLaw, ExactOutcomes
from evr._kernel.pairs.floats import as_floats
from evr._kernel.pairs.law import UNIT, LossLaw
from evr._kernel.pairs.line.discrete import DiscretePair
from evr._kernel.pairs.line.pair import DominatingPair, Measure, line_pair
from evr._kernel.pairs.line.poisson import SampledPair, WithoutReplacementPair, without_infinite
from evr._kernel.pairs.patterns.law import PatternLaw
from evr.errors import UnsupportedEventError
from evr.types import Direction

Law: TypeAlias = "ExactLaw | LossLaw"
"""One step in one direction: by rational parameters, or in floats only."""


@dataclass(frozen=True)
class Step:
    """A law, and how many times it is applied."""

    law: Law
    count: int

    @cached_property
    def floats(self) -> LossLaw:
        """The law in floats, which estimates and samples see."""
        return as_floats(self.law)

    @property
    def pair(self) -> DominatingPair:
        """The law in floats as a pair on a line; one in many dimensions is refused by name."""
        return line_pair(self.floats)

    @property
    def is_on_a_line(self) -> bool:
        return isinstance(self.law, DominatingPair | ExactCurve | ExactOutcomes)

    @property
    def is_exact(self) -> bool:
        """Whether the law is known by rational parameters, and so are the laws that it is made of."""
        law = self.law
        return isinstance(law, ExactLaw) and all(one.is_exact for steps in law.compositions for one in steps)

    @property
    def exact_law(self) -> ExactLaw:
        """The law, for strict proofs; one in floats only is refused by name."""
        if isinstance(self.law, ExactLaw) and self.is_exact:
            return self.law
        name = f"{type(self.law).__name__} ({self.floats.describe()})"
        remedy = "let its translator return Pairs of exact laws (evr.events.RationalOutcomes)"
        raise UnsupportedEventError(
            f"{name} offers no exact law, which method='strict' needs: {remedy}, or use another method"
        )


@dataclass(frozen=True)
class Pairs:
    """The laws of one mechanism in its two directions: exact ones, or in floats if no exact one is known."""

    remove: Law
    add: Law

    @classmethod
    def both(cls, law: Law) -> Pairs:
        return cls(law, law)

    @classmethod
    def each(cls, law: Callable[[Direction], Law]) -> Pairs:
        return cls(law(Direction.REMOVE), law(Direction.ADD))

    def __post_init__(self) -> None:
        for name, law in (("remove", self.remove), ("add", self.add)):
            if not isinstance(law, ExactLaw | LossLaw):
                raise TypeError(f"{name}={law!r} is not a law: give an exact law, or a DominatingPair")
            if (outcomes := _outcomes_below(law)) is not None:
                _check_whole(name, outcomes)

    def of(self, direction: Direction) -> Law:
        return self.remove if direction is Direction.REMOVE else self.add

    def step(self, direction: Direction, count: int) -> Step:
        return Step(self.of(direction), count)


def merge_equal(counted: Iterable[tuple[Pairs, int]], direction: Direction) -> tuple[Step, ...]:
    """The laws of one direction, each once, in the order of their first appearance."""
    counts: dict[Law, int] = {}
    for pairs, count in counted:
        law = pairs.of(direction)
        counts[law] = counts.get(law, 0) + count
    return tuple(Step(law, count) for law, count in counts.items())


def on_a_line(steps: Iterable[Step]) -> bool:
    return all(step.is_on_a_line for step in steps)


def loss_range(law: LossLaw) -> tuple[float, float]:
    """Least and greatest privacy loss, possibly infinite."""
    if isinstance(law, PatternLaw):
        least = law._log_absent
        return (least, math.inf) if law.direction is Direction.REMOVE else (-math.inf, -least)
    pair = line_pair(law)
    return float(pair.privacy_loss(-math.inf)), float(pair.privacy_loss(math.inf))


def infinite_loss_mass(law: LossLaw) -> float:
    """Probability under ``P`` of an infinite privacy loss."""
    if not isinstance(law, DominatingPair) or not len(law.flats):
        return 0.0
    last = law.flats[-1]
    return math.exp(law.log_mass(Measure.P, *last)) if law.privacy_loss(last[1]) == math.inf else 0.0


def _check_whole(name: str, pair: DiscretePair) -> None:
    """Refuse outcomes that hold more or less than all of ``P`` and ``Q``, beyond rounding, as sampling mixes
    the two; and losses that do not rise, by which outcomes are found, or are not those of the probabilities.
    """
    for measure, logs in pair.logs.items():
        total = float(np.exp(logs).sum())
        if not abs(total - 1.0) <= (logs.size + 16) * UNIT:
            held = f"{name}: outcomes hold {total!r} of {measure.value}"
            remedy = "together they must hold all of P and of Q, outcomes that only Q has included"
            raise ValueError(f"{held}: {remedy}")
    if not 0.0 <= pair.error < math.inf:
        raise ValueError(f"{name}: losses have error={pair.error!r}: give a finite number of at least 0")
    log_p, log_q = pair.logs.values()
    with np.errstate(invalid="ignore"):
        ratios = log_p - log_q
        room = pair.loss_error + 16.0 * UNIT * (np.abs(log_p) + np.abs(log_q) + 1.0)
        agree = np.where(np.isfinite(ratios), np.abs(pair.losses - ratios) <= room, pair.losses == ratios)
    if not agree.all():
        place = int(np.argmin(agree))
        stated = f"the loss {pair.loss_values[place]!r}, and log P/Q is {float(ratios[place])!r}"
        raise ValueError(f"{name}: an outcome has {stated}: give losses that agree with the probabilities")
    if np.any(pair.losses[1:] <= pair.losses[:-1]):
        raise ValueError(f"{name}: outcomes are not in the order of their losses: give them to from_logs")


def _outcomes_below(law: Law) -> DiscretePair | None:
    """The outcomes that are sampled, however often; None if there are none."""
    while isinstance(law, SampledPair | WithoutReplacementPair):
        law = law.base
    return law if isinstance(law, DiscretePair) else None


def is_cut(law: LossLaw) -> bool:
    """Whether greater losses were left out, less likely than 1e-320 together."""
    found = _outcomes_below(law)
    return found is not None and found.is_cut


def stated_error(law: LossLaw) -> float:
    """What losses are off by beyond rounding, as outcomes say: sampling does not raise it."""
    found = _outcomes_below(law)
    return 0.0 if found is None else found.error


def finite_losses(steps: Iterable[Step]) -> list[tuple[LossLaw, int, float]]:
    """Each law without its infinite losses, how many times it is applied, and its greatest loss."""
    laws = [(without_infinite(s.pair) if s.is_on_a_line else s.floats, s.count) for s in steps]
    return [(law, count, loss_range(law)[1]) for law, count in laws]


def greatest_loss(steps: Iterable[Step]) -> float:
    """The greatest finite sum of losses; infinite where there is none."""
    return math.fsum(count * loss for _, count, loss in finite_losses(steps))


def infinite_mass(steps: Iterable[Step]) -> float:
    """``1 - prod (1 - p_inf)``: the probability that some step has infinite loss."""
    masses = [(infinite_loss_mass(step.floats), step.count) for step in steps]
    if any(mass >= 1 for mass, _ in masses):
        return 1.0
    return max(0.0, -math.expm1(math.fsum(count * math.log1p(-mass) for mass, count in masses)))
