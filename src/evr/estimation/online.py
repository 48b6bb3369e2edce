"""``online_epsilon``: epsilon after every step of a run, computed at a few and interpolated
(``estimation.interpolation``).
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from dp_accounting import NeighboringRelation

from evr import validate
from evr.estimation.api import directions_of, greater_epsilon
from evr.estimation.counting import Count, counter
from evr.estimation.curves import OnlineEpsilon
from evr.estimation.interpolation import Evaluate, Interpolated, Point
from evr.estimation.timeline import timeline
from evr.laws import Direction, Pairs, line_pair
from evr.mechanisms import Composition
from evr.mechanisms.relations import Relation

_MOST_REPORTS = 1_000_000
_LONGEST_PERIOD = 8  # runs of equal steps

Run = tuple[Pairs | None, int]
Counts = Counter[Pairs]


def online_epsilon(
    event: Any,
    delta: float,
    *,
    every: int = 1,
    direction: str | None = None,
    neighboring_relation: Relation | None = None,
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
    if direction is not None:
        validate.one_of(("remove", "add"), direction=direction)
    count = counter(progress)
    relation = Composition.of(event, neighboring_relation).relation
    order = timeline(event, relation)
    last = _checked_reports(order, every)
    numbers, found = [], []
    for steps, point in _reports(order, every, last, _Asked(delta, direction, relation)):
        numbers.append(steps)
        found.append(point)
        if count is not None:
            count(steps, last)
    return OnlineEpsilon(
        np.array(numbers),
        np.array([point.epsilon for point in found]),
        np.array([point.error for point in found]),
        delta,
        time.perf_counter() - start,
    )


class _Asked:
    """What is asked of every composition on the way."""

    def __init__(self, delta: float, direction: str | None, relation: NeighboringRelation) -> None:
        self.delta, self.direction, self.relation = delta, direction, relation
        self.before: Point | None = None
        """Of the report before."""

    def phase(self, ran: Counts, period: Counts) -> Evaluate:
        """Epsilon after ``k`` periods on top of what ran."""

        def evaluate(k: int, guess: float | None, direction: str | None) -> Point:
            counts = ran + Counter({pairs: k * count for pairs, count in period.items()})
            composition = Composition.from_counts(counts.items(), self.relation)
            if guess is None and k <= 1 and self.before is not None:
                guess = self.before.epsilon
            return epsilon_near(composition, self.delta, guess, direction or self.direction)

        return evaluate


def epsilon_near(composition: Composition, delta: float, guess: float | None, direction: str | None) -> Point:
    """Epsilon of a composition on a line, in a direction if one is given; ``guess`` is where to look first."""
    guess = guess if guess is not None and 0.0 < guess < math.inf else None
    directions = directions_of(composition, direction)
    found, winner = greater_epsilon(composition, delta, directions, guess)
    return Point(found.value, found.error, winner.value)


def _reports(order: list[Run], every: int, last: int, asked: _Asked) -> Iterator[tuple[int, Point]]:
    """The steps to report, and epsilon after each."""
    done, before = 0, Counter[Pairs]()
    for runs, repeats in _periods(order):
        period = sum(count for _, count in runs)
        curves: dict[int, Interpolated] = {}
        stop = done + repeats * period
        first = min(-(-(done + 1) // every) * every, last)
        for steps in (*range(first, stop + 1, every), *([last] if stop == last else [])):
            whole, rest = divmod(steps - done - 1, period)
            if rest not in curves:
                ran = before + _counts(runs, rest + 1)
                earlier = (done + rest + 1) / period
                evaluate = asked.phase(ran, _counts(runs, period))
                direct = 2 if every > 1 else 0
                curves[rest] = Interpolated(evaluate, earlier, _until(repeats - 1), direct)
            asked.before = curves[rest](whole)
            yield steps, asked.before
            if steps == last:
                return
        before += Counter({p: repeats * n for p, n in _counts(runs, period).items()})
        done = stop


def _until(last: int) -> Callable[[int], float]:
    return lambda first: last


def _periods(order: list[Run]) -> Iterator[tuple[list[Run], int]]:
    """Runs as periods that repeat: single steps, or a few runs that alternate, where that is the fewer curves."""
    at = 0
    while at < len(order):
        runs, count = order[at : at + 1], order[at][1]
        repeats = 1
        for length in range(2, _LONGEST_PERIOD + 1):
            some, times = order[at : at + length], 1
            while order[at + times * length : at + (times + 1) * length] == some:
                times += 1
            if times > 1 and sum(n for _, n in some) <= times * length:
                runs, repeats = some, times
                break
        if repeats == 1:
            yield [(runs[0][0], 1)], count
        else:
            yield runs, repeats
        at += len(runs) * repeats


def _counts(runs: list[Run], steps: int) -> Counts:
    """How often each mechanism ran in so many steps of a period. It must be on a line."""
    found = Counter[Pairs]()
    for pairs, count in runs:
        if pairs is not None:
            for one in Direction:
                line_pair(pairs.of(one))
            found[pairs] += min(count, max(steps, 0))
        steps -= count
    return +found


def _checked_reports(order: list[Run], every: int) -> int:
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
