"""``online_epsilon``: epsilon after every step, computed at a few and interpolated.

After ``k`` steps of one kind, ``earlier`` steps having run before, epsilon is smooth in ``log(k + earlier)``: a
polynomial through some 30 Chebyshev points serves 15,000 steps. Each block of steps is checked at a point that its
polynomial has not seen; where that misses by more than ``TOLERANCE``, it gets more points, or becomes shorter.
"""

from __future__ import annotations

import math
import time
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from dp_accounting import NeighboringRelation

from evr._accounting.curves import Point, greater_epsilon
from evr._basics import validate
from evr._estimate.results import Count, OnlineEpsilon, counter
from evr._kernel.events import Composition
from evr._kernel.events.relations import ADD_OR_REMOVE, Relation
from evr._kernel.events.walk import Begin, Visited, Walk
from evr._kernel.pairs import Direction, Pairs

_MOST_REPORTS = 1_000_000
MOST_RUNS = 5_000_000

TOLERANCE = 2e-7  # of epsilon, or of 1 where it is greater: a fifth of what is promised

_RATIO = 20.0  # of ``k + earlier`` over one block
_SIZES = (5, 9, 17)  # numbers of points; each contains the one before
_UNSEEN = 4.0  # times the miss at the point that checks: what a block may miss elsewhere


# from a number of steps, a guess of epsilon and a direction (None where they are not known)
Evaluate = Callable[[int, float | None, str | None], Point]


