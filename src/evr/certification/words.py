"""Certificates in words: what ran, and the statement that one can paste into a paper."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

from dp_accounting import NeighboringRelation, dp_event

from evr import validate
from evr.bounds.rounding import FIXED
from evr.bounds.strict import StatedProof, rounded_up
from evr.certification import recorded
from evr.certification.event_json import event_digest, event_from_json
from evr.certification.event_words import assumptions, describe, is_abridged
from evr.errors import CertificateError
from evr.mechanisms.relations import adjacency

_DIGITS = 9


def above(value: float) -> str:
    """A number in a few digits, never smaller than it is.

    >>> above(1e-09), above(1.0000000000000002e-09), above(0.41), above(1.0)
    ('1e-9', '1.00000001e-9', '0.41', '1')
    """
    return validate.above(value, _DIGITS).replace("e-0", "e-")


def describe_event(document: dict[str, Any]) -> str:
    """An event tree, given as JSON, in words. Nothing of its text is repeated that this evr does
    not know.

    >>> gaussian = {"type": "GaussianDpEvent", "noise_multiplier": 1.0}
    >>> describe_event({"type": "PoissonSampledDpEvent", "sampling_probability": 0.001,
    ...                 "event": gaussian})
    'Poisson sampling (sampling probability 0.001) of a Gaussian mechanism (noise multiplier 1)'
    >>> describe_event({"type": "somebody.ElsesDpEvent"})
    'what is not known here (register its mechanism)'
    """
    try:
        event = event_from_json(document)
    except CertificateError:
        return "what is not known here (register its mechanism)"
    return describe(event)


def identified(event: dp_event.DpEvent) -> str:
    """An event in words that no other event has: where they leave numbers out, with the SHA-256 of
    the event's JSON, which is in the certificate.
    """
    words = describe(event)
    if not is_abridged(event):
        return words
    return f"{words}, in full the event with SHA-256 {event_digest(event)},"


def statement(document: dict[str, Any]) -> str:
    """The statement of a certificate, from the rest of it."""
    claim, release, checked = document["claim"], document["release"], document["verification"]
    epsilon, delta = above(claim["epsilon"]), above(claim["delta"])
    event = event_from_json(document["event"])
    ran, neighbours = identified(event), adjacency(document["neighboring_relation"])
    how = _how(document)
    if document["verdict"] == "rejected":
        return (
            f"That the composition of {ran} is ({epsilon}, {delta})-differentially private could "
            f"not be {_TRIED[checked['method']]} ({how}). No guarantee follows from this "
            "certificate, and nothing may be released on its account; neither does it show that "
            "the claim is false."
        )
    first = (
        f"The composition of {ran} satisfies ({epsilon}, {delta})-differential privacy under "
        f"{neighbours}, also if later mechanisms are chosen from the outputs of earlier ones "
        "within the parameters stated."
    )
    second = (
        f"This was verified by Monte Carlo ({how}): had it been false, this attempt would have "
        f"accepted it with probability at most {bounded(release['budget'])}, and any number of "
        f"attempts at the release with probability at most {bounded(release['total_budget'])}, "
        "which delta includes."
    )
    if checked["method"] in ("strict", "both"):
        second = _proved(document, how)
    return " ".join((first, second, _assumptions(document, event)))


_TRIED = {
    "sequential": "verified by Monte Carlo",
    "fixed": "verified by Monte Carlo",
    "strict": "proved in exact arithmetic",
    "both": "proved in exact arithmetic, nor verified by Monte Carlo",
}


def _how(document: dict[str, Any]) -> str:
    """By what, and in which attempt."""
    checked, release = document["verification"], document["release"]
    parts = {
        "strict": "integers and balls",
        "both": f"integers and balls, then a sequential test of {checked['samples']:,} samples",
    }
    test = parts.get(checked["method"], f"{checked['method']} test, {checked['samples']:,} samples")
    named = "" if release["name"] is None else " at a named release"
    return f"evr {document['software']['evr']}, {test}, attempt {release['attempt']}{named}"


def _proved(document: dict[str, Any], how: str) -> str:
    """That it is so, without a probability."""
    proofs = [section["strict"] for section in document["verification"]["directions"].values()]
    bounds = [
        rounded_up(StatedProof.from_json(proof).delta) for proof in proofs if proof is not None
    ]
    also = ", and independent samples agree" if document["verification"]["method"] == "both" else ""
    return (
        f"This is proved in exact arithmetic ({how}): in both directions delta is at most "
        f"{above(max(bounds))}{also}."
    )


def short_statement(document: dict[str, Any]) -> str:
    """The same in two sentences; what it assumes is ``assumed``."""
    claim, release, checked = document["claim"], document["release"], document["verification"]
    pair = f"({above(claim['epsilon'])}, {above(claim['delta'])})"
    event = event_from_json(document["event"])
    by = f"evr {document['software']['evr']}"
    if document["verdict"] == "rejected":
        return (
            f"That the composition of {identified(event)} is {pair}-differentially private "
            f"could not be verified by {by}. No guarantee follows, nor that the claim is false."
        )
    first = (
        f"The composition of {identified(event)} satisfies {pair}-differential privacy under "
        f"{adjacency(document['neighboring_relation'])}."
    )
    if checked["method"] in ("strict", "both"):
        return f"{first} {_proved(document, by)}"
    how = f"{by}, {checked['method']} test, {checked['samples']:,} samples"
    return (
        f"{first} This was verified by Monte Carlo ({how}): were it false, it would have been "
        f"accepted with probability at most {bounded(release['total_budget'])} in any number of "
        "attempts at the release."
    )


def check_words(event: dict[str, Any]) -> None:
    """Raise what a statement about an event would raise: the words of a mechanism of somebody's own
    may fail.
    """
    one = event_from_json(event)
    describe(one)
    assumptions(one)


def bounded(value: float) -> str:
    """Two digits, rounded up.

    >>> bounded(2.5000000000000001e-9), bounded(2.5e-9), bounded(1.21e-12), bounded(0.0)
    ('2.5e-9', '2.5e-9', '1.3e-12', '0.0e+00')
    """
    exact = Decimal(repr(value))  # as it is written in the certificate
    return f"{float(exact.normalize(Context(2, ROUND_CEILING))):.1e}".replace("e-0", "e-")


def assumed(document: dict[str, Any]) -> list[str]:
    """What the statement of a certificate assumes, each a clause that follows "that"."""
    return _assumed(document, event_from_json(document["event"]))


def _assumptions(document: dict[str, Any], event: dp_event.DpEvent) -> str:
    return f"It assumes that {'; that '.join(_assumed(document, event))}."


def _assumed(document: dict[str, Any], event: dp_event.DpEvent) -> list[str]:
    checked = document["verification"]
    relation = NeighboringRelation[document["neighboring_relation"]]
    assumed = [*assumptions(event, relation=relation), *recorded.assumptions(document["record"])]
    sampled = checked["method"] not in ("strict", "both")
    if sampled:
        fresh = "the verification's entropy was fresh"
        assumed.append(
            f"{fresh} (it is recorded as fresh, which nothing can prove)"
            if checked["entropy_is_fresh"]
            else f"{fresh} (it was a seed given by the caller, and nobody must have searched for "
            "it)"
        )
    assumed.append(
        "which mechanisms were tried and when one stopped did not depend on the data, all attempts "
        "were counted in one ledger, and one output of the release was let out"
    )
    margin = (
        f"; the verification's own rounding is covered by a margin of at least {FIXED:g} of delta"
        if sampled
        else ""
    )
    assumed.append(
        f"noise has the stated law to the last digit (floating-point samplers do not{margin})"
    )
    return assumed
