"""For each hypothesis a mechanism that breaks it, and no other: its law exceeds evr's. So the sentence is needed.

Each function is named after the id of the hypothesis. It returns a case, and the relation of its neighbours.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from dp_accounting import dp_event

from evr._kernel.events import schemes
from evr._kernel.events.meaning import Row, hypotheses_of
from evr._kernel.events.relations import Refused, name_of, relation_named
from evr.testing import EMPTY, DataSet, Law
from models import batches, mechanisms, releases, selections, trainings
from models.batches import assigned, joined, sums_of
from models.cases import ADD_OR_REMOVE, REPLACE_ONE, ZERO_OUT, Case
from models.mechanisms import ONE_BIT, any_bit, noisy_bit, sampled, steps, summed
from models.releases import mixed, release
from models.rows import MODELS, REFUSED, check_case

Broken = tuple[Case, str]
BROKEN: dict[str, Callable[[], Broken]] = {}
"""By the id of the hypothesis."""
GAUSSIAN = dp_event.GaussianDpEvent


def breaks(make: Callable[[], Broken]) -> Callable[[], Broken]:
    return BROKEN.setdefault(make.__name__.replace("_", "-"), make)


def _once(law: Any) -> dict[Any, float]:
    return {law: 1.0}


# --- noise, answers and known guarantees ----------------------------------------------------------


@breaks
def sensitivity() -> Broken:
    """A record adds 2 to the sum, where noise is stated for 1."""
    return Case(GAUSSIAN(1.0), summed(batches.everybody, 1.0), [(2.0,)], []), ADD_OR_REMOVE


@breaks
def random_sensitivity() -> Broken:
    """A record adds 2 always; 2 is stated with probability 0.1, and 1 otherwise."""
    event = dp_event.MixtureOfGaussiansDpEvent(1.0, [1.0, 2.0], [0.9, 0.1])
    return Case(event, summed(batches.everybody, 1.0), [(2.0,)], []), ADD_OR_REMOVE


@breaks
def integers() -> Broken:
    """The values are halves, so the noise on the integers does not hide which value it was added to."""
    chances = releases.discrete_gaussian(2.0)

    def model(data: DataSet) -> Law:
        value = sum(x or 0 for x in data)
        return {value + i - len(chances) // 2: chance for i, chance in enumerate(chances)}

    return Case(schemes.DiscreteGaussianDpEvent(2.0), model, [(0.5,)], []), ADD_OR_REMOVE


@breaks
def known_private() -> Broken:
    """A sum with Laplace noise that is 0.5-DP under add-or-remove. Under replace-one it is 1-DP."""
    model = summed(batches.everybody, 2.0, releases.laplace)
    return Case(schemes.EpsilonDeltaDpEvent(0.5, 0.0), model, [(1.0,)], [-1.0]), REPLACE_ONE


@breaks
def known_zcdp() -> Broken:
    """A sum with normal noise that is 0.1-zCDP under add-or-remove. Under replace-one it is 0.4-zCDP."""
    model = summed(batches.everybody, math.sqrt(1 / 0.2))
    return Case(dp_event.ZCDpEvent(0.1), model, [(1.0,)], [-1.0]), REPLACE_ONE


def _choice(epsilon: float, sensitivity: float) -> Callable[[DataSet], Law]:
    def model(data: DataSet) -> Law:
        weights = [math.exp(epsilon * score / (2 * sensitivity)) for score in mechanisms.scores_of(data, 2)]
        return dict(enumerate(weight / sum(weights) for weight in weights))

    return model


@breaks
def exponential_choice() -> Broken:
    """Probabilities proportional to ``e^{epsilon score / sensitivity}``, without the 2."""
    return Case(schemes.ExponentialMechanismDpEvent(1.0), _choice(2.0, 1.0), [((1.0, -1.0),)], []), ADD_OR_REMOVE


@breaks
def score_sensitivity() -> Broken:
    """The sensitivity of the scores is that of add-or-remove, and the neighbours are those of replace-one."""
    case = Case(schemes.ExponentialMechanismDpEvent(1.0), _choice(1.0, 1.0), [((1.0, -1.0),)], [(-1.0, 1.0)])
    return case, REPLACE_ONE


@breaks
def above_threshold() -> Broken:
    """The threshold has its noise, and the scores next to none."""
    chances = mechanisms.first_above(2.0, 0.05)
    event = schemes.AboveThresholdDpEvent(1.0)
    case = Case(event, lambda data: dict(enumerate(chances(mechanisms.scores_of(data, 3)))), [((-1.0, -1.0, 1.0),)], [])
    return case, ADD_OR_REMOVE


@breaks
def clipped_count() -> Broken:
    """Each record adds 0 or 1 to the count, and not 1/2 or -1/2."""
    event = schemes.AdaptiveClippingDpEvent(1.0, 0.5)
    return Case(event, mechanisms.clipped_sums(1.0, 0.5), [((1.0, 1.0),)], []), ADD_OR_REMOVE


@breaks
def disjoint_parts() -> Broken:
    """The record is in both parts."""
    event = schemes.ParallelDpEvent(GAUSSIAN(1.0))
    return Case(event, mechanisms.sums_of_parts(1.0, lambda _: ["a", "b"]), [(("a", 1.0),)], []), ADD_OR_REMOVE


@breaks
def disjoint_parts_zero_out() -> Broken:
    """An empty record is counted in the first part, whichever part the record was in."""
    event = schemes.ParallelDpEvent(GAUSSIAN(1.0))
    return Case(event, mechanisms.sums_of_parts(1.0, lambda part: [part], empty=1.0), [(("b", 1.0),)], []), ZERO_OUT


@breaks
def empty_as_absent() -> Broken:
    """An alarm that rings for an empty record as it does for a positive one, known by its laws of add-or-remove."""

    def model(data: DataSet) -> Law:
        rings = 0.9 if any(record is EMPTY or record > 0 for record in data) else 0.2
        return {"rings": rings, "silent": 1 - rings}

    return Case(mechanisms.NoisyAlarmDpEvent(0.9, 0.2), model, [(-1.0,)], []), ZERO_OUT


@breaks
def empty_record_answers() -> Broken:
    """A record that was emptied does not answer: the number of answers tells."""
    answers = mechanisms.published_answers(0.5, 2)
    case = Case(
        dp_event.RandomizedResponseDpEvent(0.5, 2),
        lambda data: answers(tuple(x for x in data if x is not EMPTY)),
        [(0, 1)],
        [],
    )
    return case, ZERO_OUT


# --- sampling -------------------------------------------------------------------------------------

CROWD = (1.0,) * 6  # what they do together is seen through the noise


def _one_coin(probability: float) -> batches.Batching:
    """One coin for everybody."""
    return lambda data: {(data,): probability, ((),): 1 - probability}


@breaks
def poisson() -> Broken:
    """One coin decides for all records, and what the others add shows how it fell."""
    event = dp_event.PoissonSampledDpEvent(0.1, GAUSSIAN(1.0))
    return Case(event, summed(_one_coin(0.1), 1.0, greatest=7), [(1.0, *CROWD)], []), ADD_OR_REMOVE


def _counted_steps(number: Callable[[DataSet], int], probability: float) -> Callable[[DataSet], Law]:
    """So many steps, which everybody sees, as depends on the data."""

    def model(data: DataSet) -> Law:
        count = number(data)
        sums = sums_of(steps(lambda part: batches.poisson(part, probability), count)(data))
        return {(count, i): chance for i, chance in enumerate(np.ravel(release(sums, releases.gaussian(1.0), 1.0)))}

    return model


_STEPS = dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.5, GAUSSIAN(1.0)), 2)


@breaks
def constant_rate_and_steps() -> Broken:
    """As many steps as there are records."""
    return Case(_STEPS, _counted_steps(len, 0.5), [(1.0, 1.0)], []), ADD_OR_REMOVE


@breaks
def constant_rate_and_steps_zero_out() -> Broken:
    """As many steps as there are records that are not empty."""
    count = lambda data: sum(x is not EMPTY for x in data)  # noqa: E731
    return Case(_STEPS, _counted_steps(count, 0.5), [(1.0, 1.0)], []), ZERO_OUT


@breaks
def constant_rate_and_steps_replace_one() -> Broken:
    """One step more for each positive record."""
    count = lambda data: 1 + sum(x > 0 for x in data)  # noqa: E731
    return Case(_STEPS, _counted_steps(count, 0.5), [(1.0,)], [-1.0]), REPLACE_ONE


@breaks
def scalar_noise() -> Broken:
    """A record that is not in the batch adds the opposite of what it would add."""

    def batching(data: DataSet) -> dict[batches.Batches, float]:
        signs = joined(*[{1.0: 0.1, -1.0: 0.9}] * len(data))
        return mixed(((tuple(s * x for s, x in zip(drawn, data, strict=True)),), c) for drawn, c in signs.items())

    event = dp_event.PoissonSampledDpEvent(0.1, dp_event.LaplaceDpEvent(1.0))
    return Case(event, summed(batching, 1.0, releases.laplace), [(1.0,)], [-1.0]), REPLACE_ONE


@breaks
def without_replacement() -> Broken:
    """The batch is drawn once, and serves three steps."""
    step = dp_event.SampledWithoutReplacementDpEvent(3, 1, dp_event.DiscreteLaplaceDpEvent(2.0, 1))
    chances = releases.discrete_laplace(2.0)

    def model(data: DataSet) -> Law:
        return releases.release_integers({(value,) * 3: data.count(value) / 3 for value in {*data}}, chances, 1)

    return Case(dp_event.SelfComposedDpEvent(step, 3), model, [(1, -1, -1)], [-1]), REPLACE_ONE


@breaks
def with_replacement() -> Broken:
    """The batch is drawn once, and serves two steps."""
    event = dp_event.SelfComposedDpEvent(dp_event.SampledWithReplacementDpEvent(3, 1, GAUSSIAN(1.0)), 2)

    def twice(data: DataSet) -> dict[batches.Batches, float]:
        return {(batch, batch): chance for batch, chance in batches.with_replacement(data, 1).items()}

    return Case(event, summed(twice, 1.0), [(1.0, -1.0, -1.0)], [-1.0]), ADD_OR_REMOVE


@breaks
def one_sample() -> Broken:
    """The batch of two answers serves two more."""
    two, event = 2, schemes.EpsilonDeltaDpEvent(1.0, 0.0)
    sample = dp_event.PoissonSampledDpEvent(0.1, dp_event.SelfComposedDpEvent(event, two))
    model = sampled(lambda data: batches.poisson(data, 0.1), mechanisms.answers(1.0, 2 * two))
    return Case(dp_event.SelfComposedDpEvent(sample, 2), model, [(1.0, -1.0)], []), ADD_OR_REMOVE


@breaks
def batch_by_itself() -> Broken:
    """Everybody in the batch publishes a noisy bit, and who they are: it is 1-DP to replace the bit of anybody."""
    event = dp_event.SampledWithoutReplacementDpEvent(3, 1, schemes.EpsilonDeltaDpEvent(1.0, 0.0))
    model = sampled(lambda data: batches.without_replacement(data, 1), mechanisms.named_bits(1.0))
    people = (("Ann", True), ("Bob", False), ("Eve", False))
    return Case(event, model, [people], [("Ann", False)]), REPLACE_ONE


@breaks
def truncated_batches() -> Broken:
    """Of a batch that is too large, the first record is kept, not a random one."""

    def first(data: DataSet) -> dict[DataSet, float]:
        return mixed((batch[:1], chance) for batch, chance in batches.poisson(data, 0.9).items())

    event = dp_event.TruncatedSubsampledGaussianDpEvent(3, 0.9, 1, 1.0)
    return Case(event, summed(steps(first), 1.0), [(1.0, -1.0, -1.0)], []), ADD_OR_REMOVE


@breaks
def truncated_dataset_size() -> Broken:
    """There is one record, where 100 are stated: its batches are never too large, and it is never left out."""
    event = dp_event.TruncatedSubsampledGaussianDpEvent(100, 0.1, 1, 1.0)
    return Case(event, summed(steps(lambda data: batches.truncated(data, 0.1, 1)), 1.0), [(1.0,)], []), ADD_OR_REMOVE


# --- training schemes -----------------------------------------------------------------------------


def _in_company(batching: batches.Batching) -> batches.Batching:
    """The record that adds 0.5 makes others in its batch add 1, who add -1 by themselves."""

    def contributions(batch: DataSet) -> DataSet:
        others = 1.0 if 0.5 in batch else -1.0
        return tuple(record if record == 0.5 else others for record in batch if record is not EMPTY)

    return lambda data: mixed((tuple(map(contributions, steps)), chance) for steps, chance in batching(data).items())


@breaks
def own_contribution() -> Broken:
    """A record adds 0.5, and in its company others add 1 instead of -1."""
    each = lambda data: batches.each_by_itself(data, 2, batches.bins(2, 2))  # noqa: E731
    return Case(schemes.BallsInBinsDpEvent(1.0, 2, 2), summed(_in_company(each), 1.0), [(0.5, -1.0)], []), ADD_OR_REMOVE


@breaks
def own_contribution_in_batch() -> Broken:
    """A record adds 0.5, and in its company others add 1 instead of -1."""
    model = summed(_in_company(lambda data: batches.everybody(data)), 1.0)
    return Case(schemes.ShuffledBatchesDpEvent(1.0, 1), model, [(0.5, -1.0)], []), ZERO_OUT


ALTERNATING = (1.0, -1.0, 1.0)
_MATRIX = schemes.MatrixMechanismDpEvent(1.0, (1.0,), 3, 3, 1)


@breaks
def others_stay() -> Broken:
    """A fixed order and batches of one: one record more in front moves all others to the next step."""
    model = summed(lambda data: _once(batches.in_order(data, 3)), 1.0)
    return Case(_MATRIX, model, [(-1.0, *ALTERNATING)], []), ADD_OR_REMOVE


def _rising(data: DataSet) -> DataSet:
    return tuple(sorted(data, key=lambda x: math.inf if x is EMPTY else x))


@breaks
def participation_not_by_content() -> Broken:
    """Batches of one in rising order of their values, empty records last: emptying the first moves all others."""
    model = summed(lambda data: _once(batches.in_order(_rising(data), 3)), 1.0)
    return Case(_MATRIX, model, [(-1.0, 0.0, 1.0)], []), ZERO_OUT


@breaks
def separated_participation() -> Broken:
    """A record takes part in all steps, where one is stated."""
    return Case(_MATRIX, summed(lambda data: batches.everybody(data, 3), 1.0), [(1.0,)], []), ZERO_OUT


def _batches_of_one(event: dp_event.DpEvent, data: DataSet = (1.0, -1.0, -1.0)) -> Broken:
    """Shuffled batches of one record: where the others are shows where the record is."""
    return Case(event, summed(lambda part: batches.shuffled(part, 1), 0.5), [data], []), ZERO_OUT


@breaks
def bins_drawn_once() -> Broken:
    """Shuffled batches of one record."""
    return _batches_of_one(schemes.BallsInBinsDpEvent(0.5, 3, 3))


@breaks
def bins_drawn_each_epoch() -> Broken:
    """Shuffled batches of one record."""
    return _batches_of_one(schemes.RedrawnBinsDpEvent(0.5, 3, 1))


@breaks
def random_allocation() -> Broken:
    """Shuffled batches of one record."""
    return _batches_of_one(schemes.RandomAllocationDpEvent(0.5, 3, 1))


@breaks
def fixed_groups() -> Broken:
    """Groups by the order of the values, empty records last: emptying the first moves all others."""
    event = schemes.CyclicPoissonDpEvent(1.0, 2, 2, 1.0, "fixed")
    model = summed(lambda data: batches.cyclic_fixed(_rising(data), 2, 2, 1.0), 1.0)
    return Case(event, model, [(-1.0, -1.0, 1.0)], []), ZERO_OUT


def _together(count: int, patterns: dict[batches.Pattern, float]) -> batches.Batching:
    """All records take part in the same steps."""
    return lambda data: mixed((assigned(data, count, [x] * len(data)), chance) for x, chance in patterns.items())


@breaks
def independent_groups() -> Broken:
    """All records are in the same group, and what the others add shows which it is."""
    event = schemes.CyclicPoissonDpEvent(1.0, 2, 2, 0.3, "independent")
    model = summed(_together(2, batches.cyclic_independent(2, 2, 0.3)), 1.0, greatest=7)
    return Case(event, model, [(1.0, *CROWD)], []), ADD_OR_REMOVE


@breaks
def b_min_sep() -> Broken:
    """One coin decides for all records, and what the others add shows how it fell."""
    event = schemes.BMinSepDpEvent(1.0, 2, 2, 0.2, False)
    model = summed(_together(2, batches.min_sep(2, 2, 0.2, False)), 1.0, greatest=7)
    return Case(event, model, [(1.0, *CROWD)], []), ADD_OR_REMOVE


@breaks
def shuffled_batches() -> Broken:
    """A record is in two batches of an epoch."""
    model = summed(lambda data: batches.everybody(data, 2), 1.0)
    return Case(schemes.ShuffledBatchesDpEvent(1.0, 1), model, [(1.0,)], []), ZERO_OUT


@breaks
def one_step_of_all_trees() -> Broken:
    """A record is in both leaves of the tree: it adds twice to the root."""
    event = dp_event.SingleEpochTreeAggregationDpEvent(1.0, [2])
    return Case(event, summed(lambda data: _once(batches.tree(data * 2)), 1.0), [(1.0,)], []), ZERO_OUT


# --- users ----------------------------------------------------------------------------------------

_USERS = schemes.PoissonSampledUsersDpEvent(1.0, 0.5, 2)


def _poisson_users() -> Callable[[DataSet], Law]:
    by_records = summed(steps(lambda data: batches.poisson(data, 0.5)), 1.0)
    return lambda users: by_records(sum(users, ()))


@breaks
def records_per_user() -> Broken:
    """A user owns four records, where at most two are stated."""
    return Case(_USERS, _poisson_users(), [((1.0,) * 4,)], []), ADD_OR_REMOVE


@breaks
def records_clipped() -> Broken:
    """The two records of a user add 2 each, where 1 is the clipping norm."""
    return Case(_USERS, _poisson_users(), [((2.0, 2.0),)], []), ADD_OR_REMOVE


@breaks
def each_record_of_a_user() -> Broken:
    """One bin for both records of a user."""
    event = schemes.UsersDpEvent(schemes.BallsInBinsDpEvent(1.0, 2, 2), 2)
    by_users = summed(lambda sums: batches.each_by_itself(sums, 2, batches.bins(2, 2)), 1.0)
    return Case(event, lambda users: by_users(tuple(map(sum, users))), [((1.0, 1.0),)], []), ADD_OR_REMOVE


@breaks
def padded_users() -> Broken:
    """Six places are stated, two for each user, but a batch is drawn of the four records that there are."""
    event = schemes.FixedBatchUsersDpEvent(1.0, 6, 1, 2)
    draw = steps(lambda data: batches.without_replacement(data, 1))
    users = ((1.0, 1.0), (-1.0,), (-1.0,))
    return Case(event, summed(lambda data: draw(sum(data, ())), 1.0), [users], [(-1.0, -1.0)]), REPLACE_ONE


@breaks
def random_groups() -> Broken:
    """Every record is in the first group."""
    event = schemes.OneOfDpEvent([schemes.EpsilonDeltaDpEvent(1.0, 0.0)] * 2)
    return Case(event, sampled(_once, mechanisms.answers(1.0, 1)), [(1.0, -1.0)], []), ADD_OR_REMOVE


# --- the best of several runs ---------------------------------------------------------------------

_RANKING = [(True, "likely"), (False, "likely"), (True, "sure"), (False, "sure")]


def _selected(model: Callable[[bool], Law]) -> Broken:
    event = dp_event.RepeatAndSelectDpEvent(schemes.EpsilonDeltaDpEvent(0.5, 0.0), 4.0, 1.0)
    return Case(event, lambda data: model(any_bit(data)), ONE_BIT, [1.0, -1.0]), ADD_OR_REMOVE


@breaks
def fresh_runs() -> Broken:
    """The hyper-parameter of a run, which is part of its output, is the bit itself."""
    return _selected(lambda bit: {(bit, "noisy bit"): 1.0})


@breaks
def scored_by_output() -> Broken:
    """The best run is one whose output is right."""
    runs = selections.negative_binomial_runs(4.0, 1.0)

    def model(bit: bool) -> Law:
        ranking = _RANKING if bit else [_RANKING[1], _RANKING[0], *_RANKING[2:]]
        return selections.best_of(noisy_bit(bit, 0.5, 0.0), ranking, runs)

    return _selected(model)


@breaks
def hidden_number_of_runs() -> Broken:
    """The number of runs is shown, and with it how likely the best of them is by chance."""

    def model(bit: bool) -> Law:
        right = noisy_bit(bit, 0.5, 0.0)[True, "likely"]  # the bit True is best
        none_right = {runs: (1 - right) ** runs for runs in range(1, 200)}
        laws = {runs: {(runs, True): 1 - chance, (runs, False): chance} for runs, chance in none_right.items()}
        return {outcome: 0.25 * 0.75 ** (runs - 1) * c for runs, law in laws.items() for outcome, c in law.items()}

    return _selected(model)


# --- checks ---------------------------------------------------------------------------------------

BOUNDED = {
    "sensitivity",
    "random-sensitivity",
    "known-private",
    "known-zcdp",
    "score-sensitivity",
    "own-contribution",
    "own-contribution-in-batch",
    "records-clipped",
}
"""Hypotheses that bound what a record contributes."""


def exceeds(case: Case, relation: str) -> bool:
    """Whether some neighbours tell more than evr's law allows for."""
    try:
        check_case(case, relation)
    except AssertionError as error:
        return "exceeds" in str(error)
    return False


