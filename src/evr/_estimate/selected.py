"""Estimates of the best of several runs: the formulas of the strict proof (``_kernel.strict.tradeoff``), from estimated
points of the privacy curve of one run. They are estimates of what is proved, with an error that is about that: between
points the proof takes chords, which may be some percent of delta above the curve. No guarantee rests on these.
"""

import contextlib
import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from evr._estimate.bins import BinsPair
from evr._estimate.closed_forms import pair_delta
from evr._estimate.fft import FftCurve, epsilon_of
from evr._estimate.nested import LawOutcomes, line_pair_of
from evr._kernel.pairs import DiscretePair, Step
from evr._kernel.pairs.exact.law import Ball, at_precision
from evr._kernel.pairs.nested import NestedLaw
from evr._kernel.pairs.patterns.bins import IndependentBins
from evr._kernel.pairs.selection import Selection
from evr._kernel.strict.tradeoff import Point, Selected, outcomes_above
from evr.errors import AccuracyError

_FINENESS = 256  # how narrow cells are, where that is not too many of them
_MOST_FALLS = 16.0  # of g, in units of e, that are cut as finely as that
_LEAST = 1e-60  # of delta of one run: what is beyond is counted with the last point
_NEAR, _NARROW, _WIDE = 1e-18, 0.3, 1.0  # from point to point delta falls by e^_NARROW up to _NEAR, then by e^_WIDE
_SPACING = 0.1  # of epsilons, at most
_FEWEST, _COARSE = 24, 65
_OUTCOMES = 160
_FARTHEST = 10**6  # of epsilons


def fineness_of(law: Selection) -> int:
    """How narrow cells are: as many of them as is good for all."""
    with at_precision(128):
        density = law.rule.log_density()
        falls = float(density(Ball(0)) - density(Ball(1)))
    return max(8, math.floor(_FINENESS * min(1.0, _MOST_FALLS / max(falls, 1.0))))


@lru_cache(maxsize=64)
def points_of(steps: tuple[Step, ...]) -> tuple[Point, ...]:
    """Rising epsilons where a strict proof of a selection asks for the curve of one run, and about the deltas there."""
    curve = FftCurve(on_lines(steps))
    if not curve.steps:
        return ((Fraction(0), Fraction(0)),)
    last = curve.greatest
    with contextlib.suppress(AccuracyError):  # floats may not tell where delta is so small
        last = min(last, epsilon_of(curve, max(_LEAST, min(curve.infinite_mass * (1 + 1e-3), 0.5))).value)
    last = last if 0 < last < math.inf else 1.0
    coarse = np.linspace(0.0, last, _COARSE)
    logs = np.log([max(curve.value(e), _LEAST / 2) for e in coarse[::-1]])[::-1]
    width = np.where(logs[1:] > math.log(_NEAR), _NARROW, _WIDE)
    effort = np.maximum(-np.diff(logs) / width, np.diff(coarse) / min(_SPACING, last / _FEWEST))
    places = np.concatenate(([0.0], np.cumsum(effort)))
    found = np.interp(np.linspace(0.0, places[-1], math.ceil(places[-1]) + 1), places, coarse)
    unit = 2.0 ** (math.floor(math.log2(last)) - 16)  # short numbers in a certificate
    epsilons = np.unique(np.ceil(found / unit)) * unit
    deltas = [(e, curve.value(e)) for e in epsilons[::-1].tolist()]
    return tuple((Fraction(e), Fraction(min(max(d, 0.0), 1.0))) for e, d in reversed(deltas))


@lru_cache(maxsize=32)
def selected_of(law: Selection) -> Selected:
    """About delta of a selection, at any epsilon."""
    return Selected.of(law.rule, points_of(law.steps), points_of(law.reverse), fineness_of(law))


def _sides(law: Selection) -> tuple[Selected, Selected]:
    return selected_of(law), selected_of(Selection(law.rule, law.reverse, law.steps))


def outcomes_at(law: Selection) -> tuple[Fraction, ...]:
    """Epsilons whose deltas a selection is composed by."""
    last = 2.0**-10
    for side in _sides(law):
        rest = max(1e-40, 1.01 * float(side.delta(Fraction(_FARTHEST))))
        while last < _FARTHEST and float(side.delta(Fraction(last))) > rest:
            last *= 1.25
    return tuple(Fraction(last) * k / _OUTCOMES for k in range(_OUTCOMES + 1))


@lru_cache(maxsize=64)
def _pair(law: Selection) -> LawOutcomes:
    outcomes = outcomes_above(*([(e, side.delta(e)) for e in outcomes_at(law)] for side in _sides(law)))
    with np.errstate(divide="ignore"):
        log_p, log_q = (np.log(np.array([float(x) for x in side])) for side in (outcomes.p, outcomes.q))
    return LawOutcomes.of(DiscretePair.from_logs(log_p, log_q), law)


@pair_delta.register
def _(pair: LawOutcomes, epsilon: float) -> float:
    if isinstance(pair.law, Selection) and 0 <= epsilon <= _FARTHEST:  # alone, its delta comes from the formulas
        return float(selected_of(pair.law).delta(Fraction(epsilon)))
    return pair_delta.dispatch(DiscretePair)(pair, epsilon)


def on_lines(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps, all but patterns of correlated noise as pairs on a line."""
    found = []
    for step in steps:
        if isinstance(step.law, Selection):
            step = Step(_pair(step.law), step.count)
        elif isinstance(step.law, NestedLaw):
            inside, is_alone = tuple(map(on_lines, step.law.compositions)), len(steps) == step.count == 1
            step = Step(line_pair_of(step.law, inside, is_alone=is_alone), step.count)
        elif isinstance(bins := step.floats, IndependentBins):
            step = Step(BinsPair(bins), step.count)
        found.append(step)
    return tuple(found)
