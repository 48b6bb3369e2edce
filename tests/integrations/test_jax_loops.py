"""``evr.integrations.jax`` and ``.keras``: loops with JAX Privacy 2.0, recorded; bugs that people make, and kills."""

from __future__ import annotations

import dataclasses
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

import messages

os.environ.setdefault("KERAS_BACKEND", "jax")
reason = "needs jax-privacy: pip install evr-dp[jax]"
pytest.importorskip("jax_privacy", reason=reason, exc_type=ImportError)
pytestmark = pytest.mark.filterwarnings("ignore")  # they warn about themselves

from typing import Any

import jax
import numpy as np

import evr
from evr.errors import RecordError, UnsupportedEventError
from evr.integrations.jax import record
from integrations import jax_stand_ins as J
from integrations.jax_training import BATCH, NOISE, RECORDS, configuration, data, loss, train

PROGRAM = Path(__file__).with_name("jax_training.py")
PATIENCE = 900.0
BY_HAND = evr.dpsgd(noise_multiplier=NOISE, sampling_probability=0.1, steps=20)


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


def test_ten_good_runs_raise_no_alarm(tmp_path):
    """Some batches are empty; the last run ends early."""
    for number in range(10):
        config = configuration(5, sampling_prob=1 / RECORDS)
        batches = (lambda drawn: [next(drawn), next(drawn)]) if number == 9 else None
        one = recorded(tmp_path / f"{number}.jsonl", config, batches=batches)
        assert one.event.count == (2 if number == 9 else 5)


def test_constants_for_add_or_remove(path):
    constants = {"divisor": BATCH, "sampling_probability": 0.1, "steps": 20}
    with record(configuration(), path, constants=constants) as recording:
        train(recording.plan)
    assert evr.Record.load(path).relation.name == "ADD_OR_REMOVE_ONE"


def test_a_trainer_calls_back(path, monkeypatch):
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
    with record(trainer, path) as recording:
        for step in range(1, 21):
            recording.callback(step, None, None)
    assert evr.Record.load(path).event == BY_HAND


# --- bugs -----------------------------------------------------------------------------------------


def own_sampler(_):
    draws = np.random.default_rng()
    return (draws.choice(RECORDS, 2 * BATCH) for _ in range(20))


def skip_empty(drawn):
    return (batch for batch in drawn if len(batch))


def unclipped(weights, x, y, is_padding_example):
    return 1e3 * jax.grad(loss)(weights, x, y)


@pytest.mark.parametrize(
    ("options", "changes", "words"),
    [
        ({"batches": own_sampler}, {}, "a batch that recording.plan did not draw"),
        ({"rng": 0}, {}, "the sampler has the seed 0"),
        ({"batches": skip_empty}, {"sampling_prob": 1 / RECORDS}, "an empty batch was dropped or filled"),
        ({"gradient": unclipped}, {}, "longer than clipping allows"),
        ({"gradient": lambda *a, is_padding_example: jax.grad(loss)(*a)}, {}, "clipped_grad was not used"),
    ],
)
def test_what_breaks_the_accounting(path, options, changes, words):
    with pytest.raises(RecordError, match=words):
        recorded(path, configuration(**changes), **options)
    with pytest.raises(RecordError):
        _ = evr.Record.load(path).event


def test_refused_before_the_first_step(path):
    with pytest.raises(RecordError, match=messages.about("clipping is switched off: l2_clip_norm=inf")):
        record(configuration(l2_clip_norm=np.inf, rescale_to_unit_norm=False), path)
    with pytest.raises(UnsupportedEventError, match=messages.NOISE_SEED):
        record(configuration(noise_seed=42), path)
    with pytest.raises(RecordError, match=messages.about("certify the configuration")):
        record(configuration(strategy=(1.0, 0.5)), path)
    assert not path.exists()


def test_a_key_that_was_chosen_by_hand(path):
    """In a plan that was made by hand: the configuration says that it has no seed."""
    config = configuration()
    seeded = configuration(noise_seed=7).plan.noise_addition_transform
    object.__setattr__(config.plan, "noise_addition_transform", seeded)
    with pytest.raises(RecordError, match=messages.about("the noise has the key 7")):
        recorded(path, config)


def test_the_same_script_twice(path):
    recorded(path)
    with pytest.raises(RecordError, match=messages.about("the record is finished, with 20 steps")):
        recorded(path)


