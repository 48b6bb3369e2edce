"""Proof files: what a strict certificate rests on, so that nothing of evr is needed to check it (docs/proof_format.md).

A file lists what balls enclose: the curve of one step at the places of its grid, or its outcomes. ``check_proof.py``,
which goes beside the file, computes the rest in integers, and checks every file before it is handed out.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from flint import arb, fmpz

from evr import atomic
from evr.bounds.strict import Grid, ProofPlan
from evr.bounds.strict.masses import GUARD, end_above
from evr.bounds.strict.one_step import one_step
from evr.bounds.strict.plan import compose
from evr.certification import check_proof
from evr.certification.certificate import Certificate
from evr.errors import CertificateError, UnsupportedEventError
from evr.laws import Direction, Step, exact
from evr.laws.exact import ExactCurve, ExactLaw, ExactOutcomes
from evr.laws.exact.law import at_precision, ball
from evr.mechanisms import Composition
from evr.mechanisms.relations import name_of

_RAISES = 5  # of the precision, until a ball decides a floor
_MOST_ORDER = 48

_PARTS: dict[type[exact.ExactLaw], Callable[[Any], tuple[Any, ...]]] = {
    exact.ExactGaussian: lambda law: _gaussian(law.square),
    exact.ExactLaplace: lambda law: ("laplace", law.scale),
    exact.ExactMixture: lambda law: (
        *(("mixture", ("means", *law.sizes)) if law.direction else ("two_sided", law.square, ("sizes", *law.sizes))),
        ("weights", *law.weights),
    ),
    exact.ExactTwoSidedLaplace: lambda law: ("replaced", law.q, ("laplace", law.scale)),
    exact.ExactTwoSidedOutcomes: lambda law: ("replaced", law.q, law.base),
    exact.ExactLabelled: lambda law: ("labelled", ("squares", *law.squares), ("weights", *law.weights)),
    exact.RationalOutcomes: lambda law: ("outcomes", ("p", *law.p), ("q", *law.q)),
    exact.ExactEpsilonDelta: lambda law: ("epsilon_delta", law.epsilon, law.delta),
    exact.ExactDiscreteLaplace: lambda law: ("discrete_laplace", law.parameter, law.sensitivity),
    exact.ExactDiscreteGaussian: lambda law: ("discrete_gaussian", law.sigma, law.sensitivity),
    exact.ExactShifted: lambda law: ("shifted", law.square, law.shift),
    exact.ExactConcentrated: lambda law: ("zcdp", law.rho, law.xi),
    exact.ExactBoundedRange: lambda law: ("bounded_range", law.epsilon),
    exact.ExactRun: lambda law: ("bounded_range", law.epsilon, law.steps),
    exact.ExactTruncated: lambda law: ("truncated", law.size, law.q, law.most, law.noise),
    exact.SampledCurve: lambda law: ("poisson", law.q, law.base),
    exact.SampledOutcomes: lambda law: ("poisson", law.q, law.base),
    exact.WithoutReplacementCurve: lambda law: ("without_replacement", law.g, law.base),
    exact.WithoutReplacementOutcomes: lambda law: ("without_replacement", law.g, law.base),
}
"""The text of each law (docs/proof_format.md, "Laws"): its name, and numbers, named lists of numbers, and laws."""


def proof_file(
    composition: Composition, epsilon: Fraction, delta: Fraction, plans: Mapping[Direction, ProofPlan | None]
) -> bytes:
    """The file that proves delta at epsilon by these plans; the same bytes whenever it is made. Refused if a law has no
    text, the two directions are not made of the same steps, or the plans do not show delta.
    """
    pairs = check_texts(composition)
    remove, add = (composition.exact(one) for one in Direction)
    if len(plans) == 1 and any(a != b for a, b in pairs):
        raise UnsupportedEventError("one plan is given, and the two directions are not the same")
    marks = {one: one.value if len(plans) == 2 else "both" for one in plans}
    lines = [
        "evr-proof 1",
        f"relation {name_of(composition.relation)}",
        f"epsilon {epsilon.numerator}/{epsilon.denominator}",
        f"delta {delta.numerator}/{delta.denominator}",
        f"steps {len(remove)}",
        *(f"{s.count} {a if a == b else f'pair({a},{b})'}" for s, (a, b) in zip(remove, pairs, strict=True)),
        f"directions {len(marks)}",
    ]
    for one, mark in marks.items():
        steps = remove if one is Direction.REMOVE else add
        lines += [f"direction {mark}", *_section(steps, epsilon, plans[one])]
    body = "\n".join([*lines, "end", ""]).encode()
    data = body + f"sha256 {hashlib.sha256(body).hexdigest()}\n".encode()
    answer = check_proof.check(data)
    if not answer.accepted:
        raise ValueError(f"the plans do not show delta: {'; '.join(answer.reasons)}")
    return data


def proof_of(certificate: Certificate) -> bytes:
    """The proof file of an accepted certificate whose proof is strict."""
    if not certificate.accepted or certificate.verification.method not in ("strict", "both"):
        raise CertificateError("only an accepted certificate with a proof in exact arithmetic has a proof file")
    plans = {Direction(name): proof.plan for name, proof in certificate.proofs().items()}
    composition, claim = Composition.of(certificate.dp_event(), certificate.relation), certificate.claim
    return proof_file(composition, Fraction(claim.epsilon), Fraction(claim.delta), plans)


def seal_of(data: bytes) -> str:
    """The SHA-256 on the last line of a proof file."""
    return data[-65:-1].decode("ascii")


def write_proof(path: str | Path, data: bytes) -> None:
    """Write a proof file, and ``check_proof.py`` beside it."""
    atomic.write_bytes(path, data)
    checker = Path(path).with_name("check_proof.py")
    atomic.write_bytes(checker, Path(check_proof.__file__).read_bytes())


def check_texts(composition: Composition) -> list[tuple[str, str]]:
    """The laws of each step in both directions as text; a composition that no proof file can state is refused."""
    remove, add = (composition.exact(one) for one in Direction)
    if [step.count for step in remove] != [step.count for step in add]:
        raise UnsupportedEventError("the two directions are not made of the same steps, and a proof file is about both")
    return [(law_text(one.exact_law), law_text(other.exact_law)) for one, other in zip(remove, add, strict=True)]


def law_text(law: exact.ExactLaw) -> str:
    """The law as a word; one without a text is refused by name.

    >>> law_text(exact.ExactGaussian(1 / Fraction(1.1) ** 2))
    'gaussian(1.1)'
    """
    if type(law) not in _PARTS:
        raise UnsupportedEventError(f"{type(law).__name__} has no text for proof files: replay the certificate instead")
    return _text(_PARTS[type(law)](law))


def _text(part: Any) -> str:
    """A law, a named list, or a number: an integer, a float as it is shown, or a ratio of integers."""
    if isinstance(part, tuple):
        return f"{part[0]}({','.join(map(_text, part[1:]))})"
    if isinstance(part, exact.ExactLaw):
        return law_text(part)
    number = Fraction(part)
    near = math.inf if number.denominator == 1 else float(number)
    return repr(near) if math.isfinite(near) and Fraction(near) == number else str(number)


def _gaussian(square: Fraction) -> tuple[Any, ...]:
    noise = Fraction(1 / math.sqrt(square))
    single = noise and 1 / noise**2 == square
    return ("gaussian", noise) if single else ("gaussians", square)


class _Places(NamedTuple):
    """Where a kind of step is listed: runs of coarse, of fine and of coarse places, in units of their grids."""

    offset: Fraction
    spacing: Fraction
    halvings: int
    runs: list[range]

    @classmethod
    def of(cls, grid: Grid, spacing: Fraction) -> _Places:
        """The places of a plan's grid."""
        h, runs = grid.halvings, [range(grid.floor, grid.top + 1), range(0), range(0)]
        if h:
            fine = range(grid.low << h, (grid.high << h) + 1)
            runs = [range(grid.floor, grid.low), fine, range(grid.high + 1, grid.top + 1)]
        return cls(grid.offset, spacing, h, runs)

    def losses(self) -> list[Fraction]:
        unit, halvings = self.spacing / (1 << self.halvings), (self.halvings, 0, self.halvings)
        return [self.offset + (x << h) * unit for run, h in zip(self.runs, halvings, strict=True) for x in run]

    def words(self, den: int, vbits: int) -> str:
        """The grid of a kind, as the file has it."""
        ends = (f"{run.start if run else 0} {len(run)}" for run in self.runs)
        return f"{int(self.offset * den)} {self.halvings} {' '.join(ends)} {vbits}"


