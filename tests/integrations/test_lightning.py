"""``evr.integrations.lightning``: a training as Opacus's example has it, the bugs that people make, kills and ranks."""

from __future__ import annotations

from typing import Any

import pytest

reason = "needs the extra: pip install evr-dp[lightning]"
pytest.importorskip("opacus", reason=reason, exc_type=ImportError)
pl = pytest.importorskip("lightning.pytorch", reason=reason, exc_type=ImportError)
pytestmark = pytest.mark.filterwarnings("ignore")  # they warn about themselves

import torch

import evr
from evr.errors import RecordError
from evr.integrations.lightning import Record, observed
from integrations.lightning_training import NOISE, Classifier, Data, trainer
from integrations.programs import run

BY_HAND = evr.dpsgd(noise_multiplier=NOISE, sampling_probability=0.1, steps=20)


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
        setup, train_dataloader, batch, poisson, records = Data.setup, Data.train_dataloader, 20, False, 200

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


def test_a_loader_without_a_data_module(path):
    data = Data()
    data.setup()
    with pytest.raises(RecordError, match=r"DPDataLoader was not observed from the start.*observed\(loader\)"):
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
    with pytest.raises(RecordError, match="draws by SequentialSampler and does not sample by Poisson"):
        fit(path, data=Data(poisson=False))


def test_seed_everything_makes_the_noise_public(path, monkeypatch):
    monkeypatch.setenv("PL_GLOBAL_SEED", "42")  # which it sets, for its other processes
    pl.seed_everything(42, verbose=False)
    with pytest.raises(RecordError, match="the generator of the noise has the seed 42"):
        fit(path)


def test_batches_that_are_accumulated(path):
    with pytest.raises(RecordError, match="accumulate_grad_batches=2"):
        fit(path, accumulate_grad_batches=2)


def test_the_same_script_twice(path):
    fit(path)
    with pytest.raises(RecordError, match="the record is finished, with 20 steps"):
        fit(path)


# --- crashes, and several processes ---------------------------------------------------------------


def test_a_finished_training_goes_on_from_its_checkpoint(path, tmp_path):
    assert "done 10" in run("lightning_training", tmp_path, 1).stdout
    more = run("lightning_training", tmp_path, 2)  # the checkpoint names the record
    assert "done 20" in more.stdout, more.stderr


def test_two_processes(path, tmp_path):
    done = run("lightning_training", tmp_path, 2, "ddp")
    assert done.returncode == 0, done.stderr
    record = evr.Record.load(path)
    assert (record.ranks, record.event) == (2, BY_HAND)
