"""Numbers at the ends: epsilons in the thousands, deltas below all floats, events that cost nothing
or everything. Each of these once took minutes, warned, or ended in an exception of another library.
"""

import math
import warnings
from functools import partial

import mpmath
import numpy as np
import pytest
from dp_accounting import dp_event
from scipy.special import log_ndtr

import evr
from evr._estimate.monte_carlo import WeightedSamples
from evr._estimate.points import rough_points
from evr._estimate.tilting import is_certain, plan_tilt
from evr._kernel.events import Composition
from evr._kernel.pairs import DiscretePair, Step
from evr.errors import FalseClaimError, UnsupportedEventError
from helpers import near

DPSGD = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=1000)


@pytest.mark.parametrize("epsilon", [1e3, 1e8, 1e100])
def test_a_modest_order_shows_that_delta_is_no_float(epsilon, monkeypatch):
    """The order that centres the sum there is so great that its points took minutes."""
    orders = []

    def watched(pair, order, *args, **kwargs):
        orders.append(order)
        return rough_points(pair, order, *args, **kwargs)

    monkeypatch.setattr("evr._estimate.tilting.rough_points", watched)
    steps = Composition.of(DPSGD).simplified("remove")
    assert plan_tilt(steps, epsilon) is None
    assert max(orders) < 10.0
    assert evr.estimate_delta(DPSGD, epsilon).value == 0.0


@pytest.mark.parametrize("epsilon", [40.0, pytest.param(70.0, marks=pytest.mark.full)])
def test_a_small_delta_is_still_found(epsilon):
    found = evr.estimate_delta(DPSGD, epsilon, direction="remove")
    assert 0.0 < found.value < 1e-120
    proved = evr.estimate_delta(DPSGD, epsilon, direction="remove", method="strict")
    assert proved.value / (1 + 1e-3) <= found.value <= proved.value


@pytest.mark.parametrize(
    ("event", "delta"),
    [
        (dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(4.0), 40_000), 0.3),
        (evr.events.EpsilonDeltaDpEvent(1000.0, 0.0), 1e-3),
    ],
)
def test_monte_carlo_knows_epsilons_beyond_the_logarithm_of_all_floats(event, delta):
    found = evr.estimate_epsilon(event, delta, method="monte_carlo", seed=1, samples=4096)
    exact = evr.estimate_epsilon(event, delta).value
    assert exact > 710.0
    assert abs(found.value - exact) <= 7.0 * found.standard_error + 1e-8


def test_weighted_samples_do_not_depend_on_where_losses_are():
    """Losses and epsilon moved by the same: the root moves by it."""
    losses, weights = np.linspace(1.0, 5.0, 200), np.zeros(200)
    here = WeightedSamples.of(losses, weights).epsilon(0.3)
    far = WeightedSamples.of(losses + 5000.0, weights).epsilon(0.3)
    assert far[0] - 5000.0 == near(here[0], abs=1e-7)
    assert far[1] == near(here[1], rel=1e-6)


@pytest.mark.parametrize("event", [dp_event.GaussianDpEvent(1.0), DPSGD])
def test_monte_carlo_says_0_where_delta_is_no_float(event):
    found = evr.estimate_delta(event, 1000.0, method="monte_carlo")
    assert (found.value, found.standard_error, found.samples) == (0.0, 0.0, 0)


def test_bins_where_e_to_epsilon_is_no_float():
    """Delta is some e^-250000."""
    event = evr.events.BallsInBinsDpEvent(1.0, 20, 10)
    assert evr.estimate_delta(event, 1000.0, method="monte_carlo").value == 0.0
    with pytest.raises(ValueError, match=r"losses up to 1,0\d\d: a smaller epsilon") as refused:
        evr.estimate_delta(event, 1000.0, method="strict")
    assert len(str(refused.value)) < 200


# --- deltas next to 1 -----------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [10.0, 15.0, 20.0, 25.0, 200.0])
def test_delta_is_called_1_only_where_it_is(mu):
    """``1 - delta`` of a Gaussian by its closed form, from both sides of where it matters."""
    steps = Composition.of(dp_event.GaussianDpEvent(1.0 / mu)).simplified("remove")
    for epsilon in (0.0, 0.2 * mu**2, 0.3 * mu**2, 0.5 * mu**2, mu**2):
        rest = math.exp(log_ndtr(epsilon / mu - mu / 2)) + math.exp(epsilon + log_ndtr(-epsilon / mu - mu / 2))
        assert not is_certain(steps, epsilon) or rest < 1e-19
        assert epsilon > 0.0 or is_certain(steps, epsilon) or rest > 1e-22


