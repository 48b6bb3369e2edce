"""Bugs planted in small trainings, each caught; and correct trainings, without any alarm (docs/pitfalls.md).

``CAUGHT`` of each kind names the bugs as the table of docs/pitfalls.md does.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("opacus", reason="needs the extra: pip install evr-dp[opacus]", exc_type=ImportError)
pytestmark = pytest.mark.filterwarnings("ignore")

import torch
from opacus.optimizers import optimizer as opacus_optimizer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evr
from evr.errors import RecordError
from evr.integrations.opacus import Canaries, check_sensitivity
from integrations.trainings import RECORDS, Training

PAGE = Path(__file__).parents[2] / "docs" / "pitfalls.md"


# -- neighbour replay ------------------------------------------------------------------------------


def never_clips(training):
    def clip():
        for p in training.optimizer.params:
            p.summed_grad = training.optimizer._get_flat_grad_sample(p).sum(dim=0)

    training.optimizer.clip_and_accumulate = clip
    return lambda batch: training.step(*batch)


def clips_each_layer(training):
    """Each layer to the whole norm: the sum is longer by the root of their number."""

    def clip():
        for p in training.optimizer.params:
            rows = training.optimizer._get_flat_grad_sample(p)
            norms = rows.flatten(1).norm(dim=1).clamp(min=1e-9)
            factors = (training.optimizer.max_grad_norm / norms).clamp(max=1.0)
            p.summed_grad = torch.einsum("n,n...->...", factors, rows)

    training.optimizer.clip_and_accumulate = clip
    return lambda batch: training.step(*batch)


def clips_by_value(training):
    def clip():
        for p in training.optimizer.params:
            p.summed_grad = training.optimizer._get_flat_grad_sample(p).clamp(-1.0, 1.0).sum(dim=0)

    training.optimizer.clip_and_accumulate = clip
    return lambda batch: training.step(*batch)


def clips_the_batch(training):
    """The norm of the sum is clipped, as in training without privacy."""

    def clip():
        for p in training.optimizer.params:
            p.summed_grad = training.optimizer._get_flat_grad_sample(p).sum(dim=0)
        norm = torch.cat([p.summed_grad.flatten() for p in training.optimizer.params]).norm()
        for p in training.optimizer.params:
            p.summed_grad *= min(1.0, training.optimizer.max_grad_norm / float(norm.clamp(min=1e-9)))

    training.optimizer.clip_and_accumulate = clip
    return lambda batch: training.step(*batch)


def clips_at_the_median(training):
    """The clipping norm is computed from the batch."""

    def step(batch):
        records, labels = batch
        training.optimizer.max_grad_norm = float(records.norm(dim=1).median()) if len(records) else 1.0
        training.step(records, labels)

    return step


def divides_by_the_batch(training):
    def step(batch):
        training.optimizer.expected_batch_size = max(1, len(batch[0]))
        training.step(*batch)

    return step


def accumulates_twice(training):
    """Two passes over the same records before one step, each clipped by itself."""

    def step(batch):
        training.optimizer.zero_grad()
        for _ in range(2):
            training.criterion(training.model(batch[0]), batch[1]).backward()
        training.optimizer.step()

    return step


def skips_empty_batches(training):
    return lambda batch: training.step(*batch) if len(batch[0]) else None


def fails_on_empty_batches(training):
    return lambda batch: training.step(batch[0] / batch[0].abs().max(), batch[1])


def normalises_over_the_batch(training):
    """Batch normalisation by hand, past Opacus's validator."""

    def step(batch):
        records, labels = batch
        if len(records) > 1:
            records = (records - records.mean(dim=0)) / (records.std(dim=0) + 1e-3)
        training.step(records, labels)

    return step


def keeps_batch_statistics(training):
    """A buffer follows the data, and training does not even use it."""
    training.model.register_buffer("mean", torch.zeros(4))

    def step(batch):
        if len(batch[0]):
            training.model.mean.mul_(0.9).add_(0.1 * batch[0].mean(dim=0))
        training.step(*batch)

    return step


def mixes_records(training):
    """Mixup: each record is averaged with another."""
    return lambda batch: training.step((batch[0] + batch[0].roll(1, dims=0)) / 2, batch[1])


