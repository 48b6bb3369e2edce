"""A certificate holds its relation, its statement names it, and a replay recomputes under it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dp_accounting import dp_event

import evr
from evr._certificate.certificate import Certificate
from evr.errors import AlreadyReleasedError, CertificateError, FalseCertificateError, LedgerError
from forging import text

FIXED = evr.dpsgd(noise_multiplier=3.0, dataset_size=100, batch_size=5, steps=10, sampling="without-replacement")
GAUSSIAN = dp_event.GaussianDpEvent(4.0)


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.mark.parametrize("method", ["strict", "sequential"])
def test_replay_under_the_recorded_relation(ledger: Path, method: str) -> None:
    certificate = evr.certify(
        FIXED, epsilon=1.0, tau=0.7, ledger=ledger, method=method, neighboring_relation="replace-one"
    )
    assert certificate.neighboring_relation == "replace-one"
    assert certificate.accepted
    for words in (
        "under replace-one adjacency (a record is replaced by any other, which changes a sum by up",
        "DP-SGD (batches of 5 of 100 records without replacement, 10 steps, noise multiplier",
        "each batch was a uniformly random set of the stated size, drawn anew for each step",
    ):
        assert words in certificate.statement
    assert "replace-one adjacency" in certificate.short_statement
    assert evr.replay(certificate, workers=1).agrees


@pytest.mark.parametrize("method", ["strict", "sequential"])
@pytest.mark.parametrize(
    ("made", "shown"), [("add-or-remove", "replace-one"), ("replace-one", "add-or-remove"), ("replace-one", "zero-out")]
)
def test_a_certificate_is_never_one_of_another_relation(ledger: Path, method: str, made: str, shown: str) -> None:
    certificate = evr.certify(GAUSSIAN, epsilon=2.0, tau=0.7, ledger=ledger, method=method, neighboring_relation=made)
    forged = certificate.document() | {"neighboring_relation": shown}
    replayed = evr.replay(Certificate.sealed(forged), workers=1)
    assert not replayed.agrees
    assert replayed.undecided is None
    with pytest.raises(FalseCertificateError, match="statement"):  # the words still say what was made
        Certificate.from_json(text(forged))


def test_a_relation_that_the_event_does_not_have(ledger: Path) -> None:
    certificate = evr.certify(FIXED, epsilon=1.0, tau=0.7, ledger=ledger, neighboring_relation="replace-one")
    document = certificate.document() | {"neighboring_relation": "add-or-remove"}
    with pytest.raises(CertificateError, match="the certificate is false"):
        Certificate.from_json(text(document))


def test_a_release_has_one_relation(ledger: Path) -> None:
    """Under a name another relation is refused; without one the releases are two."""
    options: dict[str, Any] = {"epsilon": 2.0, "tau": 0.7, "ledger": ledger}
    evr.certify(GAUSSIAN, **options, name="mine")
    with pytest.raises(
        LedgerError, match="'mine' was begun per record under add-or-remove, and this is per record under"
    ):
        evr.certify(GAUSSIAN, **options, name="mine", neighboring_relation="replace-one")
    delta = evr.estimate_delta(GAUSSIAN, 2.0, neighboring_relation="replace-one").value
    common: dict[str, Any] = {"epsilon": 2.0, "delta": delta / 0.7, "tau": 0.7, "ledger": ledger}
    first = evr.release(lambda: 1, GAUSSIAN, **common)
    other = evr.release(lambda: 2, GAUSSIAN, **common, neighboring_relation="replace-one")
    assert (first.value, other.value) == (1, 2)
    assert other.certificate.neighboring_relation == "replace-one"
    with pytest.raises(AlreadyReleasedError):
        evr.release(lambda: 3, GAUSSIAN, **common, neighboring_relation="replace-one")
