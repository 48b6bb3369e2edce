"""Records of trainings: appended, sealed, continued; altered ones are refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest
from dp_accounting import dp_event

import evr
from evr._certificate.certificate import Certificate
from evr._records import Recorder
from evr._records.chain import _sealed, rank_path
from evr.errors import CertificateError, LedgerError, RecordError
from forging import assuming

STEP: dict[str, Any] = {"noise_multiplier": 1.0, "clipping_norm": 0.5, "sampling_probability": 0.01}


def write(path, steps=5, finish=True, **options):
    recorder = Recorder(path, {"sampler": "mine"}, **options)
    for _ in range(steps):
        recorder.step(**STEP)
    recorder.finish() if finish else recorder.close()
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "training.record.jsonl"


def test_what_was_written_is_read(path):
    with Recorder(path) as recorder:
        for noise in (1.0, 1.0, 1.0, 2.0, 1.0):
            recorder.step(noise_multiplier=noise, clipping_norm=0.5, sampling_probability=0.01)
        recorder.find("note", "weather", "it rained")
    record = evr.Record.load(path)
    assert [(run.noise_multiplier, run.steps) for run in record.runs] == [(1.0, 3), (2.0, 1), (1.0, 1)]
    assert record.finished
    assert str(record.notes[0]) == "after step 5: it rained"
    assert [phase.count for phase in record.event.events] == [3, 1, 1]
    assert record.event.events[1].event == dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(2.0))


def test_a_clipping_norm_that_changes_leaves_the_event_alone(path):
    with Recorder(path) as recorder:
        for clip in (1.0, 0.5):
            recorder.step(noise_multiplier=1.0, clipping_norm=clip, sampling_probability=0.01)
    record = evr.Record.load(path)
    assert len(record.runs) == 2
    assert record.event == evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=2)


def test_it_continues(path):
    write(path, finish=False)
    write(path, steps=2)
    write(path, steps=1, resume=True)  # after its end, too
    record = evr.Record.load(path)
    assert record.steps == 8
    assert len(record.conditions) == 3
    assert record.event.count == 8


def test_a_line_cut_off_by_a_crash_goes(path):
    write(path, finish=False)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"line": 6, "kind": "st')
    assert evr.Record.load(path).steps == 5
    write(path, steps=1)
    assert evr.Record.load(path).steps == 6
    resumed = json.loads(path.read_bytes()[len(whole) :].splitlines()[0])
    assert (resumed["kind"], resumed["cut_off"]) == ("resumed", 23)


@pytest.mark.parametrize("written", [True, False], ids=["after it was written", "in the middle of a line"])
def test_an_interruption_loses_nothing(path, monkeypatch, written):
    recorder = Recorder(path)
    recorder.step(**STEP)

    def interrupted(number):
        if not written:
            os.truncate(number, os.fstat(number).st_size - 20)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("evr._records.chain._sync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            recorder.step(**STEP)
    assert recorder.steps == 1 + written
    recorder.step(**STEP)
    assert recorder.finish().steps == 2 + written


def test_a_full_disk_loses_nothing(path, monkeypatch):
    recorder = Recorder(path)
    recorder.step(**STEP)

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("evr._records.chain._sync", full)
        with pytest.raises(RecordError, match="could not be written"):
            recorder.step(**STEP)
    recorder.step(**STEP)
    assert recorder.finish().steps == 3


def tamper_noise(lines):
    lines[2] = lines[2].replace('"noise_multiplier": 1.0', '"noise_multiplier": 2.0')


def tamper_drop(lines):
    del lines[3]


def tamper_swap(lines):
    lines[2], lines[3] = lines[3], lines[2]


def tamper_repeat(lines):
    lines.insert(3, lines[3])


def tamper_start(lines):
    del lines[0]


def tamper_and_seal_again(lines):
    """One line, with a seal that is right for it: the next line's is not."""
    line = {**json.loads(lines[2]), "noise_multiplier": 2.0}
    del line["seal"]
    lines[2] = json.dumps({**line, "seal": _sealed(line, [json.loads(lines[1])["seal"]])})


