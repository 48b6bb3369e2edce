"""A budget at one moment: what was spent, what would fit, and what proves it (docs/guarantees_budget.md)."""

import bisect
import contextlib
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from dp_accounting import dp_event

from evr._accounting import estimate_delta, estimate_epsilon
from evr._accounting.calibration import needed
from evr._accounting.noise import noise_of, other_noise
from evr._basics.numbers import round_up, typed
from evr._certificate.event_json import event_from_json
from evr._kernel.events import Composition
from evr._kernel.events.relations import name_of
from evr._kernel.pairs import Direction, reveals_nothing
from evr._kernel.pairs.exact import ExactGaussian
from evr._kernel.verdict.attempts import Attempt
from evr._kernel.verdict.settings import Claim, Settings, Terms
from evr._proving.api import prove
from evr._proving.choosing import likely_tau
from evr._release.filters import PrivacyFilter
from evr._release.journal import BudgetRow, Journal, Spending
from evr._wording.description import protected
from evr.errors import AccuracyError, BudgetExceededError, LedgerError, UnsupportedEventError

KAPPA = 2.0**-12  # the part of delta that pays for all false positives of sampled proofs
_MOST_NOISE, _CLOSE = 1e6, 1e-6  # the greatest noise multiplier that is tried, and the steps between them, relatively


@dataclass(frozen=True)
class Account:
    """A budget at one moment: its ``row``, what was spent and taken back, and how many sampled proofs were begun."""

    row: BudgetRow
    spent: tuple[Spending, ...]
    refunded: tuple[Spending, ...] = ()
    tries: int = 0

    @classmethod
    def of(cls, held: Journal, name: str) -> Self:
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

    def first(self, count: int) -> Self:
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
            fits = True
            with contextlib.suppress(AccuracyError):  # too small to tell
                fits = needed(estimate_delta(total, self.row.epsilon)) <= room
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
        other, own = protected(event, unit), self.row.unit
        if other != own:
            wrong = f"this protects a {other}, and budget {self.row.name!r} a {own}"
            whole = f"give unit={own!r} (--unit {own}) if a record holds all data of one {own}, or "
            remedy = f"spend from a budget that was created with unit={other!r} (--unit {other})"
            raise ValueError(f"{wrong}: {whole if other == 'record' else ''}{remedy}")

    def check(self, event: Any, unit: str | None) -> None:
        """Raise if the budget is closed or of another unit, or the event seems not to fit; say what would."""
        self.check_open()
        self.check_unit(event, unit)
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
            if prove(total, claim, Settings(method), Attempt(number=attempt), progress=False).accepted:
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
        pair = f"({typed(row.epsilon)}, {typed(row.delta)})"
        budget = f"{row.name!r}, {pair} per {row.unit} under {name_of(row.relation)}"
        spent = f"this does not fit, and nothing was spent. {self.used():.1%} is used"
        return BudgetExceededError(f"budget {budget}: {spent}. {left}")


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
