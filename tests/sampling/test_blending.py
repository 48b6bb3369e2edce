"""Several tilts at once: bounds that hold for every outcome, weights that average to delta, and
plans that are refused where they say what cannot be.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import evr
import evr.proving.planning as planning
from conformance.proposal_checks import check_proposal
from evr.bounds import Tilt
from evr.bounds.blending import Blend
from evr.bounds.moments import log_clipping
from evr.laws import DiscretePair, Floats, Step
from evr.mechanisms import Composition
from evr.sampling import Plan, built
from evr.sampling.blended import BlendedProposal
from evr.search.blending import blended_kinds
from evr.verification import Claim
from helpers import near

TRAINING = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.05, steps=60)
EPSILON = 2.0
# delta comes partly from one jump and partly from many steps
HARD = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=20_000)

Patch = pytest.MonkeyPatch


class Listed(NamedTuple):
    """All outcomes of a small composition: chances under ``P``, losses, the greatest loss of a
    step, and the heights of each part.
    """

    chances: Floats
    losses: Floats
    greatest: Floats
    heights: Floats


def outcomes_of(steps: Sequence[Step]) -> tuple[Floats, Floats]:
    """Losses of all steps, a row each, and the chance of each combination under ``P``."""
    laws = [step.law for step in steps for _ in range(step.count)]
    assert all(isinstance(law, DiscretePair) for law in laws)
    losses = [law.losses for law in laws if isinstance(law, DiscretePair)]
    chances = [np.exp(law.log_p) for law in laws if isinstance(law, DiscretePair)]
    rows = np.stack([x.ravel() for x in np.meshgrid(*losses, indexing="ij")])
    factors = np.stack([x.ravel() for x in np.meshgrid(*chances, indexing="ij")])
    return rows, np.prod(factors, axis=0)


def listed(blend: Blend) -> Listed:
    rows, chances = outcomes_of(blend.steps)
    kinds = [i for i, step in enumerate(blend.steps) for _ in range(step.count)]
    heights = [
        sum(part[kind].height(row) for kind, row in zip(kinds, rows, strict=True))
        for part in blend.tilts
    ]
    return Listed(chances, rows.sum(axis=0), rows.max(axis=0), np.array(heights))


def small_blend(seed: int, kind: type[Blend] = Blend) -> tuple[Blend, float]:
    """Two kinds of steps on few outcomes with random laws, tilts and shares, and an epsilon."""
    generator = np.random.default_rng(seed)
    steps = []
    for outcomes, count in ((4, 3), (3, 2)):
        q = generator.dirichlet(np.ones(outcomes))
        p = q * np.exp(generator.normal(0.0, 0.7, outcomes))
        steps.append(Step(DiscretePair.from_probabilities(p / p.sum(), q), count))

    def tilt() -> Tilt:
        order, cap = generator.uniform(0.2, 6.0), generator.uniform(0.1, 2.0)
        knee = generator.uniform(-0.5, cap) if generator.random() < 0.5 else None
        jump = None if knee is None else order + generator.uniform(0.0, 4.0)
        return Tilt(order, cap, generator.uniform(-2.0, -0.5), knee, jump)

    parts = int(generator.integers(2, 4))
    shares = generator.dirichlet(np.full(parts, 3.0)) * 0.9 + 0.1 / parts
    tilts = [[tilt() for _ in steps] for _ in range(parts)]
    return kind(steps, tilts, (shares / shares.sum()).tolist()), generator.uniform(0.1, 1.5)


def check_small(kind: type[Blend] = Blend) -> None:
    """Bounds of each cell against all outcomes, one by one; the density of what is drawn sums to
    1, and samples average to delta.
    """
    for seed in range(12):
        blend, epsilon = small_blend(seed, kind)
        all_of_it = listed(blend)
        density = sum(
            share * np.exp(height) / np.sum(all_of_it.chances * np.exp(height))
            for share, height in zip(blend.shares, all_of_it.heights, strict=True)
        )
        drawn = all_of_it.chances * density
        assert math.isclose(math.fsum(drawn), 1.0, rel_tol=1e-12)
        x = np.maximum(-np.expm1(epsilon - all_of_it.losses), 0.0) / density
        cells, room = blend.at(epsilon), 1e-10
        moments = {p: cells.moment(p) for p in (1.5, 2.0, 4.0)}
        inside = np.searchsorted(blend.edges, all_of_it.greatest, side="left")
        for cell, edge in enumerate(blend.edges.tolist()):
            held = inside == cell
            most = math.log(max(float(np.max(x[held], initial=0.0)), 1e-300))
            assert most <= cells.greatest[cell] + room or most < -690, (seed, edge)
            for p, bounds in moments.items():
                moment = math.log(max(math.fsum((drawn * x**p)[held]), 1e-300))
                assert moment <= bounds[cell] + room or moment < -690, (seed, edge, p)
        for clip in (0.3, 1.0, 2.0):
            excess = math.fsum(drawn * np.maximum(x - clip, 0.0))
            assert excess <= math.exp(cells.log_excess(math.log(clip))) + 1e-300, (seed, clip)


def test_bounds_hold_for_every_outcome() -> None:
    check_small()


def test_one_tilt_twice_is_that_tilt() -> None:
    blend, epsilon = small_blend(3)
    one = blend.tilts[0]
    twice = Blend(blend.steps, [one, one], (0.25, 0.75))
    lone = Blend(blend.steps, [one, one], (1.0 - 1e-3, 1e-3))
    assert twice.at(epsilon).log_greatest == near(
        lone.at(epsilon).log_greatest - math.log(0.75 / (1.0 - 1e-3))
    )


class WithoutShares(Blend):
    @cached_property
    def lifts(self) -> list[float]:
        return list(self.log_normalisers)


class Swapped(Blend):
    @cached_property
    def log_normalisers(self) -> list[float]:
        return Blend(self.steps, self.tilts, self.shares).log_normalisers[::-1]


@pytest.mark.parametrize("wrong", [WithoutShares, Swapped])
def test_bounds_without_shares_or_of_other_parts_are_noticed(wrong: type[Blend]) -> None:
    with pytest.raises(AssertionError):
        check_small(wrong)


def some_blend(kind: type[BlendedProposal] = BlendedProposal, **changes: Any) -> BlendedProposal:
    """Randomised responses whose delta is known; the parts differ a lot, and so do their shares."""
    first = DiscretePair.from_probabilities([0.5, 0.3, 0.2], [0.3, 0.3, 0.4])
    second = DiscretePair.from_probabilities([0.9, 0.1, 0.0], [0.1, 0.8999, 1e-4])
    third = DiscretePair.from_probabilities([0.999, 1e-3], [1.0, 0.0])
    options: dict[str, Any] = {
        "steps": [Step(first, 6), Step(second, 1), Step(third, 2)],
        "tilts": [[Tilt(0.3, 1.0, -1.0)] * 3, [Tilt(1.5, 0.6, -0.6), *[Tilt(2.0, 3.0, -3.0)] * 2]],
        "shares": (0.3, 0.7),
    }
    return kind(**{**options, **changes})


def check_samples(proposal: BlendedProposal) -> None:
    rows, chances = outcomes_of(proposal.steps)
    held = chances > 0  # where they are not, losses are minus infinity
    terms = np.maximum(-np.expm1(EPSILON - rows[:, held].sum(axis=0)), 0.0)
    check_proposal(proposal, EPSILON, math.fsum(chances[held] * terms), size=60_000)


def test_samples_average_to_delta_within_their_bounds() -> None:
    check_samples(some_blend())


class DroppedShare(BlendedProposal):
    """Weights that forget the shares."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._log_factors = -np.array(self.blend.log_normalisers)


