"""The accountant that Opacus turns on with one word: what Opacus's own tests ask of an accountant,
and that it is near-exact.
"""

from __future__ import annotations

import warnings

import pytest

from helpers import near

pytest.importorskip("opacus", reason="needs the extra: pip install evr-dp[opacus]", exc_type=ImportError)
pytestmark = pytest.mark.filterwarnings("ignore")  # torch and Opacus warn about themselves

import torch
from opacus import PrivacyEngine
from opacus.accountants import GaussianAccountant, PRVAccountant, RDPAccountant, create_accountant
from opacus.accountants.utils import get_noise_multiplier
from opacus.schedulers import ExponentialNoise, LambdaNoise, StepNoise
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch import nn

import evr
from evr.events import opacus_history
from evr.integrations.opacus import EvrAccountant, EvrStrictAccountant
from integrations.trainings import BATCH, RECORDS, Training

DELTA = 1e-5


def stepped(accountant, steps=2250, noise=1.5, rate=0.04):
    for _ in range(steps):
        accountant.step(noise_multiplier=noise, sample_rate=rate)
    return accountant


def test_it_is_registered():
    accountant = create_accountant("evr")
    assert isinstance(accountant, EvrAccountant)
    assert accountant.mechanism() == EvrAccountant.mechanism() == "evr"


def test_the_example_of_opacus():
    """Opacus's tests have 7.33 by RDP and 6.777 by PRV, whose error bound is
    0.01 below and above.
    """
    epsilon = stepped(EvrAccountant()).get_epsilon(delta=DELTA)
    assert epsilon == near(evr.estimate_epsilon(opacus_history([(1.5, 0.04, 2250)]), DELTA).value, abs=1e-6)
    assert 6.777395712150674 - 0.02 < epsilon < 6.777395712150674


@pytest.mark.parametrize("history", [[(1.0, 0.01, 300)], [(1.2, 0.02, 100), (0.9, 0.02, 50)], [(4.0, 0.3, 40)]])
def test_below_the_bounds_of_opacus(history):
    values = {}
    for kind in (EvrAccountant, PRVAccountant, RDPAccountant):
        accountant = kind()
        accountant.history = list(history)
        values[kind] = accountant.get_epsilon(DELTA)
    assert values[EvrAccountant] <= values[PRVAccountant] <= values[EvrAccountant] + 0.021
    assert values[EvrAccountant] <= values[RDPAccountant]


def test_asking_after_every_step():
    accountant, asked = EvrAccountant(), {}
    for step in range(1, 301):
        accountant.step(noise_multiplier=1.0, sample_rate=0.01)
        asked[step] = accountant.get_epsilon(DELTA)
    assert len(accountant) == 300
    for step in (1, 7, 99, 211, 300):
        exact = evr.estimate_epsilon(opacus_history([(1.0, 0.01, step)]), DELTA).value
        assert asked[step] == near(exact, abs=1e-6)


def test_two_deltas_at_once():
    accountant = stepped(EvrAccountant(), steps=50)
    assert accountant.get_epsilon(1e-7) > accountant.get_epsilon(1e-5) > 0
    with pytest.raises(ValueError, match="delta=0"):
        accountant.get_epsilon(0)


@pytest.mark.parametrize("by", [{"epochs": 90}, {"steps": 2000}])
def test_the_noise_for_a_target(by):
    options = {"target_epsilon": 8, "target_delta": DELTA, "sample_rate": 0.04, **by}
    noise = get_noise_multiplier(accountant="evr", **options)
    assert noise <= get_noise_multiplier(accountant="prv", **options) + 1e-9
    accountant = EvrAccountant()
    accountant.history = [(noise, 0.04, by.get("steps", 2250))]
    assert 8 - 0.01 <= accountant.get_epsilon(DELTA) <= 8


def test_state_goes_there_and_back():
    accountant = stepped(EvrAccountant(), steps=30)
    state = accountant.state_dict()
    assert state["history"] == accountant.history
    assert state["history"] is not accountant.history
    other = accountant.state_dict({"kept": 1})
    assert (other["mechanism"], other["kept"]) == ("evr", 1)
    loaded = EvrAccountant()
    assert loaded.state_dict() != state
    loaded.load_state_dict(state)
    assert loaded.state_dict() == state
    stepped(loaded, steps=10)
    assert loaded.get_epsilon(DELTA) == near(stepped(EvrAccountant(), steps=40).get_epsilon(DELTA), abs=1e-6)


