"""JAX Privacy's execution plan goes in, a certificate comes out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import near

reason = "needs jax-privacy: pip install jax-privacy==2.0.0"
pytest.importorskip("jax_privacy.experimental.execution_plan", reason=reason, exc_type=ImportError)
pytestmark = pytest.mark.filterwarnings("ignore")  # jax and keras warn about themselves

import dp_accounting
import numpy as np
from jax_privacy.batch_selection import PartitionType
from jax_privacy.experimental import accounting
from jax_privacy.experimental.execution_plan import BandMFExecutionPlanConfig
from jax_privacy.matrix_factorization import toeplitz

import evr
from evr.errors import UnsupportedEventError

EXAMPLE = Path(__file__).parents[2] / "examples" / "jax_privacy_digits.py"
PATIENCE = 900.0  # seconds until a training is taken to hang, on a machine that is busy


ZERO_OUT = dp_accounting.NeighboringRelation.REPLACE_SPECIAL
read = evr.events.from_jax_privacy


def plan(**options):
    options = {
        "strategy": np.ones(1),
        "epsilon": None,
        "delta": None,
        "accountant": evr.FFTAccountant(ZERO_OUT),
        **options,
    }
    return BandMFExecutionPlanConfig(**options).plan


def test_a_plan_is_calibrated_by_evr():
    made = plan(iterations=100, sampling_prob=0.1, epsilon=2.0, delta=1e-6)
    assert evr.estimate_epsilon(read(made), 1e-6).value == near(2.0, abs=1e-3)
    theirs = dp_accounting.pld.PLDAccountant().compose(made.dp_event).get_epsilon(1e-6)
    assert theirs == near(2.0, abs=5e-3)


def test_a_plan_is_certified(tmp_path):
    event = read(plan(iterations=100, sampling_prob=0.1, noise_multiplier=2.0))
    certificate = evr.certify(event, delta=1e-5, tau=0.8, ledger=tmp_path / "ledger.sqlite")
    assert certificate.accepted
    assert certificate.dp_event() == event
    assert "100 times Poisson sampling" in certificate.statement
    assert "under zero-out adjacency" in certificate.statement


def test_a_plan_with_bands_and_defaults_is_for_zero_out(tmp_path):
    """Its dp_event alone says 50 Poisson steps; 200 iterations in 4 fixed groups run."""
    bands = BandMFExecutionPlanConfig(
        iterations=200, strategy=[1, 0.5, 0.375, 0.3125], epsilon=3, delta=0.99e-5, sampling_prob=0.2
    )
    event = read(bands)
    with pytest.raises(ValueError, match="give the configuration that makes it"):
        read(bands.plan)
    certificate = evr.certify(event, epsilon=3, delta=1e-5, ledger=tmp_path / "ledger.sqlite")
    assert certificate.accepted
    assert "4 fixed groups in turn" in certificate.statement
    assert "200 iterations" in certificate.statement
    assert "under zero-out adjacency" in certificate.statement
    with pytest.raises(ValueError, match="no law under 'add-or-remove'"):
        evr.certify(event, epsilon=3, delta=1e-5, neighboring_relation="add-or-remove")


def test_the_bare_event_of_a_plan_with_bands_is_refused(tmp_path):
    """It is equal to that of another training, DP-SGD of 50 steps, which is certified."""
    made = plan(iterations=200, strategy=np.ones(4), sampling_prob=0.2, noise_multiplier=2.0)
    assert made.dp_event == evr.dpsgd(noise_multiplier=2.0, sampling_probability=0.2, steps=50)
    more = dp_accounting.ComposedDpEvent([made.dp_event, dp_accounting.GaussianDpEvent(9.0)])
    twice = dp_accounting.ComposedDpEvent([dp_accounting.SelfComposedDpEvent(more, 2)])
    for event in (made.dp_event, more, twice):
        with pytest.raises(UnsupportedEventError, match="a plan of JAX Privacy with 4 bands"):
            evr.certify(event, delta=1e-5, ledger=tmp_path / "ledger.sqlite")
    single = plan(iterations=50, sampling_prob=0.2, noise_multiplier=2.0)
    assert evr.certify(single.dp_event, delta=1e-5, ledger=tmp_path / "ledger.sqlite").accepted


def test_a_plan_for_add_or_remove():
    made = plan(
        iterations=100,
        sampling_prob=0.1,
        noise_multiplier=2.0,
        partition_type=PartitionType.INDEPENDENT,
        accountant=evr.FFTAccountant(),
    )
    assert read(made, neighboring_relation="add-or-remove") == made.dp_event
    assert read(made) == evr.events.ZeroOutDpEvent(made.dp_event), "a plan of 2.0 does not say for whom"


def test_their_own_strategies_are_read():
    made = BandMFExecutionPlanConfig.default(num_bands=3, iterations=21, epsilon=2.0, delta=1e-6, sampling_prob=0.3)
    ours = evr.estimate_epsilon(read(made), 1e-6).value
    theirs = evr.estimate_epsilon(made.plan.dp_event, 1e-6).value
    assert abs(ours - theirs) <= 1e-6 * theirs, "strategies are in single precision"


def test_columns_that_are_normalised_have_the_noise_that_runs():
    """Their noise matrix has rows that were scaled; the strategy is its inverse."""
    config = BandMFExecutionPlanConfig(
        iterations=6, strategy=[0.5, 0.25], epsilon=None, delta=None, noise_multiplier=2.0, column_normalize=True
    )
    columns = read(config).event.strategy
    noise = toeplitz.inverse_as_streaming_matrix(np.array([0.5, 0.25]), 6).materialize(6)
    strategy = np.linalg.inv(np.asarray(noise, dtype=float))
    for i, column in enumerate(columns):
        np.testing.assert_allclose(strategy[i : i + len(column), i], column, rtol=1e-5)


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
    assert "under zero-out adjacency" in certificate.statement
    assert (tmp_path / "model.npy").exists()