def schedules_by_the_loss(training):
    def step(batch):
        training.step(*batch)
        with torch.no_grad():
            loss = training.criterion(training.model(batch[0]), batch[1]) if len(batch[0]) else torch.tensor(0.0)
        training.optimizer.param_groups[0]["lr"] = 0.1 / (1.0 + float(loss))
        training.optimizer.step()  # a second step with the gradient of the first

    return step


def steps_past_the_noise(training):
    plain = torch.optim.SGD(training.model.parameters(), lr=0.1)

    def step(batch):
        training.step(*batch)
        plain.zero_grad()
        training.criterion(training.model(batch[0]), batch[1]).backward()
        plain.step()

    return step


def mean_declared_a_sum(training):
    """The loss is a mean over the batch, and Opacus was told that it is a sum."""
    other = Training(loss_reduction="sum")
    vars(training).update(vars(other))
    return lambda batch: training.step(*batch)


def domain_from_the_data(training):
    """The range of a feature is read off the records."""

    def step(batch):
        records, labels = batch
        top = records.abs().max() if len(records) else torch.tensor(1.0)
        training.step(records / top, labels)

    return step


NEIGHBOUR = [
    never_clips,
    clips_each_layer,
    clips_by_value,
    clips_the_batch,
    clips_at_the_median,
    divides_by_the_batch,
    accumulates_twice,
    skips_empty_batches,
    fails_on_empty_batches,
    normalises_over_the_batch,
    keeps_batch_statistics,
    mixes_records,
    schedules_by_the_loss,
    steps_past_the_noise,
    domain_from_the_data,
    mean_declared_a_sum,
]


@pytest.mark.parametrize("plant", NEIGHBOUR, ids=lambda plant: plant.__name__)
def test_neighbour_replay_catches(plant):
    training = Training()
    step = plant(training)
    found = check_sensitivity(step, training.model, training.optimizer, training.loader)
    assert found.verdict == "violated"
    assert found.findings


def test_neighbour_replay_catches_a_record_that_is_not_a_number():
    """Opacus's own clipping lets it through: nan_record."""
    training = Training()
    bad = torch.full((4,), torch.nan), torch.tensor(0)
    found = check_sensitivity(
        lambda batch: training.step(*batch), training.model, training.optimizer, training.loader, record=bad
    )
    assert "the gradient is not finite" in found.findings


# -- the record ------------------------------------------------------------------------------------


def shuffled_batches(folder):
    training = Training(poisson_sampling=False)
    evr.record(training.optimizer, training.loader, folder / "r.jsonl")


def seeded_noise(folder):
    torch.manual_seed(7)
    try:
        training = Training()
        evr.record(training.optimizer, training.loader, folder / "r.jsonl")
    finally:
        torch.seed()


def drops_empty_batches(folder):
    training = Training(records=8, batch=1)
    with evr.record(training.optimizer, training.loader, folder / "r.jsonl"):
        for _ in range(60):
            for records, labels in training.loader:
                if len(records):
                    training.step(records, labels)


def spends_twice(folder):
    """Trains again on the same data, and plans for once."""
    training = Training()
    with evr.record(training.optimizer, training.loader, folder / "r.jsonl"):
        training.epochs(2)
    plan = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.1, steps=10)
    evr.Record.load(folder / "r.jsonl").require(plan)


def less_noise_than_planned(folder):
    training = Training(noise=0.5)
    with evr.record(training.optimizer, training.loader, folder / "r.jsonl"):
        training.epochs()
    plan = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.1, steps=10)
    evr.Record.load(folder / "r.jsonl").require(plan)


def size_is_public(folder):
    """Opacus divides by a function of the number of records, so add-or-remove is not what ran."""
    training = Training()
    with evr.record(training.optimizer, training.loader, folder / "r.jsonl"):
        training.epochs()
    record = evr.Record.load(folder / "r.jsonl")
    record.certify(delta=1e-5, neighboring_relation="add-or-remove", ledger=folder / "l.sqlite")


RECORDED = [shuffled_batches, seeded_noise, drops_empty_batches, spends_twice, less_noise_than_planned, size_is_public]


@pytest.mark.parametrize("plant", RECORDED, ids=lambda plant: plant.__name__)
def test_the_record_catches(plant, tmp_path):
    torch.seed()
    with pytest.raises((RecordError, ValueError)):
        plant(tmp_path)


