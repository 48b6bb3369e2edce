"""What following epsilon through a run costs beside one estimate at its end, by samples.

Run ``python benchmarks/online.py [seeds]``. One thread, processor seconds, 1e5 samples, 1000 steps.
"Offline" is the whole of ``estimate_epsilon``, "drawing" the samples alone; all in one run. The
errors are those of epsilon, relative to the Fourier accountant: the greatest over all steps, that
of the last step, and that of the offline estimate. Targets: online at most 3 times one offline
pass, errors at most 1e-2.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np

import evr
from evr.estimation.blocks import blocks
from evr.mechanisms import Composition
from evr.planning import capped_proposal
from evr.randomness import Stream

SAMPLES, STEPS = 100_000, 1000
# noise multiplier, sampling probability, delta
SETTINGS = ((1.0, 1e-3, 1e-9), (0.6, 1e-3, 1e-7), (2.0, 0.01, 1e-10), (1.0, 0.01, 1e-5))


def timed(work: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[Any, float]:
    start = time.process_time()
    result = work(*arguments, **options)
    return result, time.process_time() - start


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    print(
        f"{'noise, q, delta':<20} {'seed':>4} {'online':>7} {'of offline':>10} {'of drawing':>10} "
        f"{'worst':>8} {'last':>8} {'offline':>8}"
    )
    for noise, probability, delta in SETTINGS:
        event = evr.dpsgd(noise_multiplier=noise, sampling_probability=probability, steps=STEPS)
        exact = evr.online_epsilon(event, delta).epsilons
        options: dict[str, Any] = {"method": "monte_carlo", "samples": SAMPLES, "workers": 1}
        evr.estimate_epsilon(event, delta, seed=0, **options)  # imports, and tables that are kept
        for seed in range(1, seeds + 1):
            online, seconds = timed(evr.online_epsilon, event, delta, seed=seed, **options)
            offline, one = timed(evr.estimate_epsilon, event, delta, seed=seed, **options)
            proposal = capped_proposal(Composition.of(event).simplified("remove"), offline.value)
            size = proposal.block_size()
            samples = islice(
                blocks(proposal, Stream(seed, "benchmark"), size, workers=1), SAMPLES // size
            )
            _, bare = timed(list, samples)
            bare *= SAMPLES / (SAMPLES // size * size)
            errors = [*np.abs(online.epsilons / exact - 1), abs(offline.value / exact[-1] - 1)]
            print(
                f"{f'{noise:g}, {probability:g}, {delta:g}':<20} {seed:>4} {seconds:>7.2f} "
                f"{seconds / one:>10.2f} {seconds / bare:>10.2f} {max(errors[:-1]):>8.1e} "
                f"{errors[-2]:>8.1e} {errors[-1]:>8.1e}",
                flush=True,
            )


if __name__ == "__main__":
    main()
