"""``evr attest``: bind a certificate to the files that a training made."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evr.cli import REJECTED, options
from evr.cli.output import as_json, fail, new_certificate, say


def command(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE... CERTIFICATE", help="What the training made; then its certificate.")
    ],
    key: Annotated[Path | None, options.file("Sign with this Ed25519 private key (PEM).")] = None,
    output: Annotated[
        Path | None, options.file("Where to write it; MODEL.attestation.json by default.", "--output", "-o")
    ] = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write an in-toto statement that binds a certificate to files by their SHA-256.

    With `--key`, it is signed and stands in a DSSE envelope. Without, it is the statement alone, which cosign or
    another tool can sign. `evr replay --attestation` checks either. Exit code 3: the certificate was rejected.

    Example: evr attest model.safetensors training.certificate.json --key signing.pem
    """
    from evr.certification import Certificate
    from evr.certification.attestation import Attestation

    *subjects, last = files
    if not subjects:
        raise ValueError(f"{last} alone is not enough: give the files that the training made, then its certificate")
    certificate = Certificate.load(last)
    if not certificate.accepted:
        fail(f"{last} was rejected: it guarantees nothing that could be attested", REJECTED)
    path = new_certificate(output or subjects[0].with_suffix(".attestation.json"), force=force)
    made = Attestation.of(subjects, certificate)
    made = made if key is None else made.signed(key)
    made.save(path)
    if json:
        as_json({"attestation": str(path), "signed": key is not None, "subjects": made.subjects})
        return
    signed = "signed by nobody" if key is None else f"signed with {key}"
    say(f"attestation: {path} ({signed}). Whoever signs it says that this training made these files.")
    if not quiet:
        listed = [f"{name}: sha256 {digest}" for name, digest in made.subjects.items()]
        say("\n".join([*listed, certificate.short_statement]))
