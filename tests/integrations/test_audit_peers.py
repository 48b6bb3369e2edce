"""evr's lower bounds beside those of JAX Privacy 2.0, on the same scores: nowhere weaker."""

from __future__ import annotations

import itertools
import operator

import numpy as np
import pytest
from dp_accounting import dp_event

import evr

auditing = pytest.importorskip("jax_privacy.auditing", reason="needs JAX Privacy", exc_type=ImportError)
pytestmark = pytest.mark.filterwarnings("ignore")

DELTA, LEVEL, RUNS = 1e-5, 0.05, 3
STRATEGIES = (auditing.Bonferroni(), auditing.Split(seed=0))


@pytest.fixture(autouse=True)
def same_order(monkeypatch):
    """The order that fresh entropy gives to canaries, the same in every run."""
    numbers = itertools.count()
    monkeypatch.setattr("evr._proving.audit.secrets.randbits", lambda bits: next(numbers))


def gaussian(rng, canaries, mu):
    included = rng.random(canaries) < 0.5
    return included + rng.standard_normal(canaries) / mu, included, dp_event.GaussianDpEvent(1 / mu)


def training(rng, canaries, noise):
    included = rng.random(canaries) < 0.5
    seen = (included & (rng.random((30, canaries)) < 0.2)) + noise * rng.standard_normal((30, canaries))
    event = evr.dpsgd(noise_multiplier=noise, sampling_probability=0.2, steps=30)
    return np.log1p(0.2 * np.expm1((seen - 0.5) / noise**2)).sum(axis=0), included, event


def greatest_median(runs, name):
    """Over the strategies, the greatest median of a bound of JAX Privacy."""
    made = [auditing.CanaryScoreAuditor(scores[included], scores[~included]) for scores, included, _ in runs]
    bound = operator.attrgetter(name)
    return max(
        np.median([float(bound(one)(LEVEL, delta=DELTA, threshold_strategy=strategy)) for one in made])
        for strategy in STRATEGIES
    )


@pytest.mark.parametrize(
    ("draw", "parameter", "canaries"),
    [(gaussian, 0.268, 10_000), (gaussian, 0.925, 1_000), (gaussian, 0.925, 10_000), (training, 2.0, 2_000)],
)
def test_never_weaker(draw, parameter, canaries):
    """Medians of three audits: epsilon 1 and 4 of a Gaussian mechanism, and a simulated training."""
    runs = [draw(np.random.default_rng(seed), canaries, parameter) for seed in range(RUNS)]
    general, alone = (
        [evr.audit(*run, delta=DELTA, independent=independent) for run in runs] for independent in (False, True)
    )
    # without independence: a family of curves, then nothing assumed
    assert np.median([one.epsilon for one in general]) >= greatest_median(runs, "epsilon_one_run_fdp")
    assert np.median([one.epsilon_of_any for one in general]) >= greatest_median(runs, "epsilon_one_run")
    # independent scores, nothing else assumed; then the family too, which JAX Privacy has no bound for
    independent = greatest_median(runs, "epsilon_clopper_pearson")
    assert np.median([one.epsilon_of_any for one in alone]) >= independent
    assert np.median([one.epsilon for one in alone]) >= np.median([one.epsilon for one in general])


def test_scores_that_tell_all_apart():
    run = gaussian(np.random.default_rng(0), 10_000, 50.0)
    general, alone = (evr.audit(*run, delta=DELTA, independent=one) for one in (False, True))
    assert alone.epsilon_of_any >= greatest_median([run], "epsilon_clopper_pearson")
    assert general.epsilon >= 0.9 * greatest_median([run], "epsilon_one_run_fdp")
