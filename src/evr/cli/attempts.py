"""What the commands around attempts share: their options, progress of a verification, and how an
attempt's end is told.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evr.cli import REJECTED
from evr.cli.options import choice_option, file_option, number_option, whole_option
from evr.cli.output import as_json, number, say, standard_error

if TYPE_CHECKING:
    from evr.certification import Certificate
    from evr.verification import Progress as State
    from evr.verification.driver import Hook, ProgressHook

Tau = Annotated[
    float | None,
    number_option(
        "--tau", "Slack in (0, 1): nearer to 1 is tighter and takes longer. By default 0.99."
    ),
]
METHODS = ("sequential", "fixed", "strict", "both")
_HOW = (
    "strict: exact arithmetic. sequential: samples, tested by betting. fixed: a number of samples "
    "that is fixed in advance (Algorithm 2 of the paper). both: strict and sequential."
)
Method = Annotated[
    str,
    choice_option("--method", METHODS, _HOW),
]
AnyMethod = Annotated[
    str,
    choice_option(
        "--method",
        ("auto", *METHODS),
        f"{_HOW} auto: strict where that takes seconds, else sequential.",
    ),
]
Proposal = Annotated[
    str,
    choice_option(
        "--proposal",
        ("capped", "single", "simple"),
        "How samples are drawn: every step tilted, one step (as in the paper), or none.",
    ),
]
DEVICES = ("cpu", "cuda", "auto")
Device = Annotated[
    str,
    choice_option(
        "--device",
        DEVICES,
        "What draws the samples: the processor, a GPU, or a GPU if one can be used.",
    ),
]
LedgerFile = Annotated[
    Path | None,
    file_option("--ledger", help="Where attempts are counted; .evr/ledger.sqlite by default."),
]
ReleaseName = Annotated[
    str | None,
    typer.Option(
        "--release",
        metavar="NAME",
        help="Count attempts under a name, across claims.",
        show_default=False,
    ),
]
Floor = Annotated[
    float | None,
    number_option(
        "--floor", "The least delta that a named release may claim; fixed by its first attempt."
    ),
]
Output = Annotated[
    Path | None,
    file_option("--output", "-o", help="Where to write the certificate."),
]
Seed = Annotated[
    int | None,
    whole_option("--seed", "Make samples repeatable; leave it out for anything you publish."),
]
Workers = Annotated[
    int | None,
    whole_option("--workers", "Number of threads; all by default."),
]
MaxSamples = Annotated[
    int | None,
    whole_option("--max-samples", "Reject after so many samples."),
]

_LINE_SECONDS = 5.0
_WIDE = 100  # columns of a terminal that hold rate and time too


def check_options(method: str, proposal: str, seed: int | None) -> None:
    """Refuse what speaks of samples where the method draws none."""
    given = {"--proposal": proposal != "capped", "--seed": seed is not None}
    if method == "strict" and any(given.values()):
        name = next(name for name, there in given.items() if there)
        raise ValueError(
            f"{name} belongs to methods that sample: leave it out with --method strict"
        )


def tell(
    certificate: Certificate,
    *,
    path: Any,
    ledger: Path | None,
    json: bool,
    quiet: bool,
    device: str = "cpu",
) -> None:
    """Print how an attempt ended, and leave with 3 if it was rejected."""
    if device == "auto" and not quiet:
        print(_who_drew(certificate), file=sys.stderr)
    from evr.certification.certificate import kept_paths
    from evr.certification.ledger import DEFAULT_PATH
    from evr.numbers import stated

    counted = str(ledger or DEFAULT_PATH)
    if json:
        keys = ("verdict", "guarantee", "statement", "claim", "release", "digest")
        document = certificate.document()
        summary = {key: document[key] for key in keys} | {
            "short_statement": certificate.short_statement
        }
        as_json(
            {
                **summary,
                "samples": certificate.verification.samples,
                "certificate": path and str(path),
                "ledger": counted,
            }
        )
    elif quiet:
        print(_sentence(certificate))
    else:
        say(
            f"{certificate.verdict.capitalize()}: "
            f"{_sentence(certificate)}\n\n{certificate.short_statement}\n"
        )
        if certificate.guarantee is not None:
            print("It is assumed that")
            say(";\n".join(f"- {clause}" for clause in certificate.assumptions) + ".\n")
        else:
            say(f"{_why_rejected(certificate)}\n")
        if path is not None:
            print(f"certificate: {path}")
            if not certificate.accepted and (kept := kept_paths(path)):
                print(f"the one that was accepted before: {kept[-1]}")
        release = certificate.release
        spent = (
            f"false-positive budget spent on it {stated(release.budget, 2)} of "
            f"{stated(release.total_budget, 2)}"
            if release.budget
            else "none of its false-positive budget is spent"
        )
        say(f"ledger: {counted} (attempt {release.attempt}; {spent})")
    if not certificate.accepted:
        raise typer.Exit(REJECTED)


def _why_rejected(certificate: Certificate) -> str:
    """Which direction stopped it, a line each, and the delta that its samples came to."""
    return "\n".join(
        f"{name} direction: {one.reason}"
        + (f" (delta is about {number(one.estimate, 4)})" if one.samples else "")
        for name, one in certificate.verification.directions.items()
        if not one.accepted
    )


def _who_drew(certificate: Certificate) -> str:
    """What ``--device auto`` came to."""
    from evr.sampling.cuda import why_not

    sections = certificate.verification.directions.values()
    drew = {one.plan["device"] for one in sections if one.plan is not None}
    if "cpu" not in drew:
        return "device: cuda" if drew else "device: none, for nothing was drawn"
    return f"device: cpu, for {why_not() or 'a GPU does not draw these steps'}"


def _sentence(certificate: Certificate) -> str:
    from evr.numbers import stated

    claim = certificate.claim
    if certificate.guarantee is None:
        pair = f"({stated(claim.epsilon)}, {stated(claim.delta)})"
        return f"{pair}-differential privacy was not verified."
    return (
        f"({stated(certificate.guarantee.epsilon)}, "
        f"{stated(certificate.guarantee.delta)})-differentially private."
    )


@contextlib.contextmanager
def watched(*, quiet: bool) -> Iterator[ProgressHook]:
    """Progress of a verification on standard error: a bar on a terminal, a line now and then
    otherwise. Where it is interrupted, whether an attempt counts is told.
    """
    try:
        if quiet:
            yield False
        elif sys.stderr.isatty():
            with _bar() as hook:
                yield hook
        else:
            yield _Lines()
    except KeyboardInterrupt as stopped:
        for note in getattr(stopped, "__notes__", []):
            print(note, file=sys.stderr)
        raise


def _planned(state: State) -> str:
    return f"{state.direction}: Algorithm 2 with {state.plan}; about {state.seconds_left:,.0f} s"


def _left(state: State) -> str:
    return "" if state.seconds_left is None else f", about {state.seconds_left:,.0f} s left"


class _Lines:
    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, state: State) -> None:
        if state.plan is not None:
            print(_planned(state), file=sys.stderr)
        elif time.monotonic() - self._last > _LINE_SECONDS:
            self._last = time.monotonic()
            print(
                f"{state.direction}: {state.samples:,} samples, delta about "
                f"{number(state.estimate, 4)}, {'evidence' if state.log_target > 0 else 'done'} "
                f"{100 * state.fraction:.0f}%{_left(state)}",
                file=sys.stderr,
            )


@contextlib.contextmanager
def _bar() -> Iterator[Hook]:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    standard_error.cache_clear()  # as wide as the terminal is now
    console = standard_error()
    wide = console.width >= _WIDE
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=40 if wide else 10),
        TaskProgressColumn(),
        TextColumn("{task.fields[samples]}" + ("{task.fields[rate]}" if wide else "")),
        *([TimeElapsedColumn()] if wide else []),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("working", total=None, samples="", rate="", left="")

        def hook(state: State) -> None:
            if state.plan is not None:
                bar.console.print(_planned(state), highlight=False, soft_wrap=True)
            rate = f" ({state.samples / state.seconds:,.0f}/s)" if state.seconds > 0 else ""
            bar.update(
                task,
                description=state.direction,
                total=1.0,
                completed=state.fraction,
                samples=f"{state.samples:,} samples",
                rate=rate,
                left=_left(state).lstrip(", "),
            )

        yield hook
