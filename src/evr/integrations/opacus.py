"""evr's accountant for Opacus: ``import evr.integrations.opacus``, then ``PrivacyEngine(accountant="evr")``.

What ``get_epsilon`` returns is evr's near-exact estimate of both directions (``evr.estimate_epsilon``), where Opacus's
own accountants return upper bounds of the remove direction. A guarantee comes from a certificate: ``evr.certify``.
"""

from __future__ import annotations

from typing import Any

from opacus.accountants import IAccountant, register_accountant

from evr import validate
from evr.events import opacus_history
from evr.integrations.canaries import Canaries as Canaries
from evr.integrations.running import Phase, RunningEpsilon
from evr.integrations.sensitivity import check_sensitivity as check_sensitivity

_LOADS = ("evr", "rdp", "prv", "gdp")
"""Mechanisms whose checkpoints hold the same history."""


class EvrAccountant(IAccountant):
    """Keeps the history of steps, as Opacus's accountants do, and estimates what it costs near-exactly.

    Asking after every step is cheap: ``evr.integrations.running``.

    Examples
    --------
    >>> accountant = EvrAccountant()
    >>> for _ in range(100):
    ...     accountant.step(noise_multiplier=1.0, sample_rate=0.01)
    >>> round(accountant.get_epsilon(1e-5), 4)
    0.718
    """

    def __init__(self) -> None:
        self.history: list[Phase] = []
        self.record_mark: dict[str, Any] | None = None
        """Where the record of this training stood at the checkpoint that was loaded or is to be written."""
        self._running: dict[float, RunningEpsilon] = {}

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Count one step."""
        if self.history and self.history[-1][:2] == (noise_multiplier, sample_rate):
            self.history[-1] = (noise_multiplier, sample_rate, self.history[-1][2] + 1)
        else:
            self.history.append((noise_multiplier, sample_rate, 1))

    def get_epsilon(self, delta: float, **_: Any) -> float:
        """Epsilon at ``delta`` after the steps so far; keywords of other accountants are passed over."""
        delta = validate.open_probability(delta=delta)
        if delta not in self._running:
            self._running[delta] = RunningEpsilon(delta)
        return self._running[delta](self.history)

    @property
    def event(self) -> Any:
        """The ``DpEvent`` of the steps so far: what ``evr.certify`` takes."""
        return opacus_history(self.history)

    def __len__(self) -> int:
        """The number of steps."""
        return sum(steps for *_, steps in self.history)

    @classmethod
    def mechanism(cls) -> str:
        return "evr"

    def state_dict(self, destination: Any = None) -> Any:
        """As of Opacus's accountants; with where the record stands, if the training is recorded (``evr.record``)."""
        state = super().state_dict(destination)
        if self.record_mark is not None:
            state["record"] = dict(self.record_mark)
        return state

    def load_state_dict(self, state_dict: Any) -> None:
        """Continue from a checkpoint of this accountant, or of Opacus's RDP, PRV or GDP accountant: their history is
        the same.
        """
        found = state_dict.get("mechanism") if state_dict else None
        if found in _LOADS:
            # refuses what is no history, before anything changes
            opacus_history(state_dict.get("history", ()))
            super().load_state_dict({**state_dict, "mechanism": self.mechanism()})
            self.history = [(float(noise), float(rate), int(steps)) for noise, rate, steps in self.history]
            self.record_mark = state_dict.get("record")
        else:
            super().load_state_dict(state_dict)  # which says what is wrong with it


register_accountant("evr", EvrAccountant, force=True)
