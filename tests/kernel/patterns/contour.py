"""Delta of redrawn bins by a contour integral: written down independently of evr, from docs of the
mathematics only.

``K(z) = E_Q[L^{1+z}]`` of one epoch, from ``L^{n-s} = L^n / Gamma(s) int t^{s-1} e^{-tL} dt``;
``E[L^n e^{-tL}]`` is ``n!/b^n`` times the n-th coefficient of ``(sum_j E[A^j e^{-tA/b}] x^j /
j!)^b``. Then ``delta = 1/pi Re int K(z)^E e^{-z eps} / (z (z+1)) du``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import loggamma


def _power(coefficients: Any, power: int) -> Any:
    result = np.zeros_like(coefficients)
    result[..., 0] = 1.0
    while power:
        if power & 1:
            result = _times(result, coefficients)
        coefficients = _times(coefficients, coefficients)
        power >>= 1
    return result


def _times(one: Any, other: Any) -> Any:
    out = np.zeros_like(one)
    for j in range(one.shape[-1]):
        out[..., j:] += one[..., j : j + 1] * other[..., : one.shape[-1] - j]
    return out


def log_moment(bins: int, energy: float, z: Any, n: int) -> Any:
    """``log K(z)`` for complex ``z`` with ``Re(1 + z) < n``."""
    tau = np.linspace(-60.0, 14.0, 3001)
    v = np.linspace(-12.0, 12.0, 481)
    weight = np.exp(-(v**2) / 2) * (v[1] - v[0]) / math.sqrt(2 * math.pi)
    ratio = np.exp(math.sqrt(energy) * v - energy / 2)
    j = np.arange(n + 1)
    # E[A^j e^{-tA/b}] = e^{g j (j-1) / 2} phi(t e^{jg}); scaled by e^{-g (n-1) j / 2}, so that no
    # power overflows
    phi = np.stack([np.exp(-np.exp(tau[:, None] + k * energy) * ratio / bins) @ weight for k in j], axis=1)
    factorials = np.array([math.factorial(int(k)) for k in j], dtype=float)
    series = phi * np.exp(energy * j * (j - 1) / 2 - energy * (n - 1) * j / 2) / factorials
    top = _power(series, bins)[:, n]
    log_scale = math.lgamma(n + 1) - n * math.log(bins) + energy * n * (n - 1) / 2
    s = n - 1 - np.asarray(z)
    integral = np.exp(np.multiply.outer(s, tau)) @ top * (tau[1] - tau[0])
    return np.log(integral) + log_scale - loggamma(s)


def redrawn_delta(epsilon: float, bins: int, epochs: int, noise: float, order: float, direction: str) -> float:
    """Delta, by a contour through ``order > 0``."""
    g = 1 / noise**2
    u = np.linspace(0.0, 24.0, 2401)
    if direction == "remove":
        z, sign = order + 1j * u, 1.0
        n = math.ceil(1.5 + order)
    else:
        z, sign, n = -1 - order + 1j * u, -1.0, 0
    log_k = log_moment(bins, g, z, n)
    log_k = log_k.real + 1j * np.unwrap(log_k.imag)
    values = np.exp(epochs * log_k - sign * z * epsilon) / (z * (z + 1))
    values[0] /= 2
    size = np.abs(
        values
        # 1 / Gamma(s) costs e^{pi u / 2} digits: stop where the integrand has died, or noise takes
        # over
    )
    values = values[: int(np.argmin(np.where(np.arange(size.size) < size.size // 20, np.inf, size)))]
    total = float(np.real(values.sum())) * (u[1] - u[0]) / math.pi
    return total if direction == "remove" else math.exp(epsilon) * total
