"""``evr budget``: an epsilon that several teams share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evr.cli import options
from evr.cli.output import as_json, draw, new_files, number, say, table

if TYPE_CHECKING:
    from evr.certification.budget import Account
    from evr.certification.ledger import Attempt

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the budget.", show_default=False)]
Level = Annotated[float, options.number("The limit for everything that is spent, together.")]


@app.command(short_help="Make a budget.")
def create(
    name: Name,
    epsilon: Level,
    delta: Level,
    relation: Annotated[
        str, options.choice(options.RELATIONS, "Which data sets are neighbours, for every spending.")
    ] = "add-or-remove",
    kind: Annotated[
        str,
        options.choice(
            ("planned", "adaptive"),
            "planned: the next spending never depends on earlier outputs; composition is exact. adaptive: it may.",
        ),
    ] = "planned",
    ledger: options.LedgerFile = None,
    quiet: options.Quiet = False,
) -> None:
    """Make a budget in the ledger: everything that is spent from it is (epsilon, delta)-DP together.

    Example: evr budget create patients --epsilon 8 --delta 1e-5 --relation zero-out
    """
    from evr import validate
    from evr.certification.budget import Budget

    adaptive = validate.one_of(("planned", "adaptive"), kind=kind) == "adaptive"
    Budget.create(name, epsilon=epsilon, delta=delta, neighboring_relation=relation, adaptive=adaptive, ledger=ledger)
    if not quiet:
        say(f"Budget {name}: ({number(epsilon)}, {number(delta)}) under {relation}, {kind}.")
        say(f"Spend from it: evr certify training.toml --budget {name}{f' --ledger {ledger}' if ledger else ''}")


@app.command(short_help="What was spent by whom and when; what is left.")
def show(
    name: Name,
    plot: options.Plot = None,
    ledger: options.LedgerFile = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Show what was spent from a budget, by whom and when, and what is left; --plot draws it.

    Example: evr budget show patients --plot patients.svg
    """
    from evr.certification import Ledger
    from evr.certification.budget import Account

    new_files(plot=plot)
    with Ledger(ledger, create=False) as opened:
        held = opened.contents()
        account = Account.of(held, name)
    used = [account.first(count).used() for count in range(len(account.spent) + 1)]
    document = _document(account, used, held.attempts)
    if json:
        as_json(document)
    else:
        rows = [one | {"used": f"{one['used']:.1%}"} for one in document["spendings"]]
        table(f"Spent from {name}", rows, quiet=quiet)
        if not quiet:
            say(_summary(document))
    draw(plot, lambda plots: plots.budget(account, used), quiet=quiet or json)


@app.command(short_help="What certificates cost together.")
def compose(
    files: Annotated[list[Path], typer.Argument(metavar="CERTIFICATE...", help="Certificates.", show_default=False)],
    delta: Annotated[float, options.number("Compose at this delta.")],
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Say what certificates cost together: composed, beside the sum of their numbers.

    Example: evr budget compose a.certificate.json b.certificate.json --delta 1e-5
    """
    from dp_accounting import NeighboringRelation
    from dp_accounting.dp_event import ComposedDpEvent

    from evr.certification import Certificate
    from evr.errors import UnsupportedEventError
    from evr.estimation import estimate_epsilon
    from evr.mechanisms.relations import name_of
    from evr.numbers import stated

    read = [Certificate.load(file) for file in files]
    for file, one in zip(files, read, strict=True):
        if not one.accepted:
            raise ValueError(f"{file} was rejected: it promises nothing that could be composed")
    relations = sorted({name_of(NeighboringRelation[one.neighboring_relation]) for one in read})
    if len(relations) > 1:
        raise ValueError(f"the certificates are under {' and '.join(relations)}: only those under one relation compose")
    event = ComposedDpEvent([one.dp_event() for one in read])
    try:
        found, kind = estimate_epsilon(event, delta, method="strict", neighboring_relation=relations[0]), "proved"
        shown = stated(found.value, 4)
    except UnsupportedEventError:
        found, kind = estimate_epsilon(event, delta, neighboring_relation=relations[0]), "an estimate, not a guarantee"
        shown = number(found.value, 4)
    sums = [sum(getattr(one.claim, key) for one in read) for key in ("epsilon", "delta")]
    if json:
        pairs = {"epsilon": found.value, "delta": delta, "kind": kind, "sum_epsilon": sums[0], "sum_delta": sums[1]}
        as_json({**pairs, "relation": relations[0], "certificates": len(read)})
    elif quiet:
        print(shown)
    else:
        say(f"Composed: epsilon {shown} at delta {number(delta)} under {relations[0]} ({kind}).")
        say(f"Added up: epsilon {number(sums[0], 4)} at delta {number(sums[1], 4)}.")
        say("The composition holds if no run was chosen from what another one released.")


def _document(account: Account, used: list[float], attempts: dict[int, Attempt]) -> dict[str, Any]:
    from evr.certification.words import describe_event
    from evr.mechanisms.relations import name_of

    row = account.row
    last = account.events[-1] if account.events else None
    spendings = []
    for one, part in zip(account.spent, used[1:], strict=True):
        attempt = attempts.get(one.attempt_id or 0)
        spendings.append(
            {
                "number": one.number,
                "by": one.spender,
                "moment": one.moment[:19],
                "what_ran": describe_event(one.event, attempt.options["description"] if attempt else None),
                "proof": one.method,
                "used": part,
                "certificate": attempt.certificate if attempt else None,
            }
        )
    return {
        "budget": row.name,
        **{name: getattr(row, name) for name in ("kind", "epsilon", "delta", "created")},
        "relation": name_of(row.relation),
        "used": used[-1],
        "fits_again": last is not None and account.seems_to_allow(last),
        "steps_left": None if last is None else account.most_steps(last),
        "sampled_proofs": account.tries,
        "spendings": spendings,
    }


def _summary(document: dict[str, Any]) -> str:
    pair = f"({number(document['epsilon'])}, {number(document['delta'])})"
    left = ""
    if document["fits_again"]:
        left = " The last one would fit again."
    elif document["steps_left"]:
        left = f" Of the last one, {document['steps_left']:,} steps would fit."
    elif document["spendings"]:
        left = " The last one would not fit again."
    return (
        f"Everything spent is {pair}-DP together, under {document['relation']} ({document['kind']}). "
        f"{document['used']:.1%} is used.{left}"
    )
