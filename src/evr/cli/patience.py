"""``--max-seconds``: how long a command may be busy with a file that comes from a stranger."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Annotated, Any

from evr import validate
from evr.cli.options import number_option
from evr.errors import TooLongError

MaxSeconds = Annotated[
    float | None,
    number_option(
        "--max-seconds", "Refuse what would take longer; 600 by default, inf for no limit."
    ),
]


class _Alarm(BaseException):
    """Passes everything that catches exceptions on its way."""


@contextlib.contextmanager
def limited(max_seconds: float | None, doing: str) -> Iterator[float]:
    """Stop what runs inside after so many seconds, where the system has alarms; yields the limit.

    What takes its time says so before it begins. The alarm is for what nobody foresaw.
    """
    from evr.certification.effort import MAX_SECONDS

    seconds = (
        MAX_SECONDS
        if max_seconds is None
        else validate.non_negative_or_infinite(max_seconds=max_seconds)
    )
    alarms = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not alarms or not 0 < seconds < 1e9:
        yield seconds
        return

    armed = True

    def ring(*_: Any) -> None:
        if armed:
            raise _Alarm

    before = signal.signal(signal.SIGALRM, ring)
    try:
        try:
            # again every second, should something swallow it
            signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
            yield seconds
        finally:
            armed = False
    except _Alarm:
        armed = False
        raise TooLongError(
            f"{doing} took more than {seconds:g} s and was given up: if you trust where it comes "
            "from, allow more with --max-seconds"
        ) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
