"""The default method: curves by Fourier transforms, or by samples where a law has no pair on a line, and the greater
answer of both directions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from evr._estimate.fft import BEYOND_FLOATS, FLOOR, SAYS_LITTLE, FftCurve, epsilon_of
from evr._estimate.results import Estimate
from evr._estimate.selected import on_lines
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction, on_a_line
from evr.errors import AccuracyError

_HARMLESS = 1e-12  # an absolute error of delta that is never refused


def needs_samples(composition: Composition) -> bool:
    """Whether some law has no pair on a line, so that estimates come from samples."""
    return not all(on_a_line(on_lines(composition.simplified(one))) for one in Direction)


def estimated_epsilon(composition: Composition, delta: float, guess: float | None, direction: str | None) -> Estimate:
    """The least epsilon; ``guess`` is where to look first."""
    if needs_samples(composition):
        from evr._estimate.monte_carlo import DEFAULT_SAMPLES, monte_carlo_epsilon

        return monte_carlo_epsilon(composition, delta, direction, samples=2 * DEFAULT_SAMPLES, seed=0)
    epsilon, error, winner = greater_epsilon(composition, delta, guess, direction)
    return Estimate(epsilon, "fft", winner, error if math.isfinite(epsilon) else None)


class Point(NamedTuple):
    """An epsilon, an estimate of its absolute error, and the direction that attains it."""

    epsilon: float
    error: float
    direction: str


def greater_epsilon(composition: Composition, delta: float, guess: float | None, direction: str | None) -> Point:
    """The greatest epsilon of the directions, on a line; ``guess`` is where to look first."""
    directions = composition.directions(direction)
    guess = guess if guess is not None and 0.0 < guess < math.inf else None
    best, winner, errors = -1.0, directions[0], [0.0]
    for one in directions:
        curve = FftCurve(on_lines(composition.simplified(one)))
        if best > 0 and 0 < delta < 1:
            found = curve.delta(best, FLOOR * delta)
            if found.value + found.error <= delta:
                continue  # this direction needs no more
        value, error = epsilon_of(curve, delta, guess)
        errors.append(error)
        if value > best:
            best, winner = value, one
    return Point(best, max(errors), winner.value)


def deltas_of(
    composition: Composition, direction: str | None, asked: Iterable[float] = ()
) -> Callable[[float], Estimate]:
    """From an epsilon, one of those ``asked``, to the greater delta of the directions. The curves are for one question:
    transforms made for one epsilon serve others, and move their last digits.
    """
    directions = composition.directions(direction)
    if needs_samples(composition):
        from evr._estimate.monte_carlo import sampled_deltas

        return sampled_deltas(composition, direction)
    curves = {one: FftCurve(on_lines(composition.simplified(one)), asked=asked) for one in directions}

    def greatest(epsilon: float) -> Estimate:
        best, winner, errors = -1.0, Direction.REMOVE, []
        for one, curve in curves.items():
            # a part so far below the other direction's delta does not count
            found = curve.delta(epsilon, max(0.0, FLOOR * best))
            errors.append(found.error)
            if found.value > best:
                best, winner = found.value, one
        error = float(np.max(errors))
        if best > 1.001 or not error <= max(SAYS_LITTLE * best, _HARMLESS):
            stated = f"delta would be {best:.3g} with an error of {error:.1g}"
            raise AccuracyError(f"epsilon={epsilon!r}: {stated}. {BEYOND_FLOATS}")
        return Estimate(best, "fft", winner.value, error)

    return greatest
