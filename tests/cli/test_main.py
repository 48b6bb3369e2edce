"""The command as a whole: help, colours, mistyped words, interruption, broken pipes, and a fresh
process.
"""

import os
import re
import subprocess
import sys
from typing import Any

import pytest

import evr as package
from evr.cli.options import WhatRan

COMMANDS = ["estimate", "calibrate", "describe", "show"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(evr, command):
    ran = evr(command, "--help")
    assert ran.code == 0
    assert "Example: evr " + command in " ".join(ran.out.split())


def test_help_of_a_budget_is_like_that_of_the_others(evr):
    """Its arguments have names, not types of Python; its options are in groups."""
    said = evr("budget", "refund", "--help").out
    assert "Usage: evr budget refund [OPTIONS] NAME NUMBER\n" in said
    assert "What it counts against:" in said
    assert "<" not in said
    assert "[OPTIONS] FILE... CERTIFICATE\n" in evr("attest", "--help").out
    assert "[OPTIONS] [FILE...]\n" in evr("replay", "--help").out


def test_version(evr):
    assert evr("--version").out == f"evr {package.__version__}\n"


def test_nothing_asked(evr):
    ran = evr()
    assert ran.code == 2
    assert "Usage: evr" in ran.out


def test_mistyped_command(refused):
    assert refused("estimat") == "error: no such command 'estimat'. Did you mean 'estimate'? Try 'evr --help'.\n"


def test_interruption(evr, dpsgd, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(WhatRan, "described", interrupted)
    ran = evr("estimate", *dpsgd, "--epsilon", 1)
    assert (ran.code, ran.err.strip()) == (130, "interrupted")


def test_interruption_while_modules_are_loaded(evr, monkeypatch):
    class Interrupting:
        def find_spec(self, name, *_):
            if name == "evr.cli.app":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "evr.cli.app", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    ran = evr("--version")
    assert (ran.code, ran.err.strip()) == (130, "interrupted")


def test_a_bug_is_not_dressed_as_a_mistake(evr, dpsgd, monkeypatch):
    def broken(*arguments):
        raise ZeroDivisionError

    monkeypatch.setattr(WhatRan, "described", broken)
    with pytest.raises(ZeroDivisionError):
        evr("estimate", *dpsgd, "--epsilon", 1)


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(p for p in sys.path if p)
    environment = {**os.environ, "PYTHONPATH": path, **options.pop("env", {})}
    return subprocess.run(
        [sys.executable, "-m", "evr", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )


def test_a_pipe_closed_early():
    path = os.pathsep.join(p for p in sys.path if p)
    arguments = [
        "estimate",
        "--noise-multiplier",
        "70",
        "--sampling-probability",
        "1",
        "--steps",
        "1200",
        "--epsilon",
        "0:6:0.01",
    ]
    child = subprocess.Popen(
        [sys.executable, "-m", "evr", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.close()
    complaint = child.stderr.read()
    child.stderr.close()
    assert child.wait(timeout=60) == 0  # `evr estimate | head` is no mistake
    assert complaint == b""


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">/dev/full"])
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a shell of Unix")
def test_a_stream_that_is_closed_or_full(closed):
    path = os.pathsep.join(p for p in sys.path if p)
    line = f"{sys.executable} -m evr estimate --noise-multiplier 7 --sampling-probability 1 --steps 9 --epsilon 1"
    shell = ["sh", "-c", f"PYTHONPATH={path} {line} {closed}"]
    ran = subprocess.run(shell, capture_output=True, text=True, timeout=60, check=False)
    full = closed == ">/dev/full"
    assert (ran.returncode, ran.stderr) == ((2, "error: No space left on device\n") if full else (0, ""))
    assert ran.stdout.startswith("delta = ") == (closed == "2>&-")


def test_a_closed_pipe_is_no_acceptance(evr, monkeypatch):
    """The exit code of a verdict that nobody could read is not the one of acceptance."""

    def closed(*_: object, **__: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("evr._certificate.certificate.Certificate.load", closed)
    monkeypatch.setattr("os.dup2", lambda *_: None)
    monkeypatch.setattr(sys.stdout, "fileno", lambda: 1)
    assert evr("replay", "some.json").code == 1
    assert evr("show", "some.json").code == 0


def test_terminal_table_and_no_color(evr, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    ran = evr("estimate", "--noise-multiplier", 70, "--sampling-probability", 1, "--steps", 1200, "--epsilon", "1,2")
    assert "Privacy curve" in ran.out
    assert "0.00639604" in ran.out
    assert not re.search(r"\x1b\[[0-9;]*[349][0-7]m", ran.out)  # bold is no colour
