"""``evr curve``."""

import csv

import pytest

from evr.cli.options import numbers
from helpers import near

GAUSSIANS = ["--noise-multiplier", "70", "--sampling-probability", "1", "--steps", "1200"]


def test_table(evr):
    ran = evr("curve", *GAUSSIANS, "--epsilons", "0:2:1")
    assert ran.rows == [
        ["epsilon", "delta", "direction"],
        ["0", "0.195429", "remove"],
        ["1", "0.00639604", "remove"],
        ["2", "7.77236e-06", "remove"],
    ]


def test_quiet_prints_the_rows_only(evr):
    assert evr("curve", *GAUSSIANS, "--epsilons", "1", "--quiet").rows == [
        ["1", "0.00639604", "remove"]
    ]


def test_json(evr):
    found = evr("curve", *GAUSSIANS, "--epsilons", "2,1", "--json").json
    assert found["epsilons"] == [2.0, 1.0]
    assert found["deltas"] == near([7.772362e-06, 6.396042e-03], rel=1e-6)
    assert found["directions"] == ["remove", "remove"]


def test_csv_holds_every_digit(evr, tmp_path):
    path = tmp_path / "curve.csv"
    ran = evr("curve", *GAUSSIANS, "--epsilons", "0,1", "--csv", path)
    assert f"wrote {path}" in ran.err
    rows = list(csv.DictReader(path.read_text().splitlines()))
    exact = float(evr("estimate", *GAUSSIANS, "--epsilon", 1, "-q").out)
    assert float(rows[1]["delta"]) == exact
    assert [p.name for p in tmp_path.iterdir()] == ["curve.csv"]


@pytest.mark.parametrize(
    ("suffix", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_plot(evr, tmp_path, suffix, magic):
    path = tmp_path / f"curve.{suffix}"
    assert evr("curve", *GAUSSIANS, "--epsilons", "0:2:1", "--plot", path, "--quiet").err == ""
    assert path.read_bytes().startswith(magic)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--epsilons", "0:x:1"], "--epsilons='0:x:1' is not a list like 0,1,2 nor a range"),
        (["--epsilons", "0:1"], "--epsilons='0:1' is not a list"),
        (["--epsilons", "5:1:1"], "--epsilons='5:1:1' is an empty range"),
        (
            ["--epsilons", "0:1:1e-9"],
            "has 1,000,000,001 points, more than 100,000: take a greater step",
        ),
        (["--epsilons", "-1"], "epsilon=-1.0 is not in [0, 1e100]"),
        (["--plot", "curve.jpg"], "--plot='curve.jpg' does not end in .png, .svg or .pdf"),
        (["--method", "all"], "method='all' is not one of"),
    ],
)
def test_bad_input(refused, arguments, words):
    assert words in refused("curve", *GAUSSIANS, *arguments)


@pytest.mark.parametrize("option", ["--csv", "--plot"])
def test_a_folder_that_is_not_there(refused, tmp_path, option):
    path = tmp_path / "none" / "x.png"
    told = refused("curve", *GAUSSIANS, "--epsilons", "1", option, path)
    assert f"{option}={str(path)!r} lies in a folder that does not exist" in told


def test_ranges_end_where_they_say():
    assert numbers("0:1:0.1", "--epsilons") == [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]
    assert numbers("0:1:0.3", "--epsilons") == [0, 0.3, 0.6, 0.9]
    assert numbers("2:2:1", "--epsilons") == [2]
    assert numbers("1e-3, 5", "--epsilons") == [0.001, 5]
