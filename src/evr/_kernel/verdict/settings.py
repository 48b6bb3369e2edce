"""What is claimed, how it is to be verified, and what error an attempt may spend on it (docs/guarantees.md,
Section 5).

A release has a fixed claim ``(epsilon, delta)``. Attempt ``i`` tests whether the truth is below ``(1 - kappa)
delta``, with a false-positive probability of at most ``kappa delta 2^-i``; over any number of attempts these
sum to ``kappa delta``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from evr._basics import validate
from evr._kernel.sampled.summary import BACKENDS
from evr.types import Method

PROPOSALS = ("capped", "simple")


def _check(settings: object, **rules: Callable[..., Any]) -> None:
    """Checks fields by the rules of their names, and keeps what these make of them."""
    for name, rule in rules.items():
        object.__setattr__(settings, name, rule(**{name: getattr(settings, name)}))


@dataclass(frozen=True)
class Terms:
    """What the first attempt at a release fixed for all later ones, whatever they claim and with whatever
    ``tau``: ``kappa base 2^-i`` is the budget of attempt ``i``.
    """

    kappa: float  # the share of the claim that pays for false positives
    base: float  # the claim, or the least that any attempt may claim

    def __post_init__(self) -> None:
        _check(self, kappa=validate.open_probability, base=validate.probability)


@dataclass(frozen=True)
class Claim:
    """What is to be shown: ``(epsilon, delta)``-DP.

    Sampled methods take the truth to be about ``tau delta``: the closer to 1, the more samples they draw. The
    claim does not depend on it.
    """

    epsilon: float
    delta: float
    tau: float = 0.99
    # of the release that it belongs to; without, the claim is the first of its release
    terms: Terms | None = None

    def __post_init__(self) -> None:
        _check(self, epsilon=validate.level, delta=validate.probability, tau=validate.open_probability)
        if 0 < self.delta < 1e-290:
            why = "is below 1e-290, which floats cannot tell from 0"
            raise ValueError(f"delta={self.delta!r} {why}: claim more")
        if self.terms is not None and self.terms.base > self.delta:
            least = f"{self.terms.base!r}, the least that this release may claim"
            raise ValueError(f"the claim {self.delta!r} is below {least}: claim a greater delta")

    @property
    def estimate(self) -> float:
        """What the truth is taken to be."""
        return self.tau * self.delta

    @property
    def kappa(self) -> float:
        """The share of the claim that pays for false positives of all attempts."""
        return (1.0 - self.tau) / 40.0 if self.terms is None else self.terms.kappa

    @property
    def threshold(self) -> float:
        """``mu0 = (1 - kappa) delta``: what delta has to be shown to be below."""
        return (1.0 - self.kappa) * self.delta

    def log_budget(self, attempt: int | None) -> float:
        """``log`` of the false-positive probability that an attempt may have: ``kappa delta 2^-attempt``.
        None is the paper's single attempt, which may spend the claim.
        """
        if attempt is None:
            return math.log(self.delta) if self.delta > 0 else -math.inf
        attempt = validate.positive_integer(attempt=attempt)
        base = self.delta if self.terms is None else self.terms.base
        if base == 0:
            return -math.inf
        return math.log(self.kappa) + math.log(base) - attempt * math.log(2.0)


def threshold_of(claim: Claim) -> Fraction:
    """What a strict proof has to show the truth to be at most: the claim's delta; in a release whose other
    attempts may be sampled, ``1 - kappa`` of it, as theirs.
    """
    value = Fraction(claim.delta)
    return value if claim.terms is None else value * (1 - Fraction(claim.kappa))


@dataclass(frozen=True)
class Settings:
    """How to verify."""

    method: str = "sequential"
    proposal: str = "capped"
    max_samples: int | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        validate.one_of((one for one in Method if one is not Method.AUTO), method=self.method)
        validate.one_of(PROPOSALS, proposal=self.proposal)
        validate.one_of(("auto", *BACKENDS), device=self.device)
        if self.max_samples is not None:
            _check(self, max_samples=validate.positive_integer)
            if self.method == "strict":
                why = "belongs to methods that sample, not to method='strict'"
                raise ValueError(f"max_samples={self.max_samples!r} {why}")
