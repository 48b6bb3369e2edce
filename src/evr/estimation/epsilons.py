"""From delta to epsilon of one direction by the default method: a root, and its error."""

from __future__ import annotations

import math
from typing import NamedTuple

from evr.errors import AccuracyError
from evr.estimation.closed_forms import pair_delta
from evr.estimation.fft import FftCurve
from evr.estimation.inversion import solve_epsilon
from evr.estimation.tilting import likely_epsilon
from evr.laws import Step
from evr.laws.law import UNIT

SAYS_LITTLE = 0.3  # an error, relative to delta, above which an estimate is refused
FLOOR = 1e-13  # of one direction's delta: what is below it in the other need not be known
_LIKELY, _GUESSED = 2e-3, 1e-4  # relative: how far the root may be from what is likely, and from a guess


class Epsilon(NamedTuple):
    """An epsilon and an estimate of its absolute error."""

    value: float
    error: float


def epsilon_of(curve: FftCurve, delta: float, guess: float | None = None) -> Epsilon:
    """Epsilon of one direction at a delta in [0, 1] by the default method; ``guess`` is where to look first."""
    value = _solved(curve, delta, guess)
    if math.isinf(value) or delta == 1 or not curve.steps or _at_zero(curve.steps) <= 0.5 * delta:
        return Epsilon(value, 0.0)
    if delta == 0:
        return Epsilon(value, 4.0 * UNIT * value)
    found = curve.delta(value)
    off = max(0.0, found.value + found.error - delta) if value == 0.0 else abs(found.value - delta) + found.numerical
    if off == 0.0:
        return Epsilon(value, found.moved if value > 0.0 else 0.0)
    rounded = 8.0 * UNIT * value
    if abs(found.value - delta) > 1e-6 * delta and curve.delta(max(0.0, value - rounded)).value > delta:
        off, found = (found.numerical, found._replace(moved=found.moved + 2.0 * rounded))  # no float is nearer
    if (value > 0.0 and off > SAYS_LITTLE * delta) or (found.slope == 0.0 and off > 0.0):
        raise AccuracyError(
            f"delta={delta!r}: at epsilon={value:.6g} delta has an error of {off:.1g}: epsilon is unknown. Double "
            "precision cannot hold this sum (too many steps, or losses of very different size): account for the large "
            "losses apart, or ask for a proved bound (method='strict')"
        )
    slack = off / (found.slope * (1.0 - min(off / delta, 0.5))) if off > 0.0 else 0.0
    return Epsilon(value, slack + found.moved + 1e-11 * value)


def _at_zero(steps: tuple[Step, ...]) -> float:
    """A bound on delta at epsilon 0, where deltas add up."""
    return math.fsum(step.count * pair_delta(step.pair, 0.0) for step in steps)


def _solved(curve: FftCurve, delta: float, guess: float | None = None) -> float:
    """The root."""
    if delta == 1 or not curve.steps:
        return 0.0
    if curve.infinite_mass > delta:
        return math.inf
    if delta == 0:
        return max(0.0, curve.greatest)
    if _at_zero(curve.steps) <= delta:
        return 0.0
    greatest = max(0.0, curve.greatest)
    spread = _LIKELY if guess is None else _GUESSED
    if guess is None:
        guess = likely_epsilon(curve.steps, delta) if curve.infinite_mass < 1.0 else 1.0
    return solve_epsilon(curve.value, delta, guess=guess, greatest=greatest, spread=spread)
