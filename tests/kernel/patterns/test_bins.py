"""Balls in bins with independent noise, fixed and redrawn: estimates, bounds, samples and verification."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from dp_accounting import dp_event
from scipy.special import ndtr

import evr
from conformance.proposal_checks import check_bounds, check_mean, check_order
from evr._basics.randomness import Stream
from evr._estimate.bins import BinsPair, bins_delta
from evr._estimate.fft import FftCurve
from evr._kernel.pairs import Direction, Step
from evr._kernel.pairs.patterns.bins import IndependentBins
from evr._kernel.sampled.mixtures import MixtureProposal
from evr._kernel.sampled.plan import ByOrder, ByScale, ByShift, ByWindow, DrawPlan, MixturePlan
from evr._kernel.sampled.proposals import built
from helpers import assert_mean_within, near
from kernel.patterns.contour import redrawn_delta

E = evr.events
REMOVE, ADD = Direction.REMOVE, Direction.ADD

FIXED = [  # epsilon, bins, epochs, noise, delta of remove and add: a tilted FFT of somebody else's
    (1.0, 100, 10, 4.0, 5.691802e-11, 8.4e-33),
    (1.0, 100, 10, 3.0, 1.302178e-6, 1.56e-17),
    (1.0, 100, 1, 1.0, 3.015775e-7, 1.05e-19),
    (0.5, 1000, 1, 0.8, 5.81856e-7, 4.1e-23),
    (2.0, 10, 10, 3.0, 6.74199e-5, 6.63e-9),
]
REDRAWN = [  # epsilon, bins, epochs, noise, remove, add: contour integrals of somebody else's
    (1.0, 20, 10, 2.0, 7.547911e-4, 6.96909e-4),
    (1.0, 20, 10, 3.0, 1.62620e-6, 1.51349e-6),
    (2.0, 100, 10, 1.0, 7.276041e-7, 4.19785e-8),
]


# --- estimates ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "bins", "epochs", "noise", "remove", "add"), FIXED)
def test_fixed_bins(epsilon: float, bins: int, epochs: int, noise: float, remove: float, add: float) -> None:
    event = E.BallsInBinsDpEvent(noise, bins * epochs, bins)
    found = evr.estimate_delta(event, epsilon)
    assert found.value == near(remove, rel=1e-6)
    assert found.direction == "remove"
    assert isinstance(found, evr.Estimate)
    assert found.error is not None
    assert found.error < 1e-8 * remove
    assert evr.estimate_delta(event, epsilon, direction="add").value == near(add, rel=7e-3)
    assert evr.estimate_epsilon(event, found.value).value == near(epsilon, rel=1e-7)


@pytest.mark.parametrize(("epsilon", "bins", "epochs", "noise", "remove", "add"), REDRAWN)
def test_redrawn_bins(epsilon: float, bins: int, epochs: int, noise: float, remove: float, add: float) -> None:
    event = E.RedrawnBinsDpEvent(noise, bins, epochs)
    assert evr.estimate_delta(event, epsilon, direction="remove").value == near(remove, rel=1.1e-6)
    assert evr.estimate_delta(event, epsilon, direction="add").value == near(add, rel=1.1e-6)


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_redrawn_bins_by_a_contour_of_our_own(direction: str) -> None:
    event = E.RedrawnBinsDpEvent(1.0, 100, 10)
    expected = redrawn_delta(2.0, 100, 10, 1.0, 6.0, direction)
    assert evr.estimate_delta(event, 2.0, direction=direction).value == near(expected, rel=1e-8)


def exact_of_two(energy: float, epsilon: float, direction: Direction) -> float:
    """Two bins, by quadrature over one of the ratios; given it, the other's part is the formula of
    Black and Scholes.
    """
    deviation = math.sqrt(energy)
    threshold = 2 * math.exp(epsilon if direction is REMOVE else -epsilon)
    kink = (math.log(threshold) + energy / 2) / deviation
    nodes, weights = np.polynomial.legendre.leggauss(200)
    total = 0.0
    for low, high in ((-12.0, kink), (kink, 12.0)):
        v = (low + high) / 2 + (high - low) / 2 * nodes
        ratio = np.exp(deviation * v - energy / 2)
        left = np.maximum(threshold - ratio, 1e-300)
        upper = (energy / 2 - np.log(left)) / deviation
        call = ndtr(upper) - left * ndtr(upper - deviation)  # E[(A - left)_+]
        call = np.where(ratio < threshold, call, 1 + ratio - threshold)
        put = np.where(ratio < threshold, left - 1 + call, 0.0)
        value = call / 2 if direction is REMOVE else put * math.exp(epsilon) / 2
        total += float((high - low) / 2 * (weights * np.exp(-(v**2) / 2)) @ value) / math.sqrt(2 * math.pi)
    return total


@pytest.mark.parametrize("direction", [REMOVE, ADD])
@pytest.mark.parametrize(("energy", "epsilon"), [(0.25, 0.5), (1.0, 1.0), (1.0, 0.0)])
def test_two_bins_by_quadrature(energy: float, epsilon: float, direction: Direction) -> None:
    found = bins_delta(IndependentBins(direction, 2, energy), epsilon)
    assert found.value == near(exact_of_two(energy, epsilon, direction), rel=1e-7)


def test_limits() -> None:
    """One epoch fixed is one epoch redrawn; at epsilon 0 both directions are the total variation;
    more bins, less loss.
    """
    fixed, redrawn = E.BallsInBinsDpEvent(1.2, 20, 20), E.RedrawnBinsDpEvent(1.2, 20, 1)
    assert evr.estimate_delta(fixed, 0.7).value == near(evr.estimate_delta(redrawn, 0.7).value, rel=1e-12)
    for event in (fixed, E.RedrawnBinsDpEvent(1.2, 20, 4)):
        remove, add = (evr.estimate_delta(event, 0.0, direction=d).value for d in ("remove", "add"))
        assert remove == near(add, rel=1e-6)
    deltas = [evr.estimate_delta(E.BallsInBinsDpEvent(1.2, bins, bins), 0.7).value for bins in (1, 2, 5, 20, 100)]
    assert deltas == sorted(deltas, reverse=True)
    deltas = [evr.estimate_delta(E.BallsInBinsDpEvent(noise, 20, 20), 0.7).value for noise in (0.8, 1.0, 2.0)]
    assert deltas == sorted(deltas, reverse=True)


def test_fixed_bins_are_worse_than_redrawn_ones() -> None:
    fixed = evr.estimate_delta(E.BallsInBinsDpEvent(2.0, 200, 20), 1.0).value
    assert fixed > evr.estimate_delta(E.RedrawnBinsDpEvent(2.0, 20, 10), 1.0).value


def test_composes_with_pairs_on_a_line() -> None:
    """Two trainings and a Gaussian: the table's pair against the two-bin law by quadrature over the Gaussian."""
    energy, epsilon, mu = 0.5, 0.8, 0.4
    event = dp_event.ComposedDpEvent(
        [E.BallsInBinsDpEvent(1 / math.sqrt(energy), 2, 2), dp_event.GaussianDpEvent(1 / mu)]
    )

    def inner(v: float) -> float:  # under P of the Gaussian, its loss shifts epsilon
        loss = mu * v + mu**2 / 2
        if epsilon - loss > 0:
            value = exact_of_two(energy, epsilon - loss, REMOVE)
        else:  # E[(L - t)_+] = 1 - t + t E[(1 - L/t)_+]
            value = 1 - math.exp(epsilon - loss) + math.exp(epsilon - loss) * exact_of_two(energy, loss - epsilon, ADD)
        return value

    nodes, weights = np.polynomial.hermite_e.hermegauss(40)  # smooth in v
    expected = sum(w * inner(x) for x, w in zip(nodes, weights / math.sqrt(2 * math.pi), strict=True))
    assert evr.estimate_delta(event, epsilon, direction="remove").value == near(expected, rel=1e-6)


