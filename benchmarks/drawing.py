"""What a sample costs beside the normal numbers that it is made of.

Run ``python benchmarks/drawing.py [repeats]``. Each proposal draws about a million steps; beside it
the same number of normals is filled into an array of the same, cache-sized, shape by
``Generator(Philox).standard_normal`` and, for those who wonder, by PCG64's. All are measured in
turn and the medians of the ratios are shown, so that a busy machine disturbs them alike. Targets:
simple 1.6, capped 2.5 of Philox on one thread; two threads at least 1.7 times one.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np

from evr.events import dpsgd
from evr.mechanisms import Composition
from evr.randomness import Stream
from evr.sampling import Proposal, blocks
from evr.sampling.samplers.common import CACHE
from evr.search import capped_proposal, simple_proposal

# epsilon, steps, sampling probability, noise multiplier; the first is the setting of the targets
SETTINGS = (
    (0.5, 1000, 1e-3, 1.0),
    (1.5, 100, 1e-3, 0.6),
    (1.5, 1000, 1e-3, 0.5),
    (1.0, 100, 1e-5, 0.5),
    (1.0, 1500, 0.01, 2.0),
    (2.0, 360, 4096 / 50000, 5.971),
)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def fill(generator: np.random.Generator, numbers: int) -> Callable[[], None]:
    """Fill a cache-sized array again and again."""
    buffer = np.empty(CACHE)

    def work() -> None:
        for _ in range(numbers // CACHE):
            generator.standard_normal(out=buffer)

    return work


def drawing(proposal: Proposal, repeats: int) -> tuple[float, float, float]:
    """Nanoseconds for each step, and the medians of its ratios to Philox's and PCG64's normals."""
    size = max(1, 2**20 // proposal.total_steps)
    numbers = size * proposal.total_steps
    philox = np.random.Generator(np.random.Philox(1))
    works = (
        lambda: proposal.draw(philox, size),
        fill(np.random.Generator(np.random.Philox(2)), numbers),
        fill(np.random.Generator(np.random.PCG64(3)), numbers),
    )
    rows = [[seconds(work) for work in works] for _ in range(repeats + 1)][1:]
    rounded = numbers // CACHE * CACHE / numbers
    ratios = [statistics.median(row[0] / row[i] for row in rows) * rounded for i in (1, 2)]
    return statistics.median(row[0] for row in rows) / numbers * 1e9, ratios[0], ratios[1]


class Normals:
    """Stands in for a proposal: what two threads gain on this machine, at this moment, where
    nothing but normals is drawn.
    """

    def draw(self, generator: np.random.Generator, size: int) -> None:
        fill(generator, 2**20)()


def speedup(proposal: Proposal, repeats: int) -> tuple[float, float]:
    """How much faster two threads draw the same blocks than one; and how much faster they draw mere
    normals.

    Of many blocks, since two threads are a few blocks ahead when the last one is taken.
    """
    stream, size = Stream(1, "benchmark"), proposal.block_size()

    def gain(drawn: Any) -> float:
        one, two = (
            lambda n=n: list(islice(blocks(drawn, stream, size, workers=n), 96)) for n in (1, 2)
        )
        return seconds(one) / seconds(two)

    gains = [(gain(proposal), gain(Normals())) for _ in range(repeats)]
    return statistics.median(g[0] for g in gains), statistics.median(g[1] for g in gains)


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    print(
        f"{'epsilon, steps, q, noise':<30} {'direction':<9} {'proposal':<8} {'ns/step':>8} "
        f"{'of Philox':>9} {'of PCG64':>8}"
    )
    for number, (epsilon, steps, probability, noise) in enumerate(SETTINGS):
        composition = Composition.of(
            dpsgd(noise_multiplier=noise, sampling_probability=probability, steps=steps)
        )
        for direction in ("remove", "add"):
            if direction == "add" and steps * -np.log1p(-probability) <= epsilon:
                continue  # no loss exceeds epsilon: nothing is drawn
            one = composition.simplified(direction)
            makers = (
                (simple_proposal, capped_proposal) if direction == "remove" else (capped_proposal,)
            )
            for make in makers:
                proposal = make(one, epsilon)
                cost, philox, pcg = drawing(proposal, repeats)
                setting = f"{epsilon:g}, {steps}, {probability:.4g}, {noise:g}"
                print(
                    f"{setting:<30} {direction:<9} {proposal.name:<8} {cost:>8.1f} {philox:>9.2f} "
                    f"{pcg:>8.2f}",
                    flush=True,
                )
                if number == 0 and direction == "remove":
                    ours, normals = speedup(proposal, repeats)
                    print(
                        f"{'':<30} {'':<9} two threads: {ours:.2f} times one (mere normals: "
                        f"{normals:.2f})",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
