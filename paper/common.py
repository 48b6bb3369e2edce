"""What the scripts of this folder share: their arguments, how results are saved, and how pictures
look.

A script has ``compute(size)``, which returns numbers that JSON can hold, and ``draw(result)``,
which makes a figure of them; ``run`` does the rest. Sizes are ``"tiny"`` (tests), ``"quick"``
(``make paper``) and ``"full"`` (``make paper-full``).
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import matplotlib
import numpy as np
from matplotlib.figure import Figure

import evr
from evr._basics import atomic
from evr._report.plots import LOOKS, Look, render

HERE = Path(__file__).parent
T = TypeVar("T")

EPS_ERROR, DELTA_ERROR = 1e-3, 1e-10
"""Those of prv-accountant in the paper's Figures 1 and 3, and offline."""

BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, BLACK = (look.colour for look in LOOKS)
STYLES = {
    "exact": Look(BLACK, "-", 3.2),
    "ours": Look(BLUE, "-", 1.8),
    "MC": Look(ORANGE, "-", 1.5, "o"),
    "MC, paper's tilt": Look(YELLOW, "-", 1.5, "s"),
    "FFT estimate": Look(GREEN, (0, (5, 2))),
    "FFT estimate, eps_error = 0.1": Look("#117733", "-", 1.2),
    "FFT upper bound": Look(GREEN, (0, (1, 1.2)), 2.4),
    "GDP": Look(PINK, (0, (5, 1.5, 1, 1.5))),
    "Edgeworth": Look(SKY, (0, (8, 2))),
    "Edgeworth upper bound": Look(SKY, (0, (1, 1.2)), 2.4),
    "moments accountant": Look("#777777", (0, (3, 1, 1, 1, 1, 1))),
    "AFA": Look("#882255", (0, (2, 2))),
}
"""One look for each method, in every picture."""

_RC = {
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.edgecolor": "none",
    "legend.framealpha": 0.85,
    "legend.fontsize": 8.5,
}


# --- running and saving ---------------------------------------------------------------------------


def run(name: str, compute: Callable[[str], dict[str, Any]], draw: Callable[[dict[str, Any]], Figure]) -> None:
    """The command line of a script: compute, then save ``name.json`` and ``name.png``."""
    parser = argparse.ArgumentParser(prog=name)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="size", action="store_const", const="quick", help="small (the default)")
    size.add_argument("--full", dest="size", action="store_const", const="full", help="the size shown in README.md")
    size.add_argument(
        "--redraw", dest="size", action="store_const", const="redraw", help="the picture of saved numbers"
    )
    parser.add_argument("--out", type=Path, help="folder (paper/out, or paper/results with --full or --redraw)")
    arguments = parser.parse_args()
    chosen = arguments.size or "quick"
    out = arguments.out or HERE / ("out" if chosen == "quick" else "results")
    if chosen == "redraw":
        save_picture(picture(draw, json.loads((out / f"{name}.json").read_text())), out / f"{name}.png")
        return
    start = time.perf_counter()
    result = compute(chosen)
    result = {"size": chosen, "seconds": round(time.perf_counter() - start, 1), "computed_on": computed_on(), **result}
    write(out, name, result)
    save_picture(picture(draw, json.loads((out / f"{name}.json").read_text())), out / f"{name}.png")
    print(f"{name} ({chosen}): {result['seconds']:.0f} s -> {os.path.relpath(out)}/{name}.json, .png", flush=True)


def computed_on() -> dict[str, Any]:
    """What timings depend on."""
    packages = {name: version(name) for name in ("numpy", "scipy", "prv-accountant")}
    return {
        "processors": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        **packages,
    }


