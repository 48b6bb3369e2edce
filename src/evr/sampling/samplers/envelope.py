"""The Poisson-sampled Gaussian in the add direction: draws from an envelope, kept by chance."""

from __future__ import annotations

import math

import numpy as np

from evr.bounds.cells import CellTable
from evr.bounds.tilt import Tilt
from evr.laws import Direction, DominatingPair, Floats
from evr.sampling.samplers.common import Indices, StepSampler, Sums, log_of_products, matrices


class EnvelopeSampler(StepSampler):
    """The Poisson-sampled Gaussian in the add direction: the loss is concave in ``t``, so its
    tangent is an envelope.

    ``P e^h`` is at most a normal law times a constant, the tangent to ``h``, which a cap leaves
    concave, taken at the mode; a draw is kept with probability ``e^{h - tangent}``. A floor would
    break the envelope where it is reached, so ``serves`` asks that it is not.
    """

    name, version, outcomes_per_step = "envelope", 1, 1 / 8

    def __init__(self, pair: DominatingPair, tilt: Tilt, table: CellTable | None = None) -> None:
        sampled = pair.sampled_gaussian
        assert sampled is not None
        self.mu, self.q, self.tilt = sampled.mu, sampled.q, tilt
        # At the cap, or beyond it, every slope down to 0 is a tangent's: the mode is not beyond
        # where the cap is reached.
        self.mode = min(self._mode(tilt.order), max(self.mu, float(pair.point(tilt.cap))))
        # The slope that the shift of the normal law stands for, to the last digit: else the law is
        # not the one stated.
        self._slope = self.mode - self.mu
        self._level = float(tilt.height(pair.privacy_loss(self.mode)))
        self._log_scale = self.mu * (self.mu / 2 - self.mode) + math.log(self.q)
        # else the cap is above all losses
        self._capped = tilt.order > 0 and tilt.cap < -math.log1p(-self.q)
        self._least = math.exp(-tilt.cap) if self._capped else 0.0
        self._at_mode = max(math.exp(self._log_scale) + 1.0 - self.q, self._least)
        self._rate = self._share_kept() if tilt.order else 1.0
        # No draw is 14 deviations below the mode (1e-44), so this logarithm of a ratio is not
        # exceeded.
        self._greatest = max(14.0 * self.mu + self._log_scale, 0.0) - math.log1p(-self.q)

    @classmethod
    def serves(cls, pair: DominatingPair, tilt: Tilt) -> bool:
        """Whether the envelope is one: one slope, and a floor that no draw reaches (38 deviations,
        1e-316).
        """
        return (
            cls.suits(pair)
            and tilt.knee is None
            and (tilt.order == 0 or float(pair.point(tilt.floor)) <= -38.0)
        )

    @staticmethod
    def suits(pair: DominatingPair) -> bool:
        """Whether the pair is of the kind, whatever the tilt."""
        sampled = pair.sampled_gaussian
        return sampled is not None and sampled.direction is Direction.ADD

    def _mode(self, order: float) -> float:
        """Without a cap, the root of ``t = mu + order loss'(t)``, by halving: the right side falls
        in ``t``.
        """
        low, high = self.mu, self.mu * (1.0 + order)  # the slope of the loss is between 0 and mu
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (
                (middle, high)
                if self.mu + order * self._slope_at(middle) > middle
                else (low, middle)
            )
        return low

    def _slope_at(self, t: float) -> float:
        exponent = self.mu * (t - self.mu / 2) + math.log1p(-self.q) - math.log(self.q)
        return self.mu / (1.0 + math.exp(min(exponent, 700.0)))

    def draw(self, generator: np.random.Generator, size: int, count: int) -> Sums:
        sums = Sums(np.zeros(size), np.zeros(size))
        parts = matrices(size, count)
        most = max((stop - start) * steps for start, stop, steps in parts)
        buffers = np.empty((3, self._tries(most)))
        for start, stop, steps in parts:
            ratios = self._kept(generator, (stop - start) * steps, buffers).reshape(-1, steps)
            losses = -log_of_products(ratios, self._greatest)
            sums.losses[start:stop] += losses
            if self._capped:
                losses = -log_of_products(np.maximum(ratios, self._least), self._greatest)
            sums.heights[start:stop] += self.tilt.order * losses
        return sums

    def _tries(self, number: int) -> int:
        """Draws of which mostly that number is kept."""
        return (
            math.ceil((number + 3.0 * math.sqrt(number)) / self._rate)
            if self.tilt.order
            else number
        )

    def _kept(self, generator: np.random.Generator, number: int, buffers: Floats) -> Floats:
        """``Q / P`` at so many draws that are kept."""
        rise, ratios, bounds = buffers[:, : self._tries(number)]
        self._fill(generator, rise, ratios)
        if self.tilt.order == 0:
            return ratios
        refused = self._refused(generator, rise, ratios, bounds)
        inside = int(np.searchsorted(refused, number))
        # stand in for what is refused
        spare = np.delete(ratios[number:], refused[inside:] - number)
        while spare.size < inside:
            rise, more, bounds = np.empty((3, self._tries(inside - spare.size)))
            self._fill(generator, rise, more)
            spare = np.concatenate(
                (spare, np.delete(more, self._refused(generator, rise, more, bounds)))
            )
        ratios[refused[:inside]] = spare[:inside]
        return ratios[:number]

    def _refused(
        self, generator: np.random.Generator, rise: Floats, ratios: Floats, bounds: Floats
    ) -> Indices:
        """Places of draws that are not kept.

        A draw is kept if a uniform number is at least ``1 - e^{-gap}``, which is at most the gap. A
        bound on the gap that needs no logarithm, and the number's leading 16 bits, settle most; the
        others get all their bits.
        """
        self._bound_gaps(rise, ratios, out=bounds)
        leading = generator.integers(0, 1 << 16, size=rise.size, dtype=np.uint16)
        doubtful = np.flatnonzero(leading < np.multiply(bounds, 1 << 16, out=bounds))
        uniform = (leading[doubtful] + generator.random(doubtful.size)) / (1 << 16)
        return doubtful[uniform < 1.0 - np.exp(-self._gap(rise[doubtful], ratios[doubtful]))]

    def _fill(self, generator: np.random.Generator, rise: Floats, ratios: Floats) -> None:
        """At normal draws around the mode, by how much the tangent rises from there, and ``Q / P``;
        its logarithm is minus the loss.
        """
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
        """The same with ``log r <= log r_0 + r / r_0 - 1``, ``r_0`` at the mode, where both agree
        to the first order.
        """
        np.maximum(ratios, self._least, out=out)
        np.multiply(out, self.tilt.order / self._at_mode, out=out)
        np.add(out, self._level + self.tilt.order * (math.log(self._at_mode) - 1.0), out=out)
        np.add(out, rise, out=out)
