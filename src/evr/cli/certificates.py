"""Commands on a certificate. ``evr show``: in the terminal, as a page, as LaTeX, for a model card.
``evr replay``: do again what it says, and compare. ``evr attest``: bind it to the files that a training made.
"""

import os
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import evr
from evr.cli import REJECTED, options
from evr.cli.files import new_certificate, new_files
from evr.cli.output import accepted, as_json, fail, number, say, seconds, table

if TYPE_CHECKING:
    from evr._certificate.replay import Replay

_SIGNER = "That this training made these files is the word of whoever signed, if anybody."


def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A certificate (JSON).")],
    *,
    html: Annotated[Path | None, options.file("Write one page about it to this file instead.")] = None,
    proof: Annotated[Path | None, options.file("Write its proof file, and check_proof.py beside it.")] = None,
    latex: Annotated[bool, options.option("Print the short statement as LaTeX, with BibTeX.", "--latex")] = False,
    card: Annotated[bool, options.option("Print YAML and prose for a model card on Hugging Face.", "--card")] = False,
    max_seconds: options.MaxSeconds = options.PATIENCE,
    out: options.Out,
) -> None:
    """Show what a certificate says, after its proofs have been checked; `evr replay` also draws its samples again.

    With `--html`, write one page: what is claimed, who checked it and how, what is assumed, and every parameter. The
    page needs no network, follows light and dark mode, and prints well. With `--proof`, write the proof in exact
    arithmetic as a file that needs no evr; the page of `--html` then has a button that checks it.

    Example: evr show examples/dpsgd.certificate.json --html dpsgd.html
    """
    from evr._certificate.replay import confirmed

    files = html is not None or proof is not None
    if sum((files, latex, card, out.json)) > 1:
        raise ValueError("--html, --latex, --card and --json are ways to show it: give one of them")
    new_files(file, html=html, proof=proof)
    nothing = "there is no guarantee to print"
    certificate = accepted(file, max_seconds, nothing) if card else confirmed(file, max_seconds)
    data = None
    if proof is not None:
        from evr._proof.writer import proof_of, write_proof

        data = proof_of(certificate)
        write_proof(proof, data)
        out.wrote_proof(proof, data)
    if html is not None:
        from evr._report.page import write_report

        write_report(certificate, html, source=str(file), proof=data, max_seconds=max_seconds)
        out.wrote(html)
    elif card or latex:
        from evr._wording import publishing

        words = publishing.model_card(certificate, max_seconds) if card else publishing.latex_statement(certificate)
        print(words, end="")
        if latex and not out.quiet:
            print(f"\n{publishing.bibtex(certificate)}", end="")
    elif out.json:
        as_json(certificate.document())
    elif not files:
        say(certificate.statement)
        if not out.quiet:
            _tell_more(certificate, file, max_seconds)


def _tell_more(certificate: "evr.Certificate", file: Path, max_seconds: float) -> None:
    """What it means, and what its statement does not say."""
    if certificate.accepted:
        from evr._wording.publishing import meaning

        *sentences, basis = meaning(certificate, max_seconds)
        say("\nWhat this means:\n" + "\n".join(f"- {one}" for one in sentences) + f"\n{basis}")
    from evr._certificate.sections import SampledDirection, SampledVerification

    checked, times = certificate.verification, certificate.times
    facts = {"verdict": certificate.verdict, "tested against": f"delta {number(certificate.claim.threshold, 9)}"}
    for name, one in checked.directions.items():
        facts[f"{name} direction"] = one.reason
        if isinstance(one, SampledDirection) and one.samples:
            spread = number(one.standard_error, 2)
            mean = f"; the mean of {one.samples:,} samples is {number(one.estimate)}, give or take {spread}"
            facts[f"{name} direction"] += mean
    if isinstance(checked, SampledVerification):
        fresh = "recorded as fresh" if checked.entropy_is_fresh else "given by the caller"
        facts |= {"proposal": str(checked.proposal), "entropy": f"{checked.entropy} ({fresh})"}
    if (record := certificate.record) is not None:
        facts["record"] = f"{record.steps:,} steps, last seal {', '.join(record.seals)}"
        facts["notes of the record"] = ", ".join(record.notes) or "none"
    facts["software"] = ", ".join(f"{key} {value}" for key, value in certificate.software if value)
    facts["time"] = f"{times.started} to {times.finished} ({seconds(times.seconds)})"
    facts["digest"] = certificate.digest
    if certificate.proof is not None:
        facts["proof file"] = f"sha256 {certificate.proof}"
    print()
    table("Certificate", [{"field": name, "value": value} for name, value in facts.items()])
    if not isinstance(checked, SampledVerification):
        say("\nIts integers were computed again just now, and came out the same.")
    else:
        say(f"\nIts samples are shown as recorded. To draw them again: evr replay {shlex.quote(str(file))}")


def _latest() -> Path:
    """The certificate that was written last, by the ledger of this folder."""
    from evr._release.ledger import DEFAULT_PATH

    if DEFAULT_PATH.exists():
        with evr.Ledger(create=False) as ledger:
            written = [Path(one.certificate) for one in reversed(ledger.attempts()) if one.certificate is not None]
        if found := next((path for path in written if path.exists()), None):
            return Path(os.path.relpath(found))
    raise ValueError("which certificate? No attempt of a ledger in this folder has one here: give its file")


