"""Driving a test: blocks of samples in order, progress, the reasons to stop."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from evr.laws import Direction, Floats, Step, greatest_loss, infinite_mass
from evr.laws.line.laplace import LaplacePair
from evr.mechanisms import Composition
from evr.randomness import Stream
from evr.sampling import Proposal, blocks, worker_count
from evr.verification.claims import Claim, rounding
from evr.verification.fixed import FixedPlan
from evr.verification.results import DirectionReport, Progress
from evr.verification.sequential import Clip, SequentialTest, choose_clip

TOO_LONG = 3e12
"""Steps to draw that nobody waits for: hours to days on one core. Refused unless ``max_samples`` says otherwise."""

HISTOGRAM_EDGES = np.concatenate(([-np.inf], np.linspace(-6.0, 4.0, 41), [np.inf]))
_TRACE = 240
_DOUBT = 1e-14  # relative, of a sum of greatest losses
_CHECKPOINT_SECONDS = 2.0


@dataclass
class Record:
    """Sums of unclipped samples and what the report shows of a run."""

    total: float = 0.0
    squares: float = 0.0
    trace: list[tuple[int, float, float, float]] = field(default_factory=list)
    histogram: Any = field(default_factory=lambda: np.zeros(HISTOGRAM_EDGES.size, dtype=np.int64))
    stride: int = 1
    blocks: int = 0

    def add(self, values: Floats) -> None:
        self.total += float(np.sum(values))
        self.squares += float(np.sum(values * values))
        positive = values[values > 0]
        self.histogram[0] += values.size - positive.size
        self.histogram[1:] += np.histogram(np.log10(positive), HISTOGRAM_EDGES)[0]
        self.blocks += 1

    def mark(self, samples: int, unit: float, log_wealth: float) -> None:
        if self.blocks % self.stride:
            return
        mean, error = self.mean_and_error(samples)
        self.trace.append((samples, unit * mean, unit * error, log_wealth))
        if len(self.trace) > _TRACE:
            self.trace = self.trace[1::2]
            self.stride *= 2

    def mean_and_error(self, samples: int) -> tuple[float, float]:
        mean = self.total / samples
        return mean, math.sqrt(max(self.squares / samples - mean**2, 0.0) / samples)


ProgressHook = Callable[[Progress], None]
Checkpoint = Callable[[str, dict[str, Any]], None]


def shortcut(steps: tuple[Step, ...], claim: Claim) -> tuple[bool, str] | None:
    """Whether the claim is accepted, and why, where no sample is needed: delta is known, or the claim is trivial or hopeless."""
    if claim.value >= 1.0:
        return True, "every delta is at most 1"
    if not steps:
        return True, "nothing costs privacy"
    infinite = infinite_mass(steps)
    reach = greatest_loss(steps)
    doubt = 0.0 if all(_is_exact(step) for step in steps) else _DOUBT * abs(reach)
    bounded, excess = reach <= claim.epsilon, max(0.0, reach + doubt - claim.epsilon)
    if bounded and infinite == excess == 0.0:
        return True, "no privacy loss exceeds epsilon"
    if claim.value == 0.0:
        return False, "delta is positive: no sample could show it to be 0"
    if infinite >= 1.0:
        return False, "a mechanism without privacy"
    if infinite * (1.0 + rounding(sum(step.count for step in steps))) > claim.threshold:
        return False, f"infinite losses alone have a probability of {infinite:.6g}"
    if bounded and infinite * (1.0 + rounding(sum(step.count for step in steps))) + excess > claim.threshold:
        return (
            False,
            f"to within rounding, the greatest loss is epsilon: claim {claim.epsilon * (1 + 2 * _DOUBT)!r} or more",
        )
    if bounded:
        rest = f", and infinite ones have a probability of {infinite:.6g}" if infinite else ""
        return True, f"no finite loss exceeds epsilon{rest}"
    return None


def _is_exact(step: Step) -> bool:
    """Whether the greatest loss of Laplace noise is no rounded number, as at a scale of 2, and its multiple neither."""
    if not isinstance(step.law, LaplacePair):
        return False
    loss = Fraction(step.law.loss_range[1])
    return loss * Fraction(step.law.scale) == 1 and float(loss * step.count) == loss * step.count


def decided(
    direction: str, proposal: Proposal | None, claim: Claim, reason: str, bound: float, seconds: float
) -> DirectionReport:
    """A report without samples."""
    return DirectionReport(
        direction, True, reason, 0, 0, proposal.block_size() if proposal else 0, math.nan, math.nan, None, None,
        claim.threshold, bound, proposal.second_moment(claim.epsilon) if proposal else 0.0, None, 0.0,
        proposal.parameters() if proposal else {"name": "none"}, seconds,
    )  # fmt: skip


def sequential_test(proposal: Proposal, claim: Claim, log_budget: float) -> tuple[SequentialTest, Clip]:
    """The test of one direction, in units of the threshold."""
    log_unit = math.log(claim.threshold)
    estimate = claim.delta / claim.threshold
    room = rounding_of(proposal)
    clip = choose_clip(proposal, claim.epsilon, log_unit=log_unit, estimate=estimate, rounding=room)
    rho = (1.0 + claim.tau) / 2.0
    test = SequentialTest(
        clip=clip.clip,
        correction=clip.correction,
        log_target=-log_budget,
        estimate=estimate,
        hope=estimate / rho,
        variance=clip.variance,
        rounding=room,
    )
    test.block = proposal.block_size()
    return test, clip


def run_sequential(
    direction: str,
    proposal: Proposal,
    claim: Claim,
    log_budget: float,
    stream: Stream,
    *,
    max_samples: int | None = None,
    workers: int | None = None,
    progress: ProgressHook | None = None,
    checkpoint: Checkpoint | None = None,
    resume: dict[str, Any] | None = None,
) -> DirectionReport:
    """Play blocks until the wealth suffices, hope is gone or the samples are used up."""
    start = time.perf_counter()
    size, unit = proposal.block_size(), claim.threshold
    log_unit = math.log(unit)
    test, clip = sequential_test(proposal, claim, log_budget)
    if rounding_of(proposal) >= 1.0 - claim.tau:
        raise ValueError(
            f"rounding over {proposal.total_steps} steps may be as large as {rounding_of(proposal):.2g} of delta, and tau = "
            f"{claim.tau!r} leaves less than that: lower tau, or account for fewer steps"
        )
    expected = test.log_target / clip.growth if clip.growth > 0 else math.inf
    if max_samples is None and expected * proposal.work > TOO_LONG:
        raise ValueError(
            f"verifying this in direction {direction!r} would take about {expected:.2g} samples of "
            f"{proposal.total_steps} steps: lower tau (now {claim.tau!r}){_other(proposal)}, or set max_samples"
        )
    greatest = greatest_value(proposal, claim.epsilon, log_unit)
    record, run = Record(), run_id(direction, proposal, claim, log_budget, stream)
    if resume:
        continue_from(record, resume, run)
        test.restore(resume["test"])

    def reason_to_stop() -> str:
        if test.accepted:
            return "the wealth reached its target"
        if gone := test.hopeless():
            return gone
        return "max_samples is used up" if max_samples is not None and test.state.samples >= max_samples else ""

    reason = reason_to_stop() if resume else ""
    shown = saved = start
    for block in blocks(proposal, stream, size, first=record.blocks, workers=workers) if not reason else ():
        values = checked(block.values(claim.epsilon, log_unit), greatest)
        if max_samples is not None:
            values = values[: max_samples - test.state.samples]
        test.update(values)
        record.add(values)
        samples, wealth = test.state.samples, test.state.log_wealth
        record.mark(samples, unit, wealth)
        reason = reason_to_stop()
        now = time.perf_counter()
        if progress is not None and (reason or now - shown > 0.2):
            left = (now - start) / samples * max(0.0, test.expected_samples() * (1 - wealth / test.log_target))
            most = test.most_samples()
            progress(
                Progress(direction, samples, int(most) if math.isfinite(most) else max_samples, unit * record.total / samples,
                         wealth, test.log_target, now - start, left)
            )  # fmt: skip
            shown = now
        if checkpoint is not None and (reason or now - saved > _CHECKPOINT_SECONDS):
            checkpoint(direction, {"run": run, "test": test.snapshot(), "record": dump_record(record)})
            saved = now
        if reason:
            break
    samples = test.state.samples
    mean, error = record.mean_and_error(samples)
    clipped = clip.clip * unit if clip.correction > 0 else None
    return DirectionReport(
        direction, test.accepted, reason, samples, record.blocks, size, unit * mean, unit * error, test.state.log_wealth,
        test.log_target, unit, proposal.greatest(claim.epsilon), proposal.second_moment(claim.epsilon), clipped,
        unit * clip.correction, proposal.parameters(), time.perf_counter() - start, tuple(record.trace),
        tuple(int(n) for n in record.histogram),
    )  # fmt: skip


def run_fixed(
    direction: str,
    proposal: Proposal,
    claim: Claim,
    plan: FixedPlan,
    stream: Stream,
    *,
    workers: int | None = None,
    progress: ProgressHook | None = None,
    checkpoint: Checkpoint | None = None,
    resume: dict[str, Any] | None = None,
) -> DirectionReport:
    """Draw ``plan.samples`` samples and compare their mean."""
    start = time.perf_counter()
    size, unit = proposal.block_size(), plan.threshold
    record, shown, saved = Record(), start, start
    greatest, run = (
        greatest_value(proposal, claim.epsilon, math.log(unit)),
        run_id(direction, proposal, claim, plan, stream),
    )
    if resume:
        continue_from(record, resume, run)
    samples = min(record.blocks * size, plan.samples)
    if progress is not None and samples < plan.samples:
        left = (plan.samples - samples) * _seconds_for_each(proposal, stream) / worker_count(workers)
        progress(Progress(direction, samples, plan.samples, math.nan, 0.0, 0.0, 0.0, left, plan))
        shown = time.perf_counter()
    for block in blocks(proposal, stream, size, first=record.blocks, workers=workers) if samples < plan.samples else ():
        values = checked(block.values(claim.epsilon, math.log(unit)), greatest)[: plan.samples - samples]
        record.add(values)
        samples += values.size
        record.mark(samples, unit, math.nan)
        done, now = samples >= plan.samples, time.perf_counter()
        if progress is not None and now - shown > 0.2:
            left = (now - start) / samples * (plan.samples - samples)
            progress(
                Progress(direction, samples, plan.samples, unit * record.total / samples, 0.0, 0.0, now - start, left)
            )
            shown = now
        if checkpoint is not None and (done or now - saved > _CHECKPOINT_SECONDS):
            checkpoint(direction, {"run": run, "record": dump_record(record)})
            saved = now
        if done:
            break
    mean, error = record.mean_and_error(samples)
    accepted = mean < 1.0 - plan.offset / unit - rounding_of(proposal)
    reason = f"the mean is {'below' if accepted else 'not below'} the threshold less the offset"
    return DirectionReport(
        direction, accepted, reason, samples, record.blocks, size, unit * mean, unit * error, None, None, unit,
        proposal.greatest(claim.epsilon), plan.second_moment, None, plan.offset, proposal.parameters(),
        time.perf_counter() - start, tuple(record.trace), tuple(int(n) for n in record.histogram),
    )  # fmt: skip


def _seconds_for_each(proposal: Proposal, stream: Stream) -> float:
    """About how long a sample takes on one core, tried on samples that serve nothing else."""
    size = max(1, proposal.block_size() // 8)
    generator = replace(stream, purpose=f"{stream.purpose}, time").block(0)
    proposal.draw(generator, 1)  # sets things up
    start = time.perf_counter()
    proposal.draw(generator, size)
    return (time.perf_counter() - start) / size


def _other(proposal: Proposal) -> str:
    return "" if proposal.name == "capped" else ", use proposal='capped'"


def rounding_of(proposal: Proposal) -> float:
    """The allowance for rounding of a proposal's samples and bounds."""
    return rounding(proposal.total_steps, proposal.order)


