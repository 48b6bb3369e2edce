"""Epsilon after every step of a training run, in one pass.

The logarithm of the tilted sum's Fourier transform is linear in the counts; one inverse transform
and a short root search, started at the epsilon before, give the next epsilon. Tilt and grid are
chosen anew when some count has grown by a quarter.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq

from evr import validate
from evr.bounds.moments import log_peak
from evr.estimation.api import Epsilon, directions_of, epsilon_of
from evr.estimation.atoms import atoms_of
from evr.estimation.counting import Count, counter
from evr.estimation.discretise import log_mgf
from evr.estimation.fft import FftCurve, read, refine
from evr.estimation.grid import Frame
from evr.estimation.tilting import plan_tilt, widened
from evr.estimation.timeline import timeline
from evr.laws import DominatingPair, Floats, Pairs, Step, infinite_mass, line_pair
from evr.mechanisms import Composition
from evr.mechanisms.relations import Relation

_FROM_SCRATCH = 3  # so few steps are computed one by one
_GROWTH = 1.25
_ACCURATE = 1e-5  # what a frame's error may be, relative to delta
_MOST_REPORTS = 1_000_000
_ORDERS = tuple(2.0**n for n in range(11))


@dataclass(frozen=True)
class OnlineEpsilon:
    """Epsilon after every step.

    Attributes
    ----------
    steps
        Numbers of steps: 1, 2, 3, ... (or every so many).
    epsilons
        Epsilon after that many steps, the greater of both directions.
    errors
        Estimated absolute numerical errors of the epsilons, for ``fft``; None for Monte Carlo.
    standard_errors
        For Monte Carlo; None for ``fft``.
    delta, method, seconds
        As given, and the time taken.
    """

    steps: np.ndarray[Any, np.dtype[np.int64]]
    epsilons: Floats
    delta: float
    method: str
    seconds: float
    standard_errors: Floats | None = None
    errors: Floats | None = None


def online_epsilon(
    event: Any,
    delta: float,
    *,
    method: str = "fft",
    every: int = 1,
    direction: str | None = None,
    neighboring_relation: Relation | None = None,
    progress: Count | bool | None = None,
    **options: Any,
) -> OnlineEpsilon:
    """Epsilon after every step of ``event``, in the order in which its mechanisms run.

    Parameters
    ----------
    event
        A ``DpEvent`` tree; compositions that change as they go are fine.
    delta
        In (0, 1).
    method
        ``"fft"``, or ``"monte_carlo"`` (options: ``samples``, ``seed``, ``proposal``, ``workers``).
    every
        Report after every so many steps, and after the last.
    direction
        ``"remove"`` or ``"add"``; by default the greater of the two.
    neighboring_relation
        As of ``evr.estimate_delta``.
    progress
        Called with the steps done and their total after each report; True shows a line.

    Returns
    -------
    OnlineEpsilon
        The steps that are reported, and epsilon after each.

    Raises
    ------
    UnsupportedEventError, AccuracyError, ValueError, TypeError
        As of ``evr.estimate_delta``; and where steps have no order, or none on a line.

    Examples
    --------
    >>> import evr
    >>> event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=100)
    >>> online = evr.online_epsilon(event, delta=1e-9)
    >>> len(online.epsilons), round(float(online.epsilons[-1]), 4)
    (100, 0.2812)
    """
    start = time.perf_counter()
    delta = validate.normal_delta(validate.open_probability(delta=delta))
    every = validate.positive_integer(every=every)
    validate.one_of(("fft", "monte_carlo"), method=method)
    count_steps = counter(progress)
    composition = Composition.of(event, neighboring_relation)
    if method == "monte_carlo":
        from evr.estimation.mc_online import monte_carlo_online

        return monte_carlo_online(
            event,
            delta,
            every=every,
            direction=direction,
            neighboring_relation=composition.relation,
            progress=count_steps,
            **options,
        )
    if options:
        raise TypeError(
            f"method='fft' takes no option {sorted(options)[0]!r}: options belong to 'monte_carlo'"
        )
    runs = {one: _Run(delta) for one in directions_of(composition, direction)}
    numbers, values = [], []
    order = timeline(event, composition.relation)
    last = checked_reports(order, every)
    done = 0
    for pairs, count in order:
        for chunk in _chunks(done, count, every):
            done += chunk
            if pairs is not None:
                for one, run in runs.items():
                    run.advance(line_pair(pairs.of(one)), chunk)
            if done % every == 0 or done == last:
                numbers.append(done)
                values.append(_greatest(list(runs.values())))
                if count_steps is not None:
                    count_steps(done, last)
    epsilons, errors = np.array(values).T
    return OnlineEpsilon(
        np.array(numbers), epsilons, delta, "fft", time.perf_counter() - start, errors=errors
    )


def checked_reports(order: list[tuple[Pairs | None, int]], every: int) -> int:
    """How many steps there are; too many reports are refused, and none at all."""
    total = sum(count for _, count in order)
    if total == 0:
        raise ValueError(
            "the event is an empty composition: no step ran, so there is none to report epsilon "
            "after; give at least one mechanism"
        )
    if total // every > _MOST_REPORTS:
        raise ValueError(
            f"{total} steps with every={every} are {total // every} reports, more than "
            f"{_MOST_REPORTS}: report less often (every={-(-total // 1000)})"
        )
    return total


def _chunks(done: int, count: int, every: int) -> Iterator[int]:
    """Cut a run of equal steps where something is to be reported."""
    left = count
    while left:
        chunk = min(left, every - done % every)
        yield chunk
        done, left = done + chunk, left - chunk


def _greatest(runs: list[_Run]) -> Epsilon:
    best, error = 0.0, 0.0
    for run in runs:
        if run.exceeds(best):
            found = run.epsilon()
            best, error = max(best, found.value), max(error, found.error)
    return Epsilon(best, error)


class _Run:
    """One direction of a running composition."""

    def __init__(self, delta: float) -> None:
        self.delta = delta
        self._counts: dict[DominatingPair, int] = {}
        self._frame: Frame | None = None
        self._limits: dict[DominatingPair, int] = {}
        self._previous = 0.0
        self._order = 0.0
        self._reached = 0.0  # error of the frame's grid, relative to delta

    def advance(self, pair: DominatingPair, count: int) -> None:
        if pair not in self._counts:
            self._frame = None
        self._counts[pair] = self._counts.get(pair, 0) + count

    @property
    def _steps(self) -> tuple[Step, ...]:
        return tuple(Step(pair, count) for pair, count in self._counts.items())

    def exceeds(self, epsilon: float) -> bool:
        """Whether epsilon is greater than the given one. A moments bound says mostly not, and costs
        little.
        """
        if epsilon <= 0:
            return bool(self._counts)
        if infinite_mass(self._steps) == 0:
            for order in (self._order, *_ORDERS):
                if order > 0 and self._moments_bound(order, epsilon) <= self.delta:
                    self._order = order
                    return False
        found = FftCurve(Composition(self._steps, ()).simplified("remove")).delta(epsilon)
        return found.value + found.error > self.delta

    def _moments_bound(self, order: float, epsilon: float) -> float:
        exponent = (
            math.fsum(count * _log_mgf(pair, order) for pair, count in self._counts.items())
            - order * epsilon
        )
        exponent += log_peak(order)
        return math.exp(min(exponent, 0.0))

    def epsilon(self) -> Epsilon:
        """The least epsilon after the steps so far."""
        steps = self._steps
        folded = Composition(steps, ()).simplified("remove")
        total = sum(step.count for step in steps)
        found = None
        if (
            total > _FROM_SCRATCH
            and not len(folded) == folded[0].count == 1
            and infinite_mass(steps) == 0
        ):
            fits = all(step.count <= self._limits.get(step.pair, 0) for step in steps)
            found = self._solve(steps) if self._frame is not None and fits else None
            if found is None:
                self._renew(steps)
                found = self._solve(steps) if self._frame is not None else None
        if found is None:
            found = epsilon_of(FftCurve(folded), self.delta, guess=self._previous or None)
        self._previous = found.value
        return found

    def _renew(self, steps: tuple[Step, ...]) -> None:
        """A frame for the steps to come, whichever of the pairs they repeat; none where it would
        not be accurate.
        """
        centre = 1.02 * self._previous
        plan = plan_tilt(steps, centre, reach=1.3) if 0 < centre < math.inf else None
        self._limits = {step.pair: math.ceil(_GROWTH * step.count) for step in steps}
        self._frame = None
        if plan is not None:
            grown = [Step(step.pair, self._limits[step.pair]) for step in steps]
            for one in range(len(steps) if len(steps) > 1 else 0):
                plan = widened(plan, (*steps[:one], grown[one], *steps[one + 1 :]))
            plan = widened(plan, tuple(grown))
            flat = all(len(step.pair.flats) for step in steps)
            atoms = atoms_of(steps, cap=plan.cap) if flat else None
            frame, _, _, reached = refine(plan, steps, atoms, centre)
            if reached.error <= _ACCURATE * reached.value:
                self._frame, self._reached = frame, reached.error / reached.value

    def _solve(self, steps: tuple[Step, ...]) -> Epsilon | None:
        """A root near the epsilon before; None if the frame does not reach it."""
        assert self._frame is not None
        law = self._frame.law(steps)
        cap = self._frame.plan.cap
        atoms = atoms_of(steps, cap=cap) if law.atoms is not None else None

        def gap(epsilon: float) -> float:
            return math.log(max(read(law, atoms, epsilon).value, 1e-320)) - math.log(self.delta)

        low, high = self._previous, 1.01 * self._previous
        while gap(high) > 0:
            low, high = high, 1.1 * high
            if not law.covers(high):
                return None
        if gap(low) < 0:
            return None
        value = float(brentq(gap, low, high, xtol=1e-300, rtol=1e-10))
        found = read(law, atoms, value)
        off = found.numerical + 2.0 * self._reached * found.value
        if off > 2.0 * _ACCURATE * found.value or found.slope == 0.0:
            return None
        return Epsilon(value, 1.1 * off / found.slope + found.moved + 1e-10 * value)


@lru_cache(maxsize=256)
def _log_mgf(pair: DominatingPair, order: float) -> float:
    return log_mgf(pair, order)
