"""Budgets: an ``(epsilon, delta)`` that all spendings together keep (docs/guarantees_budget.md).

A spending is one row of the ledger, written before anything is released. It is taken back by another entry, and only if
it let out nothing. The proof that the budget is kept is about a list of spendings, and made without a lock: its row is
written only if that list is still the same.
"""

from __future__ import annotations

import bisect
import contextlib
import getpass
import math
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from dp_accounting import NeighboringRelation, dp_event

from evr._accounting import estimate_delta, estimate_epsilon
from evr._accounting.calibration import needed, noise_of, other_noise
from evr._basics import validate
from evr._basics.numbers import round_up
from evr._certificate.event_json import event_digest, event_from_json, event_to_json, in_alphabet, named
from evr._kernel.events import Composition
from evr._kernel.events.relations import ZERO_OUT, Relation, name_of, relation_named
from evr._kernel.pairs import Direction, reveals_nothing
from evr._kernel.pairs.exact import ExactGaussian
from evr._kernel.verdict.attempts import Attempt as Trying
from evr._kernel.verdict.settings import Claim, Settings, Terms
from evr._proving.api import prove
from evr._proving.choosing import likely_tau
from evr._release.databases import is_alive
from evr._release.filters import PrivacyFilter
from evr._release.journal import Attempt, BudgetRow, Journal, Spending
from evr._release.ledger import Ledger, now, opened
from evr._wording.description import UNITS, protected
from evr.errors import AccuracyError, BudgetExceededError, LedgerError, UnsupportedEventError

KAPPA = 2.0**-12  # the part of delta that pays for all false positives of sampled proofs
_MOST_NOISE, _CLOSE = 1e6, 1e-6  # the greatest noise multiplier that is tried, and the steps between them, relatively


@dataclass(frozen=True)
class Account:
    """A budget at one moment: its ``row``, what was spent, in order, what was taken back, and how many sampled proofs
    were begun.
    """

    row: BudgetRow
    spent: tuple[Spending, ...]
    refunded: tuple[Spending, ...] = ()
    tries: int = 0

    @classmethod
    def of(cls, held: Journal, name: str) -> Account:
        """The account of that name, or an error that lists the names."""
        row = next((one for one in held.budgets.values() if one.name == name), None)
        if row is None:
            names = ", ".join(repr(one.name) for one in held.budgets.values()) or "none"
            raise LedgerError(f"there is no budget {name!r} (budgets here: {names}): `evr budget create` makes one")
        mine = [one for one in held.spendings.values() if one.budget_id == row.id]
        spent, refunded = (tuple(one for one in mine if one.state == state) for state in ("spent", "refunded"))
        return cls(row, spent, refunded, len(mine) - len(spent) - len(refunded))

    @cached_property
    def events(self) -> list[dp_event.DpEvent]:
        return [event_from_json(one.event) for one in self.spent]

    def first(self, count: int) -> Account:
        return replace(self, spent=self.spent[:count])

    def event(self, *more: Any) -> dp_event.DpEvent:
        """Everything that was spent, and more, as one event."""
        return dp_event.ComposedDpEvent([*self.events, *more])

    def total(self, *more: Any) -> Composition | None:
        """The laws of ``event`` where their exact composition decides: if adaptive, where all are one law (B3)."""
        total = Composition.of(self.event(*more), self.row.relation)
        return total if self.is_planned or _is_one_law(total) else None

    @property
    def is_planned(self) -> bool:
        """Whether what is spent next may not depend on what was released before."""
        return self.row.kind == "planned"

    @property
    def delta(self) -> float:
        """What the exact composition may have: half of the budget's where a filter may need the other half."""
        return self.row.delta if self.is_planned else self.row.delta / 2

    def filter(self) -> PrivacyFilter:
        """The second account of an adaptive budget, before anything was spent."""
        return PrivacyFilter(epsilon=self.row.epsilon, delta=self.delta, neighboring_relation=self.row.relation)

    def used(self) -> float:
        """About which part of the budget is spent: of its epsilon; of a filter's moments where that decides."""
        if (total := self.total()) is None:
            return self.filter().would_use(self.event())
        return estimate_epsilon(total, self.delta).value / self.row.epsilon if self.spent else 0.0

    def seems_to_allow(self, event: Any) -> bool:
        """Whether the event could be spent, by an estimate. Nothing rests on it."""
        total = self.total(event)
        if total is not None:
            room = self.delta * (1 - KAPPA) if self.is_planned else self.delta
            try:
                fits = needed(estimate_delta(total, self.row.epsilon)) <= room
            except AccuracyError:  # too small to tell
                fits = True
            if fits or self.is_planned:
                return fits
        try:
            return self.filter().fits(self.event(event))
        except UnsupportedEventError:  # a law without proved moments has the first account only
            if total is None:
                raise
            return False

    def check_open(self) -> None:
        """Raise if the budget is closed."""
        if self.row.closed is not None:
            when = f"budget {self.row.name!r} was closed at {self.row.closed} by {self.row.closer}"
            raise LedgerError(f"{when}: nothing is spent or taken back any more; create another budget")

    def check_unit(self, event: Any, unit: str | None) -> None:
        """Raise if what would be spent protects another unit than the budget: its promise is about one."""
        if (other := protected(event, unit)) != self.row.unit:
            wrong = f"this protects a {other}, and budget {self.row.name!r} a {self.row.unit}"
            whole = f"give unit={self.row.unit!r} (--unit) if a record holds all data of one {self.row.unit}, or "
            remedy = f"spend from a budget that was created with unit={other!r} (--unit {other})"
            raise ValueError(f"{wrong}: {whole if other == 'record' else ''}{remedy}")

    def check(self, event: Any) -> None:
        """Raise, and say what would fit, if the event seems not to."""
        if not self.seems_to_allow(event):
            raise self.refusal(event)

    def method(self, event: Any) -> str:
        """How it can be proved that the event fits."""
        total = self.total(event)
        with contextlib.suppress(ValueError):  # a law that is not known exactly
            if total is not None and total.exact_directions():
                return "strict"
        return "sequential" if self.is_planned else "renyi"

    def proves(self, event: Any, method: str, attempt: int) -> str | None:
        """The method that proved that the event fits, None where none did."""
        if method != "renyi" and (total := self.total(event)) is not None:
            terms = Terms(KAPPA, self.row.delta) if self.is_planned else None
            claim = Claim(self.row.epsilon, self.delta, terms=terms)
            if method == "sequential":
                claim = replace(claim, tau=likely_tau(total, claim))
            if prove(total, claim, Settings(method), Trying(number=attempt, progress=False)).accepted:
                return method
        return None if self.is_planned or not self.filter().fits(self.event(event)) else "renyi"

    def most_steps(self, event: Any) -> int | None:
        """The most steps of a training that could be spent; None where what ran is not one mechanism, repeated."""
        if not isinstance(event, dp_event.SelfComposedDpEvent):
            return None
        repeated, steps = dp_event.SelfComposedDpEvent, range(1, int(event.count) + 1)
        return bisect.bisect_left(steps, True, key=lambda n: not self.seems_to_allow(repeated(event.event, n)))

    def least_noise(self, event: Any) -> float | None:
        """The least noise multiplier with which an event could be spent, to four digits; None where there is none."""
        if (with_noise := other_noise(event)) is None:
            return None
        logs = range(int(math.log(noise_of(event)) / _CLOSE), int(math.log(_MOST_NOISE) / _CLOSE))
        least = bisect.bisect_left(logs, True, key=lambda log: self.seems_to_allow(with_noise(math.exp(log * _CLOSE))))
        return round_up(math.exp(logs[least] * _CLOSE), 4) if least < len(logs) else None

    def refusal(self, event: Any) -> BudgetExceededError:
        row, ways = self.row, []
        if steps := self.most_steps(event):
            ways.append(f"{steps:,} steps instead of {event.count:,}")
        if (noise := self.least_noise(event)) is not None:
            ways.append(f"a noise multiplier of {noise!r} instead of {noise_of(event)!r}")
        left = f"What would fit: {', or '.join(ways)}" if ways else "Nothing like it fits any more"
        under = f"per {row.unit} under {name_of(row.relation)}"
        budget = f"budget {row.name!r}, ({row.epsilon!r}, {row.delta!r}) {under}"
        spent = f"this does not fit, and nothing was spent. {self.used():.1%} is used"
        return BudgetExceededError(f"{budget}: {spent}. {left}")


