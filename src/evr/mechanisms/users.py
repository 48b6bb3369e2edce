"""Users instead of records: events that bound how many records a user owns (docs/guarantees_relations.md, R5.4, R7)."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from functools import partial

import attr
from dp_accounting import NeighboringRelation, dp_event

from evr import validate
from evr.errors import UnsupportedEventError
from evr.laws import Pairs
from evr.laws.exact import ExactLabelled, exact_without_replacement
from evr.laws.exact.law import ball, float_log
from evr.laws.line import poisson
from evr.laws.line.gaussian import GaussianPair
from evr.laws.patterns.strategy import noise_over
from evr.mechanisms.descriptor import Mechanism
from evr.mechanisms.noise import gaussians
from evr.mechanisms.relations import ADD_OR_REMOVE, REPLACE_ONE
from evr.mechanisms.schemes import FixedBatchUsersDpEvent, PoissonSampledUsersDpEvent, UsersDpEvent
from evr.mechanisms.training import SPLIT, scheme

MOST_RECORDS = 10_000
_NEGLIGIBLE = Fraction(1, 10**80)  # weights below go to the greatest number of records


@scheme
def pairs(event: PoissonSampledUsersDpEvent, times: int = 1) -> Pairs:
    """Dominating pairs of one step of Poisson sampling by records, for users. ``times`` is as of other noise."""
    records = _records(event.records_per_user)
    norm = Fraction(records if event.user_norm is None else validate.positive(user_norm=event.user_norm))
    chances = defaultdict[Fraction, Fraction](Fraction)
    for number, chance in binomial(records, Fraction(event.sampling_probability)).items():
        chances[min(Fraction(number), norm)] += chance
    return gaussians(chances, event.noise_multiplier, times)


@scheme
def fixed_batches(event: FixedBatchUsersDpEvent) -> Pairs:
    """The pair of one step on a batch of a fixed size, for users, under replace-one (Section R7.3)."""
    noise, size, batch = event.noise_multiplier, event.source_dataset_size, event.sample_size
    records = _records(event.records_per_user, most=1000)
    for name, value in (("sample_size", batch), ("records_per_user", records)):
        if value > size:
            raise ValueError(f"{name}={value!r} is above source_dataset_size={size!r}")
    chances = hypergeometric(size, records, batch)
    share = 1 - chances.pop(0, Fraction(0))
    weights = tuple(chance / share for chance in chances.values())
    exact = ExactLabelled(tuple((2 * j / Fraction(noise)) ** 2 for j in chances), weights)
    pair = poisson.EitherPair(
        tuple(GaussianPair(2 * j / noise) for j in chances), tuple(float_log(ball(weight)) for weight in weights)
    )
    if share == 1:
        return Pairs.both(pair, exact)
    return Pairs.both(poisson.sampled_without_replacement(pair, float(share)), exact_without_replacement(exact, share))


def split(event: UsersDpEvent) -> dp_event.DpEvent:
    """A mechanism for each record of a user, each with its share of the noise (Section R7.4)."""
    records, inner = _records(event.records_per_user), event.event
    if type(inner) not in SPLIT:
        raise UnsupportedEventError(
            f"UsersDpEvent of {type(inner).__name__} has no law here: give one of "
            f"{', '.join(sorted(cls.__name__ for cls in SPLIT))}; for DP-SGD, dpsgd(..., records_per_user=...)",
            event,
        )
    noise = validate.noise_scale(noise_multiplier=inner.noise_multiplier)
    each = attr.evolve(inner, noise_multiplier=noise_over(noise, records))
    return each if records == 1 else dp_event.SelfComposedDpEvent(each, records)


def _held(event: UsersDpEvent) -> NeighboringRelation:
    """Under which relation the scheme itself holds."""
    held = SPLIT[type(event.event)].relation if type(event.event) in SPLIT else None
    return ADD_OR_REMOVE if held is None else held(event.event)


def _records(records_per_user: int, most: int = MOST_RECORDS) -> int:
    records = validate.positive_integer(records_per_user=records_per_user)
    if records > most:
        raise ValueError(f"records_per_user={records!r} is above {most:,}: bound what a user contributes")
    return records


def hypergeometric(size: int, records: int, batch: int) -> dict[int, Fraction]:
    """How many of a user's records are in a batch; negligible numbers above 0 are moved to the greatest.

    >>> hypergeometric(4, 2, 2)
    {0: Fraction(1, 6), 1: Fraction(2, 3), 2: Fraction(1, 6)}
    """
    ways, least, most = math.comb(size, records), max(0, records + batch - size), min(records, batch)
    count = math.comb(batch, least) * math.comb(size - batch, records - least)  # of ways, for each number
    found, rest = dict[int, Fraction](), ways
    for number in range(least, most + 1):
        if number in (0, most) or count * _NEGLIGIBLE.denominator >= ways:
            found[number], rest = Fraction(count, ways), rest - count
        count = count * (batch - number) * (records - number)
        count //= (number + 1) * (size - batch - records + number + 1) or 1
    found[most] += Fraction(rest, ways)
    return found


def binomial(count: int, q: Fraction) -> dict[int, Fraction]:
    """The binomial law, its negligible weights moved to ``count``.

    >>> binomial(2, Fraction(1, 2))
    {0: Fraction(1, 4), 1: Fraction(1, 2), 2: Fraction(1, 4)}
    """
    if q == 1:
        return {count: Fraction(1)}
    found, weight, odds = dict[int, Fraction](), (1 - q) ** count, q / (1 - q)
    for number in range(count + 1):
        if weight >= _NEGLIGIBLE:
            found[number] = weight
        elif number > count * q:
            break
        weight = weight * odds * Fraction(count - number, number + 1)
    rest = 1 - sum(found.values(), Fraction(0))
    if rest > 0:
        found[count] = found.get(count, Fraction(0)) + rest
    return found


_of_users = partial(Mechanism, takes_sampling=False, unit="user")

MECHANISMS = (
    _of_users(PoissonSampledUsersDpEvent, pairs, under={REPLACE_ONE: partial(pairs, times=2)}),
    _of_users(FixedBatchUsersDpEvent, fixed_batches, relation=lambda event: REPLACE_ONE),
    _of_users(UsersDpEvent, split, relation=_held, under={REPLACE_ONE: split}),
)