class Interpolated:
    """Epsilon after any number of equal steps, by a function that computes one point.

    ``earlier`` says how many steps ran before, in units of these; ``horizon``, from the first step of a block, the last
    one worth computing; ``direct``, how many questions are answered one by one before there are blocks.
    """

    def __init__(self, evaluate: Evaluate, earlier: float, horizon: Callable[[int], float], direct: int) -> None:
        self._evaluate, self._earlier, self._horizon, self._direct = evaluate, earlier, horizon, direct
        self._known: dict[int, Point] = {}
        self._block: _Block | None = None

    def __call__(self, steps: int) -> Point:
        if steps not in self._known:
            if self._block is not None and self._block.first <= steps <= self._block.last:
                return Point(self._block.fit(steps), self._block.error, self._block.direction)
            self._direct -= 1
            if self._direct < 0:
                self._block = self._new_block(steps)  # whose first point this is
        return self._exact(steps)

    def _exact(self, steps: int, guess: float | None = None, direction: str | None = None) -> Point:
        if steps not in self._known:
            self._known[steps] = self._evaluate(steps, guess, direction)
        return self._known[steps]

    def _new_block(self, first: int) -> _Block:
        """As long a block from ``first`` on as interpolation serves."""
        length = math.ceil((_RATIO - 1) * (first + self._earlier))
        length = int(min(length, max(1, self._horizon(first) - first)))
        while (block := self._checked(first, first + length)) is None:
            length = max(1, length // 4)
        return block

    def _checked(self, first: int, last: int) -> _Block | None:
        """The block, once it is known to be as good as promised; None if no number of points here is enough."""
        points = {k: self._exact(k) for k in (first, last)}
        if last - first > 1 and not all(math.isfinite(end.epsilon) for end in points.values()):
            return None
        winner = points[last].direction
        same = winner if points[first].direction == winner else None
        fit = self._fitted(points)
        for size in _SIZES:
            for k in self._places(first, last, size):
                if k not in points:
                    points[k] = self._exact(k, fit(k), same)
                    fit = self._fitted(points)
            unseen = [k for k in self._places(first, last, 2 * size - 1) if k not in points]
            check = unseen[len(unseen) // 2] if unseen else first  # every step of a short block is a point
            missed = abs(fit(check) - self._exact(check, fit(check), same).epsilon) if unseen else 0.0
            if missed <= TOLERANCE * min(1.0, fit(check)):
                error = max(point.error for point in points.values()) + _UNSEEN * missed
                return _Block(first, last, fit, error, winner)
        return None

    def _fitted(self, points: dict[int, Point]) -> Callable[[int], float]:
        """A polynomial in ``log(k + earlier)`` through the epsilons, or their logarithms where all have one."""
        epsilons = np.array([point.epsilon for point in points.values()])
        in_logs = bool(np.all((epsilons > 0) & (epsilons < math.inf)))
        places = np.log(np.array(list(points)) + self._earlier)
        fit = np.polynomial.Chebyshev.fit(places, np.log(epsilons) if in_logs else epsilons, len(points) - 1)

        def value(steps: int) -> float:
            found = float(fit(math.log(steps + self._earlier)))
            return math.exp(found) if in_logs else found

        return value

    def _places(self, first: int, last: int, size: int) -> list[int]:
        """Chebyshev's points in ``log(k + earlier)``, at whole numbers of steps, both ends among them."""
        low, high = math.log(first + self._earlier), math.log(last + self._earlier)
        angles = np.cos(np.pi * np.arange(size) / (size - 1))
        spread = np.exp((low + high) / 2 + (high - low) / 2 * angles) - self._earlier
        return sorted({min(max(round(k), first), last) for k in spread})


class _Block(NamedTuple):
    """Steps whose epsilons come from one fit, and what is stated of them."""

    first: int
    last: int
    fit: Callable[[int], float]
    error: float
    direction: str


Counts = Counter[Pairs]
Run = tuple[Pairs | None, int]  # a mechanism and how often it runs in a row; None is one that costs nothing


class Period(NamedTuple):
    """Runs of equal steps, one after another, and how often all of them are repeated."""

    runs: list[Run]
    repeats: int

    @property
    def length(self) -> int:
        return sum(count for _, count in self.runs)


def online_epsilon(
    event: Any,
    delta: float,
    *,
    every: int = 1,
    direction: str | None = None,
    neighboring_relation: Relation | None = None,
    unit: str | None = None,
    progress: Count | bool | None = None,
) -> OnlineEpsilon:
    """Epsilon after every step of ``event``, in the order in which its mechanisms run.

    Parameters
    ----------
    event
        A ``DpEvent`` tree; compositions that change as they go are fine.
    delta
        In (0, 1).
    every
        Report after every so many steps, and after the last.
    direction, neighboring_relation, unit
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
    count = counter(progress)
    relation = Composition.of(event, neighboring_relation, unit).relation
    order = timeline(event, relation)
    last = sum(period.repeats * period.length for period in order)
    if last == 0:
        raise ValueError("the event is an empty composition: no step ran; give at least one mechanism")
    if last // every > _MOST_REPORTS:
        raise ValueError(
            f"{last} steps with every={every} are {last // every} reports, more than {_MOST_REPORTS}: report less "
            f"often (every={-(-last // 1000)})"
        )
    rows: list[tuple[int, float, float]] = []

    def evaluate(ran: Counts, period: Counts, k: int, guess: float | None, winner: str | None) -> Point:
        """Epsilon after ``k`` periods on top of what ran."""
        counts = ran + Counter({pairs: k * n for pairs, n in period.items()})
        if guess is None and k <= 1 and rows:
            guess = rows[-1][1]
        return greater_epsilon(Composition.from_counts(counts.items(), relation), delta, guess, winner or direction)

    for steps, point in _reports(order, every, last, evaluate):
        rows.append((steps, point.epsilon, point.error))
        count(steps, last)
    numbers, epsilons, errors = map(np.array, zip(*rows, strict=True))
    return OnlineEpsilon(numbers, epsilons, errors, delta, time.perf_counter() - start)


def _reports(order: list[Period], every: int, last: int, evaluate: Callable[..., Point]) -> Iterator[tuple[int, Point]]:
    reports, done, before = [*range(every, last, every), last], 0, Counter[Pairs]()
    for period in order:
        length, repeats, curves = period.length, period.repeats, dict[int, Interpolated]()
        whole, stop = _counts(period, length), done + period.repeats * length
        for steps in reports[bisect(reports, done) : bisect(reports, stop)]:
            times, rest = divmod(steps - done - 1, length)
            if rest not in curves:
                at = partial(evaluate, before + _counts(period, rest + 1), whole)
                earlier, direct = (done + rest + 1) / length, 2 if every > 1 else 0
                curves[rest] = Interpolated(at, earlier, partial(max, repeats - 1), direct)
            yield steps, curves[rest](times)
        before += Counter({pairs: repeats * count for pairs, count in whole.items()})
        done = stop


def timeline(event: Any, relation: NeighboringRelation = ADD_OR_REMOVE) -> list[Period]:
    """The periods of an event, one after another. What is repeated is one period where that has fewer steps than all
    repetitions have runs; else one repetition follows another.
    """
    bodies: list[list[Period]] = [[]]
    begun: list[Begin] = []
    for visit in Walk(relation).visits(event):
        if isinstance(visit, Begin):
            begun.append(visit)
            bodies.append([])
            continue
        added = [Period([(visit.pairs, 1)], 1)] if isinstance(visit, Visited) else _repeated(bodies.pop(), *begun.pop())
        for period in added:
            if bodies[-1] and bodies[-1][-1].runs == period.runs:
                period = Period(period.runs, period.repeats + bodies[-1].pop().repeats)
            bodies[-1].append(period)
    return bodies[0]


def _repeated(body: list[Period], count: int, path: str) -> list[Period]:
    if len(body) == 1:
        return [Period(body[0].runs, body[0].repeats * count)]
    runs: list[Run] = []
    for own, repeats in body:  # a period of one run is a longer run
        runs += [(own[0][0], own[0][1] * repeats)] if len(own) == 1 else own * repeats
    if len(runs) * count > MOST_RUNS:
        raise ValueError(
            f"count={count} at {path} repeats {len(runs)} changes of mechanism: more than {MOST_RUNS} in all "
            "cannot be followed step by step; describe fewer repetitions, or ask for epsilon at the end only"
        )
    return [Period(runs, count)] if sum(n for _, n in runs) <= len(runs) * count else body * count


def _counts(period: Period, steps: int) -> Counts:
    """How often each mechanism ran in so many steps of a period. It must be on a line."""
    found = Counter[Pairs]()
    for pairs, count in period.runs:
        if pairs is not None:
            for one in Direction:
                _ = pairs.step(one, 1).pair
            found[pairs] += min(count, max(steps, 0))
        steps -= count
    return +found
