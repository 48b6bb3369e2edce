"""What a proof will take, found out before an attempt is counted. What nobody would wait for, or what would be refused
later, is refused here. No guarantee rests on this.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from evr.errors import AccuracyError
from evr.estimation.api import estimate_delta, needs_samples
from evr.laws import on_a_line
from evr.mechanisms import Composition
from evr.planning.sampled import Planning
from evr.proving.strict import StrictProving
from evr.randomness import Stream
from evr.sampling import DrawPlan
from evr.validate import worker_count
from evr.verification.attempts import PURPOSE, tested_directions
from evr.verification.claims import Claim
from evr.verification.deciding import LEAST, FixedTest, SequentialTest, State, growth_of, init, sequential_test, turned
from evr.verification.directions import Trial
from evr.verification.driver import Driver
from evr.verification.results import DirectionReport
from evr.verification.settings import Settings
from evr.verification.summary import Work

TOO_LONG = {"cpu": 3e12, "cuda": 3e15}
"""Steps to draw that nobody waits for: hours to days on one core, or on a GPU. Refused unless ``max_samples`` says
otherwise.
"""

_TAUS = (0.999, 0.99, 0.95, 0.9, 0.8, 0.7, 0.5, 0.3, 0.1)  # to name one that would do
_PILOT_SECONDS, _PILOT_BLOCKS = 0.3, 64  # of a pilot, at the most
_ENDLESS = 10**18  # samples
_FEW_NUMBERS = 1e8  # that are drawn to see whether a claim is plainly false
_UNLIKELY = 3.0  # standard errors
_ROUNDS = 1000  # that are foretold one by one


def expected(
    trial: Trial, plan: DrawPlan | None, workers: int | None = None, delta: float | None = None
) -> tuple[int, float]:
    """About how many samples a direction takes, and how many seconds; what nobody would wait for is refused.

    Speed and variance are those of a pilot, whose samples serve nothing else. ``delta`` is what is thought of this
    direction, by default what is claimed. The pilot decides where it contradicts that.
    """
    found = affordable(trial, plan)
    if found is None:
        return 0, 0.0
    test, block = found.test, found.work.block_size
    each, seen = _piloted(found.work)
    if isinstance(test, FixedTest):
        samples = test.samples
    else:
        mean = test.estimate if delta is None else delta / found.unit
        error = math.sqrt(seen.clipped_variance / seen.samples)
        if abs(seen.clipped_mean - mean) > _UNLIKELY * error:
            mean = seen.clipped_mean
        most = found.most or _ENDLESS
        samples = round(min(_samples_expected(test, mean, seen.clipped_variance), most))
        samples = min(most, block * max(1, -(-samples // block)))
    return samples, each * samples / worker_count(workers)


def affordable(trial: Trial, plan: DrawPlan | None) -> Driver | None:
    """What is to be played, or None where no sample is needed. What nobody would wait for is refused."""
    found = trial.prepared(plan)
    if isinstance(found, DirectionReport):
        return None
    if trial.settings.max_samples is not None:
        return found
    test, proposal = found.test, found.drawing.proposal
    if isinstance(test, FixedTest):
        if test.samples * proposal.work > _too_long(found):
            raise ValueError(
                f"the fixed verifier needs {test.samples:.6g} samples of "
                f"{sum(step.count for step in proposal.steps)} steps in direction {trial.direction!r}: lower tau (now "
                f"{trial.claim.tau!r}), use method='sequential', or set max_samples"
            )
        return found
    wanted = test.samples_left(State()) if test.mean > test.estimate else math.inf
    if wanted * proposal.work > _too_long(found) and not _plainly_false(found, test):
        raise ValueError(
            f"verifying this in direction {trial.direction!r} would take about {wanted:.2g} samples, each of "
            f"{proposal.work} numbers or so: {_remedy(trial, found, wanted * proposal.work)}, or set max_samples"
        )
    return found


def _too_long(found: Driver) -> float:
    return TOO_LONG.get(found.plan.device, TOO_LONG["cpu"])


def _plainly_false(found: Driver, test: SequentialTest) -> bool:
    """Whether the claim is rejected as soon as any is: tried on samples that serve nothing else."""
    if LEAST * found.drawing.proposal.work > _FEW_NUMBERS:
        return False
    work, tried = _elsewhere(found.work), State()
    for block in range(math.ceil(LEAST / work.block_size)):
        tried = tried.added(work(block, work.block_size, 0.0))
    return test.beyond_doubt(tried)


def _remedy(trial: Trial, found: Driver, numbers: float) -> str:
    """What would do instead of drawing so many numbers: a lower tau, a GPU, or neither."""
    steps, now = trial.steps, trial.claim.tau
    ways = [] if trial.settings.proposal == "capped" else ["use proposal='capped'"]
    tau = _affordable_tau(trial, found)
    if tau is not None:
        ways.append(f"lower tau (now {now!r}) to {tau!r}, which would do")
    if all(step.exact is not None for step in steps):
        ways.append("use method='strict'")
    many_dimensions = not on_a_line(steps)  # a GPU draws nothing else
    if many_dimensions and found.plan.device == "cpu" and numbers <= TOO_LONG["cuda"]:
        ways.append("draw on a GPU (device='cuda'), which would do")
    elif many_dimensions and tau is None:
        ways.append(
            f"no tau from {_TAUS[-1]!r} on would do, for no affordable bound on samples is near delta. Strategies of "
            "fewer bands have one; without amplification MatrixMechanismDpEvent needs no sample"
        )
    return ", or ".join(ways) or f"lower tau (now {now!r})"


def _affordable_tau(trial: Trial, found: Driver) -> float | None:
    """The greatest of some taus at which samples would be few enough, about."""
    claim, plan = trial.claim, found.plan
    for tau in (one for one in _TAUS if one < claim.tau):
        other = Claim(claim.epsilon, claim.estimate / tau, tau)
        variance = plan.variance * (claim.threshold / other.threshold) ** 2
        unclipped = replace(plan, clip=None, variance=variance)
        test = sequential_test(found.drawing, other, trial.log_budget, unclipped)
        numbers = test.samples_left(State()) * found.drawing.proposal.work
        if test.mean > test.estimate and numbers < _too_long(found):
            return tau
    return None


def _samples_expected(test: SequentialTest, mean: float, variance: float) -> float:
    """About how many samples the test takes in all, if they have this mean and variance. It is played round by round as
    the driver would, each with the growth that is to be expected of it.
    """
    lead, state = test.mean - mean, init(test)
    for _ in range(_ROUNDS):
        n = (state.end - state.blocks) * test.block
        growth = growth_of(state.stakes[0], lead, variance)
        if growth > 0 and state.log_wealth + n * growth >= test.log_target:
            return state.samples + (test.log_target - state.log_wealth) / growth
        played = state._replace(
            samples=state.samples + n,
            blocks=state.end,
            clipped_total=state.clipped_total + n * mean,
            clipped_squares=state.clipped_squares + n * (variance + mean**2),
            log_wealth=state.log_wealth + n * growth,
        )
        if test.ending(played) is not None:
            return played.samples
        state = turned(test, played)
    left = (test.log_target - state.log_wealth) / growth if growth > 0 else math.inf
    return state.samples + min(left, test.most_samples(state))


def _elsewhere(work: Work) -> Work:
    """The same work on samples that serve nothing else."""
    return replace(work, stream=replace(work.stream, purpose=f"{work.stream.purpose}, time"))


def _piloted(work: Work) -> tuple[float, State]:
    """About how long a sample takes on one core, and the samples that this was tried on: they serve nothing else."""
    pilot = replace(_elsewhere(work), block_size=max(1, work.block_size // 8))
    replace(pilot, block_size=1)(0, 1, 0.0)  # sets things up
    # the time of this thread alone, so that a busy machine does not make the forecast longer
    clock = time.thread_time if pilot.device == "cpu" else time.perf_counter
    start, seen = clock(), State()
    for block in range(_PILOT_BLOCKS):
        seen = seen.added(pilot(block, pilot.block_size, 0.0))
        if (taken := clock() - start) > _PILOT_SECONDS:
            break
    return taken / seen.samples, seen


@dataclass(frozen=True)
class Forecast:
    """What a proof is about to take.

    Attributes
    ----------
    composition, claim
        What is to be proved.
    settings
        How.
    samples
        About how many are drawn, by direction; empty where none is.
    seconds
        About how long each direction takes.
    planning, strict
        The plans and proofs that were found on the way, for ``prove``.
    """

    composition: Composition = field(repr=False)
    claim: Claim
    settings: Settings
    samples: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    planning: Planning | None = field(default=None, repr=False)
    strict: StrictProving | None = field(default=None, repr=False)

    @property
    def total_samples(self) -> int:
        """Of all directions."""
        return sum(self.samples.values())

    @property
    def total_seconds(self) -> float:
        """Of all directions."""
        return sum(self.seconds.values())


Announce = Callable[[Forecast], None]  # called before an attempt is counted; what it raises stops everything


def forecast(
    composition: Composition,
    claim: Claim,
    settings: Settings,
    *,
    attempt: int = 1,
    workers: int | None = None,
    strict: StrictProving | None = None,
) -> Forecast:
    """About how many samples and seconds ``prove`` will take; whatever it refuses is refused now.

    ``strict`` holds proofs of the composition that are in hand.

    Examples
    --------
    >>> import evr
    >>> event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=100)
    >>> found = forecast(Composition.of(event), Claim(0.5, 1.7e-11, 0.8), Settings("sequential"))
    >>> found.total_samples > 1000, found.total_seconds < 60
    (True, True)
    """
    strict = StrictProving(composition) if strict is None else strict
    strictly = strict.seconds(claim) if settings.method in ("strict", "both") else {}
    if settings.method == "strict":
        return Forecast(composition, claim, settings, seconds=strictly, strict=strict)
    sampled = replace(settings, method="sequential") if settings.method == "both" else settings
    planner, budget = Planning(settings), claim.log_budget(attempt)
    samples, seconds = dict[str, int](), dict[str, float]()
    for one in tested_directions(composition, None):
        steps = composition.simplified(one)
        stream = Stream(0, f"{PURPOSE}, forecast", attempt, one.value)
        trial = Trial(one.value, steps, claim, sampled, attempt, budget, stream)
        plan, delta = planner(trial), _likely(composition, claim, one.value)
        samples[one.value], own = expected(trial, plan, workers, delta)
        seconds[one.value] = own + strictly.get(one.value, 0.0)
    return Forecast(composition, claim, settings, samples, seconds, planner, strict)


def _likely(composition: Composition, claim: Claim, direction: str) -> float | None:
    """Delta of one direction, if it costs little to know. Far below the claim, it takes far fewer samples."""
    if needs_samples(composition):
        return None
    with contextlib.suppress(AccuracyError):
        return estimate_delta(composition, claim.epsilon, direction=direction).value
    return None
