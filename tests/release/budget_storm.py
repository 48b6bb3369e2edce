"""Run by tests, as a program: many processes on several hosts release at the cost of one budget, and
are killed at random moments; a server is restarted meanwhile.

``budget_storm.py sqlite|postgresql FOLDER LEAST_NOISE PROCESSES KILLS SEED``; prints one JSON
document.

Each process writes down, outside of the ledger and to the disk, what the ledger has told it: that an
attempt is counted, that something is spent, that an output may run. Afterwards the ledger must know
all of it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import signal
import socket
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from dp_accounting import dp_event

import evr
from evr._estimate.closed_forms import pair_delta
from evr._kernel.pairs.line.gaussian import GaussianPair
from evr._release import attempt as attempts
from evr._release import databases
from evr._release.budget import Budget
from evr.errors import BudgetExceededError, LedgerError

EPSILON, DELTA = 2.0, 1e-5
NOISES = [1.0, 1.25, 1.6]  # times the least, an argument
HOSTS = 3


def note(file: Path, text: str) -> None:
    """A line that is on the disk."""
    with file.open("a") as out:
        out.write(text + "\n")
        out.flush()
        os.fsync(out.fileno())


def noted(folder: Path, kind: str) -> list[list[str]]:
    return [line.split() for file in folder.glob(f"{kind}.*") for line in file.read_text().splitlines()]


def work(address: str, folder: Path, number: int, seed: int) -> None:
    """Release, or continue what another process left, until the budget is spent."""
    me, chance = os.getpid(), random.Random(seed)
    host = f"host-{number % HOSTS}"
    vars(socket)["gethostname"] = lambda: host
    databases._FORGOTTEN_SECONDS = 2.0  # so that processes take over what a slow one still works on
    start, spend = attempts.start, Budget.spend

    def started(*args: Any, **more: Any) -> Any:
        found = start(*args, **more)
        note(folder / f"begun.{me}", f"{found.id} {found.number}")
        return found

    def spent(*args: Any, **more: Any) -> Any:
        found = spend(*args, **more)
        note(folder / f"spent.{me}", f"{found.attempt_id} {found.number}")
        return found

    vars(attempts)["start"] = started
    Budget.spend = spent  # type: ignore[method-assign]
    for count in range(10_000):
        name = f"{host}-{me}-{count}"
        budget = Budget("storm", ledger=address, by=f"team-{number % HOSTS}")
        event = dp_event.GaussianDpEvent(chance.choice(NOISES))
        try:
            if chance.random() < 0.3 and _left_over(address):
                evr.resume(address)
                note(folder / f"resumed.{me}", name)
            evr.release(
                partial(note, folder / f"out.{me}", name),
                event,
                epsilon=EPSILON,
                delta=1e-3,
                name=name,
                budget=budget,
                ledger=address,
            )
        except BudgetExceededError:
            note(folder / f"refused.{me}", name)
            if not budget.fits(dp_event.GaussianDpEvent(max(NOISES))):
                return
        except LedgerError as error:
            note(folder / f"errors.{me}", f"{type(error).__name__}: {error}".replace("\n", " ")[:300])


def _left_over(address: str) -> bool:
    with evr.Ledger(address) as ledger:
        return bool(ledger.interrupted())


def storm(kind: str, folder: Path, processes: int, kills: int, seed: int) -> dict[str, Any]:
    chance, began = random.Random(seed), time.monotonic()
    server = None
    if kind == "postgresql":
        from postgres import Server

        server = Server()
        address = server.database()
    else:
        address = str(folder / "ledger.sqlite")
    try:
        found = _storm(address, server, folder, processes, kills, chance)
    finally:
        if server is not None:
            server.close()
    return {**found, "seconds": round(time.monotonic() - began, 1)}


def _storm(
    address: str, server: Any, folder: Path, processes: int, kills: int, chance: random.Random
) -> dict[str, Any]:
    Budget.create("storm", epsilon=EPSILON, delta=DELTA, ledger=address)
    living: dict[int, int] = {}

    def begin(number: int) -> None:
        seed = chance.getrandbits(32)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                work(address, folder, number, seed)
                code = 0
            finally:
                os._exit(code)
        living[child] = number

    for number in range(processes):
        begin(number)
    killed, restarted = 0, 0
    while killed < kills and living:
        time.sleep(chance.uniform(0.0, 0.3))
        victim = chance.choice(sorted(living))
        os.kill(victim, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(victim, 0)[1])
        number = living.pop(victim)
        killed += code == -signal.SIGKILL
        if code != 0:
            begin(number)
        if server is not None and killed == kills // 2 and not restarted:
            server.stop()  # as a crash does
            time.sleep(0.5)
            server.start()
            restarted = 1
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in sorted(living)]
    return {"kills": killed, "restarts": restarted, "codes": codes, **_checked(address, folder)}


def _checked(address: str, folder: Path) -> dict[str, Any]:
    """Raise unless the ledger knows everything that it told anybody, once."""
    with evr.Ledger(address, create=False) as ledger:
        ledger.check()
        held = ledger.contents()
    known = {one.id: one.number for one in held.attempts.values()}
    for attempt, number in noted(folder, "begun"):
        assert known.get(int(attempt)) == int(number), f"attempt {attempt} was lost"
    spendings = {one.number: one for one in held.spendings.values()}
    assert sorted(spendings) == list(range(1, len(spendings) + 1))
    assert len(spendings) == len(held.spendings)
    for attempt, number in noted(folder, "spent"):
        assert spendings[int(number)].attempt_id == int(attempt), f"spending {number} was lost"
    by_attempt = Counter(one.attempt_id for one in held.spendings.values())
    assert set(by_attempt.values()) <= {1}, "an attempt spent twice"
    releases = {one.name: one.id for one in held.releases.values()}
    paid = {one.release_id for one in held.attempts.values() if one.id in by_attempt}
    outs = Counter(name for (name,) in noted(folder, "out"))
    assert set(outs.values()) <= {1}, "an output went out twice"
    for name in outs:
        assert held.releases[releases[name]].output is not None, "an output was not counted"
        assert releases[name] in paid, "an output was not paid for"
    # the cost, by a closed form
    square = math.fsum(one.event["noise_multiplier"] ** -2 for one in held.spendings.values())
    cost, most = pair_delta(GaussianPair(math.sqrt(square)), EPSILON), max(NOISES) ** -2
    assert cost <= DELTA, f"over budget: {cost}"
    full = pair_delta(GaussianPair(math.sqrt(square + most)), EPSILON) > DELTA * (1 - 1e-3)
    return {
        "attempts": len(held.attempts),
        "spendings": len(spendings),
        "outputs": sum(one.output is not None for one in held.releases.values()),
        "published": sum(outs.values()),
        "refused": len(noted(folder, "refused")),
        "errors": len(noted(folder, "errors")),
        "delta": cost / DELTA,
        "full": full,
        "resumed": len(noted(folder, "resumed")),
    }


if __name__ == "__main__":
    what, where, least, *numbers = sys.argv[1:]
    NOISES[:] = [float(least) * part for part in NOISES]
    with contextlib.suppress(KeyboardInterrupt):
        print(json.dumps(storm(what, Path(where), *map(int, numbers))))
