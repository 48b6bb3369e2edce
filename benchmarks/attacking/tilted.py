"""One law of losses, tilted by ``e^{order loss}``: its mean, its moments bound and its
characteristic function.

A density is integrated by Gauss-Legendre panels that are halved until the integrals of the law, of
the tilted law and of the tilted law's fastest oscillation no longer change. What composition
multiplies by a billion is computed without cancellation: from the tilted mean onwards, first-order
terms are zero and are left out, not subtracted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attacking.laws import LONG, Law, Longs, Unreached

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
EPS = np.finfo(LONG).eps
_NODES, _ROUGH_NODES = 20, 12
_LEAST_WEIGHT = 1e-21  # of a node of a tilted law
_NATS = 75  # below the top: what is left out of a law
_MOST_PANELS = 6000
_STEEP = 8  # nats that a tilt may rise between the last node and the end of its panel
_FEW = 8  # atoms
_TURNS = 20_000
_TOGETHER, _RARE = (
    1e-3,
    1e-7,
)  # of the deviation, and of the whole weight: atoms that are in phase, and that do not count
_ALONE = 0.8  # the share of a tilted density that no single node may have


@lru_cache
def gauss_legendre(count: int) -> tuple[Longs, Longs]:
    """Nodes and weights on (-1, 1) in long doubles, by Newton's method from those in doubles."""
    x = np.polynomial.legendre.leggauss(count)[0].astype(LONG)
    for _ in range(3):
        below, value = np.ones_like(x), x.copy()
        for n in range(2, count + 1):
            below, value = value, ((2 * n - 1) * x * value - (n - 1) * below) / n
        slope = count * (x * value - below) / (x * x - 1)
        x = x - value / slope
    return x, 2 / ((1 - x * x) * slope**2)


