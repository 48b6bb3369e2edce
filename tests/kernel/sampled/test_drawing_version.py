"""What a seed draws stays the same, or ``DRAWING`` is raised: else certificates that were made
before no longer replay, unexplained.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from dp_accounting import dp_event

import evr
from evr._basics.randomness import Stream
from evr._kernel.events import Composition
from evr._kernel.pairs import DiscretePair, Step
from evr._kernel.sampled.line import TiltedProposal
from evr._kernel.sampled.mixtures import MixtureProposal
from evr._kernel.sampled.moments import Tilt
from evr._kernel.sampled.plan import DRAWING, ByOrder, ByShift, ByWindow, CappedPlan, MixturePlan, StepPlan
from evr._kernel.sampled.proposals import Proposal
from evr._kernel.sampled.simple import SimpleProposal
from helpers import answers, near, together


def tilted(order: float, cap: float, floor: float) -> Callable[[tuple[Step, ...], float], Proposal]:
    """A proposal of one tilt for one kind of step, whatever the search finds today."""
    edges = tuple(np.linspace(-8.0, 8.0, 400).tolist())

    def make(steps: tuple[Step, ...], epsilon: float) -> Proposal:
        spread = None if isinstance(steps[0].floats, DiscretePair) else edges
        plan = CappedPlan((StepPlan(Tilt(order, cap, floor), spread),))
        return TiltedProposal.from_plan(plan, steps)

    return make


def simple(steps: tuple[Step, ...], epsilon: float) -> Proposal:
    return SimpleProposal(steps)


def drawn_by(plan: MixturePlan) -> Callable[[tuple[Step, ...], float], Proposal]:
    return lambda steps, epsilon: MixtureProposal(plan, steps)


SGD = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=100)
GAUSSIAN = dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(20.0), 100)
LAPLACE = dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.1, dp_event.LaplaceDpEvent(1.0)), 30)
BANDED = evr.events.BallsInBinsDpEvent(3.0, 200, 20, (0.8, 0.6))
BINS = evr.events.BallsInBinsDpEvent(3.0, 200, 20)
MIN_SEP = evr.events.BMinSepDpEvent(2.0, 60, 4, 0.2, True, (0.8, 0.6))
RESPONSE = together((answers(0.8, 5), 12))

DRAWN: dict[str, tuple[Callable[..., Proposal], dp_event.DpEvent | Composition, str, float, float]] = {
    "counted": (tilted(7.0, 27.9, -0.01), SGD, "remove", 244.78823926576078, -1095.4484975476844),
    "one by one": (tilted(4.2, 1.1, -3.4), GAUSSIAN, "remove", 898.7593984962402, -1294.43877182003),
    "outcomes": (tilted(0.15, 1.05, -0.81), RESPONSE, "remove", 2584.4345990814395, -53.483343931189154),
    "untilted": (simple, SGD, "remove", 6.55304751421339, 0.0),
    "untilted laplace": (simple, LAPLACE, "remove", 137.2414769912145, 0.0),
    "banded bins": (
        drawn_by(MixturePlan(ByOrder(6), beside=ByWindow(4, 2, 3.0), share=0.5)),
        BANDED,
        "remove",
        1851.1508139893904,
        -5962.251205655091,
    ),
    "independent bins": (drawn_by(MixturePlan(ByOrder(6))), BINS, "remove", 1991.307626595556, -7358.600906706104),
    "shifted bins": (drawn_by(MixturePlan(ByShift(-6.0))), BINS, "add", 381.5829380334326, -1000.7821243767518),
    "min-sep": (drawn_by(MixturePlan(ByOrder(4))), MIN_SEP, "remove", 1863.4215683629059, -2516.6810660436295),
}
"""Sums over 1000 samples of the losses and of the log weights, at epsilon 0.5, as version 4 draws
them.
"""


@pytest.mark.parametrize("name", DRAWN)
def test_a_seed_draws_what_it_always_did(name: str) -> None:
    make, event, direction, losses, log_weights = DRAWN[name]
    proposal = make(Composition.of(event).simplified(direction), 0.5)
    block = proposal.draw(Stream(1, "test").block(0), 1000)
    assert DRAWING == 4, "draw these numbers anew for the new version"
    drawn = block.log_weights > -math.inf  # bins may draw nothing
    assert float(block.losses[drawn].sum()) == near(losses, rel=1e-8)
    assert float(block.log_weights[drawn].sum()) == near(log_weights, rel=1e-8)
