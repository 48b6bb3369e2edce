"""``evr certify``: estimate, verify, certify."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evr.cli.announcing import DryRun, announcing
from evr.cli.attempts import (
    AnyMethod,
    Dask,
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
    cluster,
    tell,
    watched,
)
from evr.cli.files import Force, certificate_path, new_certificate, new_page
from evr.cli.options import (
    Adjacency,
    BatchSize,
    DatasetSize,
    Delta,
    Epochs,
    Epsilon,
    Json,
    NoiseMultiplier,
    Quiet,
    Sampling,
    SamplingProbability,
    SpecFile,
    Steps,
    Training,
    described,
)
from evr.cli.output import wrote
from evr.cli.report import write_page

Report = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="FILE",
        help="Write the certificate's page (HTML) to this file too.",
        show_default=False,
    ),
]

Exact = Annotated[
    bool, typer.Option("--exact", help="Keep all digits of epsilon instead of three.")
]


def command(
    spec: SpecFile = None,
    noise_multiplier: NoiseMultiplier = None,
    sampling_probability: SamplingProbability = None,
    steps: Steps = None,
    dataset_size: DatasetSize = None,
    batch_size: BatchSize = None,
    epochs: Epochs = None,
    sampling: Sampling = None,
    adjacency: Adjacency = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    tau: Tau = None,
    exact: Exact = False,
    output: Output = None,
    force: Force = False,
    report: Report = None,
    ledger: LedgerFile = None,
    release: ReleaseName = None,
    floor: Floor = None,
    method: AnyMethod = "auto",
    proposal: Proposal = "capped",
    seed: Seed = None,
    max_samples: MaxSamples = None,
    workers: Workers = None,
    dask: Dask = None,
    device: Device = "cpu",
    dry_run: DryRun = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """State what a training run or any composition guarantees: estimate, verify, write a
    certificate.

    With a delta, the least epsilon is found, rounded up to three digits and certified; with an
    epsilon, the least delta; with both, just that pair. Every attempt is counted in the ledger, so
    trying again is safe. Exit code 0: accepted; 3: rejected.

    Example: evr certify examples/dpsgd.toml
    """
    training = Training(
        noise_multiplier, sampling_probability, steps, dataset_size, batch_size, epochs, sampling
    )
    event, claim, relation = described(spec, training, adjacency)
    if epsilon is None and delta is None and claim is not None:
        epsilon, delta = claim.epsilon, claim.delta
    if tau is None and claim is not None:
        tau = claim.tau
    check_options(method, proposal, seed)
    path = new_certificate(output or certificate_path(spec, event, epsilon, delta), force=force)
    if report is not None:
        new_page(report, path)
    from evr.gate import certify

    with cluster(dask, workers) as executor, watched(quiet=quiet or json) as progress:
        certificate = certify(
            event,
            epsilon=epsilon,
            delta=delta,
            tau=tau,
            exact=exact,
            ledger=ledger,
            path=path,
            release=release,
            floor=floor,
            seed=seed,
            workers=workers,
            executor=executor,
            progress=progress,
            announce=announcing(path=path, ledger=ledger, dry_run=dry_run, json=json, quiet=quiet),
            method=method,
            neighboring_relation=relation,
            **({} if proposal == "capped" else {"proposal": proposal}),
            **({} if max_samples is None else {"max_samples": max_samples}),
            **({} if device == "cpu" else {"device": device}),
        )
    try:
        tell(certificate, path=path, ledger=ledger, json=json, quiet=quiet, device=device)
    # rejected or not, the page comes after the verdict: it asks other accountants, who take their
    # time
    finally:
        if report is not None:
            write_page(certificate, report, source=path, quiet=quiet or json)
            wrote(report, quiet=quiet or json)
