"""What a long ledger costs: processor milliseconds of operations on ledgers of 10 and of 10,000
attempts, at one release and at 1,000 (at ten, where there are ten attempts).

Run ``python benchmarks/ledger.py``. The two ledgers take turns, and medians are compared. The event
is a Gaussian mechanism, whose certificate takes a few milliseconds, so that the ledger weighs more
than anywhere else. ``check`` reads the whole journal, as ``release`` and ``evr ledger`` do.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from dp_accounting import dp_event

import evr

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from attempts import grown

EVENT = dp_event.GaussianDpEvent(4.0)
SIZES = (10, 10_000)
ROUNDS = 25


def milliseconds(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return 1e3 * (time.process_time() - start)


def compared(folder: Path, releases: int) -> dict[str, list[float]]:
    """The median of each operation, by the size of the ledger."""
    spent: dict[str, list[list[float]]] = {name: [[], []] for name in ("certify", "keep", "check")}
    paths = [folder / f"{releases}-{size}.sqlite" for size in SIZES]
    for path, size in zip(paths, SIZES, strict=True):
        with evr.Ledger(path) as ledger:
            grown(ledger, EVENT, size, min(releases, size))
    for turn in range(ROUNDS):
        for place, path in enumerate(paths):
            certify = partial(evr.certify, EVENT, epsilon=1.0, delta=1e-3, name="0", ledger=path)
            spent["certify"][place].append(milliseconds(certify))
            with evr.Ledger(path) as ledger, ledger.counting(writes=False) as held:
                attempt = held.row("attempts", 1)
            with evr.Ledger(path) as ledger:
                spent["keep"][place].append(milliseconds(partial(ledger.keep, attempt)))
                if turn < ROUNDS // 5:
                    spent["check"][place].append(milliseconds(ledger.check))
    return {name: [statistics.median(each) for each in both] for name, both in spent.items()}


if __name__ == "__main__":
    print(f"{'releases':>8}  {'operation':9} {SIZES[0]:>9,} {SIZES[1]:>9,} {'ratio':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for releases in (1, 1000):
            for name, (few, many) in compared(Path(folder), releases).items():
                print(f"{releases:>8,}  {name:9} {few:>9.2f} {many:>9.2f} {many / few:>7.2f}")
