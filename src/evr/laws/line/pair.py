"""What a dominating pair must offer, and what follows from it.

A pair ``(P, Q)`` of laws on a line ``t`` dominates a mechanism in one direction if, for all ``epsilon``, the mechanism's
``delta(epsilon)`` is at most ``sup_A P(A) - e^epsilon Q(A)`` (Zhu, Dong and Wang 2022, Definition 7). Coordinates are
chosen so that the privacy loss ``log dP/dQ`` is *non-decreasing in t*; intervals are half-open, ``(low, high]``; a
discrete law lives on the integers ``0, 1, 2, ...`` in the order of its losses.

Six methods are abstract: ``privacy_loss``, ``point``, ``log_mass``, ``sample``, ``span`` and ``describe``. Everything else
has a default built on them, which a pair overrides where a closed form is more accurate.
"""

from __future__ import annotations

import abc
import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from evr.laws.exact import ExactPairs

Floats = NDArray[np.float64]

UNIT = 2.0**-52
"""Twice the greatest relative error of a float64 operation."""


class Direction(enum.StrEnum):
    """Who has the additional record. A guarantee under add/remove adjacency needs both."""

    REMOVE = "remove"
    """``P`` is the mechanism with the record, ``Q`` without: ``(M(D + x), M(D))``."""
    ADD = "add"
    """``P`` is the mechanism without the record, ``Q`` with: ``(M(D), M(D + x))``."""


class Measure(enum.Enum):
    """Which law of the pair."""

    P = "P"
    Q = "Q"


class SampledGaussian(NamedTuple):
    """A Poisson-sampled Gaussian: what the fastest samplers and the normal approximation are made for."""

    mu: float
    q: float
    direction: Direction


