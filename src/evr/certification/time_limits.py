"""Limits on the work that a file may ask for: files come from strangers.

Sizes are refused before anything is built, for memory runs out before time does. An alarm stops what takes too long. No
guarantee rests on either.
"""

from __future__ import annotations

import contextlib
import math
import signal
import threading
from collections.abc import Iterator
from typing import Any

from evr import validate
from evr.bounds.strict import StatedProof
from evr.certification.certificate import Certificate
from evr.certification.event_json import walk
from evr.errors import TooLongError
from evr.laws import Direction
from evr.mechanisms import Composition
from evr.sampling import DrawPlan, built

MAX_SECONDS = 600.0
"""Allowed by default."""

_MOST_OUTCOMES = 10_000_000  # of an event: its parts, and those of its discrete laws
_MOST_KINDS = 1_000  # of steps
_MOST_CELLS = 1 << 20  # of a plan
_MOST_BITS = 1 << 34  # of the masses of a strict proof
_MOST_STEPS = 2e11  # that one block of samples draws
_OUTCOMES = {"sigma": 80.0, "sensitivity": 1.0, "iterations": 0.1, "cycle_length": 0.1, "sensitivities": 500.0}
"""About how many outcomes, or what costs as much, the fields of an event bring along, for each unit or entry."""


def seconds_allowed(max_seconds: float | None) -> float:
    """How long something may take: infinitely long for None, which lifts the other limits too."""
    if max_seconds is None or max_seconds == math.inf:
        return math.inf
    return validate.positive(max_seconds=max_seconds)


class _Alarm(BaseException):
    """Passes everything that catches exceptions on its way."""


@contextlib.contextmanager
def alarmed(seconds: float, doing: str) -> Iterator[None]:
    """Stop the work inside after so many seconds; infinity for no limit.

    That takes the main thread, and a system that has alarms.
    """
    alarms = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not alarms or seconds >= 1e9:
        yield
        return

    def ring(*_: Any) -> None:
        raise _Alarm

    before = signal.signal(signal.SIGALRM, ring)
    try:
        # it rings again every second, in case something swallows the exception
        signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
        yield
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    except _Alarm:
        raise TooLongError(
            f"{doing} took more than {seconds:g} s: if you trust the file, allow more with "
            "--max-seconds (max_seconds= in Python)"
        ) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _refuse(size: float, most: float, what: str) -> None:
    if size > most:
        raise TooLongError(
            f"{what.format(size)}, more than the limit of {most:,.0f}: if you trust the file, lift "
            "all limits with --max-seconds inf (max_seconds=None in Python)"
        )


def understood(certificate: Certificate, seconds: float) -> Composition:
    """The composition of a certificate's event, unless it is too large."""
    if seconds < math.inf:
        _refuse(_size(certificate.event), _MOST_OUTCOMES, "its event has about {:,.0f} parts and outcomes")
    composition = Composition.of(certificate.dp_event(), certificate.relation)
    if seconds < math.inf:
        kinds = max(len(composition.simplified(direction)) for direction in Direction)
        _refuse(kinds, _MOST_KINDS, "its event composes {:,} kinds of steps")
    return composition


def _size(document: Any) -> float:
    """About how many parts an event in JSON has; the outcomes of its discrete laws are counted too."""
    outcomes = 0.0
    for value, _ in walk(document):
        if isinstance(value, list):
            outcomes += len(value)
        elif isinstance(value, dict):
            for key in _OUTCOMES.keys() & value.keys():
                size = len(value[key]) if isinstance(value[key], list) else value[key]
                if isinstance(size, int | float):
                    outcomes += _OUTCOMES[key] * min(abs(size), 1e18)
    return outcomes


def refuse_large_plans(certificate: Certificate, composition: Composition) -> None:
    """Raise if a plan of a certificate is larger than any that evr makes."""
    for name, section in certificate.verification.directions.items():
        where = f"the plan of direction {name!r}"
        if section.strict is not None:
            proof = StatedProof.from_json(section.strict)
            bits = 0 if proof.plan is None else proof.plan.places * proof.plan.bits
            _refuse(bits, _MOST_BITS, where + " has masses of {:,} bits")
        if section.plan is None:
            continue
        plan = DrawPlan.from_json(section.plan)
        _refuse(plan.proposal.cells, _MOST_CELLS, where + " has {:,} cells")
        steps = built(plan.proposal, composition.simplified(name)).work * plan.block_size
        _refuse(steps, _MOST_STEPS, where + " draws {:.3g} steps at once")
