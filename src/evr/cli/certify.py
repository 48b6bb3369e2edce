"""``evr certify``: estimate, verify, write a certificate. ``evr resume``: continue what was interrupted. Both tell the
story of one attempt: the forecast, the progress, the result.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evr._basics.numbers import duration, stated
from evr.cli import REJECTED, options
from evr.cli.output import (
    LASTS,
    as_json,
    certificate_path,
    new_certificate,
    new_files,
    note,
    number,
    pair,
    say,
    waiting,
    wrote,
    wrote_proof,
)
from evr.types import Method

if TYPE_CHECKING:
    from evr._certificate.certificate import Certificate
    from evr._proving.choosing import Forecast
    from evr._release.journal import Attempt
    from evr._release.ledger import Ledger

_METHODS = (
    "strict: exact arithmetic. sequential: samples, tested by betting. fixed: a fixed number of samples (Algorithm 2). "
    "both: strict and sequential. auto: strict where that takes seconds, else sequential."
)
_TAU = "For samples: assumed true delta over the claimed one; nearer to 1 is slower. By default from the estimate."
_SOON = 0.8  # seconds until a first word is due
_LONG = 20.0  # seconds; who waits longer is told that Ctrl-C is safe


@options.asks_what_ran
def certify(
    ran: options.WhatRan,
    epsilon: Annotated[float | None, options.number("Certify this epsilon; delta is found if not given.")] = None,
    delta: Annotated[float | None, options.number("Certify this delta; epsilon is found if not given.")] = None,
    advantage: options.Advantage = None,
    true_positive_rate: options.TruePositives = None,
    false_positive_rate: options.FalsePositives = None,
    tau: Annotated[float | None, options.number(_TAU)] = None,
    output: Annotated[Path | None, options.file("Where to write the certificate.", "--output", "-o")] = None,
    force: options.Force = False,
    report: Annotated[Path | None, options.file("Write the certificate's page (HTML) to this file too.")] = None,
    proof: Annotated[Path | None, options.file("Write a proof file that needs no evr, and check_proof.py.")] = None,
    ledger: options.LedgerFile = None,
    name: Annotated[str | None, options.text("Name of the release: counts attempts across claims.")] = None,
    budget: Annotated[str | None, options.text("Spend from this budget of the ledger.")] = None,
    by: Annotated[str | None, options.text("Who spends; by default the name of the user.")] = None,
    title: Annotated[str | None, options.text("A label for the training, in the statement.")] = None,
    unit: options.Unit = None,
    method: Annotated[str, options.choice("|".join(Method), _METHODS)] = "auto",
    seed: Annotated[int | None, options.whole("Make samples repeatable; not for anything you publish.")] = None,
    workers: options.Workers = None,
    device: Annotated[str, options.choice("cpu|cuda|auto", "What draws samples; auto: a GPU if there is one.")] = "cpu",
    dry_run: Annotated[
        bool, options.option("Only say what would be done, and how long it takes.", "--dry-run")
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """State what a training run or any composition guarantees: estimate, verify, write a certificate.

    With a delta, the least epsilon is found, rounded up to three digits and certified; with an epsilon, the least
    delta; with both, just that pair; with a risk (`--advantage`, or `--true-positive-rate` and
    `--false-positive-rate`), a pair from which it follows. Every attempt is counted in the ledger, so trying again is
    safe. SPEC may also be the record of a training (JSONL), which then names its certificate. Exit code 0: accepted;
    3: rejected, a pair that is false, or a budget that is too small.

    Example: evr certify examples/dpsgd.toml
    """
    record = ran.record()
    event, claim, relation = ran.described() if record is None else (record.event, None, ran.adjacency)
    rates = (advantage, true_positive_rate, false_positive_rate)
    if claim is not None:
        given = (epsilon, delta, *rates) != (None,) * 5
        epsilon, delta = (epsilon, delta) if given else (claim.epsilon, claim.delta)
        tau = claim.tau if tau is None else tau
    if by is not None and budget is None:
        raise ValueError(f"--by={by} says who spends from a budget: add --budget, or leave it out")
    if method == "strict" and seed is not None:
        raise ValueError(f"--seed={seed} belongs to methods that sample: leave it out with --method strict")
    note(event, records=ran.records if record is None else 0, epsilon=epsilon, delta=delta, quiet=quiet)
    levels = {"epsilon": epsilon, "delta": delta, "advantage": advantage}
    levels |= {"tpr": true_positive_rate, "fpr": false_positive_rate}
    path = new_certificate(output or certificate_path(ran.spec, event, **levels), force=force or dry_run)
    new_files(path, report=report)
    told = Reporting(path, ledger, json=json, quiet=quiet, dry_run=dry_run)
    with told.ledger_to_ask() as counted, told.working("Working out what to prove, and how.") as announce:
        from evr._release.budget import Budget
        from evr._release.gate import certify

        certify_this = partial(certify, event) if record is None else record.certify
        certificate = certify_this(
            epsilon=epsilon,
            delta=delta,
            advantage=advantage,
            true_positive_rate=true_positive_rate,
            false_positive_rate=false_positive_rate,
            tau=tau,
            ledger=counted,
            path=path,
            proof=proof,
            name=name,
            budget=None if budget is None else Budget(budget, ledger=counted, by=by),
            seed=seed,
            workers=workers,
            progress=not told.silent,
            announce=announce,
            method=method,
            neighboring_relation=relation,
            unit=unit,
            description={"title": title} | ran.described_schedule,
            device=device,
        )
    if epsilon is None:
        note(epsilon=certificate.claim.epsilon, quiet=quiet)
    if device == "auto" and not quiet:
        print(f"device: {_who_drew(certificate)}", file=sys.stderr)
    told.tell(certificate)
    held = None if certificate.proof is None else proof
    if held is not None:
        wrote_proof(held, held.read_bytes(), quiet=told.silent)
    if report is not None:
        from evr._report.page import write_report

        write_report(certificate, report, source=str(path), proof=None if held is None else held.read_bytes())
        wrote(report, quiet=told.silent)
    if not certificate.accepted:
        raise typer.Exit(REJECTED)


def resume(
    number: Annotated[int | None, typer.Argument(metavar="ID", help="An attempt's id in `evr ledger`.")] = None,
    output: Annotated[Path | None, options.file("Write the certificate here instead.", "--output", "-o")] = None,
    force: options.Force = False,
    ledger: options.LedgerFile = None,
    workers: options.Workers = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Continue a verification that was interrupted, killed or cut off; the verdict is the one it would have had.

    The samples that it had drawn are drawn again. If several were interrupted, choose one by its id, which `evr ledger`
    shows.

    Example: evr resume
    """
    from evr._release.gate import resume as continued
    from evr._release.ledger import Ledger

    with Ledger(ledger, create=False) as opened:
        attempt = _chosen(opened, number)
        planned = attempt.options["path"]
        path = output or (None if planned is None else Path(planned))
        if path is not None:
            # it was allowed when the attempt began
            replaces = output is None and attempt.options.get("replaces", False)
            new_certificate(path, force=force or replaces)
        told = Reporting(path, ledger, json=json, quiet=quiet)
        with told.working(f"Continuing attempt {attempt.id}."):
            hook = not told.silent
            certificate = continued(opened, attempt=attempt.id, path=output, workers=workers, progress=hook)
    told.tell(certificate)
    if not certificate.accepted:
        raise typer.Exit(REJECTED)


