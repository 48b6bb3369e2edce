"""Programs that tests start with torch or Dask installed; pytest looks into every module for
examples, and these need them.
"""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest

collect_ignore = [
    file
    for extra, file in (
        ("torch", "opacus_training.py"),
        ("accelerate", "accelerate_training.py"),
        ("torch", "trainings.py"),
        ("lightning", "lightning_training.py"),
        ("transformers", "huggingface_training.py"),
        ("jax_privacy", "jax_training.py"),
        ("jax_privacy", "keras_training.py"),
        ("flwr", "flower_simulation.py"),
        ("distributed", "cluster.py"),
    )
    if not importlib.util.find_spec(extra)
]


@pytest.fixture(autouse=True)
def fresh_generators():
    """As in a process in which nobody has seeded anything."""
    np.random.set_bit_generator(np.random.MT19937())  # type: ignore[attr-defined]
    if "torch" in sys.modules:
        sys.modules["torch"].seed()
