"""Losses that are tiny, rare or infinite: what is true is accepted, what is false by a sixth is
not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import attr
import pytest
from dp_accounting import dp_event

import evr
from conformance.proposal_cases import named
from evr._kernel.events import MECHANISMS
from evr._kernel.events.table import registered
from evr._kernel.pairs import DiscretePair, Pairs
from evr._plan.sampled import planned
from evr.events import EpsilonDeltaDpEvent
from helpers import answers, near, together

ONLY_INFINITE = EpsilonDeltaDpEvent(0.0, 1e-4)  # no other loss than 0
OFTEN_INFINITE = EpsilonDeltaDpEvent(0.3, 0.01)
SELDOM_INFINITE = EpsilonDeltaDpEvent(1.0, 1e-7)
GAUSSIAN = dp_event.GaussianDpEvent(1.0)


@attr.s(frozen=True, slots=True)
class Gap(dp_event.DpEvent):
    """A mechanism of our own with positive, infinite and negative infinite losses."""


P, Q = (1e-6, 1 - 2e-6, 1e-6, 0.0), (0.0, 0.9, 1e-9, 0.1 - 1e-9)


def sampled(q: float, event: dp_event.DpEvent, steps: int) -> dp_event.DpEvent:
    return dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(q, event), steps)


@pytest.mark.parametrize(
    ("event", "epsilon"),
    [
        (sampled(0.1, ONLY_INFINITE, 20), 0.0),
        (sampled(0.9, ONLY_INFINITE, 20), 0.05),
        (sampled(1e-6, ONLY_INFINITE, 1), 0.0),
        (sampled(1e-6, ONLY_INFINITE, 20), 0.0),
        (sampled(0.1, OFTEN_INFINITE, 20), 0.05),
        (sampled(0.9, OFTEN_INFINITE, 20), 2.0),
        (sampled(0.1, SELDOM_INFINITE, 20), 0.2),
        (sampled(0.1, SELDOM_INFINITE, 20), 1.8),
        (dp_event.SelfComposedDpEvent(SELDOM_INFINITE, 3), 2.5),
        (sampled(1e-6, GAUSSIAN, 1), 0.0),
        (sampled(1e-6, GAUSSIAN, 1), 1e-6),
        (sampled(1e-6, GAUSSIAN, 20), 1e-6),
    ],
    ids=str,
)
def test_true_and_false_claims(event: Any, epsilon: float) -> None:
    delta = evr.estimate_delta(event, epsilon).value
    assert evr.verify(event, epsilon=epsilon, delta=delta / 0.6, tau=0.6, seed=1).accepted
    assert not evr.verify(event, epsilon=epsilon, delta=0.5 * delta / 0.6, tau=0.6, seed=1).accepted


def test_known_deltas_need_no_sample() -> None:
    event = dp_event.SelfComposedDpEvent(ONLY_INFINITE, 7)
    delta = 1 - (1 - 1e-4) ** 7
    accepted = evr.verify(event, epsilon=0.1, delta=delta / 0.99, tau=0.99, method="sequential")
    assert accepted.accepted
    assert accepted.samples == 0
    assert "infinite ones have a probability of 0.00069979" in accepted.directions["remove"].reason
    rejected = evr.verify(event, epsilon=0.1, delta=0.98 * delta / 0.99, tau=0.99, method="sequential")
    assert not rejected.accepted
    assert rejected.samples == 0
    assert "infinite losses alone" in rejected.directions["remove"].reason


def test_rarely_infinite_costs_no_more_than_never() -> None:
    """Infinite losses are added, not drawn: drawn, they were rare and huge, and 70 million samples
    were needed.
    """
    (case,) = named("infinite losses")
    delta = evr.estimate_delta(case.event, case.epsilon).value
    found = evr.verify(case.event, epsilon=case.epsilon, delta=delta / 0.99, tau=0.99, seed=1)
    assert found.accepted
    assert found.samples < 5e6
    assert found.directions["remove"].estimate == near(delta, rel=0.01)


def test_a_composition_of_several_mechanisms_gets_samples_that_are_bounded() -> None:
    """The least bound on the second moment belonged to a tilt without a useful bound on samples: 13
    million were needed.
    """
    (case,) = named("several mechanisms")
    delta = evr.estimate_delta(case.event, case.epsilon).value
    found = evr.verify(case.event, epsilon=case.epsilon, delta=delta / 0.9, tau=0.9, seed=1)
    assert found.accepted
    assert found.samples < 1e6
    assert found.directions["remove"].bound < 200 * delta


JUMPS_AND_OTHERS = {
    "response and laplace": (
        together(
            evr.dpsgd(noise_multiplier=0.6, sampling_probability=1e-3, steps=100),
            (answers(0.5, 2), 1),
            dp_event.LaplaceDpEvent(2.0),
        ),
        3.0,
    ),
    "response": (
        together(evr.dpsgd(noise_multiplier=0.5, sampling_probability=1e-4, steps=300), (answers(0.3, 2), 1)),
        3.0,
    ),
}


@pytest.mark.parametrize("name", [pytest.param("response and laplace", marks=pytest.mark.full), "response"])
def test_steps_that_cannot_jump_have_tilts_of_their_own(name: str) -> None:
    """With one tilt for all kinds the second moment was bounded by thousands of ``delta^2``, and
    was 50 to 190 of them.
    """
    event, epsilon = JUMPS_AND_OTHERS[name]
    delta = evr.estimate_delta(event, epsilon).value
    found = evr.verify(event, epsilon=epsilon, delta=delta / 0.9, tau=0.9, seed=1)
    assert found.accepted
    assert found.directions["remove"].second_moment < 150 * delta**2
    assert not evr.verify(event, epsilon=epsilon, delta=0.85 * delta / 0.9, tau=0.9, seed=1).accepted


def test_orders_below_one() -> None:
    """Far out, at large epsilons, the best order is a fraction."""
    event = dp_event.ComposedDpEvent(
        [
            evr.dpsgd(noise_multiplier=0.9, sampling_probability=1e-4, steps=80),
            dp_event.SelfComposedDpEvent(
                dp_event.MixtureOfGaussiansDpEvent(0.65, (0.0, 1.0, 2.0), (0.5, 0.3, 0.2)), 10
            ),
        ]
    )
    epsilon = evr.estimate_epsilon(event, 1e-8).value
    delta = evr.estimate_delta(event, epsilon).value
    found = evr.verify(event, epsilon=epsilon, delta=delta / 0.8, tau=0.8, seed=1, max_samples=200_000)
    assert epsilon > 30
    assert found.accepted


def test_a_kind_with_one_finite_loss_does_no_harm() -> None:
    """``(0, delta)`` beside DP-SGD: its loss of 0 was taken for one beyond the cap, and nothing
    could be proved of samples.
    """
    alone = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=1000)
    both = dp_event.ComposedDpEvent([alone, EpsilonDeltaDpEvent(0.0, 1e-14)])
    for event in (alone, both):
        delta = evr.estimate_delta(event, 0.5).value
        found = evr.verify(event, epsilon=0.5, delta=delta / 0.8, tau=0.8, seed=1)
        assert found.accepted
        assert found.directions["remove"].second_moment < 300 * delta**2


def test_losses_that_are_all_positive(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more outcome of ``Q`` alone leaves ``P`` with positive losses only: a floor above the
    knee was a crash.
    """
    pairs = Pairs(DiscretePair.from_probabilities(P, Q), DiscretePair.from_probabilities(Q, P))
    monkeypatch.setitem(MECHANISMS, Gap, registered(Gap, lambda _: pairs))
    gap = dp_event.ComposedDpEvent([Gap(), evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=50)])
    delta = evr.estimate_delta(gap, 1.0).value
    assert evr.verify(gap, epsilon=1.0, delta=delta / 0.9, tau=0.9, seed=1).accepted
    assert not evr.verify(gap, epsilon=1.0, delta=0.85 * delta / 0.9, tau=0.9, seed=1).accepted


