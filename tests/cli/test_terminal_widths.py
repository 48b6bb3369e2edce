"""What the commands print on terminals of 60 and 100 columns: nothing is cut, and no word is
broken.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import evr as package
from evr.cli.app import COMMANDS
from evr.cli.output import table

WIDTHS = (60, 100)
CHEAP = ["--noise-multiplier", "2", "--sampling-probability", "0.5", "--steps", "3"]


@pytest.fixture(params=WIDTHS)
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("COLUMNS", str(request.param))
    return int(request.param)


@pytest.fixture
def terminal(evr: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., str]:
    """Run a command as on a terminal; what is on its screen."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> str:
        with monkeypatch.context() as patched:
            patched.setattr(sys.stdout, "isatty", lambda: True)
            ran = evr(*arguments)
        assert ran.code == 0, ran
        return re.sub(r"\x1b\[[0-9;]*m", "", ran.out)

    return run


def widest(screen: str) -> int:
    return max(len(line.rstrip()) for line in screen.splitlines())


def words(screen: str) -> str:
    return " ".join(screen.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_and_cuts_no_option(name: str, evr: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    helped = evr(name, "--help").out
    assert widest(helped) <= 60
    assert "…" not in helped
    assert "<bool>" not in helped


def test_the_list_of_commands_fits(width: int, evr: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    helped = evr("--help").out
    assert widest(helped) <= width
    assert all(about in words(helped) for _, about in COMMANDS.values())
    assert "..." not in helped.partition("Commands:")[2]


def test_attempts_and_certificates(width: int, terminal: Callable[..., str]) -> None:
    told = terminal("certify", *CHEAP, "--delta", "1e-3")
    name = "dpsgd-noise2-steps3-delta0.001.certificate.json"
    listed, shown = terminal("ledger"), terminal("show", name)
    for screen in (told, listed, shown):
        assert "DP-SGD (Poisson sampling with probability 0.5, 3 steps" in words(screen)
    sentences = told.partition("certificate: ")[0]
    assert max(widest(sentences), widest(listed), widest(shown)) <= width
    for word in ("accepted", "none yet", "certificate", "attempts"):
        assert word in words(listed), word
    assert name in listed.replace("\n", "").replace(" ", "")
    assert "add-or-remove-one adjacency" in words(shown)
    assert re.search(r"proved: delta is at most \d\S+", words(shown))


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["estimate", *CHEAP, "--delta", "1e-3", "--compare"], "upper bound"),
        (["estimate", *CHEAP, "--epsilon", "0,1"], "direction"),
        (["describe", *CHEAP], "Gaussian mechanism (noise multiplier 2)"),
        (["estimate", *CHEAP, "--delta", "1e-3", "--every", "1"], "epsilon"),
    ],
)
def test_tables(arguments: list[str], found: str, width: int, terminal: Callable[..., str]) -> None:
    screen = terminal(*arguments)
    if "--every" in arguments:
        assert screen.startswith("Epsilon by number of steps, at delta = 0.001\n")
    if "--compare" in arguments and width == 100:
        assert re.search(r"accountant +kind +epsilon +off by +time +note", screen), "a list, and no table"
    assert widest(screen) <= width
    assert found in words(screen)


def test_a_budget(width: int, terminal: Callable[..., str], tmp_path: Path) -> None:
    budget = package.Budget.create("patients", epsilon=8.0, delta=1e-5, ledger=tmp_path / ".evr" / "ledger.sqlite")
    budget.spend(package.dpsgd(noise_multiplier=4.0, sampling_probability=0.1, steps=10))
    screen = terminal("budget", "show", "patients")
    assert widest(screen) <= width
    if width == 100:
        assert re.search(r"number +by +moment +claim +used +what ran", screen), "a list, and no table"


def test_what_looks_like_markup_is_shown_as_it_is(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    note = "pip install 'evr-dp[compare]' brings it, and much more than this line holds"
    table("Peers of [all] kinds", [{"name": "autodp", "kind": "none", "note": note}])
    shown = words(capsys.readouterr().out)
    assert "'evr-dp[compare]'" in shown
    assert "[all]" in shown
