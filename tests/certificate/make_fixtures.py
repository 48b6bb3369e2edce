"""Make the certificates that every later version must replay; never to be run again for a format
that is released.

python tests/certificate/make_fixtures.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from dp_accounting import dp_event

import evr

DATA = Path(__file__).with_name("data")
SGD = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=50)
LAPLACE = dp_event.PoissonSampledDpEvent(0.1, dp_event.LaplaceDpEvent(1.0))

FIXTURES: dict[str, tuple[dp_event.DpEvent, dict[str, Any]]] = {
    "composed": (SGD, {"epsilon": 0.8, "tau": 0.6, "method": "sequential"}),
    "kinds": (
        dp_event.ComposedDpEvent([SGD, dp_event.SelfComposedDpEvent(LAPLACE, 8)]),
        {"epsilon": 1.0, "tau": 0.6, "method": "sequential"},
    ),
    "both": (SGD, {"epsilon": 0.8, "tau": 0.6, "method": "both"}),
    "fixed": (dp_event.GaussianDpEvent(2.0), {"epsilon": 1.0, "tau": 0.6, "method": "fixed"}),
    "bins": (
        evr.events.BallsInBinsDpEvent(noise_multiplier=1.0, iterations=8, cycle_length=8),
        {"epsilon": 1.0, "tau": 0.6, "method": "sequential"},
    ),
    "strict": (SGD, {"epsilon": 0.8, "tau": 0.9, "method": "strict"}),
}


def path_of(name: str) -> Path:
    return DATA / f"version-3-{name}.certificate.json"


if __name__ == "__main__":
    for name, (event, options) in FIXTURES.items():
        with tempfile.TemporaryDirectory() as folder:
            evr.certify(event, ledger=Path(folder) / "ledger.sqlite", **options).save(path_of(name))
        print(path_of(name).name, path_of(name).stat().st_size)