def _is_one_law(total: Composition) -> bool:
    """Whether everything is one law, repeated, or Gaussian mechanisms only (Section B3). Laws that add, such as those
    of zCDP, are one law only if they are equal.
    """
    for direction in Direction:
        folded = total.simplified(direction)
        laws = {step.law for step in total.steps(direction) if not reveals_nothing(step.law)}
        if len(laws) != 1 and not (len(folded) == 1 and isinstance(folded[0].law, ExactGaussian)):
            return False
    return True


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
    evr.errors.BudgetExceededError: budget 'patients', (2.0, 1e-06) per record under zero-out: this does not fit, ...
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
    ) -> Budget:
        """Make a budget; nothing of it ever changes. ``epsilon`` and ``delta``, both above 0, bound everything that is
        spent together, per ``unit``: a record (an example is one), a user or a client. ``adaptive`` says whether what
        is spent next may depend on what was released before. By default neighbours are those of zero-out, which
        records of trainings support.
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

    def spend(self, event: Any, *, unit: str | None = None, attempt: Attempt | None = None) -> Spending:
        """Spend an event before it runs: prove that it fits beside what was spent, and write it down. An attempt spends
        once, however often it is continued. ``unit`` is as of ``evr.certify``, and must be the budget's.
        ``BudgetExceededError`` says what would fit.
        """
        document = event_to_json(event)
        with opened(self.ledger) as ledger:
            while True:
                with ledger.counting(writes=False) as held:
                    account = Account.of(held, self.name)
                account.check_unit(event, unit)
                for one in (*account.spent, *account.refunded):
                    if attempt is not None and one.attempt_id == attempt.id:
                        if one.state == "refunded":
                            raise LedgerError(f"what attempt {attempt.id} spent was taken back: start another attempt")
                        if one.event != document or attempt.event_digest != event_digest(event):
                            raise LedgerError(f"attempt {attempt.id} has spent another event: start another attempt")
                        return one
                account.check_open()
                account.check(event)
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
                numbers = ", ".join(str(one.number) for one in account.spent) or "none"
                wrong = f"budget {self.name!r} has no spending {number!r} to take back"
                raise LedgerError(f"{wrong}: give one of {numbers}")
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
