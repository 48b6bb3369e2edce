"""Estimates are within their stated error, or refused in words: what attacks found, each with a
truth found elsewhere.
"""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from dp_accounting import dp_event

import evr
from estimation.independent import gaussian_delta
from evr._accounting.online import MOST_RUNS, timeline
from evr._estimate import atoms
from evr._estimate.grid import law_on_grid
from evr._estimate.points import rough_points
from evr._estimate.tilting import plan_tilt
from evr._kernel.events import Composition
from evr.errors import AccuracyError
from evr.events import DiscreteGaussianDpEvent, EpsilonDeltaDpEvent
from helpers import answers, full, near, together

repeat, composed, sampled = (dp_event.SelfComposedDpEvent, dp_event.ComposedDpEvent, dp_event.PoissonSampledDpEvent)
gaussian = dp_event.GaussianDpEvent


def dpsgd(steps: int, q: float, noise: float) -> dp_event.DpEvent:
    return evr.dpsgd(noise_multiplier=noise, sampling_probability=q, steps=steps)


def with_responses(epsilon: float, noise: float, count: int) -> Composition:
    """A mechanism of a large loss, and randomized responses of small ones."""
    return together(EpsilonDeltaDpEvent(epsilon, 0.0), (answers(noise, 2), count))


def enumerated(epsilon: float, noise: float, count: int) -> float:
    """delta of these at ``epsilon``, all outcomes one by one."""
    with mp.workdps(80):
        n, e = mp.mpf(noise), mp.mpf(epsilon)
        loss = mp.log((1 - n / 2) / (n / 2))
        total = mp.mpf(0)
        for first, share in ((e, mp.exp(e) / (1 + mp.exp(e))), (-e, 1 / (1 + mp.exp(e)))):
            for k in range(count + 1):
                beyond = first + (2 * k - count) * loss - e
                if beyond > 0:
                    weight = mp.binomial(count, k) * (1 - n / 2) ** k * (n / 2) ** (count - k)
                    total += share * weight * -mp.expm1(-beyond)
        return float(total)


# Steps, sampling probability, noise, epsilon in deviations of the summed loss, direction, delta:
# contour integrals of benchmarks/attacking, with an error of 1e-13 by their own account.
TINY_LOSSES = [
    (10**7, 1e-8, 1000.0, 3.0, "remove", 1.2084882683530409e-11),
    (10**7, 1e-8, 1000.0, 3.0, "add", 1.2084749727696356e-11),
    (10**7, 1e-7, 1000.0, 5.0, "remove", 1.6906562422804294e-14),
    (10**7, 1e-7, 1000.0, 5.0, "add", 1.6905819057453903e-14),
    (10**7, 1e-6, 1000.0, 8.0, "remove", 2.38787486367126e-22),
    (10**7, 1e-6, 1000.0, 8.0, "add", 2.3874706705729955e-22),
    (10**7, 1e-5, 100.0, 8.0, "remove", 2.396654608678032e-20),
    (10**7, 1e-5, 100.0, 8.0, "add", 2.3926009997945184e-20),
    (704973, 3.35e-5, 33.1, 6.0, "remove", 1.3495796291286508e-13),
    (704973, 3.35e-5, 33.1, 6.0, "add", 1.3383065939672273e-13),
]


@pytest.mark.parametrize(("steps", "q", "noise", "z", "direction", "delta"), TINY_LOSSES)
def test_many_tiny_losses(steps: int, q: float, noise: float, z: float, direction: str, delta: float) -> None:
    """The loss of a cell had an absolute error of 1e-16, which steps times order multiplied."""
    found = evr.estimate_delta(dpsgd(steps, q, noise), z * q * math.sqrt(steps) / noise, direction=direction)
    assert abs(found.value - delta) <= found.error
    assert found.error <= 1e-7 * delta


# by direction, contour integrals of benchmarks/attacking (events of seed 43, number 382), errors below 1e-14
MANY_AND_TINY = {"remove": 0.01353573870551892, "add": 0.013535738705242335}