def test_a_delta_of_1_needs_no_grid(monkeypatch):
    """It took a minute, with a stated error of 7e-5, where some steps have atoms."""
    event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.1, steps=50_000)
    monkeypatch.delattr("evr._estimate.refining.law_on_grid")
    monkeypatch.delattr("evr._plan.strict.prove")
    assert evr.estimate_delta(event, 4.0).value == 1.0
    assert evr.estimate_delta(event, 4.0, method="strict").value == 1.0
    found = evr.estimate_delta(event, 4.0, method="monte_carlo")
    assert (found.value, found.standard_error, found.samples) == (1.0, 0.0, 0)


# --- the moments accountant -----------------------------------------------------------------------

NOTHING = dp_event.PoissonSampledDpEvent(0.1, dp_event.ComposedDpEvent([]))


def nested(event: dp_event.DpEvent, depth: int) -> dp_event.DpEvent:
    for _ in range(depth):
        event = dp_event.ComposedDpEvent([event])
    return event


@pytest.mark.parametrize(
    "event",
    [
        dp_event.LaplaceDpEvent(0.0),
        dp_event.NonPrivateDpEvent(),
        dp_event.GaussianDpEvent(0.0),
        NOTHING,
        dp_event.ComposedDpEvent([NOTHING, dp_event.GaussianDpEvent(2.0)]),
        nested(dp_event.GaussianDpEvent(2.0), 3000),
        evr.events.DiscreteGaussianDpEvent(2.0),
        evr.events.EpsilonDeltaDpEvent(0.5, 1e-7),
    ],
    ids=["laplace", "non-private", "gaussian", "nothing", "more", "deep", "discrete", "known"],
)
def test_rdp_bounds_what_dp_accounting_has_no_number_for(event):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for epsilon in (0.0, 1.0, math.inf):
            bound = evr.estimate_delta(event, epsilon, method="rdp").value
            assert evr.estimate_delta(event, epsilon).value <= bound * (1 + 1e-9) <= 1 + 1e-9
        for delta in (1e-6, 1.0):
            bound = evr.estimate_epsilon(event, delta, method="rdp").value
            assert evr.estimate_epsilon(event, delta).value <= bound * (1 + 1e-9) + 1e-12


def test_rdp_takes_a_composition_and_refuses_a_direction_that_is_none():
    of_event = evr.estimate_delta(DPSGD, 1.0, method="rdp").value
    bound = evr.estimate_delta(Composition.of(DPSGD), 1.0, method="rdp").value
    assert evr.estimate_delta(DPSGD, 1.0).value < bound <= of_event * (1 + 1e-9)
    with pytest.raises(ValueError, match="direction='up' is not one of "):
        evr.estimate_delta(DPSGD, 1.0, method="rdp", direction="up")


def test_rdp_still_refuses_what_has_no_pair_on_a_line():
    with pytest.raises(UnsupportedEventError, match="no pair on a line"):
        evr.estimate_delta(evr.events.BallsInBinsDpEvent(1.0, 20, 10), 1.0, method="rdp")


def test_rdp_says_nothing_of_the_orders_that_it_leaves_out(caplog):
    """dp_accounting warns of each of them, ten lines for usual numbers."""
    event = evr.dpsgd(noise_multiplier=0.55, sampling_probability=0.06, steps=10)
    assert evr.estimate_epsilon(event, 1e-5, method="rdp").value > 0.0
    assert not caplog.records


@pytest.mark.parametrize("probability", [5e-324, 1e-310, 1e-260])
def test_a_probability_that_is_next_to_nothing_is_refused_in_words(probability):
    """Once a warning of NumPy, or "math domain error"."""
    event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=probability, steps=10)
    for ask in (
        lambda: evr.estimate_delta(event, 0.5),
        lambda: evr.verify(event, epsilon=0.5, delta=1e-5 / 0.9, tau=0.9, method="sequential"),
    ):
        with pytest.raises(ValueError, match=r"is below 1e-250, .* give 1e-250, which covers it"):
            ask()
    covered = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-250, steps=10)
    assert evr.estimate_delta(covered, 0.5).value < 1e-248
    accepted = evr.verify(covered, epsilon=0.5, delta=1e-5 / 0.9, tau=0.9, method="sequential")
    assert accepted.verdict is evr.proving.Verdict.ACCEPTED


