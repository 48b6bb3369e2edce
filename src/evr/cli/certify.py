"""``evr certify``: estimate, verify, certify."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from evr.cli.announcing import DryRun, announcing, ledger_to_ask
from evr.cli.attempts import (
    AnyMethod,
    Device,
    Floor,
    LedgerFile,
    MaxSamples,
    Output,
    Proposal,
    ReleaseName,
    Seed,
    Tau,
    Workers,
    check_options,
    tell,
    watched,
)
from evr.cli.files import Force, certificate_path, new_certificate, new_page
from evr.cli.options import (
    Json,
    Quiet,
    WhatRan,
    asks_what_ran,
    choice_option,
    file_option,
    number_option,
)
from evr.cli.output import wrote
from evr.cli.report import write_page
from evr.cli.sanity import note

Report = Annotated[
    Path | None,
    file_option("--report", help="Write the certificate's page (HTML) to this file too."),
]

Proof = Annotated[
    Path | None,
    file_option(
        "--proof", help="Write a proof file that needs no evr, and its checker check_proof.py."
    ),
]
UNITS = ("example", "user", "client")

Epsilon = Annotated[
    float | None,
    number_option("--epsilon", "Find and certify delta at this epsilon; with --delta, this pair."),
]
Delta = Annotated[
    float | None,
    number_option("--delta", "Find and certify epsilon at this delta; with --epsilon, this pair."),
]
Exact = Annotated[
    bool, typer.Option("--exact", help="Keep all digits of epsilon instead of three.")
]
Title = Annotated[
    str | None,
    typer.Option("--title", help="A label of the training, for the statement.", show_default=False),
]
Unit = Annotated[
    str | None,
    choice_option(
        "--unit",
        UNITS,
        "Whose data one record holds: that of an example, a user or a client.",
        show_default=False,
    ),
]


@asks_what_ran
def command(
    ran: WhatRan,
    epsilon: Epsilon = None,
    delta: Delta = None,
    tau: Tau = None,
    exact: Exact = False,
    output: Output = None,
    force: Force = False,
    report: Report = None,
    proof: Proof = None,
    ledger: LedgerFile = None,
    release: ReleaseName = None,
    title: Title = None,
    unit: Unit = None,
    floor: Floor = None,
    method: AnyMethod = "auto",
    proposal: Proposal = "capped",
    seed: Seed = None,
    max_samples: MaxSamples = None,
    workers: Workers = None,
    device: Device = "cpu",
    dry_run: DryRun = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """State what a training run or any composition guarantees: estimate, verify, write a
    certificate.

    With a delta, the least epsilon is found, rounded up to three digits and certified; with an
    epsilon, the least delta; with both, just that pair. Every attempt is counted in the ledger, so
    trying again is safe. SPEC may also be the record of a training (JSONL), which then names its
    certificate. Exit code 0: accepted; 3: rejected, or a pair that is false.

    Example: evr certify examples/dpsgd.toml
    """
    record = ran.record()
    if record is None:
        event, claim, relation = ran.described()
    else:
        event, claim, relation = record.event, None, ran.adjacency
    if epsilon is None and delta is None and claim is not None:
        epsilon, delta = claim.epsilon, claim.delta
    if tau is None and claim is not None:
        tau = claim.tau
    check_options(method, proposal, seed)
    note(ran, event, epsilon=epsilon, delta=delta, quiet=quiet)
    path = new_certificate(output or certificate_path(ran.spec, event, epsilon, delta), force=force)
    if report is not None:
        new_page(report, path)
    with (
        watched(quiet=quiet or json) as progress,
        ledger_to_ask(ledger, dry_run=dry_run) as counted,
        announcing(
            epsilon=epsilon,
            delta=delta,
            path=path,
            ledger=ledger,
            dry_run=dry_run,
            json=json,
            quiet=quiet,
        ) as announce,
    ):
        from evr.gate import certify

        description = {"title": title, "unit": unit}
        if record is None:
            description |= ran.description()
        certify_this = partial(certify, event) if record is None else record.certify
        certificate = certify_this(
            epsilon=epsilon,
            delta=delta,
            tau=tau,
            exact=exact,
            ledger=counted,
            path=path,
            proof=proof,
            release=release,
            floor=floor,
            seed=seed,
            workers=workers,
            progress=progress,
            announce=announce,
            method=method,
            neighboring_relation=relation,
            description=description,
            **({} if proposal == "capped" else {"proposal": proposal}),
            **({} if max_samples is None else {"max_samples": max_samples}),
            **({} if device == "cpu" else {"device": device}),
        )
    if epsilon is None:
        note(ran, epsilon=certificate.claim.epsilon, quiet=quiet)
    try:
        tell(certificate, path=path, ledger=ledger, json=json, quiet=quiet, device=device)
    finally:  # rejected or not
        if proof is not None and certificate.proof is not None:
            wrote(proof, quiet=quiet or json)
            wrote(proof.with_name("check_proof.py"), quiet=quiet or json)
        if report is not None:
            held = proof if certificate.proof is not None else None
            write_page(certificate, report, source=path, proof=held)
            wrote(report, quiet=quiet or json)
