"""``evr risk``: from a file, flags, a record or a certificate; and never stronger than what was proved."""

from __future__ import annotations

from pathlib import Path

import pytest

import evr as library
from evr._records import Recorder
from helpers import near

DPSGD = ["--noise-multiplier", 2, "--sampling-probability", 0.01, "--steps", 100]
EVENT = library.dpsgd(noise_multiplier=2.0, sampling_probability=0.01, steps=100)
SAMPLED = Path(__file__).parents[1] / "certificate" / "data" / "gpu-matrix.certificate.json"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def bounds(ran):
    assert ran.code == 0, ran.err
    return ran.json["bounds"]


def test_the_numbers_are_those_of_python(evr):
    found = library.risk(EVENT)
    said = bounds(evr("risk", *DPSGD, "--fpr", 0.01, "--prior", 0.2, "--baseline", 0.05, "--json"))
    assert said == {
        "advantage": found.advantage,
        "true_positive_rate": found.true_positive_rate(0.01),
        "posterior": found.posterior(0.2, 0.01),
        "accuracy": found.accuracy(0.2),
        "reconstruction": found.reconstruction(0.05),
        "gdp": found.gdp(1e-3),
    }


def test_a_table_rounds_up(evr):
    found = library.risk(EVENT)
    shown = {name: float(value) for name, value in evr("risk", *DPSGD, "--fpr", 0.01, "-q").rows}
    for name, value in (("true positive rate", found.true_positive_rate(0.01)), ("advantage", found.advantage)):
        assert value <= shown[name] == near(value, rel=1e-3)


def test_files_of_every_kind(evr, tmp_path):
    spec = tmp_path / "run.toml"
    spec.write_text('[[mechanism]]\nkind = "dpsgd"\nnoise_multiplier = 2.0\nsampling_probability = 0.01\nsteps = 100\n')
    with Recorder(tmp_path / "run.record.jsonl") as recorder:
        for _ in range(100):
            recorder.step(noise_multiplier=2.0, clipping_norm=1.0, sampling_probability=0.01)
    assert evr("certify", spec, "--delta", 1e-6, "-q").code == 0
    answers = [bounds(evr("risk", file, "--json")) for file in ("run.toml", "run.record.jsonl", "run.certificate.json")]
    assert answers[0] == answers[1]
    assert all(answers[2][name] <= bound for name, bound in answers[0].items())  # its own pair counts too


def test_a_sampled_certificate_says_that_it_is_one(evr):
    ran = evr("risk", SAMPLED)
    assert ran.code == 0
    assert "samples verified, as it records: were it false, the probability of that would be at most 5.5e-6" in ran.out
    assert "exact" not in ran.out
    assert evr("risk", SAMPLED, "--json").json["proof"] == "certificate"


def test_words_fit_the_relation(evr):
    taken = evr("risk", *DPSGD).out
    assert "that did not take part" in taken
    assert "proved in exact arithmetic" in taken
    replaced = evr("risk", *DPSGD, "--adjacency", "replace-one").out
    assert "took part" not in replaced
    assert "which of two" not in taken
    assert "the second of two given records" in replaced


def test_a_picture(evr):
    ran = evr("risk", *DPSGD, "--plot", "tradeoff.svg")
    assert "wrote tradeoff.svg" in ran.err
    assert "true positive rate" in Path("tradeoff.svg").read_text("utf-8")


def test_bad_input(evr, refused, tmp_path):
    assert "--fpr=2.0 is not in [0, 1]" in refused("risk", *DPSGD, "--fpr", 2)
    assert "baseline=-1.0 is not in [0, 1]" in refused("risk", *DPSGD, "--baseline", -1)
    assert "prior=nan is not in (0, 1)" in refused("risk", *DPSGD, "--prior", "nan")
    assert "does not end in .png" in refused("risk", *DPSGD, "--plot", "a.txt")
    assert "both describe a mechanism" in refused("risk", SAMPLED, "--steps", 3)
    assert "leave out --adjacency" in refused("risk", SAMPLED, "--adjacency", "zero-out")
    assert "No such file" in refused("risk", tmp_path / "nothing.toml")
    assert "what ran?" in refused("risk")


def test_whose_data_is_protected(evr, refused):
    flags = ["risk", "--noise-multiplier", 4, "--sampling-probability", 1, "--steps", 1]
    assert "accuses 0.1% of the records" in evr(*flags).out
    assert "accuses 0.1% of the clients" in evr(*flags, "--unit", "client").out
    assert "unit='cat'" in refused(*flags, "--unit", "cat")
    assert "unit='example'" in refused(*flags, "--records-per-user", 2, "--unit", "example")
    assert "leave out --unit" in refused("risk", SAMPLED, "--unit", "user")