@pytest.mark.full
def test_calibration() -> None:
    found = evr.calibrate(
        lambda s: E.BallsInBinsDpEvent(s, 1000, 100), epsilon=1.0, delta=1.302178e-6, low=2.9, high=3.1
    )
    assert found.value == 3.001


def test_a_curve_falls() -> None:
    curve = evr.privacy_curve(E.BallsInBinsDpEvent(3.0, 1000, 100), [0.5, 1.0, 2.0])
    assert list(curve.deltas) == sorted(curve.deltas, reverse=True)


def test_far_ends_do_not_break() -> None:
    for law in (IndependentBins(d, b, g) for d in Direction for b, g in ((10, 3000.0), (1000, 1e-6), (2, 1e-12))):
        for epsilon in (0.0, 1e-9, 1.0, 50.0, 800.0):
            assert 0.0 <= bins_delta(law, epsilon).value <= 1.0
    assert evr.estimate_delta(E.BallsInBinsDpEvent(3.0, 1000, 100), math.inf).value == 0.0


# --- samples --------------------------------------------------------------------------------------


def mixture(law: IndependentBins, count: int, plan: MixturePlan) -> MixtureProposal:
    return MixtureProposal(plan, [Step(law, count)])


SMALL, SMALL_ADD = IndependentBins(REMOVE, 10, 0.5), IndependentBins(ADD, 10, 0.5)
BOTH = MixturePlan(ByOrder(5), beside=ByWindow(2, 2, 3.0), share=0.3)
PROPOSALS = {
    "scaled": mixture(SMALL, 1, MixturePlan(ByScale(3.0, 1.0))),
    "order": mixture(SMALL, 1, MixturePlan(ByOrder(5))),
    "both": mixture(SMALL, 1, BOTH),
    "plain": mixture(SMALL, 1, MixturePlan(ByScale(1.0, 1.0))),
    "redrawn": mixture(SMALL, 4, MixturePlan(ByOrder(4))),
    "redrawn, both": mixture(SMALL, 4, BOTH),
    "shift": mixture(SMALL_ADD, 1, MixturePlan(ByShift(-8.0))),
    "shift, redrawn": mixture(SMALL_ADD, 2, MixturePlan(ByShift(-4.0))),
    "plain, add": mixture(SMALL_ADD, 1, MixturePlan(ByShift(0.0))),
}
EPSILON = 0.6


