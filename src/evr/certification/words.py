"""Certificates in words: the sentence that one can paste into a paper, who checked it, and what it assumes."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from dp_accounting import NeighboringRelation, dp_event

from evr.bounds.moments import FIXED
from evr.bounds.strict import StatedProof, rounded_up
from evr.certification.description import trained
from evr.certification.event_json import event_digest, event_from_json
from evr.certification.event_words import assumptions, describe, is_about_users, is_abridged, is_discrete
from evr.described import adjacency
from evr.errors import CertificateError
from evr.numbers import stated, typed


class MethodWords(NamedTuple):
    """A method of verification in words."""

    proof: str  # what checks a claim
    verified: str  # what was done, as in "this was ... by evr"
    samples: bool  # whether the guarantee rests on samples


METHOD_WORDS = {
    "strict": MethodWords("exact arithmetic", "proved in exact arithmetic", False),
    "both": MethodWords(
        "exact arithmetic and a sequential test", "proved in exact arithmetic and confirmed by a sequential test", False
    ),
    "sequential": MethodWords("sequential test", "verified by a sequential test", True),
    "fixed": MethodWords("test of a fixed number of samples", "verified by a test of a fixed number of samples", True),
}
"""The words of each method of ``evr.methods.PROOFS``."""


NOTES: dict[str, str | None] = {
    "generator": "nobody can predict the noise, although its generator is not cryptographic",
    "ghost": "the module clipped at the recorded norm, which the recorder cannot see",
    "lost": None,  # steps that ran and were lost: they count
    "other": "the record's other notes break no hypothesis of the accounting",
    "parameters": "other changes of the parameters, beside the recorded optimizer's, did not come from the data",
    "sampler": "no process left a step out, as the distributed sampler does with empty batches",
}
"""The kinds of notes in the record of a training, each with what a statement then assumes."""


def describe_event(document: dict[str, Any], given: dict[str, Any] | None = None) -> str:
    """An event tree, given as JSON, in words, those of its description if there is one. Text that this evr does not
    know is not repeated.

    >>> gaussian = {"type": "GaussianDpEvent", "noise_multiplier": 1.0}
    >>> describe_event({"type": "PoissonSampledDpEvent", "sampling_probability": 0.001,
    ...                 "event": gaussian})
    'Poisson sampling (sampling probability 0.001) of a Gaussian mechanism (noise multiplier 1)'
    >>> describe_event({"type": "somebody.ElsesDpEvent"})
    'an unknown mechanism (register it to describe it)'
    """
    try:
        event = event_from_json(document)
    except CertificateError:
        return "an unknown mechanism (register it to describe it)"
    if given is None:
        return describe(event)
    words = trained(event, given) or describe(event)
    return words if given["title"] is None else f"{given['title']}: {words}"


def identified(event: dp_event.DpEvent) -> str:
    """An event in words that no other event has: where they leave numbers out, with the SHA-256 of the event's JSON,
    which is in the certificate.
    """
    words = describe(event)
    if not is_abridged(event):
        return words
    return f"{words}, in full the event with SHA-256 {event_digest(event)},"


def ran(document: dict[str, Any]) -> str:
    """The training or composition, as a certificate describes it: the subject of its statement."""
    event, given = event_from_json(document["event"]), document["description"]
    words = _of_clients(trained(event, given) or f"the composition of {identified(event)}", document)
    return words if given["title"] is None else f'the training "{given["title"]}", {words},'


def unit(document: dict[str, Any]) -> str:
    """Whose data the guarantee protects: a record, unless the event or the description says more."""
    given = document["description"]
    unnamed = "user" if _of_users(document) else "record" if given["algorithm"] is None else "example"
    return str(given["unit"] or unnamed)


def _of_users(document: dict[str, Any]) -> bool:
    return is_about_users(event_from_json(document["event"]))


def _of_clients(words: str, document: dict[str, Any]) -> str:
    """Words about users, where the unit is a client."""
    clients = unit(document) == "client" and _of_users(document)
    return re.sub(r"\buser(s?)\b", r"client\1", words) if clients else words


def neighbours(document: dict[str, Any]) -> str:
    return _of_clients(adjacency(document["neighboring_relation"], users=_of_users(document)), document)


def short_statement(document: dict[str, Any]) -> str:
    """Two sentences for a paper, and a third between them where users are protected and the number for one record is
    proved too; ``assumed`` lists what they assume.
    """
    return f"{_claimed(document)} {_checked(document)}"


def statement(document: dict[str, Any]) -> str:
    """The statement of a certificate, from the rest of it: the short one, the attempt, and every assumption."""
    short, release = short_statement(document), document["release"]
    attempt = f"This was attempt {release['attempt']} at {'its' if release['name'] is None else 'a named'} release."
    if document["verdict"] == "rejected":
        return f"{short} {attempt}"
    return (
        f"{short} It also holds if later mechanisms are chosen from the outputs of earlier ones within the parameters "
        f"stated. {attempt} The statement assumes that {'; that '.join(assumed(document))}."
    )


def _claimed(document: dict[str, Any]) -> str:
    subject, private = ran(document), _private(document, document["claim"]["epsilon"])
    rest = f"{private} per {unit(document)} under {neighbours(document)}"
    if document["verdict"] == "rejected":
        return f"It was not shown that {subject} is {rest}."
    if document.get("per_record") is not None:
        own = _private(document, document["per_record"])
        rest += f". Per record (of those in the data) instead of per {unit(document)} it is {own}"
    return f"{subject[0].upper()}{subject[1:]} is {rest}."


def _private(document: dict[str, Any], epsilon: float) -> str:
    return f"({stated(epsilon)}, {stated(document['claim']['delta'])})-differentially private"


def _checked(document: dict[str, Any]) -> str:
    """The last sentence: by whom and how it was checked."""
    checked = document["verification"]
    words = METHOD_WORDS[checked["method"]]
    by = f"evr {document['software']['evr']}"
    if document["verdict"] == "rejected":
        attempt = f"The attempt was made by {by} ({words.proof})"
        return f"{attempt}; it gives no guarantee, and does not show that the claim is false."
    drawn = f" ({checked['samples']:,} samples)" if checked["method"] != "strict" else ""
    if words.samples:
        total = stated(document["release"]["total_budget"], 2)
        return (
            f"This was {words.verified} by {by}{drawn}: if it were false, the probability of accepting it in any "
            f"number of attempts would be at most {total}, which delta includes."
        )
    proofs = [section["strict"] for section in checked["directions"].values()]
    bounds = [rounded_up(StatedProof.from_json(proof).delta) for proof in proofs if proof is not None]
    return f"This was {words.verified} by {by}{drawn}: in both directions delta is at most {stated(max(bounds))}."


def check_words(event: dict[str, Any]) -> None:
    """Raise what a statement about an event would raise: the words of a mechanism of somebody's own may fail."""
    one = event_from_json(event)
    describe(one)
    assumptions(one)


