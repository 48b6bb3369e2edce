"""Limits on the work that a file from a stranger may ask for. What is too large is refused before it is built, and an
alarm stops what takes too long. No guarantee rests on either.
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
from evr.mechanisms import Composition

MAX_SECONDS = 600.0
"""Allowed by default."""

_MOST_OUTCOMES = 10_000_000  # of an event: its parts, and those of its discrete laws
_MOST_BITS = 1 << 34  # of the masses of a strict proof
_OUTCOMES = {"sigma": 80.0, "sensitivity": 1.0, "iterations": 0.1, "cycle_length": 0.1, "sensitivities": 500.0}
"""About how many outcomes, or what costs as much, the fields of an event bring along, for each unit or entry."""


def seconds_allowed(max_seconds: float | None) -> float:
    """How long something may take: infinitely long for None, which lifts the limits of sizes too."""
    if max_seconds is None or max_seconds == math.inf:
        return math.inf
    return validate.positive(max_seconds=max_seconds)


class _Alarm(BaseException):
    """Passes everything that catches exceptions on its way."""


@contextlib.contextmanager
def alarmed(seconds: float, doing: str) -> Iterator[None]:
    """Stop the work inside after so many seconds, in the main thread of a system that has alarms; infinity for no
    limit.
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


def understood(certificate: Certificate, seconds: float) -> Composition:
    """The composition of a certificate's event. If time is limited, so are the sizes of the event and of the proofs."""
    if seconds < math.inf:
        sections = certificate.verification.directions.values()
        plans = [StatedProof.from_json(one.strict).plan for one in sections if one.strict is not None]
        bits = max([0, *(plan.places * plan.bits for plan in plans if plan is not None)])
        for size, most, what in (
            (_size(certificate.event), _MOST_OUTCOMES, "parts and outcomes in its event"),
            (bits, _MOST_BITS, "bits in its proof"),
        ):
            if size > most:
                raise TooLongError(
                    f"about {size:,.0f} {what}, more than the limit of {most:,}: if you trust the file, lift all "
                    "limits with --max-seconds inf (max_seconds=None in Python)"
                )
    return Composition.of(certificate.dp_event(), certificate.relation)


def _size(event: Any) -> float:
    """About how many parts an event in JSON has; the outcomes of its discrete laws are counted too."""
    outcomes = 0.0
    for value, _ in walk(event):
        if isinstance(value, list):
            outcomes += len(value)
        elif isinstance(value, dict):
            for key in _OUTCOMES.keys() & value.keys():
                size = len(value[key]) if isinstance(value[key], list) else value[key]
                if isinstance(size, int | float):
                    outcomes += _OUTCOMES[key] * min(abs(size), 1e18)
    return outcomes
