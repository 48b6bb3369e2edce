"""Attack evr with random events over its whole domain, and compare what it says with a truth that
shares no code with it.

    python benchmarks/attack.py --events 300
    python benchmarks/attack.py --events 10000 --part 3/20
    python benchmarks/attack.py --events 10000 --write docs/attack.md
    python benchmarks/attack.py --seed 1 --only 4711
    python benchmarks/attack.py --events 3000 --strict
    python benchmarks/attack.py --events 300 --relations

The second attacks the third of twenty parts. The third attacks what is missing of all parts, and
writes the page. The fourth repeats one event and tells everything that was said. The last asks for
nothing but the strict bound, of every event; it takes the truths from the records that are there,
and keeps records of its own, which the page tells of in a section of theirs. ``--relations`` draws
another family of events: replace-one, and users.

Records go to ``build/attack``, a line for each event, and reach the disk before the next event
starts; a later run continues where this one ended. Exits with 1 if anything failed: a false claim
accepted, a true one rejected, an estimate outside its stated error, a bound below the truth, a
crash.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import evr
from attacking import relations, summary
from attacking.events import Case, make
from attacking.running import Results, records, run
from attacking.trials import FAILURES, QUESTIONS, Limits, attack, attack_strict

ROOT = Path(__file__).resolve().parent.parent


def attacked(index: int, seed: int, limits: Limits, family: Callable[[int, int], Case] = make) -> dict[str, Any]:
    """The record of one case."""
    return attack(family(seed, index), limits)


def attacked_strictly(index: int, seed: int, limits: Limits, truths: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """The record of one case that is asked for its strict bound only."""
    return attack_strict(make(seed, index), limits, truths.get(index))


def part_of(text: str) -> tuple[int, int]:
    """``"3/20"`` as numbers."""
    part, _, parts = text.partition("/")
    try:
        chosen = int(part), int(parts)
    except ValueError:
        chosen = 0, 0
    if not 1 <= chosen[0] <= chosen[1]:
        raise argparse.ArgumentTypeError(f"{text!r} is not a part such as 3/20")
    return chosen


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--events", type=int, default=200, help="how many (200)")
    parser.add_argument("--seed", type=int, default=1, help="of all of them (1)")
    parser.add_argument(
        "--only", type=int, metavar="INDEX", help="attack this one and tell everything; nothing is recorded"
    )
    parser.add_argument("--part", type=part_of, default=(1, 1), metavar="I/N", help="only the I-th of N parts")
    parser.add_argument("--strict", action="store_true", help="ask for nothing but the strict bound, of every event")
    parser.add_argument("--relations", action="store_true", help="draw events under replace-one, and users")
    parser.add_argument("--workers", type=int, default=1, help="processes (1)")
    parser.add_argument(
        "--limit", type=float, default=Limits.answer, help="processor seconds for each question, and for each truth (3)"
    )
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "attack", help="folder of the records")
    parser.add_argument(
        "--write", type=Path, metavar="PAGE", help="write the summary of all parts' records as Markdown"
    )
    return parser.parse_args()


def only(case: Case, limits: Limits) -> int:
    """Attack one event and print everything."""
    print(case)
    record = attack(case, limits)
    print(json.dumps(record, indent=2))
    return int(any(answer["outcome"] in FAILURES for answer in record["answers"].values()))


def progress(done: int, total: int, failed: int, since: float) -> None:
    minutes = (time.monotonic() - since) / 60
    left = minutes / done * (total - done)
    print(f"{done} of {total}, {failed} failed, {minutes:.1f} minutes, about {left:.0f} left", flush=True)


def attack_missing(
    asked: argparse.Namespace, work: Callable[[int], dict[str, Any]], seconds: float, known: dict[int, dict[str, Any]]
) -> None:
    """Do the work on what has no record yet, in this part, and add the records to ``known`` and to
    the file. A record takes at most so many processor seconds.
    """
    part, parts = asked.part
    name = f"{kind_of(asked)}-{asked.seed}{'' if parts == 1 else f'.part-{part}-of-{parts}'}.jsonl"
    missing = [index for index in range(part - 1, asked.events, parts) if index not in known]
    since = shown = time.monotonic()
    failed = 0
    with Results(asked.results / name) as results:
        for done, record in enumerate(run(work, missing, asked.workers, seconds), start=1):
            known[record["index"]] = record | {"seed": asked.seed, "evr": evr.__version__}
            results.add(known[record["index"]])
            for index, kind, question, outcome, said in summary.failures([record]):
                print(f"{outcome}: {question} of {kind}, --only {index}: {said}", flush=True)
                failed += 1
            if time.monotonic() - shown > 30 or done == len(missing):
                shown = time.monotonic()
                progress(done, len(missing), failed, since)


def kind_of(asked: argparse.Namespace) -> str:
    """What the names of the files of records start with."""
    return "strict" if asked.strict else "relations" if asked.relations else "seed"


def stored(folder: Path, kind: str, seed: int) -> dict[int, dict[str, Any]]:
    """The records of all parts by index."""
    files = sorted(folder.glob(f"{kind}-{seed}.*jsonl"))
    return {index: record for file in files for index, record in records(file).items()}


def main() -> int:
    asked = arguments()
    limits = Limits(truth=asked.limit, answer=asked.limit)
    if asked.only is not None:
        return only((relations.make if asked.relations else make)(asked.seed, asked.only), limits)
    known, strict = (stored(asked.results, kind, asked.seed) for kind in ("seed", "strict"))
    if asked.relations:
        known = stored(asked.results, "relations", asked.seed)
        work = partial(attacked, seed=asked.seed, limits=limits, family=relations.make)
        attack_missing(asked, work, 2 * limits.truth + len(QUESTIONS) * limits.answer, known)
        told = [known[index] for index in range(asked.events) if index in known]
        print(summary.outcomes(told))
    elif asked.strict:
        truths = {index: r["truth"] for index, r in known.items() if "truth" in r}
        work = partial(attacked_strictly, seed=asked.seed, limits=limits, truths=truths)
        attack_missing(asked, work, 12 * limits.truth + 6 * limits.answer, strict)
        told = [strict[index] for index in range(asked.events) if index in strict]
        print(summary.strict_table(told))
    else:
        work = partial(attacked, seed=asked.seed, limits=limits)
        seconds = 2 * limits.truth + len(QUESTIONS) * limits.answer
        attack_missing(asked, work, seconds, known)
        told = [known[index] for index in range(asked.events) if index in known]
        page = summary.page(told, list(strict.values()), asked.seed, evr.__version__)
        print(page)
        if asked.write is not None:
            asked.write.write_text(page, encoding="utf-8")
    print("Failures:\n" + summary.failure_table(told, asked.seed))
    return int(bool(summary.failures(told)))


if __name__ == "__main__":
    sys.exit(main())
