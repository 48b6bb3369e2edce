"""Attempts at claims whose estimates are given, in one call each."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import evr
from evr.certification.ledger import Attempt, opened
from evr.gate.attempt import Request, attempted
from evr.gate.attempt import start as started
from evr.verification import Claim
from evr.verification.settings import Settings


def _request(
    event: Any, claim: Claim, settings: Settings, *, relation: Any = None, for_output: bool = False, **how: Any
) -> Request:
    asked = {"epsilon": claim.epsilon, "delta": claim.delta, "tau": claim.tau, "neighboring_relation": relation}
    return Request(event, for_output, **asked, **asdict(settings), **how)


def certify_claim(event: Any, claim: Claim, settings: Settings, *, ledger: Any, **how: Any) -> evr.Certificate:
    """``evr.certify`` of just this claim."""
    with opened(ledger) as one:
        return attempted(one, _request(event, claim, settings, **how))[1]


def start(ledger: evr.Ledger, event: Any, claim: Claim, settings: Settings, **how: Any) -> Attempt:
    """Write an attempt down."""
    return started(ledger, _request(event, claim, settings, **how))
