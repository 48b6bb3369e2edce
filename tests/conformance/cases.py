"""The cases of the conformance suite: for each registered event type, events to try and how to
write its two laws.

A new mechanism needs an entry in ``REFERENCES`` and some in ``EVENTS``; ``test_pairs.py`` fails
until it has both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from dp_accounting import dp_event
from mpmath import mp, mpf

from conformance.reference import Either, Laplace, Normal, OnOutcomes, OnTheLine, WithoutReplacement, reflected
from evr import events
from evr._kernel.events import Composition

Reference = OnTheLine | OnOutcomes

_DEVIATIONS = ("-30.1", "-11.31", "-8.23", "-5.07", "-2.03", "-0.31", "0.73", "2.19", "5.17", "8.41", "11.37", "30.7")


def _gaussian_places(means: list[Any], deviation: Any) -> list[Any]:
    return sorted({m + deviation * mpf(k) for m in (min(means), max(means)) for k in _DEVIATIONS})


def _gaussian(event: dp_event.GaussianDpEvent, direction: str) -> Reference:
    sigma = mpf(event.noise_multiplier)
    with_record, without = [(mpf(1), Normal(mpf(1), sigma))], [(mpf(1), Normal(mpf(0), sigma))]
    if direction == "remove":
        return OnTheLine(with_record, without, _gaussian_places([0, 1], sigma), (), lambda x: x / sigma)
    places = _gaussian_places([-1, 0], sigma)
    return OnTheLine(reflected(without), reflected(with_record), places, (), lambda x: (x + 1) / sigma)


def _laplace(event: dp_event.LaplaceDpEvent, direction: str) -> Reference:
    scale = mpf(event.noise_multiplier)
    with_record, without = [(mpf(1), Laplace(mpf(1), scale))], [(mpf(1), Laplace(mpf(0), scale))]
    inside = [mpf(k) for k in ("0.0001", "0.03", "0.2", "0.47", "0.6", "0.9", "0.9999")]
    tails = [mpf(k) * scale for k in ("3", "60", "300")]
    places = sorted([-x for x in tails] + inside + [1 + x for x in tails])
    if direction == "remove":
        return OnTheLine(with_record, without, places, (mpf(0), mpf(1)), lambda x: x)
    places = [x - 1 for x in places]
    return OnTheLine(reflected(without), reflected(with_record), places, (mpf(-1), mpf(0)), lambda x: x + 1)


def _mixture(event: dp_event.MixtureOfGaussiansDpEvent, direction: str) -> Reference:
    sigma, total = mpf(event.standard_deviation), sum(mpf(p) for p in event.sampling_probs)
    with_record = [
        (mpf(p) / total, Normal(mpf(c), sigma))
        for p, c in zip(event.sampling_probs, event.sensitivities, strict=True)
        if p > 0
    ]
    without = [(mpf(1), Normal(mpf(0), sigma))]
    greatest = mpf(max(event.sensitivities))
    if direction == "remove":
        return OnTheLine(with_record, without, _gaussian_places([0, greatest], sigma), (), lambda x: x / sigma)
    places = _gaussian_places([-greatest, 0], sigma)
    return OnTheLine(reflected(without), reflected(with_record), places, (), lambda x: x / sigma)


def _two_sided(means: list[Any], weights: list[Any], sigma: Any) -> Reference:
    """Mixtures shifted to both sides: what replace-one makes of mixtures."""
    p = [(w, Normal(m, sigma)) for w, m in zip(weights, means, strict=True)]
    q = [(w, Normal(-m, sigma)) for w, m in zip(weights, means, strict=True)]
    places = _gaussian_places([-max(means), max(means)], sigma)
    return OnTheLine(p, q, places, (), lambda x: x / sigma)


def _mixture_replaced(event: dp_event.MixtureOfGaussiansDpEvent, direction: str) -> Reference:
    total = sum(mpf(p) for p in event.sampling_probs)
    weights = [mpf(p) / total for p in event.sampling_probs]
    means = [mpf(c) for c in event.sensitivities]
    return _two_sided(means, weights, mpf(event.standard_deviation))


def _binomial(event: events.PoissonSampledUsersDpEvent) -> list[Any]:
    q, most = mpf(event.sampling_probability), event.records_per_user
    return [mp.binomial(most, j) * q**j * (1 - q) ** (most - j) for j in range(most + 1)]


def _users(event: events.PoissonSampledUsersDpEvent, direction: str) -> Reference:
    sigma, most = mpf(event.noise_multiplier), event.records_per_user
    with_user = [(w, Normal(mpf(j), sigma)) for j, w in enumerate(_binomial(event))]
    without = [(mpf(1), Normal(mpf(0), sigma))]
    if direction == "remove":
        places = _gaussian_places([0, most], sigma)
        return OnTheLine(with_user, without, places, (), lambda x: x / sigma)
    places = _gaussian_places([-most, 0], sigma)
    return OnTheLine(reflected(without), reflected(with_user), places, (), lambda x: x / sigma)


def _fixed_batches(event: events.FixedBatchUsersDpEvent, direction: str) -> Reference:
    """Labelled Gaussians by their losses, seen through sampling without replacement: Section R7.3 of
    docs/guarantees_relations.md.
    """
    n, batch, most = event.source_dataset_size, event.sample_size, event.records_per_user
    ways = [mp.binomial(most, j) * mp.binomial(n - most, batch - j) / mp.binomial(n, batch) for j in range(most + 1)]
    share = 1 - ways[0]
    kept = [(w / share, 2 * mpf(j) / mpf(event.noise_multiplier)) for j, w in enumerate(ways) if j]
    p, q = ([(w, Normal(sign * m * m / 2, m)) for w, m in kept] for sign in (1, -1))
    deviation = max(m for _, m in kept)
    places = [mpf(k) * deviation / 4 for k in _DEVIATIONS]
    first = kept[0][1]  # whose coordinate is that of the pair
    return WithoutReplacement.of(OnTheLine(p, q, places, (), lambda x: x / first + first / 2), share)


def _laplace_replaced(q: Any, scale: Any) -> Reference:
    up = [(1 - q, Laplace(mpf(0), scale)), (q, Laplace(mpf(1), scale))]
    inside = [mpf(k) for k in ("0.0001", "0.03", "0.2", "0.47", "0.6", "0.9", "0.9999")]
    beyond = [1 + mpf(k) * scale for k in ("3", "60", "300")]
    places = sorted([*(-x for x in (*inside, *beyond)), *inside, *beyond])
    return OnTheLine(up, reflected(up), places, (mpf(-1), mpf(0), mpf(1)), lambda x: x)


def _outcomes_replaced(q: Any, law: Callable[[int], Any], reach: int, shift: int, edge: int | None) -> Reference:
    """``law`` gives the chances of noise; beyond ``edge`` on either side outcomes have one loss."""
    p = {x: (1 - q) * law(x) + q * law(x - shift) for x in range(-reach, reach + 1)}
    if edge is None:
        return OnOutcomes([p[x] for x in p], [p[-x] for x in p])
    ends = [sum(p[x] for x in p if sign * x >= edge) for sign in (-1, 1)]
    inside = [p[x] for x in range(1 - edge, edge)]
    return OnOutcomes([ends[0], *inside, ends[1]], [ends[1], *inside[::-1], ends[0]])


def _sampled_replaced(q: Any, event: Any) -> Reference:
    """Poisson sampling of noise under replace-one, from its definition (R6)."""
    if isinstance(event, dp_event.LaplaceDpEvent):
        return _laplace_replaced(q, mpf(event.noise_multiplier))
    if isinstance(event, dp_event.DiscreteLaplaceDpEvent):
        a = mpf(event.noise_parameter)
        reach = int(140 / event.noise_parameter) + 2 * event.sensitivity  # beyond is 1e-60
        return _outcomes_replaced(
            q, lambda x: mp.tanh(a / 2) * mp.exp(-a * abs(x)), reach, event.sensitivity, event.sensitivity
        )
    sigma = mpf(event.sigma)
    reach = int(mp.ceil(16 * sigma)) + 6 + 22 * event.sensitivity
    whole = sum(mp.exp(-mpf(x * x) / (2 * sigma**2)) for x in range(-reach, reach + 1))
    return _outcomes_replaced(q, lambda x: mp.exp(-mpf(x * x) / (2 * sigma**2)) / whole, reach, event.sensitivity, None)


def _users_replaced(event: events.PoissonSampledUsersDpEvent, direction: str) -> Reference:
    means = [mpf(j) for j in range(event.records_per_user + 1)]
    return _two_sided(means, _binomial(event), mpf(event.noise_multiplier))


def _randomized_response(event: dp_event.RandomizedResponseDpEvent, direction: str) -> Reference:
    noise, buckets = mpf(event.noise_parameter), event.num_buckets
    other = noise / buckets
    truth = 1 - noise + other
    if buckets == 2:
        return OnOutcomes([other, truth], [truth, other])
    return OnOutcomes([other, other * (buckets - 2), truth], [truth, other * (buckets - 2), other])


def _discrete_laplace(event: dp_event.DiscreteLaplaceDpEvent, direction: str) -> Reference:
    a, shift = mpf(event.noise_parameter), event.sensitivity
    atom, ratio = mp.tanh(a / 2), mp.exp(-a)
    law = [atom]
    for _ in range(shift):
        law.append(law[-1] * ratio)  # law[x] = P[noise = x]
    # All x <= 0 have the same loss, all x >= shift too: their probabilities are geometric series.
    q = [atom / (1 - ratio), *law[1:shift], law[shift] / (1 - ratio)]
    return OnOutcomes(q[::-1], q)


def _discrete_gaussian(event: events.DiscreteGaussianDpEvent, direction: str) -> Reference:
    sigma, shift = mpf(event.sigma), int(event.sensitivity)
    # the noise beyond is below 1e-55, also tilted by an order of 20
    reach = int(mp.ceil(16 * sigma)) + 6 + 22 * shift
    law, factor, ratio = [mpf(1)], mp.exp(-1 / (2 * sigma**2)), mp.exp(-1 / sigma**2)
    for _ in range(reach):
        law.append(law[-1] * factor)
        factor *= ratio
    total = 2 * sum(law[1:]) + 1
    law = [x / total for x in law]
    support = range(shift - reach, reach + 1)
    return OnOutcomes([law[abs(x - shift)] for x in support], [law[abs(x)] for x in support])


def _epsilon_delta(event: events.EpsilonDeltaDpEvent, direction: str) -> Reference:
    epsilon, fails = mpf(event.epsilon), mpf(event.delta)
    likely = (1 - fails) / (1 + mp.exp(-epsilon))
    p, q = [likely * mp.exp(-epsilon), likely], [likely, likely * mp.exp(-epsilon)]
    if epsilon == 0:
        p, q = [1 - fails], [1 - fails]
    if fails > 0:
        p, q = [mpf(0), *p, fails], [fails, *q, mpf(0)]
    return OnOutcomes(p, q)


def _tree(event: dp_event.SingleEpochTreeAggregationDpEvent, direction: str) -> Reference:
    assert event.step_counts == 1  # one node: a Gaussian mechanism
    return _gaussian(dp_event.GaussianDpEvent(event.noise_multiplier), direction)


def _truncated(event: dp_event.TruncatedSubsampledGaussianDpEvent, direction: str) -> Reference:
    """Sums of binomial probabilities; Section R3 of docs/guarantees_relations.md."""
    n, most, q = event.dataset_size, event.truncated_batch_size, mpf(event.sampling_probability)

    def chance(size: int, count: int) -> Any:
        return mp.binomial(size, count) * q**count * (1 - q) ** (size - count)

    cut = sum(chance(n - 1, k) for k in range(most, n))
    share = sum(chance(n - 1, k) * q * most / (k + 1) for k in range(most, n)) / cut
    whole = _gaussian(dp_event.GaussianDpEvent(event.noise_multiplier), direction)
    doubled = _gaussian(dp_event.GaussianDpEvent(event.noise_multiplier / 2), direction)
    assert isinstance(whole, OnTheLine)
    first, other = whole.sampled(q, direction), doubled.sampled(share, direction)
    places = first.places[2:-2]  # within reach of the losses of the other
    return Either(first.p, first.q, places, (), first.to_t, other=other, weight=cut)


def _against_uniform(event: dp_event.RandomizedResponseDpEvent, direction: str) -> Reference:
    """An answer against the uniform output."""
    noise, buckets = mpf(event.noise_parameter), event.num_buckets
    truth = 1 - noise + noise / buckets
    answer, uniform = [1 - truth, truth], [1 - mpf(1) / buckets, mpf(1) / buckets]
    if direction == "remove":
        return OnOutcomes(answer, uniform)
    return OnOutcomes(uniform[::-1], answer[::-1])


REFERENCES: dict[type, Callable[[Any, str], Reference]] = {
    dp_event.GaussianDpEvent: _gaussian,
    dp_event.LaplaceDpEvent: _laplace,
    dp_event.MixtureOfGaussiansDpEvent: _mixture,
    dp_event.RandomizedResponseDpEvent: _randomized_response,
    dp_event.DiscreteLaplaceDpEvent: _discrete_laplace,
    events.DiscreteGaussianDpEvent: _discrete_gaussian,
    events.EpsilonDeltaDpEvent: _epsilon_delta,
    dp_event.SingleEpochTreeAggregationDpEvent: _tree,
    dp_event.TruncatedSubsampledGaussianDpEvent: _truncated,
    events.PoissonSampledUsersDpEvent: _users,
    events.FixedBatchUsersDpEvent: _fixed_batches,
}

UNDER: dict[tuple[type, str], Callable[[Any, str], Reference]] = {
    (dp_event.GaussianDpEvent, "replace-one"): lambda event, direction: _gaussian(
        dp_event.GaussianDpEvent(event.noise_multiplier / 2), direction
    ),
    (dp_event.LaplaceDpEvent, "replace-one"): lambda event, direction: _laplace(
        dp_event.LaplaceDpEvent(event.noise_multiplier / 2), direction
    ),
    (dp_event.DiscreteLaplaceDpEvent, "replace-one"): lambda event, direction: _discrete_laplace(
        dp_event.DiscreteLaplaceDpEvent(event.noise_parameter, 2 * event.sensitivity), direction
    ),
    (events.DiscreteGaussianDpEvent, "replace-one"): lambda event, direction: _discrete_gaussian(
        events.DiscreteGaussianDpEvent(event.sigma, 2 * event.sensitivity), direction
    ),
    (dp_event.RandomizedResponseDpEvent, "replace-one"): _randomized_response,
    (dp_event.RandomizedResponseDpEvent, "zero-out"): _against_uniform,
    (events.EpsilonDeltaDpEvent, "replace-one"): _epsilon_delta,
    (dp_event.MixtureOfGaussiansDpEvent, "replace-one"): _mixture_replaced,
    (events.PoissonSampledUsersDpEvent, "replace-one"): _users_replaced,
}
"""Laws under other relations than the default one, where they differ."""


@dataclass(frozen=True)
class Under:
    """An event under another relation than its default one."""

    event: dp_event.DpEvent
    relation: str


@cache
def composition(case: dp_event.DpEvent | Under) -> Composition:
    """What evr makes of a case."""
    return Composition.of(case.event, case.relation) if isinstance(case, Under) else Composition.of(case)


_THREE_GAUSSIANS = dp_event.MixtureOfGaussiansDpEvent(1.0, (0.0, 1.0, 2.5), (0.5, 0.25, 0.25))
_MIXTURES = [
    _THREE_GAUSSIANS,
    dp_event.MixtureOfGaussiansDpEvent(0.1, (0.4, 1.0), (0.9, 0.1)),
    dp_event.MixtureOfGaussiansDpEvent(1e3, (0.0, 1.0), (0.999, 0.001)),
]
_SAMPLED = {
    dp_event.GaussianDpEvent(0.1): (1e-8, 0.38),
    dp_event.GaussianDpEvent(1.0): (1e-8, 1e-3, 0.38, 1 - 1e-9),
    dp_event.GaussianDpEvent(1e3): (1e-8, 0.38),
    dp_event.LaplaceDpEvent(0.1): (1e-8, 0.38, 1 - 1e-9),
    dp_event.LaplaceDpEvent(1e3): (1e-8, 0.38),
    _THREE_GAUSSIANS: (1e-8, 0.38),
    dp_event.DiscreteLaplaceDpEvent(1.0, 3): (1e-8, 0.38),
    events.DiscreteGaussianDpEvent(1.0, 1): (1e-8, 0.38, 1 - 1e-9),
    events.DiscreteGaussianDpEvent(30.0, 7): (1e-3,),
    events.EpsilonDeltaDpEvent(1.0, 1e-5): (1e-8, 0.38),
}

_OTHERS = [
    *(
        Under(event, "replace-one")
        for event in (
            dp_event.GaussianDpEvent(1.0),
            dp_event.LaplaceDpEvent(1.0),
            dp_event.DiscreteLaplaceDpEvent(1.0, 3),
            events.DiscreteGaussianDpEvent(3.0, 2),
            *(dp_event.RandomizedResponseDpEvent(*x) for x in ((0.1, 2), (0.5, 10), (1 - 1e-9, 3), (0.999, 10**6))),
            events.EpsilonDeltaDpEvent(1.0, 1e-5),
            _THREE_GAUSSIANS,
            events.PoissonSampledUsersDpEvent(2.0, 0.1, 3),
            dp_event.PoissonSampledDpEvent(1e-3, dp_event.GaussianDpEvent(1.0)),
            dp_event.PoissonSampledDpEvent(0.38, dp_event.GaussianDpEvent(30.0)),
            dp_event.PoissonSampledDpEvent(1e-3, dp_event.LaplaceDpEvent(0.3)),
            dp_event.PoissonSampledDpEvent(0.38, dp_event.LaplaceDpEvent(2.0)),
            dp_event.PoissonSampledDpEvent(0.38, dp_event.DiscreteLaplaceDpEvent(1.0, 3)),
            dp_event.PoissonSampledDpEvent(0.1, events.DiscreteGaussianDpEvent(2.0, 2)),
            events.FixedBatchUsersDpEvent(2.0, 1000, 10, 5),
            events.FixedBatchUsersDpEvent(4.0, 50, 20, 3),
        )
    ),
    Under(dp_event.RandomizedResponseDpEvent(0.5, 10), "zero-out"),
    Under(dp_event.LaplaceDpEvent(1.0), "zero-out"),
    *(
        Under(dp_event.SampledWithoutReplacementDpEvent(10**4, batch, event), "replace-one")
        for event, batch in (
            (dp_event.GaussianDpEvent(1.0), 10),
            (dp_event.GaussianDpEvent(30.0), 3800),
            (dp_event.LaplaceDpEvent(1.0), 3800),
            (dp_event.RandomizedResponseDpEvent(0.5, 10), 10),
            (events.EpsilonDeltaDpEvent(1.0, 1e-5), 3800),
        )
    ),
]

EVENTS: list[Any] = [
    *(dp_event.GaussianDpEvent(noise) for noise in (0.1, 1.0, 30.0, 1e3)),
    *(dp_event.LaplaceDpEvent(noise) for noise in (0.1, 1.0, 30.0, 1e3)),
    *_MIXTURES,
    *(dp_event.DiscreteLaplaceDpEvent(*x) for x in ((10.0, 1), (1.0, 3), (0.02, 5), (1e-3, 1000))),
    *(events.DiscreteGaussianDpEvent(*x) for x in ((0.1, 1), (1.0, 1), (30.0, 7), (100.0, 1))),
    *(events.EpsilonDeltaDpEvent(*x) for x in ((1.0, 1e-5), (0.0, 0.1), (10.0, 0.0), (1e-6, 1e-12), (50.0, 1e-30))),
    *(events.PoissonSampledUsersDpEvent(*x) for x in ((1.0, 0.01, 4), (2.0, 0.3, 8))),
    dp_event.SingleEpochTreeAggregationDpEvent(2.0, 1),
    dp_event.TruncatedSubsampledGaussianDpEvent(20, 0.25, 7, 1.0),
    *(dp_event.PoissonSampledDpEvent(q, event) for event, qs in _SAMPLED.items() for q in qs),
    *_OTHERS,
]

_SAMPLERS = (dp_event.PoissonSampledDpEvent, dp_event.SampledWithoutReplacementDpEvent)


def base(case: dp_event.DpEvent | Under) -> dp_event.DpEvent:
    """The event without its sampling."""
    event = case.event if isinstance(case, Under) else case
    return event.event if isinstance(event, _SAMPLERS) else event


def unsampled(case: dp_event.DpEvent | Under) -> dp_event.DpEvent | Under:
    """The same as far as its pair has the coordinates of its base: without Poisson sampling."""
    return case if isinstance(case, Under) else base(case)


@cache
def reference(case: dp_event.DpEvent | Under, direction: str) -> Reference:
    """The two laws of an event, Poisson sampling written out from Zhu, Dong and Wang (2022),
    Theorem 11, sampling without replacement from docs/guarantees_relations.md.
    """
    event = case.event if isinstance(case, Under) else case
    inner = base(case)
    relation = case.relation if isinstance(case, Under) else ""
    laws = UNDER.get((type(inner), relation), REFERENCES[type(inner)])(inner, direction)
    if isinstance(event, dp_event.PoissonSampledDpEvent):
        if relation == "replace-one":
            q = mpf(event.sampling_probability)
            if not isinstance(inner, dp_event.GaussianDpEvent):
                return _sampled_replaced(q, inner)
            return _two_sided([mpf(0), mpf(1)], [1 - q, q], mpf(inner.noise_multiplier))
        return laws.sampled(event.sampling_probability, direction)
    if isinstance(event, dp_event.SampledWithoutReplacementDpEvent):
        share = mpf(event.sample_size) / event.source_dataset_size
        if isinstance(laws, OnOutcomes):
            return laws.without_replacement(share)
        if direction == "add":  # one pair for both: that of the remove direction
            return reference(case, "remove")
        return WithoutReplacement.of(laws, share)
    return laws


def name(case: dp_event.DpEvent | Under) -> str:
    """A short name for test reports."""
    inner = base(case)
    event = case.event if isinstance(case, Under) else case
    values = ",".join(str(getattr(inner, field)).replace(" ", "") for field in inner.__slots__ if field[0] != "_")
    sampled = ""
    if isinstance(event, dp_event.PoissonSampledDpEvent):
        sampled = f"-q={event.sampling_probability:.10g}"
    elif inner is not event:
        sampled = f"-{event.sample_size}of{event.source_dataset_size}"
    sampled += f"-{case.relation}" if isinstance(case, Under) else ""
    return f"{type(inner).__name__.removesuffix('DpEvent')}({values}){sampled}"
