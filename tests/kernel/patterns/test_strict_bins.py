"""Strict proofs of bins with independent noise: never below the truth, and little above it."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting import dp_event

import evr
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction, Step
from evr._kernel.pairs.exact import ExactBins
from evr._kernel.pairs.exact.law import ball
from evr._kernel.strict import ProofPlan, one_step, prove
from evr._kernel.strict.alone import one_step_delta
from evr._kernel.strict.ratios import outcomes_of
from evr.errors import UnsupportedEventError
from helpers import full, near

E = evr.events
REMOVE, ADD = Direction.REMOVE, Direction.ADD


def grid_law(law: ExactBins, top: float, spacing: Fraction) -> tuple[np.ndarray, np.ndarray, float]:
    """Values of ``L'``, masses under ``Q`` and the excess, as floats."""
    found = outcomes_of(law, Fraction(top), spacing, 80)
    masses = np.array([float(x) for x in found.sum.fine]) * 2.0**-found.grid.bits
    values = np.arange(masses.size) * float(spacing) / law.bins
    return values, masses, float(found.sum.excess) * 2.0**-found.grid.bits / law.bins


def test_one_ratio_keeps_its_mass_and_its_mean() -> None:
    values, masses, excess = grid_law(ExactBins(REMOVE, 1, Fraction(1, 2)), 2.0, Fraction(1, 8))
    assert masses.sum() == near(1.0, abs=1e-14)
    assert values @ masses + excess == near(1.0, abs=1e-14)


def test_masses_that_one_precision_leaves_open_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    law, cut, spacing = ExactBins(REMOVE, 3, Fraction(1, 2)), Fraction(1), Fraction(1, 8)
    known = outcomes_of(law, cut, spacing, 80)
    monkeypatch.setattr(one_step, "ceiling", lambda mass: None)
    assert outcomes_of(law, cut, spacing, 80) == known


@pytest.mark.parametrize("bins", [2, 3, 5])
def test_the_grid_law_is_above_in_the_convex_order(bins: int) -> None:
    """Against a convolution in floats of the same masses, and against the truth by sampling."""
    law = ExactBins(REMOVE, bins, Fraction(1))
    _, one, _ = grid_law(ExactBins(REMOVE, 1, Fraction(1)), 3.0, Fraction(1, 16))
    values, masses, excess = grid_law(law, 3.0, Fraction(1, 16))
    assert values @ masses + excess == near(1.0, abs=1e-13)
    generator = np.random.default_rng(1)
    truth = np.exp(generator.standard_normal((400_000, bins)) - 0.5).mean(axis=1)
    for strike in (0.3, 1.0, 2.0, 4.0):
        call = float(np.maximum(values - strike, 0.0) @ masses) + excess
        put = float(np.maximum(strike - values, 0.0) @ masses)
        for bound, sample in ((call, np.maximum(truth - strike, 0.0)), (put, np.maximum(strike - truth, 0.0))):
            error = float(sample.std()) / math.sqrt(sample.size)
            assert sample.mean() - 5 * error <= bound <= sample.mean() + 5 * error + 2e-3
    if bins == 2:  # the whole law, where nothing is cut
        inner = one.size - 1
        np.testing.assert_allclose(masses[:inner], np.convolve(one, one)[:inner], atol=1e-15)


FIXED = [
    pytest.param(1.0, 100, 10, 3.0, marks=pytest.mark.full),
    pytest.param(0.5, 1000, 1, 0.8, marks=pytest.mark.full),
    (2.0, 10, 10, 3.0),
    (1.0, 2, 1, 1.0),
]


@pytest.mark.parametrize(("epsilon", "bins", "epochs", "noise"), FIXED)
def test_fixed_bins(epsilon: float, bins: int, epochs: int, noise: float) -> None:
    event = E.BallsInBinsDpEvent(noise, bins * epochs, bins)
    truth = evr.estimate_delta(event, epsilon).value
    bound = evr.estimate_delta(event, epsilon, method="strict")
    assert isinstance(bound, evr.UpperBound)
    assert truth * (1 - 1e-8) <= bound.value <= 1.001 * truth
    if bins <= 100:
        add = evr.estimate_delta(event, epsilon, direction="add").value
        above = evr.estimate_delta(event, epsilon, method="strict", direction="add").value
        assert add * (1 - 1e-6) <= above <= 1.001 * add


def test_redrawn_bins() -> None:
    event = E.RedrawnBinsDpEvent(2.0, 8, 2)
    for direction in ("remove", "add"):
        truth = evr.estimate_delta(event, 0.7, direction=direction).value
        bound = evr.estimate_delta(event, 0.7, method="strict", direction=direction, tolerance=1e-2).value
        assert truth * (1 - 1e-7) <= bound <= 1.015 * truth


def test_epsilon() -> None:
    fixed = E.BallsInBinsDpEvent(3.0, 100, 10)
    delta = evr.estimate_delta(fixed, 2.0).value
    epsilon = evr.estimate_epsilon(fixed, delta, method="strict", direction="remove").value
    assert 2.0 <= epsilon <= 2.0 + 1e-3


