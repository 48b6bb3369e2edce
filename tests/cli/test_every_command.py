"""What all commands have in common: help with an example, one line for a mistake, a clean end when
interrupted.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any

import pytest

from evr.cli.app import app
from evr.cli.options import GROUPS

importlib.import_module("evr._wording.publishing")  # it takes ``risk`` along, before a test replaces that

COMMANDS = sorted(command.name for command in app.registered_commands if command.name)
FLAGS = ["--noise-multiplier", "1", "--sampling-probability", "0.1", "--steps", "3"]

# The library function that each command waits for, and arguments that lead to it.
WORK = {
    "attest": ("evr._certificate.certificate.Certificate.load", ["model.bin", "some.json"]),
    "audit": ("evr.cli.attacks.read_scores", ["some.json"]),
    "calculator": ("evr._report.calculator.page", []),
    "calibrate": (
        "evr._accounting.calibrate",
        ["--sampling-probability", "0.1", "--steps", "3", "--epsilon", "1", "--delta", "1e-5"],
    ),
    "certify": ("evr._release.gate.certify", [*FLAGS, "--delta", "1e-5"]),
    "describe": ("evr._kernel.events.Composition.of", FLAGS),
    "estimate": ("evr._accounting.estimate_delta", [*FLAGS, "--epsilon", "1"]),
    "show": ("evr._certificate.certificate.Certificate.load", ["some.json"]),
    "ledger": ("evr._release.ledger.Ledger.__init__", []),
    "refute": ("evr._proving.refuting.refute_by_plan", [*FLAGS, "--epsilon", "1", "--delta", "1e-5"]),
    "replay": ("evr._certificate.certificate.Certificate.load", ["some.json"]),
    "risk": ("evr._proving.risk.risk", FLAGS),
    "resume": ("evr._release.ledger.Ledger.__init__", []),
}


def test_every_command_is_here() -> None:
    assert sorted(WORK) == COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_interrupted(name: str, evr: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    (tmp_path / "some.json").write_text("{}")
    (tmp_path / ".evr").mkdir()
    (tmp_path / ".evr" / "ledger.sqlite").touch()
    path, arguments = WORK[name]
    owner, attribute = path.rsplit(".", 1)
    try:
        target: Any = importlib.import_module(owner)
    except ModuleNotFoundError:
        module, cls = owner.rsplit(".", 1)
        target = getattr(importlib.import_module(module), cls)
    monkeypatch.setattr(target, attribute, interrupt)
    ran = evr(name, *arguments)
    assert ran.code == 130
    assert ran.err.strip().endswith("interrupted")
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example(name: str, evr: Callable[..., Any]) -> None:
    ran = evr(name, "--help")
    assert ran.code == 0
    assert "Example" in ran.out
    assert f"evr {name}" in ran.out


def test_the_options_of_certify_are_in_groups(evr: Callable[..., Any]) -> None:
    helped = evr("certify", "--help").out
    assert re.findall(r"^(\w[\w ]+):$", helped, re.M) == [*GROUPS]
    assert helped.partition("\nOptions:\n")[2].split() == ["-h,", "--help", "Show", "this", "message", "and", "exit."]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_mistyped_option_is_one_line(name: str, refused: Callable[..., str]) -> None:
    assert "no such option" in refused(name, "--jsn")


@pytest.mark.parametrize("name", COMMANDS)
def test_json_is_offered(name: str, evr: Callable[..., Any]) -> None:
    assert "--json" in evr(name, "--help").out