def _chosen(ledger: Ledger, number: int | None) -> Attempt:
    waiting = ledger.interrupted()
    if not waiting:
        raise ValueError(f"{ledger.path}: no verification was interrupted")
    chosen = [one for one in waiting if number in (None, one.id)]
    if len(chosen) == 1:
        return chosen[0]
    ids = ", ".join(str(attempt.id) for attempt in waiting)
    if number is not None:
        raise ValueError(f"attempt {number} was not interrupted; those that were: {ids}")
    raise ValueError(f"which one? Add its id: {ids}; `evr ledger` says what they are about")


@dataclass(frozen=True)
class Reporting:
    """Tells the story of one attempt."""

    path: Path | None  # where the certificate goes
    ledger: str | None  # where the attempt is counted; None for the default
    json: bool
    quiet: bool
    dry_run: bool = False  # say what would be done, and stop

    @property
    def silent(self) -> bool:
        """Whether nothing but the result is wanted."""
        return self.json or self.quiet

    @property
    def counted(self) -> str:
        """Where the attempt is counted."""
        from evr._release.databases import without_password
        from evr._release.ledger import DEFAULT_PATH

        return without_password(self.ledger or str(DEFAULT_PATH))

    @contextlib.contextmanager
    def ledger_to_ask(self) -> Iterator[str | None]:
        """The ledger. If there is none yet, a dry run asks an empty one, which is gone afterwards."""
        if not self.dry_run or "://" in self.counted or Path(self.counted).exists():
            yield self.ledger
            return
        with tempfile.TemporaryDirectory() as folder:
            yield str(Path(folder) / "ledger.sqlite")

    @contextlib.contextmanager
    def working(self, doing: str) -> Iterator[Callable[[Forecast], None]]:
        """Say what is being done, if it lasts. Yields the hook ``announce`` of ``evr.certify``. An interruption says
        whether the attempt counts.
        """
        start = time.monotonic()

        def words(seconds: float) -> str:
            return doing if seconds < LASTS else f"Still planning, after {seconds:.0f} s."

        with waiting(words, after=_SOON, silent=self.silent) as over:

            def announce(forecast: Forecast) -> None:
                over.set()
                self._announce(forecast, time.monotonic() - start)

            try:
                yield announce
            except KeyboardInterrupt as stopped:
                for note in getattr(stopped, "__notes__", []):
                    print(note, file=sys.stderr)
                raise

    def _announce(self, forecast: Forecast, planned: float) -> None:
        """Say what is to be proved, how, how long that takes, and planning took, and where files go."""
        claim, seconds, method = forecast.claim, forecast.total_seconds, forecast.settings.method
        if self.dry_run and self.json:
            levels = {"epsilon": claim.epsilon, "delta": claim.delta, "tau": claim.tau}
            as_json({**levels, "method": method, "samples": forecast.total_samples, "seconds": seconds, **self._files})
        elif self.dry_run or not self.silent:
            ways = ["in exact arithmetic"] if method in ("strict", "both") else []
            if method != "strict":
                count = f"{float(f'{forecast.total_samples:.2g}'):,.0f}"
                drawn = f"from about {count} samples" if forecast.total_samples else "without a sample"
                ways.append(f"{drawn} ({'Algorithm 2' if method == 'fixed' else 'sequential test'})")
            about = duration(float(f"{max(seconds, 1.0):.2g}"))
            goes = f" Certificate: {self.path}." if self.path is not None else ""
            safe = " Ctrl-C is safe, and `evr resume` continues." if seconds > _LONG else ""
            after = f" Planned in {duration(planned)}." if planned > LASTS else ""
            told = (
                f"Proving {pair(claim)} {' and '.join(ways)}, about {about}.{after}{goes} Ledger: {self.counted}.{safe}"
            )
            say(told, sys.stdout if self.dry_run else sys.stderr)
        if self.dry_run:
            raise typer.Exit

    @property
    def _files(self) -> dict[str, Any]:
        return {"certificate": None if self.path is None else str(self.path), "ledger": self.counted}

    def tell(self, certificate: Certificate) -> None:
        """Print how the attempt ended."""
        held = certificate.guarantee is not None
        outcome = "-differentially private." if held else "-differential privacy was not verified."
        sentence = f"{pair(certificate.claim)}{outcome}"
        if self.json:
            keys = ("verdict", "guarantee", "statement", "claim", "release", "budget", "digest")
            document = certificate.document()
            found = {"short_statement": certificate.short_statement, "samples": certificate.verification.samples}
            as_json({key: document.get(key) for key in keys} | found | self._files)
        elif self.quiet:
            print(sentence)
        else:
            say(f"{certificate.verdict.capitalize()}: {sentence}\n\n{certificate.short_statement}\n")
            if held:
                print("It is assumed that")
                say(";\n".join(f"- {clause}" for clause in certificate.assumptions) + ".\n")
            else:
                for name, one in certificate.verification.directions.items():
                    if not one.accepted:
                        about = getattr(one, "estimate", None)
                        mean = "" if about is None else f" (delta is about {number(about, 4)})"
                        say(f"{name} direction: {one.reason}{mean}")
                print()
            self._tell_where(certificate)

    def _tell_where(self, certificate: Certificate) -> None:
        """Where the certificate is, and where the attempt was counted."""
        from evr._certificate.certificate import aside

        if self.path is not None:
            print(f"certificate: {self.path}")
            if not certificate.accepted and (kept := aside(self.path)).exists():
                print(f"the one that was accepted before: {kept}")
        release, spent = certificate.release, "an exact proof uses no false-positive allowance"
        if release.allowance is not None and release.total_allowance is not None:
            of_all = f"{stated(release.allowance, 2)} of {stated(release.total_allowance, 2)}"
            spent = f"false-positive allowance spent on it: {of_all}"
        say(f"ledger: {self.counted} (attempt {release.attempt}; {spent})")
        if (budget := certificate.budget) is not None:
            level = f"({number(budget.epsilon)}, {number(budget.delta)})"
            say(f"budget: {budget.name}, {level} (spending {budget.spending}, by {budget.by})")


def _who_drew(certificate: Certificate) -> str:
    """The device that ``--device auto`` chose, and why."""
    from evr._devices.cuda import why_not

    plans = [getattr(one, "plan", None) for one in certificate.verification.directions.values()]
    drew = {plan["device"] for plan in plans if plan is not None}
    if "cpu" not in drew:
        return "cuda" if drew else "none, for nothing was drawn"
    return f"cpu, for {why_not() or 'a GPU does not draw these steps'}"
