"""Processes that are killed, and processes that crowd."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import evr

STORM = Path(__file__).with_name("storm.py")


def storm(*arguments: object) -> Any:
    environment = {**os.environ, "PYTHONPATH": str(Path(evr.__file__).parents[1])}
    command = [sys.executable, str(STORM), *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=3000, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_kills_at_random_moments_lose_nothing(tmp_path: Path) -> None:
    found = storm("kills", tmp_path, 10, 1)
    assert found["kills"] == 10
    assert found["begun"] >= 3, found


@pytest.mark.full
def test_a_hundred_kills(tmp_path: Path) -> None:
    found = storm("kills", tmp_path, 100, 2)
    print(found)
    assert found["begun"] >= 60
    assert found["continued_from_snapshots"] >= 20


def test_eight_processes_never_share_a_number(tmp_path: Path) -> None:
    found = storm("crowd", tmp_path, 8, 4)
    assert found["codes"] == [0] * 8
    numbers = sorted((release, number) for release, number, _ in found["attempts"])
    assert numbers == [(release, number) for release in (1, 2) for number in range(1, 17)]
    assert {state for *_, state in found["attempts"]} == {"accepted"}
    for spent, allowed in found["spent"]:
        assert spent < allowed
