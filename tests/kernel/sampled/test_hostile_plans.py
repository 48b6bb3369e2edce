"""Plans of a stranger: whatever their numbers, no false claim is accepted with them.

Everything that a guarantee rests on is computed again from the plan, so a plan may be clumsy, but
not deceive. Numbers at the ends of floats once did: an order whose inverse overflows.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import pytest
from dp_accounting import dp_event

import evr
from evr._kernel.events import Composition
from evr._kernel.pairs import DiscretePair, Pairs, as_floats
from evr._kernel.pairs.exact import ExactOutcomes, OutcomeSet
from evr._kernel.pairs.exact.law import ball
from evr._kernel.sampled.composing import LossGrid
from evr._kernel.sampled.moments import Tilt
from evr._kernel.sampled.plan import ByOrder, ByScale, ByShift, CappedPlan, DrawPlan, MixturePlan, StepPlan
from evr._kernel.sampled.proposals import built
from evr._kernel.verdict.attempts import Attempt, Trial
from evr._kernel.verdict.settings import Claim, Settings
from helpers import answers, near, together
from kernel.pairs.registered import registered

ORDERS = (0.0, 1e-100, 1e-12, 0.1, 1.0, 2.99, 7.0, 50.0, 1e4, 1e8, 1e15, 1e100, 1e300)
MARKS = (0.0, 1e-300, 1e-9, 0.3, 1.0, 2.0, 5.0, 1e3, 1e9, 1.2345e16, 1e100, 1e300)
RESPONSES = together((answers(0.4, 2), 12))
EVENTS = {
    "outcomes": (RESPONSES, 1.0),
    "laplace": (dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(1.0), 10), 1.0),
    "gaussian": (dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(2.0), 4), 0.5),
    "dpsgd": (evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.1, steps=20), 0.5),
}


def hostile_tilt(draw: random.Random) -> Tilt:
    """With marks in order, often next to each other and far away; else whatever is allowed."""
    while True:
        marks = [draw.choice((-1, 1)) * draw.choice(MARKS) for _ in range(3)]
        if draw.random() < 0.5:
            marks = [marks[0] * (1 + k * draw.choice((2**-52, 1e-9, 1.0))) for k in (-1, 0, 1)]
        floor, cap = sorted(draw.sample(marks, 2))
        try:
            return Tilt(draw.choice(ORDERS), cap, floor)
        except ValueError:
            continue


def hostile_edges(draw: random.Random) -> tuple[float, ...]:
    marks = [draw.gauss(0.5, 2.0) for _ in range(draw.choice((1, 3, 30, 300)))]
    marks += draw.sample(MARKS, draw.choice((0, 0, 2)))
    return tuple(sorted(set(marks)))


def hostile_places(draw: random.Random, counts: list[int]) -> tuple[LossGrid, ...]:
    number = sum(count.bit_length() + count.bit_count() - 1 for count in counts) - 1
    found = []
    for _ in range(number):
        knots = {draw.gauss(0.5, draw.choice((0.1, 2.0, 50.0))) for _ in range(draw.randint(2, 40))}
        found.append(LossGrid(tuple(sorted(knots)), draw.choice((1, 5, 40))))
    return tuple(found)


def capped(draw: random.Random, composing: bool = False) -> Callable[[Trial], DrawPlan]:
    def plan(trial: Trial) -> DrawPlan:
        tilt = hostile_tilt(draw)
        kinds = tuple(
            StepPlan(
                tilt if composing else hostile_tilt(draw),
                None if isinstance(step.floats, DiscretePair) else hostile_edges(draw),
            )
            for step in trial.steps
        )
        places = hostile_places(draw, [step.count for step in trial.steps]) if composing else ()
        clip, variance = draw.choice((None, 1 + 1e-7, 2.0, 1e3, 1e300)), draw.choice((1e-9, 1.0))
        return DrawPlan(CappedPlan(kinds, places), clip=clip, variance=variance, block_size=1024)

    return plan


def accepted(event: dp_event.DpEvent, claim: Claim, method: str, plan: Callable[..., DrawPlan]) -> bool:
    """Whether a claim is, with a stranger's plan; an error is a refusal."""
    settings = Settings(method, "capped", max_samples=20_000)
    how = Attempt(1, seed=7, direction="remove")
    try:
        return how.run(Composition.of(event), claim, settings, plan).accepted
    except (ValueError, ArithmeticError):
        return False


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("composing", [False, True])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", EVENTS)
def test_capped_tilts_do_not_deceive(name: str, seed: int, composing: bool) -> None:
    event, epsilon = EVENTS[name]
    truth = float(evr.estimate_delta(event, epsilon, direction="remove"))
    draw = random.Random(f"{name} {seed}")
    for _ in range(12):
        claim = Claim(epsilon, truth * draw.choice((0.8, 0.1, 1e-6)), draw.choice((0.5, 0.9)))
        method = draw.choice(("sequential", "sequential", "fixed"))
        plan = capped(draw, composing)
        assert claim.delta < truth
        assert not accepted(event, claim, method, plan), (claim, method)


