"""What a GPU makes of a verification in many dimensions.

Run ``python benchmarks/gpu.py`` where there is one. The table has settings of
``benchmarks/highdim.py``: how long a sample takes the GPU, in its greater direction and from
drawing to sums, in blocks of the size that a verification at tau 0.999 has, the best of five; how
long it takes a core of this machine; and the seconds of ``evr.verify`` as a whole, planning
included. Their deltas are estimates, by samples where noise is correlated, and then a claim is two
standard errors above.
"""

from __future__ import annotations

import time
from dataclasses import replace

import highdim  # before NumPy, whose products it keeps to one thread each

# isort: split
import numpy as np

import evr
from evr._basics.randomness import Stream
from evr._devices import cuda
from evr._estimate.clipping import block_size
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction
from evr._kernel.sampled.plan import DrawPlan, MixturePlan
from evr._kernel.sampled.proposals import built
from evr._kernel.sampled.summary import BACKENDS, Work

MANY_DIMENSIONS = [
    highdim.bins(1, 100, 10, 4),
    highdim.bins(2, 10, 10, 3),
    highdim.redrawn(1, 20, 10, 3),
    highdim.bins(1, 100, 10, 3, 4),
    highdim.bins(4, 100, 10, 2, 8),
    highdim.bins(2, 500, 10, 2, 8),
    highdim.min_sep(4, 200, 8, 0.1, 8, 2.4),
]


def many_dimensions(case: highdim.Case) -> str:
    """The line of one setting in many dimensions."""
    if case.is_independent:
        estimate = evr.estimate_delta(case.event, case.epsilon)
    else:
        how = {"direction": "remove", "method": "monte_carlo", "relative_error": 2e-3}
        estimate = evr.estimate_delta(case.event, case.epsilon, **how)
    delta = float(estimate.value) + 2.0 * (estimate.standard_error or 0.0)
    found, cells = None, []
    for tau in (0.99, 0.999):
        start = time.perf_counter()
        how = {"tau": tau, "device": "cuda", "method": "sequential"}
        found = evr.verify(case.event, epsilon=case.epsilon, delta=delta / tau, **how)
        took = time.perf_counter() - start
        cells.append(f"{found.verdict.value:>9} {found.samples:>9.2e} {took:>7.1f}")
    assert found is not None
    on_gpu, on_core = sample_seconds(case, found.directions["remove"].plan, delta)
    return (
        f"{case.name:<44} {delta:>10.4e} {on_gpu * 1e9:>7.1f} {on_core * 1e9:>8.0f} "
        f"{on_core / on_gpu:>6.0f}  {'  '.join(cells)}"
    )


def sample_seconds(case: highdim.Case, plan: DrawPlan, delta: float) -> tuple[float, float]:
    """Of a sample, by the GPU and by a core."""
    steps = Composition.of(case.event).simplified(Direction.REMOVE)
    assert isinstance(plan.proposal, MixturePlan)
    there, here = (built(replace(plan.proposal, by_place=x), steps) for x in (True, False))
    found = []
    for proposal, size, device in ((there, plan.block_size, "cuda"), (here, block_size(here), "cpu")):
        unit, stream = float(np.log(delta)), Stream(1, "")
        work = Work(proposal, stream, size, case.epsilon, unit, np.inf, 1e3, 1.0, BACKENDS[device])
        work(0, size, 1e-3)
        taken = []
        for block in range(1, 6):
            start = time.perf_counter()
            work(block, size, 1e-3)
            taken.append((time.perf_counter() - start) / size)
        found.append(min(taken))
    return found[0], found[1]


def main() -> None:
    if (why := cuda.why_not()) is not None:
        print(f"no GPU to measure: {why}")
        return
    import cupy

    gpu = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(f"{gpu}, CuPy {cupy.__version__}, NumPy {np.__version__}, evr {evr.__version__}")
    print(
        f"\n{'in many dimensions':<44} {'delta':>10} {'GPU, ns':>7} {'core, ns':>8} {'ratio':>6}  "
        f"{'tau 0.99':>9} {'samples':>9} {'seconds':>7}  {'0.999':>9} {'samples':>9} {'seconds':>7}"
    )
    for case in MANY_DIMENSIONS:
        print(many_dimensions(case), flush=True)


if __name__ == "__main__":
    main()
