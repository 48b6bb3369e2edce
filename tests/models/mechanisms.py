"""Models of single mechanisms, on all records or on a sample of them. Each is written from its definition."""

from __future__ import annotations

import contextlib
import itertools
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import attr
import numpy as np
from dp_accounting import dp_event

import evr
from evr._kernel.events import MECHANISMS, schemes
from evr._kernel.pairs import DiscretePair, Pairs
from evr.testing import EMPTY, DataSet, Law
from models import batches, releases
from models.batches import sums_of
from models.cases import ADD_OR_REMOVE, REPLACE_ONE, Case, numbers
from models.releases import joined, mixed, release, release_integers

# --- noise on a sum --------------------------------------------------------------------------------


def gaussian(rng: random.Random, relation: str) -> Case:
    """The sum of numbers from -1 to 1, with normal noise; or of vectors in the plane, of norm 1 at most."""
    noise = rng.choice([0.7, 1.0, 2.0])
    if rng.random() < 0.5:
        return Case(dp_event.GaussianDpEvent(noise), summed(batches.everybody, noise), *numbers(rng, 2))

    def model(data: DataSet) -> Law:
        vectors = [record or (0.0, 0.0) for record in data]
        sums = tuple((x, x) for x in map(math.fsum, zip((0.0, 0.0), *vectors, strict=True)))
        return release({sums: 1.0}, releases.gaussian(noise), noise, greatest=2)

    east, west, north = (1.0, 0.0), (-1.0, 0.0), (0.0, 1.0)
    angle = rng.uniform(0, 2 * math.pi)
    some = (math.cos(angle), math.sin(angle))
    return Case(dp_event.GaussianDpEvent(noise), model, [(east, north), (east, some)], [west, north, some])


def adaptive_clipping(rng: random.Random, relation: str) -> Case:
    """The sum of numbers from -1 to 1, and a count to which each record adds 1/2 or -1/2, with normal noise each."""
    noise, deviation = rng.choice([0.7, 1.0, 2.0]), rng.choice([0.3, 0.5, 2.0])
    event = schemes.AdaptiveClippingDpEvent(noise, deviation)
    half = 0.5
    return Case(event, clipped_sums(noise, deviation), [((1.0, half),), ((1.0, half), (-1.0, -half))], [(-1.0, -half)])


def clipped_sums(noise: float, deviation: float) -> Callable[[DataSet], Law]:
    """Sums of pairs, whose second number has noise of another deviation: it is scaled to the first."""

    def model(data: DataSet) -> Law:
        pairs = [record or (0.0, 0.0) for record in data]
        first, second = map(math.fsum, zip((0.0, 0.0), *pairs, strict=True))
        second *= noise / deviation
        return release({((first, first), (second, second)): 1.0}, releases.gaussian(noise), noise, greatest=4)

    return model


def laplace(rng: random.Random, relation: str) -> Case:
    """The sum of numbers from -1 to 1, with Laplace noise."""
    scale = rng.choice([0.7, 1.0, 3.0])
    model = summed(batches.everybody, scale, releases.laplace)
    return Case(dp_event.LaplaceDpEvent(scale), model, *numbers(rng, 2))


def summed(
    batching: batches.Batching, scale: float, noise: Callable[[float], releases.Noise] = releases.gaussian, **more: Any
) -> Callable[[DataSet], Law]:
    """A model that releases the sum of each batch with noise."""
    return lambda data: release(sums_of(batching(data)), noise(scale), scale, **more)


def integers(chances: np.ndarray, most: int) -> Callable[[DataSet], Law]:
    """The sum of integers from ``-most`` to ``most``, with noise on the integers."""
    return lambda data: release_integers({(sum(x or 0 for x in data),): 1.0}, chances, 2 * most)


def discrete_laplace(rng: random.Random, relation: str) -> Case:
    """The sum of integers, with noise of probability proportional to ``e^{-a|x|}``."""
    parameter, most = rng.choice([0.3, 1.0]), rng.choice([1, 2])
    event = dp_event.DiscreteLaplaceDpEvent(parameter, most)
    return Case(event, integers(releases.discrete_laplace(parameter), most), *whole_numbers(most))


