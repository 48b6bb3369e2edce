#!/usr/bin/env python3
"""Checks a proof file of evr: python3 -I check_proof.py training.proof

Standard library only, integers only, Python 3.9 or newer; nothing of evr is needed. The format and
the arithmetic: docs/proof_format.md. The same arithmetic is proved right in Coq (proofs/ of evr).
With --enclosures the listed numbers are computed again by mpmath, if it is installed; this checks
the formulas of the curves, and is not a proof.
Exit codes: 0 accepted, 3 refused, 2 not a proof file, damaged, or larger than the limits.
"""

from __future__ import annotations

import decimal
import hashlib
import re
import sys
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, chain, repeat
from typing import Any, NamedTuple

MOST_BYTES = 1 << 26
MOST_DIGITS, MOST_WORD_BITS, MOST_ITEMS, MOST_ORDER = 8_000, 40_000, 1 << 20, 64
MOST_BITS, MOST_VALUE_BITS, MOST_HALVINGS, MOST_KINDS = 6_000, 20_000, 26, 1_000
MOST_PLACE, MOST_WORK = 1 << 22, 1 << 32
"""Beyond these a file is not read: it would take for ever. Nothing else rests on them."""
GUARD = 48


class NotReadError(ValueError):
    """This is not a proof file, or it is damaged, or too large."""


class RefusedError(ValueError):
    """What the file says does not hold together."""


class Masses(NamedTuple):
    """Masses at the places first, first + 1, ... of a grid."""

    first: int
    coef: list[int]


class Law(NamedTuple):
    """Masses on the fine grid, on the coarse grid, and at infinity."""

    halv: int
    fine: Masses
    coarse: Masses
    infinite: int


class Kind(NamedTuple):
    """What is known of a step: (v, d) at each place, or an infinite mass and (cell, p, loss)."""

    off: int
    halv: int
    runs: list[tuple[int, int]]  # coarse, fine, coarse places: the first, and how many
    vbits: int
    values: list[tuple[int, int]] | None
    infinite: int
    sets: list[tuple[int, int, int]]

    def places(self) -> list[int]:
        """In units of the fine grid."""
        halvings = (self.halv, 0, self.halv)
        return [first + i << h for (first, number), h in zip(self.runs, halvings) for i in range(number)]


class Section(NamedTuple):
    """One direction."""

    mark: str
    bits: int
    den: int
    spacing: int
    kinds: list[Kind]
    products: list[list[int]]
    halves: tuple[int, int]


class File(NamedTuple):
    """What the text says."""

    relation: str
    epsilon: Fraction
    delta: Fraction
    steps: list[tuple[int, str]]
    sections: list[Section]


# --- reading --------------------------------------------------------------------------------------


def body_of(data: bytes) -> bytes:
    """What precedes the last line, which is its SHA-256."""
    if len(data) > MOST_BYTES:
        raise NotReadError(f"too large: {len(data):,} bytes, and {MOST_BYTES:,} is the most")
    body, found = data[:-72], re.search(rb"\nsha256 ([0-9a-f]{64})\n\Z", data[-73:])
    if found is None:
        raise NotReadError("unreadable: the last line is not 'sha256' and 64 digits")
    if hashlib.sha256(body).hexdigest().encode() != found[1]:
        raise NotReadError("damaged: the SHA-256 of the text is not the one on its last line")
    return body


def unpacked(word: str) -> list[int]:
    """The integers of a packed word."""
    if not re.fullmatch(f"([P-o]{{0,{MOST_WORD_BITS // 5}}}[0-O])*", word):
        raise NotReadError("unreadable: a packed word")
    found = []
    for digits in re.findall("[P-o]*[0-O]", word):
        number = 0
        for digit in reversed(digits):
            number = number << 5 | ord(digit) - 48 & 31
        found.append(-(number + 1 >> 1) if number & 1 else number >> 1)
    return found


def natural(word: str, most: int | None = None) -> int:
    """A number from 0 to `most`."""
    known = re.fullmatch("[0-9]+", word) and len(word) <= MOST_DIGITS
    if not known or (most is not None and int(word) > most):
        raise NotReadError(f"unreadable: {word[:40]!r} is not a number from 0 {f'to {most}' if most else 'on'}")
    return int(word)


