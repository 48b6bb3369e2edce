"""Check the law of a mechanism against an executable model of it, for mechanisms of your own (docs/extending.md).

A *model* is a function from a data set, a tuple of records, to the law of the output: a mapping from outcomes to their
probabilities, or an array of the probabilities of cells, the same for all data sets. Cells may be coarse: an output
that is only seen through cells tells no more than itself. So that may miss a fault, and never raises a false alarm.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from evr._estimate.fft import FftCurve
from evr._estimate.selected import on_lines
from evr._kernel.events import Composition
from evr._kernel.events.relations import ADD_OR_REMOVE, REPLACE_ONE, Relation, relation_named
from evr._kernel.pairs import Direction, Floats, Step

EMPTY = None  # the record that contributes nothing, which zero-out puts in the place of another
EPSILONS = np.concatenate(([-3.0, -1.0, -0.4, -0.1, 0.0], np.geomspace(0.03, 9.0, 19)))
DataSet: TypeAlias = tuple[Any, ...]
Law: TypeAlias = Mapping[Any, float] | Floats
Model: TypeAlias = Callable[[DataSet], Law]


class Comparison(NamedTuple):
    direction: Direction
    epsilon: float
    model: float  # the greatest delta of neighbours
    evr: float  # delta by evr's law


def neighbours(data: DataSet, values: Sequence[Any], relation: Relation) -> list[DataSet]:
    """Data sets with a record less than ``data``, with an empty one in its place, or with one of ``values`` there."""
    known = relation_named(relation)
    instead = [()] if known is ADD_OR_REMOVE else [(x,) for x in (values if known is REPLACE_ONE else [EMPTY])]
    return [(*data[:i], *record, *data[i + 1 :]) for i in range(len(data)) for record in instead]


def hockey_stick(p: Any, q: Any, epsilons: Iterable[float]) -> Floats:
    """``sup_A P(A) - e^epsilon Q(A)`` of two laws at each epsilon, any sign."""
    if isinstance(p, Mapping):
        p, q = (np.array([law.get(outcome, 0.0) for outcome in {**p, **q}]) for law in (p, q))
    if p.shape != q.shape or not min(p.min(), q.min()) >= -1e-9:
        raise ValueError("the laws of a model are not probabilities of the same outcomes: name the same for all data")
    if not max(abs(p.sum() - 1.0), abs(q.sum() - 1.0)) <= 1e-9:
        raise ValueError(f"the laws of a model sum to {p.sum():.9g} and {q.sum():.9g}, not to 1: name all outcomes")
    return np.array([np.maximum(p - np.exp(epsilon) * q, 0.0).sum() for epsilon in epsilons])


def deltas_of(steps: tuple[Step, ...], epsilons: Floats) -> tuple[Floats, Floats]:
    """Deltas by evr's laws of the steps, at rising epsilons, and how far they may be from the truth."""
    curve = FftCurve(on_lines(steps), asked=epsilons[::-1])
    return (deltas := np.array([curve.value(x) for x in epsilons[::-1]])[::-1]), 1e-7 * deltas + 1e-11


def check_laws(composition: Composition, laws: list[tuple[Law, Law]], deltas_of: Any = deltas_of) -> list[Comparison]:
    """As ``check_model``, given the output laws of neighbours: that of the data set with the record comes first."""
    if not laws:
        raise ValueError("nothing to compare: give data sets of records, and for replace-one values that replace them")
    comparisons = []
    for direction in Direction:
        steps, ordered = composition.simplified(direction), laws if direction == "remove" else [x[::-1] for x in laws]
        epsilons = EPSILONS[(EPSILONS >= 0) | (sum(step.count for step in steps) == 1)]  # a step's whole curve is used
        greatest = np.max([hockey_stick(p, q, epsilons) for p, q in ordered], axis=0)
        deltas, errors = deltas_of(steps, epsilons)
        for epsilon, truth, delta, error in np.stack([epsilons, greatest, deltas, errors], axis=1).tolist():
            comparisons.append(Comparison(direction, epsilon, truth, delta))
            if truth > delta + error:
                what = f"delta={truth:.6g} of the model exceeds {delta:.6g} of evr's law"
                raise AssertionError(f"{what}, at epsilon={epsilon:g} in the direction {direction.value!r}")
    return comparisons


def check_model(
    event: Any, model: Model, data_sets: list[DataSet], neighboring_relation: Relation, values: Sequence[Any] = ()
) -> list[Comparison]:
    """Assert that evr's law of ``event`` dominates ``model``: for all neighbours of ``data_sets``, in both directions,
    at 20 epsilons or more. ``values`` are what replace-one puts in the place of records. Returns what was compared.
    """
    others = [(data, other) for data in data_sets for other in neighbours(data, values, neighboring_relation)]
    laws = [(model(data), model(other)) for data, other in others]
    return check_laws(Composition.of(event, neighboring_relation), laws)
