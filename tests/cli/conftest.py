"""Run the command as a person does, but in this process: what it prints, and its exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from evr.cli import main

DPSGD = ["--noise-multiplier", "1", "--sampling-probability", "1e-3", "--steps", "1000"]


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        return [line.split("\t") for line in self.out.splitlines()]


@pytest.fixture
def evr(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    def run(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["evr", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        return Ran(int(left.value.code or 0), out, err)

    return run


@pytest.fixture
def refused(evr: Callable[..., Ran]) -> Callable[..., str]:
    """Run what must be refused: exit code 2, nothing printed, and one line that says why, which is
    returned.
    """

    def run(*arguments: object) -> str:
        ran = evr(*arguments)
        assert ran.code == 2, ran
        assert ran.out == ""
        assert ran.err.startswith("error: ")
        assert ran.err.count("\n") == 1, ran.err
        return ran.err

    return run


@pytest.fixture
def dpsgd() -> list[str]:
    """Flags of a usual DP-SGD run, whose delta at epsilon 0.5 is 2.0582e-10."""
    return list(DPSGD)


@pytest.fixture
def mixed(tmp_path: Any) -> Any:
    """A specification with a claim."""
    path = tmp_path / "mixed.toml"
    path.write_text(
        '[[mechanism]]\nkind = "laplace"\nnoise_multiplier = 10.0\nrepeat = 3\n[[mechanism]]\nkind '
        '= "gaussian"\nnoise_multiplier = 20.0\nrepeat = 4\n[claim]\ndelta = 1e-5\n'
    )
    return path
