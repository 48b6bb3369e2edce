"""From a ``ZCDpEvent`` to its pair (docs/guarantees_state.md, G3)."""

from __future__ import annotations

from fractions import Fraction

from dp_accounting import dp_event

from evr import validate
from evr.laws import TRIVIAL_PAIR, Pairs
from evr.laws.exact import ExactConcentrated
from evr.mechanisms.descriptor import NON_PRIVATE, Mechanism
from evr.mechanisms.relations import REPLACE_ONE

_LEAST, _GREATEST = 1e-24, 1e4


def pairs(event: dp_event.ZCDpEvent) -> Pairs | dp_event.DpEvent:
    """One pair for both directions; several such guarantees are added where steps are folded."""
    rho = validate.non_negative_or_infinite(rho=event.rho)
    xi = validate.non_negative_or_infinite(xi=event.xi)
    if max(rho, xi) > _GREATEST:
        return NON_PRIVATE
    if rho == xi == 0:
        return Pairs.both(TRIVIAL_PAIR)
    exact = ExactConcentrated(Fraction(max(rho, _LEAST)), Fraction(xi))
    return Pairs.both(exact.in_floats(), exact)


MECHANISM = Mechanism(
    dp_event.ZCDpEvent,
    pairs,
    assumptions=(
        "what is known to be zero-concentrated differentially private is so under the adjacency stated, in both "
        "directions",
    ),
    under={REPLACE_ONE: pairs},
    unit=None,
)
