"""Models of trainings of several steps, for records and for users. In all of them a step releases the sum of its batch
with normal noise, and what a record contributes may depend on what was released before.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
from dp_accounting import dp_event

from evr._kernel.events import schemes
from evr.testing import EMPTY, DataSet, Law
from models import batches, releases
from models.cases import Case, Maker, numbers
from models.mechanisms import noisy_answer, steps, summed
from models.releases import release

BANDS = [(1.0,), (1.0, 0.5), (1.0, 0.3)]


def toeplitz(column: tuple[float, ...], size: int) -> np.ndarray:
    """The lower triangular matrix with this first column, and the same on all diagonals."""
    return np.sum([value * np.eye(size, k=-lag) for lag, value in enumerate(column[:size])], axis=0)


def drawn_by_each(patterns: Mapping[batches.Pattern, float], count: int) -> batches.Batching:
    return lambda data: batches.each_by_itself(data, count, patterns)


def _training(
    rng: random.Random,
    event: dp_event.DpEvent,
    batching: batches.Batching,
    count: int,
    column: tuple[float, ...] = (1.0,),
    size: int = 2,
) -> Case:
    matrix = None if column == (1.0,) else toeplitz(column, count)
    model = summed(batching, event.noise_multiplier, matrix=matrix, greatest=size)
    return Case(event, model, *numbers(rng, size, steps=count))


def bins(rng: random.Random, relation: str) -> Case:
    """Each record is in one bin, drawn once; batch ``i`` is bin ``i`` modulo their number."""
    noise, column = rng.choice([1.0, 2.0]), rng.choice(BANDS)
    count, number = rng.choice([(2, 2), (3, 3), (3, 3), (3, 2), (2, 1)])
    event = schemes.BallsInBinsDpEvent(noise, count, number, column)
    return _training(rng, event, drawn_by_each(batches.bins(count, number), count), count, column)


def redrawn_bins(rng: random.Random, relation: str) -> Case:
    """As ``bins`` in each epoch, the bins drawn anew."""
    noise, number, epochs = rng.choice([1.0, 2.0]), *rng.choice([(2, 1), (3, 1)])
    event = schemes.RedrawnBinsDpEvent(noise, number, epochs)
    count = number * epochs
    return _training(rng, event, drawn_by_each(batches.redrawn_bins(number, epochs), count), count)


def allocation(rng: random.Random, relation: str) -> Case:
    """Each record is in a uniformly random set of steps of a fixed size."""
    noise, (count, participations) = rng.choice([1.0, 2.0]), rng.choice([(2, 1), (3, 1), (3, 2)])
    event = schemes.RandomAllocationDpEvent(noise, count, participations)
    return _training(rng, event, drawn_by_each(batches.allocation(count, participations), count), count)


def one_of_sums(rng: random.Random, relation: str) -> Case:
    """The records of each of two groups are summed with noise of their own; each record draws its group."""
    noises, probability = (rng.choice([1.0, 2.0]), 1.5), rng.choice([0.4, 1.0])
    step = dp_event.PoissonSampledDpEvent if probability < 1 else None
    groups = [dp_event.LaplaceDpEvent(noises[0]), dp_event.LaplaceDpEvent(noises[1])]
    events = groups if step is None else [step(probability, one) for one in groups]
    patterns = batches.cyclic_independent(2, 2, probability)

    def model(data: DataSet) -> Law:
        found: Any = 0.0
        for sums, chance in batches.sums_of(batches.each_by_itself(data, 2, patterns)).items():
            laws = [release({(own,): 1.0}, releases.laplace(b), b) for own, b in zip(sums, noises, strict=True)]
            narrow = [np.add.reduceat(law, range(0, law.size, 8)) for law in laws]
            found = found + chance * np.outer(*narrow)
        return np.asarray(found)

    return Case(schemes.OneOfDpEvent(events), model, [(1.0, -1.0), (1.0, 0.5)], [-1.0, 1.0])


def one_of_others(rng: random.Random, relation: str) -> Case:
    """A yes or no of each of two groups, whether some record of it is 1, answered at random."""
    epsilons = rng.choice([0.5, 2.0]), 1.0

    def model(data: DataSet) -> Law:
        found: Any = 0.0
        for both, chance in batches.each_by_itself(data, 2, batches.bins(2, 2)).items():
            first, second = (noisy_answer(e, 1.0 in own) for own, e in zip(both, epsilons, strict=True))
            found = found + chance * np.outer(first, second)
        return np.asarray(found)

    event = schemes.OneOfDpEvent([schemes.EpsilonDeltaDpEvent(epsilon, 0.0) for epsilon in epsilons])
    return Case(event, model, [(1.0, -1.0), (-1.0, -1.0)], [1.0, -1.0])


def allocated_sums(rng: random.Random, relation: str) -> Case:
    """Each record is in one of the steps, or in several, each of which adds Laplace noise to its sum."""
    scale, (count, participations) = rng.choice([1.0, 2.0]), rng.choice([(2, 1), (2, 2), (3, 2)])
    event = schemes.AllocatedDpEvent(dp_event.LaplaceDpEvent(scale), participations, count)
    batching = drawn_by_each(batches.allocation(count, participations), count)
    model = summed(batching, scale, releases.laplace)
    return Case(event, model, [(1.0, -1.0), (1.0, 0.5)], [-1.0, 1.0])


def allocated_others(rng: random.Random, relation: str) -> Case:
    """As ``one_of_others``, with one mechanism for all steps."""
    case = one_of_others(random.Random(0), relation)
    epsilon = rng.choice([0.5, 2.0])

    def model(data: DataSet) -> Law:
        found: Any = 0.0
        for both, chance in batches.each_by_itself(data, 2, batches.bins(2, 2)).items():
            first, second = (noisy_answer(epsilon, 1.0 in own) for own in both)
            found = found + chance * np.outer(first, second)
        return np.asarray(found)

    event = schemes.AllocatedDpEvent(schemes.EpsilonDeltaDpEvent(epsilon, 0.0), 1, 2)
    return Case(event, model, case.data_sets, case.values)


def min_sep(rng: random.Random, relation: str) -> Case:
    """Whoever was in none of the last batches is in the next by a coin."""
    noise, probability, warm = rng.choice([1.0, 2.0]), rng.choice([0.3, 0.8, 1.0]), rng.choice([False, True])
    count, (separation, column) = rng.choice([2, 3]), rng.choice([(2, bands) for bands in BANDS] + [(1, (1.0,))])
    event = schemes.BMinSepDpEvent(noise, count, separation, probability, warm, column)
    patterns = batches.min_sep(count, separation, probability, warm)
    return _training(rng, event, drawn_by_each(patterns, count), count, column)


def cyclic_independent(rng: random.Random, relation: str) -> Case:
    """Batch ``i`` samples group ``i`` modulo their number by Poisson; each record's group is drawn by itself."""
    noise, probability = rng.choice([1.0, 2.0]), rng.choice([0.4, 1.0])
    count, groups, partition = rng.choice([(2, 2, "independent"), (3, 2, "independent"), (2, 1, "fixed")])
    event = schemes.CyclicPoissonDpEvent(noise, count, groups, probability, partition)
    return _training(rng, event, drawn_by_each(batches.cyclic_independent(count, groups, probability), count), count)


