"""Deliberate faults in what is drawn and in what is stated of it: the checks of the conformance
suite see each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event

from conformance.proposal_cases import LONG, Case, exact, named
from conformance.proposal_checks import check_proposal
from evr._estimate.capped import capped_proposal
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction, DiscretePair, DominatingPair, Step
from evr._kernel.pairs.line.poisson import SampledPair
from evr._kernel.sampled import line as drawing
from evr._kernel.sampled.line import OutcomeSampler, TiltedProposal
from evr._kernel.sampled.moments import Tilt, TiltedOutcomes
from evr._kernel.sampled.plan import CappedPlan, StepPlan
from evr._kernel.sampled.proposals import Block, Proposal
from evr.events import dpsgd
from helpers import near

Patch = pytest.MonkeyPatch
EPSILON = 1.5
# one jump carries the loss
JUMPS = dpsgd(noise_multiplier=0.6, sampling_probability=1e-3, steps=100)
DENSE = dpsgd(noise_multiplier=3.0, sampling_probability=0.2, steps=60)  # all steps share it


def steps_of(event: dp_event.DpEvent, direction: str = "remove") -> tuple[Step, ...]:
    return Composition.of(event).simplified(direction)


def jumps() -> Proposal:
    return capped_proposal(steps_of(JUMPS), EPSILON)


def dense() -> Proposal:
    return capped_proposal(steps_of(DENSE), EPSILON)


def near_cap() -> Proposal:
    """Much of the law is beyond the cap."""
    edges = tuple(np.linspace(-9.0, 12.0, 2000).tolist())
    plan = CappedPlan((StepPlan(Tilt(9.0, 1.6, math.log1p(-1e-3)), edges),))
    return TiltedProposal.from_plan(plan, steps_of(JUMPS))


def few_steps() -> Proposal:
    """Drawn one by one."""
    event = dpsgd(noise_multiplier=0.6, sampling_probability=0.1, steps=3)
    return capped_proposal(steps_of(event), EPSILON)


def check(make: Callable[[], Proposal], epsilon: float = EPSILON) -> None:
    proposal = make()
    check_proposal(proposal, epsilon, exact(proposal.steps, epsilon))


@pytest.mark.parametrize("make", [jumps, dense, near_cap, few_steps], ids=lambda f: f.__name__)
def test_without_a_fault_the_checks_pass(make: Callable[[], Proposal]) -> None:
    check(make)


def drop_weights(patch: Patch) -> None:
    draw = TiltedProposal.draw
    patch.setattr(TiltedProposal, "draw", lambda *a: Block(draw(*a).losses, np.zeros(a[2])))


def drop_normaliser(patch: Patch) -> None:
    draw = TiltedProposal.draw
    patch.setattr(
        TiltedProposal, "draw", lambda s, *a: (b := draw(s, *a))._replace(log_weights=b.log_weights - s.log_normaliser)
    )


def normaliser_without_the_part_beyond_the_cap(patch: Patch) -> None:
    build = TiltedOutcomes.__init__

    def inside_only(self: TiltedOutcomes, *arguments: Any) -> None:
        build(self, *arguments)
        beyond = self.log_beyond(0.0)
        self.log_normaliser += math.log1p(-math.exp(beyond - self.log_normaliser))

    patch.setattr(TiltedOutcomes, "__init__", inside_only)


def heights_beyond_the_cap_go_on(patch: Patch) -> None:
    draw = OutcomeSampler.draw

    def uncapped(self: OutcomeSampler, *arguments: Any) -> Any:
        sums = draw(self, *arguments)
        return sums._replace(heights=9.0 * sums.losses)

    patch.setattr(OutcomeSampler, "draw", uncapped)


def losses_in_another_order_than_chances(patch: Patch) -> None:
    build = OutcomeSampler.__init__

    def unsorted(self: OutcomeSampler, step: TiltedOutcomes) -> None:
        build(self, step)
        self._losses, self._heights = step.losses, step.heights

    patch.setattr(OutcomeSampler, "__init__", unsorted)


def chances_without_the_tilt(patch: Patch) -> None:
    build = OutcomeSampler.__init__

    def untilted(self: OutcomeSampler, *arguments: Any) -> None:
        build(self, *arguments)
        held = self._chances > 0
        heights = self._heights[held]
        self._chances[held] *= np.exp(heights.min() - heights)
        self._chances /= self._chances.sum()

    patch.setattr(OutcomeSampler, "__init__", untilted)


def the_other_outcome_of_a_slot_is_its_own(patch: Patch) -> None:
    right = drawing.alias_slots

    def own(chances: Any, bits: int) -> Any:
        lead = np.uint64(64 - bits)
        mask = (np.uint64(1) << lead) - np.uint64(1)
        slots = right(chances, bits)
        own = np.minimum(np.arange(slots.size, dtype=np.uint64), np.uint64(chances.size - 1))
        return (slots & mask) | (own << lead)

    patch.setattr(drawing, "alias_slots", own)


def half_of_the_steps(patch: Patch) -> None:
    draw = OutcomeSampler.draw
    patch.setattr(OutcomeSampler, "draw", lambda s, g, size, n: draw(s, g, size, (n + 1) // 2))


def bound_on_samples_too_small(patch: Patch) -> None:
    right = TiltedProposal.log_greatest
    patch.setattr(TiltedProposal, "log_greatest", lambda *a: right(*a) - 1.0)


def second_moment_too_small(patch: Patch) -> None:
    """A bound of a fiftieth: these bounds are generous, and one of a half would still hold."""
    right = TiltedProposal.log_moment
    patch.setattr(TiltedProposal, "log_moment", lambda *a: right(*a) - math.log(50.0))


def samples_in_pairs(patch: Patch) -> None:
    draw = TiltedProposal.draw

    def paired(self: TiltedProposal, generator: np.random.Generator, size: int) -> Block:
        half = draw(self, generator, size // 2)
        return Block(np.repeat(half.losses, 2), np.repeat(half.log_weights, 2))

    patch.setattr(TiltedProposal, "draw", paired)


def sorted_samples(patch: Patch) -> None:
    draw = TiltedProposal.draw

    def ordered(self: TiltedProposal, generator: np.random.Generator, size: int) -> Block:
        block = draw(self, generator, size)
        order = np.argsort(block.losses)
        return Block(block.losses[order], block.log_weights[order])

    patch.setattr(TiltedProposal, "draw", ordered)


FAULTS = [
    (drop_weights, jumps),
    (drop_normaliser, dense),
    (normaliser_without_the_part_beyond_the_cap, near_cap),
    (heights_beyond_the_cap_go_on, near_cap),
    (losses_in_another_order_than_chances, few_steps),
    (losses_in_another_order_than_chances, dense),
    (chances_without_the_tilt, few_steps),
    (chances_without_the_tilt, dense),
    (the_other_outcome_of_a_slot_is_its_own, few_steps),
    (half_of_the_steps, dense),
    (bound_on_samples_too_small, dense),
    (second_moment_too_small, jumps),
    (samples_in_pairs, jumps),
    (sorted_samples, jumps),
]


@pytest.mark.parametrize(("fault", "make"), FAULTS, ids=lambda f: f.__name__)
def test_a_fault_is_seen(fault: Callable[[Patch], None], make: Callable[[], Proposal], monkeypatch: Patch) -> None:
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        check(make)


@pytest.mark.parametrize("case", [LONG, *named("sampled response")], ids=lambda case: case.name)
def test_the_wrong_direction_is_seen(case: Case) -> None:
    remove, add = (case.steps(direction) for direction in ("remove", "add"))
    proposal = capped_proposal(add, case.epsilon)
    check_proposal(proposal, case.epsilon, exact(add, case.epsilon))
    with pytest.raises(AssertionError):
        check_proposal(proposal, case.epsilon, exact(remove, case.epsilon))


def test_the_tempting_wrong_pair_is_seen() -> None:
    """Swapping the base pair and sampling it as in the remove direction; invisible for Gaussians,
    so outcomes are drawn.
    """
    p, q = [0.444, 0.556], [0.599, 0.401]
    swapped = DiscretePair.from_probabilities(q, p)
    right: DominatingPair = SampledPair(swapped, 0.38, Direction.ADD)
    wrong: DominatingPair = SampledPair(swapped, 0.38, Direction.REMOVE)
    delta = exact((Step(right, 4),), 0.3)
    assert delta == near(0.0139, abs=5e-5)
    check_proposal(capped_proposal((Step(right, 4),), 0.3), 0.3, delta)
    with pytest.raises(AssertionError):
        check_proposal(capped_proposal((Step(wrong, 4),), 0.3), 0.3, delta)
