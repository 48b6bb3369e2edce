"""Models of selections: a base mechanism runs several times, and the best output is released."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from typing import Any

from dp_accounting import dp_event
from scipy.optimize import brentq

from evr._kernel.events import schemes
from evr.testing import Law
from models import batches
from models.cases import Case, numbers
from models.mechanisms import ONE_BIT, any_bit, noisy_bit, summed
from models.releases import CELLS

Runs = Callable[[float, float], float]
"""The law of the number ``K`` of runs: the probability ``E (1 - b)^K - (1 - b - p)^K`` that the best run is one whose
output has probability ``p``, if better outputs have probability ``b``. It is written so that nothing cancels.
"""


def best_of(base: Mapping[Any, float], ranking: list[Any], runs: Runs) -> dict[Any, float]:
    """The law of the best output, best first in ``ranking``, and of none."""
    better, law = 0.0, {}
    for outcome in ranking:
        chance = base.get(outcome, 0.0)
        law[outcome] = runs(better, chance)
        better += chance
    return law | {"none": max(0.0, 1 - math.fsum(law.values()))}


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
    runs = poisson_runs(mean) if shape == math.inf else negative_binomial_runs(mean, shape)
    make = lambda base: dp_event.RepeatAndSelectDpEvent(base, mean, shape)  # noqa: E731
    return _case(rng, make, lambda base, ranking: best_of(base, ranking, runs))


def poisson_runs(mean: float) -> Runs:
    return lambda better, chance: math.exp(-mean * better) * -math.expm1(-mean * chance)


def negative_binomial_runs(mean: float, shape: float) -> Runs:
    """Papernot and Steinke 2022, Definition 1, by its mean."""

    def mean_of(gamma: float) -> float:
        if shape == 0:
            return (1 / gamma - 1) / math.log(1 / gamma)
        return shape * (1 - gamma) / (gamma * (1 - gamma**shape))

    gamma = brentq(lambda x: mean_of(x) - mean, 1e-6, 1 - 1e-9, xtol=1e-15)

    def runs(better: float, chance: float) -> float:
        base = gamma + (1 - gamma) * better
        growth = math.log1p((1 - gamma) * chance / base)
        if shape == 0:
            return growth / -math.log(gamma)
        return base**-shape * -math.expm1(-shape * growth) / (gamma**-shape - 1)

    return runs


def binomial_select(rng: random.Random, relation: str) -> Case:
    """The best of the runs that take place, each of several by a coin."""
    most, probability = rng.choice([2, 6]), rng.choice([0.3, 0.9])
    make = lambda base: schemes.BinomialSelectDpEvent(base, most, probability)  # noqa: E731
    return _case(rng, make, lambda base, ranking: best_of(base, ranking, binomial_runs(most, probability)))


def binomial_runs(most: int, probability: float) -> Runs:
    def runs(better: float, chance: float) -> float:
        base = 1 - probability * better
        return base**most * -math.expm1(most * math.log1p(-probability * chance / base))

    return runs


def threshold_select(rng: random.Random, relation: str) -> Case:
    """The first good output; after each other one, with some probability, none."""
    stop, share = rng.choice([0.1, 0.5, 0.5]), rng.choice([0.35, 0.45, 0.55])

    def first_good(base: Mapping[Any, float], ranking: list[Any]) -> Law:
        chances = {outcome: base.get(outcome, 0.0) for outcome in ranking[: round(share * len(ranking))]}
        bad = 1 - sum(chances.values())
        runs_end = 1 - bad * (1 - stop)
        return {outcome: chance / runs_end for outcome, chance in chances.items()} | {"none": bad * stop / runs_end}

    make = lambda base: schemes.ThresholdSelectDpEvent(base, stop)  # noqa: E731
    return _case(rng, make, first_good)
