"""Strict proofs of a claim: grids are refined until a bound shows it, or until they cannot help."""

from __future__ import annotations

from fractions import Fraction
from functools import cache, partial

from evr import validate
from evr.bounds.strict import Proof
from evr.laws import Direction
from evr.mechanisms import Composition
from evr.methods import AUTO
from evr.planning.strict import StrictCurve
from evr.proving.sampling import Sampling
from evr.verification.claims import Claim
from evr.verification.settings import Settings
from evr.verification.strict import StrictPlanner, proved, threshold_of

QUICK = 10.0  # seconds that a strict proof may take where nobody asked for one


class StrictProving:
    """Chooses grids for the strict proofs of a composition, each once, and keeps the proofs that the kernel made."""

    def __init__(self, composition: Composition) -> None:
        self.composition = composition
        self.proofs: dict[Direction, Proof] = {}
        self._curve = cache(StrictCurve)

    def settings(self, method: str, drawn: Sampling, claim: Claim, enough: Fraction) -> Settings:
        """How to prove a claim by a method. ``"auto"`` is a strict proof if that takes seconds and shows that delta is
        at most ``enough``, or if there is no other; else it is sequential, as where an option of samples is given.
        """
        if validate.one_of(AUTO, method=method) != "auto":
            return drawn.settings(method)
        if not drawn.is_wanted and (self.composition.has_selection or self.shows(claim, enough)):
            return Settings("strict")
        return drawn.settings("sequential")

    def shows(self, claim: Claim, enough: Fraction) -> bool:
        """Whether proofs that take seconds show that delta is at most ``enough``. False if a law has no exact form."""
        self.proofs = {}
        try:
            if sum(self.seconds(claim, enough).values()) > QUICK:
                return False
            for one, steps in self.composition.exact_directions().items():
                plans = partial(self._curve(steps).plans, claim.epsilon, enough=enough)
                self.proofs[one] = proved(steps, claim.epsilon, enough, plans)
                if self.proofs[one].delta > enough:
                    return False
        except ValueError:  # a mechanism without an exact law, or numbers too large for one
            return False
        return True

    def seconds(self, claim: Claim, enough: Fraction) -> dict[str, float]:
        """About how long it takes to show in each direction that delta is at most ``enough``; nothing where the proof
        is in hand.
        """
        return {
            one.value: 0.0 if one in self.proofs else self._curve(steps).seconds(claim.epsilon, enough=enough)
            for one, steps in self.composition.exact_directions().items()
        }

    def planner(self, claim: Claim) -> StrictPlanner:
        """Grids that show the claim, or refute that they could."""
        return lambda _, steps: self._curve(steps).plans(claim.epsilon, enough=threshold_of(claim))