def tamper_rubbish(lines):
    lines[1] = "rubbish"


@pytest.mark.parametrize(
    "tamper",
    [tamper_noise, tamper_drop, tamper_swap, tamper_repeat, tamper_start, tamper_rubbish, tamper_and_seal_again],
)
def test_an_altered_record_is_refused(path, tamper):
    lines = write(path).read_text().splitlines()
    tamper(lines)
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(RecordError, match="not what was written"):
        evr.Record.load(path)
    with pytest.raises(RecordError, match="not what was written"):
        Recorder(path)


def test_lost_lines_at_the_end_leave_no_event(path):
    lines = write(path).read_text().splitlines()
    path.write_text("\n".join(lines[:-3]) + "\n")
    record = evr.Record.load(path)
    assert record.steps == 3
    with pytest.raises(RecordError, match="not finished"):
        _ = record.event


def test_a_checkpoint_tells_lost_lines(path):
    write(path, finish=False)
    recorder = Recorder(path)
    mark = recorder.mark
    recorder.close()
    recorder = Recorder(path)
    recorder.require(mark)
    recorder.close()
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:4]) + "\n")
    recorder = Recorder(path)
    with pytest.raises(RecordError, match="after 5 steps of another record, or of this one before lines were lost"):
        recorder.require(mark)
    recorder.close()


def test_breaches_leave_no_event(path):
    with Recorder(path) as recorder:
        recorder.step(**STEP)
        recorder.find("breach", "seed", "the noise is known")
    with pytest.raises(RecordError, match="after step 1: the noise is known"):
        _ = evr.Record.load(path).event


def test_numbers_that_are_none_are_refused(path):
    recorder = Recorder(path)
    with pytest.raises(RecordError, match="finite numbers"):
        recorder.step(noise_multiplier=1.0, clipping_norm=float("inf"), sampling_probability=0.01)
    assert recorder.steps == 0  # it was not written
    recorder.close()
    with pytest.raises(RecordError, match="closed"):
        recorder.step(**STEP)


def test_what_is_no_record(path):
    with pytest.raises(RecordError, match="cannot be read"):
        evr.Record.load(path)
    path.write_text("")
    with pytest.raises(RecordError, match="not a record"):
        evr.Record.load(path)
    with pytest.raises(RecordError, match="cannot be written"):
        Recorder(path / "no" / "folder")


def test_a_finished_record_is_not_continued_by_accident(path, tmp_path):
    write(path, steps=10)
    with pytest.raises(RecordError, match=r"the record is finished.*with 10 steps.*new=True.*resume=True"):
        Recorder(path)
    certified(path)
    with pytest.raises(RecordError, match="the record is finished and certified, with 10 steps"):
        Recorder(path)
    assert evr.Record.load(write(path, steps=1, resume=True)).steps == 11


def test_a_seed_draws_one_part_of_a_record_only(path):
    """The seed itself is not in the file."""
    for seed in (2**60 + 1, 2**60 + 2, None, None):
        Recorder(path, seed=seed).close()
    with pytest.raises(RecordError, match="this seed has drawn a part of the record already"):
        Recorder(path, seed=2**60 + 1)
    assert str(2**60) not in path.read_text()
    Recorder(path.with_name("other.jsonl"), seed=2**60 + 1).close()


def test_two_writers_at_once_are_refused(path):
    recorder = Recorder(path)
    with pytest.raises(RecordError, match="being written already"):
        Recorder(path)
    recorder.close()
    Recorder(path).close()


def moved(path):
    path.rename(path.with_name("elsewhere"))


def replaced(path):
    moved(path)
    write(path, steps=1)  # of another training


