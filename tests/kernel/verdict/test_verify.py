"""``verify``: exact estimates pass, strange claims get the right answer or a clear refusal, and
nothing depends on threads.
"""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event

import evr
from conformance.proposal_cases import CASES, SETTINGS, SHORT, Case, named
from evr._kernel.events import Composition
from evr._kernel.pairs import Step
from evr._kernel.sampled.plan import DrawPlan
from evr._kernel.verdict.attempts import Attempt
from evr._kernel.verdict.results import Verification
from evr._kernel.verdict.settings import Claim
from evr._plan.sampled import planned
from evr._proving.progress import Progress
from evr.events import EpsilonDeltaDpEvent
from helpers import answers, near, together

GAUSSIAN = dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(20.0), 100)
SMALL = evr.dpsgd(noise_multiplier=0.8, sampling_probability=0.01, steps=20)


# at epsilon 0.5 either direction needs samples
BOTH = evr.dpsgd(noise_multiplier=3.0, sampling_probability=0.5, steps=10)


def exact(event: Any, epsilon: float) -> float:
    return float(evr.estimate_delta(event, epsilon).value)


def claimed(event: Any, epsilon: float, estimate: float | None, options: dict[str, Any]) -> dict[str, Any]:
    """What is promised for an estimate, by default the exact delta, with samples by default."""
    estimate = exact(event, epsilon) if estimate is None else estimate
    how = {"tau": 0.9, "seed": 1, "method": "sequential", **options}
    return {"epsilon": epsilon, "delta": min(1.0, estimate / how["tau"]), **how}


def check(event: Any, epsilon: float, estimate: float | None = None, **options: Any) -> Verification:
    return evr.verify(event, **claimed(event, epsilon, estimate, options))


# --- false negatives ------------------------------------------------------------------------------


@cache
def _once(steps: tuple[Step, ...], claim: Claim, proposal: str, **how: Any) -> DrawPlan:
    plan = planned(steps, claim, proposal, **how)
    return replace(plan, block_size=min(4096, plan.block_size))


OFTEN = [*named("gaussian", "randomized response", "discrete gaussian"), Case("dpsgd", SMALL, 1.0)]
CHEAP = [*OFTEN, *named("infinite losses")]


