"""Attempts at claims whose estimates are given, in one call each."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import evr
from evr._kernel.verdict.settings import Claim, Settings
from evr._release.attempt import Request, attempted
from evr._release.attempt import start as started
from evr._release.journal import AttemptRow
from evr._release.ledger import opened


def _request(
    event: Any, claim: Claim, settings: Settings, *, relation: Any = None, for_output: bool = False, **how: Any
) -> Request:
    asked = {"epsilon": claim.epsilon, "delta": claim.delta, "tau": claim.tau, "neighboring_relation": relation}
    return Request(event, for_output, **asked, **asdict(settings), **how)


def certify_claim(event: Any, claim: Claim, settings: Settings, *, ledger: Any, **how: Any) -> evr.Certificate:
    """``evr.certify`` of just this claim."""
    with opened(ledger) as one:
        return attempted(one, _request(event, claim, settings, **how))[1]


def start(ledger: evr.Ledger, event: Any, claim: Claim, settings: Settings, **how: Any) -> AttemptRow:
    """Write an attempt down."""
    return started(ledger, _request(event, claim, settings, **how))


def grown(ledger: evr.Ledger, event: Any, attempts: int, releases: int) -> None:
    """Write accepted attempts at releases named "0", "1", ... in turn, in one transaction."""
    first = start(ledger, event, Claim(1.0, 1e-3, 0.9), Settings(), name="0")
    fresh = {"id", "release_id", "number", "entropy", "state", "finished", "samples", "message", "written"}
    with ledger.counting() as held:
        release = vars(held.row("releases", first.release_id))
        fixed = {name: release[name] for name in ("terms", "relation", "unit", "created")}
        for name in range(1, releases):
            held.write("releases", key=f"name {name}", name=str(name), **fixed)
        columns = {name: value for name, value in vars(first).items() if name not in fresh}
        for count in range(1, attempts):
            which = {"release_id": 1 + count % releases, "number": 1 + count // releases, "entropy": 10**70 + count}
            row = held.write("attempts", **columns, **which, state="running")
            held.write("attempts", id=row.id, state="accepted", samples=0)