def discrete_gaussian(rng: random.Random, relation: str) -> Case:
    """The sum of integers, with noise of probability proportional to ``e^{-x^2 / (2 sigma^2)}``."""
    sigma, most = rng.choice([0.8, 1.5, 3.0]), rng.choice([1, 2])
    event = schemes.DiscreteGaussianDpEvent(sigma, most)
    return Case(event, integers(releases.discrete_gaussian(sigma), most), *whole_numbers(most))


def discrete_gaussian_vectors(rng: random.Random, relation: str) -> Case:
    """As ``discrete_gaussian``, for vectors of two integers, each of which has noise of its own."""
    sigma = rng.choice([1.5, 3.0])
    return _integer_vectors(schemes.DiscreteGaussianDpEvent(sigma, 1.0, dimension=2), sigma, 1)


def summed_discrete_gaussians(rng: random.Random, relation: str) -> Case:
    """As ``discrete_gaussian``, each of several clients adding such noise."""
    sigma, clients = rng.choice([2.0, 3.0]), rng.choice([2, 3])
    if rng.random() < 0.5:
        event = schemes.SummedDiscreteGaussiansDpEvent(sigma, clients, 1)
        return Case(event, integers(releases.discrete_gaussian(sigma, clients), 1), *whole_numbers(1))
    return _integer_vectors(schemes.SummedDiscreteGaussiansDpEvent(sigma, clients, 1, 2), sigma, clients)


def whole_numbers(most: int) -> tuple[list[DataSet], list[int]]:
    return [(most, -most), (most, most), (1, 0)], [most, -most, 0]


def _integer_vectors(event: dp_event.DpEvent, sigma: float, clients: int) -> Case:
    """Vectors of two integers, of norm 1 at most."""
    chances = releases.discrete_gaussian(sigma, clients)

    def model(data: DataSet) -> Law:
        vectors = [record or (0, 0) for record in data]
        return release_integers({tuple(map(sum, zip((0, 0), *vectors, strict=True))): 1.0}, chances, 2)

    return Case(event, model, [((1, 0), (0, 1)), ((1, 0), (-1, 0))], [(-1, 0), (0, 1)])


def mixture_of_gaussians(rng: random.Random, relation: str) -> Case:
    """The sum of numbers with normal noise, each record multiplied by a size that is drawn for it."""
    noise, probability = rng.choice([0.7, 1.5]), rng.choice([0.2, 0.6])
    sizes = {0.0: 1 - probability, 0.5: probability / 2, 1.5: probability / 2}
    event = dp_event.MixtureOfGaussiansDpEvent(noise, list(sizes), list(sizes.values()))
    return Case(event, summed(scaled(sizes), noise), *numbers(rng, 2))


def scaled(sizes: dict[float, float]) -> batches.Batching:
    def batching(data: DataSet) -> dict[batches.Batches, float]:
        draws = joined(*[sizes] * len(data))
        return mixed(
            ((tuple(size * (x or 0.0) for size, x in zip(drawn, data, strict=True)),), chance)
            for drawn, chance in draws.items()
        )

    return batching


# --- mechanisms of which a guarantee is known ------------------------------------------------------


def any_bit(data: DataSet) -> bool:
    """Whether some record is positive: a bit that one record can change, under each relation."""
    return any(record is not EMPTY and record > 0 for record in data)


def noisy_bit(bit: bool, epsilon: float, delta: float) -> dict[Any, float]:
    """A bit that is right with odds ``e^epsilon``, and with probability delta known to be right: no mechanism that is
    (epsilon, delta)-DP tells more (Kairouz, Oh and Viswanath 2015).
    """
    right = (1 - delta) / (1 + math.exp(-epsilon))
    return {(bit, "sure"): delta, (bit, "likely"): right, (not bit, "likely"): 1 - delta - right}


ONE_BIT: list[DataSet] = [(1.0, -1.0), (1.0,), (-1.0, -1.0)]


