"""``evr inspect``: read a certificate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evr.cli.options import Json, Quiet
from evr.cli.output import as_json, number, say, seconds, table

if TYPE_CHECKING:
    from evr.certification import Certificate
    from evr.certification.certificate import RecordSection

CertificateFile = Annotated[
    Path | None, typer.Argument(metavar="FILE", help="A certificate (JSON).")
]
Schema = Annotated[
    bool, typer.Option("--schema", help="Print the JSON Schema of certificates instead.")
]


Latex = Annotated[
    bool, typer.Option("--latex", help="Print the short statement as LaTeX, with BibTeX.")
]


def command(
    file: CertificateFile = None,
    schema: Schema = False,
    latex: Latex = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show what a certificate says, in words and tables. `evr replay` finds out whether it is
    true.

    Example: evr inspect examples/dpsgd.certificate.json
    """
    from evr.certification import Certificate
    from evr.certification.certificate import json_schema

    if schema:
        print(json_schema(), end="")
        return
    if json and latex:
        raise ValueError("--json and --latex are two ways to print it: give one of them")
    if file is None:
        raise ValueError("inspect which certificate? Give a FILE")
    certificate = Certificate.load(file)
    if latex:
        from evr.certification import latex as typeset

        print(
            typeset.statement(certificate), end="" if quiet else f"\n{typeset.bibtex(certificate)}"
        )
        return
    if json:
        as_json(certificate.document())
        return
    say(certificate.statement)
    if quiet:
        return
    print()
    table("Certificate", ["field", "value"], _facts(certificate))
    print()
    table("Directions", *_directions(certificate))
    say(f"\nThe digest holds. To check the content: evr replay {file}")


def _facts(certificate: Certificate) -> list[list[str]]:
    from evr.certification.words import ran
    from evr.described import adjacency

    claim, release, checked = certificate.claim, certificate.release, certificate.verification
    guarantee = "none" if certificate.guarantee is None else str(certificate.guarantee)
    name = "at this epsilon and claim" if release.name is None else f"at release {release.name!r}"
    rows = {
        "verdict": certificate.verdict,
        "guarantee": guarantee,
        "neighbouring relation": adjacency(certificate.neighboring_relation),
        "what ran": ran(certificate.document()),
        "claim": f"epsilon {claim.epsilon!r}, delta {claim.delta!r}",
        "tested against": f"delta {number(claim.threshold, 9)} = (1 - kappa) times the claim, "
        f"kappa = {claim.kappa!r}",
        "attempt": f"{release.attempt} {name}",
        "false-positive "
        "budget": f"{number(release.budget)} (all attempts: {number(release.total_budget)})",
        "method": checked.method
        if checked.method == "strict"
        else f"{checked.method}, proposal {checked.proposal}",
        "entropy": "none: no samples"
        if checked.method == "strict"
        else f"{checked.entropy} "
        f"({'recorded as fresh' if checked.entropy_is_fresh else 'given by the caller'})",
        "software": ", ".join(f"{key} {value}" for key, value in certificate.software if value),
        "time": f"{certificate.times.started} to {certificate.times.finished} "
        f"({seconds(certificate.times.seconds)})",
        "digest": certificate.digest,
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
        else f"divisor {fixed.divisor!r}, sampling probability {fixed.sampling_probability!r}, "
        f"{fixed.steps:,} steps",
        "notes of the record": ", ".join(record.notes) or "none",
    }


def _directions(certificate: Certificate) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of the directions' table; an exact proof has no samples to show."""
    sections = certificate.verification.directions.items()
    if certificate.verification.method == "strict":
        header = ["direction", "accepted", "threshold", "result"]
        return header, [
            [name, "yes" if d.accepted else "no", number(d.threshold), d.reason]
            for name, d in sections
        ]
    header = [
        "direction",
        "accepted",
        "samples",
        "delta",
        "std. error",
        "threshold",
        "log wealth",
        "target",
        "greatest sample",
        "why it stopped",
    ]
    return header, [
        [
            name,
            "yes" if d.accepted else "no",
            f"{d.samples:,}",
            number(d.estimate),
            number(d.standard_error, 2),
            number(d.threshold),
            number(d.log_wealth, 4),
            number(d.log_target, 4),
            number(d.bound, 3),
            d.reason,
        ]
        for name, d in sections
    ]