def shortened(path):
    os.truncate(path, path.stat().st_size // 2)


def lengthened(path):
    with path.open("a") as file:
        file.write("{}\n")


@pytest.mark.parametrize("happens", [moved, replaced, shortened, lengthened])
def test_no_step_follows_where_its_line_would_not_be_found(path, happens):
    """Else ``finish`` would read the record of fewer steps than ran."""
    recorder = Recorder(path)
    recorder.step(**STEP)
    happens(path)
    for write_on in (lambda: recorder.step(**STEP), recorder.finish):
        with pytest.raises(RecordError, match="moved, deleted or changed while it was open"):
            write_on()


def test_a_training_that_changes_its_folder(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorder = Recorder(path.name)
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir("inner")
    recorder.step(**STEP)
    assert recorder.finish().steps == 1


def test_ranks_agree_or_are_refused(path):
    for rank in range(2):
        write(rank_path(path, rank), rank=rank, ranks=2, run="one")
    record = evr.Record.load(path)
    assert (record.rank, record.ranks, record.steps, record.event.count) == (None, 2, 5, 5)
    with pytest.raises(RecordError, match="rank 1 of 2: load all"):
        _ = evr.Record.load(rank_path(path, 1)).event
    rank_path(path, 1).rename(path.parent / "elsewhere")
    with pytest.raises(RecordError, match="of 2 processes there are records of 0"):
        evr.Record.load(path)


def test_a_number_of_ranks_that_nobody_can_list(path):
    write(rank_path(path, 0), ranks=10**12, run="together")
    with pytest.raises(RecordError, match="of 1000000000000 processes there are records of 0"):
        evr.Record.load(path)


def test_ranks_of_a_file_whose_name_is_a_pattern(tmp_path):
    path = tmp_path / "run[1].record.jsonl"
    for rank in range(2):
        write(rank_path(path, rank), rank=rank, ranks=2, run="together")
    assert evr.Record.load(path).steps == 5


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no such file here")
def test_a_file_without_end_is_not_read(path):
    path.symlink_to("/dev/zero")
    with pytest.raises(RecordError, match="not a regular file"):
        evr.Record.load(path)


def test_a_kind_of_line_that_is_no_word(path):
    write(path)
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    del lines[-1]["seal"]
    lines[-1]["kind"] = []
    seal = _sealed(lines[-1], [lines[-2]["seal"]])
    lines[-1]["seal"] = seal
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    with pytest.raises(RecordError, match="is not a kind of line"):
        evr.Record.load(path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"run": "another"}, "run"),
        ({"steps": 4}, "runs"),
        ({"finish": False}, "finished"),
        ({"step": {**STEP, "noise_multiplier": 0.9}}, "runs"),
        ({"step": {**STEP, "sampling_probability": 0.02}}, "runs"),
    ],
)
def test_ranks_that_differ(path, monkeypatch, changes, words):
    write(rank_path(path, 0), rank=0, ranks=2, run="one")
    changed = changes.pop("step", None)
    if changed:
        monkeypatch.setattr(sys.modules[__name__], "STEP", changed)
    write(rank_path(path, 1), **{"rank": 1, "ranks": 2, "run": "one", **changes})
    with pytest.raises(RecordError, match=f"ranks 0 and 1 differ in {words}"):
        evr.Record.load(path)


def test_another_rank_cannot_continue(path):
    write(path, rank=0, ranks=2, finish=False)
    with pytest.raises(RecordError, match=r"begun with .'rank': 0, .* and .'rank': 1, "):
        Recorder(path, rank=1, ranks=2)


def plan(noise=1.0, rate=0.01, steps=5):
    return evr.dpsgd(noise_multiplier=noise, sampling_probability=rate, steps=steps)


def test_a_record_within_its_plan(path):
    record = evr.Record.load(write(path))
    for good in (
        plan(),
        plan(noise=0.9),
        plan(rate=0.02),
        plan(steps=9),
        dp_event.ComposedDpEvent([plan(steps=3)] * 2),
    ):
        record.require(good)
    for bad, words in (
        (plan(noise=1.1), "step 1 had noise multiplier 1.0"),
        (plan(rate=0.005), "planned were 1.0 and 0.005"),
        (plan(steps=4), "5 steps ran, and 4 were planned"),
        (dp_event.ComposedDpEvent([plan(steps=3), plan(noise=2.0)]), "step 4 had"),
        (dp_event.LaplaceDpEvent(1.0), "is not DP-SGD with Poisson sampling"),
    ):
        with pytest.raises(RecordError, match=words):
            record.require(bad)


