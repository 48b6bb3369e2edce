"""Steps: a law, known in floats and perhaps exactly, and how many times it is applied."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from evr._kernel.pairs.exact.law import ExactCurve, ExactLaw, ExactOutcomes, at_precision
from evr._kernel.pairs.exact.line import ExactGaussian, ExactShifted
from evr._kernel.pairs.exact.outcomes import MOST_STEPS, NON_PRIVATE_LAW, ExactBoundedRange, ExactConcentrated, ExactRun
from evr._kernel.pairs.law import LossLaw
from evr._kernel.pairs.line.discrete import TRIVIAL_PAIR, DiscretePair
from evr._kernel.pairs.line.gaussian import GaussianPair
from evr._kernel.pairs.line.pair import DominatingPair, Measure, line_pair
from evr._kernel.pairs.line.poisson import SampledPair, WithoutReplacementPair, finite_part
from evr._kernel.pairs.patterns.law import PatternLaw
from evr.errors import UnsupportedEventError
from evr.types import Direction

NON_PRIVATE_PAIR = NON_PRIVATE_LAW.in_floats()
"""All of ``P`` has infinite loss: what a mechanism without privacy is."""


@dataclass(frozen=True)
class Step:
    """A law, how many times it is applied, and its exact form for strict proofs, where the mechanism offers one."""

    law: LossLaw
    count: int
    exact: ExactLaw | None = None

    @property
    def pair(self) -> DominatingPair:
        """The law as a pair on a line; one in many dimensions is refused by name."""
        return line_pair(self.law)

    @property
    def exact_law(self) -> ExactLaw:
        """The exact law; a law without one is refused by name."""
        if self.exact is None:
            why = f"{type(self.law).__name__} ({self.law.describe()}) offers no exact law, which method='strict' needs"
            remedy = "let its translator return Pairs(..., exact=(remove, add)), or use another method"
            raise UnsupportedEventError(f"{why}: {remedy}")
        return self.exact


@dataclass(frozen=True)
class Pairs:
    """The laws of one mechanism in its two directions, mostly dominating pairs on a line. ``exact`` are the same laws
    by their exact parameters, which strict proofs need; None where a mechanism offers none.
    """

    remove: LossLaw
    add: LossLaw
    exact: tuple[ExactLaw, ExactLaw] | None = None

    @classmethod
    def both(cls, law: LossLaw, exact: ExactLaw | None = None) -> Pairs:
        return cls(law, law, None if exact is None else (exact, exact))

    @classmethod
    def each(cls, law: Callable[[Direction], LossLaw], exact: Callable[[Direction], ExactLaw] | None = None) -> Pairs:
        remove, add = Direction
        known = None if exact is None else (exact(remove), exact(add))
        return cls(law(remove), law(add), known)

    def __post_init__(self) -> None:
        match self.exact:
            case None | tuple((ExactLaw(), ExactLaw())):
                return
        raise TypeError(f"exact={self.exact!r} is not a pair of exact laws: give a tuple (that of remove, that of add)")

    def of(self, direction: Direction) -> LossLaw:
        return self.remove if direction is Direction.REMOVE else self.add

    def step(self, direction: Direction, count: int) -> Step:
        exact = None if self.exact is None else self.exact[direction is Direction.ADD]
        return Step(self.of(direction), count, exact)


_COARSE, _NARROW = 1e-6, 1e-9  # what the two laws of a mechanism may differ by in delta: of it, and beside that


@lru_cache(maxsize=256)
def check_agreement(pairs: Pairs) -> None:
    """Refuse pairs whose laws in floats and exact laws plainly differ, in delta at three epsilons."""
    for direction in Direction:
        law, exact = pairs.of(direction), pairs.step(direction, 1).exact
        if not (isinstance(law, DominatingPair) and isinstance(exact, ExactCurve | ExactOutcomes)):
            continue
        reach = min(1.0, law.loss_magnitude / 16)
        for epsilon in (0.0, reach, -reach):
            p, q = (math.exp(law.log_mass(one, law.point(epsilon), math.inf)) for one in (Measure.P, Measure.Q))
            in_floats = p - math.exp(epsilon) * q
            with at_precision(128):
                exactly = float(exact.hockey_stick(Fraction(epsilon)))
            if not abs(in_floats - exactly) <= _COARSE * exactly + _NARROW:
                where = f"delta in direction {direction.value!r} at epsilon={epsilon:.6g}"
                why = f"{where} is {in_floats:.9g} by the law in floats and {exactly:.9g} by the exact law"
                raise ValueError(f"{why}: let the translator return two forms of one law")


def merged(parts: Iterable[tuple[Pairs, int]], direction: Direction) -> tuple[Step, ...]:
    """The laws of one direction, each once, in the order of their first appearance."""
    counts: dict[Step, int] = {}
    for pairs, count in parts:
        once = pairs.step(direction, 1)
        counts[once] = counts.get(once, 0) + count
    return tuple(Step(once.law, count, once.exact) for once, count in counts.items())


@lru_cache(maxsize=4096)
def simplify(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The same composition in fewer steps: Gaussians, integer noise and zCDP guarantees add up, equal steps of bounded
    range become runs (docs/guarantees_state.md, G2, G3 and G5), and laws that reveal nothing are left out.
    """
    squares, exact_squares, rest = list[float](), list[Fraction](), list[Step]()
    added: dict[type[ExactShifted | ExactConcentrated], list[tuple[Fraction, Fraction]]] = {}
    for step in steps:
        match step:
            case Step(GaussianPair(mu), count, None | ExactGaussian() as exact):
                squares.append(count * mu**2)
                exact_squares += [] if exact is None else [count * exact.square]
            case Step(_, count, ExactShifted(first, second) | ExactConcentrated(first, second) as exact):
                added.setdefault(type(exact), []).append((count * first, count * second))
            case _ if not _reveals_nothing(step):
                rest += _runs(step)
    folded = [_added(kind, rows) for kind, rows in added.items()]
    if squares:
        whole = ExactGaussian(sum(exact_squares, Fraction(0))) if len(exact_squares) == len(squares) else None
        folded.insert(0, Step(GaussianPair(math.sqrt(math.fsum(squares))), 1, whole))
    return (*folded, *rest)


