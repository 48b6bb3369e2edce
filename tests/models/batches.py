"""Who takes part: for a data set, the law of the batches of all steps. One function for each way of sampling."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from models.releases import Sums, joined, mixed, total

Batch = tuple[Any, ...]
Batches = tuple[Batch, ...]
"""The records of the batch of each step."""
Pattern = tuple[int, ...]
"""The steps that a record takes part in."""


def sums_of(batches: Mapping[Batches, float]) -> dict[Sums, float]:
    """The law of the sums of all steps."""
    return mixed((tuple(total(batch) for batch in steps), chance) for steps, chance in batches.items())


def everybody(data: Batch, steps: int = 1) -> dict[Batches, float]:
    return {(data,) * steps: 1.0}


def poisson(data: Batch, probability: float) -> dict[Batch, float]:
    """One batch: each record by a coin of its own."""
    coins = itertools.product((False, True), repeat=len(data))
    return mixed(
        (tuple(itertools.compress(data, heads)), math.prod(probability if head else 1 - probability for head in heads))
        for heads in coins
    )


def without_replacement(data: Batch, size: int) -> dict[Batch, float]:
    """One batch: a uniformly random set of places."""
    places = list(itertools.combinations(range(len(data)), size))
    return mixed((tuple(data[i] for i in chosen), 1 / len(places)) for chosen in places)


def with_replacement(data: Batch, size: int) -> dict[Batch, float]:
    """One batch: independent draws."""
    return mixed((drawn, len(data) ** -size) for drawn in itertools.product(data, repeat=size))


def truncated(data: Batch, probability: float, most: int) -> dict[Batch, float]:
    """One batch: Poisson sampling, and a uniformly random part of a batch that is too large."""
    return mixed(
        (kept, chance * share)
        for batch, chance in poisson(data, probability).items()
        for kept, share in without_replacement(batch, min(most, len(batch))).items()
    )


def each_by_itself(data: Batch, steps: int, patterns: Mapping[Pattern, float]) -> dict[Batches, float]:
    """Each record draws the steps that it takes part in, independently of all others."""
    return mixed((assigned(data, steps, drawn), chance) for drawn, chance in joined(*[patterns] * len(data)).items())


def assigned(data: Batch, steps: int, patterns: Sequence[Pattern]) -> Batches:
    """The batches, given the steps of each record."""
    return tuple(
        tuple(record for record, pattern in zip(data, patterns, strict=True) if step in pattern)
        for step in range(steps)
    )


def poisson_pattern(steps: int, probability: float) -> dict[Pattern, float]:
    return poisson(tuple(range(steps)), probability)


def bins(steps: int, number: int) -> dict[Pattern, float]:
    """One bin of ``number``, drawn once; batch ``i`` is bin ``i % number``."""
    return {tuple(range(first, steps, number)): 1 / number for first in range(number)}


def redrawn_bins(number: int, epochs: int) -> dict[Pattern, float]:
    """One bin of ``number`` in each epoch."""
    every = itertools.product(range(number), repeat=epochs)
    return {tuple(epoch * number + bin for epoch, bin in enumerate(drawn)): number**-epochs for drawn in every}


def allocation(steps: int, participations: int) -> dict[Pattern, float]:
    """A uniformly random set of so many steps."""
    return without_replacement(tuple(range(steps)), participations)


def min_sep(steps: int, separation: int, probability: float, warm: bool) -> dict[Pattern, float]:
    """Whoever was in none of the last ``separation - 1`` batches is in the next with that probability. At first
    everybody is eligible; from a warm start it is as if the training had gone on for long.
    """
    waiting = {0: 1.0}
    if warm:  # the stationary law of the number of steps until a record is eligible
        every = 1 + (separation - 1) * probability
        waiting = {0: 1 / every} | dict.fromkeys(range(1, separation), probability / every)
    law: dict[Pattern, float] = {}

    def go(step: int, taken: Pattern, chance: float) -> None:
        if step >= steps:
            law[taken] = law.get(taken, 0.0) + chance
            return
        go(step + 1, taken, chance * (1 - probability))
        go(step + separation, (*taken, step), chance * probability)

    for wait, chance in waiting.items():
        go(wait, (), chance)
    return law


def cyclic_poisson(steps: int, groups: int, probability: float, group: int) -> dict[Pattern, float]:
    """Batch ``i`` samples group ``i % groups``; the law of one record of the group."""
    return poisson(tuple(range(group, steps, groups)), probability)


def cyclic_independent(steps: int, groups: int, probability: float) -> dict[Pattern, float]:
    """As ``cyclic_poisson``, each record's group drawn by itself."""
    return mixed(
        (pattern, chance / groups)
        for group in range(groups)
        for pattern, chance in cyclic_poisson(steps, groups, probability, group).items()
    )


def cyclic_fixed(data: Batch, steps: int, groups: int, probability: float) -> dict[Batches, float]:
    """As ``cyclic_poisson``, with groups of equal size: record ``i`` is in group ``i % groups``."""
    laws = [cyclic_poisson(steps, groups, probability, i % groups) for i in range(len(data))]
    return mixed((assigned(data, steps, drawn), chance) for drawn, chance in joined(*laws).items())


def shuffled(data: Batch, size: int, epochs: int = 1) -> dict[Batches, float]:
    """In each epoch the records in a random order, cut into batches of ``size``."""
    orders = list(itertools.permutations(range(len(data))))

    def cut(order: Sequence[int]) -> Batches:
        return tuple(tuple(data[i] for i in order[k : k + size]) for k in range(0, len(order), size))

    epoch = mixed((cut(order), 1 / len(orders)) for order in orders)
    return mixed((tuple(itertools.chain(*drawn)), chance) for drawn, chance in joined(*[epoch] * epochs).items())


def in_order(data: Batch, steps: int, size: int = 1) -> Batches:
    """A fixed order, cut into batches of ``size``, from the beginning again after the last record."""
    places = itertools.cycle(range(len(data)))
    return tuple(tuple(data[next(places)] for _ in range(size)) for _ in range(steps))


def tree(data: Batch) -> Batches:
    """The nodes of a binary tree whose leaves are the records, the root included: for each its records. A tree over
    numbers of records that are no power of 2 lacks the nodes that are not complete.
    """
    nodes, size = [], 1
    while size <= len(data):
        nodes += [data[first : first + size] for first in range(0, len(data) - size + 1, size)]
        size *= 2
    return tuple(nodes)


Batching = Callable[[Batch], dict[Batches, float]]
