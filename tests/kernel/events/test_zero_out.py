"""Events that hold for zeroing out a record: ``ZeroOutDpEvent`` and shuffled batches."""

from __future__ import annotations

from pathlib import Path

import pytest
from dp_accounting import dp_event

import evr
from evr._kernel.events import Composition
from evr._kernel.events.relations import name_of
from evr.errors import OtherRelationError

# --- For zeroing out only -------------------------------------------------------------------------


def test_what_holds_for_zeroing_out_only() -> None:
    inner = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=10)
    event = evr.events.ZeroOutDpEvent(inner)
    found = Composition.of(event)
    assert found == Composition.of(inner, "zero-out")
    assert name_of(found.relation) == "zero-out"
    assert Composition.of(dp_event.ComposedDpEvent([inner, event])).relation is found.relation
    for relation in ("add-or-remove", "replace-one"):
        with pytest.raises(OtherRelationError, match=f"no law under '{relation}'.*'zero-out'"):
            Composition.of(event, relation)
    with pytest.raises(OtherRelationError):  # what has no law under zero-out gets none by its name
        Composition.of(evr.events.ZeroOutDpEvent(dp_event.TruncatedSubsampledGaussianDpEvent(100, 0.1, 4, 1.0)))


def test_a_certificate_for_zeroing_out_only(tmp_path: Path) -> None:
    inner = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=10)
    event = evr.events.ZeroOutDpEvent(inner)
    certificate = evr.certify(event, delta=1e-5, ledger=tmp_path / "ledger.sqlite")
    assert certificate.statement.startswith(
        "The composition of 10 times Poisson sampling (sampling probability 0.01) of a Gaussian"
    )
    assert "under zero-out adjacency" in certificate.statement
    assert "each record was in each batch independently" in certificate.statement
    assert evr.replay(certificate).agrees
    assert certificate.dp_event() == event


# --- Shuffled batches -----------------------------------------------------------------------------


def test_shuffled_batches_are_one_gaussian_for_each_epoch(tmp_path: Path) -> None:
    event = evr.events.ShuffledBatchesDpEvent(noise_multiplier=1.1, epochs=15)
    gaussians = dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(1.1), 15)
    for relation in ("zero-out", "replace-one"):
        assert Composition.of(event, relation) == Composition.of(gaussians, relation)
    assert name_of(Composition.of(event).relation) == "zero-out"
    assert round(evr.estimate_epsilon(event, delta=1e-5).value, 2) == 20.56
    with pytest.raises(OtherRelationError, match=r"'add-or-remove' adjacency here.*'zero-out'"):
        Composition.of(event, "add-or-remove")
    certificate = evr.certify(event, delta=1e-5, ledger=tmp_path / "ledger.sqlite")
    assert certificate.guarantee is not None
    assert certificate.guarantee.epsilon == 20.6
    assert "15 epochs of shuffled batches of a Gaussian mechanism" in certificate.statement
    assert "at most one batch of each epoch" in certificate.assumptions[0]


def test_the_refusal_of_shuffled_batches_offers_what_holds() -> None:
    with pytest.raises(ValueError, match="ShuffledBatchesDpEvent") as refused:
        evr.dpsgd(noise_multiplier=1.1, dataset_size=60_000, batch_size=256, epochs=15, sampling="shuffle")
    assert "evr.events.ShuffledBatchesDpEvent(noise_multiplier=..., epochs=...)" in str(refused.value)
    assert "under zero-out adjacency" in str(refused.value)
