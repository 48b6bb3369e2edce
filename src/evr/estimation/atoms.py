"""The atoms of a composition's privacy loss, enumerated: exact where a grid would have to round.

A composition in which every pair has atoms (randomized response, the two ends of the Laplace loss) has atoms itself, at
the sums of one atom from each step. While there are few distinct sums they are listed with their probabilities. A sum
is held as two floats, so that a small loss beside a large one keeps its digits.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from evr.estimation.points import dot
from evr.laws import DominatingPair, Floats, Measure, Step
from evr.laws.law import UNIT
from evr.laws.line.laplace import LaplacePair

MAX_ATOMS = 200_000
_MAX_PRODUCT = 4_000_000
# relative to the greatest sum: equal sums of one kind of steps may be so far apart by rounding
_SAME = 16.0 * UNIT


class Delta(NamedTuple):
    """A value of delta with what is known of its error.

    ``error`` is an estimate of the absolute error in all: ``numerical``, and what losses that rounding moved by
    ``moved`` make of it. ``slope`` is how fast delta falls, ``-d delta / d epsilon``.
    """

    value: float
    error: float
    numerical: float = 0.0
    slope: float = 0.0
    moved: float = 0.0

    def worse(self, doubt: float) -> Delta:
        return self._replace(error=self.error + doubt, numerical=self.numerical + doubt)


class Atoms(NamedTuple):
    """Distinct finite losses in rising order, as sums of two floats, and the logarithms of their probabilities.

    ``loss_error`` is how far rounding may have moved a loss, ``steps`` how many were composed.
    """

    losses: Floats
    rests: Floats
    log_weights: Floats
    loss_error: float
    steps: int

    def below(self, epsilon: float, place: int) -> float:
        """How far the atom at a place is below epsilon, rounded once."""
        return float(Fraction(epsilon) - Fraction(self.losses[place]) - Fraction(self.rests[place]))

    def tail(self, epsilon: float) -> Delta:
        """Their part of ``E_P[(1 - e^{epsilon - loss})_+]``."""
        high, low = _two_sum(self.losses, np.array(-epsilon))
        beyond = high + (low + self.rests)
        above = beyond > 0.0
        weights = np.exp(self.log_weights[above])
        value = dot(weights, -np.expm1(-beyond[above]))
        slope = dot(weights, np.exp(-beyond[above]))
        near = np.exp(self.log_weights[np.abs(beyond) <= self.loss_error])
        shift = min(1.0, min(1.0, self.loss_error) * (slope + float(near.sum())))
        numerical = value * (1e-11 + 4.0 * UNIT * self.steps)
        return Delta(value, numerical + shift, numerical, slope, self.loss_error)


def atoms_of(steps: tuple[Step, ...], most: int = MAX_ATOMS, cap: float = np.inf) -> Atoms | None:
    """The atoms of the whole composition up to ``cap`` in each step; None if there are none, or too many to list."""
    total = Atoms(np.zeros(1), np.zeros(1), np.zeros(1), 0.0, 0)
    least = 1  # sums of n numbers and of m numbers are n + m - 1 numbers at least
    for step in steps:
        flats = step.pair.flats
        losses = step.pair.privacy_loss(flats[:, 1]) if len(flats) else np.empty(0)
        log_weights = step.pair.log_mass(Measure.P, flats[:, 0], flats[:, 1]) if len(flats) else np.empty(0)
        finite = np.isfinite(losses) & np.isfinite(log_weights) & (losses <= cap)
        if not np.any(finite):
            return None
        losses, log_weights = losses[finite], log_weights[finite]
        least += step.count * (losses.size - 1)
        if least > most:
            return None
        error = 0.0 if _is_exact(step.pair) else 4.0 * UNIT * float(np.max(np.abs(losses)))
        power = _power(Atoms(losses, np.zeros(losses.size), log_weights, error, 1), step.count)
        combined = None if power is None else _product(total, power, UNIT**2)
        if combined is None:
            return None
        total = combined
    return total if total.losses.size <= most else None


def _is_exact(pair: DominatingPair) -> bool:
    """Whether no loss is rounded: so of Laplace noise whose scale is a power of 2."""
    return isinstance(pair, LaplacePair) and Fraction(1 / pair.scale) * Fraction(pair.scale) == 1


def _power(atoms: Atoms, count: int) -> Atoms | None:
    """``count`` independent copies, by squaring."""
    result: Atoms | None = None
    square = atoms
    while True:
        if count & 1:
            result = square if result is None else _product(result, square, _SAME)
            if result is None:
                return None
        count >>= 1
        if not count:
            return result
        doubled = _product(square, square, _SAME)
        if doubled is None:
            return None
        square = doubled


def _product(one: Atoms, other: Atoms, same: float) -> Atoms | None:
    """Sums of one atom of each, sums that are the same joined; None where there are too many."""
    if one.losses.size * other.losses.size > _MAX_PRODUCT:
        return None
    high, low = _two_sum(one.losses[:, None], other.losses[None, :])
    high, low = _two_sum(high, low + np.add.outer(one.rests, other.rests))
    log_weights = np.add.outer(one.log_weights, other.log_weights).ravel()
    order = np.lexsort((low.ravel(), high.ravel()))
    high, low, log_weights = high.ravel()[order], low.ravel()[order], log_weights[order]
    least = same * float(np.max(np.abs(high)))
    first = np.flatnonzero(np.concatenate(([True], np.diff(high) + np.diff(low) > least)))
    if first.size > MAX_ATOMS:
        return None
    last = np.append(first[1:], high.size) - 1
    moved = float(np.max((high[last] - high[first]) + (low[last] - low[first])))  # neighbours may join in a row
    error = one.loss_error + other.loss_error + moved
    joined = np.logaddexp.reduceat(log_weights, first)
    return Atoms(high[first], low[first], joined, error, one.steps + other.steps)


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """``a + b`` rounded, and what rounding took off (Knuth): exact together."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)
