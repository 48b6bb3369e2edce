"""``evr.integrations.huggingface``: ``Trainer``, PEFT and Accelerate, the bugs that people make, and kills."""

from __future__ import annotations

import pytest

reason = "needs the extra: pip install evr-dp[huggingface]"
pytest.importorskip("opacus", reason=reason, exc_type=ImportError)
pytest.importorskip("transformers", reason=reason, exc_type=ImportError)
pytestmark = pytest.mark.filterwarnings("ignore")  # they warn about themselves

import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader
from transformers import Trainer

import evr
from evr.errors import RecordError
from evr.integrations.huggingface import Private, Record
from integrations.huggingface_training import BATCH, NOISE, Sentences, adapted, arguments, classifier, trainer

BY_HAND = evr.dpsgd(noise_multiplier=NOISE, sampling_probability=1 / 6, steps=12)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "training.record.jsonl"


def test_their_quickstart_with_two_lines_changed(tmp_path):
    one = trainer(tmp_path)
    assert torch.initial_seed() == 42, "TrainingArguments seeds everything; noise and sampling have other generators"
    one.train()
    assert one.record.event == BY_HAND
    assert [note.what for note in one.record.notes] == ["generator"]
    certificate = one.record.certify(delta=1e-5, ledger=tmp_path / "ledger.sqlite")
    assert certificate.accepted
    assert certificate.dp_event() == BY_HAND


def test_another_trainer(tmp_path):
    class Mine(Private, Trainer):
        pass

    one = trainer(tmp_path, kind=Mine)
    one.train()
    assert one.record.event == BY_HAND


def test_adapters(tmp_path):
    pytest.importorskip("peft", reason=reason)
    model = adapted()
    before = {name: value.clone() for name, value in model.named_parameters()}
    one = trainer(tmp_path, model, labels="words")
    one.train()
    assert one.record.event == BY_HAND
    assert [note.what for note in one.record.notes] == ["generator"]
    changed = {name for name, value in model.named_parameters() if not torch.equal(value, before[name])}
    assert changed == {name for name in before if "lora" in name}


def test_the_generators_are_in_no_checkpoint(tmp_path):
    one = trainer(tmp_path, save_strategy="epoch")
    one.train()
    saved = torch.load(tmp_path / "checkpoint-6" / "rng_state.pth", weights_only=False)["cpu"]
    optimizer = one.optimizer.optimizer
    assert not torch.equal(saved, optimizer.generator.get_state())
    assert optimizer.generator.initial_seed() > 2**32


# --- by hand: Record, and Accelerate --------------------------------------------------------------


class ByHand(Trainer):
    loader = None

    def get_train_dataloader(self):
        return self.loader


def by_hand(folder, path, *, poisson=True):
    model = classifier()
    callback = Record(path)
    engine = PrivacyEngine(accountant="evr")
    plain = DataLoader(Sentences(), batch_size=BATCH)
    _, optimizer, loader = engine.make_private(
        module=model.train(),
        optimizer=torch.optim.AdamW([p for p in model.parameters() if p.requires_grad]),
        data_loader=plain,
        noise_multiplier=NOISE,
        max_grad_norm=1.0,
        wrap_model=False,
        poisson_sampling=poisson,
    )
    one = ByHand(model, arguments(folder), optimizers=(optimizer, None), callbacks=[callback])
    one.loader = loader
    torch.seed()
    one.train()
    return callback.record


def test_a_trainer_that_was_made_private_by_hand(tmp_path, path):
    assert by_hand(tmp_path, path).event == BY_HAND


# --- bugs -----------------------------------------------------------------------------------------


def test_a_loader_that_shuffles(tmp_path, path):
    with pytest.raises(RecordError, match="does not sample by Poisson"):
        by_hand(tmp_path, path, poisson=False)


def test_a_loss_that_weighs_one_record_by_others(tmp_path):
    pytest.importorskip("peft", reason=reason)
    with pytest.raises(RecordError, match=r"different numbers of labels.*compute_loss_func="):
        trainer(tmp_path, adapted(), labels="ragged").train()


def test_gradient_accumulation(tmp_path):
    with pytest.raises(RecordError, match="gradient_accumulation_steps=2: a step must be on one"):
        trainer(tmp_path, gradient_accumulation_steps=2).train()


def test_the_same_script_twice(tmp_path):
    trainer(tmp_path).train()
    with pytest.raises(RecordError, match="the record is finished, with 12 steps"):
        trainer(tmp_path).train()
