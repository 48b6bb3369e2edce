"""The page on the architecture says what is so: the kernel's size, and that every hop exists."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_the_size_of_the_kernel_is_current() -> None:
    spec = importlib.util.spec_from_file_location("kernel_size", ROOT / "docs" / "kernel_size.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    stated, counted = (
        {name: int(size.replace(",", "")) for name, size in re.findall(r"^\| `([\w/.]+)` \| ([\d,]+) \|", text, re.M)}
        for text in (PAGE, module.table())
    )
    assert stated.keys() == counted.keys()
    for name, size in counted.items():
        assert abs(stated[name] - size) <= max(300, 0.25 * size), "run python docs/kernel_size.py --write"


def test_every_hop_exists_and_there_are_few() -> None:
    hops = re.findall(r"^\d+\. `([\w.]+)`", PAGE, re.M)
    assert 10 <= len(hops) <= 15
    for hop in hops:
        parts = f"evr.{hop}".split(".")
        for cut in range(len(parts), 0, -1):
            try:
                found = importlib.import_module(".".join(parts[:cut]))
            except ModuleNotFoundError:
                continue
            for name in parts[cut:]:
                found = getattr(found, name)
            break
