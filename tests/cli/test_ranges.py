"""``evr estimate`` with ranges, ``--every`` and ``--compare``: tables, files and pictures."""

import csv
import resource
import sys
from subprocess import run

import pytest

from evr.cli.parsing import several
from helpers import near

GAUSSIANS = ["--noise-multiplier", "70", "--sampling-probability", "1", "--steps", "1200"]
TRAINING = ["--noise-multiplier", "1", "--sampling-probability", "1e-3", "--steps", "100"]
MANY = ["--noise-multiplier", "0.8:1:0.1", "--batch-size", "128,256"]
SIZES = ["--dataset-size", "60000", "--epochs", "1", "--delta", "1e-5"]


def test_ranges_end_where_they_say():
    assert several("0:1:0.1") == (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1)
    assert several("0:1:0.3") == (0, 0.3, 0.6, 0.9)
    assert several("2:2:1") == (2,)
    assert several("1e-3, 5, 256/60000") == (0.001, 5, 256 / 60000)


def test_a_privacy_curve(evr, tmp_path):
    table, picture = tmp_path / "curve.csv", tmp_path / "curve.svg"
    ran = evr("estimate", *GAUSSIANS, "--epsilon", "0:2:1", "--csv", table, "--plot", picture)
    assert ran.rows == [
        ["epsilon", "delta", "direction"],
        ["0", "0.195429", "remove"],
        ["1", "0.00639604", "remove"],
        ["2", "7.77236e-6", "remove"],
    ]
    assert ran.err.splitlines() == [f"wrote {table}", f"wrote {picture}"]
    exact = float(evr("estimate", *GAUSSIANS, "--epsilon", 1, "-q").out)
    assert float(list(csv.DictReader(table.read_text().splitlines()))[1]["delta"]) == exact
    assert b"<svg" in picture.read_bytes()
    found = evr("estimate", *GAUSSIANS, "--epsilon", "2,1", "--json").json
    assert [row["epsilon"] for row in found["rows"]] == [2.0, 1.0]
    assert [row["delta"] for row in found["rows"]] == near([7.772362e-06, 6.396042e-03], rel=1e-6)


def test_every_so_many_steps(evr, tmp_path, mixed):
    picture = tmp_path / "online.pdf"
    ran = evr("estimate", *TRAINING, "--delta", 1e-9, "--every", 40, "--plot", picture)
    assert ran.rows[0] == ["steps", "epsilon"]
    assert [row[0] for row in ran.rows[1:]] == ["40", "80", "100"]
    assert ran.rows[-1] == ["100", "0.28122"]
    assert picture.read_bytes().startswith(b"%PDF")
    found = evr("estimate", *TRAINING, "--delta", 1e-9, "--every", 50, "--json").json
    assert found["rows"][-1]["epsilon"] == near(0.2812199407, rel=1e-6)
    steps = [row[0] for row in evr("estimate", mixed, "--every", 1, "--quiet").rows]
    assert steps == ["1", "2", "3", "4", "5", "6", "7"]


def test_many_settings(evr, tmp_path):
    table, picture = tmp_path / "sweep.csv", tmp_path / "sweep.png"
    ran = evr("estimate", *MANY, *SIZES, "--csv", table, "--plot", picture)
    assert ran.rows[0] == ["noise multiplier", "batch size", "epsilon", "direction"]
    assert [row[:2] for row in ran.rows[1:]] == [
        [noise, batch] for noise in ("0.8", "0.9", "1") for batch in ("128", "256")
    ]
    one = evr("estimate", "--noise-multiplier", 0.9, "--batch-size", 256, *SIZES, "-q").out
    assert float(ran.rows[4][2]) == near(float(one), rel=1e-5)
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert float(rows[3]["epsilon"]) == near(float(one), rel=1e-9)
    assert picture.read_bytes().startswith(b"\x89PNG")
    found = evr("estimate", *MANY, *SIZES, "--json").json
    assert len(found["rows"]) == 6
    assert found["given"]["dataset_size"] == 60000


def test_many_deltas_of_a_file(evr, mixed):
    rows = evr("estimate", mixed, "--delta", "1e-5,1e-6", "--quiet").rows
    assert [row[0] for row in rows] == ["1e-5", "1e-6"]
    assert float(rows[0][1]) < float(rows[1][1])


