"""Tables of an attack's records: to the screen, and as a page of the documentation."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from typing import Any

from attacking.trials import CRASHED, FAILURES, GOOD, KNOWN, QUESTIONS, REFUSED, SLOW, UNKNOWN, WRONG

OUTCOMES = (GOOD, REFUSED, SLOW, UNKNOWN, WRONG, CRASHED)
Records = list[dict[str, Any]]
_WELL_KNOWN = 1e-9  # relative error of a truth that closeness is told of


def failures(records: Records) -> list[tuple[int, str, str, str, str]]:
    """Index, kind, question, outcome and what was said of every failure."""
    found = []
    for record in records:
        if "died" in record:
            found.append((record["index"], "", "", CRASHED, record["died"]))
            continue
        for question, answer in record["answers"].items():
            if answer["outcome"] in FAILURES:
                found.append((record["index"], record["kind"], question, answer["outcome"], answer["detail"]))
    return found


def failure_table(records: Records, seed: int) -> str:
    """What failed, with the command that repeats it."""
    rows = [
        f"  {outcome}: {question or 'no answer'} of {kind or 'an event'}\n    {said}\n    --seed {seed} --only {index}"
        for index, kind, question, outcome, said in failures(records)
    ]
    return "\n".join(rows) if rows else "  nothing failed"


def page(records: Records, strict: Records, seed: int, version: str) -> str:
    """The page ``docs/attack.md``; ``strict`` are the records of ``--strict``."""
    told = [r for r in records if "died" not in r]
    parts = [
        "# The attack\n",
        "<!-- Written by benchmarks/attack.py --write; do not edit. -->\n",
        _introduction(records, seed, version),
        "## What evr said\n",
        outcomes(told),
        "## By kind of event\n",
        _kinds(told),
        "## How close the estimates were\n",
        _closeness(told),
        "## What the truth reached\n",
        _reach(told),
        *(["## Strict bounds\n", strict_table(strict)] if strict else []),
        "## What failed\n",
        _failed([*records, *strict]),
    ]
    return "\n".join(parts)


def _introduction(records: Records, seed: int, version: str) -> str:
    seconds = sum(r.get("seconds", 0.0) for r in records)
    return f"""\
`benchmarks/attack.py` draws random events over the whole domain of the interface: every
mechanism, sampled, nested and composed, one to four kinds, 1 to 10^9 steps, noise of 10^-3 to 10^4,
probabilities of 10^-9 to 1 - 10^-9, epsilons of 0 to 10^6 in the range of the event's losses,
deltas of 0.9 to 10^-60. About a third of the events are extreme on purpose. One in twelve is a
training in 2 to 5000 bins, alone or beside another kind of step. One in twenty-four is a search for
the best of several runs, whose truth is the delta of an explicit score: no answer may be below it.
For each event it asks

- the **estimate** of delta in both directions, which must be within its stated error of the truth;
- to verify a **false claim**, 3 to 50% below the truth, which must not be accepted;
- to verify a **true claim**, the truth at a tau of 0.5 to 0.95, which must be accepted;
- for one event in sixteen, the **strict bound**, which must not be below the truth, and the lower bound, which must not
  be above it.

The truth is computed by contour integrals, Laplace transforms, enumeration and closed forms that
share no code with evr, with an error of their own. Where these fail, evr's proved bounds from below
and from above judge estimates and claims, but not the strict bound. evr may refuse with an error message. An answer
that takes longer than its limit (`--limit`, some processor seconds) is "too slow", and a truth that
does is unknown; neither counts for or against evr. Parts of a run may come from successive versions:
failures are mended and attacked again, and the page lists those that remain.

