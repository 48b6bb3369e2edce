"""Proofs as data: a plan, the bound that it leads to, a digest of its integers. Anybody can follow
the plan again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from evr.bounds.strict.bins import outcomes_of
from evr.bounds.strict.bound import halves, infinite_delta, one_step_delta, stays_within
from evr.bounds.strict.plan import StrictPlan, fraction_of
from evr.laws.exact import ExactStep


@dataclass(frozen=True)
class Proof:
    """That delta is at most ``delta``, in one direction.

    Attributes
    ----------
    delta
        The bound, a rational number.
    plan
        What it follows from; None where none is needed: no loss exceeds epsilon, or all are
        infinite.
    digest
        SHA-256 of the plan and of the integers that it leads to, where it has grids.
    """

    delta: Fraction
    plan: StrictPlan | None = None
    digest: str | None = None

    @property
    def shown(self) -> float:
        """The bound as a float, rounded up."""
        return rounded_up(self.delta)

    def to_json(self) -> dict[str, object]:
        """The proof as JSON has it."""
        plan = None if self.plan is None else self.plan.to_json()
        return {"bound": str(self.delta), "plan": plan, "digest": self.digest}

    @classmethod
    def from_json(cls, document: dict[str, object]) -> Proof:
        """The proof that ``to_json`` wrote; whether it proves anything, ``prove`` finds out."""
        bound, plan, digest = (document.get(key) for key in ("bound", "plan", "digest"))
        if not (digest is None or isinstance(digest, str)):
            raise ValueError("the digest of a proof is text")
        found = cls(
            fraction_of(bound), None if plan is None else StrictPlan.from_json(plan), digest
        )
        if found.to_json() != document:
            raise ValueError("this is no proof as evr writes it")
        return found


def needs_no_plan(steps: Sequence[ExactStep], epsilon: Fraction) -> Proof | None:
    """The proof without a plan, where there is one: no loss exceeds epsilon, or all losses are
    infinite.
    """
    if stays_within(steps, epsilon):
        return Proof(Fraction(0))
    return Proof(Fraction(1)) if infinite_delta(steps) == 1 else None


def prove(steps: Sequence[ExactStep], epsilon: Fraction, plan: StrictPlan | None) -> Proof:
    """What follows from a plan at an epsilon.

    Preconditions: ``steps`` are exact laws of pairs that dominate what ran, in one direction. Then
    delta(epsilon) is at most the proof's ``delta``, whatever the plan: docs/guarantees_strict.md.
    """
    if (known := needs_no_plan(steps, epsilon)) is not None:
        return known
    if plan is None:
        raise ValueError("a loss may exceed epsilon: the proof needs a plan, and there is none")
    if not plan.grids:
        if len(steps) != 1 or steps[0].count != 1:
            raise ValueError("a plan without grids serves one step alone")
        law = outcomes_of(steps[0].law, epsilon, epsilon, plan.spacing, plan.bits)
        return Proof(one_step_delta(law, epsilon, plan.bits), plan)
    found = halves(steps, plan)
    return Proof(found.delta(epsilon), plan, found.digest(plan))


def rounded_up(number: Fraction) -> float:
    """The least float that is not below a number in [0, 1]; for showing it, after everything is
    decided.
    """
    found = number.numerator / number.denominator  # to nearest
    return found if Fraction(found) >= number else math.nextafter(found, math.inf)
