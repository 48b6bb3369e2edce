"""Poisson sampling of what an event tree has inside: the pairs of the sampled mechanism, or why
there are none.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dp_accounting import dp_event

from evr.errors import UnsupportedEventError
from evr.laws.exact import NON_PRIVATE_LAW, ExactPairs, exact_sampled
from evr.laws.law import Direction, Pairs
from evr.laws.line import poisson
from evr.laws.line.discrete import TRIVIAL_PAIR
from evr.laws.steps import NON_PRIVATE_PAIR, Step, on_a_line, simplify
from evr.mechanisms.exact import exact_steps

NON_PRIVATE = Pairs(NON_PRIVATE_PAIR, NON_PRIVATE_PAIR, ExactPairs.both(NON_PRIVATE_LAW))
_TRIVIAL = Pairs(TRIVIAL_PAIR, TRIVIAL_PAIR)


def sampled(
    node: dp_event.PoissonSampledDpEvent, q: float, path: str, inner: dict[Pairs, int]
) -> Pairs | None:
    """The pairs of ``inner``, mechanisms with their counts, sampled with probability ``q < 1``;
    None if it costs nothing.
    """
    inner = {pairs: count for pairs, count in inner.items() if pairs != _TRIVIAL}
    if q == 0 or not inner:
        return None
    if NON_PRIVATE in inner:
        return NON_PRIVATE  # as dp_accounting: sampling does not mend a mechanism without privacy
    folded = [_folded(inner, direction) for direction in Direction]
    if any(len(steps) != 1 or steps[0].count != 1 for steps in folded):
        raise UnsupportedEventError(
            f"Poisson sampling of a composition of several mechanisms at {path} has no "
            f"one-dimensional pair here: {node!r}. Sample one mechanism, or a composition of "
            "Gaussian mechanisms only; sampling each step anew is "
            "SelfComposedDpEvent(PoissonSampledDpEvent(...)).",
            node,
        )
    if not all(map(on_a_line, folded)):
        raise UnsupportedEventError(
            f"Poisson sampling of {folded[0][0].law.describe()} at {path} has no pair here: "
            f"{node!r}. The scheme samples already; give its event without PoissonSampledDpEvent.",
            node,
        )
    pairs = poisson.sampled(Pairs(folded[0][0].law, folded[1][0].law), q)
    return replace(pairs, exact=_exact(tuple(inner.items()), Fraction(q)))


def _folded(inner: dict[Pairs, int], direction: Direction) -> tuple[Step, ...]:
    """The laws of one direction, equal ones merged, Gaussians folded into one."""
    counts: dict[object, Step] = {}
    for pairs, count in inner.items():
        law = pairs.of(direction)
        counts[law] = Step(law, count + (counts[law].count if law in counts else 0))
    return simplify(tuple(counts.values()))


def _exact(inner: tuple[tuple[Pairs, int], ...], q: Fraction) -> ExactPairs | None:
    """As the sampled pairs, for what has folded into one mechanism."""
    if any(pairs.exact is None for pairs, _ in inner):
        return None
    remove, add = (exact_steps(inner, direction)[0].law for direction in Direction)
    return exact_sampled(ExactPairs(remove, add), q)
