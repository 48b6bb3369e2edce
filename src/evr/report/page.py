"""One self-contained HTML page of a certificate: the statement, pictures of the verification, every
parameter.

The page asks nothing of any network, follows the reader's light or dark theme, and prints. What it
shows is computed from the certificate; only the privacy curve, and what other accountants say, is
computed anew.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from dp_accounting import NeighboringRelation
from markupsafe import Markup, escape

from evr import atomic
from evr.certification.certificate import Certificate, DirectionSection
from evr.certification.effort import Patience, understood
from evr.certification.words import above, describe_event
from evr.estimation import estimate_epsilon, privacy_curve
from evr.laws import Direction
from evr.mechanisms import Composition
from evr.mechanisms.relations import name_of
from evr.report import asking_peers, pictures
from evr.report.figures import smooth
from evr.report.pictures import Picture, at_most, not_below, scientific

_CURVE_POINTS = 41
_MARGIN_POINTS = 9
_NUMBER = re.compile(r"\b\d[\d.]*e-\d+")
_CURVES = 4.0  # how much longer its curves take than accounting for a composition once
_LISTED = 12  # entries of a list that the page shows
_TIGHT = 0.99  # the slack that evr takes where nothing else is said
PROOFS = {
    "strict": "exact arithmetic",
    "sequential": "sequential test",
    "both": "exact, and a test",
    "fixed": "Algorithm 2",
}
"""How a claim was proved, in two words."""
Curves = dict[str, tuple[list[float], list[float]]]

MEANINGS = {
    "claim.epsilon": "epsilon of the claim",
    "claim.delta_estimate": "the estimate that was verified",
    "claim.tau": "slack: the claim is the estimate over tau",
    "claim.delta": "delta of the claim, and of the guarantee if accepted",
    "claim.kappa": "share of the claim that pays for false acceptances",
    "claim.threshold": "(1 - kappa) times the claim: what delta was shown to be below",
    "release.attempt": "attempts at this release so far, this one included",
    "release.budget": "probability of accepting in this attempt, were the claim false",
    "release.total_budget": "the same over any number of attempts",
    "verification.method": "strict (exact arithmetic), sequential (testing by betting), both of "
    "these, or fixed (Algorithm 2 of the paper)",
    "verification.proposal": "the law that samples were drawn from",
    "verification.entropy": "what the samples came from; enough to draw them again",
    "verification.entropy_is_fresh": "recorded as drawn from the operating system; nothing can "
    "prove that nobody chose it",
    "record.seals": "the last seal of each file of the training's record; Record.is_certified_by "
    "compares them",
    "record.notes": "what the recorder noted; the statement says what is assumed of it",
    "bound": "proved: no sample is larger",
    "clip": "samples were cut here before betting",
    "correction": "proved bound on what clipping takes off the mean",
    "second_moment": "proved bound on the mean of a squared sample",
    "log_wealth": "of the bets that the claim is true",
    "log_target": "at which the claim is accepted",
    "digest": "of all the rest",
}


def write_report(
    certificate: Certificate | str | Path,
    path: str | Path,
    *,
    source: str | None = None,
    peers: bool = True,
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
        The certificate's file, for the commands that replay it.
    peers
        Whether to ask other accountants, which takes half a minute at most.
    max_seconds
        A curve that would take longer raises ``TooLongError`` before it is begun.

    Raises
    ------
    CertificateError
        If the certificate's file is damaged or altered.
    TooLongError
        If a curve would take longer than ``max_seconds``.
    """
    certificate = Certificate.of(certificate)
    atomic.write_text(
        path, render(certificate, source=source, peers=peers, max_seconds=max_seconds)
    )


def unbroken(text: str) -> Markup:
    """Words as HTML, each number such as 1e-9 on one line: browsers break lines at its hyphen.

    >>> unbroken("at most 1e-9 < 1")
    Markup('at most <span class="whole">1e-9</span> &lt; 1')
    """
    return Markup(_NUMBER.sub(r'<span class="whole">\g<0></span>', str(escape(text))))


