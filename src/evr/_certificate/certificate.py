"""Certificates: what was verified, with what, and everything that it takes to do it again. Versioned JSON.

Files of other formats are refused, and so are unknown fields at every depth: nobody would check them. The digest shows
damage. ``evr._certificate.replay`` shows whether the content is true; ``event_json`` leaves no room for a sentence in
what a replay cannot recompute.
"""

from __future__ import annotations

import contextlib
import html
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TypeVar

from dp_accounting import NeighboringRelation
from dp_accounting.dp_event import DpEvent
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError, WithJsonSchema

from evr._basics import atomic, validate
from evr._basics.file_types import instead
from evr._basics.validate import MAX_COUNT
from evr._certificate import event_json, judging
from evr._certificate.event_json import LONGEST_NAME, NAME, TIME, UNENDING, parsed, plain, pretty
from evr._kernel.sampled.plan import DrawPlan
from evr._kernel.strict import StatedProof
from evr._wording import statement as words
from evr.errors import CertificateError

SCHEMA_VERSION = 2
MOST_BYTES = 1 << 25  # of a certificate

Number = Annotated[
    float,
    BeforeValidator(lambda value: UNENDING.get(value, value) if isinstance(value, str) else value),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"enum": sorted(UNENDING)}]}),
]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Words = Annotated[str, Field(max_length=100_000)]
Name = Annotated[str, Field(pattern=NAME, max_length=LONGEST_NAME)]
Time = Annotated[str, Field(pattern=TIME)]
Event = Annotated[dict[str, Any], AfterValidator(event_json.checked_tree)]
Direction = Literal["remove", "add"]
Version = Annotated[str, Field(pattern=r"^[0-9][0-9A-Za-z.+-]{0,39}$")]
Word = Annotated[str, Field(pattern=r"^[0-9A-Za-z_.-]{1,20}$")]
Note = Literal["generator", "ghost", "lost", "other", "parameters", "sampler"]  # as words.NOTES
_OPTIONAL = ("proof", "per_record", "budget")  # fields that the file has not where there is nothing to say
S = TypeVar("S", bound="Section")


class Section(BaseModel, extra="forbid", frozen=True, strict=True):
    """Part of a certificate."""


class GuaranteeSection(Section):
    """The pair that holds."""

    epsilon: Number
    delta: Number

    def __str__(self) -> str:
        return f"({self.epsilon!r}, {self.delta!r})-differentially private"


class ClaimSection(Section):
    """The claim, tested against ``threshold = (1 - kappa) delta``; samples are planned for a truth of ``tau delta``."""

    epsilon: Number
    delta: Number
    tau: Number
    kappa: Number
    threshold: Number


class ReleaseSection(Section):
    """Which attempt at which release. ``floor`` is the least that a named release may claim."""

    name: Name | None
    floor: Number | None
    attempt: Annotated[int, Field(ge=1, le=MAX_COUNT)]
    budget: Number
    log_budget: Number
    total_budget: Number


PlanSection = Annotated[dict[str, Any], AfterValidator(lambda one: DrawPlan.from_json(one) and one)]
ProofSection = Annotated[dict[str, Any], AfterValidator(lambda one: StatedProof.from_json(one) and one)]


class DirectionSection(Section):
    """The result in one direction; fields as of ``evr.proving.DirectionReport``."""

    accepted: bool
    reason: Words
    samples: Count
    blocks: Count
    block_size: Count
    estimate: Number
    standard_error: Number
    log_wealth: Number | None
    log_target: Number | None
    threshold: Number
    bound: Number
    second_moment: Number
    clip: Number | None
    correction: Number
    plan: PlanSection | None
    strict: ProofSection | None
    trace: Annotated[list[Annotated[list[Number], Field(min_length=4, max_length=4)]], Field(max_length=1000)]
    seconds: Number


class VerificationSection(Section):
    """How it was tested. ``entropy`` is hexadecimal; ``stream`` says which numbers each block gets."""

    method: Literal["sequential", "fixed", "strict", "both"]
    proposal: Annotated[str, Field(pattern=r"^[a-z_]{1,40}$")]
    max_samples: Count | None
    entropy: Annotated[str, Field(pattern="^[0-9a-f]{1,4096}$")]
    entropy_is_fresh: bool
    stream: Words
    samples: Count
    directions: dict[Direction, DirectionSection]
    notes: Annotated[list[Words], Field(max_length=100)]


class TimesSection(Section):
    """When, in UTC."""

    started: Time
    finished: Time
    seconds: Number


class SoftwareSection(Section):
    """The software that made the certificate. ``commit`` is that of evr's sources, where it is known."""

    evr: Annotated[str, Field(pattern=r"^[0-9]{1,4}(\.[0-9]{1,4}){2}((a|b|rc|\.dev|\.post)[0-9]{1,4}){0,2}$")]
    commit: Annotated[str, Field(pattern="^[0-9a-f]{40}$")] | None
    drawing: Annotated[str, Field(pattern="^[0-9]{1,6}$")]
    numpy: Version
    scipy: Version
    python: Version
    platform: Annotated[str, Field(pattern=r"^[0-9A-Za-z_.-]{1,20} [0-9A-Za-z_.-]{1,20}$")]
    simd: Word


