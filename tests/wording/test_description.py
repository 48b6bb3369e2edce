"""A training in the numbers that people state: they choose words, and have to fit the event."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dp_accounting import dp_event

import evr
from evr._certificate.certificate import digest_of
from evr._wording.description import description_of, trained
from evr.errors import CertificateError
from evr.events import opacus_history

SIZES: dict[str, Any] = {"dataset_size": 60_000, "batch_size": 256, "epochs": 15}
EVENT = evr.dpsgd(noise_multiplier=1.1, **SIZES)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> evr.Certificate:
    ledger = tmp_path_factory.mktemp("described") / "ledger.sqlite"
    described = {**SIZES, "title": "MNIST CNN v3", "unit": "user"}
    return evr.certify(EVENT, delta=1e-5, ledger=ledger, description=described)


def test_the_sentence_says_what_was_typed(certificate: evr.Certificate) -> None:
    assert certificate.short_statement.startswith(
        'The training "MNIST CNN v3", DP-SGD (batches of 256 of 60,000 users by Poisson sampling, '
        "15 epochs, noise multiplier 1.1), is (1.14, 1e-5)-differentially private per user"
    )
    assert any("one user" in clause for clause in certificate.assumptions)
    assert evr.replay(certificate).agrees


@pytest.mark.parametrize(
    ("event", "given", "words"),
    [
        (EVENT, SIZES, "batches of 256 of 60,000 records by Poisson sampling, 15 epochs"),
        (EVENT, {"algorithm": "DP-SGD"}, "Poisson sampling with probability 8/1875, 3,516 steps"),
        (
            evr.dpsgd(noise_multiplier=2, sampling_probability=1, steps=1),
            {"epochs": 1},
            "full batches, 1 epoch, noise multiplier 2",
        ),
        (
            evr.dpsgd(noise_multiplier=2, steps=9, sampling="without-replacement", dataset_size=100,
                      batch_size=10),
            {"dataset_size": 100, "batch_size": 10},
            "batches of 10 of 100 records without replacement, 9 steps",
        ),
        (
            evr.dpsgd(noise_multiplier=2, records_per_user=8, **SIZES),
            SIZES,
            "of 60,000 records by Poisson sampling, 15 epochs, noise multiplier 2, at most 8 rec",
        ),
        (
            opacus_history([(1.0, 0.01, 500), (1.2, 0.02, 1)]),
            {"algorithm": "DP-SGD"},
            "500 steps, noise multiplier 1; then Poisson sampling with probability 0.02, 1 step",
        ),
    ],
)  # fmt: skip
def test_words(event: dp_event.DpEvent, given: dict[str, Any], words: str) -> None:
    said = trained(event, description_of(given, event))
    assert said is not None
    assert words in said


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"batch_size": 255}, "batch_size=255"),
        ({"dataset_size": 59_999}, "dataset_size=59,999"),
        ({"dataset_size": None}, "dataset_size"),
        ({"epochs": 14.9}, "epochs=14.9"),
        ({"epochs": 0}, "epochs"),
        ({"title": "it (also) holds for 0.1"}, "title"),
        ({"unit": "household"}, "unit"),
        ({"algorithm": "DP-FTRL"}, "algorithm"),
        ({"epoch": 15}, "epoch"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], name: str, tmp_path: Path) -> None:
    with evr.Ledger(tmp_path / "ledger.sqlite") as ledger:
        with pytest.raises(ValueError, match=name):
            evr.certify(EVENT, delta=1e-5, ledger=ledger, description=SIZES | change)
        assert ledger.attempts() == []


def test_users_are_not_examples() -> None:
    event = evr.dpsgd(noise_multiplier=2, records_per_user=8, **SIZES)
    with pytest.raises(ValueError, match="unit='example'"):
        description_of({"unit": "example"}, event)


def test_only_dpsgd_has_batches(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not that of DP-SGD"):
        description_of(SIZES, dp_event.LaplaceDpEvent(1.0))


@pytest.mark.parametrize("key", ["dataset_size", "batch_size", "epochs"])
def test_an_altered_description_is_not_read(certificate: evr.Certificate, key: str) -> None:
    document = certificate.document()
    document["description"][key] += 1
    with pytest.raises(CertificateError, match=key):
        evr.Certificate.from_json(json.dumps({**document, "digest": digest_of(document)}))
