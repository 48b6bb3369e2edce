"""The Poisson-sampled Gaussian in the remove direction, at whole orders: a mixture of normals."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import binom

from evr.bounds.cells import CellTable
from evr.bounds.tilt import Tilt
from evr.laws import Direction, DominatingPair, Floats
from evr.laws.line.gaussian import log_normal_mass, sample_normal
from evr.laws.line.pair import log_sum_exp
from evr.sampling.samplers.common import (
    CACHE,
    MOST_EXPONENT,
    Indices,
    StepSampler,
    Sums,
    log_of_products,
    matrices,
)

PART = 1 << 20  # numbers among which what is rare is handled at a time
MOST_ORDER = 200  # components of a tilted mixture
_FEW_STEPS = 16  # for which a multinomial draw for each sample costs more than the steps
_COMMON = 0.02  # from this chance on a component is worth a binomial draw for each sample
_NOWHERE = np.empty(0, np.int64)


class MixtureSampler(StepSampler):
    """The Poisson-sampled Gaussian in the remove direction, at integer orders.

    ``P e^{n loss} = N(0,1) (1 - q + q e^{mu t - mu^2/2})^{n + 1}`` is a mixture of normals with
    means ``j mu``, ``j = 0 .. n + 1``. Each linear piece of the tilt takes such a mixture, cut to
    the piece; beyond the cap it is ``P`` itself. Equal steps are exchangeable, so how many of a
    sample's steps come from each component is one multinomial draw. The components that are likely
    and of one piece, mostly the lower slope's, make up the matrix of the hot loop. What is rare is
    left out there, and added for many samples at once: steps of the other components, and those
    that fall outside of the piece.
    """

    name, version, outcomes_per_step = "mixture", 1, 1 / 8

    def __init__(self, pair: DominatingPair, tilt: Tilt, table: CellTable | None = None) -> None:
        sampled = pair.sampled_gaussian
        assert sampled is not None
        self.pair, self.tilt, self.mu, self.q = pair, tilt, sampled.mu, sampled.q
        pieces = list(self._pieces())
        self.log_normaliser = log_sum_exp(np.concatenate([piece.log_weights for piece in pieces]))
        shares = [np.exp(piece.log_weights - self.log_normaliser) for piece in pieces]
        most = int(np.argmax([share.sum() for share in shares]))
        self._main, chances = pieces[most], shares[most]
        likely = np.flatnonzero(chances >= min(_COMMON, chances.max()))
        # a multinomial draw stops when nothing is left
        likely = likely[np.argsort(-chances[likely], kind="stable")]
        rest = np.setdiff1d(np.arange(chances.size), likely)
        rare = self._main._replace(
            means=self._main.means[rest], log_weights=self._main.log_weights[rest]
        )
        self._others = _Others.of([rare, *pieces[:most], *pieces[most + 1 :]], self.log_normaliser)
        # The others come first, so that their chance, which may be small, is not the rest of a
        # subtraction.
        self._chances = np.concatenate(([self._others.chance], chances[likely]))
        self._chances /= self._chances.sum()
        # In the matrix: z gives the loss log(1 - q + e^{mu z + shift}); a shift of -inf leaves a
        # step out, for log(1 - q).
        self._scale = math.log(self.q) - self.mu**2 / 2
        self._shifts = np.concatenate(
            ([-math.inf], self.mu * self._main.means[likely] + self._scale)
        )
        self._low, self._high = (
            self.mu * end + self._scale for end in (self._main.low, self._main.high)
        )
        # No draw is 14 deviations above its place (1e-44), so this logarithm of a ratio is not
        # exceeded.
        self._greatest = max(14.0 * self.mu + float(self._shifts.max()), 0.0) - math.log1p(-self.q)

    @classmethod
    def serves(cls, pair: DominatingPair, tilt: Tilt) -> bool:
        """Whether the tilt's orders are whole, and few enough for a component each."""
        whole = tilt.is_whole and (tilt.jump_order or tilt.order) <= MOST_ORDER
        return whole and cls.suits(pair)

    @staticmethod
    def suits(pair: DominatingPair) -> bool:
        """Whether the pair is of the kind, whatever the tilt."""
        sampled = pair.sampled_gaussian
        return sampled is not None and sampled.direction is Direction.REMOVE

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
        for start, stop, steps in matrices(size, count, PART):
            deal = self._deal if steps >= _FEW_STEPS else self._deal_few
            left_out, parts = deal(generator, stop - start, steps)
            drawn = self._sums(generator, steps, left_out, parts)
            sums.losses[start:stop] += drawn.losses
            sums.heights[start:stop] += drawn.heights
        return sums

    def _deal(
        self, generator: np.random.Generator, rows: int, steps: int
    ) -> tuple[Indices, Iterator[Floats]]:
        """Rows of the steps that are left out, one entry for each; and the
        shifts of the matrices.
        """
        counts = generator.multinomial(steps, self._chances, size=rows)
        at_once = max(1, CACHE // steps)

        def shifts() -> Iterator[Floats]:
            for start in range(0, rows, at_once):
                part = counts[start : start + at_once]
                yield np.repeat(np.tile(self._shifts, len(part)), part.reshape(-1)).reshape(
                    -1, steps
                )

        return np.repeat(np.arange(rows), counts[:, 0]), shifts()

    def _deal_few(
        self, generator: np.random.Generator, rows: int, steps: int
    ) -> tuple[Indices, Iterator[Floats]]:
        """The same for rows so short that one multinomial draw for all of them, whose steps are
        dealt to random places, costs less.
        """
        counts = generator.multinomial(rows * steps, self._chances)
        # the most likely component is everywhere else
        counts[1], size = (0, int(counts.sum() - counts[1]))
        places = generator.choice(rows * steps, size, replace=False)
        shifts = np.full((rows, steps), self._shifts[1])
        shifts.reshape(-1)[places] = np.repeat(self._shifts, counts)
        at_once = CACHE // steps
        return places[: counts[0]] // steps, (
            shifts[start : start + at_once] for start in range(0, rows, at_once)
        )

    def _sums(
        self, generator: np.random.Generator, steps: int, left_out: Indices, parts: Iterator[Floats]
    ) -> Sums:
        """The hot loop, and then what it left out."""
        log_absent = math.log1p(-self.q)
        main, outside, means, done = [], [], [], 0
        buffer = np.empty(max(CACHE, steps))
        for shifts in parts:
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
        cut = (
            np.full(row.size - kind.size, self._main.low),
            np.full(row.size - kind.size, self._main.high),
        )
        low, high = (
            np.concatenate((others.low[kind], cut[0])),
            np.concatenate((others.high[kind], cut[1])),
        )
        loss = self.pair.privacy_loss(mean + _cut_normal(generator, low - mean, high - mean))
        number, losses, heights = (
            np.bincount(row, x, minlength=done) for x in (None, loss, self.tilt.height(loss))
        )
        total = np.concatenate(main) - log_absent * number
        return Sums(
            total + losses,
            self._main.slope * total + self._main.offset * (steps - number) + heights,
        )

    def _outside(self, t: Floats) -> Indices:
        """Places, in the flattened matrix, that are not in the main piece."""
        if self._low == -math.inf and (self._high == math.inf or t.max() <= self._high):
            return _NOWHERE
        return np.flatnonzero((t > self._high) | ((t <= self._low) & (t > -math.inf)))

    def _losses(self, t: Floats, log_absent: float) -> Floats:
        """Row sums of the losses of a matrix, which is used up."""
        if self._greatest > MOST_EXPONENT:
            return np.logaddexp(t, log_absent).sum(axis=1)
        np.exp(t, out=t)
        np.add(t, 1.0 - self.q, out=t)
        return log_of_products(t, self._greatest)


class _Piece(NamedTuple):
    """A linear piece of the tilt, ``slope loss + offset`` on ``(low, high]``, and the normal
    components of its mixture.
    """

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
        number = np.repeat(np.arange(len(pieces)), [piece.means.size for piece in pieces])[
            chances > 0
        ]
        low, high = (
            np.array(x)[number] for x in ([p.low for p in pieces], [p.high for p in pieces])
        )
        total = float(chances.sum())
        shares = np.cumsum(chances[chances > 0] / total)[:-1] if total else np.empty(0)
        return cls(means[chances > 0], low, high, shares, total)


def _cut_normal(generator: np.random.Generator, low: Floats, high: Floats) -> Floats:
    """Normal draws within ``(low, high]``, each of which is drawn anew, cut, if it is outside at
    first: fast where few are.
    """
    t = generator.standard_normal(low.size)
    outside = np.flatnonzero((t <= low) | (t > high))
    t[outside] = sample_normal(generator, low[outside], high[outside])
    return t
