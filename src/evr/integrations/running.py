"""Epsilon of a training that goes on: cheap enough to ask after every step (``evr.estimation.online``)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from evr.estimation.online import Interpolated, Point, epsilon_near
from evr.events import opacus_history
from evr.mechanisms import Composition

_DIRECT = 2  # questions: who asks once an epoch, or searches for a noise multiplier, needs no block of steps

Phase = tuple[float, float, int]
"""``(noise_multiplier, sample_rate, steps)``, as Opacus keeps its history."""


class RunningEpsilon:
    """Epsilon at one delta after each step of a history that grows at its end.

    Examples
    --------
    >>> running = RunningEpsilon(1e-5)
    >>> [round(running([(1.0, 0.01, steps)]), 4) for steps in (1, 10, 100)]
    [0.1995, 0.3799, 0.718]
    """

    def __init__(self, delta: float) -> None:
        self._delta = delta
        self._phase: tuple[list[Phase], float, float] | None = None
        self._curve: Interpolated

    def __call__(self, history: Sequence[Phase]) -> float:
        """Epsilon after everything in ``history``, an Opacus accountant's list of phases."""
        if not history:
            return 0.0
        *before, (noise, rate, steps) = history
        if self._phase != (before, noise, rate):
            self._phase, self._curve = (before, noise, rate), self._of_phase(before, noise, rate)
        return self._curve(int(steps)).epsilon

    def _of_phase(self, before: list[Phase], noise: float, rate: float) -> Interpolated:
        def evaluate(steps: int, guess: float | None, direction: str | None) -> Point:
            return estimated([*before, (noise, rate, steps)], self._delta, guess, direction)

        def horizon(first: int) -> float:
            # phases of a schedule are alike: compute nothing far beyond the length of the last one
            return max(5 * first, first + before[-1][2]) if before else math.inf

        return Interpolated(evaluate, sum(steps for *_, steps in before), horizon, _DIRECT)


def estimated(history: Sequence[Phase], delta: float, guess: float | None, direction: str | None) -> Point:
    """Epsilon of a history, from a guess and in a direction where they are known."""
    return epsilon_near(Composition.of(opacus_history(history)), delta, guess, direction)
