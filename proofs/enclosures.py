"""Computes the numbers that a proof file lists once more, by mpmath: a check of the formulas of
docs/guarantees_strict.md, Section S6, by another library's floats. It is not a proof.

    python proofs/enclosures.py training.proof

Exit codes: 0 all agree, 3 some do not, 2 the file is not read. Laws that a checker computes by
itself list nothing, and are passed over.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from mpmath import mp, mpf

from evr._proof import check_proof

Curve = Callable[[Any], Any]
"""H of Section S6, from the ratio e^loss."""


def beyond(t: Any) -> Any:
    return mp.erfc(t / mp.sqrt(2)) / 2


def shift(m: Any) -> Curve:
    """N(m, 1) against N(0, 1)."""
    return lambda r: beyond(mp.log(r) / m - m / 2) - r * beyond(mp.log(r) / m + m / 2)


def outcomes(pairs: list[tuple[Any, Any]]) -> Curve:
    return lambda r: sum((p - r * q for p, q in pairs if p > r * q), mpf(0))


def sampled(base: Curve, q: Any, *, add: bool) -> Curve:
    """Poisson sampling of a curve."""

    def value(r: Any) -> Any:
        if add:
            c = 1 - (1 - q) * r
            return c * base(q * r / c) if c > 0 else mpf(0)
        return q * base((r - 1 + q) / q) if r > 1 - q else 1 - r

    return value


def mirrored(above: Curve) -> Curve:
    """A symmetric curve, from its part at ratios of 1 and more."""
    return lambda r: above(r) if r >= 1 else 1 - r + r * above(1 / r)


def root(rising: Callable[[Any], Any]) -> Any:
    low, high = mpf(-1), mpf(1)
    while rising(low) > 0:
        low *= 2
    while rising(high) < 0:
        high *= 2
    return mp.findroot(rising, (low, high), solver="anderson", maxsteps=500, verify=False)


def mixtures(above: list[tuple[Any, Any]], below: list[tuple[Any, Any]]) -> Curve:
    """Two mixtures of Gaussians (mean, weight) of deviation 1, the ratio of which rises."""

    def excess(r: Any, part: Callable[[Any], Any]) -> Any:
        here, there = (sum(w * part(m) for m, w in side) for side in (above, below))
        return here - r * there

    def value(r: Any) -> Any:
        if all(m == 0 for m, _ in below) and r <= sum(w for m, w in above if m == 0):
            return 1 - r
        if all(m == 0 for m, _ in above) and r * sum(w for m, w in below if m == 0) >= 1:
            return mpf(0)
        t = root(lambda t: excess(r, lambda m: mp.exp(m * t - m * m / 2)))
        return excess(r, lambda m: beyond(t - m))

    return value


# --- laws, in the order of docs/proof_format.md ---------------------------------------------------


def mixture(add: bool, means: list[Any], weights: list[Any]) -> Curve:
    pairs, one = list(zip(means, weights, strict=True)), [(mpf(0), mpf(1))]
    return mixtures(one, [(-m, w) for m, w in pairs]) if add else mixtures(pairs, one)


def two_sided(_: bool, square: Any, sizes: list[Any], weights: list[Any]) -> Curve:
    pairs = [(mp.sqrt(square) * size, w) for size, w in zip(sizes, weights, strict=True)]
    return mixtures(pairs, [(-m, w) for m, w in pairs])


def epsilon_delta(_: bool, e: Any, d: Any) -> Curve:
    high = (1 - d) / (1 + mp.exp(-e))
    return outcomes([(d, 0), (0, d), (high, high * mp.exp(-e)), (high * mp.exp(-e), high)])


def integers(rate: Any, power: int, by: Any, chance: Any = None) -> Curve:
    """Noise of probability e^(-rate |x|^power) on the integers, moved; by chance, to either side."""
    by, reach = int(by), int(mp.root((mp.prec + 9) / rate, power)) + 1
    whole = sum(mp.exp(-rate * abs(x) ** power) for x in range(-reach, reach + 1))
    around = range(-reach - by, reach + by + 1)
    here, moved = ([mp.exp(-rate * abs(x - shift) ** power) / whole for x in around] for shift in (0, by))
    if chance is not None:
        moved = [(1 - chance) * p + chance * q for p, q in zip(here, moved, strict=True)]
        here = moved[::-1]
    return outcomes(list(zip(moved, here, strict=True)))


def discrete_laplace(_: bool, a: Any, by: Any, chance: Any = None) -> Curve:
    return integers(a, 1, by, chance)


def discrete_gaussian(_: bool, sigma: Any, by: Any, chance: Any = None) -> Curve:
    return integers(1 / (2 * sigma**2), 2, by, chance)


def zcdp(_: bool, rho: Any, xi: Any) -> Curve:
    """e^((a-1)(a rho + xi - eps)) (1 - 1/a)^a / (a - 1), where its derivative in a is 0."""

    def above(r: Any) -> Any:
        eps = mp.log(r) - xi
        a = 1 + mp.exp(root(lambda t: (2 * mp.exp(t) + 1) * rho - eps + t - mp.log1p(mp.exp(t))))
        return min(mpf(1), mp.exp((a - 1) * (a * rho - eps)) * (1 - 1 / a) ** a / (a - 1))

    return lambda r: above(r) if r >= 1 else min(above(r), 1 - r + r * above(1 / r))


def bounded_range(_: bool, epsilon: Any, steps: Any = 1) -> Curve:
    """One step in closed form; of several not more than the truth, by choices on a grid."""
    whole = mp.exp(epsilon)
    if steps == 1:
        return lambda r: max(0, 1 - r, (max(0, mp.sqrt(whole) - mp.sqrt(r)) ** 2 / (whole - 1) if r * whole > 1 else 0))
    cells, reach = 4, 8 * int(steps)
    chances = [float((whole - mp.exp(epsilon * i / cells)) / (whole - 1)) for i in range(cells + 1)]
    table = {j: max(0.0, float(1 - mp.exp(epsilon * j / cells))) for j in range(-reach, reach + 1)}
    for _ in range(int(steps)):
        reach -= cells
        table = {
            j: max(p * table[j - i] + (1 - p) * table[j - i + cells] for i, p in enumerate(chances))
            for j in range(-reach, reach + 1)
        }

    def value(r: Any) -> Any:
        place = int(mp.ceil(mp.log(r) * cells / epsilon))
        return max(mpf(0), 1 - r, mpf(table.get(place, 0.0)) * (1 - mpf(10) ** -9))

    return value


def replaced(add: bool, q: Any, law: tuple[str, list[Any]]) -> Curve:
    name, given = law
    if name != "laplace":
        return LAWS[name](add, *given, q)
    rare = q * mp.exp(-1 / given[0])
    return mirrored(lambda r: max(mpf(0), q - mp.sqrt(rare * (r * (1 - q + rare) - 1 + q))))


def without_replacement(add: bool, g: Any, law: tuple[str, list[Any]]) -> Curve:
    base = curve_of(law, add=add)
    above, below = (sampled(base, g, add=one) for one in (False, True))
    return lambda r: above(r) if r >= 1 else below(r)


def labelled(_: bool, squares: list[Any], weights: list[Any]) -> Curve:
    curves = [(w, shift(mp.sqrt(square))) for square, w in zip(squares, weights, strict=True)]
    return lambda r: sum(w * curve(r) for w, curve in curves)


def truncated(add: bool, n: Any, q: Any, most: Any, s: Any) -> Curve:
    n, most = int(n), int(most)
    cut, more = (mp.betainc(m, n - most, 0, q, regularized=True) for m in (most, most + 1))
    whole, half = sampled(shift(1 / s), q, add=add), sampled(shift(2 / s), more * most / (cut * n), add=add)
    return lambda r: (1 - cut) * whole(r) + cut * half(r)


LAWS: dict[str, Callable[..., Curve]] = {
    "gaussian": lambda _, s: shift(1 / s),
    "gaussians": lambda _, v: shift(mp.sqrt(v)),
    "laplace": lambda _, b: lambda r: max(mpf(0), 1 - r, 1 - mp.sqrt(r * mp.exp(-1 / b))),
    "mixture": mixture,
    "two_sided": two_sided,
    "outcomes": lambda _, p, q: outcomes(list(zip(p, q, strict=True))),
    "epsilon_delta": epsilon_delta,
    "discrete_laplace": discrete_laplace,
    "discrete_gaussian": discrete_gaussian,
    "poisson": lambda add, q, law: sampled(curve_of(law, add=add), q, add=add),
    "shifted": lambda _, square, by: lambda r: shift(mp.sqrt(square))(r * mp.exp(-by)),
    "zcdp": zcdp,
    "bounded_range": bounded_range,
    "replaced": replaced,
    "labelled": labelled,
    "without_replacement": without_replacement,
    "truncated": truncated,
    "pair": lambda add, remove, other: curve_of(other if add else remove, add=add),
}
LISTS = {"means", "sizes", "squares", "weights", "p", "q"}


def law_of(text: str) -> Any:
    """A law as its name and arguments: numbers in the floats of mpmath, lists of numbers, laws."""
    if re.fullmatch("[0-9./e+-]+", text):
        exact = Fraction(text)
        return mpf(exact.numerator) / exact.denominator
    name, given = check_proof.parts(text)
    found = [law_of(one) for one in given]
    return found if name in LISTS else (name, found)


def curve_of(law: tuple[str, list[Any]], *, add: bool) -> Curve:
    """Its curve in one direction."""
    name, given = law
    return LAWS[name](add, *given)


def disagreeing(file: check_proof.File) -> tuple[int, int]:
    """How many listed numbers do not agree, and how many there are."""
    wrong = number = 0
    for section in file.sections:
        for kind, (_, text) in zip(section.kinds, file.steps, strict=True):
            if kind.name == "own":
                continue
            mp.prec = kind.vbits + 100
            unit, fine = mpf(2) ** kind.vbits, mpf(section.den << kind.halv)
            sides = {"remove": [False], "add": [True], "both": [False, True]}[section.mark]
            if kind.name == "curve":
                ratios = [mp.exp(((kind.off << kind.halv) + p * section.spacing) / fine) for p in kind.places()]
                listed = [(r, v, v + d) for r, (v, d) in zip(ratios, kind.values, strict=True)]
            else:  # a curve is convex: what holds at these ratios, holds at all
                sets = [(mass, mp.exp(loss / (fine * unit))) for _, mass, loss in kind.sets]
                wrong += len(sides) * (kind.infinite + sum(mass for mass, _ in sets) < unit)
                listed = [(r, 0, kind.infinite + sum(m * (1 - r / x) for m, x in sets if x > r)) for _, r in sets]
            for add in sides:
                curve, slack = curve_of(law_of(text), add=add), mpf(2) ** -20
                wrong += sum(not low - slack <= unit * curve(r) <= high + slack for r, low, high in listed)
                number += len(listed)
    return wrong, number


def main(arguments: list[str]) -> int:
    try:
        with open(arguments[0], "rb") as handle:
            answer = check_proof.check(handle.read())
    except (IndexError, OSError, check_proof.NotReadError) as why:
        print(f"Not computed: {why}\n{__doc__}")
        return 2
    wrong, number = disagreeing(answer.file)
    print(f"mpmath computed {number} numbers again: {wrong or 'none'} of them disagree.")
    return 3 if wrong else 0


if __name__ == "__main__":
    sys.set_int_max_str_digits(0)
    sys.exit(main(sys.argv[1:]))