def _section(steps: Sequence[Step], epsilon: Fraction, plan: ProofPlan | None) -> list[str]:
    """One direction: grid, kinds of steps, products, halves."""
    bits = GUARD if plan is None else plan.bits
    if plan is not None and plan.grids:
        spacing, grids = plan.spacing, plan.grids
    else:  # one step alone: its curve at epsilon; no loss beyond epsilon: each step at its greatest one
        losses = [_greatest(step.exact_law) for step in steps] if plan is None else [epsilon]
        spacing, grids = Fraction(1), tuple(Grid(loss, 0, 0, 0, 0, 0) for loss in losses)
    den = math.lcm(*(number.denominator for number in (spacing, epsilon, *(grid.offset for grid in grids))))
    products: list[tuple[int, ...]] = []
    windows = iter(plan.windows if plan else ())

    def times(x: int, y: int) -> int:
        products.append((x, y, *next(windows, (0, 0, 0, 0, 0))))
        return len(steps) + len(products)

    first, second = compose([step.count for step in steps], lambda kind: kind + 1, times)
    checker = check_proof.Checker(bits, den, int(spacing * den))
    kinds = (_kind(step.exact_law, grid, plan, spacing, checker) for step, grid in zip(steps, grids, strict=True))
    return [
        f"grid {bits} {den} {int(spacing * den)}",
        *kinds,
        f"products {len(products)}",
        *(" ".join(map(str, row)) for row in products),
        f"halves {first[0] if first else 0} {second[0] if second else 0}",
    ]


