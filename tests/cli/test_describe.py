"""``evr describe``: what it prints, and that a mistake is one line and exit code 2."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evr import cli
from evr._estimate.closed_forms import pair_delta
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction
from evr.events import dpsgd
from helpers import near

EXAMPLES = Path(__file__).parents[2] / "examples"
FLAGS = ["--noise-multiplier", "1.0", "--sampling-probability", "0.01", "--steps", "100"]


def run(capsys, monkeypatch, *arguments):
    """The command within this process: exit code, output, errors."""
    monkeypatch.setattr(sys, "argv", ["evr", *map(str, arguments)])
    try:
        cli.main()
        code: Any = 0
    except SystemExit as end:
        code = end.code or 0
    out, err = capsys.readouterr()
    return code, out, err


def test_what_the_number_means(capsys, monkeypatch):
    """Relation, unit, theorems and hypotheses, as the table of meanings has them."""
    code, out, _ = run(capsys, monkeypatch, "describe", *FLAGS, "--records-per-user", "3", "--adjacency", "zero-out")
    assert code == 0
    assert "N(0, 1)" in out
    assert "N(-0, 1)" not in out
    assert "Neighbours: zero-out adjacency (all records of one user are replaced" in out
    assert "Protected: each user." in out
    assert "PoissonSampledUsersDpEvent, R5.4 (docs/meaning.md)." in out
    assert "by a rule that looked at that user alone (records-per-user)." in out
    code, out, _ = run(capsys, monkeypatch, "describe", *FLAGS, "--json")
    found = json.loads(out)
    assert (found["adjacency"], found["unit"]) == ("add-or-remove", "record")
    assert found["theorems"]["PoissonSampledDpEvent of Gaussian noise"] == "guarantees 1.4"
    assert list(found["hypotheses"]) == ["poisson", "constant-rate-and-steps", "sensitivity"]


def test_flags(capsys, monkeypatch):
    code, out, err = run(capsys, monkeypatch, "describe", *FLAGS)
    assert (code, err) == (0, "")
    words, pairs = out.split("\n\n")
    assert words.splitlines()[:4] == [
        "Training: DP-SGD (Poisson sampling with probability 0.01, 100 steps, noise multiplier 1).",
        "A noise multiplier is the standard deviation of the noise over the clipping norm.",
        "What ran: 100 times Poisson sampling (sampling probability 0.01) of a Gaussian mechanism "
        "(noise multiplier 1).",
        "Neighbours: add-or-remove-one adjacency.",
    ]
    assert "Poisson sampling, not shuffled batches" in words
    assert "did not depend on the data, the number of records included" in words
    header, *rows = [line.split("\t") for line in pairs.splitlines()]
    assert header[:3] == ["direction", "count", "dominating pair P | Q"]
    assert [(row[0], row[1]) for row in rows] == [("remove", "100"), ("add", "100")]
    composition = Composition.of(dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=100))
    for row, direction in zip(rows, Direction, strict=True):
        (step,) = composition.steps(direction)
        assert row[2] == step.pair.describe()
        assert float(row[3]) == near(pair_delta(step.pair, 0.1), rel=1e-3)


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.name)
def test_examples(capsys, monkeypatch, example):
    code, out, err = run(capsys, monkeypatch, "describe", example)
    assert (code, err) == (0, "")
    assert len(out.splitlines()) >= 3


def test_json(capsys, monkeypatch):
    code, out, _ = run(capsys, monkeypatch, "describe", EXAMPLES / "mixed.toml", "--json")
    assert code == 0
    steps = json.loads(out)["steps"]
    assert {step["direction"] for step in steps} == {"remove", "add"}
    assert sum(step["count"] for step in steps) == 2 * (1 + 20 + 500 + 10)
    for step in steps:
        assert set(step["delta"]) == {"0.1", "0.5", "1.0", "2.0"}
        assert all(0 <= value <= 1 for value in step["delta"].values())


def test_json_without_sampling_is_the_gaussian_mechanism(capsys, monkeypatch):
    code, out, _ = run(
        capsys, monkeypatch, "describe", "--noise-multiplier", 1, "--sampling-probability", 1, "--steps", 1, "--json"
    )
    assert code == 0
    first = json.loads(out)["steps"][0]
    normal = 0.5 * math.erfc(0.5 / math.sqrt(2)) - math.e * 0.5 * math.erfc(1.5 / math.sqrt(2))
    assert first["delta"]["1.0"] == near(normal, rel=1e-12)


def test_batches_in_the_units_of_a_training(capsys, monkeypatch):
    flags = ["--noise-multiplier", 1.3, "--dataset-size", 60000, "--batch-size", 256, "--epochs", 15]
    code, out, _ = run(capsys, monkeypatch, "describe", *flags)
    assert code == 0
    assert "batches of 256 of 60,000 records by Poisson sampling, 15 epochs, noise multiplier 1.3" in out
    assert "What ran: 3,516 times Poisson sampling" in out


def test_a_file_of_one_training_is_described_as_one(capsys, monkeypatch, tmp_path):
    code, out, _ = run(capsys, monkeypatch, "describe", EXAMPLES / "dpsgd.toml")
    assert code == 0
    assert out.startswith(
        "Training: DP-SGD (Poisson sampling with probability 0.001, 1,000 steps, noise multiplier 1)."
    )
    path = tmp_path / "two.toml"
    path.write_text(
        "[[mechanism]]\nkind = 'laplace'\nnoise_multiplier = 9.0\n"
        "[[mechanism]]\nkind = 'dpsgd'\nnoise_multiplier = 1.3\ndataset_size = 60000\n"
        "batch_size = 256\nepochs = 15\nrepeat = 2\n"
    )
    code, out, _ = run(capsys, monkeypatch, "describe", path)
    assert code == 0
    assert out.startswith("What ran: (a Laplace mechanism (noise multiplier 9); 2 times 3,516 times Poisson sampling")


def test_nothing_to_pay(capsys, monkeypatch):
    code, out, _ = run(capsys, monkeypatch, "describe", *FLAGS[:2], "--sampling-probability", 0, *FLAGS[4:])
    assert (code, out) == (0, "This composition costs no privacy.\n")


BAD: dict[str, tuple[list[Any], str]] = {
    "nothing": ([], "describe DP-SGD by flags: add --noise-multiplier; --sampling-probability (1 if"),
    "half": (["--steps", "3"], "add --noise-multiplier"),
    "both": ([EXAMPLES / "dpsgd.toml", *FLAGS], "both describe a mechanism"),
    "missing file": (["missing.toml"], "missing.toml: cannot be read"),
    "probability": ([*FLAGS, "--sampling-probability", "1.5"], "--sampling-probability=1.5 is not in [0, 1]"),
    "nan": ([*FLAGS, "--noise-multiplier", "nan"], "--noise-multiplier=nan is not"),
    "negative": ([*FLAGS, "--noise-multiplier", "-1"], "--noise-multiplier=-1.0 is not"),
    "size": ([*FLAGS, "--dataset-size", "-5"], "--dataset-size=-5 is not an integer >= 1"),
    "steps": ([*FLAGS, "--steps", "0"], "steps=0 is not an integer >= 1"),
    "huge": ([*FLAGS, "--steps", "1" + "0" * 400], "is too large"),
    "no number": ([*FLAGS, "--steps", "many"], "invalid value for '--steps'"),
    "unknown flag": (["--noise", "1"], "no such option"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_message_and_exit_code_2(capsys, monkeypatch, name):
    arguments, message = BAD[name]
    code, out, err = run(capsys, monkeypatch, "describe", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[[mechanism]]\nkind = 'gaussian'\nnoise_multiplyer = 1.0", "did you mean 'noise_multiplier'?"),
        (b"nonsense", "not valid TOML"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[[mechanism]]\nkind = 'gaussian'\nnoise_multiplier = -1.0", "noise_multiplier=-1.0 is not"),
    ],
)
def test_bad_files_are_named(capsys, monkeypatch, tmp_path, content, message):
    path = tmp_path / "spec.toml"
    path.write_bytes(content)
    code, out, err = run(capsys, monkeypatch, "describe", path)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert str(path) in err or "mechanism[0]" in err
    assert message in err
    assert "Traceback" not in err


def test_as_a_process():
    """Once for real: the entry point, its exit code and its streams."""
    command = [sys.executable, "-c", "from evr.cli import main; main()", "describe"]
    bad = subprocess.run([*command, "--steps", "3"], capture_output=True, text=True, check=False)
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.startswith("error: what ran?")


def test_version(capsys, monkeypatch):
    import evr

    assert run(capsys, monkeypatch, "--version")[:2] == (0, f"evr {evr.__version__}\n")
