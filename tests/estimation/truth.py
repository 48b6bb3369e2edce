"""Deltas of compositions by contour integration in 80-bit floats, and of lattice laws by summation:
code of its own.

Nothing here is shared with ``src/``. For the finite part of the loss ``S = sum_i (S_i1 + ... +
S_ik_i)`` of one direction, ``M_i(z) = E_P[e^{z S_i1}; finite]`` and any ``a > 0``,

    E_P[(1 - e^{eps - S})_+; finite] = 1/(2 pi) * integral over u of prod M_i(z)^k_i e^{-eps z} / (z
    (z+1)),  z = a + iu.

Each step is a list of points: losses and probabilities, Gauss-Legendre nodes where the law is
smooth, so that ``M - 1 = sum p (e^{z loss} - 1)`` has a relative rounding error, however small the
losses are. The outer integral is a trapezoidal sum; its step makes the law of the sum periodic, and
the period holds all but ``e^-NATS`` of the tilted law. A law that has an atom, or nearly one, has
no integrand that dies off: ``OutOfReach``. Atoms of a few steps are taken out by conditioning on
them (``delta``), and the value is computed twice, on two contours; they must agree.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np

LONG = np.longdouble
NATS = 48.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
PI = LONG(math.pi) + LONG(1.2246467991473532e-16)


class OutOfReach(ArithmeticError):
    """This code has no answer that it trusts."""


def _gauss() -> tuple[Any, Any]:
    """Nodes and weights on [0, 1] to 80 bits: Newton's method from the doubles."""
    with mp.workdps(40):
        nodes, weights = [], []
        for x in _NODES:
            t = mp.mpf(float(x))
            for _ in range(4):
                p, q = mp.legendre(24, t), mp.legendre(23, t)
                slope = 24 * (q - t * p) / (1 - t * t)
                t -= p / slope
            p, q = mp.legendre(24, t), mp.legendre(23, t)
            slope = 24 * (q - t * p) / (1 - t * t)
            nodes.append((t + 1) / 2)
            weights.append(1 / ((1 - t * t) * slope**2))
        return _long(nodes), _long(weights)


def _long(values: Any) -> Any:
    """mpmath numbers as 80-bit floats."""
    if not isinstance(values, list):
        high = float(values)
        return LONG(high) + LONG(float(values - mp.mpf(high))) if math.isfinite(high) else LONG(high)
    return np.array([_long(v) for v in values], dtype=LONG)


GAUSS_NODES, GAUSS_WEIGHTS = _gauss()


@dataclass(frozen=True)
class Smooth:
    """A step whose ``P`` has a density on a line: ``log_density(x)``, ``loss(x)``, where it lives,
    and where it bends.
    """

    log_density: Callable[[Any], Any]
    loss: Callable[[Any], Any]
    low: float
    high: float
    bends: tuple[tuple[float, float], ...] = ()
    """Places and scales: panels near a place are not wider than its scale."""
    atoms: tuple[tuple[Any, Any], ...] = ()
    """Losses and probabilities beside the density."""


def points(law: Smooth, order: float, top: float) -> tuple[Any, Any]:
    """Losses and probabilities that serve all ``z`` with real part ``order`` and imaginary part up
    to ``top``.
    """
    rough = np.unique(
        np.concatenate(
            [np.linspace(law.low, law.high, 4001)]
            + [place + scale * np.linspace(-60, 60, 601) for place, scale in law.bends]
        )
    )
    rough = rough[(rough >= law.low) & (rough <= law.high)]
    rough = rough[np.concatenate(([True], np.diff(rough) > 1e-9 * (1 + np.abs(rough[1:]))))].astype(LONG)
    plain, y = law.log_density(rough), law.loss(rough)
    tilted = plain + LONG(order) * y
    kept = (tilted > tilted.max() - 2.2 * NATS) | (plain > plain.max() - 2.2 * NATS)
    first, last = int(np.argmax(kept)), len(kept) - 1 - int(np.argmax(kept[::-1]))
    low, high = rough[max(first - 1, 0)], rough[min(last + 1, len(rough) - 1)]
    edges = [LONG(low)]
    rough_slope = np.abs(np.gradient(y.astype(float), rough.astype(float)))
    while edges[-1] < high:
        x = float(edges[-1])
        near = np.searchsorted(rough, x)
        slope = float(rough_slope[max(near - 1, 0) : near + 3].max())
        width = min(0.7, 8.0 / (slope * (top + abs(order)) + 1e-300))
        for place, scale in law.bends:
            width = min(width, scale * (1 + abs(x - place) / scale / 2))
        edges.append(min(edges[-1] + LONG(width), LONG(high)))
        if len(edges) > 200_000:
            raise OutOfReach("too many panels")
    places = np.array(edges, dtype=LONG)
    widths = np.diff(places)
    x = (places[:-1, None] + widths[:, None] * GAUSS_NODES).ravel()
    p = np.exp(law.log_density(x)) * (widths[:, None] * GAUSS_WEIGHTS).ravel()
    losses = law.loss(x)
    if law.atoms:
        losses = np.concatenate((losses, np.array([LONG(a) for a, _ in law.atoms])))
        p = np.concatenate((p, np.array([LONG(b) for _, b in law.atoms])))
    return losses, p