def test_huge_losses_that_are_nearly_certain_are_not_lost_beside_tiny_ones():
    """The event and the truth are benchmarks/attack.py's, --seed 41 --only 58: a contour integral."""
    sampled, repeated = dp_event.PoissonSampledDpEvent, dp_event.SelfComposedDpEvent
    event = dp_event.ComposedDpEvent(
        [
            repeated(sampled(0.3561384797406622, dp_event.GaussianDpEvent(0.5845185884242854)), 141596),
            repeated(sampled(6.822650701710646e-08, dp_event.LaplaceDpEvent(0.004826328199968296)), 876988020),
            repeated(sampled(0.9999999980515473, dp_event.LaplaceDpEvent(0.010379012046942249)), 291),
            repeated(sampled(0.00044227054373815875, dp_event.GaussianDpEvent(0.5164150614371124)), 37059589),
        ]
    )
    found = evr.estimate_delta(event, 28293.036136123468, direction="add")
    assert found.value == near(0.2004779868836998, rel=1e-6)


@pytest.mark.parametrize("noise", [1e15, 1e11, 1e6, 3.0])
@pytest.mark.parametrize("deviations", [0.0, 3.0, 31.6])
def test_many_gaussians_of_huge_noise(noise, deviations):
    """The width of what a tail is integrated over was a difference of two numbers that are nearly equal."""
    steps = 10**9 if noise > 10 else 1
    with mpmath.workdps(100):
        mu = mpmath.sqrt(steps) / mpmath.mpf(noise)
        epsilon = float(deviations * mu)
        at = mpmath.mpf(epsilon) / mu
        true = mpmath.ncdf(mu / 2 - at) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - at)
        found = evr.estimate_delta(dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(noise), steps), epsilon)
        assert abs(found.value - true) <= found.error
        assert found.error <= 1e-6 * true


FAILING = evr.events.EpsilonDeltaDpEvent(1.0, 0.01)


@pytest.mark.parametrize("method", ["fft", "strict", "monte_carlo"])
def test_epsilon_where_infinite_losses_have_all_of_delta(method):
    """As floats, e to the logarithm of 0.01 is a little more than 0.01."""
    ask = partial(evr.estimate_epsilon, FAILING, method=method)
    assert ask(0.01).value == 1.0
    assert ask(math.nextafter(0.01, 0.0)).value == math.inf
    assert ask(0.02).value < 1.0


def test_epsilon_where_infinite_losses_have_all_of_delta_in_a_composition():
    bounded = dp_event.ComposedDpEvent([FAILING, dp_event.LaplaceDpEvent(2.0)])
    assert evr.estimate_epsilon(bounded, 0.01).value == 1.5
    unbounded = dp_event.ComposedDpEvent([FAILING, dp_event.GaussianDpEvent(2.0)])
    assert evr.estimate_epsilon(unbounded, 0.01).value == math.inf
    in_floats = DiscretePair.from_probabilities([0.01, 0.49, 0.5], [0.0, 0.5, 0.5])
    composition = Composition((Step(in_floats, 1),), (Step(in_floats, 1),))
    assert evr.estimate_epsilon(composition, 0.01).value == 0.0


def test_a_pair_that_is_true_to_the_last_digit_is_verified_and_not_called_false(tmp_path):
    assert evr.verify(FAILING, epsilon=1.0, delta=0.01, method="strict").accepted
    with pytest.raises(FalseClaimError, match="true by too little to be verified"):
        evr.certify(FAILING, epsilon=1.0, delta=0.01, ledger=tmp_path / "ledger.sqlite")
    with pytest.raises(ValueError, match=r"no epsilon lets delta=0.01 be verified.*claim delta=0.0102 or more"):
        evr.certify(FAILING, delta=0.01, ledger=tmp_path / "ledger.sqlite")
    assert evr.certify(FAILING, delta=0.0102, ledger=tmp_path / "ledger.sqlite").guarantee.epsilon == 1.0


@pytest.mark.parametrize(("epsilon", "steps"), [(0.1, 10**9), (30.0, 5)])
def test_rare_steps_at_the_far_end_add_up(epsilon, steps):
    """A tilt far too steep lost the heaviest loss to rounding: delta was a 33rd of the truth, and the stated error
    1e-12 of it. With a rate of 1e-30 two large losses do not come together: delta is that of one step, times the steps.
    """
    with mpmath.workdps(50):
        mu, rate = mpmath.mpf(10) / 3, mpmath.mpf(10) ** -30
        inner = mpmath.log((mpmath.exp(epsilon) - 1 + rate) / rate)
        one = mpmath.ncdf(mu / 2 - inner / mu) - mpmath.exp(inner) * mpmath.ncdf(-mu / 2 - inner / mu)
        truth = float(steps * rate * one)
    found = evr.estimate_delta(evr.dpsgd(noise_multiplier=0.3, sampling_probability=1e-30, steps=steps), epsilon)
    assert abs(found.value - truth) <= found.error + 1e-9 * truth
    assert found.error < 1e-6 * truth
