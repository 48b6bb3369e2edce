"""``evr.integrations.huggingface``: ``Trainer``, PEFT and Accelerate, the bugs that people make, and kills."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import messages

reason = "needs the extra: pip install evr-dp[huggingface]"
pytest.importorskip("opacus", reason=reason, exc_type=ImportError)
pytest.importorskip("transformers", reason=reason, exc_type=ImportError)
pytestmark = pytest.mark.filterwarnings("ignore")  # they warn about themselves

import torch
from opacus import PrivacyEngine
from opacus.data_loader import DPDataLoader
from torch.utils.data import DataLoader
from transformers import Trainer

import evr
from evr.errors import RecordError
from evr.integrations.huggingface import Private, PrivateTrainer, Record, record
from integrations.huggingface_training import BATCH, NOISE, Sentences, arguments, classifier, language_model, trainer
from integrations.trainings import Training

PROGRAM = Path(__file__).with_name("huggingface_training.py")
PATIENCE = 900.0
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


def test_ten_good_runs_raise_no_alarm(tmp_path):
    """Every fourth batch of them is empty."""
    for number in range(10):
        folder = tmp_path / str(number)
        folder.mkdir()
        one = trainer(folder, per_device_train_batch_size=1, max_steps=15)
        one.train()
        assert one.record.event.count == 15
        assert [note.what for note in one.record.notes] == ["generator"]


def test_another_trainer(tmp_path):
    class Mine(Private, Trainer):
        pass

    one = trainer(tmp_path, kind=Mine)
    one.train()
    assert one.record.event == BY_HAND


def lora(model):
    peft = pytest.importorskip("peft", reason=reason)
    return peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True))


def test_adapters(tmp_path):
    model = lora(language_model())
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


def by_hand(folder, path, *, seed=None, clip=1.0, poisson=True, trains_on=None, **options):
    model = classifier()
    callback = Record(path, **options)
    engine = PrivacyEngine(accountant="evr")
    plain = DataLoader(Sentences(), batch_size=BATCH)
    _, optimizer, loader = engine.make_private(
        module=model.train(),
        optimizer=torch.optim.AdamW([p for p in model.parameters() if p.requires_grad]),
        data_loader=plain,
        noise_multiplier=NOISE,
        max_grad_norm=clip,
        wrap_model=False,
        poisson_sampling=poisson,
    )
    one = ByHand(model, arguments(folder), optimizers=(optimizer, None), callbacks=[callback])
    one.loader = trains_on or loader
    if seed is None:
        torch.seed()
    one.train()
    return callback.record


def test_a_trainer_that_was_made_private_by_hand(tmp_path, path):
    assert by_hand(tmp_path, path).event == BY_HAND


def test_accelerate(path):
    accelerate = pytest.importorskip("accelerate", reason=reason)
    torch.seed()
    training = Training()
    accelerator = accelerate.Accelerator(cpu=True)
    model, optimizer, loader = accelerator.prepare(training.model, training.optimizer, training.loader)
    with record(optimizer, loader, path):
        for _ in range(2):
            for records, labels in loader:
                optimizer.zero_grad()
                accelerator.backward(training.criterion(model(records), labels))
                optimizer.step()
    assert evr.Record.load(path).event == evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.1, steps=20)


# --- bugs -----------------------------------------------------------------------------------------


def test_the_seed_of_training_arguments_makes_the_noise_public(tmp_path, path):
    with pytest.raises(RecordError, match=messages.about("the generator of the noise has the seed 42")):
        by_hand(tmp_path, path, seed=42)


def test_a_rate_that_is_not_that_of_the_loader(tmp_path, path):
    """The optimizer was made for a loader of half the batch: the record has the rate that ran."""
    other = DPDataLoader.from_data_loader(DataLoader(Sentences(), batch_size=2 * BATCH))
    assert by_hand(tmp_path, path, trains_on=other).event.event.sampling_probability == 1 / 3


def test_a_loader_that_shuffles(tmp_path, path):
    with pytest.raises(RecordError, match=messages.about("does not sample by Poisson")):
        by_hand(tmp_path, path, poisson=False)


def test_no_clipping(tmp_path):
    with pytest.raises(RecordError, match=messages.about("clipping is switched off")):
        trainer(tmp_path, max_grad_norm=float("inf")).train()


def test_an_empty_batch_that_is_filled(tmp_path):
    class Impatient(PrivateTrainer):
        def training_step(self, model, inputs, *args, **more):
            if len(inputs["labels"]) == 0:
                inputs = next(iter(DataLoader(Sentences(), batch_size=1)))
            return super().training_step(model, inputs, *args, **more)

    with pytest.raises(RecordError, match=messages.EMPTY_BATCH_WAS_DROPPED):
        trainer(tmp_path, kind=Impatient, per_device_train_batch_size=1).train()
    with pytest.raises(RecordError, match=messages.EMPTY_BATCH):
        _ = evr.Record.load(tmp_path / "training.record.jsonl").event


def test_a_loss_that_weighs_one_record_by_others(tmp_path):
    with pytest.raises(RecordError, match=messages.NUMBERS_OF_LABELS):
        trainer(tmp_path, lora(language_model()), labels="ragged").train()


def test_gradient_accumulation(tmp_path):
    with pytest.raises(RecordError, match=messages.about("gradient_accumulation_steps=2: a step must be on one")):
        trainer(tmp_path, gradient_accumulation_steps=2).train()


def test_adapters_that_are_never_updated(tmp_path, caplog):
    """Such as those of a model that was wrapped after its optimizer was made (Opacus, issue 820)."""

    class Stale(PrivateTrainer):
        def create_optimizer(self, *args, **more):
            head = [p for name, p in self.model.named_parameters() if "lora_B" in name]
            self.optimizer = torch.optim.AdamW(head)
            for name, p in self.model.named_parameters():
                p.requires_grad_("lora_B" in name)
            optimizer = super().create_optimizer(*args, **more)
            for name, p in self.model.named_parameters():
                p.requires_grad_("lora" in name)
            return optimizer

    one = trainer(tmp_path, lora(language_model()), labels="words", kind=Stale)
    one.train()
    assert "updates" in [note.what for note in one.record.notes]
    assert "1 of 2 trainable parameters were never updated" in caplog.text


def test_the_same_script_twice(tmp_path):
    trainer(tmp_path).train()
    with pytest.raises(RecordError, match=messages.about("the record is finished, with 12 steps")):
        trainer(tmp_path).train()


# --- crashes --------------------------------------------------------------------------------------


def run(*arguments):
    command = [sys.executable, str(PROGRAM), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_killed_and_resumed(path, tmp_path):
    assert run(tmp_path, 3, 9).returncode == 9  # in the second epoch
    done = run(tmp_path, 3)
    assert "done 21" in done.stdout, done.stderr  # 6 in the checkpoint, 3 lost, 12 more
    one = evr.Record.load(path)
    assert one.event.count == 21
    assert "3 recorded steps are not in the weights" in "; ".join(note.words for note in one.notes)
    path.write_text("".join(line + "\n" for line in path.read_text().splitlines()[:12]))
    assert "before lines were lost" in run(tmp_path, 4).stderr