def delta_of(proposal: MixtureProposal) -> float:
    (own,) = proposal.laws
    law, count = own.law, own.count
    assert isinstance(law, IndependentBins)
    if count == 1:
        return bins_delta(law, EPSILON).value
    return FftCurve((Step(BinsPair(law), count),)).delta(EPSILON).value


@pytest.mark.parametrize("name", PROPOSALS)
def test_samples(name: str) -> None:
    """Their mean is delta, none is above its bound, and order carries no information."""
    proposal = PROPOSALS[name]
    delta = delta_of(proposal)
    block = proposal.draw(Stream(5, "test").block(0), 40_000)
    check_mean(block, EPSILON, delta)
    check_bounds(proposal, block, EPSILON, delta)
    check_order(block, EPSILON, delta)


@pytest.mark.parametrize("name", PROPOSALS)
def test_densities_are_those_of_the_draws(name: str) -> None:
    """``E_D[1/d] = 1``, and ``E_D[f/d] = E_Q[f]`` for the indicator that no coordinate is large."""
    proposal = PROPOSALS[name]
    generator = Stream(6, "test").block(0)
    first = generator.random(40_000) < proposal.shares[0]
    coordinates = proposal._coordinates(first, lambda index, rows: generator)
    losses, log_weights = proposal._weighted(coordinates)
    (own,) = proposal.laws
    law, count = own.law, own.count
    inverse = np.exp(log_weights - losses if law.direction is REMOVE else log_weights)
    # alike for all bins, as evr's draws are
    low = coordinates[0].max(axis=1).reshape(40_000, count).max(axis=1) < 1.0
    chance = 0.5 * math.erfc(-1.0 / math.sqrt(2 * law.greatest_energy))
    for values, expected in ((inverse * low, chance ** (count * law.dimension)), (inverse, 1.0)):
        if values.std() < 20:  # else the far tail, which is not seen, matters
            assert_mean_within(values, expected, 1e-7)


