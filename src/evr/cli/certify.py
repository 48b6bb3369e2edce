"""``evr certify``: estimate, verify, certify."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from evr.cli import REJECTED, options
from evr.cli.output import certificate_path, new_certificate, new_files, wrote
from evr.cli.reporting import Reporting, who_drew
from evr.cli.sanity import note
from evr.cli.show import write_page
from evr.methods import AUTO

UNITS = ("example", "user", "client")
METHODS = (
    "strict: exact arithmetic. sequential: samples, tested by betting. fixed: a number of samples that is fixed in "
    "advance (Algorithm 2 of the paper). both: strict and sequential. auto: strict where that takes seconds, else "
    "sequential."
)
TAU = (
    "Assumed true delta over the claimed one, for samples, in (0, 1): nearer to 1 is tighter and takes longer. By "
    "default it is chosen from the estimate."
)
DEVICES = "What draws the samples: the processor, a GPU, or a GPU if one can be used."


@options.asks_what_ran
def command(
    ran: options.WhatRan,
    epsilon: Annotated[
        float | None, options.number("Find and certify delta at this epsilon; with --delta, this pair.")
    ] = None,
    delta: Annotated[
        float | None, options.number("Find and certify epsilon at this delta; with --epsilon, this pair.")
    ] = None,
    tau: Annotated[float | None, options.number(TAU)] = None,
    output: Annotated[Path | None, options.file("Where to write the certificate.", "--output", "-o")] = None,
    force: options.Force = False,
    report: Annotated[Path | None, options.file("Write the certificate's page (HTML) to this file too.")] = None,
    proof: Annotated[
        Path | None, options.file("Write a proof file that needs no evr, and its checker check_proof.py.")
    ] = None,
    ledger: options.LedgerFile = None,
    release: Annotated[str | None, options.text("Count attempts under a name, across claims.")] = None,
    budget: Annotated[str | None, options.text("Spend from this budget of the ledger.")] = None,
    by: Annotated[str | None, options.text("Who spends; by default the name of the user.")] = None,
    title: Annotated[
        str | None, typer.Option(help="A label for the training, in the statement.", show_default=False)
    ] = None,
    unit: Annotated[
        str | None,
        options.choice(UNITS, "Whose data one record holds: an example's, a user's or a client's.", show_default=False),
    ] = None,
    method: Annotated[str, options.choice(AUTO, METHODS)] = "auto",
    seed: Annotated[int | None, options.whole("Make samples repeatable; not for anything you publish.")] = None,
    workers: options.Workers = None,
    device: Annotated[str, options.choice(("cpu", "cuda", "auto"), DEVICES)] = "cpu",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and how long it takes; nothing is counted.")
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """State what a training run or any composition guarantees: estimate, verify, write a certificate.

    With a delta, the least epsilon is found, rounded up to three digits and certified; with an epsilon, the least
    delta; with both, just that pair. Every attempt is counted in the ledger, so trying again is safe. SPEC may also be
    the record of a training (JSONL), which then names its certificate. Exit code 0: accepted; 3: rejected, a pair that
    is false, or a budget that is too small.

    Example: evr certify examples/dpsgd.toml
    """
    record = ran.record()
    event, claim, relation = ran.described() if record is None else (record.event, None, ran.adjacency)
    if claim is not None:
        epsilon, delta = (claim.epsilon, claim.delta) if epsilon is None and delta is None else (epsilon, delta)
        tau = claim.tau if tau is None else tau
    if by is not None and budget is None:
        raise ValueError(f"--by={by} says who spends from a budget: add --budget, or leave it out")
    if method == "strict" and seed is not None:
        raise ValueError(f"--seed={seed} belongs to methods that sample: leave it out with --method strict")
    note(event, records=ran.records if record is None else None, epsilon=epsilon, delta=delta, quiet=quiet)
    path = new_certificate(output or certificate_path(ran.spec, event, epsilon, delta), force=force)
    new_files(path, report=report)
    told = Reporting(path, ledger, json=json, quiet=quiet, dry_run=dry_run)
    with told.ledger_to_ask() as counted, told.working("Working out what to prove, and how.") as announce:
        from evr.certification.budget import Budget
        from evr.gate import certify

        certify_this = partial(certify, event) if record is None else record.certify
        certificate = certify_this(
            epsilon=epsilon,
            delta=delta,
            tau=tau,
            ledger=counted,
            path=path,
            proof=proof,
            release=release,
            **({} if budget is None else {"budget": Budget(budget, ledger=counted, by=by)}),
            seed=seed,
            workers=workers,
            progress=not told.silent,
            announce=announce,
            method=method,
            neighboring_relation=relation,
            description={"title": title, "unit": unit} | (ran.description() if record is None else {}),
            **({} if device == "cpu" else {"device": device}),
        )
    if epsilon is None:
        note(epsilon=certificate.claim.epsilon, quiet=quiet)
    if device == "auto" and not quiet:
        print(who_drew(certificate), file=sys.stderr)
    told.tell(certificate)
    held = None if certificate.proof is None else proof
    if held is not None:
        wrote(held, held.with_name("check_proof.py"), quiet=told.silent)
    if report is not None:
        write_page(certificate, report, source=path, proof=held)
        wrote(report, quiet=told.silent)
    if not certificate.accepted:
        raise typer.Exit(REJECTED)