@pytest.mark.parametrize("direction", MANY_AND_TINY)
def test_a_billion_tiny_losses_beside_a_few(direction: str) -> None:
    """NumPy's complex log1p is off by 1e-16, which a billion steps multiplied: 1.75e-9 off, 1.42e-9 stated."""
    event = composed(
        [
            repeat(gaussian(102.4399070704861), 12),
            repeat(sampled(1.0945301762364473e-05, dp_event.LaplaceDpEvent(263.9072135806747)), 885931577),
            repeat(sampled(4.616098532268134e-07, dp_event.DiscreteLaplaceDpEvent(0.2256315716383022, 7)), 14412234),
        ]
    )
    found, exact = evr.estimate_delta(event, 8.779067414099055e-06, direction=direction), MANY_AND_TINY[direction]
    assert abs(found.value - exact) <= min(1e-3 * found.error, 1e-12)
    assert found.error <= 6e-8 * exact


@pytest.mark.parametrize(("epsilon", "noise", "count"), [(100.0, 1 - 1e-11, 10), (3.0, 1 - 1e-10, 20), (1e6, 0.9, 6)])
def test_a_large_loss_beside_small_ones(epsilon: float, noise: float, count: int) -> None:
    """Sums closer than 1e-13 of the greatest were taken for one: off by 6e-5 at the first."""
    found, exact = (
        evr.estimate_delta(with_responses(epsilon, noise, count), epsilon),
        enumerated(epsilon, noise, count),
    )
    assert abs(found.value - exact) <= found.error
    assert found.value == near(exact, rel=1e-9)


def test_a_loss_that_hides_all_others() -> None:
    """It was 0 with an error of 0; 0.738 is right, but floats know sums of losses to within 16."""
    with pytest.raises(AccuracyError, match=r"epsilon=1e\+17: delta would be 0\.738 with an error of"):
        evr.estimate_delta(with_responses(1e17, 0.75, 20), 1e17)


def test_losses_of_several_scales_at_an_atom() -> None:
    """At 10 all hinges on losses of 1e-7 beside atoms at -10 and 10: no grid shows both."""
    event = composed([EpsilonDeltaDpEvent(10.0, 0.0), dpsgd(100, 1e-3, 1e4)])
    found, alone = evr.estimate_delta(event, 10.0), evr.estimate_delta(dpsgd(100, 1e-3, 1e4), 0.0)
    assert found.value == near(alone.value / (1 + math.exp(-10.0)), rel=1e-6)
    assert found.error <= 1e-6 * found.value


def test_many_atoms_on_no_common_lattice() -> None:
    """By convolution and enumeration with 60 digits. Atoms were smoothed, which was off by 6e-7."""
    event = composed(
        [
            DiscreteGaussianDpEvent(0.24894718607976246, 5),
            repeat(EpsilonDeltaDpEvent(0.023265841755841763, 0.0), 3335105),
            dp_event.DiscreteLaplaceDpEvent(0.27134937733979697, 7),
            dp_event.DiscreteLaplaceDpEvent(0.0164813073356812, 2),
        ]
    )
    found = evr.estimate_delta(event, 1830.0)
    assert abs(found.value - 1.658641998737979e-54) <= found.error <= 1e-6 * found.value


@pytest.mark.parametrize(
    ("steps", "q", "noise", "epsilon", "exact"),
    [
        (310, 3.22e-5, 0.0951, 0.0013, 0.009932480912922443),  # by a contour integral
        (2225, 0.0024, 0.0185, 5.2, -math.expm1(2225 * math.log1p(-0.0024))),
        (20, 0.3, 0.02, 40.0, -math.expm1(20 * math.log1p(-0.3))),
    ],
)
def test_jumps_far_above_epsilon(steps: int, q: float, noise: float, epsilon: float, exact: float) -> None:
    """A record that is drawn once is seen: delta is that probability. Between 0 and the jump there
    is nothing.
    """
    found = evr.estimate_delta(dpsgd(steps, q, noise), epsilon, direction="remove")
    assert abs(found.value - exact) <= found.error <= 1e-6 * exact


def test_two_jumps_are_needed() -> None:
    """Was 0 with an error of 2e-7: points made for one order were used for others."""
    found = evr.estimate_delta(dpsgd(10**6, 1e-10, 0.03), 700.0)
    assert found.value == near(5.0215154533e-9, rel=1e-8)
    assert found.error <= 1e-6 * found.value


