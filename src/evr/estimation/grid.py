"""The law of a tilted sum of privacy losses on a grid, by one inverse Fourier transform."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft as scipy_fft

from evr.estimation.jumps import Jumps, jump_of
from evr.estimation.tilting import Plan, Tilted, log_moment, not_below, points_of
from evr.laws import DominatingPair, Floats, Step
from evr.laws.law import UNIT
from evr.laws.line.discretise import LossPoints

Complexes = NDArray[np.complex128]


class Tail(NamedTuple):
    """``E'[(1 - e^{-x})_+ e^{-order x}]`` of ``x = sum - epsilon``, and the part of ``e^{-x}`` in
    it, ``E'[e^{-x} e^{-order x}; x > 0]``.
    """

    share: float
    slope: float


@dataclass(frozen=True)
class TiltedLaw:
    """Probabilities of the tilted sum of losses up to a cap on ``origin + width * (first, first +
    1, ...)``.

    ``atoms`` is the atomic part, accounted for elsewhere; on a ``lattice`` all is atomic and lies
    on the grid. ``log_moment`` is that of losses taken from the origin. ``noise`` is an estimate of
    the transform's relative rounding error, ``loss_error`` one of the error that rounded losses
    make in their sum. A law is ``spiky`` if it has atoms, or nearly so, of which the grid shows
    nothing.
    """

    order: float
    log_moment: float
    origin: Fraction
    first: int
    width: float
    probabilities: Floats
    atoms: Floats | None
    lattice: bool
    greatest_epsilon: float
    jumps: Jumps
    noise: float
    loss_error: float
    spiky: bool

    def _position(self, epsilon: float) -> float:
        """Where epsilon is on the grid."""
        return float(Fraction(epsilon) - self.origin) / self.width - self.first

    def covers(self, epsilon: float) -> bool:
        return epsilon <= self.greatest_epsilon and self._position(epsilon) > 0.0

    def tail(self, epsilon: float) -> Tail:
        """Sums over what exceeds epsilon, of the smooth part, the kink mended."""
        smooth = self.probabilities if self.atoms is None else self.probabilities - self.atoms
        position = self._position(epsilon)
        first = max(0, math.floor(position) + 1)
        last = smooth.size
        if self.order > 0:
            last = min(last, first + 1 + math.ceil(50.0 / (self.order * self.width)))
        distance = self.width * (np.arange(first, last) - position)
        damped = np.exp(-self.order * distance)
        share = float(np.dot(smooth[first:last], -np.expm1(-distance) * damped))
        slope = float(np.dot(smooth[first:last], damped)) - share
        return Tail(share if self.lattice else share + self._kink(smooth, position, first), slope)

    def _kink(self, smooth: Floats, position: float, first: int) -> float:
        """Euler-Maclaurin terms at epsilon, from the density's value and two derivatives there."""
        if not 4 <= first < smooth.size - 4:
            return 0.0
        theta = first - position  # in (0, 1]
        w, order = self.width, self.order
        coefficients = np.polynomial.polynomial.polyfit(
            np.arange(-4, 4) + theta, smooth[first - 4 : first + 4] / w, 5
        )
        density, slope, bend = coefficients[0], coefficients[1] / w, 2 * coefficients[2] / w**2
        second = 2 * (slope - order * density - density / 2)
        third = 6 * (
            bend / 2
            + order**2 * density / 2
            - order * slope
            - (slope - order * density) / 2
            + density / 6
        )
        b2 = theta**2 - theta + 1 / 6
        b3 = theta**3 - 1.5 * theta**2 + 0.5 * theta
        b4 = theta**4 - 2 * theta**3 + theta**2 - 1 / 30
        return float(w**2 / 2 * b2 * density + w**3 / 6 * b3 * second + w**4 / 24 * b4 * third)

    def scale(self, epsilon: float) -> float:
        """The moments bound on delta, but for a factor below 1."""
        exponent = self.log_moment + self.order * float(self.origin - Fraction(epsilon))
        return math.exp(exponent) if exponent < 700 else math.inf

    def rounding(self, epsilon: float) -> float:
        """About the error that rounding makes in ``delta``."""
        farthest = (self.probabilities.size - self._position(epsilon)) * self.width
        highest = (
            -self.order * math.log1p(1.0 / self.order) - math.log1p(self.order)
            if self.order > 0
            else 0.0
        )
        peak = min(
            -math.expm1(-max(farthest, 0.0)), math.exp(highest)
        )  # of (1 - e^{-x}) e^{-order x}
        return (
            self.scale(epsilon)
            * peak
            * (4.0 * UNIT * math.log2(self.probabilities.size) + self.noise)
        )

    def blur(self, epsilon: float) -> float:
        """What spikes near epsilon may be wrong by: they are spread over some places, where the
        kink is not mended.
        """
        if not self.spiky:
            return 0.0
        first = max(0, math.floor(self._position(epsilon)) - 4)
        return (
            self.scale(epsilon)
            * 0.3
            * self.width
            * float(np.sum(np.abs(self.probabilities[first : first + 10])))
        )

    def delta(self, epsilon: float) -> float:
        """Delta of losses up to the cap, without what the atoms add."""
        return self.scale(epsilon) * self.tail(epsilon).share


