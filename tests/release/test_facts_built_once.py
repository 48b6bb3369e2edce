"""Each fact is built once: what a strict ``certify`` translates, plans and proves."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import evr
from evr._kernel.events import Composition
from evr._kernel.strict import prove_within
from evr._plan.strict import StrictCurve

EVENT = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-2, steps=50)


def test_one_translation_and_one_proof_of_each_direction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: Counter[str] = Counter()
    translated, planned = Composition.of, StrictCurve.plans

    def of(event: Any, *more: Any) -> Composition:
        counts["translated"] += not isinstance(event, Composition)
        return translated(event, *more)

    def plans(self: StrictCurve, *more: Any, **named: Any) -> Any:
        counts["planned"] += 1
        return planned(self, *more, **named)

    def prove(*more: Any) -> Any:
        counts["proved"] += 1
        return prove_within(*more)

    monkeypatch.setattr(Composition, "of", of)
    monkeypatch.setattr(StrictCurve, "plans", plans)
    monkeypatch.setattr("evr._kernel.verdict.attempts.prove_within", prove)
    monkeypatch.setattr("evr._proving.choosing.prove_within", prove)
    found = evr.certify(EVENT, epsilon=1.0, delta=1e-5, ledger=tmp_path / "ledger.sqlite")
    assert (found.accepted, found.verification.method) == (True, "strict")
    assert counts == {"translated": 1, "planned": 2, "proved": 2}