def write(out: Path, name: str, result: Mapping[str, Any]) -> None:
    """``name.json``: ten digits, arrays on one line, what is not finite as a string."""
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(_plain(result), indent=1)
    atomic.write_text(out / f"{name}.json", _lists_on_a_line(text) + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(f"{float(value):.10g}") if math.isfinite(value) else str(float(value))
    return value.item() if isinstance(value, np.generic) else value


def _lists_on_a_line(text: str) -> str:
    lines: list[str] = []
    depth = 0
    for line in text.splitlines():
        if depth and lines:
            lines[-1] += line.strip() + (" " if line.endswith(",") else "")
        else:
            lines.append(line)
        stripped = line.strip()
        depth += stripped.endswith("[") - (stripped.startswith("]") and depth > 0)
    return "\n".join(lines)


def numbers(values: Iterable[Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Values as saved, ``"inf"`` and ``"nan"`` included, as an array."""
    return np.array([float(v) for v in values])


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """The result and the processor seconds it took, all threads together: they depend little on
    what else is running.
    """
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def attempt(event: Any, *, epsilon: float, delta: float, tau: float) -> dict[str, Any]:
    """One sequential verification of a claim: what it says and what it cost."""
    found, seconds = timed(lambda: evr.verify(event, epsilon=epsilon, delta=delta, tau=tau, seed=2023))
    return {
        "tau": tau,
        "epsilon": epsilon,
        "accepted": found.accepted,
        "samples": found.samples,
        "processor_seconds": seconds,
    }


# --- the accountant of Gopi et al. ----------------------------------------------------------------


class Bounds(NamedTuple):
    """A peer's answer."""

    lower: float
    estimate: float
    upper: float


class Prv:
    """prv-accountant, made once for many questions; the remove direction only, as it is.

    ``steps`` is the most that will be asked for; its grid and its error bounds depend on it.
    """

    def __init__(
        self,
        noise: float,
        probability: float,
        steps: int,
        eps_error: float = EPS_ERROR,
        delta_error: float = DELTA_ERROR,
    ) -> None:
        import prv_accountant as prv

        self.eps_error, self.delta_error, self.steps = eps_error, delta_error, steps
        self._composed: dict[int, Any] = {}
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            variable = (
                prv.GaussianMechanism(noise)
                if probability == 1
                else prv.PoissonSubsampledGaussianMechanism(noise_multiplier=noise, sampling_probability=probability)
            )
            self._accountant = prv.PRVAccountant(
                prvs=[variable], max_self_compositions=[steps], eps_error=eps_error, delta_error=delta_error
            )
        self.seconds_to_start = time.perf_counter() - start

    def _composition(self, steps: int) -> Any:
        if steps not in self._composed:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._composed = {steps: self._accountant.compute_composition([steps])}
        return self._composed[steps]

    def delta(self, epsilon: float, steps: int | None = None) -> Bounds:
        """delta at epsilon, as its ``compute_delta`` has it."""
        law = self._composition(steps or self.steps)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lower, estimate, upper = (
                float(law.compute_delta_estimate(epsilon + shift)) for shift in (self.eps_error, 0.0, -self.eps_error)
            )
        return Bounds(lower - self.delta_error, estimate, upper + self.delta_error)

    def epsilon(self, delta: float, steps: int | None = None) -> Bounds:
        """epsilon at delta; where it refuses (delta below its errors) the estimate is searched for
        and there is no bound.
        """
        law = self._composition(steps or self.steps)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return Bounds(*(float(v) for v in law.compute_epsilon(delta, self.delta_error, self.eps_error)))
            except (ValueError, RuntimeError):
                pass
            try:  # its estimate is the same function without the errors
                return Bounds(0.0, float(law.compute_epsilon(delta, 0.0, self.eps_error)[1]), math.inf)
            except (ValueError, RuntimeError):
                return Bounds(0.0, self._estimate(law, delta), math.inf)

    @staticmethod
    def _estimate(law: Any, delta: float) -> float:
        """The root of its own estimate of delta, by bisection."""
        low, high = 0.0, float(law.domain.t_max())
        for _ in range(26):
            middle = (low + high) / 2
            low, high = (middle, high) if float(law.compute_delta_estimate(middle)) > delta else (low, middle)
        return (low + high) / 2


# --- pictures -------------------------------------------------------------------------------------


def picture(draw: Callable[[dict[str, Any]], Figure], result: dict[str, Any]) -> Figure:
    """Draw in the house style."""
    with matplotlib.rc_context(_RC):
        return draw(result)


def save_picture(figure: Figure, path: Path) -> None:
    """As PNG, in 64 colours: a third of the size, and no difference to see."""
    from PIL import Image

    drawn = Image.open(io.BytesIO(render(figure, "png"))).convert("RGB")
    buffer = io.BytesIO()
    drawn.quantize(64, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
    atomic.write_bytes(path, buffer.getvalue())


def panels(columns: int, rows: int = 1, *, width: float = 4.6, height: float = 3.5) -> tuple[Figure, list[Any]]:
    """A figure of its own and its axes, row by row."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, [figure.add_subplot(rows, columns, i + 1) for i in range(rows * columns)]


def line(axes: Any, name: str, x: Any, y: Any, *, style: str | None = None, **more: Any) -> None:
    """A method's line in its look; what is not positive on a logarithmic axis is left out by
    matplotlib.
    """
    look = STYLES[style or name]
    options: dict[str, Any] = {"color": look.colour, "linestyle": look.dashes, "linewidth": look.width, "label": name}
    options |= {"marker": look.marker, "markersize": 3.5} | more
    axes.plot(numbers(x), numbers(y), **options)


def band(axes: Any, name: str, x: Any, runs: Any) -> None:
    """From the least to the greatest of several runs, in the method's colour."""
    values = np.maximum(np.array([numbers(run) for run in runs]), 1e-12)
    axes.fill_between(
        numbers(x), values.min(axis=0), values.max(axis=0), color=STYLES[name].colour, alpha=0.2, linewidth=0
    )


def caption(figure: Figure, text: str) -> None:
    """The settings, above the panels."""
    figure.suptitle(text, x=0.01, ha="left", fontsize=10)