@pytest.mark.parametrize("kind", [RDPAccountant, PRVAccountant, GaussianAccountant])
def test_checkpoints_of_opacus_accountants(kind):
    loaded = EvrAccountant()
    loaded.load_state_dict(stepped(kind(), steps=30).state_dict())
    assert loaded.history == [(1.5, 0.04, 30)]
    assert loaded.get_epsilon(DELTA) == near(stepped(EvrAccountant(), steps=30).get_epsilon(DELTA), abs=1e-6)


@pytest.mark.parametrize(
    "state",
    [None, {}, {"1": 2}, {"history": []}, {"history": [], "mechanism": "other"}, {"history": [1], "mechanism": "rdp"}],
)
def test_states_that_are_none(state):
    accountant = stepped(EvrAccountant(), steps=1)
    with pytest.raises(ValueError):
        accountant.load_state_dict(state)
    assert len(accountant) == 1


def test_a_training_with_one_word():
    training = Training(accountant="evr", noise=1.0)
    training.epochs(2)
    assert training.engine.accountant.history == [(1.0, BATCH / RECORDS, 20)]
    exact = evr.estimate_epsilon(evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.1, steps=20), DELTA).value
    assert training.engine.get_epsilon(DELTA) == near(exact, abs=1e-6)
    assert training.engine.accountant.event.count == 20


def test_made_private_with_epsilon():
    from torch.utils.data import DataLoader, TensorDataset

    engine = PrivacyEngine(accountant="evr")
    model = nn.Linear(4, 3)
    loader = DataLoader(TensorDataset(torch.randn(100, 4), torch.zeros(100).long()), batch_size=10)
    _, optimizer, _ = engine.make_private_with_epsilon(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=loader,
        target_epsilon=2.0,
        target_delta=DELTA,
        epochs=3,
        max_grad_norm=1.0,
    )
    event = evr.dpsgd(noise_multiplier=optimizer.noise_multiplier, sampling_probability=0.1, steps=30)
    assert 1.99 <= evr.estimate_epsilon(event, DELTA).value <= 2.0


@pytest.mark.parametrize("mode", ["hooks", "functorch", "ew", "ghost"])
def test_every_grad_sample_mode(mode):
    training = Training(grad_sample_mode=mode)
    training.epochs()
    assert training.engine.accountant.history == [(1.0, 0.1, 10)]


def test_virtual_steps_count_once():
    training = Training()
    with BatchMemoryManager(
        data_loader=training.loader, max_physical_batch_size=4, optimizer=training.optimizer
    ) as loader:
        training.epochs(loader=loader)
    assert len(training.engine.accountant) == 10


@pytest.mark.parametrize(
    "schedule",
    [
        lambda o: ExponentialNoise(o, gamma=0.9),
        lambda o: StepNoise(o, step_size=1, gamma=0.9),
        lambda o: LambdaNoise(o, noise_lambda=lambda epoch: 0.9**epoch),
    ],
)
def test_schedulers_of_noise(schedule):
    training = Training()
    scheduler = schedule(training.optimizer)
    for _ in range(3):
        training.epochs()
        scheduler.step()
    history = training.engine.accountant.history
    assert [entry[0] for entry in history] == near([1.0, 0.9, 0.81])
    assert [entry[1:] for entry in history] == [(0.1, 10)] * 3
    exact = evr.estimate_epsilon(opacus_history(history), DELTA).value
    assert training.engine.get_epsilon(DELTA) == near(exact, abs=1e-6)


@pytest.mark.parametrize("accountant", ["evr", "rdp", "prv"])
def test_a_checkpoint_of_the_engine(tmp_path, accountant):
    """A training that began with one of Opacus's accountants goes on with evr's."""
    training = Training(accountant=accountant)
    training.epochs()
    training.engine.save_checkpoint(path=tmp_path / "one.pt", module=training.model, optimizer=training.optimizer)
    other = Training()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other.engine.load_checkpoint(path=tmp_path / "one.pt", module=other.model, optimizer=other.optimizer)
    other.epochs()
    assert other.engine.accountant.history == [(1.0, 0.1, 20)]


def test_the_strict_accountant_proves_what_the_other_estimates():
    proved, estimated = (stepped(kind()).get_epsilon(delta=DELTA) for kind in (EvrStrictAccountant, EvrAccountant))
    assert 1 < proved / estimated < 1.0005
    assert EvrStrictAccountant().get_epsilon(delta=DELTA) == 0.0
    loaded = EvrStrictAccountant()
    loaded.load_state_dict(stepped(EvrAccountant()).state_dict())
    assert loaded.get_epsilon(delta=DELTA) == proved
    assert isinstance(PrivacyEngine(accountant="evr-strict").accountant, EvrStrictAccountant)
