#!/usr/bin/env python3
"""Checks a proof file of evr, or a refutation: python3 -I -S check_proof.py training.proof

Standard library only, integers only, Python 3.9 or newer; nothing of evr is needed. The format and
the arithmetic: docs/proof_format.md of evr. The same program is proved right in Coq (proofs/); that
some training attains the laws of a refutation is proved on paper (docs/guarantees_lower.md).
Exit codes: 0 proved for DP-SGD; 4 accepted on a condition that is printed (0 with --listed);
5 the claim is false: the file refutes it (4 on a condition, 5 with --listed); 3 refused;
2 not a file of version 2, damaged, or larger than the limits.
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
from math import gcd, isqrt
from typing import Any, NamedTuple

MOST_BYTES = 1 << 26
MOST_DIGITS, MOST_WORD_BITS, MOST_ITEMS, MOST_ORDER = 8_000, 40_000, 1 << 20, 64
MOST_BITS, MOST_VALUE_BITS, MOST_HALVINGS, MOST_KINDS = 6_000, 20_000, 26, 1_000
MOST_PLACE, MOST_WORK, MOST_EFFORT = 1 << 22, 1 << 32, 1 << 43
"""Beyond these a file is not read: it would take for ever. Nothing else rests on them."""
GUARD = 48
DIRECTIONS = {"remove": [True], "add": [False], "both": [True, False]}  # those of a section; True is remove
PROVED, LISTED = "proved for DP-SGD", "accepted if the listed numbers are right"
REPLACED, REFUSED = "accepted if the law is right for replace-one neighbours", "refused"
REFUTED, REFUTED_LISTED = "refuted for DP-SGD", "refuted if the listed numbers are right"
REFUTED_REPLACED = "refuted if the law is right for replace-one neighbours"
"""What a checker answers."""

Pair = tuple[int, int]


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
    """What is known of a step: (v, d) at each place, which an `own` kind does not list; or an infinite mass and
    (cell, p, loss). In a refutation (p, q) at each place, and an infinite mass; or, of `tests`, the thresholds between
    places, each over a power of 2.
    """

    name: str
    off: int
    halv: int
    runs: list[Pair]  # coarse, fine, coarse places: the first, and how many
    vbits: int
    values: list[Pair]
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
    """What the text says; `refutes`: that delta is greater than the stated one, in the one direction that is there."""

    refutes: bool
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
    version = re.match(rb"evr-(?:proof|refutation)[ \n]([!-~]*)[ \n]", body[:80])
    if version and version[1] != b"2":
        raise NotReadError("not version 2: the certificate's author can write it again with a newer evr")
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

    def kind(self, refutes: bool) -> Kind:
        name, off, halv, *ends, vbits = self.read(str, int, MOST_HALVINGS, *(int, MOST_ITEMS) * 3, MOST_VALUE_BITS)
        runs, known = list(zip(ends[::2], ends[1::2])), ("tests", "scores") if refutes else ("own", "curve", "outcomes")
        if name not in known:
            raise NotReadError(f"unreadable: {name[:40]!r} is neither {' nor '.join(map(repr, known))}")
        places, infinite = sum(number for _, number in runs), 0
        values: list[Pair] = []
        sets: list[tuple[int, int, int]] = []
        if name == "curve":
            width, exact = self.read(MOST_ITEMS, MOST_ITEMS)
            listed = [v for _, number in runs for v in self.run(number)]
            values = [(v, width if i < places - exact else 0) for i, v in enumerate(listed)]
        elif name == "outcomes":
            infinite, number = self.read(None, MOST_ITEMS)
            sets = list(zip(self.run(number), self.run(number), self.run(number)))
        elif name == "tests":
            (tbits,) = self.read(MOST_VALUE_BITS)
            values = [(t, tbits) for t in self.run(max(0, places - 1))]
        elif name == "scores":
            (infinite,) = self.read(None)
            values = list(zip(self.run(places), self.run(places)))
        return Kind(name, off, halv, runs, vbits, values, infinite, sets)

    def section(self, kinds: int, refutes: bool) -> Section:
        """One direction."""
        mark, bits, den, spacing = self.read("direction", str, "grid", MOST_BITS, None, None)
        known = [self.kind(refutes) for _ in range(kinds)]
        (number,) = self.read("products", 1_000)
        products = [self.read(int, int, MOST_HALVINGS, int, int, int, int) for _ in range(number)]
        i, j = self.read("halves", int, int)
        if mark not in DIRECTIONS:
            raise NotReadError(f"unreadable: {mark[:40]!r} is not a direction")
        return Section(mark, bits, den, spacing, known, products, (i, j))

    def file(self) -> File:
        (what,) = self.read(str)
        if what not in ("evr-proof", "evr-refutation"):
            raise NotReadError(f"unreadable: {what[:40]!r} is neither 'evr-proof' nor 'evr-refutation'")
        head = ("2", "relation", str, "epsilon", Fraction, "delta", Fraction, "steps", MOST_KINDS)
        refutes, (relation, epsilon, delta, number) = what == "evr-refutation", self.read(*head)
        steps = [(count, law) for count, law in (self.read(None, str) for _ in range(number))]
        (number,) = self.read("directions", 2)
        sections = [self.section(len(steps), refutes) for _ in range(number)]
        self.read("end")
        if next(self._words, None) is not None:
            raise NotReadError("unreadable: words after the end")
        return File(refutes, relation, epsilon, delta, steps, sections)


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


# --- laws -----------------------------------------------------------------------------------------

GAUSSIANS = {"gaussian", "gaussians"}
NOISE = {*GAUSSIANS, "laplace", "discrete_laplace", "discrete_gaussian", "shifted"}
KNOWN = {"epsilon_delta", "zcdp", "bounded_range", "outcomes"}
RELATIONS = {
    "add-or-remove": ({*NOISE, *KNOWN, "mixture", "truncated"}, "poisson", {*NOISE, *KNOWN, "mixture"}),
    "zero-out": ({*NOISE, *KNOWN, "mixture"}, "poisson", NOISE),
    "replace-one": (
        {*NOISE, *KNOWN, "two_sided", "labelled", "replaced"},
        "without_replacement",
        {*NOISE, *KNOWN, "two_sided", "labelled"},
    ),
}
"""Which laws may stand under which relation: alone; and sampled in which way, which ones."""


class Own(NamedTuple):
    """A law whose curve a checker computes: its rate, and its noise multiplier or, if `squared`, 1 over its square."""

    rate: Pair
    noise: Pair
    squared: bool

    def multipliers(self, b: int) -> tuple[Pair, Pair]:
        """Two noise multipliers, with the law's own between them."""
        c, d = self.noise
        if not self.squared:
            return (c, d), (c, d)
        if isqrt(d) ** 2 == d and isqrt(c) ** 2 == c:
            return (isqrt(d), isqrt(c)), (isqrt(d), isqrt(c))
        r = isqrt(c * d << 2 * b)
        return (r, c << b), (r + 1, c << b)


