"""Strict proofs of a claim: grids are refined until a bound shows it, or until they cannot help."""

from __future__ import annotations

from fractions import Fraction

from evr.bounds.strict import Plans, Proof, prove_within
from evr.laws import Direction, Step
from evr.mechanisms import Composition
from evr.planning.strict import StrictCurve
from evr.verification.claims import Claim
from evr.verification.strict import StrictPlanner, threshold_of

QUICK = 10.0  # seconds that a strict proof may take where nobody asked for one


class StrictProving:
    """Chooses grids for the strict proofs of a composition, each once, and keeps the proofs that the kernel made."""

    def __init__(self, composition: Composition) -> None:
        self.composition = composition
        self._curves: dict[tuple[Step, ...], StrictCurve] = {}
        self.proofs: dict[Direction, Proof] = {}

    def seconds(self, claim: Claim, enough: Fraction | None = None) -> dict[str, float]:
        """About how long it takes to show in each direction that delta is at most ``enough``, by default what the claim
        needs; nothing where the proof is in hand.
        """
        enough = threshold_of(claim) if enough is None else enough
        return {
            one.value: 0.0 if one in self.proofs else self._curve(steps).seconds(claim.epsilon, enough=enough)
            for one, steps in self.composition.exact_directions().items()
        }

    def is_the_way(self, claim: Claim, enough: Fraction) -> bool:
        """Whether ``"auto"`` means a strict proof: it takes seconds and shows enough, or there is no other."""
        return self.composition.has_selection or self.shows(claim, enough)

    def shows(self, claim: Claim, enough: Fraction) -> bool:
        """Whether proofs that take seconds show that delta is at most ``enough``. False if a law has no exact form."""
        plans = self._planner(claim.epsilon, enough)
        try:
            if sum(self.seconds(claim, enough).values()) > QUICK:
                return False
            self.proofs = {}
            for one, steps in self.composition.exact_directions().items():
                found = prove_within(steps, Fraction(claim.epsilon), plans(one, steps), enough)
                self.proofs[one] = found
                if found.delta > enough:
                    return False
        except ValueError:  # a mechanism without an exact law, or numbers too large for one
            return False
        return True

    def planner(self, claim: Claim) -> StrictPlanner:
        """Grids that show the claim, or refute that they could."""
        return self._planner(claim.epsilon, threshold_of(claim))

    def _planner(self, epsilon: float, enough: Fraction) -> StrictPlanner:
        def plans(_: Direction, steps: tuple[Step, ...]) -> Plans:
            return self._curve(steps).plans(epsilon, enough=enough)

        return plans

    def _curve(self, steps: tuple[Step, ...]) -> StrictCurve:
        if steps not in self._curves:
            self._curves[steps] = StrictCurve(steps)
        return self._curves[steps]