BINS = evr.events.BallsInBinsDpEvent(2.0, 12, 4, [1.0, 0.5])
MIN_SEP = evr.events.BMinSepDpEvent(2.0, 20, 5, 0.1, warm_start=True)


@pytest.mark.parametrize("by_place", [False, True])
@pytest.mark.parametrize(
    ("event", "part"),
    [
        *((event, ByScale(scale, 1.0)) for event in (BINS, MIN_SEP) for scale in (1e101, 1e300, float("nan"))),
        *((event, ByOrder(order)) for event in (BINS, MIN_SEP) for order in (-1, 1, 10**9, 10**400)),
        *((event, ByShift(shift)) for event in (BINS, MIN_SEP) for shift in (-1e300, 1.0, float("nan"))),
        (dp_event.GaussianDpEvent(1.0), ByOrder(2)),
    ],
)
def test_parts_at_the_ends_of_floats_are_refused_in_words(
    event: dp_event.DpEvent, part: ByOrder | ByScale | ByShift, by_place: bool
) -> None:
    steps = Composition.of(event).simplified("add" if isinstance(part, ByShift) else "remove")
    kinds = (StepPlan(),) if isinstance(event, dp_event.GaussianDpEvent) else ()
    with pytest.raises(ValueError, match=r"of a part|no affordable table|there are none"):
        built(MixturePlan(part, kinds, by_place=by_place), steps)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("part", [ByScale(1e100, 1.0), ByScale(1e9, 1e9), ByScale(1 + 2**-52, 1.0), ByOrder(3)])
@pytest.mark.parametrize("event", [BINS, MIN_SEP])
def test_parts_do_not_deceive(event: dp_event.DpEvent, part: ByOrder | ByScale) -> None:
    plan = DrawPlan(MixturePlan(part), block_size=1024)
    claim = Claim(0.5, 1e-4, 0.9)  # the truth is 0.11 of bins, 2.4e-4 of b-min-sep sampling
    assert not accepted(event, claim, "sequential", lambda trial: plan)


@dataclass(frozen=True)
class Together(ExactOutcomes):
    """Outcomes put together, none of whose losses is above 2.08; and one of loss 1.39."""

    def sets(self) -> list[OutcomeSet]:
        half, eighth, most = (ball(Fraction(x)) for x in (0.5, 0.125, 8))
        return [OutcomeSet(half, 1 - eighth, most.log()), OutcomeSet(half, eighth, (half / eighth).log())]


def test_a_plan_that_spreads_outcomes_put_together_hides_no_loss() -> None:
    """Of the set, 1/4 may have the loss 2.08: then delta at 1.7 is 0.079. The mean of the cell lies below both
    its ends. The claim of 0.01 was accepted without a sample.
    """
    plan = DrawPlan(CappedPlan((StepPlan(edges=()),)), block_size=1000)
    with registered(Pairs.both(Together())) as event:
        found = Attempt(1, seed=1).run(Composition.of(event), Claim(1.7, 0.01), Settings(), lambda trial: plan)
    assert not found.accepted
    pair = as_floats(Together())
    assert isinstance(pair, DiscretePair)
    assert [round(loss, 2) for loss in pair.loss_values] == [-math.inf, 1.39, 2.08]
    assert math.fsum(math.exp(x) for x in pair.log_q) == near(1.0, rel=1e-15)
