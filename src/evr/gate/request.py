"""What is asked of an attempt, checked once and handed on."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from evr import atomic, validate
from evr.certification.description import description_of
from evr.certification.event_json import digest_of, event_from_json, event_to_json
from evr.certification.proof_file import check_texts
from evr.certification.words import check_words
from evr.mechanisms import Composition
from evr.mechanisms.relations import Relation
from evr.proving import check_proposal
from evr.proving.showing import check_progress
from evr.proving.strict import StrictProving
from evr.randomness import seed_of
from evr.verification import Claim
from evr.verification.driver import ProgressHook
from evr.verification.executors import check_at_work
from evr.verification.settings import Settings


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
    name, floor
        Of the release that the attempt belongs to.
    seed
        The entropy, or None for fresh one.
    path, proof
        Where the certificate goes, and its proof file with the checker of it.
    workers, executor, progress
        Who works, and who is told.
    record, description
        The recorded training that it is about, and the training in numbers, for the certificate.
    """

    subject: Subject
    claim: Claim
    settings: Settings
    name: str | None = None
    floor: float | None = None
    seed: int | None = None
    path: Path | None = None
    proof: Path | None = None
    workers: int | None = None
    executor: Executor | None = None
    progress: ProgressHook | None = None
    record: dict[str, Any] | None = None
    description: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", seed_of(self.seed))
        event = event_from_json(self.subject.document)
        object.__setattr__(self, "description", description_of(self.description, event))
        check_means(self.workers, self.executor, self.path, self.progress)
        if self.proof is not None:
            if self.settings.method not in ("strict", "both"):
                raise ValueError(
                    f"method={self.settings.method!r} draws samples, and a proof file holds a "
                    "proof in exact arithmetic: take method='strict'"
                )
            if self.proof == self.path:
                raise ValueError(f"proof={str(self.proof)!r} is where the certificate goes, too")
            check_texts(self.subject.composition)
            check_means(None, None, self.proof)
        check_proposal(self.subject.composition, self.claim, self.settings.proposal)

    @classmethod
    def of(
        cls,
        event: Any,
        claim: Claim,
        settings: Settings,
        *,
        relation: Relation | None = None,
        path: str | Path | None = None,
        **how: Any,
    ) -> Request:
        """A request about an event."""
        target = None if path is None else validate.path(path=path).absolute()
        return cls(Subject.of(event, relation), claim, settings, path=target, **how)


def check_means(
    workers: int | None,
    executor: Executor | None,
    path: Path | None,
    progress: ProgressHook | None = None,
) -> None:
    """Refuse what an attempt would fail on: nobody who works, nothing to tell progress, or a
    certificate that cannot be written.
    """
    check_progress(progress)
    if workers is not None:
        validate.positive_integer(workers=workers)
    check_at_work(executor)
    if path is not None:
        atomic.check_writable(path=path)
