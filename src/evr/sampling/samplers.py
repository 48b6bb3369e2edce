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

from evr.bounds.cells import CellTable
from evr.bounds.tilt import Tilt
from evr.laws import DiscretePair, DominatingPair, Floats, Measure
from evr.laws.line.gaussian import GaussianPair, log_normal_mass, sample_normal
from evr.laws.line.pair import log_sum_exp
from evr.laws.line.poisson import SampledAddPair, SampledRemovePair

Indices = NDArray[np.int64]

CACHE = 1 << 15  # numbers drawn at a time: 256 KiB
PART = 1 << 20  # numbers among which what is rare is handled at a time
MOST_STEPS = 1 << 13  # steps of a sample drawn at a time
MOST_ORDER = 200  # components of a tilted mixture
_FEW_STEPS = 16  # for which a multinomial draw for each sample costs more than the steps
_COMMON = 0.02  # from this chance on a component is worth a binomial draw for each sample
_MOST_EXPONENT = 600.0  # of a product of likelihood ratios, with room below the greatest float
_NOWHERE = np.empty(0, np.int64)


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
    if isinstance(pair, SampledRemovePair) and isinstance(pair.base, GaussianPair) and MixtureSampler.serves(tilt):
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
    if columns == 1:
        return np.log(ratios[:, 0])
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
    are likely and of one piece, mostly the lower slope's, make up the matrix of the hot loop. What is rare is left out there, and
    added for many samples at once: steps of the other components, and those that fall outside of the piece.
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
        rest = np.setdiff1d(np.arange(chances.size), likely)
        rare = self._main._replace(means=self._main.means[rest], log_weights=self._main.log_weights[rest])
        self._others = _Others.of([rare, *pieces[:most], *pieces[most + 1 :]], self.log_normaliser)
        # The others come first, so that their chance, which may be small, is not the rest of a subtraction.
        self._chances = np.concatenate(([self._others.chance], chances[likely]))
        self._chances /= self._chances.sum()
        # In the matrix: z gives the loss log(1 - q + e^{mu z + shift}); a shift of -inf leaves a step out, for log(1 - q).
        self._scale = math.log(self.q) - self.mu**2 / 2
        self._shifts = np.concatenate(([-math.inf], self.mu * self._main.means[likely] + self._scale))
        self._low, self._high = (self.mu * end + self._scale for end in (self._main.low, self._main.high))
        # No draw is 14 deviations above its place (1e-44), so this logarithm of a ratio is not exceeded.
        self._greatest = max(14.0 * self.mu + float(self._shifts.max()), 0.0) - math.log1p(-self.q)

    @staticmethod
    def serves(tilt: Tilt) -> bool:
        """Whether the tilt's orders are whole, and few enough for a component each."""
        return tilt.is_whole and (tilt.jump_order or tilt.order) <= MOST_ORDER

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
        for start, stop, steps in _pieces(size, count, PART):
            deal = self._deal if steps >= _FEW_STEPS else self._deal_few
            left_out, matrices = deal(generator, stop - start, steps)
            drawn = self._sums(generator, steps, left_out, matrices)
            sums.losses[start:stop] += drawn.losses
            sums.heights[start:stop] += drawn.heights
        return sums

    def _deal(self, generator: np.random.Generator, rows: int, steps: int) -> tuple[Indices, Iterator[Floats]]:
        """Rows of the steps that are left out, one entry for each; and the shifts of the matrices."""
        counts = generator.multinomial(steps, self._chances, size=rows)
        at_once = max(1, CACHE // steps)

        def matrices() -> Iterator[Floats]:
            for start in range(0, rows, at_once):
                part = counts[start : start + at_once]
                yield np.repeat(np.tile(self._shifts, len(part)), part.reshape(-1)).reshape(-1, steps)

        return np.repeat(np.arange(rows), counts[:, 0]), matrices()

    def _deal_few(self, generator: np.random.Generator, rows: int, steps: int) -> tuple[Indices, Iterator[Floats]]:
        """The same for rows so short that one multinomial draw for all of them, whose steps are dealt to random places, costs less."""
        counts = generator.multinomial(rows * steps, self._chances)
        counts[1], size = 0, int(counts.sum() - counts[1])  # the most likely component is everywhere else
        places = generator.choice(rows * steps, size, replace=False)
        shifts = np.full((rows, steps), self._shifts[1])
        shifts.reshape(-1)[places] = np.repeat(self._shifts, counts)
        at_once = CACHE // steps
        return places[: counts[0]] // steps, (shifts[start : start + at_once] for start in range(0, rows, at_once))

    def _sums(self, generator: np.random.Generator, steps: int, left_out: Indices, matrices: Iterator[Floats]) -> Sums:
        """The hot loop, and then what it left out."""
        log_absent = math.log1p(-self.q)
        main, outside, means, done = [], [], [], 0
        buffer = np.empty(max(CACHE, steps))
        for shifts in matrices:
            t = buffer[: shifts.size].reshape(shifts.shape)
            generator.standard_normal(out=t)
            np.multiply(t, self.mu, out=t)
            np.add(t, shifts, out=t)
            places = self._outside(t)
            if places.size:
                outside.append(done + places // steps)
                means.append((shifts.reshape(-1)[places] - self._scale) / self.mu)
                t.reshape(-1)[places] = -math.inf
            main.append(self._losses(t, log_absent))
            done += len(t)
        others = self._others
        kind = np.searchsorted(others.cumulated, generator.random(left_out.size), side="right")
        row = np.concatenate((left_out, *outside))
        mean = np.concatenate((others.means[kind], *means))
        cut = np.full(row.size - kind.size, self._main.low), np.full(row.size - kind.size, self._main.high)
        low, high = np.concatenate((others.low[kind], cut[0])), np.concatenate((others.high[kind], cut[1]))
        loss = self.pair.privacy_loss(mean + _cut_normal(generator, low - mean, high - mean))
        number, losses, heights = (np.bincount(row, x, minlength=done) for x in (None, loss, self.tilt.height(loss)))
        total = np.concatenate(main) - log_absent * number
        return Sums(total + losses, self._main.slope * total + self._main.offset * (steps - number) + heights)

    def _outside(self, t: Floats) -> Indices:
        """Places, in the flattened matrix, that are not in the main piece."""
        if self._low == -math.inf and (self._high == math.inf or t.max() <= self._high):
            return _NOWHERE
        return np.flatnonzero((t > self._high) | ((t <= self._low) & (t > -math.inf)))

    def _losses(self, t: Floats, log_absent: float) -> Floats:
        """Row sums of the losses of a matrix, which is used up."""
        if self._greatest > _MOST_EXPONENT:
            return np.logaddexp(t, log_absent).sum(axis=1)
        np.exp(t, out=t)
        np.add(t, 1.0 - self.q, out=t)
        return log_of_products(t, self._greatest)


class _Piece(NamedTuple):
    """A linear piece of the tilt, ``slope loss + offset`` on ``(low, high]``, and the normal components of its mixture."""

    means: Floats
    log_weights: Floats
    low: float
    high: float
    slope: float
    offset: float


class _Others(NamedTuple):
    """Components that are drawn one by one: means, cuts, cumulated shares, and their chance."""

    means: Floats
    low: Floats
    high: Floats
    cumulated: Floats
    chance: float

    @classmethod
    def of(cls, pieces: list[_Piece], log_normaliser: float) -> _Others:
        means = np.concatenate([piece.means for piece in pieces])
        chances = np.exp(np.concatenate([piece.log_weights for piece in pieces]) - log_normaliser)
        number = np.repeat(np.arange(len(pieces)), [piece.means.size for piece in pieces])[chances > 0]
        low, high = (np.array(x)[number] for x in ([p.low for p in pieces], [p.high for p in pieces]))
        total = float(chances.sum())
        shares = np.cumsum(chances[chances > 0] / total)[:-1] if total else np.empty(0)
        return cls(means[chances > 0], low, high, shares, total)


def _cut_normal(generator: np.random.Generator, low: Floats, high: Floats) -> Floats:
    """Normal draws within ``(low, high]``, each of which is drawn anew, cut, if it is outside at first: fast where few are."""
    t = generator.standard_normal(low.size)
    outside = np.flatnonzero((t <= low) | (t > high))
    t[outside] = sample_normal(generator, low[outside], high[outside])
    return t


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
        self._log_scale = self.mu * (self.mu / 2 - self.mode) + math.log(self.q)
        self._capped = tilt.order > 0 and tilt.cap < -math.log1p(-self.q)  # else the cap is above all losses
        self._least = math.exp(-tilt.cap) if self._capped else 0.0
        self._at_mode = max(math.exp(self._log_scale) + 1.0 - self.q, self._least)
        self._rate = self._share_kept() if tilt.order else 1.0
        # No draw is 14 deviations below the mode (1e-44), so this logarithm of a ratio is not exceeded.
        self._greatest = max(14.0 * self.mu + self._log_scale, 0.0) - math.log1p(-self.q)

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
        sums = Sums(np.zeros(size), np.zeros(size))
        pieces = _pieces(size, count)
        most = max((stop - start) * steps for start, stop, steps in pieces)
        buffers = np.empty((3, self._tries(most)))
        for start, stop, steps in pieces:
            ratios = self._kept(generator, (stop - start) * steps, buffers).reshape(-1, steps)
            losses = -log_of_products(ratios, self._greatest)
            sums.losses[start:stop] += losses
            if self._capped:
                losses = -log_of_products(np.maximum(ratios, self._least), self._greatest)
            sums.heights[start:stop] += self.tilt.order * losses
        return sums

    def _tries(self, number: int) -> int:
        """Draws of which mostly that number is kept."""
        return math.ceil((number + 3.0 * math.sqrt(number)) / self._rate) if self.tilt.order else number

    def _kept(self, generator: np.random.Generator, number: int, buffers: Floats) -> Floats:
        """``Q / P`` at so many draws that are kept."""
        rise, ratios, bounds = buffers[:, : self._tries(number)]
        self._fill(generator, rise, ratios)
        if self.tilt.order == 0:
            return ratios
        refused = self._refused(generator, rise, ratios, bounds)
        inside = int(np.searchsorted(refused, number))
        spare = np.delete(ratios[number:], refused[inside:] - number)  # stand in for what is refused
        while spare.size < inside:
            rise, more, bounds = np.empty((3, self._tries(inside - spare.size)))
            self._fill(generator, rise, more)
            spare = np.concatenate((spare, np.delete(more, self._refused(generator, rise, more, bounds))))
        ratios[refused[:inside]] = spare[:inside]
        return ratios[:number]

    def _refused(self, generator: np.random.Generator, rise: Floats, ratios: Floats, bounds: Floats) -> Indices:
        """Places of draws that are not kept.

        A draw is kept if a uniform number is at least ``1 - e^{-gap}``, which is at most the gap. A bound on the gap that needs no
        logarithm, and the number's leading 16 bits, settle most; the others get all their bits.
        """
        self._bound_gaps(rise, ratios, out=bounds)
        leading = generator.integers(0, 1 << 16, size=rise.size, dtype=np.uint16)
        doubtful = np.flatnonzero(leading < np.multiply(bounds, 1 << 16, out=bounds))
        uniform = (leading[doubtful] + generator.random(doubtful.size)) / (1 << 16)
        return doubtful[uniform < 1.0 - np.exp(-self._gap(rise[doubtful], ratios[doubtful]))]

    def _fill(self, generator: np.random.Generator, rise: Floats, ratios: Floats) -> None:
        """At normal draws around the mode, by how much the tangent rises from there, and ``Q / P``; its logarithm is minus the loss."""
        generator.standard_normal(out=rise)
        np.multiply(rise, -self.mu, out=ratios)
        np.add(ratios, self._log_scale, out=ratios)
        np.exp(ratios, out=ratios)
        np.add(ratios, 1.0 - self.q, out=ratios)
        np.multiply(rise, self._slope, out=rise)

    def _share_kept(self) -> float:
        """About the chance that a draw is kept, on which nothing but speed depends."""
        z = np.linspace(-8.0, 8.0, 801)
        ratios = np.exp(self._log_scale - self.mu * z) + 1.0 - self.q
        density = np.exp(-(z**2) / 2 - self._gap(self._slope * z, ratios)) / math.sqrt(2 * math.pi)
        return min(max(16.0 * float(np.mean(density)), 0.1), 1.0)

    def _gap(self, rise: Floats, ratios: Floats) -> Floats:
        """How far the envelope is above ``h``."""
        return self._level + rise + self.tilt.order * np.log(np.maximum(ratios, self._least))

    def _bound_gaps(self, rise: Floats, ratios: Floats, out: Floats) -> None:
        """The same with ``log r <= log r_0 + r / r_0 - 1``, ``r_0`` at the mode, where both agree to the first order."""
        np.maximum(ratios, self._least, out=out)
        np.multiply(out, self.tilt.order / self._at_mode, out=out)
        np.add(out, self._level + self.tilt.order * (math.log(self._at_mode) - 1.0), out=out)
        np.add(out, rise, out=out)


class OutcomeSampler:
    """Finitely many outcomes: how many of a sample's steps have each one is a multinomial draw."""

    def __init__(self, pair: DiscretePair, tilt: Tilt) -> None:
        log_p = np.array(pair.log_p)
        held = log_p > -np.inf
        losses = pair.losses[held]
        heights = tilt.height(losses)
        weights = log_p[held] + heights
        chances = np.exp(weights - log_sum_exp(weights))
        order = np.argsort(chances, kind="stable")  # the rare first: what a multinomial draw divides by stays large
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
        if not abs(weights.max()) < 1e12:
            raise ValueError(
                f"the losses of {pair.describe()} are too large for weights in floats: nothing can be drawn here"
            )
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


def _pieces(size: int, count: int, numbers: int = CACHE) -> list[tuple[int, int, int]]:
    """Rows and numbers of steps of matrices of at most so many numbers."""
    rows = max(1, min(size, numbers // min(count, MOST_STEPS)))
    return [
        (start, min(start + rows, size), min(MOST_STEPS, count - first))
        for start in range(0, size, rows)
        for first in range(0, count, MOST_STEPS)
    ]