def parts(law: str) -> tuple[str, list[str]]:
    """The name of a law, and its arguments."""
    name, _, rest = law.partition("(")
    depth, commas = 0, [-1]
    for sign in re.finditer("[(),]", rest[:-1]):
        depth += {"(": 1, ")": -1, ",": 0}[sign[0]]
        if depth < 0:
            break
        if sign[0] == "," and depth == 0:
            commas.append(sign.start())
    if depth != 0 or not rest.endswith(")"):
        raise RefusedError(f"{law[:400]} is not a law: that is a name and arguments in parentheses")
    return name, [rest[i + 1 : j] for i, j in zip(commas, [*commas[1:], len(rest) - 1])]


def stands(relation: str, law: str) -> bool:
    """Whether the law may stand under the relation."""
    alone, sampling, sampled = RELATIONS[relation]
    name, arguments = parts(law)
    return name in alone or (name == sampling and len(arguments) == 2 and parts(arguments[1])[0] in sampled)


def check_law(relation: str, law: str) -> None:
    """Raise where no such law may stand under the relation."""
    if relation not in RELATIONS:
        raise RefusedError(f"the relation {relation[:40]!r} is not one of {', '.join(RELATIONS)}")
    name, arguments = parts(law)
    is_pair = name == "pair" and len(arguments) == 2
    if not all(stands(relation, part) for part in (arguments if is_pair else [law])):
        raise RefusedError(f"{readable(law)[:400]} is not a law for {relation} neighbours")


def read_ratio(word: str) -> Pair:
    """An integer, or a ratio of two in lowest terms."""
    digits = f"[0-9]{{0,{MOST_DIGITS - 1}}}"
    form = re.fullmatch(f"(0|[1-9]{digits})(/[1-9]{digits})?", word)
    over, under = (int(form[1]), int((form[2] or "/1")[1:])) if form else (0, 0)
    if gcd(over, under) != 1 or word.endswith("/1"):
        raise RefusedError(f"{word[:60]!r} is neither an integer nor a ratio of two in lowest terms")
    return over, under


def read_law(law: str) -> Own | None:
    """A law whose curve a checker computes; None if it is another one."""
    (name, arguments), q = parts(law), "1"
    if name == "poisson" and len(arguments) == 2:
        q, (name, arguments) = arguments[0], parts(arguments[1])
    if name not in GAUSSIANS:
        return None
    rate, noise = read_ratio(q), read_ratio(",".join(arguments))
    if rate[0] > rate[1] or noise[0] == 0:
        raise RefusedError(f"{readable(law)}: the noise is not above 0, or the rate is above 1")
    return Own(rate, noise, name == "gaussians")


