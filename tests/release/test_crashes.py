"""Processes that are killed, and processes that crowd: no attempt is lost, and no release lets out
two outputs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import evr

STORM = Path(__file__).with_name("storm.py")


def storm(*arguments: object) -> Any:
    folders = (Path(evr.__file__).parents[1], Path(__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    command = [sys.executable, str(STORM), *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=3000, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_kills_at_random_moments_lose_nothing(tmp_path: Path) -> None:
    found = storm("kills", tmp_path, 4, 1)
    assert found["kills"] == 4
    assert found["begun"] >= 2, found


@pytest.mark.full
def test_a_hundred_kills(tmp_path: Path) -> None:
    found = storm("kills", tmp_path, 100, 2)
    print(found)
    assert found["begun"] >= 60
    assert found["continued"] >= 20


def test_eight_processes_never_share_a_number(tmp_path: Path) -> None:
    found = storm("crowd", tmp_path, 8, 4)
    assert found["codes"] == [0] * 8
    numbers = sorted((release, number) for release, number, _ in found["attempts"])
    assert numbers == [(release, number) for release in (1, 2) for number in range(1, 17)]
    assert {state for *_, state in found["attempts"]} == {"accepted"}
    for spent, allowed in found["spent"]:
        assert spent < allowed


@pytest.fixture
def memory() -> Iterator[str]:
    """A folder in memory where there is one: the tests below open hundreds of ledgers, and a kill
    needs no disk.
    """
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        yield folder


@pytest.mark.parametrize(
    ("how", "number", "every"),
    [
        ("kill", 1, 0),
        ("raise", 1, 4),
        pytest.param("kill", 1, 1, marks=pytest.mark.full),
        pytest.param("raise", 1, 1, marks=pytest.mark.full),
    ],
)
def test_a_release_struck_before_any_line_lets_out_one_output_at_most(
    memory: str, how: str, number: int, every: int
) -> None:
    """From where the output is counted to the end; whatever strikes, the next process never
    publishes a second one. Kills come before and after each change on the disk, since nothing else
    outlives them; every fourth line raises.
    """
    found = storm("lines", memory, how, "count_output", number, every)
    assert found["lines"] > 100
    kinds = {end.split(",")[0] + "," + end.split(",")[1] for end in found["ends"]}
    assert kinds == {"nothing, let out", "nothing, refused", "published, refused"}, found


@pytest.mark.full
def test_a_release_struck_before_any_line_from_its_beginning(memory: str) -> None:
    found = storm("lines", memory, "kill", "release", 1, 1)
    print(found)
    assert found["lines"] > 2000


def test_of_many_processes_one_lets_out_its_output(memory: str) -> None:
    for codes, published in storm("race", memory, 8, 2)["outs"]:
        assert codes == [0] + [1] * 7
        assert published == 1
