"""EVR against the upper bound, in the first figure's setting: what is guaranteed, and what
verifying it costs.

(a) The guarantee ``delta_est / tau``, ``delta_est`` the FFT estimate. (b) Verification time against
``tau`` in processor seconds, where ``delta = 1e-10``: the sequential verifier measured; the fixed
one (the paper's Algorithm 2, its ``Delta``) from its number of samples and the sampler's measured
speed. (c) Samples against ``tau`` at a Poisson-sampled setting, to which the paper's importance
sampling applies: the number that its bounds ask for, slips corrected, at the best ``theta`` of
each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

import common
import evr
from evr._estimate.capped import capped_proposal
from evr._estimate.clipping import block_size
from evr._kernel.events import Composition
from evr._kernel.sampled.fixed import plan_fixed
from evr._kernel.sampled.simple import SimpleProposal
from evr._kernel.verdict.settings import Claim
from gaussian_composition import EVENT, NOISE, STEPS, epsilons
from single_tilt import SingleBounds, SingleProposal, best_slope
from theorems import Theorems

SHOWN = (0.5, 0.9, 0.99)
TAUS = {"tiny": (0.8, 0.9), "quick": (0.9, 0.95, 0.98), "full": (0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999)}
# the greatest tau run at the sampled setting
SAMPLED_MOST = {"tiny": 0.9, "quick": 0.95, "full": 0.99}
DELTA = 1e-10
SAMPLED = {"epsilon": 1.5, "steps": 100, "probability": 1e-3, "noise": 0.6}


def fixed_samples(claim: Claim, log_second_moment: float) -> int:
    """The paper's number of samples for a bound on the second moment: one attempt, false-positive
    rate ``delta_est / tau``.
    """
    return plan_fixed(claim, log_second_moment, attempt=None).samples


def speed(proposal: Any, seconds: float) -> float:
    """Samples in a processor second."""
    generator = np.random.Generator(np.random.Philox(7))
    drawn, spent = 0, 0.0
    while spent < seconds:
        _, more = common.timed(lambda: proposal.draw(generator, block_size(proposal)))
        drawn, spent = drawn + block_size(proposal), spent + more
    return drawn / spent


def gaussian(size: str) -> dict[str, Any]:
    """Panel (b)."""
    epsilon = evr.estimate_epsilon(EVENT, DELTA).value
    steps = Composition.of(EVENT).simplified("remove")
    capped, simple = capped_proposal(steps, epsilon), SimpleProposal(steps)
    claims = [Claim(epsilon, DELTA / tau, tau) for tau in TAUS[size]]
    return {
        "epsilon": epsilon,
        "delta": DELTA,
        "sequential": [common.attempt(EVENT, epsilon=epsilon, delta=DELTA / tau, tau=tau) for tau in TAUS[size]],
        "fixed, our second moment": [fixed_samples(c, capped.log_moment(epsilon, 2.0)) for c in claims],
        "fixed, simple Monte Carlo": [fixed_samples(c, simple.log_moment(epsilon, 2.0)) for c in claims],
        "samples_per_processor_second": {"capped": speed(capped, 0.5), "simple": speed(simple, 0.5)},
    }


def sampled(size: str) -> dict[str, Any]:
    """Panel (c)."""
    epsilon = SAMPLED["epsilon"]
    event = evr.dpsgd(
        noise_multiplier=SAMPLED["noise"], sampling_probability=SAMPLED["probability"], steps=int(SAMPLED["steps"])
    )
    delta = evr.estimate_delta(event, epsilon).value
    steps = Composition.of(event).simplified("remove")
    bounds = SingleBounds(1 / SAMPLED["noise"], SAMPLED["probability"], int(SAMPLED["steps"]))
    moments = {
        "paper's bound": Theorems(bounds).least(epsilon, sharpened=False),
        "paper's bound, sharpened": Theorems(bounds).least(epsilon, sharpened=True),
        "paper's tilt, our bound": bounds.log_moment(epsilon, 2.0, best_slope(bounds, epsilon)),
        "our tilt and bound": capped_proposal(steps, epsilon).log_moment(epsilon, 2.0),
    }
    claims = [Claim(epsilon, delta / tau, tau) for tau in TAUS[size]]
    theta = best_slope(bounds, epsilon) / SAMPLED["noise"]
    return {
        **SAMPLED,
        "delta": delta,
        "log_second_moment_over_delta_squared": {name: m - 2 * np.log(delta) for name, m in moments.items()},
        "fixed": {name: [fixed_samples(c, m) for c in claims] for name, m in moments.items()},
        "sequential": [
            common.attempt(event, epsilon=epsilon, delta=delta / tau, tau=tau)
            for tau in TAUS[size]
            if tau <= SAMPLED_MOST[size]
        ],
        "samples_per_processor_second": {
            "paper's tilt": speed(SingleProposal(steps, theta), 0.5),
            "our tilt": speed(capped_proposal(steps, epsilon), 0.5),
        },
    }


def compute(size: str) -> dict[str, Any]:
    at = epsilons(size)
    prv = common.Prv(NOISE, 1.0, STEPS)
    bounds = [prv.delta(e) for e in at]
    exact = evr.privacy_curve(EVENT, at).deltas
    return {
        "settings": {
            "noise_multiplier": NOISE,
            "steps": STEPS,
            "rho": "(1 + tau) / 2",
            "Delta": "0.4 (1/tau - 1/rho) delta_est",
        },
        "epsilons": at,
        "deltas": {
            "exact": exact,
            "FFT upper bound": [b.upper for b in bounds],
            **{f"EVR, tau = {tau:g}": [b.estimate / tau for b in bounds] for tau in SHOWN},
            **{f"EVR with ours, tau = {tau:g}": exact / tau for tau in SHOWN},
        },
        "taus": TAUS[size],
        "gaussian": gaussian(size),
        "sampled": sampled(size),
    }


def draw(result: dict[str, Any]) -> Figure:
    figure, (a, b, c) = common.panels(3, width=4.4)
    common.line(a, "exact", result["epsilons"], result["deltas"]["exact"])
    common.line(a, "FFT upper bound", result["epsilons"], result["deltas"]["FFT upper bound"])
    colours = (common.PINK, common.ORANGE, common.BLUE)
    for tau, colour in zip(SHOWN, colours, strict=True):
        guarantee = result["deltas"][f"EVR with ours, tau = {tau:g}"]
        common.line(a, f"EVR, τ = {tau:g}", result["epsilons"], guarantee, style="ours", color=colour, linewidth=1.4)
    a.set(yscale="log", ylim=(3e-21, 1), xlabel="ε", ylabel="δ(ε)", title="(a) what is guaranteed")
    a.legend()

    gap = 1 - np.array(result["taus"])
    rates = result["gaussian"]["samples_per_processor_second"]
    common.line(
        b,
        "sequential, measured",
        gap,
        [r["processor_seconds"] for r in result["gaussian"]["sequential"]],
        style="ours",
        marker="o",
    )
    common.line(
        b,
        "fixed m, our second moment",
        gap,
        common.numbers(result["gaussian"]["fixed, our second moment"]) / rates["capped"],
        style="MC",
    )
    common.line(
        b,
        "fixed m, simple Monte Carlo",
        gap,
        common.numbers(result["gaussian"]["fixed, simple Monte Carlo"]) / rates["simple"],
        style="moments accountant",
    )
    b.axhline(120, color=common.BLACK, linewidth=0.8)
    b.text(gap.max(), 120, "2 minutes", va="bottom", fontsize=8)
    _tau_axis(b, result["taus"])
    b.set(yscale="log", ylim=(0.05, 1e16), ylabel="processor seconds", title=f"(b) verification time, δ = {DELTA:g}")
    b.legend(loc="upper right")

    looks = {
        "paper's bound": "GDP",
        "paper's bound, sharpened": "FFT estimate",
        "paper's tilt, our bound": "MC, paper's tilt",
        "our tilt and bound": "MC",
    }
    for name, samples in result["sampled"]["fixed"].items():
        common.line(c, f"fixed m: {name}", gap, samples, style=looks[name])
    rows = result["sampled"]["sequential"]
    common.line(
        c, "sequential, measured", [1 - r["tau"] for r in rows], [r["samples"] for r in rows], style="ours", marker="o"
    )
    _tau_axis(c, result["taus"])
    s = result["sampled"]
    c.set(yscale="log", ylabel="samples", title="(c) samples, Poisson-sampled Gaussian")
    c.set_ylim(top=c.get_ylim()[1] * 1e7)
    c.legend(loc="upper right")
    common.caption(
        figure,
        "(a), (b): 1200 Gaussian mechanisms, noise multiplier 70.   (c): q = "
        f"{s['probability']:g}, σ = {s['noise']:g}, k = {s['steps']:g}, ε = {s['epsilon']:g}, δ = "
        f"{s['delta']:.3g}",
    )
    return figure


def _tau_axis(axes: Any, taus: Any) -> None:
    axes.set_xscale("log")
    axes.set_xticks([1 - t for t in taus], [f"{t:g}" for t in taus], rotation=45 if len(taus) > 4 else 0)
    axes.minorticks_off()
    axes.invert_xaxis()
    axes.set_xlabel("τ")


if __name__ == "__main__":
    common.run("evr_vs_bound", compute, draw)
