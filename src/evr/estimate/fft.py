"""The default accountant: a Fourier transform of the exponentially tilted law of the privacy loss.

Peers convolve the law of the loss itself, where rounding is relative to 1 and everything below 1e-10 or so is lost. Here
each step's law is tilted, ``dP' = e^{order loss} dP / M``, with the order that centres the sum at epsilon; rounding is then
relative to the moments bound on delta, and a small delta costs nothing:

    delta(epsilon) = M^k e^{-order epsilon} sum_S p'(S) (1 - e^{epsilon - S})_+ e^{-order (S - epsilon)}

Four things make it near-exact. A single loss beyond epsilon and all that the other steps could take off again decides by
itself, and its contribution is linear in ``e^{-loss}``; such losses are joined into one point that keeps their mass under
both laws, so that rare huge losses do not spoil the tilt. The one-step law comes from interval probabilities by a fourth-order rule
(``mechanisms.discretise``). Its points are spread on the grid by six-point Lagrange weights, which keep five moments of the
tilted law, so the grid may be coarse. The kink at epsilon, which no grid point hits, is mended by the Euler-Maclaurin
formula, and the atoms of the composition, which no smooth rule can mend, are enumerated (``estimate.atoms``).
Infinite losses are apart: they contribute ``1 - prod (1 - p_inf)``.

The result is an estimate with an estimate of its error (the change from a grid of twice the width), not a bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft as scipy_fft

from evr.estimate.atoms import Atoms, atoms_of
from evr.mechanisms import DominatingPair, Floats, Step, infinite_mass
from evr.mechanisms.discretise import LossPoints, cell_edges, loss_points
from evr.mechanisms.pair import log_sum_exp

Complexes = NDArray[np.complex128]

_TAIL = 34.0  # log of the tilted mass that may wrap around the grid
_RELATIVE = 1e-8  # wanted of the change from a grid of twice the width, relative to delta
_IRREGULAR = (
    5e-9  # what that change may miss, relative to delta: the cells' edges move with the grid, errors do not fall evenly
)
_REUSE = 1e-7  # what is good enough to use a law again at another epsilon
_NEGLIGIBLE = -760.0  # log of a bound on delta below which it is 0 as a float
_SIZES = tuple(2**n for n in range(13, 22))


class Delta(NamedTuple):
    """A value of delta and an estimate of its absolute error."""

    value: float
    error: float


class FftCurve:
    """The privacy curve of one direction's steps.

    Examples
    --------
    >>> from evr.mechanisms import Composition
    >>> from evr.mechanisms.events import dpsgd
    >>> event = dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=1000)
    >>> curve = FftCurve(Composition.of(event).simplified("remove"))
    >>> f"{curve.delta(0.5).value:.4e}"
    '2.0582e-10'
    """

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self.steps = steps
        self.infinite_mass = infinite_mass(steps)
        self.greatest = math.fsum(step.count * _finite_range(step.pair)[1] for step in steps) if steps else 0.0
        self._atoms: Atoms | None = None
        self._laws: list[tuple[TiltedLaw, TiltedLaw, float]] = []
        self._single = len(steps) == 1 and steps[0].count == 1
        self._purely_atomic = False
        if steps and not self._single and all(len(step.pair.flats) for step in steps):
            self._atoms = atoms_of(steps)
            self._purely_atomic = self._atoms is not None and all(_is_atomic(step.pair) for step in steps)

    def delta(self, epsilon: float) -> Delta:
        """Delta at one epsilon >= 0, with an estimate of the error."""
        if not self.steps:
            return Delta(0.0, 0.0)
        if math.isinf(epsilon) or epsilon >= self.greatest or self.infinite_mass >= 1.0:
            return Delta(self.infinite_mass, 0.0)
        if self._single:
            value = self.steps[0].pair.delta(epsilon)
            return Delta(value, 1e-12 * value)
        if self._purely_atomic and self._atoms is not None:
            value = self._atoms.delta(epsilon)
            return Delta(min(1.0, value + self.infinite_mass), 1e-11 * value)
        finite = self._finite_delta(epsilon)
        return Delta(min(1.0, max(0.0, finite.value) + self.infinite_mass), finite.error)

    def _finite_delta(self, epsilon: float) -> Delta:
        for fine, coarse, reached in self._laws:
            if fine.covers(epsilon):
                result = compare(fine, coarse, self._atoms, epsilon)
                if result.error <= max(_REUSE, 2.0 * reached) * result.value:  # another law would do no better
                    return result
        plan = plan_tilt(self.steps, epsilon)
        if plan is None:
            return Delta(0.0, 0.0)
        _, fine, coarse, result = refine(plan, self.steps, self._atoms, epsilon)
        self._laws.append((fine, coarse, result.error / result.value if result.value > 0 else 0.0))
        return result


def compare(fine: TiltedLaw, coarse: TiltedLaw, atoms: Atoms | None, epsilon: float) -> Delta:
    """Delta of the finite losses on the finer grid; its error from the coarser one and from rounding."""
    exact = atoms.delta(epsilon) if atoms is not None else 0.0
    scale, share, rough = fine.scale(epsilon), fine.tail_sum(epsilon), coarse.delta(epsilon)
    value = scale * share
    return Delta(value + exact, abs(value - rough) + 1e-15 * scale + _IRREGULAR * abs(value) + 1e-11 * exact)


def refine(
    plan: Plan, steps: tuple[Step, ...], atoms: Atoms | None, epsilon: float
) -> tuple[Frame, TiltedLaw, TiltedLaw, Delta]:
    """Grids of twice the size until the error estimate is small enough, or rounding rules."""
    pairs = [step.pair for step in steps]
    coarse = Frame(plan, pairs, _SIZES[0], with_atoms=atoms is not None).law(steps)
    best: tuple[Frame, TiltedLaw, TiltedLaw, Delta] | None = None
    for size in _SIZES[1:]:
        frame = Frame(plan, pairs, size, with_atoms=atoms is not None)
        fine = frame.law(steps)
        result = compare(fine, coarse, atoms, epsilon)
        if best is not None and result.error > best[3].error and size > 8 * _SIZES[0]:
            break
        best = (frame, fine, coarse, result) if best is None or result.error < best[3].error else best
        if result.error <= (_RELATIVE + _IRREGULAR) * result.value:
            break
        coarse = fine
    assert best is not None
    return best


def _finite_range(pair: DominatingPair) -> tuple[float, float]:
    least, greatest = pair.loss_range
    if pair.infinite_loss_mass > 0:  # the last flat; the loss where it starts is the greatest below it
        greatest = float(pair.privacy_loss(pair.flats[-1, 0]))
    return least, greatest if greatest > -math.inf else 0.0


def _is_atomic(pair: DominatingPair) -> bool:
    """Whether flats hold all of the line."""
    flats = pair.flats
    return bool(np.all(flats[1:, 0] == flats[:-1, 1])) and flats.shape[0] > 0 and flats[0, 0] <= pair.span()[0]


# --- the tilt -------------------------------------------------------------------------------------------------------


class Plan(NamedTuple):
    """The order of the tilt, the loss beyond which all is joined (right for deltas up to ``epsilon``), and the range that
    holds the tilted sum."""

    epsilon: float
    order: float
    cap: float
    low: float
    high: float
    bottom: float = -math.inf


@lru_cache(maxsize=64)
def _points(pair: DominatingPair, order: float, cap: float, cells: int, width: float, reach: float) -> LossPoints:
    """The law of one step, but for ``e^-120`` of the tilted mass: cells even in ``t``, and in losses up to ``reach``."""
    least, greatest = pair.loss_range
    low, high = max(least, -reach), min(greatest, reach, cap)
    losses = np.linspace(low, high, max(2, math.ceil((high - low) / width) + 1)) if low < high else None
    points = loss_points(pair, cell_edges(pair, order, cells, losses, cap))
    if not points.losses.size:
        return points
    tilted = points.log_weights + order * points.losses
    keep = tilted > tilted.max() - 120.0
    return LossPoints(points.losses[keep], points.log_weights[keep], points.is_atom[keep])


def _rough_points(pair: DominatingPair, order: float, cap: float) -> LossPoints:
    """As much of the law as a plan needs."""
    reach = 40.0 / max(order, 0.1)
    return _points(pair, order, cap, 2048, 0.1 / max(order, 1.0), max(reach, min(cap, 1000.0 / max(order, 1.0))))


def _cumulant(points: tuple[LossPoints, ...], counts: list[int], order: float) -> float:
    return math.fsum(n * log_sum_exp(p.log_weights + order * p.losses) for p, n in zip(points, counts, strict=True))


def _tilted_mean(points: tuple[LossPoints, ...], counts: list[int], order: float) -> float:
    total = 0.0
    for p, n in zip(points, counts, strict=True):
        exponent = p.log_weights + order * p.losses
        weights = np.exp(exponent - exponent.max())
        total += n * float(np.sum(weights * p.losses) / np.sum(weights))
    return total


def plan_tilt(steps: tuple[Step, ...], epsilon: float, reach: float = 1.02) -> Plan | None:
    """The order at which the mean of the tilted sum is epsilon, or 0 if the mean is beyond it already.

    The plan serves epsilons up to ``reach`` times the given one. None where the moments bound shows that delta is below
    the least positive float.
    """
    counts = [step.count for step in steps]
    plain = tuple(_rough_points(step.pair, 0.0, math.inf) for step in steps)
    valid = reach * epsilon + 1e-3
    cap = valid + max(0.0, -_sum_range(plain, counts, 0.0, _TAIL)[0])

    def points_at(order: float) -> tuple[LossPoints, ...]:
        return tuple(_rough_points(step.pair, order, cap) for step in steps)

    low, high = 0.0, 1.0
    if _tilted_mean(points_at(0.0), counts, 0.0) >= epsilon:
        high = 0.0
    else:
        while _tilted_mean(points := points_at(high), counts, high) < epsilon and high < 1e6:
            if _cumulant(points, counts, high) - high * epsilon < _NEGLIGIBLE:
                return None
            low, high = high, 2 * high
        while high - low > 1e-3 * high:
            middle = (low + high) / 2
            if _tilted_mean(points, counts, middle) < epsilon:
                low = middle
            else:
                high = middle
    points = points_at(high)
    low, top = _sum_range(points, counts, high, _TAIL)
    bottom = -math.inf
    if high == 0.0:  # a loss that the other steps cannot make up for leaves the sum below 0, however low it is
        bottom = -max(top, 1e-9)
        low, top = _sum_range(tuple(_not_below(p, bottom) for p in points), counts, high, _TAIL)
    return Plan(valid, high, cap, min(low, epsilon), max(top, epsilon), bottom)


def _not_below(points: LossPoints, bottom: float) -> LossPoints:
    """The points, with lower losses raised to ``bottom``."""
    return points if bottom == -math.inf else points._replace(losses=np.maximum(points.losses, bottom))


def widened(plan: Plan, steps: tuple[Step, ...]) -> Plan:
    """The plan, with room for other counts of its pairs."""
    counts = [step.count for step in steps]
    plain = tuple(_rough_points(step.pair, 0.0, math.inf) for step in steps)
    cap = max(plan.cap, plan.epsilon - _sum_range(plain, counts, 0.0, _TAIL)[0])
    points = tuple(_not_below(_rough_points(step.pair, plan.order, cap), plan.bottom) for step in steps)
    low, high = _sum_range(points, counts, plan.order, _TAIL)
    return plan._replace(cap=cap, low=min(plan.low, low), high=max(plan.high, high))


def _sum_range(points: tuple[LossPoints, ...], counts: list[int], order: float, tail: float) -> tuple[float, float]:
    """A range outside which the tilted sum has mass below ``e^-tail`` at each end, by Chernoff's bound."""
    centre, at_order = _tilted_mean(points, counts, order), _cumulant(points, counts, order)
    variance = 0.0
    for p, n in zip(points, counts, strict=True):
        exponent = p.log_weights + order * p.losses
        weights = np.exp(exponent - log_sum_exp(exponent))
        mean = float(np.sum(weights * p.losses))
        variance += n * float(np.sum(weights * (p.losses - mean) ** 2))
    unit = 1.0 / math.sqrt(variance) if variance > 0 else 1.0
    lows, highs = [], []
    for shift in unit * np.geomspace(1e-3, 30.0, 24):
        highs.append((_cumulant(points, counts, order + shift) - at_order + tail) / shift)
        lows.append((at_order - _cumulant(points, counts, order - shift) - tail) / shift)
    reach = 2e-9 + 1e-6 * abs(centre)
    least = math.fsum(n * float(p.losses.min()) for p, n in zip(points, counts, strict=True))
    greatest = math.fsum(n * float(p.losses.max()) for p, n in zip(points, counts, strict=True))
    return max(max(lows), least) - reach, min(min(highs), greatest) + reach


