"""The scripts of ``paper/`` at their smallest size: each runs, saves, and says what it should."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from helpers import near

PAPER = Path(__file__).parents[2] / "paper"
Run = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="module")
def script() -> Iterator[Callable[[str], ModuleType]]:
    """Imports from ``paper/``, undone at the end: its modules have everyday names."""
    before = set(sys.modules)
    sys.path.insert(0, str(PAPER))
    yield importlib.import_module
    sys.path.remove(str(PAPER))
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "") or "").startswith(str(PAPER)):
            del sys.modules[name]


@pytest.fixture(scope="module")
def run(script: Callable[[str], ModuleType], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Compute, save, draw, and return what was saved."""

    def computed(name: str) -> dict[str, Any]:
        module, common = script(name), script("common")
        out = tmp_path_factory.mktemp(name)
        common.write(out, name, {"computed_on": common.computed_on(), **module.compute("tiny")})
        saved: dict[str, Any] = json.loads((out / f"{name}.json").read_text())
        common.save_picture(common.picture(module.draw, saved), out / f"{name}.png")
        assert 5_000 < (out / f"{name}.png").stat().st_size < 150_000
        return saved

    return computed


def test_gaussian_composition(run: Run) -> None:
    found = run("gaussian_composition")
    deltas = {name: np.array(values, float) for name, values in found["deltas"].items()}
    exact = deltas["exact"]
    assert exact[[0, -1]] == near([1e-2, 1e-20], rel=1e-9)
    assert deltas["ours"] == near(exact, rel=1e-9)
    assert deltas["Edgeworth"] == near(exact, rel=1e-6)
    ordinary = exact > 1e-8
    assert deltas["FFT estimate"][ordinary] == near(exact[ordinary], rel=1e-5)
    # The FFT bound stops falling at its delta_error; its estimate is noise there, and may be
    # negative.
    assert deltas["FFT upper bound"][-1] == near(1e-10, rel=1e-3)
    assert abs(deltas["FFT estimate"][-1] / exact[-1] - 1) > 1
    for name in ("FFT upper bound", "Edgeworth upper bound", "moments accountant"):
        assert np.all(deltas[name] >= exact)
    assert found["edgeworth_bound_over_exact"][0] > 5


@pytest.mark.full
def test_evr_vs_bound(run: Run) -> None:
    found = run("evr_vs_bound")
    exact = np.array(found["deltas"]["exact"])
    assert np.array(found["deltas"]["EVR with ours, tau = 0.9"]) == near(exact / 0.9, rel=1e-9)
    assert all(row["accepted"] for row in found["gaussian"]["sequential"] + found["sampled"]["sequential"])
    assert found["sampled"]["delta"] == near(6.7934759e-7, rel=1e-7)
    fixed = {name: samples[-1] for name, samples in found["sampled"]["fixed"].items()}
    assert fixed["paper's bound"] == near(3.29e11, rel=0.01)
    assert fixed["paper's bound, sharpened"] == near(9.14e7, rel=0.01)
    assert found["sampled"]["sequential"][-1]["samples"] < fixed["our tilt and bound"] / 10


@pytest.mark.full
def test_utility(run: Run) -> None:
    found = run("utility")
    for name, delta_epsilon in (("DP-GD", 0.9994), ("DP-SGD", 1.80156)):
        epsilons = found[name]["epsilons"]
        exact, ours, bound = (np.array(epsilons[k], float) for k in ("exact", "EVR", "FFT upper bound"))
        assert exact[-1] == near(delta_epsilon, rel=1e-4)
        assert np.all((ours > exact) & (ours < 1.012 * exact))
        assert np.all(bound > exact + 0.095)  # eps_error = 0.1
        errors = found[name]["test_error"]
        assert errors[-1] < 0.22
        assert errors[-1] < errors[0] - 0.03
        assert all(row["accepted"] for row in found[name]["verified"])
        assert all(row["error_evr"] <= row["error_bound"] + 0.03 for row in found[name]["at_equal_epsilon"])
    assert found["DP-SGD"]["epsilons"]["FFT upper bound, delta_error = 1e-10"] == "inf"


@pytest.mark.full
def test_second_moments(run: Run) -> None:
    found = run("second_moments")["k = 100"]
    assert found["delta"] == near(6.7934759e-7, rel=1e-7)
    heuristic, printed = found["stars"]["heuristic"], found["stars"]["least printed bound"]
    assert heuristic["mean"] == near(1, abs=0.12)
    assert heuristic["second_moment"] == near(8.5, rel=0.3)
    assert heuristic["zeros"] == near(0.08, abs=0.02)
    assert heuristic["sharpened_bound"] == near(4.63e3, rel=0.02)
    assert printed["printed_bound"] == near(6.4e6, rel=0.05)
    assert printed["zeros"] > 0.98
    assert found["our tilt"]["second_moment"] == near(3.65, rel=0.15)
    assert found["our tilt"]["proved"] == near(19.6, rel=0.05)
    for row in found["rows"]:
        assert row["our_bound"] < row["sharpened_bound"] < row["printed_bound"]


