"""Models of selections: a base mechanism runs several times, and the best output is released."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from dp_accounting import dp_event
from scipy.optimize import brentq

from evr.mechanisms import schemes
from evr.testing import Law
from models import batches
from models.cases import Case, numbers
from models.mechanisms import ONE_BIT, any_bit, noisy_bit, summed
from models.releases import CELLS

Generating = Callable[[float], float]
"""The generating function ``E z^K`` of the number of runs."""


def best_of(base: Mapping[Any, float], ranking: list[Any], generating: Generating) -> dict[Any, float]:
    """The law of the best output, best first in ``ranking``, and of none. No run is among the first outputs with the
    probability ``E (1 - their probability)^K``.
    """
    better, none_better = 0.0, [1.0]
    for outcome in ranking:
        better += base.get(outcome, 0.0)
        none_better.append(generating(max(0.0, 1 - better)))
    law = {outcome: before - after for outcome, (before, after) in zip(ranking, pairwise(none_better), strict=True)}
    return law | {"none": none_better[-1]}


def _case(rng: random.Random, make_event: Callable[[Any], Any], select: Callable[[Any, list[Any]], Law]) -> Case:
    """A selection among noisy bits, or among sums with normal noise of which the greatest are best."""
    if rng.random() < 0.3:
        epsilon, delta = rng.choice([0.2, 0.7]), rng.choice([0.0, 0.01])
        bits = [(bit, how) for bit in (False, True) for how in ("sure", "likely")]
        rng.shuffle(bits)
        event = make_event(schemes.EpsilonDeltaDpEvent(epsilon, delta))
        return Case(event, lambda data: select(noisy_bit(any_bit(data), epsilon, delta), bits), ONE_BIT, [1.0, -1.0])
    noise = rng.choice([1.0, 3.0])
    ranking = sorted(range(CELLS[1]), reverse=rng.choice([False, True]))
    sums = summed(batches.everybody, noise)
    return Case(
        make_event(dp_event.GaussianDpEvent(noise)),
        lambda data: select(dict(enumerate(sums(data))), ranking),
        *numbers(rng, 1),
    )


def repeat_and_select(rng: random.Random, relation: str) -> Case:
    """The best of a Poisson number of runs, or of a truncated negative binomial one."""
    shape, mean = rng.choice([math.inf, 1.0, 0.0, 0.5, 2.0]), rng.choice([1.5, 4.0])
    generating = poisson_runs(mean) if shape == math.inf else negative_binomial_runs(mean, shape)
    make = lambda base: dp_event.RepeatAndSelectDpEvent(base, mean, shape)  # noqa: E731
    return _case(rng, make, lambda base, ranking: best_of(base, ranking, generating))


def poisson_runs(mean: float) -> Generating:
    return lambda z: math.exp(mean * (z - 1))


def negative_binomial_runs(mean: float, shape: float) -> Generating:
    """Papernot and Steinke 2022, Definition 1, by its mean."""

    def mean_of(gamma: float) -> float:
        if shape == 0:
            return (1 / gamma - 1) / math.log(1 / gamma)
        return shape * (1 - gamma) / (gamma * (1 - gamma**shape))

    gamma = brentq(lambda x: mean_of(x) - mean, 1e-6, 1 - 1e-9, xtol=1e-15)
    if shape == 0:
        return lambda z: math.log(1 - (1 - gamma) * z) / math.log(gamma)
    return lambda z: ((1 - (1 - gamma) * z) ** -shape - 1) / (gamma**-shape - 1)


def binomial_select(rng: random.Random, relation: str) -> Case:
    """The best of the runs that take place, each of several by a coin."""
    most, probability = rng.choice([2, 6]), rng.choice([0.3, 0.9])
    make = lambda base: schemes.BinomialSelectDpEvent(base, most, probability)  # noqa: E731
    return _case(rng, make, lambda base, ranking: best_of(base, ranking, binomial_runs(most, probability)))


def binomial_runs(most: int, probability: float) -> Generating:
    return lambda z: (1 - probability + probability * z) ** most


def threshold_select(rng: random.Random, relation: str) -> Case:
    """The first good output; after each other one, with some probability, none."""
    stop, share = rng.choice([0.1, 0.5]), rng.choice([0.25, 0.5])

    def first_good(base: Mapping[Any, float], ranking: list[Any]) -> Law:
        chances = {outcome: base.get(outcome, 0.0) for outcome in ranking[: round(share * len(ranking))]}
        bad = 1 - sum(chances.values())
        runs_end = 1 - bad * (1 - stop)
        return {outcome: chance / runs_end for outcome, chance in chances.items()} | {"none": bad * stop / runs_end}

    make = lambda base: schemes.ThresholdSelectDpEvent(base, stop)  # noqa: E731
    return _case(rng, make, first_good)
