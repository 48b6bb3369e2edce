"""What a proof will take, found out before an attempt is counted. What nobody would wait for, or what would be refused
later, is refused here. No guarantee rests on this.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from evr.laws import on_a_line
from evr.mechanisms import Composition
from evr.planning.sampled import Planning
from evr.proving.choosing import StrictProving
from evr.randomness import Stream
from evr.sampling import DrawPlan
from evr.validate import worker_count
from evr.verification.attempts import PURPOSE, Trial, tested_directions
from evr.verification.deciding import LEAST, FixedTest, State
from evr.verification.driver import Driver
from evr.verification.results import DirectionReport
from evr.verification.settings import Claim, Settings, threshold_of
from evr.verification.summary import Work

TOO_LONG = {"cpu": 3e12, "cuda": 3e15}
"""Steps to draw that nobody waits for: hours to days on one core, or on a GPU. Refused unless ``max_samples`` says
otherwise.
"""

_PILOT_SECONDS, _PILOT_BLOCKS = 0.3, 64  # of a pilot, at the most
_UNLIKELY = 3.0  # standard errors


@dataclass(frozen=True)
class Forecast:
    """What a proof is about to take.

    Attributes
    ----------
    composition, claim, settings
        What is to be proved, and how.
    samples, seconds
        About how many samples are drawn and how long it takes, by direction.
    planning, strict
        The plans and proofs that were found on the way, for ``prove``.
    """

    composition: Composition = field(repr=False)
    claim: Claim
    settings: Settings
    strict: StrictProving = field(repr=False)
    planning: Planning | None = field(default=None, repr=False)
    samples: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

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
    is_strict = settings.method in ("strict", "both")
    seconds = strict.seconds(claim, threshold_of(claim)) if is_strict else {}
    if settings.method == "strict":
        return Forecast(composition, claim, settings, strict, seconds=seconds)
    planning, samples = Planning(settings), dict[str, int]()
    sampled = replace(settings, method="sequential") if is_strict else settings
    for one in tested_directions(composition, None):
        name, stream = one.value, Stream(0, f"{PURPOSE}, forecast", attempt, one.value)
        trial = Trial(name, composition.simplified(one), claim, sampled, attempt, claim.log_budget(attempt), stream)
        samples[name], own = _expected(affordable(trial, planning(trial)))
        seconds[name] = seconds.get(name, 0.0) + own / worker_count(workers)
    return Forecast(composition, claim, settings, strict, planning, samples, seconds)


def affordable(trial: Trial, plan: DrawPlan | None) -> Driver | None:
    """The driver of a test, or None where no sample is needed. Work that nobody would wait for is refused."""
    found = trial.prepared(plan)
    if isinstance(found, DirectionReport):
        return None
    work, device = found.drawing.proposal.work, found.plan.device
    samples = found.test.samples_left(State())
    if trial.settings.max_samples is not None or samples * work <= TOO_LONG.get(device, TOO_LONG["cpu"]):
        return found
    if not isinstance(found.test, FixedTest) and found.test.beyond_doubt(_piloted(found.work)[1]):
        return found  # plainly false: it is rejected as soon as any claim is
    many_dimensions = not on_a_line(trial.steps)  # a GPU draws nothing else
    remedies = {
        f"lower tau (now {trial.claim.tau!r})": True,
        "use method='sequential'": trial.settings.method == "fixed",
        "use proposal='capped'": trial.settings.proposal != "capped",
        "use method='strict'": all(step.exact is not None for step in trial.steps),
        "draw on a GPU (device='cuda')": many_dimensions and device == "cpu" and samples * work <= TOO_LONG["cuda"],
    }
    ways = ", ".join(way for way, helps in remedies.items() if helps)
    raise ValueError(
        f"verifying this in direction {trial.direction!r} would take about {samples:.2g} samples, each of {work} "
        f"numbers or so: {ways}, or set max_samples"
    )


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
        samples = test.samples_left(seen)
    else:
        samples = replace(test, variance=seen.clipped_variance).samples_left(State())
    whole = block * math.ceil(samples / block)
    number = whole if found.most is None else min(whole, found.most)
    return number, each * number


def _piloted(work: Work) -> tuple[float, State]:
    """About how long a sample takes on one core, and the sums of the samples that were tried, for nothing else."""
    stream = replace(work.stream, purpose=f"{work.stream.purpose}, time")
    pilot = replace(work, stream=stream, block_size=max(1, work.block_size // 8))
    replace(pilot, block_size=1)(0, 1, 0.0)  # sets things up
    # the time of this thread alone, so that a busy machine does not make the forecast longer
    clock = time.thread_time if pilot.device == "cpu" else time.perf_counter
    start, seen = clock(), State()
    for block in range(_PILOT_BLOCKS):
        seen = seen.added(pilot(block, pilot.block_size, 0.0))
        if (taken := clock() - start) > _PILOT_SECONDS:
            break
    return taken / seen.samples, seen
