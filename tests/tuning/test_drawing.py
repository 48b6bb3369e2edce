"""``evr.tuning``: the number of runs has the law that is certified."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event
from scipy import stats

import evr
from evr._kernel.pairs.selection import BinomialRuns, NegativeBinomialRuns, PoissonRuns, Rule
from evr._tuning import chances_of, number_of_runs
from helpers import near

GAUSSIAN = dp_event.GaussianDpEvent(2.0)


LAWS = [
    (PoissonRuns(Fraction(3)), stats.poisson(3)),
    (BinomialRuns(7, Fraction(0.3)), stats.binom(7, 0.3)),
    (NegativeBinomialRuns(Fraction(4), Fraction(1)), stats.geom(0.25)),
    (NegativeBinomialRuns(Fraction(-0.8 / (0.2 * math.log(0.2)) * 1.0), Fraction(0)), stats.logser(0.8)),
]


@pytest.mark.parametrize(("law", "known"), LAWS)
def test_inversion_by_the_distribution_functions_of_scipy(law: Rule, known: Any) -> None:
    """At every third 2,048th of the unit interval, up to the rounding of floats: no random number."""
    for place in range(0, 2048, 3):
        entropy = (1 << 64) | (place << 53) | (1 << 51)  # a quarter into a part, where no law has a step
        found = number_of_runs(law, entropy)
        assert found is not None
        uniform = (place + 0.25) / 2048
        assert known.cdf(found - 1) <= uniform + 1e-9
        assert uniform <= known.cdf(found) + 1e-9


def test_bits_that_do_not_decide_are_not_enough() -> None:
    law = NegativeBinomialRuns(Fraction(2), Fraction(1))  # 1, 2, 3, ... with 1/2, 1/4, 1/8, ...
    assert number_of_runs(law, 0b1) is None  # no bit at all
    assert number_of_runs(PoissonRuns(Fraction(3)), 0b10) is None
    assert number_of_runs(law, (1 << 40) | 5) == 1


def test_draws_are_fresh_and_have_the_mean() -> None:
    """600 draws of a geometric law with mean 4: within 5 standard errors of it (failure below 1e-6)."""
    drawn = [evr.tuning(GAUSSIAN, mean=4).runs for _ in range(600)]
    assert abs(float(np.mean(drawn)) - 4) < 5 * math.sqrt(12 / 600)
    assert min(drawn) == 1
    assert len({evr.tuning(GAUSSIAN, mean=4).entropy for _ in range(5)}) == 5


def test_the_record_draws_the_same_number_again() -> None:
    search = evr.tuning(GAUSSIAN, mean=20, shape=math.inf)
    record = json.loads(json.dumps(search.record))
    assert record["runs"] == search.runs == number_of_runs(PoissonRuns(Fraction(20)), int(record["entropy"], 16))
    assert search.event == dp_event.RepeatAndSelectDpEvent(GAUSSIAN, 20, math.inf)
    assert str(search.runs) not in repr(search).replace("mean=20", "").replace("noise_multiplier=2.0", "")


def test_every_law_is_drawn() -> None:
    assert evr.tuning(GAUSSIAN, most_runs=5, probability=0.5).runs <= 5
    assert evr.tuning(GAUSSIAN, stop_probability=0.3).runs >= 1
    assert evr.tuning(GAUSSIAN, stop_probability=1.0).runs == 1
    assert evr.tuning(GAUSSIAN, mean=1).runs == 1


def test_what_stops_a_search_has_a_geometric_law() -> None:
    """500 draws with a stop probability of 1/4: the mean is 4, within 5 standard errors (failure below 1e-6)."""
    drawn = [evr.tuning(GAUSSIAN, stop_probability=0.25).runs for _ in range(500)]
    assert abs(float(np.mean(drawn)) - 4) < 5 * math.sqrt(12 / 500)


@pytest.mark.parametrize(
    "given", [{}, {"shape": 1}, {"mean": 3, "most_runs": 4}, {"most_runs": 4}, {"probability": 0.5}, {"mean": 0.5}]
)
def test_a_law_is_needed(given: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"which law|needs both|below 1"):
        evr.tuning(GAUSSIAN, **given)  # type: ignore[arg-type]


def test_a_search_is_of_runs() -> None:
    with pytest.raises(TypeError, match="event=None is not a DpEvent"):
        evr.tuning(None, mean=3)


def test_chances_add_up() -> None:
    from flint import arb

    for law, known in LAWS:
        (none, growth), chance = chances_of(law), law.log_density()(arb(1)).exp()
        assert float(none) == near(float(known.pmf(0)), 1e-9, 1e-300)
        for k in range(1, 7):
            assert float(chance) == near(float(known.pmf(k)), 1e-9)
            chance = chance * growth(k)
