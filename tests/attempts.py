"""Attempts at claims whose estimates are given, in one call each."""

from __future__ import annotations

from typing import Any

import evr
from evr.certification.tables import Attempt
from evr.gate.attempt import start as started
from evr.gate.gate import certify_claim as certified
from evr.gate.request import Request, accounted
from evr.proving import Sampling
from evr.verification import Claim
from evr.verification.settings import Settings


def _request(
    event: Any,
    claim: Claim,
    settings: Settings,
    *,
    relation: Any = None,
    seed: int | None = None,
    executor: Any = None,
    **how: Any,
) -> Request:
    sampling = Sampling(seed=seed, executor=executor)
    return Request(*accounted(event, relation), claim, settings, sampling, **how)


def certify_claim(event: Any, claim: Claim, settings: Settings, *, ledger: Any, **how: Any) -> evr.Certificate:
    """``evr.certify`` of just this claim."""
    return certified(_request(event, claim, settings, **how), ledger=ledger)


def start(
    ledger: evr.Ledger, event: Any, claim: Claim, settings: Settings, *, for_output: bool = False, **how: Any
) -> Attempt:
    """Write an attempt down."""
    return started(ledger, _request(event, claim, settings, **how), for_output=for_output)
