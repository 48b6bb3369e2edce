"""Check the law of a mechanism against an executable model of it, for mechanisms of your own (docs/extending.md).

A *model* is a function from a data set, a tuple of records, to the law of the output: a mapping from outcomes to their
probabilities, or an array of the probabilities of cells, the same cells for all data sets. An output that is only seen
through cells tells no more than the output itself: coarse cells may miss a fault, and never raise a false alarm.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from evr.estimation.fft import FftCurve
from evr.estimation.selected import on_lines
from evr.laws import Direction, Floats, Step
from evr.mechanisms import Composition
from evr.mechanisms.relations import ADD_OR_REMOVE, REPLACE_ONE, NeighboringRelation, relation_named

EMPTY = None
"""The record that contributes nothing, which zero-out puts in the place of another."""
DataSet: TypeAlias = tuple[Any, ...]
Law: TypeAlias = Mapping[Any, float] | Floats


class Comparison(NamedTuple):
    """The greatest delta of neighbours by the model, and delta by evr's law."""

    direction: Direction
    epsilon: float
    model: float
    evr: float


def neighbours(data: DataSet, values: Iterable[Any], relation: NeighboringRelation | str) -> list[DataSet]:
    """The data sets that differ from ``data`` by a record less, by one that is empty, or by another one of ``values``.

    >>> neighbours((1, 2), [3], "replace-one")
    [(3, 2), (1, 3)]
    """
    relation = relation_named(relation)
    instead = [()] if relation is ADD_OR_REMOVE else [(x,) for x in (values if relation is REPLACE_ONE else [EMPTY])]
    return [(*data[:i], *record, *data[i + 1 :]) for i in range(len(data)) for record in instead]


def hockey_stick(p: Law, q: Law, epsilons: Iterable[float]) -> Floats:
    """``sup_A P(A) - e^epsilon Q(A)`` at each epsilon, any sign."""
    if isinstance(p, Mapping) and isinstance(q, Mapping):
        p, q = (np.array([law.get(outcome, 0.0) for outcome in {**p, **q}]) for law in (p, q))
    return np.array([np.maximum(np.subtract(p, np.exp(x) * np.asarray(q)), 0.0).sum() for x in epsilons])


def deltas_of(steps: tuple[Step, ...], epsilons: Floats) -> tuple[Floats, Floats]:
    """Deltas by evr's laws of the steps, at rising epsilons, and how far they may be from the truth."""
    curve = FftCurve(on_lines(steps), asked=epsilons[::-1])
    deltas = np.array([curve.value(epsilon) for epsilon in epsilons[::-1]])[::-1]
    return deltas, 1e-7 * deltas + 1e-11


def check_laws(
    composition: Composition, laws: list[tuple[Law, Law]], deltas_of: Callable[..., tuple[Floats, Floats]] = deltas_of
) -> list[Comparison]:
    """As ``check_model``, given the output laws of neighbours: that of the data set with the record comes first."""
    comparisons = []
    for direction in Direction:
        steps, search = composition.simplified(direction), 0.05 * 1.5 ** np.arange(15)
        last = search[np.argmax(np.append(deltas_of(steps, search)[0] < 1e-4, True)) % len(search)]
        first = -last / 2 if sum(step.count for step in steps) == 1 else 0.0  # compositions use one step's whole curve
        epsilons = np.linspace(first, last, 20)
        ordered = laws if direction is Direction.REMOVE else [(q, p) for p, q in laws]
        greatest = np.max([hockey_stick(p, q, epsilons) for p, q in ordered], axis=0)
        deltas, errors = deltas_of(steps, epsilons)
        comparisons += map(Comparison, [direction] * 20, epsilons.tolist(), greatest.tolist(), deltas.tolist())
        if np.any(greatest > deltas + errors):
            _, epsilon, truth, delta = max(comparisons[-20:], key=lambda row: row.model - row.evr)
            why = f"at epsilon={epsilon:.6g} neighbours have delta={truth:.6g} by the model, {delta:.6g} by evr's law"
            raise AssertionError(f"{why} ({direction.value}): the law does not dominate the model")
    return comparisons


def check_model(
    event: Any,
    model: Callable[[DataSet], Law],
    data_sets: Iterable[DataSet],
    values: Iterable[Any] = (),
    neighboring_relation: NeighboringRelation | str | None = None,
) -> list[Comparison]:
    """Assert that evr's law of ``event`` dominates ``model``: for all neighbours of ``data_sets``, in both directions,
    at 20 epsilons. ``values`` are the records that replace-one puts in the place of others. Returns what was compared.
    """
    composition, values = Composition.of(event, neighboring_relation), list(values)
    pairs = [(data, other) for data in data_sets for other in neighbours(data, values, composition.relation)]
    return check_laws(composition, [(model(data), model(other)) for data, other in pairs])
