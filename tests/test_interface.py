"""The names that ``import evr`` offers, and the commands: few, and all of them on their pages."""

from __future__ import annotations

import re
from pathlib import Path

import evr
from evr import types
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


PUBLIC = {
    "accounting",
    "budgets",
    "certificates",
    "cli",
    "errors",
    "events",
    "integrations",
    "proving",
    "testing",
    "types",
}


def test_the_public_line() -> None:
    """What a user may touch has no underscore, and the reference names nothing else."""
    package = Path(evr.__file__).parent
    entries = {path.stem for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert {name for name in entries if not name.startswith("_")} == PUBLIC
    reference = (DOCS / "api.md").read_text("utf-8")
    assert not re.findall(r"\bevr\.(?:\w+\.)*_\w+", reference)
    for name in re.findall(r"^::: evr\.(\w+)\.\w+", reference, re.M):
        assert name in PUBLIC


def test_arguments_take_enums() -> None:
    event = evr.dpsgd(noise_multiplier=4.0, sampling_probability=0.1, steps=2, sampling=types.Sampling.POISSON)
    words = {"neighboring_relation": types.Relation.ZERO_OUT, "direction": types.Direction.ADD}
    bound = evr.estimate_delta(event, 0.1, method=types.EstimateMethod.STRICT, **words)
    assert bound == evr.estimate_delta(event, 0.1, method="strict", neighboring_relation="zero-out", direction="add")
    assert evr.verify(event, epsilon=1.0, delta=1e-3, method=types.Method.STRICT).guarantee is not None
