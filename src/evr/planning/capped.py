"""Plans of capped tilts: steps spread to outcomes, composed, then tilted by the order and the cap that minimise the
rigorous bound on the second moment. No sample is drawn and no data is looked at, so the choice may depend on everything
known before (docs/guarantees.md, Section 5).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy

from evr.bounds.composing import MOST_PRODUCTS, composed, products
from evr.bounds.moments import MomentBound, Tilt, TiltedOutcomes, log_greatest, log_peak
from evr.laws import DiscretePair, Floats, Step, greatest_loss, outcomes
from evr.planning.merging import UnplacedError, composing_places, floor_of, merging_edges, rough_size, where_it_counts
from evr.sampling.line import TiltedProposal, on_outcomes, spread_steps
from evr.sampling.plan import CappedPlan, Kind

_EVALUATIONS = 80
_SMALL = 4.0  # how many times the root of the bound samples may be, to be preferred


def best_tilts(steps: Sequence[Step], epsilon: float) -> list[Tilt | None]:
    """For each kind of step on outcomes, the capped tilt with the least second-moment bound at ``epsilon``, or none
    where samples are small without. Some finite loss must exceed ``epsilon``.
    """
    untilted = TiltedProposal(steps, [Tilt()] * len(steps)).log_greatest(epsilon)
    tilts = _Search(steps, epsilon).run()
    tilted = TiltedProposal(steps, tilts).log_moment(epsilon, 2.0)
    # what is bounded almost as well without weights has no weights to round
    is_small = 2.0 * untilted <= tilted + math.log(_SMALL)
    return [None if is_small else tilt for tilt in tilts]


class _Search:
    """The bound as a function of order and cap."""

    def __init__(self, steps: Sequence[Step], epsilon: float) -> None:
        self._pairs, self._epsilon = [on_outcomes(step) for step in steps], epsilon
        self._counts = [step.count for step in steps]
        self._floors = [floor_of(pair.losses, np.array(pair.log_p)) for pair in self._pairs]
        self._tops = [float(pair.losses[-1]) for pair in self._pairs]
        sizes = [rough_size(p.losses, np.array(p.log_p), n) for p, n in zip(self._pairs, self._counts, strict=True)]
        scale = max(epsilon, math.hypot(*sizes))  # epsilon may be too small to set the scale
        least = min((x for x in sizes if x > 0), default=scale)
        # small losses want large orders
        self._steeper = max(0.0, math.log(0.01 / least)) if least > 0 else 0.0
        self._caps = (epsilon + 0.2 * scale, max(epsilon + 60.0 * scale, *self._tops))

    def run(self) -> list[Tilt]:
        """The best from a near and from a far cap. Where the least bound on the second moment belongs to samples that
        may be huge, another tilt whose samples are all small is better, for ``E[X^2] <= B delta``.
        """
        ones = [self._descend(cap) for cap in self._caps]
        found = min(ones, key=lambda x: x[0])
        if self._jumps_rule(found[1]):
            log_b, other = min(((self._log_greatest(o[1]), o) for o in ones), key=lambda x: x[0])
            found = other if log_b <= found[0] / 2 + math.log(_SMALL) else found
        return found[1]

    def _tilts(self, order: float, cap: float) -> list[Tilt]:
        """One order and cap for all kinds, each with its own floor."""
        return [Tilt(order, max(cap, floor), floor) for floor in self._floors]

    def _bounds(self, tilts: list[Tilt]) -> tuple[list[TiltedOutcomes], float]:
        bounds = [TiltedOutcomes(p, tilt) for p, tilt in zip(self._pairs, tilts, strict=True)]
        return bounds, sum(n * b.log_normaliser for n, b in zip(self._counts, bounds, strict=True))

    def _objective(self, tilts: list[Tilt]) -> float:
        """``log`` of the bound on ``E[X^2]``, and a little of the bound on ``X`` to decide between equals."""
        bounds, log_normaliser = self._bounds(tilts)
        of_s = MomentBound(self._counts, bounds, log_normaliser, self._epsilon, 2.0)
        centre = math.log(2.0 * tilts[0].order)
        best = scipy.optimize.minimize_scalar(
            lambda x: of_s(math.exp(x)), bounds=(centre - 2.0, centre + 1.5), method="bounded", options={"xatol": 0.02}
        )
        log_b = log_greatest(self._counts, bounds, log_normaliser, self._epsilon)
        return float(best.fun) + 1e-4 * min(log_b, 1e4)

    def _log_greatest(self, tilts: list[Tilt]) -> float:
        return log_greatest(self._counts, *self._bounds(tilts), self._epsilon)

    def _jumps_rule(self, tilts: list[Tilt]) -> bool:
        """Whether the bound on a sample is that of a jump, far above that of many small losses."""
        order, log_normaliser = tilts[0].order, self._bounds(tilts)[1]
        together = log_normaliser - order * self._epsilon + log_peak(order)
        return self._log_greatest(tilts) > together + math.log(300.0)

    def _descend(self, cap: float) -> tuple[float, list[Tilt]]:
        """Nelder-Mead over order and cap, from the order that centres the tilted loss at epsilon."""

        def chernoff(log_order: float) -> float:
            order = math.exp(log_order)
            return self._bounds(self._tilts(order, cap))[1] - order * self._epsilon

        first = scipy.optimize.minimize_scalar(
            chernoff, bounds=(-3.0, 8.0 + self._steeper), method="bounded", options={"xatol": 0.05}
        )

        def make(point: Floats) -> list[Tilt]:
            reach = 20.0 + self._steeper
            order, beyond = np.exp(np.clip(point, -reach, min(reach, 600.0))).tolist()
            return self._tilts(order, self._epsilon + beyond)

        def objective(point: Floats) -> float:
            return self._objective(make(point))

        start = [float(first.x), math.log(cap - self._epsilon)]
        simplex: Floats = np.array(start) + np.array([[0.0, 0.0], [0.25, 0.0], [0.0, -0.4]])
        found = scipy.optimize.minimize(
            objective,
            start,
            method="Nelder-Mead",
            options={"initial_simplex": simplex, "xatol": 0.01, "fatol": 0.01, "maxfev": _EVALUATIONS},
        )
        return float(found.fun), make(found.x)


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
