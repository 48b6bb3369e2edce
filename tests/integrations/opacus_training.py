"""A training in a process of its own, for tests that kill it or run several: recorded, with
checkpoints.

python opacus_training.py FOLDER STEPS [PORT RANK RANKS]
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")

import torch
from opacus import PrivacyEngine
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evr
import evr.integrations.opacus
from integrations.programs import dies

EVERY = 7  # steps between checkpoints


def main(folder: Path, steps: int, place: list[str]) -> None:
    torch.manual_seed(1)  # the same data in every process
    data = TensorDataset(torch.randn(120, 4), torch.randint(0, 3, (120,)))
    model: nn.Module = nn.Linear(4, 3)
    torch.seed()
    if place:
        port, rank, ranks = map(int, place)
        torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
        model = DifferentiallyPrivateDistributedDataParallel(model)
    engine = PrivacyEngine(accountant="evr")
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(data, batch_size=20),
        noise_multiplier=1.3,
        max_grad_norm=1.0,
    )
    checkpoint = folder / "checkpoint.pt"
    if checkpoint.exists():
        engine.load_checkpoint(path=checkpoint, module=model, optimizer=optimizer)
    loss = nn.CrossEntropyLoss()
    with evr.record(optimizer, loader, folder / "training.record.jsonl"):
        while len(engine.accountant) < steps:
            for records, labels in loader:
                if len(engine.accountant) == steps:
                    break
                optimizer.zero_grad()
                loss(model(records), labels).backward()
                optimizer.step()
                print("stepped", flush=True)
                dies(len(engine.accountant))
                if len(engine.accountant) % EVERY == 0 and not place:
                    part = folder / "checkpoint.part"
                    engine.save_checkpoint(path=part, module=model, optimizer=optimizer)
                    part.rename(checkpoint)
    print("done", len(engine.accountant), flush=True)
    if place:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