# --- the tilted law on a grid ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TiltedLaw:
    """Probabilities of the tilted sum on ``start + width * (0, 1, 2, ...)``.

    ``atoms`` is the atomic part, accounted for elsewhere; on a ``lattice`` all is atomic and lies on the grid.
    """

    order: float
    log_mgf: float
    start: float
    width: float
    probabilities: Floats
    atoms: Floats | None
    lattice: bool
    greatest_epsilon: float

    def covers(self, epsilon: float) -> bool:
        return self.start < epsilon <= self.greatest_epsilon

    def tail_sum(self, epsilon: float) -> float:
        """``sum_S p'(S) (1 - e^{epsilon - S})_+ e^{-order (S - epsilon)}`` of the smooth part, the kink mended."""
        smooth = self.probabilities if self.atoms is None else self.probabilities - self.atoms
        position = (epsilon - self.start) / self.width
        first = max(0, math.floor(position) + 1)
        last = smooth.size
        if self.order > 0:
            last = min(last, first + 1 + math.ceil(50.0 / (self.order * self.width)))
        distance = self.width * (np.arange(first, last) - position)
        total = float(np.dot(smooth[first:last], -np.expm1(-distance) * np.exp(-self.order * distance)))
        return total if self.lattice else total + self._kink(smooth, position, first)

    def _kink(self, smooth: Floats, position: float, first: int) -> float:
        """Euler-Maclaurin terms at epsilon, from the density's value and two derivatives there."""
        if not 4 <= first < smooth.size - 4:
            return 0.0
        theta = first - position  # in (0, 1]
        w, order = self.width, self.order
        coefficients = np.polynomial.polynomial.polyfit(np.arange(-4, 4) + theta, smooth[first - 4 : first + 4] / w, 5)
        density, slope, bend = coefficients[0], coefficients[1] / w, 2 * coefficients[2] / w**2
        second = 2 * (slope - order * density - density / 2)
        third = 6 * (bend / 2 + order**2 * density / 2 - order * slope - (slope - order * density) / 2 + density / 6)
        b2 = theta**2 - theta + 1 / 6
        b3 = theta**3 - 1.5 * theta**2 + 0.5 * theta
        b4 = theta**4 - 2 * theta**3 + theta**2 - 1 / 30
        return float(w**2 / 2 * b2 * density + w**3 / 6 * b3 * second + w**4 / 24 * b4 * third)

    def scale(self, epsilon: float) -> float:
        """The moments bound on delta, to which rounding is relative (but for a factor below 1)."""
        exponent = self.log_mgf - self.order * epsilon
        return math.exp(exponent) if exponent < 700 else math.inf

    def delta(self, epsilon: float) -> float:
        return self.scale(epsilon) * self.tail_sum(epsilon)


