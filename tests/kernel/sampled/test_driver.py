"""The driver: rounds and stakes are fixed by what came before, whoever works and however fast."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from dp_accounting import dp_event

import evr
from evr._kernel.sampled.deciding import MOST_BLOCKS, SequentialTest, State, round_end
from evr._kernel.sampled.driver import Lazily
from evr._proving import progress
from evr._proving.progress import samples_left
from evr._release.gate import resume

EVENT = dp_event.PoissonSampledDpEvent(0.3, dp_event.GaussianDpEvent(1.5))


def outcome(found: evr.Verification) -> Any:
    report = found.directions["remove"]
    return found.verdict, report.samples, report.log_wealth, report.estimate


def rounds() -> Iterator[tuple[int, int]]:
    """First block and end of each round."""
    first = 0
    while True:
        yield first, (first := round_end(first))


def test_rounds_cover_every_block_once_and_grow() -> None:
    first_rounds = list(islice(rounds(), 60))
    blocks = [block for first, end in first_rounds for block in range(first, end)]
    assert blocks == list(range(len(blocks)))
    sizes = [end - first for first, end in first_rounds]
    assert sizes == sorted(sizes)
    assert sizes[-1] == MOST_BLOCKS


class Shuffled(Executor):
    """Threads that dawdle at random, so that summaries come in any order."""

    def __init__(self, seed: int) -> None:
        self._pool, self._random = ThreadPoolExecutor(4), random.Random(seed)

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        def late(wait: float) -> Any:
            time.sleep(wait)
            return function(*arguments, **named)

        return self._pool.submit(late, 0.002 * self._random.random())


@pytest.fixture(scope="module")
def delta() -> float:
    return float(evr.estimate_delta(EVENT, 0.5))


def test_the_answer_does_not_depend_on_who_works(delta: float) -> None:
    arguments: dict[str, Any] = {"epsilon": 0.5, "delta": delta / 0.97, "tau": 0.97, "seed": 3}
    alone = outcome(evr.verify(EVENT, executor=Lazily(), **arguments))
    assert outcome(evr.verify(EVENT, workers=3, **arguments)) == alone
    assert outcome(evr.verify(EVENT, executor=Shuffled(1), **arguments)) == alone
    with ProcessPoolExecutor(2) as pool:
        assert outcome(evr.verify(EVENT, executor=pool, **arguments)) == alone


def test_an_executor_is_left_open(delta: float) -> None:
    with ThreadPoolExecutor(2) as pool:
        evr.verify(EVENT, epsilon=0.5, delta=delta / 0.8, tau=0.8, seed=1, executor=pool)
        assert pool.submit(int, 7).result() == 7


def test_an_error_of_a_worker_reaches_the_caller(delta: float) -> None:
    class Broken(Lazily):
        def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
            failed: Future[Any] = Future()
            failed.set_exception(OSError("the worker died"))
            return failed

    with pytest.raises(OSError, match="the worker died"):
        evr.verify(EVENT, epsilon=0.5, delta=delta / 0.9, tau=0.9, seed=1, executor=Broken())


def test_answers_to_another_question_are_not_believed(delta: float) -> None:
    class Confused(Lazily):
        def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
            block, samples, stake = arguments
            return super().submit(function, max(block - 1, 0), samples, stake)

    with pytest.raises(ArithmeticError, match=r"\d+ samples of block 1, .* \d+ samples of block 0"):
        evr.verify(EVENT, epsilon=0.5, delta=delta / 0.97, tau=0.97, seed=3, executor=Confused())


def test_a_pool_whose_process_is_killed_leaves_an_attempt_to_be_continued(
    delta: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_SHOWN", 0.0)
    claim: dict[str, Any] = {"epsilon": 0.5, "delta": delta / 0.993, "seed": 3}
    whole = evr.certify(EVENT, **claim, ledger=tmp_path / "whole.sqlite")
    ledger = tmp_path / "ledger.sqlite"
    with ProcessPoolExecutor(2) as pool:

        def kill(_: object) -> None:
            for process in list((pool._processes or {}).values()):
                process.kill()
                process.join()

        with pytest.raises(BrokenProcessPool):
            evr.certify(EVENT, **claim, ledger=ledger, executor=pool, progress=kill)
        with pytest.raises(ValueError, match="does not work: A child process terminated"):
            evr.certify(EVENT, **claim, ledger=ledger, executor=pool)
    with ThreadPoolExecutor(2) as threads:
        found = resume(ledger, executor=threads)
    for name, section in whole.verification.directions.items():
        again = found.verification.directions[name]
        assert (again.blocks, again.log_wealth) == (section.blocks, section.log_wealth)
    assert whole.verification.directions["remove"].blocks > 2


def test_a_release_is_verified_by_any_executor(delta: float, tmp_path: Path) -> None:
    claim: dict[str, Any] = {"epsilon": 0.5, "delta": delta / 0.9, "tau": 0.9, "seed": 3}
    ledger = tmp_path / "ledger.sqlite"
    drawn: list[int] = []

    class Counting(Lazily):
        def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
            drawn.extend(arguments[:1])
            return super().submit(function, *arguments, **named)

    released = evr.release(lambda: 7, EVENT, **claim, ledger=ledger, executor=Counting())
    assert released.value == 7
    assert drawn[0] == 0


def test_stakes_of_a_round_do_not_see_the_round_before(delta: float) -> None:
    """The stake of each round is fixed before the round that precedes it has been absorbed."""
    sent: list[tuple[int, float]] = []

    class Watching(Lazily):
        def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
            block, _, stake = arguments
            sent.append((block, stake))
            return super().submit(function, *arguments, **named)

    evr.verify(EVENT, epsilon=0.5, delta=delta / 0.97, tau=0.97, seed=3, executor=Watching())
    stakes = dict(sent)
    for first, end in islice(rounds(), 12):
        assert len({stakes[block] for block in range(first, end) if block in stakes}) <= 1
    assert stakes[0] == stakes[1]  # the first two rounds know nothing


def test_no_samples_beyond_the_most(delta: float) -> None:
    found = evr.verify(EVENT, epsilon=0.5, delta=0.5 * delta / 0.99, tau=0.99, seed=3, max_samples=70_001)
    assert not found.accepted
    assert found.directions["remove"].samples <= 70_001


def test_the_time_left_follows_what_was_seen() -> None:
    """A mean far below the claim ends the test far sooner than the claim would."""
    test = SequentialTest(
        clip=5.0, correction=0.0, log_target=20.0, estimate=0.999, hope=0.9995, variance=2.0, rounding=0.0, block=1000
    )
    assert samples_left(test, State()) > 5e7
    n = 400_000
    seen = State(n, clipped_total=0.92 * n, clipped_squares=(2.0 + 0.92**2) * n, log_wealth=10.0)
    assert samples_left(test, seen) < 2e6
