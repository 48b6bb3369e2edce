"""Exact laws: rational parameters, and balls that enclose the numbers which they determine. The precision
(``flint.ctx.prec``, shared by all threads) decides how narrow a ball is, and never whether it is right.
"""

import abc
import math
from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from typing import NamedTuple, TypeAlias

from flint import arb, ctx, fmpq

from evr.laws.line.discrete import DiscretePair

Ball: TypeAlias = arb
"""An interval that holds a real number: a midpoint and a radius."""

_FLOAT_BITS = 256  # of balls that become floats: enough for ratios that are close to 1


def ball(number: Fraction | int) -> Ball:
    """The number as a ball at the present precision."""
    return Ball(fmpq(number.numerator, number.denominator))


def integer_above(number: Ball) -> int:
    """The least integer that is not below the upper end of a ball."""
    found = number.upper().ceil().unique_fmpz()
    if found is None:
        raise ArithmeticError(f"{number} has no finite enclosure: raise the precision")
    return int(found)


def float_log(number: Ball) -> float:
    """The logarithm of a number that is not negative, as a float."""
    return -math.inf if number.is_zero() else float(number.log())


def proved_root(function: Callable[[Ball], tuple[Ball, Ball]], start: float) -> Ball:
    """The root of a rising function, given by value and slope: by Newton's method, proved by a bracket."""
    t = Ball(start)
    for _ in range(max(1, ctx.prec.bit_length() - 5)):
        value, slope = function(t)
        t = (t - value / slope).mid()
    width = Ball(2) ** (8 - ctx.prec) * (1 + abs(t))
    for _ in range(ctx.prec):
        low, high = (t - width).lower(), (t + width).upper()
        if function(low)[0] < 0 and function(high)[0] > 0:
            return low.union(high)
        width = width * 4
    raise ArithmeticError(f"no bracket proves a root near {t}: raise the precision")


class ExactLaw(abc.ABC):
    """One step in one direction, known exactly. Immutable, hashable, comparable by value."""

    @abc.abstractmethod
    def greatest(self) -> Fraction | Ball:
        """The greatest loss: a rational number where it is one, else a ball; may be infinite."""


class ExactCurve(ExactLaw):
    """A law that is known by its curve ``H_r = sup_A P(A) - r Q(A)``; of unbounded losses, unless it says so."""

    @abc.abstractmethod
    def curve(self) -> Callable[[Ball], Ball]:
        """The function from ``r > 0`` to ``H_r``, its constants enclosed at the present precision."""

    def least(self) -> Ball:
        """The least loss, or less."""
        return Ball.neg_inf()

    def greatest(self) -> Fraction | Ball:
        return Ball.pos_inf()


class OutcomeSet(NamedTuple):
    """Outcomes that are placed together: their probability under ``P`` and ``Q``, and a loss that none exceeds."""

    p: Ball
    q: Ball
    loss: Ball


class ExactOutcomes(ExactLaw):
    """A law on outcomes, given as sets that together hold all of ``P``."""

    @abc.abstractmethod
    def sets(self) -> list[OutcomeSet]:
        """The sets, enclosed at the present precision; infinite losses are infinite balls."""

    def sets_beyond(self, epsilon: Fraction) -> list[OutcomeSet]:
        """The sets whose losses may exceed epsilon, and perhaps others."""
        return self.sets()

    def in_floats(self) -> DiscretePair:
        """The same law as a pair in floats, for a law of few sets: each is one outcome."""
        with ctx.workprec(_FLOAT_BITS):
            rows = [(float_log(p), float_log(q), float(loss)) for p, q, loss in self.sets()]
            return DiscretePair.from_logs(*zip(*rows, strict=True))

    def greatest(self) -> Fraction | Ball:
        return reduce(Ball.max, (one.loss for one in self.sets() if not one.p.is_zero()))
