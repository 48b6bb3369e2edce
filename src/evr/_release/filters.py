"""A budget that is spent as one goes: noise may be chosen from earlier outputs (docs/guarantees_relations.md, Section
R4). Everything that decides is an integer or a rational number.
"""

import math
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

from dp_accounting import dp_event
from flint import fmpz

from evr._basics import validate
from evr._kernel.events.relations import ADD_OR_REMOVE, Relation, relation_named
from evr._kernel.events.walk import Walk
from evr._kernel.pairs import Direction, exact
from evr._kernel.pairs.exact.law import LOCK, Ball, ball
from evr._kernel.strict.rounding import units_above
from evr.errors import BudgetExceededError, UnsupportedEventError

BITS = 96
"""Logarithms of moments are integers in units of ``2^-BITS``, rounded up."""
ORDERS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256)
"""Renyi orders less 1. A budget is kept if it is kept at one of them."""
_MAIN = Fraction(9, 10)  # of delta: the part of one order, the likeliest to decide
# Adaptive budgets in ledgers rest on orders and parts. A version that changes either needs another kind of budget.


def log_moments(event: Any, walk: Walk) -> list[int] | None:
    """At least ``log E[e^{a loss}]`` at each order ``a`` (Section R4.2), whatever came before, in units of ``2^-BITS``;
    None where one is infinite. The greater moment of both directions counts.
    """
    total = [0] * len(ORDERS)
    for pairs, count in walk.counts(event):
        laws = {pairs.step(direction, count).exact_law for direction in Direction}
        if any(_has_infinite_loss(law) for law in laws):
            return None
        total = [cost + count * max(log_moment(law, a) for law in laws) for cost, a in zip(total, ORDERS, strict=True)]
    return total


@lru_cache(maxsize=512)
def _has_infinite_loss(law: exact.ExactLaw) -> bool:
    # sets of a discrete Gaussian or of zCDP say that the tail is infinite, which has a closed form
    closed = _is_symmetric(law) or isinstance(law, exact.ExactConcentrated)
    sets = law.checked_sets() if isinstance(law, exact.ExactOutcomes) and not closed else ()
    return any(one.loss == Ball.pos_inf() and not one.p.is_zero() for one in sets)


@lru_cache(maxsize=4096)
def log_moment(law: exact.ExactLaw, order: int) -> int:
    """At least ``log E_P[e^{order loss}]`` of one step, whose losses are finite, in units of ``2^-BITS``: by closed
    forms that balls enclose (Section R4.3). A law without one is refused.

    >>> log_moment(exact.ExactGaussian(Fraction(1, 4)), 3) / 2**BITS
    1.5
    """
    return units_above(partial(_log_moment_ball, law, order), BITS)


def _is_symmetric(law: exact.ExactLaw) -> bool:
    """Whether a reflection swaps ``P`` and ``Q``, of the law or of what is sampled."""
    base = law.base if isinstance(law, exact.SampledCurve | exact.SampledOutcomes) else law
    return isinstance(base, exact.ExactGaussian | exact.ExactLaplace | exact.ExactDiscreteGaussian)


def _log_moment_ball(law: exact.ExactLaw, order: int) -> Ball:
    if isinstance(law, exact.SampledCurve | exact.SampledOutcomes) and _is_symmetric(law):
        return _sampled(law, order).log()  # that of the remove direction serves both
    if isinstance(law, exact.ExactConcentrated):
        return ball(order * (law.xi + law.rho * (1 + order)))
    if isinstance(law, exact.ExactGaussian):
        return ball(law.square * order * (order + 1) / 2)
    if isinstance(law, exact.ExactDiscreteGaussian):
        return ball(law.sensitivity**2 / law.sigma**2 * order * (order + 1) / 2)
    if isinstance(law, exact.ExactLaplace):
        up, down = (ball(x / law.scale).exp() for x in (order, -order - 1))
        return (((order + 1) * up + order * down) / (2 * order + 1)).log()
    if isinstance(law, exact.ExactOutcomes):
        sets = [one for one in law.checked_sets() if not one.p.is_zero()]
        return sum((one.p * (order * one.loss).exp() for one in sets), Ball(0)).log()
    raise UnsupportedEventError(
        f"no moments of {law!r} are proved: a filter takes Gaussian, Laplace and discrete mechanisms, these with "
        "Poisson sampling, and ZCDpEvent"
    )


def _sampled(law: exact.SampledCurve | exact.SampledOutcomes, order: int) -> Ball:
    """``E_Q[(1 - q + q dP/dQ)^{order + 1}]``, by the binomial theorem."""
    n, q, rest = order + 1, ball(law.q), ball(1 - law.q)
    moments = [Ball(1), Ball(1), *(_log_moment_ball(law.base, k).exp() for k in range(1, n))]
    terms = (Ball(fmpz(math.comb(n, k))) * rest ** (n - k) * q**k * moments[k] for k in range(n + 1))
    return sum(terms, Ball(0))


