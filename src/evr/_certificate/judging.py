"""Whether a certificate agrees with itself: its words, verdict and numbers follow from its event, claim, proofs and
samples. Every certificate that is read is judged; ``replay`` tells whether the proofs and the samples are true.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from evr._basics.randomness import ENTROPY_BITS
from evr._certificate.sections import (
    ClaimSection,
    GuaranteeSection,
    ReleaseSection,
    SampledDirection,
    SampledVerification,
    StrictDirection,
    StrictVerification,
)
from evr._kernel.events.meaning import hypotheses_of
from evr._kernel.verdict.settings import Claim, Settings, Terms, threshold_of
from evr._wording import statement as words
from evr._wording.description import description_of, is_about_users, phases_of
from evr.errors import FalseCertificateError
from evr.types import Relation

if TYPE_CHECKING:
    from evr._certificate.certificate import Certificate

_SMALLEST_FRESH = 1 << 160  # 256 fresh bits are below this once in 2^96
_UNCOMPARED = re.compile(r"digest|verification\.directions\.\w+\.seconds")
_REASON = re.compile(
    "delta is at most [0-9.e-]+, which is above the claim: claim more|the mean is (beyond doubt above the threshold|"
    "not below the threshold less the offset)|a true claim would long have been accepted|stopped at the limit of "
    "[0-9,]+ samples|delta is positive: no sample could show it to be 0|a mechanism without privacy|infinite losses "
    "alone have a probability of [0-9.e+-]+"
)
"""Why a direction was rejected; why it was accepted can be computed again."""


@dataclass(frozen=True)
class Mismatch:
    field: str
    recorded: Any
    recomputed: Any

    def __str__(self) -> str:
        return f"{self.field}: recorded {self.recorded!r:.120}, recomputed {self.recomputed!r:.120}"


def differences(old: Any, new: Any, path: str = "") -> Iterator[Mismatch]:
    """Every field in which the two differ, at every depth."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**new, **old}:
            absent = "nothing"
            yield from differences(old.get(key, absent), new.get(key, absent), f"{path}.{key}" if path else key)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif repr(old) != repr(new) and not _UNCOMPARED.fullmatch(path):  # which also tells 1 from 1.0, and 0.0 from -0.0
        yield Mismatch(path, old, new)


def refuse(found: list[Mismatch], where: str = "") -> None:
    """Raise ``FalseCertificateError`` if there is a mismatch."""
    if found:
        listed = "; ".join(map(str, found[:5]))
        raise FalseCertificateError(f"{where}the certificate is false: do not rely on it. {listed}")


def claim_of(certificate: Certificate) -> Claim:
    """The claim with the terms of its release; ``ValueError`` if evr cannot have written it."""
    stated, release = certificate.claim, certificate.release
    claim = Claim(stated.epsilon, stated.delta)
    if (release.name is None) != (release.floor is None):
        raise ValueError("release.name and release.floor come together or not at all")
    if stated.tau is not None:
        claim = replace(claim, tau=stated.tau)
    if not 0 < stated.kappa <= 0.025 or (stated.tau and release.attempt == 1 and stated.kappa != claim.kappa):
        raise ValueError(f"claim.kappa={stated.kappa!r} cannot have been written by evr")
    return replace(claim, terms=Terms(stated.kappa, claim.delta if release.floor is None else release.floor))


def settings_of(certificate: Certificate) -> Settings:
    """How it was verified; ``ValueError`` if evr cannot have written it."""
    checked = certificate.verification
    if isinstance(checked, StrictVerification):
        return Settings("strict")
    return Settings(checked.method, checked.proposal, checked.max_samples)


