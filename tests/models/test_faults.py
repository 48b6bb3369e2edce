"""Faults that are planted in the table of meanings: the suite finds each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import attr
import pytest
from dp_accounting import NeighboringRelation, dp_event

import evr
from evr._kernel.events import MECHANISMS, schemes, users, walk
from evr._kernel.events.meaning import Row, meanings_in, row_of
from evr._kernel.events.relations import ADD_OR_REMOVE, REPLACE_ONE, ZERO_OUT, Meaning, Variant, name_of, relation_named
from evr._kernel.events.sampling import Sampling
from evr._kernel.events.table import HYPOTHESES, WRAPPERS
from evr._kernel.pairs import Pairs
from models.broken import BROKEN, check_assumed, check_breaks
from models.rows import CASES, MODELS, PIPELINES, REFUSED, check_default, check_row, check_unit, table

Plant = Callable[[pytest.MonkeyPatch], None]


def check_subject(subject: str) -> None:
    """All that the suite has to say about one subject."""
    assert {row.subject for row in table()} == {*MODELS, *REFUSED}
    for row in table():
        if row.subject == subject:
            check_row(row, range(CASES))
            check_unit(row)
            check_assumed(row)
    if subject in PIPELINES:
        check_default(subject)
    for hypothesis, make in BROKEN.items():
        case, relation = make()
        if any(row.subject == subject for row, _ in meanings_in(case.event, relation_named(relation))):
            check_breaks(hypothesis)


def variant_of(subject: str) -> Variant:
    variants = [variant for one in (*MECHANISMS.values(), *WRAPPERS.values()) for variant in one.variants]
    return next(variant for variant in variants if variant.subject == subject)


def answer(subject: str, relation: NeighboringRelation, **changes: Any) -> Plant:
    """The answer of a row, changed."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        answers = variant_of(subject).answers
        patch.setitem(answers, relation, replace(answers[relation], **changes))

    return plant


def copied(subject: str, source: NeighboringRelation, target: NeighboringRelation) -> Plant:
    """The meaning under one relation, taken for that under another, and said to be about that."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        answers = variant_of(subject).answers
        meaning = answers[source]
        assert isinstance(meaning, Meaning)
        constant = HYPOTHESES[f"constant-rate-and-steps-{name_of(target)}".removesuffix("-add-or-remove")]
        stated = tuple(constant if "constant" in one.id else one for one in meaning.hypotheses)
        pair = of_one_direction(meaning.pair) if target is REPLACE_ONE else meaning.pair
        patch.setitem(answers, target, replace(meaning, relation=target, hypotheses=stated, pair=pair))

    return plant


def of_one_direction(translator: Any) -> Any:
    """The law of removing for both directions: two laws are refused under replace-one."""

    def translated(event: Any) -> Any:
        found = translator(event)
        return Pairs.both(found.remove) if isinstance(found, Pairs) else found

    return translated


def without(subject: str, relation: NeighboringRelation, hypothesis: str) -> Plant:
    """A hypothesis dropped."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        meaning = variant_of(subject).answers[relation]
        assert isinstance(meaning, Meaning)
        stated = tuple(one for one in meaning.hypotheses if one.id != hypothesis)
        assert len(stated) == len(meaning.hypotheses) - 1
        answer(subject, relation, hypotheses=stated)(patch)

    return plant


def swapped(event: Any) -> Pairs:
    pairs = users.sampled(event)
    return Pairs(pairs.add, pairs.remove)


def of_one_record(event: Any) -> Any:
    return users.sampled(attr.evolve(event, records_per_user=1, user_norm=None))


def guarantee_as_noise(patch: pytest.MonkeyPatch) -> None:
    mechanism = MECHANISMS[schemes.EpsilonDeltaDpEvent]
    noise = tuple(replace(variant, kind="scalar") for variant in mechanism.variants)
    patch.setitem(MECHANISMS, schemes.EpsilonDeltaDpEvent, replace(mechanism, variants=noise))


def without_replacement_for_any_relation(patch: pytest.MonkeyPatch) -> None:
    copied(FIXED_NOISE, REPLACE_ONE, ADD_OR_REMOVE)(patch)
    pairs = Sampling.pairs
    patch.setattr(Sampling, "pairs", lambda self, inner: pairs(replace(self, relation=REPLACE_ONE), inner))


def place_ignored(patch: pytest.MonkeyPatch) -> None:
    of_place = Sampling._fixed_size
    patch.setattr(Sampling, "_fixed_size", lambda self, steps: of_place(replace(self, relation=REPLACE_ONE), steps))


