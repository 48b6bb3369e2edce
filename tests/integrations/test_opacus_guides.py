"""The two guides: released with a checkpoint and its certificate side by side, refused with the
weights withheld.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import near

pytest.importorskip("opacus", reason="needs the extra: pip install evr-dp[opacus]", exc_type=ImportError)
pytest.importorskip("sklearn", reason="needs scikit-learn, for the data")

import evr

EXAMPLES = Path(__file__).parents[2] / "examples" / "opacus"
PATIENCE = 900.0  # seconds until a training is taken to hang, on a machine that is busy


def run(script, folder, *options):
    command = [sys.executable, str(EXAMPLES / f"{script}.py"), "--folder", str(folder), *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=PATIENCE)


@pytest.mark.parametrize("script", ["before", "after"])
def test_released(script, tmp_path):
    done = run(script, tmp_path)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split("accuracy ")[1].split()[0]) >= 0.9
    assert (tmp_path / "model.pt").exists()
    certificate = evr.Certificate.load(tmp_path / "model.certificate.json")
    assert certificate.guarantee is not None
    assert certificate.guarantee.epsilon == 3.0
    assert certificate.guarantee.delta == near(1e-5, rel=1e-12)
    record = evr.Record.load(tmp_path / "training.record.jsonl")
    assert certificate.dp_event() == record.event
    assert record.is_certified_by(certificate) == (script == "after")
    assert record.steps == 200


@pytest.mark.parametrize(
    ("script", "error"), [("before", "RecordError: step 1 had noise"), ("after", "NotReleasedError")]
)
def test_refused_with_less_noise_than_planned(script, error, tmp_path):
    done = run(script, tmp_path, "--noise-used", "3.5")
    assert done.returncode != 0
    assert error in done.stderr
    assert not (tmp_path / "model.pt").exists()
    assert evr.Record.load(tmp_path / "training.record.jsonl").runs[0].noise_multiplier == 3.5


def test_audited(tmp_path):
    """At least half of the certified epsilon at 1,000 canaries; one run falls short with probability 0.01 at most."""
    shares: list[float] = []
    while len(shares) < 3 and max(shares, default=0.0) < 0.5:
        folder = tmp_path / str(len(shares))
        done = run("audit", folder)
        assert done.returncode in (0, 3), done.stderr
        assert "sensitivity respected" in done.stdout
        certificate = evr.Certificate.load(folder / "audited.certificate.json")
        shares.append(float(done.stdout.split("at least ")[1].split()[0]) / certificate.guarantee.epsilon)
    assert max(shares) >= 0.5


def test_audited_with_less_noise_than_recorded(tmp_path):
    done = run("audit", tmp_path, "--noise-used", "2")
    assert done.returncode == 3, done.stderr
    assert "The audit contradicts" in done.stdout
