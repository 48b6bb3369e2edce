"""The Poisson-sampled Gaussian in the remove direction, by place."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from evr.bounds.cells import CellTable
from evr.bounds.tilt import Tilt
from evr.laws import DominatingPair, Floats
from evr.laws.line.gaussian import log_normal_mass
from evr.laws.line.pair import log_sum_exp
from evr.sampling.philox import Place, fine_uniform, normals, uniform
from evr.sampling.samplers.common import MOST_EXPONENT, Sums, log_of_products
from evr.sampling.samplers.mixture import MixtureSampler
from evr.sampling.samplers.placed import (
    PlacedSampler,
    Samples,
    interleaved,
    pairs_together,
    spans,
)

_LIKELY = 0.25  # an interval with that mass is reached by drawing until it is
_UNTIL_INSIDE, _UPWARDS, _DOWNWARDS, _UNIFORM = range(4)


class MixturePhilox(PlacedSampler, MixtureSampler):
    """The law of ``MixtureSampler``: one component makes up the hot loop, steps of the others are
    events.

    Gaps between events are geometric, so their number is one geometric draw each. Which steps they
    are does not matter, for only sums do.
    """

    name, version, outcomes_per_step, kernel = "mixture_philox", 1, 0.0, "mixture"

    def __init__(self, pair: DominatingPair, tilt: Tilt, table: CellTable | None = None) -> None:
        sampled = pair.sampled_gaussian
        assert sampled is not None
        self.pair, self.tilt, self.mu, self.q = pair, tilt, sampled.mu, sampled.q
        pieces = list(self._pieces())
        log_weights = np.concatenate([piece.log_weights for piece in pieces])
        self.log_normaliser = log_sum_exp(log_weights)
        chances = np.exp(log_weights - self.log_normaliser)
        components = [
            Component.of(float(mean), piece.low, piece.high, piece.slope, piece.offset)
            for piece in pieces
            for mean in piece.means
        ]
        order = np.argsort(-chances, kind="stable")
        order = order[chances[order] > 0]
        self._usual, rare = components[order[0]], order[1:]
        self._parts: Floats = np.array([components[i] for i in rare] or [self._usual])
        chance = float(chances[rare].sum())
        self._gap = 1.0 / math.log1p(-chance) if chance else 0.0
        self._cumulated = np.cumsum(chances[rare] / chance) if chance else np.ones(1)
        self._scale = math.log(self.q) - self.mu**2 / 2
        shift = self.mu * self._usual.mean + self._scale
        # of mu t + scale, in the main piece
        self._low = self.mu * (self._usual.low + self._usual.mean) + self._scale
        self._high = self.mu * (self._usual.high + self._usual.mean) + self._scale
        self._greatest = max(14.0 * self.mu + shift, 0.0) - math.log1p(-self.q)

    @classmethod
    def serves(cls, pair: DominatingPair, tilt: Tilt) -> bool:
        """As ``MixtureSampler``, where products of two ratios are floats."""
        if not MixtureSampler.serves(pair, tilt):
            return False
        sampled = pair.sampled_gaussian
        assert sampled is not None
        order = tilt.jump_order or tilt.order
        far = sampled.mu * (14.0 + sampled.mu * (order + 1.0)) - math.log1p(-sampled.q)
        return 2.0 * far <= MOST_EXPONENT

    def arguments(self) -> tuple[Any, ...]:
        about = (self.mu, self._scale, 1.0 - self.q, self._low, self._high, self._gap)
        ends = (pairs_together(self._greatest), len(self._parts))
        return np.array([*about, *self._usual, *ends], float), self._parts, self._cumulated

    def drawn(self, place: Place, samples: Samples, count: int) -> Sums:
        events, losses, heights = self._events(place, samples, count)
        steps = count - events
        shift = self.mu * self._usual.mean + self._scale
        for first, end in spans(count):
            pairs = np.arange(first // 2, (end + 1) // 2)
            z = normals(place.words(pairs[None, :], samples[:, None], 0))
            t = self.mu * interleaved(*z, end - first) + shift
            absent = np.arange(first, end)[None, :] >= steps[:, None]
            row, column = np.nonzero(((t > self._high) | (t <= self._low)) & ~absent)
            main = np.broadcast_to(np.array(self._usual), (row.size, len(self._usual)))
            anew = cut_normal(main, place, samples[row], 3 + 2 * (column + first))
            t[row, column] = self.mu * anew + shift
            ratios = np.where(absent, 1.0, (1.0 - self.q) + np.exp(t))
            main_losses = log_of_products(ratios, self._greatest)
            losses += main_losses
            heights += self._usual.slope * main_losses
        return Sums(losses, heights + self._usual.offset * steps)

    def _events(self, place: Place, samples: Samples, count: int) -> tuple[Samples, Floats, Floats]:
        """How many events each sample has, and their sums."""
        events = np.zeros(samples.size, np.int64)
        losses, heights, at = np.zeros((3, samples.size))
        left, event = np.arange(samples.size) if self._gap else np.empty(0, np.int64), 0
        while left.size:
            a, b = place.words(event, samples[left], 1)
            with np.errstate(divide="ignore"):
                at[left] += np.floor(np.log1p(-fine_uniform(a)) * self._gap) + 1.0
            hit = at[left] <= count
            left = left[hit]
            which = np.searchsorted(self._cumulated, uniform(b[hit]), side="left")
            chosen = self._parts[np.minimum(which, len(self._parts) - 1)]
            t = chosen[:, 0] + cut_normal(chosen, place, samples[left], 2 + 2 * event)
            loss = np.log((1.0 - self.q) + np.exp(self.mu * t + self._scale))
            losses[left] += loss
            heights[left] += chosen[:, 3] * loss + chosen[:, 4]
            events[left] += 1
            event += 1
        return events, losses, heights


class Component(NamedTuple):
    """A normal law around ``mean``, cut to ``(low, high]`` around that; the line ``slope loss +
    offset`` of its heights; and how it is drawn.
    """

    mean: float
    low: float
    high: float
    slope: float
    offset: float
    how: float
    near: float
    reach: float

    @classmethod
    def of(cls, mean: float, low: float, high: float, slope: float, offset: float) -> Component:
        low, high = low - mean, high - mean
        how, near, reach = _UNTIL_INSIDE, 0.0, -1.0
        if log_normal_mass(np.array(low), np.array(high)) < math.log(_LIKELY):
            if low <= 0 <= high:
                how = _UNIFORM
            else:
                how, near = (_UPWARDS, low) if low >= 0 else (_DOWNWARDS, -high)
                reach = math.expm1(-near * (high - low))
        return cls(mean, low, high, slope, offset, how, near, reach)


def cut_normal(chosen: Floats, place: Place, samples: Samples, part: Any) -> Floats:
    """Draws around the means of components, a row for each; each has a part to itself."""
    z = np.empty(len(chosen))
    parts = np.broadcast_to(np.asarray(part), z.shape)
    left, call = np.arange(z.size), 0
    while left.size:
        _, low, high, _, _, how, near, reach = chosen[left].T
        words = place.words(call, samples[left], parts[left])
        one, other = uniform(words[0]), uniform(words[1])
        normal = normals(words)[0]
        with np.errstate(all="ignore"):  # in ways of drawing that a component does not use
            flat, beyond = low + (high - low) * one, -np.log1p(one * reach) / near
            near_kept = other <= np.exp(-0.5 * beyond * beyond)
            draws = (normal, near + beyond, -(near + beyond), flat)
            inside = (normal > low) & (normal <= high)
            kept = (inside, near_kept, near_kept, other <= np.exp(-0.5 * flat * flat))
        z[left] = np.choose(how.astype(int), draws)
        left = left[~np.choose(how.astype(int), kept)]
        call += 1
    return z
