"""Searches for the best of several runs: random ones, and what an explicit score makes of them.

A bound on a search holds for every score. The truth here is the delta of one that exists: outputs of
the base are put into bins, and the bins are ordered by likelihood ratio, cut once and exchanged. The
law of the best run follows from the generating function of the number of runs. So an answer below it
is wrong, and how far a bound is above it says little.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from dp_accounting import dp_event
from scipy.optimize import brentq
from scipy.stats import norm

from attacking.laws import LONG
from evr.events import BinomialSelectDpEvent, EpsilonDeltaDpEvent, ThresholdSelectDpEvent

SELECTIONS = (dp_event.RepeatAndSelectDpEvent, BinomialSelectDpEvent, ThresholdSelectDpEvent)
EVERY, FIRST = 24, 19  # one case in so many is a search
_BINS = 60


def make(rng: np.random.Generator) -> tuple[str, Any, float]:
    """A random search, and an epsilon where its losses live."""
    mu = float(10 ** rng.uniform(-1.5, 0.3))
    bases = [
        ("gaussian", dp_event.GaussianDpEvent(1 / mu)),
        ("gaussians", dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(5 / mu), 25)),
        ("epsilon-delta", EpsilonDeltaDpEvent(mu, float(10 ** rng.uniform(-12, -2)) * float(rng.random() < 0.6))),
    ]
    name, base = bases[int(rng.integers(len(bases)))]
    mean = float(10 ** rng.uniform(0.1, 1.7))
    events = [
        *(dp_event.RepeatAndSelectDpEvent(base, mean, shape) for shape in (1.0, 0.0, 0.5, -0.5, math.inf)),
        BinomialSelectDpEvent(base, int(rng.integers(1, 40)), float(rng.uniform(0.05, 0.95))),
        ThresholdSelectDpEvent(base, float(rng.uniform(0.02, 0.9))),
    ]
    event = events[int(rng.integers(len(events)))]
    return f"search among {name}", event, float(rng.uniform(0.1, 5.0)) * mu


def lower_bound(event: Any, epsilon: float, direction: str) -> float:
    """The greatest delta of the explicit scores."""
    p, q = _base(event.event)
    if direction == "add":
        p, q = q[::-1], p[::-1]
    rising = np.arange(p.size)
    orders = [np.concatenate((rising[:cut], rising[cut:][::-1])) for cut in range(p.size)]
    return max(_delta(event, p[order], q[order], epsilon) for order in orders)


def _delta(event: Any, p: Any, q: Any, epsilon: float) -> float:
    if isinstance(event, ThresholdSelectDpEvent):
        stop, best = LONG(event.stop_probability), LONG(0)
        for good in range(1, p.size):  # the first bins of the order are good
            laws = []
            for one in (p, q):
                on = stop + (1 - stop) * one[:good].sum()
                laws.append(np.append(one[:good], stop * one[good:].sum()) / on)
            best = max(best, _hockey(*laws, epsilon))
        return float(best)
    return float(_hockey(_selected(event, p), _selected(event, q), epsilon))


def _hockey(p: Any, q: Any, epsilon: float) -> Any:
    return np.maximum(p - np.exp(LONG(epsilon)) * q, 0).sum()


def _selected(event: Any, p: Any) -> Any:
    """The law of the best run, better outcomes first: none of the first ones has probability f(1 - theirs)."""
    none = np.append(LONG(0), np.cumsum(p))
    return -np.diff(_generating(event, 1 - none))


def _generating(event: Any, z: Any) -> Any:
    if isinstance(event, BinomialSelectDpEvent):
        return (1 + LONG(event.probability) * (z - 1)) ** event.most_runs
    if event.shape == math.inf:
        return np.exp(LONG(event.mean) * (z - 1))
    eta = event.shape
    gamma = LONG(math.exp(-brentq(lambda u: math.log(_mean(eta, u) / event.mean), 1e-9, 300.0, xtol=1e-15)))
    rest = np.maximum(1 - (1 - gamma) * z, gamma)
    return np.log(rest) / np.log(gamma) if eta == 0 else (rest**-eta - 1) / (gamma**-eta - 1)


def _mean(eta: float, u: float) -> float:
    return math.expm1(u) / u if eta == 0 else eta * math.expm1(u) / -math.expm1(-eta * u)


def _base(event: Any) -> tuple[Any, Any]:
    """The laws of one run's output in bins, likelihood ratios rising."""
    if isinstance(event, EpsilonDeltaDpEvent):
        e, d = LONG(event.epsilon), LONG(event.delta)
        high, low = (1 - d) / (1 + np.exp(-e)), (1 - d) / (1 + np.exp(e))
        return np.array([0, low, high, d]), np.array([d, high, low, 0])
    count, one = (event.count, event.event) if isinstance(event, dp_event.SelfComposedDpEvent) else (1, event)
    mu = math.sqrt(count) / one.noise_multiplier
    edges = np.concatenate(([-np.inf], np.linspace(-5, 5 + mu, _BINS - 1), [np.inf]))

    def masses(shift: float) -> Any:  # from the tail that is nearer
        below, above = np.diff(norm.cdf(edges - shift)), -np.diff(norm.sf(edges - shift))
        return np.where(edges[1:] < shift, below, above).astype(LONG)

    return masses(mu), masses(0.0)
