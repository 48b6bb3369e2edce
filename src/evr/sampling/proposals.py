"""What samples are drawn from, and what is proved of them.

A proposal draws blocks of ``(loss, log weight)`` of the whole composition in one direction. A
sample at epsilon is ``X = (1 - e^{epsilon - loss})_+ e^{log weight}``; its mean is
``delta(epsilon)``, or a little above it where a normaliser is known from above only. Every bound
here is proved in docs/guarantees.md, Sections 2 and 3.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.optimize import minimize_scalar

from evr.bounds.cells import CellTable, TiltedBounds
from evr.bounds.moments import MomentBound, log_clipping, log_greatest
from evr.bounds.rounding import Rounding
from evr.bounds.spreading import spread_to_edges
from evr.bounds.tilt import Tilt
from evr.laws import DominatingPair, Floats, Step, finite_part, infinite_mass, outcomes
from evr.sampling.plan import Kind, Plan
from evr.sampling.samplers import StepSampler, identity, named_sampler, sampler_class


class Block(NamedTuple):
    """Samples: total privacy losses and logarithms of their weights; and what infinite losses add
    to each.
    """

    losses: Floats
    log_weights: Floats
    infinite: float = 0.0

    def values(self, epsilon: float, log_unit: float = 0.0) -> Floats:
        """``X`` at an epsilon, in units of ``e^log_unit``."""
        values = np.zeros_like(self.losses)
        # a loss that is not a number must not pass for 0
        hit = np.flatnonzero(~(self.losses <= epsilon))
        values[hit] = -np.expm1(epsilon - self.losses[hit]) * np.exp(
            np.minimum(self.log_weights[hit] - log_unit, 700.0)
        )
        return values + math.exp(math.log(self.infinite) - log_unit) if self.infinite else values


class Proposal(abc.ABC):
    """The protocol: draw, and state what is proved."""

    name: str
    steps: tuple[Step, ...]
    infinite: float = 0.0
    """The chance of an infinite loss, where it is kept apart: added to each sample instead of
    drawn.
    """

    composed: tuple[Step, ...] = ()
    """Single steps that some of the steps stand for."""

    source: tuple[Plan, tuple[Step, ...]] | None = None
    """What it was built of, where it was: so it travels to other processes."""

    def __reduce__(self) -> Any:
        if self.source is None:
            return super().__reduce__()
        from evr.sampling.registry import built

        return built, self.source

    @abc.abstractmethod
    def draw(self, generator: np.random.Generator, size: int) -> Block:
        """``size`` independent samples."""

    @abc.abstractmethod
    def log_moment(self, epsilon: float, p: float) -> float:
        """``log`` of a rigorous upper bound on ``E[X^p]``, ``p > 1``."""

    @abc.abstractmethod
    def log_greatest(self, epsilon: float) -> float:
        """``log`` of a rigorous upper bound on ``X``; ``inf`` where there is none."""

    def second_moment(self, epsilon: float) -> float:
        """A rigorous upper bound on ``E[X^2]``: the ``nu`` of the paper."""
        return math.exp(min(self.log_moment(epsilon, 2.0), 700.0))

    def greatest(self, epsilon: float) -> float:
        """A rigorous upper bound on ``X``: ``B``."""
        return math.exp(min(self.log_greatest(epsilon), 700.0))

    def excess(self, epsilon: float, clip: float, log_unit: float = 0.0) -> float:
        """A rigorous upper bound on ``E[(X - clip)_+]``: ``(p-1)^{p-1}/p^p E[X^p]/clip^{p-1}``, the
        best of several ``p``; all in units of ``e^log_unit``.
        """
        if self.log_greatest(epsilon) - log_unit <= math.log(clip):
            return 0.0
        bounds = []
        for p in (1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 12.0):
            bounds.append(
                log_clipping(p)
                + self._cached_moment(epsilon, p)
                - p * log_unit
                - (p - 1) * math.log(clip)
            )
        if not min(bounds) > -math.inf:
            raise ValueError("a moment of samples that exceed a clip is 0, which cannot be")
        room = 16.0 * self.rounding(epsilon).weight
        return math.exp(min(min(bounds) + room, 700.0))

    def _cached_moment(self, epsilon: float, p: float) -> float:
        cache: dict[tuple[float, float], float] = self.__dict__.setdefault("_moments", {})
        if (epsilon, p) not in cache:
            cache[epsilon, p] = self.log_moment(epsilon, p)
        return cache[epsilon, p]

    def _log_with_infinite(self, log_value: float) -> float:
        return (
            float(np.logaddexp(log_value, math.log(self.infinite))) if self.infinite else log_value
        )

    @property
    def total_steps(self) -> int:
        """Steps that a sample sums over, as drawn."""
        return sum(step.count for step in self.steps)

    @property
    def order(self) -> float:
        """The steepest slope of a weight's logarithm over the loss of each step."""
        return 0.0

    def rounding(self, epsilon: float) -> Rounding:
        """How far samples and bounds at ``epsilon`` may be off."""
        return Rounding.of(
            self._summed,
            epsilon,
            order=self.order,
            heights=self._heights,
            composed=self.composed,
        )

    @property
    def _summed(self) -> Sequence[Step]:
        """The steps whose losses a sample adds up: without infinite ones, where these are apart."""
        return self.steps

    @property
    def _heights(self) -> float:
        """The greatest numbers that a weight's logarithm is a sum of."""
        return 0.0

    @property
    def work(self) -> int:
        """About what a sample costs, in steps that are drawn one by one."""
        return self.total_steps

    def block_size(self) -> int:
        """Samples in a block, fixed by the proposal alone: about a million steps' worth, 64 at
        least.
        """
        return int(min(65_536, max(64, 2 ** round(math.log2(2**20 / max(self.work, 1))))))


