"""A certificate from a verification; beside a guarantee for users, the number that is proved for one record."""

import platform
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import attr
import numpy as np
import scipy
from dp_accounting import NeighboringRelation, dp_event

from evr._accounting import estimate_delta, estimate_epsilon
from evr._basics.numbers import round_up
from evr._basics.version import __version__, commit
from evr._certificate.certificate import SCHEMA_VERSION, Certificate
from evr._certificate.event_json import event_from_json, in_alphabet, plain
from evr._certificate.judging import followed
from evr._certificate.sections import SampledDirection, StrictDirection
from evr._kernel.events.meaning import hypotheses_of, unit_of
from evr._kernel.events.relations import relation_named
from evr._kernel.events.schemes import PoissonSampledUsersDpEvent, UsersDpEvent
from evr._kernel.sampled.plan import DRAWING
from evr._kernel.verdict.results import DirectionReport, Verification
from evr._kernel.verdict.settings import Claim, Settings
from evr.errors import EvrError


def software() -> dict[str, Any]:
    """The software that computes here; the same software gives the same bits."""
    return {
        "evr": __version__,
        "commit": commit(),
        "drawing": str(DRAWING),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "platform": f"{in_alphabet(platform.system())} {in_alphabet(platform.machine())}",
        "simd": _simd(),
    }


def differences(other: dict[str, Any], here: dict[str, Any]) -> list[str]:
    """How other software differs from this, in words, where samples depend on it."""
    return [
        f"{name} {other.get(name)}, and this is {here[name]}"
        for name in ("evr", "drawing", "numpy", "scipy", "simd")
        if here[name] != other.get(name)
    ]


def _simd() -> str:
    """The widest vector instructions that NumPy uses here: its logarithm differs between them in the last digit."""
    try:  # NumPy's public list names groups of instructions that change between versions
        features = import_module("numpy._core._multiarray_umath").__cpu_features__
    except (ImportError, AttributeError):
        return "unknown"
    return next((name for name in ("AVX512_SKX", "AVX512F", "AVX2", "ASIMD", "VSX") if features.get(name)), "none")


def build(
    verification: Verification,
    claim: Claim,
    settings: Settings,
    *,
    name: str | None,
    entropy_is_fresh: bool,
    given: Mapping[str, Any],
) -> Certificate:
    """What was claimed, what happened and what follows. ``claim`` carries the terms of its release, and ``given`` all
    fields that are taken as they are; one that is None is not said.
    """
    assert verification.attempt is not None
    directions = {way: reported(report, settings.method) for way, report in verification.directions.items()}
    entropy = f"{verification.entropy:x}"
    found = followed(claim, settings, directions, verification.attempt, name, entropy, entropy_is_fresh)
    assert found["verdict"] == verification.verdict.value
    event, relation = event_from_json(given["event"]), relation_named(given["neighboring_relation"])
    found["hypotheses"] = [one.id for one in hypotheses_of(event, relation)]
    return Certificate.sealed({"schema_version": SCHEMA_VERSION, **given, **found})


def reported(report: DirectionReport, method: str) -> StrictDirection | SampledDirection:
    """The report of a direction as a section of a certificate."""
    kind = StrictDirection if method == "strict" else SampledDirection
    fields = {name: getattr(report, name) for name in kind.model_fields}
    said = {name: value for name, value in fields.items() if value not in (None, ()) and value == value}
    return kind.model_validate(plain(said))


def of_records(event: dp_event.DpEvent) -> dp_event.DpEvent:
    """The same tree for users who own one record each."""
    if isinstance(event, dp_event.ComposedDpEvent):
        return attr.evolve(event, events=[of_records(one) for one in event.events])
    if isinstance(event, UsersDpEvent):
        return event.event
    if isinstance(event, PoissonSampledUsersDpEvent) and event.user_norm is not None and event.records_per_user > 1:
        # beside a user's other records, one more moves the clipped sum by up to 1, or from one end to the other
        return attr.evolve(event, records_per_user=1, user_norm=min(1.0, 2.0 * event.user_norm))
    if hasattr(event, "records_per_user"):
        return attr.evolve(event, records_per_user=1)
    return attr.evolve(event, event=of_records(event.event)) if hasattr(event, "event") else event


def epsilon_per_record(event: dp_event.DpEvent, delta: float, relation: NeighboringRelation) -> float | None:
    """A proved epsilon of three digits for one record at that delta; None if not about users, or none is in reach."""
    if unit_of(event) != "user" or not delta > 0:
        return None
    try:
        found = estimate_epsilon(of_records(event), delta, method="strict", neighboring_relation=relation).value
        return round_up(found, 3) if found > 0 else 0.0
    except (EvrError, ArithmeticError, ValueError):  # the last where a number has no finite enclosure
        return None


def is_proved(epsilon: float, event: dp_event.DpEvent, delta: float, relation: NeighboringRelation) -> bool:
    """Whether that number, from a certificate, is proved again."""
    if unit_of(event) != "user":
        return False
    return estimate_delta(of_records(event), epsilon, method="strict", neighboring_relation=relation).value <= delta
