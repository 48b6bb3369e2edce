"""Random events over the whole domain that the interface admits, and epsilons where their losses
live.

Every case has a generator of its own, keyed by the seed and its index: these two numbers alone make
it again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import attr
import numpy as np
from dp_accounting import dp_event

from attacking import bins as binned
from attacking import state, tuned
from attacking.composition import Composition
from attacking.laws import LONG, Unreached
from evr import register
from evr._kernel.events.noise import randomized_response
from evr.events import BallsInBinsDpEvent, DiscreteGaussianDpEvent, EpsilonDeltaDpEvent

Generator = np.random.Generator
CORNERS = 0.3  # share of cases that are drawn near a corner on purpose
BINS_EVERY, BINS_FIRST = 12, 7  # one case in so many is a training in bins
BOUNDS_FIRST = 9  # and another one a mechanism that is bounded from above
MOST_LOSS = 3e5  # mean loss of a composition: epsilons beyond 1e6 are of no use
LEAST_LOSS = 1e-14  # deviation of the loss of one step
MOST_STEPS = 10**9
TAUS, TAU_WEIGHTS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95), (0.35, 0.2, 0.15, 0.15, 0.1, 0.05)
FALSE_BY = (0.03, 0.05, 0.1, 0.2, 0.35, 0.5)


@dataclass(frozen=True)
class Case:
    """An event, an epsilon, and what will be claimed."""

    index: int
    kind: str
    event: Any
    epsilon: float
    tau_true: float
    tau_false: float
    false_by: float
    seed: int
    at_least: float | None = None
    """What delta is at least, where evr has a bound from above; None where it has the law itself."""
    relation: str | None = None


def make(seed: int, index: int) -> Case:
    """The case of that index."""
    rng = np.random.default_rng([seed, index])
    at_least = None
    for _ in range(50):
        try:
            if index % tuned.EVERY == tuned.FIRST:
                kind, event, epsilon = tuned.make(rng)
            elif index % BINS_EVERY == BINS_FIRST:
                kind, event, epsilon = _bins(rng)
            elif index % BINS_EVERY == BOUNDS_FIRST:
                kind, (event, epsilon, at_least) = state.draw(rng)
            else:
                kind, event, epsilon = _corner(rng) if rng.random() < CORNERS else _anything(rng)
            break
        except (Unreached, _Dull):
            continue
    else:
        kind, event, epsilon = "gaussian", dp_event.GaussianDpEvent(1.0), 1.0
    return Case(
        index,
        kind,
        event,
        float(epsilon),
        float(rng.choice(TAUS, p=TAU_WEIGHTS)),
        float(rng.choice(TAUS, p=TAU_WEIGHTS)),
        float(rng.choice(FALSE_BY)),
        int(rng.integers(2**62)),
        at_least,
    )


class _Dull(Exception):
    """Nothing to attack here: draw again."""


# --- mechanisms -----------------------------------------------------------------------------------


def log_uniform(rng: Generator, low: float, high: float) -> float:
    return float(10.0 ** rng.uniform(math.log10(low), math.log10(high)))


def probability(rng: Generator) -> float:
    """In [1e-9, 1 - 1e-9], often near an end."""
    chosen = rng.random()
    if chosen < 0.6:
        return log_uniform(rng, 1e-9, 0.5)
    return float(rng.uniform(0.01, 0.99)) if chosen < 0.8 else 1.0 - log_uniform(rng, 1e-9, 0.5)


def _mixture(rng: Generator) -> Any:
    count = int(rng.integers(1, 5))
    weights = rng.dirichlet(np.full(count, 0.5)).tolist() if count > 1 else [1.0]
    sensitivities = [0.0 if rng.random() < 0.2 else log_uniform(rng, 0.05, 3.0) for _ in range(count)]
    if max(sensitivities) == 0:
        sensitivities[0] = 1.0
    return dp_event.MixtureOfGaussiansDpEvent(log_uniform(rng, 1e-3, 1e4), sensitivities, weights)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class AnswerDpEvent(dp_event.DpEvent):
    """The laws of randomized response for a record that may be absent, in whose place another answer is given."""

    noise_parameter: float
    num_buckets: int


register(AnswerDpEvent, randomized_response)  # evr has no law for the event itself under add-or-remove


def _randomized_response(rng: Generator) -> Any:
    buckets = int(rng.choice([2, 2, 3, 10, 1000]))
    return AnswerDpEvent(probability(rng), buckets)


def _epsilon_delta(rng: Generator) -> Any:
    delta = 0.0 if rng.random() < 0.4 else log_uniform(rng, 1e-60, 0.1)
    return EpsilonDeltaDpEvent(log_uniform(rng, 1e-6, 1e3), delta)


def _discrete_gaussian(rng: Generator) -> Any:
    return DiscreteGaussianDpEvent(log_uniform(rng, 1e-2, 300.0), int(rng.choice([1, 1, 2, 5])))


def _discrete_laplace(rng: Generator) -> Any:
    return dp_event.DiscreteLaplaceDpEvent(1 / log_uniform(rng, 1e-3, 1e4), int(rng.choice([1, 1, 2, 7, 60])))


MECHANISMS: dict[str, Callable[[Generator], Any]] = {
    "gaussian": lambda rng: dp_event.GaussianDpEvent(log_uniform(rng, 1e-3, 1e4)),
    "laplace": lambda rng: dp_event.LaplaceDpEvent(log_uniform(rng, 1e-3, 1e4)),
    "mixture": _mixture,
    "randomized response": _randomized_response,
    "epsilon-delta": _epsilon_delta,
    "discrete laplace": _discrete_laplace,
    "discrete gaussian": _discrete_gaussian,
}
WEIGHTS = (0.34, 0.14, 0.12, 0.12, 0.08, 0.1, 0.1)


def _step(rng: Generator) -> tuple[str, Any]:
    """A mechanism, sampled or not, sampled twice, or a sampled composition of Gaussians."""
    name = str(rng.choice(list(MECHANISMS), p=WEIGHTS))
    event = MECHANISMS[name](rng)
    if rng.random() > (0.75 if name == "gaussian" else 0.5):
        return name, event
    if name == "gaussian" and rng.random() < 0.1:
        event = dp_event.SelfComposedDpEvent(event, int(rng.integers(2, 50)))
    event = dp_event.PoissonSampledDpEvent(probability(rng), event)
    if rng.random() < 0.1:
        event = dp_event.PoissonSampledDpEvent(probability(rng), event)
    return f"sampled {name}", event


def _steps(rng: Generator) -> int:
    return 1 if rng.random() < 0.2 else round(log_uniform(rng, 1, MOST_STEPS))


def spread(event: Any) -> tuple[float, float]:
    """Mean and standard deviation of the losses of all steps, the greater of both directions."""
    found = []
    for direction in ("remove", "add"):
        composition = Composition.of(event, direction)
        tilts = composition.tilted(LONG(0), None)
        found.append((float(composition.excess(tilts, 0.0)), math.sqrt(composition.variance(tilts))))
    return max(mean for mean, _ in found), max(deviation for _, deviation in found)


def _repeated(rng: Generator) -> tuple[str, Any, float]:
    """A mechanism some times over, few enough for its losses to be of use; with the deviation of
    its losses.
    """
    name, step = _step(rng)
    mean, deviation = spread(step)
    if not LEAST_LOSS < deviation < MOST_LOSS or abs(mean) > MOST_LOSS:
        raise _Dull
    most = MOST_STEPS if mean <= 0 else min(MOST_STEPS, MOST_LOSS / mean, (MOST_LOSS / deviation) ** 2)
    count = _steps(rng)
    if count > most:
        count = max(1, round(log_uniform(rng, 1, max(most, 1))))
    event = step if count == 1 else dp_event.SelfComposedDpEvent(step, count)
    return name, event, deviation * math.sqrt(count)


def _anything(rng: Generator) -> tuple[str, Any, float]:
    """One to four kinds of steps, and an epsilon for them."""
    count = int(rng.choice([1, 2, 3, 4], p=[0.5, 0.28, 0.14, 0.08]))
    names, events = [], []
    comparable, first = rng.random() < 0.7, 0.0
    for _ in range(count):
        for _ in range(30):
            name, event, deviation = _repeated(rng)
            if not first or not comparable or 0.01 < deviation / first < 100:
                break
        first = first or deviation
        names.append(name)
        events.append(event)
    event: Any = events[0] if count == 1 else dp_event.ComposedDpEvent(events)
    if count > 1 and rng.random() < 0.2:
        times = int(rng.integers(2, 6))
        event = dp_event.SelfComposedDpEvent(dp_event.ComposedDpEvent([*events, dp_event.NoOpDpEvent()]), times)
    kind = " + ".join(sorted(set(names))) + (", one step" if event is events[0] and _is_one(event) else "")
    return kind, event, epsilon_for(rng, event)


def _is_one(event: Any) -> bool:
    return not isinstance(event, dp_event.SelfComposedDpEvent)


# --- epsilons -------------------------------------------------------------------------------------


def epsilon_for(rng: Generator, event: Any) -> float:
    """Where the losses live: at a quantile of delta from 0.9 to 1e-60, at 0, or about the greatest
    loss.
    """
    direction = "remove" if rng.random() < 0.6 else "add"
    composition = Composition.of(event, direction)
    if rng.random() < 0.04:
        return 0.0
    greatest = float(composition.greatest)
    if math.isfinite(greatest) and rng.random() < 0.15:
        nearly = greatest * (1 - log_uniform(rng, 1e-12, 0.5))
        return _in_range(float(rng.choice([greatest, math.nextafter(greatest, 0), nearly])))
    log_delta = math.log(10) * -_exponent(rng)
    low, high = math.log(1e-9), math.log(1e15)
    epsilon = 0.0
    for _ in range(30):
        middle = (low + high) / 2
        epsilon, found = _by_order(composition, LONG(math.exp(middle)))
        low, high = (middle, high) if epsilon <= 0 or found > log_delta else (low, middle)
    if epsilon <= 0:
        _, deviation = spread(event)
        epsilon = deviation * log_uniform(rng, 1e-4, 1)
    return _in_range(float(f"{epsilon:.3g}") if rng.random() < 0.5 else epsilon)


def _exponent(rng: Generator) -> float:
    """Of ten: deltas from 0.9 to 1e-60, the usual ones more often."""
    chosen = rng.random()
    return float(
        rng.uniform(0.05, 2) if chosen < 0.25 else rng.uniform(2, 15) if chosen < 0.75 else rng.uniform(15, 60)
    )


def _in_range(epsilon: float) -> float:
    if not 0 <= epsilon <= 1e6:
        raise _Dull
    return epsilon


def _by_order(composition: Composition, order: Any) -> tuple[float, float]:
    """The epsilon to which a saddle point belongs, and about what the
    logarithm of delta is there.
    """
    try:
        tilts = composition.tilted(order, None)
    except Unreached:
        return math.inf, -math.inf
    epsilon = float(composition.excess(tilts, 0.0) - 1 / order - 1 / (order + 1))
    if not math.isfinite(epsilon):
        return math.inf, -math.inf
    curvature = composition.variance(tilts) + float(1 / order**2 + 1 / (order + 1) ** 2)
    log_scale = float(composition.log_scale(tilts, order, composition.excess(tilts, epsilon)))
    log_kernel = float(np.log(order) + np.log1p(order))
    return epsilon, log_scale - log_kernel - 0.5 * math.log(2 * math.pi * curvature)


# --- bins -----------------------------------------------------------------------------------------


def _bins(rng: Generator) -> tuple[str, Any, float]:
    """A training in bins, alone or beside one other kind of step, and an epsilon among its
    losses.
    """
    bins, epochs = round(log_uniform(rng, 2, 5000)), round(log_uniform(rng, 1, 50))
    training = BallsInBinsDpEvent(log_uniform(rng, 0.5, 8), bins * epochs, bins)
    name = str(rng.choice(list(_BESIDE), p=(0.3, 0.2, 0.15, 0.15, 0.1, 0.1)))
    other = _BESIDE[name](rng)
    usual = np.sort(binned.losses(training, rng, 200))
    epsilon = abs(float(usual[int(rng.integers(20, 200))])) * float(rng.uniform(0.2, 1.8))
    if rng.random() < 0.05:
        epsilon = 0.0
    if other is None:
        return "bins", training, epsilon
    parts = [training, other] if rng.random() < 0.5 else [other, training]
    return f"bins + {name}", dp_event.ComposedDpEvent(parts), epsilon


def _gaussians(rng: Generator) -> Any:
    count = round(log_uniform(rng, 1, 100))
    noise = math.sqrt(count) / log_uniform(rng, 1e-3, 2)
    event = dp_event.GaussianDpEvent(noise)
    return event if count == 1 else dp_event.SelfComposedDpEvent(event, count)


_BESIDE: dict[str, Callable[[Generator], Any]] = {
    "nothing": lambda rng: None,
    "gaussian": _gaussians,
    "sampled gaussian": lambda rng: _dpsgd(log_uniform(rng, 0.6, 10), probability(rng), 1),
    "laplace": lambda rng: dp_event.LaplaceDpEvent(log_uniform(rng, 1, 100)),
    "randomized response": _randomized_response,
    "epsilon-delta": lambda rng: EpsilonDeltaDpEvent(
        log_uniform(rng, 1e-3, 5), 0.0 if rng.random() < 0.4 else log_uniform(rng, 1e-12, 0.1)
    ),
}


# --- corners --------------------------------------------------------------------------------------


def _dpsgd(noise: float, q: float, count: int) -> Any:
    step = dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(noise))
    return step if count == 1 else dp_event.SelfComposedDpEvent(step, count)


def _tiny(rng: Generator) -> Any:
    """Steps with losses far below those of anything else."""
    count = int(rng.integers(2, 60))
    if rng.random() < 0.5:
        noise = 1.0 - log_uniform(rng, 1e-13, 1e-3)
        return dp_event.SelfComposedDpEvent(AnswerDpEvent(noise, int(rng.integers(2, 4))), count)
    return _dpsgd(log_uniform(rng, 10, 1e4), log_uniform(rng, 1e-8, 1e-2), count)


def _huge_beside_tiny(rng: Generator) -> tuple[str, Any, float]:
    greatest = log_uniform(rng, 1, 1e6) if rng.random() < 0.7 else log_uniform(rng, 1e6, 1e17)
    if rng.random() < 0.5:
        greatest = float(f"{greatest:.2g}")
    first = EpsilonDeltaDpEvent(greatest, 0.0 if rng.random() < 0.7 else log_uniform(rng, 1e-40, 1e-3))
    event = dp_event.ComposedDpEvent([first, _tiny(rng)])
    return "huge epsilon beside tiny losses", event, greatest


def _laplace_beside_tiny(rng: Generator) -> tuple[str, Any, float]:
    scale = float(rng.choice([1.0, 0.5, 0.25, 2.0, 8.0]))
    count = int(rng.integers(1, 4))
    laplace = dp_event.LaplaceDpEvent(scale)
    first = laplace if count == 1 else dp_event.SelfComposedDpEvent(laplace, count)
    return ("greatest loss of Laplace beside tiny losses", dp_event.ComposedDpEvent([first, _tiny(rng)]), count / scale)


def _at_zero(rng: Generator) -> tuple[str, Any, float]:
    _, event, _ = _repeated(rng)
    return "epsilon 0", event, 0.0


def _q_at_an_end(rng: Generator) -> tuple[str, Any, float]:
    q = float(rng.choice([1e-9, 1e-8, 1 - 1e-9, 1 - 1e-6, math.nextafter(1, 0)]))
    name = str(rng.choice(["gaussian", "laplace", "randomized response", "epsilon-delta"]))
    count = min(_steps(rng), 10**6)
    step = dp_event.PoissonSampledDpEvent(q, MECHANISMS[name](rng))
    mean, _ = spread(step)
    if abs(mean) * count > MOST_LOSS:
        count = 1
    event = dp_event.SelfComposedDpEvent(step, count)
    return "q next to 0 or 1", event, epsilon_for(rng, event)


def _many_tiny(rng: Generator) -> tuple[str, Any, float]:
    q, noise = log_uniform(rng, 1e-9, 1e-4), log_uniform(rng, 3, 1e4)
    count = round(log_uniform(rng, 1e5, 1e9))
    z = float(rng.uniform(0, 12))
    return "very many tiny losses", _dpsgd(noise, q, count), z * q * math.sqrt(count) / noise


def _one_jump(rng: Generator) -> tuple[str, Any, float]:
    noise, q = log_uniform(rng, 1e-3, 0.6), log_uniform(rng, 1e-9, 1e-2)
    event = _dpsgd(noise, q, round(log_uniform(rng, 1, 1e4)))
    jump = 0.5 / noise**2 + rng.normal() * 2 / noise + math.log(q)
    epsilon = jump if rng.random() < 0.5 else log_uniform(rng, 1e-3, max(jump, 1.0))
    return "one huge jump", event, _in_range(max(0.0, float(epsilon)))


def _between_atoms(rng: Generator) -> tuple[str, Any, float]:
    first = EpsilonDeltaDpEvent(log_uniform(rng, 0.1, 50), 0.0 if rng.random() < 0.5 else log_uniform(rng, 1e-30, 0.1))
    second = dp_event.GaussianDpEvent(log_uniform(rng, 1, 1e4))
    count = int(rng.integers(1, 6))
    event = dp_event.ComposedDpEvent([dp_event.SelfComposedDpEvent(first, count), second])
    atom = first.epsilon * (count - 2 * int(rng.integers(0, count // 2 + 1)))
    return ("between atoms", event, max(0.0, atom + float(rng.normal()) * 3 / second.noise_multiplier))


_CORNERS: tuple[Callable[[Generator], tuple[str, Any, float]], ...] = (
    _huge_beside_tiny,
    _laplace_beside_tiny,
    _at_zero,
    _q_at_an_end,
    _many_tiny,
    _one_jump,
    _between_atoms,
)


def _corner(rng: Generator) -> tuple[str, Any, float]:
    kind, event, epsilon = _CORNERS[int(rng.integers(len(_CORNERS)))](rng)
    return f"corner: {kind}", event, epsilon
