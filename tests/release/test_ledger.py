"""The ledger: numbers, budgets, seeds, names, damage."""

from __future__ import annotations

import json
import math
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from dp_accounting import dp_event

import evr
from attempts import certify_claim, start
from evr._kernel.verdict.settings import Claim, Settings
from evr._release import databases
from evr._release.attempt import perform
from evr._release.databases import is_alive, this_process
from evr._release.ledger import now
from evr.errors import LedgerError
from helpers import near


def begin(ledger: evr.Ledger, claim: Claim, **options: Any) -> Any:
    return start(ledger, dp_event.GaussianDpEvent(2.0), claim, Settings(), **options)


def test_an_attempt_is_on_the_disk_before_it_runs(ledger: evr.Ledger) -> None:
    attempt = begin(ledger, Claim(1.0, 1e-6, 0.9))
    with sqlite3.connect(ledger.path) as other:
        (entry,) = other.execute("SELECT content FROM entries WHERE kind = 'attempts'").fetchall()
        assert {"id": 1, "number": 1, "state": "running"}.items() <= json.loads(entry[0]).items()
        assert other.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    other.close()
    assert attempt.number == 1


def test_attempts_at_one_claim_share_a_release_whatever_tau(ledger: evr.Ledger) -> None:
    first = begin(ledger, Claim(1.0, 1e-6, 0.5))
    second = begin(ledger, Claim(1.0, 1e-6, 0.75))
    other = begin(ledger, Claim(1.0, 1.5e-06, 0.5))
    assert (first.number, second.number, other.number) == (1, 2, 1)
    assert first.release_id == second.release_id != other.release_id
    kappa = 0.5 / 40  # of the first
    assert first.allowance == near(kappa * 1e-6 / 2)
    assert second.allowance == near(kappa * 1e-6 / 4)
    assert first.allowance + second.allowance < kappa * 1e-6


def test_strict_proofs_at_one_release_share_next_to_nothing(ledger: evr.Ledger) -> None:
    """With the kappa of samples, what `calibrate` found for a second mechanism was rejected by a hair."""
    pair: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
    makers = (
        lambda noise: evr.dpsgd(noise_multiplier=noise, sampling_probability=0.01, steps=500),
        lambda noise: evr.events.RandomAllocationDpEvent(noise, 50, 1),
    )
    for make in makers:
        assert evr.certify(make(evr.calibrate(make, **pair).value), **pair, ledger=ledger).accepted
    (release,) = ledger.releases()
    assert release.terms.kappa == 2.0**-20


def test_later_attempts_are_tested_with_the_first_kappa(ledger: evr.Ledger, gaussian: Any, delta: float) -> None:
    claim = delta / 0.5
    begin(ledger, Claim(1.0, delta / 0.5, 0.5))
    tau = 0.6
    certificate = certify_claim(gaussian, Claim(1.0, claim, tau), Settings(), ledger=ledger)
    assert certificate.release.attempt == 2
    assert certificate.claim.kappa == 0.5 / 40 != (1 - tau) / 40
    assert certificate.claim.threshold == (1 - 0.5 / 40) * claim
    assert evr.replay(certificate).agrees


def test_a_name_groups_claims_from_its_first_on(ledger: evr.Ledger) -> None:
    first = begin(ledger, Claim(1.0, 1e-7, 0.5), name="thesis")
    second = begin(ledger, Claim(2.0, 1e-5, 0.5), name="thesis")
    assert (first.number, second.number) == (1, 2)
    kappa = 0.5 / 40
    assert [a.allowance for a in ledger.attempts()] == near([kappa * 1e-7 / 2, kappa * 1e-7 / 4])
    with pytest.raises(LedgerError, match=r"below 1e-07, .*'thesis'"):
        begin(ledger, Claim(1.0, 8e-8, 0.5), name="thesis")
    assert len(ledger.attempts()) == 2


@pytest.mark.parametrize("name", ["", "  ", "x" * 201, "a\nb", 3])
def test_odd_names_are_refused(ledger: evr.Ledger, name: Any) -> None:
    with pytest.raises(ValueError, match="is not a name"):
        begin(ledger, Claim(1.0, 1e-6, 0.5), name=name)


