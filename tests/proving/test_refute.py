"""What is refuted is false, and about what the words say; what is not attained is never refuted."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event
from scipy.stats import binom, norm

import evr
from evr._kernel.events import Composition
from evr._kernel.events.attained import ATTAINED, is_attained
from evr._kernel.events.relations import NAMES
from evr.events import (
    BallsInBinsDpEvent,
    DiscreteGaussianDpEvent,
    EpsilonDeltaDpEvent,
    ExponentialMechanismDpEvent,
    PoissonSampledUsersDpEvent,
    RedrawnBinsDpEvent,
    ZeroOutDpEvent,
)
from helpers import near
from kernel.patterns.exact_small import delta_by_quadrature

Gaussian, Laplace, Poisson = dp_event.GaussianDpEvent, dp_event.LaplaceDpEvent, dp_event.PoissonSampledDpEvent
Repeated = dp_event.SelfComposedDpEvent
DPSGD = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=1000)
REPLACED = evr.dpsgd(noise_multiplier=0.8, sampling_probability=0.01, steps=200)


def test_the_sentence_says_what_it_is_about():
    said = evr.refute(DPSGD, epsilon=0.5, delta=1.9e-10).sentence
    for words in (
        "Refuted: delta at epsilon 0.5 is at least 2.05",
        "for some training of this description, on some pair of neighbours",
        "all steps' outputs are taken to be released",
        "the rest is on paper",
    ):
        assert words in said
    assert "your training" not in said


def test_a_bound_of_nothing_has_no_sign():
    assert math.copysign(1, evr.refute(Laplace(4.0), epsilon=1.0, delta=1e-5).lower) == 1


def test_a_claim_is_refuted_in_the_direction_asked_for():
    event = evr.dpsgd(noise_multiplier=2.0, sampling_probability=0.01, steps=1500)
    found = {one: evr.refute(event, epsilon=1.0, delta=5e-8, direction=one) for one in ("remove", "add")}
    assert found["remove"].refuted
    assert not found["add"].refuted


def test_enclosures_hold_the_estimate():
    for event, epsilon, relation in ((DPSGD, 0.5, "add-or-remove"), (REPLACED, 2.0, "replace-one")):
        truth = evr.estimate_delta(event, epsilon, neighboring_relation=relation).value
        found = evr.enclose_delta(event, epsilon, neighboring_relation=relation)
        assert truth * (1 - 5e-4) <= found.lower <= truth * (1 + 1e-8)
        assert found.lower < found.upper <= truth * (1 + 5e-4)
        least = evr.enclose_epsilon(event, truth, neighboring_relation=relation)
        assert least.lower < epsilon < least.upper
        assert least.upper - least.lower < 2e-3 * epsilon


def test_an_enclosure_is_shown_rounded_outwards():
    found = evr.enclose_epsilon(DPSGD, 1e-9)
    low, high = str(found).strip("[]").split(", ")
    assert float(low) <= found.lower < found.upper <= float(high)


def test_no_epsilon_is_enough_where_losses_are_infinite():
    found = evr.enclose_epsilon(EpsilonDeltaDpEvent(1.0, 1e-3), 1e-4)
    assert found.upper == math.inf
    assert found.lower >= 100


# --- attained: the laws of an explicit mechanism ----------------------------------------------------

X = np.linspace(-60, 60, 1_200_001)
STEP = X[1] - X[0]


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def gaussians(weights: dict[float, float], noise: float) -> np.ndarray:
    """Chances of small cells of the line: noise around values with given weights."""
    return sum(w * norm.pdf(X, value, noise) for value, w in weights.items()) * STEP


def laplaces(weights: dict[float, float], noise: float) -> np.ndarray:
    return sum(w * np.exp(-np.abs(X - value) / noise) / (2 * noise) for value, w in weights.items()) * STEP


def integers(weights: dict[float, float], chance: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    places = np.arange(-400, 401)
    return sum(w * chance(places - value) / chance(places).sum() for value, w in weights.items())


def values(relation: str, q: float = 1.0, size: float = 1.0) -> tuple[dict[float, float], dict[float, float]]:
    """What one record adds with which chance, and what the other world adds instead."""
    with_record = {size: q, 0.0: 1 - q}
    return with_record, {-size: q, 0.0: 1 - q} if relation == "replace-one" else {0.0: 1.0}


RELATIONS = ("add-or-remove", "zero-out", "replace-one")
MODELS: list[tuple[Any, Callable[[str], Any]]] = [
    (Gaussian(1.3), lambda r: tuple(gaussians(v, 1.3) for v in values(r))),
    (Poisson(0.3, Gaussian(1.3)), lambda r: tuple(gaussians(v, 1.3) for v in values(r, 0.3))),
    (Laplace(2.0), lambda r: tuple(laplaces(v, 2.0) for v in values(r))),
    (Poisson(0.3, Laplace(2.0)), lambda r: tuple(laplaces(v, 2.0) for v in values(r, 0.3))),
    (
        Poisson(0.3, DiscreteGaussianDpEvent(2.5, 2)),
        lambda r: tuple(integers(v, lambda x: np.exp(-(x**2) / 12.5)) for v in values(r, 0.3, 2)),
    ),
    (
        dp_event.DiscreteLaplaceDpEvent(0.4, 3),
        lambda r: tuple(integers(v, lambda x: np.exp(-0.4 * np.abs(x))) for v in values(r, 1.0, 3)),
    ),
    (
        PoissonSampledUsersDpEvent(1.5, 0.2, 4, 2.5),
        lambda r: tuple(gaussians(_users(sign), 1.5) for sign in (1, -1 if r == "replace-one" else 0)),
    ),
    (
        dp_event.MixtureOfGaussiansDpEvent(1.5, [0.0, 1.0, 2.0], [0.5, 0.25, 0.25]),
        lambda r: tuple(
            gaussians({0.0: 0.5, sign * 1.0: 0.25, sign * 2.0: 0.25} if sign else {0.0: 1.0}, 1.5)
            for sign in (1, -1 if r == "replace-one" else 0)
        ),
    ),
]


def _users(sign: int) -> dict[float, float]:
    """What four records add with which chance, clipped together to 2.5; nothing where the sign is 0."""
    found: dict[float, float] = {}
    for j in range(5):
        place = float(sign * min(j, 2.5))
        found[place] = found.get(place, 0.0) + float(binom.pmf(j, 4, 0.2))
    return found


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("event", "laws"), MODELS)
def test_a_mechanism_has_the_laws_of_the_pair(event, laws, relation):
    assert is_attained(event, Composition.of(event, relation))
    p, q = laws(relation)
    for epsilon in (0.0, 0.2, 0.5):
        for direction, pair in (("remove", (p, q)), ("add", (q, p))):
            stated = evr.estimate_delta(event, epsilon, direction=direction, neighboring_relation=relation).value
            assert hockey_stick(*pair, epsilon) == near(stated, rel=2e-3, abs=1e-9)


def test_randomized_response_has_the_laws_of_the_pair():
    v, k = 0.4, 5
    one, other = np.full(k, v / k), np.full(k, v / k)
    one[0] += 1 - v
    other[1] += 1 - v
    event = dp_event.RandomizedResponseDpEvent(v, k)
    for relation, absent in (("replace-one", other), ("zero-out", np.full(k, 1 / k))):
        assert is_attained(event, Composition.of(event, relation))
        for direction, pair in (("remove", (one, absent)), ("add", (absent, one))):
            stated = evr.estimate_delta(event, 0.5, direction=direction, neighboring_relation=relation).value
            assert hockey_stick(*pair, 0.5) == near(stated, rel=1e-9)


def test_batches_of_a_fixed_size_have_the_laws_of_the_pair():
    """The record adds 1 and all others -1; every batch of 3 of the 5 or 4 records is listed."""
    noise, event = 1.6, dp_event.SampledWithoutReplacementDpEvent(5, 3, Gaussian(1.6))
    assert is_attained(event, Composition.of(event))
    laws = []
    for records in ((1, -1, -1, -1, -1), (-1, -1, -1, -1)):
        sums = [float(sum(batch)) for batch in itertools.combinations(records, 3)]
        laws.append(gaussians({one: sums.count(one) / len(sums) for one in set(sums)}, noise))
    for direction, (p, q) in (("remove", laws), ("add", laws[::-1])):
        for epsilon in (0.0, 0.3, 0.8):
            stated = evr.estimate_delta(event, epsilon, direction=direction).value
            assert hockey_stick(p, q, epsilon) == near(stated, rel=2e-3, abs=1e-9)
    assert evr.refute(Repeated(event, 3), epsilon=0.5, delta=1e-3).refuted


def test_a_constant_record_in_bins_has_the_laws_of_the_pair():
    bins, noise = 3, 1.2
    event = BallsInBinsDpEvent(noise, 2 * bins, bins)
    assert is_attained(event, Composition.of(event))
    gram = np.eye(bins) * 2 / noise**2  # two steps in each bin, and the same contribution in both
    for direction in ("remove", "add"):
        exact = delta_by_quadrature(gram, lambda a: (a.sum(axis=1) / bins, np.full(len(a), 1 / bins)), 0.4, direction)
        assert exact == near(evr.estimate_delta(event, 0.4, direction=direction).value, rel=1e-6)


def test_every_entry_is_tried_here():
    tried = {type(event) for event, _ in MODELS} | {Gaussian, Laplace, DiscreteGaussianDpEvent}
    tried |= {
        dp_event.SampledWithoutReplacementDpEvent,
        dp_event.RandomizedResponseDpEvent,
        EpsilonDeltaDpEvent,
        BallsInBinsDpEvent,
        RedrawnBinsDpEvent,
    }
    assert set(ATTAINED) <= tried | {dp_event.NoOpDpEvent}


NOT_ATTAINED: list[tuple[Any, float, float, str]] = [
    # true for the Gaussian mechanism that is 1/2-zCDP, and above what the pair of zCDP has
    (dp_event.ZCDpEvent(0.5), 4.0, 1e-4, "add-or-remove"),
    # true: the record is sampled with probability 0.1 only
    (Poisson(0.1, Gaussian(0.0)), 1.0, 0.2, "add-or-remove"),
    # true: losses are about 5e5
    (DiscreteGaussianDpEvent(1.0, 1000), 1e6, 0.1, "add-or-remove"),
    (dp_event.DiscreteLaplaceDpEvent(0.0, 1), 1.0, 0.5, "add-or-remove"),
    (ExponentialMechanismDpEvent(1.0), 0.1, 0.1, "add-or-remove"),
    (Repeated(ExponentialMechanismDpEvent(1.0), 5), 1.0, 0.1, "add-or-remove"),
    (Repeated(dp_event.SampledWithoutReplacementDpEvent(1000, 100, Gaussian(1.0)), 10), 1.0, 0.01, "replace-one"),
    (Repeated(dp_event.SampledWithoutReplacementDpEvent(1000, 100, Gaussian(1.0)), 10), 1.0, 0.01, "zero-out"),
    (dp_event.SampledWithoutReplacementDpEvent(100, 10, Laplace(1.0)), 0.1, 1e-3, "replace-one"),
    (Repeated(dp_event.TruncatedSubsampledGaussianDpEvent(100, 0.1, 12, 1.0), 5), 0.5, 1e-3, "add-or-remove"),
    (BallsInBinsDpEvent(1.0, 5, 2), 0.5, 1e-3, "add-or-remove"),
    (PoissonSampledUsersDpEvent(1.0, 1e-9, 10), 5.0, 0.0, "add-or-remove"),
    (dp_event.ComposedDpEvent([Gaussian(1.0), dp_event.ZCDpEvent(0.5)]), 0.5, 1e-3, "add-or-remove"),
    (dp_event.SingleEpochTreeAggregationDpEvent(2.0, 8), 0.5, 1e-3, "zero-out"),
]


@pytest.mark.parametrize(("event", "epsilon", "delta", "relation"), NOT_ATTAINED)
def test_what_is_not_attained_is_not_refuted(event, epsilon, delta, relation):
    found = evr.refute(event, epsilon=epsilon, delta=delta, neighboring_relation=relation)
    assert found.lower > delta
    assert not found.attained
    assert not found.refuted
    assert "for the pair by which evr bounds this mechanism" in found.sentence


def test_a_composition_does_not_say_what_ran():
    composition = Composition.of(Gaussian(1.0))
    assert not evr.refute(composition, epsilon=1.0, delta=1e-9).refuted
    assert evr.refute(Gaussian(1.0), epsilon=1.0, delta=1e-9).refuted


def test_wrappers_keep_what_is_attained():
    inner = Poisson(0.1, dp_event.ComposedDpEvent([Gaussian(1.0), Gaussian(2.0)]))
    twice = Repeated(Poisson(0.5, inner), 3)
    for event, relation in ((twice, "add-or-remove"), (ZeroOutDpEvent(twice), "zero-out"), (inner, "replace-one")):
        assert is_attained(event, Composition.of(event, relation))
    assert set(NAMES) == set(RELATIONS)


def test_a_selection_is_refused_by_name():
    event = dp_event.RepeatAndSelectDpEvent(Poisson(0.1, Gaussian(1.0)), 10.0, 1.0)
    with pytest.raises(evr.errors.UnsupportedEventError, match=r"the best of several runs .* has no lower bound"):
        evr.refute(event, epsilon=1.0, delta=1e-5)
    with pytest.raises(evr.errors.UnsupportedEventError, match=r"the best of several runs .* has no lower bound"):
        evr.enclose_delta(event, 1.0)


def test_certify_says_that_a_false_pair_is_proved_to_be_false():
    with pytest.raises(
        evr.errors.FalseClaimError,
        match=r"this is false, for delta\(0.5\) is at least 2.05.*e-10 for some training of this description",
    ):
        evr.certify(DPSGD, epsilon=0.5, delta=1.9e-10)
    with pytest.raises(evr.errors.FalseClaimError, match=r"this seems to be false, for delta\(4.0\) is about"):
        evr.certify(dp_event.ZCDpEvent(0.5), epsilon=4.0, delta=1e-4)


@pytest.mark.parametrize("epsilon", [9, 10, 15, 20])
def test_the_classical_formula_is_refuted_beyond_its_range(epsilon):
    delta = 1e-5
    sigma = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    assert evr.refute(Gaussian(sigma), epsilon=epsilon, delta=delta).refuted
