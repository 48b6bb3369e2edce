"""Whatever is wrong with a value: a ``ValueError`` or ``TypeError`` with its name, the value and
the rule.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event

import evr
from evr._basics import validate
from evr._described import register
from evr._kernel.events import Composition
from evr._kernel.pairs import DiscretePair
from evr.events import DiscreteGaussianDpEvent, EpsilonDeltaDpEvent

NAN, INF, HUGE = math.nan, math.inf, 10**400
NOT_NUMBERS = ["1", None, True, [1.0], {}, 1j, b"1"]


def build(cls, relation=None, **fields):
    return lambda **changed: Composition.of(cls(**{**fields, **changed}), relation)


GAUSSIAN = build(dp_event.GaussianDpEvent)
LAPLACE = build(dp_event.LaplaceDpEvent)
RESPONSE = build(dp_event.RandomizedResponseDpEvent, "replace-one", noise_parameter=0.5, num_buckets=4)
DISCRETE_LAPLACE = build(dp_event.DiscreteLaplaceDpEvent, noise_parameter=0.5, sensitivity=1)
DISCRETE_GAUSSIAN = build(DiscreteGaussianDpEvent, sigma=1.0, sensitivity=1)
EPSILON_DELTA = build(EpsilonDeltaDpEvent, epsilon=1.0, delta=1e-6)
MIXTURE = build(
    dp_event.MixtureOfGaussiansDpEvent, standard_deviation=1.0, sensitivities=(0.0, 1.0), sampling_probs=(0.5, 0.5)
)
SAMPLED = build(dp_event.PoissonSampledDpEvent, sampling_probability=0.5, event=dp_event.GaussianDpEvent(1.0))
REPEATED = build(dp_event.SelfComposedDpEvent, event=dp_event.GaussianDpEvent(1.0), count=2)


def dpsgd(**changed):
    return evr.dpsgd(**{"noise_multiplier": 1.0, "sampling_probability": 0.1, "steps": 10, **changed})


SCALES = [NAN, INF, -INF, -1.0, HUGE, -1e-300, 1e-300, 1e300]
PROBABILITIES = [NAN, INF, -0.1, 1.5, HUGE, math.nextafter(1, 2), -5e-324]
COUNTS = [NAN, INF, -1, 0, 1.5, -HUGE, HUGE]
PARAMETERS = [
    (GAUSSIAN, "noise_multiplier", SCALES, r"0 or in \[1e-100, 1e100\]|too large"),
    (LAPLACE, "noise_multiplier", SCALES, r"0 or in \[1e-100, 1e100\]|too large"),
    (DISCRETE_GAUSSIAN, "sigma", [*SCALES, 1e5], r"0 or in \[1e-100, 1e100\]|too large|above 20000"),
    (DISCRETE_LAPLACE, "noise_parameter", SCALES, r"0 or in \[1e-100, 1e100\]|too large"),
    (MIXTURE, "standard_deviation", SCALES, r"0 or in \[1e-100, 1e100\]|too large"),
    (RESPONSE, "noise_parameter", PROBABILITIES, r"in \[0, 1\]|too large"),
    (EPSILON_DELTA, "epsilon", [NAN, -INF, -1.0, HUGE], ">= 0|too large"),
    (EPSILON_DELTA, "delta", PROBABILITIES, r"in \[0, 1\]|too large"),
    (SAMPLED, "sampling_probability", PROBABILITIES, r"in \[0, 1\]|too large"),
    (RESPONSE, "num_buckets", COUNTS, "integer >= 1"),
    (DISCRETE_LAPLACE, "sensitivity", [*COUNTS, 10**7], "integer >= 1|above 1000000"),
    (DISCRETE_GAUSSIAN, "sensitivity", COUNTS, "integer >= 1"),
    (REPEATED, "count", COUNTS, "integer >= 1"),
    (dpsgd, "noise_multiplier", [NAN, INF, -1.0, HUGE], ">= 0 and finite|too large"),
    (dpsgd, "sampling_probability", PROBABILITIES, r"in \[0, 1\]|too large"),
    (dpsgd, "steps", COUNTS, "integer >= 1"),
]


def case_name(value):
    return validate.shown(value)[:30] if not callable(value) else getattr(value, "__name__", "build")


@pytest.mark.parametrize(
    ("make", "name", "value", "rule"),
    [(make, name, value, rule) for make, name, values, rule in PARAMETERS for value in values],
    ids=case_name,
)
def test_values_out_of_range(make, name, value, rule):
    with pytest.raises(ValueError, match=rule) as error:
        make(**{name: value})
    assert f"{name}={validate.shown(value)}" in str(error.value)


@pytest.mark.parametrize(
    ("make", "name", "value"),
    [
        (make, name, value)
        for make, name, _, _ in PARAMETERS
        for value in NOT_NUMBERS
        # that is leaving it out
        if not (value is None and make is dpsgd and name != "noise_multiplier")
    ],
    ids=case_name,
)
def test_values_that_are_no_numbers(make, name, value):
    with pytest.raises(TypeError, match=rf"is not a(n integer| number).*a {type(value).__name__}") as error:
        make(**{name: value})
    assert f"{name}={value!r}" in str(error.value)


@pytest.mark.parametrize("make", [make for make, *_ in PARAMETERS], ids=case_name)
@pytest.mark.parametrize("zero", [0, 0.0, np.float64(0)])
def test_zero_noise_is_without_privacy(make, zero):
    if make in (GAUSSIAN, LAPLACE):
        assert make(noise_multiplier=zero).is_non_private
    elif make is MIXTURE:
        assert make(standard_deviation=zero).is_non_private
    elif make is dpsgd:
        assert Composition.of(make(noise_multiplier=zero)).is_non_private


@pytest.mark.parametrize(
    ("fields", "kind", "message"),
    [
        ({"sensitivities": None}, TypeError, "sensitivities=None is not a list"),
        ({"sensitivities": "ab"}, TypeError, "sensitivities='ab' is not a list"),
        ({"sampling_probs": 0.5}, TypeError, "sampling_probs=0.5 is not a list"),
        ({"sensitivities": (0.0, "1")}, TypeError, "sensitivities='1' is not a number"),
        ({"sensitivities": (0.0, -1.0)}, ValueError, "sensitivities=-1.0 is not"),
        ({"sensitivities": (0.0, NAN)}, ValueError, "sensitivities=nan is not"),
        ({"sampling_probs": (0.5, 1.5)}, ValueError, r"sampling_probs=1.5 is not in \[0, 1\]"),
        ({"sampling_probs": (0.5, 0.4)}, ValueError, r"sampling_probs=\[0.5, 0.4\] does not sum to 1"),
        ({"sampling_probs": (1.0,)}, ValueError, "sensitivities has 2 entries and sampling_probs 1"),
        ({"sensitivities": (), "sampling_probs": ()}, ValueError, "at least one"),
        (
            {"standard_deviation": 1e-60, "sensitivities": (0.0, 1e60)},
            ValueError,
            "sensitivity_over_standard_deviation",
        ),
    ],
)
def test_mixtures(fields, kind, message):
    with pytest.raises(kind, match=message):
        MIXTURE(**fields)


@pytest.mark.parametrize(
    ("event", "kind", "message"),
    [
        (None, TypeError, "None at event is not a DpEvent"),
        ("gaussian", TypeError, "'gaussian' at event is not a DpEvent"),
        (dp_event.ComposedDpEvent(None), TypeError, "events=None is not a list"),
        (dp_event.ComposedDpEvent([1]), TypeError, r"1 at event.events\[0\] is not a DpEvent"),
        (dp_event.PoissonSampledDpEvent(0.5, None), TypeError, r"None at event\.event is not a DpEvent"),
        (dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(-1.0), 2), ValueError, r"\(at event\.event\)$"),
        (
            dp_event.ComposedDpEvent([dp_event.PoissonSampledDpEvent(0.5, dp_event.LaplaceDpEvent(-1.0))]),
            ValueError,
            r"noise_multiplier=-1.0 .*\(at event\.events\[0\]\.event\)$",
        ),
    ],
)
def test_trees_with_a_wrong_part_say_where(event, kind, message):
    with pytest.raises(kind, match=message):
        Composition.of(event)


@pytest.mark.parametrize(
    ("history", "kind", "message"),
    [
        (None, TypeError, "history=None is not a list"),
        (3, TypeError, "history=3 is not a list"),
        ("abc", TypeError, "history='abc' is not a list"),
        ([(1.0, 0.1)], ValueError, r"history\[0\]=\(1.0, 0.1\) is not a triple"),
        ([None], ValueError, r"history\[0\]=None is not a triple"),
        ([(1.0, 0.1, 5), (NAN, 0.1, 5)], ValueError, r"history\[1\]: noise_multiplier=nan is not"),
        ([(1.0, 2.0, 5)], ValueError, r"history\[0\]: sampling_probability=2.0 is not in \[0, 1\]"),
        ([(1.0, 0.1, 0)], ValueError, r"history\[0\]: steps=0 is not an integer >= 1"),
        ([(1.0, 0.1, "5")], TypeError, r"history\[0\]: steps='5' is not an integer >= 1"),
        ([(True, 0.1, 5)], TypeError, r"history\[0\]: noise_multiplier=True is not a number"),
    ],
)
def test_opacus_history(history, kind, message):
    with pytest.raises(kind, match=message):
        evr.events.opacus_history(history)


def test_opacus_history_of_nothing_costs_nothing():
    assert Composition.of(evr.events.opacus_history([])) == Composition((), ())


@pytest.mark.parametrize("steps", [7, 7.0, np.int64(7), np.float64(7)])
def test_whole_numbers_of_any_kind_are_integers(steps):
    options: Any = {"noise_multiplier": np.float32(1), "sampling_probability": 1}
    count = evr.dpsgd(**options, steps=steps).count
    assert (count, type(count)) == (7, int)


@pytest.mark.parametrize(
    ("p", "q", "message"),
    [
        ([0.5, 0.5], [1.0], "shapes"),
        ([], [], "shapes"),
        ([[1.0]], [[1.0]], "shapes"),
        ([0.5, 0.6], [0.5, 0.5], r"p=\[0.5, 0.6\] does not sum to 1, but to 1.1"),
        ([0.5, 0.5], [1.5, -0.5], r"q=1.5 is not in \[0, 1\]"),
        ([NAN, 1.0], [0.5, 0.5], r"p=nan is not in \[0, 1\]"),
    ],
)
def test_discrete_laws(p, q, message):
    with pytest.raises(ValueError, match=message):
        DiscretePair.from_probabilities(p, q)


@pytest.mark.parametrize("event_type", [int, None, dp_event.NoOpDpEvent()])
def test_only_events_are_registered(event_type):
    with pytest.raises(TypeError, match=r"event_type=.* is not a subclass of DpEvent"):
        register(event_type, lambda event: None)


def test_one_of():
    assert validate.one_of(("a", "b"), method="a") == "a"
    with pytest.raises(ValueError, match="method='c' is not one of 'a', 'b'"):
        validate.one_of(("a", "b"), method="c")
    with pytest.raises(ValueError, match=re.escape(f"method={np.array([1, 2])!r}")):
        validate.one_of(("a", "b"), method=np.array([1, 2]))


def test_what_floats_would_take_for_zero():
    """A record that is sampled with some chance is not one that is never sampled."""
    tiny: Any = Fraction(1, 10**400)
    with pytest.raises(ValueError, match=r"sampling_probability=.* is too small for a float"):
        evr.dpsgd(noise_multiplier=1, sampling_probability=tiny, steps=1)
    assert math.copysign(1.0, validate.non_negative(epsilon=-0.0)) == 1.0


@pytest.mark.parametrize(
    ("epsilons", "kind", "message"),
    [
        (["0.5"], TypeError, "epsilon='0.5' is not a number"),
        ([True], TypeError, "epsilon=True is not a number"),
        (b"1", TypeError, "epsilons=b'1' is not a list"),
        (1.0, TypeError, r"epsilons=1.0 is not a list \(it is a float\)"),
        ([10**400], ValueError, "too large for a float"),
        ([-1.0], ValueError, r"epsilon=-1.0 is not in \[0, 1e100\]"),
    ],
)
def test_epsilons_of_a_curve(epsilons, kind, message):
    """Bytes were once taken for numbers, text and truth values for what they look like."""
    with pytest.raises(kind, match=message):
        evr.privacy_curve(dp_event.GaussianDpEvent(1.0), epsilons)


@pytest.mark.parametrize("neither", [3, True, None, 1j])
def test_what_is_to_be_called_or_read(neither: Any):
    with pytest.raises(TypeError, match=r"make_event=.* is not a function"):
        evr.calibrate(neither, epsilon=1.0, delta=1e-5)
    with pytest.raises(TypeError, match=r"path=.* is not the name of a file"):
        evr.load(neither)
    if neither not in (None, True):
        with pytest.raises(TypeError, match=r"progress=.* is not a function"):
            evr.privacy_curve(dp_event.GaussianDpEvent(1.0), [1.0], progress=neither)


@pytest.mark.parametrize("delta", [5e-324, 1e-320, 2.2e-308])
def test_deltas_that_floats_hold_without_their_digits(delta: float):
    event = dp_event.GaussianDpEvent(1.0)
    sampled = dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.01, event), 100)
    for one in (event, sampled):
        for method in ("fft", "strict"):
            with pytest.raises(ValueError, match=r"is below 2\.23e-308"):
                evr.estimate_epsilon(one, delta, method=method)
        with pytest.raises(ValueError, match=r"is below 2\.23e-308"):
            evr.online_epsilon(one, delta=delta)
    with pytest.raises(ValueError, match=r"is below 2\.23e-308"):
        evr.calibrate(dp_event.GaussianDpEvent, epsilon=1.0, delta=delta)
    bound = evr.estimate_epsilon(event, delta, method="rdp").value
    assert evr.estimate_epsilon(event, 2.3e-308).value < bound < 40.0


def test_long_values_are_shown_short():
    assert len(validate.shown("x" * 10**6)) == 500
    assert validate.shown(10**5000) == f"<an integer of {(10**5000).bit_length()} bits>"


@pytest.mark.parametrize("number", [Fraction(1, 10), Fraction(269, 500), np.longdouble("0.1"), 2**53 + 1])
def test_a_number_that_is_no_float_is_not_rounded(number):
    """S1 reads the floats that an event holds: a proof about the nearest float says nothing of the number."""
    if number == float(number):
        pytest.skip("a long double is a float here")
    chance = number if number < 1 else 1 / Fraction(number)
    for build_, name, value in (
        (GAUSSIAN, "noise_multiplier", number),
        (LAPLACE, "noise_multiplier", number),
        (RESPONSE, "noise_parameter", chance),
        (SAMPLED, "sampling_probability", chance),
        (EPSILON_DELTA, "epsilon", number),
        (MIXTURE, "standard_deviation", number),
    ):
        with pytest.raises(ValueError, match=f"{name}=.* is not a float: give "):
            build_(**{name: value})
    for name, ask in (
        ("epsilon", lambda: evr.verify(dp_event.GaussianDpEvent(1.0), epsilon=number, delta=0.5)),
        ("delta", lambda: evr.estimate_epsilon(dp_event.GaussianDpEvent(1.0), chance)),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValueError, match=f"{name}=.* is not a float: give "):
            ask()


@pytest.mark.parametrize("number", [Fraction(1, 4), np.float32(0.1), np.float16(0.1), 3, np.int64(3), 2**60])
def test_a_number_that_is_a_float_is_taken(number):
    assert Composition.of(dp_event.GaussianDpEvent(number)) == Composition.of(dp_event.GaussianDpEvent(float(number)))


@pytest.mark.parametrize("lack", [9e-10, -9e-10, 1e-14])
def test_weights_of_a_mixture_that_do_not_sum_to_1(lack):
    with pytest.raises(ValueError, match=r"sampling_probs=.* does not sum to 1, but to .*: divide by that sum"):
        MIXTURE(sampling_probs=(0.5, 0.5 - lack))
