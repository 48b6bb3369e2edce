"""Certificates in words: the sentence that one can paste into a paper, who checked it, and what it assumes.

Whoever ran a training may describe it: a title, the protected unit, and the numbers that people state. Numbers that do
not fit the event are refused; the others choose the words of a statement, and nothing else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from dp_accounting import dp_event

from evr._basics import validate
from evr._basics.numbers import stated, typed
from evr._certificate.event_json import digest_of, event_from_json, event_to_json, named, walk
from evr._described import adjacency
from evr._kernel.events.meaning import hypotheses_of, unit_of
from evr._kernel.events.schemes import FixedBatchUsersDpEvent, PoissonSampledUsersDpEvent, RandomAllocationDpEvent
from evr._kernel.sampled.moments import FIXED
from evr._kernel.strict import rounded_up
from evr._kernel.strict.tradeoff import Tradeoff
from evr._wording.events import ABRIDGED, LISTED, counted, describe, is_discrete
from evr.errors import CertificateError
from evr.types import Unit

if TYPE_CHECKING:
    from evr._certificate.certificate import Certificate

DPSGD = "DP-SGD"
UNITS = tuple(map(str, Unit))
_RECORDS = (None, *UNITS[:2])  # units that are one record
NUMBERS = ("algorithm", "dataset_size", "batch_size", "epochs")  # which have to fit the event
KEYS = ("title", "unit", *NUMBERS)
RISK = "false_positive_rate"  # of the attacks that a statement begins with; in a description where it is given
_SPELLED_OUT = 6  # phases of a training


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
    "generator": "nobody can predict the noise, although its generator is not cryptographic",
    "ghost": "the module clipped at the recorded norm, which the recorder cannot see",
    "lost": "it did not depend on the data that steps were lost, and ran again",  # all of them count
    "other": "the record's other notes break no hypothesis of the accounting",
    "parameters": "other changes of the parameters, beside the recorded optimizer's, did not come from the data",
    "sampler": "no process left a step out, as the distributed sampler does with empty batches",
}
"""The kinds of notes in the record of a training, each with what a statement then assumes."""


def description_of(given: Mapping[str, Any] | None, event: dp_event.DpEvent) -> dict[str, Any]:
    """A description with all its keys, checked by itself and against the event.

    >>> step = dp_event.PoissonSampledDpEvent(256 / 60000, dp_event.GaussianDpEvent(1.1))
    >>> event = dp_event.SelfComposedDpEvent(step, 3516)
    >>> size = {"dataset_size": 60000, "batch_size": 256, "epochs": 15}
    >>> description_of(size, event)["algorithm"]
    'DP-SGD'
    >>> description_of({**size, "epochs": 14}, event)
    Traceback (most recent call last):
    ...
    ValueError: description: epochs=14.0 are 3,282 steps, and the event has 3,516
    """
    given = dict(given or {})
    for key in given.keys() - {*KEYS, RISK}:
        raise ValueError(f"description: {key!r} is not one of {', '.join(map(repr, (*KEYS, RISK)))}")
    whole = {key: given.get(key) for key in (*KEYS, RISK) if key in KEYS or given.get(key) is not None}
    checks: dict[str, Callable[..., Any]] = {
        "title": named,
        "unit": partial(validate.one_of, units_of(event)),
        "algorithm": partial(validate.one_of, (DPSGD,)),
        **dict.fromkeys(("dataset_size", "batch_size"), validate.positive_integer),
        "epochs": validate.positive,
        RISK: validate.open_probability,
    }
    whole |= {key: check(**{key: whole[key]}) for key, check in checks.items() if whole.get(key) is not None}
    if any(whole[key] is not None for key in NUMBERS):
        whole["algorithm"] = DPSGD
        _check(whole, event)
    return whole


class Phase(NamedTuple):
    """A run of equal steps of DP-SGD. ``batch`` is set for batches of a fixed size."""

    steps: int
    noise_multiplier: float
    rate: float
    batch: tuple[int, int] | None = None
    records_per_user: int | None = None
    user_norm: float | None = None
    participations: int | None = None


def phases_of(event: dp_event.DpEvent) -> list[Phase]:
    """The phases of a DP-SGD training; none if the event is another."""
    if isinstance(event, dp_event.ComposedDpEvent):
        parts = [phases_of(one) for one in event.events]
        return [phase for part in parts for phase in part] if all(parts) else []
    repeated = isinstance(event, dp_event.SelfComposedDpEvent)
    step, steps = (event.event, event.count) if repeated else (event, 1)
    if isinstance(step, RandomAllocationDpEvent):
        often, number = step.participations, step.iterations
        return [Phase(steps * number, step.noise_multiplier, often / number, participations=often)]
    rate, batch, noisy = getattr(step, "sampling_probability", 1.0), None, step
    if isinstance(step, dp_event.SampledWithoutReplacementDpEvent | FixedBatchUsersDpEvent):
        batch = (step.sample_size, step.source_dataset_size)
        rate = batch[0] / batch[1]
    if isinstance(step, dp_event.PoissonSampledDpEvent | dp_event.SampledWithoutReplacementDpEvent):
        noisy = step.event
    if not isinstance(noisy, dp_event.GaussianDpEvent | PoissonSampledUsersDpEvent | FixedBatchUsersDpEvent):
        return []
    owned = getattr(step, "records_per_user", None), getattr(step, "user_norm", None)
    return [Phase(steps, noisy.noise_multiplier, rate, batch, *owned)]


def _check(given: dict[str, Any], event: dp_event.DpEvent) -> None:
    """Raise if the numbers of a description do not fit the event."""
    phases = phases_of(event)
    if not phases:
        raise ValueError("description: the event is not that of DP-SGD, sampled Gaussian noise")
    size, batch, epochs = given["dataset_size"], given["batch_size"], given["epochs"]
    if (batch is not None or epochs is not None) and len(phases) > 1:
        raise ValueError(f"description: batch_size and epochs are of one phase, and the event has {len(phases)}")
    phase = phases[0]
    if batch is not None:
        if size is None:
            raise ValueError(f"description: batch_size={batch} needs dataset_size")
        if (phase.rate != batch / size and phase.participations is None) or phase.batch not in (None, (batch, size)):
            wrong = f"description: batch_size={batch:,} of dataset_size={size:,} is not the sampling of the event"
            raise ValueError(f"{wrong}, {_sampling(phase)}")
    if epochs is not None:
        rate = Fraction(phase.rate) if batch is None else Fraction(batch, size)
        steps = math.ceil(Fraction(epochs) / rate) if rate else 0
        if steps != phase.steps or phase.participations not in (None, epochs):
            raise ValueError(f"description: epochs={epochs!r} are {steps:,} steps, and the event has {phase.steps:,}")


def trained(event: dp_event.DpEvent, given: Mapping[str, Any]) -> str | None:
    """DP-SGD in the words of its description, or None where the event has to speak for itself."""
    phases = [] if given["algorithm"] is None else phases_of(event)
    if not 0 < len(phases) <= _SPELLED_OUT:
        return None
    return f"{DPSGD} ({'; then '.join(_phase(one, given) for one in phases)})"


def _phase(phase: Phase, given: Mapping[str, Any]) -> str:
    drawn = _sampling(phase)
    size = given["dataset_size"] or 0
    batch = given["batch_size"] or (round(phase.rate * size) if phase.rate < 1 else 0)
    if size and phase.rate == batch / size and phase.batch is None and phase.participations is None:
        owned = phase.records_per_user is not None or given["unit"] in _RECORDS
        unit = "records" if owned else f"{given['unit']}s"
        drawn = f"batches of {batch:,} of {size:,} {unit} by Poisson sampling"
    steps = counted(phase.steps, "step") if given["epochs"] is None else counted(given["epochs"], "epoch")
    noise = f"noise multiplier {typed(phase.noise_multiplier)}"
    owns = "" if phase.records_per_user is None else f", at most {counted(phase.records_per_user, 'record')} per user"
    if phase.user_norm is not None:
        owns += f", clipped together to {counted(phase.user_norm, 'clipping norm')}"
    return f"{drawn}, {steps}, {noise}{owns}"


def _sampling(phase: Phase) -> str:
    if phase.batch is not None:
        return "batches of {:,} of {:,} records without replacement".format(*phase.batch)
    if phase.participations is not None:
        return f"each record in {phase.participations:,} batches of all, at random"
    if phase.rate == 1:
        return "full batches"
    return f"Poisson sampling with probability {typed(phase.rate)}"


def describe_event(document: dict[str, Any], given: dict[str, Any] | None = None) -> str:
    """An event tree, given as JSON, in words: those of its description, if any. Unknown text is not repeated."""
    try:
        event = event_from_json(document)
    except CertificateError:
        return "an unknown mechanism (register it to describe it)"
    words = (given and trained(event, given)) or describe(event)
    return f"{given['title']}: {words}" if given and given["title"] else words


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


def protected(event: dp_event.DpEvent, given: str | None) -> str:
    """The unit of what a certificate or a budget promises about an event: a record (an example is one), a user or a
    client. Promises about different units do not compose.
    """
    named = units_of(event)[0] if given is None else validate.one_of(units_of(event), unit=given)
    return "record" if named in _RECORDS else named


def is_about_users(event: dp_event.DpEvent) -> bool:
    """Whether the event bounds what users add, not records."""
    return unit_of(event) == "user"


def units_of(event: dp_event.DpEvent) -> tuple[str, ...]:
    """The units that a promise about an event may have; the first where nobody says."""
    return UNITS[2:] if is_about_users(event) else UNITS


def ran(certificate: Certificate) -> str:
    """The training or composition, as a certificate describes it: the subject of its statement."""
    event, given = certificate.dp_event(), certificate.description
    words = _of_clients(trained(event, given.model_dump()) or f"the composition of {identified(event)}", certificate)
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
    words = adjacency(certificate.neighboring_relation, users=is_about_users(certificate.dp_event()))
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
    if certificate.neighboring_relation == "REPLACE_ONE":
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
        total = stated(certificate.release.total_budget, 2)
        return (
            f"This was {words.verified} by {by}{drawn}: if it were false, the probability of accepting it in any "
            f"number of attempts would be at most {total}, which delta includes."
        )
    bounds = [rounded_up(proof.delta) for proof in certificate.proofs().values()]
    return f"This was {words.verified} by {by}{drawn}: in both directions delta is at most {stated(max(bounds))}."


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
        clauses += [NOTES[kind] for kind in record.notes]
    if given not in _RECORDS and not is_about_users(event):
        clauses.insert(0, f"each record holds all data of one {given}")
    margin = ""
    if METHOD_WORDS[checked.method].samples:
        why = "it is recorded as fresh, which nothing can prove"
        if not checked.entropy_is_fresh:
            why = "the caller chose the seed: nobody may have searched for a lucky one"
        clauses.append(f"the entropy of the samples was fresh ({why})")
        margin = f"; a margin of at least {typed(FIXED)} of delta covers the verification's own rounding"
    sampler = "" if is_discrete(event) else f" (a floating-point sampler only approximates it{margin})"
    return [
        *clauses,
        "the choice of mechanisms and of when to stop did not depend on the data, every attempt is in one ledger, and "
        "only one output of the release was published",
        f"the noise follows the stated distribution exactly{sampler}",
    ]
