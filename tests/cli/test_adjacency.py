"""``--adjacency`` and ``--sampling`` on the commands, and their keys in spec files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers import near

FIXED = [
    "--noise-multiplier",
    "2",
    "--dataset-size",
    "100",
    "--batch-size",
    "5",
    "--steps",
    "10",
    "--sampling",
    "without-replacement",
]
SPEC = """
adjacency = "replace-one"

[[mechanism]]
kind = "dpsgd"
noise_multiplier = 2.0
dataset_size = 100
batch_size = 5
steps = 10
sampling = "without-replacement"

[claim]
delta = 1e-5
"""


@pytest.mark.parametrize(
    "command",
    [
        ["estimate", "--delta", "1e-5"],
        ["estimate", "--epsilon", "0,1"],
        ["estimate", "--delta", "1e-5", "--every", "5"],
        ["describe"],
    ],
)
def test_flags_and_spec_say_the_same(evr: Callable[..., Any], tmp_path: Path, command: list[str]) -> None:
    spec = tmp_path / "fixed.toml"
    spec.write_text(SPEC)
    json = [] if command[0] == "describe" else ["--json"]
    flags = evr(*command, *FIXED, "--adjacency", "replace-one", *json)
    filed = evr(command[0], str(spec), *command[1:], *json)
    assert (flags.code, filed.code) == (0, 0)
    if json:
        answers = [{k: v for k, v in ran.json.items() if k != "seconds"} for ran in (flags, filed)]
        assert answers[0] == answers[1]
    else:
        assert "Neighbours: replace-one adjacency" in filed.out
        assert "batches of 5 of 100 records without replacement, 10 steps" in flags.out
    other = evr(*command, *FIXED, "--adjacency", "add-or-remove", *json)
    assert other.code == 0
    assert other.out != flags.out


def test_the_estimate_names_the_relation(evr: Callable[..., Any]) -> None:
    ran = evr("estimate", *FIXED, "--delta", "1e-5", "--adjacency", "replace-one")
    assert ", replace-one adjacency," in ran.out
    wrong = evr("estimate", *FIXED, "--delta", "1e-5", "--adjacency", "swap")
    assert (wrong.code, "'replace-one'" in wrong.err) == (2, True)


def test_certify_and_replay(evr: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "fixed.toml").write_text(SPEC)
    made = evr("certify", str(tmp_path / "fixed.toml"), "-o", str(tmp_path / "fixed.json"))
    assert made.code == 0
    assert "under replace-one adjacency" in made.out
    assert evr("replay", str(tmp_path / "fixed.json")).code == 0
    assert "replace-one adjacency" in evr("show", str(tmp_path / "fixed.json")).out


def test_compare_asks_peers_about_the_same_relation(evr: Callable[..., Any]) -> None:
    ran = evr(
        "estimate",
        "--compare",
        *["--noise-multiplier", "4", "--sampling-probability", "1", "--steps", "1", "--delta", "1e-6"],
        "--adjacency",
        "replace-one",
        "--json",
    )
    found = {one["accountant"]: one for one in ran.json["accountants"] if one.get("value")}
    assert found["fft"]["value"] == near(2.2541, abs=1e-3)
    assert found["pld"]["value"] == near(found["fft"]["value"], rel=1e-3)
    assert "rdp" not in found


def test_calibrate(evr: Callable[..., Any]) -> None:
    flags = [
        "--dataset-size",
        "100",
        "--batch-size",
        "100",
        "--steps",
        "1",
        "--epsilon",
        "1",
        "--delta",
        "1e-5",
        "--quiet",
    ]
    plain = float(evr("calibrate", *flags).out)
    doubled = float(evr("calibrate", *flags, "--adjacency", "replace-one").out)
    assert doubled == near(2 * plain, abs=2e-3)  # both have four digits


def test_a_relation_that_nobody_chose_is_named(evr: Callable[..., Any], tmp_path: Path) -> None:
    """Some events have a law under zero-out only: who reads their epsilon has to know."""
    spec = tmp_path / "shuffled.toml"
    spec.write_text('[[mechanism]]\nkind = "shuffled_batches"\nnoise_multiplier = 1.1\nepochs = 15\n')
    assert "remove direction, zero-out adjacency" in evr("estimate", spec, "--delta", "1e-5").out
    assert evr("estimate", spec, "--delta", "1e-5", "--json").json["adjacency"] == "zero-out"
    for more in (["--every", "5"], ["--compare"], ["--method", "rdp"]):
        assert evr("estimate", spec, "--delta", "1e-5", "--json", *more).json["adjacency"] == "zero-out"
    usual = ["--noise-multiplier", "4", "--sampling-probability", "1", "--steps", "1", "--delta", "1e-6"]
    assert "adjacency" not in evr("estimate", *usual).out
    assert evr("estimate", *usual, "--json").json["adjacency"] == "add-or-remove"