def epsilon_delta(rng: random.Random, relation: str) -> Case:
    """A noisy bit, or the sum of bits with Laplace noise that happens to be private enough."""
    epsilon, delta = rng.choice([0.1, 0.5, 2.0]), rng.choice([0.0, 1e-3, 0.05])
    event = schemes.EpsilonDeltaDpEvent(epsilon, delta)
    if rng.random() < 0.7:
        return Case(event, lambda data: noisy_bit(any_bit(data), epsilon, delta), ONE_BIT, [1.0, -1.0])
    sensitivity = 2 if relation == REPLACE_ONE else 1
    return Case(event, summed(batches.everybody, sensitivity / epsilon, releases.laplace), *numbers(rng, 2))


def concentrated(rng: random.Random, relation: str) -> Case:
    """A sum with normal noise, and a noisy bit: the first is rho-zCDP, and the second adds xi."""
    sensitivity, rho, xi = 2 if relation == REPLACE_ONE else 1, rng.choice([0.02, 0.5]), rng.choice([0.0, 0.2])
    noise = sensitivity / math.sqrt(2 * rho)

    def model(data: DataSet) -> Law:
        bit = np.array([noisy_bit(any_bit(data), xi, 0.0)[value, "likely"] for value in (False, True)])
        return np.multiply.outer(bit, release({(releases.total(data),): 1.0}, releases.gaussian(noise), noise))

    return Case(dp_event.ZCDpEvent(rho, xi), model, *numbers(rng, 2))


def scores_of(data: DataSet, options: int) -> list[float]:
    """Each record adds a number from -1 to 1 to the score of each option."""
    return [math.fsum(record[i] for record in data if record is not EMPTY) for i in range(options)]


def _choice(
    rng: random.Random, relation: str, event: dp_event.DpEvent, choose: Callable[[list[float]], list[float]]
) -> Case:
    options = rng.choice([2, 3])

    def ballots() -> tuple[float, ...]:
        kind = rng.choice([1.0, None])
        return tuple(rng.choice([-1.0, 1.0]) if kind else rng.uniform(-1, 1) for _ in range(options))

    first = (1.0,) + (-1.0,) * (options - 1)
    opposed = tuple(-x for x in first)
    sensitivity = 2 if relation == REPLACE_ONE else 1  # replacing a record changes a score by up to 2

    def model(data: DataSet) -> Law:
        return dict(enumerate(choose([score / sensitivity for score in scores_of(data, options)])))

    known: list[DataSet] = [(first, *[tuple(x * weight for x in first)] * 2) for weight in (-1.0, -0.5, 0.0, 0.5, 1.0)]
    return Case(event, model, [*known, (ballots(), ballots())], [opposed, ballots()])


def exponential(rng: random.Random, relation: str) -> Case:
    """A choice with probabilities proportional to ``e^{epsilon score / (2 sensitivity)}``."""
    epsilon = rng.choice([0.3, 1.0, 2.0])

    def choose(scores: list[float]) -> list[float]:
        weights = [math.exp(epsilon * score / 2) for score in scores]
        return [weight / sum(weights) for weight in weights]

    return _choice(rng, relation, schemes.ExponentialMechanismDpEvent(epsilon), choose)


def permute_and_flip(rng: random.Random, relation: str) -> Case:
    """Options in a random order, each taken with probability ``e^{epsilon (score - best) / (2 sensitivity)}``."""
    epsilon = rng.choice([0.3, 1.0, 2.0])

    def choose(scores: list[float]) -> list[float]:
        takes = [math.exp(epsilon * (score - max(scores)) / 2) for score in scores]
        chances, orders = [0.0] * len(scores), list(itertools.permutations(range(len(scores))))
        for order in orders:
            left = 1 / len(orders)
            for option in order:
                chances[option] += left * takes[option]
                left *= 1 - takes[option]
        return chances

    return _choice(rng, relation, schemes.PermuteAndFlipDpEvent(epsilon), choose)


