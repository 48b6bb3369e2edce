"""From an event to the laws of its privacy losses: written from the definitions, and from nothing
in evr.

A mechanism is two laws on one space: ``A`` of its output with the record, ``B`` without it. Poisson
sampling with probability ``q`` turns ``A`` into ``(1 - q) B + q A`` and leaves ``B``. The remove
direction compares ``A`` with ``B``, the add direction ``B`` with ``A``. Everything is in long
doubles, 80 bits where the processor has them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

LONG = np.longdouble
Longs = NDArray[np.longdouble]
TOO_MANY_ATOMS = 3_000_000
HALF_LOG_TWO_PI = LONG("0.9189385332046727417803297364056176398614")
# standard deviations of a normal law that matter: beyond are e^-288, also to a piece of 1e-60
_REACH = 24
_FARTHEST = 60  # a tilt that moves a normal law farther belongs to deltas below 1e-700
_MOST_GAIN = 100  # an exponent: beyond, a mixture is no longer near 1
_DISCRETE_REACH = 32  # of a discrete Gaussian: enough for deltas of 1e-60 and less


class Unreached(Exception):
    """The truth about this event is out of reach here; the message says why."""


def mixed(loss: Any, q: Any) -> Longs:
    """``log(1 - q + q e^loss)``."""
    loss, q = np.asarray(loss, LONG), LONG(q)
    if q == 1:
        return loss
    gain = q * np.expm1(np.minimum(loss, _MOST_GAIN))
    near = np.log1p(np.clip(gain, -0.5, 0.5))  # right also where the whole is tiny
    return np.where(np.abs(gain) < 0.5, near, np.logaddexp(np.log1p(-q), np.log(q) + loss))


@dataclass(frozen=True)
class Law:
    """The privacy loss of one step in one direction: atoms, a density over a line, and a mass of
    infinite loss.

    ``density`` gives the logarithm of the density under ``P`` and the loss at places of the line,
    ``edges`` the panels of the line that can matter under ``P`` tilted by an order. The loss is
    monotone along the line. ``greatest`` is the least upper bound of the finite losses, ``exact``
    says that losses are not rounded, ``lost`` is what finite losses lack to a mass of 1 (None where
    they lack nearly all). ``square`` is ``1 / noise^2`` of a Gaussian mechanism, which needs
    nothing else. ``cut`` is the mass of atoms that were left out.
    """

    log_p: Longs
    loss: Longs
    infinite: Any = 0.0
    density: Callable[[Longs], tuple[Longs, Longs]] | None = None
    edges: Callable[[Any], Longs] | None = None
    greatest: Any = math.inf
    exact: bool = False
    lost: Any = 0.0
    square: Any = None
    cut: float = 0.0

    @property
    def is_atomic(self) -> bool:
        return self.density is None and self.square is None


_NONE = np.empty(0, LONG)


@dataclass(frozen=True)
class Normals:
    """``A = sum_i weights_i N(means_i, 1)``, ``B = N(0, 1)``: Gaussian noise, sampled or not, of
    one size or many.
    """

    weights: tuple[Fraction, ...]
    means: tuple[Any, ...]

    def sampled(self, q: float) -> Normals:
        kept = dict(zip(self.means, (Fraction(q) * w for w in self.weights), strict=True))
        kept[LONG(0)] = kept.get(LONG(0), Fraction(0)) + 1 - Fraction(q)
        means = tuple(sorted(m for m in kept if kept[m] > 0))
        return Normals(tuple(kept[m] for m in means), means)

    @property
    def is_gaussian(self) -> bool:
        return len(self.means) == 1

    @property
    def weight_at_zero(self) -> Fraction:
        return sum((w for w, m in zip(self.weights, self.means, strict=True) if m == 0), Fraction(0))

    def log_ratio(self, x: Longs) -> Longs:
        """``log dA/dB``, which rises with ``x``; in the precision of ``x``."""
        means, weights = (np.array(v, x.dtype) for v in (self.means, [long(w) for w in self.weights]))
        exponents = means * x[..., None] - means * means / 2
        gain = np.sum(weights * np.expm1(np.minimum(exponents, x.dtype.type(_MOST_GAIN))), axis=-1)
        near = np.log1p(np.clip(gain, -0.5, 0.5))  # right also where the whole is tiny
        large = np.logaddexp.reduce(exponents + np.log(weights), axis=-1)
        return np.where(np.abs(gain) < 0.5, near, large)

    def law(self, direction: str) -> Law:
        sign = 1 if direction == "remove" else -1
        most = max(self.means)

        means, logs = np.array(self.means, LONG), np.array([log_of(w) for w in self.weights], LONG)

        def density(x: Longs) -> tuple[Longs, Longs]:
            half = x.dtype.type(HALF_LOG_TWO_PI)
            if sign < 0:
                return -x * x / 2 - half, -self.log_ratio(x)
            log_terms = logs.astype(x.dtype) - (x[..., None] - means.astype(x.dtype)) ** 2 / 2
            return np.logaddexp.reduce(log_terms, axis=-1) - half, self.log_ratio(x)

        def edges(order: Any) -> Longs:
            tilted = order * most if sign > 0 else -order * most
            low = min(LONG(0), max(tilted, LONG(-_FARTHEST))) - _REACH
            high = most + max(LONG(0), min(tilted, LONG(_FARTHEST))) + _REACH
            return np.linspace(low, high, math.ceil((high - low) / 2) + 1, dtype=LONG)

        zero = self.weight_at_zero
        greatest = LONG(np.inf) if sign > 0 or zero == 0 else -log_of(zero)
        return Law(_NONE, _NONE, LONG(0), density, edges, greatest)


@dataclass(frozen=True)
class Laplaces:
    """``A = (1 - q) B + q Lap(1, scale)``, ``B = Lap(0, scale)``."""

    scale: float
    q: Fraction = Fraction(1)

    def sampled(self, q: float) -> Laplaces:
        return replace(self, q=self.q * Fraction(q))

    def law(self, direction: str) -> Law:
        sign = 1 if direction == "remove" else -1
        width = 1 / LONG(self.scale)

        def seen(log_b: Longs, base: Longs) -> tuple[Longs, Longs]:
            ratio = mixed(base, long(self.q)) if self.q < 1 else base
            return (log_b + ratio, ratio) if sign > 0 else (log_b, -ratio)

        def density(t: Longs) -> tuple[Longs, Longs]:
            return seen(-t * width + np.log(width / 2), (2 * t - 1) * width)

        def edges(order: Any) -> Longs:
            near = np.minimum(2.0 ** np.arange(-40, 0, dtype=LONG), LONG(0.5))
            fine = near[near * width > 0.3]  # graded towards both ends, where e^{t / scale} is steep
            return np.unique(np.concatenate(([LONG(0), LONG(1)], fine, 1 - fine)))

        half = np.log(LONG(0.5))
        log_p, loss = seen(np.array([half, half - width]), np.array([-width, width]))
        order = np.argsort(loss)
        return Law(log_p[order], loss[order], LONG(0), density, edges, np.max(loss))


@dataclass(frozen=True, eq=False)
class Atoms:
    """Outcomes with the logarithm of their mass under ``B`` and ``log dA/dB``; and masses that only
    one law has.

    ``ends`` are the bounds of ``log dA/dB``, None where the outcomes have them; ``cut`` is the mass
    of outcomes that were left out.
    """

    log_b: Longs
    log_ratio: Longs
    only_with: Any = 0.0
    only_without: Any = 0.0
    exact: bool = False
    ends: tuple[Any, Any] | None = None
    cut: float = 0.0

    def sampled(self, q: float) -> Atoms:
        log_b, ratio = self.log_b, mixed(self.log_ratio, q)
        if self.only_without > 0:
            log_b = np.append(log_b, np.log(self.only_without))
            ratio = np.append(ratio, np.log1p(-LONG(q)))
        ends = None if self.ends is None else (np.log1p(-LONG(q)), self.ends[1])
        return Atoms(log_b, ratio, self.only_with * LONG(q), LONG(0), ends=ends, cut=self.cut)

    def law(self, direction: str) -> Law:
        if direction == "remove":
            log_p, loss, infinite = self.log_b + self.log_ratio, self.log_ratio, self.only_with
        else:
            log_p, loss, infinite = self.log_b, -self.log_ratio, self.only_without
        held = np.isfinite(log_p)
        order = np.argsort(loss[held], kind="stable")
        loss = loss[held][order]
        greatest = loss[-1] if loss.size else LONG(-np.inf)
        if self.ends is not None:
            greatest = self.ends[1] if direction == "remove" else -self.ends[0]
        return Law(log_p[held][order], loss, infinite, greatest=greatest, exact=self.exact, lost=infinite, cut=self.cut)


Mechanism = Normals | Laplaces | Atoms


def long(number: Any) -> Any:
    """A rational number as a long double."""
    if isinstance(number, Fraction):
        high = LONG(float(number))
        return high + LONG(float(number - exact(high)))
    return LONG(number)


def exact(number: Any) -> Fraction:
    """A float or long double as the rational number that it is."""
    if isinstance(number, int | float | Fraction):
        return Fraction(number)
    mantissa, exponent = np.frexp(LONG(number))
    high = float(mantissa)
    low = float(mantissa - LONG(high))
    return (Fraction(high) + Fraction(low)) * Fraction(2) ** int(exponent)


def log_of(number: Fraction) -> Any:
    """The logarithm of a positive rational number, also near 1."""
    return np.log1p(long(number - 1)) if abs(number - 1) < Fraction(1, 2) else np.log(long(number))


# --- events ---------------------------------------------------------------------------------------


def mechanisms(event: Any) -> list[tuple[Mechanism, int]]:
    """What an event is made of, each with its count; classes of events are known by their names."""
    merged: dict[Any, list[Any]] = {}
    for mechanism, count, key in _leaves(event, 1):
        merged.setdefault(key, [mechanism, 0])[1] += count
    return [(mechanism, count) for mechanism, count in merged.values()]


def _leaves(event: Any, count: int) -> Iterator[tuple[Mechanism, int, Any]]:
    name = type(event).__name__
    if name == "SelfComposedDpEvent":
        yield from _leaves(event.event, count * event.count)
    elif name == "ComposedDpEvent":
        for child in event.events:
            yield from _leaves(child, count)
    elif name == "PoissonSampledDpEvent":
        if event.sampling_probability == 1:
            yield from _leaves(event.event, count)
        elif event.sampling_probability > 0:
            mechanism, key = _one(event.event)
            yield (mechanism.sampled(event.sampling_probability), count, (event.sampling_probability, key))
    elif name != "NoOpDpEvent":
        mechanism = MAKERS[name](event)
        if mechanism is not None:
            yield mechanism, count, repr(event)


def _one(event: Any) -> tuple[Mechanism, Any]:
    """The one mechanism under a sampling; a composition of Gaussians is one Gaussian."""
    inside = list(_leaves(event, 1))
    if len(inside) == 1 and inside[0][1] == 1:
        return inside[0][0], inside[0][2]
    if not all(isinstance(m, Normals) and m.is_gaussian for m, *_ in inside):
        raise Unreached("Poisson sampling of a composition")
    mean = np.sqrt(sum((count * m.means[0] ** 2 for m, count, _ in inside), LONG(0)))
    return Normals((Fraction(1),), (mean,)), repr(event)


def _gaussian(event: Any) -> Mechanism:
    return Normals((Fraction(1),), (1 / LONG(event.noise_multiplier),))


def _laplace(event: Any) -> Mechanism:
    return Laplaces(float(event.noise_multiplier))


def _mixture(event: Any) -> Mechanism | None:
    total = sum((Fraction(float(w)) for w in event.sampling_probs), Fraction(0))
    weights: dict[Any, Fraction] = {}
    for sensitivity, weight in zip(event.sensitivities, event.sampling_probs, strict=True):
        mean = LONG(float(sensitivity)) / LONG(float(event.standard_deviation))
        if weight > 0:
            weights[mean] = weights.get(mean, Fraction(0)) + Fraction(float(weight)) / total
    means = tuple(sorted(weights))
    return Normals(tuple(weights[m] for m in means), means) if means[-1] > 0 else None


def _randomized_response(event: Any) -> Mechanism | None:
    buckets, noise = event.num_buckets, LONG(event.noise_parameter)
    if buckets == 1 or noise == 1:
        return None
    other = noise / buckets
    loss = np.log1p((1 - noise) / other)
    b, ratio = [1 - noise + other, other], [-loss, loss]
    if buckets > 2:
        b, ratio = [*b, (buckets - 2) * other], [*ratio, LONG(0)]
    return Atoms(np.log(np.array(b, LONG)), np.array(ratio, LONG))


def _epsilon_delta(event: Any) -> Mechanism:
    epsilon, delta = LONG(event.epsilon), LONG(event.delta)
    high = np.log1p(-delta) - np.log1p(np.exp(-epsilon))
    log_b, ratio = np.array([high, high - epsilon]), np.array([-epsilon, epsilon])
    return Atoms(log_b, ratio, delta, delta, exact=True)


def _discrete_laplace(event: Any) -> Mechanism:
    a, shift = LONG(event.noise_parameter), event.sensitivity
    x = np.arange(shift + 1, dtype=LONG)
    log_b = np.log(np.tanh(a / 2)) - a * x
    log_b[0] = -np.log1p(np.exp(-a))
    log_b[-1] = -np.log1p(np.exp(-a)) - a * shift
    return Atoms(log_b, a * (2 * x - shift))


def _discrete_gaussian(event: Any) -> Mechanism:
    sigma, shift = LONG(event.sigma), event.sensitivity
    reach = math.ceil(_DISCRETE_REACH * sigma) + 3
    if 2 * reach + shift > TOO_MANY_ATOMS:
        raise Unreached(f"a discrete Gaussian of {2 * reach + shift} outcomes")
    x = np.arange(-reach, shift + reach + 1, dtype=LONG)
    log_b = -((x / sigma) ** 2) / 2
    norm = np.log1p(2 * np.sum(np.exp(-((np.arange(1, reach + 1, dtype=LONG) / sigma) ** 2) / 2)))
    ends, cut = (LONG(-np.inf), LONG(np.inf)), math.exp(-(_DISCRETE_REACH**2) / 2)
    return Atoms(log_b - norm, shift * (2 * x - shift) / (2 * sigma**2), ends=ends, cut=cut)


MAKERS: dict[str, Callable[[Any], Mechanism | None]] = {
    "GaussianDpEvent": _gaussian,
    "LaplaceDpEvent": _laplace,
    "MixtureOfGaussiansDpEvent": _mixture,
    "RandomizedResponseDpEvent": _randomized_response,
    "AnswerDpEvent": _randomized_response,
    "EpsilonDeltaDpEvent": _epsilon_delta,
    "DiscreteLaplaceDpEvent": _discrete_laplace,
    "DiscreteGaussianDpEvent": _discrete_gaussian,
}