@dataclass(frozen=True)
class Tilted:
    """A law under a tilt: nodes with weights that sum to 1 and losses less the mean.

    ``log_scale`` is ``log E_P[e^{order (loss - mean)}; loss finite]``.
    """

    mean: Any
    log_scale: Any
    variance: float
    weights: Floats
    offsets: Floats
    atoms: int = 0  # of the nodes, the first
    dropped: float = 0.0  # the weight of nodes that were left out

    @property
    def gap(self) -> float:
        """Between neighbouring atoms, if there is nothing else and all are equally far apart; else
        0.
        """
        places = np.sort(self.offsets)
        if self.atoms < self.offsets.size or places.size < 2:
            return 0.0
        gap = float(places[-1] - places[0]) / (places.size - 1)
        rounded = 1e-13 * gap + 4e-16 * float(np.max(np.abs(places)))
        even = bool(np.all(np.abs(np.diff(places) - gap) <= rounded))
        return gap if even and rounded < 1e-6 * gap else 0.0

    @property
    def periods(self) -> Floats:
        """After which, and multiples of which, losses may be in phase again: the heaviest atom with
        its neighbours, the heaviest atoms with each other, and rare losses with the usual ones.
        """
        places, weights = self._lumps
        gaps = np.array([self._to_rare])
        if weights.size > 1:
            heaviest = int(np.argmax(weights))
            beside = places[max(0, heaviest - 1) : heaviest + 2]
            heavy = np.sort(places[np.argsort(weights)[-4:]])
            gaps = np.concatenate((gaps, np.diff(beside), np.diff(heavy)))
        return 2 * np.pi / np.unique(gaps[gaps > 0])

    @property
    def turns(self) -> int:
        """How many multiples matter: a few atoms may be in phase after many turns of each."""
        return _TURNS if self.atoms == self.offsets.size and 1 < self._lumps[0].size <= _FEW else 2

    @property
    def _lumps(self) -> tuple[Floats, Floats]:
        """Places of the atoms, rising, and their weights: those next to each other joined, and without the rarest."""
        rising = np.argsort(self.offsets[: self.atoms])
        places, weights = self.offsets[rising], self.weights[rising]
        apart = np.diff(places) > _TOGETHER * np.sqrt(self.variance)
        first = np.flatnonzero(np.concatenate((np.ones(min(1, places.size), bool), apart)))
        joined = np.add.reduceat(weights, first) if first.size else weights
        means = np.add.reduceat(weights * places, first) / joined if first.size else places
        kept = joined > _RARE
        return means[kept], joined[kept]

    @property
    def _to_rare(self) -> float:
        """How far the mean of rare losses is from the usual ones; 0 where none are far away, or
        they are nowhere near each other.
        """
        rising = np.argsort(self.offsets)
        places, weights = self.offsets[rising], self.weights[rising]
        quarters = np.searchsorted(np.cumsum(weights), np.array([0.25, 0.5, 0.75]) * weights.sum())
        low, middle, high = places[np.minimum(quarters, places.size - 1)]
        far = places > high + 10 * (high - low)
        if not far.any() or not weights[far].sum() > 0:
            return 0.0
        mean = float(np.average(places[far], weights=weights[far]))
        square = float(np.average((places[far] - mean) ** 2, weights=weights[far]))
        return mean - float(middle) if square < 0.1 * (mean - middle) ** 2 else 0.0

    def log_ratio(self, u: Floats) -> Complexes:
        """``log E'[e^{iu (loss - mean)}]``, the first-order term of which is zero.

        Where ``u`` times a loss is small, by moments of such losses; else loss by loss.
        """
        real, imaginary = np.empty(u.size), np.empty(u.size)
        near = np.abs(self.offsets) * float(np.max(u, initial=0.0)) < 0.5
        far, heavy = self.offsets[~near], self.weights[~near]
        drift = float(np.sum(far.astype(LONG) * heavy))
        chunk = max(1, 1_000_000 // max(1, far.size))
        for start in range(0, u.size, chunk):
            part = slice(start, start + chunk)
            angle = np.multiply.outer(u[part], far)
            real[part] = (np.cos(angle) - 1) @ heavy
            imaginary[part] = np.sin(angle) @ heavy - drift * u[part]
        if near.any():
            scale = float(np.max(np.abs(self.offsets[near]))) or 1.0
            real, imaginary = _add_moments(self.offsets[near] / scale, self.weights[near], u * scale, real, imaginary)
        return log1p(real, imaginary)


@dataclass(frozen=True)
class TiltedGaussian:
    """The same of Gaussian mechanisms, in closed form; ``square`` is the sum of ``1 / noise^2``."""

    mean: Any
    log_scale: Any
    variance: float
    periods: Floats = field(default_factory=lambda: np.empty(0))
    turns: int = 0

    @classmethod
    def of(cls, square: Any, order: Any) -> TiltedGaussian:
        return cls((order + LONG(0.5)) * square, -order * order * square / 2, float(square))

    def log_ratio(self, u: Floats) -> Complexes:
        return (-u * u * self.variance / 2).astype(np.complex128)


def _add_moments(x: Floats, weights: Floats, u: Floats, real: Floats, imaginary: Floats) -> tuple[Floats, Floats]:
    """Add ``sum_x weight (e^{iux} - 1 - iux)`` for ``|x| <= 1`` and ``|u| < 1/2``."""
    term = np.ones_like(u)
    power = np.ones_like(x)
    for n in range(1, 17):
        term, power = term * u / n, power * x
        moment = float(weights @ power)
        if n > 1 and n % 2 == 0:
            real = real + (1 if n % 4 == 0 else -1) * moment * term
        elif n > 1:
            imaginary = imaginary + (1 if n % 4 == 1 else -1) * moment * term
    return real, imaginary


def log1p(real: Floats, imaginary: Floats) -> Complexes:
    """``log(1 + x)`` of a complex number, accurate for ``x`` near 0 and near -1."""
    inside = 2 * real + real * real + imaginary * imaginary
    near = np.abs(inside) < 0.5
    modulus = np.hypot(1 + real, imaginary)
    logs = np.where(near, 0.5 * np.log1p(np.where(near, inside, 0)), np.log(np.maximum(modulus, 1e-300)))
    return logs + 1j * np.arctan2(imaginary, 1 + real)


def exp_less_line(x: Longs) -> Longs:
    """``e^x - 1 - x``, by its series where that is small."""
    series = np.ones_like(x)
    for n in range(20, 2, -1):
        series = 1 + np.clip(x, -0.5, 0.5) / n * series
    return np.where(np.abs(x) < 0.5, x * x / 2 * series, np.expm1(x) - x)


def nodes(law: Law, order: Any, reach: float | None) -> tuple[Longs, Longs]:
    """Atoms and quadrature nodes: logarithms of their masses under ``P``, and their losses.

    ``reach`` is the greatest ``u`` at which ``e^{iu loss}`` will be integrated; None asks for a
    rough answer.
    """
    if law.density is None or law.edges is None:
        return law.log_p, law.loss
    edges = law.edges(order)
    if reach is None:
        edges = edges.astype(float)
    low, high = edges[:-1], edges[1:]
    log_p, loss = _panels(law, low, high, _NODES if reach is not None else _ROUGH_NODES)
    if reach is None:
        return np.append(law.log_p, log_p), np.append(law.loss, loss)
    tops = _tops([(law.log_p, law.loss), (log_p, loss)], order)
    peak = loss.ravel()[np.argmax(log_p + order * loss)]
    done: list[tuple[Longs, Longs]] = [(law.log_p, law.loss)]
    for _ in range(60):
        most = np.max(log_p + order * loss, axis=1)
        if _is_bounded(law):  # a steep tilt may live between the last node and the end of its panel
            ends = order * law.density(np.stack((low, high), axis=1))[1]
            most = np.maximum(most, np.max(log_p, axis=1) + np.max(ends, axis=1))
        matters = (np.max(log_p, axis=1) > tops[0] - _NATS) | (most > tops[1] - _NATS)
        low, high, log_p, loss = low[matters], high[matters], log_p[matters], loss[matters]
        most = most[matters]
        if not low.size:
            break
        middle = (low + high) / 2
        left, right = _panels(law, low, middle), _panels(law, middle, high)
        tops = np.maximum(tops, _tops([left, right], order))
        turns = reach * (loss - peak)
        whole, halves = _tests(log_p, loss, turns, order, tops), 0
        for half in (left, right):
            halves = halves + _tests(*half, reach * (half[1] - peak), order, tops)
        change = np.abs(whole - halves)
        rounding = 20 * EPS * (1 + abs(order) * np.max(np.abs(loss), axis=1))  # of an exponent
        turning = 1e-16 * (1 + np.max(np.abs(turns), axis=1))
        allowed = np.array([np.full(low.size, 20 * EPS), rounding, np.maximum(turning, rounding)])
        seen = most - np.max(log_p + order * loss, axis=1) < _STEEP
        good = np.all(change <= allowed, axis=0) & (seen | (most <= tops[1] - _NATS))
        done.append((log_p[good].ravel(), loss[good].ravel()))
        low, high = (np.concatenate((low[~good], middle[~good])), np.concatenate((middle[~good], high[~good])))
        log_p = np.concatenate((left[0][~good], right[0][~good]))
        loss = np.concatenate((left[1][~good], right[1][~good]))
        if low.size > _MOST_PANELS:
            raise Unreached("the law of one step needs too many panels")
    else:
        raise Unreached("the law of one step does not settle")
    return np.concatenate([d[0] for d in done]), np.concatenate([d[1] for d in done])


def _is_bounded(law: Law) -> bool:
    """Whether a density ends at a greatest loss, where a steep tilt puts all of it."""
    return law.density is not None and bool(np.isfinite(law.greatest))


def _tops(parts: list[tuple[Longs, Longs]], order: Any) -> Any:
    """The greatest logarithms of the law and of the tilted law."""
    held = [(log_p, loss) for log_p, loss in parts if log_p.size]
    return np.array([max(np.max(p) for p, _ in held), max(np.max(p + order * y) for p, y in held)])


def _panels(law: Law, low: Longs, high: Longs, count: int = _NODES) -> tuple[Longs, Longs]:
    x, weights = (part.astype(low.dtype) for part in gauss_legendre(count))
    half = (high - low)[:, None] / 2
    assert law.density is not None
    log_p, loss = law.density((low + high)[:, None] / 2 + half * x)
    return log_p + np.log(half * weights), loss


def _tests(log_p: Longs, loss: Longs, turns: Longs, order: Any, tops: Any) -> Any:
    """The integrals over each panel of the law, of the tilted law and of its
    fastest oscillation.
    """
    plain = np.sum(np.exp(log_p - tops[0]), axis=1)
    tilted = np.exp(log_p + order * loss - tops[1])
    turned = np.sum(tilted * np.exp(1j * turns.astype(float)), axis=1)
    return np.array([plain, np.sum(tilted, axis=1), turned], np.clongdouble)


def tilt(law: Law, order: Any, reach: float | None = 0.0) -> Tilted | TiltedGaussian:
    """The law tilted by an order; characteristic functions are good up to ``reach``; None is for a
    rough answer.
    """
    if law.square is not None:
        return TiltedGaussian.of(law.square, order)
    log_p, loss = nodes(law, order, reach)
    if not log_p.size:
        raise Unreached("no finite loss")
    peak = np.argmax(log_p + order * loss)
    distance = loss - loss[peak]
    weights = np.exp(log_p + order * distance - log_p[peak])
    total = np.sum(weights)
    weights = weights / total
    if _is_bounded(law) and peak >= law.log_p.size and weights[peak] > _ALONE:
        raise Unreached("too steep a tilt for the nodes of a density")
    shift = np.sum(weights * distance)
    mean, offsets = loss[peak] + shift, distance - shift
    exponent = -order * offsets
    if reach is not None and law.lost is not None and np.max(exponent[log_p > np.max(log_p) - 60]) < 40:
        # E' of e^{-order (loss - mean)} is P's mass over the scale
        log_scale = np.log1p(-law.lost) - np.log1p(np.sum(weights * exp_less_line(np.minimum(exponent, LONG(11_000)))))
    else:
        log_scale = log_p[peak] + np.log(total) - order * shift
    variance = float(np.sum(weights * offsets**2))
    kept = weights > _LEAST_WEIGHT
    return Tilted(
        mean,
        log_scale,
        variance,
        weights[kept].astype(float),
        offsets[kept].astype(float),
        int(np.sum(kept[: law.log_p.size])),
        float(np.sum(weights[~kept])),
    )