def greatest_value(proposal: Proposal, epsilon: float, log_unit: float) -> float:
    """The proved bound on a sample, in units of the threshold, with room for rounding."""
    room = 10.0 * rounding_of(proposal)
    return math.exp(min(proposal.log_greatest(epsilon) - log_unit + room, 700.0))


def checked(values: Floats, greatest: float) -> Floats:
    """The samples, or an error if one is not a number or above its proved bound: then nothing else may be believed."""
    most = float(values.max(initial=0.0))
    if not most <= greatest:
        raise ArithmeticError(
            f"a sample is {most!r} times the threshold, its proved bound {greatest!r}: a defect of evr, please report it"
        )
    return values


def run_id(direction: str, proposal: Proposal, claim: Claim, spent: Any, stream: Stream) -> str:
    """What a snapshot belongs to: all that its numbers depend on, as a digest."""
    parts = (direction, proposal.parameters(), proposal.steps, proposal.block_size(), claim, spent, stream)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def continue_from(record: Record, snapshot: dict[str, Any], run: str) -> None:
    """Restore the record of a snapshot; one of another run, whose wealth proves nothing here, is refused."""
    if snapshot.get("run") != run:
        raise ValueError(
            "resume= holds a snapshot of another verification: event, claim, attempt, method, proposal and seed must be the same"
        )
    restore_record(record, snapshot["record"])


def dump_record(record: Record) -> dict[str, Any]:
    """The record in JSON's types, exactly."""
    return {
        "total": record.total.hex(),
        "squares": record.squares.hex(),
        "trace": [[n, *(x.hex() for x in rest)] for n, *rest in record.trace],
        "histogram": record.histogram.tolist(),
        "stride": record.stride,
        "blocks": record.blocks,
    }


def restore_record(record: Record, data: dict[str, Any]) -> None:
    """Undo ``dump_record``."""
    record.total, record.squares = float.fromhex(data["total"]), float.fromhex(data["squares"])
    record.trace = [(int(n), float.fromhex(a), float.fromhex(b), float.fromhex(c)) for n, a, b, c in data["trace"]]
    record.histogram = np.array(data["histogram"], dtype=np.int64)
    record.stride, record.blocks = int(data["stride"]), int(data["blocks"])


def tested_directions(composition: Composition, direction: str | None) -> tuple[list[Direction], bool]:
    """The directions to test, and whether one stands for both because they are the same."""
    if direction is not None:
        return [Direction(direction)], False
    if composition.is_symmetric:
        return [Direction.REMOVE], True
    return [Direction.REMOVE, Direction.ADD], False
