"""``evr budget``: the guide as a new user walks it, and what is refused."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "budgets.md"
RUN = ["--sampling-probability", "1", "--steps", "1", "--delta", "1e-5"]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def walked() -> list[tuple[list[str], list[str]]]:
    """The commands of the guide that need no server, and the lines shown below each."""
    text = GUIDE.read_text("utf-8").partition("## Several hosts")[0]
    blocks = re.findall(r"^```console\n(.*?)^```", text, flags=re.S | re.M)
    parts = [part for block in blocks for part in block.split("$ evr ")[1:]]
    return [(shlex.split(first), rest) for first, *rest in (part.splitlines() for part in parts)]


def test_the_guide_as_it_is_printed(evr: Callable[..., Any]) -> None:
    commands = walked()
    assert len(commands) == 10
    for words, shown in commands:
        ran = evr(*words)
        assert ran.code == (3 if "error:" in shown[0] else 0), ran.err
        for line in shown:
            assert line == "[...]" or line in ran.out + ran.err, words
    assert Path("patients.svg").read_text("utf-8").startswith("<?xml")
    listed = evr("budget", "show", "patients", "--json").json
    assert [(one["number"], one["by"], one["proof"]) for one in listed["spendings"]] == [
        (1, "vision", "strict"),
        (3, "speech", "strict"),
    ]
    assert [(one["number"], one["why"]) for one in listed["refunds"]] == [(2, "cancelled before its first step")]
    page = Path("patients.html").read_text("utf-8")
    for text in ("(2.28, 1e-5)", "vision.certificate.json", "per record under zero-out", "49.8%", listed["seal"]):
        assert text in page
    assert "cancelled before its first step" in page
    assert str(Path.cwd()) not in page  # it goes to an auditor
    Path("text.certificate.json").unlink()
    composed = evr(
        "budget", "compose", *map(str, sorted(Path().glob("*.certificate.json"))), "--delta", "1e-5", "--json"
    )
    assert listed["used"] * 8 == pytest.importorskip("helpers").near(composed.json["epsilon"], rel=1e-3)
    assert composed.json["kind"] == "proved"
    attempts = evr("ledger", "--json").json["attempts"]
    assert len(attempts) == 3
    assert {"allowance"} == {key for key in attempts[0] if key in ("budget", "allowance")}


def test_what_is_refused(evr: Callable[..., Any], refused: Callable[..., str]) -> None:
    assert "there is no ledger" in refused("budget", "show", "patients")
    assert "epsilon=-1.0 is not positive" in refused("budget", "create", "patients", "--epsilon", -1, "--delta", 1e-5)
    assert "--delta" in refused("budget", "create", "patients", "--epsilon", 1)
    assert "not known" in refused("budget", "create", "p", "--epsilon", 1, "--delta", 1e-5, "--adjacency", "swap")
    assert "--adjacency?" in refused("budget", "create", "p", "--epsilon", 1, "--delta", 1e-5, "--relation", "zero-out")
    assert "unit='cat'" in refused("budget", "create", "p", "--epsilon", 1, "--delta", 1e-5, "--unit", "cat")
    assert "kind='odd'" in refused("budget", "create", "p", "--epsilon", 1, "--delta", 1e-5, "--kind", "odd")
    assert evr("budget", "create", "p q", "--epsilon", 1, "--delta", 1e-5).out.endswith(" --budget 'p q'\n")
    evr("budget", "create", "patients", "--epsilon", 1, "--delta", 1e-5)
    assert "add --budget" in refused("certify", "--noise-multiplier", 10, *RUN, "--by", "vision")
    assert "no budget 'dogs'" in refused("certify", "--noise-multiplier", 10, *RUN, "--budget", "dogs")
    assert "is not a name" in refused("certify", "--noise-multiplier", 10, *RUN, "--budget", "patients", "--by", "a\nb")
    for command, name in (("budget refund patients", "NUMBER"), ("resume", "ID")):
        why = ["--why", "cancelled"] if name == "NUMBER" else []
        assert f"invalid value for '{name}': '1.5' is not a whole number" in refused(*command.split(), "1.5", *why)
    assert "ends in .png" in refused("budget", "show", "patients", "--plot", "p.gif").replace("does not end", "ends")


def test_relations_do_not_mix(evr: Callable[..., Any], refused: Callable[..., str]) -> None:
    for name, more in (("a", []), ("b", ["--adjacency", "zero-out"])):
        assert evr("certify", "--noise-multiplier", 10, *RUN, *more, "-o", f"{name}.json").code == 0
    told = refused("budget", "compose", "a.json", "b.json", "--delta", "1e-5")
    assert "under add-or-remove and zero-out: only those under one relation compose" in told


def test_units_do_not_mix(evr: Callable[..., Any], refused: Callable[..., str]) -> None:
    """An example is a record; a user is another promise."""
    for unit in ("example", "record", "user"):
        assert evr("certify", "--noise-multiplier", 10, *RUN, "--unit", unit, "-o", f"{unit}.json").code == 0
    told = refused("budget", "compose", "example.json", "user.json", "--delta", "1e-5")
    assert "the certificates protect a record and a user: only those of one unit compose" in told
    composed = evr("budget", "compose", "example.json", "record.json", "--delta", "1e-5")
    assert "at delta 1e-5 per record under add-or-remove (proved)" in composed.out
    owned = ["--noise-multiplier", 50, "--records-per-user", 2, *RUN]
    plain, of_users = ["--noise-multiplier", 10, *RUN], ["--noise-multiplier", 10, *RUN, "--unit", "user"]
    for unit, fits, other in (("record", plain, of_users), ("user", of_users, plain)):
        made = evr("budget", "create", f"{unit}s", "--epsilon", 4, "--delta", 1e-4, "--unit", unit)
        assert f"per {unit} under zero-out" in made.out
        assert evr("certify", *fits, "--budget", f"{unit}s", "-o", f"{unit}s.json").code == 0
        assert f"and budget '{unit}s' a {unit}: " in refused("certify", *other, "--budget", f"{unit}s", "-o", "x.json")
    assert "was created with --unit user\n" in refused("certify", *owned, "--budget", "records")
    assert "per user under zero-out (planned)" in evr("budget", "show", "users").out
    assert evr("budget", "show", "users", "--json").json["unit"] == "user"


def test_an_adaptive_budget_is_shown_in_percent(evr: Callable[..., Any]) -> None:
    evr("budget", "create", "ours", "--epsilon", 1, "--delta", 1e-5, "--kind", "adaptive")
    assert evr("certify", "--noise-multiplier", 10, *RUN, "--budget", "ours", "-q").code == 0
    ran = evr("budget", "show", "ours", "--plot", "ours.png")
    assert "(adaptive)" in ran.out
    assert Path("ours.png").stat().st_size > 5000
