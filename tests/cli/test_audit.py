"""``evr audit``: verdicts and exit codes, what it prints and draws, files that are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event

import evr as library

Run = Callable[..., Any]


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    path = tmp_path / "c.json"
    library.certify(dp_event.GaussianDpEvent(2.0), delta=1e-5, path=path, ledger=tmp_path / "ledger.sqlite")
    return path


def scores(path: Path, sigma: float, canaries: int = 400) -> Path:
    rng = np.random.default_rng(3)
    included = rng.random(canaries) < 0.5
    rows = zip((included + sigma * rng.standard_normal(canaries)).tolist(), included.tolist(), strict=True)
    path.write_text("score,included\n" + "".join(f"{score!r},{coin}\n" for score, coin in rows))
    return path


def test_consistent_and_contradicted(evr: Run, certificate: Path, tmp_path: Path) -> None:
    honest = evr("audit", scores(tmp_path / "s.csv", 2.0), "--certificate", certificate)
    assert honest.code == 0
    assert "is consistent with epsilon" in honest.out
    drawn = tmp_path / "audit.png"
    broken = evr("audit", scores(tmp_path / "s.csv", 0.4), "--certificate", certificate, "--plot", drawn)
    assert broken.code == 3
    assert "contradicts epsilon" in broken.out
    assert drawn.read_bytes().startswith(b"\x89PNG")


def test_json_and_options(evr: Run, certificate: Path, tmp_path: Path) -> None:
    file = scores(tmp_path / "s.csv", 4.0)
    asked = ("--certificate", certificate, "--independent", "--confidence", "0.9", "--delta", "1e-4", "--json")
    found = json.loads(evr("audit", file, *asked).out)
    assert (found["verdict"], found["delta"], found["confidence"], found["canaries"]) == ("consistent", 1e-4, 0.9, 400)
    assert found["guesses"] == 360
    alone = json.loads(evr("audit", file, "--json").out)
    assert (alone["claimed"], alone["p_value"], alone["family"]) == (None, None, "gaussian")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0.5,1\n", "no column included and no column score"),
        ("score,included\nhigh,1\n", "line 2: give a number as the score (here 'high')"),
        (
            "score,included\n0.5,1\n0.5,maybe\n",
            "line 3: give a number as the score (here '0.5') and 1 or 0 as included (here 'maybe')",
        ),
        ("score,included\n0,5,1\n", "line 2: more fields than columns: write decimals with a point"),
        ("score,included\n0.5\n", "line 2: give a number as the score (here '0.5') and 1 or 0 as included (here None)"),
        ("score,included\n" + "0.5,1\n" * 5, "too few"),
        ("score,included\n" + "nan,1\n0.5,0\n" * 9, "NaN"),
        ("score,included\n" + "0.5,1\n" * 20, "100.0% of the canaries took part"),
        ("", "no column"),
        ("score,included\n" + "9" * 200_000 + ",1\n", "s.csv: not CSV (field larger than field limit"),
        (b"score,included\n\xff,1\n", "s.csv: not UTF-8 text"),
    ],
)
def test_files_that_are_refused(evr: Run, tmp_path: Path, text: str | bytes, words: str) -> None:
    file = tmp_path / "s.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    ran = evr("audit", file)
    assert ran.code == 2
    assert words in ran.err
    assert ran.err.count("\n") == 1


def test_a_picture_that_cannot_be_written_is_refused_first(evr: Run, tmp_path: Path) -> None:
    ran = evr("audit", scores(tmp_path / "s.csv", 2.0), "--plot", tmp_path / "nowhere" / "a.png")
    assert ran.code == 2
    assert ran.out == ""
