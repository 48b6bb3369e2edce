"""Delta of balls in bins, alone and beside one other kind of step, from Laplace transforms.

A training with ``b`` bins has the ratio ``L``, a mean of ``b`` log-normal ratios ``A`` of energy
``g``, epochs over the square of the noise. ``Phi(t) = E[e^{-tL}] = E[e^{-tA/b}]^b`` is known for
all ``t`` but those left of 0; along a hyperbola around these,

    E[(k - L)_+] = 1/(2 pi i) int e^{tk} Phi(t) / t^2 dt = E[(L - k)_+] - 1 + k

Delta is ``E[(L - e^epsilon)_+]`` where the record is removed and ``e^epsilon E[(e^-epsilon -
L)_+]`` where it is added. The first has an error of some 1e-15, whatever it is. Beside another
step, epsilon less that step's loss takes the place of epsilon, and its law is averaged over by two
rules.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from dp_accounting import dp_event
from scipy.optimize import brentq

from attacking.laws import LONG, Laplaces, Mechanism, Normals, Unreached, mechanisms
from attacking.tilted import Complexes, Floats

NAME = "BallsInBinsDpEvent"
_MOST_TURN = 3.0  # by which a normal law is moved off the real axis: costs e^{9/2} of rounding
_LEFT = 0.4  # how far hyperbolas bend to the left
_FAR = np.arange(0.0, 60.0, 0.25)
_MOST_NODES = 2**13
_HERMITE, _LEGENDRE = (24, 36), (7, 10)
_FINE = 10_001  # places by which the loss is inverted: edges of panels need not be exact
_NEAR = np.array([-16.0, -6.0, -2.5, 0.0, 2.5, 6.0, 16.0])  # deviations of a ratio where its delta bends
_ROUNDED = 1e-15
_CERTAIN = 45.0
_DOUBT = 10.0  # two rules that differ may both be wrong by more


def split(event: Any) -> tuple[Any, Any] | None:
    """The training in bins and everything else; None where there is no such training."""
    leaves = list(_leaves(event))
    trainings = [leaf for leaf in leaves if type(leaf).__name__ == NAME]
    if not trainings:
        return None
    if len(trainings) > 1:
        raise Unreached("more than one training in bins")
    others = [leaf for leaf in leaves if leaf is not trainings[0]]
    return trainings[0], dp_event.ComposedDpEvent(others)


def losses(event: Any, rng: np.random.Generator, size: int) -> Floats:
    """Draws of the loss of one training where the record is removed."""
    energy = event.iterations / event.cycle_length / event.noise_multiplier**2
    exponents = rng.standard_normal((size, event.cycle_length)) * math.sqrt(energy)
    exponents[:, 0] += energy
    found: Floats = np.logaddexp.reduce(exponents, axis=1)
    return found - math.log(event.cycle_length) - energy / 2


def _leaves(event: Any) -> Iterator[Any]:
    if type(event).__name__ == "ComposedDpEvent":
        for child in event.events:
            yield from _leaves(child)
    else:
        yield event


def delta(training: Any, others: Any, epsilon: float, direction: str, seconds: float) -> tuple[float, float]:
    """Delta and what it may be wrong by."""
    if training.iterations % training.cycle_length:
        raise Unreached("a cycle that is not whole")
    epochs = training.iterations // training.cycle_length
    law = Ratio(training.cycle_length, epochs / training.noise_multiplier**2)
    gain = law.removed if direction == "remove" else law.added
    deadline = time.process_time() + seconds
    found = []
    for infinite, masses, losses in _rules(mechanisms(others), direction, epsilon + law.width * _NEAR):
        value = error = 0.0
        for mass, loss in zip(masses.tolist(), losses.tolist(), strict=True):
            try:
                part, wrong = gain(epsilon - loss, deadline)
            except Unreached:
                part, wrong = 0.0, 1.0
            value, error = value + mass * part, error + mass * wrong
        found.append((value + infinite, error + _ROUNDED * (value + infinite)))
    (coarse, _), (fine, error) = found[0], found[-1]
    return fine, error + _DOUBT * abs(fine - coarse)


_Rule = tuple[float, Floats, Floats]


def _rules(others: list[tuple[Mechanism, int]], direction: str, steep: Floats) -> list[_Rule]:
    """The mass of infinite losses, masses and losses of the other steps, coarse and fine. Panels end at the losses
    ``steep``, between which delta of the training is smooth.
    """
    if not others:
        return [(0.0, np.ones(1), np.zeros(1))]
    gaussians = [(m, count) for m, count in others if isinstance(m, Normals) and m.is_gaussian]
    if len(gaussians) == len(others):
        mean = np.sqrt(sum((count * m.means[0] ** 2 for m, count in gaussians), LONG(0)))
        one = Normals((Fraction(1),), (mean,))
        return [_of_normals(one, direction, size) for size in _HERMITE]
    if len(others) > 1 or others[0][1] > 1:
        raise Unreached("bins beside more than one other step")
    mechanism = others[0][0]
    if isinstance(mechanism, Normals):
        return [_of_normals(mechanism, direction, size) for size in _HERMITE]
    law = mechanism.law(direction)
    masses, losses = np.exp(law.log_p).astype(float), law.loss.astype(float)
    if not isinstance(mechanism, Laplaces):
        return [(float(law.infinite), masses, losses)]
    return [(0.0, *_with_density(law, masses, losses, steep, size)) for size in _LEGENDRE]


def _of_normals(mechanism: Normals, direction: str, size: int) -> _Rule:
    places, weights = np.polynomial.hermite_e.hermegauss(size)
    weights = weights / math.sqrt(2 * math.pi)
    if direction == "add":
        return 0.0, weights, -mechanism.log_ratio(places)
    parts = [
        (float(weight) * weights, mechanism.log_ratio(places + float(mean)))
        for weight, mean in zip(mechanism.weights, mechanism.means, strict=True)
    ]
    return 0.0, np.concatenate([m for m, _ in parts]), np.concatenate([y for _, y in parts])


def _with_density(law: Any, masses: Floats, losses: Floats, steep: Floats, size: int) -> tuple[Floats, Floats]:
    x, weights = np.polynomial.legendre.leggauss(size)
    edges = law.edges(0).astype(float)
    places = np.linspace(edges[0], edges[-1], _FINE)
    found = law.density(places)[1].astype(float)
    order = np.argsort(found)  # losses rise or fall
    edges = np.union1d(edges, np.interp(steep, found[order], places[order]))
    half = np.diff(edges)[:, None] / 2
    log_p, loss = law.density((edges[:-1, None] + half * (1 + x)).ravel())
    own = np.exp(log_p.astype(float)) * (half * weights).ravel()
    return np.concatenate((masses, own)), np.concatenate((losses, loss.astype(float)))


@dataclass(frozen=True)
class Ratio:
    """``L`` of one training."""

    bins: int
    energy: float

    @property
    def width(self) -> float:
        """The deviation of ``L``."""
        return math.sqrt(math.expm1(min(self.energy, 700.0)) / self.bins)

    def removed(self, epsilon: float, deadline: float) -> tuple[float, float]:
        """``E[(L - e^epsilon)_+]``, and its error."""
        if epsilon < -_CERTAIN:
            return 1.0, math.exp(epsilon)
        k = math.exp(epsilon)
        value, error = self._below(k, deadline)
        return value + 1.0 - k, error + _ROUNDED * (1.0 + k)

    def added(self, epsilon: float, deadline: float) -> tuple[float, float]:
        """``E[(1 - e^epsilon L)_+]``, and its error."""
        if epsilon < -_CERTAIN:
            return 1.0, math.exp(epsilon)
        k = math.exp(-epsilon)
        value, error = self._below(k, deadline)
        return value / k, error / k

    def _below(self, k: float, deadline: float) -> tuple[float, float]:
        """``E[(k - L)_+]``, and its error."""
        slope, bend = self._saddle(k)
        at = complex(self._log_transform(np.array([slope + 0j]))[0]).real

        def integrand(x: Floats) -> Complexes:
            away = (1j * np.sinh(x) - _LEFT * (np.cosh(x) - 1.0)) / bend
            rate = (1j * np.cosh(x) - _LEFT * np.sinh(x)) / (1j * bend)
            log_size = self._log_transform(slope + away) - at + away * k
            found: Complexes = np.exp(log_size) * rate / (1.0 + away / slope) ** 2
            return found

        held = np.flatnonzero(np.abs(integrand(_FAR)) > 1e-19)
        if not held.size:
            raise Unreached("an integrand that floats do not hold")
        end = 1.0 + held[-1] * _FAR[1]
        before, size = math.inf, 64
        while size <= _MOST_NODES:
            x = np.linspace(0.0, end, size + 1)
            terms = integrand(x) * (end / size)
            terms[0] /= 2
            found = float(np.sum(terms.real))
            change = abs(found - before)
            rounded = _ROUNDED * (10.0 + self.bins + slope * k) * float(np.sum(np.abs(terms)))
            if change <= 10 * rounded:
                factor = math.exp(at + slope * k) / (math.pi * slope**2)
                return factor * found, factor * (_DOUBT * change + rounded)
            if time.process_time() > deadline:
                break
            before, size = found, 2 * size
        raise Unreached("an integral that does not settle")

    def _saddle(self, k: float) -> tuple[float, float]:
        """Where ``e^{tk} Phi(t) / t^2`` is least on the real axis, and how sharply."""

        def size(log_slope: float, step: float) -> Floats:
            t = np.exp(log_slope + step * np.arange(-1.0, 2.0))
            return self._log_transform(t + 0j).real + t * k - 2 * np.log(t)

        def rising(log_slope: float) -> float:
            sizes = size(log_slope, 1e-3)
            if not np.all(np.isfinite(sizes)):
                raise Unreached("a place that is too far out")
            return float(sizes[2] - sizes[0])

        low = high = -math.log(k)
        while rising(low) > 0:
            low -= 2.0
        while rising(high) < 0:
            high += 2.0
        middle = brentq(rising, low, high, xtol=1e-2) if low < high else low
        sizes = size(middle, 0.02)
        return math.exp(middle), math.sqrt(max(2.0, np.diff(sizes, 2)[0] / 4e-4)) / math.exp(middle)

    def _log_transform(self, t: Complexes) -> Complexes:
        """``log Phi(t)``; ``A`` is turned such that ``t A`` is nearly positive."""
        deviation = math.sqrt(self.energy)
        v = np.arange(-14.0, 14.0, min(0.1, 0.25 / deviation))
        turn = -np.clip(np.angle(t) / deviation, -_MOST_TURN, _MOST_TURN)[:, None]
        moved = v + 1j * turn
        weights = np.exp(-(moved**2) / 2) * ((v[1] - v[0]) / math.sqrt(2 * math.pi))
        z = t[:, None] / self.bins * np.exp(deviation * moved - self.energy / 2)
        near = np.abs(t) < self.bins
        found = np.empty(t.size, complex)
        found[near] = np.log1p(np.sum(weights[near] * np.expm1(-z[near]), axis=1))
        with np.errstate(divide="ignore", invalid="ignore"):
            found[~near] = np.log(np.sum(weights[~near] * np.exp(-z[~near]), axis=1))
            return self.bins * found
