"""A ledger is one file under one name: what is counted in it is not forgotten by way of another
name, a copy, or SQLite's own ideas of what a name means.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from dp_accounting import dp_event

import evr
from evr._release.journal import _SEALED, _seal
from evr.errors import AlreadyReleasedError, LedgerError

SURE = dp_event.LaplaceDpEvent(2.0)  # at epsilon 1 accepted without a sample
CLAIM: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-3, "tau": 0.9}


def release(ledger: Any) -> bool:
    return evr.release(lambda: "out", SURE, ledger=ledger, **CLAIM).released


def not_run() -> None:
    pytest.fail("ran twice")


@pytest.mark.parametrize("name", [":memory:", "file:a.sqlite?mode=memory", "file::memory:"])
def test_names_that_sqlite_would_forget_are_files(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert release(name)
    assert (tmp_path / name).is_file()
    with pytest.raises(AlreadyReleasedError):
        evr.release(not_run, SURE, ledger=name, **CLAIM)


def test_a_file_of_two_names_is_refused(tmp_path: Path) -> None:
    one, two = tmp_path / "one.sqlite", tmp_path / "two.sqlite"
    evr.Ledger(one).close()
    os.link(one, two)
    for path in (one, two):
        with pytest.raises(LedgerError, match="2 hard links"):
            evr.release(not_run, SURE, ledger=path, **CLAIM)
    two.unlink()
    assert release(one)


def test_a_link_that_is_followed_is_the_same_file(tmp_path: Path) -> None:
    one, two = tmp_path / "one.sqlite", tmp_path / "two.sqlite"
    assert release(one)
    two.symlink_to(one)
    with pytest.raises(AlreadyReleasedError):
        evr.release(not_run, SURE, ledger=two, **CLAIM)


@pytest.mark.parametrize("what", ["moved", "replaced", "linked"])
def test_nothing_is_counted_in_a_file_that_is_not_there_any_more(what: str, tmp_path: Path) -> None:
    path, aside = tmp_path / "ledger.sqlite", tmp_path / "aside.sqlite"
    with evr.Ledger(path) as ledger:
        if what == "linked":
            os.link(path, aside)
        else:
            path.rename(aside)
        if what == "replaced":
            evr.Ledger(path).close()
        with pytest.raises(LedgerError, match=r"replaced|2 hard links|cannot be used"):
            evr.release(not_run, SURE, ledger=ledger, **CLAIM)


def test_a_copy_of_the_file_alone_holds_what_was_counted(tmp_path: Path) -> None:
    path, copy = tmp_path / "ledger.sqlite", tmp_path / "copy.sqlite"
    with evr.Ledger(path):  # as after a crash: nobody closes it
        assert release(path)
        shutil.copy(path, copy)
    with pytest.raises(AlreadyReleasedError):
        evr.release(not_run, SURE, ledger=copy, **CLAIM)


EDITS = (
    "DELETE FROM entries WHERE link = 1",
    "DELETE FROM entries WHERE link = 2",
    "DELETE FROM entries WHERE link = (SELECT max(link) FROM entries)",
    "DELETE FROM entries",
    "DELETE FROM head",
    "UPDATE entries SET content = replace(content, 'epsilon 0x', 'epsilon 1x')",
    "UPDATE entries SET content = replace(content, '\"number\": 3', '\"number\": 9')",
    "UPDATE entries SET content = replace(content, '\"entropy\": ', '\"entropy\": 7') WHERE link > 2",
)


def test_attempts_that_are_gone_or_edited_are_missed(tmp_path: Path) -> None:
    path, copy = tmp_path / "ledger.sqlite", tmp_path / "copy.sqlite"
    claim = CLAIM | {"delta": 1e-9}
    for _ in range(3):
        refused = evr.release(not_run, dp_event.LaplaceDpEvent(0.5), ledger=path, **claim)
        assert not refused.released
    for edit in EDITS:
        shutil.copy(path, copy)
        with sqlite3.connect(copy) as connection:
            assert connection.execute(edit).rowcount
        connection.close()
        with pytest.raises(LedgerError, match="the ledger is damaged"):
            evr.release(not_run, SURE, ledger=copy, **claim)


def test_tables_that_are_damaged_are_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    assert release(path)
    content = path.read_bytes()
    for name in (b" seen TEXT", b" content TEXT", b" seal TEXT"):
        path.write_bytes(content.replace(name, name.replace(b"e", b"g", 1)))
        with pytest.raises(LedgerError, match="cannot be used"):
            evr.release(not_run, SURE, ledger=path, **CLAIM)


def forged(path: Path, table: str, column: str, value: Any) -> None:
    """Another value in the last entry of a table, and every seal made anew: only its form can tell."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.row_factory = sqlite3.Row
        rows = [dict(row) for row in other.execute("SELECT * FROM entries ORDER BY link")]
        last = [row for row in rows if row["kind"] == table][-1]
        last["content"] = json.dumps(json.loads(last["content"]) | {column: value})
        seal = ""
        for row in rows:
            seal = _seal(seal, *(row[name] for name in _SEALED))
            other.execute(
                "UPDATE entries SET content = ?, seal = ? WHERE link = ?", (row["content"], seal, row["link"])
            )
        other.execute("UPDATE head SET seal = ?", (seal,))


@pytest.fixture(scope="module")
def spent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with something in each of its tables."""
    path = tmp_path_factory.mktemp("spent") / "ledger.sqlite"
    assert release(path)
    evr.Budget.create("all", epsilon=2.0, delta=1e-6, ledger=path).spend(dp_event.GaussianDpEvent(8.0))
    return path


@pytest.mark.parametrize(
    "value", ["\x1b[2J", -1, 10**400, [], True, 1.5], ids=["escape", "-1", "huge", "[]", "True", "1.5"]
)
@pytest.mark.parametrize(
    ("table", "column"),
    [
        *(("releases", name) for name in ("id", "name", "terms", "relation", "unit", "created", "output", "owner")),
        *(("attempts", name) for name in ("release_id", "number", "settings", "relation", "options", "event", "owner")),
        *(("attempts", name) for name in ("started", "seen", "state")),
        *(("budgets", name) for name in ("id", "name", "kind", "relation", "unit", "created", "closed", "closer")),
        *(("spendings", name) for name in ("budget_id", "state", "number", "event", "method", "spender", "moment")),
        ("releases", "another"),
    ],
)
def test_a_forged_ledger_is_refused_in_words(spent: Path, tmp_path: Path, table: str, column: str, value: Any) -> None:
    path = Path(shutil.copy(spent, tmp_path))
    forged(path, table, column, value)
    with evr.Ledger(path) as ledger, pytest.raises(LedgerError, match="the ledger is damaged") as refused:
        ledger.check()
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("attempts", "release_id", 7),
        ("spendings", "budget_id", 7),
        ("budgets", "epsilon", 0.0),
        ("budgets", "delta", 1.0),
        ("attempts", "options", {"path": None}),
    ],
)
def test_a_ledger_of_rows_that_nobody_writes(spent: Path, tmp_path: Path, table: str, column: str, value: Any) -> None:
    path = Path(shutil.copy(spent, tmp_path))
    forged(path, table, column, value)
    with evr.Ledger(path) as ledger, pytest.raises(LedgerError, match="the ledger is damaged"):
        ledger.check()
