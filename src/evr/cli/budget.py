"""``evr budget``: an epsilon that several teams share."""

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import evr
from evr._basics.numbers import stated
from evr.cli import options
from evr.cli.files import new_files
from evr.cli.output import accepted, as_json, number, pair, say

if TYPE_CHECKING:
    from evr._release.account import Account
    from evr._release.journal import AttemptRow, Journal, Spending

Name = Annotated[str, options.argument("NAME", "Name of the budget.")]
Level = Annotated[float, options.number("The limit for everything that is spent, together.")]
By = Annotated[str | None, options.text("Who does this; by default the name of the user.")]
_KINDS = "planned: no spending depends on earlier outputs, and composition is exact. adaptive: it may depend on them."
_ON_A_TERMINAL = ("number", "by", "moment", "claim", "used", "what_ran")
budget = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@budget.command(cls=options.Grouped, short_help="Make a budget.")
def create(
    name: Name,
    epsilon: Level,
    delta: Level,
    adjacency: Annotated[str, options.choice(options.RELATIONS, "Neighbouring data sets.")] = "zero-out",
    unit: Annotated[str, options.choice(options.UNITS, "Whose data is protected; an example is a record.")] = "record",
    kind: Annotated[str, options.choice("planned|adaptive", _KINDS)] = "planned",
    ledger: options.LedgerFile = None,
    quiet: options.Quiet = False,
) -> None:
    """Make a budget in the ledger: everything that is spent from it is (epsilon, delta)-DP together.

    The limits, the adjacency and the unit never change. A budget under zero-out takes everything that has the same
    epsilon under add-or-remove, and recorded trainings.

    Example: evr budget create patients --epsilon 8 --delta 1e-5
    """
    from evr._basics import validate

    adaptive = validate.one_of(("planned", "adaptive"), kind=kind) == "adaptive"
    evr.Budget.create(
        name, epsilon=epsilon, delta=delta, neighboring_relation=adjacency, unit=unit, adaptive=adaptive, ledger=ledger
    )
    if not quiet:
        say(f"Budget {name}: ({number(epsilon)}, {number(delta)}) per {unit} under {adjacency}, {kind}.")
        where = ["--ledger", ledger] if ledger else []
        say(f"Spend from it: evr certify training.toml {shlex.join(['--budget', name, *where])}")


@budget.command(cls=options.Grouped, short_help="What was spent by whom and when; what is left.")
@options.unfolded
def show(
    name: Name,
    *,
    html: Annotated[Path | None, options.file("Write one page for an auditor to this file.")] = None,
    plot: options.Plot = None,
    ledger: options.LedgerFile = None,
    out: options.Out,
) -> None:
    """Show what was spent from a budget, by whom and when, and what is left; --plot draws it.

    With --html, write one page for an auditor: every spending with its certificate, what was taken back and why, what
    is assumed, and the seal of the ledger.

    Example: evr budget show patients --html patients.html
    """
    from evr._release.account import Account

    new_files(plot=plot, html=html)
    with evr.Ledger(ledger, create=False) as opened:
        held = opened.contents()
        account = Account.of(held, name)
    used = [account.first(count).used() for count in range(len(account.spent) + 1)]
    document = _document(account, used, held)
    if out.json:
        as_json(document)
    else:
        rows = [one | {"used": f"{one['used']:.1%}"} for one in document["spendings"]]
        out.counted(f"Spent from {name}", rows, _ON_A_TERMINAL)
    if not out.silent:
        steps, last = document["steps_left"], ""
        if document["spendings"] and account.row.closed is None:
            less = f"would fit with {steps:,} steps" if steps else "would not fit again"
            last = f" The last one {'would fit again' if document['fits_again'] else less}."
        limit = f"({number(account.row.epsilon)}, {number(account.row.delta)})"
        under = f"per {account.row.unit} under {document['relation']} ({account.row.kind})"
        say(f"Everything spent is {limit}-DP together, {under}. {used[-1]:.1%} is used.{last}")
        for one in document["refunds"]:
            say(f"Spending {one['number']} was taken back by {one['refunded_by']}: {one['why']}")
        if account.row.closed is not None:
            say(f"Closed at {account.row.closed[:19]} by {account.row.closer}.")
    out.draw(plot, lambda plots: plots.budget(account, used).figure)
    if html is not None:
        from evr._report import plots
        from evr._report.page import write_budget

        write_budget(document, plots.budget(account, used), html)
        out.wrote(html)