class Words:
    """The words of a text, one after the other."""

    def __init__(self, body: bytes) -> None:
        if not re.fullmatch(rb"([!-~]+[ \n])*", body):
            raise NotReadError("unreadable: words are visible characters, a space between them")
        self._words: Iterator[str] = iter(body.decode().split())

    def read(self, *pattern: Any) -> list[Any]:
        """The next words: `str` is any word, `int` an integer, `Fraction` a ratio such as 3/4, a number the most that a
        natural number may be, None one without limit; a text must be there, and is not returned.
        """
        found: list[Any] = []
        for one in pattern:
            word = next(self._words, None)
            if word is None:
                raise NotReadError("unreadable: the text ends too soon")
            if one is str:
                found.append(word)
            elif one is int:
                found.append(-natural(word[1:]) if word[0] == "-" else natural(word))
            elif one is Fraction:
                over, under = map(natural, word.partition("/")[::2])
                if not under:
                    raise NotReadError("unreadable: a denominator of 0")
                found.append(Fraction(over, under))
            elif not isinstance(one, str):
                found.append(natural(word, one))
            elif word != one:
                raise NotReadError(f"unreadable: {word[:40]!r} where {one!r} is expected")
        return found

    def run(self, number: int) -> list[int]:
        """So many integers, given by their differences of some order."""
        order, word = self.read(MOST_ORDER, str)
        found = [] if word == "-" else unpacked(word)
        if len(found) != number:
            raise NotReadError(f"unreadable: {len(found)} packed integers where {number} are due")
        for _ in range(order):
            found = list(accumulate(found))
        return found

    def kind(self) -> Kind:
        name, off, halv, *ends, vbits = self.read(str, int, MOST_HALVINGS, *(int, MOST_ITEMS) * 3, MOST_VALUE_BITS)
        runs = list(zip(ends[::2], ends[1::2]))
        if name == "curve":
            width, exact = self.read(MOST_ITEMS, MOST_ITEMS)
            values = [v for _, number in runs for v in self.run(number)]
            pairs = [(v, width if i < len(values) - exact else 0) for i, v in enumerate(values)]
            return Kind(off, halv, runs, vbits, pairs, 0, [])
        if name != "outcomes":
            raise NotReadError(f"unreadable: {name[:40]!r} is neither 'curve' nor 'outcomes'")
        infinite, number = self.read(None, MOST_ITEMS)
        cells, masses, losses = (self.run(number) for _ in range(3))
        return Kind(off, halv, runs, vbits, None, infinite, list(zip(cells, masses, losses)))

    def section(self, kinds: int) -> Section:
        """One direction."""
        mark, bits, den, spacing = self.read("direction", str, "grid", MOST_BITS, None, None)
        known = [self.kind() for _ in range(kinds)]
        (number,) = self.read("products", 1_000)
        products = [self.read(int, int, MOST_HALVINGS, int, int, int, int) for _ in range(number)]
        i, j = self.read("halves", int, int)
        if mark not in ("remove", "add", "both"):
            raise NotReadError(f"unreadable: {mark[:40]!r} is not a direction")
        return Section(mark, bits, den, spacing, known, products, (i, j))

    def file(self) -> File:
        head = ("evr-proof", "1", "relation", str, "epsilon", Fraction, "delta", Fraction, "steps", MOST_KINDS)
        relation, epsilon, delta, number = self.read(*head)
        steps = [(count, law) for count, law in (self.read(None, str) for _ in range(number))]
        (number,) = self.read("directions", 2)
        sections = [self.section(len(steps)) for _ in range(number)]
        self.read("end")
        if next(self._words, None) is not None:
            raise NotReadError("unreadable: words after the end")
        return File(relation, epsilon, delta, steps, sections)


def check_size(section: Section) -> None:
    """Raise where a section is larger than the limits."""
    unit, cell = section.bits + 100, max([1, *(1 << kind.halv for kind in section.kinds)])
    work, places = 0, []
    for kind in section.kinds:
        work += (len(kind.sets) * unit + cell) * unit
        places += [(first, halv) for (first, _), halv in zip(kind.runs, (0, kind.halv, 0))]
    for _, _, halv, low, high, floor, top in section.products:
        work += (max(0, top - floor) + (max(0, high - low) if halv else 0) + cell) * unit
        places += [(low, halv), (high, halv), (floor, 0), (top, 0)]
    if work > MOST_WORK or any(abs(place) > MOST_PLACE << halv for place, halv in places):
        raise NotReadError(f"too large: places up to {MOST_PLACE:,} and {MOST_WORK:,} bits of masses are followed")


