"""Delta of one step, and of any number of Gaussian mechanisms: closed forms with 120 digits."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from mpmath import mp, mpf

from attacking.laws import Laplaces, Normals, exact

_DIGITS, _MOST_DIGITS = 120, 5000


def gaussian(mean: Any) -> Normals:
    """The mechanism ``N(mean, 1)`` against ``N(0, 1)``."""
    return Normals((Fraction(1),), (mean,))


def delta(mechanism: Normals | Laplaces, epsilon: float, direction: str) -> float:
    """``P(loss > epsilon) - e^epsilon Q(loss > epsilon)``; some loss exceeds epsilon."""
    of = _normals if isinstance(mechanism, Normals) else _laplaces
    with mp.workdps(_DIGITS + int(min(abs(epsilon), _MOST_DIGITS))):  # e^epsilon cancels
        return float(of(mechanism, mpf(epsilon), direction))


def digits(number: Any) -> Any:
    """A rational number, float or long double with mpmath's digits."""
    rational = number if isinstance(number, Fraction) else exact(number)
    return mpf(rational.numerator) / rational.denominator


def _below(x: Any) -> Any:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def _normals(mechanism: Normals, epsilon: Any, direction: str) -> Any:
    sign = 1 if direction == "remove" else -1
    laws = [(digits(w), digits(m)) for w, m in zip(mechanism.weights, mechanism.means, strict=True)]
    x = _place(laws, sign * epsilon)
    with_record = sum(w * _below(sign * (m - x)) for w, m in laws)
    without = _below(sign * -x)
    if direction == "remove":
        return with_record - mp.exp(epsilon) * without
    return without - mp.exp(epsilon) * with_record


def _place(laws: list[tuple[Any, Any]], loss: Any) -> Any:
    """Where ``log dA/dB``, convex and rising, is ``loss``: Newton's method from the right."""
    x = min((loss - mp.log(w)) / m + m / 2 for w, m in laws if m > 0)
    for _ in range(10_000):
        terms = [(w * mp.exp(m * x - m * m / 2), m) for w, m in laws]
        total = sum(t for t, _ in terms)
        step = (mp.log(total) - loss) * total / sum(t * m for t, m in terms)
        x -= step
        if abs(step) < mpf(10) ** -(_DIGITS // 2 + 5) * (1 + abs(x)):  # an error of the place enters delta squared
            return x
    raise ArithmeticError(f"no place with a loss of {loss}")


def _laplaces(mechanism: Laplaces, epsilon: Any, direction: str) -> Any:
    q, scale = digits(mechanism.q), digits(mechanism.scale)
    sign = 1 if direction == "remove" else -1
    ratio = (mp.exp(sign * epsilon) - 1 + q) / q  # of Lap(1) to Lap(0) where the loss is epsilon
    place = (mp.log(ratio) * scale + 1) / 2
    if direction == "remove":
        shifted, without = 1 - mp.exp((place - 1) / scale) / 2, mp.exp(-place / scale) / 2
        return q * (shifted - ratio * without)
    shifted, without = mp.exp((place - 1) / scale) / 2, 1 - mp.exp(-place / scale) / 2
    return without - mp.exp(epsilon) * ((1 - q) * without + q * shifted)