class DescriptionSection(Section):
    """The training as whoever ran it describes it. Its numbers fit the event, or the certificate is refused."""

    algorithm: Literal["DP-SGD"] | None
    title: Name | None
    unit: Literal["record", "example", "user", "client"] | None
    dataset_size: Count | None
    batch_size: Count | None
    epochs: Number | None
    false_positive_rate: Annotated[float, Field(gt=0, lt=1)] | None = None


class ConstantsSection(Section):
    """The numbers that, as whoever trained says, do not depend on the data, the number of records included."""

    divisor: Number
    sampling_probability: Number
    steps: Count


class RecordSection(Section):
    """The record of the training that the event comes from: the last seal of each of its files, how many steps it
    holds, the constants of the training if it has any, and the kinds of its notes.
    """

    seals: Annotated[list[Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]], Field(min_length=1, max_length=100_000)]
    steps: Count
    constants: ConstantsSection | None
    notes: Annotated[list[Note], Field(max_length=6)]


class BudgetSection(Section):
    """The budget that the event was spent from: spending ``spending``, by whom, as its ledger says."""

    name: Name
    epsilon: Number
    delta: Number
    kind: Literal["planned", "adaptive"]
    spending: Annotated[int, Field(ge=1, le=MAX_COUNT)]
    by: Name


