"""A composition as outcomes on a fine grid of losses, for laws that are made of it. Its law is a power of Fourier
transforms of tilted laws, and at each place the tilt is taken whose rounding error is least.
"""

import math
from functools import lru_cache, singledispatch

import numpy as np

from evr._estimate.points import points_of, rough_points
from evr._estimate.spectrum import spread
from evr._estimate.tilting import TiltedSum
from evr._kernel.pairs import DiscretePair, DominatingPair, Floats, Step, infinite_mass, without_infinite
from evr._kernel.pairs.line.pair import log_sum_exp
from evr._kernel.pairs.line.poisson import outcomes

_DEPTH = 60.0  # nats below which a probability under both laws is left out
_STEP = 2.5  # of the mean from tilt to tilt, in deviations
_MOST_TILTS, _HALVINGS, _SAME = 24, 6, 1e-4
_SIZE = 1 << 15  # places of losses
_ACCURATE = 1e-8  # of the greatest probability: what a transform holds to many digits
_FARTHEST = 80.0  # of losses


@singledispatch
def outcomes_of(pair: DominatingPair) -> DominatingPair:
    """The pair on finitely many outcomes, where it has these."""
    return outcomes(pair)


@lru_cache(maxsize=64)
def composed(steps: tuple[Step, ...]) -> DiscretePair:
    """A composition as outcomes on a grid of losses, infinite ones apart."""
    if len(steps) == 1 and steps[0].count == 1:
        pair = outcomes_of(steps[0].pair)
        if isinstance(pair, DiscretePair):
            return pair
    infinite = infinite_mass(steps)
    finite = tuple(Step(without_infinite(step.pair), step.count) for step in steps)
    smooth = any(not len(step.pair.flats) for step in finite)
    tilts = _tilts(finite)
    low, high = min(one.range(0.0)[0] for one in tilts), max(one.range(0.0)[1] for one in tilts)
    width = (high - low) / (_SIZE - 64)
    first = math.floor(low / width) - 32
    places = width * (first + np.arange(_SIZE))
    best = np.full(_SIZE, -np.inf)
    for tilt in tilts:  # those near 0 come first on each side
        log_moment, law = _power(finite, tilt.order, width, smooth=smooth)
        law = np.roll(law, -first)
        good = (best == -np.inf) & (law > _ACCURATE * law.max())
        best[good] = np.log(law[good]) + log_moment - tilt.order * places[good]
    log_q = best - places
    kept = np.isfinite(best) & ((best > -_DEPTH) | (log_q > -_DEPTH))
    rest = max(0.0, 1.0 - math.exp(log_sum_exp(log_q[kept])))
    with np.errstate(divide="ignore"):
        return DiscretePair.from_logs(
            np.concatenate((best[kept], [-np.inf, np.log(infinite)])),
            np.concatenate((log_q[kept], [np.log(rest), -np.inf])),
            np.concatenate((places[kept], [-np.inf, np.inf])),
        )


def _tilts(steps: tuple[Step, ...]) -> list[TiltedSum]:
    """Tilted sums whose means are a few deviations apart, as far as probabilities under both laws matter."""
    counts = [step.count for step in steps]

    def at(order: float) -> TiltedSum:
        return TiltedSum([rough_points(step.pair, order, math.inf) for step in steps], counts, order)

    def is_near(last: TiltedSum, here: TiltedSum) -> bool:
        mean = here.mean_excess(0.0)
        log_p = here.log_bound(mean)  # about, at the mean
        far = abs(mean - last.mean_excess(0.0)) > 2.0 * _STEP * max(last.deviation, here.deviation)
        return not far and max(log_p, log_p - mean) > -_DEPTH and abs(mean) < _FARTHEST

    found = [at(0.0)]
    for sign in (1.0, -1.0):
        last = found[0]
        for _ in range(_MOST_TILTS):
            step = sign * _STEP / max(last.deviation, 0.02)
            tries = (at(last.order + step / 2**halvings) for halvings in range(_HALVINGS))
            here = next((one for one in tries if is_near(last, one)), None)
            if here is None:
                break
            found.append(here)
            if abs(here.mean_excess(0.0) - last.mean_excess(0.0)) < _SAME:
                break
            last = here
    return found


def _power(steps: tuple[Step, ...], order: float, width: float, *, smooth: bool) -> tuple[float, Floats]:
    """The tilted sum on the grid, a ring that starts at the loss 0, and ``log E[e^{order sum}]``."""
    total, transform = 0.0, np.ones(_SIZE // 2 + 1, dtype=complex)
    for step in steps:
        points = points_of(step.pair, order, math.inf, _SIZE // 2, width)
        exponents = points.log_weights + order * points.losses
        log_moment = log_sum_exp(exponents)
        weights, positions = np.exp(exponents - log_moment), points.losses / width
        grid = spread(positions, weights, _SIZE) if smooth else _spread(positions, weights, width)
        transform = transform * np.fft.rfft(grid) ** step.count
        total += step.count * log_moment
    return total, np.fft.irfft(transform, _SIZE)


def _spread(positions: Floats, weights: Floats, width: float) -> Floats:
    """Each weight on the two nearest places, so that the probability under ``Q`` is kept."""
    below = np.floor(positions)
    share = -np.expm1((below - positions) * width) / -np.expm1(-width)
    index = below.astype(np.int64)
    first = np.bincount(index % _SIZE, weights * (1 - share), minlength=_SIZE).astype(np.float64)
    return first + np.bincount((index + 1) % _SIZE, weights * share, minlength=_SIZE)
