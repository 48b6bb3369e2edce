"""Proof files: what a strict certificate rests on, so that nothing of evr is needed to check it (docs/proof_format.md).

A file says on which grid one step is put. Of a Poisson-sampled Gaussian ``check_proof.py``, which goes beside the file,
computes the curve there; of other laws the file lists what balls enclose: the curve at the places of the grid, or
outcomes. The checker computes the rest in integers, and checks every file before it is handed out.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from flint import arb, fmpz

from evr._basics import atomic
from evr._certificate.certificate import Certificate
from evr._kernel.events import Composition
from evr._kernel.events.relations import name_of
from evr._kernel.pairs import Direction, Law, Step, exact
from evr._kernel.pairs.exact import ExactCurve, ExactLaw, ExactOutcomes
from evr._kernel.pairs.exact.law import at_precision, ball
from evr._kernel.pairs.exact.sampled import ExactEither
from evr._kernel.pairs.grouping import grouped
from evr._kernel.pairs.selection import Selection
from evr._kernel.strict import Grid, ProofPlan
from evr._kernel.strict.lower import chances_of
from evr._kernel.strict.plan import compose
from evr._kernel.strict.rounding import GUARD, end_above
from evr._proof import check_proof
from evr.errors import CertificateError, UnsupportedEventError

_RAISES = 5  # of the precision, until a ball decides a floor
_INSTEAD = "leave the proof file out, and check the certificate by `evr replay`"
_MOST_ORDER = 48
_PARTS_OF_A_PLACE, _ALONE_BITS = 32, 40  # of thresholds: parts of a place, and bits where there is one only

_PARTS: dict[type, Callable[[Any], tuple[Any, ...]]] = {
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
_WITHOUT_TEXT: dict[type, str] = {
    ExactEither: "a group of nearly equal steps",
    type(None): "a mechanism that is known by samples only",
    exact.ExactBins: "a training in shuffled batches (balls in bins)",
    Selection: "a selection of the best of several runs",
}


def proof_file(
    composition: Composition, epsilon: Fraction, delta: Fraction, plans: Mapping[Direction, ProofPlan | None]
) -> bytes:
    """The file that proves delta at epsilon by these plans; the same bytes whenever it is made. Refused if a law has no
    text, the two directions are not made of the same steps, or the plans do not show delta.
    """
    pairs = check_texts(composition)
    if len(plans) == 1 and any(a != b for a, b in pairs):
        raise UnsupportedEventError("one plan is given, and the two directions are not the same")
    laws = [a if a == b else f"pair({a},{b})" for a, b in pairs]
    for more in (1, 2):  # precisions, as evr's own
        lines = _head("evr-proof", composition, laws, epsilon, delta, plans)
        for direction, plan in plans.items():
            lines.append(f"direction {direction.value if len(plans) == 2 else 'both'}")
            lines += _direction(composition.exact(direction), laws, epsilon, plan, more)
        data = _sealed(lines)
        try:
            answer = check_proof.check(data)
        except check_proof.NotReadError as why:
            raise ValueError(f"a proof file of this is {why}: claim a little more, or {_INSTEAD}") from None
        if answer.accepted:
            return data
    raise ValueError(f"the plans do not show delta: {'; '.join(answer.reasons)}")


def refutation_file(
    composition: Composition, epsilon: Fraction, delta: Fraction, direction: Direction, plan: ProofPlan
) -> bytes:
    """The file that refutes a claim by this plan ("Refutations" in docs/proof_format.md). Refused if a law has no text,
    or the checker does not find that delta is greater.
    """
    laws = [a if a == b else f"pair({a},{b})" for a, b in check_texts(composition)]
    steps, spacing, grids = composition.exact(direction), plan.spacing, plan.grids
    if not grids:  # one step alone: places on both sides of epsilon
        spacing, grids = Fraction(1), (Grid(epsilon - Fraction(1, 2), 0, 0, 0, 0, 1),)

    den = _denominator(spacing, epsilon, grids)

    def kind(step: Step, law: str, grid: Grid) -> str:
        places, own = _Places.of(grid, spacing, den), check_proof.read_law(law)
        if own is None:
            return _scores(step.exact_law, places, grid, plan.bits)
        return _tests(own, places, direction, plan.bits + GUARD)

    section = _section(steps, f"grid {plan.bits} {den} {int(spacing * den)}", map(kind, steps, laws, grids), plan)
    head = _head("evr-refutation", composition, laws, epsilon, delta, [direction])
    data = _sealed([*head, f"direction {direction.value}", *section])
    try:
        answer = check_proof.check(data)
    except check_proof.NotReadError as why:
        raise ValueError(f"a file of this refutation is {why}: refute a smaller delta") from None
    if not answer.accepted:
        raise ValueError(f"the file would not refute the claim: {'; '.join(answer.reasons)}; refute a smaller delta")
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


def word_of(data: bytes) -> str:
    """What the checker says of a file that ``proof_file`` made, which it accepted."""
    return check_proof.Answer(check_proof.Words(check_proof.body_of(data)).file(), [], []).word


def check_texts(composition: Composition) -> list[tuple[str, str]]:
    """The laws of each step in both directions as text; a composition that no proof file can state is refused."""
    remove, add = (grouped(composition.simplified(one)) for one in Direction)
    if [step.count for step in remove] != [step.count for step in add]:
        raise UnsupportedEventError("the two directions are not made of the same steps, and a proof file is about both")
    found = [(law_text(one.law), law_text(other.law)) for one, other in zip(remove, add, strict=True)]
    try:
        for law in (text for pair in found for text in pair):
            check_proof.check_law(name_of(composition.relation), law)
    except check_proof.RefusedError as why:
        raise UnsupportedEventError(f"{why} in proof files: {_INSTEAD}") from None
    return found


def law_text(law: Law) -> str:
    """The law as a word; one without a text is refused.

    >>> law_text(exact.ExactGaussian(Fraction(4, 9)))
    'gaussian(3/2)'
    """
    if type(law) not in _PARTS:
        what = _WITHOUT_TEXT.get(type(law), "a law of your own")
        raise UnsupportedEventError(f"{what} cannot be stated in a proof file: {_INSTEAD}")
    return _text(_PARTS[type(law)](law))


def _text(part: Any) -> str:
    """A law, a named list, or a number: an integer, or a ratio of integers in lowest terms."""
    if isinstance(part, tuple):
        return f"{part[0]}({','.join(map(_text, part[1:]))})"
    return law_text(part) if isinstance(part, exact.ExactLaw) else str(Fraction(part))


def _gaussian(square: Fraction) -> tuple[Any, ...]:
    """By the noise multiplier if that is rational, or else by one over its square."""
    noise = Fraction(math.isqrt(square.denominator), math.isqrt(square.numerator) or 1)
    return ("gaussian", noise) if noise**2 * square == 1 else ("gaussians", square)


class _Places(NamedTuple):
    """Where a kind of step is listed: runs of coarse, of fine and of coarse places, in units of their grids."""

    offset: Fraction
    spacing: Fraction
    den: int
    halvings: int
    runs: list[range]

    @classmethod
    def of(cls, grid: Grid, spacing: Fraction, den: int) -> _Places:
        """The places of a plan's grid."""
        h, runs = grid.halvings, [range(grid.floor, grid.top + 1), range(0), range(0)]
        if h:
            fine = range(grid.low << h, (grid.high << h) + 1)
            runs = [range(grid.floor, grid.low), fine, range(grid.high + 1, grid.top + 1)]
        return cls(grid.offset, spacing, den, h, runs)

    def losses(self) -> list[Fraction]:
        unit, halvings = self.spacing / (1 << self.halvings), (self.halvings, 0, self.halvings)
        return [self.offset + (x << h) * unit for run, h in zip(self.runs, halvings, strict=True) for x in run]

    def between(self, start: int, end: int) -> _Places:
        """The places from ``start`` to ``end``, counted from 0."""
        runs, before = [], 0
        for run in self.runs:
            runs.append(run[max(0, start - before) : max(0, end + 1 - before)])
            before += len(run)
        return self._replace(runs=runs)

    def words(self, vbits: int) -> str:
        """The grid of a kind, as the file has it."""
        ends = (f"{run.start if run else 0} {len(run)}" for run in self.runs)
        return f"{int(self.offset * self.den)} {self.halvings} {' '.join(ends)} {vbits}"