@dataclass(frozen=True)
class Kind:
    """So many equal steps: by points, or by ``log M`` itself."""

    count: int
    law: Smooth | None = None
    discrete: tuple[tuple[Any, Any], ...] | None = None  # (loss, probability) under P, finite losses
    infinite: Any = 0  # probability of an infinite loss
    mu: Any = None  # of a plain Gaussian step
    scale: float = 1.0  # one over the width, in losses, of what is smooth: as a Gaussian's noise
    cache: dict[Any, Any] = field(default_factory=dict, compare=False, hash=False)

    def table(self, order: float, top: float) -> tuple[Any, Any]:
        if self.discrete is not None:
            first, second = zip(*self.discrete, strict=True)
            return np.array([LONG(v) for v in first]), np.array([LONG(v) for v in second])
        assert self.law is not None
        key = (order, top)
        if key not in self.cache:
            if len(self.cache) > 8:
                self.cache.clear()
            self.cache[key] = points(self.law, order, top)
        return self.cache[key]

    def log_m(self, order: float) -> Any:
        """``log M`` on the real axis."""
        if self.mu is not None:
            return LONG(order) * (LONG(order) + 1) * LONG(self.mu) ** 2 / 2
        y, p = self.table(order, 0.0)
        e = LONG(order) * y
        if float(np.max(e)) > 1.0:
            top = np.max(e + np.log(p))
            return top + np.log(np.sum(np.exp(e + np.log(p) - top)))
        return np.log1p(np.sum(p * np.expm1(e)) - LONG(self.infinite))

    def moments(self, order: float) -> tuple[Any, Any]:
        """Mean and variance of the tilted loss."""
        if self.mu is not None:
            return LONG(self.mu) ** 2 * (LONG(order) + LONG(0.5)), LONG(self.mu) ** 2
        y, p = self.table(order, 0.0)
        e = LONG(order) * y + np.log(p)
        w = np.exp(e - e.max())
        w /= w.sum()
        mean = np.sum(w * y)
        return mean, np.sum(w * (y - mean) ** 2)

    def relative(self, order: float, start: Any, step: Any, rows: int) -> Any:
        """``log M(a + iu) - log M(a)`` at ``u = start + step * (0 .. rows^2 - 1)``."""
        count = rows * rows
        u = start + step * np.arange(count).astype(LONG)
        if self.mu is not None:
            square = LONG(self.mu) ** 2
            return -square * u * u / 2 + 1j * (square * u * (LONG(order) + LONG(0.5)))
        y, p = self.table(order, 2.0 ** math.ceil(math.log2(float(u[-1]))))
        e = LONG(order) * y + np.log(p)
        w = np.exp(e - e.max())
        w /= w.sum()
        mean = np.sum(w * y)
        y = y - mean
        total = np.zeros(count, dtype=np.clongdouble)
        for part in range(0, len(y), 20000):  # e^{i(b+c)} - 1 = BC + B + C, B = e^{ib} - 1
            yy, ww = y[part : part + 20000], w[part : part + 20000]
            far = _turn(np.outer(u[::rows], yy))
            near = _turn(np.outer(step * np.arange(rows).astype(LONG), yy))
            total += ((far * ww) @ near.T + (far @ ww)[:, None] + (near @ ww)[None, :]).ravel()
        return _log1p(total) + 1j * u * mean


