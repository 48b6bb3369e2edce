"""What the two guides share: a small convolutional net on scikit-learn's digits, trained with
Opacus and recorded.

A tenth of the images is left for testing; the other 1,500 are private. The weights that come out
are an average over the second half of the training, which costs no privacy.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from opacus import PrivacyEngine
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evr
import evr.integrations.opacus  # PrivacyEngine(accountant="evr")

EPSILON, DELTA = 3.0, 1e-5
RECORDS, BATCH, STEPS = 1500, 300, 200
CLIP, RATE = 0.5, 2.0


def plan(noise_multiplier: float) -> Any:
    """What the training does, as an event."""
    return evr.dpsgd(noise_multiplier=noise_multiplier, sampling_probability=BATCH / RECORDS, steps=STEPS)


def least_noise() -> float:
    """The least noise multiplier for which the claim can be proved, a little more for safety."""
    return round(1.0005 * evr.calibrate(plan, epsilon=EPSILON, delta=DELTA).value, 4)


def digits() -> tuple[TensorDataset, TensorDataset]:
    """Images in [0, 1] and labels: training and test."""
    data = load_digits()
    images = torch.tensor(data.images / 16.0, dtype=torch.float32)[:, None]
    labels = torch.tensor(data.target)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    train, test = order[:RECORDS], order[RECORDS:]
    return TensorDataset(images[train], labels[train]), TensorDataset(images[test], labels[test])


def net() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2),
        nn.GroupNorm(4, 16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(256, 10),
    )


def train(noise_multiplier: float, record: Path) -> dict[str, torch.Tensor]:
    """Train, write down what happens in ``record``, and return the averaged weights. Writes no
    weights anywhere.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that secure_mode is off: this is an example
        engine = PrivacyEngine(accountant="evr")
        model = net()
        private, optimizer, loader = engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=RATE),
            data_loader=DataLoader(digits()[0], batch_size=BATCH),
            noise_multiplier=noise_multiplier,
            max_grad_norm=CLIP,
        )
        total = {name: torch.zeros_like(value) for name, value in model.state_dict().items()}
        with evr.record(optimizer, loader, record) as recording:
            while recording.steps < STEPS:
                for images, labels in loader:
                    optimizer.zero_grad()
                    nn.functional.cross_entropy(private(images), labels).backward()
                    optimizer.step()
                    if recording.steps > STEPS // 2:
                        for name, value in model.state_dict().items():
                            total[name] += value
                    if recording.steps == STEPS:
                        break
    return {name: value / (STEPS - STEPS // 2) for name, value in total.items()}


def accuracy(weights: dict[str, torch.Tensor]) -> float:
    """On the images that were not trained on."""
    model = net()
    model.load_state_dict(weights)
    images, labels = digits()[1].tensors
    with torch.no_grad():
        return float((model(images).argmax(1) == labels).float().mean())