def test_mutations_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong density, or a bound that is too low does not pass the checks above."""
    for name in ("scaled", "order", "shift"):
        law = SMALL_ADD if name == "shift" else SMALL
        proposal = mixture(law, 1, PROPOSALS[name].plan)
        part = proposal.laws[0].components[0]
        right = part.log_density
        monkeypatch.setattr(part, "log_density", lambda x, y, right=right: right(x, y) - 0.2)
        with pytest.raises(AssertionError, match="the mean is"):
            check_mean(proposal.draw(Stream(5, "test").block(0), 40_000), EPSILON, delta_of(proposal))
    proposal = mixture(SMALL, 1, MixturePlan(ByOrder(5)))
    block = proposal.draw(Stream(5, "test").block(0), 40_000)
    proposal.laws[0].components[0].log_normaliser -= 0.5
    with pytest.raises(AssertionError, match="B is"):
        check_bounds(proposal, block, EPSILON, delta_of(proposal))


# --- plans and verification -----------------------------------------------------------------------


@pytest.mark.parametrize("name", PROPOSALS)
def test_a_plan_is_all_it_takes(name: str) -> None:
    proposal = PROPOSALS[name]
    plan = DrawPlan.from_json(json.loads(json.dumps(DrawPlan(proposal.plan).to_json())))
    again = built(plan.proposal, proposal.steps)
    for a, b in zip(proposal.draw(Stream(1, "x").block(0), 50), again.draw(Stream(1, "x").block(0), 50), strict=True):
        np.testing.assert_array_equal(a, b)
    assert again.log_greatest(EPSILON) == proposal.log_greatest(EPSILON)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"scale": 2.0, "odds": 1.0, "order": 3}, "order"),
        ({"order": 2.5}, "valid integer"),
        ({"order": 1}, "no affordable table"),
        ({"order": True}, "valid integer"),
        ({"theta": 1.0}, "theta"),
        ({"shift": -1.0}, "has no part"),
        ({"scale": 2.0}, "odds"),
        ({}, "required"),
    ],
)
def test_plans_that_say_what_cannot_be(numbers: dict[str, float], message: str) -> None:
    document = DrawPlan(PROPOSALS["scaled"].plan).to_json()
    document["proposal"]["part"] = numbers
    with pytest.raises(ValueError, match=message):
        built(DrawPlan.from_json(document).proposal, PROPOSALS["scaled"].steps)


EVENTS = {
    "fixed": (E.BallsInBinsDpEvent(3.0, 100, 10), 2.0),
    "redrawn": (E.RedrawnBinsDpEvent(2.0, 20, 10), 1.0),
    "with others": (dp_event.ComposedDpEvent([dp_event.LaplaceDpEvent(4.0), E.BallsInBinsDpEvent(3.0, 100, 10)]), 2.0),
    "two trainings and DP-SGD": (
        dp_event.ComposedDpEvent(
            [
                E.RedrawnBinsDpEvent(2.0, 20, 2),
                E.BallsInBinsDpEvent(3.0, 50, 10),
                evr.dpsgd(noise_multiplier=2.0, sampling_probability=0.01, steps=20),
                dp_event.GaussianDpEvent(5.0),
            ]
        ),
        2.0,
    ),
}


@pytest.mark.parametrize("name", EVENTS)
def test_verification(name: str) -> None:
    """An exact claim is accepted in both directions; one that is 5% too low in the slack is not."""
    event, epsilon = EVENTS[name]
    delta = evr.estimate_delta(event, epsilon).value
    accepted = evr.verify(event, epsilon=epsilon, delta=delta / 0.85, tau=0.85, seed=1)
    assert accepted.verdict is evr.proving.Verdict.ACCEPTED
    assert accepted.guarantee == evr.Guarantee(epsilon, delta / 0.85)
    rejected = evr.verify(event, epsilon=epsilon, delta=0.8 * delta / 0.85, tau=0.85, seed=2, max_samples=200_000)
    assert rejected.verdict is evr.proving.Verdict.REJECTED
    report = accepted.directions["remove"]
    if report.samples:
        assert abs(report.estimate - evr.estimate_delta(event, epsilon, direction="remove").value) < (
            6 * report.standard_error
        )


def test_the_fixed_verifier() -> None:
    event, epsilon = E.BallsInBinsDpEvent(2.0, 10, 10), 1.0
    delta = evr.estimate_delta(event, epsilon).value
    found = evr.verify(event, epsilon=epsilon, delta=delta / 0.5, tau=0.5, method="fixed", seed=1)
    assert found.verdict is evr.proving.Verdict.ACCEPTED
    assert found.directions["remove"].samples > 1000


def test_plain_sampling() -> None:
    event = E.BallsInBinsDpEvent(1.0, 10, 10)
    delta = evr.estimate_delta(event, 0.5).value
    found = evr.verify(event, epsilon=0.5, delta=delta / 0.8, tau=0.8, proposal="simple", seed=1)
    assert found.verdict is evr.proving.Verdict.ACCEPTED
    assert found.directions["remove"].bound == near(1.0)


def test_certificates_replay(tmp_path: object) -> None:
    event, epsilon = EVENTS["with others"]
    certificate = evr.certify(event, epsilon=epsilon, tau=0.8, ledger=f"{tmp_path}/ledger.sqlite", seed=1)
    assert certificate.accepted
    assert evr.replay(certificate).agrees
    assert "one bin" in certificate.statement


def test_false_claims_are_not_accepted() -> None:
    """Claims 5 to 30% too low; each may be accepted with probability 1e-5 at the most."""
    event, epsilon = EVENTS["fixed"]
    delta = evr.estimate_delta(event, epsilon).value
    for number in range(18):
        low = 0.9 * delta * (0.95, 0.85, 0.7)[number % 3]
        found = evr.verify(event, epsilon=epsilon, delta=low / 0.9, tau=0.9, seed=number, max_samples=8192)
        assert found.verdict is evr.proving.Verdict.REJECTED


def test_a_lone_delta_builds_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table takes a second, a delta of bins alone a thirtieth of that: a search for atoms once built it."""
    monkeypatch.setattr("evr._estimate.bins.ratio_law", None)
    assert evr.estimate_delta(evr.events.BallsInBinsDpEvent(1.3, 234 * 15, 234), 2.0).value > 0.0
