"""Every loop that evr follows, by one table: ten good trainings raise no alarm and give the event by hand, five planted
bugs are caught, and a training that was killed goes on.
"""

# mypy: disable-error-code="override,assignment"

from __future__ import annotations

import dataclasses
import importlib.util
import os
import re
import warnings
from typing import Any, ClassVar

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "jax")
pytestmark = pytest.mark.filterwarnings("ignore")  # they warn about themselves

import evr
from evr.errors import EvrError
from helpers import near
from integrations.programs import run

GOOD = [  # noise multiplier, batch, records, epochs; some have empty batches
    (1.1, 20, 200, 2), (0.5, 20, 100, 1), (4.0, 20, 60, 2), (1.1, 1, 20, 1), (1.0, 50, 100, 2),
    (2.0, 5, 60, 1), (1.3, 7, 70, 1), (0.8, 10, 20, 3), (1.1, 2, 30, 1), (1.7, 10, 40, 2),
]  # fmt: skip


class Loop:
    """A loop of somebody's. Bugs raise, or return a record with a note."""

    needs = ""
    program: tuple[Any, ...] = ()  # its name and its arguments; killed after step 17 of 30, where 10 are an epoch
    words: ClassVar[dict[str, str]] = {}  # what is said about each bug

    good: Any  # the record of a good training in a folder: noise, batch, records, epochs, and ways to spoil it


def within(record, noise, rate, steps):
    """What a careful person does who planned another training: compares."""
    record.require(evr.dpsgd(noise_multiplier=noise, sampling_probability=rate, steps=steps))


_OPACUS = {
    "wrong_rate": "sampling probability 0.2; planned were 1.1 and 0.1",
    "public_seed": "the generator of the (noise|sampling) has the seed 42",
    "skipped_empty_batch": "an empty batch was dropped",
    "no_clipping": "clipping is switched off",
    "adapter_never_updated": "trainable parameters were never updated",
}


class Opacus(Loop):
    needs, words, program = "opacus", _OPACUS, ("opacus_training", 30)

    @staticmethod
    def good(folder, noise=1.1, batch=20, records=200, epochs=2, loader=None, watched=None, **options):
        from integrations.trainings import Training

        training = Training(noise=noise, batch=batch, records=records, **options)
        with evr.record(training.optimizer, loader or training.loader, folder / "r.jsonl") as recording:
            if watched is not None:
                recording.watch(watched)
            training.epochs(epochs, loader)
        return evr.Record.load(folder / "r.jsonl")

    def wrong_rate(self, folder):
        from integrations.trainings import Training

        within(self.good(folder, loader=Training(batch=40).loader), 1.1, 0.1, 20)

    def public_seed(self, folder):
        seeded(lambda: self.good(folder))

    def skipped_empty_batch(self, folder):
        from integrations.trainings import Training

        training = Training(records=40, batch=1)
        with evr.record(training.optimizer, training.loader, folder / "r.jsonl"):
            training.epochs(2, [batch for batch in training.loader if len(batch[0])])

    def no_clipping(self, folder):
        self.good(folder, clip=float("inf"))

    def adapter_never_updated(self, folder):
        import torch

        return self.good(folder, watched=torch.nn.Linear(2, 2))


class Accelerate(Opacus):
    needs, program = "accelerate", ("accelerate_training", 3)

    @staticmethod
    def good(folder, noise=1.1, batch=20, records=200, epochs=2, **options):
        from integrations.accelerate_training import train

        return train(folder, epochs, noise=noise, batch=batch, records=records, **options)

    def wrong_rate(self, folder):
        """The loader is of another training than the optimizer."""
        within(self.good(folder, batch=40), 1.1, 0.1, 10)

    def skipped_empty_batch(self, folder):
        self.good(folder, batch=1, records=40, each=len)


