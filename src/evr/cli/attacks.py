"""``evr risk``: what an attacker can do at most. ``evr audit``: the scores of canaries against a certificate."""

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import evr
from evr._basics import atomic, validate
from evr._basics.file_types import is_certificate
from evr._basics.numbers import above, typed
from evr.cli import REJECTED, options
from evr.cli.files import new_files
from evr.cli.output import as_json, say

if TYPE_CHECKING:
    from evr._proving.risk import Risk

_COINS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def risk(
    ran: options.WhatRan,
    *,
    fpr: Annotated[float, options.number("Share of non-members that are accused.")] = 0.001,
    prior: Annotated[float, options.number("Chance of membership before the attack.")] = 0.5,
    baseline: Annotated[float, options.number("Chance to guess a secret without the result.")] = 0.0001,
    unit: options.Unit = None,
    plot: options.Plot = None,
    max_seconds: options.MaxSeconds = options.PATIENCE,
    out: options.Out,
) -> None:
    """Bound every attack that asks whether a record took part, or what it holds. Each number is a proved upper bound.

    SPEC may also be the record of a training, or a certificate. `--plot` draws true over false positive rates.

    Example: evr risk examples/dpsgd.toml --fpr 0.01 --plot tradeoff.svg
    """
    from evr._wording.publishing import GDP_REST, Question, attacks, basis

    asked = Question(fpr, prior, baseline)
    new_files(ran.spec, plot=plot)
    with out.busy("Still proving points of the privacy curve"):
        found, whose, replaced, certificate = _bounded(ran, unit, max_seconds)
    bounds, curve = asked.bounds(found), found.tradeoff
    if out.json:
        rates = {name: getattr(curve, f"{name}s").tolist() for name in ("false_positive_rate", "true_positive_rate")}
        how = {"proof": found.proof, "points": found.points, "delta0": GDP_REST}
        as_json({**how, **asked._asdict(), "bounds": bounds, "tradeoff": rates})
    else:
        rows = [
            {"bound": name.replace("_", " "), "at most": "none" if one is None else above(one, 4)}
            for name, one in bounds.items()
        ]
        out.table("What an attacker can do at most", rows)
    if not out.silent:
        said = ", ".join(f"{name.replace('_', ' ')} {typed(one)}" for name, one in asked._asdict().items())
        say(f"\nAt {said}; gdp up to {typed(GDP_REST)}:")
        for sentence in attacks(found, whose, asked, replaced=replaced):
            say(f"- {sentence}")
        say(basis(found, whose, certificate))
    title = f"What an attacker can do at most\n{ran.caption}"
    out.draw(plot, lambda plots: plots.curve(curve, title=title))


def _bounded(
    ran: options.WhatRan, given: str | None, seconds: float
) -> "tuple[Risk, str, bool, evr.Certificate | None]":
    """The bounds, whose data they protect, whether neighbours replace it, and the accepted certificate if any."""
    from evr._certificate.replay import confirmed
    from evr._kernel.events import Composition
    from evr._kernel.events.relations import REPLACE_ONE
    from evr._wording.description import units_of
    from evr._wording.publishing import bounded
    from evr._wording.statement import unit

    if ran.spec is not None and is_certificate(ran.spec):
        if ran.adjacency or given:
            flag = "neighbours: leave out --adjacency" if ran.adjacency else "protected: leave out --unit"
            raise ValueError(f"{ran.spec} is a certificate, which says who are {flag}")
        certificate = confirmed(ran.spec, seconds)
        replaced = certificate.relation is REPLACE_ONE
        held = certificate if certificate.accepted else None
        return bounded(certificate, seconds), unit(certificate), replaced, held
    event, _, relation = ran.described(records=True)
    composition = Composition.of(event, relation)
    whose = validate.one_of(units_of(event), unit=given or units_of(event)[0])
    return evr.risk(composition), whose, composition.relation is REPLACE_ONE, None


def audit(
    scores: Annotated[
        Path, typer.Argument(metavar="SCORES", help="CSV file: columns score and included, a row for each canary.")
    ],
    *,
    certificate: Annotated[Path | None, options.file("The certificate to test.")] = None,
    delta: Annotated[float | None, options.number("Delta of the bound; by default the certificate's, or 1e-5.")] = None,
    confidence: Annotated[float, options.number("Confidence of the lower bound.")] = 0.95,
    independent: Annotated[
        bool, options.option("Given the coins, the scores are independent.", "--independent")
    ] = False,
    plot: options.Plot = None,
    max_seconds: options.MaxSeconds = options.PATIENCE,
    out: options.Out,
) -> None:
    """Test a certificate against the scores of canaries that took part by fair coins, and bound epsilon from below.

    Exit code 0: consistent, which proves nothing; 3: the scores contradict the certificate, or it is false by itself.

    Example: evr audit examples/scores.csv --certificate examples/dpsgd.certificate.json --independent --plot audit.png
    """
    from evr._certificate.replay import confirmed
    from evr._proving.audit import CONTRADICTS

    new_files(scores, certificate, plot=plot)
    values, coins = read_scores(scores)
    with out.busy("Still testing"):
        claimed = None if certificate is None else confirmed(certificate, max_seconds)
        found = evr.audit(values, coins, claimed, delta=delta, confidence=confidence, independent=independent)
    out.draw(plot, lambda plots: plots.audit(found))
    if out.json:
        shown = "verdict p_value epsilon delta confidence family epsilon_of_any claimed guesses correct canaries"
        as_json({name: getattr(found, name) for name in shown.split()})
    else:
        say(found.sentence)
    if found.verdict == CONTRADICTS:
        raise typer.Exit(REJECTED)


def read_scores(path: Path) -> tuple[list[float], list[bool]]:
    """The scores and the coins of a file."""
    scores, coins = list[float](), list[bool]()
    with atomic.reading(path, ValueError) as data:
        rows = csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""))
        try:
            if missing := {"score", "included"} - set(rows.fieldnames or ()):
                raise ValueError(f"it has no column {' and no column '.join(sorted(missing))}: begin it with a header")
            for row in rows:
                if None in row:
                    raise ValueError(f"line {rows.line_num}: more fields than columns: write decimals with a point")
                try:
                    scores.append(float(row["score"] or ""))
                    coins.append(_COINS[(row["included"] or "").strip().lower()])
                except (ValueError, KeyError):
                    wanted = f"give a number as the score (here {row['score']!r}) and 1 or 0 as included"
                    raise ValueError(f"line {rows.line_num}: {wanted} (here {row['included']!r})") from None
        except csv.Error as error:
            raise ValueError(f"not CSV ({error})") from None
    return scores, coins
