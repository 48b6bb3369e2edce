"""Plans of capped tilts: steps spread to outcomes, composed, then tilted by the order and the cap that minimise the
rigorous bound on the second moment. No sample is drawn and no data is looked at, so the choice may depend on everything
known before (docs/guarantees.md, Section 5).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import scipy

from evr.bounds.composing import MOST_PRODUCTS, composed, product_count
from evr.bounds.moments import Tilt
from evr.laws import DiscretePair, Step, greatest_loss, outcomes
from evr.planning.merging import UnplacedError, composing_places, edges_of, floor_of, rough_size, where_it_counts
from evr.sampling.line import TiltedProposal, on_outcomes, spread_steps
from evr.sampling.plan import CappedPlan, Kind

_CAPS = 7  # that are tried first
_TIE = 1e-4
_SMALL = 4.0  # how many times the root of the bound samples may be, to be preferred


def best_tilts(steps: Sequence[Step], epsilon: float) -> list[Tilt | None]:
    """For each kind of step on outcomes, the capped tilt with the least second-moment bound at ``epsilon``, or none
    where samples are small without a tilt. Some finite loss must exceed ``epsilon``. All kinds have one order and cap.
    """
    pairs = [on_outcomes(step) for step in steps]
    floors = [floor_of(pair.losses, np.array(pair.log_p)) for pair in pairs]
    sizes = [rough_size(p.losses, np.array(p.log_p), s.count) for p, s in zip(pairs, steps, strict=True)]
    scale = max(epsilon, math.hypot(*sizes))  # epsilon may be too small to set the scale
    narrow = min((x for step in steps if (x := math.sqrt(step.count) * _deviation(step)) > 0), default=scale)
    steepest = math.log(30.0 / min(narrow, 0.01))  # losses that vary little want large orders
    farthest = max(60.0 * scale, max(float(pair.losses[-1]) for pair in pairs) - epsilon)

    def tilted(log_order: float, cap: float) -> TiltedProposal:
        return TiltedProposal(steps, [Tilt(math.exp(log_order), max(cap, floor), floor) for floor in floors])

    def best(cap: float) -> TiltedProposal:
        """At the order that centres the loss at epsilon, then at that of the least bound."""

        def chernoff(log_order: float) -> float:
            return tilted(log_order, cap).log_normaliser - math.exp(log_order) * epsilon

        centre = _minimum(chernoff, -3.0, steepest)
        return tilted(_minimum(lambda x: _merit(tilted(x, cap), epsilon), centre - 0.5, centre + 2.5), cap)

    def of_cap(log_beyond: float) -> float:
        return _merit(best(epsilon + math.exp(log_beyond)), epsilon)

    beyond = np.linspace(math.log(0.02 * scale), math.log(farthest), _CAPS).tolist()
    place = min(range(_CAPS), key=lambda i: of_cap(beyond[i]))
    finest = _minimum(of_cap, beyond[max(place - 1, 0)], beyond[min(place + 1, _CAPS - 1)])
    found = best(epsilon + math.exp(finest))
    untilted = TiltedProposal(steps, [Tilt()] * len(steps)).log_greatest(epsilon)
    # what is bounded almost as well without weights has no weights to round
    is_small = 2.0 * untilted <= found.log_moment(epsilon, 2.0) + math.log(_SMALL)
    return [None if is_small else tilt for tilt in found.tilts]


def _merit(proposal: TiltedProposal, epsilon: float) -> float:
    """``log`` of the bound on ``E[X^2]``, and a little of the bound on ``X`` to decide between equals."""
    return proposal.log_moment(epsilon, 2.0) + _TIE * min(proposal.log_greatest(epsilon), 1e4)


def _minimum(function: Callable[[float], float], low: float, high: float) -> float:
    found = scipy.optimize.minimize_scalar(function, bounds=(low, high), method="bounded", options={"xatol": 0.05})
    return float(found.x)


GROWTH = 1e-4  # the share by which delta may grow where nothing else is asked for
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
    number = product_count(steps)
    composing = composing and 0 < number <= MOST_PRODUCTS and epsilon < _MOST_EPSILON
    composing = composing and sum(step.count for step in steps) <= _MOST_STEPS
    # a direction far below delta needs no sample, and may need many places
    composing = composing and log_bound > math.log(delta)
    each = allowance / (1 + (number if composing else 0))
    wide = [not isinstance(outcomes(step.pair), DiscretePair) for step in steps]  # others have finitely many outcomes
    share = each / max(sum(wide), 1)
    edges = [
        edges_of(step, tilts, share, delta) if cut else None
        for step, tilts, cut in zip(steps, where, wide, strict=True)
    ]
    spread = spread_steps(steps, [Kind(edges=cut) for cut in edges])
    try:
        places = composing_places(spread, where, epsilon, each) if composing else ()
    except UnplacedError:
        return capped_plan(steps, epsilon, delta=delta, allowance=allowance)
    drawn = (Step(composed(spread, places), 1),) if composing else spread
    if composing and _is_bad(drawn[0], spread, epsilon, allowance):
        return capped_plan(steps, epsilon, delta=delta, allowance=allowance)
    # where no finite loss exceeds epsilon, what spreading made infinite is all of delta
    tilts = best_tilts(drawn, epsilon) if greatest_loss(drawn) > epsilon else [None] * len(drawn)
    each_tilt = tilts * len(steps) if composing else tilts
    kinds = tuple(Kind(tilt, cut) for tilt, cut in zip(each_tilt, edges, strict=True))
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
