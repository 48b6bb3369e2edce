"""The gate and its variants: nothing runs that was not verified, and nothing twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dp_accounting import dp_event

import evr
from evr.errors import AlreadyReleasedError, NotReleasedError, UnsupportedEventError
from helpers import near


class Mechanism:
    """Counts how often it ran."""

    def __init__(self, value: Any = "answer") -> None:
        self.value, self.runs = value, 0

    def __call__(self) -> Any:
        self.runs += 1
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value


@pytest.fixture
def claim(delta: float, ledger: evr.Ledger) -> dict[str, Any]:
    return {"epsilon": 1.0, "delta": delta / 0.9, "tau": 0.9, "ledger": ledger}


def test_released_if_verified(gaussian: Any, claim: dict[str, Any], delta: float, tmp_path: Path) -> None:
    mechanism = Mechanism()
    out = evr.release(mechanism, gaussian, **claim, path=tmp_path / "c.json")
    assert (out.released, out.value, mechanism.runs) == (True, "answer", 1)
    assert out.certificate.guarantee is not None
    assert (out.certificate.guarantee.epsilon, out.certificate.guarantee.delta) == (1.0, delta / 0.9)
    assert evr.Certificate.load(tmp_path / "c.json").digest == out.certificate.digest
    assert claim["ledger"].releases()[0].output == "released"


def test_refused_if_not(gaussian: Any, claim: dict[str, Any]) -> None:
    mechanism = Mechanism()
    out = evr.release(mechanism, gaussian, **(claim | {"delta": claim["delta"] / 2}))
    assert not out.released
    assert mechanism.runs == 0
    assert out.certificate.verdict == "rejected"
    with pytest.raises(NotReleasedError, match="nothing was released") as raised:
        _ = out.value
    assert raised.value.certificate is out.certificate
    assert claim["ledger"].releases()[0].output is None


def test_one_output_and_then_a_name(gaussian: Any, claim: dict[str, Any]) -> None:
    evr.release(Mechanism(), gaussian, **claim)
    again = Mechanism()
    with pytest.raises(AlreadyReleasedError, match="let out its one output"):
        evr.release(again, gaussian, **claim)
    assert again.runs == 0
    assert len(claim["ledger"].attempts()) == 1
    assert evr.release(again, gaussian, **claim, name="second paper").released
    with pytest.raises(AlreadyReleasedError, match="release 'second paper' let out its one output"):
        evr.release(again, gaussian, **claim, name="second paper")
    assert again.runs == 1


def test_another_mechanism_is_the_next_attempt_of_a_release(gaussian: Any, claim: dict[str, Any]) -> None:
    """The paper's fallback: a mechanism that passes runs where the first one did not."""
    first, second = Mechanism("first"), Mechanism("second")
    small = claim | {"delta": claim["delta"] / 2, "method": "sequential"}
    rejected = evr.release(first, gaussian, **small)
    assert not rejected.released
    out = evr.release(second, dp_event.GaussianDpEvent(4.0), **small)
    assert (out.released, out.value) == (True, "second")
    assert (first.runs, second.runs) == (0, 1)
    assert [c.release.attempt for c in (rejected.certificate, out.certificate)] == [1, 2]
    assert out.certificate.release.allowance == near(rejected.certificate.release.allowance / 2)
    with pytest.raises(AlreadyReleasedError):
        evr.release(first, gaussian, **small)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"direction": "remove"}, TypeError, "argument 'direction'"),
        ({"attempt": 1}, TypeError, "argument 'attempt'"),
        ({"method": "guess"}, ValueError, "method='guess'"),
        ({"max_samples": -1}, ValueError, "max_samples=-1"),
        ({"max_samples": 2**53, "method": "sequential"}, ValueError, r"9,007,199,254,740,992 is not below 2\*\*53"),
        ({"tau": 1.0}, ValueError, "tau=1.0"),
        ({"nonsense": 1}, TypeError, "argument 'nonsense': the options of samples are seed,"),
    ],
)
def test_bad_options_count_nothing(
    gaussian: Any, claim: dict[str, Any], options: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        evr.release(Mechanism(), gaussian, **(claim | options))
    assert claim["ledger"].attempts() == []


def test_what_is_not_an_event_or_not_a_mechanism(claim: dict[str, Any], gaussian: Any) -> None:
    with pytest.raises(TypeError, match=r"mechanism=.* is not a function"):
        evr.release("train", gaussian, **claim)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="is not a DpEvent"):
        evr.release(Mechanism(), "gaussian", **claim)
    with pytest.raises(UnsupportedEventError):
        evr.release(Mechanism(), dp_event.UnsupportedDpEvent(), **claim)
    assert claim["ledger"].attempts() == []


def test_the_fixed_verifier_behind_the_gate(gaussian: Any, claim: dict[str, Any]) -> None:
    out = evr.release(Mechanism(), gaussian, **(claim | {"tau": 0.7}), method="fixed")
    assert out.released
    assert out.certificate.verification.method == "fixed"
    assert evr.replay(out.certificate).agrees


def test_default_ledger(gaussian: Any, delta: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert evr.release(Mechanism(), gaussian, epsilon=1.0, delta=delta / 0.9, tau=0.9).released
    assert (tmp_path / ".evr" / "ledger.sqlite").exists()
