"""The record of a training in its certificate: the words for it, and contradictions.

A certificate holds the record's last seals, its number of steps, the constants of the training, and the kinds of its
notes, from a closed list. Only the record itself can prove them, so they only add assumptions to a statement. A replay
finds contradictions to the event. ``evr.Record.is_certified_by`` finds out whether the record names the certificate.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dp_accounting import dp_event

from evr.certification.event_json import event_from_json

NOTES: dict[str, str | None] = {
    "generator": "nobody can predict the noise, although its generator is not cryptographic",
    "ghost": "the module clipped at the recorded norm, which the recorder cannot see",
    "lost": None,  # steps that ran and were lost: they count
    "other": "the record's other notes break no hypothesis of the accounting",
    "parameters": "other changes of the parameters, beside the recorded optimizer's, did not come from the data",
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
    """Assumptions about the record behind a statement, each a clause that follows "that"."""
    if record is None:
        return []
    seal, *others = record["seals"]
    processes = "process" if len(others) == 1 else "processes"
    more = f" (and those of {len(others):,} more {processes})" if others else ""
    about = (
        f"the training ran as its record says, whose last seal begins with {seal[:_DIGITS]}{more} "
        "(a replay does not read the record; Record.is_certified_by tells whether the record names "
        "this certificate)"
    )
    return [about, *(words for kind in record["notes"] if (words := NOTES[kind]))]


def contradictions(document: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Where a certificate contradicts itself about its record: the field, its value, and the value that would fit."""
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
        why = "REPLACE_SPECIAL, because the record has no constants"
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