def log_moment_within(order: int, epsilon: float, delta: Fraction) -> int:
    """A logarithm of a moment that keeps the budget, rounded down."""

    def lowered() -> Ball:
        share = ball(delta).log() + ball(order * Fraction(epsilon))
        return -(share + (1 + order) * Ball(1 + order).log() - order * Ball(order).log())

    return -units_above(lowered, BITS)


def budgets(epsilon: float, delta: float) -> list[int]:
    """What moments may add up to at each order. The order that lets Gaussian mechanisms spend most has most of delta;
    any parts will do that are fixed in advance and sum to 1.
    """
    room = [Fraction(log_moment_within(a, epsilon, Fraction(delta)), a * (a + 1)) for a in ORDERS]  # as on any machine
    parts = [(1 - _MAIN) / (len(ORDERS) - 1)] * len(ORDERS)
    parts[room.index(max(room))] = _MAIN
    return [log_moment_within(a, epsilon, part * Fraction(delta)) for a, part in zip(ORDERS, parts, strict=True)]


class PrivacyFilter:
    """A budget ``(epsilon, delta)`` that is spent as one goes, on steps that may be chosen from earlier outputs.

    Everything that ran is ``(epsilon, delta)``-DP, however the steps were chosen, if each was spent *before* it ran.
    The proof is docs/guarantees_relations.md, Section R4: what a step costs is enclosed in balls and rounded up, the
    budget is rounded down, and sums are exact. A step that does not fit is refused and costs nothing; a smaller one may
    follow. Steps are Gaussian, Laplace and discrete mechanisms, these with Poisson sampling, and ``ZCDpEvent``; all of
    them protect records, or all of them users.

    Parameters
    ----------
    epsilon, delta
        The budget, both above 0.
    neighboring_relation
        As of ``evr.estimate_delta``.

    Examples
    --------
    >>> import evr
    >>> from dp_accounting import dp_event
    >>> budget = PrivacyFilter(epsilon=1.0, delta=1e-6)
    >>> budget.spend(dp_event.GaussianDpEvent(7.0))
    >>> budget
    PrivacyFilter(epsilon=1.0, delta=1e-06, used=0.4288)
    >>> budget.fits(dp_event.GaussianDpEvent(5.0)), budget.fits(dp_event.GaussianDpEvent(7.0))
    (False, True)
    >>> budget.spend(dp_event.GaussianDpEvent(5.0))
    Traceback (most recent call last):
    ...
    evr.errors.BudgetExceededError: GaussianDpEvent(noise_multiplier=5.0) would use ...
    """

    def __init__(self, *, epsilon: float, delta: float, neighboring_relation: Relation = ADD_OR_REMOVE) -> None:
        self.epsilon = validate.positive(epsilon=epsilon)
        self.delta = validate.open_probability(delta=delta)
        self._relation = relation_named(neighboring_relation)
        self._budget = budgets(self.epsilon, self.delta)
        self._spent = [0] * len(ORDERS)
        self._units: dict[str, str] = {}  # whose data the steps protect, and which said so first

    def _walk(self) -> Walk:
        """Through a tree whose unit has to be that of the steps so far."""
        return Walk(self._relation, units=self._units)

    def __repr__(self) -> str:
        return f"PrivacyFilter(epsilon={self.epsilon!r}, delta={self.delta!r}, used={self.used:.4g})"

    def _used(self, spent: list[int] | None) -> Fraction | float:
        """The part of the budget that would be spent, exactly: at most 1 if the budget is kept."""
        if spent is None:
            return math.inf
        if not any(spent):
            return Fraction(0)
        pairs = zip(spent, self._budget, strict=True)
        return min((Fraction(cost, most) for cost, most in pairs if most > 0), default=math.inf)

    def _after(self, event: dp_event.DpEvent, walk: Walk) -> list[int] | None:
        """What is spent with one more step, whose unit the ``walk`` then knows; None if it is infinite."""
        cost = log_moments(event, walk)
        return None if cost is None else [one + more for one, more in zip(self._spent, cost, strict=True)]

    @property
    def used(self) -> float:
        """The part of the budget that is spent."""
        return _as_float(self._used(self._spent))

    def would_use(self, event: dp_event.DpEvent) -> float:
        """The part of the budget that would be spent with a step: above 1 if it does not fit."""
        return _as_float(self._used(self._after(event, self._walk())))

    def fits(self, event: dp_event.DpEvent) -> bool:
        """Whether a step could be spent."""
        return self._used(self._after(event, self._walk())) <= 1

    def spend(self, event: dp_event.DpEvent) -> None:
        """Count a step, before it runs; raise ``BudgetExceededError``, and count nothing, if it does not fit. Threads
        that spend of one budget take turns.
        """
        with LOCK:
            walk = self._walk()
            spent = self._after(event, walk)
            used = self._used(spent)
            if spent is None or used > 1:
                raise BudgetExceededError(
                    f"{validate.shown(event)} would use {_as_float(used):.4g} of the budget ({self.epsilon!r}, "
                    f"{self.delta!r}), of which {self.used:.4g} is spent: it was not counted, and must not run. Take "
                    "more noise, or stop"
                )
            self._spent, self._units = spent, walk.units


def _as_float(used: Fraction | float) -> float:
    return math.inf if used > 10**300 else float(used)
