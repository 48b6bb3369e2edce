"""Budgets: what is spent is proved, counted once, and never more than there is (docs/guarantees_budget.md)."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from dp_accounting import dp_event
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import evr
from evr._estimate.closed_forms import pair_delta
from evr._kernel.pairs.line.gaussian import GaussianPair
from evr._release import account
from evr._release.account import KAPPA, Account
from evr._release.budget import Budget
from evr._release.filters import PrivacyFilter
from evr.errors import BudgetExceededError, LedgerError, UnsupportedEventError
from postgres import Server, server

GAUSSIAN = dp_event.GaussianDpEvent
MNIST = evr.dpsgd(noise_multiplier=1.1, dataset_size=60_000, batch_size=256, epochs=15)
STORM = Path(__file__).with_name("budget_storm.py")


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    one = server()
    yield one
    one.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "ledger.sqlite")
    return str(request.getfixturevalue("running").database())


def delta_of(noises: list[float], epsilon: float) -> float:
    """The delta of Gaussian mechanisms together, in closed form."""
    return pair_delta(GaussianPair(math.sqrt(math.fsum(noise**-2 for noise in noises))), epsilon)


def test_gaussians_are_spent_to_the_last_and_never_beyond(place: str) -> None:
    budget = Budget.create("data", epsilon=1.0, delta=1e-5, ledger=place)
    noises = [10.0, 12.0, 9.0]
    count = 0
    while budget.fits(GAUSSIAN(noises[count % 3])):
        budget.spend(GAUSSIAN(noises[count % 3]))
        count += 1
    with pytest.raises(BudgetExceededError, match="nothing was spent"):
        budget.spend(GAUSSIAN(noises[count % 3]))
    spent = [one.event["noise_multiplier"] for one in budget.account().spent]
    assert len(spent) == count > 3
    assert delta_of(spent, 1.0) <= 1e-5 * (1 - KAPPA)
    assert delta_of([*spent, noises[count % 3]], 1.0) > 1e-5 * (1 - 2 * KAPPA)
    assert {one.method for one in budget.account().spent} == {"strict"}


def test_the_trial_thirty_three_of_its_runs_fit_and_no_more(tmp_path: Path) -> None:
    """As many as fit by dp_accounting's own numbers; the first 32 are spent in one."""
    place = tmp_path / "ledger.sqlite"
    budget = Budget.create("patients", epsilon=8.0, delta=1e-5, neighboring_relation="zero-out", ledger=place)
    budget.spend(dp_event.SelfComposedDpEvent(MNIST, 32))
    assert budget.spend(MNIST).number == 2
    with pytest.raises(BudgetExceededError, match=r"99\.3% is used\. What would fit: 1,351 steps instead of 3,516, or"):
        budget.spend(MNIST)
    assert budget.spend(dp_event.SelfComposedDpEvent(MNIST.event, 1351)).number == 3
    assert not budget.fits(dp_event.SelfComposedDpEvent(MNIST.event, 8))


def test_what_is_said_to_fit_fits(tmp_path: Path) -> None:
    budget = Budget.create("data", epsilon=2.0, delta=1e-6, ledger=tmp_path / "ledger.sqlite")
    step = dp_event.PoissonSampledDpEvent(0.01, GAUSSIAN(1.0))
    budget.spend(dp_event.SelfComposedDpEvent(step, 500))
    wanted = dp_event.SelfComposedDpEvent(step, 2000)
    account = budget.account()
    steps, noise = account.most_steps(wanted), account.least_noise(wanted)
    assert 0 < steps < 2000
    assert noise > 1.0
    assert not account.seems_to_allow(dp_event.SelfComposedDpEvent(step, steps + 1))
    less = dp_event.PoissonSampledDpEvent(0.01, GAUSSIAN(noise - 2e-3))
    assert not account.seems_to_allow(dp_event.SelfComposedDpEvent(less, 2000))
    enough = dp_event.PoissonSampledDpEvent(0.01, GAUSSIAN(noise))
    for event in (dp_event.SelfComposedDpEvent(step, steps), dp_event.SelfComposedDpEvent(enough, 2000)):
        assert account.proves(event, "strict", 1) == "strict"
    assert account.most_steps(GAUSSIAN(1.0)) is None
    assert account.least_noise(dp_event.LaplaceDpEvent(1.0)) is None