class TiltedProposal(Proposal):
    """Capped exponential tilting of every step (docs/guarantees.md, Section 3); of order 0, plain
    sampling.

    Parameters
    ----------
    steps
        One direction of a composition, simplified.
    tilts
        A tilt for each.
    cells
        Cells in ``t`` of the tables that the bounds are computed from.
    composed
        Single steps that some of them stand for.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        tilts: Sequence[Tilt],
        *,
        cells: int = 16_384,
        name: str = "capped",
        samplers: Sequence[str] | None = None,
        composed: Sequence[Step] = (),
    ) -> None:
        self.name, self.steps, self.tilts, self.cells = name, tuple(steps), tuple(tilts), cells
        self.composed = tuple(composed)
        pairs, self.infinite = drawn_pairs(
            self.steps, apart=any(tilt.order > 0 for tilt in self.tilts)
        )
        self.bounds = tuple(
            tilted_bounds(p, t, cells) for p, t in zip(pairs, self.tilts, strict=True)
        )
        names = samplers or [""] * len(self.steps)
        self.samplers = tuple(_sampler(b, n) for b, n in zip(self.bounds, names, strict=True))
        self.log_normalisers = tuple(map(_log_normaliser, self.samplers, self.bounds))
        self.log_normaliser = math.fsum(
            s.count * m for s, m in zip(self.steps, self.log_normalisers, strict=True)
        )

    @classmethod
    def from_plan(cls, plan: Plan, steps: Sequence[Step]) -> Self:
        """What the plan says, of steps that are spread to outcomes where it says so."""
        drawn = drawn_steps(steps, plan.kinds)
        return cls(
            drawn.steps,
            [kind.tilt for kind in drawn.kinds],
            cells=plan.cells,
            name=plan.proposal,
            samplers=[kind.sampler for kind in drawn.kinds],
            composed=drawn.composed,
        )

    def plan(self, edges: Sequence[tuple[float, ...] | None] | None = None) -> Plan:
        """What it draws, as data; ``edges`` say which steps were spread to outcomes, and how."""
        cuts = edges or [None] * len(self.steps)
        parts = zip(self.tilts, cuts, self.samplers, strict=True)
        return Plan(self.name, tuple(Kind(t, cut, identity(x)) for t, cut, x in parts), self.cells)

    @property
    def counts(self) -> list[int]:
        """How often each pair is applied."""
        return [step.count for step in self.steps]

    @property
    def order(self) -> float:
        return max((tilt.jump_order or tilt.order for tilt in self.tilts), default=0.0)

    @property
    def _summed(self) -> Sequence[Step]:
        return [Step(b.pair, s.count) for b, s in zip(self.bounds, self.steps, strict=True)]

    @property
    def _heights(self) -> float:
        return abs(self.log_normaliser) + math.fsum(
            step.count
            * max(abs(bounds.least_height), abs(bounds.tilt.height_beyond), bounds.tilt.magnitude)
            for step, bounds in zip(self.steps, self.bounds, strict=True)
        )

    @property
    def work(self) -> int:
        return sum(x.cost(step.count) for x, step in zip(self.samplers, self.steps, strict=True))

    @cached_property
    def log_slack(self) -> float:
        """How far the weights may be above unbiased, in all: an upper bound on ``log(E[X] /
        delta)``.
        """
        return math.fsum(
            s.count * (m - b.log_normaliser_lower)
            for s, m, b, sampler in zip(
                self.steps, self.log_normalisers, self.bounds, self.samplers, strict=True
            )
            if sampler.log_normaliser is None and (b.tilt.order > 0 or self.infinite > 0)
        )

    def draw(self, generator: np.random.Generator, size: int) -> Block:
        losses, heights = np.zeros(size), np.zeros(size)
        for step, sampler in zip(self.steps, self.samplers, strict=True):
            sums = sampler.draw(generator, size, step.count)
            losses += sums.losses
            heights += sums.heights
        return Block(losses, self.log_normaliser - heights, self.infinite)

    def log_moment(self, epsilon: float, p: float) -> float:
        of_s = MomentBound(self.counts, self.bounds, self.log_normaliser, epsilon, p)

        def bound(log_s: float) -> float:
            return of_s(math.exp(log_s))

        order = max((tilt.order for tilt in self.tilts), default=0.0)
        grid = np.log(
            order * p * np.geomspace(0.05, 8.0, 16) if order else np.geomspace(0.05, 250.0, 24)
        )
        values = [bound(x) for x in grid]
        best = int(np.argmin(values))
        span = (grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)])
        refined = minimize_scalar(bound, bounds=span, method="bounded", options={"xatol": 1e-3})
        trivial = p * self._log_greatest(epsilon)  # E[X^p] <= B^{p-1} E[X] with E[X] <= B
        finite = float(min(min(refined.fun, values[best]) + self.log_slack, trivial))
        return p * self._log_with_infinite(finite / p)  # Minkowski's inequality

    def log_greatest(self, epsilon: float) -> float:
        return self._log_with_infinite(self._log_greatest(epsilon))

    def _log_greatest(self, epsilon: float) -> float:
        if not any(tilt.order for tilt in self.tilts):
            return 0.0  # plain samples are at most 1
        return log_greatest(self.counts, self.bounds, self.log_normaliser, epsilon)


def _sampler(bounds: TiltedBounds, name: str) -> StepSampler:
    """The one of that name, or the fastest."""
    pair, tilt = bounds.pair, bounds.tilt if bounds.tilt.order else Tilt()
    chosen = named_sampler(name, pair, tilt) if name else sampler_class(pair, tilt)
    return chosen(pair, tilt, bounds.table)


def _log_normaliser(sampler: StepSampler, bounds: TiltedBounds) -> float:
    """``log`` of a step's normaliser: exact where that is known, else from above."""
    if bounds.tilt.order == 0:
        return 0.0  # and no sum of probabilities that rounds
    return bounds.log_normaliser if sampler.log_normaliser is None else sampler.log_normaliser


