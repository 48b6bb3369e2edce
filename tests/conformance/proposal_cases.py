"""Compositions that every proposal is run on: the settings of the project's table, other
mechanisms, seeded random ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from dp_accounting import dp_event

import evr
from evr._estimate.fft import FftCurve
from evr._kernel.events import Composition
from evr._kernel.pairs import Pairs, Step
from evr.events import DiscreteGaussianDpEvent, EpsilonDeltaDpEvent, dpsgd
from helpers import answers, together

DIRECTIONS = ("remove", "add")


@dataclass(frozen=True)
class Case:
    """A composition and an epsilon at which its delta is small, as for a release."""

    name: str
    event: dp_event.DpEvent | Composition
    epsilon: float

    def steps(self, direction: str) -> tuple[Step, ...]:
        return Composition.of(self.event).simplified(direction)

    def plain_epsilon(self) -> float:
        """An epsilon at which plain sampling sees something: delta is about 0.02."""
        return _epsilon(Composition.of(self.event))


@cache
def _epsilon(composition: Composition) -> float:
    return float(evr.estimate_epsilon(composition, delta=0.02).value)


@cache
def exact(steps: tuple[Step, ...], epsilon: float) -> float:
    """Delta of one direction, near-exact."""
    return FftCurve(steps).delta(epsilon).value


def _sgd(epsilon: float, steps: int, probability: float, noise: float) -> Case:
    event = dpsgd(noise_multiplier=noise, sampling_probability=probability, steps=steps)
    return Case(f"dpsgd-{epsilon}-{steps}-{probability:.4g}-{noise}", event, epsilon)


SHORT = _sgd(1.5, 100, 1e-3, 0.6)
LONG = _sgd(1.0, 1500, 0.01, 2.0)
LARGE_BATCHES = _sgd(2.0, 360, 4096 / 50000, 5.971)
RARELY_SAMPLED = [SHORT, _sgd(1.5, 1000, 1e-3, 0.5), _sgd(0.5, 1000, 1e-3, 1.0), _sgd(1.0, 100, 1e-5, 0.5)]
SETTINGS = [*RARELY_SAMPLED, LONG, LARGE_BATCHES]


def _repeated(event: dp_event.DpEvent, count: int) -> dp_event.DpEvent:
    return dp_event.SelfComposedDpEvent(event, count)


def _sampled(probability: float, event: dp_event.DpEvent) -> dp_event.DpEvent:
    return dp_event.PoissonSampledDpEvent(probability, event)


_MIXTURE = dp_event.MixtureOfGaussiansDpEvent(2.0, (0.0, 0.5, 1.5), (0.6, 0.3, 0.1))

UNSAMPLED = [
    Case("gaussian", _repeated(dp_event.GaussianDpEvent(70.0), 1200), 2.0),
    Case("laplace", _repeated(dp_event.LaplaceDpEvent(8.0), 20), 1.9),
    Case("randomized response", together((answers(0.8, 5), 12)), 9.0),
    Case("infinite losses", _repeated(EpsilonDeltaDpEvent(0.05, 1e-9), 50), 1.5),
    Case("discrete gaussian", _repeated(DiscreteGaussianDpEvent(4.0, 1), 10), 4.0),
]
OTHERS = [
    *UNSAMPLED,
    Case("sampled laplace", _repeated(_sampled(0.1, dp_event.LaplaceDpEvent(1.0)), 30), 2.5),
    Case("sampled response", together((answers(0.5, 4, 0.2), 25)), 4.0),
    Case("sampled infinite losses", _repeated(_sampled(0.1, EpsilonDeltaDpEvent(1.0, 1e-7)), 20), 2.5),
    Case("mixture of gaussians", _repeated(_MIXTURE, 12), 2.5),
    Case(
        "several mechanisms",
        together(
            dpsgd(noise_multiplier=1.2, sampling_probability=0.02, steps=40),
            dp_event.GaussianDpEvent(4.0),
            _repeated(dp_event.LaplaceDpEvent(6.0), 5),
            (answers(0.9, 3), 1),
        ),
        3.0,
    ),
    Case(
        "without replacement",
        Composition.of(
            _repeated(dp_event.SampledWithoutReplacementDpEvent(1000, 10, dp_event.GaussianDpEvent(2.5)), 50),
            "replace-one",
        ),
        1.0,
    ),
    Case("truncated batches", _repeated(dp_event.TruncatedSubsampledGaussianDpEvent(1000, 0.01, 15, 2.0), 50), 1.0),
    Case(
        "response against the uniform output",
        Composition.of(_repeated(dp_event.RandomizedResponseDpEvent(0.8, 5), 12), "zero-out"),
        4.0,
    ),
    Case("likely sampling", dpsgd(noise_multiplier=1.0, sampling_probability=0.9999, steps=3), 20.0),
]


# where delta is 1e-9 to 1e-3; the first is slow
_EPSILONS = (None, 24.178, 8.707, 5.564, 0.933, 0.285, 6.732, 5.364)


def _random_cases() -> list[Case]:
    """Compositions of one to three random mechanisms."""
    generator = np.random.default_rng(1)
    cases = []
    for number, epsilon in enumerate(_EPSILONS):
        parts: list[dp_event.DpEvent | tuple[Pairs, int]] = []
        for _ in range(generator.integers(1, 4)):
            scale, steps = (float(np.exp(generator.uniform(-0.3, 1.5))), int(np.exp(generator.uniform(0.0, 3.5))))
            base = (
                dp_event.GaussianDpEvent(scale),
                dp_event.LaplaceDpEvent(scale),
                (float(generator.uniform(0.3, 0.95)), int(generator.integers(2, 7))),  # of randomized response
                DiscreteGaussianDpEvent(scale, int(generator.integers(1, 3))),
            )[generator.integers(4)]
            q = float(np.exp(generator.uniform(-5.0, -0.5))) if generator.random() < 0.7 else 1.0
            if isinstance(base, tuple):
                parts.append((answers(base[0], base[1], q), steps))
            else:
                parts.append(_repeated(_sampled(q, base), steps))
        generator.random()
        if epsilon is not None:
            cases.append(Case(f"random {number}", together(*parts), epsilon))
    return cases


CASES = [*SETTINGS, *OTHERS, *_random_cases()]


def named(*names: str) -> list[Case]:
    """The cases of these names."""
    by_name = {case.name: case for case in CASES}
    return [by_name[name] for name in names]
