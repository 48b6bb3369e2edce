"""False claims are accepted no more often than the budget says.

The budget is made large, 0.05, so that the rate can be measured. Counts are compared with the
quantile of the binomial law that a rate of exactly the budget exceeds with probability 1e-6.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from dp_accounting import dp_event

import evr
from conformance.proposal_cases import CASES, SETTINGS, SHORT, UNSAMPLED, Case, exact, named
from evr._basics.randomness import Stream
from evr._estimate.capped import capped_proposal
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction, DiscretePair, Step
from evr._kernel.pairs.line.poisson import SampledPair
from evr._kernel.sampled.driver import Lazily
from evr._kernel.sampled.fixed import plan_fixed
from evr._kernel.sampled.plan import DrawPlan
from evr._kernel.sampled.proposals import Proposal, drawing_of
from evr._kernel.sampled.simple import SimpleProposal
from evr._kernel.verdict.attempts import Trial
from evr._kernel.verdict.settings import Claim, Settings
from evr._plan.sampled import planned
from helpers import near
from kernel.sampled.laws import KnownLaw, SmallBlocks, acceptances, most_of, plan_for, two_points

BUDGET = 0.05
RATIOS = (1.001, 1.01, 1.05, 1.5, 10.0, 1e3)
TAU = 0.5
AFFORDABLE = [ratio for ratio in RATIOS if ratio < 2]
"""For Algorithm 2, whose number of samples grows with the square of the ratio: the claim sets
Delta, the truth nu.
"""


def false_claim(delta: float, ratio: float, epsilon: float = 1.0, tau: float = TAU) -> Claim:
    """A claim that the truth exceeds by the ratio."""
    claim = Claim(epsilon, delta / ratio, tau)
    assert claim.delta * ratio == near(delta)
    return claim


LAWS = {
    "two points": two_points(1e-6, 4e-6),
    "far points": two_points(1e-6, 3e-5),
    # mean 1e-6; clipped, if at all
    "rare and huge": KnownLaw([0.0, 1e-6, 2e-3], [0.4, 0.6 - 2e-4, 2e-4]),
    "next to constant": KnownLaw([0.999e-6, 1.001e-6], [0.5, 0.5]),
    "three points": KnownLaw([0.0, 1e-6, 6e-6], [0.5, 0.4, 0.1]),
}


def at_the_threshold(delta: float, epsilon: float = 1.0) -> Claim:
    """The claim whose threshold is the mean: as true as a false claim can be."""
    kappa = (1 - TAU) / 40
    claim = Claim(epsilon, delta / (1 - kappa), TAU)
    assert claim.threshold == near(delta, rel=1e-12)
    return claim


@pytest.mark.parametrize("shape", [(50, 64), (20, 5)], ids=str)
@pytest.mark.parametrize("name", LAWS)
def test_sequential_at_the_threshold(name: str, shape: tuple[int, int]) -> None:
    law, runs = LAWS[name], 200
    blocks, size = shape
    (accepted,) = acceptances(law, [at_the_threshold(law.mean)], BUDGET, runs=runs, blocks=blocks, size=size)
    assert accepted <= most_of(runs, BUDGET)


@pytest.mark.parametrize("name", LAWS)
def test_sequential_on_known_laws(name: str) -> None:
    law, runs = LAWS[name], 100
    claims = [false_claim(law.mean, ratio) for ratio in RATIOS]
    assert max(acceptances(law, claims, BUDGET, runs=runs, blocks=40, size=64)) <= most_of(runs, BUDGET)


def test_the_rate_is_not_idle() -> None:
    """At the threshold a large part of the budget is spent: the counts above mean something."""
    law, runs = LAWS["far points"], 400
    (accepted,) = acceptances(law, [at_the_threshold(law.mean)], BUDGET, runs=runs, blocks=50, size=64)
    assert accepted >= 0.4 * BUDGET * runs


@pytest.mark.full
@pytest.mark.parametrize("name", LAWS)
def test_sequential_at_the_threshold_in_full(name: str) -> None:
    law, runs = LAWS[name], 5000
    for budget in (0.01, 0.05, 0.3):
        for blocks, size in ((100, 256), (100, 32), (100, 3)):
            claims = [at_the_threshold(law.mean)]
            (accepted,) = acceptances(law, claims, budget, runs=runs, blocks=blocks, size=size)
            assert accepted <= most_of(runs, budget), (budget, blocks, size)


@pytest.mark.parametrize("greatest", [2e-6, 4e-6, 3e-5])
@pytest.mark.parametrize("ratio", [1.0, *AFFORDABLE])
def test_fixed_on_known_laws(ratio: float, greatest: float) -> None:
    law, runs = two_points(1e-6, greatest, block=8192), 60
    claim = at_the_threshold(law.mean) if ratio == 1.0 else false_claim(law.mean, ratio)
    assert fixed_acceptances(law, claim, runs) <= most_of(runs, BUDGET)


def fixed_acceptances(proposal: Proposal, claim: Claim, runs: int) -> int:
    """Algorithm 2 with as many samples as the large budget needs."""
    drawing, drawn = drawing_of(proposal, claim.epsilon), plan_for(proposal, claim)
    log_moment, weight = proposal.log_moment(claim.epsilon, 2.0), drawing.rounding.weight
    test = plan_fixed(claim, log_moment, attempt=1, rounding=weight)
    samples = math.ceil(2 * test.second_moment / test.offset**2 * math.log(1 / BUDGET))
    test = replace(test, samples=samples)
    accepted = 0
    for seed in range(runs):
        trial = Trial("remove", (), claim, Settings("fixed"), 1, math.log(BUDGET), Stream(seed, "test"))
        found = replace(trial.of_drawing(drawing, drawn), test=test, most=samples)
        accepted += found.play(Lazily()).accepted
    return accepted


@cache
def proposal_of(kind: str, steps: tuple[Step, ...], epsilon: float) -> Proposal:
    if kind == "simple":
        return SmallBlocks(SimpleProposal(steps), 2048)
    return SmallBlocks(capped_proposal(steps, epsilon), 2048)


def check_real(kind: str, case: Case, direction: str, *, runs: int, fixed_runs: int) -> None:
    """False claims, one at the threshold included, in both verifiers. Counts of a claim are
    binomial; of all, dependent.
    """
    epsilon = case.plain_epsilon() if kind == "simple" else case.epsilon
    steps = case.steps(direction)
    if (delta := exact(steps, epsilon)) == 0.0:
        pytest.skip("no loss exceeds epsilon: no claim above 0 is false")
    proposal = proposal_of(kind, steps, epsilon)
    claims = [at_the_threshold(delta, epsilon), *(false_claim(delta, ratio, epsilon) for ratio in RATIOS)]
    assert max(acceptances(proposal, claims, BUDGET, runs=runs, blocks=30, size=128)) <= most_of(runs, BUDGET)
    for claim in claims[: 1 + len(AFFORDABLE)]:
        assert fixed_acceptances(proposal, claim, fixed_runs) <= most_of(fixed_runs, BUDGET)


REAL = [
    ("capped", SHORT, 12),
    *(("capped", case, 40) for case in named("gaussian")),
    *(("capped", case, 40) for case in named("randomized response", "infinite losses", "discrete gaussian")),
    *(("simple", case, 40) for case in named("gaussian", "randomized response")),
]


@pytest.mark.parametrize(("kind", "case", "runs"), REAL, ids=lambda x: getattr(x, "name", None))
def test_real_proposals_with_a_large_budget(kind: str, case: Case, runs: int) -> None:
    check_real(kind, case, "remove", runs=runs, fixed_runs=8)


EVERY = [*(("capped", case) for case in CASES), *(("simple", case) for case in (*SETTINGS, *UNSAMPLED))]


@pytest.mark.full
@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(("kind", "case"), EVERY, ids=lambda x: getattr(x, "name", None))
def test_real_proposals_in_full(kind: str, case: Case, direction: str) -> None:
    check_real(kind, case, direction, runs=300, fixed_runs=40)


@pytest.fixture
def cached_proposals(monkeypatch: pytest.MonkeyPatch) -> None:
    """One search for the tilt, many verifications."""
    monkeypatch.setattr("evr._plan.sampled.planned", _planned)


@cache
def _planned(steps: tuple[Step, ...], claim: Claim, proposal: str, **how: Any) -> DrawPlan:
    return replace(planned(steps, claim, proposal, **how), block_size=2048)


@pytest.mark.usefixtures("cached_proposals")
@pytest.mark.parametrize("method", ["sequential", "fixed"])
@pytest.mark.parametrize("case", [SHORT, *UNSAMPLED], ids=lambda x: x.name)
def test_with_the_real_budget_none_is_accepted(case: Case, method: str) -> None:
    delta = max(exact(case.steps(d), case.epsilon) for d in ("remove", "add"))
    tau, most = (0.9, 20_000) if method == "sequential" else (0.4, None)
    for ratio in RATIOS[::2] if method == "sequential" else AFFORDABLE[::2]:
        claim = false_claim(delta, ratio, case.epsilon, tau)
        found = evr.verify(
            case.event,
            epsilon=case.epsilon,
            delta=claim.delta,
            method=method,
            seed=round(1000 * ratio),
            workers=1,
            tau=tau,
            max_samples=most,
        )
        assert not found.accepted
        assert found.guarantee is None


def composition_with_a_worse_add() -> Composition:
    """The asymmetric pair of the notes: remove 0.0116, add 0.0139 at epsilon 0.3."""
    base = DiscretePair.from_probabilities([0.444, 0.556], [0.599, 0.401])
    swapped = DiscretePair.from_probabilities([0.599, 0.401], [0.444, 0.556])
    return Composition(
        (Step(SampledPair(base, 0.38, Direction.REMOVE), 4),), (Step(SampledPair(swapped, 0.38, Direction.ADD), 4),)
    )


@pytest.mark.parametrize(
    ("event", "epsilon", "worse"),
    [
        (evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.2, steps=6), 1.0, "remove"),
        (composition_with_a_worse_add(), 0.3, "add"),
    ],
    ids=["remove is worse", "add is worse"],
)
def test_a_claim_true_in_one_direction_only_is_rejected(
    event: dp_event.DpEvent | Composition, epsilon: float, worse: str
) -> None:
    composition = Composition.of(event)
    deltas = {d: exact(composition.simplified(d), epsilon) for d in ("remove", "add")}
    better = "add" if worse == "remove" else "remove"
    between = math.sqrt(deltas["remove"] * deltas["add"])
    assert deltas[better] < 0.95 * between
    for tau in (0.9, 0.97):
        found = evr.verify(event, epsilon=epsilon, delta=between, tau=tau, seed=1)
        assert not found.accepted
        assert not found.directions[worse].accepted
        alone = evr.verify(event, epsilon=epsilon, delta=between, tau=tau, seed=2, direction=better)
        assert alone.accepted
        assert alone.guarantee is None
        assert evr.verify(event, epsilon=epsilon, delta=deltas[worse] / tau, tau=tau, seed=3).accepted


def test_symmetry_counts_steps() -> None:
    """Directions with the same pairs, but not as often, are not the same."""
    pair = SampledPair(DiscretePair.from_probabilities([0.3, 0.7], [0.7, 0.3]), 0.3, Direction.REMOVE)
    lopsided = Composition((Step(pair, 1),), (Step(pair, 1), Step(pair, 1)))
    assert not lopsided.is_symmetric
    remove, add = (exact(lopsided.simplified(d), 0.2) for d in ("remove", "add"))
    assert add > 1.2 * remove
    assert not evr.verify(lopsided, epsilon=0.2, delta=1.05 * remove / 0.95, tau=0.95, seed=1).accepted
