"""The least noise and the most steps: ``certify`` accepts them, nothing less will do, and
dp_accounting agrees.
"""

import math

import dp_accounting
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant

import evr


def with_noise(q, steps):
    return lambda noise: evr.dpsgd(noise_multiplier=noise, sampling_probability=q, steps=steps)


def needed(event, epsilon):
    """The least delta that ``certify`` takes beside epsilon."""
    found = evr.estimate_delta(event, epsilon)
    return (found.value + found.doubt) / 0.9999


@pytest.mark.parametrize(
    ("q", "steps", "epsilon", "delta"),
    [(0.01, 1000, 1.0, 1e-6), (1e-3, 10_000, 0.5, 1e-9), (1.0, 100, 2.0, 1e-5), (0.1, 50, 8.0, 1e-12)],
)
def test_least_noise(q, steps, epsilon, delta):
    found = evr.calibrate(with_noise(q, steps), epsilon=epsilon, delta=delta)
    unit = 10.0 ** (math.floor(math.log10(found.value)) - 3)
    assert found.value == float(f"{found.value:.4g}")
    assert needed(with_noise(q, steps)(found.value), epsilon) <= delta
    assert needed(with_noise(q, steps)(found.value - unit), epsilon) > delta
    assert found.delta == evr.estimate_delta(with_noise(q, steps)(found.value), epsilon).value


@pytest.mark.parametrize(
    ("make", "epsilon", "delta"),
    [
        (with_noise(0.01, 100), 1.0, 1e-6),
        (with_noise(1024 / 50_000, 147), 3.0, 1e-5),
        (with_noise(1e-3, 500), 0.3, 1e-9),
        (with_noise(1.0, 20), 8.0, 1e-7),
        (dp_event.GaussianDpEvent, 1.0, 1e-6),
        (lambda s: dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(s), 5), 2.0, 1e-4),
    ],
)
def test_certify_accepts_what_is_found(tmp_path, make, epsilon, delta):
    """1.321535 was found, and refused as true by too little to be verified."""
    event = make(evr.calibrate(make, epsilon=epsilon, delta=delta).value)
    ledger = tmp_path / "ledger.sqlite"
    assert evr.certify(event, epsilon=epsilon, delta=delta, ledger=ledger).accepted


def test_certify_accepts_the_steps_that_are_found(tmp_path):
    def make(steps):
        return evr.dpsgd(noise_multiplier=1.1, sampling_probability=0.02, steps=steps)

    event = make(evr.calibrate(make, epsilon=1.0, delta=1e-6, integer=True).value)
    ledger = tmp_path / "ledger.sqlite"
    assert evr.certify(event, epsilon=1.0, delta=1e-6, ledger=ledger).accepted


def test_digits_that_leave_too_little_are_raised():
    """The root is below 4.225 by so little that ``certify`` would refuse 4.225."""
    delta = evr.estimate_delta(dp_event.GaussianDpEvent(4.225), 1.0).value * (1 + 5e-5)
    found = evr.calibrate(dp_event.GaussianDpEvent, epsilon=1.0, delta=delta)
    assert found.value == 4.226


@pytest.mark.parametrize(
    ("q", "steps", "epsilon", "delta"),
    [(0.01, 1000, 1.0, 1e-6), pytest.param(0.2, 100, 3.0, 1e-5, marks=pytest.mark.full)],
)
def test_dp_accounting_agrees(q, steps, epsilon, delta):
    theirs = dp_accounting.calibrate_dp_mechanism(
        lambda: PLDAccountant(value_discretization_interval=1e-4), with_noise(q, steps), epsilon, delta, tol=1e-6
    )
    ours = evr.calibrate(with_noise(q, steps), epsilon=epsilon, delta=delta)
    # their grid rounds epsilon up; ours has four digits
    assert theirs * (1 - 3e-5) <= ours.value <= theirs + 1.1e-3


def test_most_steps():
    def with_steps(steps):
        return evr.dpsgd(noise_multiplier=1.1, sampling_probability=0.02, steps=steps)

    found = evr.calibrate(with_steps, epsilon=2.0, delta=1e-6, integer=True)
    assert isinstance(found.value, int)
    assert needed(with_steps(found.value), 2.0) <= 1e-6
    assert needed(with_steps(found.value + 1), 2.0) > 1e-6


def test_ends_may_be_given():
    free = evr.calibrate(with_noise(0.01, 100), epsilon=1.0, delta=1e-6)
    held = evr.calibrate(with_noise(0.01, 100), epsilon=1.0, delta=1e-6, low=0.5, high=5.0)
    assert held.value == free.value
    end = free.value - 1e-5  # meets the target, and has more than four digits
    cut = evr.calibrate(with_noise(0.01, 100), epsilon=1.0, delta=1e-6, low=0.5, high=end)
    assert cut.value == end


def test_a_sampling_probability_can_be_found_too():
    found = evr.calibrate(
        lambda q: evr.dpsgd(noise_multiplier=1.0, sampling_probability=q, steps=100),
        epsilon=1.0,
        delta=1e-6,
        low=1e-4,
        high=1.0,
    )
    assert found.value == float(f"{found.value:.4g}")
    assert needed(with_probability(found.value), 1.0) <= 1e-6
    assert needed(with_probability(found.value * 1.001), 1.0) > 1e-6


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"low": 5.0, "high": 1.0}, "low=5.0 is not below high=1.0"),
        ({"low": 5.0, "high": 10.0}, "both meet the target"),
        ({"low": 0.1, "high": 0.2}, "neither meets the target"),
        ({"delta": 0.0}, "delta=0.0 is not in"),
        ({"epsilon": -1.0}, "epsilon=-1.0 is not >= 0"),
    ],
)
def test_bad_values(arguments, words):
    with pytest.raises(ValueError, match=words):
        evr.calibrate(with_noise(0.01, 100), **{"epsilon": 1.0, "delta": 1e-6, **arguments})


def test_even_one_step_is_too_many():
    with pytest.raises(ValueError, match="even 1 misses the target: relax the target"):
        evr.calibrate(
            lambda steps: evr.dpsgd(noise_multiplier=0.2, sampling_probability=0.5, steps=steps),
            epsilon=0.1,
            delta=1e-6,
            integer=True,
        )


def test_a_target_that_does_not_depend_on_the_parameter():
    with pytest.raises(ValueError, match="meets"):
        evr.calibrate(with_noise(0.0, 10), epsilon=1.0, delta=1e-6)


def test_an_epsilon_whose_power_is_no_float():
    """Only risks ask for the power."""
    found = evr.calibrate(dp_event.GaussianDpEvent, epsilon=800.0, delta=1e-5)
    assert 0.027 < found.value < 0.028


def test_far_ends():
    """On the scale of logarithms far ends cost next to nothing."""
    found = evr.calibrate(dp_event.GaussianDpEvent, epsilon=1.0, delta=1e-6, low=1e-90, high=1e90).value
    assert found == 4.225


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ({"low": 4.0}, "from 4 to 8 meets the target, and those beyond lead away"),
        ({"high": 1.0}, "from 0.5 to 1 misses the target, and those beyond lead away"),
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
