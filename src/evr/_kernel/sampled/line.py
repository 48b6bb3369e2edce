"""The proposal for pairs on a line: capped tilts (docs/guarantees.md, Section 3).

Samplers draw them: for each of ``size`` samples ``count`` independent steps, exactly, of which they return
the sum of the losses and the sum of the heights ``h``.
"""

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from evr._kernel.pairs import DiscretePair, Floats, Step, infinite_loss_mass, infinite_mass, without_infinite
from evr._kernel.sampled.composing import composed, spread_to_edges
from evr._kernel.sampled.moments import Rounding, Tilt, TiltedOutcomes, log_greatest, moment_bound
from evr._kernel.sampled.plan import CappedPlan, StepPlan
from evr._kernel.sampled.proposals import BUILDERS, Block, Proposal, log_with_infinite

POWERS = np.geomspace(0.05, 250.0, 24)  # what the moment bound tries where there is no tilt

CACHE = 1 << 15  # numbers drawn at a time: 256 KiB
MOST_STEPS = 1 << 13  # steps of a sample drawn at a time
# a table draws steps one by one if there are at most so many steps, steps times outcomes, and outcomes
_FEW_STEPS, _LARGEST, _MOST_OUTCOMES = 1 << 12, 1 << 22, 1 << 17


class TiltedProposal(Proposal):
    """Capped exponential tilting of every step (docs/guarantees.md, Section 3). Infinite losses are kept
    apart (Section 3.8). There is a tilt for each kind of step, which is on outcomes; ``composed`` are the
    single steps that composed ones stand for.
    """

    def __init__(
        self, steps: Sequence[Step], tilts: Sequence[Tilt], *, composed: Sequence[Step] = ()
    ) -> None:
        self.steps, self.composed, self.tilts = tuple(steps), tuple(composed), tuple(tilts)
        self.counts = [step.count for step in self.steps]
        self._order = max((tilt.order for tilt in self.tilts), default=0.0)
        self.infinite = infinite_mass(self.steps)
        self.bounds = tuple(
            TiltedOutcomes(on_outcomes(step), tilt) for step, tilt in zip(self.steps, self.tilts, strict=True)
        )
        self.samplers = tuple(map(OutcomeSampler, self.bounds))
        self.log_normalisers = tuple(b.log_normaliser for b in self.bounds)
        self.log_normaliser = math.fsum(n * m for n, m in zip(self.counts, self.log_normalisers, strict=True))

    @classmethod
    def from_plan(cls, plan: CappedPlan, steps: Sequence[Step]) -> Self:
        """The steps, spread to outcomes and composed where the plan says so, then tilted."""
        spread, tilts = spread_steps(steps, plan.kinds), [one.tilt or Tilt() for one in plan.kinds]
        if not plan.places:
            return cls(spread, tilts)
        if len(set(tilts)) > 1:
            raise ValueError(f"{len(spread)} kinds of steps that are composed have one tilt")
        whole = Step(composed(spread, plan.places), 1)
        return cls([whole], tilts[:1], composed=[Step(on_outcomes(s), s.count) for s in spread])

    def rounding(self, epsilon: float) -> Rounding:
        """How far sums of finite losses, and weights, may be off."""
        own = list(zip(self.steps, self.bounds, strict=True))
        heights = abs(self.log_normaliser) + math.fsum(
            step.count * max(abs(bounds.least_height), abs(bounds.tilt.height_beyond)) for step, bounds in own
        )
        summed = [Step(bounds.pair, step.count) for step, bounds in own]
        return Rounding.of(summed, epsilon, order=self._order, heights=heights, composed=self.composed)

    @property
    def work(self) -> int:
        return sum(x.cost(step.count) for x, step in zip(self.samplers, self.steps, strict=True))

    def draw(self, generator: np.random.Generator, size: int) -> Block:
        losses, heights = np.zeros(size), np.zeros(size)
        for count, sampler in zip(self.counts, self.samplers, strict=True):
            sums = sampler.draw(generator, size, count)
            losses += sums.losses
            heights += sums.heights
        return Block(losses, self.log_normaliser - heights, self.infinite)

    def log_moment(self, epsilon: float, p: float) -> float:
        """By Section 3.5, or ``B^p``; infinite losses are added by Minkowski's inequality (3.8)."""
        of_s = moment_bound(self.counts, self.bounds, self.log_normaliser, epsilon, p)
        powers = self._order * p * np.geomspace(0.05, 8.0, 16) if self._order else POWERS
        finite = least_bound(of_s, powers) / p
        return p * log_with_infinite(min(finite, self._log_greatest(epsilon)), self.infinite)

    def log_greatest(self, epsilon: float) -> float:
        return log_with_infinite(self._log_greatest(epsilon), self.infinite)

    def _log_greatest(self, epsilon: float) -> float:
        return log_greatest(self.counts, self.bounds, self.log_normaliser, epsilon)


BUILDERS[CappedPlan] = TiltedProposal.from_plan


