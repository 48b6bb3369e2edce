"""Programs that tests start with torch or Dask installed; pytest looks into every module for
examples, and these need them.
"""

from __future__ import annotations

import importlib.util

collect_ignore = [
    file
    for extra, file in (
        ("torch", "recorded_training.py"),
        ("torch", "trainings.py"),
        ("lightning", "lightning_training.py"),
        ("transformers", "huggingface_training.py"),
        ("jax_privacy", "jax_training.py"),
        ("flwr", "flower_simulation.py"),
        ("distributed", "cluster.py"),
    )
    if not importlib.util.find_spec(extra)
]
