"""Records of trainings by Lightning: ``Trainer(callbacks=[evr.integrations.lightning.Record()])``.

Lightning draws its first batch while it sets up the data, before any hook that knows the optimizer. So the callback
looks at the loader when the data module hands it over, and records once the optimizer is there.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

try:
    from lightning.pytorch import Callback
except ImportError:  # the same by its other name
    from pytorch_lightning import Callback

from evr._records.inspecting import Observed, observe
from evr._records.observing import goes_on
from evr._records.reading import Record as ReadRecord
from evr._records.recording import Recording
from evr.errors import RecordError
from evr.integrations import opacus as opacus


def observed(loader: Any) -> Any:
    """The loader itself, observed from now on: for one that is given to ``trainer.fit`` without a data module."""
    observe(loader)
    return loader


class Record(Callback):
    """Records a training whose optimizer Opacus made private, from before the trainer touches the loader.

    The data module's (or the module's) ``train_dataloader`` returns a ``DPDataLoader``. A loader that is given to
    ``trainer.fit`` itself has to be ``observed(loader)``. Checkpoints hold where the record stood and what the
    accountant had counted; a training that is resumed from one continues its record.

    Parameters
    ----------
    path
        The file; each process of a distributed training has its own.
    engine
        The ``PrivacyEngine``. By default the one that is an attribute of the module, if there is one.
    **options
        As of ``evr.record``.

    Attributes
    ----------
    record
        What ran, after a training that ended in order: ``callback.record.certify(delta=1e-5)``.
    """

    def __init__(self, path: str | Path = "training.record.jsonl", *, engine: Any = None, **options: Any) -> None:
        self.path, self.engine, self.options = path, engine, options
        self.record: ReadRecord | None = None
        self._recording: Recording | None = None
        self._state: dict[str, Any] | None = None  # of the checkpoint that the training is resumed from
        self._undo = contextlib.ExitStack()

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Observe the loader as soon as it is made."""
        source = trainer.datamodule or pl_module
        if stage == "fit" and hasattr(source, "train_dataloader"):
            make = source.train_dataloader
            source.train_dataloader = lambda: observed(make())
            self._undo.callback(vars(source).pop, "train_dataloader", None)

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin the record: the optimizer is there, and no step was taken."""
        trainer.fit_loop.setup_data()
        loader, optimizers = trainer.train_dataloader, trainer.optimizers
        if not isinstance(getattr(loader, "batch_sampler", None), Observed):
            raise RecordError(
                f"{type(loader).__name__} was not observed from the start: give the trainer a data module, or "
                "observed(loader) in place of the loader; with several processes, use_distributed_sampler=False"
            )
        if len(optimizers) != 1 or trainer.accumulate_grad_batches != 1:
            given = f"{len(optimizers)} optimizers and accumulate_grad_batches={trainer.accumulate_grad_batches}"
            raise RecordError(f"{given}: a record is of one optimizer that steps on every batch")
        engine = self.engine or _engine_of(pl_module)
        self._recording = goes_on(optimizers[0], loader, self.path, self._state, engine, pl_module, **self.options)

    def state_dict(self) -> dict[str, Any]:
        """For the trainer's checkpoints."""
        return {} if self._recording is None else self._recording.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue the record of the checkpoint."""
        self._state = state_dict or None

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Finish the record."""
        assert self._recording is not None
        self.record = self._recording.finish()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Leave the record as it is: it can be continued."""
        self.teardown(trainer, pl_module, "fit")

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Stop observing."""
        self._undo.close()
        if self._recording is not None and self.record is None:
            self._recording.close()


def _engine_of(module: Any) -> Any:
    """The one attribute of a module that is a ``PrivacyEngine``; None if there is none, or several."""
    from opacus import PrivacyEngine

    engines = [value for value in vars(module).values() if isinstance(value, PrivacyEngine)]
    return engines[0] if len(engines) == 1 else None
