"""What a cluster costs beside threads, and how many summaries a second a driver takes in.

Run ``python benchmarks/cluster.py [--quick]``. The second table verifies the same claim by threads,
in a process of their own, and by eight worker processes of a Dask cluster on this machine's cores,
in turn, and counts processor seconds from the start of a verification to its verdict: of a cluster,
those of everybody, driver, scheduler and workers, until the last worker has put down its block, but
not their starts. A verification takes about a minute of one core, for which one would ask a
cluster; with ``--quick``, seconds. Each has a seed of its own, so no worker knows its work. What
can be kept of a plan, the driver and the threads have kept: planning is the same for both, and
would only hide the difference. Workers have fewer cores than threads here, so they take turns.
Target: at most 10% more.

Idle workers cost something too, for as long as a run takes: a heartbeat twice a second. The column
``idle`` is that, from what they take before the runs, and the last ratio is without it: it grows
with the time that a busy machine makes us wait, the rest does not. Column ``cores`` says how much
of the machine a cluster's run got. Workers run without Dask's statistical profiler, with slower
monitors, and do not measure messages, as docs/guide/cluster.md advises.

The first table has workers that draw nothing, so that all there is to do is sending blocks and
absorbing summaries, for the driver alone and through the cluster. Target: at least 1,000 summaries
a second, which is what bounds a cluster of 1,000 cores.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from typing import Any

import psutil
from dask import config
from distributed import Client, LocalCluster

import evr
from evr.integrations import dask
from evr.verification.driver import Driver, Hooks
from evr.verification.executors import Lazily
from evr.verification.state import Ending, State
from evr.verification.summary import HISTOGRAM_EDGES, Summary

WORKERS = 8
EVENT = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=1000)
EPSILON = 0.5
SETTINGS = {
    "WORKER__PROFILE__ENABLED": "False",
    "WORKER__MEMORY__MONITOR_INTERVAL": "5s",
    "ADMIN__TICK__INTERVAL": "500ms",
    "ADMIN__SYSTEM_MONITOR__INTERVAL": "5s",
    "COMM__OFFLOAD": "False",
}


SHORT = {"seed": 0, "max_samples": 2_000_000}

Claim = dict[str, Any]


def processor_seconds(children: list[psutil.Process]) -> float:
    """Of this process and the children, and of what they started."""
    return sum(sum(one.cpu_times()[:2]) for one in (psutil.Process(), *children))


def measured(work: Callable[[], Any], children: list[psutil.Process]) -> tuple[Any, float, float]:
    """What it returns, processor seconds, and seconds."""
    start, processor = time.perf_counter(), processor_seconds(children)
    found = work()
    return found, processor_seconds(children) - processor, time.perf_counter() - start


def by_threads(claim: Claim) -> tuple[float, int, float]:
    """The wealth, blocks, and processor seconds of this process."""
    start = time.process_time()
    found = evr.verify(EVENT, **claim, workers=2).directions["remove"]
    return found.log_wealth, found.blocks, time.process_time() - start


def by_cluster(claim: Claim, pool: dask.DaskExecutor) -> float:
    """The wealth, when all workers are at rest."""
    found = evr.verify(EVENT, **claim, executor=pool).directions["remove"]
    pool._wait_for_workers()
    return found.log_wealth


def against_threads(apart: Executor, pool: dask.DaskExecutor, claim: Claim, repeats: int) -> None:
    mine = psutil.Process().children(recursive=True)
    threads_here = apart.submit(os.getpid).result()
    everybody = [one for one in mine if one.pid != threads_here]
    by_cluster(claim | SHORT, pool)
    rate, ratios = measured(lambda: time.sleep(10.0), everybody)[1] / 10.0, []
    print(f"processor seconds; idle processes take {rate:.1%} of a core")
    print("   tau  blocks   threads   cluster   idle  cores  ratio  without idle")
    for seed in range(1, repeats + 1):
        one = claim | {"seed": seed}
        here, blocks, threads = apart.submit(by_threads, one).result()
        there, cluster, took = measured(partial(by_cluster, one, pool), everybody)
        assert here == there
        idle = rate * took
        ratios.append((cluster / threads, (cluster - idle) / threads))
        print(
            f"{claim['tau']:>6} {blocks:>7} {threads:>9.2f} {cluster:>9.2f} {idle:>6.2f} "
            f"{cluster / took:>6.2f} {ratios[-1][0]:>6.3f} {ratios[-1][1]:>13.3f}",
            flush=True,
        )
    whole, working = (statistics.median(column) for column in zip(*ratios, strict=True))
    print(f"median {whole:.3f}, without idle time {working:.3f}; the target is 1.10\n")


class Nothing:
    """Work that draws nothing."""

    block_size = 1000

    def __call__(self, block: int, samples: int, stake: float) -> Summary:
        histogram = (0,) * HISTOGRAM_EDGES.size
        return Summary(block, samples, 0.5, 0.25, 0.5, 0.25, stake, histogram)


class Forever:
    """A test that nothing decides."""

    clip, mean, log_target = math.inf, 0.0, 1.0

    def stake(self, state: State) -> float:
        return 0.5

    def ending(self, state: State) -> Ending | None:
        return None

    def samples_left(self, state: State) -> float:
        return 1.0

    def most_samples(self, state: State) -> float:
        return 1.0


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
    os.environ.update({f"DASK_DISTRIBUTED__{name}": value for name, value in SETTINGS.items()})
    config.refresh()
    delta = float(evr.estimate_delta(EVENT, EPSILON))
    claim = {"epsilon": EPSILON, "delta": delta, "direction": "remove"}
    claim["tau"] = 0.995 if quick else 0.999
    claim["delta"] /= claim["tau"]
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as apart:
        # before the cluster: what Dask sets of malloc, children inherit, and threads would suffer
        apart.submit(by_threads, claim | SHORT).result()
        with (
            LocalCluster(
                n_workers=WORKERS, threads_per_worker=1, dashboard_address=":0"
            ) as cluster,
            Client(cluster) as client,
        ):
            client.wait_for_workers(WORKERS, timeout=300)
            with dask.executor(client) as pool:
                summaries(pool, 5_000 if quick else 20_000)
                against_threads(apart, pool, claim, 3 if quick else 5)


def summaries(pool: Executor, number: int) -> None:
    print(f"{'who':<14} {'summaries/s':>12} {'driver and scheduler, us each':>30}")
    for name, one in (("driver alone", Lazily()), (f"{WORKERS} workers", pool)):
        found, cost = rate(one, number)
        print(f"{name:<14} {found:>12,.0f} {cost:>30.0f}", flush=True)
    print()


if __name__ == "__main__":
    main()