def _lattice(points: list[LossPoints], width: float) -> float | None:
    """A width near the wanted one on which all atoms lie, if the composition is made of atoms alone."""
    if not all(bool(p.is_atom.all()) for p in points):
        return None
    gaps = np.concatenate([np.diff(np.sort(p.losses)) for p in points])
    gaps = gaps[gaps > 1e-12]
    if not gaps.size or (gap := float(gaps.min())) < width:
        return None
    gap = float(np.median(gaps[gaps < 1.5 * gap]))
    for p in points:
        multiples = (p.losses - p.losses[0]) / gap
        if np.any(np.abs(multiples - np.round(multiples)) > 1e-6):
            return None
    return gap / math.ceil(gap / width)


class Spectrum(NamedTuple):
    """``log`` of a Fourier transform, the loss at the grid's zero, and ``log M``."""

    log_transform: Complexes
    origin: float
    log_mgf: float


def spectrum(points: LossPoints, order: float, width: float, size: int, *, atoms_only: bool = False) -> Spectrum:
    """The transform of one step's tilted law, or of its atoms, on a grid."""
    exponent = points.log_weights + order * points.losses
    log_mgf = log_sum_exp(exponent)
    weights = np.exp(exponent - log_mgf)
    origin = float(np.sum(weights * points.losses)) if not points.is_atom.all() else float(points.losses[0])
    losses = points.losses
    if atoms_only:
        losses, weights = losses[points.is_atom], weights[points.is_atom]
    position = (losses - origin) / width
    near = np.round(position)
    near = np.where(np.abs(position - near) < 1e-7, near, np.floor(position))
    fraction = np.where(np.abs(position - near) < 1e-7, 0.0, position - near)
    grid = np.zeros(size)
    index = near.astype(np.int64)
    for offset, stencil in zip(range(-2, 4), _lagrange(fraction), strict=True):
        grid += np.bincount((index + offset) % size, weights=weights * stencil, minlength=size)
    return Spectrum(_log_transform(grid, float(np.sum(weights))), origin, log_mgf)