This is evr {version}, seed {seed}: {len(records):,} events, {seconds / 3600:.1f} processor hours.
`python benchmarks/attack.py --seed {seed} --only INDEX` repeats one.
"""


def _table(header: list[str], rows: list[list[Any]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|---|" + "---:|" * (len(header) - 1)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]) + "\n"


def outcomes(records: Records) -> str:
    """How often each question had each outcome."""
    rows = []
    for question in QUESTIONS:
        counts = Counter(r["answers"][question]["outcome"] for r in records if question in r["answers"])
        rows.append([question, *(f"{counts[outcome]:,}" for outcome in OUTCOMES)])
    return _table(["", *OUTCOMES], rows)


def _kinds(records: Records) -> str:
    """Corners by name, other events by how many kinds of steps they have."""
    groups: dict[str, Records] = {}
    for record in records:
        kind = record["kind"]
        several = f"{kind.count(' + ') + 1} kinds of steps" if " + " in kind else kind.removesuffix(", one step")
        groups.setdefault(several, []).append(record)
    rows = []
    for kind in sorted(groups, key=lambda k: (k.startswith("corner"), "kinds" in k, k)):
        counts = Counter(a["outcome"] for r in groups[kind] for a in r["answers"].values())
        failed = sum(counts[outcome] for outcome in FAILURES)
        rows.append(
            [kind, f"{len(groups[kind]):,}", *(f"{counts[o]:,}" for o in (GOOD, REFUSED, SLOW, UNKNOWN)), f"{failed:,}"]
        )
    return _table(["kind", "events", "good answers", "refused", "too slow", "truth unknown", "failed"], rows)


def _closeness(records: Records) -> str:
    measures = [
        a["measure"]
        for r in records
        for q, a in r["answers"].items()
        if q.startswith("estimate") and a["measure"] is not None
    ]
    edges = (0.01, 0.1, 0.5, 1.0, math.inf)
    rows, below = [], 0.0
    for edge in edges:
        count = sum(below < m <= edge if below else m <= edge for m in measures)
        rows.append([f"up to {edge:g}" if edge < math.inf else "more", f"{count:,}"])
        below = edge
    said = (
        "The distance of an estimate from the truth, over its stated error. An estimate that is further "
        "away and not wrong is within the error of the truth.\n\n"
    )
    return said + _table(["distance / stated", "estimates"], rows)


def _reach(records: Records) -> str:
    edges, names = (1e-12, 1e-9, 1e-6, KNOWN, math.inf), ("1e-12", "1e-9", "1e-6", "1e-3", "worse")
    counts: Counter[str] = Counter()
    for record in records:
        for known in record["truth"].values():
            relative = math.inf if known is None else _relative(known)
            counts[next(name for edge, name in zip(edges, names, strict=True) if relative <= edge)] += 1
    rows = [[name if name == "worse" else f"{name} or better", f"{counts[name]:,}"] for name in names]
    typical = statistics.median(r["seconds"] for r in records) if records else 0.0
    return (
        "The relative error of the truth, by its own account, for each event and direction. An "
        f"event takes {typical:.1f} processor seconds (median), questions "
        "included.\n\n" + _table(["relative error", "truths"], rows)
    )


def strict_table(records: Records) -> str:
    """What became of strict bounds that were asked for by ``--strict``, and how close they were."""
    told = [r for r in records if "died" not in r]
    answers = [r["answers"]["strict bound"] for r in told]
    counts = Counter(answer["outcome"] for answer in answers)
    judged = counts[GOOD] + counts[WRONG]
    zeros = sum(a["outcome"] == GOOD and a["measure"] is None for a in answers)
    known = [r for r in told if r["relative"] is not None and r["relative"] <= _WELL_KNOWN]
    excess = sorted(measure for r in known if (measure := r["answers"]["strict bound"]["measure"]) is not None)
    said = (
        f"`--strict` asked {len(records):,} events for nothing but their strict bound, of the "
        f"worse direction, and {judged:,} bounds were judged (delta is 0 for {zeros:,} of them). "
        "None may be below the truth, less the truth's own error.\n\n"
    ) + _table(["", *OUTCOMES], [["strict bound", *(f"{counts[outcome]:,}" for outcome in OUTCOMES)]])
    if not excess:
        return said
    rows = [
        [name, f"{excess[round(part * (len(excess) - 1))]:.3g}"]
        for name, part in (("least", 0), ("median", 0.5), ("95%", 0.95), ("greatest", 1))
    ]
    return (
        f"{said}\nBound over truth, less 1, of {len(excess):,} truths above 0 that are known to "
        f"{_WELL_KNOWN:g} or better:\n\n" + _table(["", "bound / truth - 1"], rows)
    )


def _relative(known: dict[str, Any]) -> float:
    if known["value"] > 0:
        return float(known["error"] / known["value"])
    return 0.0 if known["error"] == 0 else math.inf


def _failed(records: Records) -> str:
    found = failures(records)
    if not found:
        return "Nothing.\n"
    rows = [
        [index, kind or "-", question or "-", outcome, said.replace("|", "\\|")]
        for index, kind, question, outcome, said in found
    ]
    return _table(["index", "kind", "question", "outcome", "what was said"], rows)
