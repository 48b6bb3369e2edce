"""From a ``PoissonSampledUsersDpEvent`` to its pairs (docs/guarantees_relations.md, R5.4)."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from dp_accounting import dp_event

from evr import validate
from evr.laws import TRIVIAL_PAIR, Pairs
from evr.laws.exact import ExactGaussian
from evr.laws.line.gaussian import GaussianPair
from evr.mechanisms.descriptor import NON_PRIVATE, Mechanism
from evr.mechanisms.mixture import mixed
from evr.mechanisms.relations import REPLACE_ONE
from evr.mechanisms.schemes import PoissonSampledUsersDpEvent

MOST_RECORDS = 10_000
_NEGLIGIBLE = Fraction(1, 10**80)  # weights below go to the greatest number of records


def pairs(event: PoissonSampledUsersDpEvent, *, replaced: bool = False) -> Pairs | dp_event.DpEvent:
    """Dominating pairs of one step of Poisson sampling by records, for users."""
    noise = validate.noise_scale(noise_multiplier=event.noise_multiplier)
    q = validate.probability(sampling_probability=event.sampling_probability)
    records = validate.positive_integer(records_per_user=event.records_per_user)
    if records > MOST_RECORDS:
        raise ValueError(f"records_per_user={records!r} is above {MOST_RECORDS:,}: bound what a user contributes")
    if q == 0:
        return Pairs.both(TRIVIAL_PAIR)
    if noise == 0:
        return NON_PRIVATE
    chances = binomial(records, Fraction(q))
    exact = tuple(Fraction(number) / Fraction(noise) for number in chances)
    if len(exact) == 1:  # everybody takes part
        mean = (2 if replaced else 1) * exact[0]
        return Pairs.both(GaussianPair(float(mean)), ExactGaussian(mean**2))
    means = tuple(number / noise for number in chances)
    return mixed(means, exact, tuple(chances.values()), replaced=replaced)


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


MECHANISM = Mechanism(
    PoissonSampledUsersDpEvent,
    pairs,
    assumptions=(
        "no user had more than the stated number of records in the data",
        "each record was in each batch independently, with the stated probability",
        "each record's gradient was clipped to norm 1 times the clipping norm, and the sum was divided by a constant",
    ),
    takes_sampling=False,
    under={REPLACE_ONE: partial(pairs, replaced=True)},
    unit="user",
)
