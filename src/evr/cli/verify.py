"""``evr verify``: one attempt to prove an estimate that is given."""

from __future__ import annotations

from typing import Annotated

from evr.cli.announcing import DryRun, announcing, ledger_to_ask
from evr.cli.attempts import (
    Dask,
    Device,
    Floor,
    LedgerFile,
    MaxSamples,
    Method,
    Output,
    Proposal,
    ReleaseName,
    Seed,
    Tau,
    Workers,
    check_options,
    cluster,
    tell,
    watched,
)
from evr.cli.files import Force, new_certificate
from evr.cli.options import (
    Json,
    Quiet,
    WhatRan,
    asks_what_ran,
    number_option,
)
from evr.cli.sanity import note

Epsilon = Annotated[float | None, number_option("--epsilon", "Epsilon of the estimate.")]
Delta = Annotated[
    float | None, number_option("--delta", "The estimated delta; delta / tau is what is proved.")
]
Offset = Annotated[
    float | None,
    number_option("--offset", "Delta of the fixed verifier, instead of the paper's rule."),
]


@asks_what_ran
def command(
    ran: WhatRan,
    epsilon: Epsilon = None,
    delta: Delta = None,
    tau: Tau = None,
    output: Output = None,
    force: Force = False,
    ledger: LedgerFile = None,
    release: ReleaseName = None,
    floor: Floor = None,
    method: Method = "sequential",
    proposal: Proposal = "capped",
    offset: Offset = None,
    seed: Seed = None,
    max_samples: MaxSamples = None,
    workers: Workers = None,
    dask: Dask = None,
    device: Device = "cpu",
    dry_run: DryRun = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Verify an estimate (epsilon, delta): if accepted, everything that ran is (epsilon, delta /
    tau)-DP.

    The attempt is counted in the ledger. Exit code 0: accepted; 3: rejected.

    Example: evr verify examples/dpsgd.toml --epsilon 0.5 --delta 2.06e-10 --tau 0.9
    """
    event, stated, relation = ran.described()
    if stated is not None:
        epsilon = stated.epsilon if epsilon is None else epsilon
        delta = stated.delta if delta is None else delta
        tau = stated.tau if tau is None else tau
    missing = [
        name for name, value in (("--epsilon", epsilon), ("--delta", delta)) if value is None
    ]
    if missing:
        raise ValueError(
            f"verify which estimate? Add {' and '.join(missing)}, or let `evr certify` estimate it"
        )
    check_options(method, proposal, seed)
    note(ran, event, epsilon=epsilon, delta=delta, quiet=quiet)
    if output is not None:
        new_certificate(output, force=force)
    assert epsilon is not None
    assert delta is not None
    from evr.gate.certify import certify_claim
    from evr.gate.request import Request
    from evr.verification import Claim
    from evr.verification.settings import Settings

    with (
        cluster(dask, workers) as executor,
        watched(quiet=quiet or json) as progress,
        ledger_to_ask(ledger, dry_run=dry_run) as counted,
        announcing(
            epsilon=epsilon,
            delta=delta,
            path=output,
            ledger=ledger,
            dry_run=dry_run,
            json=json,
            quiet=quiet,
        ) as announce,
    ):
        request = Request.of(
            event,
            Claim(epsilon, delta, 0.99 if tau is None else tau),
            Settings(method, proposal, max_samples, offset, device),
            relation=relation,
            path=output,
            name=release,
            floor=floor,
            seed=seed,
            workers=workers,
            executor=executor,
            progress=progress,
        )
        certificate = certify_claim(
            request,
            ledger=counted,
            announce=announce,
        )
    tell(certificate, path=output, ledger=ledger, json=json, quiet=quiet, device=device)
