"""``evr risk``: what an attacker can do at most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

from evr.cli import options
from evr.cli.output import as_json, draw, new_files, say, table
from evr.kinds import is_certificate
from evr.numbers import above, typed

if TYPE_CHECKING:
    from evr.certification import Certificate
    from evr.proving.risk import Risk


@options.asks_what_ran
def command(
    ran: options.WhatRan,
    fpr: Annotated[float, options.number("Share of non-members that are accused.", show_default=True)] = 0.001,
    prior: Annotated[float, options.number("Chance of membership before the attack.", show_default=True)] = 0.5,
    baseline: Annotated[
        float, options.number("Chance to guess a secret without the result.", show_default=True)
    ] = 0.0001,
    plot: options.Plot = None,
    max_seconds: options.MaxSeconds = options.PATIENCE,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Bound every attack that asks whether a record took part, or what it holds. Each number is a proved upper bound.

    SPEC may also be the record of a training, or a certificate. `--plot` draws the greatest true positive rate over the
    false positive rate.

    Example: evr risk examples/dpsgd.toml --fpr 0.01 --plot tradeoff.svg
    """
    from evr.certification.publishing import GDP_REST, Question, attacks, basis

    asked = Question(fpr, prior, baseline)
    new_files(plot=plot)
    about = _about(ran, max_seconds)
    bounds, curve = asked.bounds(about.risk), about.risk.tradeoff
    if json:
        rates = {
            "false_positive_rate": curve.false_positive_rates.tolist(),
            "true_positive_rate": curve.true_positive_rates.tolist(),
        }
        how = {"proof": about.risk.proof, "points": about.risk.points, "delta0": GDP_REST}
        as_json({**how, **asked._asdict(), "bounds": bounds, "tradeoff": rates})
    else:
        rows = [
            {"bound": name.replace("_", " "), "at most": "none" if one is None else above(one, 4)}
            for name, one in bounds.items()
        ]
        table("What an attacker can do at most", rows, quiet=quiet)
    if not (json or quiet):
        said = ", ".join(f"{name.replace('_', ' ')} {typed(one)}" for name, one in asked._asdict().items())
        say(f"\nAt {said}; gdp up to {typed(GDP_REST)}:")
        for sentence in attacks(about.risk, about.unit, asked, replaced=about.replaced):
            say(f"- {sentence}")
        say(basis(about.risk, about.unit, about.certificate))
    draw(plot, lambda plots: plots.curve(curve), quiet=quiet or json)


class _About(NamedTuple):
    """The bounds, whose data they protect, whether neighbours replace it, and the accepted certificate if any."""

    risk: Risk
    unit: str
    replaced: bool
    certificate: Certificate | None = None


def _about(ran: options.WhatRan, seconds: float) -> _About:
    from evr.certification import Certificate
    from evr.certification.event_words import is_about_users
    from evr.certification.publishing import bounded
    from evr.certification.words import unit
    from evr.mechanisms import Composition
    from evr.mechanisms.relations import REPLACE_ONE
    from evr.proving.risk import risk

    if ran.spec is not None and is_certificate(ran.spec):
        if ran.adjacency:
            raise ValueError(f"{ran.spec} is a certificate, which says who are neighbours: leave out --adjacency")
        certificate = Certificate.load(ran.spec)
        replaced = certificate.neighboring_relation == REPLACE_ONE.name
        held = certificate if certificate.accepted else None
        return _About(bounded(certificate, seconds), unit(certificate.document()), replaced, held)
    record = ran.record()
    event, relation = ran.described()[::2] if record is None else (record.event, record.checked_relation(ran.adjacency))
    composition = Composition.of(event, relation)
    whose = "user" if is_about_users(event) else "record"
    return _About(risk(composition), whose, composition.relation is REPLACE_ONE)
