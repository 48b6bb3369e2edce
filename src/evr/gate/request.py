"""Requests: everything that an attempt is asked to do, checked once and handed on; and the claim that it tests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
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
from evr.proving import Sampling
from evr.proving.sampling import DEFAULT, LOOSEST, not_below, sampled_if_auto, tau_of
from evr.proving.showing import check_progress
from evr.proving.strict import StrictProving
from evr.verification import Claim
from evr.verification.driver import ProgressHook
from evr.verification.executors import check_at_work
from evr.verification.settings import Settings
from evr.verification.strict import threshold_of

_PLAIN = Sampling()
_FIELDS = ("name", "path", "proof", "progress", "record", "description")  # of a request, as they are given
_LEAST = 1e-290 / LOOSEST  # of a delta that is not 0


@dataclass(frozen=True)
class Request:
    """A claim about an event, and how an attempt at it is carried out.

    Attributes
    ----------
    document
        The event as JSON.
    strict
        Its laws under one relation of neighbours, with the chooser of grids for their strict proofs and the proofs in
        hand.
    name
        Of the release that the attempt belongs to.
    path, proof
        Where the certificate goes, and its proof file with the checker of it.
    """

    document: dict[str, Any]
    strict: StrictProving = field(repr=False)
    claim: Claim
    settings: Settings
    sampling: Sampling = _PLAIN
    name: str | None = None
    path: Path | None = None
    proof: Path | None = None
    progress: ProgressHook | None = None
    record: dict[str, Any] | None = None
    description: Mapping[str, Any] | None = None
    budget: Budget | None = None

    def __post_init__(self) -> None:
        description = description_of(self.description, event_from_json(self.document))
        object.__setattr__(self, "description", description)
        object.__setattr__(self, "path", writable(path=self.path))
        self._check_proof()
        check_progress(self.progress)
        check_at_work(self.sampling.executor)
        if self.settings.method != "strict":
            self.composition.check_drawn()

    @property
    def composition(self) -> Composition:
        """The laws of the event."""
        return self.strict.composition

    @classmethod
    def of(
        cls,
        event: Any,
        *,
        epsilon: float | None,
        delta: float | None,
        tau: float | None = None,
        method: str = "auto",
        neighboring_relation: Relation | None = None,
        budget: Budget | str | None = None,
        ledger: Ledger | str | Path | None = None,
        refuses: bool = True,
        **others: Any,
    ) -> Request:
        """Estimate, choose the method, and check everything that can be checked before an attempt is counted.
        ``refuses`` says whether a pair that seems to be false is refused, or tested. ``ledger`` is where a budget lies
        that is given by its name. ``others`` are fields of a request, and how samples are drawn.
        """
        fields = {name: others.pop(name) for name in _FIELDS if name in others}
        for other, why in (("direction", "a guarantee needs both"), ("attempt", "the ledger counts attempts")):
            if other in others:
                raise TypeError(f"{other}={others[other]!r} cannot be given here: {why}")
        drawn = Sampling.of(others)
        settings = drawn.settings(sampled_if_auto(method))
        spent_from = None if budget is None else Budget.of(budget, ledger)
        if spent_from is not None:
            neighboring_relation = spent_from.relation(neighboring_relation)
        document, strict = accounted(event, neighboring_relation)
        if spent_from is not None:
            account = spent_from.account()
            if not account.seems_to_allow(event):
                raise account.refusal(event)
        claim = claimed(strict.composition, event, epsilon=epsilon, delta=delta, tau=tau, refuses=refuses)
        if method == "auto" and not drawn.is_wanted:
            enough = threshold_of(claim) * (1 - Fraction(claim.kappa))  # as an attempt of a release
            if strict.is_the_way(claim, enough):
                settings = Settings("strict")
        return cls(document, strict, claim, settings, drawn, budget=spent_from, **fields)

    def place(self, ledger: Ledger | str | Path | None) -> Ledger | str | Path | None:
        """Where the attempt is counted: in the ledger of its budget, if it has one."""
        return ledger if self.budget is None else self.budget.ledger

    def _check_proof(self) -> None:
        if self.proof is None:
            return
        if self.settings.method not in ("strict", "both"):
            raise ValueError(
                f"method={self.settings.method!r} draws samples, and a proof file holds a proof in "
                "exact arithmetic: take method='strict'"
            )
        object.__setattr__(self, "proof", writable(proof=self.proof))
        if self.proof == self.path:
            raise ValueError(f"proof={str(self.proof)!r} is where the certificate goes, too")
        check_texts(self.composition)


def accounted(event: Any, relation: Relation | None = None) -> tuple[dict[str, Any], StrictProving]:
    """An event as JSON and its laws; refused if it cannot be accounted for, built again or put in words."""
    document, composition = event_to_json(event), Composition.of(event, relation)
    check_words(document)
    return document, StrictProving(composition)


def writable(**named: str | Path | None) -> Path | None:
    """Where a file goes, absolute; refused if it cannot be written there."""
    if [*named.values()] == [None]:
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
    noise = _enough_noise(ran, epsilon, delta, event.relation)
    return FalseClaimError(
        f"epsilon={epsilon!r}, delta={delta!r}: this is {wrong}, for delta({epsilon!r}) is about "
        f"{found.value:.6g}; epsilon={least!r} at this delta would hold, or "
        f"delta={round_up(found.value / DEFAULT, 3)!r} at this epsilon"
        + ("" if noise is None else f", or this pair with noise_multiplier={noise!r}")
    )


def _enough_noise(ran: Any, epsilon: float, delta: float, relation: Relation) -> float | None:
    """A noise multiplier with which the pair could be verified; None where what ran is not one Gaussian mechanism,
    sampled and repeated.
    """
    with_noise = other_noise(ran)
    if with_noise is None:
        return None
    try:
        return calibrate(
            with_noise, epsilon=epsilon, delta=delta, low=noise_of(ran), neighboring_relation=relation
        ).value
    except ValueError:  # no noise is enough
        return None