def _turn(angle: Any) -> Any:
    half = np.sin(angle / 2)
    return -2 * half * half + 1j * np.sin(angle)


def _log1p(w: Any) -> Any:
    x, y = w.real, w.imag
    near = np.abs(w) < 0.5
    with np.errstate(divide="ignore"):
        modulus = np.where(near, np.log1p(np.where(near, 2 * x + x * x + y * y, 0)) / 2, np.log(np.abs(1 + w)))
    return modulus + 1j * np.arctan2(y, 1 + x)


def _saddle(kinds: Sequence[Kind], epsilon: Any, nats: float) -> float:
    """Where the integrand on the real axis, convex in ``a``, is least; or ``nats`` higher, to the
    right (left if negative).
    """

    def height(log_a: float) -> float:
        a = math.exp(log_a)
        try:
            with np.errstate(all="ignore"):
                value = sum(k.count * k.log_m(a) for k in kinds) - LONG(a) * epsilon
            value = float(value - math.log(a) - math.log1p(a))
        except (OutOfReach, OverflowError):
            return math.inf
        return value if math.isfinite(value) else math.inf

    grid, heights = np.linspace(math.log(1e-9), math.log(1e17), 60), []
    for g in grid:  # convex: where it rises twice the least is behind
        heights.append(height(g))
        if len(heights) > 3 and heights[-1] > heights[-2] > heights[-3]:
            break
    best = int(np.argmin(heights))
    if not math.isfinite(heights[best]):
        raise OutOfReach("no finite moment")
    left, right = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)])
    for _ in range(30):
        third = (right - left) / 3
        if height(left + third) < height(right - third):
            right -= third
        else:
            left += third
    near = (left + right) / 2
    if nats:
        target, far = height(near) + abs(nats), near + math.copysign(2.0, nats)
        for _ in range(30):
            middle = (near + far) / 2
            near, far = (middle, far) if height(middle) < target else (near, middle)
    return math.exp(near)


def _period(kinds: Sequence[Kind], epsilon: Any, a: float) -> Any:
    """A range around ``eps`` that holds the tilted sum but for ``e^-NATS``, by Chernoff's bound."""
    base = [k.log_m(a) for k in kinds]
    spread = math.sqrt(float(sum(k.count * k.moments(a)[1] for k in kinds)))
    if spread == 0:
        raise OutOfReach("an atom")
    above, below = LONG(math.inf), LONG(math.inf)
    for b in np.geomspace(0.05, 40, 40) / spread:
        with np.errstate(all="ignore"):
            up = sum(k.count * (k.log_m(a + b) - m) for k, m in zip(kinds, base, strict=True))
            above = min(above, (up + NATS) / LONG(b) - epsilon) if np.isfinite(up) else above
            down = sum(k.count * (k.log_m(a - b) - m) for k, m in zip(kinds, base, strict=True))
            below = min(below, (down + NATS) / LONG(b) + epsilon) if np.isfinite(down) else below
    return max(above, LONG(0)) + max(below, LONG(0)) + LONG(NATS / a)


def _integral(
    kinds: Sequence[Kind], epsilon: Any, nats: float, period: float, taper: float = 0.0, most: int = 8192
) -> Any:
    """The integral on one contour; with a ``taper``, what is far from the real axis fades out.

    In the space of losses that is a convolution with a kernel as wide as the inverse of the taper's
    width. It moves nothing of a bulk near 0 past ``eps``, and leaves a density that is smooth on
    that scale as it is: agreement of two tapers shows it.
    """
    a = _saddle(kinds, epsilon, nats)
    fade = 16.0 * taper / float(epsilon) if taper else math.inf
    top = 8 * fade * taper + 12.0 * taper * max([1.0 / float(k.mu) if k.mu is not None else k.scale for k in kinds])
    step = 2 * PI / (_period(kinds, epsilon, a) * LONG(period))
    log_peak = sum(k.count * k.log_m(a) for k in kinds) - LONG(a) * epsilon
    total, start, rows = LONG(0), 0, 16
    while True:
        u = step * np.arange(start, start + rows * rows).astype(LONG)
        logs = sum(k.count * k.relative(a, u[0], step, rows) for k in kinds) - 1j * u * epsilon
        z = LONG(a) + 1j * u
        with np.errstate(under="ignore"):
            terms = np.exp(logs) / (z * (z + 1))
        real = terms.real if not taper else terms.real * _fading(u, top, fade)
        total += real.sum() - (real[0] / 2 if start == 0 else 0)
        start += rows * rows
        if (
            float(np.max(np.abs(terms[-rows:]))) * start < 1e-19 * abs(float(total))
            and float(np.max(logs.real[-rows:])) < -12
        ):
            break
        if taper and float(u[-1]) > top + 7 * fade:
            break
        if start > most or (not taper and start >= 1024 and float(np.max(logs.real[-rows:])) > -0.5):
            raise OutOfReach("the integrand does not die off")
    return total * step / PI * np.exp(log_peak)


