"""The best of several runs: the rule that selects one, and the law of what is selected. In
docs/guarantees_selection.md ``f`` is the generating function of the number of runs, and ``g(x) = f'(1 - x)``
the density of what is selected where a run is better with probability ``x``.
"""

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from evr._kernel.pairs.exact.law import Ball, ExactLaw, ball, proved_root
from evr._kernel.pairs.law import LossLaw
from evr._kernel.pairs.steps import Step


class Rule(abc.ABC):
    """Which run is released."""

    mean: Fraction
    """The mean number of runs, if that number is independent of the data."""

    @abc.abstractmethod
    def log_density(self) -> Callable[[Ball], Ball]:
        """The function from ``x`` in [0, 1] to ``log g(x)``, which falls, enclosed at this precision."""

    @property
    def factor(self) -> Fraction:
        """``g(0)``: by how much the probability of an infinite loss may grow."""
        return self.mean


@dataclass(frozen=True)
class PoissonRuns(Rule):
    """The best of a Poisson number of runs, which is independent of the data."""

    mean: Fraction

    def log_density(self) -> Callable[[Ball], Ball]:
        mean = ball(self.mean)
        return lambda x: mean.log() - mean * x


@dataclass(frozen=True)
class NegativeBinomialRuns(Rule):
    """The best of a truncated negative binomial number of runs (Papernot and Steinke 2022, Definition 1), at
    least 1 and above 1 in the mean. ``shape`` is their ``eta > -1``: 1 is geometric, 0 logarithmic.
    """

    mean: Fraction
    shape: Fraction

    def log_odds(self) -> Ball:
        """``u = log(1 / gamma)``: the root of the rising ``(e^u - 1) shape / (1 - e^{-shape u}) = mean``."""
        if self.shape == 1:
            return ball(self.mean).log()
        shape, target = ball(self.shape), ball(self.mean).log()

        def value_and_slope(u: Ball) -> tuple[Ball, Ball]:
            below = -(-shape * u).expm1() / shape if self.shape else u
            slope = u.exp() / u.expm1() - (-shape * u).exp() / below
            return u.expm1().log() - below.log() - target, slope

        low, high = -46.0, 12.0  # of log u
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if value_and_slope(Ball(math.exp(middle)))[0] < 0 else (low, middle)
        return proved_root(value_and_slope, math.exp(low))

    def log_density(self) -> Callable[[Ball], Ball]:
        odds, power, mean = self.log_odds().expm1(), ball(self.shape + 1), ball(self.mean)
        return lambda x: mean.log() - power * (odds * x).log1p()


@dataclass(frozen=True)
class BinomialRuns(Rule):
    """The best of the runs of which each of ``most`` takes place with a probability below 1."""

    most: int
    probability: Fraction

    @property
    def factor(self) -> Fraction:
        return self.most * self.probability

    def log_density(self) -> Callable[[Ball], Ball]:
        mean, chance, others = ball(self.factor), ball(self.probability), self.most - 1
        return lambda x: mean.log() + others * (-chance * x).log1p()


@dataclass(frozen=True)
class UntilGood(Rule):
    """The first good run: after each other one, there is no further one with probability ``stop``."""

    stop: Fraction

    @property
    def factor(self) -> Fraction:
        return 1 / self.stop

    def log_density(self) -> Callable[[Ball], Ball]:
        stop, on = ball(self.stop), ball(1 - self.stop)
        return lambda x: -(stop + on * x).log()


@dataclass(frozen=True)
class Selection(LossLaw, ExactLaw):
    """The law of one selected output, in one direction: a strict proof bounds it by proved points of one run
    in both. No sample can be drawn of it.
    """

    rule: Rule
    steps: tuple[Step, ...]  # the laws of one run in this direction
    reverse: tuple[Step, ...]  # and in the other

    @property
    def compositions(self) -> tuple[tuple[Step, ...], ...]:
        return self.steps, self.reverse

    def greatest(self) -> Ball:
        return Ball.pos_inf()

    def describe(self) -> str:
        return f"the best of several runs ({type(self.rule).__name__})"