@pytest.mark.full
def test_composition() -> None:
    both = dp_event.ComposedDpEvent([dp_event.LaplaceDpEvent(4.0), E.BallsInBinsDpEvent(1.5, 6, 6)])
    truth = evr.estimate_delta(both, 1.0, direction="remove").value
    bound = evr.estimate_delta(both, 1.0, method="strict", direction="remove", tolerance=1e-2).value
    assert truth * (1 - 1e-7) <= bound <= 1.02 * truth


def test_whatever_the_grid_it_is_a_bound() -> None:
    """Wide spacings and few bits are worse, never wrong."""
    event = E.BallsInBinsDpEvent(2.0, 10, 10)
    composition = Composition.of(event)
    for direction, epsilon in itertools.product(Direction, (0.2, 0.6)):
        truth = evr.estimate_delta(event, epsilon, direction=direction.value).value
        bounds = [
            prove(composition.exact(direction), Fraction(epsilon), ProofPlan.of_one_step(bits, spacing))
            for bits, spacing in itertools.product((4, 80), (Fraction(2), Fraction(1, 3), Fraction(1, 16)))
        ]
        assert all(float(one.delta) >= truth * (1 - 1e-9) for one in bounds)
        assert float(bounds[-1].delta) <= 1.1 * truth


def test_the_call_is_that_of_black_and_scholes() -> None:
    from scipy.stats import norm

    law = ExactBins(ADD, 3, Fraction(9, 4))
    for strike in (Fraction(1, 10), Fraction(1), Fraction(20)):
        t = -math.log(float(strike)) / 1.5 - 0.75
        expected = norm.cdf(t + 1.5) - float(strike) * norm.cdf(t)
        assert float(law.call()(ball(strike)).mid()) == near(expected, rel=1e-12)


def test_verification_and_replay(tmp_path: object) -> None:
    event = E.BallsInBinsDpEvent(3.0, 100, 10)
    delta = evr.estimate_delta(event, 2.0).value
    found = evr.verify(event, epsilon=2.0, delta=delta / 0.99, tau=0.99, method="strict")
    assert found.verdict is evr.proving.Verdict.ACCEPTED
    assert found.false_positive_rate == 0.0
    low = evr.verify(event, epsilon=2.0, delta=0.98 * delta / 0.99, tau=0.99, method="strict")
    assert low.verdict is evr.proving.Verdict.REJECTED
    certificate = evr.certify(event, epsilon=2.0, ledger=f"{tmp_path}/ledger.sqlite")
    assert certificate.verification.method == "strict"
    assert evr.replay(certificate).agrees


def test_other_schemes_have_no_strict_proof() -> None:
    event = E.BallsInBinsDpEvent(3.0, 100, 10, (1.0, 0.5))
    with pytest.raises(UnsupportedEventError, match=r".*offers no exact law"):
        evr.estimate_delta(event, 1.0, method="strict")


def test_too_many_places_are_refused() -> None:
    step = Step(ExactBins(REMOVE, 1000, Fraction(1)), 1)
    with pytest.raises(ValueError, match="a wider spacing is wanted"):
        prove((step,), Fraction(40), ProofPlan.of_one_step(80, Fraction(1, 1000)))


@pytest.mark.parametrize("direction", [REMOVE, ADD])
def test_two_grids_of_ratios(monkeypatch: pytest.MonkeyPatch, direction: Direction) -> None:
    """Where one grid has too many places, a coarse one goes on: never below the truth, and little above it."""
    law, epsilon = ExactBins(direction, 5, Fraction(4)), 4.0 if direction is REMOVE else -3.0
    top, spacing = Fraction(abs(epsilon)), Fraction(1, 64)
    whole = outcomes_of(law, top, spacing, 80)
    monkeypatch.setattr("evr._kernel.strict.ratios.MOST_PLACES", 4096)
    parted = outcomes_of(law, top, spacing, 80)
    assert whole.grid.size == 1 < parted.grid.size
    for at in (0.3, 0.7, 1.0):
        one, two = (float(one_step_delta(made, Fraction(at * epsilon), 80)) for made in (whole, parted))
        assert one <= two <= 1.01 * one


@pytest.mark.full
def test_room_at_little_noise() -> None:
    """At a noise of 0.5 losses reach far: one grid would need two million places."""
    event = E.RandomAllocationDpEvent(0.5, 20, 2)
    truth = evr.estimate_delta(event, 7.5, direction="remove").value
    found = evr.estimate_delta(event, 7.5, method="strict", direction="remove", tolerance=0.05).value
    assert truth * (1 - 1e-6) <= found <= 1.05 * truth


@pytest.mark.parametrize(("noise", "bins", "epochs", "epsilon"), [full(0.5, 4, 4, 13.0), (0.4, 3, 2, 6.0)])
def test_coarse_places_are_multiples_of_their_size(noise: float, bins: int, epochs: int, epsilon: float) -> None:
    """Masses on cells of more than 2^16 fine ones were put a cell too low: the bound was a third below delta."""
    event = evr.events.RedrawnBinsDpEvent(noise, bins, epochs)
    bound = evr.estimate_delta(event, epsilon, method="strict", direction="remove").value
    found = evr.estimate_delta(event, epsilon, direction="remove")
    assert found.value * (1 - 1e-6) <= bound <= 1.5 * found.value
