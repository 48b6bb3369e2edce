"""Which grids a strict bound uses. Floats choose; the bound holds whatever they choose (docs/guarantees_strict.md).

Spreading a loss ``y`` over the ends ``a < b`` of its cell adds the variance ``(y - a)(b - y)``. Under the tilt that
centres the sum at epsilon, of order ``lambda``, an added variance ``V`` of the sum raises delta by about ``kappa V`` of
itself, ``kappa = lambda (lambda + 1) / 2``. The tolerance is divided between: one step on its fine grid; one step on
its coarse grid, where that is; halving the fine grid between products; fine parts that meet coarse ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from evr.bounds.strict import Grid, ProofPlan, Window, schedule
from evr.estimation.points import LossPoints, log_moment, rough_points
from evr.estimation.selected import on_lines
from evr.estimation.tilting import chernoff, plan_tilt
from evr.laws import DominatingPair, Floats, Step, loss_range
from evr.laws.line.pair import log_sum_exp

_FINE, _HALVING, _CUTTING, _MEETING = 0.3, 0.1, 0.05, 0.4  # shares of the tolerance
_COARSE = (0.15, 0.03, 0.006)  # shares to try
_AIM = 0.4  # of the tolerance: jumps, and tails of the fine part, cost more than the rule says
_MOST_HALVINGS = 24
_TAIL = 14.0  # log of what windows may cost, over delta and the tolerance
_ORDERS = np.geomspace(1e-4, 1e5, 46)
_TIMES = np.geomspace(0.5, 4.0, 25)
_OFFSET_BITS = 64
_FINEST_LATTICE = 1e-3
_STEEPEST = 2000.0  # spacing that bits are added for: a plan may not have many more


@dataclass(frozen=True)
class Kind:
    """One kind of step as the chooser sees it: its loss as weighted points, plain and tilted."""

    count: int
    losses: Floats  # rising
    tilted: Floats  # their weights under the tilt; they sum to 1
    cumulant: float  # ``log E[e^{order loss}]``
    low_cumulants: Floats  # ``log E[e^{-s loss}]`` at each ``s`` of ``_ORDERS``
    high_cumulants: Floats  # ``log E[e^{t order loss}]`` at each ``t`` of ``_TIMES``
    least: float
    greatest: float
    offset: Fraction

    def spread(self, spacing: float) -> Floats:
        """The variance that each point adds on a grid, times its tilted weight and the count."""
        place = (self.losses - float(self.offset)) / spacing
        part = place - np.floor(place)
        return self.count * self.tilted * part * (1.0 - part) * spacing**2


@dataclass(frozen=True)
class Outlook:
    """What the chooser knows about a composition at an epsilon: the tilt, and about how large delta is."""

    epsilon: float
    order: float
    log_delta: float
    kinds: tuple[Kind, ...]
    lattice: float | None  # of which all differences of atoms of a kind are multiples, where there is one

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(kind.count for kind in self.kinds)

    @property
    def kappa(self) -> float:
        """By how much of itself delta grows per added variance."""
        found = [(kind.count, *_moments(kind.tilted, kind.losses)) for kind in self.kinds]
        variance, square = sum(n * v for n, v, _ in found), 1e-300 + sum(n * s for n, _, s in found)
        order = math.hypot(self.order, 1.0 / math.sqrt(max(variance, 1e-12 * min(square, 1.0))))
        return order * (order + 1.0) / 2.0


def _moments(weights: Floats, losses: Floats) -> tuple[float, float]:
    """The variance and the second moment."""
    mean = float(np.sum(weights * losses))
    return float(np.sum(weights * (losses - mean) ** 2)), float(np.sum(weights * losses**2))


def outlook(steps: tuple[Step, ...], epsilon: float, log_delta: float) -> Outlook:
    """Tilts and loss points of the composition."""
    floats = on_lines(steps)
    plan = plan_tilt(floats, epsilon, joined=True)
    order, cap = (plan.order, plan.cap) if plan is not None else _far_tilt(floats, epsilon)
    lattice = _lattice([_atoms(step.pair) for step in floats])
    kinds = []
    for step in floats:
        plain = rough_points(step.pair, 0.0, math.inf, keep=math.inf)
        points = rough_points(step.pair, order, cap, joined=True, keep=math.inf) if plain.losses.size else plain
        kinds.append(_kind(step, plain, points, order, on_atoms=lattice is not None))
    return Outlook(epsilon, order, log_delta, tuple(kinds), lattice)


def _atoms(pair: DominatingPair) -> Floats:
    losses = pair.privacy_loss(pair.flats[:, 1]) if len(pair.flats) else np.empty(0)
    return np.unique(losses[np.isfinite(losses)])


def _lattice(atoms: Sequence[Floats]) -> float | None:
    """The greatest common measure of the gaps between atoms, by Euclid's algorithm, if it is not too small.

    A sum of atoms has atoms, and one at epsilon would cost a first power of the spacing where it is not on the grid.
    """
    gaps = np.concatenate([np.empty(0), *(np.diff(a) for a in atoms)])
    if not gaps.size:
        return None
    measure, rounding = float(gaps.max()), 1e-9 * float(gaps.max())
    while True:
        rest = np.abs(gaps - measure * np.round(gaps / measure))
        if rest.max() <= rounding:
            return measure
        measure = float(rest[rest > rounding].min())
        if measure < _FINEST_LATTICE * float(gaps.max()):
            return None


def _far_tilt(steps: tuple[Step, ...], epsilon: float) -> tuple[float, float]:
    """Where delta is below all floats: an order that shows it to be below 1e-60 or so."""
    order, cap = 1.0, 2.0 * epsilon + 1.0
    while order < 1e6:
        points = [rough_points(step.pair, order, cap, joined=True) for step in steps]
        cumulants = [step.count * log_moment(p, order, 0.0, 0.0) for step, p in zip(steps, points, strict=True)]
        if sum(cumulants) - order * epsilon < -150.0:
            break
        order *= 1.5
    return order, cap


def _kind(step: Step, plain: LossPoints, points: LossPoints, order: float, *, on_atoms: bool) -> Kind:
    least, greatest = loss_range(step.pair)
    if not plain.losses.size:  # all losses are infinite
        plain = points = LossPoints(np.zeros(1), np.zeros(1), np.ones(1, dtype=bool))
    rising = np.argsort(points.losses)
    points = LossPoints(points.losses[rising], points.log_weights[rising], points.is_atom[rising])
    exponents = points.log_weights + order * points.losses
    cumulant = log_sum_exp(exponents)
    on_atoms = on_atoms and bool(points.is_atom.any())
    if on_atoms:
        centre = float(points.losses[np.argmax(np.where(points.is_atom, exponents, -np.inf))])
        offset = Fraction(centre)
    else:
        rising = np.argsort(plain.losses)
        middle = np.searchsorted(np.cumsum(np.exp(plain.log_weights[rising])), 0.5)
        centre = float(plain.losses[rising][min(int(middle), rising.size - 1)])
        offset = Fraction(round(centre * 2**_OFFSET_BITS), 2**_OFFSET_BITS)
    return Kind(
        count=step.count,
        losses=points.losses,
        tilted=np.exp(exponents - cumulant),
        cumulant=cumulant,
        low_cumulants=_cumulants(plain.losses, plain.log_weights, -_ORDERS),
        high_cumulants=_cumulants(points.losses, points.log_weights, _TIMES * max(order, 1.0)),
        least=least,
        greatest=greatest,
        offset=offset,
    )


def _cumulants(losses: Floats, log_weights: Floats, orders: Floats) -> Floats:
    """``log E[e^{s loss}]`` at each order."""
    terms = log_weights + np.multiply.outer(orders, losses)
    tops = np.max(terms, axis=1)
    return tops + np.log(np.sum(np.exp(np.maximum(terms - tops[:, None], -700.0)), axis=1))


class _Windows:
    """Floors and tops for partial compositions: what is below or above matters less than the tolerance."""

    def __init__(self, view: Outlook, tolerance: float) -> None:
        self._view, self._small = view, math.log(tolerance) - _TAIL + math.log(1e3)

    def floor(self, counts: Sequence[int]) -> float:
        """Below it, ``P(Y < floor) e^{order floor} E[e^{order rest}] e^{-order epsilon}`` is small against delta."""
        view = self._view
        rest = sum((kind.count - n) * kind.cumulant for kind, n in zip(view.kinds, counts, strict=True))
        room = self._small + view.log_delta + view.order * view.epsilon - rest
        lows = sum(n * kind.low_cumulants for kind, n in zip(view.kinds, counts, strict=True))
        return float(np.max((room - lows) / (view.order + _ORDERS)))

    def top(self, counts: Sequence[int]) -> float:
        """Beyond it all is too rare, or the other steps take back too rarely: delta is linear in ``e^{-loss}``."""
        view = self._view
        rest = [kind.count - n for kind, n in zip(view.kinds, counts, strict=True)]
        if not any(rest):
            return view.epsilon
        lows = sum(n * kind.low_cumulants for kind, n in zip(view.kinds, rest, strict=True))
        linear = view.epsilon - float(np.max((self._small - lows) / _ORDERS))
        highs = sum(n * kind.high_cumulants for kind, n in zip(view.kinds, counts, strict=True))
        uses = min(kind.count / n for kind, n in zip(view.kinds, counts, strict=True) if n)
        rare = math.log(uses) - self._small - view.log_delta
        return min(linear, float(np.min((highs + rare) / (_TIMES * max(view.order, 1.0)))))

    def places(self, counts: Sequence[int], spacing: float) -> tuple[int, int]:
        """Both as places on the coarse grid, not beyond what the losses reach."""
        kinds = self._view.kinds
        offset = sum(n * float(kind.offset) for kind, n in zip(kinds, counts, strict=True))
        least = sum(n * kind.least for kind, n in zip(kinds, counts, strict=True) if n)
        greatest = sum(n * kind.greatest for kind, n in zip(kinds, counts, strict=True) if n)
        low = max(self.floor(counts), least) - offset
        # each step may end a cell above its loss
        high = min(self.top(counts), greatest + sum(counts) * spacing) - offset
        floor = math.floor(low / spacing) - 1
        return floor, max(math.ceil(high / spacing) + 1, floor + 2)


@dataclass(frozen=True)
class _Bulk:
    """The fine part of a kind on a coarse spacing: places, halvings, losses (from the offset) and tilted weights."""

    halvings: int
    low: int
    high: int
    losses: Floats
    weights: Floats
    share: float  # of the kind's tilted mass

    @property
    def places(self) -> int:
        return (self.high - self.low) << self.halvings if self.halvings else 0


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
    halvings = 1
    while halvings < _MOST_HALVINGS and float(np.sum(kind.spread(spacing / 2**halvings)[within])) > fine:
        halvings += 1
    share = max(float(np.sum(kind.tilted[within])), 1e-300)
    return _Bulk(halvings, low, high, losses[within] - offset, kind.tilted[within] / share, share)


class _FineRanges:
    """Where the fine part of a partial composition is, under the tilt, by Chernoff's bound."""

    def __init__(self, view: Outlook, bulks: list[_Bulk], spacing: float, unit: float) -> None:
        self._counts = view.counts
        self._rare = _CUTTING * unit * 6.0 / spacing**2
        variances = [_moments(bulk.weights, bulk.losses)[0] for bulk in bulks]
        widest = math.sqrt(max(sum(n * v for n, v in zip(view.counts, variances, strict=True)), 1e-300))
        narrowest = math.sqrt(max(min((v for v in variances if v > 0), default=widest**2), 1e-300))
        self._orders = np.geomspace(0.3 / widest, 30.0 / narrowest, 64)
        with np.errstate(divide="ignore"):
            logs = [(bulk.losses, np.log(bulk.weights)) for bulk in bulks]
        self._ups, self._downs = ([_cumulants(*one, sign * self._orders) for one in logs] for sign in (1.0, -1.0))

    def __call__(self, counts: Sequence[int]) -> tuple[float, float]:
        uses = min(k / n for k, n in zip(self._counts, counts, strict=True) if n)
        tail = max(3.0, math.log(uses * len(counts) / self._rare))
        up, down = (
            np.sum([n * x for n, x in zip(counts, growths, strict=True)], axis=0)
            for growths in (self._ups, self._downs)
        )
        return -chernoff(down, self._orders, tail), chernoff(up, self._orders, tail)


