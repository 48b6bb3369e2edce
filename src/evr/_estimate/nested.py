"""Near-exact laws made of compositions: several mechanisms on one sample, and one of several groups. No guarantee rests
on these: a strict proof computes all of it in integers.

Delta of one sample alone is a multiple of delta of the composition, at another epsilon; for all else compositions
become outcomes.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Self

import numpy as np

from evr._estimate.atoms import Delta
from evr._estimate.closed_forms import TableError, delta_error, pair_delta, table_error_of
from evr._estimate.composed import composed, outcomes_of
from evr._estimate.fft import FftCurve
from evr._kernel.order import power
from evr._kernel.pairs import DiscretePair, DominatingPair, Floats, Measure, Step, infinite_loss_mass, infinite_mass
from evr._kernel.pairs.line.pair import unmix
from evr._kernel.pairs.line.poisson import outcomes, poisson_sampled, sampled_without_replacement
from evr._kernel.pairs.nested import NestedLaw, OneOf, SampledSteps
from evr._kernel.pairs.selection import Selection
from evr._kernel.strict.ratios import Ratios, Sum, grid_of_ratios
from evr.types import Direction

_PLACES = 1 << 15  # of ratios
_SMOOTH, _ROUGH, _EXACT = TableError(1e-7, 1e-24), TableError(1e-5, 1e-18), TableError(0.0, 0.0)
_HIGHEST = 8.0  # loss of one of several groups, in compositions
_FARTHEST = {Direction.REMOVE: 80.0, Direction.ADD: 40.0}  # epsilon that grids of ratios hold
_BITS = 180
_MATTERS = 1e-3  # of delta at 0: deltas at which a law is judged
_USUAL = (0.0, 1.0, 3.0)  # times delta at 0: epsilons at which it is
_GREAT = (2.0, 3.0, 4.0, 5.0, 6.0)  # epsilons where places are far apart, next to a ratio of 0
_SLIGHT = 1e-4  # of delta there, with the record: what is less is a relative error
_LEFT_OUT = 1e-9  # probability that tables of compositions leave out, at most
_TIMES = 4.0  # by how much more than at some epsilons a law may be wrong at others


@dataclass(frozen=True)
class LawOutcomes(DiscretePair, for_estimates=True):
    """A law of compositions as a pair on finitely many outcomes, for composition."""

    law: NestedLaw | Selection = field(kw_only=True)
    table: TableError = field(kw_only=True)

    @classmethod
    def of(cls, pair: DiscretePair, law: NestedLaw | Selection, table: TableError = _EXACT) -> Self:
        return cls(pair.loss_values, pair.log_p, pair.log_q, pair.is_cut, pair.error, law=law, table=table)

    def describe(self) -> str:
        return self.law.describe()


def inner_epsilon(law: SampledSteps, epsilon: float) -> tuple[float, float]:
    """A factor and an epsilon: delta of a sample, at ``epsilon >= 0``, is the factor times delta of the composition
    inside at that epsilon (G1.2).
    """
    share = float(law.share)
    if law.direction is not Direction.ADD:
        return share, float(unmix(epsilon, share))
    factor = -math.expm1(min(epsilon + math.log1p(-share), 0.0))
    return factor, -float(unmix(-epsilon, share))


@dataclass(frozen=True)
class AlonePair(DominatingPair):
    """A law of compositions by itself, which has no infinite losses, on the line of its losses: its delta needs no
    outcomes but those of the compositions inside.
    """

    law: NestedLaw
    steps: tuple[tuple[Step, ...], ...]  # the compositions inside, on lines

    @property
    def outcomes(self) -> LawOutcomes:
        return nested_pair(self.law, self.steps)

    def privacy_loss(self, t: Any) -> Floats:
        return np.asarray(t, float)

    def point(self, loss: Any) -> Floats:
        return np.asarray(loss, float)

    def log_mass(self, measure: Measure, low: Any, high: Any) -> Floats:
        return self.outcomes.log_mass(measure, self.outcomes.point(low), self.outcomes.point(high))

    def draw(self, measure: Measure, generator: np.random.Generator, size: int) -> Floats:
        return self.outcomes.privacy_loss(self.outcomes.draw(measure, generator, size))

    def span(self, order: float = 0.0) -> tuple[float, float]:
        finite = self.outcomes.losses[np.isfinite(self.outcomes.losses)]
        return float(finite[0]), float(finite[-1])

    def describe(self) -> str:
        return self.law.describe()

    @cached_property
    def _known(self) -> dict[float, Delta]:
        return {}

    @cached_property
    def _inside(self) -> FftCurve:
        return FftCurve(self.steps[0])

    def delta(self, epsilon: float) -> Delta:
        """Delta by a formula, or on a grid for this epsilon."""
        if epsilon not in self._known:
            self._known[epsilon] = self._delta(epsilon)
        return self._known[epsilon]

    def _delta(self, epsilon: float) -> Delta:
        if not 0 <= epsilon < math.inf:
            value = pair_delta(self.outcomes, epsilon)
            return Delta(value, self.outcomes.table.of(value))
        if isinstance(self.law, OneOf):
            if epsilon > _FARTHEST[self.law.direction]:  # beyond the grids: it is at most that of one group
                most = max(FftCurve(own).delta(epsilon).value for own in self.steps)
                return Delta(most, most)
            value = one_of_delta(self.law, self.steps, epsilon)
            return Delta(value, _ROUGH.of(value) + _error_inside(self.steps).of(value))
        assert isinstance(self.law, SampledSteps)
        factor, at = inner_epsilon(self.law, epsilon)
        if factor == 0.0:
            return Delta(0.0, 0.0)
        found = self._inside.delta(at)
        return Delta(factor * found.value, factor * found.error)


@pair_delta.register
def _(pair: AlonePair, epsilon: float) -> float:
    return pair.delta(epsilon).value


@delta_error.register
def _(pair: AlonePair, epsilon: float) -> float:
    return pair.delta(epsilon).error


@outcomes_of.register
def _(pair: AlonePair) -> LawOutcomes:
    return pair.outcomes


@delta_error.register
def _(pair: LawOutcomes, epsilon: float) -> float:
    return pair.table.of(pair_delta(pair, epsilon))


@table_error_of.register
def _(pair: LawOutcomes) -> TableError:
    return pair.table


def line_pair_of(law: NestedLaw, steps: tuple[tuple[Step, ...], ...], *, is_alone: bool) -> DominatingPair:
    """The pair of a law, given its compositions with all laws on a line."""
    if is_alone and not any(infinite_mass(own) for own in steps):
        return AlonePair(law, steps)
    return nested_pair(law, steps)


@lru_cache(maxsize=64)
def nested_pair(law: NestedLaw, steps: tuple[tuple[Step, ...], ...]) -> LawOutcomes:
    """The pair of a law, given its compositions with all laws on a line."""
    smooth = all(any(not len(step.pair.flats) for step in own) for own in steps)
    if isinstance(law, SampledSteps):
        base, share, direction = composed(steps[0]), law.share, law.direction
        mixed = poisson_sampled(base, share, direction) if direction else sampled_without_replacement(base, share)
        found = outcomes(mixed)
        assert isinstance(found, DiscretePair)
        table = _SMOOTH if smooth else _ROUGH
    else:
        assert isinstance(law, OneOf)
        found = one_of(law, steps)
        table = _grid_error(law, steps, found)
    inside = _error_inside(steps)
    table = TableError(table.relative + inside.relative, table.beyond + inside.beyond)
    return LawOutcomes.of(found, law, table)


def _grid_error(law: OneOf, steps: tuple[tuple[Step, ...], ...], found: DiscretePair) -> TableError:
    """Of one of several groups on a grid for all epsilons, which is coarser than that for one."""
    most = pair_delta(found, 0.0)

    def wrong(at: float) -> tuple[float, float]:
        value = one_of_delta(law, steps, at)
        return abs(pair_delta(found, at) - value), value

    relative = max(off / max(value, _MATTERS * most) for off, value in (wrong(at * most) for at in _USUAL))
    beyond = 0.0
    for off, value in map(wrong, _GREAT):
        if law.direction is Direction.REMOVE and off < _SLIGHT * value:  # no ratio is next to 0
            relative = max(relative, off / value)
        else:
            beyond = max(beyond, off)
    cut = max(0.0, infinite_loss_mass(found) - _infinite_mass(law, steps))  # beyond the grid, and counted as infinite
    return TableError(max(_ROUGH.relative, _TIMES * relative), _ROUGH.beyond + _TIMES * beyond + cut)


def _infinite_mass(law: OneOf, steps: tuple[tuple[Step, ...], ...]) -> float:
    """That of one of several groups: with the record, the mean of the groups'; without it, all have to be infinite."""
    masses = [(infinite_mass(own), number) for own, (_, number) in zip(steps, law.alike, strict=True)]
    if law.direction is Direction.REMOVE:
        return math.fsum(mass * number for mass, number in masses) / law.groups
    return math.prod(mass**number for mass, number in masses)


