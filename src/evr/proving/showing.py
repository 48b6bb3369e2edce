"""Progress by default: a line that renews itself, on a terminal or in a notebook."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from evr import validate
from evr.verification.driver import Hook, ProgressHook
from evr.verification.results import Progress

_AFTER = 1.0  # seconds: what is over by then needs no progress
_OFTEN = 5.0  # seconds between lines of a log


def check_progress(progress: ProgressHook | None) -> None:
    """Refuse what is neither a hook nor True nor False."""
    if progress is not None and not isinstance(progress, bool):
        validate.function(progress=progress)


def is_watched(progress: ProgressHook | None) -> bool:
    """Whether anybody sees how far a verification is."""
    if progress is None:
        return _in_a_notebook() or _on_a_terminal()
    return progress is not False


@contextlib.contextmanager
def watching(progress: ProgressHook | None) -> Iterator[Hook | None]:
    """The caller's hook; none for False; else what is shown, a line that is gone at the end where somebody looks."""
    if callable(progress) or not is_watched(progress):
        yield progress if callable(progress) else None
        return
    line = _Shown()
    try:
        yield line
    finally:
        line.clear()


def with_directions_to_come(progress: Hook, seconds: Mapping[str, float]) -> Hook:
    """Progress whose time left includes the directions to come, which take so long."""
    names = list(seconds)

    def told(state: Progress) -> None:
        if state.seconds_left is not None and state.direction in names:
            later = sum(seconds[name] for name in names[names.index(state.direction) + 1 :])
            state = replace(state, seconds_left=state.seconds_left + later)
        progress(state)

    return told


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


class _Shown:
    """A line below a notebook's cell, the last line of a terminal, or elsewhere a line now and then."""

    def __init__(self) -> None:
        self._width, self._last, self._handle = 0, -math.inf, cast(Any, None)

    def __call__(self, state: Progress) -> None:
        text, is_late = in_words(state), state.seconds > _AFTER
        if _in_a_notebook():
            if is_late:
                self._cell(text)
        elif _on_a_terminal():
            if is_late:
                self._line(text, "")
        elif not self._last < state.seconds < self._last + _OFTEN:  # less: the next direction
            self._last = state.seconds
            print(text, file=sys.stderr)

    def clear(self) -> None:
        if self._handle is not None:
            self._cell("")
        if self._width:
            self._line("", "\r")

    def _line(self, text: str, end: str) -> None:
        sys.stderr.write("\r" + text.ljust(self._width) + end)
        sys.stderr.flush()
        self._width = 0 if end else len(text)

    def _cell(self, text: str) -> None:
        from IPython.display import display

        content = {"text/plain": text}
        if self._handle is None:
            self._handle = display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)


def _on_a_terminal() -> bool:
    return bool(sys.stderr and sys.stderr.isatty())


def _in_a_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"
