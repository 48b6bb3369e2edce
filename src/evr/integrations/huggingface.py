"""Hugging Face's ``Trainer``, made private by Opacus and recorded.

``PrivateTrainer`` is one, ``Private`` makes one of another trainer, ``Record`` records one that was made private by
hand. docs/guide/hugging_face.md says what it takes, beside Opacus.
"""

from pathlib import Path
from typing import Any

import torch
from opacus import PrivacyEngine
from opacus.data_loader import DPDataLoader
from opacus.optimizers import DPOptimizer
from transformers import Trainer, TrainerCallback
from transformers.trainer_callback import ExportableState

from evr._records import Record as ReadRecord
from evr._records import Recording
from evr._records import record as observe
from evr.errors import RecordError
from evr.integrations import opacus as opacus
from evr.integrations._following import Follower


def record(optimizer: Any, loader: Any, path: str | Path = "training.record.jsonl", **options: Any) -> Recording:
    """``evr.record`` of what ``accelerator.prepare`` returned: the wrapped optimizer and the wrapped loader."""
    return observe(*_unwrapped(optimizer, loader), path, **options)


def _unwrapped(optimizer: Any, loader: Any) -> tuple[Any, Any]:
    """What Accelerate has wrapped."""
    return getattr(optimizer, "optimizer", optimizer), getattr(loader, "base_dataloader", loader)


class Record(Follower, TrainerCallback, ExportableState):
    """Records a training whose optimizer and loader Opacus made private.

    Give it to ``Trainer(callbacks=[...])``, whose ``optimizers`` has the ``DPOptimizer`` and whose
    ``get_train_dataloader`` returns the ``DPDataLoader``; ``PrivateTrainer`` brings its own. After each step it clears
    the gradients of each record, which ``Trainer`` leaves.
    """

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if args.gradient_accumulation_steps != 1:
            given = f"gradient_accumulation_steps={args.gradient_accumulation_steps}"
            raise RecordError(
                f"{given}: a step must be on one batch. Give its whole size as per_device_train_batch_size"
            )
        if args.n_gpu > 1:
            raise RecordError(f"n_gpu={args.n_gpu}: DataParallel splits batches. Show one GPU (CUDA_VISIBLE_DEVICES=0)")
        saved = state.stateful_callbacks.get(type(self).__name__, {}).get("attributes") if state.global_step else None
        self.begin(*_unwrapped(more["optimizer"], more["train_dataloader"]), more["model"], saved)

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        more["optimizer"].zero_grad()

    def state(self) -> dict[str, Any]:
        return {"args": {}, "attributes": self.state_dict()}


class Private:
    """What makes a ``Trainer`` private: ``class MyTrainer(Private, SFTTrainer)``.

    The clipping norm is ``args.max_grad_norm``; the expected size of a batch is ``args.per_device_train_batch_size``.
    ``evr.calibrate`` finds a ``noise_multiplier``. ``record`` is the file of the record, or a ``Record``; ``engine`` is
    by default one that counts with evr's accountant; ``make_private`` has further options of Opacus's ``make_private``,
    such as ``grad_sample_mode``. Losses and norms of gradients that the trainer logs are not private.
    """

    args: Any
    model: Any
    optimizer: Any

    def __init__(
        self,
        *args: Any,
        noise_multiplier: float,
        record: str | Path | Record = "training.record.jsonl",
        engine: Any = None,
        make_private: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(*args, **more)
        self.privacy_engine = engine or PrivacyEngine(accountant="evr")
        self.recorder = record if isinstance(record, Record) else Record(record, self.privacy_engine)
        self.add_callback(self.recorder)  # type: ignore[attr-defined]
        self.args.ignore_data_skip = True  # batches are drawn afresh: none is left out when a training is resumed
        self._options = {"noise_multiplier": noise_multiplier, "max_grad_norm": self.args.max_grad_norm}
        self._options |= {"wrap_model": False, "noise_generator": _fresh(self.args.device), **(make_private or {})}
        self._sampling = _fresh(torch.device("cpu"))

    @property
    def record(self) -> ReadRecord | None:
        """What ran, after a training that ended in order."""
        return self.recorder.record

    def get_train_dataloader(self) -> Any:
        """Each record is in a batch by its own coin."""
        plain = super().get_train_dataloader()  # type: ignore[misc]
        loader = DPDataLoader.from_data_loader(plain, generator=self._sampling)
        loader.collate_fn([loader.dataset[0]])  # shows it what a batch is like, should the first be empty
        self._loader = loader
        return loader

    def create_optimizer(self, *args: Any, **more: Any) -> Any:
        """The trainer's optimizer, which clips the gradient of each record and adds noise to their sum."""
        super().create_optimizer(*args, **more)  # type: ignore[misc]
        optimizer = getattr(self.optimizer, "optimizer", self.optimizer)
        if not isinstance(optimizer, DPOptimizer):
            module = self.model
            module.train()
            _, self.optimizer, _ = self.privacy_engine.make_private(
                module=module, optimizer=optimizer, data_loader=self._loader, **self._options
            )
        return self.optimizer

    def training_step(self, model: Any, inputs: Any, *args: Any, **more: Any) -> Any:
        """A backward pass; of a batch of no records, which few models take, the gradients are known without one."""
        sizes = {len(value) for value in inputs.values() if torch.is_tensor(value) and value.dim()}
        if sizes != {0}:
            return super().training_step(model, inputs, *args, **more)  # type: ignore[misc]
        for parameter in getattr(self.optimizer, "optimizer", self.optimizer).params:
            parameter.grad_sample = parameter.new_zeros((0, *parameter.shape))
        return torch.zeros((), device=self.args.device)

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **more: Any) -> Any:
        """The trainer's loss, unless it would weigh one record by how many labels others have."""
        labels = inputs.get("labels")
        if model.training and torch.is_tensor(labels) and len(labels) > 1:
            counts = labels.reshape(len(labels), -1).ne(-100).sum(1)
            if not bool((counts == counts[0]).all()) and getattr(self, "compute_loss_func", None) is None:
                raise RecordError(
                    "records of this batch have different numbers of labels, so that the mean over all labels weighs "
                    "one record by the others, which clipping does not bound. Pad or cut every record to the same "
                    "number of labels, or give compute_loss_func= that takes the mean of each record first"
                )
        return super().compute_loss(model, inputs, *args, **more)  # type: ignore[misc]

    def train(self, *args: Any, **more: Any) -> Any:
        """As ever; a training that fails leaves a record that can be continued."""
        try:
            return super().train(*args, **more)  # type: ignore[misc]
        finally:
            self.recorder.close()


class PrivateTrainer(Private, Trainer):
    """``transformers.Trainer`` with differential privacy, recorded: see ``Private``."""


def _fresh(device: Any) -> torch.Generator:
    """A generator with a seed that nobody knows, and that no checkpoint holds."""
    generator = torch.Generator(device=device)
    generator.seed()
    return generator
