"""Run by tests, as a program: kill verifications at random moments, or let many processes certify
or release at once.

``storm.py kills FOLDER TIMES SEED``, ``storm.py crowd FOLDER PROCESSES ROUNDS``, ``storm.py race
FOLDER PROCESSES ROUNDS`` and ``storm.py lines FOLDER HOW FIRST NUMBER EVERY``; prints one JSON
document.
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
import sys
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

from dp_accounting import dp_event

import evr
from attempts import start
from evr._estimate.capped import capped_plan
from evr._kernel.verdict.settings import Claim, Settings
from evr._plan import sampled as search_plans
from evr._proving import progress
from evr._proving.sampling import Sampling
from evr._release.attempt import perform
from evr.errors import AlreadyReleasedError

EVENT = dp_event.GaussianDpEvent(2.0)
EPSILON = 1.0


def claims(tau: float) -> list[Claim]:
    """Claims that are true by a little, each a release of its own."""
    truth = float(evr.estimate_delta(EVENT, EPSILON))
    return [Claim(EPSILON, truth * (1.0001 + i / 1e4) / tau, tau) for i in range(4)]


def kills(folder: Path, times: int, seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    path = folder / "ledger.sqlite"
    tried = claims(0.996)
    # tunes, before the children are forked
    evr.verify(EVENT, epsilon=EPSILON, delta=tried[0].delta, tau=0.9, workers=1, method="sequential")
    begun, resumed, finished = 0, 0, 0
    clock = time.perf_counter()
    with evr.Ledger(folder / "measured.sqlite") as ledger:
        perform(ledger, start(ledger, EVENT, tried[0], Settings(), path=folder / "measured.json"), Sampling(workers=1))
    reach = 1.3 * (time.perf_counter() - clock)  # some are killed after the last sample
    for i in range(times):
        claim = tried[i % len(tried)]
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            with evr.Ledger(path) as ledger:
                attempt = start(ledger, EVENT, claim, Settings(), seed=10_000 + i, path=folder / f"{i}.json")
                os.write(writing, b"x")
                perform(ledger, attempt, Sampling(workers=1))
            os._exit(0)
        os.close(writing)
        time.sleep(chance.uniform(0.0, reach))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        said = os.read(reading, 1)
        os.close(reading)
        with evr.Ledger(path) as ledger:
            ledger.check()
            mine = [a for a in ledger.attempts() if a.entropy == 10_000 + i]
            if said:
                assert len(mine) == 1, "an attempt was lost"
            begun += len(mine)
            waiting = ledger.interrupted()
            assert {a.id for a in waiting} == {a.id for a in mine if a.state in ("running", "interrupted")}, (
                "more than one is waiting"
            )
            if waiting:
                certificate = evr.resume(ledger, workers=1)
                resumed += 1
            elif mine:
                finished += 1
                certificate = evr.Certificate.load(folder / f"{i}.json")
            if mine:
                # from the first block, without interruption
                again = evr.replay(certificate, workers=1)
                assert again.agrees, again.mismatches
    with evr.Ledger(path) as ledger:
        ledger.check()
        numbers: dict[int, list[int]] = {}
        for attempt in ledger.attempts():
            numbers.setdefault(attempt.release_id, []).append(attempt.number)
            assert attempt.state == "accepted", attempt
        assert all(found == list(range(1, len(found) + 1)) for found in numbers.values()), numbers
    return {"kills": times, "begun": begun, "continued": resumed, "finished_before": finished}


def crowd(folder: Path, processes: int, rounds: int) -> dict[str, Any]:
    path = folder / "ledger.sqlite"
    tried = claims(0.9)[:2]
    evr.verify(EVENT, epsilon=EPSILON, delta=tried[0].delta, tau=0.9, workers=1, method="sequential")
    children = []
    for _ in range(processes):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                for j in range(rounds):
                    with evr.Ledger(path) as ledger:
                        perform(ledger, start(ledger, EVENT, tried[j % 2], Settings()), Sampling(workers=1))
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    with evr.Ledger(path) as ledger:
        ledger.check()
        attempts = [(a.release_id, a.number, a.state) for a in ledger.attempts()]
        held = ledger.contents()
        spent = [
            (
                math.fsum(a.allowance for a in held.attempts.values() if a.release_id == r.id),
                r.terms.kappa * r.terms.base,
            )
            for r in held.releases.values()
        ]
    return {"codes": codes, "attempts": attempts, "spent": spent}


def publish(file: Path) -> str:
    """What a mechanism does that writes by itself: a line, and it is out."""
    with file.open("a") as out:
        out.write("noisy answer\n")
        out.flush()
        os.fsync(out.fileno())
    return "noisy answer"


def published(file: Path) -> int:
    return len(file.read_text().splitlines()) if file.exists() else 0


def let_out(path: Path, file: Path) -> None:
    """A release whose claim is proved without a sample."""
    event = dp_event.LaplaceDpEvent(2.0)
    evr.release(lambda: publish(file), event, epsilon=1.0, delta=1e-3, tau=0.9, ledger=path)


class Struck:
    """Kills this process, or raises, at the ``number``-th line that the gate or the mechanism
    executes.

    Counting starts when a function named ``first`` is entered.
    """

    def __init__(self, how: str, number: int, first: str) -> None:
        self.how, self.left, self.first, self.counting = how, number, first, False

    def __call__(self, frame: Any, event: str, _: Any) -> Any:
        code = frame.f_code
        if not (
            "/evr/_release/" in code.co_filename or "/evr/_certificate/" in code.co_filename or code is publish.__code__
        ):
            return None
        self.counting |= code.co_name == self.first
        if event == "line" and self.counting:
            self.left -= 1
            self.at_line()
        return self

    def at_line(self) -> None:
        if self.left == 0 and self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.left == 0:
            raise KeyboardInterrupt


class Watched(Struck):
    """Notes what is on the disk before each line, instead of striking."""

    def __init__(self, path: Path, file: Path, first: str) -> None:
        super().__init__("watch", 0, first)
        self.path, self.file, self.seen = path, file, list[list[bytes]]()

    def at_line(self) -> None:
        files = [*sorted(self.path.parent.glob(f"{self.path.name}*")), self.file]
        self.seen.append([one.name.encode() + one.read_bytes() for one in files if one.exists()])


def changes(folder: Path, first: str) -> list[int]:
    """The lines of a release before and after each change on the disk, and the one beyond the last.

    Kills before two lines are alike where nothing on the disk differs: the rest dies with the process.
    """
    path, file = folder / "watched.sqlite", folder / "watched.txt"
    watched = Watched(path, file, first)
    sys.settrace(watched)
    let_out(path, file)
    sys.settrace(None)
    seen = watched.seen
    both = {line for n in range(1, len(seen)) if seen[n] != seen[n - 1] for line in (n, n + 1)}
    return sorted({1, *both, len(seen), len(seen) + 1})


def strike(path: Path, file: Path, struck: Struck) -> bool:
    """Release under a strike; whether it came to its end."""
    if struck.how == "kill":
        child = os.fork()
        if child == 0:
            sys.settrace(struck)
            let_out(path, file)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    sys.settrace(struck)
    try:
        let_out(path, file)
    except KeyboardInterrupt:
        return False
    finally:
        sys.settrace(None)
    return True


def lines(folder: Path, how: str, first: str, start: int, every: int) -> dict[str, Any]:
    """Strike before the lines of a release in turn, or where the disk changes if ``every`` is 0; each
    time, release again, and count what is out.
    """
    ends: dict[str, int] = {}
    let_out(folder / "warm.sqlite", folder / "warm.txt")
    for number in range(start, 10_000, every) if every else changes(folder, first):
        path, file = folder / f"{number}.sqlite", folder / f"{number}.txt"
        over = strike(path, file, Struck(how, number, first))
        before = published(file)
        try:
            let_out(path, file)
            again = "let out"
        except AlreadyReleasedError:
            again = "refused"
        assert published(file) <= 1, f"{published(file)} outputs after line {number}"
        assert not before or again == "refused"
        with evr.Ledger(path) as ledger:
            ledger.check()
            (release,) = ledger.releases()
            assert release.output is not None
        end = f"{'published' if before else 'nothing'}, {again}, {release.output}"
        ends[end] = ends.get(end, 0) + 1
        if over:
            return {"lines": number, "struck": sum(ends.values()), "ends": ends}
    raise AssertionError("no end")


def race(folder: Path, processes: int, rounds: int) -> dict[str, Any]:
    """Many processes release the same at once, several times."""
    outs = []
    for i in range(rounds):
        path, file = folder / f"{i}.sqlite", folder / f"{i}.txt"
        children = []
        for _ in range(processes):
            child = os.fork()
            if child == 0:
                code = 2
                try:
                    let_out(path, file)
                    code = 0
                except AlreadyReleasedError:
                    code = 1
                finally:
                    os._exit(code)
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        outs.append((sorted(codes), published(file)))
    return {"outs": outs}


if __name__ == "__main__":
    vars(search_plans)["capped_plan"] = lru_cache(capped_plan)
    progress._ALIVE = 0.02
    what, folder, first, second, *numbers = sys.argv[1:]
    if what == "lines":
        print(json.dumps(lines(Path(folder), first, second, *map(int, numbers))))
    else:
        program = {"kills": kills, "crowd": crowd, "race": race}[what]
        print(json.dumps(program(Path(folder), int(first), int(second))))