class TestAbsurdNumbersOfSteps:
    """The law of the loss is nearly normal: its mean and 4.26 deviations are epsilon, not 7.79."""

    @staticmethod
    def moments(q: float, noise: float, steps: int) -> tuple[float, float]:
        """Mean and deviation of the summed loss in the remove direction, by quadrature."""
        x = np.linspace(-12.0, 14.0, 200_001)
        density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0])
        loss = np.log1p(q * np.expm1(x / noise - 0.5 / noise**2))
        weights = density * np.exp(loss)
        mean = float(weights @ loss)
        return steps * mean, math.sqrt(steps * float(weights @ (loss - mean) ** 2))

    @pytest.mark.parametrize(("steps", "q"), [(10**12, 0.01), full(10**13, 0.01), full(10**11, 0.1)])
    def test_epsilon(self, steps: int, q: float) -> None:
        mean, deviation = self.moments(q, 1.0, steps)
        found = evr.estimate_epsilon(dpsgd(steps, q, 1.0), 1e-5, direction="remove")
        assert (found.value - mean) / deviation == near(4.2649, abs=0.002)
        assert found.error is not None
        assert found.error <= 1e-2 * deviation

    def test_curve(self) -> None:
        mean, _ = self.moments(0.01, 1.0, 10**12)
        assert evr.privacy_curve(dpsgd(10**12, 0.01, 1.0), [1.0, 1.1 * mean]).deltas == near([1.0, 0.0])

    @pytest.mark.full
    def test_online_and_calibration(self) -> None:
        mean, _ = self.moments(0.01, 1.0, 10**12)
        online = evr.online_epsilon(dpsgd(10**12, 0.01, 1.0), 1e-5, every=5 * 10**11, direction="remove")
        assert online.epsilons[1] == near(mean, rel=1e-3)
        assert np.all(online.errors < 1e-6 * online.epsilons)
        most = evr.calibrate(
            lambda k: dpsgd(k, 0.01, 1.0), epsilon=mean, delta=1e-5, low=10**11, high=10**13, integer=True
        )
        assert most.value == near(10**12, rel=1e-3)

    def test_too_many_reports_are_refused(self) -> None:
        with pytest.raises(ValueError, match=r"1000000000 steps with every=1 are .* reports.*every="):
            evr.online_epsilon(dpsgd(10**9, 0.01, 1.0), 1e-5)


class TestTinyNoise:
    """Losses of 5e33 and more: floats cannot tell them apart, and the error says so."""

    @pytest.mark.parametrize("noise", [1e-3, full(1e-9), 1e-17, 1e-18])
    def test_epsilon(self, noise: float) -> None:
        found = evr.estimate_epsilon(gaussian(noise), 0.1)
        with mp.workdps(80):
            mu = 1 / mp.mpf(noise)
            exact = (
                mp.findroot(
                    lambda z: mp.ncdf(-z) - mp.exp(mu * mu / 2 + mu * z) * mp.ncdf(-mu - z) - mp.mpf("0.1"), 1.2816
                )
                * mu
                + mu * mu / 2
            )
            assert abs(mp.mpf(found.value) - exact) <= mp.mpf(found.error)
            assert found.error <= 2e-11 * found.value

    def test_delta(self) -> None:
        assert evr.estimate_delta(gaussian(1e-18), 1.0).value == 1.0
        found = evr.estimate_delta(gaussian(1e-3), 500_100.0)
        assert abs(found.value - gaussian_delta(1000.0, 500_100.0)) <= found.error

    def test_no_float_is_near_enough(self) -> None:
        with pytest.raises(AccuracyError, match="with an error of"):
            evr.estimate_delta(gaussian(1e-17), 5e33)