class Lightning(Opacus):
    needs, program = "lightning", ("lightning_training", 3)

    @staticmethod
    def good(folder, noise=1.1, batch=20, records=200, epochs=2, module=None, data=None, **options):
        from evr.integrations.lightning import Record
        from integrations.lightning_training import Classifier, Data, trainer

        callback = Record(folder / "r.jsonl")
        one = module or Classifier(noise, **options)
        trainer(folder, callback, epochs=epochs).fit(one, data or Data(batch=batch, records=records))
        return callback.record

    def wrong_rate(self, folder):
        """The module made another loader private than it trains on."""
        from torch.utils.data import DataLoader

        from integrations.lightning_training import Classifier, Data

        class Other(Classifier):
            def configure_optimizers(self):
                import torch

                made = self.privacy_engine.make_private(
                    module=self,
                    optimizer=torch.optim.SGD(self.parameters(), lr=0.1),
                    data_loader=DataLoader(self.trainer.datamodule.data, batch_size=20),
                    noise_multiplier=1.1,
                    max_grad_norm=1.0,
                )
                self.dp = {"model": made[0]}
                return made[1]

        module = Other()
        record = self.good(folder, module=module, data=Data(batch=40), epochs=4)
        assert module.privacy_engine.accountant.history == [(1.1, 0.1, 20)]
        within(record, 1.1, 0.1, 20)

    def skipped_empty_batch(self, folder):
        from integrations.lightning_training import Classifier, Data

        class Impatient(Classifier):
            automatic_optimization = False

            def training_step(self, batch, batch_idx):
                if len(batch[1]):
                    self.optimizers().zero_grad()
                    self.manual_backward(super().training_step(batch, batch_idx))
                    self.optimizers().step()

        self.good(folder, module=Impatient(), data=Data(batch=1, records=100))

    def adapter_never_updated(self, folder):
        from integrations.lightning_training import Classifier

        class Adapted(Classifier):
            def configure_optimizers(self):
                import torch

                optimizer = super().configure_optimizers()
                self.adapter = torch.nn.Linear(4, 4)  # no optimizer holds it
                return optimizer

        return self.good(folder, module=Adapted())


class HuggingFace(Opacus):
    """``PrivateTrainer`` draws from generators of its own, so the bug is one of a trainer that was made by hand."""

    needs, program = "transformers", ("huggingface_training", 5)

    @staticmethod
    def good(folder, noise=1.1, batch=20, records=200, epochs=2, **options):
        from integrations.huggingface_training import trainer

        options = {"per_device_train_batch_size": batch, "num_train_epochs": epochs, **options}
        one = trainer(folder, noise=noise, records=records, **options)
        one.train()
        return one.record

    @staticmethod
    def by_hand(folder, batch=10, seed=None):
        """A trainer whose optimizer is for batches of 10, and that trains on others."""
        import torch
        from opacus.data_loader import DPDataLoader
        from torch.utils.data import DataLoader
        from transformers import Trainer

        from evr.integrations.huggingface import Record
        from integrations.huggingface_training import Sentences, arguments, classifier
        from integrations.trainings import Training

        model, records = classifier().train(), Sentences(records=100)
        made = Training(model=model, loader=DataLoader(records, batch_size=10), noise=1.1, wrap_model=False)
        loader = DPDataLoader.from_data_loader(DataLoader(records, batch_size=batch))
        callback = Record(folder / "r.jsonl")

        class ByHand(Trainer):
            def get_train_dataloader(self):
                return loader

        one = ByHand(model, arguments(folder), optimizers=(made.optimizer, None), callbacks=[callback])
        if seed is None:
            torch.seed()
        one.train()
        return callback.record

    def wrong_rate(self, folder):
        within(self.by_hand(folder, batch=20), 1.1, 0.1, 20)

    def public_seed(self, folder):
        """``TrainingArguments`` seeds everything with 42."""
        self.by_hand(folder, seed=42)

    def skipped_empty_batch(self, folder):
        from torch.utils.data import DataLoader

        from evr.integrations.huggingface import PrivateTrainer

        class Impatient(PrivateTrainer):
            def training_step(self, model, inputs, *args, **more):
                if len(inputs["labels"]) == 0:
                    inputs = next(iter(DataLoader(self.train_dataset, batch_size=1)))
                return super().training_step(model, inputs, *args, **more)

        self.good(folder, batch=1, records=60, epochs=1, kind=Impatient)

    def no_clipping(self, folder):
        self.good(folder, max_grad_norm=float("inf"))

    def adapter_never_updated(self, folder):
        """Such as those of a model that was wrapped after its optimizer was made (Opacus, issue 820)."""
        import torch

        from evr.integrations.huggingface import PrivateTrainer

        class Stale(PrivateTrainer):
            def create_optimizer(self, *args, **more):
                trainable = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
                layer = list(trainable)[-1].rpartition(".")[0]
                self.optimizer = torch.optim.AdamW([p for name, p in trainable.items() if name.startswith(layer)])
                for name, p in trainable.items():
                    p.requires_grad_(name.startswith(layer))
                optimizer = super().create_optimizer(*args, **more)
                for p in trainable.values():
                    p.requires_grad_(True)
                return optimizer

        return self.good(folder, kind=Stale, records=60, batch=20)


