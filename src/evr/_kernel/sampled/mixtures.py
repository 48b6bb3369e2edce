"""The proposal for laws in many dimensions: all at order ``k``, or with scaled means, or shifted; of bins
perhaps in a share of the samples only, beside a few bins at an order. Steps on a line take part with one tilt
(docs/guarantees_highdim.md, Sections 4 to 7).

A *part* draws one law. Its density with respect to ``Q`` can be computed and is at least ``e^{order loss}
dP/dQ / M``: the part *dominates a tilt* of that order, so weights are at most ``M e^{-order loss}``.
"""

import abc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, singledispatch
from typing import Any

import numpy as np

from evr._kernel.order import power
from evr._kernel.pairs import Direction, Step
from evr._kernel.pairs.law import UNIT, Floats
from evr._kernel.pairs.line.pair import log_sum_exp
from evr._kernel.pairs.patterns.bins import Bins
from evr._kernel.pairs.patterns.law import (
    PatternLaw,
    ReplacedPatterns,
    density_error,
    in_blocks,
    log_mean_exp,
    magnitude,
)
from evr._kernel.pairs.patterns.min_sep import Chain, MinSep, log_chain_sum
from evr._kernel.sampled.line import TiltedProposal, spread_steps
from evr._kernel.sampled.moments import Rounding, Tilt, log_peak
from evr._kernel.sampled.philox import CHOICES, Counter, RowNumbers, unit, words_at
from evr._kernel.sampled.plan import ByOrder, ByScale, ByShift, ByWindow, MixturePlan
from evr._kernel.sampled.proposals import BUILDERS, Block, Proposal, log_with_infinite
from evr._kernel.sampled.replica_tables import MOST_REPLICAS, STEEPEST, ChainTable, OccupancyTable, RingTable

MOST_COPIES = 1 << 12
"""The most copies of one law that are drawn by place: rows of a block, of up to 2^20 samples, have 32-bit
numbers.
"""
MOST_SCALE = 1e100
"""How many times the means of a law a plan may draw from: squares of more are no floats."""


