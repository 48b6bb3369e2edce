"""One self-contained HTML page of a certificate: claim, who checked it and how, assumptions, and every parameter.

The page asks nothing of any network, follows the reader's light or dark theme, and prints. What it shows is computed
from the certificate; only the privacy curve is computed anew.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from evr._accounting import privacy_curve
from evr._basics import atomic
from evr._basics.numbers import scientific, scientific_above, stated
from evr._basics.validate import printable
from evr._certificate.certificate import Certificate
from evr._certificate.limits import limited, seconds_allowed, understood
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction
from evr._report import plots
from evr._wording.publishing import bibtex, latex_statement, meaning
from evr._wording.statement import METHOD_WORDS, ran, unit

_CURVE_POINTS = 41
_NUMBER = re.compile(r"\b\d[\d.]*e-\d+")
_LISTED = 12  # entries of a list that the page shows
MEANINGS = {
    "claim.epsilon": "epsilon of the claim",
    "claim.tau": "samples were planned for a truth of tau times the claimed delta",
    "claim.delta": "delta of the claim, and of the guarantee if accepted",
    "claim.kappa": "share of the claimed delta that pays for false acceptances",
    "claim.threshold": "(1 - kappa) times the claimed delta: delta has to be shown to be below it",
    "release.attempt": "attempts at this release so far, this one included",
    "release.allowance": "probability of accepting a false claim in this attempt",
    "release.total_allowance": "probability of accepting a false claim in any number of attempts",
    "verification.method": "strict (exact arithmetic), sequential (testing by betting), both, or fixed (Algorithm 2)",
    "verification.proposal": "the law that samples were drawn from",
    "verification.entropy": "the source of the samples; enough to draw them again",
    "verification.entropy_is_fresh": "recorded as drawn by the operating system; nobody can prove that it was",
    "record.seals": "the last seal of each file of the training's record; Record.is_certified_by compares them",
    "record.notes": "what the recorder noted; the assumptions say what follows from it",
    "bound": "proved: no sample is larger",
    "clip": "samples were cut here before betting",
    "correction": "proved bound on what clipping takes off the mean",
    "second_moment": "proved bound on the mean of a squared sample",
    "log_wealth": "log wealth of the bets that the claim is true",
    "log_target": "the log wealth at which the claim is accepted",
    "proof": "SHA-256 of the proof file",
    "digest": "SHA-256 of everything else in the file",
}


def write_report(
    certificate: Certificate | str | Path,
    path: str | Path,
    *,
    source: str | None = None,
    proof: bytes | None = None,
    max_seconds: float | None = None,
) -> None:
    """Write one HTML page of a certificate, whole or not at all; it needs no network.

    Parameters
    ----------
    certificate
        What to show, or the name of its file.
    path
        Where to write the page.
    source
        The certificate's file, whose name is in the commands that replay it.
    proof
        Its proof file, which the page then checks at a button.
    max_seconds
        How long it may take; None for as long as it takes.

    Raises
    ------
    CertificateError
        If the certificate's file is damaged or altered.
    TooLongError
        If it takes longer than ``max_seconds``, or the event is too large.
    """
    text = render(Certificate.of(certificate), source=source, proof=proof, max_seconds=max_seconds)
    atomic.write_text(path, text)


def unbroken(text: str) -> Markup:
    """Words as HTML, each number such as 1e-9 on one line: browsers break lines at its hyphen.

    >>> unbroken("at most 1e-9 < 1")
    Markup('at most <span class="whole">1e-9</span> &lt; 1')
    """
    return Markup(_NUMBER.sub(r'<span class="whole">\g<0></span>', str(escape(text))))


def render(
    certificate: Certificate, *, source: str | None = None, proof: bytes | None = None, max_seconds: float | None = None
) -> str:
    """The page's text."""
    seconds = seconds_allowed(max_seconds)

    def work() -> tuple[Composition, plots.Picture]:
        composition = understood(certificate, seconds)
        return composition, _curve(certificate, composition)

    composition, curve = limited(seconds, "drawing its curve", work)
    claim = certificate.claim
    return _filled(
        "page.html",
        certificate=certificate,
        epsilon=stated(claim.epsilon),
        delta=scientific_above(claim.delta, 9),
        meaning=meaning(certificate, max_seconds),
        ran=ran(certificate).removesuffix(","),
        unit=unit(certificate),
        curve=curve,
        inline=plots.inline,
        running=lambda name, one: plots.running_estimate(one, claim, name),
        mechanisms=[(one.value, step) for one in Direction for step in composition.steps(one)],
        proof=METHOD_WORDS[certificate.verification.method].proof,
        latex=f"{latex_statement(certificate)}\n{bibtex(certificate)}",
        install=f"pip install evr-dp=={certificate.software.evr}",
        groups=_groups(certificate),
        source=shlex.quote(printable(PurePath(source or "CERTIFICATE.json").name)),
        proof_file=None if proof is None else proof.decode("ascii"),
        checker=_text("verifier.js") + _text("checking.js"),
        panel=_text("panel.js"),
        scientific=scientific,
        above=scientific_above,
    )


