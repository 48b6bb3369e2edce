"""The curve of evr's laws, those that are known by samples only included."""

from __future__ import annotations

import math

import numpy as np

from evr import testing
from evr._estimate.selected import on_lines
from evr._kernel.pairs import Direction, Measure, Step, on_a_line
from evr._kernel.pairs.line.pair import line_pair
from evr._kernel.pairs.patterns.law import PatternLaw

DRAWS, DEVIATIONS = 100_000, 6.0
"""A false alarm is as likely as a normal variable 6 deviations out, 1e-9."""
FEWEST = 500  # draws of equal weight that a delta has to rest on: below, it is not compared
WIDE = 1.5  # normal variables are drawn so much wider than they are, since large losses count


class WideGenerator:
    """Draws wider normal variables than it is asked for, and remembers how much less likely it made each row."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(0)
        self.log_weights = np.zeros(DRAWS)

    def standard_normal(self, shape: tuple[int, int]) -> np.ndarray:
        drawn = WIDE * self.generator.standard_normal(shape)
        self.log_weights += shape[1] * math.log(WIDE) - (drawn**2).sum(axis=1) * (1 - WIDE**-2) / 2
        return drawn


def deltas_of(steps: tuple[Step, ...], epsilons: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Deltas by evr's laws of the steps, at rising epsilons, and how far they may be from the truth."""
    if on_a_line(on_lines(steps)):
        return testing.deltas_of(steps, epsilons)
    wide = WideGenerator()
    log_p, log_q = np.zeros(DRAWS), np.zeros(DRAWS)  # densities of both laws at the draws
    for law in (step.floats for step in steps for _ in range(step.count)):
        if isinstance(law, PatternLaw):
            coordinates = law.draw_null(wide, DRAWS)  # type: ignore[arg-type]
            ratio = law.log_ratio(coordinates)
            own, loss = 0.0 if law.direction is Direction.ADD else ratio, law.loss(coordinates, ratio)
        else:  # half of the draws are from P, half from Q
            pair = line_pair(law)
            halves = [pair.draw(measure, wide.generator, DRAWS // 2) for measure in Measure]
            loss = pair.privacy_loss(wide.generator.permutation(np.concatenate(halves)))
            own = math.log(2) - np.logaddexp(0.0, -loss)
        log_p, log_q = log_p + own, log_q + own - loss
    p, q = np.exp(log_p + wide.log_weights), np.exp(log_q + wide.log_weights)

    draws = np.maximum(p - np.exp(epsilons)[:, None] * q, 0.0)
    totals, squares = draws.sum(axis=1), (draws**2).sum(axis=1)
    errors = DEVIATIONS * np.sqrt(squares) / DRAWS
    return totals / DRAWS, np.where(totals**2 > FEWEST * squares, errors, np.inf)
