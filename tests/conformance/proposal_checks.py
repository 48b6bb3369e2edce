"""What every proposal must satisfy, as functions: the conformance tests call them, and the mutation
tests see them fail.

Samples are compared in units of ``delta``. Each comparison is made with ``z`` standard errors,
which a right proposal passes but with the probability ``FAILURE`` (normal approximation; samples
here are bounded or have proved moments).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import norm

from evr._kernel.pairs import Floats, Step
from evr._kernel.sampled.line import TiltedProposal
from evr._kernel.sampled.proposals import Block, Proposal, drawing_of
from helpers import assert_mean_within

FAILURE = 1e-7
Z = float(norm.isf(FAILURE))


def generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


def sample_size(proposal: Proposal, effort: float = 2e6) -> int:
    """As many samples as a number of steps allows."""
    return int(min(20_000, max(2000, effort / sum(step.count for step in proposal.steps))))


def _surely_at_most(values: Floats, bound: float, what: str) -> None:
    """Fail if the mean of the values is above the bound beyond doubt."""
    mean, error = float(values.mean()), float(values.std()) / math.sqrt(values.size)
    unseen = math.log(1 / FAILURE) / values.size
    assert mean * (1 - unseen) - Z * error <= bound * (1 + 1e-9), (
        f"{what} is {mean:.6g} +- {error:.2g}, above its bound {bound:.6g}"
    )


def check_mean(block: Block, epsilon: float, delta: float) -> None:
    """The mean of ``X`` is delta; enough of the samples are not 0 for that to mean something."""
    values = block.values(epsilon, math.log(delta))
    assert np.count_nonzero(values) >= 100, "next to no sample is positive"
    # what is likelier than that shows up, but with probability FAILURE
    unseen = math.log(1 / FAILURE) / values.size
    error = Z * float(values.std()) / math.sqrt(values.size) + unseen
    assert abs(values.mean() - 1.0) <= error, f"the mean is {values.mean():.6g} delta, more than {error:.2g} off"


def check_bounds(proposal: Proposal, block: Block, epsilon: float, delta: float) -> None:
    """No sample is above ``B``, the second moment not above its bound, nor is what is beyond a
    clip.
    """
    unit = math.log(delta)
    values = block.values(epsilon, unit)
    greatest = math.exp(min(proposal.log_greatest(epsilon) - unit, 700.0))
    assert values.max() <= greatest * (1 + 1e-9), f"a sample is {values.max():.9g} delta, B is {greatest:.9g} delta"
    moment = math.exp(min(proposal.log_moment(epsilon, 2.0) - 2 * unit, 700.0))
    _surely_at_most(values**2, moment, "the second moment")
    for clip in (0.5, 2.0, 10.0, 100.0):
        excess = drawing_of(proposal, epsilon).excess(clip, unit)
        _surely_at_most(np.maximum(values - clip, 0.0), excess, f"the mean beyond {clip} delta")


def check_weights(proposal: TiltedProposal, seed: int) -> None:
    """The weights of single steps average to the mass of finite losses, where their variance is
    moderate.
    """
    for step, tilt in zip(proposal.steps, proposal.tilts, strict=True):
        single = TiltedProposal([Step(step.pair, 1)], [tilt])
        second_moment = single.log_normaliser + single.bounds[0].log_whole(2.0)
        if second_moment < math.log(200.0):
            weights = np.exp(single.draw(generator(seed), 40_000).log_weights)
            assert_mean_within(weights, 1.0 - single.infinite, FAILURE)


def check_order(block: Block, epsilon: float, delta: float) -> None:
    """Order carries no information: halves have one mean, neighbours and places are uncorrelated
    (by ranks).
    """
    values = block.values(epsilon, math.log(delta))
    half = values.size // 2
    first, second = values[:half], values[half : 2 * half]
    error = math.sqrt((first.var() + second.var()) / half)
    assert abs(first.mean() - second.mean()) <= Z * error, "the halves of a block have different means"
    for sequence in (block.losses, block.log_weights):
        noise = generator(7).random(sequence.size)  # equal values in random order
        ranks = np.empty(sequence.size)
        ranks[np.lexsort((noise, sequence))] = np.arange(sequence.size)
        ranks = (ranks - ranks.mean()) / ranks.std()
        limit = Z / math.sqrt(sequence.size)
        for lag in (1, 2, 3, 17):
            assert abs(np.mean(ranks[lag:] * ranks[:-lag])) <= limit, f"samples {lag} apart are correlated"
        place = np.linspace(-1.0, 1.0, sequence.size) * math.sqrt(3.0)
        assert abs(np.mean(ranks * place)) <= limit, "samples drift along a block"


def check_proposal(proposal: Proposal, epsilon: float, delta: float, *, size: int | None = None, seed: int = 1) -> None:
    """All of the above."""
    block = proposal.draw(generator(seed), size or sample_size(proposal))
    check_mean(block, epsilon, delta)
    check_bounds(proposal, block, epsilon, delta)
    check_order(block, epsilon, delta)
    if isinstance(proposal, TiltedProposal):
        check_weights(proposal, seed)
