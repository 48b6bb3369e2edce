"""Budgets that are spent as one goes: noise may be chosen from earlier outputs
(docs/guarantees_relations.md, Section R4).

Composition wants parameters that are fixed in advance. A filter wants a budget that is fixed in
advance instead, and refuses the step that would exceed it. An odometer refuses nothing, and shows
what was spent.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, Generic, TypeVar

import numpy as np
from dp_accounting import NeighboringRelation, dp_event
from scipy.optimize import brentq

from evr import validate
from evr.bounds.moments import log_peak
from evr.errors import BudgetExceededError, UnsupportedEventError
from evr.estimation.discretise import log_mgf
from evr.laws import Direction, DominatingPair, Floats
from evr.laws.exact import ExactGaussian
from evr.laws.line.gaussian import GaussianPair
from evr.mechanisms import Composition
from evr.mechanisms.relations import ADD_OR_REMOVE, Relation, relation_named

ORDERS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
"""Of the Renyi filter: Renyi orders less 1."""

_MARGIN = 1e-9  # by which budgets are lowered and moments raised, relative
_NUMERICAL = 1e-10  # absolute, of a moment that has no closed form
_LEVELS = 200
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
    def cost(self, event: dp_event.DpEvent) -> _Cost:
        """What a step costs, whatever came before."""

    @abc.abstractmethod
    def budget(self, epsilon: float, delta: float) -> _Cost:
        """What may be spent in all."""

    @abc.abstractmethod
    def used(self, spent: _Cost, budget: _Cost) -> float:
        """The part of a budget that is spent: at most 1 if it is kept."""


class _Squares(_Currency[Fraction]):
    """Squares of sensitivity over noise of Gaussian mechanisms (Section R4.1)."""

    @property
    def nothing(self) -> Fraction:
        return Fraction(0)

    def cost(self, event: dp_event.DpEvent) -> Fraction:
        steps = Composition.of(event, self.relation).exact(Direction.REMOVE)
        square = Fraction(0)
        for step in steps:
            if not isinstance(step.law, ExactGaussian):
                raise UnsupportedEventError(
                    f"method='gaussian' takes Gaussian mechanisms, without sampling; found "
                    f"{step.law!r}. Use method='renyi'",
                    event,
                )
            square += step.count * step.law.square
        return square

    def budget(self, epsilon: float, delta: float) -> Fraction:
        def gap(log_mu: float) -> float:
            return GaussianPair(math.exp(log_mu)).delta(epsilon) - delta

        log_mu = float(brentq(gap, -40.0, 20.0, xtol=1e-14, rtol=1e-14))
        return Fraction(math.exp(2 * log_mu) * (1.0 - _MARGIN))

    def used(self, spent: Fraction, budget: Fraction) -> float:
        return float(spent / budget)


class _Moments(_Currency[Floats]):
    """Bounds on ``log E[e^{a loss}]`` at fixed orders ``a`` (Section R4.2)."""

    def __init__(self, relation: NeighboringRelation, orders: Sequence[float]) -> None:
        super().__init__(relation)
        self.orders = tuple(validate.positive(orders=a) for a in orders)
        if not self.orders:
            raise ValueError("orders=() is empty: give at least one")

    @property
    def nothing(self) -> Floats:
        return np.zeros(len(self.orders))

    def cost(self, event: dp_event.DpEvent) -> Floats:
        total = self.nothing
        for part, count in _parts(event):
            total = total + count * self._of(part)
        return total

    def _of(self, event: dp_event.DpEvent) -> Floats:
        a = np.array(self.orders)
        if isinstance(event, dp_event.ZCDpEvent):
            rho = validate.non_negative(rho=event.rho)
            return a * (validate.non_negative(xi=event.xi) + rho * (1.0 + a)) * (1.0 + _MARGIN)
        composition = Composition.of(event, self.relation)
        sides = [
            sum(
                (
                    step.count * np.array([_raised(step.pair, order) for order in self.orders])
                    for step in composition.simplified(direction)
                ),
                self.nothing,
            )
            for direction in Direction
        ]
        return np.maximum(*sides)

    def budget(self, epsilon: float, delta: float) -> Floats:
        share = math.log(delta) - math.log(len(self.orders))
        budgets = [share + a * epsilon - log_peak(a) for a in self.orders]
        return np.array([value - _MARGIN * abs(value) for value in budgets])

    def used(self, spent: Floats, budget: Floats) -> float:
        if not np.any(spent):
            return 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.min(np.where(budget > 0, spent / budget, np.inf)))


def _parts(event: Any) -> Iterator[tuple[dp_event.DpEvent, int]]:
    """What a step is composed of, with counts, as far as that is said at its top."""
    stack = [(event, 1)]
    while stack:
        node, count = stack.pop()
        if isinstance(node, dp_event.ComposedDpEvent):
            stack += [(one, count) for one in reversed(validate.sequence(events=node.events))]
        elif isinstance(node, dp_event.SelfComposedDpEvent):
            stack.append((node.event, count * validate.positive_integer(count=node.count)))
        else:
            yield node, count


@lru_cache(maxsize=4096)
def _raised(pair: DominatingPair, order: float) -> float:
    """``log E_P[e^{order loss}]``, not below it."""
    value = log_mgf(pair, order)
    closed = isinstance(pair, GaussianPair)
    return max(0.0, value) * (1.0 + _MARGIN) + (0.0 if closed else _NUMERICAL)


def _currency(
    method: str, relation: Relation, orders: Sequence[float] | None
) -> _Squares | _Moments:
    if validate.one_of(("renyi", "gaussian"), method=method) == "renyi":
        return _Moments(relation_named(relation), ORDERS if orders is None else orders)
    if orders is not None:
        raise TypeError(f"orders={orders!r} belong to method='renyi'")
    return _Squares(relation_named(relation))


class PrivacyFilter:
    """A budget ``(epsilon, delta)`` that is spent as one goes, on steps that may be chosen from
    earlier outputs.

    Everything that ran is ``(epsilon, delta)``-DP, however the steps were chosen, if each was spent
    *before* it ran (docs/guarantees_relations.md, Section R4). A step that does not fit is refused
    and costs nothing; a smaller one may follow.

    Parameters
    ----------
    epsilon, delta
        The budget, both above 0.
    method
        ``"renyi"``: any mechanism on a line, sampled ones too, and ``ZCDpEvent``; it pays for the
        conversion from moments. ``"gaussian"``: Gaussian mechanisms only, and tight: choosing noise
        along the way costs nothing.
    neighboring_relation
        As of ``evr.estimate_delta``.
    orders
        Of ``"renyi"``: Renyi orders less 1. Fewer cost less; they have to be fixed in advance.

    Examples
    --------
    >>> import evr
    >>> from dp_accounting import dp_event
    >>> budget = evr.PrivacyFilter(epsilon=1.0, delta=1e-6, method="gaussian")
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
        orders: Sequence[float] | None = None,
    ) -> None:
        self.epsilon = validate.positive(epsilon=epsilon)
        self.delta = validate.open_probability(delta=delta)
        self._currency: Any = _currency(method, neighboring_relation, orders)
        self._budget = self._currency.budget(self.epsilon, self.delta)
        self._spent = self._currency.nothing

    @property
    def used(self) -> float:
        """The part of the budget that is spent."""
        return float(self._currency.used(self._spent, self._budget))

    def _after(self, event: dp_event.DpEvent) -> tuple[Any, float]:
        spent = self._spent + self._currency.cost(event)
        return spent, self._currency.used(spent, self._budget)

    def fits(self, event: dp_event.DpEvent) -> bool:
        """Whether a step could be spent."""
        return self._after(event)[1] <= 1.0

    def spend(self, event: dp_event.DpEvent) -> None:
        """Count a step, before it runs; raise ``BudgetExceededError``, and count nothing, if it
        does not fit.
        """
        spent, used = self._after(event)
        if not used <= 1.0:
            raise BudgetExceededError(
                f"{validate.shown(event)} would use {used:.4g} of the budget ({self.epsilon!r}, "
                f"{self.delta!r}), of which {self.used:.4g} is spent: it was not counted, and must "
                "not run. Take more noise, or stop"
            )
        self._spent = spent


