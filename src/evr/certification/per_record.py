"""What a guarantee for users is for one record: proved strictly, and printed beside it."""

from __future__ import annotations

import attr
from dp_accounting import NeighboringRelation, dp_event

from evr.certification.scheme_words import USERS, is_about_users
from evr.errors import EvrError
from evr.estimation import estimate_delta, estimate_epsilon
from evr.mechanisms.schemes import PoissonSampledUsersDpEvent, UsersDpEvent
from evr.numbers import round_up


def of_records(event: dp_event.DpEvent) -> dp_event.DpEvent:
    """The same tree for users who own one record each.

    >>> of_records(UsersDpEvent(dp_event.GaussianDpEvent(1.0), 8))
    GaussianDpEvent(noise_multiplier=1.0)
    """
    if isinstance(event, dp_event.ComposedDpEvent):
        return attr.evolve(event, events=[of_records(one) for one in event.events])
    if isinstance(event, UsersDpEvent):
        return event.event
    if isinstance(event, PoissonSampledUsersDpEvent) and event.user_norm is not None and event.records_per_user > 1:
        # beside a user's other records, one more moves the clipped sum by up to 1, or from one end to the other
        return attr.evolve(event, records_per_user=1, user_norm=min(1.0, 2.0 * event.user_norm))
    if isinstance(event, USERS):
        return attr.evolve(event, records_per_user=1)
    return attr.evolve(event, event=of_records(event.event)) if hasattr(event, "event") else event


def epsilon_per_record(event: dp_event.DpEvent, delta: float, relation: NeighboringRelation) -> float | None:
    """A proved epsilon of three digits for one record at that delta; None if the event is not about users, or a proof
    is out of reach.
    """
    if not is_about_users(event) or not delta > 0:
        return None
    asked = {"method": "strict", "neighboring_relation": relation}
    try:
        found = estimate_epsilon(of_records(event), delta, **asked).value
        return round_up(found, 3) if found > 0 else 0.0
    except (EvrError, ArithmeticError):
        return None


def is_proved(epsilon: float, event: dp_event.DpEvent, delta: float, relation: NeighboringRelation) -> bool:
    """Whether that number, from a certificate, is proved again."""
    if not is_about_users(event):
        return False
    asked = {"method": "strict", "neighboring_relation": relation}
    return estimate_delta(of_records(event), epsilon, **asked).value <= delta
