"""``evr replay``: do again what a certificate says, and compare."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evr.cli import REJECTED, options
from evr.cli.output import as_json, fail, say

if TYPE_CHECKING:
    from evr.certification import Certificate
    from evr.certification.replay import Replay

_SIGNER = "That this training made these files is the word of whoever signed, if anybody."


def command(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="A certificate (JSON); or the files that an attestation is about."),
    ],
    attestation: Annotated[
        Path | None, options.file("Check this attestation of the files, and the certificate in it.")
    ] = None,
    key: Annotated[Path | None, options.file("The public key (PEM) that must have signed the attestation.")] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Verify the claim with new entropy instead: an independent check.")
    ] = False,
    workers: options.Workers = None,
    max_seconds: options.MaxSeconds = options.PATIENCE,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Repeat the proof of a certificate, or draw its samples again, and name every field that differs.

    Exit code 0: all agrees and the claim was accepted; 3: something differs, the claim was rejected, or other software
    drew the samples and they cannot be drawn again here; 2: damaged. With `--attestation`, first the signature (by
    `--key`) and the SHA-256 of each file are checked; code 3 also says that one of them does not fit.

    Example: evr replay examples/dpsgd.certificate.json
    """
    from evr.certification import Certificate, replay

    about: dict[str, list[str]] = {}
    if attestation is not None:
        file = attestation
        certificate, about = _attested(attestation, files, key)
    elif len(files) > 1 or key is not None:
        raise ValueError("one certificate is replayed at a time; several files and --key belong to --attestation FILE")
    else:
        file = files[0]
        certificate = Certificate.load(file)
    for word, listed in about.items() if not json else ():
        say("\n".join(f"{word}: {one}" for one in listed))
    progress = not (quiet or json)
    found = replay(certificate, fresh=fresh, workers=workers, progress=progress, max_seconds=max_seconds)
    verified = found.verification is not None and found.verification.accepted
    if json:
        as_json(
            {
                "agrees": found.agrees,
                "fresh": fresh,
                "verdict": certificate.verdict,
                "replayed": None if found.verification is None else found.verification.verdict.value,
                "mismatches": [asdict(one) for one in found.mismatches],
                "notes": list(found.notes),
                "undecided": found.undecided,
                **({"attestation": {word.replace(" ", "_"): one for word, one in about.items()}} if about else {}),
            }
        )
    else:
        for mismatch in found.mismatches:
            say(str(mismatch))
        say(f"{file}: {_outcome(certificate, found, fresh=fresh)}")
        if not quiet and found.undecided is None:
            for note in found.notes:
                say(f"note: {note}")
        if about and found.agrees and not quiet:
            say(f"\n{certificate.statement}\n\n{_SIGNER}")
    if not (found.agrees and (verified or certificate.guarantee is not None)):
        raise typer.Exit(REJECTED)


def _outcome(certificate: Certificate, found: Replay, *, fresh: bool) -> str:
    if found.undecided is not None:
        return f"could not be replayed here: {found.undecided}."
    if not found.agrees:
        return "does NOT agree with its replay: do not rely on it."
    if fresh:
        drawn = 0 if found.verification is None else found.verification.samples
        how = f"{drawn:,} new samples give" if drawn else "a new verification, which needs no samples, gives"
        return f"{how} the same verdict, {certificate.verdict}."
    method, samples = certificate.verification.method, certificate.verification.samples
    again = [] if method not in ("strict", "both") else ["its integers came out the same"]
    again += [] if method == "strict" else [f"{samples:,} samples drawn again"]
    return f"agrees with its replay ({', '.join(again)}); the verdict is {certificate.verdict}."


def _attested(path: Path, files: list[Path], key: Path | None) -> tuple[Certificate, dict[str, list[str]]]:
    """The certificate in an attestation, what was checked and what not. Leaves with 3 where something does not fit."""
    from evr.certification.attestation import Attestation, sha256_of

    attestation = Attestation.load(path)
    if key is not None and not attestation.is_signed_by(key):
        why = "no signature fits" if attestation.signatures else "nobody signed it, so nothing fits"
        fail(f"{path}: {why} the key {key}: do not rely on it", REJECTED)
    digests = {sha256_of(one): one for one in files}
    for digest, one in digests.items():
        if digest not in attestation.subjects.values():
            fail(f"{one}: {path} is not about this file (sha256 {digest}): do not rely on it", REJECTED)
    checked = [f"the SHA-256 of {one}" for one in files]
    left = [f"{name}, which is attested too" for name, one in attestation.subjects.items() if one not in digests]
    if key is not None:
        checked.insert(0, f"the signature, by {key}")
    elif attestation.signatures:
        left.insert(0, "the signature, for no --key is given")
    else:
        left.insert(0, "who wrote it, for nobody signed it")
    return attestation.certificate, {"checked": checked, "not checked": left}
