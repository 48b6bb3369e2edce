"""The example that tunes a network, run as a user would, with fewer and shorter runs."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

import evr

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_tune_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    example = importlib.import_module("tune_digits")
    monkeypatch.setattr(example, "MEAN_RUNS", 2)
    monkeypatch.setattr(example, "SAMPLING", 1.0)  # one Gaussian: its proof takes no time
    monkeypatch.setattr(example, "NOISE", 6.0)
    monkeypatch.setattr(sys, "argv", ["tune", "--folder", str(tmp_path)])
    example.main()
    out = capsys.readouterr().out
    assert float(out.split("right about ")[1].split("%")[0]) > 40
    certificate = evr.Certificate.load(tmp_path / "network.certificate.json")
    assert certificate.verdict == "accepted"
    assert evr.replay(certificate).agrees
    assert (tmp_path / "network.npz").exists()