class Peft(HuggingFace):
    needs, program = "peft", ("huggingface_training", 5, "peft")

    @staticmethod
    def good(folder, noise=1.1, batch=20, records=200, epochs=2, **options):
        from integrations.huggingface_training import adapted

        return HuggingFace.good(folder, noise, batch, records, epochs, model=adapted(), labels="words", **options)


class Jax(Loop):
    needs, program = "jax_privacy", ("jax_training", 30)
    words: ClassVar[dict[str, str]] = {
        "wrong_rate": "sampling probability 0.2; planned were 1.1 and 0.1",
        "batches_from_elsewhere": "a batch that recording.plan did not draw",
        "public_seed": "the sampler has the seed 7",
        "public_noise": "which draws the keys of the noise, was seeded by hand",
        "skipped_empty_batch": "an empty batch was dropped",
        "no_clipping": "longer than clipping allows",
        "unknown_field": "other fields than evr knows .burn_in",
    }

    @staticmethod
    def good(folder, noise=1.1, batch=20, records=200, epochs=2, **options):
        from evr.integrations.jax import record
        from integrations.jax_training import configuration, train

        steps = epochs * records // batch
        config = configuration(steps, noise_multiplier=noise, sampling_prob=batch / records, normalize_by=batch)
        with record(config, folder / "r.jsonl") as recording:
            train(recording.plan, records=records, **options)
        return evr.Record.load(folder / "r.jsonl")

    def wrong_rate(self, folder):
        within(self.good(folder, batch=40), 1.1, 0.1, 10)

    def batches_from_elsewhere(self, folder):
        draws = np.random.default_rng()
        self.good(folder, batches=lambda _: (draws.choice(200, 40) for _ in range(20)))

    def public_seed(self, folder):
        self.good(folder, rng=7)

    def public_noise(self, folder):
        seeded(lambda: self.good(folder))

    def skipped_empty_batch(self, folder):
        self.good(folder, batch=1, records=60, batches=lambda drawn: (batch for batch in drawn if len(batch)))

    def no_clipping(self, folder):
        import jax

        from integrations.jax_training import loss

        self.good(folder, gradient=lambda weights, x, y, is_padding_example: 1e3 * jax.grad(loss)(weights, x, y))

    def unknown_field(self, folder):
        from evr.integrations.jax import record
        from integrations.jax_training import configuration

        mean = type(configuration())
        fields = [(field.name, Any, None) for field in dataclasses.fields(mean)]
        other = dataclasses.make_dataclass(mean.__name__, [*fields, ("burn_in", Any, 7)])
        other.__module__, other.__qualname__ = mean.__module__, mean.__qualname__
        record(other(), folder / "r.jsonl")


