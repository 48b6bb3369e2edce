"""What a cluster costs beside threads, and how many summaries a second a driver takes in.

Run ``python benchmarks/cluster.py [--quick]``. The second table verifies the same claim by threads
and by eight worker processes of a Dask cluster on this machine's cores, in turn, and counts the
processor seconds of everybody: driver, scheduler and workers, without their starts. Target: at most
10% more. Idle workers cost something too, for as long as a run takes; the column ``idle`` is that,
from what they take before the runs, and the last ratio is without it: it grows with the time that a
busy machine makes us wait, the rest does not. Workers run without Dask's statistical
profiler, with a slower clock and slower monitors, as docs/guide/cluster.md advises.

The first table has workers that draw nothing, so that all there is to do is sending blocks and
absorbing summaries, for the driver alone and through the cluster. Target: at least 1,000 summaries
a second, which is what bounds a cluster of 1,000 cores.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import psutil
from dask import config
from distributed import Client, LocalCluster

import evr
from evr.integrations import dask
from evr.verification.driver import Driver, Ending, Hooks
from evr.verification.executors import Lazily
from evr.verification.summary import HISTOGRAM_EDGES, Summary

WORKERS = 8
EVENT = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=1000)
EPSILON = 0.5


def processor_seconds() -> float:
    """Of this process and its children."""
    here = psutil.Process()
    return sum(sum(one.cpu_times()[:2]) for one in (here, *here.children(recursive=True)))


def measured(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """What it returns, processor seconds, and seconds."""
    start, processor = time.perf_counter(), processor_seconds()
    found = work()
    return found, processor_seconds() - processor, time.perf_counter() - start


def idle_rate(seconds: float) -> float:
    """Processor seconds that everybody takes in a second without work."""
    return measured(lambda: time.sleep(seconds))[1] / seconds


def against_threads(pool: Executor, tau: float, repeats: int) -> None:
    delta = float(evr.estimate_delta(EVENT, EPSILON))
    claim = {"epsilon": EPSILON, "delta": delta, "direction": "remove", "seed": 1}
    evr.verify(EVENT, **claim, tau=tau, executor=pool)
    rate, ratios = idle_rate(5.0), []
    print("processor seconds; and the ratio of cluster to threads, with and without idle time")
    print(f"{'tau':>6} {'blocks':>7} {'threads':>9} {'cluster':>9} {'idle':>6} {'ratio':>6}")
    for _ in range(repeats):
        here, threads, _ = measured(lambda: evr.verify(EVENT, **claim, tau=tau, workers=2))
        there, cluster, took = measured(lambda: evr.verify(EVENT, **claim, tau=tau, executor=pool))
        assert here.directions["remove"].log_wealth == there.directions["remove"].log_wealth
        blocks, idle = here.directions["remove"].blocks, rate * took
        ratios.append((cluster / threads, (cluster - idle) / threads))
        print(
            f"{tau:>6} {blocks:>7} {threads:>9.2f} {cluster:>9.2f} {idle:>6.2f} "
            f"{ratios[-1][0]:>6.2f} {ratios[-1][1]:.2f}",
            flush=True,
        )
    whole, working = (statistics.median(column) for column in zip(*ratios, strict=True))
    print(f"median {whole:.3f}, without idle time {working:.3f}; the target is 1.10\n")


def warmed() -> None:
    """Import what a block needs: a few blocks alone do not reach every worker."""
    evr.verify(EVENT, epsilon=EPSILON, delta=1e-6, tau=0.5, workers=1)


class Nothing:
    """Work that draws nothing."""

    block_size = 1000

    def __call__(self, block: int, samples: int, stake: float) -> Summary:
        histogram = (0,) * HISTOGRAM_EDGES.size
        return Summary(block, samples, 0.5, 0.25, 0.5, 0.25, stake, histogram)


class Forever:
    """A test that nothing decides."""

    log_wealth, log_target = 0.0, 1.0

    def stake(self) -> float:
        return 0.5

    def absorb(self, summary: Summary) -> None:
        pass

    def ending(self) -> Ending | None:
        return None

    def samples_left(self) -> float:
        return 1.0

    def most_samples(self) -> float:
        return 1.0

    def snapshot(self) -> dict[str, Any]:
        return {}

    def restore(self, snapshot: dict[str, Any]) -> None:
        pass


def rate(executor: Executor, summaries: int) -> tuple[float, float]:
    """Summaries a second, and microseconds of this process's processor for each."""
    work = Nothing()
    most = summaries * work.block_size
    driver = Driver("remove", work, Forever(), unit=1.0, most=most, run="")  # type: ignore[arg-type]
    start, processor = time.perf_counter(), time.process_time()
    driver.play(executor, Hooks(progress=lambda _: None, checkpoint=lambda *_: None))
    spent = time.process_time() - processor
    return summaries / (time.perf_counter() - start), spent / summaries * 1e6


def main() -> None:
    quick = "--quick" in sys.argv
    config.set({"distributed.worker.profile.enabled": False})
    config.set({"distributed.admin.tick.interval": "500ms"})
    config.set({"distributed.admin.system-monitor.interval": "5s"})
    config.set({"distributed.worker.memory.monitor-interval": "5s"})
    with (
        LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
        dask.executor(client) as pool,
    ):
        client.wait_for_workers(WORKERS)
        client.run(warmed)
        summaries = 5_000 if quick else 20_000
        print(f"{'who':<14} {'summaries/s':>12} {'driver and scheduler, us each':>30}")
        for name, one in (("driver alone", Lazily()), (f"{WORKERS} workers", pool)):
            found, cost = rate(one, summaries)
            print(f"{name:<14} {found:>12,.0f} {cost:>30.0f}", flush=True)
        print()
        against_threads(pool, 0.98 if quick else 0.995, 3 if quick else 5)


if __name__ == "__main__":
    main()
