"""Exact draws of sums of tilted steps. One class for each way of drawing; ``sampler_for`` picks.

A sampler draws, for each of ``size`` samples, ``count`` independent steps from ``P' = e^{h(loss)} P / M`` and returns the sum
of their losses and the sum of their heights ``h``. This is the hot path: arrays that fit into the cache, no temporaries where
it counts, one logarithm for the product of many likelihood ratios.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import binom

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
_COMMON = 0.02  # from this chance on a component is worth a binomial draw for each sample
_MOST_EXPONENT = 600.0  # of a product of likelihood ratios, with room below the greatest float


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
    if isinstance(pair, SampledAddPair) and isinstance(pair.base, GaussianPair) and EnvelopeSampler.serves(pair, tilt):
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
    together = max(1, min(columns, int(_MOST_EXPONENT / max(abs(greatest), 1e-9)))) if math.isfinite(greatest) else 1
    if together >= columns:
        return np.log(np.multiply.reduce(ratios, axis=1))
    starts = np.arange(0, columns, together)
    return np.log(np.multiply.reduceat(ratios, starts, axis=1)).sum(axis=1)


class MixtureSampler:
    """The Poisson-sampled Gaussian in the remove direction, at integer orders.

    ``P e^{n loss} = N(0,1) (1 - q + q e^{mu t - mu^2/2})^{n + 1}`` is a mixture of normals with means ``j mu``, ``j = 0 .. n + 1``.
    Each linear piece of the tilt takes such a mixture, cut to the piece; beyond the cap it is ``P`` itself. Equal steps are
    exchangeable, so how many of a sample's steps come from each component is one multinomial draw. The components that
    are likely and of one piece, mostly the lower slope's, take part in it one by one; the others together, and each step that
    falls to them is looked at by itself.
    """

    def __init__(self, pair: SampledRemovePair, tilt: Tilt) -> None:
        assert isinstance(pair.base, GaussianPair)
        self.pair, self.tilt, self.mu, self.q = pair, tilt, pair.base.mu, pair.q
        pieces = list(self._pieces())
        self.log_normaliser = log_sum_exp(np.concatenate([piece.log_weights for piece in pieces]))
        shares = [np.exp(piece.log_weights - self.log_normaliser) for piece in pieces]
        most = int(np.argmax([share.sum() for share in shares]))
        self._main, chances = pieces[most], shares[most]
        likely = np.flatnonzero(chances >= min(_COMMON, chances.max()))
        likely = likely[np.argsort(-chances[likely], kind="stable")]  # a multinomial draw stops when nothing is left
        self._common_means = self._main.means[likely]
        rest = np.setdiff1d(np.arange(chances.size), likely)
        rare = self._main._replace(means=self._main.means[rest], log_weights=self._main.log_weights[rest])
        off_slope = [piece for number, piece in enumerate(pieces) if number != most]
        self._others = _Others.of([rare, *off_slope], self.log_normaliser)
        # The others come first, so that their chance, which may be small, is not the rest of a subtraction.
        self._chances = np.concatenate(([self._others.chance], chances[likely]))
        self._chances /= self._chances.sum()

    def _pieces(self) -> Iterator[_Piece]:
        low = -math.inf
        for end, slope, offset in self.tilt.pieces:
            high = math.inf if end == math.inf else float(self.pair.point(end))
            if high > low:
                means, weights = self._components(int(slope))
                log_weights = offset + weights + log_normal_mass(low - means, high - means)
                yield _Piece(means, log_weights, low, high, slope, offset)
                low = high

    def _components(self, slope: int) -> tuple[Floats, Floats]:
        n = slope + 1
        j = np.arange(n + 1.0)
        log_weights = np.log(binom(n, j)) + (n - j) * math.log1p(-self.q) + j * math.log(self.q)
        return self.mu * j, log_weights + self.mu**2 * j * (j - 1) / 2

    def draw(self, generator: np.random.Generator, size: int, count: int) -> Sums:
        sums = Sums(np.zeros(size), np.zeros(size))
        if count == 1:  # one multinomial draw for a whole part of the samples, its steps dealt out at random
            for start in range(0, size, CACHE):
                t = np.empty((1, min(CACHE, size - start)))
                drawn = self._sums(generator, t, t.size)
                order = generator.permutation(t.size)
                sums.losses[start : start + t.size] = drawn.losses[order]
                sums.heights[start : start + t.size] = drawn.heights[order]
            return sums
        most = min(count, MOST_STEPS)
        buffer = np.empty(max(1, min(size, CACHE // most)) * most)
        for start, stop, steps in _pieces(size, count):
            t = buffer[: (stop - start) * steps].reshape(stop - start, steps)
            drawn = self._sums(generator, t, stop - start)
            sums.losses[start:stop] += drawn.losses
            sums.heights[start:stop] += drawn.heights
        return sums

    def _sums(self, generator: np.random.Generator, t: Floats, parts: int) -> Sums:
        """One pass over a matrix in the cache, a multinomial draw for each row; the sums over ``parts`` equal parts of it."""
        counts = generator.multinomial(t.shape[1], self._chances, size=t.shape[0])
        generator.standard_normal(out=t)
        self._place_common(generator, t, counts)
        places = _first_places(counts[:, 0], t.shape[1])
        t = t.reshape(parts, -1)
        off_slope = self._place_others(generator, t, places)
        # No draw is 14 deviations above its place (1e-44), so this logarithm of a ratio is not exceeded.
        farthest = max(14.0 + float(self._common_means.max()), float(t.reshape(-1)[places].max(initial=0.0)))
        total = self._losses(t, self.mu * farthest - math.log1p(-self.q))
        return Sums(total, self._main.slope * total + (self._main.offset * t.shape[1] + off_slope))

    def _place_common(self, generator: np.random.Generator, t: Floats, counts: Indices) -> None:
        """Shift each row's draws, but for the first ``counts[:, 0]``, to their components, and draw again, cut, what is outside."""
        rows, steps = t.shape
        if self._common_means.any():
            shifts = np.tile(np.concatenate(([0.0], self._common_means)), rows)
            np.add(t, np.repeat(shifts, counts.reshape(-1)).reshape(rows, steps), out=t)
        if self._main.low == -math.inf and (self._main.high == math.inf or t.max() <= self._main.high):
            return
        row, column = np.nonzero((t <= self._main.low) | (t > self._main.high))
        kind = np.sum(column[:, None] >= np.cumsum(counts, axis=1)[row], axis=1) - 1
        row, column, kind = row[kind >= 0], column[kind >= 0], kind[kind >= 0]
        mean = self._common_means[kind]
        t[row, column] = mean + sample_normal(generator, self._main.low - mean, self._main.high - mean)

    def _place_others(self, generator: np.random.Generator, matrix: Floats, places: Indices) -> Floats | float:
        """Give each of the other steps its component. By how much the heights of a row differ from the main piece's line."""
        others, flat = self._others, matrix.reshape(-1)
        kind = np.searchsorted(others.cumulated, generator.random(places.size), side="right")
        t = flat[places] + others.means[kind]
        low, high = others.low[kind], others.high[kind]
        outside = (t <= low) | (t > high)
        if outside.any():
            mean = others.means[kind[outside]]
            t[outside] = mean + sample_normal(generator, low[outside] - mean, high[outside] - mean)
        flat[places] = t
        off = others.off_slope[kind]
        if not off.any():
            return 0.0
        loss = self.pair.privacy_loss(t[off])
        differences = self.tilt.height(loss) - (self._main.slope * loss + self._main.offset)
        row = places[off] // matrix.shape[1]
        return np.bincount(row, weights=differences, minlength=matrix.shape[0]).astype(np.float64)

    def _losses(self, t: Floats, greatest: float) -> Floats:
        """Row sums of the losses of a matrix, which is used up; ``greatest`` bounds a loss, either way."""
        if greatest > _MOST_EXPONENT:
            return self.pair.privacy_loss(t).sum(axis=1)
        np.multiply(t, self.mu, out=t)
        np.subtract(t, self.mu**2 / 2 - math.log(self.q), out=t)
        np.exp(t, out=t)
        np.add(t, 1.0 - self.q, out=t)
        return log_of_products(t, greatest)