class SwappedParts(BlendedProposal):
    """Parts are drawn with each other's chances."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._samplers = self._samplers[::-1]


class OwnWeight(BlendedProposal):
    """Weights of one part for all samples."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._log_factors = np.array([self._log_factors[0], -np.inf])


@pytest.mark.parametrize("wrong", [DroppedShare, SwappedParts, OwnWeight])
def test_wrong_weights_and_parts_are_noticed(wrong: type[BlendedProposal]) -> None:
    with pytest.raises(AssertionError):
        check_samples(some_blend(wrong))


def test_infinite_losses_are_in_samples_bounds_and_corrections() -> None:
    proposal = some_blend()
    assert proposal.infinite == near(1.0 - 0.999**2)
    finite = proposal.blend.at(EPSILON)
    greatest = math.exp(finite.log_greatest) + proposal.infinite
    assert proposal.greatest(EPSILON) == near(greatest)
    clip = 0.9 * math.exp(finite.log_greatest)
    excess = math.exp(finite.log_excess(math.log(clip - proposal.infinite)))
    assert proposal.excess(EPSILON, clip) == near(excess, rel=1e-5)
    assert proposal.excess(EPSILON, 0.5 * proposal.infinite) == math.inf
    assert proposal.excess(EPSILON, 1.01 * greatest) == 0.0


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ((1.0,), "has 2 to 4 parts"),
        ((0.2,) * 5, "has 2 to 4 parts"),
        ((1.5, -0.5), "are not from"),
        ((math.nan, 0.5), "are not from"),
        ((math.inf, 0.5), "are not from"),
        ((0.0, 1.0), "are not from"),
        ((1e-4, 1.0 - 1e-4), "are not from"),
        ((0.5, 0.5 - 1e-9), "sum to"),
        ((0.3, 0.3, 0.4), "2 parts have 3 shares"),
    ],
)
def test_shares_that_are_none_are_refused(shares: tuple[float, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        some_blend(shares=shares)


@pytest.fixture(scope="module")
def blended() -> tuple[Plan, tuple[Step, ...], float]:
    """A plan that composes 60 steps and tilts them in two ways, and the exact delta."""
    steps = Composition.of(TRAINING).simplified("remove")
    delta = float(evr.estimate_delta(TRAINING, EPSILON, direction="remove"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "WORTH_COMPOSING", 0.0)
        plan = planning.planned(steps, "remove", Claim(EPSILON, delta, 0.95), "capped")
    found = blended_kinds(steps, plan.kinds, EPSILON)
    assert found is not None
    kinds, shares = found
    return replace(plan, proposal="blended", kinds=kinds, shares=shares, cells=0), steps, delta


def test_a_blend_of_composed_steps(blended: tuple[Plan, tuple[Step, ...], float]) -> None:
    plan, steps, delta = blended
    proposal = built(plan, steps)
    check_proposal(proposal, EPSILON, delta * (1 + 2e-3), size=100_000)
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    without = replace(plan, shares=(), kinds=tuple(replace(k, others=()) for k in plan.kinds))
    document = without.to_json()
    assert "shares" not in document
    assert "others" not in document["kinds"][0]


def altered(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    def changed(path: list[Any], value: Any) -> dict[str, Any]:
        other = copy.deepcopy(document)
        place: Any = other
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        return other

    tilt = document["kinds"][0]["tilt"]
    others = ["kinds", 0, "others"]
    yield "left out where", changed(["shares"], [])
    yield "is not a list", changed(["shares"], None)
    yield "is not a number", changed(["shares"], [0.5, "nan"])
    yield "is not a number", changed(["shares"], [0.5, math.nan])
    yield "is not a number", changed(["shares"], [0.5, True])
    yield "are not from", changed(["shares"], [1.5, -0.5])
    yield "are not from", changed(["shares"], ["inf", 0.5])
    yield "sum to", changed(["shares"], [0.5, 0.4])
    yield "2 tilts, and the plan has 3 shares", changed(["shares"], [0.5, 0.25, 0.25])
    yield (
        "2 to 4 parts",
        changed(["shares"], [0.2] * 5) | {"kinds": changed(others, [tilt] * 4)["kinds"]},
    )
    yield "left out where", changed(others, [])
    yield "3 tilts, and the plan has 2", changed(others, [tilt, tilt])
    yield "others.0.: found", changed(others, [{**tilt, "more": 1.0}])
    yield "are tilted", changed(others, [{**tilt, "order": 0.0}])
    yield "does not draw a blend", changed(["kinds", 0, "sampler"], "outcomes/1")
    yield "has one tilt, and no shares", changed(["proposal"], "capped")


def test_plans_that_blend_what_cannot_be_are_refused(
    blended: tuple[Plan, tuple[Step, ...], float],
) -> None:
    plan, steps, _ = blended
    for message, document in altered(plan.to_json()):
        with pytest.raises(ValueError, match=message):
            built(Plan.from_json(document), steps)
    kinds = tuple(replace(kind, composing=None, edges=None) for kind in plan.kinds)
    with pytest.raises(ValueError, match="need finitely many outcomes"):
        built(replace(plan, kinds=kinds), steps)


def test_certificates_of_blends_replay_and_altered_ones_do_not(
    blended: tuple[Plan, tuple[Step, ...], float], tmp_path: Path, monkeypatch: Patch
) -> None:
    def composed(steps: tuple[Step, ...], claim: Claim) -> Plan | None:
        plan, known, _ = blended
        return planning._clipped(plan, steps, claim)[0] if steps == known else None

    monkeypatch.setattr(planning, "_composed", composed)
    certificate = evr.certify(
        TRAINING,
        epsilon=EPSILON,
        tau=0.9,
        method="sequential",
        seed=1,
        ledger=tmp_path / "ledger.sqlite",
    )
    plan = certificate.verification.directions["remove"].plan
    assert certificate.accepted
    assert plan is not None
    assert plan["proposal"] == "blended"
    assert evr.replay(certificate).agrees
    plan["shares"] = plan["shares"][::-1]
    assert not evr.replay(certificate).agrees


@pytest.mark.full
def test_a_jump_and_many_steps_are_verified_in_seconds() -> None:
    epsilon = float(evr.estimate_epsilon(HARD, 1e-9).value)
    delta = float(evr.estimate_delta(HARD, epsilon).value)
    found = evr.verify(HARD, epsilon=epsilon, delta=delta, tau=0.99, seed=1)
    plan = found.directions["remove"].plan
    assert plan is not None
    assert plan.proposal == "blended"
    assert found.accepted
    assert found.samples < 2e7
    assert not evr.verify(HARD, epsilon=epsilon, delta=0.97 * delta, tau=0.99, seed=1).accepted


def test_corrections_are_those_of_the_best_power() -> None:
    blend, epsilon = small_blend(4)
    cells = blend.at(epsilon)
    clip = cells.log_greatest - 0.5
    one = log_clipping(2.0) + cells.log_moment(2.0) - clip
    assert -math.inf < cells.log_excess(clip) <= one
