"""Verifications by the workers of a Dask cluster: real processes, some of which die."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

distributed = pytest.importorskip("distributed")

import cloudpickle
from distributed import Client, LocalCluster

import evr
from attempts import certify_claim
from evr._certificate.build import software
from evr._certificate.certificate import Certificate
from evr._kernel.sampled.summary import Work
from evr._kernel.verdict.settings import Claim, Settings
from evr._proving import progress as showing
from evr.errors import ClusterError
from evr.integrations import dask
from integrations.cluster import PATIENCE, Cluster, until

EVENT = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=100)
CLAIM = Claim(0.5, 1.63e-11 / 0.9994, 0.9994)
MIDDLE = 6


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as one:
        yield one.ready()


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with Client(cluster.address, timeout=PATIENCE, set_as_default=False) as one:
        until(lambda: len(one.nthreads()) >= 2)
        yield one


def certified(ledger: Path, **how: Any) -> Certificate:
    return certify_claim(EVENT, CLAIM, Settings("sequential"), seed=7, ledger=ledger, **how)


def untimed(certificate: Certificate) -> dict[str, Any]:
    """All of a certificate but times, and the digest, which depends on them."""
    document = certificate.document()
    del document["times"], document["digest"]
    for direction in document["verification"]["directions"].values():
        del direction["seconds"]
    return document


def test_the_certificate_is_that_of_threads_though_workers_die_and_join(
    cluster: Cluster, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(showing, "_SHOWN", 0.0)  # so that there is a middle
    packed: list[Any] = []

    as_it_is = cloudpickle.dumps

    def dumps(one: Any, *more: Any, **named: Any) -> bytes:
        packed.append(one)
        return as_it_is(one, *more, **named)

    monkeypatch.setattr(cloudpickle, "dumps", dumps)
    victim = min(client.nthreads())
    process = client.run(os.getpid, workers=[victim])[victim]
    seen: list[Any] = []

    def progress(now: Any) -> None:
        seen.append(now)
        if len(seen) == MIDDLE:  # stopped, so that it holds what it is given; then killed
            os.kill(process, signal.SIGSTOP)
            cluster.worker()
            threading.Timer(2.0, os.kill, (process, signal.SIGKILL)).start()

    with dask.executor(client) as pool:
        found = certified(tmp_path / "dask.sqlite", executor=pool, progress=progress)
    assert untimed(found) == untimed(certified(tmp_path / "threads.sqlite"))
    assert len(seen) > 2 * MIDDLE
    # once for the direction that draws, not with each block
    assert sum(isinstance(one, Work) for one in packed) == 1
    until(lambda: victim not in client.nthreads())
    until(lambda: not any(client.processing().values()))  # nobody waits for the rest


def test_an_error_of_the_work_comes_back(client: Client) -> None:
    with dask.executor(client) as pool:
        with pytest.raises(ZeroDivisionError):
            pool.submit(divmod, 1, 0).result()
        assert pool.submit(divmod, 7, 2).result() == (3, 1)


def test_a_worker_with_other_software_is_refused(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask, "software", lambda: {**software(), "numpy": "0.1"})
    with pytest.raises(ClusterError, match=r"worker tcp://.* draws with .*numpy"):
        dask.executor(client)


def test_a_worker_that_joins_later_is_checked_too(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with dask.executor(client) as pool:
        monkeypatch.setattr(dask, "software", lambda: {**software(), "numpy": "0.1"})
        with pytest.raises(ClusterError, match=r"that joined draws with .*numpy"):
            pool.submit(int).result()


def test_no_worker() -> None:
    options: dict[str, Any] = {"processes": False, "dashboard_address": ":0"}
    with (
        LocalCluster(n_workers=0, **options) as none,
        Client(none, set_as_default=False) as client,
        pytest.raises(ClusterError, match="has no worker"),
    ):
        dask.executor(client)
