"""Every hypothesis is needed: a mechanism that breaks it exceeds the bound."""

from __future__ import annotations

import pytest

from evr.mechanisms.meaning import HYPOTHESES, Row
from models.broken import BROKEN, check_assumed, check_breaks
from models.rows import ROWS, name


def test_every_hypothesis_has_a_counterexample() -> None:
    assert set(BROKEN) == set(HYPOTHESES)


@pytest.mark.parametrize("hypothesis", BROKEN)
def test_a_hypothesis_is_needed(hypothesis: str) -> None:
    check_breaks(hypothesis)


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_a_row_says_what_breaks_mechanisms_of_its_kind(row: Row) -> None:
    check_assumed(row)
