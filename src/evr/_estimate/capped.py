"""Plans of capped tilts: steps cut to a few outcomes, composed, then tilted by the order and the cap that minimise the
rigorous bound on the second moment. No sample is drawn and no data is looked at, so the choice may depend on everything
known before (docs/guarantees.md, Section 5).

Spreading losses to outcomes and to places of composed steps only makes delta grow (Sections 3.9 and 3.10). Cells are
narrow where a step weighs most, so that delta grows by about an allowance.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np
import scipy

from evr._estimate.placing import UnplacedError, composing_places
from evr._kernel.pairs import DiscretePair, DominatingPair, Floats, Measure, Step, greatest_loss, outcomes
from evr._kernel.pairs.line.pair import log_sum_exp
from evr._kernel.sampled.composing import MOST_PRODUCTS, Cells, composed, even_edges, product_count
from evr._kernel.sampled.line import TiltedProposal, on_outcomes, spread_steps
from evr._kernel.sampled.moments import Tilt
from evr._kernel.sampled.plan import CappedPlan, StepPlan

GROWTH = 1e-4  # the share by which delta may grow where nothing else is asked for
_MOST_EPSILON = 1e8  # steps are composed below it: places have a few digits behind the point
_MOST_ROUNDING = 0.1  # share of the allowance that rounding of all masses may take: beyond, places are too wide too
_BULK = 4.0  # standard deviations: delta at a smaller epsilon comes from the bulk of the losses
_MOST_STEPS = 2e9  # of so many composed steps, what rounding adds to masses is small beside delta
_TRIED = 7  # caps that are tried first
_TIE = 1e-4
_SMALL = 4.0  # how many times the root of the bound samples may be, to be preferred


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
    spread = spread_steps(steps, [StepPlan(edges=cut) for cut in edges])
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
    kinds = tuple(StepPlan(tilt, cut) for tilt, cut in zip(each_tilt, edges, strict=True))
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
    >>> from evr._kernel.events import Composition
    >>> from evr._dpsgd import dpsgd
    >>> event = dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=1000)
    >>> steps = Composition.of(event).simplified("remove")
    >>> capped_proposal(steps, 0.5).log_moment(0.5, 2.0) < math.log(400 * 2.0582e-10**2)
    True
    """
    plan = capped_plan(steps, epsilon, delta=delta, allowance=allowance)
    return TiltedProposal.from_plan(plan, steps)


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

        centre = minimum(chernoff, -3.0, steepest)
        return tilted(minimum(lambda x: _merit(tilted(x, cap), epsilon), centre - 0.5, centre + 2.5), cap)

    def of_cap(log_beyond: float) -> float:
        return _merit(best(epsilon + math.exp(log_beyond)), epsilon)

    beyond = np.linspace(math.log(0.02 * scale), math.log(farthest), _TRIED).tolist()
    place = min(range(_TRIED), key=lambda i: of_cap(beyond[i]))
    finest = minimum(of_cap, beyond[max(place - 1, 0)], beyond[min(place + 1, _TRIED - 1)])
    found = best(epsilon + math.exp(finest))
    untilted = TiltedProposal(steps, [Tilt()] * len(steps)).log_greatest(epsilon)
    # what is bounded almost as well without weights has no weights to round
    is_small = 2.0 * untilted <= found.log_moment(epsilon, 2.0) + math.log(_SMALL)
    return [None if is_small else tilt for tilt in found.tilts]


def _merit(proposal: TiltedProposal, epsilon: float) -> float:
    """``log`` of the bound on ``E[X^2]``, and a little of the bound on ``X`` to decide between equals."""
    return proposal.log_moment(epsilon, 2.0) + _TIE * min(proposal.log_greatest(epsilon), 1e4)