def test_the_certificate_is_about_the_record(path, tmp_path):
    record = evr.Record.load(write(path))
    file = tmp_path / "one.certificate.json"
    record.certify(delta=1e-6, tau=0.5, ledger=tmp_path / "ledger.sqlite", path=file)
    certificate = evr.Certificate.load(file)
    assert record.is_certified_by(certificate)  # at once
    record.add(certificate)  # named already
    assert record.certificates == (certificate.digest,)
    assert evr.Record.load(path).is_certified_by(certificate)
    assert record.event == certificate.dp_event()
    # the same event, another training
    assert not evr.Record.load(write(tmp_path / "twin.jsonl")).is_certified_by(certificate)
    longer = evr.Record.load(write(path, steps=1, resume=True))  # trained on: the certificate is of less
    with pytest.raises(RecordError, match="changed since it was read"):
        record.is_certified_by(certificate)
    assert certificate.digest in longer.certificates
    assert not longer.is_certified_by(certificate)
    with pytest.raises(RecordError, match="of another event"):
        longer.add(certificate)


def certified(path, **options):
    folder = path.parent
    return evr.Record.load(path).certify(delta=1e-6, ledger=folder / "ledger.sqlite", **options)


def test_a_certificate_names_its_record(path):
    with Recorder(path) as recorder:
        recorder.step(**STEP)
        recorder.find("note", "weather", "it rained")
    record, certificate = evr.Record.load(path), certified(path)
    assert certificate.record.seals == list(record.seals)
    assert certificate.record.steps == 1
    assert certificate.record.notes == ["generator", "other"]
    assert f"whose last seal begins with {record.seals[0][:16]}" in certificate.statement
    assert "its generator is not cryptographic" in certificate.statement
    assert "rained" not in certificate.to_json()  # words of others stay in the record
    replayed = evr.replay(certificate)
    assert replayed.agrees
    assert "does not read the record" in replayed.notes[0]


def test_a_record_is_certified_more_than_once(path):
    record = evr.Record.load(write(path))
    ledger = path.parent / "ledger.sqlite"
    first, second = (record.certify(delta=delta, ledger=ledger) for delta in (1e-6, 1e-5))
    assert record.is_certified_by(first)
    assert record.is_certified_by(second)
    assert first.record == second.record


def test_noise_of_a_cryptographic_generator_is_not_noted(path):
    with Recorder(path) as recorder:
        recorder.step(**STEP, secure=True)
    assert certified(path).record.notes == []


def test_the_certificate_of_several_processes_names_all_their_files(path):
    for rank in range(2):
        write(rank_path(path, rank), rank=rank, ranks=2, run="one")
    record = evr.Record.load(path)
    certificate = certified(path)
    assert len(certificate.record.seals) == 2
    assert "(and those of 1 more process)" in certificate.statement
    assert record.is_certified_by(certificate)


def test_the_gate_names_the_record(path):
    record = evr.Record.load(write(path))
    options = {"epsilon": 1.0, "delta": 1e-6, "ledger": path.parent / "ledger.sqlite"}
    out = record.release(lambda: "weights", **options)
    certificate = out.certificate
    assert out.value == "weights"
    assert record.is_certified_by(certificate)
    assert certificate.record.steps == 5
    assert certificate.neighboring_relation == "zero-out"
    with pytest.raises(RecordError, match="keeps the number of records private"):
        record.release(lambda: "weights", **options, neighboring_relation="add-or-remove")


# -- what must not depend on the number of records -------------------------------------------------

FIXED: dict[str, Any] = {"divisor": 20, "sampling_probability": 0.01, "steps": 5}


