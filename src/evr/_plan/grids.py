"""Which grids a strict bound uses. Floats choose; the bound holds whatever they choose (docs/guarantees_strict.md).

Spreading a loss ``y`` over the ends ``a < b`` of its cell adds the variance ``(y - a)(b - y)``. Under the tilt that
centres the sum at epsilon, of order ``lambda``, an added variance ``V`` of the sum raises delta by about ``kappa V`` of
itself, ``kappa = lambda (lambda + 1) / 2``. There ``lambda`` is how fast ``log delta`` falls, where that is known. The
tolerance is divided between: one step on its fine grid; one step on its coarse grid, where that is; halving the fine
grid between products; fine parts that meet coarse ones.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from evr._estimate.tilting import chernoff
from evr._kernel.pairs import Floats
from evr._kernel.strict import Grid, ProofPlan, Window, schedule
from evr._plan.outlook import ORDERS, TIMES, Kind, Outlook, cumulants_of, moments, total_of

_FINE, _HALVING, _CUTTING, _MEETING = 0.4, 0.35, 0.002, 0.4  # shares of the tolerance, most of which is used
_COARSE = (0.07, 0.03, 0.014, 0.003)  # shares to try, the first that will do is taken
_MOST_HALVINGS = 24
_TAIL = 11.0  # log of what windows may cost, over delta and the tolerance
_ROUNDING = 3.0  # how many units a mass may be off, of those that the tolerance has room for
_NARROWEST = 0.03  # of the spacings tried, over the widest
_SPARE = 2  # bits, so that rounding costs a small part of that room
_STEEPEST = 2000.0  # spacing that bits are added for: a plan may not have many more


def _summed(counts: Floats, each: Floats) -> Any:
    """The sum over kinds of count times number, or row; what is infinite counts only where it is held."""
    held = counts > 0
    return counts[held] @ each[held]


class _Windows:
    """Floors and tops for partial compositions: what is below or above matters less than the tolerance."""

    def __init__(self, view: Outlook, tolerance: float) -> None:
        self._view, self._small = view, math.log(tolerance) - _TAIL + math.log(1e3)
        kinds = view.kinds
        self._counts = np.array(view.counts, float)
        self._lows = np.array([kind.low_cumulants for kind in kinds])
        self._highs = np.array([kind.high_cumulants for kind in kinds])
        self._numbers = np.array([(one.cumulant, float(one.offset), one.least, one.greatest) for one in kinds]).T

    def _floor(self, counts: Floats, rest: Floats) -> float:
        """Below it, ``P(Y < floor) e^{order floor} E[e^{order rest}] e^{-order epsilon}`` is small against delta."""
        view, others = self._view, _summed(rest, self._numbers[0])
        room = self._small + view.log_delta + view.order * view.epsilon - others
        return float(np.max((room - _summed(counts, self._lows)) / (view.order + ORDERS)))

    def _top(self, counts: Floats, rest: Floats) -> float:
        """Beyond it all is too rare, or the other steps take back too rarely: delta is linear in ``e^{-loss}``."""
        view, held = self._view, counts > 0
        if not rest.any():
            return view.epsilon
        linear = view.epsilon - float(np.max((self._small - _summed(rest, self._lows)) / ORDERS))
        rare = math.log(float(np.min(self._counts[held] / counts[held]))) - self._small - view.log_delta
        highs = _summed(counts, self._highs)
        return min(linear, float(np.min((highs + rare) / (TIMES * max(view.order, 1.0)))))

    def places(self, held: Sequence[int], spacing: float) -> tuple[int, int]:
        """Floor and top as places on the coarse grid, not beyond what the losses reach."""
        counts = np.array(held, float)
        rest = self._counts - counts
        _, offset, least, greatest = (_summed(counts, row) for row in self._numbers)
        floor = math.floor((max(self._floor(counts, rest), least) - offset) / spacing) - 1
        # each step may end a cell above its loss
        high = min(self._top(counts, rest), greatest + sum(held) * spacing)
        return floor, max(math.ceil((high - offset) / spacing) + 1, floor + 2)

    def alone(self, spacing: float) -> list[tuple[int, int]]:
        """Floor and top for one step of each kind."""
        number = len(self._view.kinds)
        return [self.places([int(i == j) for j in range(number)], spacing) for i in range(number)]


@dataclass(frozen=True)
class _Bulk:
    """The fine part of a kind on a coarse spacing: places, halvings, losses (from the offset) and tilted weights."""

    halvings: int
    low: int
    high: int
    losses: Floats
    weights: Floats
    share: float  # of the kind's tilted mass


def _bulk(kind: Kind, spacing: float, fine: float, coarse: float) -> _Bulk:
    """As little of the loss as leaves a variance of ``coarse`` outside, halved until it adds at most ``fine``."""
    offset, losses = float(kind.offset), kind.losses
    added = np.cumsum(kind.spread(spacing))
    if added[-1] <= fine + coarse:
        return _Bulk(0, 0, 1, np.zeros(1), np.ones(1), 0.0)
    first = int(np.searchsorted(added, coarse / 2))
    last = int(np.searchsorted(added, added[-1] - coarse / 2))
    low = math.floor((losses[first] - offset) / spacing)
    high = max(math.ceil((losses[min(last, losses.size - 1)] - offset) / spacing), low + 1)
    within = (losses >= offset + low * spacing) & (losses <= offset + high * spacing)
    share = max(float(np.sum(kind.tilted[within])), 1e-300)
    evenly = kind.count * share * spacing**2 / 6.0  # the variance that is added where losses are anywhere in a cell
    halvings = min(max(1, math.ceil(math.log2(max(evenly / fine, 1.0)) / 2) - 1), _MOST_HALVINGS)
    while halvings < _MOST_HALVINGS and float(np.sum(kind.spread(spacing / 2**halvings)[within])) > fine:
        halvings += 1
    return _Bulk(halvings, low, high, losses[within] - offset, kind.tilted[within] / share, share)


Ranges = Callable[[Sequence[int]], tuple[float, float]]


def _fine_ranges(view: Outlook, bulks: list[_Bulk], spacing: float, unit: float) -> Ranges:
    """Where the fine part of a partial composition is, under the tilt, by Chernoff's bound."""
    variances = [moments(bulk.weights, bulk.losses)[0] for bulk in bulks]
    widest = math.sqrt(max(total_of(view.counts, variances), 1e-300))
    narrowest = math.sqrt(max(min((v for v in variances if v > 0), default=widest**2), 1e-300))
    orders = np.geomspace(0.3 / widest, 30.0 / narrowest, 32)
    ups, downs = ([cumulants_of(bulk.losses, bulk.weights, sign * orders) for bulk in bulks] for sign in (1.0, -1.0))

    cut = max(_CUTTING * unit * 6.0 / spacing**2, 1e-300)

    def ranges(counts: Sequence[int]) -> tuple[float, float]:
        tail = max(3.0, math.log(view.uses(counts) * len(counts) / cut))
        return -chernoff(total_of(counts, downs), orders, tail), chernoff(total_of(counts, ups), orders, tail)

    return ranges