@budget.command(cls=options.Grouped, short_help="Take a spending back that let out nothing.")
def refund(
    name: Name,
    number: Annotated[int, options.argument("NUMBER", "Number of the spending.", parser=options.whole_number)],
    why: Annotated[str, options.text("The reason, for auditors.")],
    by: By = None,
    ledger: options.LedgerFile = None,
    quiet: options.Quiet = False,
) -> None:
    """Take a spending back, if its training did not run, or nothing of it was or will be seen by anybody.

    It stays in the journal, with the reason. What is known to have run is refused. In a planned budget, taking back
    must not depend on anything that the budget has paid for.

    Example: evr budget refund patients 2 --why "the training was cancelled before its first step"
    """
    with evr.Ledger(ledger, create=False) as opened:
        evr.Budget(name, ledger=opened, by=by).refund(number, why=why)
    if not quiet:
        say(f"Spending {number} of budget {name} is taken back.")


@budget.command(cls=options.Grouped, short_help="Let nothing be spent any more.")
def close(name: Name, by: By = None, ledger: options.LedgerFile = None, quiet: options.Quiet = False) -> None:
    """Close a budget: nothing is spent from it or taken back any more, and it stays closed.

    Example: evr budget close patients
    """
    with evr.Ledger(ledger, create=False) as opened:
        evr.Budget(name, ledger=opened, by=by).close()
    if not quiet:
        say(f"Budget {name} is closed.")


@budget.command(cls=options.Grouped, short_help="What certificates cost together.")
@options.unfolded
def compose(
    files: Annotated[list[Path], options.argument("CERTIFICATE...", "Certificates.")],
    *,
    delta: Annotated[float, options.number("Compose at this delta.")],
    max_seconds: options.MaxSeconds = options.PATIENCE,
    out: options.Out,
) -> None:
    """Say what certificates cost together: composed, beside the sum of their numbers.

    Example: evr budget compose a.certificate.json b.certificate.json --delta 1e-5
    """
    from dp_accounting.dp_event import ComposedDpEvent

    read = [accepted(file, max_seconds, "it promises nothing that could be composed") for file in files]
    relations, units = sorted({one.neighboring_relation for one in read}), sorted({one.unit for one in read})
    if len(relations) > 1:
        raise ValueError(f"the certificates are under {' and '.join(relations)}: only those under one relation compose")
    if len(units) > 1:
        told = f"the certificates protect a {' and a '.join(units)}: only those of one unit compose"
        raise ValueError(f"{told}; certify all of them with the same --unit")
    relation, unit = relations[0], units[0]
    ask = partial(evr.estimate_epsilon, ComposedDpEvent([one.dp_event() for one in read]), delta)
    try:
        found, kind = ask(method="strict", neighboring_relation=relation), "proved"
        shown = stated(found.value, 4)
    except evr.errors.UnsupportedEventError:
        found, kind = ask(neighboring_relation=relation), "an estimate, not a guarantee"
        shown = number(found.value, 4)
    sums = [sum(getattr(one.claim, key) for one in read) for key in ("epsilon", "delta")]
    document = {"epsilon": found.value, "delta": delta, "kind": kind, "sum_epsilon": sums[0], "sum_delta": sums[1]}
    document |= {"relation": relation, "unit": unit, "certificates": len(read)}
    words = (
        f"Composed: epsilon {shown} at delta {number(delta)} per {unit} under {relation} ({kind}).",
        f"Added up: epsilon {number(sums[0], 4)} at delta {number(sums[1], 4)}.",
        "The composition holds if no run was chosen from what another one released.",
    )
    out.answer(document, shown, "\n".join(words))


def _document(account: "Account", used: list[float], held: "Journal") -> dict[str, Any]:
    from evr._kernel.events.relations import name_of
    from evr._release.ledger import now

    row = account.row
    last = account.events[-1] if account.events else None
    entries, seal = held.head
    return {
        "budget": row.name,
        **{name: getattr(row, name) for name in ("kind", "epsilon", "delta", "unit", "created", "closed")},
        "closed_by": row.closer,
        "relation": name_of(row.relation),
        "used": used[-1],
        "fits_again": last is not None and account.seems_to_allow(last),
        "steps_left": None if last is None else account.most_steps(last),
        "sampled_proofs": account.tries,
        "spendings": [
            _spending(one, held.attempts) | {"used": part} for one, part in zip(account.spent, used[1:], strict=True)
        ],
        "refunds": [
            _spending(one, held.attempts)
            | {"refunded_by": one.refunder, "refunded": str(one.refunded)[:19], "why": one.why}
            for one in account.refunded
        ],
        "moment": now(),
        "entries": entries,
        "seal": seal,
    }


def _spending(spending: "Spending", attempts: "dict[int, AttemptRow]") -> dict[str, Any]:
    from evr._wording.statement import describe_event

    attempt = attempts.get(spending.attempt_id or 0)
    return {
        "number": spending.number,
        "by": spending.spender,
        "moment": spending.moment[:19],
        "what_ran": describe_event(spending.event, attempt.description if attempt else None),
        "proof": spending.method,
        "claim": pair(attempt) if attempt else None,
        "certificate": attempt.certificate if attempt else None,
    }
