"""The moments accountant: upper bounds on delta, up to rounding, from the moments of the privacy loss. ``rdp_bound``
asks dp_accounting; ``rdp_curve_delta`` takes pairs, knows more events, and is the tighter, over all orders.
"""

import contextlib
import logging
import math
import threading
from typing import Any

import scipy
from dp_accounting import NeighboringRelation, dp_event, privacy_accountant
from dp_accounting.rdp import RdpAccountant

from evr._estimate.inversion import solve_epsilon
from evr._estimate.points import cell_edges, log_mgf, loss_points
from evr._kernel.events import Composition
from evr._kernel.events.relations import ADD_OR_REMOVE, REPLACE_ONE
from evr._kernel.pairs import DominatingPair, Step, infinite_loss_mass, infinite_mass
from evr._kernel.pairs.line.pair import log_sum_exp
from evr._kernel.sampled.moments import log_peak
from evr.errors import UnsupportedEventError

_COARSE, _FINE = (2**10, 2**14)  # cells while searching for an order, and for the bound at the order found


def bound_by_moments(composition: Composition, event: Any, at: float, wanted: str, direction: str | None) -> float:
    """The moments accountant: dp_accounting's; or by the pairs what that one does not know, or has no number for, and
    replace-one, under which it does not double sensitivities.
    """
    directions = composition.directions(direction)
    by_pairs = rdp_curve_delta if wanted == "delta" else pairs_epsilon
    trivial = at == (math.inf if wanted == "delta" else 1.0)
    settled = trivial or not composition.remove or composition.is_non_private
    if isinstance(event, dp_event.DpEvent) and composition.relation is not REPLACE_ONE and not settled:
        with contextlib.suppress(UnsupportedEventError, ArithmeticError, RecursionError):
            return rdp_bound(event, wanted, at, composition.relation)
    return max(by_pairs(composition.simplified(one), at) for one in directions)


def rdp_bound(event: dp_event.DpEvent, wanted: str, at: float, relation: NeighboringRelation = ADD_OR_REMOVE) -> float:
    """An upper bound on the wanted ``"delta"`` or ``"epsilon"`` in both directions, by dp_accounting at its own orders.

    Examples
    --------
    >>> from evr._dpsgd import dpsgd
    >>> f"{rdp_bound(dpsgd(noise_multiplier=2.0, sampling_probability=0.01, steps=1500), 'delta', 1.0):.1e}"
    '4.7e-07'
    """
    logger, here = logging.getLogger("absl"), threading.get_ident()

    def is_elsewhere(record: logging.LogRecord) -> bool:
        return record.thread != here

    logger.addFilter(is_elsewhere)  # it warns of each order that it leaves out; the others bound what is asked for
    try:
        accountant = RdpAccountant(neighboring_relation=relation).compose(event)
        found = max(0.0, float(getattr(accountant, f"get_{wanted}")(at)))
        return min(1.0, found) if wanted == "delta" else found
    except privacy_accountant.UnsupportedEventError as error:
        raise UnsupportedEventError(f"dp_accounting's RDP accountant does not support this event: {error}") from None
    finally:
        logger.removeFilter(is_elsewhere)


def pairs_epsilon(steps: tuple[Step, ...], delta: float) -> float:
    """An upper bound on epsilon at ``delta`` of the steps of one direction."""
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
    infinite = infinite_mass(steps)
    if not steps or math.isinf(epsilon) or infinite >= 1.0:
        return infinite

    def log_bound(log_order: float, cells: int = _COARSE) -> float:
        a = math.exp(log_order)
        moments = math.fsum(step.count * _log_finite_mgf(step.pair, a, cells) for step in steps)
        return min(moments - a * epsilon + log_peak(a), 1e300)

    minimize = scipy.optimize.minimize_scalar
    found = [minimize(log_bound, bounds=ends, method="bounded") for ends in ((-7.0, 2.0), (2.0, 9.0))]
    best = log_bound(min(found, key=lambda result: float(result.fun)).x, _FINE)
    return min(1.0, infinite + math.exp(min(best, 0.0)))
