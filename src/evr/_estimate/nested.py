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
from evr._kernel.pairs.line.poisson import outcomes, sampled, sampled_without_replacement
from evr._kernel.pairs.nested import NestedLaw, OneOf, SampledSteps, inner_epsilon
from evr._kernel.pairs.selection import Selection
from evr._kernel.strict.ratios import Ratios, Sum, grid_of_ratios
from evr.types import Direction

_PLACES = 1 << 15  # of ratios
_SMOOTH, _ROUGH, _EXACT = TableError(1e-7, 1e-24), TableError(1e-5, 1e-18), TableError(0.0, 0.0)
_HIGHEST = 8.0  # loss of one of several groups, in compositions
_FARTHEST = {Direction.REMOVE: 80.0, Direction.ADD: 40.0}  # epsilon that grids of ratios hold
_BITS = 180
_MATTERS = 1e-3  # delta at which a law is judged
_TIMES = 4.0  # by how much more than at some epsilons a law may be wrong at others


@dataclass(frozen=True)
class LawOutcomes(DiscretePair):
    """A law of compositions as a pair on finitely many outcomes, for composition."""

    law: NestedLaw | Selection = field(kw_only=True)
    table: TableError = field(kw_only=True)

    @classmethod
    def of(cls, pair: DiscretePair, law: NestedLaw | Selection, table: TableError = _EXACT) -> Self:
        return cls(pair.loss_values, pair.log_p, pair.log_q, pair.is_cut, pair.error, law=law, table=table)

    def describe(self) -> str:
        return self.law.describe()


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
            return Delta(value, _ROUGH.of(value) + _relative_error(self.steps) * value)
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
        base, direction = composed(steps[0]), law.direction
        mixed = sampled(base, law.share, direction) if direction else sampled_without_replacement(base, law.share)
        found = outcomes(mixed)
        assert isinstance(found, DiscretePair)
    else:
        assert isinstance(law, OneOf)
        found = one_of(law, steps)
    table = _SMOOTH if smooth and isinstance(law, SampledSteps) else _ROUGH
    if isinstance(law, OneOf):  # a grid for all epsilons is coarser than that for one
        pairs = [(one_of_delta(law, steps, at), pair_delta(found, at)) for at in (0.0, 0.5)]
        wrong = max(abs(other - value) / max(value, _MATTERS) for value, other in pairs)
        true = math.fsum(number * infinite_mass(own) for own, (_, number) in zip(steps, law.parts, strict=True))
        cut = max(0.0, infinite_loss_mass(found) - true / law.groups)  # beyond the grid, and counted as infinite
        table = TableError(max(_ROUGH.relative, _TIMES * wrong), _ROUGH.beyond + cut)
    table = table._replace(relative=table.relative + _relative_error(steps))
    return LawOutcomes.of(found, law, table)


def _relative_error(steps: tuple[tuple[Step, ...], ...]) -> float:
    """That of the probabilities of compositions inside, by the tables that they are made of."""
    return max(math.fsum(step.count * table_error_of(outcomes_of(step.pair)).relative for step in own) for own in steps)


@lru_cache(maxsize=64)
def _sum(law: OneOf, steps: tuple[tuple[Step, ...], ...], top: float, spacing: Fraction) -> tuple[Ratios, Sum]:
    """The sum of the groups' ratios under the law without the record, on a grid up to the loss ``top``: floats on the
    grid, then integers, in which sums lose no digits.
    """
    grid = grid_of_ratios(law.groups, Fraction(top), spacing, _BITS)
    places, total = np.array(grid.places, float), None
    for own, (_, number) in zip(steps, law.parts, strict=True):
        pair = composed(own)
        sign, measure = (1.0, Measure.Q) if law.direction is Direction.REMOVE else (-1.0, Measure.P)
        held = np.isfinite(pair.losses) & np.isfinite(pair.logs[measure])
        masses = np.exp(pair.logs[measure][held])
        ratios = np.exp(np.minimum(sign * pair.losses[held], 600.0)) / float(spacing)
        low = np.clip(np.searchsorted(places, ratios, side="right") - 1, 0, places.size - 2)
        share = np.clip((ratios - places[low]) / (places[low + 1] - places[low]), 0.0, 1.0)
        found = np.bincount(low, masses * (1 - share), minlength=places.size)
        found += np.bincount(low + 1, masses * share, minlength=places.size)
        found[0] += max(0.0, 1.0 - masses.sum())
        beyond = float(np.sum(masses * np.maximum(ratios - places[-1], 0.0))) * float(spacing)
        beyond += math.exp(pair.logs[Measure.P][-1]) if sign > 0 and pair.losses[-1] == math.inf else 0.0
        one = grid.sum_of([int(math.ldexp(x, _BITS)) for x in found.tolist()], Fraction(beyond) * (1 << _BITS))
        part = power(one, number, grid.times)
        total = part if total is None else grid.times(total, part)
    assert total is not None
    return grid, total


def _mean(law: OneOf, grid: Ratios, total: Sum) -> tuple[Floats, Floats, float]:
    """The mean of the ratios and its probabilities without the record; and what was cut of the law with it."""
    rows = []
    for masses, size in ((total.fine, 1), (total.coarse, grid.size)):
        numbers = enumerate(masses, start=masses.first)
        rows += [(place * size, int(m) / (1 << _BITS)) for place, m in numbers if m]
    places, weights = np.array(rows).T
    return places * float(grid.spacing / law.groups), weights, float(total.excess / law.groups / (1 << _BITS))


def one_of_delta(law: OneOf, steps: tuple[tuple[Step, ...], ...], epsilon: float) -> float:
    """Delta of one of several groups alone: on a grid that ends where nothing is lost by it."""
    remove = law.direction is Direction.REMOVE
    top = math.ceil((epsilon if remove else -epsilon) * 8) / 8  # the grid serves epsilons near this one, too
    spacing = Fraction(law.groups * math.exp(top) / _PLACES)
    mean, weights, cut = _mean(law, *_sum(law, steps, top, spacing))
    if remove:
        return cut + float(np.sum(weights * np.maximum(mean - math.exp(epsilon), 0.0)))
    return float(np.sum(weights * np.maximum(1.0 - math.exp(epsilon) * mean, 0.0)))


def one_of(law: OneOf, steps: tuple[tuple[Step, ...], ...]) -> DiscretePair:
    """One of several groups as outcomes, for composition."""
    remove = law.direction is Direction.REMOVE
    finite = [pair.losses[np.isfinite(pair.losses)] for pair in map(composed, steps)]
    top = max(float(losses[-1] if remove else -losses[0]) for losses in finite)
    top = min(max(top, 1.0), _HIGHEST)
    spacing = Fraction(2) ** round(math.log2(math.sqrt(law.groups) / 1024))
    mean, weights, cut = _mean(law, *_sum(law, steps, top, spacing))
    with np.errstate(divide="ignore"):
        losses, log_weights = np.log(mean), np.log(weights)
    if remove:
        rest = np.log(max(cut, 1e-300))
        log_p, log_q = np.append(log_weights + losses, rest), np.append(log_weights, -np.inf)
        return DiscretePair.from_logs(log_p, log_q, np.append(losses, np.inf))
    rest = math.log(max(1e-300, 1.0 - float(np.sum(weights * mean))))
    log_p, log_q = np.append(log_weights, -np.inf), np.append(log_weights + losses, rest)
    return DiscretePair.from_logs(log_p, log_q, np.append(-losses, -np.inf))