def _fading(u: Any, top: float, width: float) -> Any:
    """``erfc((u - top) / width) / 2`` in 80 bits."""
    with mp.workdps(25):
        return np.array(
            [
                _long(mp.erfc((mp.mpf(float(v)) - top) / width) / 2)
                if abs(float(v) - top) < 8 * width
                else LONG(float(v) < top)
                for v in u
            ]
        )


def integral(kinds: Sequence[Kind], epsilon: Any, agreement: float = 1e-10, tapered: bool = True) -> float:
    """``E_P[(1 - e^{eps - S})_+; finite]``, twice."""
    epsilon = _long(mp.mpf(epsilon.numerator) / epsilon.denominator) if isinstance(epsilon, Fraction) else LONG(epsilon)
    try:
        one, other = _integral(kinds, epsilon, 0.0, 1.0), _integral(kinds, epsilon, 1.5, 1.25)
    except OutOfReach:
        if not tapered or epsilon <= 0:
            raise
        one, other = (_integral(kinds, epsilon, 0.0, 1.0, 1.0), _integral(kinds, epsilon, -1.5, 1.2, 1.25))
    if not abs(float(other / one) - 1) <= agreement:
        raise OutOfReach(f"two contours: {one} {other}")
    return float(one)


# --- mechanisms -----------------------------------------------------------------------------------


def _log_normal(x: Any) -> Any:
    return -x * x / 2 - np.log(2 * PI) / 2


def _mixed(loss: Any, q: Any, r: Any) -> Any:
    """``log(r + q e^loss)``, ``r = 1 - q``."""
    small = np.abs(loss) < 1
    near = np.log1p(q * np.expm1(np.where(small, loss, 0)))
    return np.where(small, near, np.logaddexp(np.log(r), np.log(q) + loss))


def gaussian(count: int, noise: float) -> Kind:
    return Kind(count, mu=1 / LONG(noise))


def sampled_gaussian(count: int, noise: float, q: float, direction: str) -> Kind:
    """Remove: ``P = (1-q) N(0,1) + q N(mu,1)`` against ``N(0,1)``. Add: the other way round."""
    mu, prob, rest = 1 / LONG(noise), LONG(q), 1 - LONG(q)
    turn = float(np.log(rest / prob) / mu + mu / 2)  # where both parts are equal

    def mixture(x: Any) -> Any:
        return _mixed(mu * x - mu * mu / 2, prob, rest)

    bends = ((turn, float(min(LONG(1), 1 / mu))),)
    reach = 13.5
    if direction == "remove":
        far = max(0.0, min(turn, 1e4)) + reach if turn > 0 else reach
        law = Smooth(
            lambda x: _log_normal(x) + mixture(x), mixture, -reach, float(mu) + far + 200.0 + 3 * float(mu), bends
        )
    else:
        law = Smooth(
            _log_normal, lambda x: -mixture(x), -reach - 200.0 - 4 * float(mu) - min(abs(turn), 1e4), reach, bends
        )
    return Kind(count, law, scale=noise)


