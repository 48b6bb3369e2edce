"""The Poisson-sampled Gaussian in the add direction, by place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from evr.bounds.tilt import Tilt
from evr.laws import DominatingPair, Floats
from evr.sampling.philox import LEADING_BITS, Place, leading, normals, uniform
from evr.sampling.samplers.common import MOST_EXPONENT, Sums, log_of_products
from evr.sampling.samplers.envelope import EnvelopeSampler
from evr.sampling.samplers.placed import (
    PlacedSampler,
    Samples,
    interleaved,
    pairs_together,
    spans,
)


class EnvelopePhilox(PlacedSampler, EnvelopeSampler):
    """The law of ``EnvelopeSampler``. A step that is refused is drawn anew, in a part of its
    own.
    """

    name, version, outcomes_per_step, kernel = "envelope_philox", 1, 0.0, "envelope"

    @classmethod
    def serves(cls, pair: DominatingPair, tilt: Tilt) -> bool:
        """As ``EnvelopeSampler``, where products of two ratios are floats."""
        sampled = pair.sampled_gaussian
        return (
            EnvelopeSampler.serves(pair, tilt)
            and sampled is not None
            and 2.0 * (14.0 * sampled.mu - math.log1p(-sampled.q)) <= MOST_EXPONENT
        )

    @property
    def _at_bound(self) -> float:
        return self._level + self.tilt.order * (math.log(self._at_mode) - 1.0)

    def arguments(self) -> tuple[Any, ...]:
        ratio = (self.mu, self._slope, self._log_scale, 1.0 - self.q, self._least, self._capped)
        gap = (self.tilt.order, self._level, self._at_bound, self.tilt.order / self._at_mode)
        return (np.array([*ratio, *gap, pairs_together(self._greatest)], float),)

    def drawn(self, place: Place, samples: Samples, count: int) -> Sums:
        losses, heights = np.zeros((2, samples.size))
        for first, end in spans(count):
            pairs = np.arange(first // 2, (end + 1) // 2)
            words = place.words(pairs[None, :], samples[:, None], 0)
            z = interleaved(*normals(words), end - first)
            bits = interleaved(leading(words[0]), leading(words[1]), end - first)
            ratios = self._ratios(z)
            bound = self._at_bound + self._slope * z
            bound += self.tilt.order / self._at_mode * np.maximum(ratios, self._least)
            row, column = np.nonzero(bits < bound * (1 << LEADING_BITS))
            ratios[row, column] = self._settled(
                z[row, column], bits[row, column], place, samples[row], 3 + 2 * (column + first)
            )
            sums = -log_of_products(ratios, self._greatest)
            losses += sums
            if self._capped:
                sums = -log_of_products(np.maximum(ratios, self._least), self._greatest)
            heights += self.tilt.order * sums
        return Sums(losses, heights)

    def _ratios(self, z: Floats) -> Floats:
        ratios: Floats = (1.0 - self.q) + np.exp(self._log_scale - self.mu * z)
        return ratios

    def _settled(
        self, z: Floats, bits: Samples, place: Place, samples: Samples, parts: Samples
    ) -> Floats:
        """Ratios at draws of which the leading bits do not say that they are kept."""
        ratios, call = self._ratios(z), 1
        rest = uniform(place.words(0, samples, parts)[0])
        u, left = (bits + rest) / (1 << LEADING_BITS), np.arange(z.size)
        while True:
            gap = self._gap(self._slope * z[left], ratios[left])
            left = left[u[left] < -np.expm1(-gap)]
            if not left.size:
                return ratios
            z[left] = normals(place.words(call, samples[left], parts[left]))[0]
            ratios[left] = self._ratios(z[left])
            u[left] = uniform(place.words(call + 1, samples[left], parts[left])[0])
            call += 2
