"""``evr report``: the page of a certificate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evr.cli.files import new_page
from evr.cli.options import PATIENCE, Json, MaxSeconds, Quiet, file_option
from evr.cli.output import as_json

if TYPE_CHECKING:
    from evr.certification import Certificate

CertificateFile = Annotated[Path, typer.Argument(metavar="FILE", help="A certificate (JSON).")]
Output = Annotated[
    Path | None,
    file_option(
        "--output", "-o", help="Where to write the page; beside the certificate by default."
    ),
]


def command(
    file: CertificateFile,
    output: Output = None,
    max_seconds: MaxSeconds = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write one HTML page about a certificate: what is claimed, who checked it and how, what is
    assumed, and every parameter.

    The page needs no network, follows light and dark mode, and prints well.

    Example: evr report examples/dpsgd.certificate.json
    """
    from evr.certification import Certificate

    certificate = Certificate.load(file)
    path = new_page(output or page_path(file), file, option="--output")
    patience = PATIENCE if max_seconds is None else max_seconds
    write_page(certificate, path, source=file, max_seconds=patience)
    if json:
        as_json({"report": str(path), "certificate": str(file), "verdict": certificate.verdict})
    elif quiet:
        print(path)
    else:
        print(f"report: {path}")


def page_path(certificate: Path) -> Path:
    """``run.certificate.json`` has its page in ``run.report.html``."""
    stem = certificate.name.removesuffix(".json").removesuffix(".certificate")
    return certificate.with_name(f"{stem}.report.html")


def write_page(
    certificate: Certificate,
    path: Path,
    *,
    source: Path | None,
    proof: Path | None = None,
    max_seconds: float | None = None,
) -> None:
    """Write the page of a certificate whose file is ``source``, with its proof file if given."""
    from evr.report import page

    named = None if source is None else str(source)
    data = None if proof is None else proof.read_bytes()
    page.write_report(certificate, path, source=named, proof=data, max_seconds=max_seconds)
