"""Proof files: what a strict certificate rests on, so that nothing of evr is needed to check it (docs/proof_format.md).

A file says on which grid one step is put. Of a Poisson-sampled Gaussian ``check_proof.py``, which goes beside the file,
computes the curve there; of other laws the file lists what balls enclose: the curve at the places of the grid, or
outcomes. The checker computes the rest in integers, and checks every file before it is handed out.
"""

import hashlib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

from evr._basics import atomic
from evr._certificate.certificate import Certificate
from evr._kernel.events import Composition
from evr._kernel.events.relations import name_of
from evr._kernel.pairs import Direction, Step
from evr._kernel.pairs.exact import ExactCurve, ExactLaw, ExactOutcomes
from evr._kernel.pairs.exact.law import at_precision
from evr._kernel.strict import Grid, ProofPlan
from evr._kernel.strict.chances import chances_of
from evr._kernel.strict.plan import compose
from evr._kernel.strict.rounding import GUARD, end_above
from evr._proof import check_proof
from evr._proof.laws import INSTEAD, check_texts
from evr._proof.listing import Places, curve_lines, outcome_lines, packed, reach
from evr.errors import CertificateError, UnsupportedEventError

_PARTS_OF_A_PLACE, _ALONE_BITS = 32, 40  # of thresholds: parts of a place, and bits where there is one only


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
        for direction in (one for one in (Direction.REMOVE, Direction.ADD) if one in plans):  # JSON may sort them
            lines.append(f"direction {direction.value if len(plans) == 2 else 'both'}")
            lines += _direction(composition.exact(direction), laws, epsilon, plans[direction], more)
        data = _sealed(lines)
        try:
            answer = check_proof.check(data)
        except check_proof.NotReadError as why:
            raise ValueError(f"a proof file of this is {why}: claim a little more, or {INSTEAD}") from None
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
        places, own = Places.of(grid, spacing, den), check_proof.read_law(law)
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


def checker_beside(path: Path) -> Path:
    """Where the checker of a proof file goes, which is not where the file goes."""
    source = Path(check_proof.__file__)
    if path.name == source.name:
        raise ValueError(f"proof={str(path)!r} is where the checker goes: name another file")
    return path.with_name(source.name)


def write_proof(path: str | Path, data: bytes) -> None:
    """Write a proof file, and ``check_proof.py`` beside it."""
    checker = checker_beside(Path(path))
    atomic.write_bytes(path, data)
    atomic.write_bytes(checker, Path(check_proof.__file__).read_bytes())


def word_of(data: bytes) -> str:
    """What the checker says of a file that ``proof_file`` made, which it accepted."""
    return check_proof.Answer(check_proof.Words(check_proof.body_of(data)).file(), [], []).word


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
        places = Places.of(grid, spacing, den)
        if isinstance(step.exact_law, ExactOutcomes):
            return outcome_lines(step.exact_law, places, precision)
        assert isinstance(step.exact_law, ExactCurve)  # every law with a text is one of the two
        vbits = precision + places.halvings + max(0, int(1 / spacing).bit_length())
        start, end = 0, int(plan is not None)
        if plan is not None and plan.grids:
            start, end = reach(step.exact_law, places.losses(), bits)
        if check_proof.read_law(law) is not None:
            return f"own {places.between(start, end).words(vbits)}"
        return curve_lines(step.exact_law, places, start, end, vbits)

    return _section(steps, f"grid {bits} {den} {int(spacing * den)}", map(kind, steps, laws, grids), plan)


def _tests(own: check_proof.Own, places: Places, direction: Direction, vbits: int) -> str:
    """The thresholds between places. Floats choose them: a test that is nearly the best one loses next to nothing."""
    q, (noise, _) = Fraction(*own.rate), own.multipliers(vbits)
    mean, sign, losses = noise[1] / noise[0], 1 if direction is Direction.REMOVE else -1, places.losses()
    width = min((b - a for a, b in pairwise(losses)), default=Fraction(1))
    tbits = _ALONE_BITS if len(losses) == 2 else max(0, math.ceil(math.log2(_PARTS_OF_A_PLACE * mean / float(width))))
    far, found = math.sqrt(2 * vbits) + mean + 1, [-math.inf]
    for low, high in pairwise(losses):
        inner = _log_inner(sign * float(low + high) / 2, float(q))
        found.append(max(found[-1], min(max(sign * (inner / mean + mean / 2), -far), far)))
    return "\n".join([f"tests {places.words(vbits)} {tbits}", *packed([round(t * 2**tbits) for t in found[1:]])])


def _log_inner(loss: float, q: float) -> float:
    """``log((e^loss - 1 + q) / q)``: the loss of a step where that of the sampled one is ``loss``."""
    if loss > 1:
        return loss + math.log1p((q - 1) * math.exp(-loss)) - math.log(q)
    inner = 1 + math.expm1(loss) / q
    return math.log(inner) if inner > 0 else -math.inf


def _scores(law: ExactLaw, places: Places, grid: Grid, bits: int) -> str:
    """The chances of a score at each place."""
    p, q, infinite = chances_of(law, grid, places.spacing, bits)
    return "\n".join([f"scores {places.words(bits)} {infinite}", *packed(p), *packed(q)])


def _greatest(law: ExactLaw) -> Fraction:
    """A loss that none exceeds."""
    with at_precision(4 * GUARD):
        greatest = law.greatest()
        if isinstance(greatest, Fraction):
            return greatest
        return Fraction(end_above(greatest * (1 << 2 * GUARD)), 1 << 2 * GUARD)
