"""Plans are data: they round-trip, build the same proposal, and are refused where they say what
cannot be.
"""

from __future__ import annotations

import copy
import json
import math
import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event

import evr
from evr._basics.randomness import Stream
from evr._kernel.events import Composition
from evr._kernel.sampled.plan import CappedPlan, DrawPlan, StepPlan
from evr._kernel.sampled.proposals import built
from evr._kernel.verdict.settings import Claim
from evr._plan.sampled import planned
from evr.events import EpsilonDeltaDpEvent

SGD = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=100)
LONG = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=20_000)
MIXED = dp_event.ComposedDpEvent([SGD, dp_event.LaplaceDpEvent(2.0), EpsilonDeltaDpEvent(0.1, 1e-9)])

CASES = {
    "composed": (SGD, "remove", "capped"),
    "the other direction": (SGD, "add", "capped"),
    "long": (LONG, "remove", "capped"),
    "several kinds": (MIXED, "remove", "capped"),
    "plain": (SGD, "remove", "simple"),
}


@cache
def plan_of(name: str) -> tuple[DrawPlan, Any]:
    event, direction, proposal = CASES[name]
    steps = Composition.of(event).simplified(direction)
    return planned(steps, Claim(1.0, 1e-6, 0.9), proposal), steps


@pytest.mark.parametrize("name", CASES)
def test_a_plan_survives_json_and_builds_the_same(name: str) -> None:
    plan, steps = plan_of(name)
    again = DrawPlan.from_json(json.loads(json.dumps(plan.to_json())))
    assert again == plan
    first, second = built(plan.proposal, steps), built(again.proposal, steps)
    for a, b in zip(
        first.draw(Stream(1, "test").block(0), 50), second.draw(Stream(1, "test").block(0), 50), strict=True
    ):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["composed", "long"])
def test_a_proposal_travels_by_its_plan(name: str) -> None:
    plan, steps = plan_of(name)
    proposal = built(plan.proposal, steps)
    assert len(pickle.dumps(proposal)) < 10 * len(json.dumps(plan.to_json())) + 20_000
    assert pickle.loads(pickle.dumps(proposal)) is proposal  # built once in a process


@pytest.mark.parametrize("composing", [True, False])
def test_steps_are_merged_and_composed(composing: bool) -> None:
    steps = Composition.of(SGD).simplified("remove")
    plan = planned(steps, Claim(1.0, 1e-6, 0.9), "capped", composing=composing)
    assert plan.proposal.kinds[0].edges is not None
    assert bool(plan.proposal.places) is composing
    assert built(plan.proposal, steps).steps[0].count == (1 if composing else 100)