def test_an_adaptive_budget_repeats_one_law_exactly_and_others_by_moments(tmp_path: Path) -> None:
    """24 of the trial's runs by the filter alone with equal shares; a law that is repeated has 31."""
    kinds: dict[str, Any] = {"neighboring_relation": "zero-out", "adaptive": True, "ledger": tmp_path / "ledger.sqlite"}
    same = Budget.create("same", epsilon=8.0, delta=1e-5, **kinds)
    same.spend(dp_event.SelfComposedDpEvent(MNIST, 31))
    with pytest.raises(BudgetExceededError, match="2,128 steps instead of 3,516"):
        same.spend(MNIST)
    other = Budget.create("other", epsilon=8.0, delta=1e-5, **kinds)
    other.spend(dp_event.SelfComposedDpEvent(MNIST, 26))
    assert other.spend(evr.dpsgd(noise_multiplier=1.1, sampling_probability=0.00426, steps=3516)).method == "renyi"
    with pytest.raises(BudgetExceededError):
        other.spend(MNIST)
    with pytest.raises(BudgetExceededError):
        same.spend(dp_event.LaplaceDpEvent(10.0))  # above the moments' share already
    half = PrivacyFilter(epsilon=8.0, delta=5e-6, neighboring_relation="zero-out")
    assert half.fits(other.account().event())


def spent_by(budget: Budget, event: dp_event.DpEvent) -> str:
    """How it was proved that an event fits, or why it was not."""
    try:
        return budget.spend(event).method
    except UnsupportedEventError:
        return "no proved moments"


def test_laws_of_two_numbers_that_add_are_one_law_only_if_equal(tmp_path: Path) -> None:
    """Whoever may choose rho and xi by outputs, on the frontier of what is left, gets up to three times delta."""
    budget = Budget.create("data", epsilon=8.0, delta=1e-2, adaptive=True, ledger=tmp_path / "ledger.sqlite")
    assert budget.spend(dp_event.ZCDpEvent(0.3, 0.0)).method == "strict"
    assert budget.spend(dp_event.ZCDpEvent(0.3, 0.0)).method == "strict"
    assert spent_by(budget, dp_event.ZCDpEvent(0.1, 1.0)) != "strict"
    other = Budget.create("more", epsilon=8.0, delta=1e-2, adaptive=True, ledger=tmp_path / "ledger.sqlite")
    assert other.spend(evr.events.DiscreteGaussianDpEvent(50.0, 10.0, 10**6)).method == "strict"
    assert spent_by(other, evr.events.DiscreteGaussianDpEvent(20.0, 2.0, 1000)) != "strict"


def test_a_long_run_of_equal_choices_is_one_law(tmp_path: Path) -> None:
    """201 tokens are bounded as a run of 200 and one more; the token that would exceed is refused before it runs."""
    budget = Budget.create("text", epsilon=2.0, delta=1e-3, adaptive=True, ledger=tmp_path / "ledger.sqlite")
    token = evr.events.ExponentialMechanismDpEvent(0.05)
    assert budget.spend(dp_event.SelfComposedDpEvent(token, 200)).method == "strict"
    assert budget.spend(token).method == "strict"
    with pytest.raises(BudgetExceededError):
        budget.spend(dp_event.ComposedDpEvent([dp_event.SelfComposedDpEvent(token, 1000)]))
    assert len(budget.account().spent) == 2


