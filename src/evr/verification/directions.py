"""One direction of a verification: decided without a sample, or played by the
driver from a plan.
"""

from __future__ import annotations

import hashlib
import math
import time
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import NamedTuple

from evr import validate
from evr.bounds.reach import DOUBT, reach
from evr.bounds.rounding import Rounding
from evr.laws import Direction, Step, greatest_loss, on_a_line
from evr.mechanisms import Composition
from evr.randomness import Stream
from evr.sampling import Plan, Proposal, built, worker_count
from evr.verification.claims import Claim
from evr.verification.driver import Driver, Ending, Hooks, Test
from evr.verification.executors import at_a_time, working
from evr.verification.fixed import FixedPlan, FixedTest, plan_fixed
from evr.verification.results import DirectionReport, Progress
from evr.verification.sequential import LEAST, SequentialState, SequentialTest, sequential_test
from evr.verification.settings import Settings
from evr.verification.summary import BACKENDS, Work

_TAUS = (0.999, 0.99, 0.95, 0.9, 0.8, 0.7, 0.5, 0.3, 0.1)  # to name one that would do

_PILOT_SECONDS, _PILOT_BLOCKS = 0.3, 64  # at the most, of what a forecast is tried on
_ENDLESS = 10**18  # samples
_FEW_NUMBERS = 1e8  # that are drawn to see whether a claim is plainly false
TOO_LONG = {"cpu": 3e12, "cuda": 3e15}
"""Steps to draw that nobody waits for: hours to days on one core, or on a GPU. Refused unless
``max_samples`` says otherwise.
"""


class Expected(NamedTuple):
    """What a direction is about to take."""

    samples: int
    seconds: float


