"""``evr.integrations.lightning``: a training as Opacus's example has it, the bugs that people make, kills and ranks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import messages

reason = "needs the extra: pip install evr-dp[lightning]"
pytest.importorskip("opacus", reason=reason, exc_type=ImportError)
pl = pytest.importorskip("lightning.pytorch", reason=reason, exc_type=ImportError)
pytestmark = pytest.mark.filterwarnings("ignore")  # they warn about themselves

import torch
from opacus.data_loader import DPDataLoader
from torch.utils.data import DataLoader

import evr
from evr.errors import RecordError
from evr.integrations.lightning import Record, observed
from integrations.lightning_training import BATCH, NOISE, Classifier, Data, trainer

PROGRAM = Path(__file__).with_name("lightning_training.py")
PATIENCE = 900.0
BY_HAND = evr.dpsgd(noise_multiplier=NOISE, sampling_probability=0.1, steps=20)


@pytest.fixture(autouse=True)
def fresh_seed():
    torch.seed()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "training.record.jsonl"


def fit(path, module=None, data=None, **options):
    callback = Record(path)
    trainer(path.parent, callback, **options).fit(module or Classifier(), data or Data())
    return callback


def test_their_example_with_one_line_added(path, tmp_path):
    callback = fit(path)
    assert callback.record.event == BY_HAND
    certificate = callback.record.certify(delta=1e-5, ledger=tmp_path / "ledger.sqlite")
    assert certificate.accepted
    assert certificate.dp_event() == BY_HAND
    assert "under zero-out adjacency" in certificate.statement


def test_their_other_package_and_data_module(path):
    """Opacus's own data module is for ``pytorch_lightning``, which is the same code by another name."""
    pytorch_lightning: Any = pytest.importorskip("pytorch_lightning")
    from opacus.lightning import DPLightningDataModule

    class Plain(pytorch_lightning.LightningDataModule):
        setup, train_dataloader, batch, poisson = Data.setup, Data.train_dataloader, 20, False

    class Net(pytorch_lightning.LightningModule):
        forward, training_step = Classifier.forward, Classifier.training_step
        configure_optimizers = Classifier.configure_optimizers

        def __init__(self):
            super().__init__()
            self.__dict__.update({name: value for name, value in vars(Classifier()).items() if name != "_modules"})
            self.net = torch.nn.Linear(4, 3)

    callback = Record(path)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_checkpointing": False}
    one = pytorch_lightning.Trainer(max_epochs=2, accelerator="cpu", devices=1, callbacks=[callback], **quiet)
    one.fit(Net(), DPLightningDataModule(Plain()))
    assert callback.record.event == BY_HAND


def test_ten_good_runs_raise_no_alarm(tmp_path):
    for number in range(10):
        callback = fit(tmp_path / f"{number}.jsonl", Classifier(accountant=["evr", "prv"][number % 2]), epochs=1)
        assert callback.record.event.count == 10
        assert [note.what for note in callback.record.notes] == ["generator"]


def test_a_loader_without_a_data_module(path):
    data = Data()
    data.setup()
    with pytest.raises(RecordError, match=messages.OBSERVED_LOADER):
        fit(path, data=data.train_dataloader())
    callback = Record(path)
    trainer(path.parent, callback).fit(Classifier(), observed(data.train_dataloader()))
    assert callback.record.event == BY_HAND


def test_the_data_module_is_left_as_it_was(path):
    data = Data()
    fit(path, data=data)
    assert "train_dataloader" not in vars(data)


# --- bugs -----------------------------------------------------------------------------------------


def test_a_loader_that_does_not_sample(path):
    """The example of Opacus trained like this until 2022 (its issue 313)."""
    with pytest.raises(RecordError, match=messages.about("draws by SequentialSampler and does not sample by Poisson")):
        fit(path, data=Data(poisson=False))


