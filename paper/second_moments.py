"""Second moments of the paper's estimator and their bounds against ``theta``, rejections against
``m``, zeros against ``theta``.

The setting is printed as ``q = 1e-3, sigma = 0.6, epsilon = 1.5, k = 100`` with delta 7.7e-6, which
is delta at ``k = 1000``: a row of panels for each ``k``. ``theta = 0`` is plain sampling. (b)
follows the caption, ``delta_est = 0.8 delta`` and a claim ``delta_est / tau`` of 1e-5 where delta
is 7.706e-6, that is ``1e-5 / 7.706e-6 = 1.298`` times delta in both rows (``tau = 1e-5 /
delta_est``, as printed, is above 1).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import common
import evr
from evr._estimate.capped import capped_proposal
from evr._kernel.events import Composition
from evr._kernel.sampled.fixed import default_offset
from evr._kernel.sampled.proposals import Proposal
from evr._kernel.sampled.simple import SimpleProposal
from evr._kernel.verdict.settings import Claim
from single_tilt import SingleBounds, SingleProposal, best_slope
from theorems import Theorems, log_simple_moment

EPSILON, PROBABILITY, NOISE = 1.5, 1e-3, 0.6
COUNTS = (100, 1000)
THETAS = {"tiny": 3, "quick": 7, "full": 25}
# for each theta; a quarter of them at k = 1000
SAMPLES = {"tiny": 20_000, "quick": 30_000, "full": 200_000}
RUNS = {"tiny": 500, "quick": 2_000, "full": 20_000}  # of the verifier, for each m
SIZES = (10, 30, 100, 300, 1000)
SHARE, CLAIM = 0.8, 1e-5 / 7.706e-6


def sample(proposal: Proposal, count: int, seed: int) -> Any:
    generator = np.random.Generator(np.random.Philox(seed))
    size = 4096
    return np.concatenate([proposal.draw(generator, size).values(EPSILON) for _ in range(max(1, count // size))])


def moments(values: Any, delta: float) -> dict[str, Any]:
    """In units of delta."""
    x = values / delta
    return {
        "mean": x.mean(),
        "second_moment": np.mean(x**2),
        "zeros": np.mean(x == 0),
        "nonzero": int(np.count_nonzero(x)),
    }


def rejections(values: Any, delta: float, claim: Claim, runs: int) -> list[float]:
    """How often the mean of ``m`` samples, resampled from many, is not below ``claim - Delta``."""
    rng = np.random.default_rng(11)
    limit = claim.delta - default_offset(claim)
    rates = []
    for m in SIZES:
        parts = [
            values[rng.integers(values.size, size=(min(runs, 500), m))].mean(axis=1) for _ in range(max(1, runs // 500))
        ]
        rates.append(float(np.mean(np.concatenate(parts) > limit)))
    return rates


def at(count: int, size: str) -> dict[str, Any]:
    """One row of panels."""
    event = evr.dpsgd(noise_multiplier=NOISE, sampling_probability=PROBABILITY, steps=count)
    delta = evr.estimate_delta(event, EPSILON).value
    steps = Composition.of(event).simplified("remove")
    bounds = SingleBounds(1 / NOISE, PROBABILITY, count)
    theorems = Theorems(bounds)
    heuristic = 1 / (2 * NOISE**2) + math.log((math.exp(EPSILON) - (1 - PROBABILITY)) / PROBABILITY)
    stars = {
        "heuristic": heuristic,
        "least printed bound": theorems.best_slope(EPSILON, sharpened=False) / NOISE,
        "least of our bounds": best_slope(bounds, EPSILON) / NOISE,
    }
    thetas = np.linspace(0, 1.35 * heuristic, THETAS[size] + 1)[1:]
    samples = SAMPLES[size] // (1 if count == 100 else 4)

    def of_theta(theta: float) -> dict[str, float]:
        slope = theta * NOISE
        found = moments(sample(SingleProposal(steps, theta), samples, 5), delta)
        logs = {
            "printed_bound": theorems.log_second_moment(EPSILON, slope, sharpened=False),
            "sharpened_bound": theorems.log_second_moment(EPSILON, slope, sharpened=True),
            "our_bound": bounds.log_moment(EPSILON, 2.0, slope),
        }
        return {"theta": theta, **found, **{n: math.exp(min(v - 2 * math.log(delta), 600.0)) for n, v in logs.items()}}

    simple, capped = SimpleProposal(steps), capped_proposal(steps, EPSILON)
    claim = Claim(EPSILON, CLAIM * delta, SHARE / CLAIM)
    pools = {n: sample(SingleProposal(steps, theta), samples, 6) for n, theta in stars.items()}
    pools["our tilt"] = sample(capped, samples, 6)
    nu = of_theta(stars["least printed bound"])["printed_bound"]
    offset = default_offset(claim) / delta
    return {
        "delta": delta,
        "tau": claim.tau,
        "rows": [of_theta(float(theta)) for theta in thetas],
        "stars": {name: of_theta(theta) for name, theta in stars.items()},
        "simple": {
            "second_moment": moments(sample(simple, 10 * samples, 5), delta)["second_moment"],
            "paper's bound": math.exp(log_simple_moment(bounds, EPSILON, 2.0)) / delta**2,
        },
        "our tilt": {
            **moments(pools["our tilt"], delta),
            "proved": math.exp(capped.log_moment(EPSILON, 2.0)) / delta**2,
        },
        "rejections": {name: rejections(values, delta, claim, RUNS[size]) for name, values in pools.items()},
        "false_positive_bound": {
            "measured second moment, heuristic": [
                math.exp(-m * offset**2 / (2 * float(np.mean((pools["heuristic"] / delta) ** 2)))) for m in SIZES
            ],
            "printed bound": [math.exp(-m * offset**2 / (2 * nu)) for m in SIZES],
        },
    }


def compute(size: str) -> dict[str, Any]:
    counts = COUNTS[:1] if size == "tiny" else COUNTS
    return {
        "settings": {
            "sampling_probability": PROBABILITY,
            "noise_multiplier": NOISE,
            "epsilon": EPSILON,
            "delta_est": "0.8 delta",
            "claim": "1.298 delta",
        },
        "m": SIZES,
        **{f"k = {count}": at(count, size) for count in counts},
    }


def draw(result: dict[str, Any]) -> Figure:
    names = [f"k = {count}" for count in COUNTS if f"k = {count}" in result]
    figure, axes = common.panels(3, len(names), width=4.4, height=3.4)
    for row, name in enumerate(names):
        _draw_row(axes[3 * row : 3 * row + 3], name, result[name], result["m"])
    common.caption(
        figure,
        "Poisson-sampled Gaussian, q = 0.001, σ = 0.6, ε = 1.5; stars: θ of the heuristic (red), "
        "of the least printed bound (blue)",
    )
    return figure


def _draw_row(axes: list[Any], name: str, found: dict[str, Any], sizes: list[int]) -> None:
    a, b, c = axes
    rows, stars = found["rows"], found["stars"]
    theta = [r["theta"] for r in rows]
    red, blue = stars["heuristic"], stars["least printed bound"]
    for label, key, style in (
        ("paper's bound", "printed_bound", "GDP"),
        ("sharpened", "sharpened_bound", "FFT estimate"),
        ("by the greatest step (ours)", "our_bound", "ours"),
        ("measured", "second_moment", "MC"),
    ):
        # with fewer it says nothing
        shown = [r for r in rows if key != "second_moment" or r["nonzero"] >= 50]
        common.line(a, label, [r["theta"] for r in shown], [r[key] for r in shown], style=style, marker=None)
    a.plot([red["theta"]], [red["second_moment"]], "*", color="#cc0000", markersize=12, zorder=5)
    a.plot([blue["theta"]], [blue["printed_bound"]], "*", color="#0033cc", markersize=12, zorder=5)
    a.axhline(
        found["our tilt"]["second_moment"],
        color=common.BLACK,
        linewidth=1,
        linestyle=(0, (2, 2)),
        label="our tilt, measured",
    )
    a.plot([0], [found["simple"]["paper's bound"]], "D", color=common.PINK, markersize=5, clip_on=False)
    a.plot([0], [found["simple"]["second_moment"]], "D", color=common.ORANGE, markersize=5, clip_on=False)
    top = 1e3 * max(found["simple"]["paper's bound"], blue["printed_bound"])
    a.set(
        yscale="log",
        xlabel="θ (0: plain sampling, ◆)",
        ylabel="E[X²] / δ²",
        title=f"{name}, δ = {found['delta']:.3g}: second moment",
        xlim=(0, None),
        ylim=(1, 1e3 * top),
    )
    a.legend(loc="upper right", ncols=2, fontsize=7.5)
    looks = {"heuristic": ("#cc0000", "-"), "least printed bound": ("#0033cc", "-"), "our tilt": (common.BLACK, "-")}
    for label, (colour, dashes) in looks.items():
        common.line(b, label, sizes, found["rejections"][label], style="MC", color=colour, linestyle=dashes)
    common.line(
        b,
        "false-positive bound, E[X²] measured",
        sizes,
        found["false_positive_bound"]["measured second moment, heuristic"],
        style="moments accountant",
        marker=None,
    )
    common.line(
        b,
        "false-positive bound, paper's ν",
        sizes,
        found["false_positive_bound"]["printed bound"],
        style="GDP",
        marker=None,
    )
    b.set(
        xscale="log",
        yscale="log",
        ylim=(3e-5, 30),
        xlabel="m",
        ylabel="Pr[reject]",
        title="rejection of an estimate 0.8 δ, claim 1.298 δ",
    )
    b.legend(loc="lower left", fontsize=7.5)
    common.line(c, "Pr[X = 0]", theta, [r["zeros"] for r in rows], style="MC", marker=None)
    for star, colour in ((red, "#cc0000"), (blue, "#0033cc")):
        c.plot([star["theta"]], [star["zeros"]], "*", color=colour, markersize=12, zorder=5)
    c.axhline(0.5, color=common.BLACK, linewidth=0.8)
    c.set(xlabel="θ", ylabel="Pr[X = 0]", ylim=(0, 1.02), xlim=(0, None), title="zeros")


if __name__ == "__main__":
    common.run("second_moments", compute, draw)
