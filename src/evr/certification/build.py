"""A certificate from a verification."""

from __future__ import annotations

import math
import platform
import sys
from dataclasses import asdict
from importlib import import_module
from typing import Any

import numpy as np
import scipy
from dp_accounting import NeighboringRelation

from evr.certification.certificate import SCHEMA_VERSION, Certificate, DirectionSection, plain
from evr.certification.text_rules import in_alphabet
from evr.certification.words import statement
from evr.sampling import DRAWING
from evr.verification import Claim, DirectionReport, Verdict, Verification
from evr.verification.settings import Settings
from evr.version import __version__, commit

STREAM = (
    "Philox, key = first 16 bytes (little-endian) of SHA-256 of 'entropy|verify|attempt|direction' "
    "(entropy in hexadecimal), counter = block number * 2^192; blocks of block_size samples are "
    "drawn and played in order from 0"
)


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
    try:
        # NumPy's public list names groups of instructions that change between versions.
        features = import_module("numpy._core._multiarray_umath").__cpu_features__
    except (ImportError, AttributeError):
        return "unknown"
    widest = [name for name in ("AVX512_SKX", "AVX512F", "AVX2", "ASIMD", "VSX") if features.get(name)]
    return widest[0] if widest else "none"


def build(
    verification: Verification,
    *,
    event: dict[str, Any],
    description: dict[str, Any],
    relation: NeighboringRelation,
    claim: Claim,
    settings: Settings,
    name: str | None,
    entropy_is_fresh: bool,
    computed_by: dict[str, Any],
    times: dict[str, Any],
    record: dict[str, Any] | None,
    budget: dict[str, Any] | None = None,
    proof: str | None = None,
    per_record: float | None = None,
) -> Certificate:
    """Put together what was claimed, what happened and what follows; ``claim`` carries the terms of its release."""
    assert claim.terms is not None
    assert verification.attempt is not None
    accepted = verification.verdict is Verdict.ACCEPTED
    sampled = verification.method != "strict"  # entropy that nobody drew from is written as 0
    entropy_is_fresh = entropy_is_fresh and sampled
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "statement": "",
        "verdict": verification.verdict.value,
        "guarantee": {"epsilon": claim.epsilon, "delta": claim.delta} if accepted else None,
        "neighboring_relation": relation.name,
        "event": event,
        "description": description,
        "claim": {
            "epsilon": claim.epsilon,
            "delta": claim.delta,
            "tau": claim.tau,
            "kappa": claim.kappa,
            "threshold": claim.threshold,
        },
        "release": {
            "name": name,
            "floor": None if name is None else claim.terms.base,
            "attempt": verification.attempt,
            "budget": verification.false_positive_rate,
            "log_budget": claim.log_budget(verification.attempt) if verification.false_positive_rate else -math.inf,
            "total_budget": claim.kappa * claim.terms.base,
        },
        "verification": {
            **{name: x for name, x in asdict(settings).items() if name != "device"},  # in plans
            "method": verification.method,
            "entropy": f"{verification.entropy:x}" if sampled else "0",
            "entropy_is_fresh": entropy_is_fresh,
            "stream": STREAM,
            "samples": verification.samples,
            "directions": {name: _section(report) for name, report in verification.directions.items()},
            "notes": []
            if entropy_is_fresh or not sampled
            else ["the caller gave the seed: a guarantee needs fresh entropy"],
        },
        "software": computed_by,
        "times": times,
        "record": record,
        **({} if proof is None else {"proof": proof}),
        **({} if per_record is None else {"per_record": per_record}),
        **({} if budget is None else {"budget": budget}),
    }
    return Certificate.sealed(plain({**document, "statement": statement(document)}))


def _section(report: DirectionReport) -> dict[str, Any]:
    """The result in one direction: the report's fields that a certificate has."""
    fields = {name: getattr(report, name) for name in DirectionSection.model_fields}
    return {
        **fields,
        "plan": None if report.plan is None else report.plan.to_json(),
        "strict": None if report.strict is None else report.strict.stated.to_json(),
    }
