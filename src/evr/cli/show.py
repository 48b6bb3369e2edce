"""``evr show``: a certificate in the terminal, as a page, as LaTeX, for a model card or a registry."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evr.cli import REJECTED
from evr.cli.options import PATIENCE, Json, MaxSeconds, Quiet, file_option
from evr.cli.output import as_json, fail, new_page, number, say, seconds, table, wrote

if TYPE_CHECKING:
    from evr.certification import Certificate
    from evr.certification.certificate import DirectionSection, RecordSection


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A certificate (JSON).")],
    html: Annotated[Path | None, file_option("Write one page about it to this file instead.")] = None,
    proof: Annotated[Path | None, file_option("Write its proof file, and check_proof.py beside it.")] = None,
    latex: Annotated[bool, typer.Option("--latex", help="Print the short statement as LaTeX, with BibTeX.")] = False,
    card: Annotated[
        bool, typer.Option("--card", help="Print a block for a model card on Hugging Face: YAML and prose.")
    ] = False,
    registry: Annotated[
        bool,
        typer.Option("--registry", help="Print an entry for OpenDP's registry of deployments (YAML), to be completed."),
    ] = False,
    max_seconds: MaxSeconds = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show what a certificate says. `evr replay` finds out whether it is true.

    With `--html`, write one page: what is claimed, who checked it and how, what is assumed, and every parameter. The
    page needs no network, follows light and dark mode, and prints well. With `--proof`, write the proof in exact
    arithmetic as a file that needs no evr; the page of `--html` then has a button that checks it. `--card` and
    `--registry` print what others publish: a block for a model card, and an entry in which `FILL IN` marks what evr
    cannot know.

    Example: evr show examples/dpsgd.certificate.json --html dpsgd.html
    """
    from evr.certification import Certificate

    files = html is not None or proof is not None
    if sum((files, latex, card, registry, json)) > 1:
        raise ValueError("--html, --latex, --card, --registry and --json are ways to show it: give one of them")
    certificate = Certificate.load(file)
    if (card or registry) and not certificate.accepted:
        fail(f"{file} was rejected: there is no guarantee to print", REJECTED)
    if proof is not None:
        new_page(proof, file, option="--proof")
        _write_proof(certificate, proof)
        wrote(proof, quiet=quiet)
        wrote(proof.with_name("check_proof.py"), quiet=quiet)
    if html is not None:
        patience = PATIENCE if max_seconds is None else max_seconds
        page = new_page(html, file, option="--html")
        write_page(certificate, page, file, patience, proof=proof)
        wrote(html, quiet=quiet)
    elif files:
        return
    elif latex:
        from evr.certification import latex as typeset

        end = "" if quiet else f"\n{typeset.bibtex(certificate)}"
        print(typeset.statement(certificate), end=end)
    elif card or registry:
        from evr.certification import cards

        print(cards.model_card(certificate) if card else cards.registry_entry(certificate), end="")
    elif json:
        as_json(certificate.document())
    else:
        say(certificate.statement)
        if not quiet:
            if certificate.accepted:
                from evr.certification.meaning import meaning

                *sentences, basis = meaning(certificate)
                say("\nWhat this means:\n" + "\n".join(f"- {one}" for one in sentences) + f"\n{basis}")
            print()
            table("Certificate", ["field", "value"], _facts(certificate))
            print()
            table("Directions", *_directions(certificate))
            say(f"\nThe digest holds. To check the content: evr replay {file}")


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


def _facts(certificate: Certificate) -> list[list[str]]:
    from evr.certification.words import neighbours, ran

    claim, release, checked = certificate.claim, certificate.release, certificate.verification
    guarantee = "none" if certificate.guarantee is None else str(certificate.guarantee)
    name = "at this epsilon and claim" if release.name is None else f"at release {release.name!r}"
    rows = {
        "verdict": certificate.verdict,
        "guarantee": guarantee,
        "neighbouring relation": neighbours(certificate.document()),
        "what ran": ran(certificate.document()),
        "claim": f"epsilon {claim.epsilon!r}, delta {claim.delta!r}",
        "tested against": f"delta {number(claim.threshold, 9)}, (1 - kappa) times the claim",
        "kappa": f"{number(claim.kappa, 4)}, the share of the claimed delta that pays for false acceptances",
        "attempt": f"{release.attempt} {name}",
        "false-positive allowance": f"{number(release.budget)} (all attempts: {number(release.total_budget)})",
        "method": checked.method if checked.method == "strict" else f"{checked.method}, proposal {checked.proposal}",
        "entropy": "none: no samples"
        if checked.method == "strict"
        else f"{checked.entropy} ({'recorded as fresh' if checked.entropy_is_fresh else 'given by the caller'})",
        "software": ", ".join(f"{key} {value}" for key, value in certificate.software if value),
        "time": f"{certificate.times.started} to {certificate.times.finished} ({seconds(certificate.times.seconds)})",
        "digest": certificate.digest,
        **({} if certificate.proof is None else {"proof file": f"sha256 {certificate.proof}"}),
    }
    if certificate.record is not None:
        rows |= _record(certificate.record)
    return [[key, value] for key, value in rows.items()]


def _record(record: RecordSection) -> dict[str, str]:
    fixed = record.constants
    return {
        "record": f"{record.steps:,} steps, last seal {', '.join(record.seals)}",
        "constants": "none: the number of records is public"
        if fixed is None
        else f"divisor {fixed.divisor!r}, sampling probability {fixed.sampling_probability!r}, {fixed.steps:,} steps",
        "notes of the record": ", ".join(record.notes) or "none",
    }


def _directions(certificate: Certificate) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of the directions' table; an exact proof has no samples to show."""
    sections = certificate.verification.directions.items()
    if certificate.verification.method == "strict":
        header = ["direction", "accepted", "threshold", "result"]
        return header, [[name, "yes" if d.accepted else "no", number(d.threshold), d.reason] for name, d in sections]
    columns: dict[str, Callable[[DirectionSection], str]] = {
        "samples": lambda d: f"{d.samples:,}",
        "delta": lambda d: number(d.estimate),
        "std. error": lambda d: number(d.standard_error, 2),
        "threshold": lambda d: number(d.threshold),
        "log wealth": lambda d: number(d.log_wealth, 4),
        "target": lambda d: number(d.log_target, 4),
        "greatest sample": lambda d: number(d.bound, 3),
        "why it stopped": lambda d: d.reason,
    }
    rows = [[name, "yes" if d.accepted else "no", *(of(d) for of in columns.values())] for name, d in sections]
    return ["direction", "accepted", *columns], rows
