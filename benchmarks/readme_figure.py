"""The picture of the README: the privacy curve of 1200 Gaussian mechanisms with noise 70, exact,
ours and the peers'.

    python benchmarks/readme_figure.py            # rewrites docs/images/gaussian_curve.svg

prv-accountant's upper bound stops at its ``delta_error`` and dp_accounting's near 1e-15, where
rounding in an untilted convolution takes over; evr, tilted, follows the closed form as far down as
floats go.
"""

from __future__ import annotations

import argparse
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import evr
from evr._estimate import fft
from evr._estimate.closed_forms import pair_delta
from evr._kernel.pairs import Step
from evr._kernel.pairs.line.gaussian import GaussianPair
from evr._report import plots
from evr._report.plots import Look

NOISE, STEPS, FLOOR = 70.0, 1200, 1e-16
EVENT = evr.dpsgd(noise_multiplier=NOISE, sampling_probability=1.0, steps=STEPS)


def exact(epsilons: Any) -> Any:
    """The closed form: any number of Gaussian mechanisms is one."""
    pair = GaussianPair(math.sqrt(STEPS) / NOISE)
    return np.array([pair_delta(pair, float(epsilon)) for epsilon in epsilons])


def ours(epsilons: Any) -> Any:
    """By the transform itself. The library would fold the Gaussians into one, and be exact without
    it.
    """
    curve = fft.FftCurve((Step(GaussianPair(1 / NOISE), STEPS),))
    return np.array([curve.delta(float(epsilon)).value for epsilon in epsilons])


def by_prv(epsilons: Any) -> Any:
    import prv_accountant as prv

    eps_error, delta_error = 1e-3, 1e-10  # as Wang et al. (2023), Figure 1
    accountant = prv.PRVAccountant(
        prvs=[prv.GaussianMechanism(NOISE)], max_self_compositions=[STEPS], eps_error=eps_error, delta_error=delta_error
    )
    # once; its compute_delta would compose for every epsilon
    law = accountant.compute_composition([STEPS])
    return np.array([law.compute_delta_estimate(float(e) - eps_error) + delta_error for e in epsilons])


def by_pld(epsilons: Any) -> Any:
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant().compose(EVENT)
    return np.array([accountant.get_delta(float(epsilon)) for epsilon in epsilons])


def by_rdp(epsilons: Any) -> Any:
    return evr.privacy_curve(EVENT, epsilons, method="rdp").deltas


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    folder = Path(__file__).resolve().parent.parent / "docs" / "images"
    parser.add_argument("--output", type=Path, default=folder / "gaussian_curve.svg")
    output = parser.parse_args().output
    warnings.simplefilter("ignore")  # peers warn about their own numerics
    fine, coarse = np.linspace(0.0, 4.4, 177), np.linspace(0.0, 4.0, 21)
    curves = {  # in the order in which they are drawn
        "RDP (dp_accounting), upper bound": (fine, by_rdp(fine)),
        "FFT (prv-accountant), upper bound": (fine, by_prv(fine)),
        "PLD (dp_accounting), upper bound": (fine, by_pld(fine)),
        "exact": (fine, exact(fine)),
        "evr": (coarse, ours(coarse)),
    }
    looks = {
        "RDP (dp_accounting), upper bound": Look("#e69f00", (0, (5, 1.5, 1, 1.5))),
        "FFT (prv-accountant), upper bound": Look("#cc79a7", (0, (5, 2))),
        "PLD (dp_accounting), upper bound": Look("#009e73", (0, (1, 1)), 3.2),
        "exact": Look("#000000", "-", 1.4),
        "evr": Look("#0072b2", "none", 0.0, "o"),
    }
    title = f"{STEPS:,} Gaussian mechanisms, noise multiplier {NOISE:g}"
    figure = plots.privacy_curves(curves, title=title, looks=looks)
    figure.axes[0].set_ylim(bottom=FLOOR / 1.5)
    output.parent.mkdir(parents=True, exist_ok=True)
    plots.save(figure, output)
    worst = np.max(np.abs(ours(coarse) / exact(coarse) - 1))
    print(f"wrote {output.name}; greatest relative error of evr in it: {worst:.1e}")


if __name__ == "__main__":
    main()
