"""Verifications by the workers of a Dask cluster: real processes, some of which die."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

distributed = pytest.importorskip("distributed")

from distributed import Client, KilledWorker, LocalCluster
from distributed.comm import CommClosedError

import evr
from attempts import certify_claim
from evr.certification import Certificate, Ledger
from evr.certification.build import software
from evr.cli import main
from evr.errors import ClusterError
from evr.gate import resume
from evr.integrations import dask, dask_worker
from evr.mechanisms import Composition
from evr.planning.sampled import planned
from evr.randomness import Stream
from evr.sampling import built, registry
from evr.verification import Claim, driver
from evr.verification.settings import Settings
from evr.verification.summary import Work
from integrations.cluster import PATIENCE, Cluster, until

EVENT = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=100)
CLAIM = Claim(0.5, 1.63e-11 / 0.9994, 0.9994)
TRAINING = ["--noise-multiplier", "1", "--sampling-probability", "1e-3", "--steps", "100"]
ESTIMATE = ["--epsilon", "0.5", "--delta", repr(CLAIM.delta), "--tau", "0.9994", "--seed", "7"]
COMMAND = ["certify", *TRAINING, *ESTIMATE]
MIDDLE = 6


@pytest.fixture(autouse=True)
def _every_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress and snapshots come with each block, so that what happens in the middle does."""
    monkeypatch.setattr(driver, "_PROGRESS_SECONDS", 0.0)
    monkeypatch.setattr(driver, "_CHECKPOINT_SECONDS", 0.0)


@pytest.fixture(scope="module")
def _processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as one:
        yield one


@pytest.fixture
def cluster(_processes: Cluster) -> Cluster:
    return _processes.ready()


@pytest.fixture
def pool(cluster: Cluster) -> Iterator[dask.DaskExecutor]:
    with dask.executor(cluster.address, timeout=PATIENCE) as one:
        until(lambda: len(workers(one)) >= 2)
        yield one


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What threads say."""
    return untimed(certified(tmp_path_factory.mktemp("threads") / "ledger.sqlite"))


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def certified(ledger: Path, **how: Any) -> Certificate:
    return certify_claim(EVENT, CLAIM, Settings(), seed=7, ledger=ledger, **how)


def untimed(certificate: Certificate) -> dict[str, Any]:
    """All of a certificate but times, and the digest, which depends on them."""
    document = certificate.document()
    del document["times"], document["digest"]
    for direction in document["verification"]["directions"].values():
        del direction["seconds"]
    return document


def workers(pool: dask.DaskExecutor) -> list[str]:
    return sorted(pool._client.nthreads())


def under_way(pool: dask.DaskExecutor) -> int:
    return sum(map(len, pool._client.processing().values()))


def states(ledger: Path) -> list[str]:
    with Ledger(ledger) as opened:
        return [attempt.state for attempt in opened.attempts()]


class Once:
    """Calls something in the middle of a run, once."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act, self.seen = act, 0

    def __call__(self, *_: object) -> None:
        self.seen += 1
        if self.seen == MIDDLE:
            self._act()


