"""Requests: everything that an attempt is asked to do, checked once and handed on; and the claim that it tests."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from evr import atomic, validate
from evr.certification.budget import Budget
from evr.certification.description import description_of
from evr.certification.event_json import event_from_json, event_to_json
from evr.certification.ledger import Ledger
from evr.certification.proof_file import check_texts
from evr.certification.words import check_words
from evr.errors import FalseClaimError
from evr.estimation import Estimate, UpperBound, calibrate, estimate_delta, estimate_epsilon
from evr.estimation.calibration import TIGHTEST, noise_of, other_noise
from evr.mechanisms import Composition
from evr.mechanisms.relations import Relation
from evr.numbers import round_up
from evr.proving.choosing import DEFAULT, LOOSEST, Sampling, StrictProving, not_below, tau_of
from evr.proving.showing import check_progress
from evr.verification import Claim
from evr.verification.driver import ProgressHook, check_at_work
from evr.verification.settings import threshold_of

_LEAST = 1e-290 / LOOSEST  # of a delta that is not 0


class Request:
    """A claim about an event, and how an attempt at it is made: all is checked here, before the attempt is counted.

    Parameters as of ``certify``; ``name`` is the release's. ``refuses`` says whether a pair that seems to be false is
    refused, or tested.
    """

    def __init__(
        self,
        event: Any,
        *,
        epsilon: float | None,
        delta: float | None,
        tau: float | None = None,
        method: str = "auto",
        ledger: Ledger | str | Path | None = None,
        path: str | Path | None = None,
        proof: str | Path | None = None,
        name: str | None = None,
        budget: Budget | str | None = None,
        progress: ProgressHook | None = None,
        neighboring_relation: Relation | None = None,
        record: dict[str, Any] | None = None,
        description: Mapping[str, Any] | None = None,
        refuses: bool = True,
        **sampling: Any,
    ) -> None:
        self.sampling = Sampling.of(sampling)
        self.ledger, self.name, self.record, self.progress = ledger, name, record, check_progress(progress)
        self.budget = None if budget is None else Budget.of(budget, ledger)
        if self.budget is not None:
            self.ledger = self.budget.ledger
            neighboring_relation = self.budget.relation(neighboring_relation)
        self.document = event_to_json(event)
        self.composition = Composition.of(event, neighboring_relation)
        check_words(self.document)
        self.description = description_of(description, event_from_json(self.document))
        self.path = writable(path=path)
        if self.budget is not None and not (account := self.budget.account()).seems_to_allow(event):
            raise account.refusal(event)
        self.claim = claimed(self.composition, event, epsilon=epsilon, delta=delta, tau=tau, refuses=refuses)
        self.strict = StrictProving(self.composition)
        enough = threshold_of(self.claim) * (1 - Fraction(self.claim.kappa))  # as an attempt of a release
        self.settings = self.strict.settings(method, self.sampling, self.claim, enough)
        self.proof = None if proof is None else self._checked_proof(proof)
        check_at_work(self.sampling.executor)
        if self.settings.method != "strict":
            self.composition.check_drawn()

    def _checked_proof(self, proof: str | Path) -> Path | None:
        if self.settings.method not in ("strict", "both"):
            raise ValueError(
                f"method={self.settings.method!r} draws samples, and a proof file holds a proof in "
                "exact arithmetic: take method='strict'"
            )
        found = writable(proof=proof)
        if found == self.path:
            raise ValueError(f"proof={str(proof)!r} is where the certificate goes, too")
        check_texts(self.composition)
        return found


def writable(**named: str | Path | None) -> Path | None:
    """Where a file goes, absolute; refused if it cannot be written there."""
    if None in named.values():
        return None
    target = validate.path(**named).absolute()
    atomic.check_writable(path=target)
    return target


def claimed(
    event: Composition, ran: Any, *, epsilon: float | None, delta: float | None, tau: float | None, refuses: bool
) -> Claim:
    """The claim to test. ``ran`` is the event as it was given; ``refuses`` says whether a pair that seems to be false
    is refused, or tested.
    """
    epsilon = None if epsilon is None else validate.level(epsilon=epsilon)
    tau = None if tau is None else validate.open_probability(tau=tau)
    if delta is None:
        if epsilon is None:
            raise ValueError("certify what? Give delta (epsilon is found), epsilon (delta is found), or both")
        return _with_delta(event, epsilon, DEFAULT if tau is None else tau)
    if epsilon is None:
        delta = validate.half_open_probability(delta=delta)
        if delta <= _LEAST:
            raise ValueError(
                f"delta={delta!r} is not above {_LEAST:g}: floats cannot tell such a claim from 0; "
                "claim a greater delta"
            )
        return _with_epsilon(event, delta, tau)
    delta = validate.probability(delta=delta)
    if tau is not None:
        return Claim(epsilon, delta, tau)
    found = estimate_delta(event, epsilon)
    if refuses and not_below(found) > TIGHTEST * delta:
        raise _false(event, epsilon, delta, found, ran)
    return Claim(epsilon, delta, tau_of(found, delta))


def _with_delta(event: Composition, epsilon: float, tau: float) -> Claim:
    """The least delta, over tau."""
    found = estimate_delta(event, epsilon)
    value = not_below(found) / tau
    if value > 0:
        digits = 5 + math.ceil(-math.log10(1.0 - tau))  # a thousandth of the slack, or less
        value = max(min(1.0, round_up(value, digits)), _LEAST)
    return Claim(epsilon, value, tau)


def _with_epsilon(event: Composition, delta: float, tau: float | None) -> Claim:
    """The least epsilon of three digits; without a tau, the estimate there leaves one, 0.99 at the most."""
    least = estimate_epsilon(event, delta if tau is None else tau * delta)
    if not math.isfinite(least.value):
        raise ValueError(
            f"no epsilon is enough for delta={delta!r}: some mechanism may fail with more than "
            "that; claim a greater delta"
        )
    epsilon = round_up(not_below(least), 3)
    if tau is not None:
        return Claim(epsilon, delta, tau)
    found = estimate_delta(event, epsilon)
    for _ in range(3):
        if not_below(found) <= DEFAULT * delta:
            break
        epsilon = round_up(epsilon * (1.0 + 1e-9), 3)
        found = estimate_delta(event, epsilon)
    return Claim(epsilon, delta, tau_of(found, delta))


def _false(event: Composition, epsilon: float, delta: float, found: Estimate | UpperBound, ran: Any) -> FalseClaimError:
    """The refusal of a pair that is false, or true by too little, with what would hold."""
    least = _with_epsilon(event, delta, None).epsilon
    wrong = "false" if found.value > delta else "true by too little to be verified"
    ways = [
        f"epsilon={least!r} at this delta would hold",
        f"delta={round_up(found.value / DEFAULT, 3)!r} at this epsilon",
    ]
    if (with_noise := other_noise(ran)) is not None:  # what ran is one Gaussian mechanism, sampled and repeated
        with contextlib.suppress(ValueError):  # no noise is enough
            asked = {"epsilon": epsilon, "delta": delta, "neighboring_relation": event.relation}
            noise = calibrate(with_noise, **asked, low=noise_of(ran)).value
            ways.append(f"this pair with noise_multiplier={noise!r}")
    return FalseClaimError(
        f"epsilon={epsilon!r}, delta={delta!r}: this is {wrong}, for delta({epsilon!r}) is about {found.value:.6g}; "
        + ", or ".join(ways)
    )
