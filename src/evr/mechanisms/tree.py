"""The one walker of event trees.

``walk`` goes through a ``DpEvent`` tree with a stack, not by recursion, so that depth has no limit. It names the
mechanisms in reading order and says where repetitions begin and end. ``leaves`` counts them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from dp_accounting import NeighboringRelation, dp_event

from evr import validate
from evr.errors import UnsupportedEventError
from evr.laws import Pairs
from evr.mechanisms.registry import MECHANISMS, known
from evr.mechanisms.relations import ADD_OR_REMOVE, REPLACE_ONE, ZERO_OUT, not_under
from evr.mechanisms.sampling import NON_PRIVATE_PAIRS, SELECTED, Sampling, Selecting, rule_of, sampling_of
from evr.mechanisms.schemes import ZeroOutDpEvent

SAMPLED = (dp_event.PoissonSampledDpEvent, dp_event.SampledWithoutReplacementDpEvent)
_COMBINATORS = (
    *SAMPLED,
    dp_event.SelfComposedDpEvent,
    dp_event.ComposedDpEvent,
    *SELECTED,
    ZeroOutDpEvent,
    dp_event.NoOpDpEvent,
    dp_event.NonPrivateDpEvent,
)


class Visited(NamedTuple):
    """A mechanism that runs, in all repetitions together so many times; None is one that costs nothing."""

    pairs: Pairs | None
    times: int


class Begin(NamedTuple):
    """Begins a part that is repeated, up to the matching ``End``."""

    repeats: int
    path: str


class End(NamedTuple):
    """A repetition ends."""


def walk(
    event: Any, relation: NeighboringRelation = ADD_OR_REMOVE, path: str = "event"
) -> Iterator[Visited | Begin | End]:
    """The mechanisms of the tree in reading order, and where repetitions begin and end. Sampled ones are named once,
    whole.
    """
    # an event, where it is, and whether it is `settled` (`Mechanism.laws_under`)
    stack: list[tuple[Any, str, bool]] = [(event, path, False)]
    counts = [1]
    parts: list[Sampling | Selecting] = []  # around the event: a selection can only be the first
    units: dict[str, str] = {}  # whose data each mechanism protects, and which is the first

    def found(pairs: Pairs | None) -> Iterator[Visited]:
        if not parts:
            yield Visited(pairs, counts[-1])
        elif pairs is not None:
            parts[-1].inner.append((pairs, counts[-1]))

    while stack:
        node, path, settled = stack.pop()
        if isinstance(node, End):
            counts.pop()
            if not parts:
                yield node
            continue
        if isinstance(node, Sampling | Selecting):
            parts.pop()
            counts.pop()
            yield from found(node.pairs())
            continue
        node = known(node, path)
        sampled = parts[-1] if parts and isinstance(parts[-1], Sampling) else None
        if type(node) is dp_event.SelfComposedDpEvent:
            with _at(path):
                repeats = validate.positive_integer(count=node.count)
                counts.append(validate.positive_integer(count=counts[-1] * repeats))
            if not parts:
                yield Begin(repeats, path)
            stack += [(End(), path, settled), (node.event, path + ".event", settled)]
        elif type(node) is dp_event.ComposedDpEvent:
            with _at(path):
                events = validate.sequence(events=node.events)
            stack += reversed([(child, f"{path}.events[{i}]", settled) for i, child in enumerate(events)])
        elif type(node) is ZeroOutDpEvent:
            if relation is not ZERO_OUT:
                raise not_under(f"{type(node).__name__} at {path}", relation, node, ZERO_OUT)
            stack.append((node.event, path + ".event", settled))
        elif type(node) in (*SELECTED, *SAMPLED):
            with _at(path):
                part = _part(node, path, relation, parts)
            if part is not None:
                if isinstance(part, Sampling) and not settled:  # records are sampled, whatever the mechanism is about
                    _one_unit(units, "record", node, path)
                parts.append(part)
                counts.append(1)
                stack.append((part, path, settled))
            stack.append((node.event, path + ".event", settled))
        else:
            mechanism = MECHANISMS.get(type(node))
            if sampled and mechanism is not None and not mechanism.takes_sampling:
                raise _sampled_already(node, path)
            if mechanism is not None and mechanism.unit is not None and not settled:
                _one_unit(units, mechanism.unit, node, path)
            if mechanism is not None and sampled and relation is REPLACE_ONE:
                sampled.check_replaced(node)
            pairs, settles = _translated(node, path, relation, settled)
            if isinstance(pairs, dp_event.DpEvent):  # an event that stands for this one
                stack.append((pairs, path, settles))
            else:
                yield from found(pairs)


def _part(
    node: Any, path: str, relation: NeighboringRelation, around: list[Sampling | Selecting]
) -> Sampling | Selecting | None:
    """The part that a node begins inside of those around it; None if it changes nothing."""
    if type(node) in SELECTED:
        if around:  # no theorem here is about it
            raise UnsupportedEventError(
                f"unsupported {type(node).__name__} at {path}: a selection may stand beside other mechanisms, but "
                "neither in a run of another selection nor on a sample of the records; describe one selection, around "
                "the sampling",
                node,
            )
        rule = rule_of(node)
        return None if rule is None else Selecting(node, path, rule)
    if type(node) is dp_event.SampledWithoutReplacementDpEvent and around and isinstance(around[-1], Sampling):
        raise _sampled_already(node, path)
    return sampling_of(node, path, relation)


def _sampled_already(node: Any, path: str) -> UnsupportedEventError:
    """Its law counts on a data set of a known size: a sample of the records has none."""
    return UnsupportedEventError(
        f"unsupported {type(node).__name__} at {path}: it says itself who takes part, so it cannot "
        "be applied to a sample of the records; describe one sampling",
        node,
    )


def _one_unit(units: dict[str, str], unit: str, node: Any, path: str) -> None:
    """Refuse a mechanism whose unit is not that of those before it."""
    units.setdefault(unit, type(node).__name__)
    if len(units) > 1:
        said = " and ".join(f"{name} bounds what one {one} adds" for one, name in units.items())
        raise UnsupportedEventError(
            f"unsupported {type(node).__name__} at {path}: {said}, and a guarantee has one unit. "
            "Describe every mechanism for users, or none",
            node,
        )


def leaves(event: Any, relation: NeighboringRelation = ADD_OR_REMOVE) -> Iterator[tuple[Pairs, int]]:
    """Every mechanism of the tree with its multiplicity."""
    for visit in walk(event, relation):
        if isinstance(visit, Visited) and visit.pairs is not None:
            yield visit.pairs, visit.times


@contextmanager
def _at(path: str) -> Iterator[None]:
    """An error about a value also says where in the tree it is."""
    try:
        yield
    except UnsupportedEventError:
        raise
    except (ValueError, TypeError) as error:
        raise type(error)(f"{error} (at {path})" if path != "event" else str(error)) from None


def _translated(
    node: Any, path: str, relation: NeighboringRelation, settled: bool
) -> tuple[Pairs | dp_event.DpEvent | None, bool]:
    """The pairs of one mechanism, or an event that stands for it, and whether the relation is settled; None if it costs
    nothing.
    """
    if type(node) is dp_event.NoOpDpEvent:
        return None, settled
    if type(node) is dp_event.NonPrivateDpEvent:
        return NON_PRIVATE_PAIRS, settled
    if not isinstance(node, dp_event.DpEvent):
        raise TypeError(
            f"{validate.shown(node)} at {path} is not a DpEvent (it is a {type(node).__name__}): "
            "give one of dp_accounting's events, or what evr.dpsgd(...) or "
            "evr.events.from_jax_privacy(plan) returns"
        )
    mechanism = MECHANISMS.get(type(node))
    if mechanism is None:
        supported = ", ".join([*sorted(cls.__name__ for cls in MECHANISMS), *(cls.__name__ for cls in _COMBINATORS)])
        raise UnsupportedEventError(
            f"unsupported {type(node).__name__} at {path}: {node!r}. Supported: {supported}", node
        )
    with _at(path):
        found = mechanism.laws_under(node, relation, settled=settled)
    if not isinstance(found, Pairs | dp_event.DpEvent):
        raise TypeError(
            f"the translator of {type(node).__name__} at {path} returned {validate.shown(found)}: "
            "let it return Pairs, or an event that stands for this one (NonPrivateDpEvent() if it "
            "has no privacy)"
        )
    return found, settled or mechanism.relation is not None