_FEWEST_CELLS = 20  # so that the rule for their number holds
_FINE = 40_000  # cells that edges are placed among
_SHARE_OF_INFINITE = 0.1  # of the allowance, for losses that become infinite
_CAPS = (2.0, 1.2, 0.3, 0.1, 0.03)  # over the scale: how much of it one step may carry, in turn
_ORDERS = (1.0, 2e3)  # of tilts that are tried: over the scale, and over the least deviation
_NEXT_TO = 15.0  # of exponents: e^-15 of the rest is not worth cells
_RARE = 1e-12  # of P: what may be below the floor of a tilt
_LEAST_DRIFT = 1e-6  # the share of delta that rounding may always cost


def where_it_counts(steps: Sequence[Step], epsilon: float) -> tuple[list[list[Tilt]], float]:
    """Tilts of each kind of step that lead to where delta comes from, and about Chernoff's ``log`` bound on it: for
    each share of epsilon that one step may carry, those that centre the sum at epsilon. Only shares whose exponent in
    the bound is next to the greatest are kept, for the others hardly contribute.
    """
    cells = [_fine_cells(step.pair) for step in steps]
    floors = [min(floor_of(one.mean, one.log_p), 0.0) for one in cells]
    sizes = [rough_size(own.mean, own.log_p, step.count) for step, own in zip(steps, cells, strict=True)]
    scale, least = max(epsilon, math.hypot(*sizes)), max(min(sizes), 1e-12)
    orders = (math.log(_ORDERS[0] / scale), math.log(_ORDERS[1] / least))
    if orders[0] >= orders[1]:  # losses of about 1e-16
        raise _too_coarse(steps[0])

    def tilts(log_order: float, cap: float) -> list[Tilt]:
        return [Tilt(math.exp(log_order), max(cap, floor), floor) for floor in floors]

    def chernoff(log_order: float, cap: float) -> float:
        own = zip(steps, cells, tilts(log_order, cap), strict=True)
        logs = (step.count * log_sum_exp(one.log_p + tilt.height(one.mean)) for step, one, tilt in own)
        return math.fsum(logs) - math.exp(log_order) * epsilon

    found = list[tuple[float, list[Tilt]]]()
    for cap in (share * scale for share in _CAPS):
        best = minimum(partial(chernoff, cap=cap), *orders, most=40)
        found.append((chernoff(best, cap), tilts(best, cap)))
    greatest = max(exponent for exponent, _ in found)
    kept = [tilts for exponent, tilts in found if exponent > greatest - _NEXT_TO]
    if not kept:  # numbers beyond all floats
        raise _too_coarse(steps[0])
    return [list(of_step) for of_step in zip(*kept, strict=True)], greatest


def minimum(function: Callable[[float], float], low: float, high: float, most: int = 500) -> float:
    """About where a function of a logarithm is least, in so many steps at the most."""
    found = scipy.optimize.minimize_scalar(
        function, bounds=(low, high), method="bounded", options={"xatol": 0.05, "maxiter": most}
    )
    return float(found.x)


def _too_coarse(step: Step) -> ValueError:
    return ValueError(
        f"floats know total losses of {step.count} steps of {step.pair.describe()} too coarsely to "
        "draw them as outcomes: use method='strict', or estimate by method='fft'"
    )


@lru_cache(maxsize=16)
def _fine_cells(pair: DominatingPair) -> Cells:
    cells = Cells.of(pair, even_edges(pair, _FINE))
    held = (cells.log_p > -np.inf) & (cells.mean < np.inf)  # infinite losses need no cells
    # a mean of a difference of logarithms may be outside of its cell
    cells = cells._replace(mean=np.clip(cells.mean, cells.least, cells.greatest))
    return Cells(*(column[held] for column in cells))


def _drift(cells: Cells) -> float:
    """By how much the mean loss of a step rises because cells' means are raised by their doubt."""
    with np.errstate(invalid="ignore"):
        raised, mean = (np.clip(x, cells.least, cells.greatest) for x in (cells.mean + cells.doubt, cells.mean))
        return float(np.sum(np.where(np.isfinite(raised - mean), raised - mean, 0.0) * np.exp(cells.log_p)))


