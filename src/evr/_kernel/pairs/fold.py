"""The same composition in fewer steps, exactly."""

import math
from dataclasses import fields
from fractions import Fraction
from functools import lru_cache
from operator import mul

from evr._kernel.pairs.exact import (
    ExactBoundedRange,
    ExactConcentrated,
    ExactEpsilonDelta,
    ExactGaussian,
    ExactRun,
    ExactShifted,
    RationalOutcomes,
)
from evr._kernel.pairs.exact.bounded_range import MOST_STEPS
from evr._kernel.pairs.line.discrete import TRIVIAL_PAIR, DiscretePair
from evr._kernel.pairs.steps import Law, Step

Steps = tuple[Step, ...]

_ADDING = (ExactGaussian, ExactShifted, ExactConcentrated)  # laws whose parameters add over a composition
_MOST_CONCENTRATED = 1000  # a sum of rho, or of xi, that zCDP bounds are computed for


@lru_cache(maxsize=4096)
def simplify(steps: Steps) -> Steps:
    """The same composition in fewer steps: those that reveal something, added up, and in runs."""
    revealing = tuple(step for step in steps if not reveals_nothing(step.law))
    return tuple(run for step in _added(revealing) for run in _runs(step))


def reveals_nothing(law: Law) -> bool:
    """Whether both laws of a pair are known to be equal."""
    match law:
        case RationalOutcomes(p, q):
            return p == q
        case ExactEpsilonDelta(epsilon, delta):
            return epsilon == delta == 0
    return law == TRIVIAL_PAIR


def is_non_private(law: Law) -> bool:
    """Whether every loss is infinite: nothing is left to protect."""
    match law:
        case RationalOutcomes(p, q):
            return not any(map(mul, p, q))
        case DiscretePair(losses):
            return all(map(math.isinf, losses))
    return False


def _added(steps: Steps) -> Steps:
    """Gaussians as one step, which comes first; so integer noise and zCDP guarantees
    (docs/guarantees_state.md, G2 and G3), in the order of their first appearance; then the other steps.
    """
    families = dict.fromkeys(type(step.law) for step in steps if isinstance(step.law, _ADDING))
    ordered = sorted(families, key=lambda family: family is not ExactGaussian)
    added = [_sum_of([step for step in steps if type(step.law) is family]) for family in ordered]
    return (*added, *(step for step in steps if type(step.law) not in families))


def _sum_of(steps: list[Step]) -> Step:
    """Steps of one family of laws, whose parameters add."""
    family = type(steps[0].law)
    names = [one.name for one in fields(family)]  # type: ignore[arg-type]  # laws that add are dataclasses
    rows = [[step.count * getattr(step.law, name) for name in names] for step in steps]
    total = [sum(column, Fraction(0)) for column in zip(*rows, strict=True)]
    if family is ExactConcentrated and max(total) > _MOST_CONCENTRATED:
        why = f"zCDP guarantees add up to rho={float(total[0]):.6g}, xi={float(total[1]):.6g}"
        limit = f"evr takes up to {_MOST_CONCENTRATED:,} of either; beyond, nothing is left to protect"
        raise ValueError(f"{why}: {limit}")
    return Step(family(*total), 1)


def _runs(step: Step) -> list[Step]:
    """A step of bounded range as runs of at most ``MOST_STEPS`` (G5); any other step as it is."""
    law, (whole, left) = step.law, divmod(step.count, MOST_STEPS)
    if not isinstance(law, ExactBoundedRange) or step.count == 1:
        return [step]
    found = [Step(ExactRun(law.epsilon, MOST_STEPS), whole)] if whole else []
    if left:
        found.append(Step(law if left == 1 else ExactRun(law.epsilon, left), 1))
    return found
