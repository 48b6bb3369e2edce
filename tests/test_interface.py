"""The names that ``import evr`` offers, and the commands: few, and all of them on their pages."""

from __future__ import annotations

import re
from pathlib import Path

import evr
from evr.cli.app import COMMANDS

DOCS = Path(__file__).parents[1] / "docs"


def test_every_name_has_an_example() -> None:
    assert sorted(evr.__all__) == list(evr.__all__)
    rows = re.findall(r"^\| `(\w+)` \| .+ \| `(.+)` \|$", (DOCS / "api.md").read_text("utf-8"), re.M)
    examples = dict(rows)
    assert sorted(examples) == list(evr.__all__)
    for name in evr.__all__:
        assert getattr(evr, name) is not None
        used = (f"evr.{name}(", f"evr.{name}.", "evr.estimate_delta", "evr.verify", "evr.release")
        assert any(one in examples[name] for one in used), name


def test_the_commands_each_with_a_section() -> None:
    assert sorted(COMMANDS) == sorted(
        [
            "audit",
            "calculator",
            "certify",
            "estimate",
            "calibrate",
            "describe",
            "refute",
            "replay",
            "show",
            "ledger",
            "resume",
            "attest",
            "risk",
        ]
    )
    sections = re.findall(r"^## evr (\w+)$", (DOCS / "cli.md").read_text("utf-8"), re.M)
    assert sorted(sections) == sorted([*COMMANDS, "budget"])
