"""How far a proof by samples is: what the kernel shows of each block, timed, forecast and put into words.

The kernel calls one function, ``on_block``, and knows no clock: nothing that it decides rests on time.
"""

import contextlib
import math
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from evr._basics import validate
from evr._kernel.sampled.deciding import SequentialTest, State, growth_of
from evr._kernel.sampled.driver import Driver, OnBlock
from evr._kernel.sampled.fixed import FixedTest, Test

_SHOWN = 0.2  # seconds between two calls of a hook
_ALIVE = 2.0  # seconds between two signs of life
_AFTER = 1.0  # seconds: what is over by then needs no progress
_OFTEN = 5.0  # seconds between lines of a log


@dataclass(frozen=True)
class Progress:
    """Where a verification stands."""

    direction: str  # which is being tested
    samples: int  # drawn so far
    max_samples: int | None  # the most that will be drawn, where that is known
    estimate: float  # of delta: the mean of the samples so far
    log_wealth: float  # the evidence so far
    log_target: float  # the evidence that accepts; 0 in the fixed verifier
    seconds: float
    seconds_left: float | None  # an estimate; None before there is one

    @property
    def fraction(self) -> float:
        """How much of the evidence, or of a fixed number of samples, is there."""
        if self.log_target > 0:
            return min(1.0, max(0.0, self.log_wealth / self.log_target))
        return self.samples / self.max_samples if self.max_samples else 0.0


Hook = Callable[[Progress], None]
ProgressHook = Hook | bool
"""Called now and then; None shows a line on a terminal or in a notebook, True one anywhere, False nothing."""


def check_progress(progress: ProgressHook | None) -> ProgressHook | None:
    """Refuse what is neither a hook nor True nor False."""
    if progress is not None and not isinstance(progress, bool):
        validate.function(progress=progress)
    return progress


def is_shown(progress: ProgressHook | None) -> bool:
    """Whether lines are printed: they were asked for, or somebody looks."""
    return progress is True or (progress is None and _somebody_looks())


def samples_left(test: Test, state: State) -> float:
    """About how many more samples a test takes: at the growth that was seen, or at that of an exact estimate."""
    if not isinstance(test, SequentialTest):
        return test.samples - state.samples
    missing, variance = max(test.log_target - state.log_wealth, 0.0), test.variance_seen(state)
    if state.samples:
        growth = growth_of(test.stake(state), test.mean - state.clipped_mean, variance)
        if growth > 0:
            return missing / growth
    gap = max(test.mean - test.estimate, 1e-12)
    return missing / growth_of(test.best_stake(gap, variance), gap, variance)


def progress_of(driver: Driver, state: State, seconds: float) -> Progress:
    """What a state of a test says, after so many seconds."""
    test, limit = driver.test, math.inf if driver.most is None else driver.most
    left = min(samples_left(test, state), limit - state.samples)
    most = min(test.samples if isinstance(test, FixedTest) else test.most_samples(state), limit)
    return Progress(
        direction=driver.direction,
        samples=state.samples,
        max_samples=int(most) if math.isfinite(most) else None,
        estimate=driver.unit * state.mean_and_error()[0],
        log_wealth=state.log_wealth,
        log_target=test.log_target,
        seconds=seconds,
        seconds_left=seconds / state.samples * max(left, 0.0) if math.isfinite(left) else None,
    )


def reporter(hook: Hook | None, alive: Callable[[], None] | None = None) -> OnBlock | None:
    """What the kernel calls: it tells the hook now and then and at each direction's end, and ``alive`` less often."""
    if hook is None and alive is None:
        return None
    start = shown = told = 0.0

    def on_block(driver: Driver, state: State) -> None:
        nonlocal start, shown, told
        now = time.perf_counter()
        if not state.blocks:  # a direction begins
            start = shown = told = now
            return
        if hook is not None and (now - shown > _SHOWN or driver.ending(state)):
            hook(progress_of(driver, state, now - start))
            shown = now
        if alive is not None and now - told > _ALIVE:
            alive()
            told = now

    return on_block


@contextlib.contextmanager
def watching(progress: ProgressHook | None) -> Iterator[Hook | None]:
    """The caller's hook; none for False; else one that renews a line where somebody looks, or logs one now and then."""
    if not is_shown(progress):
        yield progress if callable(progress) else None
        return
    width, last = 0, -math.inf

    def show(state: Progress) -> None:
        nonlocal width, last
        text = in_words(state)
        if _somebody_looks():
            if state.seconds > _AFTER:
                if sys.stderr.isatty():  # what is longer than a line of it cannot be renewed
                    text = text[: shutil.get_terminal_size().columns - 1]
                print(f"\r{text.ljust(width)}", end="", file=sys.stderr, flush=True)
                width = len(text)
        elif not last < state.seconds < last + _OFTEN:  # less: the next direction
            last = state.seconds
            print(text, file=sys.stderr)

    try:
        yield show
    finally:
        if width:
            print(f"\r{' ' * width}", end="\r", file=sys.stderr, flush=True)


def in_words(state: Progress) -> str:
    """How far a verification is.

    >>> in_words(Progress("remove", 40_000, None, 9.5e-10, 10.0, 20.0, 2.0, 3.2))
    'evr, remove: 40,000 samples, delta about 9.5e-10, evidence 50%, about 3 s left'
    """
    left = "" if state.seconds_left is None else f", about {state.seconds_left:,.0f} s left"
    what = "evidence" if state.log_target > 0 else "done"
    drawn = f"evr, {state.direction}: {state.samples:,} samples, delta about {state.estimate:.4g}"
    return f"{drawn}, {what} {state.fraction:.0%}{left}"


def _somebody_looks() -> bool:
    """Whether there is a terminal or a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell" or bool(sys.stderr and sys.stderr.isatty())
