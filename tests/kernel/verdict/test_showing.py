"""Progress by default: a line on a terminal and in a notebook, nothing elsewhere or where it is
not wanted.
"""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import evr
from evr._proving import progress as showing
from evr._proving.progress import Progress, watching

STATE = Progress("remove", 40_000, None, 9.5e-10, 10.0, 20.0, 2.0, 3.2)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    found = Terminal()
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(showing, "sys", SimpleNamespace(stderr=found, modules=sys.modules))
    return found


def test_a_line_on_a_terminal_that_is_gone_at_the_end(terminal: Terminal) -> None:
    with watching(None) as hook:
        assert hook is not None
        hook(STATE)
        assert terminal.getvalue() == "\r" + showing.in_words(STATE)
    assert terminal.getvalue().endswith("\r" + " " * len(showing.in_words(STATE)) + "\r")


def test_a_line_fits_a_narrow_terminal(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    with watching(None) as hook:
        assert hook is not None
        hook(STATE)
        assert terminal.getvalue() == "\r" + showing.in_words(STATE)[:39]


def test_nothing_is_shown_of_what_is_over_at_once(terminal: Terminal) -> None:
    with watching(None) as hook:
        assert hook is not None
        hook(Progress("remove", 10, None, 1e-9, 1.0, 20.0, 0.5, 3.0))
    assert terminal.getvalue() == ""


def test_false_shows_nothing_and_a_hook_is_called(terminal: Terminal) -> None:
    seen: list[Progress] = []
    with watching(False) as nothing, watching(seen.append) as hook:
        assert nothing is None
        assert hook is not None
        hook(STATE)
    assert seen == [STATE]
    assert terminal.getvalue() == ""


def test_nobody_watches_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = SimpleNamespace(stderr=io.StringIO(), modules=sys.modules)
    monkeypatch.setattr(showing, "sys", fake)
    with watching(None) as hook:
        assert hook is None


def test_a_line_below_a_cell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class ZMQInteractiveShell:
        pass

    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=ZMQInteractiveShell))
    with watching(None) as hook:
        assert hook is not None
        hook(STATE)
        hook(STATE)
    line = showing.in_words(STATE)
    assert capsys.readouterr().err == f"\r{line}\r{line}\r{' ' * len(line)}\r"


def test_verify_shows_it(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(showing, "_AFTER", -1.0)
    monkeypatch.setattr(showing, "_SHOWN", 0.0)
    event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.1, steps=4)
    delta = 1.001 * float(evr.estimate_delta(event, 1.5))
    claim: dict[str, Any] = {"epsilon": 1.5, "delta": delta / 0.9, "tau": 0.9, "seed": 1}
    quiet = evr.verify(event, **claim, progress=False)
    assert terminal.getvalue() == ""
    assert evr.verify(event, **claim).samples == quiet.samples
    assert "evr, remove: " in terminal.getvalue()
    assert "samples, delta about" in terminal.getvalue()


def test_true_shows_lines_where_nobody_seems_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = SimpleNamespace(stderr=io.StringIO(), modules=sys.modules)
    monkeypatch.setattr(showing, "sys", fake)
    monkeypatch.setattr(showing, "_SHOWN", 0.0)
    event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=20)
    found = evr.verify(event, epsilon=0.5, delta=6.4e-12, tau=0.5, progress=True, method="sequential")
    assert found.verdict.value == "accepted"
    assert fake.stderr.getvalue().startswith("evr, remove: ")


def test_true_shows_lines_of_curves(capsys: pytest.CaptureFixture[str]) -> None:
    event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=20)
    evr.privacy_curve(event, [0.1, 0.5], progress=True)
    evr.online_epsilon(event, 1e-9, progress=True)
    assert capsys.readouterr().err.splitlines()[0:2] == ["", "evr: 1 of 2"]
