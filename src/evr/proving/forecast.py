"""What a proof will take, found out before an attempt is counted: what would be refused later is refused here."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from evr.errors import AccuracyError
from evr.estimation.api import estimate_delta, needs_samples
from evr.mechanisms import Composition
from evr.planning.sampled import Planning
from evr.proving.lengths import expected
from evr.proving.strict import StrictProving
from evr.randomness import Stream
from evr.verification.attempts import PURPOSE, tested_directions
from evr.verification.claims import Claim
from evr.verification.directions import Trial
from evr.verification.settings import Settings


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


Announce = Callable[[Forecast], None]
"""Called before an attempt is counted; what it raises stops everything."""


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