def choose(view: Outlook, tolerance: float) -> ProofPlan:
    """Grids for a bound that exceeds delta by about ``tolerance`` of it: the cheapest of several choices."""
    windows = _Windows(view, tolerance)
    products = schedule(view.counts)
    unit = _AIM * tolerance / view.kappa
    each = unit / len(view.kinds)
    best: tuple[float, Fraction, list[_Bulk]] | None = None
    wide = max(math.sqrt(unit), view.lattice or 0.0)
    while best is None or wide > 0.03 * math.sqrt(unit):
        exact = _rounded(wide, view.lattice)
        spacing = float(exact)
        for coarse in _COARSE:
            bulks = [_bulk(kind, spacing, _FINE * each, coarse * each) for kind in view.kinds]
            if _meeting(view, spacing, bulks, products) <= _MEETING * unit:
                cost = _cost(windows, spacing, bulks, len(products))
                if best is None or cost < best[0]:
                    best = cost, exact, bulks
        wide *= 0.7
    return _plan(view, windows, best[1], best[2], unit, tolerance)


def _meeting(view: Outlook, spacing: float, bulks: list[_Bulk], products: list[tuple[int, ...]]) -> float:
    """The variance added where fine parts meet coarse ones: once a product for each part with a coarse step."""
    if not any(bulk.halvings for bulk in bulks):
        return 0.0
    total = spacing**2 / 3  # the two halves, at last
    jumps = [kind.count * (1.0 - bulk.share) for kind, bulk in zip(view.kinds, bulks, strict=True)]
    for counts in products:
        held = [i for i, n in enumerate(counts) if n]
        uses = min(view.kinds[i].count / counts[i] for i in held)
        width = math.sqrt(sum(counts[i] * _moments(bulks[i].weights, bulks[i].losses)[1] for i in held))
        total += min(sum(jumps[i] for i in held), uses) * min(spacing**2 / 6, width * spacing)
    return total


