"""Budgets: an ``(epsilon, delta)`` that all spendings together keep (docs/guarantees_budget.md).

A spending is one row of the ledger, written before anything is released. It is taken back by another entry, and only if
it let out nothing. The proof that the budget is kept is about a list of spendings, and made without a lock: its row is
written only if that list is still the same.
"""

from __future__ import annotations

import contextlib
import getpass
from pathlib import Path
from typing import Any, Self

from dp_accounting import NeighboringRelation

from evr._basics import validate
from evr._certificate.event_json import event_digest, event_to_json, in_alphabet, named
from evr._kernel.events.relations import ZERO_OUT, Relation, name_of, relation_named
from evr._kernel.verdict.settings import Claim
from evr._release.account import Account
from evr._release.databases import is_alive
from evr._release.journal import AttemptRow, Journal, Spending
from evr._release.ledger import Ledger, now, opened
from evr._wording.description import UNITS
from evr.errors import LedgerError


class Budget:
    """A budget that several people spend from, in a ledger that they share.

    Everything that is ever spent from it is ``(epsilon, delta)``-DP together, proved in exact arithmetic where laws
    allow it. A *planned* budget composes exactly: what is spent next must not depend on what was released before. An
    *adaptive* budget holds also if it does. The proof is docs/guarantees_budget.md. ``Budget.create`` makes one, and
    ``Budget(name)`` opens it; ``ledger`` is as of ``evr.certify``, and ``by`` says who spends, by default the user.

    Examples
    --------
    >>> import evr, tempfile
    >>> from dp_accounting import dp_event
    >>> folder = tempfile.TemporaryDirectory()
    >>> budget = evr.Budget.create("patients", epsilon=2.0, delta=1e-6, by="vision",
    ...                            ledger=f"{folder.name}/ledger.sqlite")
    >>> budget.spend(dp_event.GaussianDpEvent(4.0)).number
    1
    >>> budget.fits(dp_event.GaussianDpEvent(4.0)), budget.fits(dp_event.GaussianDpEvent(2.0))
    (True, False)
    >>> budget.spend(dp_event.GaussianDpEvent(2.0))
    Traceback (most recent call last):
    ...
    evr.errors.BudgetExceededError: budget 'patients', (2, 1e-6) per record under zero-out: this does not fit, ...
    >>> [(one.number, one.spender) for one in budget.account().spent]
    [(1, 'vision')]
    >>> folder.cleanup()
    """

    def __init__(self, name: str, *, ledger: Ledger | str | Path | None = None, by: str | None = None) -> None:
        self.name = named(name=name)
        self.ledger = ledger
        self.by = "unknown" if by is None else named(by=by)
        if by is None:
            with contextlib.suppress(OSError, KeyError, ImportError, ValueError):  # a process may have no user
                self.by = named(by=in_alphabet(getpass.getuser()))

    @classmethod
    def create(
        cls,
        name: str,
        *,
        epsilon: float,
        delta: float,
        neighboring_relation: Relation = ZERO_OUT,
        unit: str = "record",
        adaptive: bool = False,
        ledger: Ledger | str | Path | None = None,
        by: str | None = None,
    ) -> Self:
        """Make a budget; nothing of it ever changes. ``epsilon`` and ``delta``, both above 0, bound everything that is
        spent together, per ``unit``: a record (an example is one), a user or a client. ``adaptive`` says whether what
        is spent next may depend on what was released before. Records of trainings support zero-out, the default.
        """
        found, kind = cls(name, ledger=ledger, by=by), "adaptive" if adaptive else "planned"
        pair = {"epsilon": validate.positive(epsilon=epsilon), "delta": validate.open_probability(delta=delta)}
        whose = "record" if validate.one_of(UNITS, unit=unit) == "example" else unit
        row = {**pair, "relation": relation_named(neighboring_relation), "unit": whose, "created": now()}
        Claim(epsilon, delta / 2)  # its numbers can be tested
        with opened(ledger) as one, one.counting() as held:
            if any(other.name == name for other in held.budgets.values()):
                raise LedgerError(f"{one.path}: there is a budget {name!r} already: give this one another name")
            held.write("budgets", name=found.name, kind=kind, **row)
        return found

    @classmethod
    def of(cls, budget: Budget | str, ledger: Ledger | str | Path | None) -> Budget:
        """The budget given, or that of a name, in the ledger."""
        if not isinstance(budget, Budget):
            return cls(budget, ledger=ledger)
        if ledger is not None and ledger is not budget.ledger and str(ledger) != str(budget.ledger):
            raise ValueError(f"ledger={str(ledger)!r}, but budget {budget.name!r} lies elsewhere: leave out ledger")
        return budget

    def relation(self, asked: Relation | None) -> NeighboringRelation:
        """Which data sets are neighbours: what is asked for must agree."""
        fixed = self.account().row.relation
        if asked is not None and relation_named(asked) is not fixed:
            wrong = f"neighboring_relation={name_of(relation_named(asked))!r}, but budget {self.name!r} is under"
            raise ValueError(f"{wrong} {name_of(fixed)!r}: spend it under that one, or from another budget")
        return fixed

    def account(self) -> Account:
        """What was fixed, and what was spent so far."""
        with opened(self.ledger) as one, one.counting(writes=False) as held:
            return Account.of(held, self.name)

    def fits(self, event: Any, *, unit: str | None = None) -> bool:
        """Whether an event could be spent, by an estimate: ``spend`` proves it."""
        account = self.account()
        account.check_unit(event, unit)
        return account.seems_to_allow(event)

    def spend(self, event: Any, *, unit: str | None = None, attempt: AttemptRow | None = None) -> Spending:
        """Spend an event before it runs: prove that it fits beside what was spent, and write it down, or raise
        ``BudgetExceededError``. An attempt spends once, however often it is continued. ``unit`` must be the budget's.
        """
        document = event_to_json(event)
        with opened(self.ledger) as ledger:
            while True:
                with ledger.counting(writes=False) as held:
                    account = Account.of(held, self.name)
                for one in (*account.spent, *account.refunded):
                    if attempt is not None and one.attempt_id == attempt.id:
                        if one.state == "refunded":
                            raise LedgerError(f"what attempt {attempt.id} spent was taken back: start another attempt")
                        if one.event != document or attempt.event_digest != event_digest(event):
                            raise LedgerError(f"attempt {attempt.id} has spent another event: start another attempt")
                        return one
                account.check(event, unit)
                method, tries = account.method(event), 1
                row = {"attempt_id": attempt and attempt.id, "event": document, "method": method, "spender": self.by}
                if method == "sequential":  # counts before its first sample
                    if (tried := _written(ledger, account, {**row, "state": "tried"})) is None:
                        continue
                    tries = tried.number
                if (proved := account.proves(event, method, tries)) is None:
                    raise account.refusal(event)
                if (spent := _written(ledger, account, {**row, "state": "spent", "method": proved})) is not None:
                    return spent

    def refund(self, number: int, *, why: str) -> Spending:
        """Take back the spending of that number, and keep the reason. Given that nothing that depends on the data
        through it was let out, or will be, and, in a planned budget, that this does not depend on what was released:
        ensures that the budget still holds (Section B5). What is known to have run is refused.
        """
        why = validate.line(why=why)
        with opened(self.ledger) as ledger, ledger.counting() as held:
            account = Account.of(held.whole(), self.name)
            account.check_open()
            spending = next((one for one in account.spent if one.number == number), None)
            if spending is None:
                numbers = ", ".join(str(one.number) for one in account.spent)
                wrong = f"budget {self.name!r} has no spending {number!r} to take back"
                raise LedgerError(f"{wrong}: {f'give one of {numbers}' if numbers else 'nothing is spent from it'}")
            if (reason := _ran(held, account, spending)) is not None:
                raise LedgerError(f"spending {number} of budget {self.name!r} {reason}: it stays")
            signed = {"refunder": self.by, "refunded": now(), "why": why}
            refunded: Spending = held.write("spendings", id=spending.id, state="refunded", **signed)
            return refunded

    def close(self) -> None:
        """Let nothing be spent or taken back any more."""
        with opened(self.ledger) as ledger, ledger.counting() as held:
            account = Account.of(held, self.name)
            account.check_open()
            held.write("budgets", id=account.row.id, closed=now(), closer=self.by)


