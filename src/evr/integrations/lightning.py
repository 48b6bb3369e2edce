"""Records of trainings by Lightning: ``Trainer(callbacks=[evr.integrations.lightning.Record()])``. Its hooks keep
Lightning's order: the loader is observed when the data module hands it over, before any hook that knows the optimizer.
"""

import contextlib
from typing import Any

try:
    from lightning.pytorch import Callback
except ImportError:  # the same by its other name
    from pytorch_lightning import Callback

from opacus import PrivacyEngine

from evr._records.inspecting import Observed, observe
from evr.errors import RecordError
from evr.integrations import opacus as opacus
from evr.integrations._following import Follower


def observed(loader: Any) -> Any:
    """The loader itself, observed from now on: for one that is given to ``trainer.fit`` without a data module."""
    observe(loader)
    return loader


class Record(Follower, Callback):
    """Records a training whose optimizer Opacus made private, from before the trainer touches the loader.

    The data module's (or the module's) ``train_dataloader`` returns a ``DPDataLoader``. A loader that is given to
    ``trainer.fit`` itself has to be ``observed(loader)``. The ``PrivacyEngine`` is by default the one that is an
    attribute of the module, if there is one.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
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
        engines = [value for value in vars(pl_module).values() if isinstance(value, PrivacyEngine)]
        self.engine = self.engine or (engines[0] if len(engines) == 1 else None)
        self.begin(optimizers[0], loader, pl_module, self._state)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._state = state_dict or None

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.teardown(trainer, pl_module, "fit")

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._undo.close()
        self.close()
