"""Audit a training: 1,000 canaries among the digits, and an attacker who sees every noisy step.

    python examples/opacus/audit.py [--folder out] [--noise-used 2.0]

First ten steps run again without one record, to check the sensitivity. Then the training runs once, with canaries, and
is recorded and certified. The scores of the canaries are written to ``scores.csv``, for ``evr audit``. With less noise
than recorded (``--noise-used``) the audit contradicts the certificate.
"""

from __future__ import annotations

import argparse
import csv
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from digits import BATCH, CLIP, DELTA, RATE, RECORDS, STEPS, digits, net
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader

import evr
from evr.integrations.opacus import Canaries, check_sensitivity

CANARIES, NOISE = 1000, 4.0


def private(model: nn.Module, data: Any) -> Any:
    """What ``make_private`` returns."""
    return PrivacyEngine(accountant="evr").make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=RATE),
        data_loader=DataLoader(data, batch_size=len(data) * BATCH // RECORDS),
        noise_multiplier=NOISE,
        max_grad_norm=CLIP,
    )


def one_step(model: nn.Module, optimizer: Any, batch: Any) -> None:
    images, labels = batch
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("digits"), help="where everything is written")
    parser.add_argument("--noise-used", type=float, help="noise that is really added, past the recorder")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")  # that secure_mode is off: this is an example
    data, _ = digits()

    model, optimizer, loader = private(net(), data)
    checked = check_sensitivity(lambda batch: one_step(model, optimizer, batch), model, optimizer, loader)
    print(f"sensitivity {checked.verdict}: one record changed a step by {checked.ratio:.2f} of what it may")

    canaries = Canaries(CANARIES)
    model, optimizer, loader = private(canaries.model(net()), canaries.dataset(data))
    canaries.watch(optimizer)
    with evr.record(optimizer, loader, chosen.folder / "audited.record.jsonl") as recording:
        add_less_noise(optimizer, chosen.noise_used)
        while recording.steps < STEPS:
            for batch in loader:
                one_step(model, optimizer, batch)
                if recording.steps == STEPS:
                    break

    record = evr.Record.load(chosen.folder / "audited.record.jsonl")
    path = chosen.folder / "audited.certificate.json"
    certificate = record.certify(delta=DELTA, ledger=chosen.folder / "ledger.sqlite", path=path)
    scores = canaries.scores(noise_multiplier=NOISE, sampling_probability=loader.sample_rate)
    with (chosen.folder / "scores.csv").open("w", newline="") as file:
        coins = canaries.included.astype(int).tolist()
        csv.writer(file).writerows([("score", "included"), *zip(scores.tolist(), coins, strict=True)])
    found = evr.audit(scores, canaries.included, certificate, independent=True)
    print(found.sentence)
    sys.exit(3 if found.verdict == "contradicts the certificate" else 0)


def add_less_noise(optimizer: Any, noise: float | None) -> None:
    """A bug that the recorder does not see: the noise is scaled down where Opacus generates it."""
    if noise is not None:
        from opacus.optimizers import optimizer as module

        plain = module._generate_noise
        module._generate_noise = lambda std, **named: plain(std * noise / NOISE, **named)


if __name__ == "__main__":
    main()
