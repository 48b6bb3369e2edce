"""Exact laws: rational parameters, and balls that enclose the numbers they determine. The precision decides
how narrow a ball is, and never whether it is right. Floats only say where a search begins, or which of many
valid parameters is taken: what is found is enclosed anew, or proved by a bracket (``proved_root``).
"""

import abc
import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from flint import arb, ctx, fmpq

from evr._kernel.pairs.law import check_final

if TYPE_CHECKING:
    from evr._kernel.pairs.steps import Step

Ball: TypeAlias = arb
"""An interval that holds a real number: a midpoint and a radius."""

LOCK = threading.RLock()
"""Held by the thread whose precision it is, and while a budget or an accountant counts."""
if hasattr(os, "register_at_fork"):  # a child must not inherit a lock that another thread held
    os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release)


@contextlib.contextmanager
def at_precision(bits: int) -> Iterator[None]:
    """Balls of so many bits, and power series with as many terms as they need. flint has one precision for
    the whole process: other threads wait for theirs.
    """
    with LOCK:
        before, ctx.prec, ctx.cap = (ctx.prec, ctx.cap), bits, 12 + bits // 5
        try:
            yield
        finally:
            ctx.prec, ctx.cap = before


def ball(number: Fraction | int) -> Ball:
    """The number as a ball at the present precision."""
    return Ball(fmpq(number.numerator, number.denominator))


def integer_above(number: Ball) -> int:
    """The least integer that is not below the upper end of a ball."""
    found = number.upper().ceil().unique_fmpz()
    if found is None:
        raise ArithmeticError(f"{number} has no finite enclosure: raise the precision")
    return int(found)


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
    """One step in one direction, known exactly. Immutable, hashable, equal by value; abstract or final."""

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        check_final(cls, ExactLaw)

    @property
    def compositions(self) -> "tuple[tuple[Step, ...], ...]":
        """The compositions that the law is made of, each in its direction; most laws are made of none."""
        return ()

    @abc.abstractmethod
    def greatest(self) -> Fraction | Ball:
        """The greatest loss: a rational number where it is one, else a ball; may be infinite."""


class ExactCurve(ExactLaw):
    """A law known by its curve ``H_r = sup_A P(A) - r Q(A)``; of unbounded losses, unless it says so."""

    @abc.abstractmethod
    def curve(self) -> Callable[[Ball], Ball]:
        """The function from ``r > 0`` to ``H_r``, its constants enclosed at the present precision."""

    @property
    def is_analytic(self) -> bool:
        """Whether the curve takes power series too, about balls in which one formula holds."""
        return False

    def hockey_stick(self, epsilon: Fraction) -> Ball:
        """``H_r`` at ``r = e^epsilon``."""
        return self.curve()(ball(epsilon).exp())

    def least(self) -> Ball:
        """The least loss, or less."""
        return Ball.neg_inf()

    def greatest(self) -> Fraction | Ball:
        return Ball.pos_inf()


class OutcomeSet(NamedTuple):
    """Outcomes put together: their probability under ``P`` and ``Q``, and a loss that none exceeds."""

    p: Ball
    q: Ball
    loss: Ball


class ExactOutcomes(ExactLaw):
    """A law on outcomes, given as sets that together hold all of ``P`` and all of ``Q``."""

    @abc.abstractmethod
    def sets(self) -> list[OutcomeSet]:
        """The sets, enclosed at the present precision; infinite losses are infinite balls."""

    def checked_sets(self) -> list[OutcomeSet]:
        """The sets; refused if they surely leave out some of ``P`` or ``Q``, have a negative mass or exceed
        the loss that they state.
        """
        found, zero = self.sets(), Ball(0)
        for name, masses in (("P", [one.p for one in found]), ("Q", [one.q for one in found])):
            if (total := sum(masses, zero)) < 1 or any(mass < zero for mass in masses):
                held = f"sets of {type(self).__name__} hold {total.str(9, radius=False)} of {name}"
                remedy = "together they must hold all of P and of Q, outcomes that only Q has included"
                raise ValueError(f"{held}, or a negative mass: {remedy}")
        if any(one.p * (-one.loss).exp() > one.q for one in found):
            why = f"a set of {type(self).__name__} has more of P than e^loss times its Q"
            raise ValueError(f"{why}: state a loss that none of its outcomes exceeds")
        return found

    def sets_beyond(self, epsilon: Fraction) -> list[OutcomeSet]:
        """The sets whose losses may exceed epsilon, and perhaps others."""
        return self.checked_sets()

    def hockey_stick(self, epsilon: Fraction) -> Ball:
        """At least ``sup_A P(A) - e^epsilon Q(A)``, which it is where each set has one loss."""
        held = (one for one in self.sets_beyond(epsilon) if not one.p.is_zero())
        return sum((one.p * Ball(0).max(1 - (ball(epsilon) - one.loss).exp()) for one in held), Ball(0))

    def greatest(self) -> Fraction | Ball:
        return reduce(Ball.max, (one.loss for one in self.checked_sets() if not one.p.is_zero()))
