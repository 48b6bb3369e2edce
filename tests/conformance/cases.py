"""The cases of the conformance suite: for each registered event type, events to try and how to
write its two laws.

A new mechanism needs an entry in ``REFERENCES`` and some in ``EVENTS``; ``test_pairs.py`` fails
until it has both.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from dp_accounting import dp_event
from mpmath import mp, mpf

from conformance.reference import Laplace, Normal, OnOutcomes, OnTheLine, reflected
from evr.mechanisms import events

Reference = OnTheLine | OnOutcomes

_DEVIATIONS = (
    "-30.1",
    "-11.31",
    "-8.23",
    "-5.07",
    "-2.03",
    "-0.31",
    "0.73",
    "2.19",
    "5.17",
    "8.41",
    "11.37",
    "30.7",
)


def _gaussian_places(means: list[Any], deviation: Any) -> list[Any]:
    return sorted({m + deviation * mpf(k) for m in (min(means), max(means)) for k in _DEVIATIONS})


def _gaussian(event: dp_event.GaussianDpEvent, direction: str) -> Reference:
    sigma = mpf(event.noise_multiplier)
    with_record, without = [(mpf(1), Normal(mpf(1), sigma))], [(mpf(1), Normal(mpf(0), sigma))]
    if direction == "remove":
        return OnTheLine(
            with_record, without, _gaussian_places([0, 1], sigma), (), lambda x: x / sigma
        )
    places = _gaussian_places([-1, 0], sigma)
    return OnTheLine(
        reflected(without), reflected(with_record), places, (), lambda x: (x + 1) / sigma
    )


def _laplace(event: dp_event.LaplaceDpEvent, direction: str) -> Reference:
    scale = mpf(event.noise_multiplier)
    with_record, without = [(mpf(1), Laplace(mpf(1), scale))], [(mpf(1), Laplace(mpf(0), scale))]
    inside = [mpf(k) for k in ("0.0001", "0.03", "0.2", "0.47", "0.6", "0.9", "0.9999")]
    tails = [mpf(k) * scale for k in ("3", "60", "300")]
    places = sorted([-x for x in tails] + inside + [1 + x for x in tails])
    if direction == "remove":
        return OnTheLine(with_record, without, places, (mpf(0), mpf(1)), lambda x: x)
    places = [x - 1 for x in places]
    return OnTheLine(
        reflected(without), reflected(with_record), places, (mpf(-1), mpf(0)), lambda x: x + 1
    )


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
        return OnTheLine(
            with_record, without, _gaussian_places([0, greatest], sigma), (), lambda x: x / sigma
        )
    places = _gaussian_places([-greatest, 0], sigma)
    return OnTheLine(reflected(without), reflected(with_record), places, (), lambda x: x / sigma)


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
    sigma, shift = mpf(event.sigma), event.sensitivity
    reach = (
        int(mp.ceil(16 * sigma)) + 6 + 22 * shift
    )  # the noise beyond is below 1e-55, also tilted by an order of 20
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


REFERENCES: dict[type, Callable[[Any, str], Reference]] = {
    dp_event.GaussianDpEvent: _gaussian,
    dp_event.LaplaceDpEvent: _laplace,
    dp_event.MixtureOfGaussiansDpEvent: _mixture,
    dp_event.RandomizedResponseDpEvent: _randomized_response,
    dp_event.DiscreteLaplaceDpEvent: _discrete_laplace,
    events.DiscreteGaussianDpEvent: _discrete_gaussian,
    events.EpsilonDeltaDpEvent: _epsilon_delta,
}

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
    dp_event.RandomizedResponseDpEvent(0.5, 10): (1e-8, 0.38),
    dp_event.DiscreteLaplaceDpEvent(1.0, 3): (1e-8, 0.38),
    events.DiscreteGaussianDpEvent(1.0, 1): (1e-8, 0.38, 1 - 1e-9),
    events.DiscreteGaussianDpEvent(30.0, 7): (1e-3,),
    events.EpsilonDeltaDpEvent(1.0, 1e-5): (1e-8, 0.38),
}

EVENTS: list[dp_event.DpEvent] = [
    *(dp_event.GaussianDpEvent(noise) for noise in (0.1, 1.0, 30.0, 1e3)),
    *(dp_event.LaplaceDpEvent(noise) for noise in (0.1, 1.0, 30.0, 1e3)),
    *_MIXTURES,
    *(
        dp_event.RandomizedResponseDpEvent(*x)
        for x in ((0.1, 2), (0.5, 10), (1 - 1e-9, 3), (0.999, 10**6))
    ),
    *(dp_event.DiscreteLaplaceDpEvent(*x) for x in ((10.0, 1), (1.0, 3), (0.02, 5), (1e-3, 1000))),
    *(events.DiscreteGaussianDpEvent(*x) for x in ((0.1, 1), (1.0, 1), (30.0, 7), (1e3, 1))),
    *(
        events.EpsilonDeltaDpEvent(*x)
        for x in ((1.0, 1e-5), (0.0, 0.1), (10.0, 0.0), (1e-6, 1e-12), (50.0, 1e-30))
    ),
    *(dp_event.PoissonSampledDpEvent(q, event) for event, qs in _SAMPLED.items() for q in qs),
]


def base(event: dp_event.DpEvent) -> dp_event.DpEvent:
    """The event without its sampling."""
    return event.event if isinstance(event, dp_event.PoissonSampledDpEvent) else event


@cache
def reference(event: dp_event.DpEvent, direction: str) -> Reference:
    """The two laws of an event, Poisson sampling written out from Zhu, Dong and Wang (2022),
    Theorem 11.
    """
    inner = base(event)
    laws = REFERENCES[type(inner)](inner, direction)
    return laws if inner is event else laws.sampled(event.sampling_probability, direction)


def name(event: dp_event.DpEvent) -> str:
    """A short name for test reports."""
    inner = base(event)
    values = ",".join(
        str(getattr(inner, field)).replace(" ", "") for field in inner.__slots__ if field[0] != "_"
    )
    sampled = "" if inner is event else f"-q={event.sampling_probability:.10g}"
    return f"{type(inner).__name__.removesuffix('DpEvent')}({values}){sampled}"