class DominatingPair(abc.ABC):
    """A pair of laws on a line with a non-decreasing privacy loss. Immutable, hashable, comparable by value."""

    @abc.abstractmethod
    def privacy_loss(self, t: Any) -> Floats:
        """``log dP/dQ`` at ``t``, non-decreasing; ``+inf`` where only ``P`` has mass, ``-inf`` where only ``Q`` has."""

    @abc.abstractmethod
    def point(self, loss: Any) -> Floats:
        """The largest ``t`` with ``privacy_loss(t) <= loss``; ``-inf`` if there is none, ``+inf`` if all have."""

    @abc.abstractmethod
    def log_mass(self, measure: Measure, low: Any, high: Any) -> Floats:
        """``log`` of the probability of ``(low, high]``, accurate relative to the probability in both tails."""

    @abc.abstractmethod
    def sample(self, measure: Measure, generator: np.random.Generator, low: Any, high: Any) -> Floats:
        """Exact draws from the law restricted to ``(low, high]``, one for each element of ``low`` and ``high``."""

    def draw(self, measure: Measure, generator: np.random.Generator, size: int) -> Floats:
        """``size`` exact draws from the whole law."""
        return self.sample(measure, generator, np.full(size, -np.inf), np.full(size, np.inf))

    @property
    def flats(self) -> Floats:
        """Intervals ``(low, high]`` of constant loss, infinite loss included, in order, as rows: the atoms of the loss."""
        return np.empty((0, 2))

    @abc.abstractmethod
    def span(self, order: float = 0.0) -> tuple[float, float]:
        """A range of ``t`` that holds all but a negligible part (below 1e-300) of ``Q`` and of ``P e^{order loss}``."""

    def delta(self, epsilon: float) -> float:
        """``E_P[(1 - e^{epsilon - loss})_+]`` of one step. By default the difference of two probabilities."""
        threshold = self.point(epsilon)
        above_p = float(np.exp(self.log_mass(Measure.P, threshold, np.inf)))
        above_q = float(self.log_mass(Measure.Q, threshold, np.inf))
        if math.isinf(epsilon):
            return self.infinite_loss_mass
        return max(0.0, above_p - math.exp(epsilon + above_q))

    def log_mgf(self, order: float) -> float:
        """``log E_P[e^{order loss}]``. By default a fourth-order rule on interval probabilities, refined to 1e-10."""
        from evr.laws.line.discretise import log_mgf_by_cells

        return log_mgf_by_cells(self, order)

    def self_composed(self, count: int) -> DominatingPair | None:
        """One pair that equals ``count`` steps of this one, where the family is closed under composition, else None."""
        return self if count == 1 else None

    @property
    def infinite_loss_mass(self) -> float:
        """Probability under ``P`` of an infinite privacy loss."""
        flats = self.flats
        if not len(flats) or not np.isposinf(self.privacy_loss(flats[-1, 1])):
            return 0.0
        return float(np.exp(self.log_mass(Measure.P, flats[-1, 0], flats[-1, 1])))

    @property
    def loss_range(self) -> tuple[float, float]:
        """Least and greatest privacy loss, possibly infinite."""
        return float(self.privacy_loss(-np.inf)), float(self.privacy_loss(np.inf))

    @property
    def sampled_gaussian(self) -> SampledGaussian | None:
        """Its parameters, if the pair is a Poisson-sampled Gaussian."""
        return None

    @property
    def is_light(self) -> bool:
        """Whether large losses come from many steps and never from one: its tail is as light as a normal law's."""
        return False

    @property
    def mixes_second(self) -> bool:
        """Whether the second law is a mixture with the first, which bounds losses from above."""
        return False

    @property
    def is_cut(self) -> bool:
        """Whether greater losses were left out, less likely than 1e-320 together."""
        return False

    @property
    def is_endless(self) -> bool:
        """Whether some loss is beyond all bounds, however unlikely: then delta is never 0."""
        return self.is_cut or self.loss_range[1] == math.inf

    @property
    def loss_magnitude(self) -> float:
        """The greatest number that enters the computation of a loss: rounding is relative to it."""
        losses = np.abs(self.privacy_loss(np.array(self.span())))
        return float(np.max(losses[np.isfinite(losses)], initial=0.0))

    def sum_error(self, count: int) -> float:
        """A bound on the rounding error of a sum of ``count`` losses (docs/guarantees.md, Section 6)."""
        return 32.0 * UNIT * count * (1.0 + self.loss_magnitude)

    def is_exact(self, count: int) -> bool:
        """Whether ``count`` times the greatest loss is no rounded number."""
        return False

    @abc.abstractmethod
    def describe(self) -> str:
        """The pair in a line of notation, for tables."""


@dataclass(frozen=True)
class Pairs:
    """The dominating pairs of one mechanism in its two directions.

    ``exact`` are the same laws by their exact parameters, which strict proofs need; None where a mechanism offers none.
    """

    remove: DominatingPair
    add: DominatingPair
    exact: ExactPairs | None = None

    def of(self, direction: Direction) -> DominatingPair:
        """The pair of one direction."""
        return self.remove if direction is Direction.REMOVE else self.add


def log_difference(larger: Any, smaller: Any) -> Floats:
    """``log(e^larger - e^smaller)`` for ``larger >= smaller`` without overflow; ``-inf`` where they are equal."""
    larger, smaller = np.broadcast_arrays(np.asarray(larger, float), np.asarray(smaller, float))
    gap = np.where(np.isneginf(larger), 0.0, smaller - np.where(np.isneginf(larger), 0.0, larger))
    with np.errstate(divide="ignore"):
        return np.where(np.isneginf(larger), -np.inf, larger + np.log(-np.expm1(np.minimum(gap, 0.0))))


def log_sum_exp(x: Floats) -> float:
    """``log(sum(e^x))`` of a non-empty array; SciPy's does the same for any array, and takes ten times as long."""
    top = float(np.max(x))
    return top + math.log(float(np.sum(np.exp(x - top)))) if math.isfinite(top) else top
