"""Records of Keras models that JAX Privacy made private: ``model.fit(..., callbacks=[Record(config)])``."""

from pathlib import Path
from typing import Any

import keras

from evr._basics.randomness import refuse_seeded_numpy
from evr._records import Record as ReadRecord
from evr._records import Recorder
from evr.errors import RecordError
from evr.integrations.jax_privacy import from_jax_privacy


class Record(keras.callbacks.Callback):
    """Announces each step of ``fit`` in the file at ``path`` before it happens.

    ``config`` is the ``DPKerasConfig`` of ``keras_api.make_private``, with ``poisson_sampling_in_fit=True``. Options
    are those of ``record`` for JAX loops. A training that goes on needs another ``seed``: ``fit`` begins anew. After a
    training that ended in order, ``record`` is what ran: ``callback.record.certify(delta=1e-5)``.
    """

    def __init__(self, config: Any, path: str | Path = "training.record.jsonl", **options: Any) -> None:
        super().__init__()
        self.config, self.path, self.options = config, path, options
        self.record: ReadRecord | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        config, event = self.config, from_jax_privacy(self.config, neighboring_relation="add-or-remove")
        if not hasattr(self.model, "get_noise_multiplier"):
            raise RecordError("the model is not private: give keras_api.make_private's")
        if self.model._dp_params != config:
            raise RecordError(f"the model was made private with another configuration than {config!r}: give that one")
        if (several := self.model.steps_per_execution) != 1:
            raise RecordError(f"steps_per_execution={several}: a record has each step. Compile the model with 1")
        if config.seed is None:
            refuse_seeded_numpy("the seeds of noise and batches", RecordError)
        self._facts: dict[str, Any] = {
            "noise_multiplier": float(config.noise_multiplier),
            "clipping_norm": float(config.clipping_norm),
            "sampling_probability": float(event.event.sampling_probability),
            "divisor": float(config.batch_size),
        }
        self._before = self._counted()
        self._recorder = Recorder(self.path, {"keras": str(keras.__version__)}, seed=config.seed, **self.options)
        self._begun = self._recorder.steps
        if self._before > self._begun:
            words = f"the model has taken {self._before} steps, and the record holds {self._begun}"
            self._recorder.find("breach", "unrecorded", words)
            raise RecordError(f"{words}: continue the record of those steps")
        self._recorder.find("note", "generator", "the noise is not from a cryptographic generator")

    def _counted(self) -> int:
        """The steps that JAX Privacy counts within the model."""
        (counter,) = [one for one in self.model.non_trainable_variables if one.name == "_optimizer_steps"]
        return int(counter.numpy().item())

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._recorder.step(**self._facts)

    def close(self) -> None:
        """Let go of a record whose ``fit`` raised: Keras tells nobody. It can be continued."""
        self._recorder.close()

    def on_train_end(self, logs: Any = None) -> None:
        """Finish the record, if the model took the steps that were announced."""
        ran, announced = self._counted() - self._before, self._recorder.steps - self._begun
        if ran != announced:
            self._recorder.find("breach", "unseen", f"{announced} steps were announced, and the model took {ran}")
        self.record = self._recorder.finish()
