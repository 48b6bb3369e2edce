"""Which model stands for which row of the table of meanings, and how a row is checked.

``PYTHONPATH=src:tests python -m models.rows`` prints how tight each row is: what the worst neighbours have by the model
over what evr's law says, the median over epsilons, for the median case of the model and for the tightest one.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from dp_accounting import NeighboringRelation, dp_event

from evr._kernel.events import Composition, schemes
from evr._kernel.events.meaning import Row, row_of, rows
from evr._kernel.events.relations import Refused, name_of
from evr._kernel.events.table import BUILT_IN, WRAPPERS
from evr.errors import UnsupportedEventError
from evr.testing import Comparison, Law, check_laws, neighbours
from models import mechanisms, selections, trainings
from models.cases import Case, Maker
from models.curves import deltas_of


class Model(NamedTuple):
    """A function that draws cases, and whose data one element of a data set is; None where it may be either."""

    make: Maker
    unit: str | None = "record"


MODELS: dict[str, Model] = {
    # noise on a sum
    "GaussianDpEvent": Model(mechanisms.gaussian),
    "AdaptiveClippingDpEvent": Model(mechanisms.adaptive_clipping),
    "LaplaceDpEvent": Model(mechanisms.laplace),
    "DiscreteLaplaceDpEvent": Model(mechanisms.discrete_laplace),
    "DiscreteGaussianDpEvent on one number": Model(mechanisms.discrete_gaussian),
    "DiscreteGaussianDpEvent on many numbers": Model(mechanisms.discrete_gaussian_vectors),
    "SummedDiscreteGaussiansDpEvent": Model(mechanisms.summed_discrete_gaussians),
    "MixtureOfGaussiansDpEvent": Model(mechanisms.mixture_of_gaussians),
    # known guarantees, choices, answers
    "EpsilonDeltaDpEvent": Model(mechanisms.epsilon_delta, None),
    "ZCDpEvent": Model(mechanisms.concentrated, None),
    "ExponentialMechanismDpEvent": Model(mechanisms.exponential, None),
    "PermuteAndFlipDpEvent": Model(mechanisms.permute_and_flip, None),
    "AboveThresholdDpEvent": Model(mechanisms.above_threshold, None),
    "RandomizedResponseDpEvent": Model(mechanisms.randomized_response),
    # trainings
    "BallsInBinsDpEvent": Model(trainings.bins),
    "RedrawnBinsDpEvent": Model(trainings.redrawn_bins),
    "RandomAllocationDpEvent": Model(trainings.allocation),
    "BMinSepDpEvent": Model(trainings.min_sep),
    "CyclicPoissonDpEvent, fixed groups": Model(trainings.cyclic_fixed),
    "CyclicPoissonDpEvent, independent groups or one": Model(trainings.cyclic_independent),
    "MatrixMechanismDpEvent": Model(trainings.matrix),
    "ShuffledBatchesDpEvent": Model(trainings.shuffled),
    "SingleEpochTreeAggregationDpEvent": Model(trainings.tree),
    "TruncatedSubsampledGaussianDpEvent": Model(mechanisms.truncated),
    # users
    "PoissonSampledUsersDpEvent": Model(trainings.poisson_users, "user"),
    "FixedBatchUsersDpEvent": Model(trainings.fixed_batch_users, "user"),
    "UsersDpEvent of CyclicPoissonDpEvent, fixed groups": Model(trainings.of_users(trainings.cyclic_fixed), "user"),
    "UsersDpEvent of MatrixMechanismDpEvent": Model(trainings.of_users(trainings.matrix), "user"),
    "UsersDpEvent of other schemes": Model(
        trainings.of_users(trainings.any_of(trainings.bins, trainings.redrawn_bins, trainings.min_sep)), "user"
    ),
    # sampling
    "PoissonSampledDpEvent with probability 1": Model(mechanisms.poisson_of_everybody, None),
    "PoissonSampledDpEvent of Gaussian noise": Model(mechanisms.poisson_of_gaussian),
    "PoissonSampledDpEvent of several kinds of noise on sums": Model(mechanisms.poisson_of_several_sums),
    "PoissonSampledDpEvent of several mechanisms": Model(mechanisms.poisson_of_several),
    "PoissonSampledDpEvent of Laplace or integer noise on one number": Model(mechanisms.poisson_of_scalar_noise),
    "PoissonSampledDpEvent of registered noise": Model(mechanisms.poisson_of_registered_noise),
    "PoissonSampledDpEvent of other noise on a sum": Model(mechanisms.poisson_of_other_noise),
    "PoissonSampledDpEvent of a known guarantee": Model(mechanisms.poisson_of_guarantee),
    "PoissonSampledDpEvent of any other mechanism": Model(mechanisms.poisson_of_alarm),
    "SampledWithoutReplacementDpEvent of Gaussian noise": Model(mechanisms.without_replacement_of_gaussian),
    "SampledWithReplacementDpEvent of Gaussian noise": Model(mechanisms.with_replacement_of_gaussian),
    "SampledWithReplacementDpEvent of any other mechanism": Model(mechanisms.with_replacement_of_laplace),
    "OneOfDpEvent of noise on sums": Model(trainings.one_of_sums),
    "OneOfDpEvent of other mechanisms": Model(trainings.one_of_others),
    "AllocatedDpEvent of noise on a sum": Model(trainings.allocated_sums),
    "AllocatedDpEvent of other mechanisms": Model(trainings.allocated_others),
    "SampledWithoutReplacementDpEvent of noise on a sum": Model(mechanisms.without_replacement_of_noise),
    "SampledWithoutReplacementDpEvent of any other mechanism": Model(mechanisms.without_replacement_of_others),
    "ScaledLaplaceDpEvent": Model(mechanisms.scaled_laplace),
    "NoisyAlarmDpEvent": Model(mechanisms.alarm),
    # selections
    "RepeatAndSelectDpEvent": Model(selections.repeat_and_select, None),
    "BinomialSelectDpEvent": Model(selections.binomial_select, None),
    "ThresholdSelectDpEvent": Model(selections.threshold_select, None),
    # wrappers
    "ParallelDpEvent": Model(mechanisms.parallel, None),
    "ZeroOutDpEvent": Model(mechanisms.zero_out_only, None),
}
"""By subject of the table. What is refused under each relation is in ``REFUSED``."""

PIPELINES: dict[str, Maker] = {
    "MatrixMechanismDpEvent": trainings.matrix_in_order,
    "ShuffledBatchesDpEvent": trainings.shuffled,
    "SingleEpochTreeAggregationDpEvent": trainings.tree,
    "CyclicPoissonDpEvent, fixed groups": trainings.cyclic_fixed,
    "UsersDpEvent of MatrixMechanismDpEvent": trainings.users_in_order,
}
"""What people usually run: batches of a fixed size, in which one record more moves others."""

_GAUSSIAN = dp_event.GaussianDpEvent(1.0)
_SELECTION = schemes.BinomialSelectDpEvent(_GAUSSIAN, 2, 0.5)
_BINS = schemes.BallsInBinsDpEvent(1.0, 2, 2)
REFUSED: dict[str, dp_event.DpEvent] = {
    "UsersDpEvent of anything else": schemes.UsersDpEvent(_GAUSSIAN, 2),
    "PoissonSampledDpEvent of a scheme": dp_event.PoissonSampledDpEvent(0.5, _BINS),
    "PoissonSampledDpEvent of a selection": dp_event.PoissonSampledDpEvent(0.5, _SELECTION),
    "SampledWithoutReplacementDpEvent of a scheme": dp_event.SampledWithoutReplacementDpEvent(3, 1, _BINS),
    "SampledWithoutReplacementDpEvent of a selection": dp_event.SampledWithoutReplacementDpEvent(3, 1, _SELECTION),
    "SampledWithReplacementDpEvent of a scheme": dp_event.SampledWithReplacementDpEvent(3, 1, _BINS),
    "SampledWithReplacementDpEvent of a selection": dp_event.SampledWithReplacementDpEvent(3, 1, _SELECTION),
    "OneOfDpEvent of a scheme": schemes.OneOfDpEvent([_BINS, _GAUSSIAN]),
    "OneOfDpEvent of a selection": schemes.OneOfDpEvent([_SELECTION, _GAUSSIAN]),
    "AllocatedDpEvent of a scheme": schemes.AllocatedDpEvent(_BINS, 1, 2),
    "AllocatedDpEvent of a selection": schemes.AllocatedDpEvent(_SELECTION, 1, 2),
    "RepeatAndSelectDpEvent of a selection": dp_event.RepeatAndSelectDpEvent(_SELECTION, 2.0, 1.0),
    "BinomialSelectDpEvent of a selection": schemes.BinomialSelectDpEvent(_SELECTION, 2, 0.5),
    "ThresholdSelectDpEvent of a selection": schemes.ThresholdSelectDpEvent(_SELECTION, 0.5),
}
"""An event for each subject that has no meaning under any relation."""


# --- how a row is checked --------------------------------------------------------------------------

CASES = 3  # random ones, for each row
MERGED = 2000  # outcomes


def merged(p: Law, q: Law) -> tuple[Law, Law]:
    """Both laws on fewer outcomes: those of nearly the same likelihood ratio are put together, so that next to nothing
    is lost. Numbers of outcomes that differ tell everything.
    """
    if not isinstance(p, np.ndarray) or not isinstance(q, np.ndarray):
        return p, q
    if p.shape != q.shape:
        return np.array([1.0, 0.0]), np.array([0.0, 1.0])
    p, q = p.ravel(), q.ravel()
    if p.size <= 2 * MERGED:
        return p, q
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(np.log(p / q))
    first = np.linspace(0, p.size, MERGED, endpoint=False).astype(int)
    return np.add.reduceat(p[order], first), np.add.reduceat(q[order], first)


def laws_of(case: Case, relation: str) -> list[tuple[Law, Law]]:
    """The laws of all neighbours of a case."""
    laws: dict[Any, Law] = {}

    def law(data: Any) -> Law:
        if data not in laws:
            laws[data] = case.model(data)
        return laws[data]

    pairs = [(data, other) for data in case.data_sets for other in neighbours(data, case.values, relation)]
    return [merged(law(data), law(other)) for data, other in pairs if data != other]


def check_case(case: Case, relation: str) -> list[Comparison]:
    return check_laws(Composition.of(case.event, relation), laws_of(case, relation), deltas_of)


def check_row(row: Row, seeds: Iterable[int]) -> list[list[Comparison]]:
    """Fails unless the law of a row dominates its model, in random cases, or the row is refused as it says. Returns
    what was compared in each case.
    """
    if row.subject in REFUSED:
        check_refused(row, REFUSED[row.subject])
        return []
    model = model_of(row)
    relation, comparisons = name_of(row.answer.relation), list[list[Comparison]]()
    for seed in seeds:
        case = model.make(random.Random(seed), relation)
        used = row_of(
            case.event, row.answer.relation
        )  # of a registered mechanism, that of the event that stands for it
        assert used.subject == row.subject or row.event not in BUILT_IN | WRAPPERS, f"{case.event!r} is {used.subject}"
        if isinstance(used.answer, Refused):
            check_refused(used, case.event)
        else:
            comparisons.append(check_case(case, relation))
    return comparisons


def model_of(row: Row) -> Model:
    assert row.subject in MODELS, f"{row.subject} has no model: write one, and name it in MODELS"
    return MODELS[row.subject]


def check_refused(row: Row, event: dp_event.DpEvent) -> None:
    assert isinstance(row.answer, Refused), f"{row.subject} has a meaning, and no model"
    message = refusal_of(event, row.answer.relation)
    assert message is not None, f"{row.subject} is refused under {row.answer.relation} by the table, and accepted"
    assert row.answer.why in message, f"{row.subject}: the refusal does not say why: {message}"
    assert row.answer.remedy in message, f"{row.subject}: the refusal has no remedy: {message}"


def refusal_of(event: dp_event.DpEvent, relation: NeighboringRelation) -> str | None:
    """The words by which an event is refused under a relation; None if it is not."""
    try:
        Composition.of(event, relation)
    except UnsupportedEventError as error:
        return str(error)
    return None


def check_unit(row: Row) -> None:
    """Fails unless a row is about what the elements of its model's data sets are, and refused beside the other unit."""
    if isinstance(row.answer, Refused):
        return
    model, relation = model_of(row), row.answer.relation
    unit = model.unit
    assert row.answer.unit == unit, f"{row.subject} is about {row.answer.unit}, and its model about {unit}"
    if unit is None:
        return
    event = model.make(random.Random(0), name_of(relation)).event
    user = schemes.PoissonSampledUsersDpEvent(1.0, 0.5, 2)
    for other, other_unit in ((dp_event.GaussianDpEvent(1.0), "record"), (user, "user")):
        message = refusal_of(dp_event.ComposedDpEvent([event, other]), relation)
        refused = message is not None and "one unit" in message
        assert refused == (unit != other_unit), f"{row.subject} beside a mechanism for a {other_unit}"


