"""The float view of an exact law: the one place where floats are made of a law (docs/guarantees.md, 6).

A mechanism is written once, by rational parameters. Estimates and samples see it through ``as_floats``, and
the line above each family says how far its floats may be from the law: an ulp is one of the number itself.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import singledispatch

from evr._kernel.pairs import exact
from evr._kernel.pairs.exact.law import Ball, at_precision, ball
from evr._kernel.pairs.law import LossLaw
from evr._kernel.pairs.line.discrete import DiscretePair, discrete_gaussian, discrete_laplace
from evr._kernel.pairs.line.gaussian import GaussianPair, MixturePair, ShiftedPair
from evr._kernel.pairs.line.labelled import EitherPair
from evr._kernel.pairs.line.laplace import BoundedRangePair, LaplacePair, TwoSidedLaplacePair
from evr._kernel.pairs.line.pair import DominatingPair, line_pair
from evr._kernel.pairs.line.poisson import poisson_sampled, sampled_without_replacement
from evr._kernel.pairs.patterns.bins import IndependentBins
from evr.errors import UnsupportedEventError

_BITS, _RAISES = 256, 5  # of balls that become floats: raised, to twice as many bits each, where needed
_ACCURACY = 64  # bits of such a ball that are right: more than a float has
_LEAST = Ball((1, -1100))  # less than any positive float
_ROOT_BITS = 128  # that a root is computed to, unless it is rational


def floats_of(balls: Callable[[], list[tuple[Ball, ...]]]) -> list[tuple[float, ...]]:
    """Rows of numbers as floats, each right to an ulp: the precision is raised until it holds all of them."""
    for raises in range(_RAISES):
        with at_precision(_BITS << raises):
            rows = balls()
            if all(map(_makes_a_float, itertools.chain.from_iterable(rows))):
                return [tuple(map(float, row)) for row in rows]
    raise ArithmeticError("a number of this law has no enclosure that is narrow enough for a float")


def _makes_a_float(number: Ball) -> bool:
    return number.is_exact() or number.rel_accuracy_bits() >= _ACCURACY or abs(number) < _LEAST


def root(square: Fraction) -> float:
    """``sqrt(square)``, right to half an ulp and ``2^-128`` of it: the nearest float of a rational root.

    >>> root(1 / Fraction(1.1) ** 2) == 1 / 1.1
    True
    """
    numerator, denominator = square.as_integer_ratio()
    scaled = math.isqrt(numerator * denominator << 2 * _ROOT_BITS)
    return float(Fraction(scaled, denominator << _ROOT_BITS))


@singledispatch
def as_floats(law: object) -> LossLaw:
    """Given a law, ensures one in floats, within the error that its family states."""
    name = type(law).__name__
    why = f"{name} has no law in floats, which estimates, samples and plans need"
    raise UnsupportedEventError(f"{why}: register one, evr.events.as_floats.register({name}, function)")


as_floats.register(LossLaw, lambda law: law)


# Outcomes: logarithms of probabilities, and losses, are right to an ulp. Sets of one loss become one outcome.
@as_floats.register
def _(law: exact.ExactOutcomes) -> DiscretePair:
    rows = floats_of(lambda: [row for one in law.checked_sets() for row in _rows(*one)])
    return DiscretePair.from_logs(*zip(*rows, strict=True))


def _rows(p: Ball, q: Ball, loss: Ball) -> list[tuple[Ball, ...]]:
    """Given a set and a loss that none of it exceeds, ensures outcomes above it (Section 3.9): ``p`` and ``p
    e^-loss`` at the loss; and what more ``q`` has, where ``P`` has nothing.
    """
    none, inside = Ball.neg_inf(), p * (-loss).exp()
    if p.is_zero():
        return [(none, _log(q), none)]
    if q > inside:  # not all of it has that loss
        return [(p.log(), _log(inside), loss), (none, (q - inside).log(), none)]
    return [(p.log(), _log(q), loss)]


def _log(number: Ball) -> Ball:
    return Ball.neg_inf() if number.is_zero() else number.log()


# Gaussians: means are right to an ulp; shifts, weights and the energy of bins are the nearest floats.
as_floats.register(exact.ExactGaussian, lambda law: GaussianPair(root(law.square)))
as_floats.register(exact.ExactShifted, lambda law: ShiftedPair(root(law.square), float(law.shift)))
as_floats.register(exact.ExactBins, lambda law: IndependentBins(law.direction, law.bins, float(law.energy)))


@as_floats.register
def _(law: exact.ExactMixture) -> MixturePair:
    means = tuple(root(size**2 * law.square) for size in law.sizes)
    return MixturePair(means, tuple(map(float, law.weights)), law.direction)


# Laplace noise and bounded range: parameters are the nearest floats.
as_floats.register(exact.ExactLaplace, lambda law: LaplacePair(float(law.scale)))
as_floats.register(exact.ExactBoundedRange, lambda law: BoundedRangePair(float(law.epsilon)))


@as_floats.register
def _(law: exact.ExactTwoSidedLaplace) -> TwoSidedLaplacePair:
    return TwoSidedLaplacePair(float(law.scale), float(law.q))


# Noise on the integers: parameters are the nearest floats. A Gaussian leaves out what is rarer than 1e-329.
def _on_integers(
    law: exact.ExactDiscreteLaplace | exact.ExactDiscreteGaussian, q: float | None = None
) -> DiscretePair:
    if isinstance(law, exact.ExactDiscreteLaplace):
        return discrete_laplace(float(law.parameter), law.sensitivity, q)
    return discrete_gaussian(float(law.sigma), law.sensitivity, q)


as_floats.register(exact.ExactDiscreteLaplace, _on_integers)
as_floats.register(exact.ExactDiscreteGaussian, _on_integers)
as_floats.register(exact.ExactTwoSidedOutcomes, lambda law: _on_integers(law.base, float(law.q)))


# Sampling: the probability is the least float that is not below it: more records leak no less (Section 6.2).
@as_floats.register
def _(law: exact.SampledCurve | exact.SampledOutcomes) -> DominatingPair:
    return poisson_sampled(line_pair(as_floats(law.base)), law.q, law.direction)


@as_floats.register
def _(law: exact.WithoutReplacementCurve | exact.WithoutReplacementOutcomes) -> DominatingPair:
    return sampled_without_replacement(line_pair(as_floats(law.base)), law.g)


# Laws by a label that everybody sees: logarithms of the labels' chances are right to an ulp.
def _by_label(pairs: list[DominatingPair], weights: Sequence[Fraction]) -> EitherPair:
    (logs,) = floats_of(lambda: [tuple(ball(weight).log() for weight in weights)])
    return EitherPair(tuple(pairs), logs)


@as_floats.register
def _(law: exact.ExactLabelled) -> EitherPair:
    return _by_label([GaussianPair(root(square)) for square in law.squares], law.weights)


@as_floats.register
def _(law: exact.ExactEither) -> EitherPair:
    pairs = [line_pair(as_floats(one)) for one in (law.above, law.below)]
    return _by_label(pairs, (law.weight, 1 - law.weight))


# Batches that are cut: as labels; the share of those that are cut is rounded up. A chance to be cut that is
# below all positive floats counts as none.
@as_floats.register
def _(law: exact.ExactTruncated) -> DominatingPair:
    def chances() -> list[tuple[Ball, ...]]:
        kept, cut, share = law.chances()
        return [(kept.log(), cut.log(), share)]

    ((kept, cut, share),) = floats_of(chances)
    whole = line_pair(as_floats(law.whole))
    if math.exp(cut) == 0.0:
        return whole
    doubled = GaussianPair(root(4 / law.noise**2))
    share = min(math.nextafter(share, 1.0), float(law.q))
    return EitherPair((whole, poisson_sampled(doubled, share, law.direction)), (kept, cut))
