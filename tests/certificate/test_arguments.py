"""What callers give beside an event: kinds of integers, hooks, names of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event

import evr
from evr._report.page import write_report
from evr.errors import CertificateError


@pytest.mark.parametrize(
    ("option", "kind", "message"),
    [
        ({"progress": 3}, TypeError, "progress=3 is not a function"),
        ({"progress": "bar"}, TypeError, "progress='bar' is not a function"),
        ({"announce": 3}, TypeError, "announce=3 is not a function"),
        ({"path": 3}, TypeError, "path=3 is not the name of a file"),
        ({"seed": True}, ValueError, "seed=True is not an integer >= 0"),
        ({"seed": 1.0}, ValueError, r"seed=1\.0 is not an integer >= 0"),
    ],
)
def test_what_would_fail_later_is_refused_before_it_counts(
    ledger: evr.Ledger, gaussian: dp_event.DpEvent, option: dict[str, Any], kind: type[Exception], message: str
) -> None:
    """A hook that is none was once found out in the middle of an attempt."""
    with pytest.raises(kind, match=message):
        evr.certify(gaussian, epsilon=1.0, ledger=ledger, **option)
    assert ledger.attempts() == []


@pytest.mark.parametrize("progress", [3, "bar"])
def test_hooks_of_a_verification_and_of_a_release(
    ledger: evr.Ledger, gaussian: dp_event.DpEvent, delta: float, progress: Any
) -> None:
    with pytest.raises(TypeError, match=r"progress=.* is not a function"):
        evr.verify(gaussian, epsilon=1.0, delta=delta, progress=progress, method="sequential")
    with pytest.raises(TypeError, match=r"progress=.* is not a function"):
        evr.release(int, gaussian, epsilon=1.0, delta=delta, ledger=ledger, progress=progress)
    assert ledger.attempts() == []


def test_a_seed_is_an_integer_of_any_kind(gaussian: dp_event.DpEvent, delta: float) -> None:
    """NumPy's were refused as no integers."""
    seven: Any = np.int64(7)
    given = evr.verify(gaussian, epsilon=1.0, delta=delta / 0.5, tau=0.5, seed=seven)
    assert type(given.seed) is int
    assert given.entropy == 7


def test_a_certificate_is_given_by_its_file_too(tmp_path: Path, ledger: evr.Ledger, gaussian: dp_event.DpEvent) -> None:
    """The name of a file was once searched for fields of a certificate."""
    path = tmp_path / "certificate.json"
    evr.certify(gaussian, delta=1e-5, ledger=ledger, path=path)
    assert evr.replay(path).agrees
    assert evr.replay(str(path)).agrees
    with pytest.raises(CertificateError, match="cannot be read"):
        evr.replay(str(tmp_path / "nowhere.json"))
    with pytest.raises(TypeError, match="certificate=3 is not the name of a file"):
        evr.replay(3)  # type: ignore[arg-type]
    write_report(path, tmp_path / "page.html")
    assert "differentially private" in (tmp_path / "page.html").read_text("utf-8")


@pytest.mark.parametrize("ledger", [0.5, True, b"ledger"])
def test_a_ledger_has_a_name(ledger: Any) -> None:
    with pytest.raises(TypeError, match=r"ledger=.* is not the name of a file"):
        evr.Ledger(ledger)