class _Piece(NamedTuple):
    """A linear piece of the tilt, ``slope loss + offset`` on ``(low, high]``, and the normal components of its mixture."""

    means: Floats
    log_weights: Floats
    low: float
    high: float
    slope: float
    offset: float


class _Others(NamedTuple):
    """Components that are drawn one by one: means, cuts, whether off the main piece, cumulated shares, and their chance."""

    means: Floats
    low: Floats
    high: Floats
    off_slope: NDArray[np.bool_]
    cumulated: Floats
    chance: float

    @classmethod
    def of(cls, pieces: list[_Piece], log_normaliser: float) -> _Others:
        """Of some pieces, the first of which is part of the main one."""
        means = np.concatenate([piece.means for piece in pieces])
        chances = np.exp(np.concatenate([piece.log_weights for piece in pieces]) - log_normaliser)
        number = np.repeat(np.arange(len(pieces)), [piece.means.size for piece in pieces])[chances > 0]
        low, high = (np.array(x)[number] for x in ([p.low for p in pieces], [p.high for p in pieces]))
        total = float(chances.sum())
        shares = np.cumsum(chances[chances > 0] / total)[:-1] if total else np.empty(0)
        return cls(means[chances > 0], low, high, number > 0, shares, total)


def _first_places(counts: Indices, steps: int) -> Indices:
    """Places, in the flattened matrix, of the first ``counts`` columns of each row."""
    before = np.cumsum(counts) - counts
    return np.repeat(np.arange(counts.size) * steps - before, counts) + np.arange(int(counts.sum()))