def above_threshold(rng: random.Random, relation: str) -> Case:
    """Which score, each with Laplace noise, is the first above a noisy threshold, if any."""
    epsilon = rng.choice([0.3, 1.0, 2.0])
    return _choice(rng, relation, schemes.AboveThresholdDpEvent(epsilon), first_above(2 / epsilon, 4 / epsilon))


def first_above(of_threshold: float, of_scores: float) -> Callable[[list[float]], list[float]]:
    """The chances of each score to be the first above a threshold of 0, and of none; by the scales of the noise."""
    places = np.linspace(-40, 40, 80_001) * of_threshold
    weights = np.exp(-np.abs(places) / of_threshold)

    def choose(scores: list[float]) -> list[float]:
        still, chances = weights / weights.sum(), []
        for score in scores:
            beyond = np.abs(places - score) / of_scores
            below = np.where(places > score, 1 - 0.5 * np.exp(-beyond), 0.5 * np.exp(-beyond))
            chances.append(float((still * (1 - below)).sum()))
            still = still * below
        return [*chances, float(still.sum())]

    return choose


def randomized_response(rng: random.Random, relation: str) -> Case:
    """Every record publishes its answer, or with some probability a uniformly random one. An empty record publishes a
    uniformly random answer.
    """
    noise, answers = rng.choice([0.3, 0.8]), rng.choice([2, 3])
    event = dp_event.RandomizedResponseDpEvent(noise, answers)
    return Case(event, published_answers(noise, answers), [(0, 1), (1,)], list(range(answers)))


def published_answers(noise: float, answers: int) -> Callable[[DataSet], Law]:
    def answer(record: int | None) -> dict[int, float]:
        if record is EMPTY:
            return dict.fromkeys(range(answers), 1 / answers)
        return {value: noise / answers + (1 - noise) * (value == record) for value in range(answers)}

    return lambda data: joined(*map(answer, data))


# --- a mechanism on a sample of the records --------------------------------------------------------


def sampled(
    batching: Callable[[DataSet], dict[DataSet, float]], base: Callable[[DataSet], Law]
) -> Callable[[DataSet], Law]:
    """The base mechanism, on a batch."""

    def model(data: DataSet) -> Law:
        laws = [(base(batch), chance) for batch, chance in batching(data).items()]
        if isinstance(laws[0][0], dict):
            return mixed((outcome, share * chance) for law, chance in laws for outcome, share in law.items())
        return np.sum([chance * np.asarray(law) for law, chance in laws], axis=0)

    return model


def answers(epsilon: float, times: int) -> Callable[[DataSet], Law]:
    """Whether some record is 1, answered at random, so many times."""

    def model(data: DataSet) -> Law:
        law, found = noisy_answer(epsilon, 1.0 in data), np.ones(1)
        for _ in range(times):
            found = np.multiply.outer(found, law).ravel()
        return found

    return model


def noisy_answer(epsilon: float, bit: bool) -> np.ndarray:
    """A bit that is right with odds ``e^epsilon``."""
    right = 1 / (1 + math.exp(-epsilon))
    return np.array([1 - right, right] if bit else [right, 1 - right])


def named_bits(epsilon: float) -> Callable[[DataSet], Law]:
    """Everybody in a batch publishes who they are, and a noisy bit. An empty record has the bit False. To change one
    record is epsilon-DP.
    """

    def model(batch: DataSet) -> Law:
        bits = [noisy_bit(bit, epsilon, 0.0) for _, bit in batch]
        return joined({tuple(name for name, _ in batch): 1.0}, *bits)

    return model


def _poisson(rng: random.Random, base: Case, probability: float | None = None) -> Case:
    """Each record is in the batch by a coin of its own, and the base runs on the batch."""
    chance = rng.choice([0.1, 0.5, 0.9]) if probability is None else probability
    event = dp_event.PoissonSampledDpEvent(chance, base.event)
    return Case(event, sampled(lambda data: batches.poisson(data, chance), base.model), base.data_sets, base.values)


