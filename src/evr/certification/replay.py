"""Doing again what a certificate says, and comparing: the only way to trust one from somebody else.

From the primary fields (event, estimate, ``tau``, ``kappa``, floor, attempt, entropy, settings) everything else is computed anew,
samples included, and compared field by field. A certificate whose numbers or words were altered differs somewhere, however its
digest was mended. What cannot be computed is taken as recorded: software, times, the name of a release, and that entropy was
fresh. Closed alphabets (``alphabet.py``) leave no room in them for anything else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from evr.certification.build import build, software
from evr.certification.certificate import Certificate
from evr.certification.event_json import event_from_json
from evr.certification.redrawing import redrawn
from evr.errors import CertificateError
from evr.estimation import estimate_delta, estimate_epsilon
from evr.mechanisms import Composition
from evr.proving import prove
from evr.proving.without_samples import proved_delta
from evr.randomness import ENTROPY_BITS
from evr.verification import Claim, Progress, Terms, Verification
from evr.verification.attempts import Attempt
from evr.verification.driver import ProgressHook
from evr.verification.settings import Settings

UNCHECKED = ("digest", "software", "times")
"""Top-level fields that no replay can recompute; neither can it recompute the ``seconds`` of a direction."""

_SMALLEST_FRESH = 1 << 160  # 256 fresh bits are below this once in 2^96
_CLOSE = 1e-9


@dataclass(frozen=True)
class Mismatch:
    """One field that differs."""

    field: str
    recorded: Any
    recomputed: Any

    def __str__(self) -> str:
        return f"{self.field}: recorded {_short(self.recorded)}, recomputed {_short(self.recomputed)}"


@dataclass(frozen=True)
class Replay:
    """What a replay found.

    Attributes
    ----------
    mismatches
        Fields that differ; empty if the certificate is what its entropy gives.
    verification
        Of the replay, where it came so far; with ``fresh``, an independent one.
    fresh
        Whether new entropy was used: then only the verdict is compared.
    notes
        What else a reader should know.
    """

    mismatches: tuple[Mismatch, ...]
    verification: Verification | None
    fresh: bool
    notes: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether nothing differs."""
        return not self.mismatches


class _TooMany(Exception):
    pass


def replay(
    certificate: Certificate,
    *,
    fresh: bool = False,
    workers: int | None = None,
    progress: ProgressHook | None = None,
) -> Replay:
    """Draw the same blocks again and compare every field; with ``fresh``, verify the claim with new entropy instead.

    On the same software all is equal bit for bit. On other versions or processors statistics may differ in the last digits,
    which is then noted and not held against the certificate.
    """
    try:
        claim, settings = _claim(certificate)
        event = event_from_json(certificate.event)
        Composition.of(event)
        verification = _verified(certificate, event, claim, settings, fresh, workers, progress)
    except _TooMany as error:
        return Replay((Mismatch("verification.samples", certificate.verification.samples, str(error)),), None, fresh)
    except (ValueError, TypeError, ArithmeticError, MemoryError, RecursionError) as error:
        return Replay((Mismatch("verification", "done", f"cannot be done: {error}"),), None, fresh)
    if fresh:
        return _independent(certificate, verification)
    again = _rebuilt(certificate, claim, verification)
    same_software = all(certificate.software.get(key) == value for key, value in software().items())
    recorded, recomputed = certificate.document(), again.document()
    mismatches, rounded = [], []
    for field, old, new in _differences(recorded, recomputed):
        if not same_software and _close(old, new) and field.startswith(("verification.directions", "estimate")):
            rounded.append(field)
        else:
            mismatches.append(Mismatch(field, old, new))
    mismatches += _unlikely(certificate)
    notes = []
    if not same_software:
        theirs = ", ".join(f"{k} {v}" for k, v in certificate.software.items())
        notes.append(
            f"the certificate was made with other software ({theirs}): equality to the last bit is not promised"
        )
    if certificate.software.get("drawing") != software()["drawing"]:
        notes.append(
            "its samples were drawn otherwise than this version draws them: replay it with the version that made it, or with fresh samples"
        )
    if rounded:
        notes.append(f"{len(rounded)} statistics differ in their last digits only")
    return Replay(tuple(mismatches), verification, False, tuple(notes))


