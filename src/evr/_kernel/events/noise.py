"""Single mechanisms: noise, randomized response, and mechanisms of which a guarantee is known.

One record changes a value by its norm when it is added, removed or zeroed out, and by up to twice its norm
when it is replaced: ``times`` is that factor. Of an ``(epsilon, delta)`` guarantee the tight pair is that of
Kairouz, Oh and Viswanath (2015); zCDP and choices among many are in docs/guarantees_state.md, G3 to G6.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from fractions import Fraction

from dp_accounting import dp_event

from evr._basics import validate
from evr._kernel.events import schemes
from evr._kernel.events.relations import NON_PRIVATE, Laws
from evr._kernel.pairs import Law, Pairs, exact
from evr._kernel.pairs.exact.shifted import integer_gaussian
from evr._kernel.pairs.line.gaussian import NORMAL_REACH

NOTHING = Pairs.both(exact.RationalOutcomes.of([1], [1]))
"""The laws of a mechanism that reveals nothing."""
_MOST_SENSITIVITY = 1_000_000  # discrete Laplace noise has as many outcomes
_MOST_SIGMA, _MOST_SIGMA_IN_MANY = 20_000.0, 1e12  # of discrete Gaussian noise on one integer, and on many
_LEAST_RHO, _MOST_RHO = 1e-24, 1e3
_LEAST_RANGE, _MOST_RANGE = 1e-12, 100.0


def gaussian(event: dp_event.GaussianDpEvent, times: int = 1) -> Laws:
    noise = validate.noise_scale(noise_multiplier=event.noise_multiplier)
    if noise == 0:
        return NON_PRIVATE
    return Pairs.both(exact.ExactGaussian((times / Fraction(noise)) ** 2))


def adaptive_clipping(event: schemes.AdaptiveClippingDpEvent, times: int = 1) -> Laws:
    """One Gaussian mechanism: the sum and twice the count, each over its noise (guarantees_state, G9)."""
    noise = validate.noise_scale(noise_multiplier=event.noise_multiplier)
    count = validate.noise_scale(clipped_count_stddev=event.clipped_count_stddev)
    if noise == 0 or count == 0:
        return NON_PRIVATE
    square = Fraction(times) ** 2 * (1 / Fraction(noise) ** 2 + 1 / (2 * Fraction(count)) ** 2)
    return Pairs.both(exact.ExactGaussian(square))


def laplace(event: dp_event.LaplaceDpEvent, times: int = 1) -> Laws:
    noise = validate.noise_scale(noise_multiplier=event.noise_multiplier)
    if noise == 0:
        return NON_PRIVATE
    return Pairs.both(exact.ExactLaplace(Fraction(noise) / times))


def discrete_laplace(event: dp_event.DiscreteLaplaceDpEvent, times: int = 1) -> Laws:
    """The laws of noise of probability ``tanh(a/2) e^{-a|x|}`` on the integers."""
    a = validate.noise_scale(noise_parameter=event.noise_parameter)
    shift = times * validate.positive_integer(sensitivity=event.sensitivity)
    if shift > _MOST_SENSITIVITY:
        raise ValueError(f"sensitivity={shift!r} is above {_MOST_SENSITIVITY}: rescale the values")
    if a == 0:
        return NON_PRIVATE
    return Pairs.both(exact.ExactDiscreteLaplace(Fraction(a), shift))


def discrete_gaussian(
    event: schemes.DiscreteGaussianDpEvent | schemes.SummedDiscreteGaussiansDpEvent, times: int = 1
) -> Laws:
    """The laws of integer noise of probability proportional to ``e^{-x^2 / (2 sigma^2)}``, or of sums of such
    noise: on one coordinate exactly; on several those of rounded continuous noise of a smaller variance
    (guarantees_state, G2), or where ``sigma`` is small or the dimension unknown, those of zCDP (G3).
    """
    sigma, dimension, clients = validate.noise_scale(sigma=event.sigma), event.dimension, 1
    if isinstance(event, schemes.SummedDiscreteGaussiansDpEvent):
        clients = validate.positive_integer(clients=event.clients)
    if dimension is not None or clients > 1:
        dimension = validate.positive_integer(dimension=dimension)
    if clients == 1 == dimension:
        return _scalar(sigma, times * validate.positive_integer(sensitivity=event.sensitivity))
    sensitivity = times * validate.positive(sensitivity=event.sensitivity)
    if sensitivity < 1 or sigma * math.sqrt(clients) > _MOST_SIGMA_IN_MANY:
        what = f"sigma={sigma!r}, sensitivity={event.sensitivity!r}"
        rule = f"the noise has a deviation of {_MOST_SIGMA_IN_MANY:g} at most. Count both in integers"
        raise ValueError(f"{what}: integer values change by 1 or more, and {rule}")
    if sigma == 0 or sensitivity > 100 * sigma * math.sqrt(clients):
        return NON_PRIVATE
    law = None if dimension is None else integer_gaussian(sigma, sensitivity, dimension, clients)
    if law is not None:
        return Pairs.both(law)
    if clients > 1:
        why = f"sigma={sigma!r} of each of clients={clients!r} is too small for dimension={dimension!r}"
        raise ValueError(f"{why}: their sum is not near a Gaussian. Scale the values up, and sigma with them")
    return dp_event.ZCDpEvent(math.nextafter(sensitivity**2 / sigma**2 / 2 * (1 + 1e-15), math.inf))


def _scalar(sigma: float, shift: int) -> Laws:
    """Discrete Gaussian noise on one integer, which a record changes by at most ``shift``."""
    if sigma == 0:
        return NON_PRIVATE
    if sigma > _MOST_SIGMA:
        raise ValueError(f"sigma={sigma!r} is above {_MOST_SIGMA:g}, too many outcomes: rescale the values")
    if shift > 10 * NORMAL_REACH * sigma + 10:
        return NON_PRIVATE  # the two laws do not overlap within what a float can tell
    return Pairs.both(exact.ExactDiscreteGaussian(Fraction(sigma), shift))


def mixture(event: dp_event.MixtureOfGaussiansDpEvent, times: int = 1) -> Laws:
    """The laws of noise around one of several values."""
    deviation = validate.noise_scale(standard_deviation=event.standard_deviation)
    sizes = validate.sequence(sensitivities=event.sensitivities)
    sizes = [validate.noise_scale(sensitivities=size) for size in sizes]
    probs = validate.sequence(sampling_probs=event.sampling_probs)
    if not sizes or len(sizes) != len(probs):
        found = f"sensitivities has {len(sizes)} entries and sampling_probs {len(probs)}"
        raise ValueError(f"{found}: give as many of one as of the other, at least one")
    chances = defaultdict[Fraction, Fraction](Fraction)
    for size, probability in zip(sizes, validate.law(sampling_probs=probs), strict=True):
        if probability > 0:
            chances[Fraction(size)] += Fraction(probability)
    if max(chances) == 0:
        return NOTHING
    if deviation == 0:
        return NON_PRIVATE
    for value in chances:
        validate.noise_scale(sensitivity_over_standard_deviation=float(value) / deviation)
    return gaussians(chances, deviation, times)


def gaussians(chances: Mapping[Fraction, Fraction], deviation: float, times: int) -> Pairs:
    """The pairs of noise around values of given sizes by their chances, up to a factor (R5.3)."""
    total = sum(chances.values())
    ratios = {size / Fraction(deviation): chance / total for size, chance in sorted(chances.items())}
    if times == 2 and len(ratios) > 1:
        return Pairs.both(exact.ExactMixture(tuple(ratios), tuple(ratios.values()), None))
    return gaussians_by_square(ratios, Fraction(times) ** 2)


def gaussians_by_square(chances: Mapping[Fraction, Fraction], square: Fraction) -> Pairs:
    """Noise around values of sizes ``j sqrt(square)`` by their chances, in units of its deviation."""
    sizes = tuple(sorted(chances))
    if len(sizes) == 1:
        return Pairs.both(exact.ExactGaussian(sizes[0] ** 2 * square))
    weights = tuple(chances[size] for size in sizes)
    return Pairs.each(lambda direction: exact.ExactMixture(sizes, weights, direction, square))


def labelled(chances: Mapping[int, Fraction], square: Fraction, share: Fraction) -> Pairs:
    """Noise around values of sizes ``j sqrt(square)``, in which everybody sees ``j``, on a share of the
    batches that is drawn without replacement (guarantees_relations, R7.3).
    """
    law = exact.ExactLabelled(tuple(j**2 * square for j in chances), tuple(chances.values()))
    return Pairs.both(law if share == 1 else exact.exact_without_replacement(law, share))


def sampled_replace_one(base: Law, q: Fraction) -> Pairs | None:
    """The pairs of noise sampled with probability ``q`` under replace-one (guarantees_relations, R5 and R6),
    given its law under add-or-remove, which has the norm of a record. None where there is no theorem.
    """
    match base:
        case exact.ExactGaussian(square):
            return Pairs.both(exact.ExactMixture((Fraction(0), Fraction(1)), (1 - q, q), None, square))
        case exact.ExactLaplace(scale):
            return Pairs.both(exact.ExactTwoSidedLaplace(scale, q))
        case exact.ExactDiscreteLaplace() | exact.ExactDiscreteGaussian():
            return Pairs.both(exact.ExactTwoSidedOutcomes(base, q))
    return None


def randomized_response(event: dp_event.RandomizedResponseDpEvent, *, uniform: bool = False) -> Laws:
    """The laws of an answer against any other, a fixed "no answer" value included: the same both ways. Under
    zero-out (``uniform``), those of an answer against the uniform output.
    """
    noise = Fraction(validate.probability(noise_parameter=event.noise_parameter))
    buckets = validate.positive_integer(num_buckets=event.num_buckets)
    if buckets == 1 or (uniform and noise == 1):
        return NOTHING
    if noise == 0:
        return NON_PRIVATE
    other = noise / buckets
    true = 1 - noise + other
    if uniform:
        held, absent = (1 - true, true), (1 - Fraction(1, buckets), Fraction(1, buckets))
        return Pairs(exact.RationalOutcomes(held, absent), exact.RationalOutcomes(absent, held))
    others = noise - 2 * other
    return Pairs.both(exact.RationalOutcomes((other, others, true), (true, others, other)))


def epsilon_delta(event: schemes.EpsilonDeltaDpEvent) -> Laws:
    epsilon = validate.non_negative_or_infinite(epsilon=event.epsilon)
    delta = validate.probability(delta=event.delta)
    if delta == 1 or math.isinf(epsilon):
        return NON_PRIVATE
    return Pairs.both(exact.ExactEpsilonDelta(Fraction(epsilon), Fraction(delta)))


def concentrated(event: dp_event.ZCDpEvent) -> Laws:
    """One pair for both directions; several such guarantees are added where steps are folded."""
    rho = validate.non_negative_or_infinite(rho=event.rho)
    xi = validate.non_negative_or_infinite(xi=event.xi)
    if max(rho, xi) > _MOST_RHO:
        return NON_PRIVATE
    if rho == xi == 0:
        return NOTHING
    return Pairs.both(exact.ExactConcentrated(Fraction(max(rho, _LEAST_RHO)), Fraction(xi)))


def exponential(event: schemes.ExponentialMechanismDpEvent) -> Laws:
    """The laws of one choice; runs of equal ones are put together where steps are folded."""
    epsilon = validate.non_negative_or_infinite(epsilon=event.epsilon)
    if not _LEAST_RANGE <= epsilon <= _MOST_RANGE:  # the range says no more than pure differential privacy
        return schemes.EpsilonDeltaDpEvent(epsilon, 0.0)
    return Pairs.both(exact.ExactBoundedRange(Fraction(epsilon)))


def pure(event: schemes.AboveThresholdDpEvent | schemes.PermuteAndFlipDpEvent) -> dp_event.DpEvent:
    """Pure differential privacy, whatever the number of scores (guarantees_state, G8); nor does the range of
    permute-and-flip say more, which is up to twice its epsilon (G6).
    """
    return schemes.EpsilonDeltaDpEvent(event.epsilon, 0.0)
