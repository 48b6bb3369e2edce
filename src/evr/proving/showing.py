"""Progress by default: a line that renews itself, on a terminal or in a notebook."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterator

from evr import validate
from evr.verification.driver import Hook, ProgressHook
from evr.verification.results import Progress

_AFTER = 1.0  # seconds: what is over by then needs no progress
_OFTEN = 5.0  # seconds between lines of a log


def check_progress(progress: ProgressHook | None) -> ProgressHook | None:
    """Refuse what is neither a hook nor True nor False."""
    if progress is not None and not isinstance(progress, bool):
        validate.function(progress=progress)
    return progress


@contextlib.contextmanager
def watching(progress: ProgressHook | None) -> Iterator[Hook | None]:
    """The caller's hook; none for False; else what is shown, a line that is gone at the end where somebody looks."""
    if callable(progress):
        yield progress
        return
    if progress is False or (progress is None and not _somebody_looks()):
        yield None
        return
    line = _Line()
    try:
        yield line
    finally:
        line.renew("", "\r")


def in_words(state: Progress) -> str:
    """How far a verification is.

    >>> in_words(Progress("remove", 40_000, None, 9.5e-10, 10.0, 20.0, 2.0, 3.2))
    'evr, remove: 40,000 samples, delta about 9.5e-10, evidence 50%, about 3 s left'
    """
    left = "" if state.seconds_left is None else f", about {state.seconds_left:,.0f} s left"
    what = "evidence" if state.log_target > 0 else "done"
    return (
        f"evr, {state.direction}: {state.samples:,} samples, delta about {state.estimate:.4g}, "
        f"{what} {state.fraction:.0%}{left}"
    )


class _Line:
    """The last line of a terminal or below a notebook's cell; elsewhere a line now and then."""

    def __init__(self) -> None:
        self._width, self._last = 0, -math.inf

    def __call__(self, state: Progress) -> None:
        if _somebody_looks():
            if state.seconds > _AFTER:
                self.renew(in_words(state))
        elif not self._last < state.seconds < self._last + _OFTEN:  # less: the next direction
            self._last = state.seconds
            print(in_words(state), file=sys.stderr)

    def renew(self, text: str, end: str = "") -> None:
        if text or self._width:
            print(f"\r{text.ljust(self._width)}", end=end, file=sys.stderr, flush=True)
            self._width = len(text)


def _somebody_looks() -> bool:
    """Whether there is a terminal or a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell" or bool(sys.stderr and sys.stderr.isatty())
