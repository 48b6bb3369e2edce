"""Parts of laws in many dimensions, drawn by place: the same numbers with NumPy and on a GPU.

A sample's component has a place, and so have the numbers of each copy of a law in it, its *row*. Parts draw from
``RowNumbers`` as they draw from a generator. docs/guarantees_highdim.md, Section 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evr.laws.arrays import module_of
from evr.laws.law import Floats
from evr.laws.patterns.law import PatternLaw
from evr.sampling.parts import Part
from evr.sampling.philox import CHOICES, Place, RowNumbers, unit

MOST_COPIES = 1 << 12
"""Of one law: rows of a block, of up to 2^20 samples, have numbers of 32 bits."""


class Places(NamedTuple):
    """Of one block: where components are chosen, and where the rows of each law are."""

    components: Place
    laws: tuple[Place, ...]

    @classmethod
    def of(cls, generator: np.random.Generator, laws: int) -> Places:
        """From the block's stream."""
        return cls(Place.of(generator), tuple(Place.of(generator) for _ in range(laws)))


def coordinates(
    places: Places,
    samples: NDArray[np.int64],
    share: float,
    parts: Sequence[Sequence[Part]],
    laws: Sequence[tuple[PatternLaw, int]],
) -> list[Floats]:
    """Coordinates of each law, of a sample's copies in a row; the first component draws a ``share`` of the samples."""
    xp = module_of(samples)
    first = unit(places.components.calls(samples, CHOICES)[0][:, 0]) < share
    found = []
    for index, ((law, count), place) in enumerate(zip(laws, places.laws, strict=True)):
        own = xp.empty((samples.size, count, law.dimension))
        for chosen, component in zip((first, ~first), parts, strict=False):
            rows = np.flatnonzero(chosen)
            ids = (samples[rows][:, None] * count + xp.arange(count)).reshape(-1)
            generator: Any = RowNumbers(place, ids)
            drawn = component[index].draw(generator, ids.size)
            own[rows] = drawn.reshape(rows.size, count, law.dimension)
        found.append(own.reshape(-1, law.dimension))
    return found