def floor_of(losses: Floats, log_p: Floats) -> float:
    """Where a tilt stops falling: a finite loss that all but 1e-12 of ``P`` is not below."""
    place = int(np.searchsorted(np.cumsum(np.exp(log_p)), _RARE, side="right"))
    rest = losses[min(place, losses.size - 1) :]
    return float(rest[np.isfinite(rest)][0])


def rough_size(losses: Floats, log_p: Floats, count: int) -> float:
    return math.sqrt(count * float(np.sum(np.exp(log_p) * np.clip(losses, -50.0, 50.0) ** 2)))


def edges_of(step: Step, where: Sequence[Tilt], allowance: float, delta: float) -> tuple[float, ...]:
    """Where to cut the losses of a kind of step, to draw them as few outcomes. Delta grows by a share of about
    ``allowance``, for which ``delta``, about its size or less, says what of it may become infinite losses. Refused
    are losses so small and so many that their rounding, raised to be safe, would cost more than that.

    To spread a loss over a width ``w`` raises ``e^{order loss}`` by about ``order (order + 1) w^2 / 12`` of itself.
    With the density ``f`` of the tilted loss the sum of that over cells is least for widths in proportion to
    ``f^{-1/3}``. The rule is one for narrow cells, so no cell is wide.
    """
    pair, cells = step.pair, _fine_cells(step.pair)
    log_beyond = pair.log_mass(Measure.P, cells.high, np.full(cells.high.size, np.inf))
    rare = math.log(_SHARE_OF_INFINITE * allowance) + math.log(max(delta, 1e-300)) - math.log(step.count)
    kept = int(np.searchsorted(-log_beyond, -rare)) + 1  # what is beyond may become infinite
    high, least, greatest = (x[:kept] for x in (cells.high, cells.least, cells.greatest))
    costs = np.zeros(high.size)
    for tilt in where:
        order, weights = max(tilt.order, 1.0), (cells.log_p + tilt.height(cells.mean))[:kept]
        costs = np.maximum(costs, order * (order + 1.0) * np.exp(weights - log_sum_exp(weights)))
    with np.errstate(invalid="ignore"):
        width = np.where(np.isfinite(greatest - least), greatest - least, 0.0)
    density = np.cumsum(np.cbrt(costs * width**2))
    number = math.ceil(math.sqrt(step.count / 12 * density[-1] ** 3 / allowance))
    places = np.linspace(0.0, density[-1], min(max(number, _FEWEST_CELLS), _FINE) + 1)
    inner = np.interp(places, np.concatenate(([0.0], density)), np.concatenate((high[:1], high)))
    if not np.isfinite(inner).any():  # all that counts is an atom at the top
        inner = np.sort(np.append(high[:1], pair.flats))
    inner = inner[np.isfinite(inner)]
    if not inner.size:
        raise _too_coarse(step)
    bottom, top = (float(pair.privacy_loss(t)) for t in (inner[0], inner[-1]))
    coarse = [inner, high[-1:], pair.flats.reshape(-1)]
    for tilt in where:
        order, capped = max(tilt.order, 1.0), min(max(tilt.cap, bottom), top)
        # what is moved up from far below stays without weight
        start = min(max(bottom, -1.0 / order), capped)
        wide = ((start, capped, order), (capped, top, 1.0))
        coarse += [pair.point(np.linspace(a, b, min(2 + math.ceil((b - a) * x), _FINE))) for a, b, x in wide]
    edges = np.unique(np.concatenate(coarse))
    edges = edges[np.isfinite(edges)]
    drift = step.count * _drift(Cells.of(pair, edges)) * (1.0 + max(tilt.order for tilt in where))
    if drift > max(allowance, _LEAST_DRIFT):
        raise _too_coarse(step)
    return tuple(edges.tolist())