# -- the audit -------------------------------------------------------------------------------------

CANARIES, STEPS, RATE = 600, 6, 0.5
CLAIMED = evr.dpsgd(noise_multiplier=1.5, sampling_probability=RATE, steps=STEPS)


def audited(monkeypatch=None, plant=None, repeat=1, confidence=0.95):
    """A training with canaries and an attacker who sees every step, and its audit."""
    canaries = Canaries(CANARIES)
    data = canaries.dataset(TensorDataset(torch.randn(RECORDS, 4), torch.randint(0, 3, (RECORDS,))))
    data = torch.utils.data.ConcatDataset([data] * repeat)
    loader = DataLoader(data, batch_size=int(RATE * len(data)))
    training = Training(model=canaries.model(nn.Linear(4, 3)), loader=loader, noise=1.5)
    canaries.watch(training.optimizer)
    if plant is not None:
        plant(monkeypatch, training)
    training.epochs(STEPS // 2)
    scores = canaries.scores(noise_multiplier=1.5, sampling_probability=RATE)
    assert len(canaries._seen) == STEPS
    return evr.audit(scores, canaries.included, CLAIMED, independent=True, confidence=confidence)


def scaled_noise(factor):
    def plant(monkeypatch, training):
        plain = opacus_optimizer._generate_noise
        monkeypatch.setattr(opacus_optimizer, "_generate_noise", lambda std, **named: plain(std=factor * std, **named))

    return plant


def clip_is_not_reached(monkeypatch, training):
    monkeypatch.setattr(training.optimizer, "clip_and_accumulate", lambda: unclipped(training.optimizer))


def unclipped(optimizer):
    for p in optimizer.params:
        p.summed_grad = optimizer._get_flat_grad_sample(p).sum(dim=0)


AUDITED = {
    "too_little_noise": {"plant": scaled_noise(0.4)},
    "no_noise": {"plant": scaled_noise(1e-6)},
    "clip_is_not_reached": {"plant": clip_is_not_reached},
    "records_repeated": {"repeat": 3},
}


@pytest.mark.parametrize("name", AUDITED)
def test_the_audit_catches(name, monkeypatch):
    found = audited(monkeypatch, **AUDITED[name])
    assert found.verdict == "contradicts the certificate"
    assert found.epsilon > found.claimed


# -- no alarm --------------------------------------------------------------------------------------


def by_hand(model):
    """DP-SGD in plain PyTorch: a step, and its optimizer."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(batch):
        optimizer.zero_grad()
        total = [torch.zeros_like(p) for p in model.parameters()]
        for record, label in zip(*batch, strict=True):
            loss = nn.functional.cross_entropy(model(record[None]), label[None])
            gradients = torch.autograd.grad(loss, list(model.parameters()))
            norm = torch.cat([g.flatten() for g in gradients]).norm().clamp(min=1e-9)
            for one, gradient in zip(total, gradients, strict=True):
                one += gradient * min(1.0, 1.0 / float(norm))
        for p, one in zip(model.parameters(), total, strict=True):
            p.grad = (one + torch.randn_like(p)) / 20
        optimizer.step()

    return step, optimizer


def microbatches(training):
    def step(batch):
        parts = list(zip(*(part.split(7) for part in batch), strict=True))
        for number, part in enumerate(parts):
            training.optimizer.signal_skip_step(number < len(parts) - 1)
            training.step(*part)

    return step


def image_net():
    return nn.Sequential(
        nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 4, 2), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(4, 3)
    )


def tokens():
    data = TensorDataset(torch.randint(0, 9, (RECORDS, 5)), torch.randint(0, 3, (RECORDS,)))
    model = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(20, 3))
    return Training(model=model, loader=DataLoader(data, batch_size=20))


def summed(training):
    training.criterion = nn.CrossEntropyLoss(reduction="sum")
    return training


CORRECT = {
    "plain": Training,
    "small norm": lambda: Training(clip=0.01),
    "large norm": lambda: Training(clip=1e4),
    "sum": lambda: summed(Training(loss_reduction="sum")),
    "functorch": lambda: Training(grad_sample_mode="functorch"),
    "ghost": lambda: Training(grad_sample_mode="ghost"),
    "each layer its norm": lambda: Training(clipping="per_layer", clip=[0.5, 0.5]),
    "image net": lambda: Training(model=image_net()),
    "tokens": tokens,
    "generator of its own": lambda: Training(noise_generator=torch.Generator()),
}


@pytest.mark.parametrize("name", CORRECT)
def test_no_alarm(name):
    training = CORRECT[name]()
    before = [p.detach().clone() for p in training.model.parameters()]
    steps = len(training.engine.accountant)
    found = check_sensitivity(lambda batch: training.step(*batch), training.model, training.optimizer, training.loader)
    assert (found.verdict, found.findings) == ("respected", ())
    assert 0 < found.ratio <= 1.001
    assert all(torch.equal(a, b) for a, b in zip(before, training.model.parameters(), strict=True))
    assert len(training.engine.accountant) == steps  # nobody pays for steps that nobody gets


def test_no_alarm_where_batches_are_split():
    training = Training()
    found = check_sensitivity(microbatches(training), training.model, training.optimizer, training.loader)
    assert found.findings == ()


def test_no_alarm_in_plain_pytorch():
    model = nn.Linear(4, 3)
    step, optimizer = by_hand(model)
    data = TensorDataset(torch.randn(RECORDS, 4), torch.randint(0, 3, (RECORDS,)))
    found = check_sensitivity(step, model, optimizer, DataLoader(data, batch_size=20), sensitivity=1 / 20)
    assert (found.verdict, found.findings) == ("respected", ())
    tight = check_sensitivity(step, model, optimizer, DataLoader(data, batch_size=20), sensitivity=0.9 / 20)
    assert tight.verdict == "violated"


def test_dropout_needs_a_replaced_neighbour():
    training = Training(model=nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 3)))
    asked = (lambda batch: training.step(*batch), training.model, training.optimizer, training.loader)
    with pytest.raises(ValueError, match="replaced"):
        check_sensitivity(*asked)
    assert check_sensitivity(*asked, neighbor="replaced").findings == ()


def test_no_alarm_in_an_honest_audit():
    """At confidence 0.999999, which each test of the three has a share of: a failure probability of 1e-6."""
    found = audited(confidence=0.999999)
    assert found.verdict == "consistent"
    assert 0 < found.epsilon < found.claimed


def test_final_weights_tell_too():
    canaries = Canaries(400)
    data = canaries.dataset(TensorDataset(torch.randn(RECORDS, 4), torch.randint(0, 3, (RECORDS,))))
    training = Training(model=canaries.model(nn.Linear(4, 3)), loader=DataLoader(data, batch_size=len(data)), noise=0.2)
    training.epochs(2)
    scores = canaries.scores()
    assert np.mean((scores > np.median(scores)) == canaries.included) > 0.9


def test_bad_input_is_refused(tmp_path):
    training = Training()
    asked = (lambda batch: training.step(*batch), training.model, training.optimizer, training.loader)
    with pytest.raises(ValueError, match="steps"):
        check_sensitivity(*asked, steps=0)
    with pytest.raises(ValueError, match="neighbor"):
        check_sensitivity(*asked, neighbor="gone")
    with pytest.raises(ValueError, match="sensitivity= is missing"):
        check_sensitivity(asked[0], training.model, torch.optim.SGD(training.model.parameters(), 0.1), asked[3])
    with evr.record(training.optimizer, training.loader, tmp_path / "r.jsonl"), pytest.raises(ValueError, match="rec"):
        check_sensitivity(*asked)
    with pytest.raises(TypeError, match="float32"):
        Canaries(1000).dataset(TensorDataset(torch.zeros(3, 4, dtype=torch.uint8)))
    with pytest.raises(ValueError, match="unit"):
        Canaries(10).watch(torch.optim.SGD([nn.Parameter(torch.zeros(1))], 0.1))


def test_the_table_names_every_planted_bug():
    text = PAGE.read_text("utf-8")
    named = set(re.findall(r"`(\w+)`", text))
    planted = {plant.__name__ for plant in (*NEIGHBOUR, *RECORDED)} | set(AUDITED) | {"nan_record"}
    assert planted <= named
    assert len(planted) >= 15