def _ran(held: Journal, account: Account, spending: Spending) -> str | None:
    """Why a spending cannot be taken back, as far as the ledger knows (Section B5)."""
    attempt = held.attempts.get(spending.attempt_id or 0)
    if attempt is None:
        return None
    release, record = held.releases[attempt.release_id], attempt.options["record"]
    if release.output is not None and release.attempt_id == attempt.id:
        return "has run its mechanism, whose output may have gone out"
    if attempt.state == "running" and is_alive(attempt.owner, attempt.seen):
        return f"is of attempt {attempt.id}, which is still being made"
    others = [held.attempts[one.attempt_id] for one in account.spent if one.attempt_id not in (None, attempt.id)]
    if record is not None and all((one.options["record"] or {}).get("seals") != record["seals"] for one in others):
        return "is of a recorded training, which ran, and no other spending is of the same record"
    return None


def _written(ledger: Ledger, account: Account, row: dict[str, Any]) -> Spending | None:
    """Write a row of the account, if what was spent is still what the account says; else None."""
    with ledger.counting() as held:
        current = Account.of(held, account.row.name)
        current.check_open()
        if current.spent != account.spent:
            return None
        number = 1 + (current.tries if row["state"] == "tried" else len(current.spent) + len(current.refunded))
        signed = {"budget_id": account.row.id, "number": number, "moment": now()}
        written: Spending = held.write("spendings", **row, **signed)
        return written
