"""The table of meanings, read from ``meanings.md``: what each mechanism, scheme and wrapper means under each
relation of neighbours, or why it is refused there. All that evr says of relations, units and hypotheses is
made from its rows.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from importlib import resources
from typing import Any

from dp_accounting import NeighboringRelation, dp_event

from evr._kernel.events import noise, relations, schemes, training, users
from evr._kernel.events.registry import MECHANISMS, are_several
from evr._kernel.events.relations import (
    ADD_OR_REMOVE,
    REPLACE_ONE,
    ZERO_OUT,
    Hypothesis,
    Meaning,
    Mechanism,
    Refused,
)
from evr._kernel.pairs import Pairs
from evr._kernel.pairs.exact import ExactOutcomes
from evr._kernel.pairs.exact.law import Ball

_ORDER = (ADD_OR_REMOVE, ZERO_OUT, REPLACE_ONE)
NOISE = frozenset({"gaussian", "scalar", "own", "noise"})
"""Kinds of mechanisms that say that they add noise to a sum. A pair does not say that."""
_GROWING = ("noise", "known", "any", "scheme", "selection")
_TEXT = (resources.files(__package__) / "meanings.md").read_text("utf-8")


def _table(heading: str) -> list[list[str]]:
    """The rows of the table below a heading."""
    section = _TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [line.strip("| ").split(" | ") for line in lines[1:]]


HYPOTHESES = {id: Hypothesis(id, sentence) for id, sentence in _table("Hypotheses")}
"""Every hypothesis by its id; those of registered mechanisms are in their rows."""
_REFUSALS = {id: words for id, *words in _table("Refusals")}
USERS_OF = (
    schemes.BallsInBinsDpEvent,
    schemes.RedrawnBinsDpEvent,
    schemes.BMinSepDpEvent,
    schemes.CyclicPoissonDpEvent,
    schemes.MatrixMechanismDpEvent,
)
"""Schemes for records that may be about users."""


def _has_fixed_groups(event: Any) -> bool:
    is_cyclic = type(event) is schemes.CyclicPoissonDpEvent
    return bool(is_cyclic and event.partition == "fixed" and event.cycle_length != 1)


_HOLDS: dict[str, Callable[[Any], bool]] = {
    "DiscreteGaussianDpEvent on one number": lambda event: bool(event.dimension == 1),
    "CyclicPoissonDpEvent, fixed groups": _has_fixed_groups,
    "UsersDpEvent of CyclicPoissonDpEvent, fixed groups": lambda event: _has_fixed_groups(event.event),
    "UsersDpEvent of MatrixMechanismDpEvent": lambda event: (
        type(event.event) is schemes.MatrixMechanismDpEvent
    ),
    "UsersDpEvent of other schemes": lambda event: type(event.event) in USERS_OF,
    "PoissonSampledDpEvent with probability 1": lambda event: bool(event.sampling_probability == 1),
    "PoissonSampledDpEvent of several kinds of noise on sums": lambda event: are_several(event.event),
    "PoissonSampledDpEvent of several mechanisms": lambda event: are_several(event.event),
}


def _law(name: str, kind: str, relation: NeighboringRelation) -> relations.Translator | None:
    """The translator for a relation. Replacing a record changes a sum by up to twice its norm (R1.3, R5)."""
    if name == "-":
        return None
    module, function = name.split(".")
    laws: Any = getattr({"noise": noise, "training": training, "users": users}[module], function)
    if relation is ZERO_OUT and laws is noise.randomized_response:
        return partial(laws, uniform=True)
    if relation is not REPLACE_ONE:
        return laws
    if laws in (training.balls_in_bins, training.min_sep, training.cyclic_poisson):
        return partial(training.mirrored, laws)
    return partial(laws, times=2) if kind in NOISE or laws is users.sampled else laws


def assumed(ids: str, relation: NeighboringRelation) -> tuple[Hypothesis, ...]:
    """Hypotheses by their ids in backquotes, in the wording for the relation where there is one."""
    suffix = f"-{relations.name_of(relation)}"
    return tuple(HYPOTHESES.get(id + suffix) or HYPOTHESES[id] for id in re.findall("`(.*?)`", ids))


def ask_for(relation: str) -> str:
    """A remedy in words that hold for Python and for flags."""
    return f"it has one under {relation!r}: neighboring_relation={relation!r} (--adjacency {relation})"


def _answer(
    cell: str, relation: NeighboringRelation, unit: str | None, law: relations.Translator | None
) -> Meaning | Refused:
    if cell.startswith("refused: "):
        why, remedy, taken = _REFUSALS[cell.removeprefix("refused: ").strip("`")]
        name, comma, more = remedy.partition(",")
        remedy = ask_for(name) + comma + more if name in relations.NAMES else remedy
        return Refused(relation, why, remedy, relations.NAMES.get(taken))
    instead = ZERO_OUT if cell.endswith("if asked for") else None
    return Meaning(relation, unit, cell.partition(" `")[0], assumed(cell, relation), law, instead)


def _by_class() -> dict[type[dp_event.DpEvent], Mechanism]:
    found: dict[type[dp_event.DpEvent], tuple[relations.Variant, ...]] = {}
    for subject, kind, most, unit, laws, *cells in _table("Rows"):
        name = re.match(r"\w+", subject)[0]  # type: ignore[index]
        event = getattr(schemes, name, None) or getattr(dp_event, name)
        answers = {
            relation: _answer(cell, relation, None if unit == "-" else unit, _law(laws, kind, relation))
            for relation, cell in zip(_ORDER, cells, strict=True)
        }
        grown = {*NOISE, *_GROWING[: _GROWING.index(most) + 1]} if most in _GROWING else {most}
        holds = _HOLDS.get(subject, lambda event: True)
        variant = relations.Variant(subject, kind, answers, holds, None if most == "-" else frozenset(grown))
        found[event] = (*found.get(event, ()), variant)
    return {event: Mechanism(event, variants) for event, variants in found.items()}


_TABLE = _by_class()
WRAPPERS = {event: one for event, one in _TABLE.items() if one.variants[0].meanings[0].pair is None}
BUILT_IN = {event: one for event, one in _TABLE.items() if event not in WRAPPERS}
MECHANISMS.update(BUILT_IN)


def _plain(event: type[dp_event.DpEvent], theorem: str) -> Mechanism:
    answers = {relation: Meaning(relation, None, theorem, ()) for relation in _ORDER}
    return Mechanism(event, (relations.Variant(event.__name__, "inside", answers),))


PLAIN = {
    cls: _plain(cls, theorem)
    for theorem, classes in (
        ("guarantees 1.2", (dp_event.ComposedDpEvent, dp_event.SelfComposedDpEvent)),
        ("guarantees 1.1", (dp_event.NoOpDpEvent, dp_event.NonPrivateDpEvent)),
    )
    for cls in classes
}
"""Events that mean the same under every relation, and assume nothing."""


def mechanism_of(event: Any) -> Mechanism | None:
    """The mechanism or wrapper that an event is of, if it is known."""
    cls = type(event)
    return PLAIN.get(cls) or WRAPPERS.get(cls) or MECHANISMS.get(cls)


def _no_more_than_all(translator: relations.Translator, event: Any) -> relations.Laws:
    """The laws of an event; refused if outcomes surely hold more than all of ``Q``, which hides a part of
    delta. Laws that a proof makes may hold more, as masses are rounded up.
    """
    laws = translator(event)
    for law in (laws.remove, laws.add) if isinstance(laws, Pairs) else ():
        if (
            isinstance(law, ExactOutcomes)
            and (total := sum((one.q for one in law.checked_sets()), Ball(0))) > 1
        ):
            held = f"sets of {type(law).__name__} hold {total.str(9, radius=False)} of Q"
            raise ValueError(f"{held}: together they must hold all of it, and no more")
    return laws


def registered(
    event_type: type[dp_event.DpEvent],
    translator: relations.Translator,
    hypotheses: tuple[Hypothesis, ...] = (),
    kind: str = "any",
    relation: Callable[[Any], NeighboringRelation] | None = None,
    under: Mapping[NeighboringRelation, relations.Translator | None] | None = None,
) -> Mechanism:
    """A registered mechanism with its rows: those of each relation that ``relation`` may name, or of
    add-or-remove, whose laws serve zeroing out too. ``under`` has translators for others, or refuses them.
    What is in the table keeps its meaning, on which other rows rest.
    """
    under = under or {}
    if event_type in _TABLE or event_type in PLAIN:
        why = f"{event_type.__name__} of {event_type.__module__} has a meaning (docs/meaning.md)"
        raise ValueError(f"event_type={event_type!r}: {why}: register a class of your own")

    def answer(asked: NeighboringRelation, held: NeighboringRelation) -> Meaning | Refused:
        own, more = under.get(asked, translator if asked is held else None), ""
        if asked is ZERO_OUT and held is ADD_OR_REMOVE and asked not in under:
            own, more = translator, "" if kind in NOISE else "`empty-as-absent`"
        if own is None:
            why, instead = "whoever registered it gave no laws for it", held if held is ZERO_OUT else None
            return Refused(asked, why, ask_for(relations.name_of(held)), instead)
        laws = partial(_no_more_than_all, own)
        return Meaning(asked, "record", "evr.register", (*hypotheses, *assumed(more, asked)), laws)

    def stands_for(event: Any, asked: NeighboringRelation) -> dp_event.DpEvent | None:
        laws = None if relation is not None or asked in under else translator(event)
        return laws if isinstance(laws, dp_event.DpEvent) else None

    def variant(held: NeighboringRelation) -> relations.Variant:
        where = "" if relation is None else f" that holds under {relations.name_of(held)}"
        answers = {asked: answer(asked, held) for asked in _ORDER}
        return relations.Variant(event_type.__name__ + where, kind, answers, partial(holds, held))

    def holds(held: NeighboringRelation, event: Any) -> bool:
        return relation is None or relation(event) is held

    variants = tuple(map(variant, (ADD_OR_REMOVE,) if relation is None else _ORDER))
    return Mechanism(event_type, variants, hypotheses, stands_for, is_registered=True)
