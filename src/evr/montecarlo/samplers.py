"""Exact draws of sums of tilted steps. One class for each way of drawing; ``sampler_for`` picks.

A sampler draws, for each of ``size`` samples, ``count`` independent steps from ``P' = e^{h(loss)} P / M`` and returns the sum
of their losses and the sum of their heights ``h``. This is the hot path: arrays that fit into the cache, no temporaries where
it counts, one logarithm for the product of many likelihood ratios.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from evr.mechanisms import DiscretePair, DominatingPair, Floats, Measure
from evr.mechanisms.gaussian import GaussianPair, log_normal_mass, sample_normal
from evr.mechanisms.pair import log_sum_exp
from evr.mechanisms.poisson import SampledAddPair, SampledRemovePair
from evr.montecarlo.cells import CellTable
from evr.montecarlo.tilt import Tilt

Indices = NDArray[np.int64]

CACHE = 1 << 15  # numbers drawn at a time: 256 KiB
MOST_STEPS = 1 << 13  # steps drawn at a time
MOST_ORDER = 200  # components of a tilted mixture


class Sums(NamedTuple):
    """For each sample, the sum of the losses and the sum of the heights of its steps."""

    losses: Floats
    heights: Floats


class StepSampler(Protocol):
    """Draws sums over equal steps."""

    def draw(self, generator: np.random.Generator, size: int, count: int) -> Sums:
        """Sums over ``count`` tilted steps for ``size`` independent samples."""


def sampler_for(pair: DominatingPair, tilt: Tilt, table: CellTable | None) -> StepSampler:
    """The fastest exact sampler for the pair; ``table`` is needed where cells are."""
    tilt = tilt if tilt.order else Tilt()
    if isinstance(pair, SampledRemovePair) and isinstance(pair.base, GaussianPair) and tilt.is_whole:
        return MixtureSampler(pair, tilt)
    if isinstance(pair, SampledAddPair) and isinstance(pair.base, GaussianPair):
        return EnvelopeSampler(pair, tilt)
    if isinstance(pair, DiscretePair):
        return OutcomeSampler(pair, tilt)
    if tilt.order == 0:
        return PlainSampler(pair)
    if table is None:
        raise ValueError("a table of cells is needed for this pair")
    return CellSampler(pair, tilt, table)


def log_of_products(ratios: Floats, greatest: float) -> Floats:
    """Row sums of ``log`` of a matrix, by products of as many entries as cannot overflow. Destroys nothing."""
    columns = ratios.shape[1]
    together = max(1, min(columns, int(600.0 / max(abs(greatest), 1e-9)))) if math.isfinite(greatest) else 1
    if together >= columns:
        return np.log(np.multiply.reduce(ratios, axis=1))
    starts = np.arange(0, columns, together)
    return np.log(np.multiply.reduceat(ratios, starts, axis=1)).sum(axis=1)


class MixtureSampler:
    """The Poisson-sampled Gaussian in the remove direction, at integer orders.

    ``P e^{n loss} = N(0,1) (1 - q + q e^{mu t - mu^2/2})^{n + 1}`` is a mixture of normals with means ``j mu``, ``j = 0 .. n + 1``.
    Each linear piece of the tilt takes such a mixture, cut to the piece; beyond the cap it is ``P`` itself. Equal steps are
    exchangeable, so how many of a sample's steps come from each component is one multinomial draw.
    """

    def __init__(self, pair: SampledRemovePair, tilt: Tilt) -> None:
        assert isinstance(pair.base, GaussianPair)
        self.pair, self.tilt, self.mu, self.q = pair, tilt, pair.base.mu, pair.q
        means, lows, highs, log_weights = [], [], [], []
        low = -math.inf
        for end, slope, offset in tilt.pieces:
            high = math.inf if end == math.inf else float(pair.point(end))
            if high > low:
                j, weights = self._components(int(slope))
                means.append(self.mu * j)
                lows.append(np.full(j.size, low))
                highs.append(np.full(j.size, high))
                log_weights.append(offset + weights + log_normal_mass(low - self.mu * j, high - self.mu * j))
                low = high
        log_all = np.concatenate(log_weights)
        self.log_normaliser = log_sum_exp(log_all)
        chances = np.exp(log_all - self.log_normaliser)
        # Likeliest first: a multinomial draw stops when nothing is left to hand out.
        order = np.argsort(-chances, kind="stable")
        order = order[chances[order] > 0]
        self._chances = chances[order] / chances[order].sum()
        self._means, self._low, self._high = (np.concatenate(x)[order] for x in (means, lows, highs))
        self._plain_first = bool(self._means[0] == 0 and self._low[0] == -np.inf)  # nothing is to be done to it
        self._bottom = -math.log1p(-self.q)

    def _components(self, slope: int) -> tuple[Floats, Floats]:
        n = slope + 1
        j = np.arange(n + 1.0)
        log_binomial = gammaln(n + 1) - gammaln(j + 1) - gammaln(n - j + 1)
        return j, log_binomial + (n - j) * math.log1p(-self.q) + j * math.log(self.q) + self.mu**2 * j * (j - 1) / 2

    def draw(self, generator: np.random.Generator, size: int, count: int) -> Sums:
        sums = Sums(np.zeros(size), np.zeros(size))
        if count == 1:
            return self._draw_column(generator, sums)
        most = min(count, MOST_STEPS)
        rows = max(1, min(size, CACHE // most))
        buffer = np.empty(rows * most)
        for start, stop, steps in _pieces(size, count):
            here = Sums(sums.losses[start:stop], sums.heights[start:stop])
            self._add(generator, here, buffer[: (stop - start) * steps].reshape(stop - start, steps))
        return sums

    def _add(self, generator: np.random.Generator, sums: Sums, t: Floats) -> None:
        """One pass over a matrix in the cache: a row for each sample, a column for each step."""
        rows, steps = t.shape
        counts = generator.multinomial(steps, self._chances, size=rows)
        generator.standard_normal(out=t)
        flat = t.reshape(-1)
        position, component = _shifted(counts, skip=self._plain_first)
        self._place(generator, flat, position, component)
        off_slope = self._off_slope(flat, position, component, rows, steps)
        # No standard normal is above 14 (1e-44), so products of ratios up to this logarithm do not overflow.
        greatest = self._bottom + self.mu * max(14.0, float(flat[position].max(initial=0.0)))
        np.multiply(t, self.mu, out=t)
        np.subtract(t, self.mu**2 / 2 - math.log(self.q), out=t)
        np.exp(t, out=t)
        np.add(t, 1.0 - self.q, out=t)
        total = log_of_products(t, greatest)
        sums.losses[...] += total
        sums.heights[...] += self.tilt.order * total + off_slope

    def _draw_column(self, generator: np.random.Generator, sums: Sums) -> Sums:
        """One step of every sample: one multinomial draw for all, its parts dealt out at random."""
        size = sums.losses.size
        for start in range(0, size, CACHE):
            t = generator.standard_normal(min(CACHE, size - start))
            counts = generator.multinomial(t.size, self._chances)
            skip = int(self._plain_first)
            component = np.repeat(np.arange(skip, counts.size), counts[skip:])
            position = np.sort(generator.choice(t.size, component.size, replace=False))
            generator.shuffle(component)
            self._place(generator, t, position, component)
            off_slope = self._off_slope(t, position, component, t.size, 1)
            loss = np.log(1.0 - self.q + np.exp(self.mu * t - (self.mu**2 / 2 - math.log(self.q))))
            sums.losses[start : start + t.size] = loss
            sums.heights[start : start + t.size] = self.tilt.order * loss + off_slope
        return sums

    def _place(self, generator: np.random.Generator, flat: Floats, position: Indices, component: Indices) -> None:
        """Shift each draw to its component, and draw again, cut to its piece, what is outside of it."""
        flat[position] += self._means[component]
        outside = position[(flat[position] <= self._low[component]) | (flat[position] > self._high[component])]
        kind = component[np.searchsorted(position, outside)]
        if self._plain_first and self._high[0] < np.inf:  # the standard normal itself, whose places are not listed
            over = np.flatnonzero(flat > self._high[0])
            over = over[~np.isin(over, position, assume_unique=True)] if over.size else over
            outside, kind = (
                np.concatenate((outside, over)),
                np.concatenate((kind, np.zeros(over.size, dtype=kind.dtype))),
            )
        if outside.size:
            mean = self._means[kind]
            flat[outside] = mean + sample_normal(generator, self._low[kind] - mean, self._high[kind] - mean)

    def _off_slope(self, flat: Floats, position: Indices, component: Indices, rows: int, steps: int) -> Floats | float:
        """For each sample, by how much its heights differ from ``order * loss``: pieces other than the first slope's."""
        if self.tilt.order == 0:
            return 0.0
        rare = position[self._low[component] > -np.inf]
        if not rare.size:
            return 0.0
        loss = self.pair.privacy_loss(flat[rare])
        return np.bincount(rare // steps, weights=self.tilt.height(loss) - self.tilt.order * loss, minlength=rows)


def _shifted(counts: Indices, *, skip: bool) -> tuple[Indices, Indices]:
    """Places in the flattened matrix and their components, both in order; without those of the first component if ``skip``."""
    rows, kinds = counts.shape
    steps = int(counts[0].sum())
    listed = counts[:, int(skip) :]
    total = listed.sum(axis=1)
    component = np.repeat(np.tile(np.arange(int(skip), kinds), rows), listed.reshape(-1))
    start = np.repeat(np.arange(rows) * steps - (np.cumsum(total) - total), total)
    return start + np.arange(component.size), component


class EnvelopeSampler:
    """The Poisson-sampled Gaussian in the add direction: the loss is concave in ``t``, so its tangent is an envelope.

    ``P e^{order loss}`` is at most a normal law times a constant, the tangent taken at its mode; a draw is kept with
    probability ``e^{order (loss - tangent)}``. The loss is bounded above by ``-log(1 - q)``; floor and cap are not reached.
    """

    def __init__(self, pair: SampledAddPair, tilt: Tilt) -> None:
        assert isinstance(pair.base, GaussianPair)
        self.mu, self.q, self.tilt = pair.base.mu, pair.q, tilt
        self.pair = pair
        mode = self.mu
        for _ in range(200):  # t = mu + order * slope(t), a contraction after damping
            mode = 0.5 * mode + 0.5 * (self.mu + tilt.order * self._slope(mode))
        self.mode = mode
        self._tangent = float(pair.privacy_loss(mode)), self._slope(mode)

    def _slope(self, t: float) -> float:
        tail = self.q * math.exp(-self.mu * (t - self.mu / 2))
        return self.mu * tail / (1 - self.q + tail)

    def draw(self, generator: np.random.Generator, size: int, count: int) -> Sums:
        losses, heights = np.zeros(size), np.zeros(size)
        rows = max(1, min(size, CACHE // min(count, MOST_STEPS)))
        for start in range(0, size, rows):
            stop = min(start + rows, size)
            for first in range(0, count, MOST_STEPS):
                shape = (stop - start, min(MOST_STEPS, count - first))
                loss = self._accepted(generator, math.prod(shape)).reshape(shape)
                losses[start:stop] += loss.sum(axis=1)
                heights[start:stop] += self.tilt.height(loss).sum(axis=1)
        return Sums(losses, heights)

    def _accepted(self, generator: np.random.Generator, size: int) -> Floats:
        t = generator.standard_normal(size) + self.mode
        loss = self._loss(t)
        if self.tilt.order == 0:
            return loss
        level, slope = self._tangent
        pending = np.arange(size)
        while pending.size:
            here = self.tilt.height(loss[pending]) - self.tilt.order * (level + slope * (t[pending] - self.mode))
            pending = pending[generator.standard_exponential(pending.size) < -here]
            t[pending] = generator.standard_normal(pending.size) + self.mode
            loss[pending] = self._loss(t[pending])
        return loss

    def _loss(self, t: Floats) -> Floats:
        ratio = np.exp(self.mu * self.mu / 2 - self.mu * t + math.log(self.q))
        return -np.log1p(ratio - self.q)


class OutcomeSampler:
    """Finitely many outcomes: how many of a sample's steps have each one is a multinomial draw."""

    def __init__(self, pair: DiscretePair, tilt: Tilt) -> None:
        log_p = np.array(pair.log_p)
        held = log_p > -np.inf
        losses = pair.losses[held]
        heights = tilt.height(losses)
        weights = log_p[held] + heights
        chances = np.exp(weights - log_sum_exp(weights))
        order = np.argsort(-chances, kind="stable")
        self._chances, self._losses, self._heights = chances[order] / chances.sum(), losses[order], heights[order]

    def draw(self, generator: np.random.Generator, size: int, count: int) -> Sums:
        if self._chances.size > 4 * count:  # few steps, many outcomes: draw each step
            index = np.searchsorted(np.cumsum(self._chances[:-1]), generator.random((size, count)), side="right")
            return Sums(self._losses[index].sum(axis=1), self._heights[index].sum(axis=1))
        losses, heights = np.empty(size), np.empty(size)
        rows = max(1, CACHE // self._chances.size)
        finite = np.where(np.isfinite(self._losses), self._losses, 0.0)
        endless = np.flatnonzero(~np.isfinite(self._losses))
        for start in range(0, size, rows):
            counts = generator.multinomial(count, self._chances, size=min(rows, size - start))
            total = counts @ finite
            total[np.any(counts[:, endless] > 0, axis=1)] = np.inf
            losses[start : start + rows], heights[start : start + rows] = total, counts @ self._heights
        return Sums(losses, heights)


class PlainSampler:
    """Any pair, untilted."""

    def __init__(self, pair: DominatingPair) -> None:
        self.pair = pair

    def draw(self, generator: np.random.Generator, size: int, count: int) -> Sums:
        losses = np.zeros(size)
        for start, stop, steps in _pieces(size, count):
            t = self.pair.draw(Measure.P, generator, (stop - start) * steps)
            losses[start:stop] += self.pair.privacy_loss(t).reshape(stop - start, steps).sum(axis=1)
        return Sums(losses, np.zeros(size))


class CellSampler:
    """Any pair with a table of cells: draw a cell by its tilted mass at the upper end, then ``t`` from ``P`` within it, kept
    with probability ``e^{h(t) - h(upper end)}``, which is close to 1 in a narrow cell."""

    def __init__(self, pair: DominatingPair, tilt: Tilt, table: CellTable) -> None:
        self.pair, self.tilt = pair, tilt
        self._roof = tilt.height(table.greatest)
        weights = table.log_p + self._roof
        kept = weights > weights.max() - 745.0
        self._roof, self._low, self._high = self._roof[kept], table.low[kept], table.high[kept]
        self._cumulated = np.cumsum(np.exp(weights[kept] - log_sum_exp(weights[kept])))[:-1]

    def draw(self, generator: np.random.Generator, size: int, count: int) -> Sums:
        losses, heights = np.zeros(size), np.zeros(size)
        for start, stop, steps in _pieces(size, count):
            loss, height = self._accepted(generator, (stop - start) * steps)
            losses[start:stop] += loss.reshape(stop - start, steps).sum(axis=1)
            heights[start:stop] += height.reshape(stop - start, steps).sum(axis=1)
        return Sums(losses, heights)

    def _accepted(self, generator: np.random.Generator, size: int) -> tuple[Floats, Floats]:
        loss, height = np.empty(size), np.empty(size)
        pending = np.arange(size)
        while pending.size:
            cell = np.searchsorted(self._cumulated, generator.random(pending.size), side="right")
            drawn = self.pair.privacy_loss(self.pair.sample(Measure.P, generator, self._low[cell], self._high[cell]))
            h = self.tilt.height(drawn)
            loss[pending], height[pending] = drawn, h
            pending = pending[generator.standard_exponential(pending.size) < self._roof[cell] - h]
        return loss, height


def _pieces(size: int, count: int) -> list[tuple[int, int, int]]:
    """Rows and numbers of steps of matrices that fit into the cache."""
    rows = max(1, min(size, CACHE // min(count, MOST_STEPS)))
    return [
        (start, min(start + rows, size), min(MOST_STEPS, count - first))
        for start in range(0, size, rows)
        for first in range(0, count, MOST_STEPS)
    ]
