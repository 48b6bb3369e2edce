"""A Dask cluster whose workers have more threads than cores: they take turns."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

distributed = pytest.importorskip("distributed")

from distributed import Client, LocalCluster

import evr
from evr.errors import ClusterError
from evr.integrations import dask, dask_worker
from evr.integrations.dask_worker import Place
from integrations.cluster import PATIENCE, until

EVENT = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=100)
ONE_CORE = Place("here", 1)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Of two workers with one thread each, in this process."""
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster, set_as_default=False) as one,
    ):
        yield one


@pytest.fixture
def pool(client: Client, monkeypatch: pytest.MonkeyPatch) -> Iterator[dask.DaskExecutor]:
    """Both workers share one core, and each call is a task."""
    monkeypatch.setattr(dask_worker, "place", lambda _: ONE_CORE)
    with dask.executor(client, timeout=PATIENCE) as one:
        one._places = dict.fromkeys(client.nthreads(), ONE_CORE)
        monkeypatch.setattr(one, "_sizes", lambda calls, _: [1] * (calls if one.threads else 0))
        yield one


@pytest.fixture
def seen(pool: dask.DaskExecutor, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tasks were under way, each time that some were sent."""
    under_way, send = list[int](), pool._send

    def sending() -> object:
        sent = send()
        under_way.append(pool._under_way)
        return sent

    monkeypatch.setattr(pool, "_send", sending)
    return under_way


@pytest.mark.parametrize("cores", [1, 2])
def test_tasks_are_sent_as_there_are_cores(
    pool: dask.DaskExecutor, seen: list[int], monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    """Two for one core: the second is on its way while it works. With enough cores, all."""
    monkeypatch.setattr(dask_worker, "place", lambda _: Place("here", cores))
    pool._places = dict.fromkeys(pool._places, Place("here", cores))
    futures = pool.submit_all(divmod, [(number, 3) for number in range(12)])
    assert [future.result() for future in futures] == [divmod(number, 3) for number in range(12)]
    assert max(seen) == (2 if cores == 1 else 12)
    until(lambda: pool._under_way == 0)


def test_the_answer_is_that_of_threads(pool: dask.DaskExecutor, seen: list[int]) -> None:
    claim: dict[str, Any] = {
        "epsilon": 0.5,
        "delta": 2.025e-11,
        "tau": 0.8,
        "direction": "remove",
        "seed": 1,
    }
    found = evr.verify(EVENT, **claim, executor=pool).directions["remove"]
    here = evr.verify(EVENT, **claim).directions["remove"]
    assert (found.blocks, found.log_wealth) == (here.blocks, here.log_wealth)
    assert max(seen) == 2


def test_what_waits_and_is_given_up_is_never_sent(pool: dask.DaskExecutor) -> None:
    futures = pool.submit_all(time.sleep, [(0.01,)] * 50)
    futures[0].result()
    with pool._lock:  # nothing is sent meanwhile
        sent = next(pool._numbers)
        for future in futures:
            future.cancel()
    until(lambda: pool._under_way == 0)
    until(lambda: not pool._waiting)
    assert next(pool._numbers) == sent + 1
    assert pool.submit(abs, -2).result() == 2


@pytest.mark.parametrize("call", ["map", "gather"])
def test_a_lost_connection_leaves_nobody_waiting(
    pool: dask.DaskExecutor, client: Client, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def lost(*_: object, **__: object) -> None:
        raise OSError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(client, call, lost)
        for future in pool.submit_all(abs, [(-1,)] * 12):
            with pytest.raises(ClusterError, match=r"Dask scheduler at .* is lost \(gone\)"):
                future.result(timeout=PATIENCE)
    until(lambda: pool._under_way == 0)
    assert pool.submit(abs, -2).result(timeout=PATIENCE) == 2


@pytest.mark.parametrize(
    ("places", "usable", "room"),
    [
        pytest.param({}, 8, math.inf, id="nobody has answered yet"),
        pytest.param({w: Place("a", 8) for w in "abcd"}, 8, math.inf, id="cores enough"),
        pytest.param({w: Place("a", 3) for w in "abcd"}, 3, 4, id="more threads than cores"),
        pytest.param({w: Place("a", 3) for w in "ab"}, 7, 8, id="two have not answered yet"),
        pytest.param({w: Place(w, 2) for w in "abcd"}, 8, math.inf, id="cores of their own"),
        pytest.param({w: Place(w, 1) for w in "abcd"}, 4, 5, id="each with too many threads"),
    ],
)
def test_cores_are_counted_place_by_place(
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    places: dict[str, Place],
    usable: int,
    room: float,
) -> None:
    with dask.executor(client, timeout=PATIENCE) as pool:
        monkeypatch.setattr(client, "nthreads", lambda: dict.fromkeys("abcd", 2))
        pool._places = places
        assert (pool.threads, pool._room) == (usable, room)


def test_a_place_is_a_machine_and_what_it_lets_a_worker_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find = dask_worker.place.__wrapped__
    here = find("tcp://10.0.0.1:1")
    assert 1 <= here.cores <= (os.cpu_count() or 1)
    assert find("tcp://10.0.0.1:2") == here  # another worker, the same cores
    assert find("tcp://10.0.0.2:1") != here  # machines may have the same name
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {999}, raising=False)
    assert find("tcp://10.0.0.1:1").name != here.name
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr("pathlib.Path.read_text", lambda *_: "job 1")
    first = find("tcp://10.0.0.1:1")
    monkeypatch.setattr("pathlib.Path.read_text", lambda *_: "job 2")
    assert find("tcp://10.0.0.1:1").name != first.name
