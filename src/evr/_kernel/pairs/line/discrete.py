"""Pairs on finitely many outcomes: the ground of every discrete mechanism, and noise on the integers."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from evr._basics import validate
from evr._kernel.pairs.law import UNIT, Floats
from evr._kernel.pairs.line.gaussian import NORMAL_REACH
from evr._kernel.pairs.line.pair import DominatingPair, Measure, log_difference, log_mixture, mix


@dataclass(frozen=True)
class DiscretePair(DominatingPair):
    """Outcomes ``0, 1, 2, ...`` in the order of their losses, with the logarithms of their probabilities.

    >>> [round(x, 4) for x in DiscretePair.from_probabilities([0.25, 0.75], [0.75, 0.25]).loss_values]
    [-1.0986, 1.0986]
    """

    loss_values: tuple[float, ...]
    log_p: tuple[float, ...]
    log_q: tuple[float, ...]
    is_cut: bool = False
    error: float = 0.0  # of a loss, beyond 8 UNIT of the greatest

    @classmethod
    def from_logs(
        cls, log_p: Any, log_q: Any, losses: Any = None, *, is_cut: bool = False, error: float = 0.0
    ) -> Self:
        """Sort outcomes by loss, join equal ones. Give ``losses`` where a difference would lose digits."""
        log_p, log_q = np.asarray(log_p, float), np.asarray(log_q, float)
        keep = np.isfinite(log_p) | np.isfinite(log_q)
        log_p, log_q = log_p[keep], log_q[keep]
        if losses is None:
            losses, logs = log_p - log_q, np.array([log_p, log_q])
            greatest = np.max(np.abs(logs), where=np.isfinite(logs), initial=1.0)
            error = 8.0 * UNIT * float(greatest)
        else:
            losses = np.asarray(losses, float)[keep]
        groups, index = np.unique(losses, return_inverse=True)
        joined = np.full((2, groups.size), -np.inf)
        np.logaddexp.at(joined[0], index, log_p)
        np.logaddexp.at(joined[1], index, log_q)
        values, log_p, log_q = (tuple(x.tolist()) for x in (groups, *joined))
        return cls(values, log_p, log_q, is_cut, error)

    @classmethod
    def from_probabilities(cls, p: Any, q: Any) -> Self:
        """Outcomes in any order, by their probabilities, which must each sum to one, to an ulp for each."""
        p, q = np.asarray(p, float), np.asarray(q, float)
        if p.ndim != 1 or p.shape != q.shape or p.size == 0:
            shapes = f"p and q have shapes {p.shape} and {q.shape}"
            raise ValueError(f"{shapes}: give two lists of one length, at least 1")
        for name, law in (("p", p), ("q", q)):
            validate.law(**{name: law.tolist()})
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            log_p, log_q, ratio = np.log(p), np.log(q), p / q
            far = np.where((ratio > 0) & (ratio < np.inf), np.log(ratio), log_p - log_q)
            # near 1 a ratio loses digits
            losses = np.where(np.abs(p - q) <= q / 2, np.log1p((p - q) / q), far)
        return cls.from_logs(log_p, log_q, losses)

    @cached_property
    def logs(self) -> dict[Measure, Floats]:
        return {Measure.P: np.array(self.log_p), Measure.Q: np.array(self.log_q)}

    @cached_property
    def losses(self) -> Floats:
        return np.array(self.loss_values)

    @cached_property
    def _cumulated(self) -> dict[Measure, tuple[Floats, Floats]]:
        """``log`` of the mass of the first ``n`` outcomes, and of all others: both ends are accurate."""
        ends = {m: (np.append(-np.inf, law), np.append(-np.inf, law[::-1])) for m, law in self.logs.items()}
        return {m: (log_partial_sums(a), log_partial_sums(b)[::-1]) for m, (a, b) in ends.items()}

    def _rank(self, t: Any) -> Any:
        """The number of outcomes up to ``t``."""
        return np.clip(np.floor(np.asarray(t, float)) + 1, 0, len(self.log_p)).astype(np.int64)

    def privacy_loss(self, t: Any) -> Floats:
        index = np.clip(np.ceil(np.asarray(t, float)), 0, len(self.log_p) - 1).astype(np.int64)
        return self.losses[index]

    def point(self, loss: Any) -> Floats:
        rank = np.searchsorted(self.losses, np.asarray(loss, float), side="right")
        return np.where(rank == 0, -np.inf, np.where(rank == len(self.log_p), np.inf, rank - 1.0))

    def log_mass(self, measure: Measure, low: Any, high: Any) -> Floats:
        first, last = np.broadcast_arrays(self._rank(low), self._rank(high))
        from_left, from_right = self._cumulated[measure]
        law = self.logs[measure]
        single = law[np.minimum(first, law.size - 1)]
        by_left = log_difference(from_left[last], from_left[first])
        by_right = log_difference(from_right[first], from_right[last])
        several = np.where(from_left[last] < from_right[first], by_left, by_right)  # from where less mass is
        return np.where(last <= first, -np.inf, np.where(last == first + 1, single, several))

    def draw(self, measure: Measure, generator: np.random.Generator, size: int) -> Floats:
        ends = np.cumsum(np.exp(self.logs[measure]))
        ranks = np.searchsorted(ends[:-1], ends[-1] * generator.random(size), side="right")
        return ranks.astype(np.float64)

    @cached_property
    def flats(self) -> Floats:
        index = np.arange(len(self.log_p), dtype=np.float64)
        return np.column_stack((index - 1, index))

    def span(self, order: float = 0.0) -> tuple[float, float]:
        return -1.0, float(len(self.log_p) - 1)

    @property
    def loss_magnitude(self) -> float:
        held = np.isfinite(self.losses) & np.isfinite(self.logs[Measure.P])
        return float(np.max(np.abs(self.losses[held]), initial=0.0))

    @property
    def loss_error(self) -> float:
        """A bound on the rounding error of a finite loss."""
        return 8.0 * UNIT * self.loss_magnitude + self.error

    def describe(self) -> str:
        finite = self.losses[np.isfinite(self.losses)]
        extremes = f"{finite.min():.6g} to {finite.max():.6g}" if finite.size else "infinite"
        return f"{len(self.log_p)} outcomes, losses {extremes}"


def partial_sums(x: Floats) -> Floats:
    """Sums of the first terms, by sums of pairs: ``2 log2(n)`` roundings on top of each other, not ``n``."""
    if x.size < 2:
        return x
    found, paired = x.copy(), partial_sums(x[:-1:2] + x[1::2])
    found[1::2], found[2::2] = paired, paired[: (x.size - 1) // 2] + x[2::2]
    return found


def log_partial_sums(x: Floats) -> Floats:
    """``log`` of the partial sums of ``e^x``: in pieces over which a sum grows by less than floats can."""
    found, most, before = np.full(x.size, -np.inf), np.maximum.accumulate(x), -np.inf
    start = int(np.searchsorted(most, -np.inf, side="right"))
    while start < x.size:
        end = int(np.searchsorted(most, most[start] + 600.0, side="right"))
        top = max(before, most[end - 1])
        sums = partial_sums(np.exp(np.append(before, x[start:end]) - top))[1:]
        found[start:end] = top + np.log(sums)
        before, start = found[end - 1], end
    return found


TRIVIAL_PAIR = DiscretePair((0.0,), (0.0,), (0.0,))
"""Two equal laws: a mechanism that reveals nothing."""


def discrete_laplace(a: float, shift: int, q: float | None = None) -> DiscretePair:
    """Noise of probability ``tanh(a/2) e^{-a|x|}`` on the integers, moved up by ``shift`` or not; with ``q``,
    moved up or down with that probability (docs/guarantees_relations.md, R6). Both tails are atoms.
    """
    x = np.arange(0.0 if q is None else -shift, shift + 1.0)
    log_atom, log_tail = math.log(math.tanh(a / 2)), -math.log1p(math.exp(-a))
    absent, present = log_atom - a * np.abs(x), log_atom - a * np.abs(x - shift)
    for law in (absent, present):
        law[[0, -1]] += log_tail - log_atom  # all integers beyond the first and the last are joined to these
    return _moved(absent, present, a * (np.abs(x) - np.abs(x - shift)), q, is_cut=False)


def discrete_gaussian(sigma: float, shift: int, q: float | None = None) -> DiscretePair:
    """Noise of probability proportional to ``e^{-x^2 / (2 sigma^2)}``, moved as that of ``discrete_laplace``.
    The pair leaves out noise beyond 39 ``sigma``, of probability below 1e-329, and says so (``is_cut``).
    """
    reach = math.ceil(NORMAL_REACH * sigma) + 2
    x = np.arange(-reach if q is None else -reach - shift, shift + reach + 1.0)
    tail = np.arange(1.0, reach)
    log_norm = math.log1p(2 * math.fsum(np.exp(-(tail**2) / (2 * sigma**2)).tolist()))
    absent, present = (-((x - by) ** 2) / (2 * sigma**2) - log_norm for by in (0, shift))
    return _moved(absent, present, shift * (2 * x - shift) / (2 * sigma**2), q, is_cut=True)


def _moved(absent: Floats, present: Floats, losses: Floats, q: float | None, *, is_cut: bool) -> DiscretePair:
    """The pair of noise from the logarithms of its law, of the law moved up, and their difference."""
    if q is None:
        return DiscretePair.from_logs(present, absent, losses, is_cut=is_cut)
    log_p, rising = log_mixture(absent, present, q), mix(losses, q)
    return DiscretePair.from_logs(log_p, log_p[::-1], rising - rising[::-1], is_cut=is_cut)