def check_kinds(file: File) -> None:
    """Raise where laws, relation, directions and kinds do not belong together, or computing curves takes too long."""
    for _, law in file.steps:
        check_law(file.relation, law)
    marks = [section.mark for section in file.sections]
    if file.refutes and marks not in (["remove"], ["add"]):
        raise RefusedError("a refutation holds one direction")
    if not file.refutes and marks not in (["both"], ["remove", "add"]):
        raise RefusedError("the file does not hold both directions")
    effort = 0
    for section in file.sections:
        for kind, (_, law) in zip(section.kinds, file.steps):
            own = read_law(law)
            if (own is not None) != (kind.name in ("own", "tests")):
                rule = "listed, not computed" if own is None else "computed, not listed"
                raise RefusedError(f"direction {section.mark}: the curve of {readable(law)} has to be {rule}")
            if own is not None:
                if section.mark == "both" and own.rate != (1, 1):
                    raise RefusedError(f"{readable(law)} is not the same in both directions")
                places = sum(number for _, number in kind.runs)
                effort += places * bits_at_most(section, kind, own) ** 3
    if effort > MOST_EFFORT:
        raise NotReadError(f"too large: curves of an effort of {effort:,}, and {MOST_EFFORT:,} is the most")


def bits_at_most(section: Section, kind: Kind, own: Own) -> int:
    """About how long the numbers are in which a curve is computed."""
    largest = section.den + abs(kind.off) + section.spacing + sum(own.rate) + sum(own.noise)
    return kind.vbits + extra(section, kind) + log2(largest) + 300


# --- the curve of a Poisson-sampled Gaussian ------------------------------------------------------
# proofs/coq/Enclose.v, which is proved right, by the same names. A pair encloses a number times M = 2^B.


def csh(x: int, b: int) -> int:
    """x / 2^b, rounded up."""
    return -(-x >> b)


def log2(z: int) -> int:
    return max(0, z.bit_length() - 1)


