"""Delta of small mixtures by quadrature: exact to nine digits or so, without anything of evr.

The ratio ``L`` is linear in the ratio ``A`` of one coordinate, given the others. So its part is the
formula of Black and Scholes, which leaves a smooth integrand for the trapezium rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import ndtr

from evr._kernel.pairs.patterns.strategy import Strategy

Floats = np.ndarray
POINTS = {1: 2001, 2: 401, 3: 101}
FARTHEST = 8.5


def delta_by_quadrature(
    gram: Floats, linear: Callable[[Floats], tuple[Floats, Floats]], epsilon: float, direction: str
) -> float:
    """``linear`` takes the ratios of all coordinates but the last to ``(alpha, beta)`` with
    ``L = alpha + beta A_last``.
    """
    gram = np.asarray(gram, float)
    rest, last = gram[:-1, :-1], gram[:-1, -1]
    dimension = gram.shape[0] - 1
    nodes = np.linspace(-FARTHEST, FARTHEST, POINTS[dimension])
    x = np.stack(np.meshgrid(*[nodes] * dimension, indexing="ij"), axis=-1).reshape(-1, dimension)
    chances = np.exp(-(x**2).sum(axis=1) / 2)
    chances *= ((nodes[1] - nodes[0]) / math.sqrt(2 * math.pi)) ** dimension
    v = x @ np.linalg.cholesky(rest).T
    gain = np.linalg.solve(rest, last)
    mean, variance = v @ gain, gram[-1, -1] - gain @ last
    alpha, beta = linear(np.exp(v - np.diag(rest) / 2))
    forward = beta * np.exp(mean - gram[-1, -1] / 2 + variance / 2)  # E[beta A | rest]
    strike = (math.exp(epsilon) if direction == "remove" else math.exp(-epsilon)) - alpha
    deviation = math.sqrt(variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        d = np.log(forward / strike) / deviation + deviation / 2
        call = forward * ndtr(d) - strike * ndtr(d - deviation)
        put = strike * ndtr(deviation - d) - forward * ndtr(-d)
    if direction == "remove":
        return float(chances @ np.where(strike > 0, call, forward - strike))
    return float(math.exp(epsilon) * chances @ np.where(strike > 0, put, 0.0))


def bins_linear(bins: int) -> Callable[[Floats], tuple[Floats, Floats]]:
    """``L`` of balls in bins."""

    def linear(ratios: Floats) -> tuple[Floats, Floats]:
        return ratios.sum(axis=1) / bins, np.full(ratios.shape[0], 1.0 / bins)

    return linear


def gram_of(column: tuple[float, ...], patterns: list[list[int]], steps: int, noise: float) -> Floats:
    """Inner products of ``C 1_x / s``, ``C`` a Toeplitz matrix of that first column."""
    c = np.zeros((steps, steps))
    for lag, value in enumerate(column):
        c += value * np.eye(steps, k=-lag)
    means = np.array([c[:, x].sum(axis=1) / noise for x in patterns])
    return means @ means.T


def dense(strategy: Strategy) -> Floats:
    """The whole matrix ``C``, from its columns."""
    out = np.zeros((strategy.size, strategy.size))
    for i in range(strategy.size):
        column = strategy.columns[0 if len(strategy.columns) == 1 else i][: strategy.size - i]
        out[i : i + len(column), i] = column
    return out
