"""The least noise and the most steps: they meet the target, nothing less does, and dp_accounting
agrees.
"""

import dp_accounting
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant

import evr
from helpers import near


def with_noise(q, steps):
    return lambda noise: evr.dpsgd(noise_multiplier=noise, sampling_probability=q, steps=steps)


@pytest.mark.parametrize(
    ("q", "steps", "epsilon", "delta"),
    [
        (0.01, 1000, 1.0, 1e-6),
        (1e-3, 10_000, 0.5, 1e-9),
        (1.0, 100, 2.0, 1e-5),
        (0.1, 50, 8.0, 1e-12),
    ],
)
def test_least_noise(q, steps, epsilon, delta):
    found = evr.calibrate(with_noise(q, steps), epsilon=epsilon, delta=delta)
    assert found.delta <= delta
    assert found.delta == near(delta, rel=1e-5)
    assert evr.estimate_delta(with_noise(q, steps)(found.parameter), epsilon).value == near(
        found.delta, rel=1e-7
    )
    assert (
        evr.estimate_delta(with_noise(q, steps)(found.parameter * (1 - 1e-6)), epsilon).value
        > delta
    )


@pytest.mark.parametrize(
    ("q", "steps", "epsilon", "delta"), [(0.01, 1000, 1.0, 1e-6), (0.2, 100, 3.0, 1e-5)]
)
def test_dp_accounting_agrees(q, steps, epsilon, delta):
    theirs = dp_accounting.calibrate_dp_mechanism(
        lambda: PLDAccountant(value_discretization_interval=1e-4),
        with_noise(q, steps),
        epsilon,
        delta,
        tol=1e-6,
    )
    ours = evr.calibrate(with_noise(q, steps), epsilon=epsilon, delta=delta)
    assert ours.parameter == near(theirs, rel=3e-5)  # their grid rounds epsilon up


def test_most_steps():
    def with_steps(steps):
        return evr.dpsgd(noise_multiplier=1.1, sampling_probability=0.02, steps=steps)

    found = evr.calibrate(with_steps, epsilon=2.0, delta=1e-6, integer=True)
    assert isinstance(found.parameter, int)
    assert evr.estimate_delta(with_steps(found.parameter), 2.0).value <= 1e-6
    assert evr.estimate_delta(with_steps(found.parameter + 1), 2.0).value > 1e-6


def test_ends_may_be_given():
    free = evr.calibrate(with_noise(0.01, 100), epsilon=1.0, delta=1e-6)
    held = evr.calibrate(with_noise(0.01, 100), epsilon=1.0, delta=1e-6, low=0.5, high=5.0)
    assert held.parameter == near(free.parameter, rel=1e-7)


def test_a_sampling_probability_can_be_found_too():
    found = evr.calibrate(
        lambda q: evr.dpsgd(noise_multiplier=1.0, sampling_probability=q, steps=100),
        epsilon=1.0,
        delta=1e-6,
        low=1e-4,
        high=1.0,
    )
    assert found.delta <= 1e-6
    assert found.delta == near(1e-6, rel=1e-5)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"low": 5.0, "high": 1.0}, "low=5.0 is not below high=1.0"),
        ({"low": 5.0, "high": 10.0}, "both meet the target"),
        ({"low": 0.1, "high": 0.2}, "neither meets the target"),
        ({"delta": 0.0}, "delta=0.0 is not in"),
        ({"epsilon": -1.0}, "epsilon=-1.0 is not >= 0"),
        ({"tolerance": 0.0}, "tolerance=0.0 is not positive"),
    ],
)
def test_bad_values(arguments, words):
    with pytest.raises(ValueError, match=words):
        evr.calibrate(with_noise(0.01, 100), **{"epsilon": 1.0, "delta": 1e-6, **arguments})


def test_even_one_step_is_too_many():
    with pytest.raises(ValueError, match=r"the parameter 1 misses .* greater ones miss"):
        evr.calibrate(
            lambda steps: evr.dpsgd(noise_multiplier=0.2, sampling_probability=0.5, steps=steps),
            epsilon=0.1,
            delta=1e-6,
            integer=True,
        )


def test_a_target_that_does_not_depend_on_the_parameter():
    with pytest.raises(ValueError, match="meets"):
        evr.calibrate(with_noise(0.0, 10), epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize("gaussian", [lambda s: 1.0 / s, lambda s: s])
def test_delta_is_not_above_the_target_by_a_last_digit(gaussian):
    """Logarithms of both may be the same float."""
    found = evr.calibrate(
        lambda s: dp_event.GaussianDpEvent(gaussian(s)), epsilon=1.0, delta=1e-6, low=1e-9, high=1e9
    )
    assert found.delta <= 1e-6
    assert found.delta == near(1e-6, rel=1e-6)


def test_far_ends():
    """On the scale of logarithms far ends cost next to nothing."""
    found = evr.calibrate(
        dp_event.GaussianDpEvent, epsilon=1.0, delta=1e-6, low=1e-90, high=1e90
    ).parameter
    assert found == near(4.224678889, rel=1e-8)


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ({"low": 4.0}, "the parameter 4 meets the target already, and greater ones meet it by mor"),
        ({"high": 1.0}, "the parameter 1 misses the target already, and smaller ones miss it by m"),
    ],
)
def test_what_leads_away_from_the_target_is_not_followed(ends, words):
    """Noise multipliers down to 1e-6 and up to 1e9 were tried, for minutes."""
    seen = []

    def make(noise):
        seen.append(noise)
        return with_noise(0.01, 1000)(noise)

    with pytest.raises(ValueError, match=words):
        evr.calibrate(make, epsilon=1.0, delta=1e-6, **ends)
    assert len(seen) == 2


def test_a_parameter_that_makes_no_sense_is_told_with_the_way_on():
    for make, words in (
        (with_probability, "sampling_probability=2.0 is not in .* low and high"),
        (with_steps, "steps=0.5 is not an integer .* integer=True"),
    ):
        with pytest.raises(ValueError, match=words):
            evr.calibrate(make, epsilon=1.0, delta=1e-6)


def with_probability(q):
    return evr.dpsgd(noise_multiplier=1.0, sampling_probability=q, steps=100)


def with_steps(steps):
    return evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=steps)