def _greatest(law: ExactLaw) -> Fraction:
    """A loss that none exceeds."""
    with at_precision(4 * GUARD):
        greatest = law.greatest()
        if isinstance(greatest, Fraction):
            return greatest
        return Fraction(end_above(greatest * (1 << 2 * GUARD)), 1 << 2 * GUARD)


def _kind(law: ExactLaw, grid: Grid, plan: ProofPlan | None, spacing: Fraction, checker: check_proof.Checker) -> str:
    """The listed numbers of one kind of step: with so many bits that the masses are evr's own."""
    places, whole = _Places.of(grid, spacing), plan is None or not plan.grids
    wanted = None if whole else one_step(law, grid, spacing, checker.bits)
    text, finer = "", grid.halvings + max(0, int(1 / spacing).bit_length())
    for precision in (checker.bits + GUARD, 2 * checker.bits + 4 * GUARD):  # as evr's own
        if isinstance(law, ExactCurve):
            text = _curve(law, places, precision + finer, checker, whole=whole, ends=plan is None)
        else:
            assert isinstance(law, ExactOutcomes)  # every law with a text is one of the two
            text = _outcomes(law, places, precision, checker)
        found = checker.step(check_proof.Words(text.encode() + b"\n").kind())
        if wanted is None or (
            found.infinite == wanted.infinite
            and _nonzero(*found.fine) == _nonzero(wanted.fine.first, wanted.fine.poly.coeffs())
            and _nonzero(*found.coarse) == _nonzero(wanted.coarse.first, wanted.coarse.poly.coeffs())
        ):
            break
    return text


def _nonzero(first: int, masses: Sequence[object]) -> dict[int, object]:
    return {place: mass for place, mass in enumerate(masses, start=first) if mass}


