"""Folders that cannot be written and disks that are full: a clear error, nothing corrupted, nothing lost."""

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
from evr.errors import LedgerError
from evr.release.attempt import Settings, start
from evr.release.certify import certify_claim
from evr.verify import Claim

NOBODY = 65534


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 160 KiB, where one may be mounted."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = sys.platform == "linux" and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=160k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if not mounted or mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_keeps_the_ledger_whole(small_disk: Path, gaussian: Any, delta: float) -> None:
    path = small_disk / "ledger.sqlite"
    claim = Claim(1.0, delta, 0.9)
    with evr.Ledger(path) as ledger:
        certify_claim(gaussian, claim, Settings(), ledger=ledger, path=small_disk / "first.json")
        with pytest.raises(OSError, match="No space left"):
            (small_disk / "filler").write_bytes(b"x" * 200_000)
        begun = 1
        with pytest.raises(LedgerError, match="ledger cannot be used"):
            while begun < 1000:
                start(ledger, gaussian, claim, Settings())
                begun += 1
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
        patch.setattr("evr.atomic.os.fsync", full)
        with pytest.raises(OSError, match=r"No space left on device: .*c\.json"):
            certify_claim(gaussian, Claim(1.0, delta, 0.9), Settings(), ledger=ledger, path=target, seed=3)
    assert list(tmp_path.glob("*.json*")) == []
    assert [a.state for a in ledger.attempts()] == ["interrupted"]
    certificate = evr.resume(ledger)
    assert evr.Certificate.load(target) == certificate
    assert evr.replay(certificate).agrees


def test_snapshots_that_cannot_be_written_stop_the_attempt(
    ledger: evr.Ledger, gaussian: Any, delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise LedgerError("the ledger cannot be used (database or disk is full)")

    with monkeypatch.context() as patch:
        patch.setattr(evr.Ledger, "save", fail)
        with pytest.raises(LedgerError, match="disk is full"):
            certify_claim(gaussian, Claim(1.0, delta, 0.9), Settings(), ledger=ledger)
    assert [a.state for a in ledger.attempts()] == ["interrupted"]
    assert evr.resume(ledger).accepted


READ_ONLY = """
import sys
from evr.cli import main
sys.argv = ["evr", "certify", "--noise-multiplier", "4", "--steps", "1", "--epsilon", "1", "--tau", "0.9", *sys.argv[1:]]
main()
"""


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="another user has to be taken")
def test_a_read_only_folder(tmp_path: Path) -> None:
    import evr as package

    source = Path(package.__file__).parents[1]
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    for parent in [*tmp_path.parents][:2] + [tmp_path]:
        parent.chmod(parent.stat().st_mode | 0o055)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", READ_ONLY, *arguments], cwd=folder, user=NOBODY, group=NOBODY, extra_groups=[],
            env={**os.environ, "PYTHONPATH": str(source), "HOME": str(folder)}, capture_output=True, text=True, check=False,
        )  # fmt: skip

    probe = subprocess.run([sys.executable, "-c", "import evr"], user=NOBODY, group=NOBODY, extra_groups=[], cwd="/",
                           env={**os.environ, "PYTHONPATH": str(source)}, capture_output=True, check=False)  # fmt: skip
    if probe.returncode:
        pytest.skip("the sources are not readable for another user")
    ran = run()
    assert ran.returncode == 2, ran
    assert ran.stderr == "error: .evr/ledger.sqlite: the ledger cannot be used (Permission denied)\n"
    assert list(folder.iterdir()) == []
    free = tmp_path / "free"
    free.mkdir()
    free.chmod(0o777)
    ran = run("--ledger", str(free / "ledger.sqlite"), "--quiet")
    assert ran.returncode == 2
    assert ran.stderr == f"error: {folder / 'evr.certificate.json'}: Permission denied\n"
    with evr.Ledger(free / "ledger.sqlite") as ledger:
        assert [a.state for a in ledger.attempts()] == ["interrupted"]