def least_bound(of_s: Callable[[float], float], powers: Floats) -> float:
    """The least bound that some powers give, and those between."""
    values = [of_s(float(s)) for s in powers]
    best = int(np.argmin(values))
    low, high = np.log(powers[[max(best - 1, 0), min(best + 1, powers.size - 1)]]).tolist()
    refined = scipy.optimize.minimize_scalar(
        lambda x: of_s(math.exp(x)), bounds=(low, high), method="bounded", options={"xatol": 1e-3}
    )
    return min(float(refined.fun), values[best])


def spread_steps(steps: Sequence[Step], plans: Sequence[StepPlan]) -> tuple[Step, ...]:
    """The steps, those with edges on a few outcomes that dominate them (docs/guarantees.md, Section 3.9)."""
    if len(plans) != len(steps):
        raise ValueError(f"the plan is for {len(plans)} kinds of steps, and there are {len(steps)}")
    return tuple(
        step if plan.edges is None else Step(spread_to_edges(step.pair, np.array(plan.edges)), step.count)
        for step, plan in zip(steps, plans, strict=True)
    )


def on_outcomes(step: Step) -> DiscretePair:
    """The finite part of a step's law, which must have finitely many outcomes."""
    pair = without_infinite(step.pair)
    if not isinstance(pair, DiscretePair) or infinite_loss_mass(pair):
        what = f"{pair.describe()} is not drawn as it is"
        raise ValueError(f"{what}: a plan spreads it to finitely many outcomes")
    return pair


class Sums(NamedTuple):
    """For each sample, the sum of the losses and the sum of the heights of its steps."""

    losses: Floats
    heights: Floats


class OutcomeSampler:
    """Steps from ``P' = e^h P / M`` on finitely many outcomes of finite loss (Section 3.3).

    Few steps are drawn one by one from an alias table (Walker 1977), where each draw costs the same; of many,
    a multinomial draw says how many have each outcome.
    """

    def __init__(self, step: TiltedOutcomes) -> None:
        chances = np.exp(step.log_p + step.heights - step.log_normaliser)
        # the rare first: what a multinomial draw divides by stays large
        order = np.argsort(chances, kind="stable")
        self._chances = chances[order] / chances.sum()
        self._losses, self._heights = step.losses[order], step.heights[order]
        self._bits = max(1, (order.size - 1).bit_length())

    def _are_few(self, count: int) -> bool:
        size = self._chances.size
        return size <= _MOST_OUTCOMES and count <= min(size, _FEW_STEPS, _LARGEST // size)

    def cost(self, count: int) -> int:
        """What ``count`` steps cost, in steps that are drawn one by one."""
        return count if self._are_few(count) else 4 * self._chances.size

    def draw(self, generator: np.random.Generator, size: int, count: int) -> Sums:
        """Sums over ``count`` steps for ``size`` independent samples."""
        sums = Sums(np.zeros(size), np.zeros(size))
        few = self._are_few(count)
        draw = self._one_by_one if few else self._multinomial
        rows = max(1, CACHE // (count if few else self._chances.size))
        for start in range(0, size, rows):
            stop = min(start + rows, size)
            sums.losses[start:stop], sums.heights[start:stop] = draw(generator, stop - start, count)
        return sums

    def _multinomial(self, generator: np.random.Generator, rows: int, count: int) -> Sums:
        counts = generator.multinomial(count, self._chances, size=rows)
        return Sums(counts @ self._losses, counts @ self._heights)

    def _one_by_one(self, generator: np.random.Generator, rows: int, count: int) -> Sums:
        """The leading bits of a word choose a slot of the table, the others between its two outcomes."""
        lead = np.uint64(64 - self._bits)
        mask = (np.uint64(1) << lead) - np.uint64(1)
        words = generator.integers(0, 1 << 64, (count, rows), np.uint64)
        own = words >> lead
        slots = self._slots.take(own.view(np.int64))
        words &= mask
        index = np.where(words < (slots & mask), own, slots >> lead).view(np.int64)
        return Sums(self._losses.take(index).sum(axis=0), self._heights.take(index).sum(axis=0))

    @cached_property
    def _slots(self) -> NDArray[np.uint64]:
        return alias_slots(self._chances, self._bits)


def alias_slots(chances: Floats, bits: int) -> NDArray[np.uint64]:
    """The alias table of Walker and Vose in whole numbers: chances, over their sum, are rounded to multiples
    of 2^-64, and nothing else is rounded (docs/guarantees.md, Section 6.10).

    A slot holds the index of its other outcome in its leading ``bits``, and in the rest the share of its own.
    """
    size, room = 1 << bits, 1 << (64 - bits)
    exact = [int(x * 2.0**120) for x in chances.tolist()]  # but for what is below 2^-68
    total = sum(exact)
    shares = [(x << 64) // total for x in exact] + [0] * (size - chances.size)
    shares[int(np.argmax(chances))] += (1 << 64) - sum(shares)
    small = [i for i in range(size) if shares[i] < room]
    large = [i for i in range(size) if shares[i] >= room]
    slots = [0] * size
    while large:
        rich = large.pop()
        while shares[rich] > room and small:
            poor = small.pop()
            slots[poor] = rich << (64 - bits) | shares[poor]
            shares[rich] -= room - shares[poor]
            if shares[rich] < room:
                small.append(rich)
                break
        else:
            slots[rich] = rich << (64 - bits)  # full: both outcomes are its own
    return np.array(slots, np.uint64)