def test_twenty_settings_take_few_seconds(tmp_path):
    """Three processor seconds with the start of Python; eight are allowed on a busy machine."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    flags = ["--noise-multiplier", "0.8:2.6:0.2", "--batch-size", "128,256", *SIZES]
    found = run(
        [sys.executable, "-m", "evr", "estimate", *flags, "-q"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert len(found.stdout.splitlines()) == 20
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 8.0


def test_compare(evr, dpsgd):
    header, ours, *rows = evr("estimate", *dpsgd, "--epsilon", 0.5, "--compare").rows
    assert header == ["accountant", "kind", "delta", "off by", "time", "note"]
    assert ours[:4] == ["fft", "estimate", "2.0582412e-10", "+0.0e+00"]
    kinds = {row[0]: row[1] for row in rows}
    assert kinds["strict"] == kinds["pld"] == kinds["rdp"] == "upper bound"
    found = evr("estimate", *dpsgd, "--epsilon", 0.5, "--compare", "--json").json
    assert [one["accountant"] for one in found["accountants"]][:2] == ["fft", "strict"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--epsilon", "0:x:1"], "'x' is not a number"),
        (["--epsilon", "0:1"], "'0:1' is not a list"),
        (["--epsilon", "5:1:1"], "'5:1:1' is not a list like 0,1,2 nor a rising range"),
        (["--epsilon", "0:1:1e-9"], "has 1,000,000,001 points, more than 100,000"),
        (["--epsilon", "0,-1"], "epsilon=-1.0 is not in [0, 1e100]"),
        (["--epsilon", "0,1", "--plot", "curve.jpg"], "'curve.jpg' does not end in .png, .svg"),
        (["--epsilon", "1", "--plot", "curve.png"], "--plot and --csv need several answers"),
        (["--epsilon", "0,1", "--compare"], "--compare belongs to one training"),
        (["--delta", "1e-5", "--every", "0"], "every=0 is not an integer >= 1"),
        (["--delta", "1e-5", "--every", "x"], "'--every': 'x' is not a number."),
        (
            ["--delta", "1e-5", "--every", "1", "--method", "rdp"],
            "--every has methods of its own: leave out --method rdp",
        ),
        (["--epsilon", "1", "--every", "1"], "--every finds epsilon: give --delta, not --epsilon"),
        (["--epsilon", "1", "--both-sides", "--method", "rdp"], "--both-sides has methods of its own"),
        (["--epsilon", "1", "--compare", "--both-sides"], "--compare and --both-sides ask for different things"),
        (["--epsilon", "0,1", "--csv", "x.png", "--plot", "x.png"], "--plot='x.png' is that of --csv, too"),
    ],
)
def test_bad_input(refused, arguments, words):
    assert words in refused("estimate", *GAUSSIANS, *arguments)


def test_other_commands_take_one_value(refused):
    told = refused("certify", *MANY, *SIZES)
    assert "--noise-multiplier=0.8:1:0.1 has several values: give one (0.8 and 60000 have no comma)" in told
    thousands = ["--noise-multiplier", 1, "--dataset-size", "60,000", "--batch-size", 256, "--epochs", 1]
    assert "--dataset-size=60,000 has several values" in refused("certify", *thousands, "--delta", "1e-5")


def test_a_comma_is_no_decimal_point(evr):
    flags = ["--noise-multiplier", "0,8", "--sampling-probability", "0.1", "--steps", 3, "--delta", "1e-5"]
    ran = evr("estimate", *flags)
    assert [row[0] for row in ran.rows] == ["noise multiplier", "0", "8"]
    assert "note: --noise-multiplier: 0 and 8 are two numbers; a decimal has a point, as 0.8\n" in ran.err
    assert evr("estimate", *flags, "--quiet").err == ""


def test_a_setting_that_is_wrong_is_named(refused):
    flags = ["--noise-multiplier", "1,-1", "--sampling-probability", "0.1", "--steps", "3"]
    told = refused("estimate", *flags, "--delta", "1e-5")
    assert "--noise-multiplier=-1.0" in told


@pytest.mark.parametrize("option", ["--csv", "--plot"])
def test_a_folder_that_is_not_there(refused, tmp_path, option):
    path = tmp_path / "none" / "x.png"
    told = refused("estimate", *GAUSSIANS, "--epsilon", "0,1", option, path)
    assert f"{option}={str(path)!r} lies in a folder that does not exist" in told