class Certificate(Section):
    """A verification, and everything needed to repeat it.

    Attributes
    ----------
    statement
        Sentences for a paper, with every assumption; ``short_statement`` says it in two.
    description
        Title, unit and numbers of the training, as they were given, and the false positive rate of attacks that the
        statement begins with, where one was asked for.
    verdict, guarantee
        The guarantee is None unless the verdict is ``"accepted"``.
    event, neighboring_relation, hypotheses
        The event tree as JSON, which ``dp_event()`` builds; which data sets are neighbours; and the ids of what is
        assumed of whoever ran it, which are those of the event under that relation (docs/meaning.md).
    claim, verification, release
        The claim, the attempt to prove it, plans included, and the release that the attempt belongs to.
    software, times, schema_version, digest
        What made it, when, the format of the file, and the SHA-256 of the rest.
    record
        Which recorded training it is about, if any. A replay sees only whether it contradicts the event;
        ``Record.is_certified_by`` compares it with the record itself.
    proof, per_record, budget
        The SHA-256 on the last line of its proof file; of a strict guarantee for users, a proved epsilon for one record
        at the same delta; the budget that it was spent from. The file has no such field where there is none.
    """

    schema_version: Literal[2]
    statement: Words
    verdict: Literal["accepted", "rejected"]
    guarantee: GuaranteeSection | None
    neighboring_relation: Literal["ADD_OR_REMOVE_ONE", "REPLACE_ONE", "REPLACE_SPECIAL"]
    event: Event
    hypotheses: Annotated[list[Annotated[str, Field(pattern="^[a-z][a-z0-9-]{0,99}$")]], Field(max_length=1000)]
    description: DescriptionSection
    claim: ClaimSection
    release: ReleaseSection
    verification: VerificationSection
    software: SoftwareSection
    times: TimesSection
    record: RecordSection | None
    proof: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    per_record: Annotated[float, Field(ge=0)] | None = None
    budget: BudgetSection | None = None
    digest: str

    @property
    def accepted(self) -> bool:
        """Whether the verdict is ``"accepted"``."""
        return self.verdict == "accepted"

    @property
    def unit(self) -> str:
        """Whose data it protects: ``"record"`` (an example is one), ``"user"`` or ``"client"``."""
        return words.protected(self.dp_event(), self.description.unit)

    @property
    def short_statement(self) -> str:
        """Two sentences for a paper; say with them what ``assumptions`` lists."""
        return words.short_statement(self)

    @property
    def assumptions(self) -> list[str]:
        """The assumptions of the statement, each a clause that follows "that"."""
        return words.assumed(self)

    def __repr__(self) -> str:
        pair = f"epsilon={self.claim.epsilon!r}, delta={self.claim.delta!r}"
        how = f"method={self.verification.method!r}, samples={self.verification.samples}"
        return f"<Certificate {self.verdict}: {pair}, {how}, digest={self.digest[:15]!r}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        clauses = "".join(f"<li>{html.escape(clause)}</li>" for clause in self.assumptions)
        return (
            f"<p><b>{self.verdict.capitalize()}.</b> {html.escape(self.short_statement)}</p>"
            f"<details><summary>It is assumed that</summary><ul>{clauses}</ul></details>"
        )

    def __bool__(self) -> NoReturn:
        raise TypeError("a Certificate has no truth value: use .accepted")

    def dp_event(self) -> DpEvent:
        """The event tree."""
        return self._event

    @cached_property
    def _event(self) -> DpEvent:
        return event_json.event_from_json(self.event)

    def proofs(self) -> dict[str, StatedProof]:
        """The words of the proof in exact arithmetic of each direction that has one."""
        sections = self.verification.directions.items()
        return {name: StatedProof.from_json(one.strict) for name, one in sections if one.strict is not None}

    @property
    def relation(self) -> NeighboringRelation:
        """Which data sets are neighbours."""
        return NeighboringRelation[self.neighboring_relation]

    def document(self) -> dict[str, Any]:
        """All of it in JSON's types."""
        absent: dict[str, Any] = {name: True for name in _OPTIONAL if getattr(self, name) is None}
        if self.description.false_positive_rate is None:
            absent["description"] = {"false_positive_rate"}
        return plain(self.model_dump(exclude=absent))

    def to_json(self) -> str:
        """The text of the file."""
        return pretty(self.document()) + "\n"

    def save(self, path: str | Path) -> None:
        """Write it, whole or not at all.

        An accepted certificate that lies there is first put aside (``aside``), unless this one accepts the same claim.
        """
        with contextlib.suppress(CertificateError):
            earlier = Certificate.load(path)
            same = (earlier.event, earlier.guarantee) == (self.event, self.guarantee)
            if earlier.accepted and not (self.accepted and same):
                atomic.write_text(aside(path), earlier.to_json())
        atomic.write_text(path, self.to_json())

    @classmethod
    def of(cls, certificate: Certificate | str | Path) -> Certificate:
        """The certificate given, or the one in that file."""
        return certificate if isinstance(certificate, Certificate) else cls.load(certificate)

    @classmethod
    def load(cls, path: str | Path) -> Certificate:
        """Read one. A file that is damaged, cut off or altered raises ``CertificateError``; one whose digest fits, but
        that contradicts itself, ``FalseCertificateError``.
        """
        with atomic.reading(validate.path(certificate=path), CertificateError) as file:
            return cls.from_json(file.read(MOST_BYTES + 1).decode("utf-8"))

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """As ``load``, from a string."""
        if len(text) > MOST_BYTES:
            raise CertificateError(f"larger than {MOST_BYTES >> 20} MiB, the limit of a certificate")
        if other := instead(text, "a certificate"):
            raise CertificateError(other)
        return cls.from_document(parsed(text))

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Certificate:
        """As ``load``, from what ``document`` gives."""
        version = document.get("schema_version")
        if type(version) is not int:
            raise CertificateError("not a certificate of evr: it has no schema_version")
        if version != SCHEMA_VERSION:
            what = f"schema version {version}; this evr reads {SCHEMA_VERSION}"
            raise CertificateError(f"{what}: use the evr that wrote it, or certify again")
        for one, _ in event_json.walk(document):
            if isinstance(one, str) and not one.isprintable():  # it could command a terminal
                raise CertificateError(f"it contains characters that do not print: {validate.shown(one)[:80]}")
        if document.get("digest") != digest_of(document):
            raise CertificateError("the digest does not match: the certificate was altered or is damaged")
        found = validated(cls, document)
        try:  # spelled as evr spells it: 1.0 and not 1, no null where a field is left out
            wrong = [*judging.differences(document, found.document()), *judging.contradictions(found)]
        except (ValueError, TypeError, ArithmeticError) as error:
            raise CertificateError(f"it is not about anything that evr accounts for: {error}") from None
        judging.refuse(wrong)
        return found

    @classmethod
    def sealed(cls, document: dict[str, Any]) -> Certificate:
        """Check a document's form, and set its statement and its digest."""
        unsealed = validated(cls, {**document, "statement": "", "digest": ""})
        unsealed = unsealed.model_copy(update={"statement": words.statement(unsealed)})
        return unsealed.model_copy(update={"digest": digest_of(unsealed.document())})


def validated(kind: type[S], document: dict[str, Any]) -> S:
    """A document as a section or a whole, or an error that names its first field that is wrong."""
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        problem = error.errors()[0]
        path = ".".join(map(str, problem["loc"]))[:200]
        if problem["type"] == "extra_forbidden":
            raise CertificateError(f"{path} is not a field of this file: altered, or of a newer evr") from None
        if problem["type"] == "string_pattern_mismatch":
            raise CertificateError(f"{path}={str(problem['input'])[:40]!r} is not as evr writes it") from None
        message = problem["msg"].removeprefix("Value error, ")
        where = f"{path}: {message[0].lower()}" if path else message[0]
        raise CertificateError(f"{where}{message[1:]}"[:300]) from None


def digest_of(document: dict[str, Any]) -> str:
    """SHA-256 of the canonical JSON (RFC 8785), the digest itself left out."""
    try:
        return "sha256:" + event_json.digest_of({key: value for key, value in document.items() if key != "digest"})
    except (ValueError, RecursionError) as error:  # NaN or infinity, whole numbers above 2^53, not Unicode, or too deep
        raise CertificateError(f"it contains data that JSON cannot hold ({str(error)[-80:]})") from None


def aside(path: str | Path) -> Path:
    """``run.accepted.json`` for ``run.json``: where an accepted certificate is kept if another one takes its place."""
    return Path(path).with_suffix(f".accepted{Path(path).suffix}")
