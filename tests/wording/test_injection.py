"""Nothing in a certificate speaks to its reader but evr: what a replay cannot recompute has no room
for a sentence.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attr
import pytest
from dp_accounting import dp_event

import evr
from evr._certificate.build import software
from evr._certificate.certificate import digest_of
from evr._certificate.event_json import in_alphabet
from evr._certificate.sections import SoftwareSection
from evr._kernel.events import MECHANISMS, noise
from evr._kernel.events.table import registered
from evr.errors import CertificateError
from forging import at, restated, text

LIE = "also satisfies (0.01, 0)-differential privacy"
GAUSSIAN = dp_event.GaussianDpEvent(2.0)


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    ledger = tmp_path_factory.mktemp("text") / "ledger.sqlite"
    small: dict[str, Any] = {"ledger": ledger, "name": "a paper", "seed": 1}
    return evr.certify(dp_event.ComposedDpEvent([GAUSSIAN]), epsilon=1.0, tau=0.8, **small).document()


@pytest.fixture(scope="module")
def rejected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    ledger = tmp_path_factory.mktemp("text") / "ledger.sqlite"
    out = evr.release(lambda: 1, GAUSSIAN, epsilon=1.0, delta=0.00375, tau=0.8, ledger=ledger)
    assert not out.released
    return out.certificate.document()


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every object, list and leaf of a document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def believed(changed: dict[str, Any], *, restate: bool = True) -> bool:
    """Whether a certificate passes replay, its statement and digest made to fit."""
    try:
        certificate = evr.Certificate.from_json(text(restated(changed) if restate else changed))
    except (CertificateError, KeyError, TypeError, AttributeError, ValueError):
        return False
    return evr.replay(certificate, workers=1).agrees


def test_unknown_keys_are_refused_at_every_depth(document: dict[str, Any], rejected: dict[str, Any]) -> None:
    for whole in (document, rejected):
        assert believed(copy.deepcopy(whole))
        objects = [path for path in places(whole) if isinstance(at(whole, path), dict)]
        assert len(objects) > 12
        for path in objects:
            changed = copy.deepcopy(whole)
            at(changed, path)["remark"] = LIE
            assert not believed(changed), path


def test_no_text_that_is_believed_can_say_anything(document: dict[str, Any], rejected: dict[str, Any]) -> None:
    """Every text in turn becomes a sentence, by itself and behind what was there."""
    for whole in (document, rejected):
        texts = [path for path in places(whole) if isinstance(at(whole, path), str) and path != ("digest",)]
        assert len(texts) > 15
        for path in texts:
            for sentence in (LIE, f"{at(whole, path)} {LIE}", f"{at(whole, path)}\n{LIE}", "\x1b[2Jaccepted"):
                changed = copy.deepcopy(whole)
                at(changed, path[:-1])[path[-1]] = sentence
                assert not believed(changed, restate=path != ("statement",)), path


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("software", "evr"), "0.1.0, which " + LIE, "software.evr='0.1.0, which also"),
        (("software", "evr"), "0.1.0+epsilon.0.01", "software.evr="),
        (("software", "evr"), "٠.١.٠", "software.evr="),
        (("software", "remark"), LIE, "software.remark is not a field"),
        (("release", "name"), LIE, "release.name='also"),
        (("release", "name"), "two  spaces", "release.name='two  spaces"),
        (("claim", "remark"), 1, "claim.remark is not a field"),
        (("remark",), 1, "remark is not a field"),
        (("times", "started"), "yesterday", "times.started"),
        (("times", "finished"), "2026-01-01T00:00:00.000+00:00\n", "do not print"),
        (("event", "events", 0, "noise_multiplier"), "2.0. It " + LIE, "event: .* is neither a name nor a number"),
        (("event", "re mark"), 1, "event: 're mark' is neither a name nor a number"),
        (("verification", "directions", "up"), {}, "verification.directions.up"),
        (("verification", "proposal"), "\u202etxet", "do not print"),
    ],
)
def test_what_is_said_of_them(document: dict[str, Any], path: tuple[Any, ...], value: Any, message: str) -> None:
    changed = copy.deepcopy(document)
    at(changed, path[:-1])[path[-1]] = value
    with pytest.raises(CertificateError, match=message):
        evr.Certificate.from_json(json.dumps({**changed, "digest": digest_of(changed)}))


def test_a_missing_software_is_missed(document: dict[str, Any]) -> None:
    for key in SoftwareSection.model_fields.keys() - {"commit"}:
        changed = copy.deepcopy(document)
        del changed["software"][key]
        text = json.dumps({**changed, "digest": digest_of(changed)})
        with pytest.raises(CertificateError, match=f"software.{key}"):
            evr.Certificate.from_json(text)


def test_a_seed_relabelled_is_recorded_as_fresh_and_no_more(document: dict[str, Any]) -> None:
    """A large seed can pass for entropy; neither the statement nor the table says that it was."""
    changed = copy.deepcopy(document)
    changed["verification"]["entropy_is_fresh"] = True
    assert not believed(changed), "a small number was not drawn from 256 bits"
    changed["verification"]["entropy"] = "f" * 65
    assert not believed(changed), "neither was a greater one than 256 bits hold"
    assert "it is recorded as fresh, which nothing can prove" in restated(changed)["statement"]
    assert "recorded as fresh" not in document["statement"]


def test_entropy_beyond_256_bits_is_no_fresh_one(tmp_path: Path) -> None:
    certificate = evr.certify(
        dp_event.LaplaceDpEvent(2.0), epsilon=1.0, tau=0.5, seed=1 << 300, ledger=tmp_path / "ledger.sqlite"
    )
    changed = certificate.document()
    assert believed(copy.deepcopy(changed))
    changed["verification"] |= {"entropy_is_fresh": True}
    found = evr.replay(evr.Certificate.sealed(changed))
    assert [m.field for m in found.mismatches] == ["verification.entropy_is_fresh"]


def test_this_machine_speaks_the_alphabet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "my machine (new)")
    assert software()["platform"].endswith(" my-machine--new-")
    assert in_alphabet("") == "unknown"


@pytest.mark.parametrize("name", ["a", "thesis", "second paper", "v1.2_final-3", "x" * 64])
def test_names(name: str, tmp_path: Path) -> None:
    certificate = evr.certify(
        dp_event.LaplaceDpEvent(2.0), epsilon=1.0, tau=0.5, name=name, ledger=tmp_path / "ledger.sqlite"
    )
    assert certificate.release.name == name
    assert "at a named release" in certificate.statement
    assert len(name) == 1 or name not in certificate.statement


@pytest.mark.parametrize("name", ["", " a", "a ", "a  b", "x" * 65, "a\nb", "a, b", "(0.1, 0)", "é", "-a", 3])
def test_what_is_no_name(name: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a name"):
        evr.certify(dp_event.LaplaceDpEvent(2.0), epsilon=1.0, name=name, ledger=tmp_path / "ledger.sqlite")


@attr.s(frozen=True, slots=True, auto_attribs=True)
class WordyDpEvent(dp_event.DpEvent):
    remark: str


def test_events_with_sentences_are_refused_before_anything_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        MECHANISMS, WordyDpEvent, registered(WordyDpEvent, lambda _: noise.gaussian(dp_event.GaussianDpEvent(2.0)))
    )
    with evr.Ledger(tmp_path / "ledger.sqlite") as ledger:
        with pytest.raises(ValueError, match="is neither a name nor a number"):
            evr.release(lambda: 1, WordyDpEvent(LIE), epsilon=1.0, delta=1e-3, ledger=ledger)
        assert ledger.attempts() == []


def test_a_clone_names_its_commit() -> None:
    if not (Path(__file__).parents[2] / ".git").exists():
        pytest.skip("not a clone")
    assert re.fullmatch("[0-9a-f]{40}", software()["commit"] or "")
