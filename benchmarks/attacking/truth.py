"""Delta of an event at an epsilon in one direction, by means that share nothing with evr, and what
it may be wrong by.

One step, or Gaussian mechanisms only, by their closed form with 120 digits (``single``); finitely
many outcomes by convolution and enumeration (``enumeration``); trainings in bins by Laplace
transforms (``bins``); everything else by contour integrals (``contour``, ``split``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from attacking import bins, enumeration, single, split
from attacking.composition import Composition, Tilts
from attacking.contour import Revivals, integrate, log_kernel
from attacking.laws import LONG, Atoms, Law, Unreached, exact, mechanisms
from attacking.tilted import EPS, Complexes, Floats

_PI = LONG("3.14159265358979323846264338327950288")
_LEAST_LOG = -740.0
_GOOD = 1e-9  # a relative error that needs no second way


@dataclass(frozen=True)
class Truth:
    """``value`` is delta, ``error`` what it may be wrong by, ``way`` how it was found."""

    value: float
    error: float
    way: str

    @property
    def relative(self) -> float:
        return self.error / self.value if self.value > 0 else (0.0 if self.error == 0 else math.inf)

    def plus(self, infinite: float) -> Truth:
        return Truth(self.value + infinite, self.error + 1e-17 * infinite, self.way)


def truth(event: Any, epsilon: float, direction: str, seconds: float = 20.0) -> Truth:
    """delta of ``event`` at ``epsilon``, infinite losses included; raise ``Unreached`` where there
    is none.
    """
    if (parts := bins.split(event)) is not None:
        value, error = bins.delta(*parts, epsilon, direction, seconds)
        return Truth(max(value, 0.0), error, "Laplace transforms")
    composition = Composition.of(event, direction)
    infinite = float(composition.infinite)
    if not composition.parts or composition.greatest <= exact(epsilon):
        return Truth(0.0, 0.0, "no finite loss exceeds epsilon").plus(infinite)
    made_of = mechanisms(event)
    if all(law.square is not None for law, _ in composition.parts):
        gaussian = single.gaussian(np.sqrt(composition.parts[0][0].square))
        return Truth(single.delta(gaussian, epsilon, direction), 0.0, "closed form")
    if len(made_of) == 1 and made_of[0][1] == 1 and not isinstance(made_of[0][0], Atoms):
        return Truth(single.delta(made_of[0][0], epsilon, direction), 0.0, "closed form")
    return of_composition(composition, epsilon, seconds)


def of_composition(composition: Composition, epsilon: float, seconds: float = 20.0) -> Truth:
    """The same of laws that are known."""
    infinite = float(composition.infinite)
    if not composition.parts or composition.greatest <= exact(epsilon):
        return Truth(0.0, 0.0, "no finite loss exceeds epsilon").plus(infinite)
    if all(law.square is not None for law, _ in composition.parts):
        gaussian = single.gaussian(np.sqrt(composition.parts[0][0].square))
        return Truth(single.delta(gaussian, epsilon, "remove"), 0.0, "closed form")
    found = Truth(math.nan, math.inf, "none")
    if composition.is_atomic and sum(count for _, count in composition.parts) == 1:
        found = _of_one_step(composition.parts[0][0], epsilon)
    elif composition.is_atomic:
        found = _better(found, lambda: enumeration.delta(composition, composition.saddle(epsilon), epsilon))
    for way in _ways(composition, epsilon, seconds):
        if found.relative > _GOOD:
            found = _better(found, way)
    if not math.isfinite(found.error):
        raise Unreached("no way led to it")
    if not -found.error <= found.value <= 1 + 1e-12 + found.error:
        raise Unreached("what was found is no probability")
    cut = sum(count * law.cut for law, count in composition.parts)
    return replace(found, error=found.error + cut).plus(infinite)


def _of_one_step(law: Law, epsilon: float) -> Truth:
    """The sum over the atoms of one step."""
    above = law.loss - LONG(epsilon)
    gains = np.exp(law.log_p[above > 0]) * -np.expm1(-above[above > 0])
    value = float(np.sum(gains))
    rounding = float(EPS * np.sum(np.exp(law.log_p[above > 0]) * np.abs(law.loss[above > 0])))
    return Truth(value, 1e-16 * value + 8 * rounding, "sum over outcomes")


def _ways(composition: Composition, epsilon: float, seconds: float) -> list[Callable[[], Truth]]:
    """Contours, the likeliest to succeed first."""
    ways = [partial(contour, seconds=0.15 * seconds), partial(apart, seconds=0.45 * seconds)]
    if any(len(split.atoms_apart(law, count, epsilon)) > 1 for law, count in composition.parts):
        smooth = any(law.square is not None or not law.log_p.size for law, _ in composition.parts)
        ways.insert(2 if smooth else 0, partial(apart, seconds=0.2 * seconds, cutter=split.atoms_apart))
    return [partial(way, composition, epsilon) for way in [*ways, partial(contour, seconds=0.2 * seconds)]]


def _better(found: Truth, way: Callable[[], Truth | None]) -> Truth:
    try:
        other = way()
    except (Unreached, ArithmeticError, ValueError):  # floats that ended on the way
        return found
    if other is None or not other.error < found.error or not math.isfinite(other.value):
        return found
    return other


_AROUND = np.linspace(-20.0, 20.0, 17)
_FEW_TURNS = 31  # of a period, where spikes are wide
_MOST_NEW = 60  # revivals that are integrated, however late they come
_DEAD = -40.0  # the logarithm of a modulus that no longer matters
_NARROW = 100.0  # a spike: this many times shorter than its period
_MORE = 0.1  # than the revival before: a new one
_ELSEWHERE = 0.8  # of the distance from the pole: where the second contour runs


def contour(composition: Composition, epsilon: float, seconds: float, order: Any = None) -> Truth:
    """By a contour integral through a saddle point, and by another one beside it: they are the same
    but for errors. An order below -1 gives ``E[(e^{eps - Y} - 1)_+]`` instead.
    """
    order = composition.saddle(epsilon) if order is None else order
    found = _contour(composition, epsilon, seconds / 2, order)
    if found.value == 0.0:
        return found
    beside = _ELSEWHERE * order if order > 0 else -1 - _ELSEWHERE * (-1 - order)
    other = _contour(composition, epsilon, seconds / 2, beside)
    apart_by = abs(found.value - other.value)
    if apart_by > _GOOD * abs(found.value):  # both may be wrong by more than they differ
        apart_by *= 8
    return replace(found, error=found.error + apart_by)


def _contour(composition: Composition, epsilon: float, seconds: float, order: Any) -> Truth:
    deadline = time.process_time() + seconds
    distance = float(order if order > 0 else -1 - order)
    tilts = composition.tilted(order)
    excess = composition.excess(tilts, epsilon)
    if order > 0 and composition.log_scale(tilts, order, excess) < _LEAST_LOG:
        return Truth(0.0, 0.0, "below the least float")
    spread = math.sqrt(composition.variance(tilts))
    scale = 1.0 / max(1 / distance, spread, abs(float(excess)))
    reach = 30 * scale
    tilts = composition.tilted(order, reach)
    counts = [count for _, count in composition.parts]

    def log_integrand(u: Floats) -> Complexes:
        nonlocal tilts, reach
        if u.max() > reach:
            reach = 4 * float(u.max())
            tilts = composition.tilted(order, reach)
        total = log_kernel(u, float(order)) + 1j * u * float(excess)
        for tilted, count in zip(tilts, counts, strict=True):
            total = total + count * tilted.log_ratio(u)
        return total

    revivals, doubt = _revivals(tilts, log_integrand, float(order), spread)
    integral = integrate(log_integrand, distance, scale, deadline, revivals)
    if not math.isfinite(integral.error):
        raise Unreached("no time for the integral")
    factor = np.exp(composition.log_scale(tilts, order, excess) - np.log(order * (order + 1)) - np.log(_PI))
    value = float(factor * integral.value)
    rounded = sum(
        count * (abs(t.log_scale) + abs(order) * (0 if law.exact else abs(t.mean)))
        for t, (law, count) in zip(tilts, composition.parts, strict=True)
    )
    relative = 8 * float(EPS) * (float(rounded) + 20 * math.sqrt(sum(counts)))
    error = float(factor * (integral.error + scale * doubt)) + relative * abs(value)
    return Truth(value, error, "contour")


def _revivals(
    tilts: Tilts, log_integrand: Callable[[Floats], Complexes], order: float, spread: float
) -> tuple[Revivals, float]:
    """Where the integrand may come to life again, and about the sum of its moduli elsewhere: at
    weaker places, and at multiples beyond those that were looked at. Moduli fall with the square:
    the sum over all beyond a place is that over the later half before it.
    """
    found, doubt = [], 0.0
    lasting = all(tilted.turns > 2 for tilted in tilts)
    for tilted in tilts:
        for period in tilted.periods:
            many = lasting and period * spread > _NARROW
            turns = tilted.turns if many else min(tilted.turns, _FEW_TURNS)
            places = period * np.arange(1.0, turns + 1)
            try:
                heights = log_integrand(places).real
                if many:
                    doubt += float(np.sum(np.exp(heights[turns // 2 :])))
                places = places[heights > _DEAD]
                if not places.size:
                    continue
                around = places[:, None] + _AROUND / np.maximum(spread, 1 / places)[:, None]
                heights = log_integrand(np.abs(around).ravel()).real.reshape(around.shape).max(1)
            except Unreached:  # what a density would take off is not known
                heights = log_kernel(places, order).real
            alive = np.append(-np.inf, heights - log_kernel(places, order).real)
            reach = _AROUND[-1] / np.maximum(spread, 1 / places)
            found.append(Revivals(places, reach, heights, alive[1:] > alive[:-1] + _MORE))
    revivals, left_out = Revivals.joined(found).strongest(_MOST_NEW)
    return revivals, doubt + left_out


def apart(composition: Composition, epsilon: float, seconds: float, cutter: split.Cutter = split.rare_apart) -> Truth:
    """By contour integrals over compositions of pieces of laws."""
    deadline = time.process_time() + seconds
    terms, error = split.terms(composition, epsilon, cutter)
    value, plans = 0.0, []
    for term in terms:  # the largest bounds first
        plan = None
        if term.log_bound > _log(1e-14 * value) and time.process_time() < deadline:
            plan = term.plan(epsilon)
        if plan is None:
            error += math.exp(min(term.log_bound, 0.0))
            continue
        plans.append((plan, term))
    for plan, term in sorted(plans, key=lambda pair: -pair[0].log_size):
        number, most = math.exp(term.log_number), math.exp(min(term.log_bound, 0.0))
        sure, doubt = (0.0, 0.0)
        if plan.side < 0:
            sure, doubt = (float(x) for x in term.composition.without_doubt(epsilon))
        if plan.log_size < _log(1e-16 * value):
            value += number * sure
            error += number * doubt + 100 * math.exp(plan.log_size)  # its size is known roughly
            continue
        try:
            part = _of_term(term.composition, epsilon, deadline - time.process_time(), plan)
        except Unreached:
            value += number * sure
            error += number * doubt + min(math.exp(min(plan.log_size + 5.0, 0.0)), most)
            continue
        share, wrong = number * (sure + part.value), number * (doubt + part.error)
        if not -wrong <= share <= most + wrong + 1e-9 * most:
            share, wrong = 0.0, most
        value, error = value + share, error + wrong
    return Truth(value, max(error, 1e-12 * abs(value)), "contours")


def _of_term(composition: Composition, epsilon: float, seconds: float, plan: split.Plan) -> Truth:
    if plan.side > 0 and composition.is_atomic:
        found = enumeration.delta(composition, plan.order, epsilon)
        if found is not None:
            return found
    return contour(composition, epsilon, seconds, plan.order)


def _log(number: float) -> float:
    return math.log(number) if number > 1e-320 else -math.inf
