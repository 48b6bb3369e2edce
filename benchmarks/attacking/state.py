"""Mechanisms that evr bounds from above: choices, zCDP, integer noise, random allocation. Each comes
with a mechanism of its kind whose delta is known exactly, so that every bound below it is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from dp_accounting import dp_event
from scipy.stats import binom, norm

from evr.events import DiscreteGaussianDpEvent, ExponentialMechanismDpEvent, RandomAllocationDpEvent

Generator = np.random.Generator
Drawn = tuple[Any, float, float]
"""An event, an epsilon, and what delta is at least, as far as doubles tell."""


def _gaussian(mu: float, epsilon: float) -> float:
    low = epsilon / mu - mu / 2
    return float(norm.sf(low) - math.exp(epsilon + norm.logsf(low + mu)))


def _choices(rng: Generator) -> Drawn:
    """All steps with one common ``t``, the worst of many."""
    steps, width = int(rng.integers(1, 13)), float(10 ** rng.uniform(-2, 0.7))
    epsilon = float(rng.uniform(0.05, 0.9)) * width * steps
    highs = np.arange(steps + 1)
    deltas = []
    for t in np.linspace(0.0, width, 65)[1:-1]:
        chance = -math.expm1(t - width) / -math.expm1(-width)
        losses = highs * t + (steps - highs) * (t - width)
        deltas.append(float(np.sum(binom.pmf(highs, steps, chance) * -np.expm1(np.minimum(epsilon - losses, 0.0)))))
    step = ExponentialMechanismDpEvent(width)
    return (step if steps == 1 else dp_event.SelfComposedDpEvent(step, steps)), epsilon, max(deltas)


def _concentrated(rng: Generator) -> Drawn:
    """A Gaussian mechanism has the rho that is stated; perhaps beside noise of known law."""
    rho, other = float(10 ** rng.uniform(-4, 1)), float(10 ** rng.uniform(-2, 0.5))
    event: Any = dp_event.ZCDpEvent(rho)
    square = 2 * rho
    if rng.random() < 0.5:
        event = dp_event.ComposedDpEvent([event, dp_event.GaussianDpEvent(1 / other)])
        square += other**2
    mu = math.sqrt(square)
    epsilon = square / 2 + float(rng.uniform(-0.3, 5.0)) * mu
    return event, max(0.0, epsilon), _gaussian(mu, max(0.0, epsilon))


def _integers(rng: Generator) -> Drawn:
    """Two coordinates, both laws listed; perhaps sampled."""
    sigma, shift = float(rng.uniform(1.0, 8.0)), rng.integers(0, 4, 2)
    shift[0] = max(shift[0], 1)
    p = q = np.ones(1)
    for v in shift:
        x = np.arange(-math.ceil(12 * sigma), math.ceil(12 * sigma) + v + 1)
        there, here = (np.exp(-((x - c) ** 2) / (2 * sigma**2)) for c in (v, 0))
        p, q = (np.multiply.outer(law, one / one.sum()).ravel() for law, one in ((p, there), (q, here)))
    event: Any = DiscreteGaussianDpEvent(sigma, math.nextafter(math.hypot(*shift), math.inf), 2)
    if rng.random() < 0.5:
        rate = float(10 ** rng.uniform(-2, 0))
        p, event = (1 - rate) * q + rate * p, dp_event.PoissonSampledDpEvent(rate, event)
    losses = np.sort(np.log(p) - np.log(q))
    epsilon = max(0.0, float(losses[int(losses.size * rng.uniform(0.4, 0.98))]) * float(rng.uniform(0.1, 1.0)))
    return event, epsilon, float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0.0)))


def _allocated(rng: Generator) -> Drawn:
    """Who sees the sum of all outputs only sees a Gaussian mechanism."""
    noise, iterations = float(rng.uniform(0.6, 4.0)), int(rng.integers(2, 9))
    often = int(rng.integers(1, iterations + 1))
    mu = often / (noise * math.sqrt(iterations))
    epsilon = mu * mu / 2 + float(rng.uniform(-0.3, 3.0)) * mu
    return RandomAllocationDpEvent(noise, iterations, often), max(0.0, epsilon), _gaussian(mu, max(0.0, epsilon))


KINDS: dict[str, Callable[[Generator], Drawn]] = {
    "choices": _choices,
    "zCDP": _concentrated,
    "integer noise": _integers,
    "allocation": _allocated,
}


def draw(rng: Generator) -> tuple[str, Drawn]:
    """One of them, with the name of its kind."""
    kind = str(rng.choice(list(KINDS)))
    return kind, KINDS[kind](rng)
