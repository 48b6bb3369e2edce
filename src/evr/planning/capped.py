"""Plans of capped tilts: steps spread to outcomes, composed, then tilted."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from evr.bounds.composing import MOST_PRODUCTS, composed, products
from evr.bounds.tilt import Tilt
from evr.laws import DiscretePair, Step, greatest_loss, outcomes
from evr.planning.composing import UnplacedError, composing_places
from evr.planning.merging import merging_edges, where_it_counts
from evr.planning.tuning import best_tilts
from evr.sampling.line import TiltedProposal, spread_steps
from evr.sampling.plan import CappedPlan, Kind

GROWTH = 1e-4
"""The share by which delta may grow where nothing else is asked for."""
_MOST_EPSILON = 1e8  # of steps that are composed: places have a few digits behind the point
_MOST_ROUNDING = 0.1  # of the allowance, of all masses: places are then too wide, too
_BULK = 4.0  # standard deviations: delta at a smaller epsilon comes from the bulk of the losses
_MOST_STEPS = 2e9  # of them: what rounding adds to masses is small beside delta


def capped_plan(
    steps: Sequence[Step], epsilon: float, *, delta: float = 0.0, allowance: float = GROWTH, composing: bool = False
) -> CappedPlan:
    """Capped tilts at ``epsilon`` of steps on outcomes, such that delta, of about the given size or more, grows by a
    share of about ``allowance``. Some finite loss must exceed ``epsilon``.
    """
    steps = tuple(steps)
    where, log_bound = where_it_counts(steps, epsilon)
    number = sum(len(products(step.count)) for step in steps) + len(steps) - 1
    composing = composing and 0 < number <= MOST_PRODUCTS and epsilon < _MOST_EPSILON
    composing = composing and sum(step.count for step in steps) <= _MOST_STEPS
    # a direction far below delta needs no sample, and may need many places
    composing = composing and log_bound > math.log(delta)
    each = allowance / (1 + (number if composing else 0))
    edges = merging_edges(steps, where, delta, each)
    spread = spread_steps(steps, [Kind(edges=cut) for cut in edges])
    try:
        places = composing_places(spread, where, epsilon, each) if composing else ()
    except UnplacedError:
        return capped_plan(steps, epsilon, delta=delta, allowance=allowance)
    drawn = (Step(composed(spread, places), 1),) if composing else spread
    if composing and _is_bad(drawn[0], spread, epsilon, allowance):
        return capped_plan(steps, epsilon, delta=delta, allowance=allowance)
    tilts: list[Tilt | None] = [None] * len(drawn)
    if greatest_loss(drawn) > epsilon:  # else what spreading made infinite is all of delta
        tilts = best_tilts(drawn, epsilon)
    if composing:
        tilts = tilts * len(steps)
    kinds = tuple(Kind(tilt, cut) for tilt, cut in zip(tilts, edges, strict=True))
    return CappedPlan(kinds, places)


def _is_bad(whole: Step, steps: Sequence[Step], epsilon: float, allowance: float) -> bool:
    """Whether rounding added much to the mass of a composed law, or its places are too far apart for the bulk of the
    losses, where delta comes from it.
    """
    assert isinstance(whole.pair, DiscretePair)
    if math.fsum(np.exp(whole.pair.log_p)) - 1.0 > _MOST_ROUNDING * allowance:
        return True
    true = math.hypot(*(math.sqrt(step.count) * _deviation(step) for step in steps))
    return epsilon < _BULK * true and _deviation(whole) > (1.0 + allowance) * true


def _deviation(step: Step) -> float:
    """The standard deviation of a finite loss."""
    pair = outcomes(step.pair)
    assert isinstance(pair, DiscretePair)
    finite = np.isfinite(pair.losses)
    masses, losses = np.exp(np.array(pair.log_p)[finite]), pair.losses[finite]
    mean = np.average(losses, weights=masses)
    return float(np.sqrt(np.average((losses - mean) ** 2, weights=masses)))


def capped_proposal(
    steps: Sequence[Step], epsilon: float, *, delta: float = 0.0, allowance: float = GROWTH
) -> TiltedProposal:
    """What ``capped_plan`` says, of single steps.

    Examples
    --------
    >>> import math
    >>> from evr.mechanisms import Composition
    >>> from evr.events import dpsgd
    >>> event = dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=1000)
    >>> steps = Composition.of(event).simplified("remove")
    >>> capped_proposal(steps, 0.5).log_moment(0.5, 2.0) < math.log(400 * 2.0582e-10**2)
    True
    """
    plan = capped_plan(steps, epsilon, delta=delta, allowance=allowance)
    return TiltedProposal.from_plan(plan, steps)
