"""Numbers that change in the course of a training: ``--batch-size 256@10,512@10``, and noise that is scaled."""

from __future__ import annotations

import re

import pytest
from dp_accounting import dp_event

import evr as library
from evr._accounting.noise import noise_in, scaled_noise
from helpers import near

FLAGS = ["--noise-multiplier", 1, "--sampling-probability", 0.01, "--steps", 100]
SIZE = ["--dataset-size", 50_000]
BATCHES = [*SIZE, "--batch-size", "256@10,512@10"]
TARGET = ["--epsilon", 3, "--delta", 1e-5]


def phase(batch, epochs, noise):
    return library.dpsgd(noise_multiplier=noise, dataset_size=50_000, batch_size=batch, epochs=epochs)


def composed(*phases):
    return dp_event.ComposedDpEvent(list(phases))


@pytest.mark.parametrize(
    ("flags", "event"),
    [
        (["--batch-size", "256@10,512@10", "--noise-multiplier", 1.1], [(256, 10, 1.1), (512, 10, 1.1)]),
        (
            ["--batch-size", "256@10,512@10", "--noise-multiplier", "1.2@5,0.9@15"],
            [(256, 5, 1.2), (256, 5, 0.9), (512, 10, 0.9)],
        ),
        (["--batch-size", 256, "--noise-multiplier", "1.2@0.1,0.9@0.2", "--epochs", 0.3],
         [(256, 0.1, 1.2), (256, 0.2, 0.9)]),
    ],
)  # fmt: skip
def test_a_schedule_is_its_phases(evr, flags, event):
    described = evr("describe", *SIZE, *flags, "--json").json["event"]
    assert described == repr(composed(*(phase(*one) for one in event)))


def test_one_phase_is_no_composition(evr):
    described = evr("describe", *SIZE, "--batch-size", "256@10", "--noise-multiplier", 1.1, "--json").json["event"]
    assert described == repr(phase(256, 10.0, 1.1))


def test_the_noise_of_a_schedule_is_certified_in_its_words(evr, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert evr("calibrate", *BATCHES, *TARGET, "--quiet").out == "0.8727\n"
    ran = evr("certify", *BATCHES, *TARGET, "--noise-multiplier", 0.8727)
    assert ran.code == 0
    assert "batches of 256 of 50,000 records by Poisson sampling, 1,954 steps, noise multiplier 0.8727; then" in ran.out
    assert evr("certify", *BATCHES, *TARGET, "--noise-multiplier", 0.86).code == 3


def test_all_noise_of_a_file_is_scaled(evr, tmp_path):
    path = tmp_path / "phases.toml"
    text = """
[[mechanism]]
kind = "dpsgd"
noise_multiplier = {}
sampling_probability = 0.01
steps = 500
[[mechanism]]
kind = "laplace"
noise_multiplier = {}
repeat = 3
"""
    path.write_text(text.format(1.2, 20.0))
    found = evr("calibrate", path, "--scale-noise", "--epsilon", 2, "--delta", 1e-5, "--json").json
    assert (found["parameter"], len(found["noise"])) == ("noise_scale", 2)
    assert found["noise"] == near([1.2 * found["value"], 20 * found["value"]], rel=1e-11)
    path.write_text(text.format(*found["noise"]))
    assert float(evr("estimate", path, "--epsilon", 2, "-q").out) == found["estimated_delta"] < 1e-5
    path.write_text('[[mechanism]]\nkind = "epsilon_delta"\nepsilon = 1.0\ndelta = 0.0\n')
    assert (
        "EpsilonDeltaDpEvent(epsilon=1.0, delta=0.0) has no noise to scale"
        in evr("calibrate", path, "--scale-noise", "--epsilon", 2, "--delta", 1e-5).err
    )


def test_every_mechanism_with_noise_is_scaled():
    event = composed(
        library.events.UsersDpEvent(library.events.BallsInBinsDpEvent(0.5, 10, 5), 2),
        library.events.DiscreteGaussianDpEvent(3.0),
        dp_event.MixtureOfGaussiansDpEvent(2.0, (0.0, 1.0), (0.5, 0.5)),
        library.events.OneOfDpEvent([dp_event.GaussianDpEvent(1.0), dp_event.LaplaceDpEvent(4.0)]),
    )
    assert noise_in(event) == [0.5, 3.0, 2.0, 1.0, 4.0]
    assert noise_in(scaled_noise(event, 1.1)) == [0.55, 3.3, 2.2, 1.1, 4.4]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--batch-size", "256@10,512"], "'512' is not a value and its epochs: write a schedule as 256@10,512@10"),
        (["--batch-size", "256@10,512@0"], "'512@0' is not a value and its epochs"),
        (["--batch-size", "256@10,512@3", "--epochs", 3], "--batch-size has 13 epochs and --epochs has 3 epochs"),
        (["--batch-size", "256@10,512@3", "--steps", 3], "counts epochs, and --batch-size has 13 epochs: leave out"),
        (["--batch-size", "256@10", "--epochs", "10@10"], "'10@10' is a schedule, and only noise multiplier"),
        (["--epochs", "3", "--batch-size", 9, "--epsilon", "1@2"], "'1@2' is a schedule, and only noise multiplier"),
    ],
)
def test_schedules_that_are_refused(refused, flags, words):
    assert words in refused("estimate", *SIZE, *flags, "--noise-multiplier", 1, "--delta", 1e-5)


def test_a_schedule_and_a_range(refused):
    told = refused("estimate", *BATCHES, "--noise-multiplier", "0.8,0.9", "--delta", 1e-5)
    assert "--batch-size and --noise-multiplier: a schedule has one training" in told


def test_a_long_search_says_what_it_tries(evr, monkeypatch):
    monkeypatch.setattr("evr.cli.output.LASTS", 0.001)
    monkeypatch.setattr("evr.cli.output._OFTEN", 0.001)
    flags = ["calibrate", *TARGET, "--sampling-probability", 0.01, "--steps", 100]
    assert re.search(r"^Searching for noise_multiplier: try \d+ is [0-9.]+, after \d+ s\.$", evr(*flags).err, re.M)
    assert evr(*flags, "--quiet").err == ""


@pytest.mark.parametrize(
    ("command", "words"), [("risk", "Still proving points of the privacy curve"), ("estimate", "Still estimating")]
)
def test_what_lasts_says_so_on_a_terminal(evr, monkeypatch, command, words):
    monkeypatch.setattr("evr.cli.output.LASTS", 0.001)
    flags = [command, *FLAGS, *(["--epsilon", 1] if command == "estimate" else [])]
    assert evr(*flags).err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert re.search(rf"^{words}, after 0 s\.$", evr(*flags).err, re.M)
    assert evr(*flags, "--quiet").err == ""


def test_planning_that_lasts_says_so(evr, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("evr.cli.reporting.LASTS", 0.0)
    monkeypatch.setattr("evr.cli.reporting._SOON", 0.001)
    ran = evr("certify", "--noise-multiplier", 1, "--sampling-probability", 0.01, "--steps", 10, "--delta", 1e-5)
    assert re.search(r"^Still planning, after \d+ s\.\nProving .* Planned in \d+ s\. Certificate", ran.err, re.M)
