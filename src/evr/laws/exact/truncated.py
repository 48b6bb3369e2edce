"""A Gaussian on Poisson batches of a bounded size by its exact parameters (docs/guarantees_relations.md, R3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from evr.laws.exact.law import Ball, ExactCurve, ball
from evr.laws.exact.line import ExactGaussian
from evr.laws.exact.sampled import SampledCurve, seen_through
from evr.laws.law import Direction


@dataclass(frozen=True)
class ExactTruncated(ExactCurve):
    """Of ``size`` records each is sampled with probability ``q``, ``0 < q < 1``; at most ``most < size`` are kept."""

    size: int
    q: Fraction
    most: int
    noise: Fraction
    direction: Direction

    @property
    def _whole(self) -> SampledCurve:
        """The side on which nothing is cut."""
        return SampledCurve(ExactGaussian(1 / self.noise**2), self.q, self.direction)

    def curve(self) -> Callable[[Ball], Ball]:
        q, n, most = ball(self.q), self.size, self.most
        cut = q.beta_lower(most, n - most, True)  # Pr[Bin(n - 1, q) >= most]
        kept = (1 - q).beta_lower(n - most, most, True)
        beyond = q.beta_lower(most + 1, n - most, True)  # Pr[Bin(n, q) > most]
        share = beyond * most / (cut * n)
        base = ExactGaussian(4 / self.noise**2).curve()
        whole = self._whole.curve()
        truncated = seen_through(base, share, 1 - share, self.direction)

        def value(ratio: Ball) -> Ball:
            return kept * whole(ratio) + cut * truncated(ratio)

        return value

    def least(self) -> Ball:
        return self._whole.least()

    def greatest(self) -> Ball:
        return self._whole.greatest()