@pytest.mark.parametrize(("tau", "runs"), [(0.9, 3), (0.99, 1)])
@pytest.mark.parametrize("case", OFTEN, ids=lambda case: case.name)
def test_exact_estimates_are_accepted(case: Case, tau: float, runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evr._plan.sampled.planned", _once)
    for seed in range(runs):
        found = check(case.event, case.epsilon, tau=tau, seed=seed, workers=1)
        assert found.accepted, found
        assert found.guarantee == evr.Guarantee(case.epsilon, found.delta)


DEAR = dict(zip((case.name for case in SETTINGS), (70, 25, 10, 70, 14, 11), strict=True))
"""At tau = 0.99 a run takes a second to half a minute: 200 runs over the six settings, more of the
cheap ones.
"""


def _runs(case: Case, tau: float) -> int:
    if case in CHEAP or tau == 0.9:
        return 200
    if tau == 0.99:
        return DEAR.get(case.name, 10)
    return 200 if case in SETTINGS else 40


@pytest.mark.full
@pytest.mark.parametrize("tau", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_exact_estimates_are_accepted_in_full(case: Case, tau: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of 200: seeded, so that a rate of 1e-6 never shows, and one of a hundredth does but with
    probability 0.13.
    """
    monkeypatch.setattr("evr._plan.sampled.planned", _once)
    for seed in range(_runs(case, tau)):
        assert check(case.event, case.epsilon, tau=tau, seed=seed, workers=1).accepted, seed


def test_simple_monte_carlo_accepts_exact_estimates() -> None:
    found = check(SMALL, 0.1, tau=0.6, proposal="simple")
    assert found.accepted
    assert found.directions["remove"].plan.proposal.name == "simple"


@pytest.mark.parametrize("attempt", [None, 1, 3])
def test_the_fixed_verifier_accepts_exact_estimates(attempt: int | None) -> None:
    found = check(GAUSSIAN, 1.0, tau=0.7, method="fixed", attempt=attempt)
    report = found.directions["remove"]
    assert found.accepted
    assert found.guarantee == evr.Guarantee(1.0, found.delta)
    kappa = 0.3 / 40
    assert report.threshold == near(found.delta * (1 if attempt is None else 1 - kappa))
    budget = found.delta * (1 if attempt is None else kappa * 2.0**-attempt)
    assert found.false_positive_rate == near(budget)
    offset = 0.4 * (1 / 0.7 - 1 / 0.85) * 0.7 * found.delta
    assert report.samples == math.ceil(2 * report.second_moment / offset**2 * math.log(1 / budget))


# --- strange compositions and claims --------------------------------------------------------------

STRANGE = {
    "rare jumps": (evr.dpsgd(noise_multiplier=0.3, sampling_probability=1e-8, steps=50), 1.0),
    "infinite losses": (dp_event.SelfComposedDpEvent(EpsilonDeltaDpEvent(0.1, 1e-7), 10), 0.5),
    "only infinite losses": (dp_event.SelfComposedDpEvent(EpsilonDeltaDpEvent(0.0, 1e-3), 3), 0.5),
    "laplace atoms": (dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(2.0), 3), 1.2),
    "response atoms": (together((answers(0.5, 3), 4)), 4.0),
    "epsilon 0": (SMALL, 0.0),
    "one step": (evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=1), 0.5),
    "likely sampling, add direction": (evr.dpsgd(noise_multiplier=1.0, sampling_probability=1 - 1e-9, steps=1), 17.0),
}


@pytest.mark.parametrize("name", STRANGE)
def test_strange_compositions(name: str) -> None:
    event, epsilon = STRANGE[name]
    delta = exact(event, epsilon)
    assert check(event, epsilon, delta).accepted
    # 0.75 / 0.9: the claim is false by a sixth
    rejected = check(event, epsilon, 0.75 * delta, max_samples=300_000)
    assert not rejected.accepted
    assert rejected.guarantee is None


def test_a_claim_false_in_the_add_direction_only_of_likely_sampling_is_rejected() -> None:
    """An envelope around the wrong mode once accepted a fourth of the truth here."""
    event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1 - 1e-9, steps=1)
    delta = float(evr.estimate_delta(event, 17.0, direction="add").value)
    assert check(event, 17.0, delta, direction="add").accepted
    assert not check(event, 17.0, 0.3 * delta, direction="add", max_samples=100_000).accepted


def test_a_claim_of_zero() -> None:
    rejected = check(SMALL, 1.0, 0.0)
    assert not rejected.accepted
    assert "no sample could show it to be 0" in rejected.directions["remove"].reason
    pure = check(dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(2.0), 3), 1.51, 0.0)
    assert pure.accepted
    assert pure.guarantee == evr.Guarantee(1.51, 0.0)


@pytest.mark.parametrize("scale", [0.13, 2 - 2**-52, 2.0, 3.0, 0.7])
def test_a_greatest_loss_that_is_epsilon_but_for_rounding(scale: float) -> None:
    """Exactly, 7 / 0.13 exceeds the float 7 * (1 / 0.13): delta is some 1e-17, and a claim below
    was once accepted. A rejection would be as wrong where the claim is true: it is refused.
    """
    event = dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(scale), 7)
    epsilon = 7 * (1 / scale)
    with pytest.raises(ValueError, match="the greatest loss is epsilon, and floats cannot tell"):
        check(event, epsilon, 1e-100)
    with pytest.raises(ValueError, match="or use method='strict', which compares exactly"):
        check(event, epsilon, 0.0)
    assert check(event, epsilon, 1e-12).accepted
    assert check(event, epsilon * (1 + 3e-14), 0.0).accepted


@pytest.mark.parametrize("delta", [1.0, 0.95])
def test_a_claim_of_one_is_trivial(delta: float) -> None:
    found = check(dp_event.NonPrivateDpEvent(), 1.0, delta)
    assert found.accepted
    assert found.guarantee == evr.Guarantee(1.0, 1.0)
    assert found.samples == 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"delta": 1.0001}, r"delta=1.0001 is not in \[0, 1\]"),
        ({"delta": -1e-9}, r"delta=-1e-09 is not in \[0, 1\]"),
        ({"delta": math.nan}, r"delta=nan is not in \[0, 1\]"),
        ({"delta": 1e-300}, "below 1e-290"),
        ({"delta": 5e-324}, "below 1e-290"),
        ({"epsilon": -0.1}, "epsilon=-0.1"),
        ({"epsilon": math.inf}, "epsilon=inf"),
        ({"tau": 1.0}, r"tau=1.0 is not in \(0, 1\)"),
        ({"tau": 0.0}, r"tau=0.0 is not in \(0, 1\)"),
        ({"method": "fast"}, "method='fast' is not one of"),
        ({"proposal": "best"}, "proposal='best' is not one of"),
        ({"direction": "both"}, "direction='both' is not one of"),
        ({"attempt": 0}, "attempt=0 is not an integer >= 1"),
        ({"max_samples": 0}, "max_samples=0 is not an integer >= 1"),
        ({"seed": -1}, "seed=-1 is not an integer >= 0"),
        ({"seed": True}, "seed=True is not an integer >= 0"),
        ({"seed": 1.0}, "seed=1.0 is not an integer >= 0"),
        ({"seed": "1"}, "seed='1' is not an integer >= 0"),
        ({"workers": 0}, "workers=0 is not an integer >= 1"),
    ],
)
def test_values_that_are_refused(values: dict[str, Any], message: str) -> None:
    arguments = {"epsilon": 1.0, "delta": 1e-3, "tau": 0.9, "seed": 1, **values}
    with pytest.raises(ValueError, match=message):
        evr.verify(GAUSSIAN, **arguments)


def test_a_tiny_delta_is_verified() -> None:
    gaussian = dp_event.GaussianDpEvent(1.0)
    epsilon = 36.0
    delta = exact(gaussian, epsilon)
    assert 1e-290 < delta < 1e-250
    assert check(gaussian, epsilon, delta, tau=0.6).accepted
    assert not check(gaussian, epsilon, 0.8 * delta, max_samples=66_000).accepted


def test_a_slack_too_small_is_refused_or_rejected() -> None:
    with pytest.raises(ValueError, match=r"rounding over 20 steps .* lower tau"):
        check(SMALL, 1.0, tau=1 - 1e-9)
    with pytest.raises(ValueError, match=r"would take about .* samples"):
        check(SHORT.event, 1.5, tau=1 - 1e-6)
    found = check(GAUSSIAN, 1.0, tau=1 - 1e-6, max_samples=50_000)
    assert not found.accepted


def test_no_privacy_and_no_cost() -> None:
    rejected = check(dp_event.ComposedDpEvent([SMALL, dp_event.NonPrivateDpEvent()]), 1.0, 0.5)
    assert not rejected.accepted
    assert "without privacy" in rejected.directions["remove"].reason
    for event in (dp_event.NoOpDpEvent(), dp_event.SelfComposedDpEvent(dp_event.NoOpDpEvent(), 9)):
        accepted = check(event, 0.0, 0.0)
        assert accepted.accepted
        assert accepted.samples == 0


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(("steps", "q", "delta"), [(10**18, 1e-9, 1e-3), (10**18, 2e-10, 1e-9), (10**14, 1e-7, 0.2)])
def test_numbers_of_steps_that_floats_cannot_carry_prove_nothing(
    steps: int, q: float, delta: float, direction: str
) -> None:
    """Logarithms of normalisers, rounded, times 1e18: bounds from these once accepted false claims
    without a sample.
    """
    event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=q, steps=steps)
    with pytest.raises(ValueError, match=r"floats know total losses|rounding over .* steps may be as large as"):
        check(event, 1.0, delta, direction=direction)


def test_long_compositions_are_accepted_still() -> None:
    event = dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(1e6), 10**12)
    assert check(event, 3.0).accepted
    assert check(evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-5, steps=10**5), 0.5, 1e-9).accepted


# --- limits, streams, hooks -----------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 1000, 70_001])
def test_the_sequential_verifier_uses_no_more_than_max_samples(most: int) -> None:
    found = check(GAUSSIAN, 1.0, tau=0.999, max_samples=most)
    report = found.directions["remove"]
    assert not found.accepted
    assert report.samples == most
    assert report.reason == f"stopped at the limit of {most:,} samples"


def test_the_fixed_verifier_refuses_rather_than_weaken_its_guarantee() -> None:
    with pytest.raises(ValueError, match=r"max_samples=1000 is below the .* samples .*nu = .*, Delta = "):
        check(GAUSSIAN, 1.0, method="fixed", max_samples=1000)
    with pytest.raises(ValueError, match=r"would take about .* lower tau|rounding over .* lower tau"):
        check(SMALL, 1.0, tau=1 - 1e-7, method="fixed")


def same(a: Verification, b: Verification) -> bool:
    """All but how long it took, bit for bit; NaN equals itself in text."""

    def content(v: Verification) -> str:
        reports = {k: replace(r, seconds=0.0) for k, r in v.directions.items()}
        return repr({**vars(v), "seconds": 0.0, "directions": reports})

    return content(a) == content(b)


@pytest.mark.parametrize(
    "options", [{"tau": 0.95}, {"method": "fixed", "tau": 0.6}, {"proposal": "simple", "tau": 0.5}]
)
def test_the_answer_does_not_depend_on_threads(options: dict[str, Any]) -> None:
    one, two, three = (check(BOTH, 0.5, workers=workers, **options) for workers in (1, 2, 3))
    assert one.samples > 0
    assert same(one, two)
    assert same(one, three)
    assert not same(one, check(BOTH, 0.5, workers=1, **{**options, "seed": 2}))


def test_fresh_entropy_and_seeds() -> None:
    a, b = (check(GAUSSIAN, 1.0, seed=None) for _ in range(2))
    assert a.entropy_is_fresh
    assert a.entropy != b.entropy
    assert a.entropy.bit_length() > 200
    assert a.directions["remove"].estimate != b.directions["remove"].estimate
    seeded = check(GAUSSIAN, 1.0, seed=a.entropy)
    assert not seeded.entropy_is_fresh
    assert seeded.directions["remove"].estimate == a.directions["remove"].estimate
    assert "a guarantee wants fresh entropy" in seeded.notes[0]


def test_attempts_and_directions_have_streams_of_their_own() -> None:
    estimates = {check(GAUSSIAN, 1.0, attempt=i).directions["remove"].estimate for i in (1, 2, 3)}
    assert len(estimates) == 3
    found = check(BOTH, 0.5)
    numbers = {d: r.estimate for d, r in found.directions.items() if r.samples}
    assert set(numbers) == {"remove", "add"}
    first = check(BOTH, 0.5, direction="add").directions["add"]
    assert first.estimate == numbers["add"]


def test_nothing_is_believed_from_elsewhere() -> None:
    """An edited wealth of a snapshot once accepted a false claim: neither a claim nor an attempt takes any."""
    false = 0.5 * exact(GAUSSIAN, 1.0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'resume'"):
        check(GAUSSIAN, 1.0, false, resume={})
    with pytest.raises(TypeError, match="unexpected keyword argument 'resume'"):
        Attempt(resume={})  # type: ignore[call-arg]


def test_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Progress] = []
    found = check(GAUSSIAN, 1.0, tau=0.99, progress=seen.append, workers=1)
    report = found.directions["remove"]
    assert seen[-1].samples == report.samples
    assert seen[-1].log_wealth == report.log_wealth
    assert seen[-1].log_target == report.log_target
    assert [p.samples for p in seen] == sorted(p.samples for p in seen)
    assert all(p.seconds_left is None or p.seconds_left >= 0 for p in seen)


def threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("evr")]


@pytest.mark.parametrize("method", ["sequential", "fixed"])
def test_ctrl_c_leaves_cleanly(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10**9))
    monkeypatch.setattr("evr._proving.progress.time.perf_counter", lambda: float(next(clock)))

    def interrupt(progress: Progress) -> None:
        if progress.samples:  # not before the first, when a plan is stated
            assert threads()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check(GAUSSIAN, 1.0, tau=0.97, method=method, workers=2, progress=interrupt)
    assert not threads()


def test_no_thread_is_left_after_an_answer() -> None:
    assert check(GAUSSIAN, 1.0, workers=3).accepted
    assert not threads()


def test_a_verification_has_no_truth_value() -> None:
    found = check(GAUSSIAN, 1.0)
    with pytest.raises(TypeError, match="no truth value"):
        bool(found)
    assert found.verdict is evr.proving.Verdict.ACCEPTED


def test_one_direction_gives_no_guarantee() -> None:
    found = check(SMALL, 0.3, direction="remove")
    assert found.accepted
    assert found.guarantee is None
    assert any("needs both" in note for note in found.notes)


def test_the_budget_of_an_attempt() -> None:
    for attempt in (1, 2, 7):
        found = check(GAUSSIAN, 1.0, attempt=attempt)
        budget = 0.1 / 40 * found.delta * 2.0**-attempt
        assert found.false_positive_rate == near(budget)
        assert found.directions["remove"].log_target == near(-math.log(budget))


def test_symmetric_directions_are_tested_once() -> None:
    found = check(GAUSSIAN, 1.0)
    assert Composition.of(GAUSSIAN).is_symmetric
    assert found.directions["add"].reason == "the same as remove"
    assert found.directions["add"].samples == 0
    assert found.samples == found.directions["remove"].samples
    assert np.isfinite(found.directions["add"].estimate)
