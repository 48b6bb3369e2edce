"""Certificates: what was verified, with what, and everything that it takes to do it again. Versioned JSON.

Files of other formats are refused. The digest shows damage. ``evr._certificate.replay`` shows whether the content is
true; ``event_json`` leaves no room for a sentence in what a replay cannot recompute.
"""

import contextlib
import html
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, Self

from dp_accounting import NeighboringRelation
from dp_accounting.dp_event import DpEvent
from pydantic import AfterValidator, Field

from evr._basics import atomic, validate
from evr._basics.file_types import instead
from evr._certificate import event_json, judging
from evr._certificate.event_json import parsed, plain, pretty
from evr._certificate.sections import (
    BudgetSection,
    ClaimSection,
    DescriptionSection,
    GuaranteeSection,
    RecordSection,
    RelationWord,
    ReleaseSection,
    SampledVerification,
    Section,
    Sha256,
    SoftwareSection,
    StrictVerification,
    TimesSection,
    Words,
    validated,
)
from evr._kernel.events.relations import relation_named
from evr._kernel.strict import StatedProof
from evr._wording import statement as words
from evr._wording.description import protected
from evr.errors import CertificateError

SCHEMA_VERSION = 3


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
        The guarantee is None unless the verdict is ``"accepted"``. What is None is left out of the file.
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
        at the same delta; the budget that it was spent from.
    """

    schema_version: Literal[3]
    statement: Words
    verdict: Literal["accepted", "rejected"]
    guarantee: GuaranteeSection | None = None
    neighboring_relation: RelationWord
    event: Annotated[dict[str, Any], AfterValidator(event_json.checked_tree)]
    hypotheses: Annotated[list[Annotated[str, Field(pattern="^[a-z][a-z0-9-]{0,99}$")]], Field(max_length=1000)]
    description: DescriptionSection = DescriptionSection()
    claim: ClaimSection
    release: ReleaseSection
    verification: Annotated[StrictVerification | SampledVerification, Field(discriminator="method")]
    software: SoftwareSection
    times: TimesSection
    record: RecordSection | None = None
    proof: Sha256 | None = None
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
        return protected(self.dp_event(), self.description.unit)

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
        return {name: section.strict.stated() for name, section in sections if section.strict is not None}

    @property
    def relation(self) -> NeighboringRelation:
        """Which data sets are neighbours."""
        return relation_named(self.neighboring_relation)

    def document(self) -> dict[str, Any]:
        """All of it in JSON's types."""
        found: dict[str, Any] = plain(self.model_dump(exclude_none=True))
        return {name: value for name, value in found.items() if name != "description" or value}

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
    def of(cls, certificate: "Certificate | str | Path") -> "Certificate":
        """The certificate given, or the one in that file."""
        return certificate if isinstance(certificate, Certificate) else cls.load(certificate)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read one. A file that is damaged, cut off or altered raises ``CertificateError``; one whose digest fits, but
        that contradicts itself, ``FalseCertificateError``.
        """
        with atomic.reading(validate.path(certificate=path), CertificateError) as data:
            return cls.from_json(data.decode("utf-8"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """As ``load``, from a string."""
        if other := instead(text, "a certificate"):
            raise CertificateError(other)
        return cls.from_document(parsed(text))

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Self:
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
    def sealed(cls, document: dict[str, Any]) -> Self:
        """Check a document's form, and set its statement and its digest."""
        unsealed = validated(cls, {**document, "statement": "", "digest": ""})
        unsealed = unsealed.model_copy(update={"statement": words.statement(unsealed)})
        return unsealed.model_copy(update={"digest": digest_of(unsealed.document())})


def digest_of(document: dict[str, Any]) -> str:
    """SHA-256 of the canonical JSON (RFC 8785), the digest itself left out."""
    try:
        return "sha256:" + event_json.digest_of({key: value for key, value in document.items() if key != "digest"})
    except (ValueError, RecursionError) as error:  # NaN or infinity, whole numbers above 2^53, not Unicode, or too deep
        raise CertificateError(f"it contains data that JSON cannot hold ({str(error)[-80:]})") from None


def aside(path: str | Path) -> Path:
    """``run.accepted.json`` for ``run.json``: where an accepted certificate is kept if another one takes its place."""
    return Path(path).with_suffix(f".accepted{Path(path).suffix}")
