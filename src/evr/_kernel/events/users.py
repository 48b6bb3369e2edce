"""Users who own several records: one step that samples records, or takes a batch of a fixed size
(docs/guarantees_relations.md, R5.4 and R7), and training schemes.
"""

import math
from collections import defaultdict
from fractions import Fraction

import attr
from dp_accounting import dp_event

from evr._basics import validate
from evr._kernel.events import schemes
from evr._kernel.events.noise import gaussians, labelled
from evr._kernel.events.training import scheme
from evr._kernel.pairs import Pairs
from evr._kernel.pairs.patterns.strategy import noise_over

MOST_RECORDS = 10**4  # of a user
_NEGLIGIBLE = Fraction(1, 10**80)  # weights below go to the greatest number of records


@scheme
def sampled(event: schemes.PoissonSampledUsersDpEvent, times: int = 1) -> Pairs:
    """Dominating pairs of one step of Poisson sampling by records. ``times`` is as of other noise."""
    records = _records(event.records_per_user)
    norm = Fraction(records if event.user_norm is None else validate.positive(user_norm=event.user_norm))
    chances = defaultdict[Fraction, Fraction](Fraction)
    for number, chance in binomial(records, Fraction(event.sampling_probability)).items():
        chances[min(Fraction(number), norm)] += chance
    return gaussians(chances, event.noise_multiplier, times)


@scheme
def fixed_batches(event: schemes.FixedBatchUsersDpEvent) -> Pairs:
    """The pair of one step on a batch of a fixed size, under replace-one (Section R7.3)."""
    noise, size, batch = event.noise_multiplier, event.source_dataset_size, event.sample_size
    records = _records(event.records_per_user, most=1000)
    for name, value in (("sample_size", batch), ("records_per_user", records)):
        if value > size:
            raise ValueError(f"{name}={value!r} is above source_dataset_size={size!r}")
    chances = hypergeometric(size, records, batch)
    share = 1 - chances.pop(0, Fraction(0))
    return labelled({j: chance / share for j, chance in chances.items()}, (2 / Fraction(noise)) ** 2, share)


def split(event: schemes.UsersDpEvent) -> dp_event.DpEvent:
    """A mechanism for each record of a user, each with its share of the noise (Section R7.4)."""
    records, inner = _records(event.records_per_user), event.event
    noise = validate.noise_scale(noise_multiplier=inner.noise_multiplier)
    each = attr.evolve(inner, noise_multiplier=noise_over(noise, records))
    return each if records == 1 else dp_event.SelfComposedDpEvent(each, records)


def _records(records_per_user: int, most: int = MOST_RECORDS) -> int:
    records = validate.positive_integer(records_per_user=records_per_user)
    if records > most:
        raise ValueError(f"records_per_user={records!r} is above {most:,}: bound what a user contributes")
    return records


def hypergeometric(size: int, records: int, batch: int) -> dict[int, Fraction]:
    """The law of the number of a user's records in a batch; negligible weights above 0 go to the greatest.

    >>> hypergeometric(4, 2, 2)
    {0: Fraction(1, 6), 1: Fraction(2, 3), 2: Fraction(1, 6)}
    """
    ways, most = math.comb(size, records), min(records, batch)
    found, rest = dict[int, Fraction](), ways
    for number in range(max(0, records + batch - size), most + 1):
        count = math.comb(batch, number) * math.comb(size - batch, records - number)
        if number in (0, most) or count * _NEGLIGIBLE.denominator >= ways:
            found[number], rest = Fraction(count, ways), rest - count
    found[most] += Fraction(rest, ways)
    return found


def binomial(count: int, q: Fraction) -> dict[int, Fraction]:
    """The binomial law; negligible weights go to ``count``.

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