def laplace(count: int, scale: float, q: float = 1.0, direction: str = "remove") -> Kind:
    """Two atoms and a density on (0, 1); ``P`` is centred at 1 and ``Q`` at 0, sampled or not."""
    b, prob, rest = LONG(scale), LONG(q), 1 - LONG(q)
    low, high = -1 / b, 1 / b
    p_low, p_high = np.exp(-1 / b) / 2, LONG(0.5)

    def raw(x: Any) -> Any:
        return (2 * x - 1) / b

    def p_density(x: Any) -> Any:
        return -(1 - x) / b - np.log(2 * b)

    if q == 1.0:
        return Kind(
            count, Smooth(p_density, raw, 0.0, 1.0, atoms=((low, p_low), (high, p_high)), bends=((0.5, float(b)),))
        )
    turn = float((b * np.log(rest / prob) + 1) / 2)
    bends = ((0.5, float(b)), (turn, float(b)))
    if direction == "remove":

        def loss(x: Any) -> Any:
            return _mixed(raw(x), prob, rest)

        atoms = tuple(
            (_mixed(y, prob, rest), rest * q_mass + prob * p_mass)
            for y, p_mass, q_mass in ((low, p_low, p_high), (high, p_high, p_low))
        )
        return Kind(count, Smooth(lambda x: p_density(x) - raw(x) + loss(x), loss, 0.0, 1.0, bends, atoms))

    def add_loss(x: Any) -> Any:
        return -_mixed(-raw(x), prob, rest)

    atoms = ((-_mixed(-low, prob, rest), p_low), (-_mixed(-high, prob, rest), p_high))
    return Kind(count, Smooth(p_density, add_loss, 0.0, 1.0, bends, atoms))


def gaussian_mixture(
    count: int, deviation: float, sensitivities: Sequence[float], weights: Sequence[float], direction: str
) -> Kind:
    m = np.array([LONG(s) / LONG(deviation) for s in sensitivities])
    p = np.array([LONG(w) for w in weights])
    p = p / p.sum()

    def mixture(x: Any) -> Any:
        e = np.multiply.outer(x, m) - m * m / 2
        small = np.max(np.abs(e), axis=-1) < 1
        near = np.log1p(np.sum(p * np.expm1(np.where(small[..., None], e, 0)), axis=-1))
        top = np.max(e, axis=-1)
        far = top + np.log(np.sum(p * np.exp(e - top[..., None]), axis=-1))
        return np.where(small, near, far)

    most = float(m.max())
    scale = 1 / max(most, 1.0)
    bends = tuple((float(x), scale) for x in np.linspace(0, most, 5))
    if direction == "remove":
        return Kind(count, Smooth(lambda x: _log_normal(x) + mixture(x), mixture, -13.5, 4 * most + 213.5, bends))
    return Kind(count, Smooth(_log_normal, lambda x: -mixture(x), -213.5 - 4 * most, 13.5, bends))


Law = list[tuple[Any, Any]]
"""Probabilities of each outcome under ``P`` and under ``Q``, as mpmath numbers."""


def randomized_response(noise: float, buckets: int) -> Law:
    n = mp.mpf(noise)
    truth, other = 1 - n + n / buckets, n / buckets
    return [(truth, other), (other, truth)] + ([(other * (buckets - 2), other * (buckets - 2))] if buckets > 2 else [])


def epsilon_delta(epsilon: float, delta: float) -> Law:
    e, d = mp.exp(mp.mpf(epsilon)), mp.mpf(delta)
    return [((1 - d) * e / (1 + e), (1 - d) / (1 + e)), ((1 - d) / (1 + e), (1 - d) * e / (1 + e))] + (
        [(d, mp.mpf(0)), (mp.mpf(0), d)] if d else []
    )


def discrete_laplace(a: float, shift: int) -> Law:
    a = mp.mpf(a)
    c, tail = mp.tanh(a / 2), 1 / (1 + mp.exp(-a))
    law = [(tail, tail * mp.exp(-a * shift)), (tail * mp.exp(-a * shift), tail)]
    return law + [(c * mp.exp(-a * (shift - x)), c * mp.exp(-a * x)) for x in range(1, shift)]


def discrete_gaussian(sigma: float, shift: int) -> Law:
    s = mp.mpf(sigma)
    reach = int(60 * s) + 2
    weight = {x: mp.exp(-(mp.mpf(x) ** 2) / (2 * s * s)) for x in range(-reach - shift, reach + shift + 1)}
    total = mp.fsum(weight.values())
    return [
        (weight.get(x - shift, mp.mpf(0)) / total, weight[x] / total)
        for x in range(-reach, reach + shift + 1)
        if x - shift in weight
    ]