def _reveals_nothing(step: Step) -> bool:
    """Floats may only suggest it, where the exact law is known: no loss is above 0, so that both laws are equal."""
    return step.law == TRIVIAL_PAIR and (step.exact is None or bool(step.exact.greatest() <= 0))


_MOST_CONCENTRATED = 1000  # a sum of rho, or of xi, that zCDP bounds are computed for


def _added(kind: type[ExactShifted | ExactConcentrated], rows: list[tuple[Fraction, Fraction]]) -> Step:
    """Laws of one kind, both of whose numbers add."""
    first, second = (sum(numbers, Fraction(0)) for numbers in zip(*rows, strict=True))
    if kind is ExactConcentrated and max(first, second) > _MOST_CONCENTRATED:
        why = f"zCDP guarantees add up to rho={float(first):.6g}, xi={float(second):.6g}"
        raise ValueError(f"{why}: evr takes up to {_MOST_CONCENTRATED:,} of either; beyond, nothing is left to protect")
    exact = kind(first, second)
    return Step(exact.in_floats(), 1, exact)


def _runs(step: Step) -> list[Step]:
    """Equal steps of bounded range as runs of at most ``MOST_STEPS``; any other step as it is."""
    if not isinstance(step.exact, ExactBoundedRange) or step.count == 1:
        return [step]
    whole, left = divmod(step.count, MOST_STEPS)
    runs = [(ExactRun(step.exact.epsilon, size), count) for size, count in ((MOST_STEPS, whole), (left, 1))]
    found = [Step(run.in_floats(), count, run) for run, count in runs if count and run.steps > 1]
    return [*found, Step(step.law, 1, step.exact)] if left == 1 else found


def on_a_line(steps: Iterable[Step]) -> bool:
    return all(isinstance(step.law, DominatingPair) for step in steps)


def loss_range(law: LossLaw) -> tuple[float, float]:
    """Least and greatest privacy loss, possibly infinite."""
    if isinstance(law, PatternLaw):
        least = law._log_absent
        return (least, math.inf) if law.direction is Direction.REMOVE else (-math.inf, -least)
    pair = line_pair(law)
    return float(pair.privacy_loss(-math.inf)), float(pair.privacy_loss(math.inf))


def infinite_loss_mass(law: LossLaw) -> float:
    """Probability under ``P`` of an infinite privacy loss."""
    if not isinstance(law, DominatingPair) or not len(law.flats) or law.privacy_loss(law.flats[-1, 1]) < math.inf:
        return 0.0
    return math.exp(law.log_mass(Measure.P, *law.flats[-1]))


def is_cut(law: LossLaw) -> bool:
    """Whether greater losses were left out, less likely than 1e-320 together."""
    while isinstance(law, SampledPair | WithoutReplacementPair):
        law = law.base
    return isinstance(law, DiscretePair) and law.is_cut


def finite_losses(steps: Iterable[Step]) -> list[tuple[LossLaw, int, float]]:
    """Each law without its infinite losses, how many times it is applied, and its greatest loss."""
    laws = [(finite_part(s.law) if isinstance(s.law, DominatingPair) else s.law, s.count) for s in steps]
    return [(law, count, loss_range(law)[1]) for law, count in laws]


def greatest_loss(steps: Iterable[Step]) -> float:
    """The greatest finite sum of losses; infinite where there is none."""
    return math.fsum(count * loss for _, count, loss in finite_losses(steps))


def infinite_mass(steps: Iterable[Step]) -> float:
    """``1 - prod (1 - p_inf)``: the probability that some step has infinite loss."""
    masses = [(infinite_loss_mass(step.law), step.count) for step in steps]
    if any(mass >= 1 for mass, _ in masses):
        return 1.0
    return max(0.0, -math.expm1(math.fsum(count * math.log1p(-mass) for mass, count in masses)))