def assumed(document: dict[str, Any]) -> list[str]:
    """The assumptions of a certificate's statement, each a clause that follows "that"."""
    checked = document["verification"]
    event = event_from_json(document["event"])
    relation = NeighboringRelation[document["neighboring_relation"]]
    clauses = [_of_clients(one, document) for one in assumptions(event, relation=relation)]
    clauses += _of_record(document["record"])
    given = document["description"]["unit"]
    if given not in (None, "example") and not is_about_users(event):
        clauses.insert(0, f"each record holds all data of one {given}")
    sampled = METHOD_WORDS[checked["method"]].samples
    if sampled:
        why = "it is recorded as fresh, which nothing can prove"
        if not checked["entropy_is_fresh"]:
            why = "the caller chose the seed: nobody may have searched for a lucky one"
        clauses.append(f"the entropy of the samples was fresh ({why})")
    clauses.append(
        "the choice of mechanisms and of when to stop did not depend on the data, every attempt is "
        "in one ledger, and only one output of the release was published"
    )
    margin = f"; a margin of at least {typed(FIXED)} of delta covers the verification's own rounding" if sampled else ""
    sampler = "" if is_discrete(event) else f" (a floating-point sampler only approximates it{margin})"
    clauses.append(f"the noise follows the stated distribution exactly{sampler}")
    return clauses


def _of_record(record: dict[str, Any] | None) -> list[str]:
    """Assumptions about the record behind a statement, each a clause that follows "that"."""
    if record is None:
        return []
    seal, *others = record["seals"]
    processes = "process" if len(others) == 1 else "processes"
    more = f" (and those of {len(others):,} more {processes})" if others else ""
    about = (
        f"the training ran as its record says, whose last seal begins with {seal[:16]}{more} (a replay does not read "
        "the record; Record.is_certified_by tells whether the record names this certificate)"
    )
    return [about, *(words for kind in record["notes"] if (words := NOTES[kind]))]
