"""Programs that tests start with torch installed; pytest looks into every module for examples, and
these need it.
"""

from __future__ import annotations

import importlib.util

collect_ignore = (
    [] if importlib.util.find_spec("torch") else ["recorded_training.py", "trainings.py"]
)