class Precision:
    """Bounds over M = 2^B; no loop has more than `fuel` turns."""

    def __init__(self, b: int, fuel: int) -> None:
        self.b, self.m, self.fuel, self.root = b, 1 << b, fuel, isqrt(b)

    def exp_terms(self, ul: int, uh: int) -> Pair:
        """M e^(-u), by the series: i terms are in [sl, sh], the next one is in [tl, th]."""
        b, i, tl, th, sl, sh = self.b, 0, self.m, self.m, 0, 0
        while th > 1 and i < self.fuel:
            sl, sh = (sl - th, sh - tl) if i % 2 else (sl + tl, sh + th)
            i += 1
            tl, th = (tl * ul >> b) // i, ceiling(csh(th * uh, b), i)
        return sl - th, sh + th

    def exp_minus(self, n: int, d: int) -> Pair:
        """M e^(-n/d), n >= 0: j times the square of M e^(-n / (d 2^j))."""
        j = self.root + log2(n // d + 1)
        u = (n << self.b) // (d << j)
        lo, hi = self.exp_terms(u, u + 1)
        lo = max(0, lo)
        for _ in range(j):
            lo, hi = lo * lo >> self.b, csh(hi * hi, self.b)
        return lo, hi

    def exp_both(self, n: int, d: int) -> Pair | None:
        """M e^(n/d)."""
        lo, hi = self.exp_minus(abs(n), d)
        if n <= 0:
            return lo, hi
        return (self.m * self.m // hi, ceiling(self.m * self.m, lo)) if lo > 0 else None

    def g_at(self, x: int) -> Pair:
        """M times the integral of e^(-t^2/2) from 0 to x/M: j terms are in [sl, sh], the next one is in
        [tl, th] / (2 j + 1).
        """
        b, j, tl, th, sl, sh = self.b, 0, x, x, 0, 0
        ul, uh = x * x >> b + 1, csh(x * x, b + 1)
        while th > 1 and j < self.fuel:
            low, high = tl // (2 * j + 1), ceiling(th, 2 * j + 1)
            sl, sh = (sl - high, sh - low) if j % 2 else (sl + low, sh + high)
            j += 1
            tl, th = (tl * ul >> b) // j, ceiling(csh(th * uh, b), j)
        return sl - ceiling(th, 2 * j + 1), sh + ceiling(th, 2 * j + 1)

    def half_z(self, m: int) -> Pair:
        """M times the integral up to infinity, from that up to m and the tail beyond."""
        lo, hi = self.g_at(m * self.m)
        return lo, hi + ceiling(self.exp_minus(m * m, 2)[1], m)


class Curve(Precision):
    """Bounds over M of the curve for one rate, qn / qd, and any noise multiplier sn / sd."""

    def __init__(self, b: int, fuel: int, far: int, half_z: Pair, margin: int, rate: Pair) -> None:
        super().__init__(b, fuel)
        self.far, (self.zlo, self.zhi), self.margin, (self.qn, self.qd) = far, half_z, margin, rate

    def phi_pos(self, n: int, d: int) -> Pair:
        """M Phi(n/d), n >= 0."""
        m, zlo, zhi, x = self.m, self.zlo, self.zhi, n * self.m // d
        lo, hi = zlo, zhi
        if x < self.far * m:
            lo, hi = self.g_at(x)
            hi += 1
        return (zhi + max(0, lo)) * m // (2 * zhi), ceiling((zlo + hi) * m, 2 * zlo)

    def phi(self, n: int, d: int) -> Pair:
        """M Phi(n/d)."""
        lo, hi = self.phi_pos(abs(n), d)
        return (self.m - hi, self.m - lo) if n < 0 else (lo, hi)

    def hint_of(self, al: int, be: int) -> int:
        """A little less than M log(be / al), by Halley's iteration, with more and more bits. Nothing rests on it."""
        size = log2(be) - log2(al)
        hint, turns = (size * 693147 << self.b) // 1000000, (60, 60, 80, 160, 440, 1300, 3900, 11700)
        for b in [*(b + abs(size) for b in turns if b + abs(size) < self.b), self.b]:
            s = self.b - b
            power = Precision(b, self.fuel).exp_both(hint >> s, 1 << b)
            if power is None:
                break
            p, q = be << b, power[0] * al
            over, under = 2 * (p - q >> s) << b, p + q >> s
            hint = (hint >> s) + (over // under if under else 0) << s
        return hint - self.margin

    def between(self, al: int, ah: int, bl: int, bh: int, sn: int, sd: int) -> Pair | None:
        """M times the curve, for alpha in [al, ah] and beta in [bl, bh] over M."""
        m, hint = self.m, self.hint_of(ah, bl)
        power = self.exp_both(hint, m)
        if power is None or power[1] * ah > bl * m:
            return None
        den = 2 * sn * sd * m
        a_low, a_high = self.phi(sd * sd * m - 2 * sn * sn * hint, den)
        b_low, b_high = self.phi(-(sd * sd * m) - 2 * sn * sn * hint, den)
        high = ah * max(0, a_high * m - power[0] * max(0, b_low))
        return max(0, al * max(0, a_low) - bh * b_high >> self.b), csh(high, 2 * self.b)

    def remove_at(self, n: int, d: int, sn: int, sd: int) -> Pair | None:
        """M times the curve at the loss n / d."""
        m, ratio = self.m, self.exp_both(n, d)
        if ratio is None:
            return None
        (rl, rh), al, ah = ratio, self.qn * m // self.qd, ceiling(self.qn * m, self.qd)
        if rh - m + ah <= 0:
            return m - rh, m - rl
        return self.between(al, ah, rl - m + al, rh - m + ah, sn, sd) if rl - m + al > 0 else None

    def add_at(self, n: int, d: int, sn: int, sd: int) -> Pair | None:
        """The same in the other direction."""
        m, qn, qd, ratio = self.m, self.qn, self.qd, self.exp_both(n, d)
        if ratio is None:
            return None
        rl, rh = ratio
        al, ah = m - ceiling((qd - qn) * rh, qd), m - (qd - qn) * rl // qd
        if ah <= 0:
            return 0, 0
        return self.between(al, ah, qn * rl // qd, ceiling(qn * rh, qd), sn, sd) if al >= 0 else None

    def tails(self, t: int, tbits: int, noises: tuple[Pair, Pair], sign: int) -> tuple[Pair, Pair]:
        """M times the chance of more than t / 2^tbits with the record, whose mean is `sign` / noise, and without it."""
        lo, hi = self.phi(-t, 1 << tbits)
        moved = [self.phi((sign * sd << tbits) - t * sn, sn << tbits) for sn, sd in noises]
        low, high = min(x for x, _ in moved), max(y for _, y in moved)
        rest, qn, qd = self.qd - self.qn, self.qn, self.qd
        return ((rest * lo + qn * low) // qd, ceiling(rest * hi + qn * high, qd)), (lo, hi)

    def rounded(self, w: int, up: bool, below: Pair, above: Pair, n: int, d: int) -> Pair | None:
        """v and d with v <= 2^w H <= v + d, d <= 1: the upper bound is for less noise, the lower one for more."""
        at = self.remove_at if up else self.add_at
        high = at(n, d, *below)
        low = high if below == above else at(n, d, *above)
        if high is None or low is None:
            return None
        v, end = low[0] << w >> self.b, csh(high[1] << w, self.b)
        return (v, end - v) if end - v <= 1 else None


def extra(section: Section, kind: Kind) -> int:
    """Bits beyond those asked for, because of the greatest loss on the grid."""
    sizes = (kind.halv, 0, kind.halv)
    last = [first + number - 1 << size for (first, number), size in zip(kind.runs, sizes) if number]
    over, under = (kind.off << kind.halv) + max([0, *last]) * section.spacing, section.den << kind.halv
    return max(0, 3 * over // (2 * under)) if under else 0


def own_values(section: Section, kind: Kind, law: str, up: bool) -> list[Pair]:
    """(v, d) at each place, with B1 bits, or with B2 where these are not enough."""
    own, w, e, values = read_law(law), kind.vbits, extra(section, kind), []
    assert own is not None
    b2, fuel, far = 2 * w + 280 + 2 * e, 8 * (w + e) + 1200, isqrt(7 * (w + 100 + e) // 5) + 1
    (zlo, zhi), noises = Precision(b2, fuel).half_z(far), own.multipliers(b2)
    first, second = (
        Curve(b, fuel, far, (zlo >> b2 - b, csh(zhi, b2 - b)), 1 << b - w - 80, own.rate)
        for b in (min(b2, w + 190 + e), b2)
    )
    can_run = section.den > 0 and first.zlo > 0
    for i, place in enumerate(kind.places()):
        at = (kind.off << kind.halv) + place * section.spacing, section.den << kind.halv
        value = (first.rounded(w, up, *noises, *at) or second.rounded(w, up, *noises, *at)) if can_run else None
        if value is None:
            where = f"place {i} of direction {section.mark}"
            raise RefusedError(f"the curve of {readable(law)} is not enclosed at {where}")
        values.append(value)
    return values


def own_scores(section: Section, kind: Kind, law: str, up: bool) -> list[Pair]:
    """(p, q) over 2^w at each place: at most the chance of being there under P, at least e^loss times that under Q. On
    a line where losses rise, place j holds what is between thresholds j - 1 and j.
    """
    own, w, e, values = read_law(law), kind.vbits, extra(section, kind), []
    assert own is not None
    thresholds, noises = [t for t, _ in kind.values], own.multipliers(w + e + 100)
    if section.den <= 0 or any(s > t for s, t in zip(thresholds, thresholds[1:])):
        raise RefusedError(f"the thresholds of {readable(law)} fall, or the denominator is 0")
    b2, fuel, far = 2 * w + 280 + 2 * e, 8 * (w + e) + 1200, isqrt(7 * (w + 100 + e) // 5) + 1
    reach = max([abs(t) >> tbits for t, tbits in kind.values] or [0]) + noises[0][1] // noises[0][0] + 2
    b = min(b2, w + e + 90 + 3 * min(far, reach) ** 2 // 4)  # the series of phi loses so many bits
    zlo, zhi = Precision(b2, fuel).half_z(far)
    curve = Curve(b, fuel, far, (zlo >> b2 - b, csh(zhi, b2 - b)), 0, own.rate)
    tails = [(curve.m,) * 4]  # of P and of Q, both sides of each
    for t, tbits in kind.values:
        with_record, without = curve.tails(t, tbits, noises, 1 if up else -1)
        tails.append((*with_record, *without) if up else (*without, *with_record))
    tails.append((0,) * 4)
    for place, (p, _, _, q), (_, p_next, q_next, _) in zip(kind.places(), tails, tails[1:]):
        power = curve.exp_both((kind.off << kind.halv) + place * section.spacing, section.den << kind.halv)
        if power is None:
            raise RefusedError(f"a loss of {readable(law)} is too great for its bits")
        values.append((max(0, p - p_next) << w >> b, csh(max(0, q - q_next) * power[1], 2 * b - w)))
    return values


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
        masses, infinite = self.masses(kind, places)
        (floor, number), (low, fine), (high, _) = kind.runs
        end = number + fine
        coarse = plus(Masses(floor, masses[:number]), Masses(high, masses[end:]))
        return Law(kind.halv, Masses(low, masses[number:end]), coarse, min(self.unit, infinite))

    def masses(self, kind: Kind, places: list[int]) -> tuple[list[int], int]:
        """The masses at the places, and at infinity."""
        return (self._by_outcomes if kind.name == "outcomes" else self._by_curve)(kind, places)

    def _gaps(self, kind: Kind, places: list[int]) -> list[tuple[int, int]]:
        """Bounds of q e^(-width) from each place to the next."""
        d, widths = self.den << kind.halv, [(b - a) * self.spacing for a, b in zip(places, places[1:])]
        known = {width: (self.exp_down(-width, d), self.exp_up(width, d)) for width in set(widths)}
        return [known[width] for width in widths]

    def _by_curve(self, kind: Kind, places: list[int]) -> tuple[list[int], int]:
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
        fine, coarse = (Masses(m.first, self.rounded(m.coef)) for m in masses)
        return Law(halv, fine, coarse, self.either(x.infinite, y.infinite))

    def rounded(self, coef: list[int]) -> list[int]:
        """From units of 2^(-2 bits) to those of 2^-bits."""
        return [z + self.unit - 1 >> self.bits for z in coef]

    def within(self, x: Law, halv: int, low: int, high: int, floor: int, top: int) -> Law:
        """A law cut to a window (S4.4)."""
        x = self.at(halv, x)
        rest = since(x.fine, low)
        ends = self.to_grid(x.halv, 0, plus(under(x.fine, low), since(rest, high + 1)))
        coarse, escaped = self.cut(plus(x.coarse, ends), floor, top)
        return Law(x.halv, under(rest, high + 1), coarse, min(x.infinite + escaped, self.unit))

    def cut(self, m: Masses, floor: int, top: int) -> tuple[Masses, int]:
        """Coarse masses from `floor` to `top`, and what goes to infinity."""
        inside = since(m, floor)
        above = since(inside, top + 1)
        weight, kept = self.unit, 0
        for mass in chain(repeat(0, above.first - (top + 1) if above.coef else 0), above.coef):
            weight = weight * self.step_down // self.unit
            kept += mass * weight
        kept //= self.unit
        coarse = plus(under(inside, top + 1), Masses(floor, [sum(under(m, floor).coef)]))
        return plus(coarse, Masses(top, [kept])), sum(above.coef) - kept

    def last_sum(self, eps: int, offset: int, x: Law, y: Law) -> int:
        """The bound, over 2^(2 bits) (S5)."""
        cut = (eps - offset) // self.spacing
        m, n, unit, wide = self.all_coarse(x), self.all_coarse(y), self.unit, self.wide
        if cut < m.first + n.first - 2**26:
            return unit * unit
        step, rest = (self.power(wide, -self.spacing), self.power(wide, eps - offset - cut * self.spacing))
        start = cut + 1 - (m.first + len(m.coef) - 1)
        masses = [0] * max(0, n.first - start) + since(n, start).coef
        s = r = 0
        tails = []
        for mass in reversed(masses):
            s += mass
            r = ((mass << GUARD) + r) * step // wide
            tails.append(s - (r * rest >> self.bits + 2 * GUARD))
        total = sum(a * b for a, b in zip(reversed(m.coef), reversed(tails)))
        return min(unit * unit, total + self.either(x.infinite, y.infinite) * unit)


class Score(Checker):
    """One list of a score: docs/guarantees_lower.md, Section L4. The chances of places under P, rounded down; or e^loss
    times those under Q, rounded up.
    """

    def __init__(self, section: Section, of_q: bool) -> None:
        super().__init__(section.bits, section.den, section.spacing)
        if section.spacing >= section.den << section.bits:
            raise RefusedError("a spacing beyond all losses")  # also: `exp_up` takes half of it with either sign
        self.of_q = of_q

    def masses(self, kind: Kind, places: list[int]) -> tuple[list[int], int]:
        if any(p < 0 or q < 0 for p, q in kind.values):
            raise RefusedError("a chance below 0")
        if self.of_q:
            return [csh(q << self.bits, kind.vbits) for _, q in kind.values], 0
        return [p << self.bits >> kind.vbits for p, _ in kind.values], kind.infinite << self.bits >> kind.vbits

    def rounded(self, coef: list[int]) -> list[int]:
        return super().rounded(coef) if self.of_q else [z >> self.bits for z in coef]

    def either(self, a: int, b: int) -> int:
        return 0 if self.of_q else a + b - ceiling(a * b, self.unit)

    def to_grid(self, a: int, b: int, m: Masses) -> Masses:
        """Each fine mass at the nearest coarse place, the middle upwards (L4.1)."""
        if a <= b or not m.coef:
            return m
        size = 1 << a - b
        low, before = divmod(m.first + size // 2, size)
        masses = [0] * before + m.coef
        cells = [masses[i : i + size] for i in range(0, len(masses), size)]
        if not self.of_q:
            return Masses(low, [sum(cell) for cell in cells])
        weights = self.shares(a, b)
        return Masses(low, [ceiling(sum(x * y for x, y in zip(cell, weights)), self.q) for cell in cells])

    def _shares(self, a: int, b: int) -> list[int]:
        """Weights of the places around a coarser one, over q."""
        size, d = 1 << a - b, self.den << a
        first, step = self.exp_up(-(size // 2) * self.spacing, d), self.exp_up(self.spacing, d)
        return list(accumulate(repeat(step, size - 1), lambda x, y: ceiling(x * y, self.q), initial=first))

    def cut(self, m: Masses, floor: int, top: int) -> tuple[Masses, int]:
        """Without what is below; what is above is put at the top (L4.2)."""
        inside = since(m, floor)
        above, kept = since(inside, top + 1), 0
        if self.of_q and above.coef:
            step = self.exp_up(self.spacing, self.den)
            for mass in reversed(above.coef):
                kept = ceiling((mass * self.q + kept) * step, self.q)
            kept = ceiling(kept * self.exp_up((above.first - top - 1) * self.spacing, self.den), self.q * self.q)
        else:
            kept = sum(above.coef)
        return plus(under(inside, top + 1), Masses(top, [kept])), 0

    def gains(self, eps: int, offset: int, p: Masses, q: Masses) -> int:
        """The sum over places of p - e^(epsilon - loss) q where it is positive, from a place below epsilon on (L5)."""
        start, total = max((eps - offset) // self.spacing - 1, p.first), 0
        factor, step = (self.exp_up(n, self.den) for n in (offset - eps + start * self.spacing, self.spacing))
        others = chain(repeat(0, q.first - start), since(q, start).coef, repeat(0))
        for mass, other in zip(since(p, start).coef, others):
            total += max(0, mass - ceiling(factor * other, self.q))
            factor = ceiling(factor * step, self.q)
        return total


def halves(file: File, section: Section, check: Checker) -> tuple[Law, Law, int]:
    """The two halves of the composition, and the offset of both together; RefusedError if the plan is none of it."""
    number = len(file.steps)
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
    for planned, (count, law) in zip(counts, file.steps):
        if planned != count:
            stated = f"{count:,} x {readable(law)}"
            raise RefusedError(f"the file states {stated}, and its plan is about {planned:,}")
    return x, y, sum(count * kind.off for count, kind in zip(counts, section.kinds))


def bound(file: File, section: Section) -> int:
    """The bound of one direction, over 2^(2 bits)."""
    check = Checker(section.bits, section.den, section.spacing)
    eps = file.epsilon * section.den
    if eps.denominator != 1:
        raise RefusedError(f"epsilon {shown(file.epsilon)} is not a multiple of 1 / denominator")
    if not file.refutes:
        x, y, offset = halves(file, section, check)
        return check.last_sum(int(eps), offset, x, y)
    lists, infinite = [], 0
    for score in (Score(section, of_q=False), Score(section, of_q=True)):
        x, y, offset = halves(file, section, score)
        lists.append(product(score.all_coarse(x), score.all_coarse(y)))
        infinite += score.either(x.infinite, y.infinite) << section.bits
    return infinite + score.gains(int(eps), offset, *lists)


class Answer(NamedTuple):
    """What a checker says of a proof file."""

    file: File
    bounds: list[int | None]
    reasons: list[str]

    @property
    def accepted(self) -> bool:
        return not self.reasons

    @property
    def word(self) -> str:
        """Proved, accepted on a condition, or refused."""
        if self.reasons:
            return REFUSED
        refutes = self.file.refutes
        if any(kind.name not in ("own", "tests") for section in self.file.sections for kind in section.kinds):
            return REFUTED_LISTED if refutes else LISTED
        if self.file.relation == "replace-one":
            return REFUTED_REPLACED if refutes else REPLACED
        return REFUTED if refutes else PROVED


def computed(file: File, section: Section) -> Section:
    """The section with the numbers that the file does not list."""
    kinds = []
    for kind, (_, law) in zip(section.kinds, file.steps):
        if kind.name in ("own", "tests"):
            values = own_values if kind.name == "own" else own_scores
            kind = kind._replace(values=values(section, kind, law, section.mark != "add"))
        kinds.append(kind)
    return section._replace(kinds=kinds)


def check(data: bytes) -> Answer:
    """Judge a proof file; NotReadError where it is not one."""
    file = Words(body_of(data)).file()
    for section in file.sections:
        check_size(section)
    try:
        check_kinds(file)
        sections = [computed(file, section) for section in file.sections]
    except RefusedError as why:
        return Answer(file, [], [str(why)])
    bounds: list[int | None] = []
    reasons = []
    for section in sections:
        try:
            found: int | None = bound(file, section)
            delta = Fraction(found or 0, 1 << 2 * section.bits)
            if (delta <= file.delta) if file.refutes else (delta > file.delta):
                reasons.append(f"direction {section.mark}: {not_shown(file, delta)}")
        except RefusedError as why:
            found = None
            reasons.append(f"direction {section.mark}: {why}")
        bounds.append(found)
    return Answer(file, bounds, reasons)


# --- words ----------------------------------------------------------------------------------------


def shown(number: Fraction, digits: int = 6, rounding: str = decimal.ROUND_UP) -> str:
    """A number in decimals, rounded unless a float holds it."""
    if number < 1 << 1000 and Fraction(float(number)) == number:
        return repr(float(number))
    with decimal.localcontext() as context:
        context.prec, context.rounding, context.Emin = digits, rounding, decimal.MIN_EMIN
        return str(decimal.Decimal(number.numerator) / decimal.Decimal(number.denominator))


def readable(law: str) -> str:
    """A law with each ratio that a float holds as that float, unless it is long."""

    def near(text: re.Match[str]) -> str:
        ratio = Fraction(text[0])
        return repr(float(ratio)) if 0 < ratio < 1 << 1000 and Fraction(float(ratio)) == ratio else text[0]

    return law if len(law) > 2000 else re.sub("[0-9]+/[1-9][0-9]*", near, law)


def not_shown(file: File, delta: Fraction) -> str:
    """That the stated delta does not follow, since only this one does."""
    rest = ["..."] if len(file.steps) > 4 else []
    steps = ", ".join([*(f"{count:,} x {readable(law)}" for count, law in file.steps[:4]), *rest])
    at = f"delta of {steps} at epsilon {shown(file.epsilon)} is"
    if file.refutes:
        found = shown(delta, rounding=decimal.ROUND_DOWN)
        return f"{at} shown to be at least {found}, which does not exceed the stated {shown(file.delta)}"
    pairs = ((shown(delta, digits), shown(file.delta, digits)) for digits in (6, 20, 60, 4000))
    most, said = next((pair for pair in pairs if pair[0] != pair[1]), ("more", shown(file.delta)))
    return f"{at} at most {most}, and the file says {said}"


NOTES = {
    PROVED: """The curve of each step was computed here; no number in the file had to be believed. DP-SGD means:
each step draws every record by a coin of its own, clips gradients to a norm C, adds them up, and adds
normal noise of the stated multiple of C; rate, noise, C and steps do not depend on the data.
Not checked: that this is what ran.""",
    LISTED: """Not checked: that the numbers in the file enclose the privacy curve of each step, and that this
mechanism is what ran.""",
    REPLACED: """The curve of each step was computed here. Not checked: that the noise is stated for two data sets
that differ in the value of one record, and that this mechanism is what ran.""",
    REFUSED: "This file proves nothing.",
    REFUTED: """The chances of a test of each step were computed here; no number in the file had to be believed.
So some training of DP-SGD with these rates, multipliers and steps has this delta on some neighbours,
if all steps' outputs are released: no accountant that knows only these can be right with the claim.
It says nothing about one training. Coq has proved that the laws of the steps have this delta; that a
training attains them is proved on paper (docs/guarantees_lower.md of evr).""",
    REFUTED_LISTED: """Not checked: that the listed numbers are chances of a test of each step, and that a mechanism
of this description attains these laws.
The mathematics is on paper (docs/guarantees_lower.md of evr).""",
    REFUTED_REPLACED: """The chances of a test of each step were computed here. Not checked: that the noise is stated
for two data sets that differ in the value of one record.
The mathematics is on paper (docs/guarantees_lower.md of evr).""",
}


def words(answer: Answer) -> list[str]:
    """What the checker found, for people."""
    file, bounds = answer.file, []
    for section, units in zip(file.sections, answer.bounds if answer.accepted else []):
        both = "both directions" if section.mark == "both" else f"direction {section.mark}"
        found, side = Fraction(units or 0, 1 << 2 * section.bits), "least" if file.refutes else "most"
        rounding = decimal.ROUND_DOWN if file.refutes else decimal.ROUND_UP
        bounds.append(f"  {both}: delta is at {side} {shown(found, rounding=rounding)}")
    claim = shown(file.delta)
    is_claimed = f"greater than {claim}, in one direction" if file.refutes else f"at most {claim}, in both directions"
    return [
        f"The file states, of this mechanism (neighbours: {file.relation}):",
        *(f"  {count:,} x {readable(law)}" for count, law in file.steps),
        f"that at epsilon = {shown(file.epsilon)}, delta is {is_claimed}.",
        "",
        f"Answer: {answer.word}.",
        *bounds,
        *(f"  {reason}" for reason in answer.reasons),
        NOTES[answer.word],
    ]


def main(arguments: list[str]) -> int:
    paths = [one for one in arguments if one != "--listed"]
    if len(paths) != 1 or paths[0].startswith("--"):
        print(__doc__)
        return 2
    try:
        with open(paths[0], "rb") as handle:
            answer = check(handle.read(MOST_BYTES + 1))
    except (OSError, NotReadError) as why:
        print(f"Not checked: {why}")
        return 2
    print("\n".join(words(answer)))
    if answer.word in (PROVED, REFUSED, REFUTED):
        return {PROVED: 0, REFUSED: 3, REFUTED: 5}[answer.word]
    return 4 if "--listed" not in arguments else 5 if answer.file.refutes else 0


if __name__ == "__main__":
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)  # instead of Python's own limit there is MOST_DIGITS
    sys.exit(main(sys.argv[1:]))
