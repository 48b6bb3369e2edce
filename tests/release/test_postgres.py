"""The ledger on PostgreSQL: the tests of the file, on a server, and what only a server has."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from dp_accounting import dp_event

import evr
from evr._kernel.verdict.settings import Claim
from evr.errors import AlreadyReleasedError, LedgerError
from postgres import Server, server
from release import test_ledger
from release.test_ledger import begin
from release.test_ledger import test_a_name_groups_claims_from_its_first_on as test_names
from release.test_ledger import test_a_seed_is_good_once_in_a_release as test_seeds
from release.test_ledger import test_an_interruption_can_be_continued as test_interruption
from release.test_ledger import test_attempts_at_one_claim_share_a_release_whatever_tau as test_claims
from release.test_ledger import test_only_one_process_continues_an_attempt as test_one_continues
from release.test_ledger import test_twenty_retries_of_a_claim_false_by_one_percent as test_retries
from release.test_ledger import test_what_fails_is_written_down as test_failures

__all__ = [
    "test_claims",
    "test_failures",
    "test_interruption",
    "test_ledger",
    "test_names",
    "test_one_continues",
    "test_retries",
    "test_seeds",
]


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    one = server()
    yield one
    one.close()


@pytest.fixture
def ledger(running: Server) -> Iterator[evr.Ledger]:
    with evr.Ledger(running.database()) as opened:
        yield opened


def test_a_release_lets_out_one_output(ledger: evr.Ledger) -> None:
    event = dp_event.GaussianDpEvent(4.0)
    out = evr.release(lambda: "noisy", event, epsilon=1.0, delta=1e-5, ledger=ledger.address)
    assert out.value == "noisy"
    with pytest.raises(AlreadyReleasedError, match="let out its one output"):
        evr.release(lambda: "again", event, epsilon=1.0, delta=1e-5, ledger=ledger.address)
    assert [one.output for one in ledger.releases()] == ["released"]


def test_an_altered_row_is_noticed(ledger: evr.Ledger) -> None:
    import psycopg

    begin(ledger, Claim(1.0, 1e-6, 0.9))
    with psycopg.connect(str(ledger.address), autocommit=True) as other:
        other.execute("UPDATE evr.entries SET content = replace(content, '1', '3')")
    with pytest.raises(LedgerError, match="the ledger is damaged"):
        begin(ledger, Claim(1.0, 1e-6, 0.9))


def test_a_restart_of_the_server_is_survived(running: Server, ledger: evr.Ledger) -> None:
    begin(ledger, Claim(1.0, 1e-6, 0.9))
    running.stop()
    running.start()
    assert begin(ledger, Claim(1.0, 1e-6, 0.9)).number == 2
    with pytest.raises(LedgerError, match="cannot be used"), ledger.transaction():
        _restarted(running)
    assert [one.number for one in ledger.attempts()] == [1, 2]


def _restarted(running: Server) -> None:
    running.stop()
    running.start()


def test_what_a_dead_process_held_is_let_go(ledger: evr.Ledger) -> None:
    other = evr.Ledger(ledger.address)
    with pytest.raises(LedgerError), other.transaction():
        other.close()
    assert begin(ledger, Claim(1.0, 1e-6, 0.9)).number == 1


def test_errors_name_the_server_and_hide_the_password(running: Server) -> None:
    with pytest.raises(LedgerError, match=r"^postgresql://ann:\*\*\*@nowhere\.invalid/evr: .*cannot be used"):
        evr.Ledger("postgresql://ann:secret@nowhere.invalid/evr")
    with pytest.raises(LedgerError, match="there is no ledger"):
        evr.Ledger(running.database(), create=False)
    with pytest.raises(LedgerError, match="a ledger is a file, or postgresql://"):
        evr.Ledger("mysql://host/evr")


def test_a_server_that_may_forget_is_refused(running: Server) -> None:
    import psycopg

    address = running.database()
    with psycopg.connect(address, autocommit=True) as other:
        other.execute("ALTER SYSTEM SET fsync = off")
        other.execute("SELECT pg_reload_conf()")
    try:
        time.sleep(1.0)  # until the server has read it
        with pytest.raises(LedgerError, match="fsync is off"):
            evr.Ledger(address)
    finally:
        with psycopg.connect(address, autocommit=True) as other:
            other.execute("ALTER SYSTEM RESET fsync")
            other.execute("SELECT pg_reload_conf()")


def test_without_psycopg_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(LedgerError, match=r"pip install 'evr-dp\[postgres\]'"):
        evr.Ledger("postgresql://host/evr")


@pytest.mark.parametrize(
    ("kind", "refused"), [("nfs4", True), ("cifs", True), ("fuse.sshfs", True), ("ext4", False), ("overlay", False)]
)
def test_sqlite_on_a_network_file_system_is_refused(
    kind: str, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "a folder"
    shared.mkdir()
    mounts = [SimpleNamespace(mountpoint=place, fstype=one) for place, one in (("/", "ext4"), (str(shared), kind))]
    monkeypatch.setattr("psutil.disk_partitions", lambda all: mounts)
    evr.Ledger(tmp_path / "ledger.sqlite").close()
    if not refused:
        evr.Ledger(shared / "ledger.sqlite").close()
        return
    with pytest.raises(LedgerError, match=rf"lies on a network file system \({kind}\).*postgresql://HOST/DATABASE"):
        evr.Ledger(shared / "ledger.sqlite")
    assert not (shared / "ledger.sqlite").exists()
