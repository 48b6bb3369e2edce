"""The moments accountant: upper bounds on delta from the moment generating function of the privacy loss.

``rdp_delta`` and ``rdp_epsilon`` go through dp_accounting's RDP accountant on a ``DpEvent``. ``rdp_curve_delta`` works
on dominating pairs, for the events that accountant does not know. Both are true upper bounds, up to rounding; the
second optimises over all orders and is the tighter.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Iterator

import scipy
from dp_accounting import NeighboringRelation, dp_event, privacy_accountant
from dp_accounting.rdp import RdpAccountant

from evr import validate
from evr.bounds.moments import log_peak
from evr.errors import UnsupportedEventError
from evr.estimation.inversion import solve_epsilon
from evr.estimation.points import cell_edges, log_mgf, loss_points
from evr.laws import DominatingPair, Step, infinite_loss_mass, infinite_mass
from evr.laws.line.pair import log_sum_exp
from evr.mechanisms.relations import ADD_OR_REMOVE

_COARSE, _FINE = (2**10, 2**14)  # cells while searching for an order, and for the bound at the order found


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """dp_accounting warns of each order that it leaves out; the others bound what is asked for."""
    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _accountant(event: dp_event.DpEvent, relation: NeighboringRelation) -> RdpAccountant:
    try:
        return RdpAccountant(neighboring_relation=relation).compose(event)
    except privacy_accountant.UnsupportedEventError as error:
        raise UnsupportedEventError(f"dp_accounting's RDP accountant does not support this event: {error}") from None


def rdp_delta(event: dp_event.DpEvent, epsilon: float, relation: NeighboringRelation = ADD_OR_REMOVE) -> float:
    """An upper bound on ``delta(epsilon)`` in both directions, by dp_accounting at its own orders.

    Examples
    --------
    >>> from evr.events import dpsgd
    >>> f"{rdp_delta(dpsgd(noise_multiplier=2.0, sampling_probability=0.01, steps=1500), 1.0):.1e}"
    '4.7e-07'
    """
    epsilon = validate.non_negative_or_infinite(epsilon=epsilon)
    with _quietly():
        return min(1.0, max(0.0, float(_accountant(event, relation).get_delta(epsilon))))


def rdp_epsilon(event: dp_event.DpEvent, delta: float, relation: NeighboringRelation = ADD_OR_REMOVE) -> float:
    """An upper bound on ``epsilon`` at ``delta`` in both directions, by dp_accounting at its own orders."""
    delta = validate.probability(delta=delta)
    with _quietly():
        return max(0.0, float(_accountant(event, relation).get_epsilon(delta)))


def pairs_delta(steps: tuple[Step, ...], epsilon: float) -> float:
    """As ``rdp_delta``, by the pairs: of no step, and at an infinite epsilon, what is left."""
    if not steps or math.isinf(epsilon):
        return infinite_mass(steps)
    return rdp_curve_delta(steps, epsilon)


def pairs_epsilon(steps: tuple[Step, ...], delta: float) -> float:
    """As ``rdp_epsilon``, by the pairs."""
    if not steps or delta == 1.0:
        return 0.0
    if infinite_mass(steps) > delta or delta == 0.0:
        return math.inf
    return solve_epsilon(lambda epsilon: rdp_curve_delta(steps, epsilon), delta)


def _log_finite_mgf(pair: DominatingPair, order: float, cells: int) -> float:
    """``log E_P[e^{order loss}; loss finite]``."""
    if cells == _FINE and infinite_loss_mass(pair) == 0.0:
        return log_mgf(pair, order)
    points = loss_points(pair, cell_edges(pair, order, cells))
    return log_sum_exp(points.log_weights + order * points.losses) if points.losses.size else -math.inf


def rdp_curve_delta(steps: tuple[Step, ...], epsilon: float) -> float:
    """An upper bound on ``delta(epsilon)`` of the steps of one direction.

    For every ``a > 0``, ``(1 - e^{-x})_+ <= e^{a x} a^a / (1+a)^{1+a}``, so with ``x = loss - eps``

        delta <= 1 - prod(1 - p_i) + e^{-a eps} a^a / (1+a)^{1+a} prod E_{P_i}[e^{a loss}; loss finite],

    ``p_i`` the chance of an infinite loss. The logarithm of the second term is convex in ``a``; whichever ``a`` the
    search ends at gives a valid bound, up to the accuracy of ``log_mgf`` (1e-10).
    """
    epsilon = validate.non_negative(epsilon=epsilon)
    masses = [infinite_loss_mass(step.pair) for step in steps]
    if 1.0 in masses:
        return 1.0
    infinite = -math.expm1(math.fsum(step.count * math.log1p(-p) for step, p in zip(steps, masses, strict=True)))

    def log_bound(log_order: float, cells: int = _COARSE) -> float:
        a = math.exp(log_order)
        moments = math.fsum(step.count * _log_finite_mgf(step.pair, a, cells) for step in steps)
        value = moments - a * epsilon + log_peak(a)
        return min(value, 1e300)

    found = [
        scipy.optimize.minimize_scalar(log_bound, bounds=ends, method="bounded") for ends in ((-7.0, 2.0), (2.0, 9.0))
    ]
    best = log_bound(min(found, key=lambda result: float(result.fun)).x, _FINE)
    return min(1.0, infinite + math.exp(min(best, 0.0)))
