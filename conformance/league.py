"""Run accountants against cases of the suite, and write docs/league.md: ``make league``.

Every accountant is asked about cases with one Gaussian part; those that take any event also about the other cases.
Each answer has a limit of processor time.
Opacus imports PyTorch, which its accountants do not need: here they are imported without it.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import platform
import signal
import statistics
import sys
import time
import types
import warnings
from collections.abc import Callable
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from evr_conformance import Verdict, load, verdict
from evr_side import event_of

PAGE = Path(__file__).parents[1] / "docs" / "league.md"
PAGE_TEXT = Path(__file__).with_name("league_page.md")
LIMIT = 5.0  # seconds of processor time
LISTED = 8  # refuted answers of an accountant to a question, on the page


class Entry(NamedTuple):
    """An accountant: a library, what it calls its answer, and the questions that it answers."""

    name: str
    library: str
    kind: str
    questions: tuple[str, ...]
    ask: Callable[[dict[str, Any], str], float]
    takes_events: bool = False  # also others than one Gaussian mechanism


def numbers(case: dict[str, Any]) -> tuple[float, float, int]:
    """Noise multiplier, sampling probability and steps."""
    (part,) = case["parts"]
    return part["noise_multiplier"], part.get("sampling_probability", 1.0), part["count"]


def evr_by(method: str) -> Callable[[dict[str, Any], str], float]:
    def ask(case: dict[str, Any], question: str) -> float:
        import evr

        wanted = evr.estimate_delta if question == "delta" else evr.estimate_epsilon
        relation = case["relation"]
        return wanted(event_of(case), case[question]["at"], method=method, neighboring_relation=relation).value

    return ask


def dp_accounting_by(name: str) -> Callable[[dict[str, Any], str], float]:
    def ask(case: dict[str, Any], question: str) -> float:
        from dp_accounting import NeighboringRelation, pld, rdp

        replaced = case["relation"] == "replace-one"
        relation = NeighboringRelation.REPLACE_ONE if replaced else NeighboringRelation.ADD_OR_REMOVE_ONE
        made = pld.PLDAccountant if name == "pld" else rdp.RdpAccountant
        accountant = made(neighboring_relation=relation).compose(event_of(case))
        return float(getattr(accountant, f"get_{question}")(case[question]["at"]))

    return ask


def prv(case: dict[str, Any], question: str) -> float:
    import prv_accountant

    noise, q, steps = numbers(case)
    one = (
        prv_accountant.GaussianMechanism(noise)
        if q == 1
        else prv_accountant.PoissonSubsampledGaussianMechanism(noise_multiplier=noise, sampling_probability=q)
    )
    at = case[question]["at"]
    delta = at if question == "epsilon" else float(Fraction(case["delta"]["upper"]))
    accountant = prv_accountant.PRVAccountant(
        prvs=[one], max_self_compositions=[steps], eps_error=0.01, delta_error=delta / 1000
    )
    return float(getattr(accountant, f"compute_{question}")(at, [steps])[2])


def opacus_by(name: str) -> Callable[[dict[str, Any], str], float]:
    def ask(case: dict[str, Any], question: str) -> float:
        noise, q, steps = numbers(case)
        accountant = getattr(_opacus(), name)()
        accountant.history = [(noise, q, steps)]
        return float(accountant.get_epsilon(delta=case[question]["at"]))

    return ask


def _opacus() -> Any:
    """``opacus.accountants``, without the rest of the package."""
    if "opacus" not in sys.modules:
        spec = importlib.util.find_spec("opacus")
        assert spec is not None
        package, optimizers = types.ModuleType("opacus"), types.ModuleType("opacus.optimizers")
        package.__path__ = list(spec.submodule_search_locations or ())
        optimizers.DPOptimizer = object  # type: ignore[attr-defined]
        sys.modules.update({"opacus": package, "opacus.optimizers": optimizers})
    return importlib.import_module("opacus.accountants")


BOTH = ("delta", "epsilon")
ENTRIES = [
    Entry("evr, `strict`", "evr-dp", "proved upper bound", BOTH, evr_by("strict"), True),
    Entry("evr, `fft`", "evr-dp", "estimate", BOTH, evr_by("fft"), True),
    Entry("dp_accounting, PLD", "dp-accounting", "pessimistic estimate", BOTH, dp_accounting_by("pld"), True),
    Entry("dp_accounting, RDP", "dp-accounting", "upper bound", BOTH, dp_accounting_by("rdp"), True),
    Entry("prv-accountant", "prv-accountant", "upper bound", BOTH, prv),
    Entry("Opacus, PRV", "opacus", "upper bound", ("epsilon",), opacus_by("PRVAccountant")),
    Entry("Opacus, RDP", "opacus", "upper bound", ("epsilon",), opacus_by("RDPAccountant")),
    Entry("Opacus, GDP", "opacus", "limit for many steps", ("epsilon",), opacus_by("GaussianAccountant")),
]


class Answer(NamedTuple):
    case: dict[str, Any]
    question: str
    found: Verdict | None  # None: no answer
    seconds: float


def answered(entry: Entry, case: dict[str, Any], question: str) -> Answer:
    """One answer, or none if it fails or takes too long."""

    def stop(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGPROF, stop)
    start = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        found = verdict(case, question, entry.ask)
    except Exception:  # what a library does not know, it does not answer
        found = None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    seconds = time.process_time() - start
    return Answer(case, question, found if seconds <= LIMIT else None, seconds)


def row(entry: Entry, question: str, answers: list[Answer]) -> str:
    """A line of the table."""
    found = [one.found for one in answers if one.found is not None]
    refuted = [one.share for one in found if one.word == "refuted"]
    loose = [one.share if one.word == "loose" else 0.0 for one in found if one.word != "refuted"]
    shown = f"{len(refuted)}, by up to {max(refuted):.1e}" if refuted else "0"
    middle, worst = (f"{pick(loose):.1e}" for pick in (statistics.median, max)) if loose else ("", "")
    taken = statistics.median([one.seconds for one in answers if one.found is not None] or [LIMIT])
    holds = str(sum(one.word == "holds" for one in found))
    share = f"{len(found)} of {len(answers)}"
    cells = (entry.name, entry.kind, question, share, holds, shown, middle, worst, f"{taken:.2g}")
    return f"| {' | '.join(cells)} |"


def listed(entry: Entry, answers: list[Answer]) -> list[str]:
    """The refuted answers that are furthest off, each in a line."""
    refuted = [(one.share, case, question) for case, question, one, _ in answers if one and one.word == "refuted"]
    found = []
    for share, case, question in sorted(refuted, key=lambda one: -one[0])[:LISTED]:
        other, lower = "epsilon" if question == "delta" else "delta", float(Fraction(case[question]["lower"]))
        found.append(
            f"| {entry.name} | `{case['id']}` | {described(case)} | {question} at {other} {case[question]['at']:g} "
            f"| {(1 - share) * lower:.6g} | {lower:.6g} | {share:.1e} |"
        )
    return found


def described(case: dict[str, Any]) -> str:
    """The parts of a case, in short."""
    found = []
    for part in case["parts"]:
        numbers = [
            f"{value:g}" for key, value in part.items() if isinstance(value, float) and key != "sampling_probability"
        ]
        rate = f", q {part['sampling_probability']:g}" if "sampling_probability" in part else ""
        found.append(f"{part['count']:,} x {part['mechanism']} {' '.join(numbers)}{rate}")
    return "; ".join(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="take one case in so many")
    every = parser.parse_args().every
    warnings.simplefilter("ignore")
    suite = load()
    gaussian, others = ([case for case in suite if ("epsilon" in case) == one] for one in (True, False))
    tables: list[list[str]] = [[], []]
    refuted: list[str] = []
    for entry in ENTRIES:
        for number, cases in enumerate((gaussian[::every], others[::every] if entry.takes_events else [])):
            for question in entry.questions if number == 0 else ("delta",):
                if cases:
                    answers = [answered(entry, case, question) for case in cases]
                    tables[number].append(row(entry, question, answers))
                    print(tables[number][-1], flush=True)
                    if entry.kind != "estimate":
                        refuted += listed(entry, answers)
    head = [
        "| accountant | case | what ran | question | answer | proved: at least | below it by |",
        "|---|---|---|---|---|---|---|",
    ]
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in sorted({one.library for one in ENTRIES})
    )
    PAGE.write_text(
        PAGE_TEXT.read_text(encoding="utf-8").format(
            asked=len(gaussian[::every]),
            gaussian=len(gaussian),
            asked_others=len(others[::every]),
            others=len(others),
            suite=len(suite),
            day=date.today().isoformat(),
            versions=versions,
            python=platform.python_version(),
            machine=platform.machine(),
            limit=LIMIT,
            listed=LISTED,
            rows="\n".join(tables[0]),
            other_rows="\n".join(tables[1]),
            refuted="\n".join([*head, *refuted]) if refuted else "None.",
        ),
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
