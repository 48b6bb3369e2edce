"""Every mechanism that evr knows, a line each, and the names of events in JSON.

Composition and sampling are in ``composition.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from dp_accounting import NeighboringRelation, dp_event

from evr.mechanisms import (
    balls_in_bins,
    epsilon_delta,
    matrix_mechanism,
    min_sep,
    mixture,
    noise,
    randomized_response,
    schemes,
    tree_aggregation,
    truncated,
)
from evr.mechanisms.descriptor import Mechanism, Translator, is_writable

DPSGD = "dpsgd"
"""The one kind in spec files without an event of its own: a sampled Gaussian
mechanism, many times.
"""

MECHANISMS: dict[type[dp_event.DpEvent], Mechanism] = {
    mechanism.event: mechanism
    for mechanism in (
        *noise.MECHANISMS,
        randomized_response.MECHANISM,
        epsilon_delta.MECHANISM,
        mixture.MECHANISM,
        balls_in_bins.MECHANISM,
        balls_in_bins.REDRAWN,
        matrix_mechanism.CYCLIC_POISSON,
        min_sep.MECHANISM,
        matrix_mechanism.MECHANISM,
        tree_aggregation.MECHANISM,
        truncated.MECHANISM,
    )
}


def register(
    event_type: type[dp_event.DpEvent],
    translator: Translator,
    *,
    kind: str | None = None,
    fields: Mapping[str, tuple[Any, Any]] | None = None,
    words: Callable[[Any], str] | None = None,
    assumptions: Sequence[str] = (),
    takes_sampling: bool = True,
    relation: Callable[[Any], NeighboringRelation] | None = None,
    under: Mapping[NeighboringRelation, Translator | None] | None = None,
) -> None:
    """Teach evr a mechanism: it composes, and spec files, certificates and statements know it.

    Parameters
    ----------
    event_type
        A subclass of ``DpEvent``, made by attrs. It takes the place of a class of the same name and
        module.
    translator
        ``translator(event)`` returns its ``Pairs``, or another event that stands for it, which is
        ``NonPrivateDpEvent()`` if the mechanism has no privacy at all.
    kind, fields, takes_sampling
        Its table in a spec file: the name (by default that of the class, ``noisy_alarm``), types
        and defaults where the class does not say them, and whether the table may have
        ``sampling_probability``.
    words, assumptions
        Its part of a statement: a function from the event to words, and clauses that follow "It
        assumes that". Whoever replays a certificate makes its words anew, and has to register the
        same mechanism.
    relation
        A function from the event to the relation of neighbours, if that is not adding or removing
        one record.
    under
        Translators for other relations, by relation; None refuses one that the laws would serve.

    Raises
    ------
    TypeError, ValueError
        If ``event_type`` is no class of events, or ``kind`` is taken.

    Examples
    --------
    `docs/extending.md` has one from the first line to a statement.
    """
    mechanism = Mechanism(
        event_type,
        translator,
        kind or "",
        fields or {},
        words,
        assumptions,
        takes_sampling,
        relation,
        under or {},
    )
    others = {
        cls: one for cls, one in MECHANISMS.items() if event_name(cls) != event_name(event_type)
    }
    taken = {DPSGD: "DP-SGD"} | {one.kind: cls.__name__ for cls, one in others.items()}
    if mechanism.kind in taken:
        raise ValueError(
            f"kind={mechanism.kind!r} is taken by {taken[mechanism.kind]}: give "
            f"{event_type.__name__} another"
        )
    for older in MECHANISMS.keys() - others.keys():
        del MECHANISMS[older]
    MECHANISMS[event_type] = mechanism


def event_name(event_type: type[dp_event.DpEvent]) -> str:
    """The name of an event's class in JSON, with the module unless it is
    dp_accounting's or ours.
    """
    if event_type.__module__ in (dp_event.__name__, schemes.__name__):
        return event_type.__name__
    return f"{event_type.__module__}.{event_type.__qualname__}"


def event_classes() -> Mapping[str, type[dp_event.DpEvent]]:
    """Every class of events that may be built from JSON, by name.

    >>> event_classes()["GaussianDpEvent"](1.5)
    GaussianDpEvent(noise_multiplier=1.5)
    """
    return _named(tuple(MECHANISMS))


@lru_cache(maxsize=4)
def _named(registered: tuple[type[dp_event.DpEvent], ...]) -> dict[str, type[dp_event.DpEvent]]:
    known = [
        value
        for module in (dp_event, schemes)
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, dp_event.DpEvent)
        and value is not dp_event.DpEvent
    ]
    return {event_name(cls): cls for cls in [*known, *registered] if is_writable(cls)}