def _lattice(points: list[LossPoints], width: float) -> float | None:
    """A width near the wanted one on which all atoms lie, if the composition is made of atoms
    alone.
    """
    if not all(bool(p.is_atom.all()) for p in points):
        return None
    gaps = np.concatenate([np.diff(np.sort(p.losses)) for p in points])
    gaps = gaps[gaps > 1e-12 * max(float(np.max(np.abs(p.losses))) for p in points)]
    if not gaps.size or (gap := float(gaps.min())) < width:
        return None
    gap = float(np.median(gaps[gaps < 1.5 * gap]))
    for p in points:
        multiples = (p.losses - p.losses[0]) / gap
        if np.any(np.abs(multiples - np.round(multiples)) > 1e-10):
            return None
    return gap / math.ceil(gap / width)


class Spectrum(NamedTuple):
    """``log`` of a Fourier transform, the loss at the grid's zero, the ``log`` of the moment from
    there, two errors, and the width of the bulk of a law without atoms.
    """

    log_transform: Complexes
    atomic: Complexes | None
    origin: float
    log_moment: float
    noise: float
    loss_error: float
    bulk: float


def spectrum(
    points: LossPoints,
    order: float,
    width: float,
    size: int,
    log_mass: float,
    *,
    lattice: bool,
    with_atoms: bool,
) -> Spectrum:
    """The transform of one step's tilted law, and of its atoms, on a grid; ``log_mass`` is of the
    points' total.
    """
    tilted = Tilted.of(points, order)
    origin, deviations = tilted.origin, tilted.deviations
    residual = 0.0
    if lattice:
        origin = float(points.losses[int(np.argmin(np.abs(deviations)))])
        deviations = points.losses - origin
    positions = deviations / width
    if lattice:
        residual = float(np.max(np.abs(positions - np.rint(positions)))) * width
        positions = np.rint(positions)
    transform, noise = _log_transform(_spread(positions, tilted.weights, size), 1.0)
    atomic = None
    if with_atoms:
        weights = tilted.weights[points.is_atom]
        atomic, _ = _log_transform(
            _spread(positions[points.is_atom], weights, size), float(weights.sum())
        )
    noise += UNIT * float(tilted.weights @ np.minimum(np.abs(positions), size))
    loss_error = residual + 4.0 * UNIT * float(tilted.weights @ np.abs(points.losses))
    bulk = 0.0 if points.is_atom.any() else tilted.median_deviation
    moment = log_moment(points, order, origin, log_mass)
    return Spectrum(transform, atomic, origin, moment, noise, loss_error, bulk)


def _spread(positions: Floats, weights: Floats, size: int) -> Floats:
    """The weights on the grid: each on the seven nearest places, so that moments up to the sixth
    are kept.
    """
    near = np.rint(positions)
    grid = np.zeros(size)
    index = near.astype(np.int64)
    for offset, stencil in zip(range(-3, 4), _lagrange(positions - near), strict=True):
        grid += np.bincount((index + offset) % size, weights=weights * stencil, minlength=size)
    return grid


