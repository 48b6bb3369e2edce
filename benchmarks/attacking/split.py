"""Rare losses apart: a composition as a sum over how many steps of each kind had one.

Rare huge losses forbid the tilt that the rest needs. So the law of a step is cut smoothly into
pieces, at the end of its bulk and above epsilon: with ``s(y) = 1 / (1 + e^{b (y - c)})`` the low
piece is ``s P`` and the rest ``(1 - s) P``. A composition is the sum over the numbers of steps in
each piece, times their multinomials, each term with a contour of its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from attacking.composition import Composition
from attacking.laws import LONG, Law, Longs, Unreached
from attacking.tilted import nodes

_RARE = np.geomspace(0.1, 1.5, 13)  # expected numbers of steps beyond the bulk
_STEEP = 200  # b c
_MOST_RARE = 22  # steps beyond the bulk in one term
_MOST_CHOICES, _MOST_TERMS, _MOST_COMBINATIONS = 60, 200, 20_000


@dataclass(frozen=True)
class Term:
    """Pieces with their counts, the logarithm of their multinomials, and of a bound on the term."""

    log_bound: float
    log_number: float
    composition: Composition

    def plan(self, epsilon: float) -> Plan | None:
        """The side of the poles on which the integral is smaller, the order there and about its
        logarithm.
        """
        plans = []
        for side in (-1, 1):
            try:
                order = self.composition.saddle(epsilon, side)
                tilts = self.composition.tilted(order)
            except Unreached:
                continue
            plans.append(Plan(side, order, self.log_number + self.composition.log_bound(epsilon, order, tilts)))
        return min(plans, key=lambda plan: plan.log_size) if plans else None


Cutter = Callable[[Law, int, float], list[Law]]


class Plan(NamedTuple):
    """How to integrate a term."""

    side: int
    order: Any
    log_size: float


def terms(composition: Composition, epsilon: float, cutter: Cutter) -> tuple[list[Term], float]:
    """The terms, and a bound on the sum of those that are left out."""
    kinds = [_choices(cutter(law, count, epsilon), count) for law, count in composition.parts]
    found, omitted = [], sum(left_out for _, left_out in kinds)
    if math.prod(len(choices) for choices, _ in kinds) > _MOST_COMBINATIONS:
        raise Unreached("too many kinds of steps have rare losses")
    for combined in itertools.product(*(choices for choices, _ in kinds)):
        log_number = sum(choice[0] for choice in combined)
        log_bound = log_number + sum(choice[1] for choice in combined)
        pieces = tuple(piece for choice in combined for piece in choice[2])
        found.append(Term(log_bound, log_number, Composition(pieces)))
    found.sort(key=lambda term: -term.log_bound)
    return found[:_MOST_TERMS], omitted + sum(math.exp(term.log_bound) for term in found[_MOST_TERMS:])


_Choice = tuple[float, float, tuple[tuple[Law, int], ...]]


def _choices(pieces: list[Law], count: int) -> tuple[list[_Choice], float]:
    """Numbers of steps in each piece of a law: the logarithms of their multinomial and of their
    mass, and the pieces.

    And a bound on the mass of all numbers that are left out.
    """
    if len(pieces) == 1:
        return [(0.0, 0.0, ((pieces[0], count),))], 0.0
    long_masses = [np.logaddexp.reduce(nodes(piece, LONG(0), 0.0)[0]) for piece in pieces[1:]]
    masses = [float(mass) for mass in long_masses]
    rare = sum(math.exp(mass) for mass in masses)
    bulk = pieces[0]
    if rare < 0.5:
        bulk = replace(bulk, lost=bulk.infinite + sum(np.exp(mass) for mass in long_masses))
    found: list[_Choice] = []
    most = min(count, _MOST_RARE)
    for numbers in itertools.product(range(most + 1), repeat=len(masses)):
        if sum(numbers) > most:
            continue
        ways, left = 0.0, count
        for number in numbers:
            ways, left = ways + math.log(math.comb(left, number)), left - number
        mass = sum(number * m for number, m in zip(numbers, masses, strict=True))
        used = [(bulk, left), *zip(pieces[1:], numbers, strict=True)]
        found.append((ways, mass, tuple((piece, number) for piece, number in used if number)))
    found.sort(key=lambda choice: -choice[0] - choice[1])
    beyond = (count * rare) ** (most + 1) / math.factorial(most + 1) if count > most else 0.0
    return found[:_MOST_CHOICES], beyond + sum(math.exp(c[0] + c[1]) for c in found[_MOST_CHOICES:])


def rare_apart(law: Law, count: int, epsilon: float) -> list[Law]:
    """The bulk first, then what is beyond it; one piece where there is nothing to cut."""
    if law.square is not None:
        return [law]
    end = _end_of_bulk(law, count)
    cuts = [cut for cut in (end, 1.5 * epsilon) if 0 < cut < law.greatest]
    if len(cuts) == 2 and not cuts[0] < epsilon / 3:
        cuts = [max(cuts)]
    found, rest = [], law
    for cut in cuts:
        low, rest = _cut(rest, LONG(cut))
        found.append(low)
    return [*found, rest]


def _end_of_bulk(law: Law, count: int) -> float:
    """A loss that is exceeded 0.1 times in a composition; or more often, up to 1.5 times, where a
    gap begins there.
    """
    log_p, loss = nodes(law, LONG(0), None)
    order = np.argsort(-loss)
    above = np.cumsum(np.exp(log_p[order]))
    rare = np.append(_RARE / count, above[-1] / 2)
    places = loss[order][np.minimum(np.searchsorted(above, rare), loss.size - 1)].astype(float)
    losses, median = places[:-1], places[-1]
    gaps = losses[:-1] - losses[1:] > 10 * np.abs(losses[1:] - median)
    end = float(losses[int(np.argmax(gaps)) + 1] if gaps.any() and count > 2 else losses[0])
    return end if end > 0 else -10 * end  # a bulk without losses above 0 ends somewhere above


def atoms_apart(law: Law, count: int, epsilon: float) -> list[Law]:
    """Atoms, then the density, of a law that has both and is not applied very often."""
    if law.density is None or not law.log_p.size or count > _MOST_RARE:
        return [law]
    none = np.empty(0, LONG)
    atoms = replace(law, density=None, edges=None, lost=None)
    return [atoms, replace(law, log_p=none, loss=none, infinite=LONG(0), lost=None)]


def _cut(law: Law, cut: Any) -> tuple[Law, Law]:
    """What is below and what is above, smoothly."""

    def piece(sign: int) -> Law:
        def log_share(loss: Longs) -> Longs:
            at = loss.dtype.type(cut)
            return -np.logaddexp(loss.dtype.type(0), sign * (_STEEP / at) * (loss - at))

        density = _shared(law.density, log_share) if law.density is not None else None
        return replace(law, log_p=law.log_p + log_share(law.loss), density=density, lost=None)

    return piece(1), piece(-1)


def _shared(density: Callable[[Longs], tuple[Longs, Longs]], log_share: Callable[[Longs], Longs]) -> Any:
    def shared(x: Longs) -> tuple[Longs, Longs]:
        log_p, loss = density(x)
        return log_p + log_share(loss), loss

    return shared