def _claim(certificate: Certificate) -> tuple[Claim, Settings]:
    stated, release, checked = certificate.claim, certificate.release, certificate.verification
    plain = Claim(stated.epsilon, stated.delta_estimate, stated.tau)
    if (release.name is None) != (release.floor is None):
        raise CertificateError("release.name and release.floor come together or not at all")
    base = plain.value if release.floor is None else release.floor
    if not 0 < stated.kappa <= 0.025 or (release.attempt == 1 and stated.kappa != plain.kappa):
        raise CertificateError(f"claim.kappa={stated.kappa!r} is none that evr uses")
    claim = Claim(stated.epsilon, stated.delta_estimate, stated.tau, Terms(stated.kappa, base))
    return claim, Settings(checked.method, checked.proposal, checked.max_samples, checked.offset)


def _verified(
    certificate: Certificate,
    event: Any,
    claim: Claim,
    settings: Settings,
    fresh: bool,
    workers: int | None,
    progress: ProgressHook | None,
) -> Verification:
    recorded = certificate.verification.directions

    def watch(state: Progress) -> None:
        if not fresh and (state.direction not in recorded or state.samples > recorded[state.direction].samples):
            raise _TooMany(f"more than {state.samples} in direction {state.direction}")
        if progress is not None:
            progress(state)

    how = Attempt(
        number=certificate.release.attempt,
        seed=None if fresh else int(certificate.verification.entropy, 16),
        workers=workers,
        progress=watch,
    )
    if fresh:
        return prove(event, claim, settings, how)
    return redrawn(certificate, Composition.of(event), claim, settings, how)


def _independent(certificate: Certificate, verification: Verification) -> Replay:
    verdict = verification.verdict.value
    differs = [] if verdict == certificate.verdict else [Mismatch("verdict", certificate.verdict, verdict)]
    return Replay(tuple(differs), verification, True)


def _rebuilt(certificate: Certificate, claim: Claim, verification: Verification) -> Certificate:
    """The certificate as it should be."""
    checked, estimate, fallback = certificate.verification, None, None
    event = event_from_json(certificate.event)
    if certificate.estimate is not None:
        estimate = certificate.estimate.model_dump()
        if estimate["method"] == "fft":
            function = estimate_epsilon if estimate["quantity"] == "epsilon" else estimate_delta
            found = function(event, estimate["at"])
            estimate |= {"value": found.value, "error": getattr(found, "error", None), "direction": found.direction}
        else:
            estimate["method"] = "fft"
        estimate["at"] = claim.delta if estimate["quantity"] == "epsilon" else claim.epsilon
    if certificate.fallback is not None:
        bounds = proved_delta(event_from_json(certificate.fallback.event), claim.epsilon)
        fallback = {**certificate.fallback.model_dump(), "bounds": bounds}
        if max(bounds.values()) > claim.threshold or verification.accepted:
            fallback = None
    return build(
        verification,
        event=certificate.event,
        claim=claim,
        name=certificate.release.name,
        proposal=checked.proposal,
        max_samples=checked.max_samples,
        offset=checked.offset,
        entropy_is_fresh=checked.entropy_is_fresh,
        estimate=estimate,
        fallback=fallback,
        computed_by=certificate.software,
        times=certificate.times.model_dump(),
    )


def _unlikely(certificate: Certificate) -> Iterator[Mismatch]:
    """What is possible and not to be believed."""
    checked = certificate.verification
    if checked.entropy_is_fresh and not _SMALLEST_FRESH <= int(checked.entropy, 16) < 1 << ENTROPY_BITS:
        size = f"a number of {int(checked.entropy, 16).bit_length()} bits"
        yield Mismatch("verification.entropy_is_fresh", True, f"{size} was not drawn from {ENTROPY_BITS} fresh ones")


def _differences(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every field in which the two differ, at every depth."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in new.items():
            field = f"{path}.{key}" if path else key
            if field in UNCHECKED or (key == "seconds" and path.startswith("verification.directions")):
                continue
            if key not in old:
                yield field, None, value
            else:
                yield from _differences(old[key], value, field)
        yield from ((f"{path}.{key}", old[key], None) for key in sorted(old.keys() - new.keys()))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _differences(one, other, f"{path}[{index}]")
    elif old != new or type(old) is not type(new):
        yield path, old, new


def _close(old: Any, new: Any) -> bool:
    numbers = isinstance(old, float) and isinstance(new, float)
    return numbers and math.isclose(old, new, rel_tol=_CLOSE, abs_tol=1e-300)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."