def poisson_of_gaussian(rng: random.Random, relation: str) -> Case:
    """Each record is in the batch by a coin of its own; the sum of the batch has normal noise, once or twice. Or the
    batch is sampled once more.
    """
    kind = rng.choice(["once", "once", "twice", "sampled twice"])
    if kind == "once" or (kind == "sampled twice" and relation == REPLACE_ONE):
        return _poisson(rng, gaussian(rng, relation))
    if kind == "sampled twice":
        return _poisson(rng, _poisson(rng, gaussian(rng, relation)))
    noise = rng.choice([1.0, 2.0])
    event = dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(noise), 2)
    model = summed(lambda batch: batches.everybody(batch, 2), noise)
    return _poisson(rng, Case(event, model, *numbers(rng, 2, steps=2)))


def poisson_of_scalar_noise(rng: random.Random, relation: str) -> Case:
    """As ``poisson_of_gaussian``, with Laplace noise or noise on the integers."""
    return _poisson(rng, rng.choice([laplace, discrete_laplace, discrete_gaussian])(rng, relation))


def poisson_of_other_noise(rng: random.Random, relation: str) -> Case:
    """As ``poisson_of_gaussian``, with noise on many integers, with noise of several clients, or with sizes drawn."""
    bases = [discrete_gaussian_vectors, summed_discrete_gaussians, mixture_of_gaussians]
    return _poisson(rng, rng.choice(bases)(rng, relation))


def poisson_of_guarantee(rng: random.Random, relation: str) -> Case:
    """A mechanism that is known to be private runs on the batch. Where neighbours have the same number of records, it
    may show who is in the batch.
    """
    if relation == ADD_OR_REMOVE:
        return _poisson(rng, rng.choice([epsilon_delta, epsilon_delta, exponential, concentrated])(rng, relation))
    epsilon, probability = rng.choice([0.5, 2.0]), rng.choice([0.1, 0.5])

    def batching(data: DataSet) -> dict[DataSet, float]:
        return batches.poisson(tuple((name, record == 1.0) for name, record in enumerate(data)), probability)

    event = dp_event.PoissonSampledDpEvent(probability, schemes.EpsilonDeltaDpEvent(epsilon, 0.0))
    return Case(event, sampled(batching, named_bits(epsilon)), [(1.0, -1.0)], [-1.0])


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ScaledLaplaceDpEvent(dp_event.DpEvent):
    """A registered mechanism that adds noise to a sum: Laplace noise, by its scale and the sensitivity."""

    scale: float
    sensitivity: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class NoisyAlarmDpEvent(dp_event.DpEvent):
    """A registered mechanism that adds no noise to a sum: an alarm, whether some record is positive."""

    hit: float
    false_alarm: float


@contextlib.contextmanager
def registered() -> Iterator[None]:
    """Teaches evr both."""

    def alarm(event: NoisyAlarmDpEvent) -> Pairs:
        laws = [[1 - event.hit, event.hit], [1 - event.false_alarm, event.false_alarm]]
        return Pairs(DiscretePair.from_probabilities(*laws), DiscretePair.from_probabilities(*laws[::-1]))

    def scaled_laplace(event: ScaledLaplaceDpEvent) -> dp_event.DpEvent:
        return dp_event.LaplaceDpEvent(event.scale / event.sensitivity)

    evr.register(ScaledLaplaceDpEvent, scaled_laplace, adds_noise_to_a_sum=True)
    evr.register(NoisyAlarmDpEvent, alarm)
    try:
        yield
    finally:
        del MECHANISMS[ScaledLaplaceDpEvent], MECHANISMS[NoisyAlarmDpEvent]


def scaled_laplace(rng: random.Random, relation: str) -> Case:
    """The sum of numbers, with Laplace noise; it is registered."""
    scale, sensitivity = rng.choice([1.0, 3.0]), rng.choice([0.5, 1.0])
    data_sets, values = numbers(rng, 2)
    scaled = lambda data: tuple(x and sensitivity * x for x in data)  # noqa: E731
    plain = summed(batches.everybody, scale, releases.laplace)
    return Case(ScaledLaplaceDpEvent(scale, sensitivity), lambda data: plain(scaled(data)), data_sets, values)


