"""Sampled exact laws: by Poisson (docs/guarantees_strict.md, S6), without replacement, in batches of a
bounded size (docs/guarantees_relations.md, R2 and R3), and groups of nearly equal ones.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from flint import arb_series

from evr._kernel.pairs.exact.law import Ball, ExactCurve, ExactLaw, ExactOutcomes, OutcomeSet, ball
from evr._kernel.pairs.exact.line import ExactGaussian, by_side
from evr.types import Direction


def sampled_loss(loss: Ball, q: Ball, rest: Ball, direction: Direction) -> Ball:
    """The loss of a sampled step where that of the step is ``loss``; it rises with it."""
    if direction is Direction.ADD:
        return -sampled_loss(-loss, q, rest, Direction.REMOVE)
    if loss.is_zero() or loss == Ball.pos_inf():
        return loss
    rare = Ball(0) if loss == Ball.neg_inf() else loss.exp()
    return (rest + q * rare).log()


def _seen_through(
    base: Callable[[Ball], Ball], q: Ball, rest: Ball, direction: Direction
) -> Callable[[Ball], Ball]:
    """The curve of a pair seen through Poisson sampling with probability ``q``; ``rest`` is ``1 - q``."""
    zero, one = Ball(0), Ball(1)

    def remove(ratio: Ball) -> Ball:
        inner = (ratio - rest) / q
        if _first_term(inner) > zero:
            return q * base(inner)
        if _no_series(inner) <= zero:
            return one - ratio
        return (one - ratio).union(q)  # 1 - r below 1 - q; above, between that and q

    def add(ratio: Ball) -> Ball:
        scale = one - rest * ratio
        if _first_term(scale) > zero:
            return scale * base(q * ratio / scale)
        return zero if _no_series(scale) <= zero else zero.union(scale.upper())

    return remove if direction is Direction.REMOVE else add


def _first_term(number: Ball) -> Ball:
    """A ball, or the constant term of a power series, all of whose coefficients are balls."""
    return number[0] if isinstance(number, arb_series) else number


def _no_series(number: Ball) -> Ball:
    """The ball; an error for a power series, about a ball in which no formula holds throughout."""
    if isinstance(number, arb_series):
        raise ArithmeticError("there is no power series about this ball: take a narrower one")
    return number


@dataclass(frozen=True)
class SampledCurve(ExactCurve):
    """A curve seen through Poisson sampling with probability ``q``, ``0 < q < 1``."""

    base: ExactCurve
    q: Fraction
    direction: Direction

    @property
    def is_analytic(self) -> bool:
        return self.base.is_analytic

    def curve(self) -> Callable[[Ball], Ball]:
        return _seen_through(self.base.curve(), ball(self.q), ball(1 - self.q), self.direction)

    def least(self) -> Ball:
        return self._loss(self.base.least())

    def greatest(self) -> Ball:
        return self._loss(self.base.greatest())

    def _loss(self, loss: Fraction | Ball) -> Ball:
        loss = ball(loss) if isinstance(loss, Fraction) else loss
        return sampled_loss(loss, ball(self.q), ball(1 - self.q), self.direction)


@dataclass(frozen=True)
class WithoutReplacementCurve(ExactCurve):
    """A curve seen through sampling of a share ``g`` of the records, ``0 < g < 1``."""

    base: ExactCurve
    g: Fraction

    def curve(self) -> Callable[[Ball], Ball]:
        return by_side(above=self._by(Direction.REMOVE).curve(), below=self._by(Direction.ADD).curve())

    def least(self) -> Ball:
        return self._by(Direction.ADD).least()

    def greatest(self) -> Ball:
        return self._by(Direction.REMOVE).greatest()

    def _by(self, direction: Direction) -> SampledCurve:
        return SampledCurve(self.base, self.g, direction)


def _sampled_set(one: OutcomeSet, q: Ball, rest: Ball, direction: Direction) -> OutcomeSet:
    loss = sampled_loss(one.loss, q, rest, direction)
    if direction is Direction.REMOVE:
        return OutcomeSet(rest * one.q + q * one.p, one.q, loss)
    return OutcomeSet(one.p, rest * one.p + q * one.q, loss)


@dataclass(frozen=True)
class SampledOutcomes(ExactOutcomes):
    """Outcomes seen through Poisson sampling with probability ``q``, ``0 < q < 1``."""

    base: ExactOutcomes
    q: Fraction
    direction: Direction

    def sets(self) -> list[OutcomeSet]:
        q, rest = ball(self.q), ball(1 - self.q)
        return [_sampled_set(one, q, rest, self.direction) for one in self.base.checked_sets()]


@dataclass(frozen=True)
class WithoutReplacementOutcomes(ExactOutcomes):
    """Outcomes seen through sampling of a share ``g`` of the records, ``0 < g < 1``."""

    base: ExactOutcomes
    g: Fraction

    def sets(self) -> list[OutcomeSet]:
        g, rest, zero = ball(self.g), ball(1 - self.g), Ball(0)
        found, even = list[OutcomeSet](), zero
        for one in self.base.checked_sets():
            if one.loss > zero:
                found.append(_sampled_set(one, g, rest, Direction.REMOVE))
                even = even + rest * (one.p - one.q)
            elif one.loss < zero:
                found.append(_sampled_set(one, g, rest, Direction.ADD))
            elif one.loss.is_zero():
                even = even + one.p
            else:
                why = f"the sign of a loss of {self.base!r} is not certain"
                raise ArithmeticError(f"{why}: raise the precision")
        return [*found, OutcomeSet(even, even, zero)]


def exact_sampled(law: ExactLaw, q: Fraction, direction: Direction) -> ExactLaw:
    """The law seen through Poisson sampling, ``0 < q <= 1``: sampled twice, with the product of both."""
    if q == 1:
        return law
    if isinstance(law, SampledOutcomes | SampledCurve) and law.direction is direction:
        return exact_sampled(law.base, law.q * q, direction)
    if isinstance(law, ExactOutcomes):
        return SampledOutcomes(law, q, direction)
    return SampledCurve(_curve(law), q, direction)


def exact_without_replacement(law: ExactLaw, g: Fraction) -> ExactLaw:
    """The exact law of the sampled mechanism, for both directions; ``0 < g < 1``."""
    if isinstance(law, ExactOutcomes):
        return WithoutReplacementOutcomes(law, g)
    return WithoutReplacementCurve(_curve(law), g)


def _curve(law: ExactLaw) -> ExactCurve:
    if not isinstance(law, ExactCurve):
        raise TypeError(f"{law!r} is neither an ExactCurve nor an ExactOutcomes: derive it from one of them")
    return law


@dataclass(frozen=True)
class ExactEither(ExactCurve):
    """One of two curves by a label that everybody sees; ``weight`` is the chance of ``above``, which is above
    ``below``. It dominates a group of different steps (docs/guarantees_nested.md, G5).
    """

    below: ExactCurve
    above: ExactCurve
    weight: Fraction

    @property
    def is_analytic(self) -> bool:
        return self.below.is_analytic and self.above.is_analytic

    def curve(self) -> Callable[[Ball], Ball]:
        below, above = self.below.curve(), self.above.curve()
        rest, weight = ball(1 - self.weight), ball(self.weight)
        return lambda ratio: rest * below(ratio) + weight * above(ratio)

    def least(self) -> Ball:
        return self.above.least()

    def greatest(self) -> Fraction | Ball:
        return self.above.greatest()


@dataclass(frozen=True)
class ExactTruncated(ExactCurve):
    """A Gaussian on Poisson batches of ``size`` records, cut to ``most < size`` of them; ``0 < q < 1``."""

    size: int
    q: Fraction
    most: int
    noise: Fraction
    direction: Direction

    @property
    def whole(self) -> SampledCurve:
        """The law of batches that are not cut."""
        return SampledCurve(ExactGaussian(1 / self.noise**2), self.q, self.direction)

    def chances(self) -> tuple[Ball, Ball, Ball]:
        """``1 - p``, ``p`` and ``g`` of R3.1: of batches that are whole, that are cut, and to be in these."""
        kept, cut = _binomial_tails(self.size - 1, self.q, self.most)
        _, beyond = _binomial_tails(self.size, self.q, self.most + 1)
        return kept, cut, beyond * self.most / (cut * self.size)

    def curve(self) -> Callable[[Ball], Ball]:
        kept, cut, share = self.chances()
        whole = self.whole.curve()
        truncated = _seen_through(ExactGaussian(4 / self.noise**2).curve(), share, 1 - share, self.direction)
        return lambda ratio: kept * whole(ratio) + cut * truncated(ratio)

    def least(self) -> Ball:
        return self.whole.least()

    def greatest(self) -> Ball:
        return self.whole.greatest()


def _binomial_tails(n: int, q: Fraction, k: int) -> tuple[Ball, Ball]:
    """``Pr[Bin(n, q) < k]`` and ``Pr[Bin(n, q) >= k]``: the one away from the mean is enclosed, since the
    series of the other would need as many digits as the small one has zeros.
    """
    if k <= n * q:
        below = (1 - ball(q)).beta_lower(n - k + 1, k, True)
        return below, 1 - below
    above = ball(q).beta_lower(k, n - k + 1, True)
    return 1 - above, above
