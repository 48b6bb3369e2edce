"""What a file from a stranger may cost: seconds, parts of its event, bits of its proof. No guarantee rests on that."""

import contextlib
import ctypes
import math
import threading
import time
from collections.abc import Iterator
from typing import Any

from evr._basics import validate
from evr._certificate.certificate import Certificate
from evr._certificate.event_json import walk
from evr._kernel.events import Composition
from evr.errors import TooLongError

MAX_SECONDS = 600.0  # allowed by default
_MOST_OUTCOMES = 10_000_000  # parts of an event, with the outcomes of its discrete laws
_MOST_BITS = 1 << 34  # of the masses of a strict proof
_OUTCOMES = {"sigma": 80.0, "sensitivity": 1.0, "iterations": 0.1, "cycle_length": 0.1, "sensitivities": 500.0}
"""About how many outcomes each unit, or each entry, of these fields of an event costs."""
_ALLOW = "if you trust the file, allow more with --max-seconds, inf for no limits (max_seconds=, None, in Python)"


def seconds_allowed(max_seconds: float | None) -> float:
    """How long something may take: infinitely long for None, which lifts the limits of sizes too."""
    return math.inf if max_seconds in (None, math.inf) else validate.positive(max_seconds=max_seconds)


class _Alarm(BaseException):
    """Not an ``Exception``, so that nothing on its way catches it."""


@contextlib.contextmanager
def alarmed(seconds: float, doing: str) -> Iterator[None]:
    """Stop the work inside after so many seconds, in whichever thread it is. No signal and no timer of the caller is
    touched: another thread has the interpreter raise an exception here.
    """
    if seconds >= 1e9:  # longer than a thread waits
        yield
        return
    worker, begun = threading.get_ident(), time.monotonic()
    over, sending = threading.Event(), threading.Lock()

    def watch() -> None:
        pause = max(seconds, 0.01)  # the work has begun by then
        while not over.wait(pause):
            with sending:
                if not over.is_set():
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(worker), ctypes.py_object(_Alarm))
            pause = 1.0  # again, in case something swallowed the exception

    threading.Thread(target=watch, daemon=True).start()
    try:
        try:
            yield
        finally:
            _call_off(over, sending)
        if time.monotonic() - begun > seconds:
            raise _Alarm
    except _Alarm:
        raise TooLongError(f"{doing} took more than {seconds:g} s: {_ALLOW}") from None
    finally:  # once more: an alarm may have come before the first was begun
        _call_off(over, sending)


def _call_off(over: threading.Event, sending: threading.Lock) -> None:
    """Let no alarm ring any more. One on its way is awaited here: taken back, it would leave the interpreter in a state
    in which profilers and debuggers hang (CPython 3.11).
    """
    while True:
        try:
            with sending:
                over.set()
            for _ in range(100):
                pass
            return
        except _Alarm:
            continue


def understood(certificate: Certificate, seconds: float) -> Composition:
    """The composition of a certificate's event. If time is limited, so are the sizes of the event and of the proofs."""
    if seconds < math.inf:
        plans = [proof.plan for proof in certificate.proofs().values()]
        bits = max([0, *(plan.places * plan.bits for plan in plans if plan is not None)])
        for size, most, what in (
            (_size(certificate.event), _MOST_OUTCOMES, "parts and outcomes in its event"),
            (bits, _MOST_BITS, "bits in its proof"),
        ):
            if size > most:
                raise TooLongError(f"about {size:,.0f} {what}, more than the limit of {most:,}: {_ALLOW}")
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
