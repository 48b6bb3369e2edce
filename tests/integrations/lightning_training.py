"""A training by Lightning as Opacus's example has it (examples/mnist_lightning.py), small, with one line added: the
callback. Also as a program, for tests that kill it, resume it, or run it in two processes.

python lightning_training.py FOLDER EPOCHS [ddp]
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from opacus import PrivacyEngine
from opacus.data_loader import DPDataLoader
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from evr.integrations.lightning import Record
from integrations.programs import dies

RECORDS, BATCH, NOISE = 200, 20, 1.1


class Data(pl.LightningDataModule):
    def __init__(self, poisson=True, distributed=False, batch=BATCH, records=RECORDS):
        super().__init__()
        self.poisson, self.distributed, self.batch, self.records = poisson, distributed, batch, records

    def setup(self, stage=None):
        draws = torch.Generator().manual_seed(1)
        labels = torch.randint(0, 3, (self.records,), generator=draws)
        self.data = TensorDataset(torch.randn(self.records, 4, generator=draws) + labels[:, None], labels)

    def train_dataloader(self):
        loader = DataLoader(self.data, batch_size=self.batch)
        return DPDataLoader.from_data_loader(loader, distributed=self.distributed) if self.poisson else loader


class Classifier(pl.LightningModule):
    def __init__(self, noise=NOISE, clip=1.0, distributed=False, accountant="evr"):
        super().__init__()
        self.net: nn.Module = nn.Linear(4, 3)
        self.noise, self.clip, self.distributed = noise, clip, distributed
        self.privacy_engine = PrivacyEngine(accountant=accountant)

    def forward(self, x):
        return self.net(x)

    def configure_optimizers(self):
        self.trainer.fit_loop.setup_data()
        loader = self.trainer.train_dataloader
        module = DifferentiallyPrivateDistributedDataParallel(self.net) if self.distributed else self
        hooks, optimizer, _ = self.privacy_engine.make_private(
            module=module,
            optimizer=torch.optim.SGD(self.parameters(), lr=0.1),
            data_loader=loader,
            noise_multiplier=self.noise,
            max_grad_norm=self.clip,
            poisson_sampling=isinstance(loader, DPDataLoader),
        )
        self.dp = {"model": hooks}
        return optimizer

    def training_step(self, batch, batch_idx):
        x, y = batch
        return nn.functional.cross_entropy(self(x), y, reduction="sum") / max(1, len(y))


class Dies(pl.Callback):
    def on_train_batch_end(self, trainer, *_):
        dies(trainer.global_step)


def trainer(folder, *callbacks, epochs=2, **options):
    return pl.Trainer(
        max_epochs=epochs,
        callbacks=list(callbacks),
        default_root_dir=folder,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **{"enable_checkpointing": False, "devices": 1, **options},
    )


def main(folder: Path, epochs: int, how: str) -> None:
    record = Record(folder / "training.record.jsonl")
    ddp = how == "ddp"
    keeps = ModelCheckpoint(folder, save_last=True)
    options = {"devices": 2, "strategy": "ddp", "use_distributed_sampler": False} if ddp else {}
    last = folder / "last.ckpt"
    trainer(folder, record, keeps, Dies(), epochs=epochs, enable_checkpointing=True, **options).fit(
        Classifier(distributed=ddp), Data(distributed=ddp), ckpt_path=last if last.exists() else None
    )
    if not ddp:
        print("done", record.record.steps if record.record else None, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "")
