"""What others publish: the block for a model card, and the entry of OpenDP's registry, held to its own schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from dp_accounting import dp_event

import evr
from evr.certification import Certificate, cards
from evr.certification.meaning import meaning
from evr.proving.risk import Risk

DATA = Path(__file__).with_name("data")
SCHEMA = yaml.safe_load((DATA / "deployments-schema.yaml").read_text("utf-8"))
SAMPLED = Certificate.load(DATA / "gpu-min-sep.certificate.json")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Certificate]:
    ledger = tmp_path_factory.mktemp("cards") / "ledger.sqlite"
    training = evr.dpsgd(noise_multiplier=1.1, dataset_size=60_000, batch_size=256, epochs=15)
    described = {"title": "MNIST CNN v3", "unit": "user"}
    return {
        "training": evr.certify(training, delta=1e-5, ledger=ledger, description=described),
        "replaced": evr.certify(
            dp_event.GaussianDpEvent(4.0), delta=1e-5, ledger=ledger, neighboring_relation="replace-one"
        ),
        "sampled": SAMPLED,
    }


KINDS = pytest.mark.parametrize("kind", ["training", "replaced", "sampled"])


def values(document: Any) -> list[Any]:
    if isinstance(document, dict):
        return [one for item in document.values() for one in values(item)]
    return [one for item in document for one in values(item)] if isinstance(document, list) else [document]


@KINDS
def test_a_card_is_yaml_and_prose(certificates: dict[str, Certificate], kind: str) -> None:
    certificate = certificates[kind]
    assert certificate.guarantee is not None
    _, front, prose = cards.model_card(certificate).split("---\n", 2)
    metadata = yaml.safe_load(front)
    assert metadata["tags"] == ["differential-privacy"]
    said = metadata["differential_privacy"]
    assert (said["epsilon"], said["delta"]) == (certificate.guarantee.epsilon, certificate.guarantee.delta)
    assert said["certificate"] == certificate.digest
    assert certificate.short_statement in prose
    for clause in certificate.assumptions:
        assert clause in prose
    for sentence in meaning(certificate):
        assert sentence in prose
    assert ("samples verified" in prose) == (kind == "sampled")


@KINDS
def test_an_entry_passes_the_registrys_own_schema(certificates: dict[str, Certificate], kind: str) -> None:
    certificate = certificates[kind]
    text = cards.registry_entry(certificate)
    entry = yaml.safe_load(text)
    checker = jsonschema.Draft7Validator(SCHEMA, format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER)
    assert [error.message for error in checker.iter_errors(entry)] == []
    deployment = entry["deployment"]
    pair = certificate.guarantee
    assert pair is not None
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": pair.epsilon, "delta": pair.delta}
    assert deployment["dp_variant"]["variant_name"] == "Approximate DP"
    for clause in certificate.assumptions:
        assert clause in deployment["implementation"]["mechanisms"]
    known = {"training": ("MNIST CNN v3", "user"), "replaced": ("FILL IN", "record"), "sampled": ("FILL IN", "record")}
    assert (deployment["basic"]["name"], deployment["privacy_loss"]["privacy_unit"]) == known[kind]
    assert text.count("FILL IN") >= 20
    assert "{" not in text
    for token in yaml.scan(text):  # a rule of the registry: folded text loses its list
        assert getattr(token, "style", None) in (None, "|", '"', "'")


def test_the_schema_refuses_what_is_wrong(certificates: dict[str, Certificate]) -> None:
    """So that passing it means something."""
    entry = yaml.safe_load(cards.registry_entry(certificates["training"]))
    for path, value in ((("tier",), 0), (("deployment", "basic", "publication_date"), "soon"), (("surprise",), 1)):
        changed: Any = yaml.safe_load(yaml.safe_dump(entry))
        place = changed
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        format_checker = jsonschema.Draft7Validator.FORMAT_CHECKER
        assert list(jsonschema.Draft7Validator(SCHEMA, format_checker=format_checker).iter_errors(changed)), path


def test_replaced_records_did_not_take_part_or_not(certificates: dict[str, Certificate]) -> None:
    words = " ".join(meaning(certificates["replaced"]))
    assert "took part" not in words
    assert "The number of records." in cards.registry_entry(certificates["replaced"])
    assert "The number of records." not in cards.registry_entry(certificates["training"])
    assert "users that did not take part" in " ".join(meaning(certificates["training"]))


def test_a_pair_serves_where_the_curve_takes_too_long(
    certificates: dict[str, Certificate], monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = certificates["training"]
    assert "33 points" in meaning(certificate)[-1]
    monkeypatch.setattr("evr.certification.meaning._PATIENCE", 0.02)
    *sentences, basis = meaning(certificate)
    assert "one pair of epsilon and delta, which is proved in exact arithmetic" in basis
    pair = certificate.guarantee
    assert pair is not None
    bound = Risk.of_pair(pair.epsilon, pair.delta).advantage
    assert f"at most {100 * bound:.3g}"[:11] in sentences[-1]


def test_a_certificate_that_was_rejected_means_nothing(certificates: dict[str, Certificate]) -> None:
    rejected = certificates["training"].model_copy(update={"guarantee": None, "verdict": "rejected"})
    assert meaning(rejected) == []
