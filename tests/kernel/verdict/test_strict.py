"""Verification by a strict bound: never wrong, no sample, as near to the truth as is asked."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest
from dp_accounting import dp_event

import evr
from evr._kernel.events import Composition
from evr._kernel.strict.alone import stays_within
from evr._kernel.strict.proof import prove_within
from evr._kernel.verdict.settings import Claim, Terms, threshold_of
from evr._plan.strict import StrictCurve
from kernel.strict.stress import plant

EVENT = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=1000)
TRUTH = 2.05824121613704e-10  # at epsilon 0.5, from 40 digits


@pytest.mark.parametrize("tau", [0.5, 0.95, 0.99, 0.9999])
def test_a_true_claim_is_proved(tau):
    found = evr.verify(EVENT, epsilon=0.5, delta=TRUTH / tau, tau=tau, method="strict")
    assert found.verdict is evr.proving.Verdict.ACCEPTED
    assert found.guarantee == evr.Guarantee(0.5, TRUTH / tau)
    assert (found.method, found.samples, found.false_positive_rate) == ("strict", 0, 0.0)
    assert set(found.directions) == {"remove", "add"}
    for report in found.directions.values():
        assert report.samples == 0
        assert report.bound <= TRUTH / tau
        assert "proved" in report.reason
    assert found.directions["remove"].bound >= TRUTH


@pytest.mark.parametrize("short", [1e-9, 1e-4, 0.1])
def test_a_false_claim_is_never_accepted(short):
    """However close: what is claimed is below the truth by that share."""
    found = evr.verify(EVENT, epsilon=0.5, delta=TRUTH * (1 - short), method="strict")
    assert found.verdict is evr.proving.Verdict.REJECTED
    assert found.guarantee is None
    assert "is above the claim" in found.directions["remove"].reason
    assert "add" not in found.directions


def test_ties_are_decided_exactly():
    """Two Laplace mechanisms lose at most 2/3 and 1/3, whose floats sum to less than 1."""
    first, second = dp_event.LaplaceDpEvent(1.5), dp_event.LaplaceDpEvent(3.0)
    event = dp_event.ComposedDpEvent([first, second])
    exact = 1 / Fraction(1.5) + 1 / Fraction(3.0)
    assert exact == 1
    assert evr.verify(event, epsilon=1.0, delta=0.0, tau=0.9, method="strict").accepted
    steps = Composition.of(event).exact("remove")
    assert not stays_within(steps, Fraction(math.nextafter(1.0, 0.0)))


def test_the_threshold_is_the_claim_itself_and_a_little_less_in_a_release():
    for delta in (1e-5, 3e-7, 0.1):
        for tau in (0.9, 0.99, 0.7):
            claim = Claim(1.0, delta, tau)
            assert threshold_of(claim) == Fraction(delta)
            in_release = replace(claim, terms=Terms(claim.kappa, claim.delta))
            assert threshold_of(in_release) == Fraction(delta) * (1 - Fraction(claim.kappa))


def test_the_direction_that_is_worse_decides():
    """Asymmetric outcomes whose add direction is the worse one."""
    event = dp_event.SelfComposedDpEvent(
        dp_event.PoissonSampledDpEvent(0.3, dp_event.MixtureOfGaussiansDpEvent(1.0, (0.0, 2.0), (0.9, 0.1))), 3
    )
    epsilon = 0.05
    deltas = {d: evr.estimate_delta(event, epsilon, direction=d).value for d in ("remove", "add")}
    worse = max(deltas, key=deltas.get)
    between = math.sqrt(deltas["remove"] * deltas["add"])
    assert max(deltas.values()) > 1.05 * min(deltas.values())
    found = evr.verify(event, epsilon=epsilon, delta=between, method="strict")
    assert not found.accepted
    assert not found.directions[worse].accepted
    one = evr.verify(
        event, epsilon=epsilon, delta=between, method="strict", direction="add" if worse == "remove" else "remove"
    )
    assert one.accepted
    assert one.guarantee is None
    assert "only direction" in one.notes[0]


def test_symmetric_laws_are_proved_once():
    event = dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(10.0), 30)
    delta = evr.estimate_delta(event, 1.0).value
    found = evr.verify(event, epsilon=1.0, delta=delta / 0.99, method="strict")
    assert found.accepted
    assert found.directions["add"].reason == "the same as remove"


def test_a_planted_fault_accepts_a_false_claim(monkeypatch):
    """Were products rounded down at few bits, the verifier would be wrong: the test above would see
    it.
    """
    plant(
        monkeypatch,
        "masses",
        "raised = wide.packed + at_each(len(wide), wide.width, (1 << bits) - 1)",
        "raised = wide.packed * 0",
    )
    found = evr.verify(EVENT, epsilon=0.5, delta=TRUTH * 0.5, method="strict")
    assert found.accepted


def test_what_belongs_to_sampling_is_refused():
    with pytest.raises(ValueError, match="max_samples=10 belongs to methods that sample"):
        evr.verify(EVENT, epsilon=0.5, delta=TRUTH, method="strict", max_samples=10)


def test_a_direction_with_room_is_planned_where_it_has_little():
    """It was planned for its own delta, 1e-78, with 291 bits."""
    steps, enough = Composition.of(EVENT).exact("add"), Fraction(2e-10)
    proof = prove_within(steps, Fraction(1, 2), StrictCurve(steps).plans(0.5, enough=enough), enough)
    assert proof.delta <= enough
    assert proof.plan.bits < 80