@pytest.mark.parametrize("seed", range(5))
def test_samples_of_little_variance_get_a_second_block(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bet on the first block has learnt nothing; giving up after it rejected what a second
    block accepts.
    """
    (case,) = named("sampled infinite losses")
    delta = evr.estimate_delta(case.event, case.epsilon).value
    monkeypatch.setattr("evr._plan.sampled.planned", lambda *a, **k: replace(planned(*a, **k), block_size=4096))
    found = evr.verify(case.event, epsilon=case.epsilon, delta=delta / 0.9, tau=0.9, seed=seed)
    assert found.accepted
    assert found.samples <= 3 * 4096


@pytest.mark.parametrize("delta", [1e-20, 1e-170, 1e-289])
def test_a_claim_that_is_false_by_hundreds_of_digits_is_rejected(delta):
    """Samples in units of the threshold have squares beyond all floats: once an OverflowError."""
    event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=100)
    verification = evr.verify(event, epsilon=0.5, delta=delta / 0.9, tau=0.9, seed=1)
    assert verification.verdict is evr.proving.Verdict.REJECTED
    assert verification.guarantee is None
    (report,) = (one for one in verification.directions.values() if one.samples)
    assert report.estimate == near(evr.estimate_delta(event, 0.5).value, rel=0.3)
    assert 0.0 < report.standard_error <= report.estimate


def test_losses_far_below_a_huge_epsilon_overflow_nothing() -> None:
    """Event 277 of the attack: composed losses of -80,000 beside an epsilon of 19,600."""
    noise = evr.events.DiscreteGaussianDpEvent(sigma=0.38393498599593784, sensitivity=2, dimension=1)
    event, delta = dp_event.SelfComposedDpEvent(noise, 1374), 5.138389846613758e-14
    options: dict[str, Any] = {"method": "sequential", "seed": 3193787832763165654}
    assert evr.verify(event, epsilon=19600.0, delta=delta / 0.8, tau=0.8, **options).guarantee is not None
    assert evr.verify(event, epsilon=19600.0, delta=0.97 * delta, tau=0.6, **options).guarantee is None