def test_without_constants_the_number_of_records_is_public(path):
    certificate = certified(write(path))
    assert certificate.neighboring_relation == "zero-out"
    assert certificate.record.constants is None
    assert "the number of records is public" in certificate.statement
    same = evr.certify(plan(), delta=1e-6, ledger=path.parent / "other.sqlite")
    assert same.guarantee == certificate.guarantee  # no number changes
    with pytest.raises(
        RecordError, match=r"the number of records included; this record does not say so\. Certify under"
    ):
        certified(path, neighboring_relation="add-or-remove")


def test_with_constants_it_is_private(path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "STEP", {**STEP, "divisor": 20.0})
    record = evr.Record.load(write(path, constants=FIXED))
    assert record.relation.name == "ADD_OR_REMOVE_ONE"
    certificate = certified(path)
    assert certificate.neighboring_relation == "add-or-remove"
    assert certificate.record.constants.model_dump() == FIXED
    assert "did not depend on the data, the number of records included" in certificate.statement
    assert evr.replay(certificate).agrees
    assert certified(path, neighboring_relation="zero-out").record.constants is not None


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({}, "the divisor was not recorded, and the constant is 20.0"),
        ({"divisor": 19.0}, "the divisor was 19.0, and the constant is 20.0"),
        (
            {"divisor": 20.0, "sampling_probability": 0.02},
            "the sampling probability was 0.02, and the constant is 0.01",
        ),
    ],
)
def test_a_step_that_differs_from_the_constants_is_refused(path, step, words):
    recorder = Recorder(path, constants=FIXED)
    with pytest.raises(RecordError, match=words):
        recorder.step(**{**STEP, **step})
    recorder.finish()
    assert evr.Record.load(path).steps == 0


@pytest.mark.parametrize("steps", [4, 6])
def test_another_number_of_steps_than_the_constant(path, monkeypatch, steps):
    monkeypatch.setattr(sys.modules[__name__], "STEP", {**STEP, "divisor": 20.0})
    assert certified(write(path, steps, constants=FIXED)).neighboring_relation == "zero-out"
    with pytest.raises(RecordError, match=f"{steps} steps ran, and the constant is 5"):
        certified(path, neighboring_relation="add-or-remove")


def test_steps_lost_in_a_crash_run_again(path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "STEP", {**STEP, "divisor": 20.0})
    write(path, 3, finish=False, constants=FIXED)
    for other in (None, {**FIXED, "steps": 9}):
        with pytest.raises(RecordError, match="continue it with the same"):
            Recorder(path, constants=other)
    record = evr.Record.load(write(path, 3, constants=FIXED))
    assert (record.steps, record.relation.name) == (6, "REPLACE_SPECIAL")  # how many were lost is no constant
    with pytest.raises(RecordError, match="6 steps ran, and the constant is 5"):
        certified(path, neighboring_relation="add-or-remove")


@pytest.mark.parametrize("bad", [{"divisor": 1}, {**FIXED, "steps": 0}, {**FIXED, "rate": 1}, 3])
def test_what_are_not_constants(path, bad):
    with pytest.raises(ValueError, match="steps"):
        Recorder(path, constants=bad)
    assert not path.exists()


def forged(certificate, **changes):
    """A certificate whose document was altered, with everything mended that can be."""
    return Certificate.sealed(assuming({**certificate.document(), **changes}))