def test_killed_and_resumed(path, tmp_path):
    def run(*arguments):
        command = [sys.executable, str(PROGRAM), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)

    assert run(tmp_path, 30, 17).returncode == 9
    done = run(tmp_path, 30)
    assert "done 37" in done.stdout, done.stderr  # 10 in the checkpoint, 7 lost, 20 more
    assert evr.Record.load(path).event.count == 37


# --- Keras ----------------------------------------------------------------------------------------


def keras_model(**changes):
    keras = pytest.importorskip("keras", reason="needs keras", exc_type=ImportError)
    from jax_privacy import keras_api

    given = {"epsilon": 50.0, "delta": 1e-5, "clipping_norm": 1.0, "batch_size": BATCH, "train_size": RECORDS}
    given |= {"train_steps": 40, "gradient_accumulation_steps": 1, "noise_multiplier": NOISE}
    given |= {"poisson_sampling_in_fit": True, "seed": secrets.randbits(62)}
    config = keras_api.DPKerasConfig(**{**given, **changes})
    model = keras_api.make_private(keras.Sequential([keras.Input((5,)), keras.layers.Dense(1)]), config)
    model.compile(optimizer="sgd", loss="mse")
    return model, config


def fit(model, callback, epochs=2):
    features, labels = data()
    model.fit(features, labels.astype(float), BATCH, epochs=epochs, callbacks=[callback], verbose=0)
    return callback.record


def test_keras(path):
    model, config = keras_model()
    from evr.integrations.keras import Record

    assert fit(model, Record(config, path)).event == BY_HAND
    with pytest.raises(RecordError, match=messages.about("the record is finished")):
        fit(model, Record(config, path), 1)
    assert fit(model, Record(config, path, resume=True), 1).event.count == 30
    with pytest.raises(RecordError, match=messages.about("has taken 30 steps, and the record holds 0")):
        fit(model, Record(config, path, new=True), 1)


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
    _, config = keras_model(**changes)
    with pytest.raises(UnsupportedEventError, match=words):
        evr.events.from_jax_privacy(config)


@pytest.mark.parametrize(
    ("trained", "recorded", "words"),
    [
        ({}, {"noise_multiplier": 2.0}, "another configuration"),
        ({}, {"train_size": 10 * RECORDS}, "another configuration"),  # a tenth of the rate
        ({"clipping_norm": np.inf}, {}, "clipping is switched off: clipping_norm=inf"),
    ],
)
def test_what_breaks_the_accounting_of_keras(path, trained, recorded, words):
    model, config = keras_model(**trained)
    from evr.integrations.keras import Record

    with pytest.raises(RecordError, match=words):
        fit(model, Record(dataclasses.replace(config, **recorded), path))
    assert not path.exists()


def test_a_keras_model_that_skips_a_batch(path, monkeypatch):
    """The steps that a model really takes are counted by JAX Privacy."""
    model, config = keras_model()
    from evr.integrations.keras import Record

    callback = Record(config, path)
    announce = callback.on_train_batch_begin

    def twice(batch, logs=None):  # what a loop looks like that draws a batch and takes no step on it
        announce(batch, logs)
        announce(batch, logs)

    monkeypatch.setattr(callback, "on_train_batch_begin", twice)
    with pytest.raises(RecordError, match=messages.about("steps were announced, and the model took")):
        _ = fit(model, callback, 1).event


def test_ten_good_runs_of_keras_raise_no_alarm(tmp_path):
    from evr.integrations.keras import Record

    for seed in range(10):
        model, config = keras_model()
        assert fit(model, Record(config, tmp_path / f"{seed}.jsonl")).event == BY_HAND


def test_keras_killed_and_resumed(path, tmp_path, monkeypatch):
    """Steps that were lost in a crash count."""
    from evr.integrations.keras import Record

    class Dies(Exception):
        pass

    model, config = keras_model()
    saved = tmp_path / "model.weights.h5"
    model.save_weights(saved)
    callback = Record(config, path)
    announce = callback.on_train_batch_begin

    def dies(batch, logs=None):
        announce(batch, logs)
        if batch == 6:
            raise Dies

    monkeypatch.setattr(callback, "on_train_batch_begin", dies)
    with pytest.raises(Dies):
        fit(model, callback, 1)
    callback.close()
    again, _ = keras_model(seed=config.seed)
    again.load_weights(saved)
    assert fit(again, Record(config, path), 1).event.count == 17
