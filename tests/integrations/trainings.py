"""Small Opacus trainings for the tests: a linear model on random records."""

from __future__ import annotations

import warnings

import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evr.integrations.opacus

RECORDS, BATCH = 200, 20


class Training:
    """A model made private, and its loop."""

    def __init__(self, *, accountant="evr", batch=BATCH, records=RECORDS, noise=1.0, clip=1.0, **options):
        data = TensorDataset(torch.randn(records, 4), torch.randint(0, 3, (records,)))
        loader = options.pop("loader", None) or DataLoader(data, batch_size=batch, shuffle=True)
        model = options.pop("model", None) or nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "Secure RNG turned off"
            self.engine = PrivacyEngine(accountant=accountant)
            made = self.engine.make_private(
                module=model,
                optimizer=optimizer,
                data_loader=loader,
                noise_multiplier=noise,
                max_grad_norm=clip,
                **options,
            )
        self.model, self.optimizer, *criterion, self.loader = made
        self.criterion = criterion[0] if criterion else nn.CrossEntropyLoss()

    def step(self, records, labels):
        self.optimizer.zero_grad()
        self.criterion(self.model(records), labels).backward()
        self.optimizer.step()

    def epochs(self, number=1, loader=None):
        for _ in range(number):
            for records, labels in loader or self.loader:
                self.step(records, labels)


def weights(training):
    return [p.detach().clone() for p in training.model.parameters()]


def same(before, after):
    return all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


assert evr.integrations.opacus.EvrAccountant
