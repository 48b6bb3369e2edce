"""What a file from a stranger may cost: seconds, parts of its event, bits of its proof. No guarantee rests on that."""

import ctypes
import math
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from evr._basics import validate
from evr._certificate.certificate import Certificate
from evr._certificate.event_json import walk
from evr._kernel.events import Composition
from evr._kernel.sampled.driver import Driver
from evr._proving.sampling import working
from evr.errors import TooLongError

T = TypeVar("T")
MAX_SECONDS = 600.0  # allowed by default
_SENT = 30  # times that work is told to stop, at most
_MOST_OUTCOMES = 10_000_000  # parts of an event, with the outcomes of its discrete laws
_MOST_BITS = 1 << 34  # of the masses of a strict proof
_OUTCOMES = {"sigma": 80.0, "sensitivity": 1.0, "iterations": 0.1, "cycle_length": 0.1, "sensitivities": 500.0}
"""About how many outcomes each unit, or each entry, of these fields of an event costs."""
_ALLOW = "if you trust the file, allow more with --max-seconds, inf for no limits (max_seconds=, None, in Python)"


def seconds_allowed(max_seconds: float | None) -> float:
    """How long something may take: infinitely long for None, which lifts the limits of sizes too."""
    return math.inf if max_seconds in (None, math.inf) else validate.positive(max_seconds=max_seconds)


class Alarm(BaseException):
    """Not an ``Exception``, so that nothing on its way catches it."""


def limited(seconds: float, doing: str, work: Callable[[], T], stop: threading.Event | None = None) -> T:
    """What the work returns, if it takes no longer than that. It is done in a thread of its own, which is stopped
    then, or when the caller is interrupted: nothing of the caller's is touched, its thread included.

    Work that draws samples has to look at ``stop`` between two blocks, and to raise ``Alarm`` once it is set. It is not
    stopped from outside: that could leave a lock of its executor taken, which is one for the whole process.
    """
    if seconds >= 1e9:  # longer than a thread waits
        return work()
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:
            result.set_exception(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        thread.join(seconds)
        is_late = thread.is_alive()  # also if it is done before it is told to stop
    finally:
        if stop is not None:
            stop.set()
        for _ in range(_SENT):
            if not thread.is_alive():
                break
            if not _draws_samples(thread):
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(Alarm))
            thread.join(1.0)  # something may swallow the exception
    if is_late:
        raise TooLongError(f"{doing} took more than {seconds:g} s: {_ALLOW}")
    return result.result()


def _draws_samples(thread: threading.Thread) -> bool:
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        if frame.f_globals.get("__name__") in (Driver.__module__, working.__module__):
            return True
        frame = frame.f_back
    return False


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