def choose(view: Outlook, tolerance: float) -> ProofPlan:
    """Grids for a bound that exceeds delta by about ``tolerance`` of it: the cheapest of several spacings, from wide
    ones on until the coarse places alone cost more than the cheapest.
    """
    windows = _Windows(view, tolerance)
    products = schedule(view.counts)
    unit = tolerance / view.kappa
    cheapest: tuple[float, Fraction, list[_Bulk]] | None = None
    wide = max(math.sqrt(unit), view.lattice or 0.0)
    while cheapest is None or wide > _NARROWEST * math.sqrt(unit):
        spacing = _rounded(wide, view.lattice)
        places = sum(top - floor for floor, top in windows.alone(float(spacing)))
        if cheapest is not None and places > cheapest[0]:
            break
        bulks = _bulks(view, float(spacing), unit, products)
        if bulks is not None:
            places += sum((bulk.high - bulk.low) << bulk.halvings for bulk in bulks if bulk.halvings)
            if cheapest is None or places < cheapest[0]:
                cheapest = places, spacing, bulks
        wide *= 0.7
    return _plan(view, windows, *cheapest[1:], unit, tolerance)


def _bulks(view: Outlook, spacing: float, unit: float, products: list[tuple[int, ...]]) -> list[_Bulk] | None:
    """The fine parts of all kinds on a coarse spacing, if they may meet the coarse ones."""
    each = unit / len(view.kinds)
    for coarse in _COARSE:
        bulks = [_bulk(kind, spacing, _FINE * each, coarse * each) for kind in view.kinds]
        if _meeting(view, spacing, bulks, products) <= _MEETING * unit:
            return bulks
    return None


