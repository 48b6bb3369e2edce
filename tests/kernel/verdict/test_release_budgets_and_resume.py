"""Budgets of releases with terms of their own, and verifications that are interrupted and
continued.
"""

from __future__ import annotations

import math

import pytest
from dp_accounting import dp_event

import evr
from evr._kernel.verdict.settings import Claim, Terms
from evr._proving.progress import Progress
from helpers import near
from snapshots import proved

EVENT = dp_event.GaussianDpEvent(2.0)
EPSILON = 1.0


@pytest.fixture(scope="module")
def delta() -> float:
    return 1.0001 * float(evr.estimate_delta(EVENT, EPSILON))


def test_terms_set_kappa_and_the_base_of_the_budgets() -> None:
    plain = Claim(1.0, 1e-6, 0.5)
    tied = Claim(1.0, 1e-6, 0.5, Terms(kappa=1e-3, base=1e-8))
    assert plain.kappa == 0.5 / 40
    assert tied.kappa == 1e-3
    assert tied.threshold == (1 - 1e-3) * 1e-6
    assert tied.log_budget(3) == near(math.log(1e-3 * 1e-8 / 8))


def test_a_claim_below_the_base_is_refused() -> None:
    with pytest.raises(ValueError, match="below 1e-05, the least that this release may claim"):
        Claim(1.0, 2e-06, 0.5, Terms(1e-3, 1e-5))
    with pytest.raises(ValueError, match="kappa=0"):
        Terms(0, 1e-5)


def test_an_attempt_spends_the_budget_of_its_terms(delta: float) -> None:
    terms = Terms(kappa=1e-4, base=delta / 100)
    found = proved(EVENT, epsilon=EPSILON, delta=delta / 0.8, tau=0.8, attempt=2, seed=3, terms=terms)
    assert found.false_positive_rate == near(1e-4 * delta / 400)
    assert found.directions["remove"].log_target == near(-math.log(1e-4 * delta / 400))
    assert found.directions["remove"].threshold == (1 - 1e-4) * delta / 0.8


def test_an_attempt_says_that_it_lives_every_few_seconds_however_often_progress_is_shown(
    delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(10**6))
    monkeypatch.setattr("evr._proving.progress.time.perf_counter", lambda: 0.5 * next(clock))
    shown: list[Progress] = []
    told: list[None] = []
    found = proved(
        EVENT,
        epsilon=EPSILON,
        delta=delta / 0.997,
        tau=0.997,
        seed=5,
        workers=1,
        progress=shown.append,
        alive=lambda: told.append(None),
    )
    blocks = found.directions["remove"].blocks
    assert len(shown) >= blocks
    assert blocks / 6 < len(told) < blocks / 3
