"""A Keras model made private by JAX Privacy, as its example has it (examples/keras_api_example.py), small, and recorded
by a callback. Also as a program, for tests that kill it and resume it.

python keras_training.py FOLDER EPOCHS
"""

from __future__ import annotations

import os
import secrets
import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")
os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
from jax_privacy import keras_api

from evr.integrations.keras import Record
from integrations.jax_training import data
from integrations.programs import dies

RECORDS, BATCH, NOISE = 400, 40, 1.1


def private_model(records=RECORDS, **changes):
    given = {"epsilon": 1e3, "delta": 1e-5, "clipping_norm": 1.0, "batch_size": BATCH, "train_size": records}
    given |= {"train_steps": 100, "gradient_accumulation_steps": 1, "noise_multiplier": NOISE}
    given |= {"poisson_sampling_in_fit": True, "seed": secrets.randbits(62)}
    config = keras_api.DPKerasConfig(**{**given, **changes})
    model = keras_api.make_private(keras.Sequential([keras.Input((5,)), keras.layers.Dense(1)]), config)
    model.compile(optimizer="sgd", loss="mse")
    return model, config


def fit(model, callback, epochs=2, batch=BATCH, records=RECORDS, more=(), **options):
    features, labels = data(records)
    given = {"epochs": epochs, "callbacks": [callback, *more], "verbose": 0, **options}
    model.fit(features, labels.astype(float), batch, **given)
    return callback.record


def main(folder: Path, epochs: int) -> None:
    """Every epoch leaves a checkpoint."""
    model, config = private_model()
    saved = {int(path.name.split(".")[0]): path for path in folder.glob("*.weights.h5")}
    done = max(saved, default=0)
    if saved:
        model.load_weights(saved[done])
    steps = done * RECORDS // BATCH

    def after(batch, logs):
        nonlocal steps
        steps += 1
        dies(steps)

    more = [
        keras.callbacks.ModelCheckpoint(str(folder / "{epoch}.weights.h5"), save_weights_only=True),
        keras.callbacks.LambdaCallback(on_train_batch_end=after),
    ]
    callback = Record(config, folder / "training.record.jsonl")
    record = fit(model, callback, epochs, more=more, initial_epoch=done)
    print("done", record.steps, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
