"""Certificates in words: what ran, and the statement that one can paste into a paper."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

from evr.bounds.rounding import FIXED
from evr.certification.scheme_words import (
    ADJACENCIES,
    KINDS,
    adjacency_of,
    describe_scheme,
    kind_of,
    scheme_assumptions,
)

_DIGITS = 9


def above(value: float) -> str:
    """A number in a few digits, never smaller than it is.

    >>> above(1e-09), above(1.0000000000000002e-09), above(0.41), above(1.0)
    ('1e-9', '1.00000001e-9', '0.41', '1')
    """
    short = f"{value:.{_DIGITS}g}"
    if float(short) < value:
        short = f"{float(Decimal(value).normalize(Context(_DIGITS, ROUND_CEILING))):.{_DIGITS}g}"
    return short.replace("e-0", "e-")


def describe_event(document: dict[str, Any]) -> str:
    """An event tree, given as JSON, in words.

    >>> describe_event({"type": "SelfComposedDpEvent", "count": 1000, "event": {"type": "PoissonSampledDpEvent",
    ...     "sampling_probability": 0.001, "event": {"type": "GaussianDpEvent", "noise_multiplier": 1.0}}})
    '1,000 times Poisson sampling (sampling probability 0.001) of a Gaussian mechanism (noise multiplier 1)'
    """
    kind = kind_of(document)
    if kind in KINDS:
        return describe_scheme(document)
    if kind == "SelfComposed":
        times = "" if document["count"] == 1 else f"{document['count']:,} times "
        return times + describe_event(document["event"])
    if kind == "Composed":
        parts = [describe_event(event) for event in document["events"]]
        if len(parts) > 6:
            return f"{len(parts):,} mechanisms one after the other, the first being {parts[0]}"
        return f"({'; '.join(parts)})" if parts else "nothing"
    if kind == "PoissonSampled":
        if document["sampling_probability"] == 1:
            return describe_event(document["event"])
        q = _number(document["sampling_probability"])
        return f"Poisson sampling (sampling probability {q}) of {describe_event(document['event'])}"
    if kind == "NoOp":
        return "nothing"
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind)
    name = name if kind in ("Gaussian", "Laplace") else name[:1].lower() + name[1:]
    article = "an" if name[:1].lower() in "aeiou" else "a"
    fields = [
        f"{key.replace('_', ' ')} {describe_event(item) if isinstance(item, dict) else _number(item)}"
        for key, item in document.items()
        if key != "type"
    ]
    return f"{article} {name} mechanism" + (f" ({', '.join(fields)})" if fields else "")


def _number(value: Any) -> str:
    if isinstance(value, float) and not isinstance(value, bool):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return str(value)


def _is_sampled(document: Any) -> bool:
    """Whether Poisson sampling occurs in an event given as JSON."""
    if isinstance(document, dict):
        here = document.get("type") == "PoissonSampledDpEvent" and document.get("sampling_probability") != 1
        return here or any(map(_is_sampled, document.values()))
    return isinstance(document, list) and any(map(_is_sampled, document))


def statement(document: dict[str, Any]) -> str:
    """The statement of a certificate, from the rest of it."""
    claim, release, checked = document["claim"], document["release"], document["verification"]
    epsilon, delta = above(claim["epsilon"]), above(claim["delta"])
    ran = describe_event(document["event"])
    adjacency = ADJACENCIES[adjacency_of([document["event"], document["fallback"]])]
    how = (
        f"evr {document['software']['evr']}, {checked['method']} test, {checked['samples']:,} samples, "
        f"attempt {release['attempt']}" + ("" if release["name"] is None else " at a named release")
    )
    if document["verdict"] == "rejected" and document["fallback"] is None:
        return (
            f"That the composition of {ran} is ({epsilon}, {delta})-differentially private could not be verified by Monte Carlo "
            f"({how}). No guarantee follows from this certificate, and nothing may be released on its account; neither does it "
            "show that the claim is false."
        )
    first = (
        f"The composition of {ran} satisfies ({epsilon}, {delta})-differential privacy under {adjacency}, also if "
        "later mechanisms are chosen from the outputs of earlier ones within the parameters stated."
    )
    second = (
        f"This was verified by Monte Carlo ({how}): had it been false, this attempt would have accepted it with probability at "
        f"most {_bounded(release['budget'])}, and any number of attempts at the release with probability at most "
        f"{_bounded(release['total_budget'])}, which delta includes."
    )
    if document["fallback"] is not None:
        first = (
            f"The composition of {ran} could not be verified ({how}); {describe_event(document['fallback']['event'])} ran "
            f"instead, and what was released satisfies ({epsilon}, {delta})-differential privacy under {adjacency}."
        )
        second = (
            "Of the mechanism that ran, delta is proved to be at most "
            f"{_bounded(max(document['fallback']['bounds'].values()))}; what a false acceptance could have cost, "
            f"at most {_bounded(release['total_budget'])}, is included."
        )
    return " ".join((first, second, _assumptions(document)))


def _bounded(value: float) -> str:
    """Two digits, rounded up.

    >>> _bounded(2.5000000000000001e-9), _bounded(2.5e-9), _bounded(1.21e-12), _bounded(0.0)
    ('2.5e-9', '2.5e-9', '1.3e-12', '0.0e+00')
    """
    exact = Decimal(repr(value))  # as it is written in the certificate
    return f"{float(exact.normalize(Context(2, ROUND_CEILING))):.1e}".replace("e-0", "e-")


def _assumptions(document: dict[str, Any]) -> str:
    checked = document["verification"]
    assumed = []
    if _is_sampled(document["event"]) or _is_sampled(document["fallback"]):
        assumed.append(
            "each record was in each batch independently with the stated probability (Poisson sampling, not shuffled batches)"
        )
    assumed += scheme_assumptions([document["event"], document["fallback"]])
    fresh = "the verification's entropy was fresh"
    assumed.append(
        f"{fresh} (it is recorded as fresh, which nothing can prove)"
        if checked["entropy_is_fresh"]
        else f"{fresh} (it was a seed given by the caller, and nobody must have searched for it)"
    )
    assumed.append(
        "which mechanisms were tried and when one stopped did not depend on the data, all attempts were counted in one ledger, and "
        "one output of the release was let out"
    )
    assumed.append(
        "noise has the stated law to the last digit (floating-point samplers do not; the verification's own rounding is covered "
        f"by a margin of at least {FIXED:g} of delta)"
    )
    return f"It assumes that {'; that '.join(assumed)}."
