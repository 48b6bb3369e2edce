"""Masses side by side in one integer do what lists of integers would."""

import random
from collections.abc import Iterable
from fractions import Fraction

import pytest

from evr._kernel.strict.grid_law import coarsened, shares_up, windowed
from evr._kernel.strict.masses import NOTHING, Masses
from evr._kernel.strict.rounding import power_below

Places = dict[int, int]


def places(masses: Masses) -> Places:
    return {place: mass for place, mass in enumerate(masses, start=masses.first) if mass}


def drawn(rng: random.Random, bits: int) -> Masses:
    """Masses of very different sizes, some of them 0 or as large as they can be."""
    sizes = [rng.choice((0, 1, bits // 2, bits)) for _ in range(rng.randint(1, 40))]
    return Masses.of(rng.randint(-30, 30), [rng.choice((rng.getrandbits(n), (1 << n) - 1)) for n in sizes])


def summed(rows: Iterable[tuple[int, int]]) -> Places:
    found: Places = {}
    for place, mass in rows:
        found[place] = found.get(place, 0) + mass
    return {place: mass for place, mass in found.items() if mass}


@pytest.mark.parametrize("seed", range(150))
def test_masses_are_those_of_lists(seed: int) -> None:
    rng = random.Random(seed)
    bits = rng.randint(1, 130)
    x, y = drawn(rng, bits), drawn(rng, rng.randint(1, 200))
    a, b = places(x), places(y)
    product = x * y
    assert places(x + y) == summed([*a.items(), *b.items()])
    exact = summed((i + j, m * n) for i, m in a.items() for j, n in b.items())
    assert places(product) == exact
    assert places(product.rounded_up(bits)) == summed((i, -(-m >> bits)) for i, m in exact.items())
    assert places(product.rounded_down(bits)) == summed((i, m >> bits) for i, m in exact.items())
    for masses in (x + y, product, product.rounded_up(bits), product.rounded_down(bits)):
        assert masses.total() == sum(masses) <= masses.most < 256**masses.width - 1
    low, high = sorted(rng.randint(-80, 120) for _ in range(2))
    assert places(product.between(low, high)) == {i: m for i, m in exact.items() if low <= i <= high}


@pytest.mark.parametrize("seed", range(100))
def test_moves_are_those_of_lists(seed: int) -> None:
    rng = random.Random(seed)
    bits, spacing, halvings = rng.randint(1, 130), Fraction(rng.randint(1, 400), 512), rng.randint(1, 5)
    masses, size = drawn(rng, bits), 1 << halvings
    shares, moved = shares_up(spacing, halvings, bits), list[tuple[int, int]]()
    for block in range(masses.first // size, masses.last // size + 1):
        inside = [(i - block * size, m) for i, m in places(masses).items() if i // size == block]
        up = -(-sum(m * shares[r] for r, m in inside) >> bits)
        moved += [(block, sum(m for _, m in inside) - up), (block + 1, up)]
    assert places(coarsened(masses, spacing, halvings, bits)) == summed(moved)

    floor = rng.randint(-40, 40)
    top, weight, step, kept = floor + rng.randint(0, 20), 1 << bits, power_below(-spacing, bits), 0
    for place in range(top + 1, masses.last + 1):
        weight = weight * step >> bits
        kept += places(masses).get(place, 0) * weight
    kept >>= bits
    found, escaped = windowed(masses, floor, top, spacing, bits)
    within = [(min(max(i, floor), top), m if i <= top else 0) for i, m in places(masses).items()]
    assert places(found) == summed([*within, (top, kept)])
    assert found.total() + escaped == masses.total()


def test_no_masses() -> None:
    assert len(NOTHING) == NOTHING.total() == len(NOTHING * NOTHING) == len(NOTHING.rounded_up(10)) == 0
    assert list(NOTHING.between(-3, 5)) == list(Masses.of(4, [0, 0])) == []