def replay(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE...", help="A certificate (JSON; the latest by default), or files of an attestation."
        ),
    ] = None,
    *,
    attestation: Annotated[
        Path | None, options.file("Check this attestation of the files, and its certificate.")
    ] = None,
    key: Annotated[Path | None, options.file("The public key (PEM) that must have signed the attestation.")] = None,
    fresh: Annotated[bool, options.option("Draw new samples: an independent check.", "--fresh")] = False,
    workers: options.Workers = None,
    max_seconds: options.MaxSeconds = options.PATIENCE,
    out: options.Out,
) -> None:
    """Repeat the proof of a certificate, or draw its samples again, and name every field that differs.

    Exit code 0: all agrees and the claim was accepted; 3: something differs or contradicts the rest, the claim was
    rejected, or other software drew the samples and they cannot be drawn again here; 2: damaged. With `--attestation`,
    first the signature (by `--key`) and the SHA-256 of each file are checked; code 3 also says that one does not fit.

    Example: evr replay examples/dpsgd.certificate.json
    """
    about: dict[str, list[str]] = {}
    if attestation is not None and not files:
        raise ValueError(f"{attestation} is about files: give them, so that their SHA-256 is compared")
    files = files or [_latest()]
    if attestation is not None:
        certificate, about = _attested(attestation, files, key)
    elif len(files) > 1 or key is not None:
        raise ValueError("one certificate is replayed at a time; several files and --key belong to --attestation FILE")
    else:
        certificate = evr.Certificate.load(files[0])
    for word, listed in about.items() if not out.json else ():
        say("\n".join(f"{word}: {one}" for one in listed))
    found = evr.replay(certificate, fresh=fresh, workers=workers, progress=not out.silent, max_seconds=max_seconds)
    if out.json:
        again = None if found.verification is None else found.verification.verdict.value
        document: dict[str, Any] = {"agrees": found.agrees, "fresh": fresh, "verdict": certificate.verdict}
        document |= {"replayed": again, "mismatches": [asdict(one) for one in found.mismatches]}
        document |= {"notes": list(found.notes), "undecided": found.undecided}
        if about:
            document["attestation"] = {word.replace(" ", "_"): listed for word, listed in about.items()}
        as_json(document)
    else:
        for mismatch in found.mismatches:
            say(str(mismatch))
        say(f"{attestation or files[0]}: {_outcome(certificate, found, fresh=fresh)}")
        for note in found.notes if not out.quiet and found.undecided is None else ():
            say(f"note: {note}")
        if about and found.agrees and not out.quiet:
            say(f"\n{certificate.statement}\n\n{_SIGNER}")
    if not (found.agrees and certificate.accepted):
        raise typer.Exit(REJECTED)


def _outcome(certificate: "evr.Certificate", found: "Replay", *, fresh: bool) -> str:
    if found.undecided is not None:
        return f"could not be replayed here: {found.undecided}."
    if not found.agrees:
        return "does NOT agree with its replay: do not rely on it."
    if fresh and found.verification is not None and (drawn := found.verification.samples):
        return f"all but its samples agrees, and {drawn:,} new samples give the same verdict, {certificate.verdict}."
    method, samples = certificate.verification.method, certificate.verification.samples
    again = [] if method not in ("strict", "both") else ["its integers came out the same"]
    again += [] if method == "strict" else [f"{samples:,} samples drawn again"]
    return f"agrees with its replay ({', '.join(again)}); the verdict is {certificate.verdict}."


def _attested(path: Path, files: list[Path], key: Path | None) -> "tuple[evr.Certificate, dict[str, list[str]]]":
    """The certificate in an attestation, what was checked and what not. Leaves with 3 where something does not fit."""
    from evr._certificate.attestation import Attestation, sha256_of

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
        left.insert(0, "the signature (no --key is given)")
    else:
        left.insert(0, "who wrote it (nobody signed it)")
    return attestation.certificate, {"checked": checked, "not checked": left}


def attest(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE... CERTIFICATE", help="What the training made; then its certificate.")
    ],
    *,
    key: Annotated[Path | None, options.file("Sign with this Ed25519 private key (PEM).")] = None,
    output: Annotated[
        Path | None, options.file("The attestation, if not MODEL.attestation.json.", "--output", "-o")
    ] = None,
    force: options.Force = False,
    max_seconds: options.MaxSeconds = options.PATIENCE,
    out: options.Out,
) -> None:
    """Write an in-toto statement that binds a certificate to files by their SHA-256.

    With `--key`, it is signed and stands in a DSSE envelope. Without, it is the statement alone, which cosign or
    another tool can sign. `evr replay --attestation` checks either. Exit code 3: the certificate is rejected or false.

    Example: evr attest model.safetensors training.certificate.json --key signing.pem
    """
    from evr._certificate.attestation import Attestation

    *subjects, last = files
    if not subjects:
        raise ValueError(f"{last} alone is not enough: give the files that the training made, then its certificate")
    certificate = accepted(last, max_seconds, "it guarantees nothing that could be attested")
    path = new_certificate(output or subjects[0].with_suffix(".attestation.json"), *files, key, force=force)
    made = Attestation.of(subjects, certificate)
    made = made if key is None else made.signed(key)
    made.save(path)
    document = {"attestation": str(path), "signed": key is not None, "subjects": made.subjects}
    signed = "signed by nobody" if key is None else f"signed with {key}"
    told = f"attestation: {path} ({signed}). Whoever signs it says that this training made these files."
    listed = [f"{name}: sha256 {digest}" for name, digest in made.subjects.items()]
    out.answer(document, told, "\n".join([told, *listed, certificate.short_statement]))
