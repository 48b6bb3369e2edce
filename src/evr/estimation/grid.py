"""The law of a tilted sum of privacy losses on a grid, by one inverse Fourier transform."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft as scipy_fft

from evr.estimation.tilting import Plan, not_below, points_of
from evr.laws import DominatingPair, Floats, Step
from evr.laws.line.discretise import LossPoints
from evr.laws.line.pair import log_sum_exp

Complexes = NDArray[np.complex128]


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
            pair: not_below(points_of(pair, plan.order, plan.cap, size // 2, width, size * width), plan.bottom)
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