def test_a_seed_is_good_once_in_a_release(ledger: evr.Ledger) -> None:
    begin(ledger, Claim(1.0, 1e-6, 0.9), seed=7)
    with pytest.raises(LedgerError, match="entropy 0x7 was used before in this release"):
        begin(ledger, Claim(1.0, 1e-6, 0.9), seed=7)
    begin(ledger, Claim(1.0, 1.25e-06, 0.8), seed=7)
    assert [a.number for a in ledger.attempts()] == [1, 1]
    with pytest.raises(ValueError, match="seed=-1"):
        begin(ledger, Claim(1.0, 1e-6, 0.9), seed=-1)


def test_twenty_retries_of_a_claim_false_by_one_percent(ledger: evr.Ledger, gaussian: Any, delta: float) -> None:
    claim = Claim(1.0, 0.99 * delta, 0.99)
    certificates = [certify_claim(gaussian, claim, Settings(), ledger=ledger) for _ in range(20)]
    assert {c.verdict for c in certificates} == {"rejected"}
    assert {c.guarantee for c in certificates} == {None}
    assert [a.number for a in ledger.attempts()] == list(range(1, 21))
    assert {a.state for a in ledger.attempts()} == {"rejected"}
    (release,) = ledger.releases()
    assert (release.terms.kappa, release.terms.base) == (claim.kappa, claim.delta)
    assert math.fsum(a.allowance for a in ledger.attempts()) <= claim.kappa * claim.delta * (1 + 1e-12)


def test_what_fails_is_written_down(ledger: evr.Ledger, gaussian: Any, delta: float) -> None:
    def break_down(_: Any) -> None:
        raise ArithmeticError("out of numbers")

    with pytest.raises(ArithmeticError, match="out of numbers"):
        certify_claim(gaussian, Claim(1.0, delta / 0.9, 0.9), Settings(), ledger=ledger, progress=break_down)
    (attempt,) = ledger.attempts()
    assert attempt.state == "failed"
    assert "out of numbers" in (attempt.message or "")
    assert ledger.interrupted() == []


def test_an_interruption_can_be_continued(ledger: evr.Ledger, gaussian: Any, delta: float, tmp_path: Path) -> None:
    def stop(_: Any) -> None:
        raise KeyboardInterrupt

    target = tmp_path / "c.json"
    claim = Claim(1.0, delta / 0.99, 0.99)
    with pytest.raises(KeyboardInterrupt):
        certify_claim(gaussian, claim, Settings(), ledger=ledger, path=target, seed=4, progress=stop)
    (attempt,) = ledger.attempts()
    assert attempt.state == "interrupted"
    assert not target.exists()
    certificate = evr.resume(ledger)
    assert certificate.document() == evr.Certificate.load(target).document()
    assert certificate.accepted
    assert evr.replay(certificate).mismatches == ()
    assert ledger.attempts()[0].state == "accepted"
    with pytest.raises(LedgerError, match="no verification was interrupted"):
        evr.resume(ledger)


