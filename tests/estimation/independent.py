"""Deltas by other means than a tilted Fourier transform on a grid: closed forms, enumeration,
quadrature. Contour integrals are those of ``benchmarks/attacking``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import mpmath as mp
import numpy as np


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Gaussian mechanism (Balle and Wang 2018, Theorem 8), with 50 digits."""
    with mp.workdps(50):
        m, e = mp.mpf(mu), mp.mpf(epsilon)
        return float(mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m))


def atomic_delta(laws: Sequence[tuple[list[float], list[float]]], epsilon: float) -> float:
    """``sum (P(x) - e^epsilon Q(x))_+`` over all outcomes of finite laws ``(P, Q)``, one by one."""
    total = mp.mpf(0)
    with mp.workdps(40):
        for outcome in itertools.product(*(range(len(p)) for p, _ in laws)):
            in_p = mp.fprod(mp.mpf(laws[i][0][x]) for i, x in enumerate(outcome))
            in_q = mp.fprod(mp.mpf(laws[i][1][x]) for i, x in enumerate(outcome))
            total += max(mp.mpf(0), in_p - mp.exp(epsilon) * in_q)
        return float(total)


def binomial_delta(truth: float, count: int, epsilon: float) -> float:
    """``count`` binary randomized responses that tell the truth with probability ``truth``, by the
    binomial law.
    """
    with mp.workdps(60):
        p, q = mp.mpf(truth), 1 - mp.mpf(truth)
        terms = (
            mp.binomial(count, n) * (p**n * q ** (count - n) - mp.exp(epsilon) * q**n * p ** (count - n))
            for n in range(count + 1)
        )
        return float(mp.fsum(t for t in terms if t > 0))


def after_laplace(scale: float, kinks: Sequence[float], inner: Callable[[float], float]) -> Callable[[float], float]:
    """delta of a Laplace mechanism composed with one whose delta is ``inner``: ``E_P[inner(epsilon
    - loss)]``.

    ``kinks`` are the epsilons at which ``inner`` is not smooth.
    """
    nodes, weights = np.polynomial.legendre.leggauss(30)

    def delta(epsilon: float) -> float:
        ends = sorted({0.0, 1.0, *((1 + (epsilon - k) * scale) / 2 for k in kinks)})
        total = 0.5 * inner(epsilon - 1 / scale) + 0.5 * math.exp(-1 / scale) * inner(epsilon + 1 / scale)
        for low, high in itertools.pairwise(e for e in ends if 0 <= e <= 1):
            t = (low + high) / 2 + (high - low) / 2 * nodes
            values = np.array([inner(epsilon - (2 * x - 1) / scale) for x in t])
            density = np.exp(-(1 - t) / scale) / (2 * scale)
            total += (high - low) / 2 * float(np.sum(weights * density * values))
        return total

    return delta


def after_atoms(p: list[float], q: list[float], inner: Callable[[float], float]) -> Callable[[float], float]:
    """delta of a mechanism with finite laws composed with one whose delta is ``inner``."""
    return lambda epsilon: sum(a * inner(epsilon - math.log(a / b)) for a, b in zip(p, q, strict=True))