class EnvelopeSampler:
    """The Poisson-sampled Gaussian in the add direction: the loss is concave in ``t``, so its tangent is an envelope.

    ``P e^h`` is at most a normal law times a constant, the tangent to ``h``, which a cap leaves concave, taken at the mode; a
    draw is kept with probability ``e^{h - tangent}``. A floor would break the envelope where it is reached, so ``serves`` asks
    that it is not.
    """

    def __init__(self, pair: SampledAddPair, tilt: Tilt) -> None:
        assert isinstance(pair.base, GaussianPair)
        self.mu, self.q, self.tilt = pair.base.mu, pair.q, tilt
        # At the cap, or beyond it, every slope down to 0 is a tangent's: the mode is not beyond where the cap is reached.
        self.mode = min(self._mode(tilt.order), max(self.mu, float(pair.point(tilt.cap))))
        # The slope that the shift of the normal law stands for, to the last digit: else the law is not the one stated.
        self._slope = self.mode - self.mu
        self._level = float(tilt.height(pair.privacy_loss(self.mode)))

    @staticmethod
    def serves(pair: SampledAddPair, tilt: Tilt) -> bool:
        """Whether the envelope is one: one slope, and a floor that no draw reaches (38 deviations, 1e-316)."""
        return tilt.knee is None and (tilt.order == 0 or float(pair.point(tilt.floor)) <= -38.0)

    def _mode(self, order: float) -> float:
        """Without a cap, the root of ``t = mu + order loss'(t)``, by halving: the right side falls in ``t``."""
        low, high = self.mu, self.mu * (1.0 + order)  # the slope of the loss is between 0 and mu
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if self.mu + order * self._slope_at(middle) > middle else (low, middle)
        return low

    def _slope_at(self, t: float) -> float:
        exponent = self.mu * (t - self.mu / 2) + math.log1p(-self.q) - math.log(self.q)
        return self.mu / (1.0 + math.exp(min(exponent, 700.0)))

    def draw(self, generator: np.random.Generator, size: int, count: int) -> Sums:
        losses, heights = np.zeros(size), np.zeros(size)
        for start, stop, steps in _pieces(size, count):
            loss, height = self._accepted(generator, (stop - start) * steps)
            losses[start:stop] += loss.reshape(stop - start, steps).sum(axis=1)
            heights[start:stop] += height.reshape(stop - start, steps).sum(axis=1)
        return Sums(losses, heights)

    def _accepted(self, generator: np.random.Generator, size: int) -> tuple[Floats, Floats]:
        z = generator.standard_normal(size)
        loss = self._loss(z)
        height = self.tilt.height(loss)
        if self.tilt.order == 0:
            return loss, height
        pending = np.flatnonzero(generator.standard_exponential(size) < self._gap(z, height))
        while pending.size:
            z = generator.standard_normal(pending.size)
            loss[pending] = self._loss(z)
            height[pending] = self.tilt.height(loss[pending])
            pending = pending[generator.standard_exponential(pending.size) < self._gap(z, height[pending])]
        return loss, height

    def _gap(self, z: Floats, height: Floats) -> Floats:
        """How far the envelope is above ``h``, ``z`` being measured from the mode. Uses ``z`` up."""
        np.multiply(z, self._slope, out=z)
        np.subtract(z, height, out=z)
        return np.add(z, self._level, out=z)

    def _loss(self, z: Floats) -> Floats:
        ratio = np.multiply(z, -self.mu)
        np.add(ratio, self.mu * (self.mu / 2 - self.mode) + math.log(self.q), out=ratio)
        np.exp(np.minimum(ratio, _MOST_EXPONENT, out=ratio), out=ratio)
        np.add(ratio, 1.0 - self.q, out=ratio)
        return np.negative(np.log(ratio, out=ratio), out=ratio)


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
