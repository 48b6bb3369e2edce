"""A ledger where other machines reach it does without the write-ahead log,
which they cannot share.
"""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest
from dp_accounting import dp_event

import evr
from evr.certification import ledger_file, places

MOUNTS = r"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw
30 22 0:26 / /home rw shared:2 - nfs4 server:/home rw
31 30 0:27 / /home/me/fast\040disk rw - xfs /dev/sdb rw
32 22 0:28 / /data rw - ext4 /dev/sdc rw
33 22 0:29 / /data rw - lustre mgs:/data rw
34 22 0:30 / /laptop rw - fuse.sshfs me@host: rw
35 22 0:31 / /homestead rw - overlay overlay rw
"""


@pytest.mark.parametrize(
    ("path", "shared"),
    [
        ("/tmp/ledger.sqlite", False),
        ("/home/me/.evr/ledger.sqlite", True),
        ("/home/me/fast disk/ledger.sqlite", False),
        ("/data/ledger.sqlite", True),
        ("/laptop/ledger.sqlite", True),
        ("/homestead/ledger.sqlite", False),
    ],
)
def test_where_a_file_lies(
    path: str, shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "_MOUNTS", tmp_path / "mountinfo")
    assert places.is_shared(Path(path)) is False  # the system does not say
    (tmp_path / "mountinfo").write_text(MOUNTS)
    assert places.is_shared(Path(path)) is shared


def test_a_shared_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ledger.sqlite"
    evr.Ledger(path).close()
    monkeypatch.setattr(ledger_file, "is_shared", lambda path: True)
    evr.Ledger(path).close()  # alone: leaving the journal that rests on memory needs the whole file
    claim: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-3, "tau": 0.9, "ledger": path}
    ran: list[int] = []
    refused: list[BaseException] = []

    def one() -> None:
        try:
            evr.release(lambda: ran.append(1), dp_event.LaplaceDpEvent(2.0), **claim)
        except evr.AlreadyReleasedError as error:
            refused.append(error)

    threads = [threading.Thread(target=one) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(ran), len(refused)) == (1, 5)
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    connection.close()
