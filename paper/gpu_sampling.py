"""Time ``torch.randn`` Gaussian mixtures on a GPU, as the paper does; needs torch and nothing else.

``python paper/gpu_sampling.py FILE`` writes the JSON that ``throughput.py`` shows beside its own
measurements.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch

STEPS, NOISE, PROBABILITY = 1000, 0.6, 1e-3
MOST = 1_000_000  # rows at a time


def seconds(samples: int) -> float:
    """Sums of ``STEPS`` draws of ``(1-q) N(0, s^2) + q N(1, s^2)``, ``samples`` times."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for first in range(0, samples, MOST):
        rows = min(MOST, samples - first)
        t = torch.randn((rows, STEPS), device="cuda").mul_(NOISE)
        t += torch.rand((rows, STEPS), device="cuda") < PROBABILITY
        t.sum(dim=1)
    torch.cuda.synchronize()
    return time.perf_counter() - start


def main() -> None:
    seconds(1000)
    sizes = [10**n for n in range(2, 8)]
    best = [min(seconds(m) for _ in range(3)) for m in sizes]
    result = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "steps": STEPS,
        "samples": sizes,
        "seconds": best,
    }
    Path(sys.argv[1]).write_text(json.dumps(result) + "\n")
    print(result)


if __name__ == "__main__":
    main()