def _log_transform(grid: Floats, mass: float) -> tuple[Complexes, float]:
    """``log`` of the Fourier transform, and its error. Most of a small step's mass is in one place,
    kept out of the transform's rounding: the k-th power would magnify it k-fold. So it would the
    rounding of the sums in the grid; ``mass`` is their true total.
    """
    total = float(grid.sum())
    rest = grid.copy()
    rest[0] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        log_transform = math.log(mass) + np.log1p((scipy_fft.rfft(rest) - rest.sum()) / total)
    log_transform[0] = math.log(mass)
    noise = UNIT * math.log2(grid.size) * math.sqrt(float(rest @ rest))
    return np.where(
        np.isfinite(log_transform), log_transform, -1e5
    ), noise  # a zero, whose powers are zero


def _lagrange(x: Floats) -> tuple[Floats, ...]:
    """Weights of seven-point interpolation at ``x`` in [-1/2, 1/2] from the nodes -3 .. 3: they
    keep moments up to the sixth.
    """
    square = x * x
    one, two, three = square - 1.0, square - 4.0, square - 9.0
    first, second, third = x * two * three / 48.0, x * one * three / -120.0, x * one * two / 720.0
    return (
        third * (x - 3.0),
        second * (x - 2.0),
        first * (x - 1.0),
        one * two * three / -36.0,
        first * (x + 1.0),
        second * (x + 2.0),
        third * (x + 3.0),
    )


class Frame:
    """A grid and each pair's transform on it; the law of any counts of these pairs is one inverse
    transform away.
    """

    def __init__(
        self, plan: Plan, pairs: Iterable[DominatingPair], size: int, *, with_atoms: bool
    ) -> None:
        self.plan, self.size = plan, size
        width = (plan.high - plan.low) / (size - 16)
        self._jumps = {pair: jump_of(pair, plan.cap) for pair in pairs}
        points = {
            pair: not_below(
                points_of(pair, plan.order, plan.cap, 3 * size // 4, width), plan.bottom
            )
            for pair in self._jumps
        }
        lattice = _lattice(list(points.values()), width)
        self.lattice, self.width = lattice is not None, lattice or width
        self._spectra = {
            pair: spectrum(
                p,
                plan.order,
                self.width,
                size,
                self._jumps[pair].log_others,
                lattice=self.lattice,
                with_atoms=with_atoms,
            )
            for pair, p in points.items()
        }

    def law(self, steps: Iterable[Step]) -> TiltedLaw:
        """The law of the tilted sum of these steps."""
        parts = [(step.count, self._spectra[step.pair]) for step in steps]
        origin = sum((count * Fraction(one.origin) for count, one in parts), Fraction(0))
        first = (
            math.floor((self.plan.low - float(origin - Fraction(self.plan.centre))) / self.width)
            - 8
        )

        def invert(log_transforms: Iterable[Complexes]) -> Floats:
            return np.roll(scipy_fft.irfft(np.exp(sum(log_transforms)), self.size), -first)

        atoms = [(count, one.atomic) for count, one in parts if one.atomic is not None]
        smoothed = (
            math.sqrt(math.fsum(count * one.bulk**2 for count, one in parts)) > 3.0 * self.width
        )
        return TiltedLaw(
            order=self.plan.order,
            log_moment=math.fsum(count * one.log_moment for count, one in parts),
            origin=origin,
            first=first,
            width=self.width,
            probabilities=invert(count * one.log_transform for count, one in parts),
            atoms=invert(count * transform for count, transform in atoms) if atoms else None,
            lattice=self.lattice,
            greatest_epsilon=self.plan.epsilon,
            jumps=Jumps.of(
                (count, self._jumps[step.pair])
                for (count, _), step in zip(parts, steps, strict=True)
            ),
            noise=math.fsum(count * one.noise for count, one in parts),
            loss_error=math.fsum(count * one.loss_error for count, one in parts),
            spiky=not (smoothed or self.lattice or atoms)
            and any(one.bulk == 0.0 for _, one in parts),
        )