class PrivacyOdometer:
    """What was spent so far, on steps that may be chosen from earlier outputs.

    Whenever one stops, and whatever that depends on, ``epsilon`` is a level such that all events of
    the outputs have probability at most ``E[e^epsilon; event] + delta`` (Section R4.3). The levels
    are fixed in advance, and the price of not knowing the budget is a smaller delta for each.

    Parameters
    ----------
    delta
        In (0, 1).
    levels
        Epsilons in rising order; by default 200 from 0.1, each a quarter above the one before.
    method, neighboring_relation, orders
        As of ``PrivacyFilter``.

    Examples
    --------
    >>> import evr
    >>> from dp_accounting import dp_event
    >>> odometer = evr.PrivacyOdometer(delta=1e-6, method="gaussian", levels=[0.5, 1.0, 2.0])
    >>> odometer.spend(dp_event.GaussianDpEvent(12.0))
    >>> odometer.epsilon
    0.5
    >>> odometer.spend(dp_event.GaussianDpEvent(8.0))
    >>> odometer.epsilon
    1.0
    """

    def __init__(
        self,
        *,
        delta: float,
        levels: Sequence[float] | None = None,
        method: str = "renyi",
        neighboring_relation: Relation = ADD_OR_REMOVE,
        orders: Sequence[float] | None = None,
    ) -> None:
        self.delta = validate.open_probability(delta=delta)
        chosen = [0.1 * 1.25**j for j in range(_LEVELS)] if levels is None else list(levels)
        self.levels = tuple(validate.positive(levels=one) for one in chosen)
        if not self.levels or list(self.levels) != sorted(set(self.levels)):
            raise ValueError(f"levels={levels!r} do not rise: give epsilons in rising order")
        self._currency: Any = _currency(method, neighboring_relation, orders)
        self._spent = self._currency.nothing

    def spend(self, event: dp_event.DpEvent) -> None:
        """Count a step, before it runs."""
        self._spent = self._spent + self._currency.cost(event)

    @property
    def epsilon(self) -> float:
        """The least level whose budget is kept; infinite if none is."""
        if self._currency.used(self._spent, self._currency.budget(1.0, 0.5)) == 0.0:
            return 0.0
        for number, level in enumerate(self.levels, start=1):
            share = self.delta * 6.0 / (math.pi * number) ** 2
            if self._currency.used(self._spent, self._currency.budget(level, share)) <= 1.0:
                return level
        return math.inf
