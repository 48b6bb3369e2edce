"""Laws in many dimensions where floats end: ratios far below 1, steep weights, many replicas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from scipy.special import log_ndtr

import evr
from evr._basics.randomness import Stream
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction
from evr._kernel.pairs.law import UNIT, Floats
from evr._kernel.pairs.patterns.law import PatternLaw, density_error, magnitude
from evr._kernel.pairs.patterns.min_sep import Chain, MinSep, log_chain_sum
from evr._kernel.sampled.driver import Driver, Lazily
from evr._kernel.sampled.mixtures import MixtureProposal
from evr._kernel.sampled.plan import ByOrder, ByShift, DrawPlan, MixturePlan
from evr._kernel.sampled.proposals import built
from evr._kernel.sampled.replica_tables import MOST_REPLICAS, table_of
from evr._kernel.sampled.summary import check_samples
from evr._kernel.verdict.attempts import Trial
from evr._kernel.verdict.settings import Claim, Settings
from helpers import near

E = evr.events


def by_recursion(chain: Chain, logs: Floats) -> float:
    """``log L`` by its recursion, in logarithms, a step after the other."""
    p, b = chain.probability, chain.separation
    later = np.zeros(chain.steps + b)
    log_rest = math.log1p(-p) if p < 1 else -math.inf
    for i in range(chain.steps - 1, -1, -1):
        later[i] = np.logaddexp(log_rest + later[i + 1], math.log(p) + logs[i] + later[i + b])
    if not chain.warm:
        return float(later[0])
    starts = np.full(b, math.log(p))
    starts[0] = 0.0
    return float(np.logaddexp.reduce(starts + later[:b]) - math.log1p((b - 1) * p))


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize(("steps", "separation", "probability"), [(4, 2, 1.0), (90, 30, 1 - 1e-16), (900, 400, 0.9)])
def test_ratios_below_all_floats(steps: int, separation: int, probability: float, warm: bool) -> None:
    """They came out as no numbers, which passed for refused draws: samples of 0."""
    chain = Chain(steps, separation, probability, warm)
    logs = 50.0 * np.random.default_rng(1).standard_normal((steps, 3)) - 1250.0
    expected = [by_recursion(chain, own) for own in logs.T]
    assert max(expected) < -745.0
    np.testing.assert_allclose(log_chain_sum(logs, chain, 1.0, 0.0), expected, rtol=1e-12)


@pytest.mark.parametrize("by_place", [False, True])
def test_a_false_claim_of_ratios_below_all_floats_is_not_accepted(by_place: bool) -> None:
    """It was, where a plan drew what the claim is about: all samples were 0."""
    event, epsilon, deviation = E.BMinSepDpEvent(0.02, 4, 2, 1.0, False), 2700.0, math.sqrt(5000.0)
    middle = epsilon / deviation
    delta = math.exp(log_ndtr(deviation / 2 - middle))  # it is a Gaussian mechanism
    delta -= math.exp(epsilon + log_ndtr(-deviation / 2 - middle))
    steps = Composition.of(event).simplified(Direction.ADD)
    claim, settings = Claim(epsilon, delta / 20 / 0.5, 0.5), Settings(max_samples=100_000)
    stream = Stream(1, "test", 1, "add")
    plan = MixturePlan(ByShift(-0.04), by_place=by_place)
    trial = Trial("add", steps, claim, settings, 1, math.log(1e-6), stream)
    driver = trial.prepared(DrawPlan(plan, block_size=4096))
    assert isinstance(driver, Driver)
    found = driver.play(Lazily())
    assert not found.accepted
    assert abs(found.estimate - delta) < 6 * found.standard_error


def test_weights_of_more_replicas_than_are_eligible_do_not_overflow() -> None:
    """Infinite times 0 once made a moment no number."""
    event = E.BMinSepDpEvent(0.21, 4, 4, 0.3, True, (1.0, 0.6, 0.3))
    (step,) = Composition.of(event).simplified(Direction.REMOVE)
    assert isinstance(step.floats, MinSep)
    energy, share = float(step.floats.energies.max()), 5 * math.log(0.3 / 1.9)
    found = table_of(step.floats, 5).log_moment  # most of it: all in one step
    assert 10 * energy + share <= found <= 10 * energy + share + math.log(4**5)


@pytest.mark.parametrize(
    "event", [E.BallsInBinsDpEvent(100.0, 60, 20, (1.0, 0.5)), E.BMinSepDpEvent(100.0, 20, 2, 0.3, True, (1.0, 0.5))]
)
def test_more_replicas_than_are_allowed_are_refused(event: dp_event.DpEvent) -> None:
    steps = Composition.of(event).simplified(Direction.REMOVE)
    built(MixturePlan(ByOrder(MOST_REPLICAS)), steps)
    with pytest.raises(ValueError, match="order=41 has no affordable table"):
        built(MixturePlan(ByOrder(MOST_REPLICAS + 1)), steps)


@pytest.mark.parametrize("by_place", [False, True])
@pytest.mark.parametrize("name", ["ring", "bins"])
def test_what_is_not_a_number_does_not_pass_for_a_refused_draw(
    monkeypatch: pytest.MonkeyPatch, name: str, by_place: bool
) -> None:
    strategy = {"ring": (1.0, 0.5), "bins": (1.0,)}[name]
    event = E.BallsInBinsDpEvent(2.0, 60, 30, strategy)
    steps = Composition.of(event).simplified(Direction.REMOVE)
    proposal = built(MixturePlan(ByOrder(5), by_place=by_place), steps)
    assert isinstance(proposal, MixtureProposal)
    check_samples(proposal.draw(Stream(1, "test").block(0), 500).values(0.1), math.inf)
    law = type(proposal.laws[0].law)
    correct = law.log_ratio

    def wrong(self: PatternLaw, coordinates: Floats) -> Floats:
        found = correct(self, coordinates)
        found[7] = math.nan
        return found

    monkeypatch.setattr(law, "log_ratio", wrong)
    with pytest.raises(ArithmeticError, match="a sample is nan"):
        check_samples(proposal.draw(Stream(1, "test").block(0), 500).values(0.1), math.inf)


def test_a_refused_draw_has_no_weight_whatever_is_lost_on_a_line() -> None:
    """Less infinity and infinity were no number, and stopped the run."""
    event = E.BallsInBinsDpEvent(0.5, 60, 30, [[1.0, 0.1 + (i % 7) / 8] for i in range(59)] + [[1]])
    steps = Composition.of(event).simplified(Direction.REMOVE)
    proposal = built(MixturePlan(ByOrder(4)), steps)
    found = proposal.draw(Stream(1, "test").block(0), 500)
    refused = found.log_weights == -math.inf
    assert 0 < refused.sum() < 500
    added = found._replace(losses=np.where(refused, math.inf, found.losses))
    np.testing.assert_array_equal(added.values(0.1), found.values(0.1))


def test_a_recursion_in_logarithms_rounds_more() -> None:
    def error(noise: float, probability: float) -> float:
        event = E.BMinSepDpEvent(noise, 400, 4, probability, False)
        (step,) = Composition.of(event).simplified(Direction.REMOVE)
        assert isinstance(step.floats, MinSep)
        return (density_error(step.floats, 1.0) - 8 * UNIT * 400) / (1 + magnitude(step.floats, 1.0))

    usual = error(1.0, 0.2)
    assert usual == near(32 * UNIT)
    assert error(0.05, 0.2) > 20 * usual  # steep
    assert error(1.0, 1.0) > 20 * usual  # nothing holds values up
    chain = Chain(40, 4, 0.9, True)  # which is in range, if exponents are
    assert chain.is_in_range(300.0)
    logs = np.random.default_rng(2).uniform(-3000.0, 300.0, (40, 50))
    assert chain.log_sum_in_range(logs, 1.0, np.zeros(40)) is not None
    assert not chain.is_in_range(300.1)
