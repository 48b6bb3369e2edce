"""Delta of a composition as a contour integral of its moment generating function.

For any order ``a > 0``, with ``Y`` the sum of finite losses and ``E'`` the expectation under the
tilt by ``e^{aY}``,

    delta = E_P[(1 - e^{eps - Y})_+] = e^{-a eps} M(a) / pi * int_0^inf Re E'[e^{iu (Y - eps)}] /
    ((a + iu) (a + 1 + iu)) du

With ``a < -1`` the same integral is ``E_P[(e^{eps - Y} - 1)_+]``, which with ``E_P[1 - e^{eps -
Y}]`` makes delta too.

The integrand is smooth; it is integrated by panels, octave by octave, each halved until nothing
changes. It need not die off: atoms far from epsilon keep it alive for ever. A smooth cut-off
``erfc(12 u / U - 6) / 2`` at ``U`` ends it: in the space of losses that is a convolution with a
kernel of width ``12 / U``, which matters only where the law of ``Y`` near epsilon is not smooth on
that scale. The octaves end when the integral no longer depends on ``U``; how much it still does is
its error.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc

from attacking.tilted import Complexes, Floats, gauss_legendre

_NODES = 16
_TOLERANCE = 1e-13
_AGREEMENT = 2e-13
_MOST_OCTAVES = 70
_MOST_PANELS = 60_000

LogIntegrand = Callable[[Floats], Complexes]


@dataclass
class Integral:
    """``int_0^inf Re e^{log integrand} du``, and what it may be wrong by."""

    value: float
    error: float


@dataclass(frozen=True)
class Revivals:
    """Where the integrand comes to life again, one place a row."""

    places: Floats
    reach: Floats
    """To either side."""
    log_moduli: Floats
    """About the greatest of the integrand there."""
    are_new: NDArray[np.bool_]
    """Not one of a row of equal or falling ones, which what comes before shows."""

    @classmethod
    def joined(cls, parts: Sequence[Revivals]) -> Revivals:
        if not parts:
            return cls(np.empty(0), np.empty(0), np.empty(0), np.empty(0, bool))
        names = ("places", "reach", "log_moduli", "are_new")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def strongest(self, most: int) -> tuple[Revivals, float]:
        """Without all but the strongest new ones, and the sum of the moduli of those left out."""
        weak = np.flatnonzero(self.are_new)
        weak = weak[np.argsort(-self.log_moduli[weak])][most:]
        kept = np.delete(np.arange(self.places.size), weak)
        parts = (self.places, self.reach, self.log_moduli, self.are_new)
        return Revivals(*(part[kept] for part in parts)), math.fsum(np.exp(self.log_moduli[weak]))

    def edges(self, start: float, end: float) -> Floats:
        """Of the first panels between two places: eight of them, and one around each revival."""
        inside = (self.places + self.reach > start) & (self.places - self.reach < end)
        places, reach = self.places[inside], self.reach[inside]
        ends = np.clip(np.concatenate((places - reach, places + reach)), start, end)
        return np.unique(np.concatenate((np.linspace(start, end, 9), ends)))

    def last(self, log_modulus: float) -> float:
        """The last place of a new one that is greater than that; 0 where there is none."""
        great = self.are_new & (self.log_moduli > log_modulus)
        return float(np.max(self.places[great], initial=0.0))


class OutOfTime(Exception):
    """Raised between panels when the deadline has passed."""


def integrate(
    log_integrand: LogIntegrand, distance: float, scale: float, deadline: float, revivals: Revivals
) -> Integral:
    """``distance`` is that from the nearest pole, ``scale`` on what scale the integrand changes
    near 0.

    ``deadline`` is of ``time.process_time``. No octave before a new revival that matters may be
    the last, and no panel steps over any.
    """
    found = _Sum()
    start, edge = 0.0, scale
    best, errors = Integral(math.nan, math.inf), [math.inf]
    for _ in range(_MOST_OCTAVES):
        try:
            found.add(log_integrand, revivals.edges(start, edge), deadline)
        except OutOfTime:
            break
        start, edge = edge, 2 * edge
        if start < 24 * distance:
            continue
        values = [found.cut(start * part) for part in (1.0, math.sqrt(0.5), 0.5)]
        error = abs(values[0] - values[1]) + abs(values[0] - values[2]) + found.rounding
        errors.append(error)
        matters = _AGREEMENT * abs(values[0])
        if start < 4 * revivals.last(math.log(max(matters / scale, 1e-300))):
            best = Integral(math.nan, math.inf)
            continue
        if error <= matters + 2 * found.rounding:
            return Integral(values[0], error)
        if errors[-1] < errors[-2] / 2 < errors[-3:][0] / 4:
            best = Integral(values[0], 100 * error)
        else:
            best = Integral(math.nan, math.inf)  # what comes beyond may matter as much: an atom next to epsilon
    return best


class _Sum:
    """Nodes, weights and values of the integrand so far."""

    def __init__(self) -> None:
        self.u, self.terms = [np.empty(0)], [np.empty(0)]
        self.size = 0.0
        self.changes = 0.0

    @property
    def rounding(self) -> float:
        return 3e-16 * self.size + self.changes

    def cut(self, top: float) -> float:
        u, terms = np.concatenate(self.u), np.concatenate(self.terms)
        kept = u < top
        return math.fsum(terms[kept] * erfc(12 * u[kept] / top - 6) / 2)

    def add(self, log_integrand: LogIntegrand, edges: Floats, deadline: float) -> None:
        """The integral over panels that are halved until halving changes nothing."""
        low, high, end = edges[:-1], edges[1:], edges[-1]
        u, terms, sizes = _panels(log_integrand, low, high)
        before = np.full(low.size, np.inf)
        for level in range(40):
            if not low.size:
                return
            if time.process_time() > deadline or low.size > _MOST_PANELS:
                raise OutOfTime
            middle = (low + high) / 2
            ends = np.concatenate((low, middle)), np.concatenate((middle, high))
            finer = _panels(log_integrand, *ends)
            halves = finer[1].sum(axis=1).reshape(2, -1).sum(axis=0)
            change = np.abs(halves - terms.sum(axis=1))
            total = max(self.size, float(np.sum(sizes)), 1e-300)
            good = change <= np.maximum(_TOLERANCE * total * (high - low) / end / 4, 5e-16 * total)
            good &= (level > 0) | (sizes <= 1e-3 * total)  # what matters is halved once at least
            good |= (change <= 1e-12 * total) & (change > before / 8)  # rounding: halving no longer helps
            self._keep(u[good], terms[good], sizes[good], change[good])
            bad = np.concatenate((~good, ~good))
            low, high, before = ends[0][bad], ends[1][bad], np.tile(change, 2)[bad] / 2
            u, terms, sizes = (x[bad] for x in finer)
        self._keep(u, terms, sizes, sizes)

    def _keep(self, u: Floats, terms: Floats, sizes: Floats, changes: Floats) -> None:
        self.u.append(u.ravel())
        self.terms.append(terms.ravel())
        self.size += float(np.sum(sizes))
        self.changes += float(np.sum(changes))


def _panels(log_integrand: LogIntegrand, low: Floats, high: Floats) -> tuple[Floats, Floats, Floats]:
    """Nodes and weighted values of each panel, as rows, and the integral of the modulus."""
    x, weights = (part.astype(float) for part in gauss_legendre(_NODES))
    half = (high - low)[:, None] / 2
    u = (low + high)[:, None] / 2 + half * x
    logs = log_integrand(u.ravel()).reshape(u.shape)
    moduli = half * weights * np.exp(logs.real)
    terms = moduli * np.cos(logs.imag)
    return u, terms, moduli.sum(axis=1)


def log_kernel(u: Floats, order: float) -> Any:
    """``log(a (a + 1) / ((a + iu) (a + 1 + iu)))``, ``a`` above 0 or below -1."""
    near, far = u / order, u / (order + 1)
    return -0.5 * (np.log1p(near**2) + np.log1p(far**2)) - 1j * (np.arctan(near) + np.arctan(far))
