"""``evr online``."""

import csv

import pytest

from helpers import near

FLAGS = [
    "--noise-multiplier",
    "1",
    "--sampling-probability",
    "1e-3",
    "--steps",
    "100",
    "--delta",
    "1e-9",
]


def test_table(evr):
    ran = evr("online", *FLAGS, "--every", 40)
    assert ran.rows[0] == ["steps", "epsilon"]
    assert [row[0] for row in ran.rows[1:]] == ["40", "80", "100"]
    assert ran.rows[-1] == ["100", "0.28122"]


def test_json(evr):
    found = evr("online", *FLAGS, "--every", 50, "--json").json
    assert found["steps"] == [50, 100]
    assert found["epsilons"][-1] == near(0.2812199407, rel=1e-7)
    assert found["delta"] == 1e-9


def test_files(evr, tmp_path):
    table, picture = tmp_path / "online.csv", tmp_path / "online.svg"
    ran = evr("online", *FLAGS, "--every", 50, "--csv", table, "--plot", picture)
    assert ran.err.splitlines() == [f"wrote {table}", f"wrote {picture}"]
    assert [row["steps"] for row in csv.DictReader(table.read_text().splitlines())] == ["50", "100"]
    assert b"<svg" in picture.read_bytes()


def test_the_claim_of_the_specification_counts(evr, mixed):
    steps = [row[0] for row in evr("online", mixed, "--quiet").rows]
    assert steps == ["1", "2", "3", "4", "5", "6", "7"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--delta", "0"], "delta=0.0 is not in (0, 1)"),
        (["--every", "0"], "every=0 is not an integer >= 1"),
        (["--every", "x"], "invalid value for '--every': 'x' is not a number."),
        (["--plot", "x"], "--plot='x' does not end in"),
    ],
)
def test_bad_input(refused, arguments, words):
    assert words in refused("online", *FLAGS, *arguments)


def test_no_delta(refused, dpsgd):
    assert "epsilon at which delta? Give --delta" in refused("online", *dpsgd)
