"""A budget that is spent as one goes: noise may be chosen from earlier outputs (docs/guarantees_relations.md, Section
R4).

Composition wants parameters that are fixed in advance. A filter wants a budget that is fixed in advance instead, and
refuses the step that would exceed it. Everything that decides is an integer or a rational number.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
from dp_accounting import NeighboringRelation, dp_event

from evr import validate
from evr.bounds.renyi import BITS, log_moment
from evr.bounds.strict.balls import integer_above
from evr.bounds.strict.bound import one_step_delta
from evr.errors import BudgetExceededError, UnsupportedEventError
from evr.laws import Direction
from evr.laws.exact import Ball, ExactGaussian
from evr.laws.exact.law import ball
from evr.mechanisms import Composition
from evr.mechanisms.registry import known
from evr.mechanisms.relations import ADD_OR_REMOVE, Relation, relation_named

ORDERS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Of the Renyi filter: Renyi orders less 1."""
_LOG_SQUARES = (-80.0, 40.0)  # of sensitivity over noise: what budgets are looked for among
_CLOSE = 1e-13

_Cost = TypeVar("_Cost")


class _Currency(abc.ABC, Generic[_Cost]):
    """What privacy is counted in."""

    def __init__(self, relation: NeighboringRelation) -> None:
        self.relation = relation

    @property
    @abc.abstractmethod
    def nothing(self) -> _Cost:
        """The cost of no step."""

    @abc.abstractmethod
    def cost(self, event: dp_event.DpEvent) -> _Cost | None:
        """What a step costs at the most, whatever came before; None if it exceeds every budget."""

    @abc.abstractmethod
    def budget(self, epsilon: float, delta: float) -> _Cost:
        """What may be spent in all."""

    @abc.abstractmethod
    def used(self, spent: _Cost, budget: _Cost) -> Fraction | float:
        """The part of a budget that is spent, exactly: at most 1 if it is kept."""


class _Squares(_Currency[Fraction]):
    """Squares of sensitivity over noise of Gaussian mechanisms (Section R4.1)."""

    @property
    def nothing(self) -> Fraction:
        return Fraction(0)

    def cost(self, event: dp_event.DpEvent) -> Fraction:
        steps = Composition.of(event, self.relation).exact(Direction.REMOVE)
        square = Fraction(0)
        for step in steps:
            if not isinstance(step.exact_law, ExactGaussian):
                raise UnsupportedEventError(
                    f"method='gaussian' takes Gaussian mechanisms, without sampling; found "
                    f"{step.exact_law!r}. Use method='renyi'",
                    event,
                )
            square += step.count * step.exact_law.square
        return square

    def budget(self, epsilon: float, delta: float) -> Fraction:
        """By bisection of a logarithm; the lower end is proved to be kept."""
        bits, (low, high) = 64 - math.frexp(delta)[1], _LOG_SQUARES
        while high - low > _CLOSE:
            middle = (low + high) / 2
            law = ExactGaussian(Fraction(math.exp(middle)))
            kept = one_step_delta(law, Fraction(epsilon), bits) <= Fraction(delta)
            low, high = (middle, high) if kept else (low, middle)
        return Fraction(math.exp(low)) if low > _LOG_SQUARES[0] else Fraction(0)

    def used(self, spent: Fraction, budget: Fraction) -> Fraction | float:
        if not spent:
            return Fraction(0)
        return spent / budget if budget else math.inf


class _Moments(_Currency[Any]):
    """Bounds on ``log E[e^{a loss}]`` at fixed orders ``a`` (Section R4.2): arrays of integers, in units of
    ``2^-BITS``.
    """

    def __init__(self, relation: NeighboringRelation, orders: Sequence[int]) -> None:
        super().__init__(relation)
        self.orders = tuple(validate.positive_integer(orders=a) for a in orders)
        if not self.orders:
            raise ValueError("orders=() is empty: give at least one")

    @property
    def nothing(self) -> Any:
        return np.array([0] * len(self.orders), dtype=object)

    def cost(self, event: dp_event.DpEvent) -> Any:
        total = self.nothing
        for part, count in _parts(event):
            found = [self._of(part, order) for order in self.orders]
            if None in found:
                return None
            total = total + count * np.array(found, dtype=object)
        return total

    def _of(self, event: dp_event.DpEvent, order: int) -> int | None:
        if isinstance(event, dp_event.ZCDpEvent):
            rho = Fraction(validate.non_negative(rho=event.rho))
            xi = Fraction(validate.non_negative(xi=event.xi))
            return math.ceil(order * (xi + rho * (1 + order)) * 2**BITS)
        greatest = 0
        for steps in Composition.of(event, self.relation).exact_directions().values():
            total = 0
            for step in steps:
                moment = log_moment(step.exact_law, order)
                if moment is None:
                    return None
                total += step.count * moment
            greatest = max(greatest, total)
        return greatest

    def budget(self, epsilon: float, delta: float) -> Any:
        def lowered(a: int) -> Ball:
            share = ball(Fraction(delta) / len(self.orders)).log() + ball(a * Fraction(epsilon))
            return -(share + (1 + a) * Ball(1 + a).log() - a * Ball(a).log())

        found = [-integer_above(partial(lowered, a), BITS) for a in self.orders]
        return np.array(found, dtype=object)

    def used(self, spent: Any, budget: Any) -> Fraction | float:
        if not any(spent):
            return 0.0
        pairs = zip(spent, budget, strict=True)
        return min((Fraction(cost, most) for cost, most in pairs if most > 0), default=math.inf)


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


def _currency(method: str, relation: Relation, orders: Sequence[int] | None) -> _Squares | _Moments:
    if validate.one_of(("renyi", "gaussian"), method=method) == "renyi":
        return _Moments(relation_named(relation), ORDERS if orders is None else orders)
    if orders is not None:
        raise TypeError(f"orders={orders!r} belong to method='renyi'")
    return _Squares(relation_named(relation))


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
    >>> round(budget.used, 3)
    0.496
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
        self._currency: Any = _currency(method, neighboring_relation, orders)
        self._budget = self._currency.budget(self.epsilon, self.delta)
        self._spent = self._currency.nothing

    @property
    def used(self) -> float:
        """The part of the budget that is spent."""
        return _as_float(self._currency.used(self._spent, self._budget))

    def _after(self, event: dp_event.DpEvent) -> tuple[Any, Fraction | float]:
        cost = self._currency.cost(event)
        if cost is None:
            return self._spent, math.inf
        spent = self._spent + cost
        return spent, self._currency.used(spent, self._budget)

    def fits(self, event: dp_event.DpEvent) -> bool:
        """Whether a step could be spent."""
        return self._after(event)[1] <= 1

    def spend(self, event: dp_event.DpEvent) -> None:
        """Count a step, before it runs; raise ``BudgetExceededError``, and count nothing, if it does not fit."""
        spent, used = self._after(event)
        if not used <= 1:
            raise BudgetExceededError(
                f"{validate.shown(event)} would use {_as_float(used):.4g} of the budget "
                f"({self.epsilon!r}, {self.delta!r}), of which {self.used:.4g} is spent: it was "
                "not counted, and must not run. Take more noise, or stop"
            )
        self._spent = spent


def _as_float(used: Fraction | float) -> float:
    return math.inf if used > 10**300 else float(used)
