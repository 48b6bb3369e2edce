"""What the chooser of grids knows about a composition at an epsilon: its tilt and its losses as points, in floats."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from evr._estimate.points import LossPoints, log_moment, rough_points
from evr._estimate.selected import on_lines
from evr._estimate.tilting import plan_tilt
from evr._kernel.pairs import DominatingPair, Floats, Step, loss_range
from evr._kernel.pairs.line.pair import log_sum_exp

ORDERS = np.geomspace(1e-4, 1e5, 46)
TIMES = np.geomspace(0.5, 4.0, 12)
_KEPT, _SHALLOW = 120.0, 70.0  # what the tilt is planned by is enough where log delta is above ``-_SHALLOW``
_THINNED = 700  # points that moments are taken of
_OFFSET_BITS = 64
_LEAST_SLOPE = 1e-30  # below it delta is flat, between clusters of losses
_FINEST_LATTICE = 1e-3


@dataclass(frozen=True)
class Kind:
    """One kind of step as the chooser sees it: its loss as weighted points, plain and tilted."""

    count: int
    losses: Floats  # rising
    tilted: Floats  # their weights under the tilt; they sum to 1
    cumulant: float  # ``log E[e^{order loss}]``
    low_cumulants: Floats  # ``log E[e^{-s loss}]`` at each ``s`` of ``ORDERS``
    high_cumulants: Floats  # ``log E[e^{t order loss}]`` at each ``t`` of ``TIMES``
    least: float
    greatest: float
    offset: Fraction

    def spread(self, spacing: float) -> Floats:
        """The variance that each point adds on a grid, times its tilted weight and the count."""
        place = (self.losses - float(self.offset)) / spacing
        part = place - np.floor(place)
        return self.count * self.tilted * part * (1.0 - part) * spacing**2


@dataclass(frozen=True)
class Outlook:
    """What the chooser knows about a composition at an epsilon: the tilt, and about how large delta is."""

    epsilon: float
    order: float
    log_delta: float
    kinds: tuple[Kind, ...]
    slope: float  # of ``-log delta``; infinite where it is not known
    lattice: float | None  # of which all differences of atoms of a kind are multiples, where there is one

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(kind.count for kind in self.kinds)

    @property
    def kappa(self) -> float:
        """By how much of itself delta grows per added variance."""
        each = [moments(kind.tilted, kind.losses) for kind in self.kinds]
        variance, square = (total_of(self.counts, numbers) for numbers in zip(*each, strict=True))
        order = math.hypot(self.order, 1.0 / math.sqrt(max(variance, 1e-12 * min(1e-300 + square, 1.0))))
        order = self.slope if _LEAST_SLOPE < self.slope < math.inf else order
        return order * (order + 1.0) / 2.0

    def uses(self, counts: Sequence[int]) -> float:
        """How often a partial composition of so many steps of each kind is used in the whole one."""
        return min(kind.count / n for kind, n in zip(self.kinds, counts, strict=True) if n)


def total_of(counts: Sequence[int], each: Iterable[Any]) -> Any:
    """The sum over kinds of count times number, or array; what is infinite counts only where it is held."""
    return sum(n * x for n, x in zip(counts, each, strict=True) if n)


def moments(weights: Floats, losses: Floats) -> tuple[float, float]:
    """The variance and the second moment."""
    mean = float(np.sum(weights * losses))
    return float(np.sum(weights * (losses - mean) ** 2)), float(np.sum(weights * losses**2))


@lru_cache(maxsize=8)
def outlook(steps: tuple[Step, ...], epsilon: float) -> Outlook:
    """Tilts and loss points of the composition; ``log_delta`` is rough, as if the tilted sum were normal."""
    floats = on_lines(steps)
    plan = plan_tilt(floats, epsilon, joined=True)
    order, cap = (plan.order, plan.cap) if plan is not None else _far_tilt(floats, epsilon)
    lattice = _lattice([step.pair for step in floats])
    kinds = []
    keep = _KEPT if order * epsilon < _SHALLOW else math.inf
    for step in floats:
        plain = rough_points(step.pair, 0.0, cap, joined=True, keep=keep)
        points = rough_points(step.pair, order, cap, joined=True, keep=keep) if plain.losses.size else plain
        kinds.append(_kind(step, plain, points, order, on_atoms=lattice is not None))
    return Outlook(epsilon, order, _log_delta(epsilon, order, kinds), tuple(kinds), math.inf, lattice)


def _log_delta(epsilon: float, order: float, kinds: Sequence[Kind]) -> float:
    """If the tilted sum is normal, and its mean is epsilon."""
    counts = [kind.count for kind in kinds]
    deviation = math.sqrt(total_of(counts, (moments(kind.tilted, kind.losses)[0] for kind in kinds)))
    part = max(_mills(order * deviation) - _mills((order + 1.0) * deviation), 1e-300)
    return float(total_of(counts, (kind.cumulant for kind in kinds))) - order * epsilon + math.log(part)


def _mills(x: float) -> float:
    """``E[e^{-x z}; z > 0]`` of a standard normal ``z``."""
    return math.exp(x * x / 2) * math.erfc(x / math.sqrt(2)) / 2 if x < 25 else 1.0 / (x * math.sqrt(2.0 * math.pi))


def _lattice(pairs: Sequence[DominatingPair]) -> float | None:
    """The greatest common measure of the gaps between atoms, by Euclid's algorithm, if it is not too small.

    A sum of atoms has atoms, and one at epsilon would cost a first power of the spacing where it is not on the grid.
    """
    atoms = [pair.privacy_loss(pair.flats[:, 1]) for pair in pairs if len(pair.flats)]
    gaps = np.concatenate([np.empty(0), *(np.diff(np.unique(losses[np.isfinite(losses)])) for losses in atoms)])
    if not gaps.size:
        return None
    measure, rounding = float(gaps.max()), 1e-9 * float(gaps.max())
    while True:
        rest = np.abs(gaps - measure * np.round(gaps / measure))
        if rest.max() <= rounding:
            return measure
        measure = float(rest[rest > rounding].min())
        if measure < _FINEST_LATTICE * float(gaps.max()):
            return None


def _far_tilt(steps: tuple[Step, ...], epsilon: float) -> tuple[float, float]:
    """Where delta is below all floats: an order that shows it to be below 1e-60 or so."""
    order, cap = 1.0, 2.0 * epsilon + 1.0
    while order < 1e6:
        points = [rough_points(step.pair, order, cap, joined=True) for step in steps]
        if not all(one.losses.size for one in points):
            break  # a step without any privacy: delta is 1
        cumulants = [step.count * log_moment(p, order, 0.0, 0.0) for step, p in zip(steps, points, strict=True)]
        if sum(cumulants) - order * epsilon < -150.0:
            break
        order *= 1.5
    return order, cap


def _kind(step: Step, plain: LossPoints, points: LossPoints, order: float, *, on_atoms: bool) -> Kind:
    """Its offset is the heaviest atom under the tilt, or the median of the loss."""
    least, greatest = loss_range(step.pair)
    if not plain.losses.size:  # all losses are infinite
        plain = points = LossPoints(np.zeros(1), np.zeros(1), np.ones(1, dtype=bool))
    plain, points = _rising(plain), _rising(points)
    exponents = points.log_weights + order * points.losses
    cumulant = log_sum_exp(exponents)
    tilted = np.exp(exponents - cumulant)
    if on_atoms and points.is_atom.any():
        offset = Fraction(float(points.losses[np.argmax(np.where(points.is_atom, exponents, -np.inf))]))
    else:
        middle = int(np.searchsorted(np.cumsum(np.exp(plain.log_weights)), 0.5))
        centre = float(plain.losses[min(middle, plain.losses.size - 1)])
        offset = Fraction(round(centre * 2**_OFFSET_BITS), 2**_OFFSET_BITS)
    return Kind(
        count=step.count,
        losses=points.losses,
        tilted=tilted,
        cumulant=cumulant,
        low_cumulants=cumulants_of(plain.losses, np.exp(plain.log_weights), -ORDERS),
        high_cumulants=cumulant + cumulants_of(points.losses, tilted, TIMES * max(order, 1.0) - order),
        least=least,
        greatest=greatest,
        offset=offset,
    )


def _rising(points: LossPoints) -> LossPoints:
    order = np.argsort(points.losses)
    return LossPoints(points.losses[order], points.log_weights[order], points.is_atom[order])


def cumulants_of(losses: Floats, weights: Floats, orders: Floats) -> Floats:
    """``log E[e^{s loss}]`` at each order, neighbouring points put together."""
    starts = np.arange(0, losses.size, max(1, losses.size // _THINNED))
    masses = np.add.reduceat(weights, starts)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.where(masses > 0.0, np.add.reduceat(weights * losses, starts) / masses, losses[starts])
        terms = np.log(masses) + np.multiply.outer(orders, means)
    tops = np.max(terms, axis=1)
    return tops + np.log(np.sum(np.exp(np.maximum(terms - tops[:, None], -700.0)), axis=1))