def write_budget(document: Mapping[str, Any], picture: plots.Picture, path: str | Path) -> None:
    """Write one HTML page of a budget, for an auditor; ``document`` is what ``evr budget show --json`` prints."""
    pair = {"epsilon": stated(document["epsilon"]), "delta": scientific_above(document["delta"], 9)}
    text = _filled("budget.html", budget={**document, **pair}, picture=plots.inline(picture, "budget"))
    atomic.write_text(path, text)


def _filled(name: str, **fields: Any) -> str:
    """The page of a template beside this file."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {"unbroken": unbroken, "name": lambda path: PurePath(path).name}
    return environment.from_string(_text(name)).render(style=Markup(_text("style.css")), **fields)


def _text(name: str) -> str:
    """The text of a file beside this one."""
    return resources.files("evr._report").joinpath(name).read_text("utf-8")


def _curve(certificate: Certificate, composition: Composition) -> plots.Picture:
    """The privacy curve of each direction, computed for the page."""
    claim, both = certificate.claim, composition.is_symmetric
    curves = {}
    for one in [Direction.REMOVE] if both else Direction:
        epsilons = (2.0 * claim.epsilon or 1.0) * np.linspace(0.0, 1.0, _CURVE_POINTS) ** 1.5  # denser where steep
        found = privacy_curve(composition, epsilons, direction=one.value)
        name = "both directions" if both else one.value
        curves[name] = (found.epsilons.tolist(), found.deltas.tolist())
    return plots.certified_curve(curves, claim, accepted=certificate.accepted)


def _groups(certificate: Certificate) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Every field, as (name, value, meaning) by section."""
    document = {name: value for name, value in certificate.document().items() if value is not None}
    for elsewhere in ("statement", "guarantee", "event"):
        document.pop(elsewhere, None)
    directions = document["verification"].pop("directions")
    groups = {"certificate": {name: value for name, value in document.items() if not isinstance(value, dict)}}
    groups |= {name: value for name, value in document.items() if isinstance(value, dict)}
    groups |= {f"{name} direction": fields for name, fields in directions.items()}
    return [(name, list(_rows(name, fields))) for name, fields in groups.items() if any(fields.values())]


def _rows(group: str, fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    for key, value in fields.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from _rows(group, value, f"{name}.")
        else:
            yield name, _shown(value), MEANINGS.get(f"{group}.{name}") or MEANINGS.get(name, "")


def _shown(value: Any) -> str:
    """A value as the certificate has it; of a long list, its ends."""
    if value is None or value == []:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if not isinstance(value, list):
        return str(value)
    if any(isinstance(item, Mapping) for item in value):
        return f"{len(value):,} entries, in the certificate's file"
    if len(value) > _LISTED:
        return f"{len(value):,} values, from {_shown(value[0])} to {_shown(value[-1])}"
    return ", ".join(map(_shown, value))
