"""Masses on a uniform grid, side by side in one long integer (docs/guarantees_strict.md, Section S4.6):
whatever is done to all of them is done to that integer. Integers are in units of ``2^-bits``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from struct import unpack

from flint import fmpz

from evr._kernel.order import ceil_div

_FEW = 16  # doublings of places: what is kept in memory
_TOGETHER = 16  # neighbouring masses that are moved together
WORD = 4  # bytes that are moved together: widths are multiples of it


@dataclass(frozen=True)
class Masses:
    """Non-negative integers at the places ``first, first + 1, ...`` of a grid, each in ``width`` bytes of one
    integer.

    The width has room for ``most``, and so for any sum of some of the masses: no mass runs into the next.
    """

    first: int
    packed: fmpz  # the sum of ``mass_i 256^(i width)``
    width: int
    most: int  # at least the sum of the masses; less than ``256^width - 1``

    @classmethod
    def of(cls, first: int, masses: Sequence[int]) -> Masses:
        """The masses at these places, in a width that has room for their products."""
        most = int(sum(masses))
        width = _width_for(1 << 2 * most.bit_length())
        text = b"".join([int(mass).to_bytes(width, "little") for mass in masses])
        return cls(first, _packed(text), width, most)

    def __len__(self) -> int:
        """The number of places, up to the last that has mass."""
        return ceil_div(self.packed.bit_length(), 8 * self.width)

    def __iter__(self) -> Iterator[int]:
        return iter(unpacked(self.packed, self.width, len(self), self.most))

    @property
    def last(self) -> int:
        """The last place; below the first where there is no mass."""
        return self.first + len(self) - 1

    def _text(self, number: int) -> bytes:
        return int(self.packed).to_bytes(number * self.width, "little")

    def with_room(self, most: int) -> Masses:
        """The same masses, in a width that has room for so much."""
        return self if most.bit_length() < 8 * self.width else self._wider(_width_for(most))

    def _wider(self, width: int) -> Masses:
        if width <= self.width:
            return self
        text = _strided(self._text(len(self)), self.width, self.width, width)
        return Masses(self.first, _packed(text), width, self.most)

    def between(self, low: int, high: int) -> Masses:
        """The masses at the places ``low .. high``."""
        low, packed, slot = max(low, self.first), self.packed, 8 * self.width
        if high < low:
            return NOTHING
        if high < self.last:
            packed = packed & ((fmpz(1) << slot * (high - self.first + 1)) - 1)
        inside = Masses(low, packed >> slot * min(low - self.first, len(self)), self.width, self.most)
        return replace(inside, most=inside.total())

    def total(self) -> int:
        """The sum of the masses: halves are added to each other."""
        packed, number, slot = self.packed, len(self), 8 * self.width
        while number > 1:
            number = ceil_div(number, 2)
            packed = (packed >> slot * number) + (packed & ((fmpz(1) << slot * number) - 1))
        return int(packed)

    def __add__(self, other: Masses) -> Masses:
        if not (len(self) and len(other)):
            return self if len(self) else other
        low, most = min(self.first, other.first), self.most + other.most
        x, y = alike(self, other, most)
        slot = 8 * x.width
        return Masses(
            low, (x.packed << slot * (x.first - low)) + (y.packed << slot * (y.first - low)), x.width, most
        )

    def __mul__(self, other: Masses) -> Masses:
        """The exact product, in units of ``2^-2 bits``."""
        most = self.most * other.most
        x, y = alike(self, other, most)
        return Masses(self.first + other.first, x.packed * y.packed, x.width, most)

    def rounded_down(self, bits: int) -> Masses:
        """From units of ``2^-2 bits`` to units of ``2^-bits``, each mass rounded down."""
        wide = self.with_room(1 << bits)
        kept = at_each(len(wide), wide.width, (1 << 8 * wide.width - bits) - 1)
        return Masses(self.first, wide.packed >> bits & kept, wide.width, self.most >> bits)

    def rounded_up(self, bits: int) -> Masses:
        """From units of ``2^-2 bits`` to units of ``2^-bits``, each mass rounded up; zeros stay zeros.
        Given a product, ensures masses not below it (move (c) of ``order.py``): ``n`` places add less than
        ``n 2^-bits`` to delta.
        """
        wide = self.with_room(self.most + (1 << bits))
        raised = wide.packed + at_each(len(wide), wide.width, (1 << bits) - 1)
        up = Masses(self.first, raised, wide.width, self.most).rounded_down(bits)
        return replace(up, most=up.most + len(wide))

    def merged(self, below: int, *weights: Sequence[int]) -> list[Masses]:
        """For each list of weights, and each block of as many places, the sum of the masses, each times its
        weight. The first block begins ``below`` places below the first mass. Results begin at place 0.
        """
        size, mosts = len(weights[0]), [self.most * int(max(each)) for each in weights]
        wide = self.with_room(max(mosts))
        columns = replace(wide, packed=wide.packed << 8 * wide.width * below)._columns(size)
        sums = [_weighed(columns, each, wide.width) for each in weights]
        return [Masses(0, packed, wide.width, most) for packed, most in zip(sums, mosts, strict=True)]

    def _columns(self, size: int) -> list[fmpz]:
        """The first masses of all blocks of so many places, side by side; the second ones; and so on. In long
        blocks each time ``_TOGETHER`` of them.
        """
        stride, taken = size * self.width, (_TOGETHER if size > _TOGETHER else 1) * self.width
        text = self._text(ceil_div(len(self), size) * size)
        if taken == self.width:
            view = memoryview(text)
            return [
                _packed(_strided(view[start:], stride, taken, taken)) for start in range(0, stride, taken)
            ]
        ends = range(0, len(text), stride)
        return [
            _packed(b"".join([text[i + r : i + r + taken] for i in ends])) for r in range(0, stride, taken)
        ]


NOTHING = Masses(0, fmpz(0), WORD, 0)


def alike(x: Masses, y: Masses, most: int) -> tuple[Masses, Masses]:
    """Both in the same width, which has room for so much."""
    width = max(x.width, y.width, _width_for(most))
    return x._wider(width), y._wider(width)


def _width_for(most: int) -> int:
    """The least width that has room for so much."""
    return WORD * ceil_div((most + 1).bit_length(), 8 * WORD)


def unpacked(packed: fmpz, width: int, number: int, most: int) -> list[int]:
    """So many integers of at most ``most`` that are side by side, in ``width`` bytes each."""
    words = unpack(f"<{number * width // WORD}I", int(packed).to_bytes(number * width, "little"))
    step, used = width // WORD, max(1, ceil_div(most.bit_length(), 8 * WORD))
    masses = list(words[used - 1 :: step])
    for word in range(used - 2, -1, -1):
        masses = [high << 8 * WORD | low for high, low in zip(masses, words[word::step], strict=True)]
    return masses


def _weighed(columns: Sequence[fmpz], weights: Sequence[int], width: int) -> fmpz:
    """The sum of the columns, each times its weight; or each mass of a column times its own."""
    together = len(weights) // len(columns)
    if len(set(weights)) == 1:
        columns, weights = [sum(columns, fmpz(0))], weights[:together]
    blocks = [weights[i : i + together] for i in range(0, len(weights), together)]
    # of a product with the weights of a block, backwards, the last place of the block is the sum
    factors = [
        _packed(b"".join([int(weight).to_bytes(width, "little") for weight in block[::-1]]))
        for block in blocks
    ]
    sums = sum((column * factor for column, factor in zip(columns, factors, strict=True)), fmpz(0))
    if together == 1:
        return sums
    number = ceil_div(sums.bit_length(), 8 * width * together)
    text = int(sums).to_bytes(number * together * width, "little")
    return _packed(_strided(memoryview(text)[(together - 1) * width :], together * width, width, width))


def _packed(text: bytes | memoryview) -> fmpz:
    return fmpz(int.from_bytes(text, "little"))


def _strided(text: bytes | memoryview, stride: int, taken: int, width: int) -> memoryview:
    """Of every ``stride`` bytes the first ``taken``, each time followed by zeros up to ``width``."""
    words = memoryview(text).cast("I")
    number = ceil_div(len(text), stride)
    found = memoryview(bytearray(number * width)).cast("I")
    for word in range(taken // WORD):
        found[word :: width // WORD] = words[word :: stride // WORD]
    return found


def at_each(number: int, width: int, mass: int) -> fmpz:
    """The same mass at each of so many places, and of more after them up to a power of 2."""
    doublings = max(number - 1, 0).bit_length()
    return (_at_few if doublings <= _FEW else _at_many)(doublings, width, mass)


def _at_many(doublings: int, width: int, mass: int) -> fmpz:
    masses = fmpz(mass)
    for doubling in range(doublings):
        masses = masses | masses << (8 * width << doubling)
    return masses


_at_few = lru_cache(maxsize=64)(_at_many)