def alarm(rng: random.Random, relation: str) -> Case:
    """An alarm, whether some record is positive; it is registered."""
    hit, false_alarm = rng.choice([(0.6, 0.2), (0.9, 0.05)])

    def model(data: DataSet) -> Law:
        rings = hit if any_bit(data) else false_alarm
        return {"rings": rings, "silent": 1 - rings}

    return Case(NoisyAlarmDpEvent(hit, false_alarm), model, [(1.0, -1.0), (1.0,)], [-1.0])


def poisson_of_registered_noise(rng: random.Random, relation: str) -> Case:
    """As ``poisson_of_gaussian``, with noise that is registered."""
    return _poisson(rng, scaled_laplace(rng, relation))


def poisson_of_alarm(rng: random.Random, relation: str) -> Case:
    """A mechanism that is registered, and adds no noise to a sum, runs on the batch."""
    return _poisson(rng, alarm(rng, relation))


def poisson_of_everybody(rng: random.Random, relation: str) -> Case:
    """Each record is in the batch with probability 1."""
    return _poisson(rng, rng.choice([gaussian, laplace, epsilon_delta, exponential])(rng, relation), 1.0)


def poisson_of_several_sums(rng: random.Random, relation: str) -> Case:
    """One batch, by coins: its sum is released with normal noise, and once more with Laplace noise."""
    noise, scale, probability = rng.choice([0.7, 1.5]), rng.choice([1.0, 3.0]), rng.choice([0.1, 0.5])
    both = dp_event.ComposedDpEvent([dp_event.GaussianDpEvent(noise), dp_event.LaplaceDpEvent(scale)])

    def model(data: DataSet) -> Law:
        found: Any = 0.0
        for batch, chance in batches.poisson(data, probability).items():
            sums = sums_of({(batch,): 1.0})
            laws = release(sums, releases.gaussian(noise), noise), release(sums, releases.laplace(scale), scale)
            narrow = [np.add.reduceat(law, range(0, law.size, 8)) for law in laws]
            found = found + chance * np.outer(*narrow)
        return np.asarray(found)

    return Case(dp_event.PoissonSampledDpEvent(probability, both), model, *numbers(rng, 2))


def poisson_of_several(rng: random.Random, relation: str) -> Case:
    """One batch, by coins: a mechanism that is known to be private runs on it twice."""
    epsilon, probability = rng.choice([0.5, 2.0]), rng.choice([0.1, 0.5])
    twice = dp_event.SelfComposedDpEvent(schemes.EpsilonDeltaDpEvent(epsilon, 0.0), 2)
    event = dp_event.PoissonSampledDpEvent(probability, twice)
    model = sampled(lambda data: batches.poisson(data, probability), answers(epsilon, 2))
    return Case(event, model, [(1.0, -1.0), (-1.0, -1.0)], [1.0, -1.0])


def without_replacement_of_gaussian(rng: random.Random, relation: str) -> Case:
    """A uniformly random set of places, and normal noise on the sum of their records."""
    return _of_fixed_size(rng, relation, dp_event.SampledWithoutReplacementDpEvent, batches.without_replacement)


def with_replacement_of_gaussian(rng: random.Random, relation: str) -> Case:
    """Independent draws of records, and normal noise on the sum."""
    return _of_fixed_size(rng, relation, dp_event.SampledWithReplacementDpEvent, batches.with_replacement)


def with_replacement_of_laplace(rng: random.Random, relation: str) -> Case:
    event = dp_event.SampledWithReplacementDpEvent(3, 2, dp_event.LaplaceDpEvent(1.0))
    return Case(event, summed(batches.everybody, 1.0, releases.laplace), *numbers(rng, 2))


def _of_fixed_size(rng: random.Random, relation: str, event: Any, batching: Callable[..., Any]) -> Case:
    noise, size = rng.choice([0.7, 1.5]), rng.choice([1, 2])
    data_sets = [(1.0, -1.0, -1.0), (1.0, -1.0, rng.uniform(-1, 1))]  # of the larger data set's size
    model = summed(lambda data: {(batch,): chance for batch, chance in batching(data, size).items()}, noise)
    return Case(event(3, size, dp_event.GaussianDpEvent(noise)), model, data_sets, [1.0, -1.0])


