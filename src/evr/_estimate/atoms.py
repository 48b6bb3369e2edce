"""Parts of delta that need no grid: the atoms of a composition, and losses so large that one decides by itself.

If every pair has atoms, so has the composition: the sums of one atom from each step. A few distinct sums are listed,
each as two floats, so that a small loss beside a large one keeps its digits. If a loss above a cap puts the sum above
epsilon whatever the other steps do, then all sums with such a loss add to delta

    A - e^epsilon B,   A = 1 - prod (1 - p_i)^{k_i},   B = prod s_i^{k_i} (1 - prod (1 - q_i/s_i)^{k_i})

``p_i`` and ``q_i`` are what a step has beyond the cap under ``P`` and ``Q``, and ``s_i`` what ``Q`` has where ``P`` has
something: elsewhere a loss is minus infinity and takes the sum below epsilon again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple, Self

import numpy as np

from evr._estimate.points import dot
from evr._kernel.pairs import DominatingPair, Floats, Measure, Step
from evr._kernel.pairs.law import UNIT
from evr._kernel.pairs.line.laplace import LaplacePair
from evr._kernel.pairs.line.pair import log_sum_exp

MAX_ATOMS = 200_000
_MAX_PRODUCT = 4_000_000
# relative to the greatest sum: equal sums of one kind of steps may be so far apart by rounding
_SAME = 16.0 * UNIT


class Delta(NamedTuple):
    """A value of delta. ``error`` estimates its absolute error: ``numerical``, and what losses that rounding moved by
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
    Rounding may have moved a loss by ``loss_error``; ``steps`` says how many were composed.
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
        try:
            power = _power(Atoms(losses, np.zeros(losses.size), log_weights, error, 1), step.count)
            total = _product(total, power, UNIT**2)
        except _TooManyError:
            return None
    return total if total.losses.size <= most else None


def _is_exact(pair: DominatingPair) -> bool:
    """Whether no loss is rounded: so of Laplace noise whose scale is a power of 2."""
    return isinstance(pair, LaplacePair) and Fraction(1 / pair.scale) * Fraction(pair.scale) == 1


class _TooManyError(Exception):
    """There are too many sums to list."""


def _power(atoms: Atoms, count: int) -> Atoms:
    """``count`` independent copies, by squaring."""
    if count == 1:
        return atoms
    square = _power(_product(atoms, atoms, _SAME), count // 2)
    return _product(square, atoms, _SAME) if count % 2 else square


def _product(one: Atoms, other: Atoms, same: float) -> Atoms:
    """Sums of one atom of each, sums that are the same joined."""
    if one.losses.size * other.losses.size > _MAX_PRODUCT:
        raise _TooManyError
    high, low = _two_sum(one.losses[:, None], other.losses[None, :])
    high, low = _two_sum(high, low + np.add.outer(one.rests, other.rests))
    log_weights = np.add.outer(one.log_weights, other.log_weights).ravel()
    order = np.lexsort((low.ravel(), high.ravel()))
    high, low, log_weights = high.ravel()[order], low.ravel()[order], log_weights[order]
    least = same * float(np.max(np.abs(high)))
    first = np.flatnonzero(np.concatenate(([True], np.diff(high) + np.diff(low) > least)))
    if first.size > MAX_ATOMS:
        raise _TooManyError
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


class Jump(NamedTuple):
    """One step beyond the cap: ``p``, ``log q`` and ``p - q``, ``q`` being a share of what ``Q`` has where ``P`` has
    something; ``log (1 - p)``; and the logarithm of what ``Q`` has where ``P`` has something.
    """

    p: float
    log_q: float
    gap: float
    log_others: float
    log_support: float = 0.0


def jump_of(pair: DominatingPair, cap: float) -> Jump:
    """The losses of one step beyond the cap, infinite ones included."""
    place = float(pair.point(cap))
    if place == math.inf:
        return Jump(0.0, -math.inf, 0.0, 0.0)
    log_p = float(pair.log_mass(Measure.P, place, np.inf))
    log_q = float(pair.log_mass(Measure.Q, place, np.inf))
    p = math.exp(log_p)
    gap = -p * math.expm1(log_q - log_p) if p > 0.0 else 0.0
    log_others = math.log1p(-p) if p < 0.5 else float(pair.log_mass(Measure.P, -np.inf, place))
    below = pair.flats[pair.privacy_loss(pair.flats[:, 1]) == -np.inf]
    missing = math.fsum(np.exp(pair.log_mass(Measure.Q, below[:, 0], below[:, 1])).tolist())
    if missing > 0.0:
        log_support = math.log1p(-missing) if missing < 1.0 else -math.inf
        gap -= math.exp(log_q) * math.expm1(-log_support)
        return Jump(p, log_q - log_support, gap, log_others, log_support)
    return Jump(p, log_q, gap, log_others)


class Jumps(NamedTuple):
    """All steps beyond the cap: ``A``, ``log B``, ``A - B``, and about the rounding error of these."""

    above: float
    log_dual: float
    gap: float
    error: float

    @classmethod
    def of(cls, parts: Iterable[tuple[int, Jump]]) -> Self:
        held = [(count, jump) for count, jump in parts if jump.p > 0.0]
        log_stay = math.fsum(count * jump.log_others for count, jump in held)
        log_dual = log_sum_exp(np.array([-math.inf, *(math.log(n) + jump.log_q for n, jump in held)]))
        log_stay_dual = 0.0
        if log_dual > -40.0:  # below, none of the products of these probabilities matters
            duals = [(n, math.exp(jump.log_q)) for n, jump in held]
            log_stay_dual = math.fsum(n * math.log1p(-q) if q < 1.0 else -math.inf for n, q in duals)
            log_dual = math.log(-math.expm1(log_stay_dual))
        if log_stay > -30.0:
            growth = math.fsum(n * math.log1p(jump.gap * math.exp(-jump.log_others)) for n, jump in held)
            gap = math.exp(log_stay) * math.expm1(growth)
        else:
            gap = math.exp(log_stay_dual) - math.exp(log_stay)
        log_support = math.fsum(count * jump.log_support for count, jump in held)
        gap -= math.expm1(log_support) * math.exp(log_dual)
        log_dual += log_support
        # p - q comes from two logarithms, each rounded as large as it is
        rounded = math.fsum(n * jump.p * (1.0 - math.log(jump.p)) for n, jump in held)
        error = 4.0 * UNIT * min(1.0, rounded)
        return cls(-math.expm1(log_stay), log_dual, gap, error)

    def delta(self, epsilon: float) -> float:
        """``A - e^epsilon B``."""
        if epsilon < 1.0:
            return self.gap - math.expm1(epsilon) * math.exp(self.log_dual)
        return self.above - self.slope(epsilon)

    def slope(self, epsilon: float) -> float:
        """``e^epsilon B``, by which it falls."""
        return math.exp(min(epsilon + self.log_dual, 700.0))


def jumps_beyond(steps: Iterable[Step], cap: float) -> Jumps:
    """What all steps have beyond the cap."""
    return Jumps.of((step.count, jump_of(step.pair, cap)) for step in steps)
