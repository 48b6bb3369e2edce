"""The Fourier transform of one step's tilted law, its points spread on a grid that is a ring."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft as scipy_fft

from evr.estimation.discretise import LossPoints, dot
from evr.estimation.points import Tilted, log_moment
from evr.laws import Floats
from evr.laws.law import UNIT

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
    tilted = Tilted.of(points, order)
    residual, origin = 0.0, _spike(tilted, width, size)
    if lattice:
        origin = float(points.losses[int(np.argmin(np.abs(tilted.deviations)))])
    positions = (points.losses - origin) / width
    if lattice:
        residual = float(np.max(np.abs(positions - np.rint(positions)))) * width
        positions = np.rint(positions)
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
    """The loss about which much of the mass is within ``width``, or the mean if there is none such.

    A grid that has it as a place holds its powers without ripples.
    """
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
    """The weights on the grid, a ring: each on the seven nearest places, so that moments up to the sixth are kept.
    Positions rise; a few at a time stay in the cache and meet few places.
    """
    positions = np.clip(positions, -_FARTHEST, _FARTHEST)
    grid = np.zeros(size)
    for start in range(0, positions.size, _FEW):
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
        _add_on_ring(grid, first % size, part)
    return grid


def _add_on_ring(grid: Floats, first: int, part: Floats) -> None:
    """Add a part to the places from the given one on; after the last place comes the first."""
    while part.size:
        room = min(part.size, grid.size - first)
        grid[first : first + room] += part[:room]
        first, part = 0, part[room:]


def _log_transform(grid: Floats, mass: float) -> tuple[Complexes, float]:
    """``log`` of the Fourier transform, and its error. Most of a small step's mass is in one place, kept out of the
    transform's rounding: the k-th power would magnify it k-fold. So it would the rounding of the sums in the grid;
    ``mass`` is their true total.
    """
    total = float(grid.sum())
    rest = grid.copy()
    rest[0] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        log_transform = math.log(mass) + np.log1p((scipy_fft.rfft(rest) - rest.sum()) / total)
    log_transform[0] = math.log(mass)
    noise = UNIT * math.log2(grid.size) * math.sqrt(dot(rest, rest))
    return np.where(np.isfinite(log_transform), log_transform, -1e5), noise  # a zero, whose powers are zero


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
