"""``evr show``: a certificate in the terminal, as a page, as LaTeX, for a model card."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evr.cli import REJECTED, options
from evr.cli.output import as_json, fail, new_files, number, say, seconds, table, wrote

if TYPE_CHECKING:
    from evr.certification import Certificate


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A certificate (JSON).")],
    html: Annotated[Path | None, options.file("Write one page about it to this file instead.")] = None,
    proof: Annotated[Path | None, options.file("Write its proof file, and check_proof.py beside it.")] = None,
    latex: Annotated[bool, typer.Option("--latex", help="Print the short statement as LaTeX, with BibTeX.")] = False,
    card: Annotated[
        bool, typer.Option("--card", help="Print a block for a model card on Hugging Face: YAML and prose.")
    ] = False,
    max_seconds: options.MaxSeconds = options.PATIENCE,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Show what a certificate says. `evr replay` finds out whether it is true.

    With `--html`, write one page: what is claimed, who checked it and how, what is assumed, and every parameter. The
    page needs no network, follows light and dark mode, and prints well. With `--proof`, write the proof in exact
    arithmetic as a file that needs no evr; the page of `--html` then has a button that checks it.

    Example: evr show examples/dpsgd.certificate.json --html dpsgd.html
    """
    from evr.certification import Certificate

    files = html is not None or proof is not None
    if sum((files, latex, card, json)) > 1:
        raise ValueError("--html, --latex, --card and --json are ways to show it: give one of them")
    certificate = Certificate.load(file)
    new_files(file, html=html, proof=proof)
    if card and not certificate.accepted:
        fail(f"{file} was rejected: there is no guarantee to print", REJECTED)
    if proof is not None:
        _write_proof(certificate, proof)
        wrote(proof, proof.with_name("check_proof.py"), quiet=quiet)
    if html is not None:
        write_page(certificate, html, file, max_seconds, proof=proof)
        wrote(html, quiet=quiet)
    elif latex or card:
        from evr.certification import publishing

        text = publishing.model_card(certificate) if card else publishing.latex_statement(certificate)
        print(text, end=f"\n{publishing.bibtex(certificate)}" if latex and not quiet else "")
    elif json:
        as_json(certificate.document())
    elif not files:
        say(certificate.statement)
        if not quiet:
            _tell_more(certificate, file)


def write_page(
    certificate: Certificate, path: Path, source: Path, max_seconds: float | None = None, *, proof: Path | None = None
) -> None:
    """Write the page of a certificate whose file is ``source``, with its proof file if given."""
    from evr.report import page

    data = None if proof is None else proof.read_bytes()
    page.write_report(certificate, path, source=str(source), proof=data, max_seconds=max_seconds)


def _write_proof(certificate: Certificate, path: Path) -> None:
    """The proof file again, bit for bit as when the certificate was made."""
    from evr.certification.proof_file import proof_of, seal_of, write_proof
    from evr.errors import CertificateError

    data = proof_of(certificate)
    if certificate.proof not in (None, seal_of(data)):
        raise CertificateError("the proof file comes out otherwise than when the certificate was made: replay it")
    write_proof(path, data)


def _tell_more(certificate: Certificate, file: Path) -> None:
    """What it means, and what its statement does not say."""
    if certificate.accepted:
        from evr.certification.publishing import meaning

        *sentences, basis = meaning(certificate)
        say("\nWhat this means:\n" + "\n".join(f"- {one}" for one in sentences) + f"\n{basis}")
    print()
    table("Certificate", [{"field": name, "value": value} for name, value in _facts(certificate).items()])
    say(f"\nThe digest holds. To check the content: evr replay {file}")


def _facts(certificate: Certificate) -> dict[str, str]:
    checked, times = certificate.verification, certificate.times
    rows = {"verdict": certificate.verdict, "tested against": f"delta {number(certificate.claim.threshold, 9)}"}
    for name, one in checked.directions.items():
        mean = f"; the mean of {one.samples:,} samples is {number(one.estimate)}, give or take "
        rows[f"{name} direction"] = one.reason + (f"{mean}{number(one.standard_error, 2)}" if one.samples else "")
    if checked.method != "strict":
        fresh = "recorded as fresh" if checked.entropy_is_fresh else "given by the caller"
        rows |= {"proposal": str(checked.proposal), "entropy": f"{checked.entropy} ({fresh})"}
    if (record := certificate.record) is not None:
        rows["record"] = f"{record.steps:,} steps, last seal {', '.join(record.seals)}"
        rows["notes of the record"] = ", ".join(record.notes) or "none"
    rows |= {
        "software": ", ".join(f"{key} {value}" for key, value in certificate.software if value),
        "time": f"{times.started} to {times.finished} ({seconds(times.seconds)})",
        "digest": certificate.digest,
    }
    return rows if certificate.proof is None else rows | {"proof file": f"sha256 {certificate.proof}"}