class TestTrees:
    """One walker, with a stack."""

    def test_sampling_with_certainty_is_no_sampling(self) -> None:
        inside = composed([gaussian(1.0), EpsilonDeltaDpEvent(0.5, 0.0)])
        online = evr.online_epsilon(sampled(1.0, inside), 1e-5)
        assert online.epsilons.tolist() == near(evr.online_epsilon(inside, 1e-5).epsilons.tolist())
        assert len(online.epsilons) == 2

    @pytest.mark.parametrize(
        ("levels", "wrap"),
        [
            (1500, lambda e: repeat(e, 1)),
            (1500, lambda e: composed([e])),
            (1500, lambda e: sampled(1.0, e)),
            (400, lambda e: sampled(0.9999, e)),  # an exact product of as many probabilities
        ],
    )
    def test_many_levels(self, levels: int, wrap: Any) -> None:
        event: Any = gaussian(5.0)
        for _ in range(levels):
            event = wrap(event)
        online = evr.online_epsilon(event, 1e-5)
        assert online.epsilons[-1] == near(evr.estimate_epsilon(event, 1e-5).value)

    def test_sampling_twice_is_sampling_once(self) -> None:
        twice = evr.estimate_delta(repeat(sampled(0.5, sampled(0.02, gaussian(1.0))), 10), 0.1)
        assert twice.value == near(evr.estimate_delta(dpsgd(10, 0.01, 1.0), 0.1).value, rel=1e-9)

    def test_timeline_keeps_the_order_and_joins_equal_steps(self) -> None:
        event = composed(
            [gaussian(1.0), repeat(composed([gaussian(1.0), dp_event.NoOpDpEvent()]), 2), repeat(gaussian(1.0), 3)]
        )
        order = [(pairs is None, n, repeats) for runs, repeats in timeline(event) for pairs, n in runs]
        assert order == [(False, 1, 1), (False, 1, 2), (True, 1, 2), (False, 1, 3)]
        assert timeline(composed([gaussian(1.0), repeat(gaussian(1.0), 2)])) == timeline(repeat(gaussian(1.0), 3))

    def test_too_many_changes_are_refused(self) -> None:
        event = repeat(composed([gaussian(1.0), dp_event.LaplaceDpEvent(1.0)]), MOST_RUNS)
        with pytest.raises(ValueError, match=f"count={MOST_RUNS} at event repeats 2 changes"):
            evr.online_epsilon(event, 1e-5, every=10**6)


def test_large_orders_cost_no_millions_of_cells() -> None:
    """Cells were laid over all losses, a tenth of 1 / order wide: eight seconds for this one."""
    pair = Composition.of(dpsgd(100, 0.01, 1.0)).simplified("add")[0].pair
    for order in (100.0, 1e4, 1e6):
        assert rough_points(pair, order, 6.0).losses.size < 30_000