def render(
    certificate: Certificate,
    *,
    source: str | None = None,
    peers: bool = True,
    max_seconds: float | None = None,
) -> str:
    """The page's text."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["unbroken"] = unbroken
    template = environment.from_string(
        resources.files("evr.report").joinpath("page.html").read_text("utf-8")
    )
    composition = understood(
        certificate.event,
        Patience(max_seconds, "drawing its curve"),
        relation=NeighboringRelation[certificate.neighboring_relation],
        times=_CURVES,
    )
    claim = certificate.claim
    held = certificate.guarantee is not None
    ours = _ours(certificate, composition)
    answers, silence = _peers(certificate) if peers else ([], "They were not asked.")
    return template.render(
        certificate=certificate,
        held=held,
        verdict=certificate.verdict,
        epsilon=above(claim.epsilon),
        delta=not_below(claim.delta, 9),
        ran=describe_event(certificate.event),
        date=certificate.times.finished[:10],
        curves=_curve_pictures(certificate, composition),
        directions=list(_directions(certificate)),
        mechanisms=_mechanisms(composition),
        proof=PROOFS[certificate.verification.method],
        ours=ours,
        answers=answers,
        silence=silence,
        groups=_groups(certificate),
        source=source or "CERTIFICATE.json",
        scientific=scientific,
        at_most=at_most,
        not_below=not_below,
    )


def _curve_pictures(certificate: Certificate, composition: Composition) -> list[Picture]:
    """The curve as a whole, and enlarged around the claim."""
    claim, accepted = certificate.claim, certificate.accepted
    names = ["remove"] if composition.is_symmetric else [one.value for one in Direction]

    def curves(epsilons: Any) -> Curves:
        found = {name: privacy_curve(composition, epsilons, direction=name) for name in names}
        labels = {"remove": "both directions"} if len(names) == 1 else {}
        return {
            labels.get(n, n): (c.epsilons.tolist(), c.deltas.tolist()) for n, c in found.items()
        }

    whole = curves(smooth(0.0, 2.0 * claim.epsilon or 1.0, _CURVE_POINTS))
    found = [pictures.privacy_curve(whole, claim, accepted=accepted, key="curve")]
    if (
        claim.delta > 0
        and claim.epsilon > 0
        and (half := _reach(whole, claim.epsilon, 2.0 * (1 - claim.tau)))
    ):
        around = np.linspace(max(0.0, claim.epsilon - half), claim.epsilon + half, _MARGIN_POINTS)
        found.append(pictures.margin(curves(around), claim, accepted=accepted, key="margin"))
    return found


def _reach(curves: Curves, epsilon: float, change: float) -> float | None:
    """By how much epsilon has to move for delta to change by about that share."""
    epsilons, deltas = max(
        curves.values(), key=lambda curve: float(np.interp(epsilon, curve[0], curve[1]))
    )
    logs = [math.log(d) for d in deltas if d > 0]
    if len(logs) < 3:
        return None
    slopes = -np.gradient(logs, epsilons[: len(logs)])
    slope = float(np.interp(epsilon, epsilons[: len(logs)], slopes))
    return min(change / slope, epsilon) if slope > 0 else None


def _directions(certificate: Certificate) -> Iterator[dict[str, Any]]:
    """What happened in each direction, with its pictures where samples were drawn."""
    for name, report in certificate.verification.directions.items():
        yield {"name": name, "report": report, "pictures": _pictures(certificate, name, report)}


def _pictures(certificate: Certificate, name: str, report: DirectionSection) -> list[Picture]:
    if not report.trace or not report.samples:
        return []
    drawn = [
        pictures.running_estimate(report, certificate.claim, direction=name, key=f"{name}-running")
    ]
    if report.log_target is not None:
        drawn.append(pictures.log_wealth(report, direction=name, key=f"{name}-wealth"))
    drawn.append(pictures.histogram(report, direction=name, key=f"{name}-histogram"))
    return drawn


def _mechanisms(composition: Composition) -> list[dict[str, str]]:
    return [
        {"direction": one.value, "count": f"{step.count:,}", "pair": step.law.describe()}
        for one in Direction
        for step in composition.steps(one)
    ]


def _peers(certificate: Certificate) -> tuple[list[asking_peers.Answer], str | None]:
    delta = certificate.claim.delta
    if not 0 < delta < 1:
        return [], f"They are asked for epsilon at a delta between 0 and 1, and this is {delta:g}."
    relation = name_of(NeighboringRelation[certificate.neighboring_relation])
    return asking_peers.ask(certificate.event, delta, relation=relation)


def _ours(certificate: Certificate, composition: Composition) -> list[tuple[str, str, str]]:
    """What evr says of epsilon at this delta besides the claim: so that like is seen with like."""
    delta = certificate.claim.delta
    if not 0 < delta < 1:
        return []
    rows: list[tuple[str, str, float]] = [("evr, estimate", "estimate", delta)]
    if certificate.claim.tau < _TIGHT:
        rows.insert(0, (f"evr, with τ = {_TIGHT:g}", "could be verified", _TIGHT * delta))
    found = [(name, kind, estimate_epsilon(composition, at).value) for name, kind, at in rows]
    return [(name, kind, f"{value:.6g}") for name, kind, value in found if math.isfinite(value)]


def _groups(certificate: Certificate) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Every field but the long ones, as (name, value, meaning) by section."""
    document = certificate.document()
    directions = document["verification"].pop("directions")
    top = ("schema_version", "verdict", "neighboring_relation", "digest")
    groups: list[tuple[str, dict[str, Any]]] = [
        ("certificate", {key: document[key] for key in top})
    ]
    for name in ("claim", "estimate", "release", "verification", "record"):
        if document[name] is not None:
            groups.append((name, document[name]))
    for name, fields in directions.items():
        kept = {key: value for key, value in fields.items() if key not in ("trace", "histogram")}
        groups.append((f"{name} direction", kept))
    groups += [("software", document["software"]), ("times", document["times"])]
    return [(name, [_row(name, *item) for item in _flat(fields)]) for name, fields in groups]


def _row(group: str, name: str, value: Any) -> tuple[str, str, str]:
    meaning = MEANINGS.get(f"{group}.{name}") or (
        MEANINGS.get(name) if group not in ("claim", "release") else None
    )
    return name, _shown(value), meaning or ""


def _flat(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in fields.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
            if len(value) > _LISTED:
                yield f"{prefix}{key}", f"{len(value)} entries, in the certificate's file"
                continue
            for index, item in enumerate(value):
                yield from _flat(
                    item if isinstance(item, Mapping) else {"": item}, f"{prefix}{key}[{index}]."
                )
        else:
            yield f"{prefix}{key}", value


def _shown(value: Any) -> str:
    """A value as the certificate has it; of a long list, its ends."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list) and len(value) > _LISTED:
        return f"{len(value):,} values, from {_shown(value[0])} to {_shown(value[-1])}"
    if isinstance(value, list):
        return ", ".join(map(_shown, value)) or "none"
    return str(value)
