"""A ledger of many attempts is as fast as one of a few, and what is looked up instead of read whole
is verified (docs/guarantees.md, Section 5.7).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from dp_accounting import dp_event

import evr
from attempts import grown, start
from evr._kernel.verdict.settings import Claim, Settings
from evr.errors import LedgerError

EVENT = dp_event.GaussianDpEvent(4.0)
SURE = dp_event.LaplaceDpEvent(2.0)  # at epsilon 1 accepted without a sample
CLAIM = Claim(1.0, 1e-3, 0.9)
RELEASE: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-3, "tau": 0.9}


def work(ledger: evr.Ledger, action: Callable[[], object]) -> int:
    """How many instructions SQLite executes: a row that it reads takes several."""
    count = 0

    def tick() -> None:
        nonlocal count
        count += 1

    connection = ledger._database._connection
    connection.set_progress_handler(tick, 1)
    try:
        action()
    finally:
        connection.set_progress_handler(None, 0)
    return count


@pytest.mark.parametrize("releases", [1, 300])
def test_work_does_not_grow_with_the_journal(tmp_path: Path, releases: int) -> None:
    seen = []
    for attempts in (10, 600):
        with evr.Ledger(tmp_path / f"{attempts}.sqlite") as ledger:
            grown(ledger, EVENT, attempts, min(releases, attempts // 2))
            certified = work(ledger, partial(evr.certify, EVENT, delta=1e-5, ledger=ledger))
            begun = start(ledger, EVENT, CLAIM, Settings())
            kept = work(ledger, partial(ledger.keep, begun))
            seen.append((certified, kept))
    (certified, kept), (certified_later, kept_later) = seen
    assert certified_later <= 1.05 * certified
    assert kept_later <= 1.05 * kept
    assert certified_later > 100  # the instructions were counted


def test_numbers_go_on_after_many_attempts(tmp_path: Path) -> None:
    with evr.Ledger(tmp_path / "ledger.sqlite") as ledger:
        grown(ledger, EVENT, 300, 3)
        numbers: dict[int, list[int]] = {}
        attempt = start(ledger, EVENT, CLAIM, Settings(), name="1", seed=7)
        with pytest.raises(LedgerError, match="entropy 0x7 was used before in this release"):
            start(ledger, EVENT, CLAIM, Settings(), name="1", seed=7)
        assert start(ledger, EVENT, CLAIM, Settings(), name="2", seed=7).number == 101
        for one in ledger.check().attempts.values():
            numbers.setdefault(one.release_id, []).append(one.number)
    assert attempt.number == 101
    assert sorted(map(len, numbers.values())) == [100, 101, 101]
    assert all(given == list(range(1, len(given) + 1)) for given in numbers.values())


def altered(ledger: evr.Ledger, change: str) -> None:
    with sqlite3.connect(ledger.path) as other:
        assert other.execute(change).rowcount
    other.close()


MISSING = (
    "DELETE FROM entries WHERE link = 2",
    "DELETE FROM entries WHERE link = (SELECT max(link) FROM entries)",
    "UPDATE entries SET link = -2 WHERE link = 2",
    "UPDATE entries SET link = 99 WHERE link = 2",
    "UPDATE entries SET seal = 'x' WHERE link = (SELECT max(link) FROM entries)",
    "UPDATE head SET links = links - 1",
    "UPDATE head SET seal = 'x'",
    "INSERT INTO entries SELECT link + 1, kind, id, NULL, NULL, content, seal FROM entries ORDER BY link DESC LIMIT 1",
)


@pytest.mark.parametrize("change", MISSING)
def test_an_entry_that_is_missing_is_missed_by_everybody(ledger: evr.Ledger, change: str) -> None:
    begun = start(ledger, EVENT, CLAIM, Settings())
    for name in ("a", "b"):
        start(ledger, EVENT, CLAIM, Settings(), name=name)
    altered(ledger, change)
    for action in (
        lambda: ledger.keep(begun),
        lambda: ledger.finish(begun, "accepted"),
        lambda: ledger.take_over(begun),
        lambda: ledger.count_output(begun),
        lambda: start(ledger, EVENT, CLAIM, Settings(), name="c"),
        ledger.check,
    ):
        with pytest.raises(LedgerError, match="the ledger is damaged"):
            action()


@pytest.mark.parametrize("change", ["id = 7", "parent = 7", "key = 9", "content = replace(content, '1', '2')"])
def test_an_altered_entry_is_noticed_by_whoever_reads_it(ledger: evr.Ledger, change: str) -> None:
    """An attempt at another release does not read it; ``release`` reads everything."""
    start(ledger, EVENT, CLAIM, Settings(), name="a", seed=7)
    start(ledger, EVENT, CLAIM, Settings(), name="b")
    altered(ledger, f"UPDATE entries SET {change} WHERE kind = 'attempts' AND parent = 1")
    assert start(ledger, EVENT, CLAIM, Settings(), name="b").number == 2
    for action in (
        lambda: start(ledger, EVENT, CLAIM, Settings(), name="a", seed=7),
        lambda: evr.release(lambda: pytest.fail("ran"), SURE, **RELEASE, ledger=ledger),
        ledger.interrupted,
        ledger.check,
    ):
        with pytest.raises(LedgerError, match="the ledger is damaged"):
            action()


def test_no_output_is_counted_in_a_journal_that_was_damaged_meanwhile(ledger: evr.Ledger) -> None:
    start(ledger, EVENT, CLAIM, Settings(), name="a")

    def damage(_: evr.Certificate) -> None:
        altered(ledger, "UPDATE entries SET parent = 7 WHERE link = 2")

    with pytest.raises(LedgerError, match="the ledger is damaged"):
        evr.release(lambda: pytest.fail("ran"), SURE, **RELEASE, ledger=ledger, certified=damage)
