"""The least noise, or the most steps, that a target allows: a pair of epsilon and delta, or a risk."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, NamedTuple

import numpy as np

from evr._accounting.api import estimate_delta, privacy_curve
from evr._basics import validate
from evr._estimate.inversion import root
from evr._estimate.results import Estimate, UpperBound
from evr._kernel.events.relations import Relation

TIGHTEST = 0.9999
"""How much of a claimed delta an estimate may be, raised by its own error, for ``certify`` to verify the claim."""
_SAMPLED = 0.99  # the same where estimates come from samples, and so does the proof
_DIGITS = 4
_CLOSE = 1e-6  # relative: how close to the root the search ends, before digits are cut
_LEAST, _GREATEST = 1e-6, 1e9  # how far a parameter is looked for where nobody says
_FLAT = 0.05  # a change of the logarithm of delta that says nothing of where it leads
_EPSILONS = 17  # of a grid in which the best for a true positive rate is looked for, twice


@dataclass(frozen=True)
class Calibration:
    """A parameter that meets the target, by the ``fft`` estimate.

    Attributes
    ----------
    value
        The parameter found: the least noise, of four digits, or the most steps.
    epsilon
        The target's epsilon; of a risk, that of the pair from which it follows.
    delta
        Estimated delta at the parameter: below the target's by what ``certify`` needs.
    evaluations, seconds
        What it took.
    """

    value: float
    epsilon: float
    delta: float
    evaluations: int
    seconds: float

    def __float__(self) -> float:
        return float(self.value)


class Goal(NamedTuple):
    """What is to be met: the pair ``(epsilon, rate)``; or, where epsilon is None, any pair from which it follows that a
    test with the false positive rate ``false`` has a true positive rate of at most ``rate``
    (docs/guarantees_risk.md, K6).
    """

    rate: float
    epsilon: float | None
    false: float = 0.0

    @classmethod
    def of(
        cls,
        epsilon: float | None = None,
        delta: float | None = None,
        advantage: float | None = None,
        true_positive_rate: float | None = None,
        false_positive_rate: float | None = None,
    ) -> Goal:
        """From one of: a pair, an advantage, two rates. What is missing or given beside it is named."""
        ways: tuple[dict[str, float | None], ...] = (
            {"epsilon": epsilon, "delta": delta},
            {"advantage": advantage},
            {"true_positive_rate": true_positive_rate, "false_positive_rate": false_positive_rate},
        )
        begun = [way for way in ways if any(value is not None for value in way.values())]
        if len(begun) != 1 or any(value is None for value in begun[0].values()):
            values = {name: value for way in begun for name, value in way.items() if value is not None}
            given = ", ".join(f"{name}={value!r}" for name, value in values.items())
            raise ValueError(f"{given or 'no target'}: give {'; or '.join(' and '.join(way) for way in ways)}")
        if epsilon is not None:
            return cls(validate.open_probability(delta=delta), validate.non_negative(epsilon=epsilon))
        if advantage is not None:
            return cls(validate.open_probability(advantage=advantage), 0.0)
        true = validate.open_probability(true_positive_rate=true_positive_rate)
        false = validate.open_probability(false_positive_rate=false_positive_rate)
        if not true > false:
            asked = f"true_positive_rate={true!r} is not above false_positive_rate={false!r}"
            raise ValueError(
                f"{asked}: a guess does as well, whatever the noise; give a greater rate of true positives"
            )
        return cls(true, None, false) if true + false <= 1 else cls(1 - false, None, 1 - true)

    def delta(self, epsilon: float) -> float:
        """The greatest delta with which the goal follows at this epsilon."""
        return self.rate * (1 - 1e-12) - math.exp(epsilon) * self.false if self.false else self.rate

    def nearest(self, event: Any, relation: Relation | None) -> float:
        """The epsilon of four digits at which the event is nearest to the goal."""
        if self.epsilon is not None:
            return self.epsilon
        low, high = 0.0, math.log(self.rate / self.false)
        for _ in range(2):  # delta + e^epsilon false is convex in e^epsilon
            grid = np.linspace(low, high, _EPSILONS)
            rates = privacy_curve(event, grid, neighboring_relation=relation).deltas + np.exp(grid) * self.false
            best = int(np.argmin(rates[:-1]))  # the last leaves a delta of 0
            low, high = grid[max(best - 1, 0)], grid[best + 1]
        return float(f"{grid[best]:.4g}")


def calibrate(
    make_event: Callable[[Any], Any],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    advantage: float | None = None,
    true_positive_rate: float | None = None,
    false_positive_rate: float | None = None,
    low: float | None = None,
    high: float | None = None,
    integer: bool = False,
    neighboring_relation: Relation | None = None,
    unit: str | None = None,
) -> Calibration:
    """The parameter at which ``make_event(parameter)`` just meets ``(epsilon, delta)``, or a bound on attacks.

    It is rounded to four digits on the private side. The estimated delta there is below the target by what ``certify``
    needs to verify the pair: a ten-thousandth, or a hundredth where estimates come from samples. A risk is met by a
    pair from which it follows; ``evr.certify`` with the same risk proves that pair, and its statement begins with it.

    Works for anything monotone: a noise multiplier (more is more private) or, with ``integer=True``, a number of steps
    (more is less private); which of the two is found out from the events themselves.

    Parameters
    ----------
    make_event
        From a parameter to a ``DpEvent``.
    epsilon, delta
        The target; or instead of it one of the next two.
    advantage
        The greatest difference of true and false positive rate of a membership attack: delta at an epsilon of 0.
    true_positive_rate, false_positive_rate
        The greatest share of members that an attack finds which accuses that share of non-members.
    low, high
        Ends of the search; found by doubling from 1 where not given.
    integer
        Search whole numbers, and return the largest (or least) that meets the target.
    neighboring_relation, unit
        As of ``evr.estimate_delta``.

    Returns
    -------
    Calibration
        The parameter on the private side, and the delta there.

    Raises
    ------
    ValueError
        If no parameter between the ends meets the target, or all do; and as of ``evr.estimate_delta``.

    Examples
    --------
    >>> import evr
    >>> found = evr.calibrate(
    ...     lambda s: evr.dpsgd(noise_multiplier=s, sampling_probability=0.01, steps=1000),
    ...     epsilon=1.0, delta=1e-6)
    >>> found.value
    1.563
    >>> evr.calibrate(
    ...     lambda s: evr.dpsgd(noise_multiplier=s, sampling_probability=0.01, steps=1000),
    ...     advantage=0.1).value
    1.423
    """
    start = time.perf_counter()
    validate.function(make_event=make_event)
    goal = Goal.of(epsilon, delta, advantage, true_positive_rate, false_positive_rate)
    validate.normal_delta(goal.rate)
    gap = _Gap(make_event, goal, integer, (low, high, 1.0), neighboring_relation, unit)
    private, leaky = _bracket(gap, low, high, integer)
    if integer:
        while abs(private - leaky) > 1:
            middle = float((int(private) + int(leaky)) // 2)
            private, leaky = (middle, leaky) if gap(middle) <= 0 else (private, middle)
        best = private
    else:
        # on the scale of logarithms far ends cost next to nothing
        first, last = ((math.log(end), gap(end)) for end in (private, leaky))
        met = math.exp(root(lambda at: gap(math.exp(at)), first, last, _CLOSE))
        best = _rounded(gap, met, private, up=private > leaky)
    epsilon, estimate = gap.found[best]
    seconds = time.perf_counter() - start
    return Calibration(int(best) if integer else best, epsilon, estimate.value, len(gap.found), seconds)


@dataclass
class _Gap:
    """How far the event of a parameter is from the goal, as a logarithm: at most 0 where it is met. Each is estimated
    once, and kept with the epsilon that it is for.
    """

    make_event: Callable[[Any], Any]
    goal: Goal
    integer: bool
    given: tuple[float | None, ...]  # parameters that the search did not come to by itself
    relation: Relation | None
    unit: str | None
    found: dict[float, tuple[float, Estimate | UpperBound]] = field(default_factory=dict)

    def __call__(self, parameter: float) -> float:
        if parameter not in self.found:
            try:
                event = self.make_event(int(parameter) if self.integer else parameter)
                at = self.goal.nearest(event, self.relation)
                estimate = estimate_delta(event, at, neighboring_relation=self.relation, unit=self.unit)
            except (ValueError, TypeError) as error:
                if type(error) not in (ValueError, TypeError) or parameter in self.given:
                    raise
                raise type(error)(
                    f"{error}; the search came there by doubling and halving: say where parameters make sense by low "
                    "and high, and by integer=True if they are whole numbers"
                ) from None
            self.found[parameter] = at, estimate
        epsilon, estimate = self.found[parameter]
        # with it the distance is monotone, whatever epsilon is nearest
        false = math.exp(epsilon) * self.goal.false if self.goal.false else 0.0
        return math.log(max(needed(estimate) + false, 1e-320) / (self.goal.delta(epsilon) + false))


def needed(found: Estimate | UpperBound) -> float:
    """The least delta that ``certify`` can verify."""
    sampled = isinstance(found, Estimate) and found.standard_error
    return (found.value + (found.doubt or 0.0)) / (_SAMPLED if sampled else TIGHTEST)


def _rounded(gap: Callable[[float], float], root: float, private: float, *, up: bool) -> float:
    """The first number of four digits from the root towards the private end that meets the target, or that end."""
    unit = Decimal(1).scaleb(Decimal(root).adjusted() - _DIGITS + 1)
    whole = (Decimal(root) / unit).to_integral_value(ROUND_CEILING if up else ROUND_FLOOR)
    step = 0
    while True:
        best = float((whole + (step if up else -step)) * unit)
        if (best >= private) if up else (best <= private):
            return private
        if gap(best) <= 0:
            return best
        step = 2 * step + 1


def _bracket(
    gap: Callable[[float], float], low: float | None, high: float | None, integer: bool
) -> tuple[float, float]:
    """A parameter that meets the target and one that does not; by doubling and halving if an end is not given."""
    if low is not None and high is not None:
        low, high = validate.positive(low=low), validate.positive(high=high)
        if not low < high:
            raise ValueError(f"low={low!r} is not below high={high!r}")
        if (gap(low) <= 0) == (gap(high) <= 0):
            state = "both meet" if gap(low) <= 0 else "neither meets"
            raise ValueError(
                f"low={low!r} and high={high!r}: {state} the target, so there is nothing to search between them: widen "
                "the range"
            )
        return (low, high) if gap(low) <= 0 else (high, low)
    start = validate.positive(low=low) if low is not None else validate.positive(high=high) if high is not None else 1.0
    first = gap(start)
    met = first <= 0
    ends = {2.0: start, 0.5: start}
    ways = [*([2.0] if high is None else []), *([0.5] if low is None else [])]
    while ways:
        for factor in tuple(ways):
            before = ends[factor]
            now = max(1.0, before * factor // 1) if integer else before * factor
            if now == before or not _LEAST <= before <= _GREATEST:
                ways.remove(factor)
                continue
            ends[factor], found = now, gap(now)
            if (found <= 0) != met:
                return (before, now) if met else (now, before)
            if (first - found if met else found - first) > _FLAT:  # it leads away from the target
                ways.remove(factor)
    if integer and not met and ends[0.5] == 1:
        raise ValueError("even 1 misses the target: relax the target, or make what is repeated more private")
    word, remedy = ("meets", "") if met else ("misses", "relax the target, make each step more private, or ")
    raise ValueError(
        f"every parameter tried from {ends[0.5]:.3g} to {ends[2.0]:.3g} {word} the target, and those beyond lead away "
        f"from it or change nothing: {remedy}look elsewhere (low and high say where)"
    )
