"""What others publish: the block for a model card."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from dp_accounting import dp_event

import evr
from evr._certificate.certificate import Certificate
from evr._proving.risk import Risk
from evr._wording import publishing
from evr._wording.publishing import meaning
from evr.errors import TooLongError

DATA = Path(__file__).with_name("data")
SAMPLED = Certificate.load(DATA / "gpu-matrix.certificate.json")


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


@KINDS
def test_a_card_is_yaml_and_prose(certificates: dict[str, Certificate], kind: str) -> None:
    certificate = certificates[kind]
    assert certificate.guarantee is not None
    _, front, prose = publishing.model_card(certificate).split("---\n", 2)
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


def test_replaced_records_did_not_take_part_or_not(certificates: dict[str, Certificate]) -> None:
    words = " ".join(meaning(certificates["replaced"]))
    assert "took part" not in words
    assert "users that did not take part" in " ".join(meaning(certificates["training"]))


def test_words_follow_from_the_certificate_and_not_from_the_speed_of_a_machine(
    certificates: dict[str, Certificate],
) -> None:
    certificate = certificates["training"]
    assert "33 points" in meaning(certificate)[-1]
    with pytest.raises(TooLongError, match=r"more than 0.02 s"):
        meaning(certificate, 0.02)
    *sentences, basis = meaning(certificates["sampled"])
    assert "one pair of epsilon and delta, which samples verified" in basis
    pair = certificates["sampled"].guarantee
    assert pair is not None
    bound = Risk.of_pair(pair.epsilon, pair.delta).advantage
    assert f"at most {100 * bound:.3g}"[:11] in sentences[-1]


def test_a_certificate_that_was_rejected_means_nothing(certificates: dict[str, Certificate]) -> None:
    rejected = certificates["training"].model_copy(update={"guarantee": None, "verdict": "rejected"})
    assert meaning(rejected) == []
