"""A case: an event, the model of what it says, and small data sets to try."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from dp_accounting import dp_event

from evr.testing import DataSet, Law

ADD_OR_REMOVE, ZERO_OUT, REPLACE_ONE = RELATIONS = ("add-or-remove", "zero-out", "replace-one")


class Case(NamedTuple):
    event: dp_event.DpEvent
    model: Callable[[DataSet], Law]
    data_sets: list[DataSet]
    values: list[Any]


Maker = Callable[[random.Random, str], Case]
"""Draws a case for a relation."""


def numbers(rng: random.Random, size: int, *, steps: int = 1) -> tuple[list[DataSet], list[Any]]:
    """Data sets of numbers from -1 to 1, adversarial and random, and numbers to put in their places. If there are
    several steps, some records contribute what depends on earlier outputs.
    """
    any_number = lambda: rng.uniform(-1, 1)  # noqa: E731
    opposed = tuple((-1.0) ** i for i in range(size))
    data_sets: list[DataSet] = [(1.0,), opposed, tuple(any_number() for _ in range(size))]
    values: list[Any] = [-1.0, any_number()]
    if steps > 1:
        data_sets[2] = tuple((any_number(), any_number()) for _ in range(size))
        values[1] = (1.0, -1.0)
    return data_sets, values
