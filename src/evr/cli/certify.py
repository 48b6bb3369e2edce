"""``evr certify``: estimate, verify, write a certificate. ``evr resume``: continue what was interrupted. Both tell the
story of one attempt: the forecast, the progress, the result.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import evr
from evr.cli import options
from evr.cli.files import certificate_path, new_certificate
from evr.cli.reporting import Reporting
from evr.types import Method

_METHODS = (
    "strict: exact arithmetic. sequential: samples, tested by betting. fixed: a fixed number of samples (Algorithm 2). "
    "both: strict and sequential. auto: strict where that takes seconds, else sequential."
)
_TAU = "For samples: assumed true delta over the claimed one; nearer to 1 is slower. By default from the estimate."


def certify(
    ran: options.WhatRan,
    goal: options.Goal,
    *,
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
    out: options.Out,
) -> None:
    """State what a training run or any composition guarantees: estimate, verify, write a certificate.

    With a delta, the least epsilon is found, rounded up to three digits and certified; with an epsilon, the least
    delta; with both, just that pair; with a risk (`--advantage`, or both rates), a pair
    from which it follows. Every attempt is counted in the ledger, so trying again is
    safe. SPEC may also be the record of a training (JSONL), which then names its certificate. Exit code 0: accepted;
    3: rejected, a pair that is false, or a budget that is too small.

    Example: evr certify examples/dpsgd.toml
    """
    record = ran.record()
    event, claim, relation = ran.described() if record is None else (record.event, None, ran.adjacency)
    if claim is not None:
        goal = goal if goal.given else options.Goal(claim.epsilon, claim.delta)
        tau = claim.tau if tau is None else tau
    if not goal.given:
        raise ValueError("certify what? Add --delta (epsilon is found), --epsilon (delta is found), or both, or a risk")
    if by is not None and budget is None:
        raise ValueError(f"--by={by} says who spends from a budget: add --budget, or leave it out")
    if method == "strict" and seed is not None:
        raise ValueError(f"--seed={seed} belongs to methods that sample: leave it out with --method strict")
    records = ran.records if record is None else 0
    out.note(event, records=records, epsilon=goal.epsilon, delta=goal.delta)
    path = output or certificate_path(ran.spec, event, **goal.given)
    new_certificate(path, ran.spec, force=force or dry_run, report=report, proof=proof)
    told = Reporting(path, ledger, out, dry_run=dry_run)
    with told.ledger_to_ask() as counted, told.working("Working out what to prove, and how.") as announce:
        certify_this = partial(evr.certify, event) if record is None else record.certify
        certificate = certify_this(
            **vars(goal),
            tau=tau,
            ledger=counted,
            path=path,
            proof=proof,
            name=name,
            budget=None if budget is None else evr.Budget(budget, ledger=counted, by=by),
            seed=seed,
            workers=workers,
            progress=not out.silent,
            announce=announce,
            method=method,
            neighboring_relation=relation,
            unit=unit,
            description={"title": title} | ran.described_schedule,
            device=device,
        )
    if goal.epsilon is None:
        out.note(epsilon=certificate.claim.epsilon)
    if device == "auto" and not out.quiet:
        print(f"device: {_who_drew(certificate)}", file=sys.stderr)
    told.tell(certificate, proof, report)


def resume(
    number: Annotated[
        int | None, options.argument("ID", "An attempt's id in `evr ledger`.", parser=options.whole_number)
    ] = None,
    *,
    output: Annotated[Path | None, options.file("Write the certificate here instead.", "--output", "-o")] = None,
    force: options.Force = False,
    ledger: options.LedgerFile = None,
    workers: options.Workers = None,
    out: options.Out,
) -> None:
    """Continue a verification that was interrupted, killed or cut off; the verdict is the one it would have had.

    The samples that it had drawn are drawn again. If several were interrupted, choose one by its id in `evr ledger`.

    Example: evr resume
    """
    with evr.Ledger(ledger, create=False) as opened:
        waiting = opened.interrupted()
        ids = ", ".join(str(one.id) for one in waiting)
        if number is None and len(waiting) > 1:
            raise ValueError(f"which one? Add its id: {ids}; `evr ledger` says what they are about")
        if (attempt := next((one for one in waiting if number in (None, one.id)), None)) is None:
            what = f"attempt {number} was not interrupted; those that were: {ids}" if waiting else ""
            raise ValueError(what or f"{opened.path}: no verification was interrupted")
        planned = attempt.options["path"]
        path = output or (None if planned is None else Path(planned))
        if path is not None:
            # it was allowed when the attempt began
            replaces = output is None and attempt.options.get("replaces", False)
            new_certificate(path, force=force or replaces)
        told = Reporting(path, ledger, out)
        with told.working(f"Continuing attempt {attempt.id}."):
            hook = not out.silent
            certificate = evr.resume(opened, attempt=attempt.id, path=output, workers=workers, progress=hook)
    told.tell(certificate)


def _who_drew(certificate: "evr.Certificate") -> str:
    """The device that ``--device auto`` chose, and why."""
    from evr._devices.cuda import why_not

    plans = [getattr(one, "plan", None) for one in certificate.verification.directions.values()]
    drew = {plan["device"] for plan in plans if plan is not None}
    if "cpu" not in drew:
        return "cuda" if drew else "none, because nothing was drawn"
    return f"cpu, because {why_not() or 'a GPU does not draw these steps'}"
