"""The attack on evr: random events, what is true of them by other means, and what evr says.

- ``laws``: events to pairs of laws; ``tilted``, ``contour``, ``enumeration``, ``single`` and
  ``truth``: delta of a composition. None of these imports evr, and none follows its ways: what both
  get wrong has to be wrong twice.
- ``events``: random events and their epsilons. ``trials``: what evr says of one, and whether that
  may stand.
- ``running``: worker processes, time limits, a file of results that a later run continues.
  ``summary``: the tables.
"""

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before NumPy is imported: each worker is one thread
