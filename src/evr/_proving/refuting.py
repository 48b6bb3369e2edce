"""``refute``: a proof that a claim is false (docs/guarantees_lower.md)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from evr._basics import validate
from evr._basics.numbers import below, short_exponent, typed
from evr._kernel.events import Composition
from evr._kernel.events.attained import is_attained
from evr._kernel.events.relations import Relation, name_of
from evr._kernel.strict import ProofPlan, rounded_up
from evr._plan.directions import strict_delta_below
from evr._plan.strict import TOLERANCE

_ABOUT = (
    "This is about the description, not about one training; all steps' outputs are taken to be released. "
    "For DP-SGD, Coq has checked the mathematics from the laws to the number; the rest is on paper."
)


@dataclass(frozen=True)
class Refutation:
    """What came of an attempt to refute a claim.

    Attributes
    ----------
    epsilon, delta
        The claim.
    refuted
        Whether it is proved to be false for some training of the description, on some pair of neighbours: then no
        correct accountant that knows only the description can claim it. False says nothing about the claim.
    lower
        Proved: delta(epsilon) is at least this number, for such a training where ``attained``, else for the pair by
        which evr bounds the mechanism, which itself may have less.
    attained, direction, seconds
        As of ``evr.accounting.Enclosure``.
    neighboring_relation
        The name of the relation of neighbours.
    """

    epsilon: float
    delta: float
    refuted: bool
    lower: float
    attained: bool
    direction: str
    neighboring_relation: str
    seconds: float

    @property
    def sentence(self) -> str:
        """The result in words, with what it is about."""
        at = f"delta at epsilon {typed(self.epsilon)} is at least {short_exponent(below(self.lower, 6))}"
        under = f"under {self.neighboring_relation} adjacency ({self.direction} direction)"
        claim = f"the claimed {typed(self.delta)}"
        if self.refuted:
            return (
                f"Refuted: {at}, and not {claim}, for some training of this description, on some pair of neighbours, "
                f"{under}. No correct accountant that knows only this description can claim less. {_ABOUT}"
            )
        if self.lower > self.delta:
            return (
                f"Open: {at} for the pair by which evr bounds this mechanism, {under}, so evr cannot prove {claim}. "
                f"The mechanism itself may have less, and a sharper analysis may prove the claim. {_ABOUT}"
            )
        proved = f"It is proved only that {at}, which is not above {claim}" if self.lower > 0 else "Nothing is proved"
        return f"Open: the claim is not refuted. {proved}. `evr certify` tries to prove that it holds."

    def __str__(self) -> str:
        return self.sentence


def refute(
    event: Any,
    *,
    epsilon: float,
    delta: float,
    direction: str | None = None,
    neighboring_relation: Relation | None = None,
    unit: str | None = None,
) -> Refutation:
    """Try to prove that everything that ran is not ``(epsilon, delta)``-DP.

    Given that the event describes what ran, ensures: if the result is ``refuted``, then for some training of the
    description and some pair of neighbours ``delta(epsilon) >= lower > delta``, all steps' outputs taken as released.
    Exact arithmetic, no samples; docs/guarantees_lower.md has the proof.

    Parameters
    ----------
    event
        A ``DpEvent`` tree. Of a ``Composition`` it is not known whether its pairs are attained: nothing is refuted.
    epsilon, delta
        The claim.
    direction
        Look only at ``"remove"`` or ``"add"``. One direction is enough to refute.
    neighboring_relation, unit
        Which data sets are neighbours, and whose data is protected: as of ``evr.estimate_delta``.

    Returns
    -------
    Refutation
        ``refuted`` and ``lower``; ``sentence`` says both in words.

    Raises
    ------
    UnsupportedEventError
        If some mechanism has no exact law here, or none under the relation, or is a selection among several runs.
    ValueError, TypeError
        If a value is out of its range, or no number.

    Examples
    --------
    >>> import evr
    >>> event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=1000)
    >>> refutation = evr.refute(event, epsilon=0.5, delta=1.9e-10)
    >>> refutation.refuted, f"{refutation.lower:.2e}"
    (True, '2.06e-10')
    >>> evr.refute(event, epsilon=0.5, delta=2.1e-10).refuted
    False
    """
    return refute_by_plan(event, epsilon, delta, direction, neighboring_relation, unit)[0]


def refute_by_plan(
    event: Any,
    epsilon: float,
    delta: float,
    direction: str | None,
    neighboring_relation: Relation | None,
    unit: str | None = None,
) -> tuple[Refutation, ProofPlan | None]:
    """What ``refute`` finds, and the plan that shows its lower bound."""
    start = time.perf_counter()
    epsilon, delta = validate.level(epsilon=epsilon), validate.probability(delta=delta)
    composition = Composition.of(event, neighboring_relation, unit)
    claim = Fraction(delta)
    (bound, plan), winner = strict_delta_below(composition, epsilon, direction, TOLERANCE, claim)
    attained = is_attained(event, composition)
    found = Refutation(
        epsilon=epsilon,
        delta=delta,
        refuted=attained and bound > claim,
        lower=max(0.0, -rounded_up(-bound)),
        attained=attained,
        direction=winner.value,
        neighboring_relation=name_of(composition.relation),
        seconds=time.perf_counter() - start,
    )
    return found, plan