def _error_inside(steps: tuple[tuple[Step, ...], ...]) -> TableError:
    """That of the probabilities of compositions inside, by the tables that they are made of."""
    found = [[(step.count, table_error_of(outcomes_of(step.pair))) for step in own] for own in steps]
    relative = max(math.fsum(count * one.relative for count, one in own) for own in found)
    return TableError(relative, max(math.fsum(count * one.beyond for count, one in own) for own in found))


@lru_cache(maxsize=64)
def _ratios(law: OneOf, own: tuple[Step, ...]) -> tuple[Floats, Floats, float]:
    """A group's ratios, their probabilities without the record, and the least ratio that it may have."""
    pair = composed(own)
    sign, measure = (1.0, Measure.Q) if law.direction is Direction.REMOVE else (-1.0, Measure.P)
    held = np.isfinite(pair.losses) & np.isfinite(pair.logs[measure])
    masses, ratios = np.exp(pair.logs[measure][held]), np.exp(np.minimum(sign * pair.losses[held], 600.0))
    return ratios, masses, float(ratios.min()) if masses.sum() > 1.0 - _LEFT_OUT else 0.0


@lru_cache(maxsize=64)
def _sum(law: OneOf, steps: tuple[tuple[Step, ...], ...], width: float, spacing: Fraction) -> tuple[Ratios, Sum]:
    """The sum of the groups' ratios under the law without the record, each above its least one, on a grid up to
    ``width`` for each: floats on the grid, then integers, in which sums lose no digits.
    """
    grid = grid_of_ratios(law.groups, Fraction(math.log(width)), spacing, _BITS)
    places, total = np.array(grid.places, float), None
    for own, (_, number) in zip(steps, law.alike, strict=True):
        ratios, masses, least = _ratios(law, own)
        ratios = (ratios - least) / float(spacing)
        low = np.clip(np.searchsorted(places, ratios, side="right") - 1, 0, places.size - 2)
        share = np.clip((ratios - places[low]) / (places[low + 1] - places[low]), 0.0, 1.0)
        found = np.bincount(low, masses * (1 - share), minlength=places.size)
        found += np.bincount(low + 1, masses * share, minlength=places.size)
        found[0] += max(0.0, 1.0 - masses.sum())
        beyond = float(np.sum(masses * np.maximum(ratios - places[-1], 0.0))) * float(spacing)
        if law.direction is Direction.REMOVE and (pair := composed(own)).losses[-1] == math.inf:
            beyond += math.exp(pair.logs[Measure.P][-1])
        one = grid.sum_of([int(math.ldexp(x, _BITS)) for x in found.tolist()], Fraction(beyond) * (1 << _BITS))
        part = power(one, number, grid.times)
        total = part if total is None else grid.times(total, part)
    assert total is not None
    return grid, total