def spread_steps(
    steps: Sequence[Step], edges: Sequence[Sequence[float] | None]
) -> tuple[Step, ...]:
    """The steps, those with edges replaced by ones on a few outcomes that dominate them."""
    return tuple(
        step if cut is None else Step(spread_to_edges(step.pair, np.array(cut)), step.count)
        for step, cut in zip(steps, edges, strict=True)
    )


class Drawn(NamedTuple):
    """What is drawn in place of some steps, how each of it is drawn, and the single steps, spread
    to outcomes, that composites among it stand for.
    """

    steps: tuple[Step, ...]
    kinds: list[Kind]
    composed: tuple[Step, ...]


def drawn_steps(steps: Sequence[Step], kinds: Sequence[Kind]) -> Drawn:
    """The steps, spread to outcomes, then composed, where a kind says so."""
    if len(kinds) != len(steps):
        raise ValueError(f"the plan is for {len(kinds)} kinds of steps, and there are {len(steps)}")
    drawn, how, composed = list[Step](), list[Kind](), list[Step]()
    for step, kind in zip(spread_steps(steps, [x.edges for x in kinds]), kinds, strict=True):
        parts: tuple[Step, ...] = (step,)
        if kind.composing is not None:
            # its masses sum to a little more than 1, which plain sampling would miss
            if not all(tilt.order > 0 for tilt in (kind.tilt, *kind.others)):
                raise ValueError("steps that are composed are tilted: order=0.0 is not above 0")
            parts = kind.composing.steps(step)
            composed.append(Step(finite_part(step.pair), parts[0].count * kind.composing.size))
        drawn += parts
        how += [kind] * len(parts)
    return Drawn(tuple(drawn), how, tuple(composed))


def drawn_pairs(steps: Sequence[Step], *, apart: bool) -> tuple[list[DominatingPair], float]:
    """The pairs that are drawn from; if infinite losses are kept ``apart``, without them, and their
    chance.

    They are drawn after all where some pair with such losses is not one on finitely many outcomes.
    """
    finite = [finite_part(step.pair) for step in steps]
    if apart and all(pair.infinite_loss_mass == 0 for pair in finite):
        return finite, infinite_mass(steps)
    return [outcomes(step.pair) for step in steps], 0.0


def tilted_bounds(pair: DominatingPair, tilt: Tilt, cells: int) -> TiltedBounds:
    """A table of the pair with the tilt's floor and cap among its edges."""
    losses = [x for x in (tilt.floor, tilt.cap, tilt.knee) if x is not None and math.isfinite(x)]
    if tilt.order:
        low, high = max(tilt.floor, pair.loss_range[0]), min(tilt.cap, pair.loss_range[1])
        if low < high:
            losses = [*losses, *np.linspace(low, high, cells // 2).tolist()]
    return TiltedBounds(
        pair, CellTable.of(pair, tilt.jump_order or tilt.order, cells, losses), tilt
    )
