"""One output for each release, counted before it is let out: what may have been published is
published.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from dp_accounting import dp_event

import evr
from attempts import start
from evr._kernel.verdict.settings import Claim, Settings
from evr._release import ledger as ledger_module
from evr._release.attempt import perform
from evr.errors import AlreadyReleasedError, LedgerError

SURE = dp_event.LaplaceDpEvent(2.0)  # at epsilon 1 accepted without a sample
REFUSED = "may have gone out"


@pytest.fixture
def claim(ledger: evr.Ledger) -> dict[str, Any]:
    return {"epsilon": 1.0, "delta": 1e-3, "tau": 0.9, "ledger": ledger}


def assert_shut(claim: dict[str, Any], message: str = REFUSED) -> None:
    """A release runs nothing, and no attempt is spent on it."""
    with evr.Ledger(claim["ledger"] if isinstance(claim["ledger"], Path) else claim["ledger"].path) as ledger:
        before = len(ledger.attempts())
        with pytest.raises(AlreadyReleasedError, match=message):
            evr.release(lambda: pytest.fail("ran twice"), SURE, **(claim | {"ledger": ledger}))
        assert len(ledger.attempts()) == before


def test_a_mechanism_that_publishes_and_raises_has_published(claim: dict[str, Any]) -> None:
    published = []

    def mechanism() -> None:
        published.append("noisy answer")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        evr.release(mechanism, SURE, **claim)
    assert published == ["noisy answer"]
    assert claim["ledger"].releases()[0].output == "raised"
    assert_shut(claim, "raised at .* may have gone out")


def test_a_mechanism_that_raises_may_have_published(claim: dict[str, Any]) -> None:
    def mechanism() -> None:
        raise OSError("the disk of the results is full")

    with pytest.raises(OSError, match="disk of the results"):
        evr.release(mechanism, SURE, **claim)
    assert_shut(claim)
    assert evr.release(lambda: 1, SURE, **claim, name="once more").value == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, RecursionError])
def test_any_exception_counts(claim: dict[str, Any], error: type[BaseException]) -> None:
    def mechanism() -> None:
        raise error

    with pytest.raises(error):
        evr.release(mechanism, SURE, **claim)
    assert_shut(claim)


def test_a_process_that_dies_after_publishing_has_published(tmp_path: Path, claim: dict[str, Any]) -> None:
    claim["ledger"].close()
    path, out = claim["ledger"].path, tmp_path / "out"

    def mechanism() -> None:
        out.write_text("noisy answer")
        os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        evr.release(mechanism, SURE, **(claim | {"ledger": path}))
    os.waitpid(child, 0)
    assert out.read_text() == "noisy answer"
    claim["ledger"] = path
    assert_shut(claim, f"in process {child} on .* may have gone out")


@pytest.mark.parametrize("time", ["1970-01-01T00:00:00.000+00:00", "2999-01-01T00:00:00.000+00:00"])
@pytest.mark.parametrize("owner", ["another-machine 1 5", "another-machine 999999999 1"])
def test_an_owner_elsewhere_is_never_forgotten(
    claim: dict[str, Any], owner: str, time: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mechanism() -> None:
        monkeypatch.undo()
        assert claim["ledger"].releases()[0].output == "open"
        assert_shut(claim)

    monkeypatch.setattr(ledger_module, "this_process", lambda: owner)
    monkeypatch.setattr(ledger_module, "now", lambda: time)
    evr.release(mechanism, SURE, **claim)


def test_clocks_and_names_of_machines_do_not_matter(claim: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    evr.release(lambda: 1, SURE, **claim)
    monkeypatch.setattr(ledger_module, "now", lambda: "1970-01-01T00:00:00.000+00:00")
    monkeypatch.setattr("evr._release.databases.socket.gethostname", lambda: "another-machine")
    assert_shut(claim, "let out its one output at 2")


def test_the_output_is_on_the_disk_before_the_mechanism_starts(claim: dict[str, Any]) -> None:
    seen = []

    def mechanism() -> None:
        other = sqlite3.connect(claim["ledger"].path)
        last = "SELECT kind, content FROM entries ORDER BY link DESC LIMIT 1"
        seen.extend(other.execute(last).fetchall())
        other.close()

    evr.release(mechanism, SURE, **claim)
    ((kind, content),) = seen
    assert kind == "releases"
    assert {"id": 1, "output": "open"}.items() <= json.loads(content).items()
    assert claim["ledger"].releases()[0].output == "released"


def test_nothing_runs_where_the_output_cannot_be_counted(
    claim: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise LedgerError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(evr.Ledger, "count_output", full)
        with pytest.raises(LedgerError, match="disk is full"):
            evr.release(lambda: pytest.fail("ran"), SURE, **claim)
    assert claim["ledger"].releases()[0].output is None
    assert evr.release(lambda: 1, SURE, **claim).value == 1


def test_an_ending_that_cannot_be_written_loses_nothing(claim: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise LedgerError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(evr.Ledger, "end_output", full)
        assert evr.release(lambda: "answer", SURE, **claim).value == "answer"
    assert claim["ledger"].releases()[0].output == "open"
    assert_shut(claim)


def test_a_release_inside_the_same_release_is_refused(claim: dict[str, Any]) -> None:
    def mechanism() -> None:
        assert_shut(claim, "still running or has crashed")
        assert evr.release(lambda: 2, SURE, **claim, name="another").value == 2

    evr.release(mechanism, SURE, **claim)
    assert [r.output for r in claim["ledger"].releases()] == ["released", "released"]


async def _coroutine() -> int:
    return 1


def _generator() -> Iterator[int]:
    yield 1


async def _asynchronous_generator() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("mechanism", [_coroutine, _generator, _asynchronous_generator])
def test_what_would_run_after_the_gate_is_refused_before_it(claim: dict[str, Any], mechanism: Any) -> None:
    with pytest.raises(TypeError, match="a generator or a coroutine"):
        evr.release(mechanism, SURE, **claim)
    assert claim["ledger"].attempts() == []


def test_what_is_to_see_the_certificate_is_checked_before_an_attempt_counts(claim: dict[str, Any]) -> None:
    no_function: Any = 3
    with pytest.raises(TypeError, match="is not a function"):
        evr.release(lambda: pytest.fail("ran"), SURE, **claim, certified=no_function)
    assert claim["ledger"].attempts() == []


@pytest.mark.parametrize("option", ["for_output", "refuses"])
def test_certify_has_no_options_of_a_release(claim: dict[str, Any], option: str) -> None:
    """With ``for_output`` a false pair would be tested, and count."""
    odd: dict[str, Any] = {option: True}
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{option}'"):
        evr.certify(SURE, **(claim | {"tau": None}), **odd)
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{option}'"):
        evr.release(lambda: pytest.fail("ran"), SURE, **claim, **odd)
    assert claim["ledger"].attempts() == []


def test_threads_share_one_output(claim: dict[str, Any]) -> None:
    ran: list[int] = []
    refused: list[BaseException] = []
    together = threading.Barrier(4)

    def one(number: int) -> None:
        together.wait()
        try:
            evr.release(lambda: ran.append(number), SURE, **(claim | {"ledger": claim["ledger"].path}))
        except AlreadyReleasedError as error:
            refused.append(error)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(ran), len(refused)) == (1, 3)


def test_a_mechanism_that_changes_folder_or_closes_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    claim: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-3, "tau": 0.9}
    evr.release(lambda: os.chdir(elsewhere), SURE, **claim)
    assert list(elsewhere.iterdir()) == []
    with evr.Ledger(tmp_path / ".evr" / "ledger.sqlite") as ledger:
        assert [r.output for r in ledger.releases()] == ["released"]
    opened = evr.Ledger(tmp_path / "own.sqlite")
    assert evr.release(opened.close, SURE, **claim, ledger=opened).released
    with evr.Ledger(tmp_path / "own.sqlite") as ledger:
        assert [r.output for r in ledger.releases()] == ["released"]


def test_a_child_of_the_mechanism_does_not_speak_for_it(claim: dict[str, Any]) -> None:
    """A worker that is forked inside and leaves by an exception says nothing of how the mechanism ends."""

    def mechanism() -> None:
        child = os.fork()
        if child == 0:
            try:
                claim["ledger"].end_output(claim["ledger"].attempts()[0], "raised")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert claim["ledger"].releases()[0].output == "open"

    evr.release(mechanism, SURE, **claim)
    assert claim["ledger"].releases()[0].output == "released"


def test_two_that_verify_at_a_time(claim: dict[str, Any]) -> None:
    """Both are accepted; the first to count its output runs, the other finds it counted after its
    verification.
    """
    first, second = Claim(1.0, 1e-3, 0.9), Claim(1.0, 1e-3, 0.9)
    one = start(claim["ledger"], SURE, first, Settings(), for_output=True)
    other = start(claim["ledger"], SURE, second, Settings(), for_output=True)
    assert perform(claim["ledger"], one).accepted
    assert perform(claim["ledger"], other).accepted
    claim["ledger"].count_output(other)
    with pytest.raises(AlreadyReleasedError):
        claim["ledger"].count_output(one)
    claim["ledger"].end_output(one, "released")  # whose output it is not
    assert claim["ledger"].releases()[0].output == "open"


def test_nothing_is_let_out_on_account_of_another_verdict(ledger: evr.Ledger) -> None:
    running = start(ledger, SURE, Claim(1.0, 1e-3, 0.9), Settings())
    with pytest.raises(LedgerError, match="attempt 1 was not accepted"):
        ledger.count_output(running)
    ledger.finish(running, "rejected")
    with pytest.raises(LedgerError, match="was not accepted"):
        ledger.count_output(running)
    assert ledger.releases()[0].output is None


def test_the_journal_admits_one_entry_for_each_place(claim: dict[str, Any]) -> None:
    evr.release(lambda: 1, SURE, **claim)
    with sqlite3.connect(claim["ledger"].path) as other, pytest.raises(sqlite3.IntegrityError):
        other.execute("INSERT INTO entries SELECT * FROM entries")
    other.close()


@pytest.mark.parametrize(
    "change", ["'\"open\"', 'null'", '\'"opened": "2\', \'"opened": "1\'', "'\"attempt_id\": 1', '1'"]
)
def test_altered_outputs_are_noticed(claim: dict[str, Any], change: str) -> None:
    evr.release(lambda: 1, SURE, **claim)
    with sqlite3.connect(claim["ledger"].path) as other:
        other.execute(f"UPDATE entries SET content = replace(content, {change})")
    other.close()
    with pytest.raises(LedgerError, match="the ledger is damaged"):
        evr.release(lambda: pytest.fail("ran twice"), SURE, **claim)
    with pytest.raises(LedgerError, match="the ledger is damaged"):
        claim["ledger"].releases()


def test_releases_with_other_numbers_are_apart(claim: dict[str, Any]) -> None:
    evr.release(lambda: 1, SURE, **claim)
    for other in ({"epsilon": math.nextafter(1.0, 2.0)}, {"epsilon": 1.001}, {"delta": 1.01e-3}, {"name": "another"}):
        assert evr.release(lambda: 2, SURE, **(claim | other)).released


def test_zero_has_one_sign(ledger: evr.Ledger) -> None:
    claim: dict[str, Any] = {"tau": 0.9, "ledger": ledger}
    evr.release(lambda: 1, dp_event.NoOpDpEvent(), epsilon=0.0, delta=0.0, **claim)
    with pytest.raises(AlreadyReleasedError):
        evr.release(lambda: pytest.fail("ran twice"), dp_event.NoOpDpEvent(), epsilon=-0.0, delta=-0.0, **claim)