def test_more_atoms_than_can_be_listed_are_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seconds were spent on powers of three million steps before there were too many."""
    steps = Composition.of(repeat(EpsilonDeltaDpEvent(0.02, 0.0), 3_000_000)).simplified("remove")
    monkeypatch.setattr(atoms, "_power", lambda *_: pytest.fail("began to list them"))
    assert atoms.atoms_of(steps) is None


def test_a_grid_that_is_too_narrow_says_so() -> None:
    """Its ends are not empty: what is spread beyond them comes back at the other end."""
    steps = Composition.of(dpsgd(1000, 1e-3, 1.0)).simplified("remove")
    plan = plan_tilt(steps, 0.5)
    assert plan is not None
    right = law_on_grid(plan, steps, 4096, with_atoms=False)
    narrow = law_on_grid(plan._replace(high=0.2 * plan.high), steps, 4096, with_atoms=False)
    off = abs(narrow.delta(0.5) - right.delta(0.5))
    assert right.wrapped(0.5) < 1e-12 * right.delta(0.5) < off < 1e3 * narrow.wrapped(0.5)


def test_an_epsilon_beyond_every_loss_of_a_sampled_step() -> None:
    """``e^epsilon`` was computed before it was known to matter: a math range error."""
    event = sampled(0.976, gaussian(0.0013))
    assert evr.estimate_delta(event, 278536.5, direction="add").value == 0.0


def test_small_epsilons_are_found_too() -> None:
    """The search stopped at an absolute 1e-14."""
    found = evr.estimate_epsilon(dpsgd(1, 1e-9, 1e4), 1e-14)
    assert 0 < found.value < 1e-12
    assert found.error is not None
    assert found.error <= 1e-6 * found.value
    assert evr.estimate_delta(dpsgd(1, 1e-9, 1e4), found.value).value == near(1e-14, rel=1e-6)


def test_the_error_of_epsilon_covers_the_truth() -> None:
    """It was 1e-9 of epsilon, whatever the error of delta was."""
    for mu, delta in ((0.1, 1e-5), (3.0, 1e-50), (30.0, 0.5)):
        found = evr.estimate_epsilon(gaussian(1 / mu), delta)
        assert found.error is not None
        assert gaussian_delta(1 / (1 / mu), found.value + found.error) <= delta * (1 + 1e-12)
        assert gaussian_delta(1 / (1 / mu), found.value - found.error) >= delta * (1 - 1e-12)


def gaussian_with_outcomes(mu: Any, outcomes: list[tuple[Any, Any]], count: int, epsilon: float) -> Any:
    """delta of Gaussian losses of variance ``mu^2`` and ``count`` times two outcomes, given as
    probabilities and losses: a binomial sum of closed forms.
    """
    (p, high), (rest, low) = outcomes
    total = mp.mpf(0)
    for k in range(count + 1):
        d = mp.mpf(epsilon) - k * high - (count - k) * low
        delta = mp.ncdf(mu / 2 - d / mu) - mp.exp(d) * mp.ncdf(-mu / 2 - d / mu)
        total += mp.binomial(count, k) * p**k * rest ** (count - k) * delta
    return total


def within(event: dp_event.DpEvent, epsilon: float, direction: str, truth: float) -> bool:
    found = evr.estimate_delta(event, epsilon, direction=direction)
    assert found.error is not None
    assert found.error <= 2e-6 * truth
    return abs(found.value - truth) <= found.error


def test_a_law_that_is_ragged_next_to_epsilon_says_so() -> None:
    """Once off by 8e-8 of itself, with a stated error of 1.5e-8: the points of one Gaussian step
    leave ripples on the grid.
    """
    loss, noise, epsilon = 1.8749047658229043, 143.02716561253555, 3.755041153959269
    event = composed([repeat(EpsilonDeltaDpEvent(loss, 0.0), 2), gaussian(noise)])
    with mp.workdps(40):
        high = 1 / (1 + mp.exp(-mp.mpf(loss)))
        outcomes = [(high, mp.mpf(loss)), (1 - high, -mp.mpf(loss))]
        truth = float(gaussian_with_outcomes(1 / mp.mpf(noise), outcomes, 2, epsilon))
    assert within(event, epsilon, "remove", truth)


# Contours of benchmarks/attacking; strict bounds are above them by less than 2e-7 of themselves.
BEYOND_THE_CAP = [
    (
        composed(
            [
                sampled(0.08134722354268627, dp_event.LaplaceDpEvent(0.010957118918239344)),
                sampled(0.9999999442451047, dp_event.LaplaceDpEvent(0.3866756416101242)),
            ]
        ),
        2.0458223683414998e-06,
        0.73697226558495,
    ),
    (
        repeat(sampled(9.022055806158919e-07, dp_event.LaplaceDpEvent(0.013880944190127448)), 18),
        0.0,
        1.6239575913524106e-05,
    ),
]


@pytest.mark.parametrize(("event", "epsilon", "truth"), BEYOND_THE_CAP, ids=["3%", "4e-6"])
def test_atoms_beyond_the_cap_are_counted_once(event: dp_event.DpEvent, epsilon: float, truth: float) -> None:
    """Once they were counted with the jumps and with the atoms, too: 3% too much."""
    assert within(event, epsilon, "remove", truth)


def test_moments_of_a_billion_steps_with_rare_jumps() -> None:
    """The moment of a step was rounded relative to 1, not to what jumps add to it: off by 3.4e-7,
    on every grid up to half a million, and stated as 7e-8.
    """
    event = evr.dpsgd(noise_multiplier=0.0418178950251541, sampling_probability=2.9262883634125667e-09, steps=805643870)
    # a contour integral and a sum over the number of jumps, 40 digits each
    assert within(event, 4300.0, "remove", 2.0066346796921386e-09)


def test_jumps_that_both_laws_have_nearly_alike() -> None:
    """What one step has beyond the cap under both laws differs by 3.5e-8 of itself; the logarithms
    of both are -16.6, and their rounding was not in the error.
    """
    one = dp_event.PoissonSampledDpEvent(
        3.515511905302088e-08, EpsilonDeltaDpEvent(1.6895507678092302e-06, 6.13910786082359e-08)
    )
    # a sum over the numbers of each outcome in long doubles
    assert within(repeat(one, 494), 0.0, "add", 1.5925377604587015e-12)


def test_one_sampled_step_next_to_its_greatest_loss() -> None:
    """Epsilon is 3e-14 below a loss of 2.1, which comes from one of 22.7 and is rounded as that."""
    one = together((answers(1.3298993547458137e-07, 1000, 1e-09), 1))
    found = evr.estimate_delta(one, 2.1423418082976657, direction="remove")
    truth = 3.190171416362802e-23  # by 50 digits
    assert abs(found.value - truth) <= found.error <= truth


def test_a_lattice_fits_into_its_grid() -> None:
    """Once its tails wrapped around: sums of a discrete Gaussian, whose probabilities are those of
    one of 1812 times the variance, to 1e-1000.
    """
    sigma, shift, count = 13.973957437618141, 2, 1812
    with mp.workdps(40):
        square = mp.mpf(sigma) ** 2
        width = mp.sqrt(2 * mp.pi * count * square)
        truth = mp.mpf(0)
        for x in range(count * shift // 2 + 1, count * shift + 12_000):  # losses above 0
            loss = mp.mpf(shift * (2 * x - count * shift)) / (2 * square)
            weight = mp.exp(-((x - count * shift) ** 2) / (2 * count * square)) / width
            truth += weight * -mp.expm1(-loss)
    event = repeat(DiscreteGaussianDpEvent(sigma, shift), count)
    assert within(event, 0.0, "remove", float(truth))


def test_sums_on_a_comb_that_no_grid_resolves() -> None:
    """Once off by 5e-7 of itself with a stated error of 4e-7: an integral for a sum over a million
    losses of one size.
    """
    q, loss, count, epsilon = 1e-8, 6.376455347963481e-05, 1_000_000, 3.46e-10
    event = repeat(sampled(q, EpsilonDeltaDpEvent(loss, 9.899084072080799e-47)), count)
    with mp.workdps(40):
        one, share = mp.mpf(loss), mp.mpf(q)
        first = 1 / (1 + mp.exp(-one))
        high, low = (mp.log1p(share * mp.expm1(y)) for y in (one, -one))
        p = (1 - share) * (1 - first) + share * first
        start = math.ceil((mp.mpf(epsilon) - count * low) / (high - low))
        weight = mp.exp(
            mp.loggamma(count + 1)
            - mp.loggamma(start + 1)
            - mp.loggamma(count - start + 1)
            + start * mp.log(p)
            + (count - start) * mp.log(1 - p)
        )
        truth = mp.mpf(0)
        for k in range(start, start + 6000):
            truth += weight * -mp.expm1(epsilon - k * high - (count - k) * low)
            weight *= mp.mpf(count - k) / (k + 1) * p / (1 - p)
    assert within(event, epsilon, "remove", float(truth))


def test_what_only_the_second_law_has_takes_a_jump_back() -> None:
    """Once a thousandth of the truth: a loss of minus infinity beside a jump that exceeds epsilon
    whatever finite losses do. delta is a sum over the numbers of jumps and of greater losses.
    """
    q, loss, mass, count, epsilon = 1e-6, 1e-3, 0.01, 200, 1e-12
    event = repeat(sampled(q, EpsilonDeltaDpEvent(loss, mass)), count)
    with mp.workdps(40):
        share, one, rare = mp.mpf(q), mp.mpf(loss), mp.mpf(mass)
        low, high = (-mp.log1p(share * mp.expm1(y)) for y in (one, -one))
        p_low = (1 - rare) / (1 + mp.exp(one))
        p_high = 1 - rare - p_low
        truth = mp.mpf(0)
        for jumps in range(30):
            rest = count - jumps
            weight = mp.binomial(count, jumps) * rare**jumps * p_low**rest
            for k in range(rest + 1):
                total = k * high + (rest - k) * low - jumps * mp.log1p(-share)
                truth += weight * max(mp.mpf(0), -mp.expm1(epsilon - total))
                weight *= mp.mpf(rest - k) / (k + 1) * p_high / p_low
    found = evr.estimate_delta(event, epsilon, direction="add")
    assert found.error is not None
    assert abs(found.value - float(truth)) <= found.error <= 1e-4 * float(truth)


def test_atoms_that_join_in_a_row() -> None:
    """Each was next to its neighbour, all were put where the first one is, and the stated error counted one step."""
    noise = dp_event.DiscreteLaplaceDpEvent(0.3364710171171455, 60)
    step = dp_event.PoissonSampledDpEvent(8.042398182635706e-07, noise)
    found = evr.estimate_delta(dp_event.SelfComposedDpEvent(step, 2), 1.6084758259295359e-06, direction="add")
    assert found.error is not None
    assert abs(found.value - 4.302148669931194e-12) <= found.error  # by enumeration