def without_replacement_of_noise(rng: random.Random, relation: str) -> Case:
    """A uniformly random set of places, and noise on the sum of their records, or of a sample of them."""
    make = rng.choice([laplace, discrete_laplace, discrete_gaussian])
    return _without_replacement(rng, make(rng, relation))


def without_replacement_of_others(rng: random.Random, relation: str) -> Case:
    """A uniformly random set of places, and a mechanism that is known to be private on their records."""
    make = rng.choice([epsilon_delta, epsilon_delta, exponential, concentrated])
    return _without_replacement(rng, make(rng, relation))


def _without_replacement(rng: random.Random, base: Case) -> Case:
    first, size = base.data_sets[0][0], rng.choice([1, 2])
    other = next(value for value in base.values if value != first)
    event = dp_event.SampledWithoutReplacementDpEvent(3, size, base.event)
    model = sampled(lambda data: batches.without_replacement(data, size), base.model)
    return Case(event, model, [(first, other, other), (first, first, other)], [other, *base.values])


def truncated(rng: random.Random, relation: str) -> Case:
    """Poisson sampling with normal noise, and a uniformly random part of a batch that is too large."""
    noise, probability = rng.choice([0.7, 1.5]), rng.choice([0.2, 0.7, 1.0])
    size, most = rng.choice([(2, 1), (3, 1), (3, 2), (2, 2)])
    event = dp_event.TruncatedSubsampledGaussianDpEvent(size, probability, most, noise)
    model = summed(steps(lambda data: batches.truncated(data, probability, most)), noise)
    data_sets, values = numbers(rng, size)
    same, opposed = (1.0,) * size, (1.0, *[-1.0] * (size - 1))
    return Case(event, model, [*data_sets[1:], same, opposed], values)  # of the stated size


def steps(batching: Callable[[DataSet], dict[DataSet, float]], count: int = 1) -> batches.Batching:
    """So many steps, the batch of each drawn anew."""
    return lambda data: joined(*[batching(data)] * count)


def zero_out_only(rng: random.Random, relation: str) -> Case:
    """As many steps as there are records; each is in a batch with probability 1 over their number."""
    noise, size = rng.choice([0.7, 1.5]), 2
    step = dp_event.PoissonSampledDpEvent(1 / size, dp_event.GaussianDpEvent(noise))
    event = schemes.ZeroOutDpEvent(dp_event.SelfComposedDpEvent(step, size))
    batching = lambda data: steps(lambda part: batches.poisson(part, 1 / len(data)), len(data))(data)  # noqa: E731
    data_sets, values = numbers(rng, size, steps=size)
    return Case(event, summed(batching, noise), [(1.0, EMPTY), *data_sets[1:]], values)


# --- disjoint parts --------------------------------------------------------------------------------


def parallel(rng: random.Random, relation: str) -> Case:
    """Two parts, each of which has its sum released with normal noise. A record is its part and a number."""
    noise = rng.choice([0.7, 1.0, 2.0])
    event = schemes.ParallelDpEvent(dp_event.GaussianDpEvent(noise))
    data_sets: list[DataSet] = [(("b", 1.0),), (("a", 1.0), ("b", -1.0)), (("a", rng.uniform(-1, 1)), ("a", 1.0))]
    return Case(event, sums_of_parts(noise, lambda part: [part]), data_sets, [("a", -1.0), ("b", 1.0)])


def sums_of_parts(noise: float, parts_of: Callable[[str], list[str]], empty: float = 0.0) -> Callable[[DataSet], Law]:
    """The noisy sums of the parts "a" and "b". An empty record adds that number to "a"."""

    def model(data: DataSet) -> Law:
        records = [("a", empty) if record is EMPTY else record for record in data]
        sums = [math.fsum(x for part, x in records if name in parts_of(part)) for name in "ab"]
        return release({tuple((x, x) for x in sums): 1.0}, releases.gaussian(noise), noise, greatest=2)

    return model