class Keras(Loop):
    needs, program = "keras", ("keras_training", 3)
    words: ClassVar[dict[str, str]] = {
        "wrong_rate": "another configuration",
        "fewer_records_than_said": "train_size",
        "public_seed": "seed=42 looks chosen by hand",
        "public_noise": "which draws the seeds of noise and batches, was seeded by hand",
        "same_batches_again": "this seed has drawn a part of the record already",
        "skipped_empty_batch": "steps were announced, and the model took",
        "no_clipping": "clipping is switched off",
        "shuffled": "set poisson_sampling_in_fit=True",
    }

    @staticmethod
    def good(folder, noise=1.1, batch=20, records=200, epochs=2, said=None, resume=False, trained=None, **changes):
        from evr.integrations.keras import Record
        from integrations.keras_training import fit, private_model

        model, config = private_model(records, noise_multiplier=noise, batch_size=batch, **changes)
        callback = Record(dataclasses.replace(config, **(said or {})), folder / "r.jsonl", resume=resume)
        return fit(model, callback, epochs, batch, trained or records)

    def wrong_rate(self, folder):
        self.good(folder, said={"train_size": 2000})

    def fewer_records_than_said(self, folder):
        self.good(folder, trained=20)

    def public_seed(self, folder):
        self.good(folder, seed=42)

    def public_noise(self, folder):
        seeded(lambda: self.good(folder, seed=None, said={"seed": None}))

    def same_batches_again(self, folder):
        self.good(folder, seed=2**61 + 1)
        self.good(folder, seed=2**61 + 1, resume=True)

    def skipped_empty_batch(self, folder):
        from evr.integrations.keras import Record
        from integrations.keras_training import fit, private_model

        class Twice(Record):  # what a loop looks like that draws a batch and takes no step on it
            def on_train_batch_begin(self, batch, logs=None):
                super().on_train_batch_begin(batch, logs)
                super().on_train_batch_begin(batch, logs)

        model, config = private_model()
        _ = fit(model, Twice(config, folder / "r.jsonl"), 1).event

    def no_clipping(self, folder):
        self.good(folder, clipping_norm=float("inf"))

    def shuffled(self, folder):
        self.good(folder, poisson_sampling_in_fit=False)


