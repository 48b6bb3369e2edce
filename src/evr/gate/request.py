"""Requests: everything that an attempt is asked to do, checked once and handed on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from evr import atomic, validate
from evr.certification.budget import Budget
from evr.certification.description import description_of
from evr.certification.event_json import digest_of, event_from_json, event_to_json
from evr.certification.ledger import Ledger
from evr.certification.proof_file import check_texts
from evr.certification.words import check_words
from evr.gate.claiming import claimed
from evr.mechanisms import Composition
from evr.mechanisms.relations import Relation
from evr.proving import Sampling
from evr.proving.sampling import sampled_if_auto
from evr.proving.showing import check_progress
from evr.proving.strict import StrictProving
from evr.verification import Claim
from evr.verification.driver import ProgressHook
from evr.verification.executors import check_at_work
from evr.verification.settings import Settings
from evr.verification.strict import threshold_of

_PLAIN = Sampling()


@dataclass(frozen=True)
class Subject:
    """An event that can be accounted for, written down and put in words.

    Attributes
    ----------
    document
        The event as JSON.
    composition
        Its laws, under one relation of neighbours.
    strict
        The chooser of grids for its strict proofs, with the proofs in hand.
    """

    document: dict[str, Any]
    composition: Composition
    strict: StrictProving = field(repr=False)

    @classmethod
    def of(cls, event: Any, relation: Relation | None = None) -> Subject:
        """Translate an event; refuse what cannot be accounted for, built again or put in words."""
        document = event_to_json(event)
        composition = Composition.of(event, relation)
        check_words(document)
        return cls(document, composition, StrictProving(composition))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the event as JSON."""
        return digest_of(self.document)


@dataclass(frozen=True)
class Request:
    """A claim about a subject, and how an attempt at it is carried out.

    Attributes
    ----------
    subject, claim, settings
        What is to be shown, and by which method.
    sampling
        How samples are drawn, where any are.
    name
        Of the release that the attempt belongs to.
    path, proof
        Where the certificate goes, and its proof file with the checker of it.
    progress
        Who is told how far it is.
    record, description
        The recorded training that it is about, and the training in numbers, for the certificate.
    budget
        What an accepted attempt is spent from.
    """

    subject: Subject
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
        event = event_from_json(self.subject.document)
        object.__setattr__(self, "description", description_of(self.description, event))
        object.__setattr__(self, "path", writable(self.path))
        self._check_proof()
        check_progress(self.progress)
        check_at_work(self.sampling.executor)
        if self.settings.method != "strict":
            self.subject.composition.check_drawn()

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
        name: str | None = None,
        path: str | Path | None = None,
        proof: str | Path | None = None,
        progress: ProgressHook | None = None,
        record: dict[str, Any] | None = None,
        description: Mapping[str, Any] | None = None,
        budget: Budget | str | None = None,
        ledger: Ledger | str | Path | None = None,
        refuses: bool = True,
        **sampling: Any,
    ) -> Request:
        """Estimate, choose the method, and check everything that can be checked before an attempt is counted.
        ``refuses`` says whether a pair that seems to be false is refused, or tested. ``ledger`` is where a budget lies
        that is given by its name.
        """
        for other, why in (("direction", "a guarantee needs both"), ("attempt", "the ledger counts attempts")):
            if other in sampling:
                raise TypeError(f"{other}={sampling[other]!r} cannot be given here: {why}")
        drawn = Sampling.of(sampling)
        settings = drawn.settings(sampled_if_auto(method))
        spent_from = None if budget is None else Budget.of(budget, ledger)
        if spent_from is not None:
            neighboring_relation = spent_from.relation(neighboring_relation)
        subject = Subject.of(event, neighboring_relation)
        if spent_from is not None:
            account = spent_from.account()
            if not account.seems_to_allow(event):
                raise account.refusal(event)
        claim = claimed(subject.composition, event, epsilon=epsilon, delta=delta, tau=tau, refuses=refuses)
        if method == "auto" and not drawn.is_wanted:
            enough = threshold_of(claim) * (1 - Fraction(claim.kappa))  # as an attempt of a release
            if subject.strict.is_the_way(claim, enough):
                settings = Settings("strict")
        return cls(
            subject,
            claim,
            settings,
            drawn,
            name=name,
            path=None if path is None else validate.path(path=path),
            proof=None if proof is None else validate.path(proof=proof),
            progress=progress,
            record=record,
            description=description,
            budget=spent_from,
        )

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
        object.__setattr__(self, "proof", writable(self.proof))
        if self.proof == self.path:
            raise ValueError(f"proof={str(self.proof)!r} is where the certificate goes, too")
        check_texts(self.subject.composition)


def writable(path: Path | None) -> Path | None:
    """Where a certificate goes, absolute; refused if it cannot be written there."""
    if path is None:
        return None
    target = path.absolute()
    atomic.check_writable(path=target)
    return target
