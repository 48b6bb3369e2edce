"""The page of published trainings says what the spec files, the sources and the certificates say,
and nothing else.
"""

from __future__ import annotations

import json
import math
import runpy
from pathlib import Path

import pytest

import evr
from evr import _spec as spec
from helpers import near

FOLDER = Path(__file__).parents[2] / "examples" / "published"
MAKER = runpy.run_path(str(FOLDER / "make_page.py"))
SOURCES = MAKER["sources"]()
RESULTS = json.loads((FOLDER / "results.json").read_text("utf-8"))["trainings"]
trainings = pytest.mark.parametrize("name", SOURCES)


def test_every_file_has_its_source():
    files = {file.stem for file in FOLDER.glob("*.toml")} - {"sources"}
    assert files == set(SOURCES) == set(RESULTS)
    assert len(files) >= 15


def test_the_page_is_what_make_published_writes():
    results = json.loads((FOLDER / "results.json").read_text("utf-8"))
    assert MAKER["PAGE"].read_text("utf-8") == MAKER["page"](results)


@trainings
def test_rates_and_steps_follow_from_the_source(name):
    source, (mechanism,) = SOURCES[name], spec.load(FOLDER / f"{name}.toml").mechanism
    probability, steps = mechanism.given["sampling_probability"], mechanism.given["steps"]
    assert source["sampling"] in ("Poisson", "shuffled")
    if "batch_size" in source:
        assert probability == source["batch_size"] / source["dataset_size"]
        if "epochs" in source:
            epoch = source["dataset_size"] / source["batch_size"]
            assert source["epochs"] * math.floor(epoch) <= steps <= source["epochs"] * math.ceil(epoch)
    elif "epochs" in source:
        assert steps == round(source["epochs"] / probability)


@trainings
def test_results_are_of_the_files(name):
    described = spec.load(FOLDER / f"{name}.toml")
    found = RESULTS[name]
    assert found["delta"] == described.claim.delta
    exact = evr.estimate_epsilon(described.event(), described.claim.delta).value
    assert found["exact_epsilon"] == near(exact, rel=1e-7)
    assert found["verdict"] == "accepted"
    assert exact < found["certified_epsilon"] < 1.02 * exact


@trainings
def test_the_published_pair_is_proved(name):
    assert RESULTS[name]["published_pair"] == "proved"
    assert RESULTS[name]["certified_epsilon"] <= SOURCES[name]["published_epsilon"]


def test_a_published_pair_can_be_refuted_or_open(tmp_path, monkeypatch):
    certified, name = MAKER["certified"], "de_cifar10_eps1"
    exact = RESULTS[name]["exact_epsilon"]
    for share, verdict in ((0.99, "refuted"), (1 + 1e-9, "open")):
        published = {name: SOURCES[name] | {"published_epsilon": share * exact}}
        monkeypatch.setitem(certified.__globals__, "sources", lambda published=published: published)
        assert certified(name, tmp_path)["published_pair"] == verdict


@trainings
def test_it_certifies(name, tmp_path):
    """All of them within ten minutes; each takes less than a second of its share."""
    found = MAKER["certified"](name, tmp_path)
    assert found["verdict"] == "accepted"
    assert found["certified_epsilon"] == RESULTS[name]["certified_epsilon"]
    assert found["published_pair"] == "proved"
    assert found["processor_seconds"] < 600 / len(SOURCES)
