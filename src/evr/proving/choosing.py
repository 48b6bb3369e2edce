"""How a claim is proved: the options of samples and their tau, strict proofs in hand, and the choice of a method."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cache
from typing import Any

from evr import validate
from evr.bounds.strict import Proof, prove_within
from evr.errors import AccuracyError
from evr.estimation import Estimate, UpperBound, estimate_delta
from evr.estimation.calibration import TIGHTEST
from evr.laws import Direction
from evr.mechanisms import Composition
from evr.methods import AUTO
from evr.planning.strict import StrictCurve
from evr.verification.attempts import Attempt, StrictPlanner
from evr.verification.settings import Claim, Settings, threshold_of

DEFAULT = 0.99  # tau where nothing better is known, and where a claim seems to be false
LOOSEST = 0.5  # the least tau that is chosen from an estimate: below, samples are few in any case
QUICK = 10.0  # seconds that a strict proof may take where nobody asked for one


@dataclass(frozen=True)
class Sampling:
    """The options of sampled methods, keywords of ``verify``, ``certify`` and ``release``.

    Attributes
    ----------
    seed
        For results that can be repeated; a guarantee wants fresh entropy, so leave it out.
    max_samples
        In each direction. The sequential verifier rejects when they are used up; the fixed one refuses to start if it
        needs more.
    proposal
        ``"capped"``, tilted; or ``"simple"``, the paper's simple Monte Carlo.
    device
        Who draws: ``"cpu"``; ``"cuda"``, an NVIDIA GPU (docs/guide/gpu.md); ``"auto"``, a GPU if one can be used, else
        the processor, and ``notes`` say so; or another name in ``evr.verification.summary.BACKENDS``.
    workers, executor
        Threads, or any ``concurrent.futures.Executor`` to do the work; the answer does not depend on it.
    """

    seed: int | None = None
    max_samples: int | None = None
    proposal: str = "capped"
    device: str = "cpu"
    workers: int | None = None
    executor: Executor | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Sampling:
        """From keywords; one that does not exist is named."""
        known = [one.name for one in fields(cls)]
        for name in options:
            if name not in known:
                raise TypeError(f"unexpected keyword argument {name!r}: the options of samples are {', '.join(known)}")
        return cls(**options)

    def __post_init__(self) -> None:
        self.settings("sequential")
        checked = Attempt(seed=self.seed, executor=self.executor, workers=self.workers)
        object.__setattr__(self, "seed", checked.seed)

    @property
    def is_wanted(self) -> bool:
        """Whether something is said that makes sense for samples only."""
        return self.seed is not None or self.settings("sequential") != Settings("sequential")

    def settings(self, method: str) -> Settings:
        """How to verify, by one of the proofs."""
        return Settings(method, self.proposal, self.max_samples, self.device)


class StrictProving:
    """Chooses grids for the strict proofs of a composition, each once, and keeps the proofs that the kernel made."""

    def __init__(self, composition: Composition) -> None:
        self.composition = composition
        self.proofs: dict[Direction, Proof] = {}
        self._curve = cache(StrictCurve)

    def settings(self, method: str, drawn: Sampling, claim: Claim, enough: Fraction) -> Settings:
        """How to prove a claim by a method. ``"auto"`` is a strict proof if that takes seconds and shows that delta is
        at most ``enough``, or if there is no other; else it is sequential, as where an option of samples is given.
        """
        if validate.one_of(AUTO, method=method) != "auto":
            return drawn.settings(method)
        if not drawn.is_wanted and (self.composition.has_selection or self.shows(claim, enough)):
            return Settings("strict")
        return drawn.settings("sequential")

    def shows(self, claim: Claim, enough: Fraction) -> bool:
        """Whether proofs that take seconds show that delta is at most ``enough``. False if a law has no exact form."""
        self.proofs = {}
        try:
            if sum(self.seconds(claim, enough).values()) > QUICK:
                return False
            for one, steps in self.composition.exact_directions().items():
                plans = self._curve(steps).plans(claim.epsilon, enough=enough)
                self.proofs[one] = prove_within(steps, Fraction(claim.epsilon), plans, enough)
                if self.proofs[one].delta > enough:
                    return False
        except ValueError:  # a mechanism without an exact law, or numbers too large for one
            return False
        return True

    def seconds(self, claim: Claim, enough: Fraction) -> dict[str, float]:
        """About how long it takes to show in each direction that delta is at most ``enough``; nothing where the proof
        is in hand.
        """
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

    Examples
    --------
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
