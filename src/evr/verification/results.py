"""What a verification returns. A guarantee exists only inside an accepted one."""

from __future__ import annotations

import enum
import math
from dataclasses import InitVar, dataclass, field, replace
from typing import NoReturn

from evr import numbers
from evr.bounds.strict import Proof
from evr.sampling import DrawPlan

SEAL = object()
"""What only ``evr.verification.concluding`` has: the key to an accepted verdict."""


class Verdict(enum.Enum):
    """The answer. There is no third one."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"


@dataclass(frozen=True)
class Guarantee:
    """What holds: the mechanism, released only after acceptance, is ``(epsilon, delta)``-differentially private.

    Under the conditions of docs/guarantees.md, Section 5: fresh samples in each attempt, an estimate that does not
    depend on them, trials that do not depend on the data, one output for each release.

    A value by itself proves nothing: a guarantee holds if an accepted ``Verification`` or a certificate that replays
    states it.

    Attributes
    ----------
    epsilon, delta
        Of the claim.
    """

    epsilon: float
    delta: float

    def __str__(self) -> str:
        epsilon, delta = (numbers.above(value, 6) for value in (self.epsilon, self.delta))
        return f"({epsilon}, {delta})-differentially private"


@dataclass(frozen=True)
class Progress:
    """Where a verification stands.

    Attributes
    ----------
    direction
        Which is being tested.
    samples, max_samples
        Drawn so far, and the most that will be, where that is known.
    estimate
        Mean of the samples so far: delta.
    log_wealth, log_target
        Evidence so far, and how much of it accepts; the target is 0 in the fixed verifier.
    seconds, seconds_left
        Time taken, and an estimate of what is left, None before there is one.
    """

    direction: str
    samples: int
    max_samples: int | None
    estimate: float
    log_wealth: float
    log_target: float
    seconds: float
    seconds_left: float | None

    @property
    def fraction(self) -> float:
        """How much of the evidence, or of a fixed number of samples, is there."""
        if self.log_target > 0:
            return min(1.0, max(0.0, self.log_wealth / self.log_target))
        return self.samples / self.max_samples if self.max_samples else 0.0


@dataclass(frozen=True)
class DirectionReport:
    """What happened in one direction.

    Attributes
    ----------
    direction, seconds
        ``"remove"`` or ``"add"``, and the time that it took.
    accepted, reason
        Whether this direction passed, and why it stopped.
    samples, blocks, block_size
        What was drawn.
    estimate, standard_error
        Mean of the samples, and its standard error.
    log_wealth, log_target
        Of the sequential test, ``log K`` and ``log(1/beta)``; of the fixed one, None.
    bound, second_moment
        Proved bounds on a sample and on its square's mean.
    clip, correction
        Samples were clipped at ``clip``; the threshold was lowered by ``correction``, a proved bound on what that takes
        off.
    threshold
        What the mean was tested against.
    plan
        All that was drawn, as data: enough to draw the same samples again. Of what played no part, it has the defaults.
    strict
        The proof in exact arithmetic, where there is one: the plan of its grids, the bound, a digest of its integers.
    trace
        ``(samples, mean, standard error, log wealth)`` along the way, at most a few hundred rows.
    """

    direction: str
    accepted: bool
    reason: str
    samples: int = 0
    blocks: int = 0
    block_size: int = 0
    estimate: float = math.nan
    standard_error: float = math.nan
    log_wealth: float | None = None
    log_target: float | None = None
    threshold: float = math.nan
    bound: float = math.nan
    second_moment: float = 0.0
    clip: float | None = None
    correction: float = 0.0
    plan: DrawPlan | None = None
    strict: Proof | None = None
    seconds: float = 0.0
    trace: tuple[tuple[int, float, float, float], ...] = ()


@dataclass(frozen=True, repr=False)
class Verification:
    """The outcome of one attempt.

    Attributes
    ----------
    verdict
        ``Verdict.ACCEPTED`` or ``Verdict.REJECTED``. There is no truth value: ``if verification:`` raises.
    epsilon, delta, tau, method, attempt
        What was asked: the claim, the ``tau`` of sampled methods, how the claim was tested, the number of the attempt.
    guarantee
        ``Guarantee(epsilon, delta)`` if accepted, else None.
    samples, seconds
        Drawn in all directions, and the time taken.
    directions
        One report for each direction that was tested, by name.
    notes
        What else a reader should know.
    direction
        The only one that was tested, where one was asked for: then there is no guarantee.
    false_positive_rate
        A proved bound on the probability of accepting this claim were it false.
    entropy, seed, entropy_is_fresh
        What the samples came from. A seed given by the caller makes a result that can be repeated, and that anybody
        could have searched for: a guarantee wants fresh entropy.
    """

    verdict: Verdict
    epsilon: float
    delta: float
    tau: float
    guarantee: Guarantee | None
    method: str
    attempt: int | None
    false_positive_rate: float
    samples: int
    directions: dict[str, DirectionReport]
    entropy: int
    seed: int | None
    entropy_is_fresh: bool
    seconds: float
    notes: tuple[str, ...] = field(default=())
    direction: str | None = None
    seal: InitVar[object] = None

    def __post_init__(self, seal: object) -> None:
        if seal is not SEAL:
            raise TypeError("a Verification is made by evr.verify: it cannot be put together")

    def noted(self, *notes: str) -> Verification:
        """This verification with more notes."""
        return replace(self, notes=(*self.notes, *notes), seal=SEAL)

    @property
    def accepted(self) -> bool:
        """Whether the verdict is ``ACCEPTED``."""
        return self.verdict is Verdict.ACCEPTED

    def __repr__(self) -> str:
        claim = f"epsilon={self.epsilon!r}, delta={self.delta!r}, tau={self.tau!r}"
        how = f"method={self.method!r}, samples={self.samples}, seconds={self.seconds:.2g}"
        return f"<Verification {self.verdict.value}: {claim}, {how}>"

    def __bool__(self) -> NoReturn:
        raise TypeError("a Verification has no truth value: compare .verdict with Verdict.ACCEPTED, or use .accepted")
