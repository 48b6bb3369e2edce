"""Steps: a law and how many times it is applied."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from evr.laws.law import LossLaw
from evr.laws.line.discrete import TRIVIAL_PAIR, DiscretePair
from evr.laws.line.gaussian import GaussianPair
from evr.laws.line.pair import DominatingPair, line_pair
from evr.laws.line.poisson import finite_part

NON_PRIVATE_PAIR = DiscretePair((-math.inf, math.inf), (-math.inf, 0.0), (0.0, -math.inf))
"""All of ``P`` has infinite loss: what a mechanism without privacy is."""


@dataclass(frozen=True)
class Step:
    """A law and how many times it is applied."""

    law: LossLaw
    count: int

    @property
    def pair(self) -> DominatingPair:
        """The law as a pair on a line; one in many dimensions is refused by name."""
        return line_pair(self.law)


@lru_cache(maxsize=4096)
def simplify(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Families closed under composition folded: any number of Gaussians is one Gaussian."""
    squares, rest = [], []
    for step in steps:
        if isinstance(step.law, GaussianPair):
            squares.append(step.count * step.law.mu**2)
        elif step.law != TRIVIAL_PAIR:
            folded = step.law.self_composed(step.count)
            rest.append(step if folded is None else Step(folded, 1))
    mu = math.sqrt(math.fsum(squares))
    return ((Step(GaussianPair(mu), 1),) if mu > 0 else ()) + tuple(rest)


def on_a_line(steps: Iterable[Step]) -> bool:
    """Whether all laws are of pairs on a line."""
    return all(isinstance(step.law, DominatingPair) for step in steps)


def greatest_loss(steps: Iterable[Step]) -> float:
    """The greatest finite sum of losses; infinite where there is none."""
    laws = (
        (finite_part(s.law) if isinstance(s.law, DominatingPair) else s.law, s.count) for s in steps
    )
    return math.fsum(count * law.loss_range[1] for law, count in laws)


def infinite_mass(steps: Iterable[Step]) -> float:
    """``1 - prod (1 - p_inf)``: the probability that some step has infinite loss."""
    masses = [(step.law.infinite_loss_mass, step.count) for step in steps]
    if any(mass >= 1 for mass, _ in masses):
        return 1.0
    return max(0.0, -math.expm1(math.fsum(count * math.log1p(-mass) for mass, count in masses)))