def _mean(law: OneOf, steps: tuple[tuple[Step, ...], ...], top: float, most: float) -> tuple[Floats, Floats, float]:
    """The mean of the ratios, at losses up to ``top``, and its probabilities without the record; and what was cut of
    the law with it. The grid is as wide at ``most``, and finer where that gives no more places than ``_PLACES``.
    """
    groups = zip(steps, law.alike, strict=True)
    least = math.fsum(number * _ratios(law, own)[2] for own, (_, number) in groups) / law.groups
    width = max(math.exp(top) - least, 1e-12)
    spacing = Fraction(min(most, law.groups * width / _PLACES))
    grid, total = _sum(law, steps, width + float(spacing), spacing)  # one place more for each, as they are spread
    rows = []
    for masses, size in ((total.fine, 1), (total.coarse, grid.size)):
        numbers = enumerate(masses, start=masses.first)
        rows += [(place * size, int(m) / (1 << _BITS)) for place, m in numbers if m]
    places, weights = np.array(rows).T
    return least + places * float(spacing / law.groups), weights, float(total.excess / law.groups / (1 << _BITS))


def _greatest(law: OneOf, steps: tuple[tuple[Step, ...], ...]) -> float:
    """The greatest loss, but for infinite ones, that the ratio of one group has."""
    return max(math.log(_ratios(law, own)[0].max()) for own in steps)


def one_of_delta(law: OneOf, steps: tuple[tuple[Step, ...], ...], epsilon: float) -> float:
    """Delta of one of several groups alone: on a grid that ends where nothing is lost by it."""
    remove = law.direction is Direction.REMOVE
    top = math.ceil((epsilon if remove else -epsilon) * 8) / 8  # the grid serves epsilons near this one, too
    mean, weights, cut = _mean(law, steps, min(top, _greatest(law, steps)), math.inf)
    if remove:
        return cut + float(np.sum(weights * np.maximum(mean - math.exp(epsilon), 0.0)))
    return float(np.sum(weights * np.maximum(1.0 - math.exp(epsilon) * mean, 0.0)))


def one_of(law: OneOf, steps: tuple[tuple[Step, ...], ...]) -> DiscretePair:
    """One of several groups as outcomes, for composition."""
    remove = law.direction is Direction.REMOVE
    top, widest = min(_greatest(law, steps), _HIGHEST), math.sqrt(law.groups) / 1024
    if not remove:  # great losses are ratios next to 0
        widest = min(widest, law.groups / 8192)
    mean, weights, cut = _mean(law, steps, top, widest)
    with np.errstate(divide="ignore"):
        losses, log_weights = np.log(mean), np.log(weights)
    if remove:
        rest = np.log(max(cut, 1e-300))
        log_p, log_q = np.append(log_weights + losses, rest), np.append(log_weights, -np.inf)
        return DiscretePair.from_logs(log_p, log_q, np.append(losses, np.inf))
    rest = math.log(max(1e-300, 1.0 - float(np.sum(weights * mean))))
    log_p, log_q = np.append(log_weights, -np.inf), np.append(log_weights + losses, rest)
    return DiscretePair.from_logs(log_p, log_q, np.append(-losses, -np.inf))
