"""The atoms of a composition's privacy loss, enumerated: exact where a grid would have to round.

A composition in which every pair has atoms (randomized response, the two ends of the Laplace loss) has atoms itself, at the
sums of one atom from each step. While there are few distinct sums they are listed with their probabilities.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evr.laws import Floats, Measure, Step

MAX_ATOMS = 200_000
_MAX_PRODUCT = 4_000_000
_SAME = 1e-13


class Atoms(NamedTuple):
    """Distinct finite losses in rising order and the logarithms of their probabilities."""

    losses: Floats
    log_weights: Floats

    def delta(self, epsilon: float) -> float:
        """Their part of ``E_P[(1 - e^{epsilon - loss})_+]``."""
        above = self.losses > epsilon
        return float(np.sum(np.exp(self.log_weights[above]) * -np.expm1(epsilon - self.losses[above])))


def atoms_of(steps: tuple[Step, ...]) -> Atoms | None:
    """The atoms of the whole composition, or None if there are none or too many to list."""
    total = Atoms(np.zeros(1), np.zeros(1))
    for step in steps:
        flats = step.pair.flats
        losses = step.pair.privacy_loss(flats[:, 1]) if len(flats) else np.empty(0)
        log_weights = step.pair.log_mass(Measure.P, flats[:, 0], flats[:, 1]) if len(flats) else np.empty(0)
        finite = np.isfinite(losses) & np.isfinite(log_weights)
        if not np.any(finite):
            return None
        power = _power(Atoms(losses[finite], log_weights[finite]), step.count)
        combined = None if power is None else _product(total, power)
        if combined is None:
            return None
        total = combined
    return total


def _power(atoms: Atoms, count: int) -> Atoms | None:
    """``count`` independent copies, by squaring."""
    result: Atoms | None = None
    square = atoms
    while True:
        if count & 1:
            result = square if result is None else _product(result, square)
            if result is None:
                return None
        count >>= 1
        if not count:
            return result
        doubled = _product(square, square)
        if doubled is None:
            return None
        square = doubled


def _product(one: Atoms, other: Atoms) -> Atoms | None:
    """Sums of one atom of each, equal sums joined; None where there are too many."""
    if one.losses.size * other.losses.size > _MAX_PRODUCT:
        return None
    losses = np.add.outer(one.losses, other.losses).ravel()
    log_weights = np.add.outer(one.log_weights, other.log_weights).ravel()
    order = np.argsort(losses, kind="stable")
    losses, log_weights = losses[order], log_weights[order]
    scale = _SAME * (1.0 + float(np.max(np.abs(losses))))
    first = np.flatnonzero(np.concatenate(([True], np.diff(losses) > scale)))
    if first.size > MAX_ATOMS:
        return None
    return Atoms(losses[first], np.logaddexp.reduceat(log_weights, first))
