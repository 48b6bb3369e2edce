"""JAX Privacy's execution plan goes in, a certificate comes out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import near

pytest.importorskip(
    "jax_privacy", reason="needs jax-privacy: pip install jax-privacy==2.0.0", exc_type=ImportError
)
pytestmark = pytest.mark.filterwarnings("ignore")  # jax and keras warn about themselves

import dp_accounting
import numpy as np
from jax_privacy.batch_selection import PartitionType
from jax_privacy.experimental import accounting
from jax_privacy.experimental.execution_plan import BandMFExecutionPlanConfig

import evr

EXAMPLE = Path(__file__).parents[2] / "examples" / "jax_privacy_digits.py"
PATIENCE = 900.0  # seconds until a training is taken to hang, on a machine that is busy


def plan(**options):
    return BandMFExecutionPlanConfig(
        strategy=np.ones(1),
        partition_type=PartitionType.INDEPENDENT,
        accountant=evr.FFTAccountant(),
        **options,
    ).plan


def test_a_plan_is_calibrated_by_evr():
    event = plan(iterations=100, sampling_prob=0.1, epsilon=2.0, delta=1e-6).dp_event
    assert evr.estimate_epsilon(event, 1e-6).value == near(2.0, abs=1e-3)
    theirs = dp_accounting.pld.PLDAccountant().compose(event).get_epsilon(1e-6)
    assert theirs == near(2.0, abs=5e-3)


def test_its_event_is_certified(tmp_path):
    event = plan(
        iterations=100, sampling_prob=0.1, epsilon=None, delta=None, noise_multiplier=2.0
    ).dp_event
    certificate = evr.certify(event, delta=1e-5, tau=0.8, ledger=tmp_path / "ledger.sqlite")
    assert certificate.accepted
    assert certificate.dp_event() == event


def test_their_own_example_of_an_event():
    """Their documentation gives 3.77 by the PLD accountant, rounded."""
    event = accounting.dpsgd_event(noise_multiplier=3, iterations=512, sampling_prob=0.1)
    assert round(evr.estimate_epsilon(event, 1e-6).value, 2) == 3.77


def test_the_example(tmp_path):
    pytest.importorskip("sklearn", reason="needs scikit-learn, for the data")
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "--folder", str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split("accuracy ")[1].split()[0]) >= 0.88
    certificate = evr.Certificate.load(tmp_path / "model.certificate.json")
    assert certificate.guarantee is not None
    assert certificate.guarantee.epsilon == 3.0
    assert (tmp_path / "model.npy").exists()