def refusals_ignored(patch: pytest.MonkeyPatch) -> None:
    def never_refused(node: Any, relation: NeighboringRelation, path: str, settled: bool) -> Row:
        return row_of(node, relation, path, settled=True)

    patch.setattr(walk, "row_of", never_refused)


def without_a_model(patch: pytest.MonkeyPatch) -> None:
    @attr.s(frozen=True, slots=True, auto_attribs=True)
    class UnmodelledDpEvent(dp_event.DpEvent):
        scale: float

    evr.register(UnmodelledDpEvent, lambda event: dp_event.GaussianDpEvent(event.scale))
    patch.setitem(MECHANISMS, UnmodelledDpEvent, MECHANISMS.pop(UnmodelledDpEvent))


USERS, BINS = "PoissonSampledUsersDpEvent", "BallsInBinsDpEvent"
ANSWERS, MATRIX = "RandomizedResponseDpEvent", "MatrixMechanismDpEvent"
GUARANTEE = "PoissonSampledDpEvent of a known guarantee"
FIXED_GAUSSIAN = "SampledWithoutReplacementDpEvent of Gaussian noise"
FIXED, FIXED_NOISE = "FixedBatchUsersDpEvent", "SampledWithoutReplacementDpEvent of noise on a sum"
CYCLIC, TRUNCATED = "CyclicPoissonDpEvent, fixed groups", "TruncatedSubsampledGaussianDpEvent"
SHUFFLED, TREE = "ShuffledBatchesDpEvent", "SingleEpochTreeAggregationDpEvent"
SPLIT = "UsersDpEvent of other schemes"

FAULTS: dict[str, tuple[str, Plant]] = {
    "randomized response under add-or-remove": (ANSWERS, copied(ANSWERS, REPLACE_ONE, ADD_OR_REMOVE)),
    "an empty answer for another answer": (ANSWERS, copied(ANSWERS, ZERO_OUT, REPLACE_ONE)),
    "Poisson sampling of a guarantee under zero-out": (GUARANTEE, copied(GUARANTEE, ADD_OR_REMOVE, ZERO_OUT)),
    "a guarantee taken for noise on a sum": (GUARANTEE, guarantee_as_noise),
    "sampling without replacement under add-or-remove": (FIXED_NOISE, without_replacement_for_any_relation),
    "a record that takes no other's place": (FIXED_GAUSSIAN, place_ignored),
    "fixed groups under add-or-remove": (CYCLIC, copied(CYCLIC, ZERO_OUT, ADD_OR_REMOVE)),
    "shuffled batches under add-or-remove": (SHUFFLED, copied(SHUFFLED, ZERO_OUT, ADD_OR_REMOVE)),
    "truncated batches under zero-out": (TRUNCATED, copied(TRUNCATED, ADD_OR_REMOVE, ZERO_OUT)),
    "sensitivity not doubled": ("GaussianDpEvent", copied("GaussianDpEvent", ADD_OR_REMOVE, REPLACE_ONE)),
    "sensitivity of users not doubled": (USERS, copied(USERS, ADD_OR_REMOVE, REPLACE_ONE)),
    "bins under replace-one by the law of add-or-remove": (BINS, copied(BINS, ADD_OR_REMOVE, REPLACE_ONE)),
    "two directions swapped": (USERS, answer(USERS, ADD_OR_REMOVE, pair=swapped)),
    "the rate of one record for users": (USERS, answer(USERS, ZERO_OUT, pair=of_one_record)),
    "noise of users not split": (SPLIT, answer(SPLIT, ADD_OR_REMOVE, pair=lambda event: event.event)),
    "a unit ignored": (USERS, answer(USERS, REPLACE_ONE, unit=None)),
    "users taken for records": (FIXED, answer(FIXED, REPLACE_ONE, unit="record")),
    "add-or-remove by default for a fixed order": (MATRIX, answer(MATRIX, ADD_OR_REMOVE, instead=None)),
    "others may move": (MATRIX, without(MATRIX, ADD_OR_REMOVE, "others-stay")),
    "a rate that may depend on the data": (TRUNCATED, without(TRUNCATED, ADD_OR_REMOVE, "constant-rate-and-steps")),
    "contributions not bounded": (BINS, without(BINS, REPLACE_ONE, "own-contribution")),
    "any number of records per user": (USERS, without(USERS, ADD_OR_REMOVE, "records-per-user")),
    "refusals that nobody enforces": (TREE, refusals_ignored),
    "a mechanism without a model": ("GaussianDpEvent", without_a_model),
}
"""By what is wrong: the subject, and how it is planted."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    subject, plant = FAULTS[fault]
    plant(monkeypatch)
    with pytest.raises(AssertionError) as error:
        check_subject(subject)
    print(f"{fault}: {error.value}")
