"""Modules whose extra is not installed are not collected; their tests skip, and say why.

Tests run two at a time, so each keeps to one thread of BLAS: waking more of them costs more than it
gives. What a test starts inherits that, unless it asks for more.

Processes keep what they compile, whatever the environment says: tests start some hundred of them,
and each would compile the package anew.
"""

import os
import sys
from importlib.util import find_spec

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

collect_ignore = [
    file
    for extra, file in (
        ("opacus", "src/evr/integrations/opacus.py"),
        ("torch", "src/evr/integrations/auditing.py"),
        ("torch", "src/evr/integrations/canaries.py"),
        ("distributed", "src/evr/integrations/dask.py"),
    )
    if not find_spec(extra)
] + [
    f"src/evr/integrations/{name}.py" for name in ("flower", "huggingface", "jax", "keras", "lightning")
]  # they have no examples