def check_default(subject: str) -> None:
    """Fails unless what people usually run is covered by the relation that is taken where none is asked for."""
    case = PIPELINES[subject](random.Random(0), "")
    check_case(case, name_of(Composition.of(case.event).relation))


def tightness(cases: list[list[Comparison]]) -> tuple[float, float]:
    """What neighbours have by the model over what evr's law says, where that is not negligible: the median over
    epsilons, of the median case and of the tightest one.
    """
    counted = [[row for row in case if row.epsilon >= 0 and row.evr > 1e-4] for case in cases]
    medians = [float(np.median([row.model / row.evr for row in case])) for case in counted if case]
    return float(np.median(medians)), max(medians)


def table() -> tuple[Row, ...]:
    """The rows, less those of mechanisms that the attack registers."""
    return tuple(row for row in rows() if not row.event.__module__.startswith("attacking"))


with mechanisms.registered():
    ROWS = table()
"""The whole table, the mechanisms that are registered here included."""


def name(row: Row) -> str:
    return f"{row.subject} under {name_of(row.answer.relation)}"


def main(cases: int = 5) -> None:
    """Print the tightness of each row."""
    with mechanisms.registered():
        for row in ROWS:
            comparisons = check_row(row, range(cases))
            words = "{:.4f}  {:.4f}".format(*tightness(comparisons)) if comparisons else "refused"
            print(f"{name(row):90}{words}")


if __name__ == "__main__":
    main()
