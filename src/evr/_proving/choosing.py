"""How a claim is proved: the options of samples, tau, strict proofs in hand, the choice of a method; and a forecast of
what a proof takes, made before an attempt is counted. What nobody would wait for, or what would be refused later, is
refused here. No guarantee rests on this.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache

from evr._accounting import Estimate, UpperBound, estimate_delta
from evr._accounting.calibration import TIGHTEST
from evr._basics import validate
from evr._basics.randomness import Stream
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction, on_a_line
from evr._kernel.sampled.deciding import LEAST, State
from evr._kernel.sampled.driver import Driver
from evr._kernel.sampled.fixed import FixedTest
from evr._kernel.sampled.plan import DrawPlan
from evr._kernel.sampled.summary import Work, on_processor
from evr._kernel.strict import Proof, prove_within
from evr._kernel.verdict.attempts import PURPOSE, StrictPlanner, Trial
from evr._kernel.verdict.results import DirectionReport
from evr._kernel.verdict.settings import Claim, Settings, threshold_of
from evr._plan.sampled import Planning
from evr._plan.strict import StrictCurve
from evr._proving.planning import Tell
from evr._proving.progress import samples_left
from evr._proving.sampling import Sampling
from evr.errors import AccuracyError
from evr.types import Method

DEFAULT = 0.99  # tau where nothing better is known, and where a claim seems to be false
LOOSEST = 0.5  # the least tau that is chosen from an estimate: below, samples are few in any case
QUICK = 10.0  # seconds that a strict proof may take where nobody asked for one
LONG = 3600.0  # seconds beyond which nobody gets a strict proof by default
TOO_LONG = {"cpu": 3e12, "cuda": 3e15}  # steps to draw: hours to days. Refused unless ``max_samples`` is given
_PILOT_SECONDS, _PILOT_BLOCKS = 0.3, 64  # of a pilot, at the most
_UNLIKELY = 3.0  # standard errors


class StrictProving:
    """Chooses grids for the strict proofs of a composition, each once, and keeps the proofs that the kernel made."""

    def __init__(self, composition: Composition, tell: Tell = lambda stage: None) -> None:
        self.composition, self.tell = composition, tell
        self.proofs: dict[Direction, Proof] = {}
        self._curve = cache(StrictCurve)

    def settings(self, method: str, drawn: Sampling, claim: Claim, enough: Fraction) -> Settings:
        """How to prove a claim by a method. ``"auto"`` is strict if no option of samples is given, and the proof takes
        seconds and shows that delta is at most ``enough``, or samples would take longer, or there is no other way; else
        it is sequential.
        """
        if validate.one_of(Method, method=method) != "auto":
            return drawn.settings(method)
        sampled = drawn.settings("sequential")
        if drawn.seed is not None or sampled != Settings("sequential"):
            return sampled
        strictly = self.composition.is_never_drawn or self.shows(claim, enough) or self._is_shorter(claim, sampled)
        return Settings("strict") if strictly else sampled

    def shows(self, claim: Claim, enough: Fraction) -> bool:
        """Whether proofs that take seconds show that delta is at most ``enough``. False if a law has no exact form."""
        self.proofs = {}
        try:
            if sum(self.seconds(claim, enough).values()) > QUICK:
                return False
            self.tell("Planned")
            for one, steps in self.composition.exact_directions().items():
                plans = self._curve(steps).plans(claim.epsilon, enough=enough)
                self.proofs[one] = prove_within(steps, Fraction(claim.epsilon), plans, enough)
                if self.proofs[one].delta > enough:
                    return False
                self.tell(f"Proved the {one.value} direction")
        except ValueError:  # a mechanism without an exact law, or numbers too large for one
            return False
        return True

    def _is_shorter(self, claim: Claim, sampled: Settings) -> bool:
        """Whether a strict proof that takes longer than seconds is still the shorter way: samples take longer, or so
        long that they are refused.
        """
        try:
            own = sum(self.seconds(claim, threshold_of(claim)).values())
        except ValueError:  # as above
            return False
        if any(self.composition.simplified(one) != steps for one, steps in self.composition.exact_directions().items()):
            return own < LONG  # samples of so many kinds of steps take longer than their groups, of false claims too
        if not QUICK < own < LONG:
            return False
        try:
            return forecast(self.composition, claim, sampled, strict=self).total_seconds > own
        except ValueError:
            return True

    def seconds(self, claim: Claim, enough: Fraction) -> dict[str, float]:
        """About how long each direction takes to show that delta is at most ``enough``: 0 where a proof is in hand."""
        return {
            one.value: 0.0 if one in self.proofs else self._curve(steps).seconds(claim.epsilon, enough=enough)
            for one, steps in self.composition.exact_directions().items()
        }

    def planner(self, claim: Claim) -> StrictPlanner:
        """Chooses grids that show the claim, each finer than the one before, while a finer one can help."""
        return lambda _, steps: self._curve(steps).plans(claim.epsilon, enough=threshold_of(claim))


def not_below(found: Estimate | UpperBound) -> float:
    """The estimate, raised by its own error, so that a good one is not below the truth."""
    return found.value + (found.doubt or 0.0)


def tau_of(found: Estimate | UpperBound, delta: float) -> float:
    """Tau for a claim of ``delta`` whose truth is estimated.

    >>> import evr
    >>> event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=100)
    >>> found = evr.estimate_delta(event, epsilon=0.5)
    >>> round(tau_of(found, found.value / 0.8), 6)
    0.8
    """
    if not delta > 0.0 or found.value > delta:
        return DEFAULT
    return min(max(not_below(found) / delta, LOOSEST), TIGHTEST)


def likely_tau(composition: Composition, claim: Claim) -> float:
    """Tau from an estimate that is made here; the default where there is none."""
    with contextlib.suppress(AccuracyError):
        return tau_of(estimate_delta(composition, claim.epsilon), claim.delta)
    return DEFAULT


@dataclass(frozen=True)
class Forecast:
    """What a proof is about to take: about how many ``samples`` are drawn, and for how many ``seconds``, by direction.
    ``planning`` and ``strict`` hold the plans and proofs that were found on the way, for ``prove``.
    """

    claim: Claim
    settings: Settings
    strict: StrictProving = field(repr=False)
    planning: Planning | None = field(default=None, repr=False)
    samples: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def total_samples(self) -> int:
        """The samples of all directions."""
        return sum(self.samples.values())

    @property
    def total_seconds(self) -> float:
        """The seconds of all directions."""
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
    """About how many samples and seconds ``prove`` will take; whatever it refuses is refused now. ``strict`` holds the
    proofs that are in hand.

    >>> import evr
    >>> event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=100)
    >>> found = forecast(Composition.of(event), Claim(0.5, 1.7e-11, 0.8), Settings("sequential"))
    >>> found.total_samples > 1000, found.total_seconds < 60
    (True, True)
    """
    strict = strict or StrictProving(composition)
    is_strict = settings.method in ("strict", "both")
    seconds = strict.seconds(claim, threshold_of(claim)) if is_strict else {}
    if settings.method == "strict":
        return Forecast(claim, settings, strict, seconds=seconds)
    planning, samples = Planning(settings), dict[str, int]()
    sampled = replace(settings, method="sequential") if is_strict else settings
    for one in composition.directions():
        name, stream = one.value, Stream(0, f"{PURPOSE}, forecast", attempt, one.value)
        trial = Trial(name, composition.simplified(one), claim, sampled, attempt, claim.log_budget(attempt), stream)
        samples[name], own = _expected(affordable(trial, planning(trial)))
        seconds[name] = seconds.get(name, 0.0) + own / validate.worker_count(workers)
    return Forecast(claim, settings, strict, planning, samples, seconds)


def affordable(trial: Trial, plan: DrawPlan | None) -> Driver | None:
    """The driver of a test, or None where no sample is needed. Work that nobody would wait for is refused."""
    found = trial.prepared(plan)
    if isinstance(found, DirectionReport):
        return None
    work, device = found.drawing.proposal.work, found.plan.device
    samples = samples_left(found.test, State())
    if trial.settings.max_samples is not None or samples * work <= TOO_LONG.get(device, TOO_LONG["cpu"]):
        return found
    if not isinstance(found.test, FixedTest) and found.test.beyond_doubt(_piloted(found.work)[1]):
        return found  # plainly false: it is rejected as soon as any claim is
    if trial.claim.estimate >= trial.claim.threshold:  # the first attempt at the release fixed the threshold
        least = f"the first attempt at this release fixed a threshold of {1 - trial.claim.kappa!r} times delta"
        raise ValueError(f"tau={trial.claim.tau!r} leaves nothing to verify, for {least}: give a smaller tau")
    on_gpu = not on_a_line(trial.steps) and device == "cpu" and samples * work <= TOO_LONG["cuda"]
    remedies = {
        f"lower tau (now {trial.claim.tau:.6g})": True,
        "use method='sequential'": trial.settings.method == "fixed",
        "use proposal='capped'": trial.settings.proposal != "capped",
        "use method='strict'": all(step.is_exact for step in trial.steps),
        "draw on a GPU (device='cuda')": on_gpu,
    }
    ways = ", ".join(way for way, helps in remedies.items() if helps)
    cost = f"about {samples:.2g} samples, each of {work} numbers or so"
    raise ValueError(f"verifying this in direction {trial.direction!r} would take {cost}: {ways}, or set max_samples")


def _expected(found: Driver | None) -> tuple[int, float]:
    """About how many samples are drawn, and how many seconds that takes on one core. Speed and variance are those of a
    pilot, whose samples serve nothing else. So is the mean, where the pilot contradicts the claimed one.
    """
    if found is None:
        return 0, 0.0
    test, block = found.test, found.work.block_size
    each, seen = _piloted(found.work)
    if isinstance(test, FixedTest):
        samples = float(test.samples)
    elif test.beyond_doubt(seen):
        samples = LEAST
    elif abs(seen.clipped_mean - test.estimate) > _UNLIKELY * math.sqrt(seen.clipped_variance / seen.samples):
        samples = samples_left(test, seen)
    else:
        samples = samples_left(replace(test, variance=seen.clipped_variance), State())
    whole = block * math.ceil(samples / block)
    number = whole if found.most is None else min(whole, found.most)
    return number, each * number


def _piloted(work: Work) -> tuple[float, State]:
    """About how long a sample takes on one core, and the sums of the samples that were tried, for nothing else."""
    stream = replace(work.stream, purpose=f"{work.stream.purpose}, time")
    pilot = replace(work, stream=stream, block_size=max(1, work.block_size // 8))
    replace(pilot, block_size=1)(0, 1, 0.0)  # sets things up
    # the time of this thread alone, so that a busy machine does not make the forecast longer
    clock = time.thread_time if pilot.backend is on_processor else time.perf_counter
    start, seen = clock(), State()
    for block in range(_PILOT_BLOCKS):
        seen = seen.added(pilot(block, pilot.block_size, 0.0))
        if (taken := clock() - start) > _PILOT_SECONDS:
            break
    return taken / seen.samples, seen