def _log_transform(grid: Floats, mass: float) -> Complexes:
    """``log`` of the Fourier transform. Most of a small step's mass is in one place, kept out of the transform's rounding:
    the k-th power would magnify it k-fold. So it would the rounding of the sums in the grid; ``mass`` is their true total.
    """
    total = float(grid.sum())
    rest = grid.copy()
    rest[0] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        log_transform = math.log(mass) + np.log1p((scipy_fft.rfft(rest) - rest.sum()) / total)
    return np.where(np.isfinite(log_transform), log_transform, -1e5)  # a zero, whose powers are zero


def _lagrange(x: Floats) -> tuple[Floats, ...]:
    """Weights of six-point interpolation at ``x`` in [0, 1) from the nodes -2 .. 3: they keep moments up to the fifth."""
    a, b, c, d, e, f = x + 2, x + 1, x, x - 1, x - 2, x - 3
    return (
        -b * c * d * e * f / 120,
        a * c * d * e * f / 24,
        -a * b * d * e * f / 12,
        a * b * c * e * f / 12,
        -a * b * c * d * f / 24,
        a * b * c * d * e / 120,
    )


class Frame:
    """A grid and each pair's transform on it; the law of any counts of these pairs is one inverse transform away."""

    def __init__(self, plan: Plan, pairs: Iterable[DominatingPair], size: int, *, with_atoms: bool) -> None:
        self.plan, self.size = plan, size
        width = (plan.high - plan.low) / (size - 16)
        points = {
            pair: _not_below(_points(pair, plan.order, plan.cap, size // 2, width, size * width), plan.bottom)
            for pair in pairs
        }
        lattice = _lattice(list(points.values()), width)
        self.lattice, self.width = lattice is not None, lattice or width
        self._whole = {pair: spectrum(p, plan.order, self.width, size) for pair, p in points.items()}
        self._atomic = (
            {
                pair: spectrum(p, plan.order, self.width, size, atoms_only=True).log_transform
                for pair, p in points.items()
            }
            if with_atoms
            else None
        )

    def law(self, steps: Iterable[Step]) -> TiltedLaw:
        """The law of the tilted sum of these steps."""
        steps = tuple(steps)
        origin = math.fsum(step.count * self._whole[step.pair].origin for step in steps)
        log_mgf = math.fsum(step.count * self._whole[step.pair].log_mgf for step in steps)
        first = math.floor((self.plan.low - origin) / self.width) - 8

        def invert(log_transforms: Iterable[Complexes]) -> Floats:
            return np.roll(scipy_fft.irfft(np.exp(sum(log_transforms)), self.size), -first)

        whole = invert(step.count * self._whole[step.pair].log_transform for step in steps)
        atoms = None if self._atomic is None else invert(step.count * self._atomic[step.pair] for step in steps)
        return TiltedLaw(
            self.plan.order,
            log_mgf,
            origin + first * self.width,
            self.width,
            whole,
            atoms,
            self.lattice,
            self.plan.epsilon,
        )