def test_a_rate_that_is_not_that_of_the_loader(path):
    """The module made another loader private than it trains on. Its accountant counts half of the rate; the record has
    the rate that ran.
    """

    class Halves(Classifier):
        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
            other = DataLoader(self.trainer.datamodule.data, batch_size=BATCH // 2)
            options = {"noise_multiplier": NOISE, "max_grad_norm": 1.0}
            made = self.privacy_engine.make_private(module=self, optimizer=optimizer, data_loader=other, **options)
            self.dp = {"model": made[0]}
            return made[1]

    module = Halves()
    assert fit(path, module).record.event == BY_HAND
    assert module.privacy_engine.accountant.history == [(NOISE, 0.05, 20)]


def test_seed_everything_makes_the_noise_public(path, monkeypatch):
    monkeypatch.setenv("PL_GLOBAL_SEED", "42")  # which it sets, for its other processes
    pl.seed_everything(42, verbose=False)
    with pytest.raises(RecordError, match=messages.about("the generator of the noise has the seed 42")):
        fit(path)


def test_no_clipping(path):
    with pytest.raises(RecordError, match=messages.about("clipping is switched off")):
        fit(path, Classifier(clip=float("inf")))


def test_an_empty_batch_that_is_skipped(path):
    class Skips(Data):
        def train_dataloader(self):
            loader = DPDataLoader.from_data_loader(DataLoader(self.data, batch_size=1))
            loader.batch_sampler.steps = 100
            return loader

    class Impatient(Classifier):
        automatic_optimization = False

        def training_step(self, batch, batch_idx):
            if len(batch[1]):
                self.optimizers().zero_grad()
                self.manual_backward(super().training_step(batch, batch_idx))
                self.optimizers().step()

    with pytest.raises(RecordError, match=messages.EMPTY_BATCH_WAS_DROPPED):
        fit(path, Impatient(), Skips(), epochs=1)
    with pytest.raises(RecordError, match=messages.EMPTY_BATCH):
        _ = evr.Record.load(path).event


def test_batches_that_are_accumulated(path):
    with pytest.raises(RecordError, match=messages.about("accumulate_grad_batches=2")):
        fit(path, accumulate_grad_batches=2)


def test_an_adapter_that_is_never_updated(path, caplog):
    class Adapted(Classifier):
        def configure_optimizers(self):
            optimizer = super().configure_optimizers()
            self.adapter = torch.nn.Linear(4, 4)  # no optimizer holds it
            return optimizer

    assert "updates" in [note.what for note in fit(path, Adapted()).record.notes]
    assert "2 of 4 trainable parameters were never updated (adapter.weight, adapter.bias)" in caplog.text


def test_the_same_script_twice(path):
    fit(path)
    with pytest.raises(RecordError, match=messages.about("the record is finished, with 20 steps")):
        fit(path)


# --- crashes, and several processes ---------------------------------------------------------------


def run(*arguments):
    command = [sys.executable, str(PROGRAM), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_killed_and_resumed(path, tmp_path):
    assert run(tmp_path, 3, 17).returncode == 9  # in the second epoch
    assert not evr.Record.load(path).finished
    done = run(tmp_path, 3)
    assert "done 37" in done.stdout, done.stderr  # 10 in the checkpoint, 7 lost, 20 more
    record = evr.Record.load(path)
    assert record.event.count == 37
    assert "7 recorded steps are not in the weights" in "; ".join(note.words for note in record.notes)
    more = run(tmp_path, 4)  # from the last checkpoint, which names the record
    assert "done 47" in more.stdout, more.stderr
    path.write_text("".join(line + "\n" for line in path.read_text().splitlines()[:20]))
    assert "before lines were lost" in run(tmp_path, 5).stderr


def test_two_processes(path, tmp_path):
    done = run(tmp_path, 2, "ddp")
    assert done.returncode == 0, done.stderr
    record = evr.Record.load(path)
    assert (record.ranks, record.event) == (2, BY_HAND)
