"""Cheap verifications: plans are made once for each composition, which changes no number."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest
from dp_accounting import dp_event

import evr
from evr._estimate.capped import capped_plan
from evr._plan import sampled as plans

cached_plan = lru_cache(maxsize=256)(capped_plan)
GAUSSIAN = dp_event.GaussianDpEvent(2.0)


@pytest.fixture(autouse=True)
def _tuned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "capped_plan", cached_plan)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[evr.Ledger]:
    with evr.Ledger(tmp_path / "ledger.sqlite") as opened:
        yield opened


@pytest.fixture(scope="session")
def gaussian() -> dp_event.DpEvent:
    """A mechanism whose delta at epsilon 1 is known in closed form."""
    return GAUSSIAN


@pytest.fixture(scope="session")
def delta() -> float:
    """A little above the truth, for the Gaussian mechanism at epsilon 1."""
    return 1.0001 * float(evr.estimate_delta(GAUSSIAN, 1.0))