def _head(
    what: str,
    composition: Composition,
    laws: Sequence[str],
    epsilon: Fraction,
    delta: Fraction,
    directions: Collection[Direction],
) -> list[str]:
    return [
        f"{what} 2",
        f"relation {name_of(composition.relation)}",
        f"epsilon {epsilon.numerator}/{epsilon.denominator}",
        f"delta {delta.numerator}/{delta.denominator}",
        f"steps {len(laws)}",
        *(f"{s.count} {law}" for s, law in zip(composition.exact(Direction.REMOVE), laws, strict=True)),
        f"directions {len(directions)}",
    ]


def _sealed(lines: Sequence[str]) -> bytes:
    text = "\n".join([*lines, "end", ""]).encode()
    return text + f"sha256 {hashlib.sha256(text).hexdigest()}\n".encode()


def _denominator(spacing: Fraction, epsilon: Fraction, grids: Sequence[Grid]) -> int:
    return math.lcm(*(number.denominator for number in (spacing, epsilon, *(grid.offset for grid in grids))))


def _section(steps: Sequence[Step], grid: str, kinds: Iterable[str], plan: ProofPlan | None) -> list[str]:
    """What follows a direction: grid, kinds of steps, products, halves."""
    products: list[tuple[int, ...]] = []
    windows = iter(plan.windows if plan else ())

    def times(x: int, y: int) -> int:
        products.append((x, y, *next(windows, (0, 0, 0, 0, 0))))
        return len(steps) + len(products)

    first, second = compose([step.count for step in steps], lambda kind: kind + 1, times)
    return [
        grid,
        *kinds,
        f"products {len(products)}",
        *(" ".join(map(str, row)) for row in products),
        f"halves {first[0] if first else 0} {second[0] if second else 0}",
    ]


