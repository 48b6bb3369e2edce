"""Selections computed without evr: exact laws of finite mechanisms, and the formulas of docs/guarantees_selection.md in
plain floats on cells of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from flint import arb
from scipy.stats import norm

from evr._kernel.pairs.selection import BinomialRuns, NegativeBinomialRuns, PoissonRuns, Rule, UntilGood

Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Plain:
    """A law of the number of runs by its letters: the generating function ``f`` in balls, ``g`` in floats, and evr's
    rule.
    """

    name: str
    f: Callable[[arb], arb]
    g: Function
    rule: Rule


def poisson(mean: float) -> Plain:
    return Plain(
        "poisson",
        lambda z: (arb(mean) * (z - 1)).exp(),
        lambda x: mean * np.exp(-mean * x),
        PoissonRuns(Fraction(mean)),
    )


def negative_binomial(eta: float, gamma: float) -> Plain:
    """The mean is rounded to a float, so ``f`` follows from evr's gamma, which a test compares with dp_accounting's."""
    mean = (1 / gamma - 1) / math.log(1 / gamma) if eta == 0 else eta * (1 - gamma) / (gamma * (1 - gamma**eta))
    rule = NegativeBinomialRuns(Fraction(mean), Fraction(eta))

    def f(z: arb) -> arb:
        exact = (-rule.log_odds()).exp()
        rest = 1 - (1 - exact) * z
        return rest.log() / exact.log() if eta == 0 else (rest ** -arb(eta) - 1) / (exact ** -arb(eta) - 1)

    return Plain("negative binomial", f, lambda x: mean * (gamma / (gamma + (1 - gamma) * x)) ** (eta + 1), rule)


def binomial(most: int, rho: float) -> Plain:
    return Plain(
        "binomial",
        lambda z: (1 - arb(rho) + arb(rho) * z) ** most,
        lambda x: most * rho * (1 - rho * x) ** (most - 1),
        BinomialRuns(most, Fraction(rho)),
    )


def until_good(stop: float) -> Rule:
    return UntilGood(Fraction(stop))


def hockey(p: Sequence[arb], q: Sequence[arb], epsilon: float) -> arb:
    """Delta of two laws on finitely many outcomes."""
    scale = arb(epsilon).exp()
    return sum((arb(0).max(a - scale * b) for a, b in zip(p, q, strict=True)), arb(0))


def selected_law(p: Sequence[arb], f: Callable[[arb], arb]) -> list[arb]:
    """The law of the best run, outcomes in falling order of score, and of none. The best of K runs is among the first
    so many outcomes unless no run is: that has probability ``f(1 - their probability)``.
    """
    worse, total = [f(arb(1))], arb(0)
    for one in p:
        total = total + one
        worse.append(f(1 - total))
    return [*(a - b for a, b in pairwise(worse)), worse[-1]]


def gaussian_delta(mu: float, epsilon: float) -> float:
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def trade(points: Sequence[tuple[float, float]], x: Any) -> Any:
    """T of Section T1, from points that hold in both directions."""
    found = np.ones_like(np.asarray(x, float))
    for epsilon, delta in points:
        found = np.minimum(found, math.exp(epsilon) * x + delta)
        found = np.minimum(found, 1 - math.exp(-epsilon) * (1 - x - delta))
    return found


def curve(points: Sequence[tuple[float, float]], gamma: Any) -> Any:
    """The curve of one run by chords in gamma, from points that hold in both directions."""
    places = [(0.0, 1.0), *((math.exp(-e), 1 - math.exp(-e) * (1 - d)) for e, d in reversed(points) if e > 0)]
    places += [(math.exp(e), d) for e, d in points]
    x, y = np.array(places).T
    return np.interp(gamma, x, y)


def sharp(points: Sequence[tuple[float, float]], g: Function, epsilon: float, cells: np.ndarray) -> float:
    """Theorem T3 by the crossings of every line with the envelope so far; cells are given."""
    a, b = g(cells[:-1]), math.exp(epsilon) * g(trade(points, cells[1:]))
    order = np.lexsort((-b, a))
    lines: list[tuple[float, float]] = [(0.0, 0.0)]
    kinks: list[float] = []
    for slope, height in zip(a[order], b[order], strict=True):
        while True:
            last, low = lines[-1]
            if slope <= last:
                break
            kink = (height - low) / (slope - last)
            if kinks and kink <= kinks[-1]:
                lines.pop()
                kinks.pop()
                continue
            lines.append((slope, height))
            kinks.append(kink)
            break
    jumps = np.diff([slope for slope, _ in lines])
    return float(jumps @ curve(points, np.array(kinks)))