def cyclic_fixed(rng: random.Random, relation: str) -> Case:
    """As ``cyclic_independent``, the groups being of equal size and known."""
    noise, probability, column = rng.choice([1.0, 2.0]), rng.choice([0.4, 1.0]), rng.choice(BANDS)
    count, groups = rng.choice([2, 3]), 2
    event = schemes.CyclicPoissonDpEvent(noise, count, groups, probability, "fixed", column)
    batching = lambda data: batches.cyclic_fixed(data, count, groups, probability)  # noqa: E731
    return _training(rng, event, batching, count, column)


def matrix(rng: random.Random, relation: str) -> Case:
    """Correlated noise; each record has steps of its own, far enough apart, whoever else is there."""
    noise, column, count = rng.choice([1.0, 2.0]), rng.choice([*BANDS, (1.0, -0.5), (0.5, 1.0)]), rng.choice([2, 3])
    separation = rng.choice([1, 2])
    event = schemes.MatrixMechanismDpEvent(noise, column, count, separation)
    own = tuple(range(0, count, separation))
    model = summed(
        lambda data: {batches.assigned(data, count, [own] * len(data)): 1.0},
        noise,
        matrix=toeplitz(column, count),
        greatest=2,
    )
    data_sets, values = numbers(rng, 2, steps=count)
    turning = tuple(itertools.repeat((-1.0, 1.0), 2))
    return Case(event, model, [*data_sets, turning], values)


def matrix_in_order(rng: random.Random, relation: str) -> Case:
    """What people run: correlated noise, batches of a fixed size in a fixed order. Each record takes part once."""
    noise, column, count = rng.choice([1.0, 2.0]), rng.choice(BANDS), 3
    event = schemes.MatrixMechanismDpEvent(noise, column, count, count, 1)
    model = summed(lambda data: {batches.in_order(data, count): 1.0}, noise, matrix=toeplitz(column, count), greatest=1)
    return Case(event, model, [(1.0, -1.0, 1.0, -1.0)], [1.0, -1.0])


