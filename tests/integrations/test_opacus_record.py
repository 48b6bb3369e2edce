"""``evr.record`` around Opacus: what ran is in the record, and what breaks the accounting is
refused or noted.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from helpers import near

pytest.importorskip("opacus", reason="needs the extra: pip install evr-dp[opacus]", exc_type=ImportError)
pytestmark = pytest.mark.filterwarnings("ignore")  # torch and Opacus warn about themselves

import torch
from dp_accounting import NeighboringRelation
from opacus.data_loader import DPDataLoader
from opacus.schedulers import ExponentialNoise
from opacus.utils.batch_memory_manager import BatchMemoryManager
from opacus.utils.uniform_sampler import UniformWithReplacementSampler
from torch.utils.data import TensorDataset

import evr
from evr._records import chain
from evr.errors import RecordError
from integrations.trainings import Training, same, weights


@pytest.fixture(autouse=True)
def fresh_seed():
    torch.seed()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "training.record.jsonl"


def lines(path, kind):
    return [line for line in map(json.loads, path.read_text().splitlines()) if line["kind"] == kind]


def test_a_training_is_recorded(path):
    training = Training(noise=1.2, clip=0.7)
    with evr.record(training.optimizer, training.loader, path):
        training.epochs(2)
    record = evr.Record.load(path)
    assert record.event == evr.dpsgd(noise_multiplier=1.2, sampling_probability=0.1, steps=20)
    assert {run.clipping_norm for run in record.runs} == {0.7}
    assert record.conditions[0]["sampler"] == "UniformWithReplacementSampler"
    assert record.conditions[0]["poisson"]
    assert [note.what for note in record.notes] == ["generator"]
    assert not any(line["secure"] for line in lines(path, "step"))
    training.epochs(1)  # no longer observed
    assert evr.Record.load(path).steps == 20


@pytest.mark.parametrize("accountant", ["rdp", "prv", "gdp"])
def test_with_any_accountant(path, accountant):
    training = Training(accountant=accountant)
    with pytest.raises(TypeError, match=r"would go unseen: give evr.record\(..., engine=engine\)"):
        evr.record(training.optimizer, training.loader, path)
    with evr.record(training.optimizer, training.loader, path, engine=training.engine):
        training.epochs()
    assert evr.Record.load(path).event.count == 10
    assert sum(steps for *_, steps in training.engine.accountant.history) == 10


@pytest.mark.parametrize("mode", ["hooks", "functorch", "ew", "ghost"])
def test_every_grad_sample_mode(path, mode):
    training = Training(grad_sample_mode=mode)
    with evr.record(training.optimizer, training.loader, path):
        training.epochs(2)
    assert evr.Record.load(path).event.count == 20


def test_clipping_each_layer(path):
    training = Training(clipping="per_layer", clip=[0.6, 0.8])
    with evr.record(training.optimizer, training.loader, path):
        training.epochs()
    record = evr.Record.load(path)
    assert record.runs[0].clipping_norm == near(1.0)
    assert record.event.count == 10


def test_virtual_steps(path):
    training = Training()
    with (
        evr.record(training.optimizer, training.loader, path),
        BatchMemoryManager(
            data_loader=training.loader, max_physical_batch_size=5, optimizer=training.optimizer
        ) as loader,
    ):
        training.epochs(loader=loader)
    assert evr.Record.load(path).event.count == 10
    assert sum(line["skipped"] for line in lines(path, "step")) > 10


def test_the_memory_manager_s_loader_may_be_given(path):
    training = Training()
    with (
        BatchMemoryManager(
            data_loader=training.loader, max_physical_batch_size=5, optimizer=training.optimizer
        ) as loader,
        evr.record(training.optimizer, loader, path),
    ):
        training.epochs(loader=loader)
    assert evr.Record.load(path).event.count == 10


def test_a_schedule_of_noise(path):
    training = Training()
    scheduler = ExponentialNoise(training.optimizer, gamma=0.5)
    with evr.record(training.optimizer, training.loader, path):
        for _ in range(2):
            training.epochs()
            scheduler.step()
    assert [(run.noise_multiplier, run.steps) for run in evr.Record.load(path).runs] == [(1.0, 10), (0.5, 10)]


def test_the_sampler_s_rate_counts_not_the_accountant_s(path):
    """Opacus accounts for one over the number of batches, which rounding makes 1/92 where the
    sampler has 1/93.
    """
    training = Training(records=186, batch=2)
    with evr.record(training.optimizer, training.loader, path):
        training.epochs()
    assert training.loader.batch_sampler.sample_rate == 1 / 93
    assert evr.Record.load(path).runs[0].sampling_probability == 1 / 93
    assert training.engine.accountant.history[0][1] == 1 / 92


def test_divisor_rate_and_steps_are_recorded(path):
    """Opacus computes all three from the number of records: 205 of them make 11 batches."""
    training = Training(records=205)
    with evr.record(training.optimizer, training.loader, path):
        training.epochs(2)
    record = evr.Record.load(path)
    (run,) = record.runs
    assert run.divisor == training.optimizer.expected_batch_size == 205 // 11
    assert (run.sampling_probability, run.steps) == (1 / 11, 22)
    conditions = record.conditions[0]
    assert (conditions["divisor"], conditions["batches_per_epoch"]) == (18.0, 11)
    assert record.relation is NeighboringRelation.REPLACE_SPECIAL
    with pytest.raises(RecordError, match="keeps the number of records private"):
        record.certify(delta=1e-5, neighboring_relation="add-or-remove")


def test_the_guide_says_what_opacus_runs():
    loader = Training(records=60_000, batch=256).loader
    assert (loader.sample_rate, len(loader)) == (1 / 235, 235)
    guide = Path(__file__).parents[2] / "docs" / "guide" / "train_with_opacus.md"
    said = "`sampling_probability=1/235` for `15 * 235 = 3,525` steps, not 256/60,000 for 3,516"
    assert said in guide.read_text("utf-8")


def test_one_record_less_changes_the_divisor():
    """What add-or-remove would have to hide."""
    divisors = [Training(records=n).optimizer.expected_batch_size for n in (220, 219)]
    assert divisors == [20, 19]


def constant_training(divisor):
    """As the guide says: a loader of one's own rate, and a divisor of one's own."""
    data = TensorDataset(torch.randn(205, 4), torch.randint(0, 3, (205,)))
    training = Training(loader=DPDataLoader(data, sample_rate=1 / 10))
    training.optimizer.expected_batch_size = divisor
    return training


CONSTANTS = {"divisor": 20, "sampling_probability": 1 / 10, "steps": 10}


def test_constants(path, tmp_path):
    training = constant_training(20)
    with evr.record(training.optimizer, training.loader, path, constants=CONSTANTS):
        training.epochs()
    record = evr.Record.load(path)
    assert record.relation is NeighboringRelation.ADD_OR_REMOVE_ONE
    certificate = record.certify(delta=1e-5, ledger=tmp_path / "ledger.sqlite")
    assert certificate.neighboring_relation == "add-or-remove"
    assert certificate.record.constants.divisor == 20
    assert record.is_certified_by(certificate)


def test_constants_that_the_training_does_not_have(path):
    training = constant_training(20)
    with evr.record(training.optimizer, training.loader, path, constants=CONSTANTS):
        training.optimizer.expected_batch_size = 19
        before = weights(training)
        with pytest.raises(RecordError, match=r"after step 0: the divisor was 19\.0"):
            training.epochs()
        assert same(before, weights(training))


def test_a_loss_that_is_summed_is_not_divided(path):
    training = Training(loss_reduction="sum")
    with evr.record(training.optimizer, training.loader, path):
        training.epochs()
    assert evr.Record.load(path).runs[0].divisor == 1.0


def test_a_loader_with_workers(path):
    training = Training()
    loader = training.loader
    loader.num_workers, loader.prefetch_factor = 1, 2
    with evr.record(training.optimizer, loader, path):
        training.epochs(2)
        for index, (records, labels) in enumerate(loader):
            if index == 4:  # batches that were fetched ahead are not used
                break
            training.step(records, labels)
    assert evr.Record.load(path).event.count == 24


def test_empty_batches_that_are_stepped_on(path):
    training = Training(records=30, batch=1)
    with evr.record(training.optimizer, training.loader, path):
        training.epochs(3)
    assert evr.Record.load(path).event.count == 90


# -- what breaks the accounting -------------------------------------------------------------------


def shuffled():
    return Training(poisson_sampling=False)


def seeded_noise():
    return Training(noise_generator=torch.Generator().manual_seed(42))


def unseeded_noise():
    return Training(noise_generator=torch.Generator())


def seeded_globally():
    torch.manual_seed(0)
    return Training()


def clipping_off():
    return Training(clip=float("inf"))


def adaptive():
    options = {"target_unclipped_quantile": 0.5, "clipbound_learning_rate": 0.2, "max_clipbound": 5.0}
    return Training(clipping="adaptive", min_clipbound=0.1, unclipped_num_std=1.0, **options)


def no_clipping_method():
    training = Training()
    training.optimizer.clip_and_accumulate = lambda: None
    return training


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (shuffled, "the loader draws by RandomSampler and does not sample by Poisson"),
        (seeded_noise, "the generator of the noise has the seed 42"),
        (unseeded_noise, "the generator of the noise has the seed 67280421310721"),
        (seeded_globally, "the generator of the sampling has the seed 0"),
        (clipping_off, "clipping is switched off: the clipping norm is inf"),
        (adaptive, "adaptive clipping divides by the exact size"),
        (no_clipping_method, "is not Opacus's own"),
    ],
)
def test_refused_before_the_first_step(path, make, words):
    training = make()
    with pytest.raises(RecordError, match=words):
        evr.record(training.optimizer, training.loader, path)
    assert not path.exists()


@pytest.mark.parametrize("make", [shuffled, seeded_noise, adaptive])
def test_noted_and_the_record_has_no_event(path, make):
    training = make()
    with evr.record(training.optimizer, training.loader, path, breaches="note"):
        training.epochs()
    record = evr.Record.load(path)
    assert record.steps == 10
    assert record.breaches
    with pytest.raises(RecordError, match="what ran is not what is accounted for: at the start"):
        _ = record.event


def drop_empty(training):
    for records, labels in training.loader:
        if len(records):
            training.step(records, labels)


def drop_some(training):
    for index, (records, labels) in enumerate(training.loader):
        if index != 3:
            training.step(records, labels)


def cut(training):
    for records, labels in training.loader:
        training.step(records[:5], labels[:5])


def other_data(training):
    training.step(torch.randn(20, 4), torch.zeros(20).long())


def wrapped_optimizer(training):
    training.epochs()
    training.optimizer.original_optimizer.step()


def second_optimizer(training):
    training.epochs()
    torch.optim.SGD(training.model.parameters(), lr=0.1).step()


def seed_in_between(training):
    training.epochs()
    torch.manual_seed(7)
    training.epochs()


def set_back(training):
    state = torch.get_rng_state()
    training.epochs()
    torch.set_rng_state(state)
    training.epochs()


def clip_no_more(training):
    training.epochs()
    training.optimizer.max_grad_norm = float("inf")
    training.epochs()


def no_more_noise_method(training):
    training.epochs()
    training.optimizer.add_noise = lambda: None
    training.epochs()


def hook_lost(training):
    training.epochs()
    training.optimizer.attach_step_hook(lambda optimizer: None)
    training.epochs()


DYNAMIC = {
    drop_empty: "an empty batch was dropped",
    drop_some: "did not use the batch that the sampler drew",
    cut: "did not use the batch that the sampler drew",
    other_data: "a batch that the recorded loader did not give",
    wrapped_optimizer: "the wrapped optimizer stepped by itself",
    second_optimizer: "another optimizer .SGD. stepped on the recorded parameters",
    seed_in_between: "has the seed 7",
    set_back: "the generator of the noise was set back",
    clip_no_more: "clipping is switched off",
    no_more_noise_method: "is not Opacus's own",
    hook_lost: "step hook was replaced",
}


def small(do):
    return Training(records=40, batch=1) if do is drop_empty else Training()


def provoked(do, training):
    do(training)
    training.epochs()  # what a loop did wrong at its end shows at the next step


@pytest.mark.parametrize("do", DYNAMIC, ids=lambda do: do.__name__)
def test_refused_while_training(path, do):
    training = small(do)
    recording = evr.record(training.optimizer, training.loader, path)
    with pytest.raises(RecordError, match=DYNAMIC[do]):
        provoked(do, training)
    recording.close()


@pytest.mark.parametrize("do", DYNAMIC, ids=lambda do: do.__name__)
def test_noted_while_training(path, do):
    if do is clip_no_more:
        pytest.skip("an infinite norm cannot be recorded at all")
    training = small(do)
    with evr.record(training.optimizer, training.loader, path, breaches="note"):
        do(training)
    with pytest.raises(RecordError, match=DYNAMIC[do]):
        _ = evr.Record.load(path).event


def test_a_refused_step_leaves_the_weights_alone(path):
    training = Training()
    with evr.record(training.optimizer, training.loader, path):
        training.epochs()
        before = weights(training)
        with pytest.raises(RecordError):
            training.optimizer.original_optimizer.step()
        assert same(before, weights(training))
    assert evr.Record.load(path).event.count == 10


def test_a_filled_empty_batch_is_a_breach(path):
    training = Training(records=30, batch=1, rand_on_empty=True)
    with (
        pytest.raises(RecordError, match="an empty batch was dropped"),
        evr.record(training.optimizer, training.loader, path),
    ):
        training.epochs(2)
    with pytest.raises(RecordError, match="empty batch"):
        _ = evr.Record.load(path).event


class LastIsEmpty(UniformWithReplacementSampler):
    def __iter__(self):
        yield from ([0, 1], [2], [])


def test_a_class_made_of_the_sampler_is_another_sampler(path):
    training = Training()
    training.loader.batch_sampler.__class__ = LastIsEmpty
    with pytest.raises(RecordError, match="draws by LastIsEmpty and does not sample by Poisson"):
        evr.record(training.optimizer, training.loader, path)


def test_an_empty_batch_dropped_at_the_very_end(path, monkeypatch):
    training = Training()
    monkeypatch.setattr(UniformWithReplacementSampler, "__iter__", LastIsEmpty.__iter__)
    recording = evr.record(training.optimizer, training.loader, path)
    drop_empty(training)
    with pytest.raises(RecordError, match="an empty batch was dropped"):
        recording.finish()
    with pytest.raises(RecordError, match="empty batch"):
        _ = evr.Record.load(path).event


def test_weights_written_by_somebody_else_are_noted(path):
    training = Training()
    with evr.record(training.optimizer, training.loader, path):
        training.epochs()
        with torch.no_grad():
            for p in training.model.parameters():
                p.mul_(0.5)
        training.epochs()
    assert "parameters" in [note.what for note in evr.Record.load(path).notes]


# -- checkpoints ----------------------------------------------------------------------------------


def test_it_goes_on_from_a_checkpoint(path, tmp_path):
    first = Training()
    recording = evr.record(first.optimizer, first.loader, path)
    first.epochs()
    first.engine.save_checkpoint(path=tmp_path / "one.pt", module=first.model, optimizer=first.optimizer)
    first.epochs()  # lost: the process dies here
    recording.close()
    second = Training()
    second.engine.load_checkpoint(path=tmp_path / "one.pt", module=second.model, optimizer=second.optimizer)
    with evr.record(second.optimizer, second.loader, path):
        second.epochs()
    record = evr.Record.load(path)
    assert record.event.count == 30  # the lost ones ran
    assert len(second.engine.accountant) == 20
    assert any("10 recorded steps are not in the weights" in note.words for note in record.notes)


def test_the_checkpoint_may_be_loaded_after_the_recorder_starts(path, tmp_path):
    first = Training()
    with evr.record(first.optimizer, first.loader, path):
        first.epochs()
    first.engine.save_checkpoint(path=tmp_path / "one.pt", module=first.model, optimizer=first.optimizer)
    second = Training()
    with evr.record(second.optimizer, second.loader, path, resume=True):
        second.engine.load_checkpoint(path=tmp_path / "one.pt", module=second.model, optimizer=second.optimizer)
        second.epochs()
    assert evr.Record.load(path).event.count == 20


def test_it_goes_on_after_an_interruption(path, monkeypatch):
    """As in a notebook: the cell that trains is stopped, and run again."""
    training = Training()
    with evr.record(training.optimizer, training.loader, path) as recording:
        training.epochs(1)
        flush, left = chain._sync, iter(range(3))

        def interrupted(number):
            flush(number)
            if next(left, None) is None:
                monkeypatch.setattr(chain, "_sync", flush)
                raise KeyboardInterrupt

        monkeypatch.setattr(chain, "_sync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            training.epochs(1)
        assert recording.steps == 14  # the one that was announced counts
        training.epochs(1)
    record = evr.Record.load(path)
    assert (record.steps, record.breaches) == (24, ())
    assert record.event.count == 24


def test_what_was_interrupted_before_its_noise_is_not_used_again(path, monkeypatch):
    training = Training()
    with evr.record(training.optimizer, training.loader, path) as recording:
        with monkeypatch.context() as patched:

            def interrupted(*_):
                raise KeyboardInterrupt

            patched.setattr(type(training.optimizer), "scale_grad", interrupted)
            with pytest.raises(KeyboardInterrupt):
                training.epochs(1)
        with pytest.raises(RecordError, match="did not use the batch that the sampler drew"):
            training.epochs(1)
        assert recording.steps == 0


def test_a_checkpoint_of_another_training_is_refused(path, tmp_path):
    for number in range(2):
        training = Training()
        with evr.record(training.optimizer, training.loader, tmp_path / f"{number}.jsonl"):
            training.epochs()
        training.engine.save_checkpoint(
            path=tmp_path / f"{number}.pt", module=training.model, optimizer=training.optimizer
        )
    training = Training()
    training.engine.load_checkpoint(path=tmp_path / "0.pt", module=training.model, optimizer=training.optimizer)
    with pytest.raises(RecordError, match="after 10 steps of another record"):
        evr.record(training.optimizer, training.loader, tmp_path / "1.jsonl", resume=True)


def test_steps_before_the_recorder_are_missed(path):
    training = Training()
    training.epochs()
    with pytest.raises(RecordError, match="the accountant has counted 10 steps, and the record holds 0"):
        evr.record(training.optimizer, training.loader, path)


# -- bad input ------------------------------------------------------------------------------------


def test_what_cannot_be_recorded(path):
    training = Training()
    with pytest.raises(TypeError, match="SGD is not recorded: give the optimizer"):
        evr.record(training.optimizer.original_optimizer, training.loader, path)
    with pytest.raises(TypeError, match="list has no batch sampler"):
        evr.record(training.optimizer, [1, 2], path)
    with pytest.raises(ValueError, match="breaches='ignore' is not one of "):
        evr.record(training.optimizer, training.loader, path, breaches=cast(Any, "ignore"))


def test_optimizers_are_known_by_name(path):
    training = Training()
    other = type("FSDPOptimizerFastGradientClipping", (type(training.optimizer),), {})
    training.optimizer.__class__ = other
    with pytest.raises(TypeError, match="FSDPOptimizerFastGradientClipping is not recorded: evr knows"):
        evr.record(training.optimizer, training.loader, path)


# -- what is left as it was -----------------------------------------------------------------------


def test_the_sampler_is_not_touched(path):
    training = Training()
    sampler, loader = training.loader.batch_sampler, training.loader
    with evr.record(training.optimizer, loader, path):
        assert type(sampler) is UniformWithReplacementSampler
        assert isinstance(loader.batch_sampler, UniformWithReplacementSampler)
        training.epochs()
    assert loader.batch_sampler is sampler
    assert type(sampler) is UniformWithReplacementSampler


def test_a_loader_that_was_being_iterated(path):
    training = Training()
    batches = iter(training.loader)
    next(batches)
    with (
        pytest.raises(RecordError, match=r"after step 0: .* record before anything iterates over the loader"),
        evr.record(training.optimizer, training.loader, path),
    ):
        training.step(*next(batches))


# -- another training -----------------------------------------------------------------------------


def test_a_finished_record_is_not_continued_without_a_word(path, tmp_path, caplog):
    for _ in range(2):
        training = Training()
        with evr.record(training.optimizer, training.loader, path, new=True) as recording:
            assert ("the record of this training" in caplog.text) == (recording.path != path)
            training.epochs()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["training.2.record.jsonl", "training.record.jsonl"]
    training = Training()
    with pytest.raises(RecordError, match=r"the record is finished.*with 10 steps.*new=True.*resume=True"):
        evr.record(training.optimizer, training.loader, path)
    with evr.record(training.optimizer, training.loader, path, resume=True):
        training.epochs()
    assert "continued; 10 steps are in it, and they count" in caplog.text
    assert evr.Record.load(path).steps == 20


def test_parameters_that_are_never_updated_are_reported(path, caplog):
    training = Training()
    adapter = torch.nn.Linear(4, 4)
    with evr.record(training.optimizer, training.loader, path) as recording:
        recording.watch(training.model)
        recording.watch(adapter)
        training.epochs()
    (note,) = [note for note in evr.Record.load(path).notes if note.what == "updates"]
    assert note.words == "2 of 4 trainable parameters were never updated (weight, bias)"
    assert note.words in caplog.text