def broken(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Plans that say what cannot be, and what the error names."""

    def change(path: list[Any], value: Any) -> dict[str, Any]:
        other = copy.deepcopy(document)
        place = other
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        return other

    return [
        ("more", change(["more"], 1)),
        ("block_size", change(["block_size"], 0)),
        ("block_size", change(["block_size"], 10**9)),
        ("block_size", change(["block_size"], 4.0)),
        ("block_size", change(["block_size"], True)),
        ("clip", change(["clip"], "much")),
        ("variance", change(["variance"], math.inf)),
        ("device", change(["device"], "a sentence, in words")),
        ("proposal", change(["proposal", "name"], "mine")),
        ("proposal", change(["proposal", "name"], "simple")),
        ("proposal", change(["proposal"], None)),
        ("not a plan in evr's format", change(["proposal", "kinds", 0], {})),
        (r"tilt\.order", change(["proposal", "kinds", 0, "tilt", "order"], math.nan)),
        (r"tilt\.order", change(["proposal", "kinds", 0, "tilt", "order"], "inf")),
        (r"tilt\.order", change(["proposal", "kinds", 0, "tilt", "order"], True)),
        (r"tilt\.order", change(["proposal", "kinds", 0, "tilt", "order"], 10**400)),
        (r"tilt", change(["proposal", "kinds", 0, "tilt", "cap"], -1e300)),
        (r"more", change(["proposal", "kinds", 0, "more"], 1)),
        (r"edges do not rise", change(["proposal", "kinds", 0, "edges"], [1.0, 0.5])),
    ]


def test_plans_that_say_what_cannot_be_are_refused() -> None:
    document = plan_of("composed")[0].to_json()
    for message, other in broken(document):
        with pytest.raises(ValueError, match=message):
            DrawPlan.from_json(other)


def test_a_step_that_is_not_on_outcomes_is_refused() -> None:
    plan, steps = plan_of("composed")
    with pytest.raises(ValueError, match="a plan spreads it to finitely many outcomes"):
        built(CappedPlan((StepPlan(plan.proposal.kinds[0].tilt),)), steps)


def test_kinds_that_are_composed_have_one_tilt() -> None:
    plan, steps = plan_of("several kinds")
    document = plan.to_json()
    assert document["proposal"]["places"]
    document["proposal"]["kinds"][0]["tilt"]["order"] *= 1.01
    with pytest.raises(ValueError, match="3 kinds of steps that are composed have one tilt"):
        built(DrawPlan.from_json(document).proposal, steps)


def test_a_plan_for_other_steps_is_refused() -> None:
    plan, _ = plan_of("composed")
    with pytest.raises(ValueError, match="kinds of steps"):
        built(plan.proposal, Composition.of(MIXED).simplified("remove"))


def test_bounds_follow_the_plan_and_not_the_search() -> None:
    """Whatever a plan says, samples stay below their bound and average to delta or more."""
    _, steps = plan_of("composed")
    delta = float(evr.estimate_delta(SGD, 1.0, direction="remove"))
    document = plan_of("composed")[0].to_json()
    for order, cap in ((16.0, 1.5), (14.0, 1.3), (20.0, 1.2)):
        document["proposal"]["kinds"][0]["tilt"].update(order=order, cap=cap)
        proposal = built(DrawPlan.from_json(document).proposal, steps)
        values = proposal.draw(Stream(1, "test").block(0), 40_000).values(1.0)
        assert values.max() <= math.exp(proposal.log_greatest(1.0)) * (1 + 1e-9)
        error = values.std() / 200
        assert values.mean() > delta - 6 * error
        assert values.mean() < delta + 6 * error + 0.02 * delta  # what composing adds


def test_a_floor_above_the_cap_once_proved_a_false_claim() -> None:
    """Heights and pieces were two functions there, and losses between cap and floor were bounded by
    nothing.
    """
    from evr._kernel.sampled.moments import Tilt

    with pytest.raises(ValueError, match="the floor is above the cap"):
        Tilt(1.0, cap=-200.0, floor=20.0)
    for order in (-1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="the order is 0, or finite and at least"):
            Tilt(order, cap=1.0, floor=0.0)


def test_plans_of_a_stranger_end_in_words() -> None:
    plain = plan_of("plain")[0].to_json()
    with pytest.raises(ValueError, match="cells"):
        DrawPlan.from_json({**plain, "proposal": {"name": "simple", "cells": 10**9}})
    document = plan_of("composed")[0].to_json()
    for key, value in (("clip", 0.0), ("clip", -1.0), ("variance", 0.0), ("variance", -2.0)):
        with pytest.raises(ValueError, match=key):
            DrawPlan.from_json({**document, key: value})


def test_means_of_cells_are_never_below_the_truth() -> None:
    """Edges picked so that rounding falls low once made samples half as large as they should be."""
    from evr._kernel.pairs import Direction
    from evr._kernel.pairs.line.gaussian import GaussianPair
    from evr._kernel.pairs.line.poisson import SampledPair
    from evr._kernel.sampled.composing import spread_to_edges

    pair = SampledPair(GaussianPair(1e-3), 1e-8, Direction.ADD)
    generator = np.random.default_rng(1)
    for _ in range(20):
        edges = np.sort(generator.normal(size=400))
        coarse = spread_to_edges(pair, edges)
        total = math.fsum(math.exp(q) - math.exp(p) for p, q in zip(coarse.log_p, coarse.log_q, strict=True))
        assert total <= 0  # of Q there is no more than of P: losses were raised, not lowered
