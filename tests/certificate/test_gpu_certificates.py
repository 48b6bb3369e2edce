"""Certificates that a GPU made (``gpu_certificates.py``) replay where there is none."""

import json
from pathlib import Path

import pytest

import evr
from certificate.gpu_certificates import CERTIFICATES
from evr._devices import cuda
from helpers import full

DATA = Path(__file__).parent / "data"
MADE = [name for name in CERTIFICATES if (DATA / f"{name}.certificate.json").exists()]
"""Others are to be made where there is a GPU."""


def document_of(name):
    if name not in MADE:
        pytest.skip(f"{name} is to be made where there is a GPU")
    return json.loads((DATA / f"{name}.certificate.json").read_text())


def replayed(document):
    return evr.replay(evr.Certificate.sealed(document))


@pytest.mark.parametrize("name", [full(name) if name == "gpu-bins" else name for name in MADE])  # a million samples
def test_a_certificate_of_a_gpu_replays_on_a_processor(name, monkeypatch):
    monkeypatch.setattr(cuda, "draws", lambda proposal: False)
    document = document_of(name)
    plans = [one["plan"] for one in document["verification"]["directions"].values()]
    assert {plan["proposal"]["by_place"] for plan in plans} == {True}
    assert {plan["device"] for plan in plans} == {"cuda"}
    found = replayed(document)
    assert found.mismatches == ()
    assert found.verification.verdict.value == document["verdict"]


@pytest.mark.parametrize(
    ("path", "change"),
    [
        (("log_wealth",), lambda x: x * (1 + 1e-7)),
        (("estimate",), lambda x: x * (1 - 1e-7)),
        (("samples",), lambda x: x + 1),
        (("plan", "block_size"), lambda x: x * 2),
    ],
)
def test_an_altered_certificate_of_a_gpu_does_not(path, change, monkeypatch):
    monkeypatch.setattr(cuda, "draws", lambda proposal: False)
    document = document_of("gpu-matrix")
    section = document["verification"]["directions"]["remove"]
    *parents, last = path
    for key in parents:
        section = section[key]
    section[last] = change(section[last])
    assert not replayed(document).agrees


def test_another_order_than_a_gpu_drew_does_not_agree(monkeypatch):
    monkeypatch.setattr(cuda, "draws", lambda proposal: False)
    document = document_of("gpu-matrix")
    document["verification"]["directions"]["remove"]["plan"]["proposal"]["part"]["order"] -= 1
    assert not replayed(document).agrees


def test_a_rejection_that_was_made_an_acceptance_does_not_agree(monkeypatch):
    """Fewer samples than the test needs, and a verdict that they do not give."""
    monkeypatch.setattr(cuda, "draws", lambda proposal: False)
    document = document_of("gpu-matrix")
    document["verification"]["max_samples"] = 100
    found = replayed(document)
    assert "verdict" in [one.field for one in found.mismatches]
    assert found.undecided is None