def test_a_forged_record_does_not_strengthen_the_claim(path):
    certificate = certified(write(path))
    section = certificate.document()["record"]
    forgeries: dict[str, dict[str, Any]] = {
        "neighboring_relation": {"neighboring_relation": "add-or-remove"},
        "record.steps": {"record": {**section, "steps": 50}},
        "record.constants": {
            "neighboring_relation": "add-or-remove",
            "record": {**section, "constants": {**FIXED, "divisor": 20.0, "steps": 6}},
        },
    }
    for field, changes in forgeries.items():
        for fresh in (False, True):
            found = evr.replay(forged(certificate, **changes), fresh=fresh)
            assert field in [one.field for one in found.mismatches]
    # nobody but the record tells these; a statement says that a replay does not see it
    record = evr.Record.load(path)
    for changes in ({"seals": ["0" * 64]}, {"notes": []}, {"constants": {**FIXED, "divisor": 20.0}}):
        altered = forged(certificate, record={**section, **changes})
        assert evr.replay(altered).agrees
        assert "a replay does not read the record" in altered.statement
        assert not record.is_certified_by(altered)
    with pytest.raises(CertificateError, match=r"record\.notes\.0='all is well' is not as evr writes it"):
        Certificate.sealed({**certificate.document(), "record": {**section, "notes": ["all is well"]}})


def test_a_section_of_another_record_is_told_though_it_is_named(path):
    certificate = certified(write(path))
    section = certificate.document()["record"]
    altered = forged(certificate, record={**section, "seals": ["0" * 64]})
    record = evr.Record.load(path)
    record.add(altered)
    assert altered.digest in record.certificates
    assert not record.is_certified_by(altered)


KILLED = """
import sys
from evr._records import Recorder
with Recorder(sys.argv[1]) as recorder:
    while True:
        recorder.step(noise_multiplier=1.0, clipping_norm=1.0, sampling_probability=0.01)
        print(recorder.steps, flush=True)
"""


def test_a_writer_that_is_killed_loses_nothing(path):
    said = 0
    for _ in range(2):
        command = [sys.executable, "-c", KILLED, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            for line in child.stdout:
                said = int(line)
                if said % 40 == 0:
                    break
            os.kill(child.pid, signal.SIGKILL)
            said = max([said, *map(int, child.stdout)])  # what was still in the pipe
        record = evr.Record.load(path)
        assert said <= record.steps <= said + 1
        said = record.steps
    write(path, steps=0)
    assert evr.Record.load(path).event.count == said


def test_a_budget_takes_records_with_and_without_constants(path, tmp_path):
    """A budget is under zero-out unless it says otherwise, which every record supports at the same epsilon."""
    budget = evr.Budget.create("data", epsilon=1.0, delta=1e-5, ledger=tmp_path / "ledger.sqlite")
    constants = {"divisor": 10.0, "sampling_probability": 0.01, "steps": 5}
    with Recorder(tmp_path / "constant.jsonl", constants=constants) as recorder:
        for _ in range(5):
            recorder.step(**STEP, divisor=10.0)
    fixed, plain = evr.Record.load(tmp_path / "constant.jsonl"), evr.Record.load(write(path))
    assert fixed.relation is not plain.relation
    epsilons = [one.certify(delta=1e-5, budget=budget).guarantee.epsilon for one in (fixed, plain)]
    assert epsilons[0] == epsilons[1]
    evr.Budget.create("strict", epsilon=1.0, delta=1e-5, neighboring_relation="add-or-remove", ledger=budget.ledger)
    assert fixed.certify(delta=1e-5, budget="strict", ledger=budget.ledger).budget.name == "strict"
    with pytest.raises(RecordError, match="give the recorder these constants before the training"):
        plain.certify(delta=1e-5, budget="strict", ledger=budget.ledger)


def test_a_record_that_was_spent_twice_is_taken_back_once(path, tmp_path):
    budget = evr.Budget.create("data", epsilon=1.0, delta=1e-5, ledger=tmp_path / "ledger.sqlite")
    other = evr.Record.load(write(tmp_path / "other.jsonl", 4))
    record = evr.Record.load(write(path))
    for spent in (record, other, record):
        spent.certify(delta=1e-5, budget=budget)
    for number in (2, 4):
        with pytest.raises(LedgerError):
            budget.refund(number, why="by mistake")
    assert budget.refund(1, why="certified twice").number == 1
    with pytest.raises(LedgerError, match="is of a recorded training, which ran"):
        budget.refund(3, why="certified twice")
