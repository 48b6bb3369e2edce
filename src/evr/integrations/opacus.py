"""evr's accountants for Opacus: ``import evr.integrations.opacus``, then ``PrivacyEngine(accountant="evr")`` for
near-exact estimates or ``PrivacyEngine(accountant="evr-strict")`` for proved upper bounds.

Both are about both directions (``evr.estimate_epsilon``), where Opacus's own accountants return upper bounds of the
remove direction. A guarantee with its statement comes from a certificate: ``evr.certify``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

from opacus.accountants import IAccountant, register_accountant

from evr._accounting.api import estimate_epsilon
from evr._accounting.curves import Point, greater_epsilon
from evr._accounting.online import Interpolated
from evr._basics import validate
from evr._dpsgd import opacus_history
from evr._kernel.events import Composition
from evr.integrations.auditing import check_sensitivity as check_sensitivity
from evr.integrations.canaries import Canaries as Canaries

_LOADS = ("evr", "evr-strict", "rdp", "prv", "gdp")  # mechanisms whose checkpoints hold the same history
_DIRECT = 2  # questions answered one by one: asking once an epoch, or for one noise, needs no block of steps

Phase = tuple[float, float, int]
"""``(noise_multiplier, sample_rate, steps)``, as Opacus keeps its history."""


class _HistoryAccountant(IAccountant):
    """Keeps the history of steps, as Opacus's accountants do, for one thread at a time."""

    def __init__(self) -> None:
        self.history: list[Phase] = []
        self.record_mark: dict[str, Any] | None = None
        """Where the record of this training stood at the checkpoint that was loaded or is to be written."""

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        if self.history and self.history[-1][:2] == (noise_multiplier, sample_rate):
            self.history[-1] = (noise_multiplier, sample_rate, self.history[-1][2] + 1)
        else:
            self.history.append((noise_multiplier, sample_rate, 1))

    def get_optimizer_hook_fn(self, sample_rate: float) -> Hook:
        return Hook(self, sample_rate)

    def get_epsilon(self, delta: float, **_: Any) -> float:
        """Epsilon at ``delta`` after the steps so far; keywords of other accountants are ignored."""
        delta = validate.open_probability(delta=delta)
        return self._epsilon(delta) if self.history else 0.0

    @abstractmethod
    def _epsilon(self, delta: float) -> float: ...

    @property
    def event(self) -> Any:
        """The ``DpEvent`` of the steps so far: what ``evr.certify`` takes."""
        return opacus_history(self.history)

    def __len__(self) -> int:
        return sum(steps for *_, steps in self.history)

    def state_dict(self, destination: Any = None) -> Any:
        """The state as Opacus's accountants save it, with the place in the record of a recorded training."""
        state = super().state_dict(destination)
        if self.record_mark is not None:
            state["record"] = dict(self.record_mark)
        return state

    def load_state_dict(self, state_dict: Any) -> None:
        """Continue from a checkpoint of this accountant, or of Opacus's RDP, PRV or GDP accountant."""
        if state_dict and state_dict.get("mechanism") in _LOADS:
            opacus_history(state_dict.get("history", ()))  # refuses what is no history, before anything changes
            state_dict = {**state_dict, "mechanism": self.mechanism()}
        super().load_state_dict(state_dict)  # which says what is wrong with any other
        self.history = [(float(noise), float(rate), int(steps)) for noise, rate, steps in self.history]
        self.record_mark = state_dict.get("record")


@dataclass(frozen=True)
class Hook:
    """Counts a step of an optimizer, as the hooks of Opacus's accountants do, and says for which accountant."""

    accountant: _HistoryAccountant
    sample_rate: float

    def __call__(self, optimizer: Any) -> None:
        rate = self.sample_rate * optimizer.accumulated_iterations
        self.accountant.step(noise_multiplier=optimizer.noise_multiplier, sample_rate=rate)


class EvrAccountant(_HistoryAccountant):
    """Estimates near-exactly what the steps cost.

    Asking after every step is cheap: epsilon is computed at a few steps and interpolated.

    >>> accountant = EvrAccountant()
    >>> for _ in range(100):
    ...     accountant.step(noise_multiplier=1.0, sample_rate=0.01)
    >>> round(accountant.get_epsilon(1e-5), 4)
    0.718
    """

    def __init__(self) -> None:
        super().__init__()
        self._curves: dict[float, tuple[Any, Interpolated]] = {}  # of the last phase, for each delta

    def _epsilon(self, delta: float) -> float:
        *before, (noise, rate, steps) = self.history
        phase = (before, noise, rate)
        if delta not in self._curves or self._curves[delta][0] != phase:
            self._curves[delta] = phase, _curve(before, noise, rate, delta)
        return self._curves[delta][1](int(steps)).epsilon

    @classmethod
    def mechanism(cls) -> str:
        return "evr"


class EvrStrictAccountant(_HistoryAccountant):
    """Proves what the steps cost, in exact arithmetic: an upper bound that is near-exact too.

    An answer takes about a second, so ask once an epoch rather than after every step.

    >>> accountant = EvrStrictAccountant()
    >>> for _ in range(100):
    ...     accountant.step(noise_multiplier=1.0, sample_rate=0.01)
    >>> round(accountant.get_epsilon(1e-5), 3)
    0.718
    """

    def _epsilon(self, delta: float) -> float:
        return estimate_epsilon(self.event, delta, method="strict").value

    @classmethod
    def mechanism(cls) -> str:
        return "evr-strict"


def _curve(before: list[Phase], noise: float, rate: float, delta: float) -> Interpolated:
    """Epsilon after any number of steps of one more phase."""

    def evaluate(steps: int, guess: float | None, direction: str | None) -> Point:
        return estimated([*before, (noise, rate, steps)], delta, guess, direction)

    def horizon(first: int) -> float:
        # phases of a schedule are alike: compute nothing far beyond the length of the last one
        return max(5 * first, first + before[-1][2]) if before else math.inf

    return Interpolated(evaluate, sum(steps for *_, steps in before), horizon, _DIRECT)


def estimated(history: list[Phase], delta: float, guess: float | None, direction: str | None) -> Point:
    """Epsilon of a history, from a guess and in a direction where they are known."""
    return greater_epsilon(Composition.of(opacus_history(history)), delta, guess, direction)


for _accountant in (EvrAccountant, EvrStrictAccountant):
    register_accountant(_accountant.mechanism(), _accountant, force=True)