def _cost(windows: _Windows, spacing: float, bulks: list[_Bulk], products: int) -> float:
    """About how many microseconds."""
    total = 0.0
    for i, bulk in enumerate(bulks):
        floor, top = windows.places([int(i == j) for j in range(len(bulks))], spacing)
        total += 15.0 * (bulk.places + top - floor) + products * 4.0 * (bulk.places + top - floor)
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
    grids, size = [], 0
    for i, (kind, bulk) in enumerate(zip(view.kinds, bulks, strict=True)):
        floor, top = windows.places([int(i == j) for j in range(len(bulks))], float(spacing))
        low, high = max(bulk.low, floor), min(bulk.high, top)
        halvings = bulk.halvings if low < high else 0
        grids.append(Grid(kind.offset, halvings, low, high, floor, top))
        size = max(size, top - floor, (high - low) << halvings)
    products = schedule(view.counts)
    found, halvings_of = [], dict[int, int]()
    ranges = _FineRanges(view, bulks, float(spacing), unit)
    for counts in products:
        present = [i for i, n in enumerate(counts) if n]
        floor, top = windows.places(counts, float(spacing))
        halvings = _fewer(view, spacing, counts, unit, min(halvings_of.get(i, bulks[i].halvings) for i in present))
        low, high = (x * 2**halvings / float(spacing) for x in ranges(counts))
        window = Window(halvings, math.floor(low) - 1, math.ceil(high) + 1, floor, top)
        if len(present) == 1:
            halvings_of[present[0]] = halvings
        found.append(window)
        size = max(size, window.top - window.floor)
    units = math.log(sum(view.counts) * size * 300.0 / tolerance) - view.log_delta
    steep = min(float(spacing), _STEEPEST)  # e^-spacing is no less than a unit
    bits = math.ceil((units + steep) / math.log(2)) + 4
    return ProofPlan(max(bits, 40), spacing, tuple(grids), tuple(found))


def _fewer(view: Outlook, spacing: Fraction, counts: tuple[int, ...], unit: float, halvings: int) -> int:
    """How many halvings are enough: one less adds half of the square of the fine spacing to each use of this part."""
    uses = min(kind.count / n for kind, n in zip(view.kinds, counts, strict=True) if n)
    levels = max(1.0, math.log2(max(view.counts)) / 2)
    while halvings and uses * (float(spacing) / 2**halvings) ** 2 / 2 <= _HALVING * unit / levels:
        halvings -= 1
    return halvings
