"""Components that are worth a try, for each law in many dimensions.

In the notation of docs/guarantees_highdim.md, Section 4: scaled means carry the excess over epsilon
by one pattern, bumps by patterns next to each other, shifts by all of them together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from scipy.optimize import minimize_scalar

from evr.bounds.bins import InverseMoment, log_scaling
from evr.bounds.order_tables import MOST_REPLICAS
from evr.laws import Direction, Floats
from evr.laws.mixture.bins import CorrelatedBins, IndependentBins
from evr.laws.mixture.law import MixtureLaw, log_mean_exp
from evr.laws.mixture.min_sep import MinSep
from evr.laws.mixture.strategy import product
from evr.sampling.matrix_parts import affords, bump_of, log_hoelder

Parts = tuple[dict[str, float], ...]
"""Numbers of a component's part of each law."""

Laws = list[tuple[MixtureLaw, int]]

_MOST_ORDERS = 25
_WIDTHS = (0.0, 0.7, 1.5, 3.0, 6.0, 12.0, 24.0, 48.0)  # of bumps, in bins
_SHIFTS = (0.0, 1.5, 4.0, 8.0)  # of all bins together, over the energy
_TARGETS = (1.0, 0.85)  # losses at the centre of a component, in units of epsilon
_LIKELIER = (1.0, 1.7, 3.0, 5.0, 8.0)  # probabilities of a chain, in units of its own
_SCALES = (1.0, 1.5, 2.2, 3.2, 4.5, 6.5)  # of the means of a chain
_FARTHEST = 1e4


def inverse_part(law: MixtureLaw, theta: float) -> dict[str, float]:
    """The part of the add direction that is as good as a tilt of order ``theta``."""
    return {"inverse_order": theta} if isinstance(law, IndependentBins) else {"shift": -theta}


def rough_inverse(law: MixtureLaw, theta: float) -> float:
    """About ``log M`` of that part."""
    if isinstance(law, IndependentBins):
        return InverseMoment(law.bins, law.energy, cells=768, points=301).log_bound(theta)
    return theta * law.mean_energy / 2 + theta**2 * law.mean_square / 2


def bounded_orders(laws: Laws) -> Iterator[int]:
    """Orders whose tables are affordable for all laws, rising."""
    for order in range(2, min(_MOST_ORDERS, MOST_REPLICAS)):
        if not all(isinstance(law, IndependentBins) or affords(law, order) for law, _ in laws):
            return
        yield order


def scaled_parts(laws: Laws, scale: float) -> Parts:
    """Scaled means of all laws, which bound samples whatever the matrix (5.3)."""
    return tuple(
        {"scale": scale, "probability": _likelier(law, scale)}
        if isinstance(law, MinSep)
        else {"scale": scale}
        for law, _ in laws
    )


def _likelier(law: MinSep, scale: float) -> float:
    """The probability of a chain that bounds samples best."""
    found = minimize_scalar(
        lambda x: log_hoelder(law, min(math.exp(x), 0.99), scale),
        bounds=(math.log(law.probability), math.log(max(0.95, law.probability))),
        method="bounded",
        options={"maxiter": 12, "xatol": 0.05},
    )
    return min(math.exp(float(found.x)), 0.99)


def best_scale(laws: Laws, epsilon: float) -> float:
    """The scale above 1 at which ``scaled_parts`` bound samples best, about."""

    def log_bound(log_more: float) -> float:
        u = 1.0 + math.exp(log_more)
        log_h = math.fsum(count * _log_scaled(law, u) for law, count in laws)
        return (u - 1) * (log_h - epsilon) + log_scaling(u)

    grid = np.linspace(-3.0, 3.5, 27)
    return 1.0 + math.exp(float(grid[int(np.argmin([log_bound(x) for x in grid]))]))


def _log_scaled(law: MixtureLaw, u: float) -> float:
    if isinstance(law, MinSep):
        return log_hoelder(law, min(2.0 * law.probability, 0.95), u)
    if isinstance(law, CorrelatedBins):
        return float(log_mean_exp(u * law.energies[None, :] / 2)[0])
    return u * law.greatest_energy / 2


def plain_part(law: MixtureLaw) -> dict[str, float]:
    """``P`` of the law itself."""
    if law.direction is Direction.ADD:
        return {"shift": 0.0}
    if isinstance(law, MinSep):
        return {"scale": 1.0, "probability": law.probability}
    return {"scale": 1.0}


def dictionary(laws: Laws, epsilon: float) -> list[Parts]:
    """Components in which one law carries epsilon and the others are drawn as they are."""
    found = []
    for place, (law, count) in enumerate(laws):
        if count > 1:
            continue
        for part in candidates(law, epsilon):
            parts = [plain_part(other) for other, _ in laws]
            parts[place] = part
            found.append(tuple(parts))
    return found


def candidates(law: MixtureLaw, epsilon: float) -> list[dict[str, float]]:
    """Parts of one law that raise its loss to epsilon; the first is the likeliest."""
    if isinstance(law, IndependentBins):
        return [{"scale": scale} for scale in _scales(law, epsilon)]
    if isinstance(law, CorrelatedBins):
        return list(_bumps(law, epsilon))
    assert isinstance(law, MinSep)
    chances = {min(law.probability * more, 0.95) for more in _LIKELIER} | {law.probability}
    return [{"scale": u, "probability": p} for p in sorted(chances) for u in _SCALES]


def _scales(law: IndependentBins, epsilon: float) -> list[float]:
    """The scale at which one bin's ratio is ``b (e^epsilon - 1)``, and less of it."""
    needed = math.log(law.bins) + (math.log(math.expm1(epsilon)) if epsilon > 0 else -20.0)
    scale = max(needed / law.energy + 0.5, 1.5)
    less = 1.0 / math.sqrt(law.energy)
    return sorted({max(scale - i * less, 1.05) for i in (0.0, 1.0, 2.0)}, reverse=True)


def _bumps(law: CorrelatedBins, epsilon: float) -> Iterator[dict[str, float]]:
    """Bumps of all widths and shifts that reach epsilon at their centre; then shifts alone."""
    middle = law.bins // 2
    places = np.abs(np.arange(law.bins) - middle)
    together, plain = law.mean_coordinates, np.zeros(law.bins)
    levels = [max(target * epsilon, 0.02) for target in _TARGETS]
    for width in _WIDTHS:
        if width > law.bins / 4:
            break
        raised = product(bump_of(law.bins, width)[places], law.gram)
        for more in _SHIFTS:
            shift = more / law.greatest_energy
            for level in levels:
                scale = _reaching(law, shift * together, raised, level)
                if scale is None:
                    continue
                if width == 0 and shift == 0:
                    yield {"scale": scale}
                else:
                    yield {"scale": scale, "width": width, "shift": shift}
    for level in levels:
        alone = _reaching(law, plain, together, level)
        if alone is not None:
            yield {"shift": alone}


def _reaching(law: CorrelatedBins, start: Floats, along: Floats, level: float) -> float | None:
    """How far to go for the loss to reach a level; None if it does from the start, or never."""

    def short(times: float) -> bool:
        return float(law.log_ratio((start + times * along)[None, :])[0]) < level

    return _threshold(short)


def _threshold(short: Callable[[float], bool]) -> float | None:
    """Where a condition ends that holds from 0 on, by bisection."""
    if not short(0.0):
        return None
    high = 1.0
    while short(high):
        high *= 2.0
        if high > _FARTHEST:
            return None
    low = 0.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if short(middle) else (low, middle)
    return high