@dataclass(frozen=True)
class Trial:
    """One direction of one attempt: what is claimed of which steps, and what may be spent on it.

    Attributes
    ----------
    direction, steps
        The steps of that direction, simplified.
    claim, settings
        What is tested, and how.
    attempt
        Its number; None for the paper's single attempt.
    log_budget
        ``log`` of the false-positive probability that it may have.
    stream
        The random numbers.
    """

    direction: str
    steps: tuple[Step, ...]
    claim: Claim
    settings: Settings
    attempt: int | None
    log_budget: float
    stream: Stream

    def run(
        self,
        plan: Plan | None,
        hooks: Hooks,
        *,
        executor: Executor | None = None,
        workers: int | None = None,
    ) -> DirectionReport:
        """Decide the claim; the plan may be None where ``shortcut`` decides it."""
        start = time.perf_counter()
        report = self._ready(plan)
        if not isinstance(report, DirectionReport):
            assert plan is not None
            play = self._sequential if self.settings.method == "sequential" else self._fixed
            with working(executor, workers) as pool:
                report = play(report, plan, pool, hooks, at_a_time(executor, workers))
        return replace(report, seconds=time.perf_counter() - start)

    def expected(
        self, plan: Plan | None, workers: int | None = None, delta: float | None = None
    ) -> Expected:
        """About how many samples ``run`` would take, and how long; what it would refuse is refused.

        Speed and variance are those of a pilot, whose samples serve nothing else. ``delta`` is what
        is thought of this direction, by default what is claimed. The pilot decides where it
        contradicts that.
        """
        proposal = self._ready(plan)
        if isinstance(proposal, DirectionReport):
            return Expected(0, 0.0)
        assert plan is not None
        if self.settings.method == "sequential":
            test = self._sequential_test(proposal, plan)
            each, seen = _piloted(self._work(proposal, plan, test.clip, test.mean))
            mean = test.estimate if delta is None else delta / self.claim.threshold
            if seen.contradicts(mean):
                mean = seen.total / seen.samples
            most = self.settings.max_samples or _ENDLESS
            samples = round(min(test.samples_expected(mean, seen.variance()), most))
            samples = min(most, plan.block_size * max(1, -(-samples // plan.block_size)))
        else:
            samples = self._fixed_plan(proposal, _too_long(plan)).samples
            each, _ = _piloted(self._work(proposal, plan, math.inf, 0.0))
        return Expected(samples, each * samples / worker_count(workers))

    def _ready(self, plan: Plan | None) -> DirectionReport | Proposal:
        """What decides the claim without a sample; else what to draw from, once it is checked."""
        claim = self.claim
        if found := shortcut(self.steps, claim):
            return self._decided(found, None)
        if plan is None:
            raise ValueError(f"direction {self.direction!r} needs samples, and has no plan")
        validate.one_of(tuple(BACKENDS), device=plan.device)
        proposal = built(plan, self.steps)
        rounding = proposal.rounding(claim.epsilon)
        composed = rounding if proposal.composed else None
        if proposal.steps != self.steps and (found := shortcut(proposal.steps, claim, composed)):
            return self._decided(found, plan)
        log_bound = proposal.log_greatest(rounding.bounded(claim.epsilon)) + rounding.weight
        if not log_bound > -math.inf:
            raise ValueError(
                f"direction {self.direction!r}: a sample of this plan is at most 0 though losses "
                "exceed epsilon, which cannot be: the plan is out of the range of floats"
            )
        if log_bound <= math.log(claim.threshold):
            found = Ending(True, "a proved bound on delta is below the claim")
            return self._decided(found, plan, bound=math.exp(log_bound))
        check_rounding(proposal, claim, self.steps)
        return proposal

    def _decided(
        self, found: Ending, plan: Plan | None, bound: float | None = None
    ) -> DirectionReport:
        """A report without samples."""
        trivial = self.claim.value if found.accepted else 1.0
        return DirectionReport(
            direction=self.direction,
            accepted=found.accepted,
            reason=found.reason,
            threshold=self.claim.threshold,
            bound=trivial if bound is None else bound,
            plan=None if plan is None else replace(plan, clip=None, variance=1.0, block_size=1),
        )

    def _work(self, proposal: Proposal, plan: Plan, clip: float, mean: float) -> Work:
        """What workers do; a block more than ``10 weight`` above its bound stops the run."""
        claim, log_unit = self.claim, math.log(self.claim.threshold)
        rounding = proposal.rounding(claim.epsilon)
        log_greatest = proposal.log_greatest(rounding.bounded(claim.epsilon)) - log_unit
        return Work(
            proposal=proposal,
            stream=self.stream,
            block_size=plan.block_size,
            epsilon=rounding.sampled(claim.epsilon),
            log_unit=log_unit,
            greatest=math.exp(min(log_greatest + 10.0 * rounding.weight, 700.0)),
            clip=clip,
            mean=mean,
            device=plan.device,
        )

    def _sequential_test(self, proposal: Proposal, plan: Plan) -> SequentialTest:
        """The test, unless nobody would wait for it."""
        claim = self.claim
        test = sequential_test(
            proposal,
            claim,
            self.log_budget,
            clip=plan.clip,
            variance=plan.variance,
            block=plan.block_size,
        )
        expected = _wanted(test)
        if (
            self.settings.max_samples is None
            and expected * proposal.work > _too_long(plan)
            and not self._plainly_false(proposal, plan, test)
        ):
            raise ValueError(
                f"verifying this in direction {self.direction!r} would take about {expected:.2g} "
                f"samples, each of {proposal.work} numbers or so: "
                f"{self._remedy(proposal, plan, expected)}, or set max_samples"
            )
        return test

    def _plainly_false(self, proposal: Proposal, plan: Plan, test: SequentialTest) -> bool:
        """Whether the claim is rejected as soon as any is, however long a true one would take.

        That is tried on samples that serve nothing else.
        """
        if LEAST * proposal.work > _FEW_NUMBERS:
            return False
        work = _elsewhere(self._work(proposal, plan, test.clip, test.mean))
        tried = SequentialState()
        for block in range(math.ceil(LEAST / plan.block_size)):
            tried.add(BACKENDS[work.device](work, block, work.block_size, 0.0))
        return tried.beyond_doubt(test.mean)

    def _remedy(self, proposal: Proposal, plan: Plan, expected: float) -> str:
        """What would do instead of so many samples: a lower tau, a GPU, or neither."""
        ways = [] if self.settings.proposal == "capped" else ["use proposal='capped'"]
        tau = self._affordable_tau(proposal, plan)
        if tau is not None:
            ways.append(f"lower tau (now {self.claim.tau!r}) to {tau!r}, which would do")
        if on_a_line(self.steps):
            ways.append("use method='strict'")
        elif plan.device == "cpu" and expected * proposal.work <= TOO_LONG["cuda"]:
            ways.append("draw on a GPU (device='cuda'), which would do")
        elif tau is None:
            ways.append(
                f"no tau from {_TAUS[-1]!r} on would do, for no affordable bound on samples is "
                "near delta. Strategies of fewer bands have one; without amplification "
                "MatrixMechanismDpEvent needs no sample"
            )
        return ", or ".join(ways) or f"lower tau (now {self.claim.tau!r})"

    def _affordable_tau(self, proposal: Proposal, plan: Plan) -> float | None:
        """The greatest of some taus at which samples would be few enough, about."""
        claim = self.claim
        for tau in (one for one in _TAUS if one < claim.tau):
            other = Claim(claim.epsilon, claim.delta, tau)
            variance = plan.variance * (claim.threshold / other.threshold) ** 2
            test = sequential_test(
                proposal, other, self.log_budget, clip=None, variance=variance, block=1
            )
            if test.mean > test.estimate and test.samples_left() * proposal.work < _too_long(plan):
                return tau
        return None

    def _sequential(
        self, proposal: Proposal, plan: Plan, pool: Executor, hooks: Hooks, workers: int
    ) -> DirectionReport:
        claim, most = self.claim, self.settings.max_samples
        test = self._sequential_test(proposal, plan)
        work = self._work(proposal, plan, test.clip, test.mean)
        driver = self._driver(work, test, plan, most)
        ending = driver.play(pool, hooks)
        if not ending.accepted:
            self._check_rejection(work, driver.record.mean_and_error()[0])
        report = self._played(driver, ending, proposal, plan)
        return replace(
            report,
            plan=plan if test.correction > 0 else replace(plan, clip=None),
            log_wealth=test.log_wealth,
            log_target=test.log_target,
            clip=test.clip * claim.threshold if test.correction > 0 else None,
            correction=test.correction * claim.threshold,
        )

    def _fixed(
        self, proposal: Proposal, plan: Plan, pool: Executor, hooks: Hooks, workers: int
    ) -> DirectionReport:
        fixed = self._fixed_plan(proposal, _too_long(plan))
        rounding = proposal.rounding(self.claim.epsilon)
        test = FixedTest(fixed, rounding.weight)
        work = self._work(proposal, plan, math.inf, 0.0)
        driver = self._driver(work, test, plan, fixed.samples, unit=fixed.threshold)
        if hooks.progress is not None and hooks.resume is None:
            left = fixed.samples * _piloted(work)[0] / workers
            hooks.progress(
                Progress(self.direction, 0, fixed.samples, math.nan, 0.0, 0.0, 0.0, left, fixed)
            )
        ending = driver.play(pool, hooks)
        if not ending.accepted:
            self._check_rejection(work, driver.record.mean_and_error()[0])
        report = self._played(driver, ending, proposal, plan)
        return replace(
            report,
            plan=replace(plan, clip=None, variance=1.0),
            threshold=fixed.threshold,
            second_moment=fixed.second_moment,
            correction=fixed.offset,
        )

    def _fixed_plan(self, proposal: Proposal, too_long: float) -> FixedPlan:
        claim, settings = self.claim, self.settings
        rounding = proposal.rounding(claim.epsilon)
        log_moment = proposal.log_moment(rounding.bounded(claim.epsilon), 2.0)
        log_moment += 2.0 * rounding.weight
        if not log_moment > -math.inf:
            raise ValueError("a second moment of 0 cannot be: the plan is out of floats' range")
        fixed = plan_fixed(claim, log_moment, attempt=self.attempt, offset=settings.offset)
        if settings.max_samples is not None and fixed.samples > settings.max_samples:
            raise ValueError(
                f"max_samples={settings.max_samples!r} is below the {fixed.samples:.6g} samples "
                f"that the false-positive bound needs in direction {self.direction!r} (nu = "
                f"{fixed.second_moment:.4g}, Delta = {fixed.offset:.4g}): raise it, lower tau, or "
                "use method='sequential'"
            )
        if settings.max_samples is None and fixed.samples * proposal.work > too_long:
            raise ValueError(
                f"the fixed verifier needs {fixed.samples:.6g} samples of {proposal.total_steps} "
                f"steps in direction {self.direction!r}: lower tau (now {claim.tau!r}), "
                "use method='sequential', or set max_samples"
            )
        return fixed

    def _driver(
        self, work: Work, test: Test, plan: Plan, most: int | None, unit: float | None = None
    ) -> Driver:
        unit = self.claim.threshold if unit is None else unit
        work = replace(work, log_unit=math.log(unit))
        return Driver(self.direction, work, test, unit=unit, most=most, run=self._run_id(plan))

    def _run_id(self, plan: Plan) -> str:
        """What a snapshot belongs to: all that its numbers depend on, as a digest."""
        parts = (self.direction, plan.digest, self.steps, self.claim, self.settings, self.attempt)
        return hashlib.sha256(repr((*parts, self.log_budget, self.stream)).encode()).hexdigest()

    def _check_rejection(self, work: Work, mean: float) -> None:
        """Refuse instead of rejecting where the rounding of losses may be all that speaks against
        the claim.

        Samples are taken below epsilon by that rounding. The claim is believed to be false if
        their ``mean``, in units of the threshold, would also exceed 1 as far above epsilon; a
        block tells by what factor it would fall.
        """
        rounding = work.proposal.rounding(self.claim.epsilon)
        if mean <= 1.0 or 2.0 * rounding.loss < (mean - 1.0) * self.claim.threshold:
            return
        above = replace(work, epsilon=self.claim.epsilon + rounding.loss)
        whole = work(0, work.block_size, 0.0).total
        if above(0, work.block_size, 0.0).total * mean <= whole:
            raise _too_coarse(self.claim, rounding)

    def _played(
        self, driver: Driver, ending: Ending, proposal: Proposal, plan: Plan
    ) -> DirectionReport:
        claim, record, unit = self.claim, driver.record, driver.unit
        epsilon = proposal.rounding(claim.epsilon).bounded(claim.epsilon)
        mean, error = record.mean_and_error()
        return DirectionReport(
            direction=self.direction,
            accepted=ending.accepted,
            reason=ending.reason,
            samples=record.samples,
            blocks=record.blocks,
            block_size=plan.block_size,
            estimate=unit * mean,
            standard_error=unit * error,
            threshold=unit,
            bound=proposal.greatest(epsilon),
            second_moment=proposal.second_moment(epsilon),
            plan=plan,
            trace=tuple(record.trace),
            histogram=tuple(record.histogram),
        )


def _too_long(plan: Plan) -> float:
    return TOO_LONG.get(plan.device, TOO_LONG["cpu"])


def shortcut(
    steps: tuple[Step, ...], claim: Claim, rounding: Rounding | None = None
) -> Ending | None:
    """Whether the claim is accepted, and why, where no sample is needed: delta is known, or the
    claim is trivial or hopeless. What floats cannot tell is refused by a ``ValueError``.
    ``rounding`` is that of the single steps which composed ones stand for (docs/guarantees.md,
    Section 6.10).
    """
    if claim.value >= 1.0:
        return Ending(True, "every delta is at most 1")
    if not steps:
        return Ending(True, "nothing costs privacy")
    found = reach(steps, claim.epsilon if rounding is None else rounding.bounded(claim.epsilon))
    rounding = rounding or Rounding.of(steps, claim.epsilon)
    if found.is_pure:
        return Ending(True, "no privacy loss exceeds epsilon")
    if claim.value == 0.0:
        return Ending(False, "delta is positive: no sample could show it to be 0")
    if found.infinite >= 1.0:
        return Ending(False, "a mechanism without privacy")
    infinite = found.infinite * (1.0 + rounding.weight)
    if infinite > claim.threshold:
        return Ending(False, f"infinite losses alone have a probability of {found.infinite:.6g}")
    if found.finite > claim.epsilon:
        return None
    if infinite + found.excess > claim.threshold:
        near = claim.epsilon + 2 * DOUBT * abs(found.finite)
        raise ValueError(
            f"epsilon={claim.epsilon!r}: to within rounding, the greatest loss is epsilon, and "
            f"floats cannot tell whether a loss exceeds it: claim epsilon={near!r} or more"
        )
    rest = f", and infinite ones have a probability of {found.infinite:.6g}" if infinite else ""
    return Ending(True, f"no finite loss exceeds epsilon{rest}")


def check_rounding(proposal: Proposal, claim: Claim, steps: tuple[Step, ...]) -> None:
    """Refuse where floats are too coarse for the slack: a true claim would be rejected, and nobody
    could tell why.
    """
    rounding, order = proposal.rounding(claim.epsilon), proposal.order
    sensitivity = 1.0 + order if order else 1.0 / claim.threshold
    # all losses may exceed it by little
    beyond = min(greatest_loss(steps), greatest_loss(proposal.steps)) - claim.epsilon
    sensitivity = max(sensitivity, 1.0 / beyond if beyond > 0.0 else 0.0)
    if not min(2.0 * rounding.loss * sensitivity, 1.0) < (1.0 - claim.tau) / 2.0:
        raise _too_coarse(claim, rounding)
    if not rounding.weight < 1.0 - claim.tau:
        raise ValueError(
            f"rounding over {proposal.total_steps} steps may be as large as {rounding.weight:.2g} "
            f"of delta, and tau = {claim.tau!r} leaves less than that: lower tau, or account for "
            "fewer steps"
        )


def _too_coarse(claim: Claim, rounding: Rounding) -> ValueError:
    return ValueError(
        f"epsilon={claim.epsilon!r}: floats know total losses of this composition to within "
        f"{rounding.loss:.2g} only, and delta may change by more than the slack "
        f"1 - tau = {1.0 - claim.tau:.2g} within that: lower tau"
    )


def _wanted(test: SequentialTest) -> float:
    """About how many samples an exact estimate takes."""
    return test.samples_left() if test.mean > test.estimate else math.inf


def _elsewhere(work: Work) -> Work:
    """The same work on samples that serve nothing else."""
    return replace(work, stream=replace(work.stream, purpose=f"{work.stream.purpose}, time"))


def _piloted(work: Work) -> tuple[float, SequentialState]:
    """About how long a sample takes on one core, and the samples that this was tried on: they serve
    nothing else.
    """
    trial = replace(_elsewhere(work), block_size=max(1, work.block_size // 8))
    summarise = BACKENDS[trial.device]
    summarise(replace(trial, block_size=1), 0, 1, 0.0)  # sets things up
    # the time of this thread alone, so that a busy machine does not make the forecast longer
    clock = time.thread_time if trial.device == "cpu" else time.perf_counter
    start, seen = clock(), SequentialState()
    for block in range(_PILOT_BLOCKS):
        seen.add(summarise(trial, block, trial.block_size, 0.0))
        if (taken := clock() - start) > _PILOT_SECONDS:
            break
    return taken / seen.samples, seen


def tested_directions(
    composition: Composition, direction: str | None
) -> tuple[list[Direction], bool]:
    """The directions to test, and whether one stands for both because they are the same."""
    if direction is not None:
        return [Direction(direction)], False
    if composition.is_symmetric:
        return [Direction.REMOVE], True
    return [Direction.REMOVE, Direction.ADD], False
