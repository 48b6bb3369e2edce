"""Whether a certificate agrees with itself: its words, verdict and numbers follow from its event, claim, proofs and
samples. Every certificate that is read is judged; ``replay`` tells whether the proofs and the samples are true.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from evr._basics.randomness import ENTROPY_BITS
from evr._certificate.event_json import plain
from evr._kernel.events.meaning import hypotheses_of
from evr._kernel.verdict.settings import Claim, Settings, Terms, threshold_of
from evr._wording import statement as words
from evr.errors import FalseCertificateError

if TYPE_CHECKING:
    from evr._certificate.certificate import Certificate

_STREAM = (
    "Philox, key = first 16 bytes (little-endian) of SHA-256 of 'entropy|verify|attempt|direction' "
    "(entropy in hexadecimal), counter = block number * 2^192; blocks of block_size samples are "
    "drawn and played in order from 0"
)
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
    claim = Claim(stated.epsilon, stated.delta, stated.tau)
    if (release.name is None) != (release.floor is None):
        raise ValueError("release.name and release.floor come together or not at all")
    if not 0 < stated.kappa <= 0.025 or (release.attempt == 1 and stated.kappa != claim.kappa):
        raise ValueError(f"claim.kappa={stated.kappa!r} cannot have been written by evr")
    return replace(claim, terms=Terms(stated.kappa, claim.delta if release.floor is None else release.floor))


def settings_of(certificate: Certificate) -> Settings:
    """How it was verified; ``ValueError`` if evr cannot have written it."""
    return Settings(**{key: getattr(certificate.verification, key) for key in ("method", "proposal", "max_samples")})


def followed(
    claim: Claim, settings: Settings, directions: Mapping[Any, Any], attempt: int, name: Any, entropy: str, fresh: bool
) -> dict[str, Any]:
    """What a certificate says that follows from the claim, the settings and the reports of the directions, its
    statement apart. Entropy that nobody drew from is written as 0.
    """
    assert claim.terms is not None
    accepted = directions.keys() == {"remove", "add"} and all(one.accepted for one in directions.values())
    sampled, log_budget = settings.method != "strict", claim.log_budget(attempt)
    budget = 0.0 if settings.method in ("strict", "both") else math.exp(log_budget)
    found = {
        "verdict": "accepted" if accepted else "rejected",
        "guarantee": {"epsilon": claim.epsilon, "delta": claim.delta} if accepted else None,
        "claim": {key: getattr(claim, key) for key in ("epsilon", "delta", "tau", "kappa", "threshold")},
        "release": {
            "name": name,
            "floor": None if name is None else claim.terms.base,
            "attempt": attempt,
            "budget": budget,
            "log_budget": log_budget if budget else -math.inf,
            "total_budget": claim.kappa * claim.terms.base,
        },
        "verification": {
            **{key: value for key, value in asdict(settings).items() if key != "device"},  # in plans
            "proposal": settings.proposal if sampled else "capped",
            "entropy": entropy if sampled else "0",
            "entropy_is_fresh": fresh and sampled,
            "stream": _STREAM,
            "samples": sum(one.samples for one in directions.values()),
            "notes": [] if fresh or not sampled else ["the caller gave the seed: a guarantee needs fresh entropy"],
        },
    }
    return plain(found)


def contradictions(certificate: Certificate) -> Iterator[Mismatch]:
    """Every field that is not what follows from the rest of the certificate. Numbers that no mechanism, claim or test
    can have raise errors of their own.
    """
    checked, release, document = certificate.verification, certificate.release, certificate.document()
    facts = (release.attempt, release.name, checked.entropy, checked.entropy_is_fresh)
    claim, described = claim_of(certificate), certificate.description.model_dump()
    right = followed(claim, settings_of(certificate), checked.directions, *facts)
    right["description"] = words.description_of(described, certificate.dp_event())
    right["hypotheses"] = [one.id for one in hypotheses_of(certificate.dp_event(), certificate.relation)]
    strict = checked.method in ("strict", "both")
    right["verification"]["directions"] = document["verification"]["directions"]
    users, accepted = words.is_about_users(certificate.dp_event()), certificate.accepted
    may_be = {"proof": strict, "per_record": strict and users, "budget": True}
    right |= {name: None for name, allowed in may_be.items() if name in document and not (accepted and allowed)}
    found = list(differences(document, {**document, **right}))
    for name, part in checked.directions.items():
        proof, path = certificate.proofs().get(name), f"verification.directions.{name}"
        shown = part.log_wealth is None or part.log_wealth >= -claim.log_budget(release.attempt)
        if strict:
            shown &= proof is not None and proof.delta <= threshold_of(claim)
        if part.accepted and not shown and (accepted or checked.method != "both"):
            found.append(Mismatch(f"{path}.accepted", True, "what is recorded does not show the claim"))
        if not strict and proof is not None:
            found.append(Mismatch(f"{path}.strict", "a proof", f"none by method {checked.method!r}"))
        if not part.accepted and not _REASON.fullmatch(part.reason):
            found.append(Mismatch(f"{path}.reason", part.reason, "not a reason that evr gives"))
    entropy = int(checked.entropy, 16)
    if checked.entropy_is_fresh and not _SMALLEST_FRESH <= entropy < 1 << ENTROPY_BITS:
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
    phases, fixed = words.phases_of(certificate.dp_event()), record.constants
    steps, rates = sum(phase.steps for phase in phases), sorted({phase.rate for phase in phases})
    if record.steps != steps:
        yield Mismatch("record.steps", record.steps, steps)
    if fixed is not None and (fixed.steps, [fixed.sampling_probability]) != (steps, rates):
        yield Mismatch("record.constants", fixed.model_dump(), {"steps": steps, "sampling_probability": rates})
    if relation == "ADD_OR_REMOVE_ONE" and fixed is None:
        yield Mismatch("neighboring_relation", relation, "REPLACE_SPECIAL, because the record has no constants")
