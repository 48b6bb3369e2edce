"""What a verification returns. A guarantee exists only inside an accepted one."""

from __future__ import annotations

import enum
import math
from dataclasses import InitVar, dataclass, replace
from typing import NoReturn

from evr._basics import numbers
from evr._kernel.sampled.deciding import TraceRow
from evr._kernel.sampled.plan import DrawPlan
from evr._kernel.strict import Proof

SEAL = object()
"""What only ``evr._kernel.verdict.concluding`` has: the key to an accepted verdict."""


class Verdict(enum.Enum):
    """The answer. There is no third one."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"


@dataclass(frozen=True)
class Guarantee:
    """What holds: the mechanism, released only after acceptance, is ``(epsilon, delta)``-differentially
    private.

    Under the conditions of docs/guarantees.md, Section 5: fresh samples in each attempt, an estimate that
    does not depend on them, trials that do not depend on the data, one output for each release. A value by
    itself proves nothing: a guarantee holds if an accepted ``Verification`` or a certificate that replays
    states it.
    """

    epsilon: float
    delta: float

    def __str__(self) -> str:
        epsilon, delta = (numbers.above(value, 6) for value in (self.epsilon, self.delta))
        return f"({epsilon}, {delta})-differentially private"


@dataclass(frozen=True)
class DirectionReport:
    """What happened in one direction."""

    direction: str  # "remove" or "add"
    accepted: bool
    reason: str  # why it stopped
    samples: int = 0
    blocks: int = 0
    block_size: int = 0
    estimate: float = math.nan  # the mean of the samples
    standard_error: float = math.nan
    log_wealth: float | None = None  # ``log K`` of the sequential test
    log_target: float | None = None  # ``log(1 / beta)`` of the sequential test
    threshold: float = math.nan  # what the mean was tested against
    bound: float = math.nan  # proved, on a sample
    second_moment: float = 0.0  # a proved bound on the mean of a sample's square
    clip: float | None = None  # where samples were clipped
    correction: float = 0.0  # a proved bound on what clipping takes off, by which the threshold was lowered
    plan: DrawPlan | None = None  # enough to draw the same samples again
    strict: Proof | None = None  # the proof in exact arithmetic, where there is one
    seconds: float = 0.0
    trace: tuple[TraceRow, ...] = ()  # along the way


@dataclass(frozen=True, repr=False)
class Verification:
    """The outcome of one attempt: ``verdict`` is ``Verdict.ACCEPTED`` or ``Verdict.REJECTED``, and
    ``guarantee`` is ``Guarantee(epsilon, delta)`` if accepted, else None. There is no truth value: ``if
    verification:`` raises.

    ``method``, ``attempt`` and, of sampled methods, ``tau`` are what was asked; ``samples``, ``seconds``,
    ``notes`` and a report of each of the ``directions`` what happened. ``false_positive_rate`` bounds the
    probability of accepting the claim were it false. If one ``direction`` was asked for, there is no
    guarantee. Samples come from ``entropy``. A result by a given ``seed`` can be repeated, and searched for:
    a guarantee wants ``entropy_is_fresh``.
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
    notes: tuple[str, ...] = ()
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
        remedy = "compare .verdict with Verdict.ACCEPTED, or use .accepted"
        raise TypeError(f"a Verification has no truth value: {remedy}")
