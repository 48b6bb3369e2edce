"""What a certificate says of the record of a training: words for it, and what contradicts it.

A certificate holds the record's last seals, its number of steps, the constants that whoever trained
gave, and the kinds of its notes, from a closed list. Nobody but the record itself can prove them,
so they only ever add assumptions to a statement. A replay finds what contradicts the event; whether
the record names the certificate, ``evr.Record.is_certified_by`` finds out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dp_accounting import dp_event

from evr.certification.event_json import event_from_json

NOTES: dict[str, str | None] = {
    "generator": "nobody can predict the noise, which did not come from a cryptographic generator",
    "ghost": "the module clipped at the norm that is recorded, which the recorder does not see "
    "where gradients are clipped in the module",
    "lost": None,  # steps that ran and were lost: they count
    "other": "the record's other notes break no hypothesis of the accounting",
    "parameters": "whatever wrote to the parameters beside the recorded optimizer did not come "
    "from the data",
    "sampler": "no process left a step out, as the distributed sampler does with empty batches",
}
"""The kinds of notes, each with what a statement then assumes."""

_DIGITS = 16  # of a seal, in a statement


def checked_note(kind: str) -> str:
    """A kind of note, or an error."""
    if kind not in NOTES:
        raise ValueError(f"{kind[:40]!r} is not a kind of note")
    return kind


def assumptions(record: dict[str, Any] | None) -> list[str]:
    """What a statement assumes of the record behind it, each a clause that follows "that"."""
    if record is None:
        return []
    seal, *others = record["seals"]
    processes = "process" if len(others) == 1 else "processes"
    more = f" (and those of {len(others):,} more {processes})" if others else ""
    about = (
        "what ran is what its record says, whose last seal begins with "
        f"{seal[:_DIGITS]}{more}: a replay does not see the record, and Record.is_certified_by "
        "tells whether it names this certificate"
    )
    return [about, *(words for kind in record["notes"] if (words := NOTES[kind]))]


def contradictions(document: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Where what a certificate says of its record cannot be: the field, what it says, and why."""
    record = document["record"]
    if record is None:
        return
    steps = list(_steps(event_from_json(document["event"])))
    ran = sum(count for _, count in steps)
    if record["steps"] != ran:
        yield "record.steps", record["steps"], ran
    if document["neighboring_relation"] != "ADD_OR_REMOVE_ONE":
        return
    fixed = record["constants"]
    if fixed is None:
        why = "REPLACE_SPECIAL, for the record has no constants"
        yield "neighboring_relation", document["neighboring_relation"], why
        return
    if any(rate != fixed["sampling_probability"] for rate, _ in steps):
        rates = sorted({rate for rate, _ in steps})
        yield "record.constants.sampling_probability", fixed["sampling_probability"], rates
    if fixed["steps"] > ran:
        yield "record.constants.steps", fixed["steps"], ran


def _steps(event: Any) -> Iterator[tuple[float, int]]:
    """The sampling probabilities of an event as records have it, each with its number of steps."""
    if isinstance(event, dp_event.ComposedDpEvent):
        for child in event.events:
            yield from _steps(child)
        return
    step, count = event, 1
    if isinstance(event, dp_event.SelfComposedDpEvent):
        step, count = event.event, event.count
    sampled = isinstance(step, dp_event.PoissonSampledDpEvent)
    yield step.sampling_probability if sampled else 1.0, count