def test_continuing_wants_the_same_software(ledger: evr.Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = begin(ledger, Claim(1.0, 1e-6, 0.9))
    ledger.finish(attempt, "interrupted")
    monkeypatch.setattr("numpy.__version__", "9.9.9")
    with pytest.raises(LedgerError, match=r"was begun with numpy .* and this is 9\.9\.9"):
        evr.resume(ledger)


def test_an_interruption_at_the_lock_lets_it_go(ledger: evr.Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(ledger, Claim(1.0, 1e-6, 0.9))
    with monkeypatch.context() as patched:
        wait = databases.SqliteFile._begin

        def interrupted(self: Any, *, writes: bool) -> None:
            wait(self, writes=writes)
            raise KeyboardInterrupt

        patched.setattr(databases.SqliteFile, "_begin", interrupted)
        with pytest.raises(KeyboardInterrupt):
            begin(ledger, Claim(1.0, 1e-6, 0.9))
    with evr.Ledger(ledger.path) as other:
        assert begin(other, Claim(1.0, 1e-6, 0.9)).number == 2


def test_only_one_process_continues_an_attempt(ledger: evr.Ledger) -> None:
    attempt = begin(ledger, Claim(1.0, 1e-6, 0.9))
    ledger.finish(attempt, "interrupted")
    (waiting,) = ledger.interrupted()
    ledger.take_over(waiting)
    with pytest.raises(LedgerError, match="was taken over by another process"):
        ledger.take_over(waiting)


def test_a_running_attempt_of_a_living_process_is_left_alone(ledger: evr.Ledger) -> None:
    begin(ledger, Claim(1.0, 1e-6, 0.9))
    assert ledger.interrupted() == []


@pytest.mark.parametrize(
    ("owner", "seen", "alive"),
    [
        ("another-machine 1 5", "2000-01-01T00:00:00.000+00:00", False),
        ("another-machine 1 5", None, True),
        ("", None, False),
        (f"{os.uname().nodename} 999999999 1", None, False),
        # the number was given to another process since
        (f"{os.uname().nodename} {os.getpid()} 1", None, False),
        (this_process(), None, True),
    ],
    ids=["seen long ago", "elsewhere", "nobody", "gone", "number given anew", "this one"],
)
def test_whose_process_is_alive(owner: str, seen: str | None, alive: bool) -> None:
    assert is_alive(owner, seen or now()) is alive


def test_a_claim_of_nothing(ledger: evr.Ledger) -> None:
    certificate = certify_claim(dp_event.LaplaceDpEvent(2.0), Claim(1.0, 0.0, 0.9), Settings(), ledger=ledger)
    assert certificate.accepted
    assert certificate.guarantee is not None
    assert certificate.guarantee.delta == 0
    assert evr.replay(evr.Certificate.from_json(certificate.to_json())).agrees


def test_schema_versions(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    for version in (databases.VERSION + 1, 1, 0):
        evr.Ledger(path).close()
        with sqlite3.connect(path) as other:
            other.execute(f"UPDATE head SET version = {version}")
        other.close()
        with pytest.raises(LedgerError, match=f"schema version {version}, and this evr uses {databases.VERSION}"):
            evr.Ledger(path)
        path.unlink()


def test_other_files_are_no_ledgers(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("not a database, but long enough to be taken for one" * 100)
    with pytest.raises(LedgerError, match="not a database"):
        evr.Ledger(text)
    other = tmp_path / "other"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE things (a)")
    connection.close()
    with pytest.raises(LedgerError, match="those of another program"):
        evr.Ledger(other)
    with pytest.raises(LedgerError, match="there is no ledger"):
        evr.Ledger(tmp_path / "missing", create=False)
    with pytest.raises(LedgerError, match="cannot be used"):
        evr.Ledger(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(LedgerError, match="cannot be used"):
        evr.Ledger(tmp_path / "file" / "ledger.sqlite")


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE entries SET content = replace(content, '\"log_allowance\": -', '\"log_allowance\": ')",
        "UPDATE entries SET content = replace(content, '2.0', '3.0')",
        "UPDATE entries SET content = replace(content, '\"number\": 1', '\"number\": 3')",
        "UPDATE entries SET content = replace(content, '\"kappa\": 0', '\"kappa\": 1')",
        "UPDATE entries SET content = replace(content, '\"interrupted\"', '\"accepted\"')",
        "UPDATE entries SET kind = 'spendings' WHERE link = 2",
        "UPDATE entries SET kind = 'nothing' WHERE link = 2",
        "INSERT INTO signs_of_life VALUES (77, '2026-01-01T00:00:00+00:00')",
    ],
)
def test_altered_rows_are_noticed(ledger: evr.Ledger, change: str) -> None:
    attempt = begin(ledger, Claim(1.0, 1e-6, 0.9))
    ledger.finish(attempt, "interrupted")
    with sqlite3.connect(ledger.path) as other:
        assert other.execute(change).rowcount
    other.close()
    with pytest.raises(LedgerError, match="the ledger is damaged"):
        evr.resume(ledger)


def test_perform_refuses_what_was_taken_over(ledger: evr.Ledger, delta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = begin(ledger, Claim(1.0, delta / 0.9, 0.9))
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("evr._release.ledger.this_process", lambda: "somebody 1 2")
        ledger.take_over(attempt)
    with pytest.raises(LedgerError, match="taken over"):
        perform(ledger, attempt)
