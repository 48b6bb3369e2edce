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
    assert (found["delta"], found["method"]) == (1e-9, "fft")


def test_monte_carlo_has_standard_errors(evr, tmp_path):
    options = ["--every", 50, "--method", "monte_carlo", "--samples", 5000, "--seed", 1]
    ran = evr("online", *FLAGS, *options, "--csv", tmp_path / "online.csv")
    assert ran.rows[0] == ["steps", "epsilon", "standard error"]
    found = evr("online", *FLAGS, *options, "--json").json
    assert found["epsilons"][-1] == near(0.2812199407, abs=6 * found["standard_errors"][-1])
    table = list(csv.DictReader((tmp_path / "online.csv").read_text().splitlines()))
    assert [float(row["standard error"]) for row in table] == found["standard_errors"]


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
        (["--method", "gdp"], "method='gdp' is not one of 'fft'"),
        (["--plot", "x"], "--plot='x' does not end in"),
    ],
)
def test_bad_input(refused, arguments, words):
    assert words in refused("online", *FLAGS, *arguments)


def test_no_delta(refused, dpsgd):
    assert "epsilon at which delta? Give --delta" in refused("online", *dpsgd)