def _direction(
    steps: Sequence[Step], laws: Sequence[str], epsilon: Fraction, plan: ProofPlan | None, more: int
) -> list[str]:
    """The section of one direction of a proof."""
    bits = GUARD if plan is None else plan.bits
    precision = more * bits + more**2 * GUARD
    if plan is not None and plan.grids:
        spacing, grids = plan.spacing, plan.grids
    else:  # one step alone: its curve at epsilon; no loss beyond epsilon: each step at its greatest one
        losses = [_greatest(step.exact_law) for step in steps] if plan is None else [epsilon]
        spacing, grids = Fraction(1), tuple(Grid(loss, 0, 0, 0, 0, 0) for loss in losses)

    den = _denominator(spacing, epsilon, grids)

    def kind(step: Step, law: str, grid: Grid) -> str:
        places = _Places.of(grid, spacing, den)
        if isinstance(step.exact_law, ExactOutcomes):
            return _outcomes(step.exact_law, places, precision)
        assert isinstance(step.exact_law, ExactCurve)  # every law with a text is one of the two
        vbits = precision + places.halvings + max(0, int(1 / spacing).bit_length())
        start, end = 0, int(plan is not None)
        if plan is not None and plan.grids:
            start, end = _reach(step.exact_law, places.losses(), bits)
        if check_proof.read_law(law) is not None:
            return f"own {places.between(start, end).words(vbits)}"
        return _curve(step.exact_law, places, start, end, vbits)

    return _section(steps, f"grid {bits} {den} {int(spacing * den)}", map(kind, steps, laws, grids), plan)


def _tests(own: check_proof.Own, places: _Places, direction: Direction, vbits: int) -> str:
    """The thresholds between places. Floats choose them: a test that is nearly the best one loses next to nothing."""
    q, (noise, _) = Fraction(*own.rate), own.multipliers(vbits)
    mean, sign, losses = noise[1] / noise[0], 1 if direction is Direction.REMOVE else -1, places.losses()
    width = min((b - a for a, b in pairwise(losses)), default=Fraction(1))
    tbits = _ALONE_BITS if len(losses) == 2 else max(0, math.ceil(math.log2(_PARTS_OF_A_PLACE * mean / float(width))))
    far, found = math.sqrt(2 * vbits) + mean + 1, [-math.inf]
    for low, high in pairwise(losses):
        inner = _log_inner(sign * float(low + high) / 2, float(q))
        found.append(max(found[-1], min(max(sign * (inner / mean + mean / 2), -far), far)))
    return "\n".join([f"tests {places.words(vbits)} {tbits}", *_packed([round(t * 2**tbits) for t in found[1:]])])


def _log_inner(loss: float, q: float) -> float:
    """``log((e^loss - 1 + q) / q)``: the loss of a step where that of the sampled one is ``loss``."""
    if loss > 1:
        return loss + math.log1p((q - 1) * math.exp(-loss)) - math.log(q)
    inner = 1 + math.expm1(loss) / q
    return math.log(inner) if inner > 0 else -math.inf


def _scores(law: ExactLaw, places: _Places, grid: Grid, bits: int) -> str:
    """The chances of a score at each place."""
    p, q, infinite = chances_of(law, grid, places.spacing, bits)
    return "\n".join([f"scores {places.words(bits)} {infinite}", *_packed(p), *_packed(q)])


def _greatest(law: ExactLaw) -> Fraction:
    """A loss that none exceeds."""
    with at_precision(4 * GUARD):
        greatest = law.greatest()
        if isinstance(greatest, Fraction):
            return greatest
        return Fraction(end_above(greatest * (1 << 2 * GUARD)), 1 << 2 * GUARD)


def _reach(law: ExactCurve, losses: Sequence[Fraction], bits: int) -> tuple[int, int]:
    """The places outside of which the curve need not be known: below all losses, and above them, where it is 0."""
    with at_precision(bits + GUARD):
        least, greatest = law.least(), law.greatest()
        most = ball(greatest) if isinstance(greatest, Fraction) else greatest
        start = bisect_left(losses, True, key=lambda loss: not ball(loss) <= least)
        end = bisect_left(losses, True, key=lambda loss: bool(ball(loss) >= most))
    return min(max(0, start - 1), end), end


def _curve(law: ExactCurve, places: _Places, start: int, end: int, vbits: int) -> str:
    """The curve at the places from ``start`` up to ``end``, where it is 0."""
    losses, found = places.losses(), places.between(start, end)
    values, width = _floors(law, losses[start:end], vbits)
    exact = int(end < len(losses))
    rest = iter(values + [0] * exact)
    packed = [line for run in found.runs for line in _packed([next(rest) for _ in run])]
    return "\n".join([f"curve {found.words(vbits)} {width} {exact}", *packed])


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


def _outcomes(law: ExactOutcomes, places: _Places, precision: int) -> str:
    """The sets of outcomes, each with the cell in which it is split."""
    vbits = precision + GUARD
    losses, unit = places.losses(), 1 << vbits
    d = places.den << places.halvings + vbits
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
    head = f"outcomes {places.words(vbits)} {infinite} {len(found)}"
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
