"""``evr.integrations.jax`` and ``.keras``: loops with JAX Privacy, recorded. The tests run with 2.0 and with 2.3."""

from __future__ import annotations

import os
import sys

import pytest

os.environ.setdefault("KERAS_BACKEND", "jax")
reason = "needs jax-privacy: pip install evr-dp[jax]"
pytest.importorskip("jax_privacy", reason=reason, exc_type=ImportError)
pytestmark = pytest.mark.filterwarnings("ignore")  # they warn about themselves

from typing import Any

import numpy as np

import evr
from evr.errors import RecordError, UnsupportedEventError
from evr.integrations.jax import record
from integrations import jax_stand_ins as J
from integrations.jax_training import BATCH, NOISE, OLD, configuration, train

BY_HAND = evr.dpsgd(noise_multiplier=NOISE, sampling_probability=0.1, steps=20)
of_2_0 = pytest.mark.skipif(not OLD, reason="about JAX Privacy 2.0")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "training.record.jsonl"


def recorded(path, config=None, **options):
    with record(config or configuration(), path) as recording:
        train(recording.plan, **options)
    return evr.Record.load(path)


def test_their_example_recorded_by_two_lines(path, tmp_path):
    one = recorded(path)
    assert one.event == BY_HAND
    assert [note.what for note in one.notes] == ["generator"]
    assert {run.divisor for run in one.runs} == {BATCH}
    certificate = one.certify(delta=1e-5, ledger=tmp_path / "ledger.sqlite")
    assert certificate.dp_event() == BY_HAND
    assert "under zero-out adjacency" in certificate.statement


def test_constants_for_add_or_remove(path):
    constants = {"divisor": BATCH, "sampling_probability": 0.1, "steps": 20}
    with record(configuration(), path, constants=constants) as recording:
        train(recording.plan)
    assert evr.Record.load(path).relation.name == "ADD_OR_REMOVE_ONE"


def recorded_trainer(path, trainer, fitted, **options):
    with record(trainer, path) as recording:
        recording.fit(*fitted, **options)
    return evr.Record.load(path)


def test_a_trainer(path, monkeypatch):
    """``DPTrainer`` of 2.3, by a stand-in: the loop that its ``fit`` has."""
    monkeypatch.setitem(sys.modules, "jax_privacy", J.module("2.3"))
    config = J.CONFIGS["2.3"](strategy=np.ones(1), iterations=20, expected_participations=2, noise_multiplier=NOISE)
    plan = config.make()
    trainer: Any = J.DPTrainer(config=config)
    trainer.plan = J.Plan(
        lambda *_: J.SimpleNamespace(l2_norm_bound=1.0),
        plan.batch_selection_strategy,
        J.Transform(None, None),
        plan.dp_event,
        plan.neighboring_relation,
    )
    called: list[int] = []
    trainer.fit = lambda data, state, *, rng_or_seed, callback: [callback(n, state, data) for n in range(1, 21)]
    assert recorded_trainer(path, trainer, (None, None), callback=lambda n, *_: called.append(n)).event == BY_HAND
    assert called == list(range(1, 21))
    with pytest.raises(RecordError, match="the sampler has the seed 3, which looks chosen by hand"):
        recorded_trainer(path.with_name("other.jsonl"), trainer, (None, None), rng_or_seed=3)


@pytest.mark.skipif(OLD, reason="JAX Privacy 2.0 has no DPTrainer")
def test_their_trainer(path):
    optax = pytest.importorskip("optax")
    from jax_privacy.training import DPTrainer

    from integrations.jax_training import data, loss

    features, labels = data()
    trainer = DPTrainer(
        config=configuration(),
        loss_fn=lambda weights, batch, key: (loss(weights, batch[0][None], batch[1][None]), None),
        optimizer=optax.sgd(0.1),
    )
    fitted = ((features.astype(np.float32), labels.astype(np.int32)), np.zeros(features.shape[1], np.float32))
    assert recorded_trainer(path, trainer, fitted).event == BY_HAND
    with pytest.raises(RecordError, match="the sampler has the seed 0, which looks chosen by hand"):
        recorded_trainer(path.with_name("other.jsonl"), trainer, fitted, rng_or_seed=0)
    with pytest.raises(TypeError, match=r"fit\(\) is for a DPTrainer"):
        recorded_trainer(path.with_name("third.jsonl"), configuration(), fitted)


# --- bugs -----------------------------------------------------------------------------------------


def test_refused_before_the_first_step(path):
    with pytest.raises(UnsupportedEventError, match="clipping is switched off: a clipping norm of inf"):
        record(configuration(l2_clip_norm=np.inf, rescale_to_unit_norm=False), path)
    with pytest.raises(RecordError, match="certify the configuration"):
        record(configuration(strategy=(1.0, 0.5)), path)
    assert not path.exists()


@of_2_0
def test_a_key_that_was_chosen_by_hand(path):
    """In a plan that was made by hand: the configuration says that it has no seed."""
    with pytest.raises(UnsupportedEventError, match=r"noise_seed=42: whoever knows the seed knows the noise.*\(None\)"):
        record(configuration(noise_seed=42), path)
    config = configuration()
    seeded = configuration(noise_seed=7).plan.noise_addition_transform
    object.__setattr__(config.plan, "noise_addition_transform", seeded)
    with pytest.raises(RecordError, match="the noise has the key 7"):
        recorded(path, config)


def test_the_same_script_twice(path):
    recorded(path)
    with pytest.raises(RecordError, match="the record is finished, with 20 steps"):
        recorded(path)


# --- Keras ----------------------------------------------------------------------------------------


def test_keras(path):
    """A training that goes on has another seed, since ``fit`` draws batches from the beginning of its generator."""
    from evr.integrations.keras import Record
    from integrations.keras_training import fit, private_model

    model, config = private_model()
    assert fit(model, Record(config, path)).event == BY_HAND
    with pytest.raises(RecordError, match="the record is finished"):
        fit(model, Record(config, path), 1)
    with pytest.raises(RecordError, match="this seed has drawn a part of the record already"):
        fit(model, Record(config, path, resume=True), 1)
    again, other = private_model()
    again.set_weights(model.get_weights())
    assert fit(again, Record(other, path, resume=True), 1).event.count == 30
    with pytest.raises(RecordError, match="has taken 30 steps, and the record holds 0"):
        fit(again, Record(other, path, new=True), 1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"poisson_sampling_in_fit": False}, "set poisson_sampling_in_fit=True"),
        ({"seed": 0}, r"seed=0 looks chosen by hand.*secrets\.randbits"),
        ({"gradient_accumulation_steps": 2}, "a record may be in several batches of one step"),
        ({"noise_multiplier": None}, "update_with_calibrated_noise_multiplier"),
    ],
)
def test_keras_configurations_that_are_refused(changes, words):
    from integrations.keras_training import private_model

    _, config = private_model(**changes)
    with pytest.raises(UnsupportedEventError, match=words):
        evr.events.from_jax_privacy(config)
