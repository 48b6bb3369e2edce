"""The transform of one step's tilted law: its points are spread on a grid, a ring, by weights that keep six moments."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evr._estimate.points import LossPoints, Tilted, dot, log_moment
from evr._kernel.pairs import Floats
from evr._kernel.pairs.law import UNIT

Complexes = NDArray[np.complex128]
_SPIKE = 0.3  # the share of a law that makes a spike of it
_FARTHEST = 2.0**52  # places from the origin: what is beyond has no weight to speak of
_FEW = 1 << 14  # points that are spread at a time


class Spectrum(NamedTuple):
    """``log`` of a Fourier transform, the loss at the grid's zero, the ``log`` moment from there, and two errors."""

    log_transform: Complexes
    atomic: Complexes | None
    origin: float
    log_moment: float
    noise: float
    loss_error: float


def spectrum(
    points: LossPoints, order: float, width: float, size: int, log_mass: float, *, lattice: bool, with_atoms: bool
) -> Spectrum:
    """The transform of one step's tilted law, and of its atoms, on a grid; ``log_mass`` is of the points' total."""
    tilted, residual = Tilted.of(points, order), 0.0
    if lattice:
        origin = float(points.losses[int(np.argmin(np.abs(tilted.deviations)))])
        exact = (points.losses - origin) / width
        positions = np.rint(exact)
        residual = float(np.max(np.abs(exact - positions))) * width
    else:
        origin = _spike(tilted, width, size)
        positions = (points.losses - origin) / width
    transform, noise = _log_transform(spread(positions, tilted.weights, size), 1.0)
    atomic = None
    if with_atoms:
        weights = tilted.weights[points.is_atom]
        atomic, _ = _log_transform(spread(positions[points.is_atom], weights, size), float(weights.sum()))
    noise += UNIT * dot(tilted.weights, np.minimum(np.abs(positions), size))
    loss_error = residual + 8.0 * UNIT * dot(tilted.weights, np.abs(points.losses))
    moment = log_moment(points, order, origin, log_mass)
    return Spectrum(transform, atomic, origin, moment, noise, loss_error)


def _spike(tilted: Tilted, width: float, size: int) -> float:
    """The loss about which much of the mass is, or the mean: with it as a place a grid holds powers without ripples."""
    if tilted.variance <= width**2:
        return tilted.origin
    far = np.clip(tilted.deviations / width, -_FARTHEST, _FARTHEST)
    places = np.rint(far).astype(np.int64) % size
    masses = np.bincount(places, weights=tilted.weights, minlength=size)
    pairs = masses + np.roll(masses, -1)
    heaviest = int(np.argmax(pairs))
    if pairs[heaviest] < _SPIKE:
        return tilted.origin
    near = (places - heaviest) % size <= 1
    return tilted.origin + dot(tilted.weights[near], tilted.deviations[near]) / pairs[heaviest]


def spread(positions: Floats, weights: Floats, size: int) -> Floats:
    """The weights on the grid, a ring: each on the seven nearest places, so that moments up to the sixth are kept."""
    positions = np.clip(positions, -_FARTHEST, _FARTHEST)
    grid = np.zeros(size)
    for start in range(0, positions.size, _FEW):  # positions rise: a few stay in the cache and meet few places
        some, own = positions[start : start + _FEW], weights[start : start + _FEW]
        near = np.rint(some)
        first = int(near.min()) - 3
        index = near.astype(np.int64) - (first + 3)
        if index.max() + 7 > size:
            index %= size
        part = np.zeros(int(index.max()) + 7)
        for offset, stencil in enumerate(_lagrange(some - near)):
            mass = np.bincount(index + offset, own * stencil)
            part[: mass.size] += mass
        np.add.at(grid, (first % size + np.arange(part.size)) % size, part)
    return grid


def _log_transform(grid: Floats, mass: float) -> tuple[Complexes, float]:
    """``log`` of the Fourier transform, and its error; ``mass`` is the true total. Powers magnify rounding, so most of
    a small step's mass, in one place, is kept out of the transform.
    """
    total = float(grid.sum())
    rest = grid.copy()
    rest[0] = 0.0
    log_transform = math.log(mass) + _log1p((np.fft.rfft(rest) - rest.sum()) / total)
    log_transform[0] = math.log(mass)
    noise = UNIT * math.log2(grid.size) * math.sqrt(dot(rest, rest))
    return np.where(np.isfinite(log_transform), log_transform, -1e5), noise  # a zero, whose powers are zero


def _log1p(z: Complexes) -> Complexes:
    """``log(1 + z)`` with an error relative to ``z``. That of NumPy's is relative to 1 in the real part."""
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(np.abs(z) < 0.5, np.log1p(z.real * (2.0 + z.real) + z.imag**2) / 2.0, np.log(np.abs(1.0 + z)))
    return size + 1j * np.arctan2(z.imag, 1.0 + z.real)


def _lagrange(x: Floats) -> tuple[Floats, ...]:
    """Weights of seven-point interpolation at ``x`` in [-1/2, 1/2] from -3 .. 3: moments up to the sixth are kept."""
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