def test_the_certificate_is_that_of_threads_though_workers_die_and_join(
    cluster: Cluster,
    pool: dask.DaskExecutor,
    alone: dict[str, Any],
    ledger: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packed: list[Any] = []
    packing = dask_worker.packed

    def counted(function: Any) -> bytes:
        packed.append(function)
        return packing(function)

    monkeypatch.setattr(dask, "packed", counted)
    victim, *others = workers(pool)
    process = pool._client.run(os.getpid, workers=[victim])[victim]

    def replace_a_worker() -> None:
        """It is stopped, so that it holds what it is given; then it is killed with that."""
        os.kill(process, signal.SIGSTOP)
        threading.Thread(target=kill_when_busy).start()
        cluster.worker()

    def kill_when_busy() -> None:
        """Others may wait for what it holds instead of giving it work: then the new one comes."""
        with contextlib.ExitStack() as stack:
            stack.callback(os.kill, process, signal.SIGKILL)
            until(
                lambda: (
                    pool._client.processing([victim])[victim]
                    or len(workers(pool)) > len(others) + 1
                )
            )

    progress = Once(replace_a_worker)
    certificate = certified(ledger, executor=pool, progress=progress)
    assert untimed(certificate) == alone
    assert victim not in workers(pool)
    blocks = certificate.verification.directions["remove"].blocks
    assert progress.seen == blocks > 2 * MIDDLE
    # once for the direction that draws, not with each task
    assert sum(isinstance(one, Work) for one in packed) == 1
    until(lambda: under_way(pool) == 0)  # what nobody waits for is given up


def test_a_killed_worker_frees_its_room(
    cluster: Cluster, pool: dask.DaskExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where workers take turns, the others do its tasks, and what waits. It is stopped first, so
    that it holds what it is given.
    """
    monkeypatch.setattr(pool, "_sizes", lambda calls, _: [1] * calls)
    pool._room = 2
    victim, *_ = workers(pool)
    process = pool._client.run(os.getpid, workers=[victim])[victim]
    os.kill(process, signal.SIGSTOP)
    futures = pool.submit_all(abs, [(-number,) for number in range(30)])
    os.kill(process, signal.SIGKILL)
    cluster.worker()
    assert [future.result(timeout=PATIENCE) for future in futures] == list(range(30))
    until(lambda: pool._under_way == 0)


def test_a_second_answer_changes_nothing(pool: dask.DaskExecutor) -> None:
    futures = pool.submit_all(divmod, [(7, 2), (9, 4)])
    assert [future.result() for future in futures] == [(3, 1), (2, 1)]
    pool._settle(futures, [(0, 0), (0, 0)])
    pool._settle(futures, error=OSError("late"))
    assert [future.result() for future in futures] == [(3, 1), (2, 1)]


def test_short_calls_share_a_task(pool: dask.DaskExecutor) -> None:
    """A task has a cost of its own; where calls take long, threads share them evenly."""
    threads, long = pool.threads, pool._seconds
    sizes = {}
    for seconds in (1e-6, 0.01, 0.1):
        pool._seconds = seconds
        rounds = (1, 4 * threads, 400 * threads)
        sizes[seconds] = [pool._sizes(calls, math.inf)[0] for calls in rounds]
    pool._seconds = long
    assert sizes == {
        1e-6: [1, 4 * threads, 400 * threads],
        0.01: [1, 5, 200],
        0.1: [1, 2, 200],
    }


def test_tasks_are_shorter_towards_the_end(pool: dask.DaskExecutor) -> None:
    """What is begun when the verdict comes is in vain: less is at stake near the end."""
    threads, long = pool.threads, pool._seconds
    pool._seconds = 0.025
    sizes = [pool._sizes(64 * threads, left * threads) for left in (128, 64, 32, -1)]
    pool._seconds = long
    assert all(sum(one) == 64 * threads for one in sizes)
    assert sizes[0] == [32] * (2 * threads)
    assert (sizes[1][0], sizes[2][0], sizes[3][0]) == (32, 16, 2 + threads // 4)
    assert all(one == sorted(one, reverse=True) for one in sizes[:3])
    assert sizes[2][-2] == sizes[3][0]


def test_what_is_given_up_is_put_down(cluster: Cluster, tmp_path: Path) -> None:
    """A worker ends with the call that it is at, and nobody leaves before that."""
    made = tmp_path / "made"

    def slow(_: int) -> None:
        with made.open("a") as file:
            file.write(".")
        time.sleep(0.05)

    def busy(dask_worker: Any) -> int:
        return len(dask_worker.state.executing)

    with Client(cluster.address, set_as_default=False) as client:
        with dask.executor(client, timeout=PATIENCE) as pool:
            pool._seconds = 1e-6  # so they are one task, which would take minutes
            futures = pool.submit_all(slow, [(call,) for call in range(2_000)])
            until(made.exists)
            for future in futures:
                future.cancel()
        assert sum(client.run(busy).values()) == 0


def test_a_task_that_is_given_up_has_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some answers of a task must not pass for all: if it is wanted after all, it is done again."""
    task = SimpleNamespace(state="executing")
    worker = SimpleNamespace(
        address="tcp://one:1",
        get_current_task=lambda: "one",
        state=SimpleNamespace(tasks={"one": task}),
    )
    monkeypatch.setattr(distributed, "get_worker", lambda: worker)
    context = pickle.dumps((software(), dask_worker.packed(abs)))
    calls = pickle.dumps([(-1,), (2,)])
    assert dask_worker.answers(context, calls).found == [1, 2]
    task.state = "cancelled"
    with pytest.raises(distributed.Reschedule):
        dask_worker.answers(context, calls)


def test_tables_travel_with_a_proposal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Composing outcomes took each worker as long as the driver; large tables are built there."""
    steps = Composition.of(EVENT).simplified("remove")
    proposal = built(planned(steps, "remove", CLAIM, "simple").proposal, steps)
    registry.built.cache_clear()
    package = dask_worker.packed(proposal)
    arrived = pickle.loads(package)
    assert registry.built.cache_info().misses == 0
    assert type(arrived) is type(proposal)
    for a, b in zip(
        arrived.draw(Stream(1, "test").block(0), 50),
        proposal.draw(Stream(1, "test").block(0), 50),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)
    monkeypatch.setattr(dask_worker, "_MOST_BYTES", len(package) - 1)
    again = pickle.loads(dask_worker.packed(proposal))
    assert registry.built.cache_info().misses == 1
    assert again.source == proposal.source


def test_any_call_and_its_error_come_back(pool: dask.DaskExecutor) -> None:
    assert pool.submit(sorted, [1, 3, 2], reverse=True).result() == [3, 2, 1]
    assert pool.submit_all(abs, []) == []
    with pytest.raises(ValueError, match="invalid literal"):
        pool.submit(int, "x").result()
    with pytest.raises(FileNotFoundError):  # the worker's own, no matter of the connection
        pool.submit(os.stat, "/nowhere/at/all").result()


def test_a_worker_of_another_version_is_refused_by_name(
    cluster: Cluster, pool: dask.DaskExecutor, alone: dict[str, Any], ledger: Path
) -> None:
    def pretend(version: str) -> None:
        from evr.certification import build
        from evr.integrations import dask_worker

        vars(build)["__version__"] = version
        dask_worker.unpacked.cache_clear()  # no process changes its version after its first task

    stranger, *_ = workers(pool)
    words = f"draws with evr 9.9, and this is {evr.__version__}: its samples may not"
    try:
        pool._client.run(pretend, "9.9", workers=[stranger])
        with pytest.raises(ClusterError, match=f"worker {stranger} {words}"):
            dask.executor(cluster.address, timeout=PATIENCE)
        assert main_says([*COMMAND, "--dask", cluster.address, "--ledger", str(ledger)]) == 2
        assert not ledger.exists()
        pool._client.run(pretend, evr.__version__)
        # those that come later are refused when they are asked for a block
        late = Once(lambda: pool._client.run(pretend, "9.9"))
        with pytest.raises(ClusterError, match=f"worker tcp://[0-9.:]+ {words}.*evr resume"):
            certified(ledger, executor=pool, progress=late)
        assert states(ledger) == ["interrupted"]
    finally:
        pool._client.run(pretend, evr.__version__)
    assert untimed(resume(ledger, executor=pool)) == alone


def test_ctrl_c_leaves_the_cluster_idle_and_the_attempt_to_be_continued(
    pool: dask.DaskExecutor, alone: dict[str, Any], ledger: Path
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        certified(ledger, executor=pool, progress=Once(interrupt))
    until(lambda: under_way(pool) == 0)
    assert states(ledger) == ["interrupted"]
    assert untimed(resume(ledger, executor=pool)) == alone


def main_says(arguments: list[str]) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["evr", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
    return int(left.value.code)


def test_nobody_at_the_address_costs_no_attempt(
    ledger: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    quick = functools.partial(dask.executor, timeout=0.2)
    monkeypatch.setattr(dask, "executor", quick)
    for address, words in (("tcp://127.0.0.1:9", "no Dask scheduler answers"), ("x:y", "'x:y'")):
        assert main_says([*COMMAND, "--dask", address, "--ledger", str(ledger)]) == 2
        assert words in capsys.readouterr().err
    assert main_says([*COMMAND, "--dask", "tcp://127.0.0.1:9", "--workers", "2"]) == 2
    assert "--workers=2 are threads here" in capsys.readouterr().err
    assert not ledger.exists()
    with pytest.raises(TypeError, match=r"neither a distributed\.Client nor an address"):
        dask.executor(7)


def test_what_is_no_address_opens_no_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distributed.Client.__init__", lambda *_, **__: pytest.fail("was opened"))
    with pytest.raises(ClusterError, match="missing port number in address 'nonsense'"):
        dask.executor("nonsense")


def test_a_cluster_without_workers_is_refused() -> None:
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as empty,
        pytest.raises(ClusterError, match=r"has no worker that answers .*: start some"),
    ):
        dask.executor(empty.scheduler_address, timeout=0.2)


@pytest.mark.parametrize("error", [CommClosedError("closed"), OSError("Timed out"), TimeoutError()])
def test_a_connection_may_be_lost_in_any_way(pool: dask.DaskExecutor, error: OSError) -> None:
    lost = pytest.raises(ClusterError, match=r"to the Dask scheduler at .* is lost")
    with lost, pool._connected():
        raise error


def test_blocks_that_kill_workers_are_told(pool: dask.DaskExecutor) -> None:
    deadly = KilledWorker("evr-1", SimpleNamespace(address="tcp://one:1"), 3)
    told = pytest.raises(ClusterError, match="the last one was tcp://one:1: are they short of mem")
    with told, pool._connected():
        raise deadly


def test_a_client_is_no_executor_but_makes_one(cluster: Cluster, ledger: Path) -> None:
    with Client(cluster.address, set_as_default=False) as client:
        with pytest.raises(TypeError, match=r"evr\.integrations\.dask\.executor\(client\)"):
            certified(ledger, executor=client)
        with dask.executor(client) as pool:
            assert pool.submit(abs, -1).result() == 1
        with pytest.raises(ValueError, match="cannot schedule new futures after shutdown"):
            certified(ledger, executor=pool)
        assert client.status == "running"  # it is the caller's
    assert states(ledger) == []


def test_the_death_of_the_scheduler_leaves_an_attempt_to_be_continued(
    cluster: Cluster,
    alone: dict[str, Any],
    ledger: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def kill() -> None:
        cluster.scheduler.kill()
        cluster.scheduler.wait()

    middle, save = Once(kill), Ledger.save

    def saving(*saved: Any) -> None:
        save(*saved)
        middle()

    monkeypatch.setattr(Ledger, "save", saving)
    output = ledger.with_name("certificate.json")
    kept = ["--ledger", str(ledger), "--output", str(output)]
    assert main_says([*COMMAND, "--dask", cluster.address, *kept]) == 2
    said = capsys.readouterr().err
    assert f"the connection to the Dask scheduler at {cluster.address} is lost" in said
    assert "The attempt counts; `evr resume` continues it" in said
    assert states(ledger) == ["interrupted"]
    assert main_says(["resume", *kept[:2]]) == 0
    assert untimed(Certificate.load(output)) == alone