def users_in_order(rng: random.Random, relation: str) -> Case:
    """As ``matrix_in_order``, for users of two records."""
    base = matrix_in_order(rng, relation)
    data_sets: list[DataSet] = [((1.0, -1.0), (1.0, -1.0))]
    return Case(
        schemes.UsersDpEvent(base.event, 2), lambda data: base.model(records_of(data, 2)), data_sets, [(-1.0, 1.0)]
    )


def tree(rng: random.Random, relation: str) -> Case:
    """Every node of a binary tree releases the sum of its leaves with noise; a leaf is a record."""
    noise, size = rng.choice([1.0, 2.0]), rng.choice([1, 2, 3])
    event = dp_event.SingleEpochTreeAggregationDpEvent(noise, [size])
    return Case(event, summed(lambda data: {batches.tree(data): 1.0}, noise), *numbers(rng, size))


def shuffled(rng: random.Random, relation: str) -> Case:
    """In each epoch the records in a random order, cut into batches of one, or one batch of all of them."""
    noise, epochs = rng.choice([1.0, 2.0]), rng.choice([1, 2])
    event = schemes.ShuffledBatchesDpEvent(noise, epochs)
    shuffle = rng.choice([True, False])

    def batching(data: DataSet) -> dict[batches.Batches, float]:
        return batches.shuffled(data, 1, epochs) if shuffle else batches.everybody(data, epochs)

    return _training(rng, event, batching, 2 * epochs)


# --- users -----------------------------------------------------------------------------------------


def users_of(rng: random.Random, most: int) -> tuple[list[DataSet], list[Any]]:
    """Data sets of users, who own up to ``most`` records each, and users to put in their places."""
    own = (1.0,) * most
    opposed = tuple(-x for x in own)
    some = tuple(rng.uniform(-1, 1) for _ in range(rng.randint(1, most)))
    return [(own, opposed[:1]), (own,), (some, own[:1])], [opposed, some]


def records_of(users: DataSet, most: int) -> DataSet:
    """All records of all users; whoever has less than ``most``, or was emptied, has empty ones in their places."""
    return tuple(itertools.chain(*((*(user or ()), *[EMPTY] * (most - len(user or ()))) for user in users)))


def poisson_users(rng: random.Random, relation: str) -> Case:
    """Each record of each user is in the batch by a coin of its own. With a norm per user, the sum of a user's records
    in the batch is clipped to it.
    """
    noise, probability, most = rng.choice([0.7, 1.5]), rng.choice([0.1, 0.5, 0.9]), rng.choice([2, 2, 3, 1])
    norm = rng.choice([None, None, 0.5, 1.5])
    event = schemes.PoissonSampledUsersDpEvent(noise, probability, most, norm)

    def of_user(user: Any) -> dict[DataSet, float]:
        batch = batches.poisson(user or (), probability)
        if norm is None:
            return batch
        return batches.mixed(((max(-norm, min(norm, sum(own))),), chance) for own, chance in batch.items())

    def batching(users: DataSet) -> dict[batches.Batches, float]:
        drawn = batches.joined(*map(of_user, users))
        return batches.mixed(((tuple(itertools.chain(*parts)),), chance) for parts, chance in drawn.items())

    return Case(event, summed(batching, noise), *users_of(rng, most))


def fixed_batch_users(rng: random.Random, relation: str) -> Case:
    """A uniformly random set of places; a user owns up to so many of them."""
    noise, most, size = rng.choice([0.7, 1.5]), rng.choice([1, 2]), rng.choice([3, 4])
    batch = rng.randint(1, size)
    event = schemes.FixedBatchUsersDpEvent(noise, size, batch, most)
    own = (1.0,) * most
    opposed = tuple(-x for x in own)
    others = [(rng.choice([-1.0, 1.0]),) for _ in range(size - most)]
    draw = steps(lambda data: batches.without_replacement(data, batch))
    model = summed(lambda users: draw(tuple(itertools.chain(*users))), noise, greatest=size)
    fewer = (1.0, *[EMPTY] * (most - 1))
    return Case(event, model, [(own, *[(-1.0,)] * (size - most)), (own, *others)], [opposed, fewer])


def any_of(*makers: Maker) -> Maker:
    return lambda rng, relation: rng.choice(makers)(rng, relation)


def of_users(maker: Maker) -> Maker:
    """The model of a scheme, each record of a user taking part by itself."""

    def make(rng: random.Random, relation: str) -> Case:
        base, most = maker(rng, relation), rng.choice([1, 2])
        event = schemes.UsersDpEvent(base.event, most)
        data_sets, values = users_of(rng, most)
        return Case(event, lambda users: base.model(records_of(users, most)), data_sets[1:], values)

    return make