class Flower(Loop):
    """Flower's engine runs in test_flower.py; here its accountant is called as its strategies do."""

    needs = "flwr"
    words: ClassVar[dict[str, str]] = {
        "wrong_rate": "population_size=99, and that of the configuration is 200",
        "public_seed": "was seeded by hand",
        "other_neighbours": "Unsupported privacy accounting model",
        "unknown_class": "Weighted is not accounted for",
        "unknown_field": "other keys than evr knows: weight",
        "half_a_state": "is not an event and a count",
    }

    @staticmethod
    def accountant(population=200, method="poisson", relation="add-or-remove-one"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from flwr.serverapp import NeighboringRelation, PrivacyConfig, SamplingMethod

            from evr.integrations.flower import Accountant

        return Accountant(PrivacyConfig(1e-5, population, NeighboringRelation(relation), SamplingMethod(method), 1e3))

    @classmethod
    def good(cls, folder, noise=1.1, batch=20, records=200, epochs=2):
        """A server that is stopped after each epoch of rounds and goes on by its state."""
        from flwr.serverapp import GaussianPrivacyEvent

        one = cls.accountant(records)
        for _ in range(epochs):
            again = cls.accountant(records)
            again.load_state_dict(one.state_dict())
            again.compose(GaussianPrivacyEvent(noise, batch, records), records // batch)
            one = again
        return one

    def wrong_rate(self, folder):
        from flwr.serverapp import GaussianPrivacyEvent

        self.accountant().compose(GaussianPrivacyEvent(1.1, 20, 99))

    def public_seed(self, folder):
        seeded(lambda: self.good(folder))

    def other_neighbours(self, folder):
        self.accountant(relation="replace-one")

    def unknown_class(self, folder):
        from flwr.serverapp import GaussianPrivacyEvent

        @dataclasses.dataclass(frozen=True)
        class Weighted(GaussianPrivacyEvent):
            weight: float = 2.0

        self.accountant().compose(Weighted(1.1, 20, 200))

    def unknown_field(self, folder):
        one = self.good(folder)
        one.load_state_dict({**one.state_dict(), "weight": 2.0})

    def half_a_state(self, folder):
        one = self.good(folder)
        state = one.state_dict()
        one.load_state_dict({**state, "compositions": [{"event": {"noise_multiplier": 1.0}, "count": 1}]})


LOOPS = [Opacus(), Lightning(), HuggingFace(), Peft(), Accelerate(), Jax(), Keras(), Flower()]


def seeded(train):
    """Train as people do who want to have the same numbers again."""
    np.random.seed(42)  # noqa: NPY002
    if importlib.util.find_spec("torch"):
        import torch

        torch.manual_seed(42)
    train()


def needs(loop):
    if importlib.util.find_spec(loop.needs) is None:
        pytest.skip(f"needs {loop.needs}")


def name_of(loop):
    return type(loop).__name__


@pytest.mark.parametrize("number", range(len(GOOD)))
@pytest.mark.parametrize("loop", LOOPS, ids=name_of)
def test_good_trainings_raise_no_alarm(loop, number, tmp_path):
    needs(loop)
    noise, batch, records, epochs = GOOD[number]
    record = loop.good(tmp_path, noise, batch, records, epochs)
    event, steps = record.event, epochs * records // batch
    rate = event.event.sampling_probability
    assert rate == near(batch / records, rel=1e-15)
    assert event == evr.dpsgd(noise_multiplier=noise, sampling_probability=rate, steps=steps)
    if hasattr(record, "notes"):
        assert [note.what for note in record.notes] == ["generator"]
        assert not record.breaches


@pytest.mark.parametrize(
    ("loop", "bug"),
    [pytest.param(loop, bug, id=f"{type(loop).__name__}-{bug}") for loop in LOOPS for bug in loop.words],
)
def test_a_planted_bug_is_caught(loop, bug, tmp_path, caplog):
    needs(loop)
    assert len(loop.words) >= 5
    try:
        record = getattr(loop, bug)(tmp_path)
        said = caplog.text
        assert record is not None, "nobody has noticed"
        assert "updates" in [note.what for note in record.notes], "what is said aloud is noted"
    except (EvrError, ValueError, TypeError) as refused:
        said = str(refused)
    assert re.search(loop.words[bug], said), said
    if bug == "adapter_never_updated":
        return
    for path in tmp_path.glob("*.jsonl"):  # nothing that was refused has an event, nor the plan's
        try:
            event = evr.Record.load(path).event
        except EvrError:
            continue
        assert bug in ("wrong_rate", "same_batches_again"), f"{event} after {bug}"


@pytest.mark.parametrize("loop", [loop for loop in LOOPS if loop.program], ids=name_of)
def test_killed_and_resumed(loop, tmp_path):
    """After the seventh step of the second epoch, or checkpoint; what was lost counts, for it ran."""
    needs(loop)
    program, much, *more = loop.program
    assert run(program, tmp_path, much, *more, dies_after=17).returncode == -9
    path = tmp_path / "training.record.jsonl"
    before = evr.Record.load(path)
    assert not before.finished
    assert before.steps in (17, 18)  # one may have been announced
    done = run(program, tmp_path, much, *more)
    assert done.returncode == 0, done.stderr
    record = evr.Record.load(path)
    lost = record.steps - 30
    assert 3 <= lost <= 8, "the steps since the last checkpoint ran twice"
    assert f"done {record.steps}" in done.stdout or program == "opacus_training"
    assert record.event.count == record.steps
    if not loop.words.keys() & {"public_noise"}:  # a checkpoint of Opacus names the record
        path.write_text("".join(line + "\n" for line in path.read_text().splitlines()[:12]))
        assert "before lines were lost" in run(program, tmp_path, 2 * much, *more).stderr
