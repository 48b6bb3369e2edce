"""Several tilts at once: a sample is drawn by one of them and weighted by all
(docs/guarantees.md, Section 3.11).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self

import numpy as np

from evr.bounds.blending import Blend
from evr.bounds.tilt import Tilt
from evr.laws import Step
from evr.sampling.plan import Plan
from evr.sampling.proposals import Block, Proposal, drawn_pairs, drawn_steps
from evr.sampling.samplers import identity
from evr.sampling.samplers.alias import AliasSampler

NAME = "blended"


class BlendedProposal(Proposal):
    """Steps on outcomes, drawn by the tilts of one of several parts.

    Parameters
    ----------
    steps
        One direction of a composition, on outcomes.
    tilts
        For each part, a tilt for each kind of step.
    shares
        The chance of each part.
    composed
        Single steps that some of the steps stand for.
    """

    name = NAME

    def __init__(
        self,
        steps: Sequence[Step],
        tilts: Sequence[Sequence[Tilt]],
        shares: Sequence[float],
        *,
        composed: Sequence[Step] = (),
    ) -> None:
        self.steps, self.composed = tuple(steps), tuple(composed)
        pairs, self.infinite = drawn_pairs(self.steps, apart=True)
        self._drawn = [Step(pair, s.count) for pair, s in zip(pairs, self.steps, strict=True)]
        self.blend = Blend(self._drawn, tilts, shares)
        self._log_factors = np.log(shares) - self.blend.log_normalisers
        self._samplers = [
            [AliasSampler(pair, tilt) for pair, tilt in zip(pairs, part, strict=True)]
            for part in tilts
        ]

    @classmethod
    def from_plan(cls, plan: Plan, steps: Sequence[Step]) -> Self:
        """What the plan says, of steps that are spread to outcomes, and composed, where it says
        so.
        """
        drawn = drawn_steps(steps, plan.kinds)
        for kind in drawn.kinds:
            if kind.sampler != identity(AliasSampler):
                raise ValueError(
                    f"the sampler {kind.sampler!r} does not draw a blend: "
                    f"{identity(AliasSampler)!r} does"
                )
            if len(kind.others) != len(plan.shares) - 1:
                raise ValueError(
                    f"a kind of step has {1 + len(kind.others)} tilts, and the plan has "
                    f"{len(plan.shares)} shares"
                )
        tilts = zip(*((kind.tilt, *kind.others) for kind in drawn.kinds), strict=True)
        return cls(drawn.steps, list(tilts), plan.shares, composed=drawn.composed)

    @property
    def order(self) -> float:
        return max(max(self.blend.orders(part)) for part in range(len(self.blend.shares)))

    @property
    def _summed(self) -> Sequence[Step]:
        return self._drawn

    @property
    def _heights(self) -> float:
        kinds = self.blend.kinds
        found = [
            abs(float(factor))
            + math.fsum(k.count * float(np.max(np.abs(k.heights[part]))) for k in kinds)
            for part, factor in enumerate(self._log_factors)
        ]
        return float(np.max(found))

    def draw(self, generator: np.random.Generator, size: int) -> Block:
        ends = np.cumsum(self.blend.shares)[:-1]  # the last part gets what is left
        chosen = np.searchsorted(ends, generator.random(size), side="right")
        losses, logs = np.zeros(size), np.zeros((self._log_factors.size, size))
        for part, samplers in enumerate(self._samplers):
            rows = np.flatnonzero(chosen == part)
            for kind, sampler in zip(self.blend.kinds, samplers, strict=True):
                tables = (kind.losses, *kind.heights)
                sums, *heights = sampler.sums(generator, rows.size, kind.count, tables)
                losses[rows] += sums
                logs[:, rows] += heights
        logs += self._log_factors[:, None]
        return Block(losses, -np.logaddexp.reduce(logs, axis=0), self.infinite)

    def log_moment(self, epsilon: float, p: float) -> float:
        return p * self._log_with_infinite(self.blend.at(epsilon).log_moment(p) / p)

    def log_greatest(self, epsilon: float) -> float:
        return self._log_with_infinite(self.blend.at(epsilon).log_greatest)

    def excess(self, epsilon: float, clip: float, log_unit: float = 0.0) -> float:
        finite = clip - self.infinite * math.exp(-log_unit)  # X is X_0 and the chance of infinity
        if finite <= 0.0:
            return math.inf
        room = 16.0 * self.rounding(epsilon).weight
        log_excess = self.blend.at(epsilon).log_excess(math.log(finite) + log_unit)
        return math.exp(min(log_excess - log_unit + room, 700.0))
