"""Two tilts at once: one for what delta owes to many steps, one for what it owes to a jump.

Nothing rests on what is found here but the time that a verification takes (docs/guarantees.md,
Section 3.11).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from evr.bounds.blending import Blend
from evr.bounds.tilt import Tilt
from evr.laws import Floats, Step
from evr.sampling.plan import Kind
from evr.sampling.proposals import drawn_pairs, drawn_steps

_LOW, _HIGH = (0.2, 0.35, 0.6), (1.0, 1.25, 1.6)  # caps of the two over epsilon, to begin with
_SHARES = (0.05, 0.95)  # of the first, at the least and at the most
_EVALUATIONS = 60


class _Slope:
    """Tilts of one order and cap for all kinds, each with its floor."""

    def __init__(self, order: float, cap: float) -> None:
        self.order, self.cap = order, cap

    def tilt(self, floor: float) -> Tilt:
        return Tilt(self.order, max(self.cap, floor), floor)


def blended_kinds(
    steps: Sequence[Step], kinds: Sequence[Kind], epsilon: float
) -> tuple[tuple[Kind, ...], tuple[float, float]] | None:
    """The kinds, with two tilts each in place of the one they have, and the shares of the two;
    None where no one loss exceeds epsilon.
    """
    search = _Search(steps, kinds, epsilon)
    if epsilon <= 0.0 or search.top <= epsilon:
        return None
    first, second, share = search.run()
    found = tuple(
        replace(x, tilt=first.tilt(x.tilt.floor), others=(second.tilt(x.tilt.floor),))
        for x in kinds
    )
    return found, (share, 1.0 - share)


class _Search:
    """Orders, caps and shares with the least bound on the second moment."""

    def __init__(self, steps: Sequence[Step], kinds: Sequence[Kind], epsilon: float) -> None:
        drawn = drawn_steps(steps, kinds)
        pairs, _ = drawn_pairs(drawn.steps, apart=True)
        self._steps = [Step(pair, s.count) for pair, s in zip(pairs, drawn.steps, strict=True)]
        self._floors = [kind.tilt.floor for kind in drawn.kinds]
        self._epsilon = epsilon
        self._orders = math.log(max(kind.tilt.order for kind in kinds))
        self.top = max(pair.loss_range[1] for pair in pairs)

    def run(self) -> tuple[_Slope, _Slope, float]:
        """The best of a few pairs of caps, improved."""
        low, high = ([self._centred(x * self._epsilon) for x in caps] for caps in (_LOW, _HIGH))
        starts = [self._point(a, b) for a in low for b in high]
        best = min(starts, key=self._objective)
        spread = np.diag([0.1, 0.2, 0.1, 0.1, 0.5])
        found = minimize(
            self._objective,
            best,
            method="Nelder-Mead",
            options={
                "initial_simplex": np.vstack((best, best + spread)),
                "xatol": 0.01,
                "fatol": 0.01,
                "maxfev": _EVALUATIONS,
            },
        )
        return self._parts(found.x)

    def _centred(self, cap: float) -> _Slope:
        """Of that cap, with the order that centres the tilted loss at epsilon."""

        def chernoff(log_order: float) -> float:
            slope = _Slope(math.exp(log_order), cap)
            (normaliser, _) = self._blend(slope, slope, 0.5).log_normalisers
            return normaliser - slope.order * self._epsilon

        bounds = (self._orders - 3.0, self._orders + 2.0)
        found = minimize_scalar(chernoff, bounds=bounds, method="bounded", options={"xatol": 0.05})
        return _Slope(math.exp(found.x), cap)

    @staticmethod
    def _point(first: _Slope, second: _Slope) -> Floats:
        return np.array([*np.log([first.order, first.cap, second.order, second.cap]), 0.0])

    @staticmethod
    def _parts(point: Floats) -> tuple[_Slope, _Slope, float]:
        a, low, b, high = np.exp(point[:4]).tolist()
        share = 1.0 / (1.0 + math.exp(-float(point[4])))
        return _Slope(a, low), _Slope(b, high), min(max(share, _SHARES[0]), _SHARES[1])

    def _blend(self, first: _Slope, second: _Slope, share: float) -> Blend:
        tilts = [[slope.tilt(floor) for floor in self._floors] for slope in (first, second)]
        return Blend(self._steps, tilts, (share, 1.0 - share))

    def _objective(self, point: Floats) -> float:
        """``log`` of the bound on ``E[X^2]``."""
        return self._blend(*self._parts(point)).at(self._epsilon).log_moment(2.0)
