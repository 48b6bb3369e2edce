"""How far a computation of many points is: told to the caller's function, or to standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable

from evr import validate

Count = Callable[[int, int], None]


def counter(progress: Count | bool | None) -> Count | None:
    """What to call with the points done and their total; True stands for a line on standard
    error.
    """
    if progress is None or progress is False:
        return None
    if progress is True:
        return _show
    validate.function(progress=progress)
    return progress


def _show(done: int, total: int) -> None:
    if done == total or 100 * done // total > 100 * (done - 1) // total:
        end = "\n" if done == total else ""
        print(f"\revr: {done:,} of {total:,}", end=end, file=sys.stderr, flush=True)