class MixtureProposal(Proposal):
    """Draws one direction of a composition, simplified, of which some laws are in many dimensions, as the
    plan says.
    """

    xp: Any = np  # whose arrays are drawn by place
    at_once = 1 << 20  # numbers of one law, by place

    def __init__(self, plan: MixturePlan, steps: Sequence[Step]) -> None:
        self.plan, self.steps = plan, tuple(steps)
        patterns = [(step.floats, step.count) for step in self.steps if isinstance(step.floats, PatternLaw)]
        if not patterns:
            raise ValueError("the plan is for laws in many dimensions, and there are none")
        if len({(law.direction, isinstance(law, ReplacedPatterns)) for law, _ in patterns}) > 1:
            raise ValueError("laws of replace-one are not drawn with others: describe all under one relation")
        if plan.by_place and max(count for _, count in patterns) > MOST_COPIES:
            raise ValueError(f"more than {MOST_COPIES} copies of a law have no places")
        on_line = [step for step in self.steps if step.is_on_a_line]
        spread = spread_steps(on_line, plan.kinds)
        tilts = [kind.tilt or Tilt() for kind in plan.kinds]
        self.line = TiltedProposal(spread, tilts) if spread else None
        self.infinite = self.line.infinite if self.line else 0.0
        components = [plan.part, plan.beside] if plan.beside else [plan.part]
        self.shares = [plan.share, 1.0 - plan.share] if plan.beside else [plan.share]
        self.laws = [ManyDimensions(law, n, [part_of(law, by) for by in components]) for law, n in patterns]
        self.order = self.laws[0].parts[0].order  # of all parts that bound samples

    def draw(self, generator: np.random.Generator, size: int) -> Block:
        if self.plan.by_place:
            losses, log_weights = self._placed(generator, size)
        else:
            first = generator.random(size) < self.shares[0] if self.plan.beside else np.ones(size, dtype=bool)
            losses, log_weights = self._weighted(self._coordinates(first, lambda law, samples: generator))
        if self.line is not None:
            block = self.line.draw(generator, size)
            losses = losses + self.xp.asarray(block.losses)
            log_weights = log_weights + self.xp.asarray(block.log_weights)
        return Block(losses, log_weights, self.infinite)

    def _placed(self, generator: np.random.Generator, size: int) -> tuple[Floats, Floats]:
        """Losses and logarithms of weights, by place: as many samples at once as memory is for. A sample's
        component has a place, and so have the numbers of each copy of a law in it, its *row* (Section 7).
        """
        chooser, *counters = [Counter.of(generator) for _ in range(1 + len(self.laws))]
        each = max(1, self.at_once // sum(own.numbers for own in self.laws))
        found = []
        for start in range(0, size, each):
            samples = self.xp.arange(start, min(start + each, size))

            def numbers(law: int, chosen: Any, samples: Any = samples) -> RowNumbers:
                count = self.laws[law].count
                return RowNumbers(
                    counters[law], (samples[chosen][:, None] * count + self.xp.arange(count)).reshape(-1)
                )

            first = unit(words_at(samples, chooser, CHOICES)[0][:, 0]) < self.shares[0]
            found.append(self._weighted(self._coordinates(first, numbers)))
        losses, log_weights = (self.xp.concatenate(one) for one in zip(*found, strict=True))
        return losses, log_weights

    def _coordinates(self, first: Any, numbers: Callable[[int, Any], Any]) -> list[Floats]:
        """Coordinates of each law; rows of a sample's copies of a law follow each other. ``first`` says which
        samples the first component draws, ``numbers`` which random numbers a law has in some of the samples.
        """
        if len(self.shares) == 1:
            every = self.xp.arange(first.size)
            return [x.parts[0].draw(numbers(i, every), first.size * x.count) for i, x in enumerate(self.laws)]
        out = [self.xp.empty((first.size, own.count, own.law.dimension)) for own in self.laws]
        for component, chosen in enumerate((first, ~first)):
            samples = np.flatnonzero(chosen)
            for index, own in enumerate(self.laws):
                drawn = own.parts[component].draw(numbers(index, samples), samples.size * own.count)
                out[index][samples] = drawn.reshape(samples.size, own.count, own.law.dimension)
        return [coordinates.reshape(-1, coordinates.shape[2]) for coordinates in out]

    def _weighted(self, coordinates: Sequence[Floats]) -> tuple[Floats, Floats]:
        """Losses and logarithms of weights of the laws in many dimensions, from the coordinates of each."""
        size = coordinates[0].shape[0] // self.laws[0].count
        losses, log_ratios = self.xp.zeros((2, size))
        log_densities = self.xp.zeros((len(self.shares), size))
        refused = self.xp.zeros(size, dtype=bool)
        for own, x in zip(self.laws, coordinates, strict=True):
            rows, log_ratio = (size, own.count), own.law.log_ratio(x)
            for log_density, part in zip(log_densities, own.parts, strict=True):
                log_density += part.log_density(x, log_ratio).reshape(rows).sum(axis=1)
            if any(part.refuses for part in own.parts):  # whatever else is no number stops the run
                refused |= np.isnan(x[:, 0]).reshape(rows).any(axis=1)
            losses += own.law.loss(x, log_ratio).reshape(rows).sum(axis=1)
            if own.law.direction is Direction.REMOVE:
                log_ratios += log_ratio.reshape(rows).sum(axis=1)
        log_weights = log_ratios - self._mixed(log_densities)
        losses[refused], log_weights[refused] = 0.0, -np.inf  # whatever is lost on a line
        return losses, log_weights

    def _mixed(self, log_densities: Floats) -> Floats:
        """``log`` of the density of each sample, with respect to ``Q`` of the laws in many dimensions."""
        if len(self.shares) == 1:
            return log_densities[0]
        first, second = (x + math.log(share) for x, share in zip(log_densities, self.shares, strict=True))
        top = np.maximum(first, second)
        return top + np.log(np.exp(first - top) + np.exp(second - top))

    def log_greatest(self, epsilon: float) -> float:
        """By the component that bounds samples, and its share (5.1, 5.2, 6.1; guarantees_relations, R8.3)."""
        log_moment = math.fsum(own.count * own.parts[0].log_normaliser for own in self.laws)
        log_moment -= math.log(self.shares[0])
        slope = loss_order(self.laws[0].law, self.order)
        if self.line is not None:
            log_moment += self.line.log_normaliser + _line_gap(self.line, slope)
        height = log_height([(own.law, own.count) for own in self.laws], slope, epsilon)
        return log_with_infinite(log_moment + height, self.infinite)

    def log_moment(self, epsilon: float, p: float) -> float:
        return p * self.log_greatest(epsilon)

    def rounding(self, epsilon: float) -> Rounding:
        """How far losses and weights may be off. Drawn by place, sums may be in any order."""
        scale = max(part.magnitude for own in self.laws for part in own.parts)
        errors = []
        for law, count, parts in ((own.law, own.count, own.parts) for own in self.laws):
            error = density_error(law, scale) + max(part.sum_error(law, scale) for part in parts)
            if self.plan.by_place:
                error += UNIT * (4.0 * law.dimension + count * magnitude(law, scale))
            errors.append(count * error)
        base = self.line.rounding(epsilon) if self.line else Rounding.of((), epsilon)
        weight = base.weight + 16.0 * UNIT * self.order * abs(epsilon) + 4.0 * math.fsum(errors)
        return Rounding(base.loss + math.fsum(errors), weight, self.order)

    @property
    def work(self) -> int:
        numbers = sum(own.numbers for own in self.laws)
        return numbers * (2 + len(self.shares)) + (self.line.work if self.line else 0)


BUILDERS[MixturePlan] = MixtureProposal


def loss_order(law: PatternLaw, order: float) -> float:
    """How fast weights fall with the loss where they fall by ``order`` with ``log L``."""
    return order / 2 if isinstance(law, ReplacedPatterns) else order


def log_height(laws: Sequence[tuple[PatternLaw, int]], slope: float, epsilon: float) -> float:
    """``log`` of the greatest ``(1 - e^{epsilon - loss})_+ L^{-order}``; ``slope`` is the order over the
    loss.
    """
    kappas = (n * law.log_kappa for law, n in laws if isinstance(law, ReplacedPatterns))
    return (log_peak(slope) if slope > 0 else 0.0) - slope * (epsilon + 2.0 * math.fsum(kappas))


def _line_gap(line: TiltedProposal, order: float) -> float:
    """``sup (order y - h)`` over the steps on a line; infinite if draws may reach beyond a cap."""
    if any(b.log_beyond(1.0) > -math.inf for b in line.bounds):
        return math.inf
    return math.fsum(s.count * b.greatest_gap(order) for s, b in zip(line.steps, line.bounds, strict=True))


class Part(abc.ABC):
    """Draws coordinates of one law; knows their density with respect to ``Q``."""

    order: float  # of the tilt that it dominates, in the direction of its law; 0 for plain sampling
    log_normaliser: float  # ``log M`` of that tilt
    # how many times the means of the law it draws from are, at the most: rounding is relative to that
    magnitude: float
    refuses: bool = False  # whether it may draw nothing (4.2)

    def sum_error(self, law: PatternLaw, scale: float) -> float:
        """What own sums add to the error of the log density, where means are up to ``scale`` times the law's
        (7).
        """
        return 0.0

    @abc.abstractmethod
    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        """Coordinates, a row for each sample; a row of NaN where a part that ``refuses`` draws nothing."""

    @abc.abstractmethod
    def log_density(self, coordinates: Floats, log_ratio: Floats) -> Floats:
        """``log`` of the density with respect to ``Q``; ``log_ratio`` is ``log L``."""


@dataclass(eq=False)
class ManyDimensions:
    """A law, how often it is applied, and its part in each component."""

    law: PatternLaw
    count: int
    parts: list[Part]

    @property
    def numbers(self) -> int:
        """How many coordinates a sample has."""
        return self.count * self.law.dimension


class Shifted(Part):
    """``N(shift mbar, I)`` of any law. Where the shift is not positive, that is a tilt of the add direction
    (6.1).
    """

    def __init__(self, law: PatternLaw, shift: float) -> None:
        self.law, self.shift, self.order, self.magnitude = law, shift, -shift, abs(shift)
        mean = law.mean
        self.move, self.weights = shift * mean.coordinates, mean.weights
        self.half_square = shift**2 * mean.square / 2
        self.log_normaliser = self.order * mean.energy / 2 + self.half_square

    def sum_error(self, law: PatternLaw, scale: float) -> float:
        """The error of the sum of products in the density."""
        # noise of n coordinates is up to 39 + sqrt(n) long, not 39
        more = (39.0 + math.sqrt(law.dimension)) / 156.0
        products = math.ceil(law.dimension * max(1.0, more))
        return 2.0 * UNIT * products * magnitude(law, scale)

    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        coordinates = self.law.draw_null(generator, size)
        coordinates += self.move
        return coordinates

    def log_density(self, coordinates: Floats, log_ratio: Floats) -> Floats:
        return self.shift * (coordinates @ self.weights) - self.half_square


class ScaledBins(Part):
    """Scaled means ``P_u`` of bins (5.2), with ``H = mean_j e^{u G_jj/2}``."""

    def __init__(self, law: Bins, scale: float) -> None:
        self.law, self.scale, self.magnitude = law, scale, scale
        self.half_squares = scale**2 * law.energies / 2
        self.order = scale - 1.0
        log_h = log_mean_exp(law.energies[None, :], np.zeros(1), scale / 2)[0]
        self.log_normaliser = self.order * float(log_h)

    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        coordinates = self.law.draw_null(generator, size)
        chosen = generator.integers(0, self.law.bins, size)
        coordinates += self.scale * self.law.means(chosen)
        return coordinates

    def log_density(self, coordinates: Floats, log_ratio: Floats) -> Floats:
        return log_mean_exp(coordinates, self.half_squares, self.scale)


class ScaledChain(Part):
    """b-min-sep patterns of other odds to take part, their means scaled (5.2)."""

    def __init__(self, law: MinSep, scale: float, odds: float) -> None:
        self.law, self.scale, self.magnitude = law, scale, scale
        probability = with_odds(law.probability, odds)
        self.chain = Chain(law.dimension, law.separation, probability, law.warm)
        self.order = scale - 1.0
        self.log_normaliser = self.order * log_hoelder(law, probability, scale) if scale > 1 else 0.0

    def sum_error(self, law: PatternLaw, scale: float) -> float:
        return self.law.logs_error(self.chain, self.scale, scale)

    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        return self.law.shifted(generator, self.scale * self.chain.draw(generator, size))

    def log_density(self, coordinates: Floats, log_ratio: Floats) -> Floats:
        u = self.scale
        return log_chain_sum(coordinates.T, self.chain, u, u * u * self.law.energies / 2)


class ByReplicas(Part):
    """``Q L^k / M_k`` of b-min-sep sampling and of independent or few bins; of other bins the mean over
    rotations of ``Q L'^k / Mbar``, ``L'`` without a few bins or of a ``window`` of them, which is at least
    ``L^k / Mbar`` (5.1).
    """

    def __init__(self, law: Bins | MinSep, order: int, window: int | None = None) -> None:
        self.table: Any = table_of(law, order, window)  # refuses orders that are too large, also for floats
        self.law, self.power, self.magnitude = law, order, float(order)
        self.refuses = isinstance(self.table, RingTable)
        self.order, self.log_normaliser = order - 1.0, self.table.log_moment

    def sum_error(self, law: PatternLaw, scale: float) -> float:
        """The error of sliding sums, and of the sums of a table from bin to bin, or from step to step."""
        return 4.0 * UNIT * law.dimension * self.power

    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        law, table = self.law, self.table
        if isinstance(law, MinSep):
            return law.shifted(generator, table.draw(generator, size))
        coordinates = law.draw_null(generator, size)
        if isinstance(table, RingTable):
            _, pulled, accepted = table.draw(generator, size)
            coordinates += pulled
            coordinates[~accepted] = np.nan
        else:
            moved = law.pulled(table.draw(generator, size).astype(float))
            coordinates[:, : moved.shape[1]] += moved  # of independent bins, any will do
        return coordinates

    def log_density(self, coordinates: Floats, log_ratio: Floats) -> Floats:
        if not isinstance(self.table, RingTable):
            return self.power * log_ratio - self.log_normaliser
        half_squares, length = self.law.energies / 2, self.table.length
        return log_ring_power(coordinates, half_squares, length, self.power) - self.log_normaliser


class LocalBins(Part):
    """Order ``k`` of a window of bins, and all bins shifted by ``shift mbar`` (4.4): it carries the excess
    over epsilon by a few bins next to each other, and by all of them together. It bounds no sample.
    """

    order, log_normaliser, refuses = 0.0, math.inf, True

    def __init__(self, law: Bins, order: int, window: int, shift: float) -> None:
        self.window, self.shifted = ByReplicas(law, order, window), Shifted(law, shift)
        self.magnitude = order + shift

    def sum_error(self, law: PatternLaw, scale: float) -> float:
        return self.window.sum_error(law, scale) + self.shifted.sum_error(law, scale)

    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        coordinates = self.window.draw(generator, size)
        coordinates += self.shifted.move
        return coordinates

    def log_density(self, coordinates: Floats, log_ratio: Floats) -> Floats:
        found = self.window.log_density(coordinates - self.shifted.move, log_ratio)
        return found + self.shifted.log_density(coordinates, log_ratio)


def part_of(law: PatternLaw, by: ByOrder | ByScale | ByShift | ByWindow) -> Part:
    """The part of a law that a plan names; the same for all laws of a composition."""
    law = law.base if isinstance(law, ReplacedPatterns) else law
    if (law.direction is Direction.ADD) is not isinstance(by, ByShift):
        raise ValueError(f"direction {law.direction.value!r} of {law.describe()} has no part {by!r}")
    if isinstance(by, ByShift):
        if not -MOST_SCALE <= by.shift <= 0:
            raise ValueError(f"shift={by.shift!r} of a part is not from {-MOST_SCALE:g} to 0")
        return Shifted(law, by.shift)
    assert isinstance(law, Bins | MinSep)
    if isinstance(by, ByOrder):
        return ByReplicas(law, by.order)
    if isinstance(by, ByWindow):
        if isinstance(law, MinSep) or not 0 <= by.shift <= MOST_SCALE:
            raise ValueError(
                f"{law.describe()} has no part {by!r}: it needs bins and a shift from 0 to {MOST_SCALE:g}"
            )
        return LocalBins(law, by.order, by.window, by.shift)
    if not (1 < by.scale <= MOST_SCALE or by.scale == by.odds == 1):
        raise ValueError(
            f"scale={by.scale!r} of a part is not above 1, up to {MOST_SCALE:g}, nor 1 with odds of 1"
        )
    return ScaledChain(law, by.scale, by.odds) if isinstance(law, MinSep) else ScaledBins(law, by.scale)


def with_odds(probability: float, odds: float) -> float:
    """The probability whose odds are so many times those of another.

    >>> with_odds(0.2, 4.0), with_odds(0.3, 1.0)
    (0.5, 0.3)
    """
    if odds == 1 or probability == 1:
        return probability
    found = odds * probability / (1.0 - probability + odds * probability)
    if not 0 < found < 1:
        raise ValueError(f"odds={odds!r} of a part make {probability!r} no probability")
    return found


@singledispatch
def log_ring_power(x: Floats, halves: Floats, length: int, exponent: int) -> Floats:
    """``log`` of the mean, over each row as a ring, of a power of the mean of ``length`` terms ``e^{x -
    halves}`` in a row.
    """
    found = np.empty(len(x))
    for rows in in_blocks(x):
        logs = x[rows] - halves
        top = logs.max(axis=1, keepdims=True)
        logs -= top
        means = ring_sums(np.exp(logs, out=logs), length)
        means /= length  # 1 / length or more somewhere, 1 at the most
        powers = power(means, exponent, np.multiply).mean(axis=1)  # by squares: off by as many units
        found[rows] = np.log(powers) + exponent * top[:, 0]
    return found


def ring_sums(values: Floats, length: int) -> Floats:
    """Sums of ``length`` entries in a row from each place on a ring; no term is ever taken off.

    >>> ring_sums(np.array([[1.0, 2.0, 4.0]]), 2)
    array([[3., 6., 5.]])
    """

    def joined(one: tuple[Floats, int], other: tuple[Floats, int]) -> tuple[Floats, int]:
        return one[0] + np.roll(other[0], -one[1], axis=1), one[1] + other[1]

    return power((values, 1), length, joined)[0]


def log_hoelder(law: MinSep, probability: float, scale: float) -> float:
    """``log H`` of 5.2: a recursion over steps, in logarithms."""
    p, power, b = law.probability, 1.0 / (scale - 1.0), law.separation
    log_in = math.log(p) + power * math.log(p / probability)
    log_out = -math.inf
    if p < 1:
        log_out = math.log1p(-p) + power * (math.log1p(-p) - math.log1p(-probability))
    later = np.zeros(law.dimension + b)
    for i in range(law.dimension - 1, -1, -1):
        taken = log_in + scale * law.energies[i] / 2 + later[i + b]
        later[i] = np.logaddexp(log_out + later[i + 1], taken)
    if not law.warm:
        return float(later[0])
    whole, other = 1.0 + (b - 1) * p, 1.0 + (b - 1) * probability
    start = -math.log(whole) + power * math.log(other / whole)
    log_late = math.log(p / whole) + power * math.log((p / whole) / (probability / other))
    late = log_late + log_sum_exp(later[1:b]) if b > 1 else -math.inf
    return float(np.logaddexp(start + later[0], late))


def affords(law: PatternLaw, order: int, window: int | None = None) -> bool:
    """Whether the table of an order is affordable."""
    law = law.base if isinstance(law, ReplacedPatterns) else law
    if not 2 <= order <= MOST_REPLICAS or order * (order - 1) / 2 * law.greatest_energy > STEEPEST:
        return False
    if window is not None and window < 1:
        return False
    if isinstance(law, MinSep):
        return ChainTable.is_affordable(law.dimension, law.separation, order)
    assert isinstance(law, Bins)
    listed = window is None and OccupancyTable.is_affordable(law, order)
    return listed or RingTable.is_affordable(law, order, window)


@lru_cache(maxsize=6)
def table_of(
    law: Bins | MinSep, order: int, window: int | None = None
) -> OccupancyTable | RingTable | ChainTable:
    """The table of an order: which one depends on the law, the order and the window alone."""
    if not affords(law, order, window):
        beside = "" if window is None else f" with window={window!r}"
        raise ValueError(f"order={order!r}{beside} has no affordable table for {law.describe()}")
    if isinstance(law, MinSep):
        return ChainTable(law.overlaps, law.separation, law.probability, law.warm, order)
    listed = window is None and OccupancyTable.is_affordable(law, order)
    return OccupancyTable(law, order) if listed else RingTable(law, order, window)
