"""Every hypothesis is needed: a mechanism that breaks it exceeds the bound."""

from __future__ import annotations

from typing import Any

import attr
import numpy as np
import pytest
from dp_accounting import dp_event

from evr._kernel.events.meaning import Row
from evr._kernel.events.table import HYPOTHESES
from models.broken import BROKEN, check_assumed, check_breaks, ids_of
from models.mechanisms import first_above
from models.rows import ROWS, name

TEN = dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(0.3), 10)


def test_every_hypothesis_has_a_counterexample() -> None:
    assert set(BROKEN) == set(HYPOTHESES)


@pytest.mark.parametrize("hypothesis", BROKEN)
def test_a_hypothesis_is_needed(hypothesis: str) -> None:
    check_breaks(hypothesis)


def test_above_threshold_needs_a_threshold_that_is_not_from_the_data() -> None:
    """A record raises the threshold by 1, and lowers the first thirty scores by 1 and raises the last by 1."""
    choose = first_above(2.0, 4.0)  # of epsilon 1
    without, held = (np.array(choose([-below] * 30 + [0.0])) for below in (4.0, 6.0))
    assert np.maximum(held - np.e * without, 0.0).sum() > 0.005
    assert "the threshold and which scores to look at were chosen" in HYPOTHESES["above-threshold"].sentence


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_a_row_says_what_breaks_mechanisms_of_its_kind(row: Row) -> None:
    check_assumed(row)


@pytest.mark.parametrize(
    ("event", "relation"),
    [
        (dp_event.PoissonSampledDpEvent(0.01, TEN), "add-or-remove"),
        (dp_event.PoissonSampledDpEvent(0.01, TEN), "replace-one"),
        (dp_event.SampledWithoutReplacementDpEvent(100, 1, TEN), "replace-one"),
    ],
)
def test_several_mechanisms_of_one_sample_say_so(event: Any, relation: str) -> None:
    """Ten steps on ten batches cost more than ten on one: delta(0) is 0.0734 instead of 0.012 in the first case."""
    assert "one-sample" in ids_of(event, relation)
    assert "one-sample" not in ids_of(dp_event.SelfComposedDpEvent(attr.evolve(event, event=TEN.event), 10), relation)