def sampled_law(law: Law, q: float, direction: str) -> Law:
    q = mp.mpf(q)
    return [((1 - q) * b + q * a, b) if direction == "remove" else (a, (1 - q) * a + q * b) for a, b in law]


def discrete(count: int, law: Law) -> Kind:
    """A step with finitely many outcomes."""
    finite = tuple((_long(mp.log(a / b)), _long(a)) for a, b in law if a > 0 and b > 0)
    return Kind(count, discrete=finite, infinite=_long(mp.fsum(a for a, b in law if b == 0)))


def composed_atoms(laws: Sequence[tuple[Law, int]], most: int = 20_000) -> list[tuple[Any, Any]]:
    """Finite losses and probabilities of a composition of laws with counts, by multisets of
    outcomes, equal losses joined.
    """
    digits = mp.mp.dps
    total: dict[Any, Any] = {mp.mpf(0): mp.mpf(1)}
    for law, count in laws:
        groups: dict[Any, Any] = {}
        for a, b in law:
            if a > 0 and b > 0:
                key = _rounded(mp.log(a) - mp.log(b), digits)
                groups[key] = groups.get(key, mp.mpf(0)) + a
        size = math.comb(count + len(groups) - 1, len(groups) - 1)
        if size > most or size * len(total) > 50 * most:
            raise OutOfReach("too many atoms")
        power: dict[Any, Any] = {}
        losses, weights = list(groups), list(groups.values())
        for split in _splits(count, len(losses)):
            ways = mp.mpf(math.factorial(count)) if count < 3000 else mp.factorial(count)
            for n in split:
                ways /= mp.factorial(n)
            loss = _rounded(mp.fsum(n * y for n, y in zip(split, losses, strict=True)), digits)
            power[loss] = power.get(loss, mp.mpf(0)) + ways * mp.fprod(
                w**n for n, w in zip(split, weights, strict=True)
            )
        total = _outer(total, power, digits)
    return sorted(total.items())


def _outer(one: dict[Any, Any], other: dict[Any, Any], digits: int) -> dict[Any, Any]:
    out: dict[Any, Any] = {}
    for (x, p), (y, q) in itertools.product(one.items(), other.items()):
        loss = _rounded(x + y, digits)
        out[loss] = out.get(loss, mp.mpf(0)) + p * q
    return out


def _rounded(x: Any, digits: int) -> Any:
    """Some digits fewer, so that equal losses are equal."""
    with mp.workdps(digits - 12):
        return +x


def _splits(count: int, parts: int) -> Any:
    if parts == 1:
        yield (count,)
        return
    for n in range(count + 1):
        for rest in _splits(count - n, parts - 1):
            yield (n, *rest)


def atomic(laws: Sequence[tuple[Law, int]], epsilon: float, digits: int = 60) -> float:
    """delta of a composition of discrete laws, all outcomes one by one."""
    with mp.workdps(digits):
        e = mp.mpf(epsilon)
        value = mp.fsum(p * -mp.expm1(e - y) for y, p in composed_atoms(laws) if y > e)
        stays = mp.fprod((1 - mp.fsum(a for a, b in law if b == 0)) ** count for law, count in laws)
        return float(value + 1 - stays)


def delta(kinds: Sequence[Kind], epsilon: float, laws: Sequence[tuple[Law, int]] = ()) -> float:
    """delta of smooth kinds and discrete laws together: conditioned on the latter's outcomes where
    these are few.
    """
    if not kinds:
        return atomic(laws, epsilon)
    stays = LONG(1)
    for k in kinds:
        stays *= (1 - LONG(k.infinite)) ** k.count
    with mp.workdps(60):
        for law, count in laws:
            stays *= _long((1 - mp.fsum(a for a, b in law if b == 0)) ** count)
        if not laws:
            return float(integral(kinds, LONG(epsilon)) + (1 - stays))
        atoms = composed_atoms(laws, 60)
        parts = [(_long(mp.mpf(epsilon) - y), _long(p)) for y, p in atoms]
    top = max(float(p) for _, p in parts)
    value, done = LONG(0), LONG(0)
    for excess, p in sorted(parts, key=lambda part: -float(part[1])):
        if float(p) < 1e-18 * top and float(p) < 1e-18 * float(value):
            continue
        value += p * LONG(integral(kinds, excess))
        done += p
    return float(value + (1 - stays))