# --- masses ---------------------------------------------------------------------------------------


def product(m: Masses, n: Masses) -> Masses:
    """The masses of sums of places, by one product of two long numbers that `decimal` multiplies by a transform."""
    first, p, q = m.first + n.first, m.coef, n.coef
    if not p or not q:
        return Masses(first, [0] * len(p))
    number, width = len(p) + len(q) - 1, len(str(sum(p) * sum(q)))

    def packed(f: list[int]) -> decimal.Decimal:
        return decimal.Decimal("".join(str(x).zfill(width) for x in reversed(f)))

    with decimal.localcontext() as context:
        context.prec = number * width + 10
        context.Emax, context.Emin = decimal.MAX_EMAX, decimal.MIN_EMIN
        context.traps[decimal.Inexact] = context.traps[decimal.Rounded] = True
        one = packed(p)
        text = format(one * (one if p is q else packed(q)), "f").zfill(number * width)
    if len(text) != number * width:
        raise ArithmeticError("a product is longer than its bound")
    return Masses(first, [int(text[i - width : i]) for i in range(number * width, 0, -width)])


def ceiling(a: int, b: int) -> int:
    return -(-a // b)


def plus(m: Masses, n: Masses) -> Masses:
    """The masses of both."""
    if not m.coef or not n.coef:
        return m if m.coef else n
    low = min(m.first, n.first)
    a, b = ([0] * (x.first - low) + x.coef for x in (m, n))
    a, b = (a, b) if len(a) >= len(b) else (b, a)
    return Masses(low, [x + y for x, y in zip(a, b)] + a[len(b) :])


def under(m: Masses, k: int) -> Masses:
    """The masses below place k."""
    return Masses(m.first, m.coef[: max(0, k - m.first)])


def since(m: Masses, k: int) -> Masses:
    """The masses from place k on."""
    return Masses(max(m.first, k), m.coef[max(0, k - m.first) :])


class Checker:
    """The arithmetic of one direction: docs/guarantees_strict.md, Sections S3 to S5."""

    def __init__(self, bits: int, den: int, spacing: int) -> None:
        if den <= 0 or spacing <= 0:
            raise RefusedError("a denominator or a spacing of 0")
        self.bits, self.den, self.spacing = bits, den, spacing
        self.unit, self.wide = 1 << bits, 1 << bits + GUARD
        self.squarings, self.q = bits + 150, 1 << 2 * bits + 300
        self.shares = lru_cache(maxsize=None)(self._shares)
        self.step_down = self.power(self.unit, -spacing)

    def exp_down(self, n: int, d: int) -> int:
        """At most q e^(n/d): (1 + x / 2^k)^(2^k) by k squarings."""
        whole = d << self.squarings
        a = max(0, self.q * (whole + n) // whole)
        for _ in range(self.squarings):
            a = a * a // self.q
        return a

    def exp_up(self, n: int, d: int) -> int:
        """At least q e^(-n/d)."""
        whole = d << self.squarings
        a = ceiling(self.q * whole, whole + n)
        for _ in range(self.squarings):
            a = ceiling(a * a, self.q)
        return a

    def power(self, unit: int, n: int) -> int:
        """At most unit e^(n/den)."""
        return self.exp_down(n, self.den) * unit // self.q

    def step(self, kind: Kind) -> Law:
        """One step on its grid (S3, S4.1)."""
        places = kind.places()
        if not places or any(a >= b for a, b in zip(places, places[1:])):
            raise RefusedError("the places of a step do not rise")
        masses, infinite = (self._by_outcomes if kind.values is None else self._by_curve)(kind, places)
        (floor, number), (low, fine), (high, _) = kind.runs
        end = number + fine
        coarse = plus(Masses(floor, masses[:number]), Masses(high, masses[end:]))
        return Law(kind.halv, Masses(low, masses[number:end]), coarse, min(self.unit, infinite))

    def _gaps(self, kind: Kind, places: list[int]) -> list[tuple[int, int]]:
        """Bounds of q e^(-width) from each place to the next."""
        d, widths = self.den << kind.halv, [(b - a) * self.spacing for a, b in zip(places, places[1:])]
        known = {width: (self.exp_down(-width, d), self.exp_up(width, d)) for width in set(widths)}
        return [known[width] for width in widths]

    def _by_curve(self, kind: Kind, places: list[int]) -> tuple[list[int], int]:
        assert kind.values is not None
        q, value = self.q, 1 << kind.vbits
        if any(not 0 <= v <= most + d for (most, d), (v, _) in zip([(value, 0), *kind.values], kind.values)):
            raise RefusedError("the curve of a step is not between 0 and 1, or does not fall")
        masses, before = [], value
        for (v, d), (v2, d2), (lo, hi) in zip(kind.values, kind.values[1:], self._gaps(kind, places)):
            down = 0 if q <= lo else (q * v - lo * (v2 + d2)) // (q - lo)
            masses.append(max(0, ceiling((before - down) * self.unit, value)))
            before = value if q <= hi else ceiling(q * (v + d) - hi * v2, q - hi)
        v, d = kind.values[-1]
        masses.append(max(0, ceiling((before - v) * self.unit, value)))
        return masses, ceiling((v + d) * self.unit, value)

    def _by_outcomes(self, kind: Kind, places: list[int]) -> tuple[list[int], int]:
        q, value = self.q, 1 << kind.vbits
        d = self.den << kind.halv + kind.vbits
        edges = [(kind.off << kind.halv) + p * self.spacing << kind.vbits for p in places]
        gaps = self._gaps(kind, places)
        found, last = [0] * (len(places) + 1), 0
        for cell, mass, loss in kind.sets:
            beyond = cell < len(gaps) and loss > edges[cell + 1]
            if not last <= cell < len(places) or beyond or mass < 0:
                raise RefusedError("a set of outcomes is not in its cell")
            last, a = cell, loss - edges[cell]
            up, down = 0, q
            if a > 0:
                lo, hi = self.exp_down(-a, d), self.exp_up(a, d)
                up, down = q - lo, hi
                if cell < len(gaps):
                    less, more = gaps[cell]
                    up = q if q <= more else min(q, ceiling((q - lo) * q, q - more))
                    down = q if q <= less else q - max(0, (q - hi) * q // (q - less))
            found[cell] += mass * down
            found[cell + 1] += mass * up
        found[-1] += kind.infinite * q
        masses = [ceiling(x * self.unit, value * q) for x in found]
        return masses[:-1], masses[-1]

    def _shares(self, a: int, b: int) -> list[int]:
        """The shares that go up in a cell of a coarser grid (S4.3)."""
        d, size, q = self.den << a, 1 << a - b, self.q
        lo, hi = self.exp_down(-self.spacing, d), self.exp_up(self.spacing * size, d)
        y, found = q, []
        for _ in range(size):
            found.append(self.unit if q <= hi else min(self.unit, ceiling((q - y) * self.unit, q - hi)))
            y = y * lo // q
        return found

    def to_grid(self, a: int, b: int, m: Masses) -> Masses:
        """Masses from a grid of `a` halvings on one of `b`."""
        if a <= b:
            return m
        shares, size = self.shares(a, b), 1 << a - b
        low = m.first // size
        masses = [0] * (m.first - low * size) + m.coef
        ups, downs = [0], []
        for i in range(0, len(masses), size):
            cell = masses[i : i + size]
            ups.append(ceiling(sum(x * y for x, y in zip(cell, shares)), self.unit))
            downs.append(sum(cell) - ups[-1])
        return Masses(low, [x + y for x, y in zip([*downs, 0], ups)])

    def all_coarse(self, x: Law) -> Masses:
        """All finite masses on the coarse grid."""
        return plus(x.coarse, self.to_grid(x.halv, 0, x.fine))

    def at(self, b: int, x: Law) -> Law:
        """A law with at most `b` halvings."""
        if x.halv <= b:
            return x
        if b == 0:
            return Law(0, Masses(0, []), self.all_coarse(x), x.infinite)
        return Law(b, self.to_grid(x.halv, b, x.fine), x.coarse, x.infinite)

    def either(self, a: int, b: int) -> int:
        """1 - (1 - a)(1 - b), rounded up."""
        return min(a + b - a * b // self.unit, self.unit)

    def times(self, x: Law, y: Law) -> Law:
        """The law of both (S4.5)."""
        halv = min(x.halv, y.halv)
        x, y = (a := self.at(halv, x)), (a if y is x else self.at(halv, y))
        mixed = self.to_grid(x.halv, 0, x.fine)
        if x is y:
            coarse = product(x.coarse, plus(plus(mixed, mixed), x.coarse))
        else:
            all_of_y = plus(self.to_grid(y.halv, 0, y.fine), y.coarse)
            coarse = plus(product(x.coarse, all_of_y), product(mixed, y.coarse))
        masses = (product(x.fine, y.fine), coarse)
        fine, coarse = (Masses(m.first, [z + self.unit - 1 >> self.bits for z in m.coef]) for m in masses)
        return Law(halv, fine, coarse, self.either(x.infinite, y.infinite))

    def within(self, x: Law, halv: int, low: int, high: int, floor: int, top: int) -> Law:
        """A law cut to a window (S4.4)."""
        x = self.at(halv, x)
        rest = since(x.fine, low)
        ends = self.to_grid(x.halv, 0, plus(under(x.fine, low), since(rest, high + 1)))
        m = plus(x.coarse, ends)
        inside = since(m, floor)
        above = since(inside, top + 1)
        weight, kept = self.unit, 0
        for mass in chain(repeat(0, above.first - (top + 1) if above.coef else 0), above.coef):
            weight = weight * self.step_down // self.unit
            kept += mass * weight
        kept //= self.unit
        coarse = plus(under(inside, top + 1), Masses(floor, [sum(under(m, floor).coef)]))
        infinite = min(x.infinite + sum(above.coef) - kept, self.unit)
        return Law(x.halv, under(rest, high + 1), plus(coarse, Masses(top, [kept])), infinite)

    def last_sum(self, eps: int, offset: int, x: Law, y: Law) -> int:
        """The bound, over 2^(2 bits) (S5)."""
        cut = (eps - offset) // self.spacing
        m, n, unit, wide = self.all_coarse(x), self.all_coarse(y), self.unit, self.wide
        if cut < m.first + n.first - 2**26:
            return unit * unit
        step, rest = (self.power(wide, -self.spacing), self.power(wide, eps - offset - cut * self.spacing))
        start = cut + 1 - (m.first + len(m.coef) - 1)
        masses = [0] * (n.first - start) + since(n, start).coef
        s = r = 0
        tails = []
        for mass in reversed(masses):
            s += mass
            r = ((mass << GUARD) + r) * step // wide
            tails.append(s - (r * rest >> self.bits + 2 * GUARD))
        total = sum(a * b for a, b in zip(reversed(m.coef), reversed(tails)))
        return min(unit * unit, total + self.either(x.infinite, y.infinite) * unit)


def bound(file: File, section: Section) -> int:
    """The bound of one direction, over 2^(2 bits); RefusedError if the plan is none of it."""
    check = Checker(section.bits, section.den, section.spacing)
    eps, number = file.epsilon * section.den, len(file.steps)
    if eps.denominator != 1:
        raise RefusedError("epsilon is not a multiple of 1 / denominator")
    none = Law(0, Masses(0, []), Masses(0, [check.unit]), 0)
    registers = [((0,) * number, none)]
    for k, kind in enumerate(section.kinds):
        registers.append((tuple(int(j == k) for j in range(number)), check.step(kind)))

    def pair(i: int, j: int) -> Any:
        if not (0 <= i < len(registers) and 0 <= j < len(registers)):
            raise RefusedError("a product of steps that are not there")
        (a, x), (b, y) = registers[i], registers[j]
        return tuple(map(sum, zip(a, b))), x, y

    for i, j, *window in section.products:
        counts, x, y = pair(i, j)
        registers.append((counts, check.within(check.times(x, y), *window)))
    counts, x, y = pair(*section.halves)
    if list(counts) != [count for count, _ in file.steps]:
        raise RefusedError("the plan is not about the stated number of steps")
    offset = sum(count * kind.off for count, kind in zip(counts, section.kinds))
    return check.last_sum(int(eps), offset, x, y)


class Answer(NamedTuple):
    """What a checker says of a proof file."""

    file: File
    bounds: list[int | None]
    reasons: list[str]

    @property
    def accepted(self) -> bool:
        return not self.reasons


def check(data: bytes) -> Answer:
    """Judge a proof file; NotReadError where it is not one."""
    file = Words(body_of(data)).file()
    for section in file.sections:
        check_size(section)
    bounds: list[int | None] = []
    reasons = []
    if [section.mark for section in file.sections] not in (["both"], ["remove", "add"]):
        reasons.append("the file does not hold both directions")
    for section in file.sections:
        try:
            found: int | None = bound(file, section)
            if Fraction(found or 0, 1 << 2 * section.bits) > file.delta:
                reasons.append(f"direction {section.mark}: what is proved is above the stated delta")
        except RefusedError as why:
            found = None
            reasons.append(f"direction {section.mark}: {why}")
        bounds.append(found)
    return Answer(file, bounds, reasons)


def shown(number: Fraction) -> str:
    """A number in decimals, rounded up unless a float holds it."""
    if number < 1 << 1000 and Fraction(float(number)) == number:
        return repr(float(number))
    with decimal.localcontext() as context:
        context.prec, context.rounding, context.Emin = 6, decimal.ROUND_UP, decimal.MIN_EMIN
        return str(decimal.Decimal(number.numerator) / decimal.Decimal(number.denominator))


def words(answer: Answer) -> list[str]:
    """What the checker found, for people."""
    file = answer.file
    pair = f"epsilon = {shown(file.epsilon)}, delta is at most {shown(file.delta)}"
    stated = [
        f"The file states, of this mechanism (neighbours: {file.relation}):",
        *(f"  {count} x {law}" for count, law in file.steps),
        f"that at {pair}, in both directions.\n",
    ]
    if not answer.accepted:
        return [*stated, "REFUSED. This file proves nothing:", *(f"  {reason}" for reason in answer.reasons)]
    bounds = []
    for section, units in zip(file.sections, answer.bounds):
        both = "both directions" if section.mark == "both" else f"direction {section.mark}"
        bounds.append(f"  {both}: at most {shown(Fraction(units or 0, 1 << 2 * section.bits))}")
    return [
        *stated,
        f"ACCEPTED. The checker accepts: at {pair},",
        "provided that the listed numbers enclose the privacy curve of one step,\nin each direction.",
        *bounds,
        "Not checked: those numbers (see --enclosures), and that this mechanism is what ran.",
    ]


def main(arguments: list[str]) -> int:
    paths = [one for one in arguments if one != "--enclosures"]
    if len(paths) != 1 or paths[0].startswith("--"):
        print(__doc__)
        return 2
    try:
        with open(paths[0], "rb") as handle:
            answer = check(handle.read(MOST_BYTES + 1))
    except (OSError, NotReadError) as why:
        print(f"NOT CHECKED: {why}")
        return 2
    print("\n".join(words(answer)))
    if not answer.accepted:
        return 3
    return enclosures(answer.file) if "--enclosures" in arguments else 0


# --- the listed numbers, computed again -----------------------------------------------------------


def law_of(text: str) -> tuple[str, list[Any]]:
    """A law's name and its arguments, which are numbers or laws."""
    tokens = re.findall(r"[^(),]+|[(),]", text)

    def parsed() -> Any:
        name = tokens.pop(0)
        if not tokens or tokens[0] != "(":
            exact = re.fullmatch("-?[0-9]+(/[0-9]+)?", name)
            return Fraction(name) if exact else Fraction(float(name))
        found = []
        while tokens.pop(0) != ")":
            found.append(parsed())
        return name, found

    return parsed()


def curve_of(mp: Any, law: Any, add: bool) -> Any:
    """The function H of docs/guarantees_strict.md, Section S6, in the floats of mpmath."""
    name, given = law

    def exact(values: list[Any]) -> list[Any]:
        return [mp.mpf(x.numerator) / x.denominator for x in values if isinstance(x, Fraction)]

    def beyond(t: Any) -> Any:
        return mp.erfc(t / mp.sqrt(2)) / 2

    def sampled(base: Any, q: Any, other: bool) -> Any:
        def value(r: Any) -> Any:
            if other:
                c = 1 - (1 - q) * r
                return c * base(q * r / c) if c > 0 else mp.mpf(0)
            return q * base((r - 1 + q) / q) if r > 1 - q else 1 - r

        return value

    def root(rising: Any) -> Any:
        low, high = mp.mpf(-1), mp.mpf(1)
        while rising(low) > 0:
            low *= 2
        while rising(high) < 0:
            high *= 2
        return mp.findroot(rising, (low, high), solver="anderson", maxsteps=500, verify=False)

    def mixtures(above: list[tuple[Any, Any]], below: list[tuple[Any, Any]]) -> Any:
        """For two mixtures of Gaussians (mean, weight) of deviation 1, the ratio of which rises."""

        def excess(r: Any, part: Any) -> Any:
            here, there = (sum(w * part(m) for m, w in side) for side in (above, below))
            return here - r * there

        def value(r: Any) -> Any:
            if all(m == 0 for m, _ in below) and r <= sum(w for m, w in above if m == 0):
                return 1 - r
            if all(m == 0 for m, _ in above) and r * sum(w for m, w in below if m == 0) >= 1:
                return mp.mpf(0)
            t = root(lambda t: excess(r, lambda m: mp.exp(m * t - m * m / 2)))
            return excess(r, lambda m: beyond(t - m))

        return value

    def gaussian(m: Any) -> Any:
        return lambda r: beyond(mp.log(r) / m - m / 2) - r * beyond(mp.log(r) / m + m / 2)

    def outcomes(pairs: list[tuple[Any, Any]]) -> Any:
        return lambda r: sum((p - r * q for p, q in pairs if p > r * q), mp.mpf(0))

    chance = 0  # of a sampled record under replace-one
    if name == "replaced" and given[1][0] != "laplace":
        (chance,), (name, given) = exact(given), given[1]
    numbers, rows = exact(given), [exact(x[1]) for x in given if not isinstance(x, Fraction)]
    short: dict[str, Any] = {
        "pair": lambda: curve_of(mp, given[add], add),
        "gaussian": lambda: gaussian(1 / numbers[0]),
        "gaussians": lambda: gaussian(mp.sqrt(numbers[0])),
        "shifted": lambda: lambda r: gaussian(mp.sqrt(numbers[0]))(r * mp.exp(-numbers[1])),
        "laplace": lambda: lambda r: max(mp.mpf(0), 1 - r, 1 - mp.sqrt(r * mp.exp(-1 / numbers[0]))),
        "poisson": lambda: sampled(curve_of(mp, given[1], add), numbers[0], add),
        "outcomes": lambda: outcomes(list(zip(*rows))),
        "bounded_range": lambda: range_curve(mp, numbers[0], int(given[1]) if len(given) > 1 else 1),
    }
    if name in short:
        return short[name]()
    if name == "without_replacement":
        base = curve_of(mp, given[1], add)
        below, above = (sampled(base, numbers[0], other) for other in (True, False))
        return lambda r: above(r) if r >= 1 else below(r)
    if name == "epsilon_delta":
        (e, d), high = numbers, (1 - numbers[1]) / (1 + mp.exp(-numbers[0]))
        return outcomes([(d, 0), (0, d), (high, high * mp.exp(-e)), (high * mp.exp(-e), high)])
    if name == "labelled":
        curves = [(w, gaussian(mp.sqrt(square))) for square, w in zip(*rows)]
        return lambda r: sum(w * curve(r) for w, curve in curves)
    if name == "replaced":
        taken, rare = numbers[0], numbers[0] * mp.exp(-1 / rows[0][0])

        def upper(r: Any) -> Any:
            return max(mp.mpf(0), taken - mp.sqrt(rare * (r * (1 - taken + rare) - 1 + taken)))

        return lambda r: upper(r) if r >= 1 else 1 - r + r * upper(1 / r)
    if name in ("discrete_laplace", "discrete_gaussian"):
        rate, power = (numbers[0], 1) if name == "discrete_laplace" else (1 / (2 * numbers[0] ** 2), 2)
        reach, shift = int(mp.root((mp.prec + 9) / rate, power)) + 1, int(given[1])
        whole = sum(mp.exp(-rate * abs(x) ** power) for x in range(-reach, reach + 1))
        around = range(-reach - shift, reach + shift + 1)
        here, moved = ([mp.exp(-rate * abs(x - by) ** power) / whole for x in around] for by in (0, shift))
        if chance:
            moved = [(1 - chance) * p + chance * q for p, q in zip(here, moved)]
            here = moved[::-1]
        return outcomes(list(zip(moved, here)))
    if name == "two_sided":
        sizes = [(mp.sqrt(numbers[0]) * m, w) for m, w in zip(*rows)]
        return mixtures(sizes, [(-m, w) for m, w in sizes])
    if name == "mixture":
        means, one = list(zip(*rows)), [(mp.mpf(0), mp.mpf(1))]
        return mixtures(one, [(-m, w) for m, w in means]) if add else mixtures(means, one)
    if name == "zcdp":

        def concentrated(r: Any) -> Any:
            """e^((a-1)(a rho + xi - eps)) (1 - 1/a)^a / (a - 1), where its derivative in a is 0."""
            eps = mp.log(r) - numbers[1]
            a = 1 + mp.exp(root(lambda t: (2 * mp.exp(t) + 1) * numbers[0] - eps + t - mp.log1p(mp.exp(t))))
            return min(mp.mpf(1), mp.exp((a - 1) * (a * numbers[0] - eps)) * (1 - 1 / a) ** a / (a - 1))

        return lambda r: concentrated(r) if r >= 1 else min(concentrated(r), 1 - r + r * concentrated(1 / r))
    if name == "truncated":
        n, most = int(given[0]), int(given[2])
        cut, more = (mp.betainc(m, n - most, 0, numbers[1], regularized=True) for m in (most, most + 1))
        whole = sampled(gaussian(1 / numbers[3]), numbers[1], add)
        half = sampled(gaussian(2 / numbers[3]), more * most / (cut * n), add)
        return lambda r: (1 - cut) * whole(r) + cut * half(r)
    raise NotReadError(f"the law {name!r} is not known here")


def range_curve(mp: Any, epsilon: Any, steps: int) -> Any:
    """One step in closed form; of several not more than the truth, by choices on a grid."""
    whole = mp.exp(epsilon)
    if steps == 1:
        return lambda r: max(0, 1 - r, (max(0, mp.sqrt(whole) - mp.sqrt(r)) ** 2 / (whole - 1) if r * whole > 1 else 0))
    cells, reach = 4, 8 * steps
    chances = [float((whole - mp.exp(epsilon * i / cells)) / (whole - 1)) for i in range(cells + 1)]
    table = {j: max(0.0, float(1 - mp.exp(epsilon * j / cells))) for j in range(-reach, reach + 1)}
    for _ in range(steps):
        reach -= cells
        table = {
            j: max(p * table[j - i] + (1 - p) * table[j - i + cells] for i, p in enumerate(chances))
            for j in range(-reach, reach + 1)
        }

    def value(r: Any) -> Any:
        place = int(mp.ceil(mp.log(r) * cells / epsilon))
        return max(mp.mpf(0), 1 - r, mp.mpf(table.get(place, 0.0)) * (1 - mp.mpf(10) ** -9))

    return value


def enclosures(file: File) -> int:
    """Compute the listed numbers again; 0 if all agree, 3 if one does not."""
    try:
        from mpmath import mp
    except ImportError:
        print("NOT COMPUTED AGAIN: --enclosures needs mpmath (pip install mpmath)")
        return 2
    wrong = number = 0
    for section in file.sections:
        sides = {"remove": [False], "add": [True], "both": [False, True]}[section.mark]
        for kind, (_, text) in zip(section.kinds, file.steps):
            mp.prec = kind.vbits + 100
            unit, fine = mp.mpf(2) ** kind.vbits, mp.mpf(section.den << kind.halv)
            if kind.values is not None:
                ratios = [mp.exp(((kind.off << kind.halv) + p * section.spacing) / fine) for p in kind.places()]
                listed = [(r, v, v + d) for r, (v, d) in zip(ratios, kind.values)]
            else:  # a curve is convex: what holds at these ratios, holds at all
                sets = [(mass, mp.exp(loss / (fine * unit))) for _, mass, loss in kind.sets]
                wrong += len(sides) * (kind.infinite + sum(mass for mass, _ in sets) < unit)
                listed = [(r, 0, kind.infinite + sum(m * (1 - r / x) for m, x in sets if x > r)) for _, r in sets]
            for side in sides:
                curve, slack = curve_of(mp, law_of(text), side), mp.mpf(2) ** -20
                wrong += sum(not low - slack <= unit * curve(r) <= high + slack for r, low, high in listed)
                number += len(listed)
    print(f"mpmath computed {number} numbers again: {wrong or 'none'} of them disagree.")
    return 3 if wrong else 0


if __name__ == "__main__":
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)  # instead of Python's own limit there is MOST_DIGITS
    sys.exit(main(sys.argv[1:]))