def _meeting(view: Outlook, spacing: float, bulks: list[_Bulk], products: list[tuple[int, ...]]) -> float:
    """The variance added where fine parts meet coarse ones: once a product for each part with a coarse step."""
    if not any(bulk.halvings for bulk in bulks):
        return 0.0
    total = spacing**2 / 3  # the two halves, at last
    jumps = [kind.count * (1.0 - bulk.share) for kind, bulk in zip(view.kinds, bulks, strict=True)]
    squares = [moments(bulk.weights, bulk.losses)[1] for bulk in bulks]
    for counts in products:
        met = min(sum(jump for jump, n in zip(jumps, counts, strict=True) if n), view.uses(counts))
        total += met * min(spacing**2 / 6, math.sqrt(total_of(counts, squares)) * spacing)
    return total


def _rounded(spacing: float, lattice: float | None) -> Fraction:
    """The spacing with few bits, or the greatest part of the lattice that is not wider."""
    if lattice is not None:
        return Fraction(lattice) / max(1, math.ceil(lattice / spacing * (1 - 1e-9)))
    mantissa, exponent = math.frexp(spacing)
    return Fraction(max(1, math.floor(mantissa * 256)), 256) * Fraction(2) ** exponent


def _plan(
    view: Outlook, windows: _Windows, spacing: Fraction, bulks: list[_Bulk], unit: float, tolerance: float
) -> ProofPlan:
    width = float(spacing)
    grids, size = [], 0
    for kind, bulk, (floor, top) in zip(view.kinds, bulks, windows.alone(width), strict=True):
        low, high = max(bulk.low, floor), min(bulk.high, top)
        halvings = bulk.halvings if low < high else 0
        grids.append(Grid(kind.offset, halvings, low, high, floor, top))
        size = max(size, top - floor, (high - low) << halvings)
    found, halvings_of = [], [bulk.halvings for bulk in bulks]
    ranges = _fine_ranges(view, bulks, width, unit)
    levels = max(1.0, sum(math.log2(count) for count in view.counts) / 2)
    for counts in schedule(view.counts):
        present = [i for i, n in enumerate(counts) if n]
        floor, top = windows.places(counts, width)
        halvings = min(halvings_of[i] for i in present)
        # one halving less adds half of the square of the fine spacing to each use of this part
        while halvings and view.uses(counts) * (width / 2**halvings) ** 2 / 2 <= _HALVING * unit / levels:
            halvings -= 1
        if len(present) == 1:
            halvings_of[present[0]] = halvings
        low, high = (x * 2**halvings / width for x in ranges(counts))
        found.append(Window(halvings, math.floor(low) - 1, math.ceil(high) + 1, floor, top))
        size = max(size, top - floor)
    units = math.log(sum(view.counts) * size * _ROUNDING / tolerance) - view.log_delta
    steep = min(width, _STEEPEST)  # e^-spacing is no less than a unit
    bits = math.ceil((units + steep) / math.log(2)) + _SPARE
    return ProofPlan(max(bits, 40), spacing, tuple(grids), tuple(found))
