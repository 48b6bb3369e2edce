"""Certificates in words: the sentence that one can paste into a paper, who checked it, and what it assumes.

Every word follows from the certificate: from its event, claim, proofs, samples and description.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from dp_accounting import dp_event

from evr._basics.numbers import stated, typed
from evr._certificate.event_json import digest_of, event_from_json, event_to_json, walk
from evr._certificate.sections import DescriptionSection, SampledVerification
from evr._described import adjacency
from evr._kernel.events.meaning import hypotheses_of
from evr._kernel.sampled.moments import FIXED
from evr._kernel.strict import rounded_up
from evr._kernel.strict.tradeoff import Tradeoff
from evr._wording.description import RECORDS, is_about_users, trained, units_of
from evr._wording.events import ABRIDGED, LISTED, describe, is_discrete
from evr.errors import CertificateError
from evr.types import Note, Relation

if TYPE_CHECKING:
    from evr._certificate.certificate import Certificate


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
"""The words of each method of ``evr.types.Method``."""


NOTES = {
    Note.GENERATOR: "nobody can predict the noise, although its generator is not cryptographic",
    Note.GHOST: "the module clipped at the recorded norm, which the recorder cannot see",
    Note.LOST: "it did not depend on the data that steps were lost, and ran again",  # all of them count
    Note.OTHER: "the record's other notes break no hypothesis of the accounting",
    Note.PARAMETERS: "other changes of the parameters, beside the recorded optimizer's, did not come from the data",
    Note.SAMPLER: "no process left a step out, as the distributed sampler does with empty batches",
}
"""The kinds of notes in the record of a training, each with what a statement then assumes."""


def describe_event(document: dict[str, Any], given: DescriptionSection | None = None) -> str:
    """An event tree, given as JSON, in words: those of its description, if any. Unknown text is not repeated."""
    try:
        event = event_from_json(document)
    except CertificateError:
        return "an unknown mechanism (register it to describe it)"
    words = (given and trained(event, given)) or describe(event)
    return f"{given.title}: {words}" if given and given.title else words


def identified(event: dp_event.DpEvent) -> str:
    """An event in words that no other event has: where they leave numbers out, with the SHA-256 of its JSON."""
    words, document = describe(event), event_to_json(event)
    lists = [one for one, _ in walk(document) if isinstance(one, list)]  # own words may leave these out
    listed = any(len(one) > LISTED or any(isinstance(part, list) for part in one) for one in lists)
    full = f"{words}, in full the event with SHA-256 {digest_of(document)},"
    return full if listed or ABRIDGED.search(words) else words


def unit(certificate: Certificate) -> str:
    """Whose data the guarantee protects: a record, unless the event or the description says more."""
    given, units = certificate.description, units_of(certificate.dp_event())
    return given.unit or ("example" if given.algorithm is not None and "example" in units else units[0])


def ran(certificate: Certificate) -> str:
    """The training or composition, as a certificate describes it: the subject of its statement."""
    event, given = certificate.dp_event(), certificate.description
    words = _of_clients(trained(event, given) or f"the composition of {identified(event)}", certificate)
    return words if given.title is None else f'the training "{given.title}", {words},'


def _of_clients(words: str, certificate: Certificate) -> str:
    """Words about users, where the unit is a client."""
    clients = unit(certificate) == "client" and is_about_users(certificate.dp_event())
    return re.sub(r"\buser(s?)\b", r"client\1", words) if clients else words


def short_statement(certificate: Certificate) -> str:
    """Two sentences for a paper, three where a number per record is proved; ``assumed`` lists what they assume."""
    return f"{_claimed(certificate)} {_checked(certificate)}"


def statement(certificate: Certificate) -> str:
    """The statement of a certificate, from the rest of it: the short one, the attempt, and every assumption."""
    short, release = short_statement(certificate), certificate.release
    attempt = f"This was attempt {release.attempt} at {'its' if release.name is None else 'a named'} release."
    if not certificate.accepted:
        return f"{short} {attempt}"
    return (
        f"{short} It also holds if later mechanisms are chosen from the outputs of earlier ones within the parameters "
        f"stated. {attempt} The statement assumes that {'; that '.join(assumed(certificate))}."
    )


def _claimed(certificate: Certificate) -> str:
    """The first sentence: what is claimed."""
    subject, whose, claim = ran(certificate), unit(certificate), certificate.claim
    private = "({}, " + stated(claim.delta) + ")-differentially private"
    words = adjacency(certificate.relation, users=is_about_users(certificate.dp_event()))
    rest = f"{private.format(stated(claim.epsilon))} per {whose} under {_of_clients(words, certificate)}"
    if not certificate.accepted:
        return f"It was not shown that {subject} is {rest}."
    if certificate.per_record is not None:
        own = private.format(stated(certificate.per_record))
        rest += f". Per record (of those in the data) instead of per {whose} it is {own}"
    risk = _attacked(certificate)
    return f"{risk} It is {rest}." if risk else f"{subject[0].upper()}{subject[1:]} is {rest}."


def _attacked(certificate: Certificate) -> str | None:
    """What an attack can do, where that was claimed: an epsilon of 0 bounds the advantage, and the pair the true
    positive rate at a false positive rate (docs/guarantees_risk.md, K6).
    """
    claim, given = certificate.claim, certificate.description.false_positive_rate
    attack = "membership attack on"
    if certificate.neighboring_relation == Relation.REPLACE_ONE:
        attack = f"attack that recognises which of two given {unit(certificate)}s was in the data of"
    attack = f"{attack} {ran(certificate)}"
    if given is not None:
        bound = Tradeoff.of_point(Fraction(claim.epsilon), Fraction(claim.delta)).at(Fraction(given))
        most = stated(rounded_up(min(bound, Fraction(1))), 6)
        return f"With a false positive rate of {typed(given)}, no {attack} has a true positive rate above {most}."
    if claim.epsilon == 0:
        return f"No {attack} has an advantage (true minus false positive rate) above {stated(claim.delta)}."
    return None


def _checked(certificate: Certificate) -> str:
    """The last sentence: by whom and how it was checked."""
    checked, by = certificate.verification, f"evr {certificate.software.evr}"
    words = METHOD_WORDS[checked.method]
    if not certificate.accepted:
        attempt = f"The attempt was made by {by} ({words.proof})"
        return f"{attempt}; it gives no guarantee, and does not show that the claim is false."
    drawn = f" ({checked.samples:,} samples)" if checked.method != "strict" else ""
    if words.samples:
        total = stated(certificate.release.total_allowance or 0.0, 2)
        return (
            f"This was {words.verified} by {by}{drawn}: if it were false, the probability of accepting it in any "
            f"number of attempts would be at most {total}, which delta includes."
        )
    bounds = [rounded_up(proof.delta) for proof in certificate.proofs().values()]
    return f"This was {words.verified} by {by}{drawn}: in both directions delta is at most {stated(max(bounds))}."


CHOICE = "the choice of mechanisms and of when to stop did not depend on the data"
NOISE = "the noise follows the stated distribution exactly"
"""What every statement assumes beside the hypotheses of the event."""


def assumed(certificate: Certificate) -> list[str]:
    """The assumptions of a certificate's statement, each a clause that follows "that"."""
    checked, event, given = certificate.verification, certificate.dp_event(), certificate.description.unit
    clauses = [_of_clients(one.sentence, certificate) for one in hypotheses_of(event, certificate.relation)]
    if (record := certificate.record) is not None:
        seal, *others = record.seals
        processes = "process" if len(others) == 1 else "processes"
        more = f" (and those of {len(others):,} more {processes})" if others else ""
        clauses.append(
            f"the training ran as its record says, whose last seal begins with {seal[:16]}{more} (a replay does not "
            "read the record; Record.is_certified_by tells whether the record names this certificate)"
        )
        clauses += [NOTES[Note(kind)] for kind in record.notes]
    if given not in RECORDS and not is_about_users(event):
        clauses.insert(0, f"each record holds all data of one {given}")
    margin = ""
    if isinstance(checked, SampledVerification) and METHOD_WORDS[checked.method].samples:
        why = "it is recorded as fresh, which nothing can prove"
        if not checked.entropy_is_fresh:
            why = "the caller chose the seed: nobody may have searched for a lucky one"
        clauses.append(f"the entropy of the samples was fresh ({why})")
        margin = f"; a margin of at least {typed(FIXED)} of delta covers the verification's own rounding"
    sampler = "" if is_discrete(event) else f" (a floating-point sampler only approximates it{margin})"
    return [
        *clauses,
        f"{CHOICE}, every attempt is in one ledger, and only one output of the release was published",
        f"{NOISE}{sampler}",
    ]
