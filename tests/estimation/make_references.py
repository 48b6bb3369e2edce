"""Make ``references.json``: high-precision deltas of Poisson-sampled Gaussian compositions, by
contour integration.

For one direction with cumulant generating function ``k log M(z)``, ``M(z) = E_P[e^{z loss}]``, and
any ``a > 0``,

    delta(eps) = 1/(2 pi) * integral over u of  e^{k log M(z) - eps z} / (z (z+1)),   z = a + iu.

``M`` is ``E[L^{z+1}]`` in the remove direction and ``E[L^{-z}]`` in the add direction, with ``L = 1
- q + q e^{mu x - mu^2/2}``, ``x`` standard normal, ``mu = 1/noise``: the integrand is analytic, so
the trapezoidal rule converges exponentially. The outer integral is a trapezoidal sum too, which
makes the loss periodic; the period is chosen so that the tilted loss does not notice. For small
``q`` the bulk of the loss is almost an atom near 0 and the integrand decays only as ``u^-2``; a
smooth cut-off ``erfc((u - U)/W)/2`` removes the tail. In the space of losses it is a convolution
with a kernel of width ``1/W``: it moves nothing of the bulk past ``eps`` when ``W eps`` is large,
and leaves a density that is smooth on the scale ``1/U`` near ``eps`` as it is.

Evidence for each value (``agreement`` is the relative difference of the first two):

- 80-bit floats, twice: another contour, period, cut-off and inner step, agreeing to 1e-10. Where
  they do not, because the integrand's peak is too far above delta, the value is by splitting off
  the bulk or mpmath's, again twice; a random setting for which these do not agree either is dropped
  and another drawn (``origin`` says which it was);
- mpmath at 40 digits with yet another contour, for all settings of the issue and some others
  (``mpmath``);
- the closed form for one step, and an exact one-dimensional integral for two (``exact``).

    python tests/estimation/make_references.py            # half an hour, rewrites references.json
    python tests/estimation/make_references.py --check    # compares with the stored ones, writes
    nothing
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np

HERE = Path(__file__).parent
LONG = np.longdouble
TWO_PI = LONG(2) * LONG(math.pi) + LONG(2.4492935982947064e-16)  # 2 pi to 80 bits

ISSUE = [
    (1.5, 100, 1e-3, 0.6),
    (1.5, 1000, 1e-3, 0.6),
    (1.5, 1000, 1e-3, 0.5),
    (0.5, 1000, 1e-3, 1.0),
    (1.0, 1000, 1e-3, 1.0),
    (1.0, 100, 1e-5, 0.5),
    (1.0, 1500, 0.01, 2.0),
    (2.0, 360, 4096 / 50000, 5.971),
]
MANY_STEPS = [
    (1.0, 10**5, 1e-3, 1.0),
    (2.0, 10**6, 1e-3, 2.0),
    (0.5, 10**6, 1e-5, 0.8),
    (3.0, 10**6, 1e-4, 0.7),
    (8.0, 10**6, 1e-3, 1.5),
]
ADD = [
    (1.5, 1000, 0.01, 0.6),
    (1.0, 1500, 0.01, 2.0),
    (2.0, 360, 4096 / 50000, 5.971),
    (1.0, 4, 0.5, 0.5),
    (0.5, 10**5, 1e-3, 1.0),
]
FEW_STEPS = [(0.5, 1, 1e-5, 0.5), (1.0, 2, 1e-5, 0.5), (0.7, 2, 0.2, 1.3), (0.1, 2, 1e-3, 0.7)]
RANDOM, ADD_EVERY, MPMATH_EVERY = (50, 3, 10)  # random settings, and which of them also add, or with mpmath
AGREEMENT = 1e-10


class Setting(NamedTuple):
    epsilon: float
    steps: int
    probability: float
    noise: float
    direction: str = "remove"


class Knobs(NamedTuple):
    """Everything that must not matter."""

    shift: float = 0.0  # of the contour from the saddle point, in nats of the integrand, left or right
    period: float = 1.0
    cutoff: float = 1.0
    inner: float = 1.0  # nats kept by the inner rule


PLAIN, OTHER, MPMATH, MPMATH_OTHER = (
    Knobs(),
    Knobs(-2.0, 1.2, 1.2, 1.15),
    Knobs(-0.7, 1.1, 0.95, 1.1),
    Knobs(-2.0, 1.2, 1.3, 1.2),
)


def _order(z: Any, direction: str) -> Any:
    return z + 1 if direction == "remove" else -z


def _reach(a: float, mu: float, direction: str, tail: float) -> tuple[float, float]:
    """Where ``phi(x) L^order`` lives."""
    order = _order(a, direction)
    return min(0.0, mu * order) - tail, max(0.0, mu * order) + tail


def _log_m(a: float, s: Setting) -> float:
    """``log M(a)`` on the real axis, in doubles: to choose the contour and the period only."""
    mu = 1 / s.noise
    low, high = _reach(a, mu, s.direction, 12.0)
    x = np.linspace(low, high, 4001 + int(40 * (high - low)))
    log_terms = -x * x / 2 + _order(a, s.direction) * np.where(
        mu * x > 600,
        np.log(s.probability) + mu * x - mu * mu / 2,
        np.log1p(s.probability * np.expm1(np.minimum(mu * x, 600) - mu * mu / 2)),
    )
    top = log_terms.max()
    return float(top + np.log(np.exp(log_terms - top).sum() * (x[1] - x[0]) / math.sqrt(2 * math.pi)))


def _contour(s: Setting, nats: float) -> float:
    """The ``a`` at which the integrand on the real axis, convex in ``a``, is least; or ``nats``
    higher, left or right.
    """

    def height(log_a: float) -> float:
        a = math.exp(log_a)
        return s.steps * _log_m(a, s) - a * s.epsilon - math.log(a * (a + 1))

    low, high = math.log(0.3), math.log(1e4)
    grid = np.linspace(low, high, 60)
    best = int(np.argmin([height(g) for g in grid]))
    left, right = grid[max(best - 1, 0)], grid[min(best + 1, 59)]
    for _ in range(40):
        third = (right - left) / 3
        left, right = (left, right - third) if height(left + third) < height(right - third) else (left + third, right)
    centre = (left + right) / 2
    target, far = height(centre) + abs(nats), math.copysign(math.log(2.5), nats) + centre
    near = centre
    for _ in range(40 if nats else 0):
        middle = (near + far) / 2
        near, far = (middle, far) if height(middle) < target else (near, middle)
    return math.exp(near)


def _period(a: float, s: Setting, nats: float = 70.0) -> float:
    """A range that holds the tilted loss around ``eps`` up to ``e^-nats`` of it, by Chernoff's
    bound on both sides.
    """
    base = s.steps * _log_m(a, s)
    above, below = math.inf, math.inf
    for b in np.geomspace(0.02, 300, 40):
        above = min(above, (s.steps * _log_m(a + b, s) - base + nats) / b - s.epsilon)
        below = min(below, (s.steps * _log_m(a - b, s) - base + nats) / b + s.epsilon)
    return max(above, 0.0) + max(below, 0.0) + nats / a


def by_long_doubles(s: Setting, knobs: Knobs = PLAIN) -> float:
    """delta in 80-bit floats."""
    a = _contour(s, knobs.shift)
    h = TWO_PI / LONG(_period(a, s) * knobs.period)
    mu, q, eps = 1 / LONG(s.noise), LONG(s.probability), LONG(s.epsilon)
    top, width = _window(s, knobs)
    total, start, log_m_at_a = LONG(0), 0, LONG(0)
    sign = 1 if s.direction == "remove" else -1
    while start * float(h) < top + 7 * width:
        rows = 16
        u = h * np.arange(start, start + rows * rows).astype(LONG)
        x, weights = _inner(a, float(u[-1]), s, knobs, LONG)
        y = np.log1p(q * np.expm1(mu * x - mu * mu / 2))
        # L^order - 1 of all u from those of every 16th and of the first 16: e^{a+b} - 1 = AB + A +
        # B, A = e^a - 1.
        far = _complex_expm1(LONG(_order(a, s.direction)) * y, np.outer(u[::rows], sign * y))
        near = _complex_expm1(0 * y, np.outer(h * np.arange(rows).astype(LONG), sign * y))
        m_less_1 = ((far * weights) @ near.T + (far @ weights)[:, None] + (near @ weights)[None, :]).ravel()
        log_m = _complex_log1p(m_less_1)
        if start == 0:
            log_m_at_a = log_m[0].real
        power = np.exp(s.steps * (log_m - log_m_at_a))
        z = LONG(a) + 1j * u
        terms = (power * np.exp(-1j * eps * u) / (z * (z + 1))).real * _cutoff(u, top, width)
        if start == 0:
            terms[0] /= 2
        total += terms.sum()
        start += rows * rows
        if np.max(np.abs(power)) < 1e-26:
            break
    return float(total * h * 2 / TWO_PI * np.exp(s.steps * log_m_at_a - LONG(a) * eps))


def _complex_expm1(real: Any, imaginary: Any) -> Any:
    half = np.sin(imaginary / 2)
    return np.expm1(real) * np.cos(imaginary) - 2 * half * half + 1j * (np.exp(real) * np.sin(imaginary))


def _complex_log1p(w: Any) -> Any:
    x, y = w.real, w.imag
    near = np.abs(w) < 0.5
    modulus = np.where(near, np.log1p(np.where(near, 2 * x + x * x + y * y, 0)) / 2, np.log(np.abs(1 + w)))
    return modulus + 1j * np.arctan2(y, 1 + x)


def _window(s: Setting, knobs: Knobs) -> tuple[float, float]:
    width = 16.0 / s.epsilon * math.sqrt(knobs.cutoff)
    return 8 * width * knobs.cutoff, width


def _cutoff(u: Any, top: float, width: float) -> Any:
    """``erfc((u - top) / width) / 2`` to 80 bits, which SciPy has not."""

    def exact(v: Any) -> Any:
        whole = mp.mpf(float(v)) + mp.mpf(float(v - LONG(float(v))))
        value = mp.erfc((whole - mp.mpf(top)) / mp.mpf(width)) / 2
        return LONG(float(value)) + LONG(float(value - mp.mpf(float(value))))

    if float(u[-1]) < top - 7 * width:
        return np.ones(u.shape, LONG)
    with mp.workdps(25):
        return np.array([exact(v) for v in u], dtype=LONG)


def by_splitting(s: Setting, share: float = 0.5, shift: float = 1.0) -> float:
    """delta in doubles for small ``q``, remove direction: without the event that no step has a loss
    above ``c = share eps / k``.

    That event cannot exceed ``eps`` and adds nothing, yet it is nearly all of ``M^k`` when ``q``
    and ``k`` are small. What is left, ``M^k - M_A^k`` with ``M = M_A + M_B`` the parts below and
    above ``c``, has its peak near delta: no digits are lost. All edges that the cut makes in the
    law of the sum are at or below ``share eps``.
    """
    mu, c = 1 / s.noise, share * s.epsilon / s.steps
    cut = math.log1p(math.expm1(c) / s.probability) / mu + mu / 2

    def parts(a: float, u: Any, top: float) -> tuple[Any, Any]:
        sums = []
        for low, high in ((-10.0, cut), (cut, max(cut, mu * (a + 1)) + 10.0)):
            # At most 24 radians in a panel of 20 nodes; the slope of the loss is greatest at the
            # upper end.
            slope = mu * s.probability * math.exp(mu * high) / (1 + s.probability * math.exp(mu * high))
            panels = 8 + int((high - low) * 2) + int(top * slope * (high - low) / 24)
            node, weight = np.polynomial.legendre.leggauss(20)
            edges = np.linspace(low, high, panels + 1)
            half = (edges[1] - edges[0]) / 2
            x = (edges[:-1, None] + half * (node + 1)).ravel()
            y = np.log1p(s.probability * np.expm1(mu * x - mu * mu / 2))
            w = np.tile(weight, panels) * half * np.exp(-x * x / 2 + (a + 1) * y) / math.sqrt(2 * math.pi)
            far, near = (np.exp(1j * np.outer(u[::16], y)) * w, np.exp(1j * np.outer(u[:16] - u[0], y)))
            sums.append((far @ near.T).ravel())
        return sums[0], sums[1]

    def log_height(log_a: float) -> float:
        a = math.exp(log_a)
        bulk, jump = (float(v[0].real) for v in parts(a, np.zeros(16), 0.0))
        return s.steps * math.log(bulk) + math.log(math.expm1(s.steps * math.log1p(jump / bulk))) - a * s.epsilon

    grid = np.linspace(math.log(0.5), math.log(200), 80)
    with np.errstate(all="ignore"):
        heights = []
        for g in grid:
            try:
                heights.append(log_height(g))
            except (OverflowError, ValueError):
                heights.append(math.inf)
    a = shift * math.exp(grid[int(np.nanargmin(heights))])
    h = 2 * math.pi / _period(a, s)
    width = 12.0 / (s.epsilon * (1 - share))
    top = 6 * width
    total, u0, rows = 0.0, 0.0, 256
    while u0 < top + 5.5 * width:
        u = u0 + h * np.arange(rows)
        bulk, jump = parts(a, u, float(u[-1]))
        grown = s.steps * _complex_log1p(jump / bulk)
        power = np.exp(s.steps * np.log(bulk)) * _complex_expm1(grown.real, grown.imag)
        z = a + 1j * u
        terms = (power * np.exp(-1j * s.epsilon * u) / (z * (z + 1))).real * _cutoff(u.astype(LONG), top, width).astype(
            float
        )
        total += float(terms.sum()) - (terms[0] / 2 if u0 == 0 else 0.0)
        u0 += rows * h
    return float(total * h / math.pi * math.exp(-a * s.epsilon))


def _inner(a: float, u: float, s: Setting, knobs: Knobs, kind: Any) -> tuple[Any, Any]:
    """Nodes and weights of the trapezoidal rule for ``E[L^order(a + iu)]``, shifted contours in x
    giving the step.
    """
    mu = 1 / s.noise
    depth = min(2.5 * s.noise, 5.0)  # of the strip in which L is not 0 (pi s)
    nats = 75.0 * knobs.inner
    # On the line shifted by d the integrand grows by at most e^{d^2/2 + (u + order) arg L}, arg L
    # <= mu d.
    step = 2 * math.pi / ((nats + depth * depth / 2) / depth + u * mu + abs(_order(a, s.direction)) * mu)
    low, high = _reach(a, mu, s.direction, math.sqrt(2 * nats))
    count = int((high - low) / step) + 1
    x = kind(low) + kind(step) * np.arange(count).astype(kind)
    return x, np.exp(-x * x / 2) * kind(step) / np.sqrt(TWO_PI)


def by_mpmath(s: Setting, digits: int = 40, knobs: Knobs = MPMATH) -> mp.mpf:
    """delta by the same integral with arbitrary precision, truncated where 1e-14 of it is left."""
    with mp.workdps(digits):
        a = mp.mpf(_contour(s, knobs.shift))
        h = 2 * mp.pi / mp.mpf(_period(float(a), s) * knobs.period)
        mu, q, eps = 1 / mp.mpf(s.noise), mp.mpf(s.probability), mp.mpf(s.epsilon)
        top, width = _window(s, knobs)
        total, n, block = mp.mpf(0), 0, None
        m_at_a = mp.mpf(0)
        while float(h) * n < top + 7 * width:
            u = h * n
            if block is None or float(u) > block:
                block = float(u) * 1.3 + 5
                x, _ = _inner(float(a), block, s, knobs, np.float64)
                step = mp.mpf(float(x[1] - x[0]))
                nodes = [mp.mpf(float(x[0])) + step * j for j in range(len(x))]
                ys = [mp.log1p(q * mp.expm1(mu * t - mu * mu / 2)) for t in nodes]
                order = _order(a, s.direction)
                ws = [mp.exp(-t * t / 2 + order * y) * step for t, y in zip(nodes, ys, strict=True)]
                ys = ys if s.direction == "remove" else [-y for y in ys]
            m = mp.fdot(ws, [mp.expj(u * y) for y in ys]) / mp.sqrt(2 * mp.pi)
            if n == 0:
                m_at_a = mp.re(m)
            power = (m / m_at_a) ** s.steps
            z = mp.mpc(a, u)
            term = mp.re(power * mp.expj(-eps * u) / (z * (z + 1))) * mp.erfc((u - top) / width) / 2
            total += term / 2 if n == 0 else term
            n += 1
            if abs(power) < 1e-24:
                break
        return +(total * h / mp.pi * m_at_a**s.steps * mp.exp(-a * eps))


def exactly(s: Setting, digits: int = 40) -> mp.mpf:
    """Closed form for one step and a one-dimensional integral of it for two, remove direction."""
    with mp.workdps(digits):
        mu, q, eps = 1 / mp.mpf(s.noise), mp.mpf(s.probability), mp.mpf(s.epsilon)

        def one(e: mp.mpf) -> mp.mpf:
            inside = (mp.exp(e) - (1 - q)) / q
            if inside <= 0:
                return -mp.expm1(e)
            t = mp.log(inside) / mu + mu / 2
            return q * (mp.ncdf(mu - t) - inside * mp.ncdf(-t))

        if s.steps == 1:
            return one(eps)

        def integrand(x: mp.mpf) -> mp.mpf:
            ratio = mp.exp(mu * x - mu * mu / 2)
            return mp.npdf(x) * (1 - q + q * ratio) * one(eps - mp.log1p(q * (ratio - 1)))

        corner = (mp.log((mp.exp(eps) / (1 - q) - (1 - q)) / q)) / mu + mu / 2  # where eps - y(x) = log(1-q)
        edges = sorted({mp.mpf(v) for v in np.linspace(-14, 14 + 2 * float(mu), 30)} | {corner})
        return mp.quad(integrand, edges)


def random_settings(seed: int = 20231) -> Iterator[Setting]:
    """Log-uniform settings whose delta is between 1e-30 and 0.5, without end."""
    rng = np.random.default_rng(seed)
    ranges = np.log([[0.1, 8], [1, 1e4], [1e-5, 0.5], [0.4, 10]])
    while True:
        epsilon, steps, q, noise = np.exp(rng.uniform(ranges[:, 0], ranges[:, 1]))
        s = Setting(float(f"{epsilon:.4g}"), round(steps), float(f"{q:.4g}"), float(f"{noise:.4g}"))
        a = _contour(s, 0.0)
        if s.steps * _log_m(a, s) - a * s.epsilon > math.log(1e-30) and 1e-30 < by_long_doubles(s) < 0.5:
            yield s


def reference(s: Setting, group: str, with_mpmath: bool) -> dict[str, Any] | None:
    """The record of one setting, or None if its computations do not agree."""
    origin = "80-bit floats"
    value, other = by_long_doubles(s), by_long_doubles(s, OTHER)
    if not abs(other - value) <= AGREEMENT * value:  # ill-conditioned: the integrand's peak is far above delta
        if s.steps <= 2 and s.direction == "remove":
            origin, value, other = "closed form", float(exactly(s)), by_splitting(s, 0.6)
        elif s.steps * s.probability < 0.02 * s.epsilon and s.direction == "remove":
            origin, value, other = "splitting", by_splitting(s, 0.6), by_splitting(s, 0.7, 0.97)
        elif s.epsilon >= 0.5:  # hours below
            origin, value, other = ("mpmath", float(by_mpmath(s)), float(by_mpmath(s, 30, MPMATH_OTHER)))
    agreement = abs(other / value - 1) if value else math.inf
    if not agreement <= AGREEMENT:
        print("dropped", s, value, agreement, flush=True)
        return None
    record: dict[str, Any] = {
        **s._asdict(),
        "delta": float(f"{value:.15g}"),
        "group": group,
        "origin": origin,
        "agreement": float(f"{agreement:.1e}"),
    }
    if with_mpmath and origin != "mpmath":
        record["mpmath"] = mp.nstr(by_mpmath(s), 15)
    if s.steps <= 2 and s.direction == "remove":
        record["exact"] = mp.nstr(exactly(s), 15)
    for kind in ("mpmath", "exact"):
        if kind in record and abs(float(record[kind]) / value - 1) > AGREEMENT:
            raise ArithmeticError(f"{kind} disagrees: {record}")
    print(record, flush=True)
    return record


def make() -> list[dict[str, Any]]:
    """All records."""
    jobs = [(Setting(*t), "issue", True) for t in ISSUE]
    jobs += [(Setting(*t), "many steps", False) for t in MANY_STEPS]
    jobs += [(Setting(*t), "few steps", False) for t in FEW_STEPS]
    jobs += [(Setting(*t, direction="add"), "add", False) for t in ADD]
    records = [reference(*job) for job in jobs]
    settings: list[Setting] = []
    for s in random_settings():
        with_mpmath = len(settings) % MPMATH_EVERY == 3 and s.epsilon > 0.5
        if (record := reference(s, "random", with_mpmath)) is not None:
            settings.append(s)
            records.append(record)
        if len(settings) == RANDOM:
            break
    adds = [
        s._replace(direction="add") for s in settings[::ADD_EVERY] if s.steps * -math.log1p(-s.probability) > s.epsilon
    ]
    records += [reference(s, "add", False) for s in adds]
    return [record for record in records if record is not None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check, path = parser.parse_args().check, HERE / "references.json"
    records = make()
    if check:
        stored = {tuple(Setting(*(r[f] for f in Setting._fields))): r["delta"] for r in json.loads(path.read_text())}
        worst = max(abs(r["delta"] / stored[tuple(Setting(*(r[f] for f in Setting._fields)))] - 1) for r in records)
        print(f"{len(records)} values, largest relative difference {worst:.1e}")
    else:
        path.write_text("[\n" + ",\n".join(" " + json.dumps(r) for r in records) + "\n]\n")


if __name__ == "__main__":
    main()
