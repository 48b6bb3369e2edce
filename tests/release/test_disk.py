"""Folders that cannot be written and disks that are full: a clear error, nothing corrupted, nothing
lost.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import evr
from attempts import certify_claim, start
from evr._kernel.verdict.settings import Claim, Settings
from evr._proving import progress
from evr.errors import LedgerError


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 800 KiB, where one may be mounted."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = sys.platform == "linux" and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=800k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if not mounted or mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_keeps_the_ledger_whole(small_disk: Path, gaussian: Any, delta: float) -> None:
    path = small_disk / "ledger.sqlite"
    claim = Claim(1.0, delta / 0.9, 0.9)
    with evr.Ledger(path) as ledger:
        certify_claim(gaussian, claim, Settings(), ledger=ledger, path=small_disk / "first.json")
        with pytest.raises(OSError, match="No space left"):
            (small_disk / "filler").write_bytes(b"x" * 1_000_000)
        begun = 1

        def go_on() -> None:
            nonlocal begun
            while begun < 1000:
                start(ledger, gaussian, claim, Settings())
                begun += 1

        with pytest.raises(LedgerError, match="cannot be used"):
            go_on()
    (small_disk / "filler").unlink()
    with evr.Ledger(path) as ledger:
        ledger.check()
        assert [a.number for a in ledger.attempts()] == list(range(1, begun + 1))
        again = certify_claim(gaussian, claim, Settings(), ledger=ledger)
        assert again.release.attempt == begun + 1
    assert evr.replay(evr.Certificate.load(small_disk / "first.json")).agrees


def test_a_certificate_that_cannot_be_written_is_not_lost(
    ledger: evr.Ledger, gaussian: Any, delta: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    target = tmp_path / "c.json"
    with monkeypatch.context() as patch:
        patch.setattr("evr._basics.atomic.os.fsync", full)
        with pytest.raises(OSError, match=r"No space left on device: .*c\.json"):
            certify_claim(gaussian, Claim(1.0, delta / 0.9, 0.9), Settings(), ledger=ledger, path=target, seed=3)
    assert list(tmp_path.glob("*.json*")) == []
    assert [a.state for a in ledger.attempts()] == ["interrupted"]
    certificate = evr.resume(ledger)
    assert evr.Certificate.load(target) == certificate
    assert evr.replay(certificate).agrees


def test_a_ledger_that_cannot_be_written_stops_the_attempt(
    ledger: evr.Ledger, gaussian: Any, delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise LedgerError("the ledger cannot be used (database or disk is full)")

    with monkeypatch.context() as patch:
        patch.setattr(progress, "_ALIVE", 0.0)
        patch.setattr(evr.Ledger, "keep", fail)
        with pytest.raises(LedgerError, match="disk is full"):
            certify_claim(gaussian, Claim(1.0, delta / 0.9, 0.9), Settings(), ledger=ledger)
    assert [a.state for a in ledger.attempts()] == ["interrupted"]
    assert evr.resume(ledger).accepted


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    """A folder that cannot be written, not even by root."""
    place = tmp_path / "locked"
    place.mkdir(mode=0o555)
    if os.geteuid():
        yield place
        return
    command = ["mount", "-t", "tmpfs", "-o", "ro,size=64k", "tmpfs", str(place)]
    if sys.platform != "linux" or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("root can write everywhere, and nothing can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_read_only_folder(locked: Path, ledger: evr.Ledger, gaussian: Any, delta: float) -> None:
    claim = Claim(1.0, delta / 0.9, 0.9)
    with pytest.raises(LedgerError, match="cannot be used"):
        certify_claim(gaussian, claim, Settings(), ledger=locked / ".evr" / "ledger.sqlite")
    with pytest.raises(LedgerError, match="cannot be used"):
        certify_claim(gaussian, claim, Settings(), ledger=locked / "ledger.sqlite")
    target = locked / "c.json"
    with pytest.raises(ValueError, match=r"path=.*c\.json' cannot be written"):
        certify_claim(gaussian, claim, Settings(), ledger=ledger, path=target)
    assert list(locked.iterdir()) == []
    assert ledger.attempts() == []  # refused before it was counted
    ledger.check()
