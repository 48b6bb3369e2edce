"""evr: tight privacy accounting you can trust. Estimate, verify, release.

Names load when they are first used, so that importing the package costs next to nothing. They stand once, in
``__init__.pyi``, for type checkers and for this file.
"""

import importlib
import re
from pathlib import Path
from typing import Any

from evr._basics.version import __version__ as __version__

_NAMES = re.findall(r"^from (evr[\w.]*) import (\w+) as", Path(__file__).with_suffix(".pyi").read_text("utf-8"), re.M)
_HOMES = {name: home for home, name in _NAMES}

__all__ = sorted(name for name, home in _HOMES.items() if home != "evr" or name in ("errors", "events"))


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'evr' has no attribute {name!r}")
    if _HOMES[name] == "evr":
        return importlib.import_module(f"evr.{name}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
