"""Components that are worth a try, for each law in many dimensions.

In the notation of docs/guarantees_highdim.md, Section 4: scaled means carry the excess over epsilon
by one pattern, bumps by patterns next to each other, shifts by all of them together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from evr.bounds.bins import InverseMoment
from evr.bounds.order_tables import MOST_REPLICAS
from evr.laws import Direction
from evr.laws.mixture.bins import IndependentBins
from evr.laws.mixture.law import MixtureLaw

Parts = tuple[dict[str, float], ...]
"""Numbers of a component's part of each law."""


def inverse_part(law: MixtureLaw, theta: float) -> dict[str, float]:
    """The part of the add direction that is as good as a tilt of order ``theta``."""
    return {"inverse_order": theta} if isinstance(law, IndependentBins) else {"shift": -theta}


def rough_inverse(law: MixtureLaw, theta: float) -> float:
    """About ``log M`` of that part."""
    if isinstance(law, IndependentBins):
        return InverseMoment(law.bins, law.energy, cells=768, points=301).log_bound(theta)
    return theta * law.mean_energy / 2 + theta**2 * law.mean_square / 2


def bounded_orders(laws: list[tuple[MixtureLaw, int]]) -> Iterable[int]:
    """Orders whose tables are affordable for all laws, rising."""
    for law, _ in laws:
        if not isinstance(law, IndependentBins):
            return ()
    return range(2, min(25, MOST_REPLICAS))


def plain_part(law: MixtureLaw) -> dict[str, float]:
    """``P`` of the law itself."""
    return {"scale": 1.0} if law.direction is Direction.REMOVE else {"shift": 0.0}


def dictionary(laws: list[tuple[MixtureLaw, int]], epsilon: float) -> list[Parts]:
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
    return []


def _scales(law: IndependentBins, epsilon: float) -> list[float]:
    """The scale at which one bin's ratio is ``b (e^epsilon - 1)``, and less of it."""
    needed = math.log(law.bins) + (math.log(math.expm1(epsilon)) if epsilon > 0 else -20.0)
    scale = max(needed / law.energy + 0.5, 1.5)
    less = 1.0 / math.sqrt(law.energy)
    return sorted({max(scale - i * less, 1.05) for i in (0.0, 1.0, 2.0)}, reverse=True)
