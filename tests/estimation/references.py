"""The stored high-precision deltas; ``make_references.py`` made them and says how they were
checked.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from dp_accounting import dp_event

from evr.events import dpsgd


class Reference(NamedTuple):
    """delta of one direction of a Poisson-sampled Gaussian composition, to 1e-10 relative or
    better.
    """

    epsilon: float
    steps: int
    probability: float
    noise: float
    direction: str
    delta: float
    group: str

    @property
    def event(self) -> dp_event.DpEvent:
        return dpsgd(noise_multiplier=self.noise, sampling_probability=self.probability, steps=self.steps)

    @property
    def label(self) -> str:
        setting = f"{self.epsilon:g}-{self.steps}-{self.probability:g}-{self.noise:g}"
        return f"{self.group}-{self.direction}-{setting}"


REFERENCES = [
    Reference(*(record[field] for field in Reference._fields))
    for record in json.loads((Path(__file__).parent / "references.json").read_text())
]
"""Groups: ``issue`` (the settings of the paper), ``random``, ``many steps``, ``few steps``,
``add``.
"""


def references(*groups: str) -> list[Reference]:
    """Those of the given groups."""
    return [reference for reference in REFERENCES if reference.group in groups]
