"""What an attack found: claims that floats cannot settle are not accepted, true claims of tiny
losses are not rejected.
"""

from __future__ import annotations

import math

import mpmath as mp
import pytest
from dp_accounting import dp_event
from scipy.stats import binom

import evr
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction, Step
from evr._kernel.pairs.line.discrete import DiscretePair
from evr._kernel.pairs.line.poisson import SampledPair
from evr._kernel.sampled.line import TiltedProposal
from evr._kernel.sampled.moments import Rounding, Tilt, log_peak
from evr._kernel.verdict.attempts import shortcut
from evr._kernel.verdict.settings import Claim
from evr.events import DiscreteGaussianDpEvent, EpsilonDeltaDpEvent
from helpers import answers, near, together


def huge(epsilon: float, steps: int = 20) -> tuple[Composition, float]:
    """A loss of plus or minus ``epsilon``, and ``steps`` losses of which a sum is below its last
    digit; and delta.
    """
    tanh = math.tanh(0.2 * math.ulp(epsilon) / math.sqrt(steps) / 2)
    noise = 1 - tanh
    event = together(EpsilonDeltaDpEvent(epsilon, 0.0), (answers(noise, 2), steps))
    loss, chance = math.log1p((1 - noise) / (noise / 2)), 1 - noise / 2
    ups = range(steps // 2 + 1, steps + 1)
    delta = math.fsum(binom.pmf(j, steps, chance) * -math.expm1(-(2 * j - steps) * loss) for j in ups)
    return event, delta


@pytest.mark.parametrize(("epsilon", "tau"), [(1e9, 0.3), (1e10, 0.99), (1e11, 0.99), (1e13, 0.5), (1e14, 0.99)])
@pytest.mark.parametrize("method", ["sequential", "fixed"])
def test_losses_below_the_last_digit_of_epsilon_are_not_overlooked(epsilon: float, tau: float, method: str) -> None:
    event, delta = huge(epsilon)
    with pytest.raises(
        ValueError, match=r"floats know total losses .* lower tau|no useful bound|would take about .* samples"
    ):
        evr.verify(event, epsilon=epsilon, delta=0.5 * delta, tau=tau, seed=7, method=method)


def test_the_same_composition_is_verified_where_floats_can_tell() -> None:
    noise = 0.75
    event = together(EpsilonDeltaDpEvent(1e6, 0.0), (answers(noise, 2), 20))
    loss, chance = math.log1p((1 - noise) / (noise / 2)), 1 - noise / 2
    delta = math.fsum(binom.pmf(j, 20, chance) * -math.expm1(-(2 * j - 20) * loss) for j in range(11, 21))
    assert evr.verify(event, epsilon=1e6, delta=delta / 0.9, tau=0.9, seed=1).accepted
    assert not evr.verify(event, epsilon=1e6, delta=0.9 * delta / 0.95, tau=0.95, seed=1).accepted


def test_a_gaussian_whose_losses_floats_cannot_tell_apart() -> None:
    with pytest.raises(ValueError, match="floats know total losses"):
        evr.verify(dp_event.GaussianDpEvent(1e-17), epsilon=5e33, delta=0.2, tau=0.5, method="sequential")
    with pytest.raises(ValueError, match="floats know total losses"):
        evr.verify(dp_event.GaussianDpEvent(1e-17), epsilon=6e33, delta=0.2, tau=0.5, method="sequential")


def test_tiny_losses_beside_one_of_epsilon() -> None:
    tiny = evr.dpsgd(noise_multiplier=1000.0, sampling_probability=1e-6, steps=50)
    event = dp_event.ComposedDpEvent([dp_event.LaplaceDpEvent(1.0), tiny])
    assert evr.verify(event, epsilon=1.0, delta=2.82098e-09, tau=0.5, seed=1).accepted


def test_tiny_responses_beside_a_known_epsilon() -> None:
    event = together(EpsilonDeltaDpEvent(3.0, 0.0), (answers(1 - 1e-10, 2), 20))
    assert evr.verify(event, epsilon=3.0, delta=6.7136e-10, tau=0.5, seed=1).accepted
    assert not evr.verify(event, epsilon=3.0, delta=3.3568e-10 * 0.4 / 0.5, tau=0.5, seed=1).accepted


@pytest.mark.parametrize(
    "event",
    [
        DiscreteGaussianDpEvent(1.0),
        dp_event.PoissonSampledDpEvent(0.3, DiscreteGaussianDpEvent(1.0)),
        dp_event.SelfComposedDpEvent(DiscreteGaussianDpEvent(1.0), 3),
    ],
)
def test_losses_that_were_left_out_are_not_forgotten(event: dp_event.DpEvent) -> None:
    assert not evr.verify(event, epsilon=500.0, delta=0.0, method="sequential").accepted
    assert evr.verify(event, epsilon=500.0, delta=1e-280, method="sequential").accepted


@pytest.mark.parametrize(
    ("noise", "probability", "steps"), [(1e16, 0.5, 4), pytest.param(1e9, 1e-8, 10, marks=pytest.mark.full)]
)
def test_losses_too_small_for_floats_are_refused_in_words(noise: float, probability: float, steps: int) -> None:
    event = evr.dpsgd(noise_multiplier=noise, sampling_probability=probability, steps=steps)
    with pytest.raises(ValueError, match="floats know total losses"):
        evr.verify(event, epsilon=0.0, delta=2e-17, tau=0.5, method="sequential")


def test_an_endless_loss_is_known_to_be_endless() -> None:
    found = shortcut(Composition.of(DiscreteGaussianDpEvent(1.0)).remove, Claim(500.0, 0.0))
    assert found is not None
    assert not found.accepted


def test_rounding_grows_with_epsilon_steps_and_order() -> None:
    pair = DiscretePair.from_probabilities([0.25, 0.75], [0.75, 0.25])
    least = Rounding.of([Step(pair, 10)], 1.0, order=1.0)
    assert Rounding.of([Step(pair, 10)], 1e6, order=1.0).loss > 1e5 * 4 * 2.0**-52 > 0
    assert Rounding.of([Step(pair, 10_000)], 1.0, order=1.0).loss > 100 * least.loss
    assert Rounding.of([Step(pair, 10)], 1.0, order=1e6).weight > least.weight


@pytest.mark.parametrize("q", [1e-12, 1e-6, 0.3, 1 - 1e-9])
@pytest.mark.parametrize("loss", [-40.0, -1.5, -1e-9, 1e-9, 0.9, 1.5, 20.0, 500.0, 800.0])
def test_the_loss_of_a_sampled_mechanism_is_relatively_accurate(q: float, loss: float) -> None:
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(60):
        exact = mpmath.log(1 - mpmath.mpf(q) + mpmath.mpf(q) * mpmath.exp(mpmath.mpf(loss)))
    base = DiscretePair((-1.0, loss) if loss > -1 else (loss, 0.0), (-0.5, -1.0), (-1.0, -0.5))
    index = 1 if loss > -1 else 0
    found = float(SampledPair(base, q, Direction.REMOVE).privacy_loss(index))
    assert found == near(float(exact), rel=2e-15)


@pytest.mark.parametrize("power", [1.0, 2.0, 2.5])
@pytest.mark.parametrize("order", [5e-324, 1e-310, 1e-300, 1e-12, 0.3, 1.0, 5e4, 3105362296.986955, 1e15, 1e300])
def test_the_greatest_value_of_a_sample_keeps_its_digits(order: float, power: float) -> None:
    """Once 7e-6 too small at an order of 3e9, where ``s log s`` has no digits behind the point: a
    sample exceeded its bound. Once minus infinity at 1e-310, where ``p / s`` overflows: a plan of
    that order would have proved everything.
    """
    with mp.workdps(700):
        p, s = mp.mpf(power), mp.mpf(order)
        truth = p * mp.log(p) + s * mp.log(s) - (p + s) * mp.log(p + s)
    assert log_peak(order, power) == near(float(truth), rel=1e-14, abs=1e-15)


def test_orders_out_of_the_range_of_floats_are_refused() -> None:
    with pytest.raises(ValueError, match="the order is 0, or finite and at least"):
        Tilt(1e-310, cap=2.0, floor=-2.0)


def test_a_plan_whose_bound_is_zero_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    event = dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(1.0), 10)
    monkeypatch.setattr(TiltedProposal, "log_greatest", lambda *_: -math.inf)
    with pytest.raises(ValueError, match="out of the range of floats"):
        evr.verify(event, epsilon=1.0, delta=1e-9 / 0.9, tau=0.9, seed=1)


def test_tiny_steps_of_large_orders_are_verified() -> None:
    """The composition that met that bound; delta by a contour integral."""
    event = evr.dpsgd(noise_multiplier=29.824416016979388, sampling_probability=5.815971363346602e-09, steps=367)
    epsilon, delta, seed = 4.44e-08, 9.960085962366373e-42, 1435595079679305095
    found = evr.verify(event, epsilon=epsilon, delta=delta / 0.6, direction="remove", tau=0.6, seed=seed)
    assert found.accepted
