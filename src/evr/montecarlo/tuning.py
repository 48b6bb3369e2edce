"""Choosing a capped tilt: the order and the cap that minimise the rigorous bound on the second moment.

The search runs on coarse tables; what is stated of the chosen proposal is computed anew on fine ones. No sample is drawn
and no data is looked at, so the choice may depend on everything known before (docs/guarantees.md, Section 5).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from evr.mechanisms import DominatingPair, Measure, Step
from evr.mechanisms.gaussian import GaussianPair
from evr.mechanisms.poisson import SampledAddPair, SampledRemovePair
from evr.montecarlo.cells import CellTable, TiltedBounds
from evr.montecarlo.proposals import TiltedProposal, log_greatest, log_moment
from evr.montecarlo.samplers import MOST_ORDER
from evr.montecarlo.tilt import Tilt

_COARSE = 1024
_CAPS = 96
_RARE = math.log(1e-12)
_SLACK = 2e-5
_FINEST = 300_000


def floor_of(pair: DominatingPair) -> float:
    """Where the tilt stops falling: the least loss, or one that all but 1e-12 of ``P`` is above."""
    least = pair.loss_range[0]
    if math.isfinite(least):
        return least
    low, high = pair.span()
    if isinstance(pair, SampledAddPair):
        return float(pair.privacy_loss(low))  # the envelope of its sampler wants the tilt unbroken
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if float(pair.log_mass(Measure.P, -np.inf, middle)) < _RARE else (low, middle)
    losses = pair.privacy_loss(np.array([low, high]))
    return float(losses[np.isfinite(losses)][0])


def capped_proposal(steps: Sequence[Step], epsilon: float, *, cells: int = 16_384) -> TiltedProposal:
    """The capped tilt with the least second-moment bound at ``epsilon``; plain sampling if no tilt does better.

    Examples
    --------
    >>> from evr.mechanisms import Composition
    >>> from evr.mechanisms.events import dpsgd
    >>> steps = Composition.of(dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=1000)).simplified("remove")
    >>> proposal = capped_proposal(steps, 0.5)
    >>> proposal.second_moment(0.5) < 400 * 2.0582e-10**2
    True
    """
    steps = tuple(steps)
    search = _Search(steps, epsilon)
    order, cap = search.run()
    simple = simple_proposal(steps, epsilon)
    if search.objective(order, cap) >= simple.log_moment(epsilon, 2.0):
        return simple
    proposal = TiltedProposal(steps, [Tilt(order, cap, floor) for floor in search.floors], cells=cells)
    while proposal.log_slack > _SLACK and proposal.cells < _FINEST:
        proposal = TiltedProposal(steps, proposal.tilts, cells=4 * proposal.cells)
    return proposal


def simple_proposal(steps: Sequence[Step], epsilon: float) -> TiltedProposal:
    """Plain sampling from the dominating pairs, the SMC estimator of the paper; the cap serves its moment bound only."""
    steps = tuple(steps)
    search = _Search(steps, epsilon)
    counts = [step.count for step in steps]
    best = (math.inf, float(search.caps[-1]))
    for cap in search.caps[::4]:
        bounds = search.bounds(0.0, float(cap))
        for s in np.geomspace(0.2, 60.0, 12):
            best = min(best, (log_moment(counts, bounds, 0.0, epsilon, 2.0, float(s)), float(cap)))
    return TiltedProposal(steps, [Tilt(0.0, best[1]) for _ in steps], name="simple", cells=4 * _COARSE)


class _Search:
    """Coarse tables with all candidate caps among their edges, and the bound as a function of order and cap."""

    def __init__(self, steps: tuple[Step, ...], epsilon: float) -> None:
        self.steps, self.epsilon = steps, epsilon
        self.integer = any(
            isinstance(s.pair, SampledRemovePair) and isinstance(s.pair.base, GaussianPair) and s.count > 1
            for s in steps
        )
        self.floors = [floor_of(step.pair) for step in steps]
        scale = max(epsilon, self._deviation())
        self.caps = epsilon + scale * np.geomspace(0.01, 60.0, _CAPS)
        self._tables: dict[float, list[CellTable]] = {}

    def _deviation(self) -> float:
        """A rough size of the total loss, for where epsilon is too small to set the scale."""
        total = 0.0
        for step in self.steps:
            table = CellTable.of(step.pair, 0.0, 512, [])
            middle = np.clip(table.log_p - table.log_q, -50.0, 50.0)
            total += step.count * float(np.sum(np.exp(table.log_p) * middle**2))
        return math.sqrt(total)

    def bounds(self, order: float, cap: float) -> list[TiltedBounds]:
        reach = 2.0 ** math.ceil(math.log2(max(order, 1.0)))  # one table for orders of one size
        if reach not in self._tables:
            width = 0.2 / reach
            self._tables[reach] = []
            for step, floor in zip(self.steps, self.floors, strict=True):
                low = max(floor, step.pair.loss_range[0])
                high = min(float(self.caps[-1]), step.pair.loss_range[1])
                even = np.linspace(low, high, min(4 * _COARSE, 2 + int((high - low) / width))) if low < high else []
                losses = np.concatenate((self.caps, [floor], even))
                self._tables[reach].append(CellTable.of(step.pair, reach, _COARSE, losses))
        return [
            TiltedBounds(step.pair, table, Tilt(order, cap, floor))
            for step, table, floor in zip(self.steps, self._tables[reach], self.floors, strict=True)
        ]

    def snap(self, cap: float) -> float:
        return float(self.caps[int(np.argmin(np.abs(self.caps - cap)))])

    def objective(self, order: float, cap: float) -> float:
        """``log`` of the bound on ``E[X^2]``, and a little of the bound on ``X`` to decide between equals."""
        bounds = self.bounds(order, cap)
        counts = [step.count for step in self.steps]
        log_normaliser = math.fsum(n * b.log_normaliser for n, b in zip(counts, bounds, strict=True))

        def at(log_s: float) -> float:
            return log_moment(counts, bounds, log_normaliser, self.epsilon, 2.0, math.exp(log_s))

        centre = math.log(2.0 * order)
        best = minimize_scalar(at, bounds=(centre - 2.0, centre + 1.0), method="bounded", options={"xatol": 0.02})
        return float(best.fun) + 1e-4 * min(log_greatest(counts, bounds, log_normaliser, self.epsilon, order), 1e4)

    def _chernoff(self, order: float, cap: float) -> float:
        bounds = self.bounds(order, cap)
        return (
            math.fsum(s.count * b.log_normaliser for s, b in zip(self.steps, bounds, strict=True))
            - order * self.epsilon
        )

    def run(self) -> tuple[float, float]:
        """Nelder-Mead from a near and a far cap, each started at the order that centres the tilted loss at epsilon."""
        results = []
        for start in (self.caps[_CAPS // 3], self.caps[-1]):
            cap = self.snap(float(start))
            first = minimize_scalar(
                lambda x, cap=cap: self._chernoff(math.exp(x), cap), bounds=(-3.0, 8.0), method="bounded", options={"xatol": 0.05}
            )  # fmt: skip

            def value(point: np.ndarray) -> float:
                order = math.exp(min(max(float(point[0]), -4.0), 9.0))
                return self.objective(order, self.snap(self.epsilon + math.exp(float(point[1]))))

            origin = np.array([first.x, math.log(cap - self.epsilon)])
            simplex = origin + np.array([[0.0, 0.0], [0.25, 0.0], [0.0, -0.4]])
            found = minimize(value, origin, method="Nelder-Mead", options={"initial_simplex": simplex, "xatol": 0.01, "fatol": 0.01, "maxfev": 90})  # fmt: skip
            results.append(
                (float(found.fun), math.exp(float(found.x[0])), self.snap(self.epsilon + math.exp(float(found.x[1]))))
            )
        _, order, cap = min(results)
        return self._whole(order, cap) if self.integer else (order, cap)

    def _whole(self, order: float, cap: float) -> tuple[float, float]:
        """The best whole order next to the one found, which can be drawn fast."""
        index = int(np.argmin(np.abs(self.caps - cap)))
        near = self.caps[max(0, index - 3) : index + 4]
        orders = {max(1.0, float(math.floor(order))), max(1.0, float(math.ceil(order)))}
        candidates = [
            (self.objective(whole, float(c)), whole, float(c)) for whole in orders if whole <= MOST_ORDER for c in near
        ]
        return min(candidates)[1:] if candidates else (order, cap)