def test_an_attempt_cannot_spend_another_event(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.sqlite"
    budget = Budget.create("data", epsilon=8.0, delta=1e-5, ledger=ledger)
    evr.certify(GAUSSIAN(8.0), delta=1e-6, ledger=ledger, budget="data")
    with evr.Ledger(ledger) as opened:
        (attempt,) = opened.attempts()
    assert budget.spend(GAUSSIAN(8.0), attempt=attempt).attempt_id == attempt.id
    with pytest.raises(LedgerError, match="another event"):
        budget.spend(GAUSSIAN(0.5), attempt=attempt)


def test_an_adaptive_budget_promises_half_of_delta_by_each_account(tmp_path: Path) -> None:
    budget = Budget.create("data", epsilon=1.0, delta=1e-5, adaptive=True, ledger=tmp_path / "ledger.sqlite")
    budget.spend(GAUSSIAN(8.0))
    noise = budget.account().least_noise(GAUSSIAN(1.0))
    assert 0.999 * 5e-6 < delta_of([8.0, noise], 1.0) <= 5e-6


def test_an_attempt_spends_once_and_a_rejected_one_nothing(place: str, tmp_path: Path) -> None:
    budget = Budget.create("data", epsilon=1.0, delta=1e-5, ledger=place, by="vision")
    certificate = evr.certify(GAUSSIAN(10.0), delta=1e-5, budget=budget, path=tmp_path / "c.json")
    section = evr.Certificate.load(tmp_path / "c.json").budget
    assert (section.name, section.epsilon, section.kind, section.spending, section.by) == (
        "data",
        1.0,
        "planned",
        1,
        "vision",
    )
    assert evr.replay(certificate).agrees
    with evr.Ledger(place) as ledger:
        (attempt,) = ledger.attempts()
        again = Budget("data", ledger=ledger).spend(GAUSSIAN(10.0), attempt=attempt)
        assert (again.number, again.attempt_id) == (1, attempt.id)
    rejected = evr.release(lambda: 1, GAUSSIAN(10.0), epsilon=0.1, delta=1e-9, budget="data", ledger=place)
    assert not rejected.released
    assert rejected.certificate.budget is None
    ran: list[int] = []
    evr.release(lambda: ran.append(1), GAUSSIAN(10.0), epsilon=1.0, delta=1e-4, budget="data", ledger=place)
    with pytest.raises(BudgetExceededError):
        evr.release(lambda: ran.append(2), GAUSSIAN(2.0), epsilon=5.0, delta=1e-4, budget="data", ledger=place)
    assert ran == [1]
    assert [one.attempt_id for one in budget.account().spent] == [1, 3]
    with evr.Ledger(place) as ledger:
        assert len(ledger.attempts()) == 3  # what did not fit was not counted


def test_killed_after_spending_resumes_without_spending_again(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Budget.create("data", epsilon=1.0, delta=1e-5, ledger=place)

    def break_down(self: Any, path: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(evr.Certificate, "save", break_down)
    with pytest.raises(OSError, match="full"):
        evr.certify(GAUSSIAN(10.0), delta=1e-5, budget="data", ledger=place, path=tmp_path / "c.json")
    monkeypatch.undo()
    assert len(Budget("data", ledger=place).account().spent) == 1
    assert evr.resume(place).budget.spending == 1
    assert len(Budget("data", ledger=place).account().spent) == 1


def test_a_faster_one_makes_the_proof_start_again(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the proof and the row, another spends: the budget allows one of the two."""
    budget = Budget.create("data", epsilon=1.0, delta=1e-5, ledger=place)
    proves = Account.proves

    def slowly(self: Account, *args: Any) -> str | None:
        found = proves(self, *args)
        monkeypatch.setattr(Account, "proves", proves)
        Budget("data", ledger=place).spend(GAUSSIAN(5.0))
        return found

    monkeypatch.setattr(Account, "proves", slowly)
    with pytest.raises(BudgetExceededError):
        budget.spend(GAUSSIAN(5.0))
    assert len(budget.account().spent) == 1


def test_threads_at_once_never_overspend(place: str) -> None:
    Budget.create("data", epsilon=1.0, delta=1e-5, ledger=place)
    found: list[Any] = []

    def work() -> None:
        try:
            found.append(Budget("data", ledger=place).spend(GAUSSIAN(8.0)).number)
        except BudgetExceededError:
            found.append(None)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    numbers = [one for one in found if one is not None]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    assert delta_of([8.0] * len(numbers), 1.0) <= 1e-5 < delta_of([8.0] * (len(numbers) + 1), 1.0)
    assert len(found) == 8


def test_sampled_proofs_count_before_they_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The n-th has KAPPA delta 2^-n of false positives, whether or not it ends."""
    budget = Budget.create("data", epsilon=2.0, delta=1e-3, ledger=tmp_path / "ledger.sqlite")
    monkeypatch.setattr(Account, "method", lambda self, event: "sequential")
    assert budget.spend(GAUSSIAN(2.0)).method == "sequential"
    asked: list[Any] = []

    def interrupted(total: Any, claim: Any, how: Any, trying: Any, *, progress: bool) -> Any:
        asked.append((how.method, math.exp(claim.log_budget(trying.number)) / (KAPPA * 1e-3), claim.threshold))
        raise KeyboardInterrupt

    monkeypatch.setattr(account, "prove", interrupted)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            budget.spend(GAUSSIAN(4.0))
    assert [(how, round(part, 12), bound) for how, part, bound in asked] == [
        ("sequential", 2.0**-2, (1 - KAPPA) * 1e-3),
        ("sequential", 2.0**-3, (1 - KAPPA) * 1e-3),
    ]
    assert (len(budget.account().spent), budget.account().tries) == (1, 3)


def test_what_let_out_nothing_is_taken_back_and_stays_in_the_journal(place: str) -> None:
    budget = Budget.create("data", epsilon=1.0, delta=1e-5, ledger=place, by="vision")
    budget.spend(GAUSSIAN(5.0))
    assert not budget.fits(GAUSSIAN(5.0))
    refunded = budget.refund(1, why=" never started ")
    assert (refunded.state, refunded.refunder, refunded.why) == ("refunded", "vision", "never started")
    account = budget.account()
    assert (account.spent, account.refunded, account.used()) == ((), (refunded,), 0.0)
    assert budget.spend(GAUSSIAN(5.0)).number == 2
    with pytest.raises(BudgetExceededError):
        budget.spend(GAUSSIAN(5.0))
    budget.refund(2, why="cancelled")
    with pytest.raises(LedgerError, match="no spending 1 to take back: nothing is spent from it"):
        budget.refund(1, why="twice")
    odd: Any
    for odd in ("", "  ", "a\nb", "\u202egnorw", "x" * 501, None):
        with pytest.raises(ValueError, match="is not a line of text"):
            budget.refund(1, why=odd)
    with evr.Ledger(place) as ledger:
        ledger.check()
        assert [one.state for one in ledger.contents().spendings.values()] == ["refunded", "refunded"]


def test_what_may_have_gone_out_is_not_taken_back(place: str) -> None:
    budget = Budget.create("data", epsilon=1.0, delta=1e-5, ledger=place)
    evr.release(lambda: 1, GAUSSIAN(10.0), epsilon=1.0, delta=1e-4, budget="data", ledger=place)
    with pytest.raises(LedgerError, match="has run its mechanism, whose output may have gone out: it stays"):
        budget.refund(1, why="the model was bad")
    failing: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-4, "budget": "data", "ledger": place, "name": "second"}
    with pytest.raises(ZeroDivisionError):
        evr.release(lambda: 1 // 0, GAUSSIAN(10.0), **failing)
    with pytest.raises(LedgerError, match="has run its mechanism, whose output may have gone out: it stays"):
        budget.refund(2, why="it failed")
    assert len(budget.account().spent) == 2


def test_a_spending_that_is_taken_back_lets_nothing_out_later(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between certificate and output, another takes the spending back: the mechanism does not run."""
    budget, ran = Budget.create("data", epsilon=1.0, delta=1e-5, ledger=place), []

    def take_back(certificate: evr.Certificate) -> None:
        budget.refund(certificate.budget.spending, why="cancelled")

    asked: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-4, "budget": "data", "ledger": place}
    with pytest.raises(LedgerError, match="spent was taken back: start another attempt"):
        evr.release(lambda: ran.append(1), GAUSSIAN(10.0), certified=take_back, **asked)
    assert not ran

    def break_down(self: Any, path: Any) -> None:
        with pytest.raises(LedgerError, match="which is still being made: it stays"):
            budget.refund(2, why="cancelled")
        raise OSError("the disk is full")

    monkeypatch.setattr(evr.Certificate, "save", break_down)
    with pytest.raises(OSError, match="full"):
        evr.certify(GAUSSIAN(10.0), delta=1e-5, budget="data", ledger=place, path="c.json")
    budget.refund(2, why="cancelled")
    with pytest.raises(LedgerError, match="spent was taken back: start another attempt"):
        evr.resume(place)
    assert not budget.account().spent


def test_a_proof_starts_again_when_a_spending_is_taken_back(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    budget = Budget.create("data", epsilon=1.0, delta=1e-5, ledger=place)
    budget.spend(GAUSSIAN(20.0))
    lists, proves = [], Account.proves

    def slowly(self: Account, *args: Any) -> str | None:
        lists.append([one.number for one in self.spent])
        if len(lists) == 1:
            Budget("data", ledger=place).refund(1, why="cancelled")
        return proves(self, *args)

    monkeypatch.setattr(Account, "proves", slowly)
    assert budget.spend(GAUSSIAN(10.0)).number == 2
    assert lists == [[1], []]


def test_of_release_and_refund_at_once_exactly_one_succeeds(place: str) -> None:
    budget = Budget.create("data", epsilon=1.0, delta=1e-5, ledger=place)
    ran: list[int] = []
    for number in range(1, 5):
        outcomes: list[str] = []

        def take_back(number: int = number, outcomes: list[str] = outcomes) -> None:
            try:
                Budget("data", ledger=place).refund(number, why="cancelled")
                outcomes.append("refunded")
            except LedgerError:
                outcomes.append("stays")

        other = threading.Thread(target=take_back)
        try:
            asked: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-4, "name": f"n{number}", "budget": "data"}
            start = lambda _, other=other: other.start()  # noqa: E731
            evr.release(partial(ran.append, number), GAUSSIAN(20.0), certified=start, ledger=place, **asked)
            outcomes.append("released")
        except LedgerError:
            outcomes.append("refused")
        other.join()
        assert set(outcomes) in ({"released", "stays"}, {"refunded", "refused"})
        assert (number in ran) == ("released" in outcomes)
    assert [one.number for one in budget.account().spent] == ran


def test_an_adaptive_budget_takes_back_what_the_proof_covers(tmp_path: Path) -> None:
    """What is left is one law again, and within its bounds at any order of spending and taking back."""
    budget = Budget.create("data", epsilon=8.0, delta=1e-5, adaptive=True, ledger=tmp_path / "ledger.sqlite")
    budget.spend(dp_event.LaplaceDpEvent(10.0))
    assert budget.spend(MNIST).method == "renyi"
    budget.refund(1, why="cancelled")
    assert budget.spend(MNIST).method == "strict"
    assert [one.number for one in budget.account().spent] == [2, 3]


def test_a_closed_budget_stays_as_it_is(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    budget = Budget.create("data", epsilon=1.0, delta=1e-5, ledger=place, by="vision")
    budget.spend(GAUSSIAN(10.0))
    with evr.Ledger(place) as ledger:
        before = ledger.contents().head
    proves = Account.proves

    def slowly(self: Account, *args: Any) -> str | None:
        budget.close()
        return proves(self, *args)

    monkeypatch.setattr(Account, "proves", slowly)
    with pytest.raises(LedgerError, match=r"budget 'data' was closed at .* by vision: nothing is spent or taken back"):
        Budget("data", ledger=place).spend(GAUSSIAN(10.0))
    tries = (lambda: budget.spend(GAUSSIAN(10.0)), lambda: budget.refund(1, why="cancelled"), budget.close)
    for again in tries:
        with pytest.raises(
            LedgerError, match=r"budget 'data' was closed at .* by vision: nothing is spent or taken back"
        ):
            again()
    assert [one.number for one in budget.account().spent] == [1]
    with evr.Ledger(place) as ledger:
        assert ledger.contents().head[0] == before[0] + 1


def test_names_numbers_and_relations_are_checked(tmp_path: Path) -> None:
    place = tmp_path / "ledger.sqlite"
    budget = Budget.create("data", epsilon=1.0, delta=1e-5, neighboring_relation="zero-out", ledger=place)
    with pytest.raises(LedgerError, match="there is a budget 'data' already"):
        Budget.create("data", epsilon=1.0, delta=1e-5, ledger=place)
    with pytest.raises(LedgerError, match=r"there is no budget 'dat' \(budgets here: 'data'\)"):
        Budget("dat", ledger=place).account()
    with pytest.raises(ValueError, match="but budget 'data' is under 'zero-out'"):
        evr.certify(GAUSSIAN(9.0), delta=1e-5, neighboring_relation="replace-one", budget="data", ledger=place)
    assert evr.certify(GAUSSIAN(9.0), delta=1e-5, budget="data", ledger=place).neighboring_relation == "zero-out"
    with pytest.raises(ValueError, match="lies elsewhere"):
        evr.certify(GAUSSIAN(9.0), delta=1e-5, budget=budget, ledger=tmp_path / "other.sqlite")
    odd: Any
    for odd in ("", "a\nb", "x" * 65, 3, None, "../data"):
        with pytest.raises(ValueError, match="is not a name"):
            Budget(odd, ledger=place)
    with pytest.raises(TypeError, match="is not a DpEvent"):
        budget.spend(3)
    adaptive = Budget.create("ours", epsilon=1.0, delta=1e-5, adaptive=True, ledger=place)
    adaptive.spend(GAUSSIAN(30.0))
    with pytest.raises(UnsupportedEventError):
        adaptive.spend(dp_event.UnsupportedDpEvent())
    assert len(adaptive.account().spent) == 1


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    epsilon=st.one_of(st.floats(), st.integers(-3, 3), st.none(), st.text(max_size=3)),
    delta=st.one_of(st.floats(), st.integers(-1, 2), st.booleans()),
)
def test_odd_budgets_are_refused(tmp_path: Path, epsilon: Any, delta: Any) -> None:
    try:
        budget = Budget.create(f"b{os.urandom(6).hex()}", epsilon=epsilon, delta=delta, ledger=tmp_path / "l.sqlite")
    except (ValueError, TypeError):
        return
    assert 0 < budget.account().row.epsilon < math.inf
    assert 0 < budget.account().row.delta < 1


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE entries SET content = replace(content, '\"epsilon\": 1', '\"epsilon\": 9')",
        "UPDATE entries SET content = replace(content, '10.0', '99.0')",
        "DELETE FROM entries WHERE kind = 'spendings'",
        "UPDATE entries SET content = replace(content, '\"spent\"', '\"tried\"')",
    ],
)
def test_an_altered_budget_is_noticed(place: str, change: str) -> None:
    budget = Budget.create("data", epsilon=1.0, delta=1e-5, ledger=place)
    budget.spend(GAUSSIAN(10.0))
    altered(place, change)
    with pytest.raises(LedgerError, match="the ledger is damaged"):
        budget.spend(GAUSSIAN(10.0))


def altered(place: str, change: str) -> None:
    import sqlite3

    import psycopg

    if "://" in place:
        with psycopg.connect(place, autocommit=True) as other:
            other.execute("SET search_path = evr")
            other.execute(change.encode())
        return
    with sqlite3.connect(place) as one:
        one.execute(change)
    one.close()


def storm(kind: str, folder: Path, *numbers: object) -> Any:
    folders = (Path(evr.__file__).parents[1], Path(__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    command = [sys.executable, str(STORM), kind, str(folder), *map(str, numbers)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=3000, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_kills_lose_and_overspend_nothing(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if kind == "postgresql":
        request.getfixturevalue("running")
    found = storm(kind, tmp_path, 5, 3, 3, 1)
    assert found["codes"] == [0] * len(found["codes"])
    assert found["spendings"] >= 5
    assert found["full"]


@pytest.mark.full
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_two_hundred_kills(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if kind == "postgresql":
        request.getfixturevalue("running")
    found = storm(kind, tmp_path, 20, 12, 200, 2)
    print(found)
    assert found["kills"] == 200
    assert found["full"]