def test_delta_of_the_second_moment_figure_is_that_of_a_thousand_steps(script: Callable[[str], ModuleType]) -> None:
    rows = {(slip.where, slip.quantity): slip for slip in script("slips").slips(20_000)}
    assert rows["figure: delta at k = 100", "delta"].corrected == near(6.79e-7, rel=1e-3)
    assert rows["figure: delta at k = 1000", "delta"].corrected == near(7.706e-6, rel=1e-4)
    assert rows["tilted mixture's weights", "E[X]/delta"].printed == near(2.1, rel=0.1)
    remark = rows["remark: e^{-lambda eps} outside", "bound/delta^2"]
    assert remark.printed < remark.truth < remark.corrected


def test_other_slips(script: Callable[[str], ModuleType]) -> None:
    rows = {slip.where: slip for slip in script("slips").other_slips(20_000)}
    assert rows["MC accountant: unweighted mean"].printed > 1e5
    assert rows["MC accountant: unweighted mean"].corrected == near(1, abs=0.1)
    assert rows["utility proof: coupling term"].corrected == near(0.698, rel=1e-3)
    assert rows["rejections' figure: tau inverted"].corrected == near(0.6165, rel=1e-3)
    assert rows["verification in < 1e-10 s"].truth > 1e-3


@pytest.mark.full
def test_steps_to_epsilon(run: Run) -> None:
    found = run("steps_to_epsilon")
    assert found["epsilons"]["exact"][-1] == near(0.2691256, rel=1e-6)  # 200 steps
    # eps_error = 0.1, and a little for delta_error
    assert 0.1 / 0.2692 < found["excess_of_fft_bound"][-1] < 0.38
    assert 0 < found["excess_of_evr"]["tau = 0.9"][-1] < 0.01
    assert all(row["accepted"] for row in found["verified"])


@pytest.mark.full
def test_throughput(run: Run) -> None:
    [row] = run("throughput")["targets"]
    assert row["noise_multiplier"] == near(0.65052, rel=1e-3)
    assert row["delta"] == near(0.77e-6, rel=1e-4)
    assert row["fixed_samples"]["paper's bound"] == near(7.68e10, rel=0.02)
    assert row["fixed_samples"]["paper's tilt, our bound"] == near(4.42e4, rel=0.02)
    assert row["sequential"]["accepted"]
    assert row["sequential"]["samples"] < 20_000


@pytest.mark.full
def test_online(run: Run) -> None:
    [found] = run("online")["online"].values()
    worst = found["worst_relative_error"]
    assert worst["ours"] < 1e-7
    assert worst["MC"] < 0.02
    assert worst["FFT estimate"] < 0.02
    assert worst["GDP"] > 0.3


@pytest.mark.full
def test_offline(run: Run) -> None:
    found = run("offline")
    extreme = found["extreme"]
    assert extreme["delta"]["exact"] == near([6.7808500e-11], rel=1e-6)
    for part in ("delta", "epsilon"):
        errors = {name: values[0] for name, values in extreme[part]["relative_errors"].items()}
        assert errors["MC"] < 0.05
        assert errors["GDP"] > 0.5
        assert errors["Edgeworth"] > 0.5
    rows = {row["method"]: row for row in found["runtimes"]}
    assert rows["FFT"]["relative_error"] < 1e-4
    assert rows["GDP"]["relative_error"] > 0.5
    assert rows["ours, verified at tau = 0.9"]["accepted"]


def test_the_stored_truth_is_ours() -> None:
    """``truth.json`` holds high-precision values; ``fft`` still agrees with a few of the quick
    ones.
    """
    import evr

    stored = json.loads((PAPER / "results" / "truth.json").read_text())
    assert stored["worst_relative_difference"] < 1e-8
    figures = {name for point in stored["points"] for name in point["figure"].split(", ")}
    assert len(figures) == 8
    for point in stored["points"]:
        event = evr.dpsgd(
            noise_multiplier=point["noise"], sampling_probability=point["probability"], steps=point["steps"]
        )
        ours = evr.estimate_delta(event, point["epsilon"], direction="remove")
        assert ours.value == near(point["reference"], rel=1e-8)  # 4e-9 at the least delta, 5.5e-14
        rounded = 1e-9 * point["reference"]  # ten digits are stored
        assert abs(ours.value - point["reference"]) <= ours.error + rounded
