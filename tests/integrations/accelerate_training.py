"""Accelerate's loop, as its quickstart has it, with an optimizer and a loader that Opacus made private, recorded by one
line. Also as a program, for tests that kill it and resume it.

python accelerate_training.py FOLDER EPOCHS
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")

import torch
from accelerate import Accelerator

import evr
from evr.integrations.huggingface import record
from integrations.programs import dies
from integrations.trainings import Training


def train(folder, epochs=2, each=lambda records: True, after=lambda training: None, watched=None, **options):
    """A training whose steps are taken on ``each`` batch that is asked for."""
    training = Training(**options)
    if (folder / "checkpoint.pt").exists():
        training.engine.load_checkpoint(
            path=folder / "checkpoint.pt", module=training.model, optimizer=training.optimizer
        )
    accelerator = Accelerator(cpu=True)
    model, optimizer, loader = accelerator.prepare(training.model, training.optimizer, training.loader)
    with record(optimizer, loader, folder / "training.record.jsonl") as recording:
        if watched is not None:
            recording.watch(watched)
        for _ in range(epochs - len(training.engine.accountant) // len(loader)):
            for records, labels in loader:
                if each(records):
                    optimizer.zero_grad()
                    accelerator.backward(training.criterion(model(records), labels))
                    optimizer.step()
                    after(training)
    return evr.Record.load(folder / "training.record.jsonl")


def main(folder: Path, epochs: int) -> None:
    def after(training):
        if len(training.engine.accountant) % len(training.loader) == 0:
            training.engine.save_checkpoint(
                path=folder / "checkpoint.pt", module=training.model, optimizer=training.optimizer
            )
        dies(len(training.engine.accountant))

    torch.seed()
    print("done", train(folder, epochs, after=after).steps, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
