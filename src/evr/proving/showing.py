"""Progress by default: a line that renews itself, on a terminal or in a notebook."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

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
    """The caller's hook; none for False; else a line where somebody looks, gone at the end. For True, lines now and
    then where nobody seems to look.
    """
    if callable(progress) or not is_watched(progress):
        yield progress if callable(progress) else None
        return
    line = _Cell() if _in_a_notebook() else _Line() if _on_a_terminal() else _Lines()
    try:
        yield line
    finally:
        line.clear()


def with_directions_to_come(progress: Hook, seconds: Mapping[str, float]) -> Hook:
    """Progress whose time left includes the directions to come, which take so long."""
    names = list(seconds)

    def told(state: Progress) -> None:
        if state.seconds_left is not None and state.direction in names:
            later = names[names.index(state.direction) + 1 :]
            left = state.seconds_left + sum(seconds[name] for name in later)
            state = replace(state, seconds_left=left)
        progress(state)

    return told


def in_words(state: Progress) -> str:
    """How far a verification is.

    >>> in_words(Progress("remove", 40_000, None, 9.5e-10, 10.0, 20.0, 2.0, 3.2))
    'evr, remove: 40,000 samples, delta about 9.5e-10, evidence 50%, about 3 s left'
    """
    if state.plan is not None:
        return f"evr, {state.direction}: Algorithm 2 with {state.plan}; about {state.seconds_left:,.0f} s"
    left = "" if state.seconds_left is None else f", about {state.seconds_left:,.0f} s left"
    what = "evidence" if state.log_target > 0 else "done"
    return (
        f"evr, {state.direction}: {state.samples:,} samples, delta about {state.estimate:.4g}, "
        f"{what} {state.fraction:.0%}{left}"
    )


class _Line:
    """The last line of a terminal."""

    def __init__(self) -> None:
        self._width = 0

    def __call__(self, state: Progress) -> None:
        if state.plan is not None:
            self._write(f"{in_words(state)}\n")
        elif state.seconds > _AFTER:
            self._write(in_words(state))

    def clear(self) -> None:
        if self._width:
            self._write("")
            sys.stderr.write("\r")
            sys.stderr.flush()

    def _write(self, text: str) -> None:
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._width = 0 if text.endswith("\n") else len(text)


class _Lines:
    """A line now and then, in a file or a pipe."""

    def __init__(self) -> None:
        self._shown = -math.inf

    def __call__(self, state: Progress) -> None:
        if not self._shown < state.seconds < self._shown + _OFTEN:  # less: the next direction
            self._shown = state.seconds
            print(in_words(state), file=sys.stderr)

    def clear(self) -> None:
        pass


class _Cell:
    """A line below a notebook's cell."""

    def __init__(self) -> None:
        self._handle: Any = None

    def __call__(self, state: Progress) -> None:
        if state.seconds > _AFTER:
            self._show(in_words(state))

    def clear(self) -> None:
        if self._handle is not None:
            self._show("")

    def _show(self, text: str) -> None:
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
