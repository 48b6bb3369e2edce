"""The ground truth of the pictures, ``evr``'s ``fft``, against high-precision integrals at points
of each figure.

Equal Gaussian steps: the closed form with 50 digits (mpmath). Poisson-sampled Gaussian steps: the
contour integral of ``tests/estimation/make_references.py``, by mpmath with 30 digits, or, where
that takes hours (small epsilon), by 80-bit floats with two contours that have to agree. Writes
``truth.json``; some ten minutes.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import mpmath as mp

import common
import evr


class Point(NamedTuple):
    """A point of a figure; ``probability = 1`` is the Gaussian mechanism."""

    figure: str
    epsilon: float
    steps: int
    probability: float
    noise: float
    by: str = "mpmath"


SGD = 4096 / 50000
POINTS = (
    Point("gaussian_composition, evr_vs_bound", 1.0, 1200, 1.0, 70.0),
    Point("gaussian_composition, evr_vs_bound", 2.5, 1200, 1.0, 70.0),
    Point("gaussian_composition, evr_vs_bound", 4.5, 1200, 1.0, 70.0),
    Point("utility", 0.6, 60, 1.0, 28.914),
    Point("utility", 1.8, 360, SGD, 5.971),
    Point("utility", 1.0, 120, SGD, 5.971),
    Point("second_moments", 1.5, 100, 1e-3, 0.6),
    Point("second_moments, throughput", 1.5, 1000, 1e-3, 0.6),
    Point("steps_to_epsilon", 0.77, 1500, 0.01, 2.0),
    Point("steps_to_epsilon", 0.5, 500, 0.01, 2.0),
    Point("online", 0.41, 1000, 1e-3, 1.0, "80-bit floats"),
    Point("online", 0.28, 100, 1e-3, 1.0, "80-bit floats"),
    Point("online, offline", 2.2, 1000, 1e-3, 0.5),
    Point("online", 5.0, 500, 1e-3, 0.5),
    Point("offline", 1.5, 1000, 1e-3, 0.5),
    Point("offline", 1.0, 100, 1e-5, 0.5),
    Point("offline", 3.0, 100, 1e-5, 0.5),
)


def contours() -> ModuleType:
    """The module that makes the test suite's references."""
    path = Path(__file__).parents[1] / "tests" / "estimation" / "make_references.py"
    spec = importlib.util.spec_from_file_location("make_references", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_references"] = module
    spec.loader.exec_module(module)
    return module


def gaussian_delta(noise: float, steps: int, epsilon: float) -> float:
    """delta of equal Gaussian steps, which are one Gaussian step: 50 digits."""
    with mp.workdps(50):
        mu, eps = mp.sqrt(steps) / mp.mpf(noise), mp.mpf(epsilon)
        return float(mp.ncdf(mu / 2 - eps / mu) - mp.exp(eps) * mp.ncdf(-mu / 2 - eps / mu))


def reference(point: Point) -> tuple[float, str]:
    """High-precision delta of the remove direction, and how it was computed."""
    if point.probability == 1:
        return gaussian_delta(point.noise, point.steps, point.epsilon), "mpmath, closed form"
    references = contours()
    setting = references.Setting(point.epsilon, point.steps, point.probability, point.noise)
    if point.by == "mpmath":
        return float(references.by_mpmath(setting, 30)), "mpmath, contour integral"
    value, other = (references.by_long_doubles(setting), references.by_long_doubles(setting, references.OTHER))
    assert abs(other / value - 1) < 1e-9, point
    return value, "80-bit floats, two contours"


def check(point: Point) -> dict[str, Any]:
    """The reference and ours."""
    event = evr.dpsgd(noise_multiplier=point.noise, sampling_probability=point.probability, steps=point.steps)
    (exact, by), seconds = common.timed(lambda: reference(point))
    ours = evr.estimate_delta(event, point.epsilon, direction="remove")
    difference = ours.value / exact - 1
    print(f"{point.figure:36} {exact:.10e} {difference:+.1e} {seconds:6.1f} s", flush=True)
    return {
        **point._asdict(),
        "by": by,
        "reference": float(exact),
        "fft": ours.value,
        "relative_difference": difference,
        "fft_says": (ours.error or 0.0) / ours.value,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=common.HERE / "results")
    out = parser.parse_args().out
    rows = [check(point) for point in POINTS]
    worst = max(abs(row["relative_difference"]) for row in rows)
    common.write(out, "truth", {"worst_relative_difference": worst, "points": rows})
    print(f"worst relative difference {worst:.1e}")
    if not worst < 1e-6 or math.isnan(worst):
        raise SystemExit("the ground truth is not what the pictures take it for")


if __name__ == "__main__":
    main()
