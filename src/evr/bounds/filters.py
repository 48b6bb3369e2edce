"""A budget that is spent as one goes: noise may be chosen from earlier outputs (docs/guarantees_relations.md, Section
R4).

Composition wants parameters that are fixed in advance. A filter wants a budget that is fixed in advance instead, and
refuses the step that would exceed it. Everything that decides is an integer or a rational number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, TypeAlias

from dp_accounting import NeighboringRelation, dp_event
from flint import fmpz

from evr import validate
from evr.bounds.strict.balls import integer_above
from evr.bounds.strict.bound import one_step_delta
from evr.errors import BudgetExceededError, UnsupportedEventError
from evr.laws import Direction
from evr.laws.exact import (
    Ball,
    ExactDiscreteGaussian,
    ExactGaussian,
    ExactLaplace,
    ExactLaw,
    ExactOutcomes,
    SampledCurve,
    SampledOutcomes,
)
from evr.laws.exact.law import ball
from evr.mechanisms import Composition
from evr.mechanisms.registry import known
from evr.mechanisms.relations import ADD_OR_REMOVE, Relation, relation_named

BITS = 96
"""Logarithms of moments are integers in units of ``2^-BITS``, rounded up."""
ORDERS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256)
"""Of the Renyi filter: Renyi orders less 1."""
_MAIN = Fraction(9, 10)  # of delta: the part of one order, the likeliest to decide
# Adaptive budgets in ledgers rest on orders and parts. A version that changes either needs another kind of budget.
_LOG_SQUARES = (-80.0, 40.0)  # of sensitivity over noise: what budgets are looked for among
_CLOSE = 1e-13

Amounts: TypeAlias = "list[Fraction | int]"
"""What is spent: at each order, or of squares one. A budget is kept if it is kept in one of them."""


def squares(relation: NeighboringRelation, event: dp_event.DpEvent) -> Amounts:
    """The square of sensitivity over noise of Gaussian mechanisms (Section R4.1)."""
    square = Fraction(0)
    for step in Composition.of(event, relation).exact(Direction.REMOVE):
        if not isinstance(step.exact_law, ExactGaussian):
            found = f"method='gaussian' takes Gaussian mechanisms, not {step.exact_law!r}: use method='renyi'"
            raise UnsupportedEventError(found, event)
        square += step.count * step.exact_law.square
    return [square]


def square_within(epsilon: float, delta: float) -> Fraction:
    """A square that keeps the budget: by bisection of its logarithm, whose lower end is proved to keep it."""
    bits, (low, high) = 64 - math.frexp(delta)[1], _LOG_SQUARES
    while high - low > _CLOSE:
        middle = (low + high) / 2
        law = ExactGaussian(Fraction(math.exp(middle)))
        kept = one_step_delta(law, Fraction(epsilon), bits) <= Fraction(delta)
        low, high = (middle, high) if kept else (low, middle)
    return Fraction(math.exp(low)) if low > _LOG_SQUARES[0] else Fraction(0)


def log_moments(relation: NeighboringRelation, orders: tuple[int, ...], event: dp_event.DpEvent) -> Amounts | None:
    """At least ``log E[e^{a loss}]`` at each order ``a`` (Section R4.2), whatever came before, in units of ``2^-BITS``;
    None where one is infinite.
    """
    total: Amounts = [0] * len(orders)
    for part, count in _parts(event):
        for place, order in enumerate(orders):
            found = _part_moment(part, relation, order)
            if found is None:
                return None
            total[place] += count * found
    return total


def _part_moment(event: dp_event.DpEvent, relation: NeighboringRelation, order: int) -> int | None:
    """The greater of both directions."""
    if isinstance(event, dp_event.ZCDpEvent):
        rho = Fraction(validate.non_negative(rho=event.rho))
        xi = Fraction(validate.non_negative(xi=event.xi))
        return math.ceil(order * (xi + rho * (1 + order)) * 2**BITS)
    sums = []
    for steps in Composition.of(event, relation).exact_directions().values():
        moments = [(step.count, log_moment(step.exact_law, order)) for step in steps]
        if any(moment is None for _, moment in moments):
            return None
        sums.append(sum(count * (moment or 0) for count, moment in moments))
    return max(sums)


@lru_cache(maxsize=4096)
def log_moment(law: ExactLaw, order: int) -> int | None:
    """At least ``log E_P[e^{order loss}]`` of one step in units of ``2^-BITS``, by closed forms that balls enclose
    (Section R4.3); None where it is infinite. A law without one is refused.

    >>> from fractions import Fraction
    >>> log_moment(ExactGaussian(Fraction(1, 4)), 3) / 2**BITS
    1.5
    """
    # a discrete Gaussian's sets say that its tail is infinite, which has a closed form
    sets = law.sets() if isinstance(law, ExactOutcomes) and not _is_symmetric(law) else ()
    if any(one.loss == Ball.pos_inf() and not one.p.is_zero() for one in sets):
        return None
    return integer_above(partial(_log_moment_ball, law, order), BITS)


def _is_symmetric(law: ExactLaw) -> bool:
    """Whether a reflection swaps ``P`` and ``Q``, of the law or of what is sampled."""
    base = law.base if isinstance(law, SampledCurve | SampledOutcomes) else law
    return isinstance(base, ExactGaussian | ExactLaplace | ExactDiscreteGaussian)


def _log_moment_ball(law: ExactLaw, order: int) -> Ball:
    if isinstance(law, SampledCurve | SampledOutcomes) and _is_symmetric(law):
        return _sampled(law, order).log()  # that of the remove direction serves both
    if isinstance(law, ExactGaussian):
        return ball(law.square * order * (order + 1) / 2)
    if isinstance(law, ExactDiscreteGaussian):
        return ball(law.sensitivity**2 / law.sigma**2 * order * (order + 1) / 2)
    if isinstance(law, ExactLaplace):
        up, down = (ball(x / law.scale).exp() for x in (order, -order - 1))
        return (((order + 1) * up + order * down) / (2 * order + 1)).log()
    if isinstance(law, ExactOutcomes):
        sets = [one for one in law.sets() if not one.p.is_zero()]
        return sum((one.p * (order * one.loss).exp() for one in sets), Ball(0)).log()
    raise UnsupportedEventError(
        f"no moments of {law!r} are proved here: method='renyi' takes Gaussian, Laplace and "
        "discrete mechanisms, these with Poisson sampling, and ZCDpEvent"
    )


def _sampled(law: SampledCurve | SampledOutcomes, order: int) -> Ball:
    """``E_Q[(1 - q + q dP/dQ)^{order + 1}]``, by the binomial theorem."""
    power, q, rest = order + 1, ball(law.q), ball(1 - law.q)
    terms = (
        Ball(fmpz(math.comb(power, k)))
        * rest ** (power - k)
        * q**k
        * (_log_moment_ball(law.base, k - 1).exp() if k > 1 else Ball(1))
        for k in range(power + 1)
    )
    return sum(terms, Ball(0))


def log_moment_within(order: int, epsilon: float, delta: Fraction) -> int:
    """A logarithm of a moment that keeps the budget, rounded down."""

    def lowered() -> Ball:
        share = ball(delta).log() + ball(order * Fraction(epsilon))
        return -(share + (1 + order) * Ball(1 + order).log() - order * Ball(order).log())

    return -integer_above(lowered, BITS)


def parts_of_delta(orders: Sequence[int], epsilon: float, delta: float) -> list[Fraction]:
    """The part of delta that each order has: most of it the order that lets Gaussian mechanisms spend most. Any parts
    will do that are fixed in advance and sum to 1.
    """
    if len(orders) == 1:
        return [Fraction(1)]
    room = [
        (math.log(delta) + a * epsilon + (1 + a) * math.log(1 + a) - a * math.log(a)) / (a * (a + 1)) for a in orders
    ]
    rest = (1 - _MAIN) / (len(room) - 1)
    return [_MAIN if place == room.index(max(room)) else rest for place in range(len(room))]


def _parts(event: Any) -> Iterator[tuple[dp_event.DpEvent, int]]:
    """What a step is composed of, with counts, as far as that is said at its top."""
    stack = [(event, 1)]
    while stack:
        top, count = stack.pop()
        node = known(top)
        if isinstance(node, dp_event.ComposedDpEvent):
            stack += [(one, count) for one in reversed(validate.sequence(events=node.events))]
        elif isinstance(node, dp_event.SelfComposedDpEvent):
            stack.append((node.event, count * validate.positive_integer(count=node.count)))
        else:
            yield node, count


class PrivacyFilter:
    """A budget ``(epsilon, delta)`` that is spent as one goes, on steps that may be chosen from earlier outputs.

    Everything that ran is ``(epsilon, delta)``-DP, however the steps were chosen, if each was spent *before* it ran.
    The proof is docs/guarantees_relations.md, Section R4: what a step costs is enclosed in balls and rounded up, the
    budget is rounded down, and sums are exact. A step that does not fit is refused and costs nothing; a smaller one may
    follow.

    Parameters
    ----------
    epsilon, delta
        The budget, both above 0.
    method
        ``"renyi"``: Gaussian, Laplace and discrete mechanisms, these with Poisson sampling, and ``ZCDpEvent``; it pays
        for the conversion from moments. ``"gaussian"``: Gaussian mechanisms only, and tight: choosing noise along the
        way costs nothing.
    neighboring_relation
        As of ``evr.estimate_delta``.
    orders
        Of ``"renyi"``: Renyi orders less 1, whole numbers. Fewer cost less; they have to be fixed in advance.

    Examples
    --------
    >>> import evr
    >>> from dp_accounting import dp_event
    >>> budget = PrivacyFilter(epsilon=1.0, delta=1e-6, method="gaussian")
    >>> budget.spend(dp_event.GaussianDpEvent(6.0))
    >>> budget
    PrivacyFilter(epsilon=1.0, delta=1e-06, used=0.4958)
    >>> budget.fits(dp_event.GaussianDpEvent(5.0)), budget.fits(dp_event.GaussianDpEvent(6.0))
    (False, True)
    >>> budget.spend(dp_event.GaussianDpEvent(5.0))
    Traceback (most recent call last):
    ...
    evr.errors.BudgetExceededError: GaussianDpEvent(noise_multiplier=5.0) would use ...
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        method: str = "renyi",
        neighboring_relation: Relation = ADD_OR_REMOVE,
        orders: Sequence[int] | None = None,
    ) -> None:
        self.epsilon = validate.positive(epsilon=epsilon)
        self.delta = validate.open_probability(delta=delta)
        gaussian = validate.one_of(("renyi", "gaussian"), method=method) == "gaussian"
        if gaussian and orders is not None:
            raise TypeError(f"orders={orders!r} belong to method='renyi'")
        chosen = tuple(validate.positive_integer(orders=a) for a in (ORDERS if orders is None else orders))
        if not chosen:
            raise ValueError("orders=() is empty: give at least one")
        relation, parts = relation_named(neighboring_relation), parts_of_delta(chosen, self.epsilon, self.delta)
        self._cost = partial(squares, relation) if gaussian else partial(log_moments, relation, chosen)
        self._budget: Amounts = (
            [square_within(self.epsilon, self.delta)]
            if gaussian
            else [
                log_moment_within(order, self.epsilon, part * Fraction(self.delta))
                for order, part in zip(chosen, parts, strict=True)
            ]
        )
        self._spent: Amounts = [0] * len(self._budget)

    def __repr__(self) -> str:
        return f"PrivacyFilter(epsilon={self.epsilon!r}, delta={self.delta!r}, used={self.used:.4g})"

    def _used(self, spent: Amounts) -> Fraction | float:
        """The part of the budget that would be spent, exactly: at most 1 if it is kept."""
        if not any(spent):
            return Fraction(0)
        pairs = zip(spent, self._budget, strict=True)
        return min((Fraction(cost) / most for cost, most in pairs if most > 0), default=math.inf)

    @property
    def used(self) -> float:
        """The part of the budget that is spent."""
        return _as_float(self._used(self._spent))

    def _after(self, event: dp_event.DpEvent) -> tuple[Amounts, Fraction | float]:
        cost = self._cost(event)
        if cost is None:
            return self._spent, math.inf
        spent = [one + more for one, more in zip(self._spent, cost, strict=True)]
        return spent, self._used(spent)

    def would_use(self, event: dp_event.DpEvent) -> float:
        """The part of the budget that would be spent with a step: above 1 if it does not fit."""
        return _as_float(self._after(event)[1])

    def fits(self, event: dp_event.DpEvent) -> bool:
        """Whether a step could be spent."""
        return self._after(event)[1] <= 1

    def spend(self, event: dp_event.DpEvent) -> None:
        """Count a step, before it runs; raise ``BudgetExceededError``, and count nothing, if it does not fit."""
        spent, used = self._after(event)
        if not used <= 1:
            raise BudgetExceededError(
                f"{validate.shown(event)} would use {_as_float(used):.4g} of the budget ({self.epsilon!r}, "
                f"{self.delta!r}), of which {self.used:.4g} is spent: it was not counted, and must not run. Take more "
                "noise, or stop"
            )
        self._spent = spent


def _as_float(used: Fraction | float) -> float:
    return math.inf if used > 10**300 else float(used)
