"""Choosing the tilt of the paper's proposal."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import scipy

from evr import validate
from evr.bounds.single import SingleBounds
from evr.laws import Step
from evr.sampling.single import SingleProposal, equal_steps

_FARTHEST = 1e3  # second-moment bound over the square of delta's bound beyond which a proposal is out of reach


class OutOfReachWarning(UserWarning):
    """Many steps share the loss, and tilting one of them does not reach it: samples would mislead without a sign."""


def best_slope(bounds: SingleBounds, epsilon: float) -> float:
    """The slope of the least bound on the second moment."""
    return slope_of_least(bounds, lambda slope: bounds.log_moment(epsilon, 2.0, slope), epsilon)


def slope_of_least(bounds: SingleBounds, bound: Callable[[float], float], epsilon: float) -> float:
    """The slope at which a bound is least."""
    centre = float(bounds.pair.point(epsilon))
    grid = centre * np.geomspace(0.1, 1.5, 12)
    best = int(np.argmin([bound(float(slope)) for slope in grid]))
    span = (grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)])
    return float(
        scipy.optimize.minimize_scalar(bound, bounds=span, method="bounded", options={"xatol": 1e-3 * centre}).x
    )


def log_spread(proposal: SingleProposal, epsilon: float) -> float:
    """``log`` of the second-moment bound over the square of an upper bound on delta: what a relative error costs."""
    return proposal.log_moment(epsilon, 2.0) - 2.0 * proposal.bounds.log_delta(epsilon)


def reaches(proposal: SingleProposal, epsilon: float) -> bool:
    """Whether a second moment is proved that makes samples trustworthy. Where ``log_spread`` is large nothing is known
    of their spread, and weights of ``e^{-theta^2 sigma^2 / 2}`` hide it.
    """
    return log_spread(proposal, epsilon) <= math.log(_FARTHEST)


def single_proposal(
    steps: Sequence[Step], epsilon: float, *, theta: float | Literal["heuristic", "bound"] = "heuristic"
) -> SingleProposal:
    """The paper's proposal at ``epsilon``; warns where it does not reach.

    ``theta`` is a number; ``"heuristic"``, the paper's ``1/(2 sigma^2) + log((e^epsilon - (1-q))/q)``; or ``"bound"``,
    where the bound on the second moment is least, which is better for verifying.

    >>> from evr.mechanisms import Composition
    >>> from evr.events import dpsgd
    >>> event = dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=1000)
    >>> found = single_proposal(Composition.of(event).simplified("remove"), 0.5, theta="bound")
    >>> found.log_moment(0.5, 2.0) < math.log(30 * 2.0582e-10**2)
    True
    """
    epsilon = validate.non_negative(epsilon=epsilon)
    mu, q, count = equal_steps(tuple(steps))
    bounds = SingleBounds(mu, q, count, 1024)
    if theta == "heuristic":
        theta = mu * float(bounds.pair.point(epsilon))  # t*/sigma^2, and the point is t*/sigma
    elif theta == "bound":
        theta = mu * best_slope(bounds, epsilon)
    elif isinstance(theta, str):
        raise ValueError(f'theta={theta!r} is neither "heuristic" nor "bound" nor a positive number')
    proposal = SingleProposal(steps, theta)
    if not reaches(proposal, epsilon):
        spread = log_spread(proposal, epsilon) / math.log(10.0)
        warnings.warn(
            f"tilting one of {proposal.count} steps does not reach epsilon={epsilon:g}: many steps share the loss "
            f"(proved relative second moment 1e{spread:.0f}), and the samples' mean and standard error may both be far "
            'too small. Use proposal="capped".',
            OutOfReachWarning,
            stacklevel=2,
        )
    return proposal
