"""Mechanisms in many dimensions so small that a quadrature gives their delta."""

from __future__ import annotations

from functools import cache

import numpy as np

import evr
from evr._kernel.pairs.patterns.min_sep import Chain, log_chain_sum
from kernel.patterns.exact_small import bins_linear, delta_by_quadrature, gram_of

E = evr.events
BAND = (1.0, 0.5)
EVENTS = {
    "independent": E.BallsInBinsDpEvent(1.5, 4, 2),
    "redrawn": E.RedrawnBinsDpEvent(1.5, 2, 2),
    "bins": E.BallsInBinsDpEvent(1.5, 4, 2, BAND),
    "cold": E.BMinSepDpEvent(1.5, 3, 2, 0.5, False, BAND),
    "warm": E.BMinSepDpEvent(1.5, 3, 2, 0.5, True, BAND),
}


@cache
def exact_delta(name: str, epsilon: float, direction: str) -> float:
    """By a quadrature of our own."""
    if name == "redrawn":  # two epochs of two bins

        def product(ratios: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            first = (ratios[:, 0] + ratios[:, 1]) / 2
            return first * ratios[:, 2] / 2, first / 2

        return delta_by_quadrature(np.eye(4) / 1.5**2, product, epsilon, direction)
    if name in ("bins", "independent"):
        band = BAND if name == "bins" else (1.0,)
        gram = gram_of(band, [[0, 2], [1, 3]], 4, 1.5)
        return delta_by_quadrature(gram, bins_linear(2), epsilon, direction)
    gram = gram_of(BAND, [[0], [2], [1]], 3, 1.5)
    chain = Chain(3, 2, 0.5, name == "warm")

    def linear(ratios: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with np.errstate(divide="ignore"):
            logs = np.log(np.array([ratios[:, 0], np.zeros(len(ratios)), ratios[:, 1]]))
        without = np.exp(log_chain_sum(np.maximum(logs, -600.0), chain, 1.0, 0.0))
        logs[1] = 0.0
        return without, np.exp(log_chain_sum(logs, chain, 1.0, 0.0)) - without

    return delta_by_quadrature(gram, linear, epsilon, direction)
