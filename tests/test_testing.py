"""What ``evr.testing`` says of models that are none: a check that compares nothing must not pass."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from dp_accounting.dp_event import RandomizedResponseDpEvent

from evr.testing import check_model

COIN = RandomizedResponseDpEvent(0.5, 2)  # keeps a bit with probability 3/4


def kept(data: tuple[Any, ...]) -> dict[int, float]:
    return {1: 0.75, 0: 0.25} if data == (1,) else {1: 0.25, 0: 0.75}


def test_a_model_within_its_law_and_one_beyond() -> None:
    assert len(check_model(COIN, kept, [(1,)], "replace-one", [0])) >= 40
    with pytest.raises(AssertionError, match="exceeds"):
        check_model(COIN, lambda data: {data: 1.0}, [(1,)], "replace-one", [0])


@pytest.mark.parametrize("data_sets", [[], [()], [(1,)]])
def test_without_neighbours_there_is_nothing_to_compare(data_sets: list[Any]) -> None:
    with pytest.raises(ValueError, match="nothing to compare: give data sets of records, and for replace-one values"):
        check_model(COIN, kept, data_sets, "replace-one")


@pytest.mark.parametrize(
    ("law", "words"),
    [
        (lambda data: {1: 0.5, 0: 0.4}, "sum to 0.9 and 0.9, not to 1"),
        (lambda data: {1: math.nan, 0: 1.0}, "not probabilities"),
        (lambda data: {1: 1.5, 0: -0.5}, "not probabilities"),
        (lambda data: {1: math.inf, 0: 1.0}, "sum to inf"),
        (lambda data: np.array([0.5, 0.5] if data == (1,) else [1.0]), "of the same outcomes"),
    ],
)
def test_what_is_no_law_is_refused(law: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_model(COIN, law, [(1,)], "replace-one", [0])
