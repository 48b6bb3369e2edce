"""Choosing a capped tilt: the order and the cap that minimise the rigorous bound on the second
moment.

The search runs on coarse tables; what is stated of the chosen proposal is computed anew on fine
ones. No sample is drawn and no data is looked at, so the choice may depend on everything known
before (docs/guarantees.md, Section 5).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from evr.bounds.cells import CellTable, TiltedBounds
from evr.bounds.moments import MomentBound, log_greatest, log_peak
from evr.bounds.tilt import Tilt
from evr.laws import DominatingPair, Floats, Measure, Step
from evr.sampling.proposals import TiltedProposal, drawn_pairs
from evr.sampling.samplers.envelope import EnvelopeSampler
from evr.sampling.samplers.mixture import MOST_ORDER, MixtureSampler

_COARSE = 1024
_CAPS = 96
_RARE = math.log(1e-12)
_SLACK = 2e-5
_FINEST = 300_000
_LARGE = math.log(1e-6)
_SMALL = 4.0  # how many times the root of the bound samples may be, to be preferred


def floor_of(pair: DominatingPair) -> float:
    """Where the tilt stops falling: the least loss, or one that all but 1e-12 of ``P`` is above."""
    least = pair.loss_range[0]
    if math.isfinite(least):
        return least
    low, high = pair.span()
    if EnvelopeSampler.suits(pair):
        return float(pair.privacy_loss(low))  # the envelope of its sampler wants the tilt unbroken
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (
            (middle, high)
            if float(pair.log_mass(Measure.P, -np.inf, middle)) < _RARE
            else (low, middle)
        )
    losses = pair.privacy_loss(np.array([low, high]))
    finite = losses[np.isfinite(losses)]
    return float(finite[0]) if finite.size else 0.0


def deviations(steps: Sequence[Step]) -> list[float]:
    """A rough size of the total loss of each kind of step."""
    sizes = []
    for step in steps:
        table = CellTable.of(step.pair, 0.0, 512, [])
        # where those are too close to tell
        middle = np.clip(table.log_p - table.log_q, table.least, table.greatest)
        with np.errstate(over="ignore"):
            squares = float(np.sum(np.exp(table.log_p) * np.clip(middle, -50.0, 50.0) ** 2))
        sizes.append(math.sqrt(step.count * squares))
    return sizes


def capped_proposal(
    steps: Sequence[Step],
    epsilon: float,
    *,
    cells: int = 16_384,
    quick: bool = False,
) -> TiltedProposal:
    """The capped tilt with the least second-moment bound at ``epsilon``; plain sampling if no tilt
    does better.

    ``quick`` searches less, as is good enough for an estimate. Some finite loss must exceed
    ``epsilon``.

    Examples
    --------
    >>> from evr.mechanisms import Composition
    >>> from evr.events import dpsgd
    >>> event = dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=1000)
    >>> steps = Composition.of(event).simplified("remove")
    >>> proposal = capped_proposal(steps, 0.5)
    >>> proposal.second_moment(0.5) < 400 * 2.0582e-10**2
    True
    """
    steps = tuple(steps)
    search = _Search(steps, epsilon, apart=True)
    found = search.run(quick=quick)
    log_bound = search.objective(found)
    if not quick or log_bound > _LARGE:  # else plain sampling is far behind
        simple = simple_proposal(steps, epsilon)
        if log_bound >= simple.log_moment(epsilon, 2.0):
            return simple
    if quick:
        return TiltedProposal(steps, search.tilts(found), cells=cells // 4)
    proposal = TiltedProposal(steps, search.tilts(found), cells=cells)
    while proposal.log_slack > _SLACK and proposal.cells < _FINEST:
        proposal = TiltedProposal(steps, proposal.tilts, cells=4 * proposal.cells)
    return proposal


def simple_proposal(steps: Sequence[Step], epsilon: float) -> TiltedProposal:
    """Plain sampling from the dominating pairs, the SMC estimator of the paper; the cap serves its
    moment bound only.
    """
    steps = tuple(steps)
    search = _Search(steps, epsilon, apart=False)
    best = (math.inf, float(search.caps[-1]))
    for cap in search.caps[::4]:
        bounds = search.bounds(Tilt(0.0, float(cap)))
        of_s = MomentBound(search.counts, bounds, 0.0, epsilon, 2.0)
        best = min(best, (min(of_s(float(s)) for s in np.geomspace(0.2, 250.0, 16)), float(cap)))
    return TiltedProposal(
        steps, [Tilt(0.0, best[1]) for _ in steps], name="simple", cells=4 * _COARSE
    )


class _Search:
    """Coarse tables with all candidate caps among their edges, and the bound as a function of order
    and cap.
    """

    def __init__(self, steps: tuple[Step, ...], epsilon: float, *, apart: bool) -> None:
        pairs, _ = drawn_pairs(steps, apart=apart)
        self.steps, self.epsilon = (
            tuple(Step(pair, s.count) for pair, s in zip(pairs, steps, strict=True)),
            epsilon,
        )
        self.integer = any(MixtureSampler.suits(s.pair) and s.count > 1 for s in self.steps)
        self.floors = [floor_of(step.pair) for step in self.steps]
        sizes = deviations(self.steps)
        scale = max(epsilon, math.hypot(*sizes))  # epsilon may be too small to set the scale
        # a rare loss may be far beyond the deviation
        greatest = max(step.pair.loss_range[1] for step in self.steps)
        top = max(60.0, 1.01 * (greatest - epsilon) / scale if math.isfinite(greatest) else 0.0)
        self.jumps = self._kinds_that_jump()
        self.steep = True  # whether kinds that do not jump have the slope of jumps
        self.rising = True  # whether these are tilted from 0 up only
        self.base = self._jump_needed()
        self.caps = self.base + scale * np.geomspace(0.01, top, _CAPS)
        self.knees = scale * np.array([0.08, 0.16, 0.3, 0.5])
        least = min((x for x in sizes if x > 0), default=scale)
        # small losses want large orders
        self._steeper = max(0.0, math.log(0.01 / least)) if least > 0 else 0.0
        self.counts = [step.count for step in steps]
        self.two_slopes = not any(step.pair.mixed is Measure.Q for step in self.steps)
        self._tables: dict[float, list[CellTable]] = {}

    def _kinds_that_jump(self) -> list[bool]:
        """Of which steps a single loss can carry epsilon; all, unless some do and some do not."""
        jumps = [s.pair.loss_range[1] > self.epsilon and not s.pair.is_light for s in self.steps]
        return jumps if any(jumps) else [True] * len(jumps)

    def _jump_needed(self) -> float:
        """Epsilon, or what of it is left for a jump when bounded losses of the other kinds are at
        their greatest.
        """
        others = [
            s.count * s.pair.loss_range[1]
            for s, jumps in zip(self.steps, self.jumps, strict=True)
            if not jumps
        ]
        left = self.epsilon - math.fsum(x for x in others if 0 < x < math.inf)
        return left if left > 0 else self.epsilon

    def tilts(self, tilt: Tilt) -> list[Tilt]:
        """The tilt of each kind of step, with its own floor. Kinds that do not jump have one slope
        and no cap: what they add spares as much of a jump. Where they are few, it is best to leave
        to chance what they take away.
        """
        far, order = float(self.caps[-1]), (tilt.jump_order if self.steep else None) or tilt.order
        return [
            replace(tilt, floor=min(floor, tilt.cap if tilt.knee is None else tilt.knee))
            if jumps
            else Tilt(
                order,
                min(far, 1.01 * max(step.pair.loss_range[1], floor, 1e-9)),
                max(floor, 0.0) if self.rising else floor,
            )
            for step, floor, jumps in zip(self.steps, self.floors, self.jumps, strict=True)
        ]

    def bounds(self, tilt: Tilt) -> list[TiltedBounds]:
        """Bounds of each pair under a tilt, each with its own floor."""
        # one table for orders of one size
        reach = 2.0 ** math.ceil(math.log2(max(tilt.jump_order or tilt.order, 1.0)))
        if reach not in self._tables:
            width = 0.2 / reach
            self._tables[reach] = []
            for step, floor in zip(self.steps, self.floors, strict=True):
                low = max(floor, step.pair.loss_range[0])
                high = min(float(self.caps[-1]), step.pair.loss_range[1])
                even = (
                    np.linspace(low, high, min(4 * _COARSE, 2 + int((high - low) / width)))
                    if low < high
                    else np.empty(0)
                )
                losses = np.concatenate((self.caps, self.knees, [floor, 0.0], even))
                self._tables[reach].append(CellTable.of(step.pair, reach, _COARSE, losses))
        tilts = self.tilts(tilt) if tilt.order else [tilt] * len(self.steps)
        return [
            TiltedBounds(step.pair, table, own)
            for step, table, own in zip(self.steps, self._tables[reach], tilts, strict=True)
        ]

    def snap(self, cap: float) -> float:
        """The nearest cap that is an edge of the tables."""
        return float(self.caps[int(np.argmin(np.abs(self.caps - cap)))])

    def tilt(
        self, order: float, cap: float, knee: float | None = None, jump_order: float | None = None
    ) -> Tilt:
        """A tilt whose floor is filled in for each pair."""
        return Tilt(order, cap, min(0.0, cap, *self.floors), knee, jump_order)

    def objective(self, tilt: Tilt) -> float:
        """``log`` of the bound on ``E[X^2]``, and a little of the bound on ``X`` to decide between
        equals.
        """
        bounds, log_normaliser = self._normalised(tilt)
        of_s = MomentBound(self.counts, bounds, log_normaliser, self.epsilon, 2.0)
        centre = math.log(2.0 * tilt.order)
        best = minimize_scalar(
            lambda x: of_s(math.exp(x)),
            bounds=(centre - 2.0, centre + 1.5),
            method="bounded",
            options={"xatol": 0.02},
        )
        log_b = log_greatest(self.counts, bounds, log_normaliser, self.epsilon)
        return float(best.fun) + 1e-4 * min(log_b, 1e4)

    def _normalised(self, tilt: Tilt) -> tuple[list[TiltedBounds], float]:
        bounds = self.bounds(tilt)
        return bounds, math.fsum(
            n * b.log_normaliser for n, b in zip(self.counts, bounds, strict=True)
        )

    def run(self, *, quick: bool = False) -> Tilt:
        """The best tilt, in either way to treat the kinds that do not jump."""
        found = []
        for rising in (True,) if all(self.jumps) else (True, False):
            self.rising, self.steep = rising, True
            tilt = self._run(quick=quick)
            found.append((self.objective(tilt), rising, self.steep, tilt))
        _, self.rising, self.steep, best = min(found, key=lambda x: x[0])
        return best

    def _run(self, *, quick: bool) -> Tilt:
        """One slope, from a near and from a far cap; a second slope where rare jumps would make
        samples huge.
        """
        if quick:
            found = self._one_slope(float(self.caps[_CAPS // 3]), evaluations=14)
            return self._whole(found[1]) if self.integer else found[1]
        ones = [self._one_slope(float(start)) for start in (self.caps[_CAPS // 3], self.caps[-1])]
        found = min(ones, key=lambda x: x[0])
        if self._jumps_rule(found[1]):
            found = self._or_bounded(self._or_two_slopes(found), ones)
        return self._whole(found[1]) if self.integer else found[1]

    def _or_two_slopes(self, found: tuple[float, Tilt]) -> tuple[float, Tilt]:
        """The best of one slope and of two, in either way to treat the kinds that do not jump."""
        best, ways = (found, self.steep), (True,) if all(self.jumps) else (True, False)
        for steep in ways if self.two_slopes else ():
            self.steep = steep
            two = min(
                (self._second_slope(found[1], knee) for knee in self.knees.tolist()),
                key=lambda x: x[0],
            )
            best = min(best, (two, steep), key=lambda x: x[0][0])
        found, self.steep = best
        return found

    def _or_bounded(
        self, found: tuple[float, Tilt], others: list[tuple[float, Tilt]]
    ) -> tuple[float, Tilt]:
        """Another tilt whose samples are all small, if there is one: then ``E[X^2] <= B delta`` is
        far below the bound that is searched.

        With ``B`` at most a few times the root of the found bound, that is a few times the root of
        the bound times delta.
        """
        log_b, other = min(((self._log_greatest(o[1]), o) for o in others), key=lambda x: x[0])
        return other if log_b <= found[0] / 2 + math.log(_SMALL) else found

    def _log_greatest(self, tilt: Tilt) -> float:
        bounds, log_normaliser = self._normalised(tilt)
        return log_greatest(self.counts, bounds, log_normaliser, self.epsilon)

    def _one_slope(self, start: float, evaluations: int = 40) -> tuple[float, Tilt]:
        """Nelder-Mead over order and cap, from the order that centres the
        tilted loss at epsilon.
        """
        cap = self.snap(start)

        def chernoff(log_order: float) -> float:
            order = math.exp(log_order)
            return self._normalised(self.tilt(order, cap))[1] - order * self.epsilon

        first = minimize_scalar(
            chernoff, bounds=(-3.0, 8.0 + self._steeper), method="bounded", options={"xatol": 0.05}
        )

        def make(point: Floats) -> Tilt:
            return self.tilt(self._exp(point[0]), self.snap(self.base + self._exp(point[1])))

        return self._descend(
            make, [float(first.x), math.log(cap - self.base)], [0.25, -0.4], evaluations
        )

    def _second_slope(self, tilt: Tilt, knee: float) -> tuple[float, Tilt]:
        least = float(self.caps[np.searchsorted(self.caps, knee)])  # no cap below the knee

        def make(point: Floats) -> Tilt:
            order, cap = self._exp(point[0]), self.snap(max(self.base + self._exp(point[2]), least))
            return self.tilt(order, cap, knee, order + self._exp(point[1]))

        start = [
            math.log(0.7 * tilt.order),
            math.log(0.4 * tilt.order),
            math.log(tilt.cap - self.base),
        ]
        return self._descend(make, start, [-0.3, 0.4, 0.3])

    def _descend(
        self,
        make: Callable[[Floats], Tilt],
        start: list[float],
        spread: list[float],
        evaluations: int = 40,
    ) -> tuple[float, Tilt]:
        def objective(point: Floats) -> float:
            return self.objective(make(point))

        simplex: Floats = np.array(start) + np.vstack((np.zeros(len(start)), np.diag(spread)))
        found = minimize(
            objective,
            start,
            method="Nelder-Mead",
            options={
                "initial_simplex": simplex,
                "xatol": 0.01,
                "fatol": 0.01,
                "maxfev": evaluations * len(start),
            },
        )
        return float(found.fun), make(found.x)

    def _jumps_rule(self, tilt: Tilt) -> bool:
        """Whether the bound on a sample is that of a jump, far above that of many small losses."""
        order, log_normaliser = tilt.order, self._normalised(tilt)[1]
        together = log_normaliser - order * self.epsilon + log_peak(order)
        return self._log_greatest(tilt) > together + math.log(300.0)

    def _whole(self, tilt: Tilt) -> Tilt:
        """The best whole orders next to those found, which can be drawn fast; those found where
        whole ones are much worse.
        """
        index = int(np.argmin(np.abs(self.caps - tilt.cap)))
        near = [
            float(c) for c in self.caps[max(0, index - 2) : index + 3] if c >= (tilt.knee or 0.0)
        ]
        orders = {max(1.0, float(f(tilt.order))) for f in (math.floor, math.ceil)}
        jumps = (
            {None}
            if tilt.jump_order is None
            else {float(f(tilt.jump_order)) for f in (math.floor, math.ceil)}
        )
        candidates = [
            self.tilt(order, cap, tilt.knee, None if jump is None else max(order, jump))
            for order in orders
            for jump in jumps
            for cap in near
            if max(order, jump or 0.0) <= MOST_ORDER
        ]
        if not candidates:
            return tilt
        best = min(candidates, key=self.objective)
        return best if self.objective(best) <= self.objective(tilt) + math.log(4.0) else tilt

    def _exp(self, x: float) -> float:
        return math.exp(min(max(float(x), -20.0 - self._steeper), 9.0 + self._steeper))
