"""Fuzzed certificates, specifications and ledgers: a clear error or the truth, never a traceback,
never acceptance.
"""

from __future__ import annotations

import contextlib
import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest
from dp_accounting import dp_event
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import evr
from attempts import certify_claim, start
from evr import _spec as spec
from evr._certificate.certificate import digest_of
from evr._certificate.event_json import event_from_json
from evr._kernel.events import Composition
from evr._kernel.verdict.settings import Claim, Settings
from evr.errors import CertificateError, LedgerError, SpecError

GAUSSIAN = dp_event.GaussianDpEvent(2.0)
scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(width=64) | st.text(max_size=20)
documents = st.recursive(
    scalars, lambda x: st.lists(x, max_size=4) | st.dictionaries(st.text(max_size=8), x, max_size=4)
)
no_hurry = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=150
)


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    ledger = tmp_path_factory.mktemp("fuzz") / "ledger.sqlite"
    return evr.certify(GAUSSIAN, epsilon=1.0, tau=0.8, ledger=ledger).document()


def damaged(data: bytes, chance: random.Random) -> bytes:
    """A few bytes changed, dropped or put in."""
    result = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(result))
        what = chance.randrange(4)
        if what == 0:
            result[place] = chance.randrange(256)
        elif what == 1:
            del result[place : place + chance.randint(1, 20)]
        elif what == 2:
            result[place:place] = bytes(chance.randrange(256) for _ in range(chance.randint(1, 8)))
        else:
            end = chance.randrange(len(result))
            result[place : place + 8] = result[end : end + 8]
    return bytes(result)


@no_hurry
@given(seed=st.integers(0, 2**32))
def test_damaged_certificates(document: dict[str, Any], tmp_path: Path, seed: int) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(damaged(json.dumps(document, indent=1).encode(), random.Random(seed)))
    try:
        certificate = evr.Certificate.load(path)
    except CertificateError:
        return
    assert certificate.document() == document  # white space only


@no_hurry
@given(content=st.text(max_size=200) | documents.map(lambda d: json.dumps(d)))
def test_texts_that_are_no_certificates(content: str) -> None:
    with pytest.raises(CertificateError):
        evr.Certificate.from_json(content)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return found + [place for key, item in items for place in places(item, (*path, key))]


@settings(no_hurry, max_examples=120)
@given(data=st.data())
def test_certificates_with_anything_anywhere(document: dict[str, Any], data: st.DataObject) -> None:
    """The digest mended: whatever loads either replays to something else or says the same."""
    # those cost seconds: other proposals are tuned
    known = [p for p in places(document) if p[0] not in ("event", "claim")]
    path = data.draw(st.sampled_from(known))
    value = data.draw(documents)
    changed = copy.deepcopy(document)
    place = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    try:
        certificate = evr.Certificate.from_json(json.dumps({**changed, "digest": digest_of(changed)}))
    except (CertificateError, ValueError):
        return
    found = evr.replay(certificate, workers=1)
    if found.agrees:
        known_apart = path[0] in ("software", "times", "digest") or path[-1] == "seconds"
        assert known_apart or value in _same(document, path)


def _same(document: dict[str, Any], path: tuple[Any, ...]) -> tuple[Any, ...]:
    """What says the same as what stands there."""
    place: Any = document
    for key in path:
        place = place[key]
    limit = path == ("verification", "max_samples")
    return (place, *range(10**5, 10**5 + 1)) if limit else (place,)


@no_hurry
@given(content=documents)
def test_events_of_anything(content: Any) -> None:
    with contextlib.suppress(ValueError, TypeError):
        Composition.of(event_from_json(content))


@no_hurry
@given(content=st.text(max_size=300))
def test_specifications_of_anything(content: str) -> None:
    with pytest.raises(SpecError):
        spec.parse(content).event()


@no_hurry
@given(seed=st.integers(0, 2**32))
def test_damaged_specifications(seed: int) -> None:
    whole = (
        b'[[mechanism]]\nkind = "gaussian"\nnoise_multiplier = 2.0\nrepeat = 3\n\n[claim]\ndelta = 1e-5\ntau = 0.9\n'
    )
    text = damaged(whole, random.Random(seed)).decode("utf-8", "replace")
    with contextlib.suppress(SpecError):
        spec.parse(text).event()


def test_damaged_ledgers(tmp_path: Path, delta: float) -> None:
    """Bytes of a ledger with an interrupted attempt are changed; continuing it gives the right
    verdict or a clear error.
    """
    path = tmp_path / "ledger.sqlite"
    claim = Claim(1.0, delta / 0.95, 0.95)

    def stop(_: Any) -> None:
        raise KeyboardInterrupt

    with evr.Ledger(path) as ledger:
        certify_claim(GAUSSIAN, claim, Settings(), ledger=ledger)
        with pytest.raises(KeyboardInterrupt):
            certify_claim(GAUSSIAN, claim, Settings(), ledger=ledger, seed=5, progress=stop)
        assert len(ledger.interrupted()) == 1
    whole = path.read_bytes()
    right = evr.verify(GAUSSIAN, epsilon=1.0, delta=delta / 0.95, tau=0.95, attempt=2, seed=5)
    chance = random.Random(1)
    outcomes = {"refused": 0, "right": 0}
    for _ in range(150):
        for other in tmp_path.glob("ledger.sqlite*"):
            other.unlink()
        content = bytearray(whole)
        for _ in range(chance.choice((1, 3, 30))):
            content[chance.randrange(len(content))] = chance.randrange(256)
        path.write_bytes(content[: chance.randrange(len(content))] if chance.random() < 0.1 else content)
        try:
            with evr.Ledger(path) as ledger:
                ledger.check()
                ledger.releases()
                begun = start(ledger, GAUSSIAN, claim, Settings())
                assert begun.number == 3
                certificate = evr.resume(ledger, workers=1)
        except LedgerError:
            outcomes["refused"] += 1
        else:
            assert certificate.verdict == right.verdict.value
            assert certificate.verification.directions["remove"].log_wealth == right.directions["remove"].log_wealth
            outcomes["right"] += 1
    assert min(outcomes.values()) > 10, outcomes
