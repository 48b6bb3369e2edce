"""The worked example: trained and released with its certificates, refused when it claims too
little.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

import evr

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_digits.py"


def test_train_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn")
    ledger = tmp_path / "ledger.sqlite"
    monkeypatch.setattr(sys, "argv", ["train", "--ledger", str(ledger), "--folder", str(tmp_path)])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    out = capsys.readouterr().out
    assert out.count("released with accuracy 0.") == 2
    assert out.count("released is False; nothing ran") == 2
    for line in out.splitlines():
        if "released with accuracy" in line:
            assert float(line.split("accuracy ")[1].split(",")[0]) > 0.7
    for name in ("dp-gd", "dp-sgd"):
        certificate = evr.Certificate.load(tmp_path / f"{name}.certificate.json")
        assert certificate.guarantee is not None
        assert (certificate.guarantee.epsilon, round(certificate.guarantee.delta, 15)) == (3.0, 1e-5)
        assert evr.replay(certificate).agrees
    with evr.Ledger(ledger) as opened:
        assert sorted(a.state for a in opened.attempts()) == ["accepted"] * 2 + ["rejected"] * 2
        assert sum(r.output == "released" for r in opened.releases()) == 2
