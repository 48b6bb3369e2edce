"""What a GPU makes of a verification: steps a second, and seconds for claims that are nearly tight.

Run ``python benchmarks/gpu.py [--quick | --many]`` where there is one; quick leaves out tau =
0.9999, and many has the last table only. The first table has sample-steps a second: of the paper's
way (plain torch, losses of untilted steps), of evr's kernel for Poisson-sampled Gaussian steps, and
of its kernel for outcomes, both from drawing to verdict. The second has the seconds of
``evr.verify`` as a whole, planning included, for the settings of ``benchmarks/verify.py``. The
third has settings of ``benchmarks/highdim.py``: how long a sample takes the GPU, in its greater
direction and from drawing to sums, and a core of this machine, and the seconds of ``evr.verify`` as
a whole. Their deltas are estimates, by samples where noise is correlated, and then a claim is two
standard errors above.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import Any

import highdim  # before NumPy, whose products it keeps to one thread each

# isort: split
import numpy as np

import evr
from evr.laws import Direction
from evr.mechanisms import Composition
from evr.proving import devices
from evr.proving.planning import planned
from evr.randomness import Stream
from evr.sampling import Plan, built, cuda
from evr.search.tuning import capped_proposal
from evr.verification import Claim
from evr.verification.attempts import Attempt
from evr.verification.directions import Trial
from evr.verification.settings import Settings
from proposals import SETTINGS

FASTEST = (0.5, 1000, 1e-3, 1.0)

MANY_DIMENSIONS = [
    highdim.bins(1, 100, 10, 4),
    highdim.bins(2, 10, 10, 3),
    highdim.redrawn(1, 20, 10, 3),
    highdim.bins(1, 100, 10, 3, 4),
    highdim.bins(4, 100, 10, 2, 8),
    highdim.bins(2, 500, 10, 2, 8),
    highdim.min_sep(4, 200, 8, 0.1, 8, 2.4),
]


def event_of(setting: tuple[float, int, float, float]) -> tuple[Any, float, float]:
    epsilon, steps, probability, noise = setting
    event = evr.dpsgd(noise_multiplier=noise, sampling_probability=probability, steps=steps)
    return event, epsilon, float(evr.estimate_delta(event, epsilon).value)


def unmerged(trial: Trial) -> Plan:
    """A plan whose steps are drawn as they are: normal numbers."""
    claim = trial.claim
    whole = planned(trial.steps, trial.direction, claim, "capped", device="cuda")
    plan = capped_proposal(trial.steps, claim.epsilon).plan((None,) * len(trial.steps))
    return replace(
        devices.placed(plan, trial.steps),
        clip=whole.clip,
        variance=whole.variance,
        block_size=whole.block_size,
        device="cuda",
    )


def merged(trial: Trial) -> Plan:
    return planned(trial.steps, trial.direction, trial.claim, "capped", device="cuda")


def steps_a_second(planner: Any, tau: float, most: int) -> tuple[float, str]:
    """Of one direction, from the first sample to the verdict."""
    event, epsilon, delta = event_of(FASTEST)
    plans: dict[str, Plan] = {}

    def once(trial: Trial) -> Plan:
        return plans.setdefault(trial.direction, planner(trial))

    claim, settings = Claim(epsilon, delta, tau), Settings(max_samples=most, device="cuda")
    how = Attempt(1, 1, "remove")
    how.run(Composition.of(event), claim, replace(settings, max_samples=1 << 19), once)
    start = time.perf_counter()
    found = how.run(Composition.of(event), claim, settings, once)
    took = time.perf_counter() - start
    return found.samples * FASTEST[1] / took, plans["remove"].kinds[0].sampler


def papers_way(dtype: str) -> float:
    """Sample-steps a second of plain torch."""
    import torch

    kind, size, steps = getattr(torch, dtype), 1 << 17, FASTEST[1]
    q, mu = FASTEST[2], 1 / FASTEST[3]

    def batch() -> torch.Tensor:
        hit = torch.rand(size, steps, device="cuda", dtype=kind) < q
        t = torch.randn(size, steps, device="cuda", dtype=kind) + mu * hit
        return torch.log1p(q * torch.expm1(mu * t - mu**2 / 2)).sum(dim=1)

    batch()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(20):
        batch()
    torch.cuda.synchronize()
    rate = 20 * size * steps / (time.perf_counter() - start)
    torch.cuda.empty_cache()
    return rate


def triton_way() -> float:
    """Sample-steps a second of the same arithmetic in Triton: untilted normal steps in float64, 16
    ratios for a logarithm.
    """
    import torch
    import triton
    import triton.language as tl
    from triton.language.extra import libdevice

    @triton.jit
    def kernel(out, seed, mu, shift, absent, GROUPS: tl.constexpr, BLOCK: tl.constexpr):
        sample = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        total = tl.zeros((BLOCK,), tl.float64)
        for group in range(GROUPS):
            product = tl.full((BLOCK,), 1.0, tl.float64)
            for pair in tl.static_range(8):
                place = sample * (8 * GROUPS) + group * 8 + pair
                a, b, c, d = tl.randint4x(seed, place)
                one = (a.to(tl.uint32, bitcast=True).to(tl.uint64) << 32) | b.to(
                    tl.uint32, bitcast=True
                ).to(tl.uint64)
                other = (c.to(tl.uint32, bitcast=True).to(tl.uint64) << 32) | d.to(
                    tl.uint32, bitcast=True
                ).to(tl.uint64)
                u = ((one >> 11).to(tl.float64) + 1.0) * 1.1102230246251565e-16
                v = (other >> 11).to(tl.float64) * 1.1102230246251565e-16
                radius = tl.sqrt(-2.0 * libdevice.log(u))
                product *= absent + libdevice.exp(mu * radius * libdevice.cospi(2.0 * v) + shift)
                product *= absent + libdevice.exp(mu * radius * libdevice.sinpi(2.0 * v) + shift)
            total += libdevice.log(product)
        tl.store(out + sample, total)

    size, groups = 1 << 20, 62
    out = torch.empty(size, device="cuda", dtype=torch.float64)
    best = 0.0
    for block in (128, 256):

        def launch(block: int = block) -> None:
            kernel[(size // block,)](out, 1, 1.0, -7.4, 0.999, groups, block, num_warps=block // 32)

        launch()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(3):
            launch()
        torch.cuda.synchronize()
        best = max(best, 3 * size * groups * 16 / (time.perf_counter() - start))
    return best


def row(setting: tuple[float, int, float, float], tau: float) -> str:
    event, epsilon, delta = event_of(setting)
    start = time.perf_counter()
    found = evr.verify(event, epsilon=epsilon, delta=delta, tau=tau, device="cuda")
    took = time.perf_counter() - start
    drawn = sum(one.samples for one in found.directions.values()) * setting[1]
    names = ", ".join(
        f"{name}: {one.plan.kinds[0].sampler} {one.seconds:.1f} s"
        for name, one in found.directions.items()
        if one.plan is not None
    )
    name = f"{epsilon:g}, {setting[1]}, {setting[2]:.4g}, {setting[3]:g}"
    return (
        f"{name:<26} {delta:>10.4e} {tau:>6} {found.verdict.value:>9} {found.samples:>9.2e} "
        f"{took:>8.1f} {drawn / took:>9.2e}  {names}"
    )


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
        found = evr.verify(case.event, epsilon=case.epsilon, delta=delta, tau=tau, device="cuda")
        took = time.perf_counter() - start
        cells.append(f"{found.verdict.value:>9} {found.samples:>9.2e} {took:>7.1f}")
    assert found is not None
    on_gpu, on_core = sample_seconds(case, found.directions["remove"].plan, delta)
    return (
        f"{case.name:<44} {delta:>10.4e} {on_gpu * 1e9:>7.1f} {on_core * 1e9:>8.0f} "
        f"{on_core / on_gpu:>6.0f}  {'  '.join(cells)}"
    )


def sample_seconds(case: highdim.Case, plan: Plan, delta: float) -> tuple[float, float]:
    """Of a sample, by the GPU and by a core."""
    steps = Composition.of(case.event).simplified(Direction.REMOVE)
    kinds = tuple(replace(kind, sampler="") for kind in plan.kinds)
    here, there = built(replace(plan, kinds=kinds), steps), built(plan, steps)
    terms, stream = cuda.Terms(case.epsilon, float(np.log(delta)), 1e3, 1.0, 1e-3), Stream(1, "")
    found = []
    for draw, size in (
        (lambda block, size: cuda.sums_of_block(there, block, size, terms), 1 << 18),
        (here.draw, here.block_size()),
    ):
        draw(stream.block(0), size)
        start = time.perf_counter()
        draw(stream.block(1), size)
        found.append((time.perf_counter() - start) / size)
    return found[0], found[1]


def on_a_line(quick: bool) -> None:
    """The first two tables."""
    print(f"{'steps a second':<44} {FASTEST}, remove")
    for dtype in ("float32", "float64"):
        print(f"{f'the paper’s way, torch, {dtype}':<44} {papers_way(dtype):.2e}", flush=True)
    print(f"{'Triton, untilted normal steps, float64':<44} {triton_way():.2e}", flush=True)
    for planner, tau, most in ((unmerged, 0.9999, 2 * 10**9), (merged, 0.9999, 8 * 10**9)):
        rate, sampler = steps_a_second(planner, tau, most)
        print(f"{f'evr, {sampler}, drawing to verdict, float64':<44} {rate:.2e}", flush=True)
    print(
        f"\n{'epsilon, steps, q, noise':<26} {'delta':>10} {'tau':>6} {'verdict':>9} "
        f"{'samples':>9} {'seconds':>8} {'steps/s':>9}"
    )
    for tau in (0.999,) if quick else (0.999, 0.9999):
        for setting in SETTINGS:
            print(row(setting, tau), flush=True)


def main() -> None:
    quick = "--quick" in sys.argv
    if (why := cuda.why_not()) is not None:
        print(f"no GPU to measure: {why}")
        return
    import cupy

    gpu = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(f"{gpu}, CuPy {cupy.__version__}, NumPy {np.__version__}, evr {evr.__version__}")
    start = time.perf_counter()
    cuda.device.most_outcomes()
    print(f"kernels compiled in {time.perf_counter() - start:.1f} s\n")
    if "--many" not in sys.argv:
        on_a_line(quick)
    print(
        f"\n{'in many dimensions':<44} {'delta':>10} {'GPU, ns':>7} {'core, ns':>8} {'ratio':>6}  "
        f"{'tau 0.99':>9} {'samples':>9} {'seconds':>7}  {'0.999':>9} {'samples':>9} {'seconds':>7}"
    )
    for case in MANY_DIMENSIONS:
        print(many_dimensions(case), flush=True)


if __name__ == "__main__":
    main()