def _curve(
    law: ExactCurve, places: _Places, vbits: int, checker: check_proof.Checker, *, whole: bool, ends: bool
) -> str:
    """The curve at the places; those below all losses are left out, and those above them."""
    losses, start, end = places.losses(), 0, int(not ends)
    if not whole:
        with at_precision(checker.bits + GUARD):
            least, greatest = law.least(), law.greatest()
            most = ball(greatest) if isinstance(greatest, Fraction) else greatest
            start = bisect_left(losses, True, key=lambda loss: not ball(loss) <= least)
            end = bisect_left(losses, True, key=lambda loss: bool(ball(loss) >= most))
        start = min(max(0, start - 1), end)
    values, width = _floors(law, losses[start:end], vbits)
    exact, runs, before = int(end < len(losses)), [], 0
    for run in places.runs:
        runs.append(run[max(0, start - before) : max(0, end + 1 - before)])
        before += len(run)
    rest = iter(values + [0] * exact)
    packed = [line for run in runs for line in _packed([next(rest) for _ in run])]
    return "\n".join([f"curve {places._replace(runs=runs).words(checker.den, vbits)} {width} {exact}", *packed])


def _floors(law: ExactCurve, losses: Sequence[Fraction], vbits: int) -> tuple[list[int], int]:
    """The curve in units of ``2^-vbits``, rounded down, and by how much it may be more."""
    found: dict[int, int] = {}
    width, precision, unit = 1, vbits + GUARD, fmpz(1) << vbits
    for attempt in range(_RAISES):
        with at_precision(precision << attempt):
            curve = law.curve()
            for j in [j for j in range(len(losses)) if j not in found]:
                value = curve(ball(losses[j]).exp()) * unit
                below = value.floor().unique_fmpz()
                if below is None and attempt == _RAISES - 1:
                    below, width = value.lower().floor().unique_fmpz(), 2
                if below is not None:
                    found[j] = max(0, int(below))
    return [found[j] for j in range(len(losses))], width


def _outcomes(law: ExactOutcomes, places: _Places, precision: int, checker: check_proof.Checker) -> str:
    """The sets of outcomes, each with the cell in which it is split."""
    vbits = precision + GUARD
    losses, unit = places.losses(), 1 << vbits
    d = checker.den << places.halvings + vbits
    edges = [int(loss * d) for loss in losses]
    found, infinite = [], 0
    with at_precision(precision):
        balls = [ball(loss) for loss in losses]
        for p, _, loss in law.sets():
            mass = end_above(p.upper() * unit)
            if loss == arb.pos_inf():
                infinite += mass
            elif mass > 0:
                above = bisect_left(balls, True, key=lambda edge: bool(loss <= edge))
                cell = max(0, above - 1)
                bound = end_above(loss * d) if loss.is_finite() else edges[0]
                if above and not loss > balls[cell]:
                    bound = max(bound, edges[cell] + 1)  # as evr: perhaps above the place
                if above < len(edges):
                    bound = min(bound, edges[above])
                found.append((cell, mass, bound))
    found.sort()
    runs = [line for column in zip(*found, strict=True) for line in _packed(column)] or ["0", "-"] * 3
    head = f"outcomes {places.words(checker.den, vbits)} {infinite} {len(found)}"
    return "\n".join([head, *runs])


def _packed(values: Sequence[int]) -> tuple[str, str]:
    """Integers by their differences of the order that makes them short."""
    best, now = (math.inf, 0, [0]), list(values)
    if not now:
        return "0", "-"
    for order in range(_MOST_ORDER):
        size = sum(value.bit_length() // 5 + 1 for value in now)
        if size < best[0]:
            best = size, order, now
        elif order > best[1] + 4:
            break
        now = now[:1] + [b - a for a, b in pairwise(now)]
    digits = bytearray()
    for value in best[2]:
        number = 2 * value if value >= 0 else -2 * value - 1
        while number > 31:
            digits.append(80 + (number & 31))
            number >>= 5
        digits.append(48 + number)
    return str(best[1]), digits.decode()
