"""What evr's accountant and recorder add to a step of an Opacus training, beside Opacus's RDP and
PRV. All in one run.

    python benchmarks/training.py [--steps 15000] [--quick]

Two trainings: the convolutional net of TF Privacy's and Opacus's MNIST example on images of MNIST's
size (random ones: time does not depend on what they show), batches of 256, and the small net of
``examples/opacus`` on images of 8 by 8. The step is timed with nothing else; asking for epsilon
after every step is timed for the whole of a training (Opacus's accountants, whose cost does not
change much, at some of its steps); the recorder by steps with it and without it, one after the
other, and what it waits for the disk by itself.

Seconds are of processor time.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

try:
    import torch
    from opacus import PrivacyEngine
    from opacus.accountants import create_accountant
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    import evr._records
    import evr.integrations.opacus
    from evr.events import opacus_history
except ImportError as missing:
    print(f"skipped: {missing} (pip install evr-dp[opacus])")
    raise SystemExit from None

NOISE, DELTA, RECORDS, BATCH = 1.1, 1e-5, 60_000, 256


def nets() -> dict[str, tuple[Any, int]]:
    tutorial = nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 32),
        nn.ReLU(),
        nn.Linear(32, 10),
    )
    small = nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2),
        nn.GroupNorm(4, 16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(256, 10),
    )
    return {"MNIST's size, batch 256": (tutorial, 28), "digits' size, batch 256": (small, 8)}


class Loop:
    """A training that can be stepped."""

    def __init__(self, model: Any, size: int) -> None:
        data = TensorDataset(torch.rand(20 * BATCH, 1, size, size), torch.randint(0, 10, (20 * BATCH,)))
        self.model, self.optimizer, self.loader = PrivacyEngine(accountant="rdp").make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=DataLoader(data, batch_size=BATCH),
            noise_multiplier=NOISE,
            max_grad_norm=1.0,
        )
        self._batches: Any = iter(())

    def step(self) -> float:
        """Processor seconds that one step takes, the drawing of its batch left out."""
        batch = next(self._batches, None)
        if batch is None:
            self._batches = iter(self.loader)
            batch = next(self._batches)
        start = time.process_time()
        self.optimizer.zero_grad()
        torch.nn.functional.cross_entropy(self.model(batch[0]), batch[1]).backward()
        self.optimizer.step()
        return time.process_time() - start


def epsilons(name: str, steps: int, asked: list[int]) -> tuple[float, dict[int, float]]:
    """Seconds per question, and the answers."""
    accountant, answers = create_accountant(name), {}
    start = time.process_time()
    for step in asked:
        accountant.history = [(NOISE, BATCH / RECORDS, step)]
        answers[step] = accountant.get_epsilon(DELTA)
    return (time.process_time() - start) / len(asked), answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=15_000)
    parser.add_argument("--quick", action="store_true", help="2,000 steps of the accountant, 40 of the training")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    steps, trained = (2000, 40) if chosen.quick else (chosen.steps, 200)

    some = [int(k) for k in np.geomspace(10, steps, 12)]
    cost = {name: epsilons(name, steps, some)[0] for name in ("rdp", "prv")}
    cost["evr"], answers = epsilons("evr", steps, list(range(1, steps + 1)))
    checked = sorted({int(k) for k in np.geomspace(1, steps, 40)} | {steps})
    worst = max(
        abs(answers[k] - evr.estimate_epsilon(opacus_history([(NOISE, BATCH / RECORDS, k)]), DELTA).value)
        for k in checked
    )
    print(f"epsilon after every step of {steps:,}: greatest error of evr's at {len(checked)} steps {worst:.1e}\n")

    print("| training | step | epsilon every step: RDP | PRV | evr | recorder |")
    print("|---|---|---|---|---|---|")
    for title, (model, size) in nets().items():
        torch.seed()
        loop = Loop(model, size)
        for _ in range(5):
            loop.step()
        with tempfile.TemporaryDirectory() as folder:
            fresh = Loop(nets()[title][0], size)
            recording = evr.record(fresh.optimizer, fresh.loader, Path(folder) / "training.record.jsonl")
            both = [(loop.step(), fresh.step()) for _ in range(trained)]
            recording.close()
        step = statistics.median(plain for plain, _ in both)
        added = statistics.median(recorded for _, recorded in both) - step
        shares = " | ".join(
            f"{1e3 * cost[name]:.3g} ms, {100 * cost[name] / step:.2g}%" for name in ("rdp", "prv", "evr")
        )
        print(f"| {title} | {1e3 * step:.1f} ms | {shares} | {1e3 * added:.2g} ms, {100 * added / step:.2g}% |")
    print(f"\nThe recorder waits {1e3 * waited():.2g} ms for the disk at each step, beside that.")


def waited() -> float:
    """Seconds by the clock, less those of the processor, that one line of a record takes."""
    waits = []
    with (
        tempfile.TemporaryDirectory(dir=".") as folder,
        evr._records.Recorder(Path(folder) / "training.record.jsonl") as recorder,
    ):
        for _ in range(100):
            cpu, wall = time.process_time(), time.perf_counter()
            recorder.step(noise_multiplier=NOISE, clipping_norm=1.0, sampling_probability=BATCH / RECORDS)
            waits.append(time.perf_counter() - wall - time.process_time() + cpu)
    return statistics.median(waits)


if __name__ == "__main__":
    main()
