"""Parts of laws in many dimensions, drawn by place: the same numbers with NumPy and on a GPU.

A sample's component has a place, and so have the numbers of each copy of a law in it, its *row*. Parts draw from
``RowNumbers`` as they draw from a generator. docs/guarantees_highdim.md, Section 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evr.laws.arrays import module_of
from evr.laws.law import Floats
from evr.laws.patterns.law import PatternLaw
from evr.sampling.parts import Part
from evr.sampling.philox import CHOICES, Place, RowNumbers, unit

MOST_COPIES = 1 << 12
"""Of one law: rows of a block, of up to 2^20 samples, have numbers of 32 bits."""


def coordinates(
    places: Sequence[Place],
    samples: NDArray[np.int64],
    share: float,
    parts: Sequence[Sequence[Part]],
    laws: Sequence[tuple[PatternLaw, int]],
) -> list[Floats]:
    """Coordinates of each law, of a sample's copies in a row; the first component draws a ``share`` of the samples.
    The first of the places is where components are chosen, the others are those of each law's rows.
    """
    first = unit(places[0].calls(samples, CHOICES)[0][:, 0]) < share
    chosen = [np.flatnonzero(first), np.flatnonzero(~first)]
    found = []
    for index, ((law, count), place) in enumerate(zip(laws, places[1:], strict=True)):
        if len(parts) == 1:
            found.append(_drawn(parts[0][index], place, samples, count))
            continue
        own = module_of(samples).empty((samples.size, count, law.dimension))
        for rows, component in zip(chosen, parts, strict=True):
            drawn = _drawn(component[index], place, samples[rows], count)
            own[rows] = drawn.reshape(rows.size, count, law.dimension)
        found.append(own.reshape(-1, law.dimension))
    return found


def _drawn(part: Part, place: Place, samples: NDArray[np.int64], count: int) -> Floats:
    """Coordinates of one law in these samples: a row for each copy."""
    rows = (samples[:, None] * count + module_of(samples).arange(count)).reshape(-1)
    generator: Any = RowNumbers(place, rows)
    return part.draw(generator, rows.size)
