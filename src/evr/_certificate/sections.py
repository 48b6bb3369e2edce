"""The parts of a certificate as data: what each may hold, and what is left out where there is nothing to say.

Unknown fields are refused at every depth, for nobody would check them. No field is null or empty: a certificate of a
strict proof has no field about samples, and one of samples none about exact proofs.
"""

import re
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError, WithJsonSchema

from evr._basics import validate
from evr._basics.validate import MAX_COUNT
from evr._certificate.event_json import LONGEST_NAME, NAME, TIME, UNENDING
from evr._kernel.sampled.plan import DrawPlan
from evr._kernel.strict import StatedProof
from evr.errors import CertificateError
from evr.types import Direction, Note, Relation, Unit

Number = Annotated[
    float,
    BeforeValidator(lambda value: UNENDING.get(value, value) if isinstance(value, str) else value),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"enum": sorted(UNENDING)}]}),
]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Positive = Annotated[int, Field(ge=1, le=MAX_COUNT)]
Words = Annotated[str, Field(max_length=100_000)]
Name = Annotated[str, Field(pattern=NAME, max_length=LONGEST_NAME)]
Time = Annotated[str, Field(pattern=TIME)]
Version = Annotated[str, Field(pattern=r"^[0-9][0-9A-Za-z.+-]{0,39}$")]
Word = Annotated[str, Field(pattern=r"^[0-9A-Za-z_.-]{1,20}$")]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
DirectionWord = Annotated[str, Field(pattern=f"^({'|'.join(Direction)})$")]
RelationWord = Annotated[str, Field(pattern=f"^({'|'.join(Relation)})$")]
UnitWord = Annotated[str, Field(pattern=f"^({'|'.join(Unit)})$")]
NoteWord = Annotated[str, Field(pattern=f"^({'|'.join(Note)})$")]
S = TypeVar("S", bound="Section")


def _without_null(schema: dict[str, Any]) -> None:
    """Say in the JSON Schema of a section that what is not said is left out, and never null."""
    for field in schema.get("properties", {}).values():
        kinds = [kind for kind in field.pop("anyOf", ()) if kind != {"type": "null"}]
        field.update({"anyOf": kinds} if len(kinds) > 1 else kinds[0] if kinds else {})
        field.pop("default", None)


class Section(BaseModel, extra="forbid", frozen=True, strict=True, json_schema_extra=_without_null):
    """Part of a file."""


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
    tau: Number | None = None
    kappa: Number
    threshold: Number


class ReleaseSection(Section):
    """Which attempt at which release. ``floor`` is the least that a named release may claim. ``allowance`` bounds the
    probability that this attempt accepts a false claim, ``total_allowance`` that any attempt does.
    """

    name: Name | None = None
    floor: Number | None = None
    attempt: Positive
    allowance: Number | None = None
    log_allowance: Number | None = None
    total_allowance: Number | None = None


class ProofSection(Section):
    """A proof in exact arithmetic in its own words: the bound, and the plan that leads to it, where it needs one."""

    bound: str
    plan: dict[str, Any] | None = None
    digest: str | None = None

    def stated(self) -> StatedProof:
        """The words of the proof."""
        return StatedProof.from_json(self.model_dump())


Proved = Annotated[ProofSection, AfterValidator(lambda proof: proof.stated() and proof)]
Plan = Annotated[dict[str, Any], AfterValidator(lambda plan: DrawPlan.from_json(plan) and plan)]
Row = Annotated[list[Number], Field(min_length=4, max_length=4)]


class StrictDirection(Section):
    """The result of a strict proof in one direction."""

    samples: ClassVar[int] = 0
    accepted: bool
    reason: Words
    strict: Proved


class SampledDirection(Section):
    """The result of samples in one direction; fields as of ``evr.proving.DirectionReport``."""

    accepted: bool
    reason: Words
    samples: Count
    blocks: Count
    block_size: Count
    estimate: Number | None = None
    standard_error: Number | None = None
    log_wealth: Number | None = None
    log_target: Number | None = None
    threshold: Number
    bound: Number
    second_moment: Number
    clip: Number | None = None
    correction: Number
    plan: Plan | None = None
    strict: Proved | None = None
    trace: Annotated[list[Row], Field(min_length=1, max_length=1000)] | None = None
    seconds: Number


class StrictVerification(Section):
    """A proof in exact arithmetic."""

    samples: ClassVar[int] = 0
    method: Literal["strict"]
    directions: dict[DirectionWord, StrictDirection]


class SampledVerification(Section):
    """How samples tested the claim, under ``"both"`` beside a strict proof. ``entropy`` is hexadecimal."""

    method: Literal["sequential", "fixed", "both"]
    proposal: Annotated[str, Field(pattern=r"^[a-z_]{1,40}$")]
    max_samples: Positive | None = None
    entropy: Annotated[str, Field(pattern="^[0-9a-f]{1,4096}$")]
    entropy_is_fresh: bool
    samples: Count
    directions: dict[DirectionWord, SampledDirection]


class TimesSection(Section):
    """When, in UTC, and for how many seconds evr planned and proved."""

    started: Time
    finished: Time
    seconds: Number


class SoftwareSection(Section):
    """The software that made the certificate. ``commit`` is that of evr's sources, where it is known."""

    evr: Annotated[str, Field(pattern=r"^[0-9]{1,4}(\.[0-9]{1,4}){2}((a|b|rc|\.dev|\.post)[0-9]{1,4}){0,2}$")]
    commit: Annotated[str, Field(pattern="^[0-9a-f]{40}$")] | None = None
    drawing: Annotated[str, Field(pattern="^[0-9]{1,6}$")]
    numpy: Version
    scipy: Version
    python: Version
    platform: Annotated[str, Field(pattern=r"^[0-9A-Za-z_.-]{1,20} [0-9A-Za-z_.-]{1,20}$")]
    simd: Word


class DescriptionSection(Section):
    """The training as whoever ran it describes it. Its numbers fit the event, or the certificate is refused."""

    algorithm: Literal["DP-SGD"] | None = None
    title: Name | None = None
    unit: UnitWord | None = None
    dataset_size: Positive | None = None
    batch_size: Positive | None = None
    epochs: Number | None = None
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

    seals: Annotated[list[Sha256], Field(min_length=1, max_length=100_000)]
    steps: Count
    constants: ConstantsSection | None = None
    notes: Annotated[list[NoteWord], Field(max_length=6)]


class BudgetSection(Section):
    """The budget that the event was spent from: spending ``spending``, by whom, as its ledger says."""

    name: Name
    epsilon: Number
    delta: Number
    kind: Literal["planned", "adaptive"]
    spending: Positive
    by: Name


def validated(kind: type[S], document: dict[str, Any]) -> S:
    """A document as a section or a whole, or an error that names its first field that is wrong."""
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        problem = error.errors()[0]
        # the tag of a section that is one of several is no part of the path
        path = re.sub(r"^verification\.[a-z]+\.", "verification.", ".".join(map(str, problem["loc"])))
        path = validate.printable(path[:200])
        if problem["type"] == "extra_forbidden":
            raise CertificateError(f"{path} is not a field of this file: altered, or of a newer evr") from None
        if problem["type"] == "string_pattern_mismatch":
            raise CertificateError(f"{path}={str(problem['input'])[:40]!r} is not as evr writes it") from None
        message = problem["msg"].removeprefix("Value error, ")
        where = f"{path}: {message[0].lower()}" if path else message[0]
        raise CertificateError(f"{where}{message[1:]}"[:300]) from None