def ids_of(event: dp_event.DpEvent, relation: str) -> set[str]:
    return {hypothesis.id for hypothesis in hypotheses_of(event, relation_named(relation))}


def check_breaks(hypothesis: str) -> None:
    """Fails unless the hypothesis is stated where its counterexample breaks it, and the counterexample exceeds."""
    case, relation = BROKEN[hypothesis]()
    assert hypothesis in ids_of(case.event, relation), f"{hypothesis} is not stated of {case.event!r}"
    assert exceeds(case, relation), f"{hypothesis} is broken, and nothing happens"


def check_assumed(row: Row) -> None:
    """Fails if a row does not say what breaks each mechanism of its kind: contributions three times as large, and
    sampling that depends on the data.
    """
    if row.subject in REFUSED or isinstance(row.answer, Refused):
        return
    relation, make = name_of(row.answer.relation), MODELS[row.subject].make
    case = make(random.Random(0), relation)
    stated = ids_of(case.event, relation)
    larger = case._replace(model=lambda data: case.model(_tripled(data)))
    assert stated & BOUNDED or not exceeds(larger, relation), f"{row.subject} does not bound contributions"
    samples = make.__module__ == trainings.__name__ or row.subject.startswith(("Poisson", "Sampled", "Truncated"))
    constant = f"constant-rate-and-steps-{relation}".removesuffix("-add-or-remove")
    assert constant in stated or not samples, f"{row.subject} does not say {constant}"


def _tripled(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_tripled, value))
    return 3 * value if isinstance(value, float) else value
