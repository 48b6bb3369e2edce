"""Trainings that are killed, resumed, run by several processes: the record is whole, and its event
right.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess

import pytest

pytest.importorskip("opacus", reason="needs the extra: pip install evr-dp[opacus]", exc_type=ImportError)
pytestmark = pytest.mark.filterwarnings("ignore")

import evr
from evr._records import Recorder
from evr._records.chain import rank_path
from evr.errors import RecordError
from integrations.programs import PATIENCE, command, environment


def start(folder, steps, *place):
    program = command("opacus_training", folder, steps, *place)
    return subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), cwd=folder
    )


def test_killed_and_resumed(tmp_path):
    path = tmp_path / "training.record.jsonl"
    said = 0
    for alive in (9, 12):  # killed after so many steps of its own
        with start(tmp_path, 40) as child:
            for _ in range(alive):
                assert child.stdout.readline() == "stepped\n", child.stderr.read()
            os.kill(child.pid, signal.SIGKILL)
            said += alive + child.stdout.read().count("stepped")
        record = evr.Record.load(path)
        assert said <= record.steps <= said + 1  # one may have been announced, and not happened
        assert not record.finished
        said = record.steps
    with start(tmp_path, 40) as child:
        out, errors = child.communicate(timeout=PATIENCE)
    assert "done 40" in out, errors
    record = evr.Record.load(path)
    said += out.count("stepped")
    assert said > 40  # steps after a checkpoint ran, were lost, and ran again
    assert record.event == evr.dpsgd(noise_multiplier=1.3, sampling_probability=1 / 6, steps=said)
    assert len(record.conditions) == 3
    assert "lost" in [note.what for note in record.notes]


def test_a_record_that_was_shortened_does_not_go_on(tmp_path):
    with start(tmp_path, 10) as child:
        assert "done 10" in child.communicate(timeout=PATIENCE)[0]
    path = tmp_path / "training.record.jsonl"
    path.write_text("".join(line + "\n" for line in path.read_text().splitlines()[:5]))
    with start(tmp_path, 20) as child:
        _, errors = child.communicate(timeout=PATIENCE)
    assert child.returncode != 0
    assert "of this one before lines were lost" in errors


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def test_two_ranks(tmp_path):
    port = free_port()
    children = [start(tmp_path, 12, port, rank, 2) for rank in range(2)]
    outputs = []
    for child in children:
        with child:
            outputs.append(child.communicate(timeout=PATIENCE))
    assert all("done 12" in out for out, _ in outputs), outputs
    path = tmp_path / "training.record.jsonl"
    record = evr.Record.load(path)
    assert record.event == evr.dpsgd(noise_multiplier=1.3, sampling_probability=1 / 6, steps=12)
    assert (record.rank, record.ranks) == (None, 2)
    with Recorder(rank_path(path, 1), rank=1, ranks=2, resume=True) as recorder:
        recorder.step(noise_multiplier=1.3, clipping_norm=1.0, sampling_probability=1 / 6)
    with pytest.raises(RecordError, match="ranks 0 and 1 differ in runs"):
        evr.Record.load(path)