def followed(
    claim: Claim,
    settings: Settings,
    directions: Mapping[str, StrictDirection | SampledDirection],
    attempt: int,
    name: str | None,
    entropy: str,
    fresh: bool,
) -> dict[str, Any]:
    """The sections that follow from the claim, the settings and the reports of the directions."""
    assert claim.terms is not None
    accepted = directions.keys() == {"remove", "add"} and all(one.accepted for one in directions.values())
    checked: dict[str, Any] = {"method": settings.method, "directions": directions}
    stated: dict[str, Any] = {"epsilon": claim.epsilon, "delta": claim.delta}
    counted: dict[str, Any] = {"name": name, "floor": None if name is None else claim.terms.base, "attempt": attempt}
    if settings.method != "strict":
        stated["tau"] = claim.tau
        checked |= {"proposal": settings.proposal, "max_samples": settings.max_samples}
        checked |= {"entropy": entropy, "entropy_is_fresh": fresh}
        checked["samples"] = sum(one.samples for one in directions.values())
    if settings.method in ("sequential", "fixed"):
        log_allowance = claim.log_budget(attempt)
        counted |= {"allowance": math.exp(log_allowance), "log_allowance": log_allowance}
        counted["total_allowance"] = claim.kappa * claim.terms.base
    kind = StrictVerification if settings.method == "strict" else SampledVerification
    return {
        "verdict": "accepted" if accepted else "rejected",
        "guarantee": GuaranteeSection(epsilon=claim.epsilon, delta=claim.delta) if accepted else None,
        "claim": ClaimSection(**stated, kappa=claim.kappa, threshold=claim.threshold),
        "release": ReleaseSection(**counted),
        "verification": kind.model_validate(checked),
    }


def contradictions(certificate: Certificate) -> Iterator[Mismatch]:
    """Every field that is not what follows from the rest of the certificate. Numbers that no mechanism, claim or test
    can have raise errors of their own.
    """
    checked, release, event = certificate.verification, certificate.release, certificate.dp_event()
    claim, settings, drawn = claim_of(certificate), settings_of(certificate), ("0", False)
    if isinstance(checked, SampledVerification):
        drawn = (checked.entropy, checked.entropy_is_fresh)
    entropy, fresh = int(drawn[0], 16), drawn[1]
    right = followed(claim, settings, checked.directions, release.attempt, release.name, *drawn)
    right["description"] = description_of(certificate.description.model_dump(), event)
    right["hypotheses"] = [one.id for one in hypotheses_of(event, certificate.relation)]
    strict, accepted = checked.method in ("strict", "both"), certificate.accepted
    may_be = {"proof": strict, "per_record": strict and is_about_users(event), "budget": True}
    right |= {name: None for name, allowed in may_be.items() if not (accepted and allowed)}
    found = list(differences(certificate.document(), certificate.model_copy(update=right).document()))
    for name, part in checked.directions.items():
        proof, path = certificate.proofs().get(name), f"verification.directions.{name}"
        wealth = part.log_wealth if isinstance(part, SampledDirection) else None
        shown = wealth is None or wealth >= -claim.log_budget(release.attempt)
        if strict:
            shown &= proof is not None and proof.delta <= threshold_of(claim)
        if part.accepted and not shown and (accepted or checked.method != "both"):
            found.append(Mismatch(f"{path}.accepted", True, "what is recorded does not show the claim"))
        if not strict and proof is not None:
            found.append(Mismatch(f"{path}.strict", "a proof", f"none by method {checked.method!r}"))
        if not part.accepted and not _REASON.fullmatch(part.reason):
            found.append(Mismatch(f"{path}.reason", part.reason, "not a reason that evr gives"))
    if fresh and not _SMALLEST_FRESH <= entropy < 1 << ENTROPY_BITS:
        why = f"a number of {entropy.bit_length()} bits was not drawn from {ENTROPY_BITS} fresh ones"
        found.append(Mismatch("verification.entropy_is_fresh", True, why))
    yield from (*found, *_of_record(certificate))
    if not found and certificate.statement != (statement := words.statement(certificate)):
        yield Mismatch("statement", certificate.statement, statement)


def _of_record(certificate: Certificate) -> Iterator[Mismatch]:
    """A record of the training that contradicts the event."""
    record, relation = certificate.record, certificate.neighboring_relation
    if record is None:
        return
    phases, fixed = phases_of(certificate.dp_event()), record.constants
    steps, rates = sum(phase.steps for phase in phases), sorted({phase.rate for phase in phases})
    if record.steps != steps:
        yield Mismatch("record.steps", record.steps, steps)
    if fixed is not None and (fixed.steps, [fixed.sampling_probability]) != (steps, rates):
        yield Mismatch("record.constants", fixed.model_dump(), {"steps": steps, "sampling_probability": rates})
    if relation == Relation.ADD_OR_REMOVE and fixed is None:
        yield Mismatch("neighboring_relation", relation, f"{Relation.ZERO_OUT}, because the record has no constants")
