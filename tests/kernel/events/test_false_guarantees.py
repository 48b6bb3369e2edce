"""Trainings that kept every hypothesis that a statement printed, and were less private than it said. Each is refused
now, or the statement has the hypothesis that the training breaks. Truths are exact laws of what one record shows.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import attr
import numpy as np
import pytest
from dp_accounting import NeighboringRelation, dp_event

import evr
from evr._kernel.events import MECHANISMS, Composition, schemes
from evr._kernel.events.meaning import hypotheses_of, unit_of
from evr._kernel.events.table import HYPOTHESES
from evr._kernel.pairs import Pairs
from evr._kernel.pairs.exact import RationalOutcomes
from evr.errors import OtherRelationError, UnsupportedEventError
from helpers import near

ADD, REPLACE, ZERO = (
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    NeighboringRelation.REPLACE_ONE,
    NeighboringRelation.REPLACE_SPECIAL,
)
REPEATED, SAMPLED, DRAWN = (
    dp_event.SelfComposedDpEvent,
    dp_event.PoissonSampledDpEvent,
    dp_event.SampledWithoutReplacementDpEvent,
)

GAUSSIAN = dp_event.GaussianDpEvent(1.0)


def delta_of(p: list[float], q: list[float], count: int, epsilon: float) -> float:
    """Delta of independent copies of laws on three outcomes, both ways."""
    numbers = [(i, j, count - i - j) for i in range(count + 1) for j in range(count + 1 - i)]
    ways = [math.comb(count, i) * math.comb(count - i, j) for i, j, _ in numbers]
    laws = [[math.prod(x**k for x, k in zip(law, n, strict=True)) for n in numbers] for law in (p, q)]
    rows = list(zip(ways, *laws, strict=True))
    one_way = math.fsum(w * max(0.0, a - math.exp(epsilon) * b) for w, a, b in rows)
    return max(one_way, math.fsum(w * max(0.0, b - math.exp(epsilon) * a) for w, a, b in rows))


def certified(event: dp_event.DpEvent, folder: Path, **options: Any) -> Any:
    return evr.certify(event, delta=1e-6, ledger=folder / "ledger.sqlite", **options)


# --- Poisson sampling of what is no sum, zero-out (R9.2) ------------------------------------------

ODDS = math.e / (1 + math.e)
SEEN = {
    "known": (schemes.EpsilonDeltaDpEvent(1.0, 0.0), (ODDS, 1 - ODDS), (1 - ODDS, ODDS), 0.133, 0.0407),
    "answers": (dp_event.RandomizedResponseDpEvent(0.5, 2), (0.75, 0.25), (0.5, 0.5), 0.0492, 0.0229),
    "choices": (
        schemes.ExponentialMechanismDpEvent(1.0),
        (1 / (1 + math.exp(-0.5)), 1 / (1 + math.exp(0.5))),
        (0.5, 0.5),
        0.0771,
        0.00884,
    ),
}
"""What was certified strictly at delta 1e-6, and the truth at that epsilon, if the output shows who was sampled."""


@pytest.mark.parametrize("name", SEEN)
def test_who_was_sampled_may_be_seen(name: str, tmp_path: Path) -> None:
    base, p, q, epsilon, truth = SEEN[name]
    seen, unseen = ([0.99, *(0.01 * x for x in law)] for law in (p, q))
    assert delta_of(seen, unseen, 10, epsilon) == near(truth, rel=5e-3)
    event = REPEATED(SAMPLED(0.01, base), 10)
    with pytest.raises(OtherRelationError, match=r"no law under 'zero-out'.*'add-or-remove'"):
        certified(event, tmp_path, neighboring_relation="zero-out")


@pytest.mark.parametrize("base", [*(one[0] for one in SEEN.values()), dp_event.ZCDpEvent(0.5)], ids=str)
@pytest.mark.parametrize(
    "beside",
    [
        schemes.ShuffledBatchesDpEvent(5.0, 1),
        dp_event.SingleEpochTreeAggregationDpEvent(5.0, 3),
        schemes.CyclicPoissonDpEvent(5.0, 6, 2, 0.5, "fixed"),
        schemes.MatrixMechanismDpEvent(5.0, (1.0,), 3, 3),
        schemes.ZeroOutDpEvent(dp_event.GaussianDpEvent(5.0)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_nor_where_zero_out_is_taken_by_itself(base: dp_event.DpEvent, beside: dp_event.DpEvent) -> None:
    assert Composition.of(beside).relation is ZERO
    for order in ([SAMPLED(0.01, base), beside], [beside, SAMPLED(0.01, base)]):
        with pytest.raises(OtherRelationError, match=r"no law under 'zero-out'.*No relation was asked for"):
            Composition.of(dp_event.ComposedDpEvent(order))


def test_noise_on_a_sum_is_sampled_under_zero_out() -> None:
    noises = [
        dp_event.GaussianDpEvent(1.0),
        dp_event.LaplaceDpEvent(1.0),
        dp_event.DiscreteLaplaceDpEvent(1.0, 2),
        schemes.DiscreteGaussianDpEvent(2.0, 1),
        schemes.DiscreteGaussianDpEvent(2.0, 1, None),  # zCDP stands for it, and it still is a sum
        schemes.DiscreteGaussianDpEvent(20.0, 10, 5),
        schemes.SummedDiscreteGaussiansDpEvent(20.0, 4, 10, 5),
        dp_event.MixtureOfGaussiansDpEvent(1.0, (0.0, 1.0), (0.5, 0.5)),
    ]
    for noise in noises:
        event = SAMPLED(0.1, noise)
        zero_out, removed = (Composition.of(event, relation) for relation in ("zero-out", "add-or-remove"))
        assert (zero_out.remove, zero_out.add) == (removed.remove, removed.add)


# --- answers (R9.3) -------------------------------------------------------------------------------


@pytest.mark.parametrize("q", [1.0, 0.01])
def test_an_answer_more_is_seen(q: float, tmp_path: Path) -> None:
    """The number of answers tells neighbours apart: delta is 1, or 0.0956 of ten samples. Certified at (1.1, 1e-6)."""
    event = REPEATED(SAMPLED(q, dp_event.RandomizedResponseDpEvent(0.5, 2)), 10)
    for asked in (None, "add-or-remove"):
        with pytest.raises(OtherRelationError, match=r"--adjacency replace-one.*another answer"):
            certified(event, tmp_path, neighboring_relation=asked)


def test_an_emptied_record_still_answers(tmp_path: Path) -> None:
    event = dp_event.RandomizedResponseDpEvent(0.5, 2)
    certificate = certified(event, tmp_path, neighboring_relation="zero-out")
    assert certificate.hypotheses == ["empty-record-answers"]
    assert "a record that was emptied still answers" in certificate.statement
    assert "emptied" not in certified(event, tmp_path, neighboring_relation="replace-one").statement


# --- records that move (R9.5) ---------------------------------------------------------------------

ONE_BY_ONE = schemes.MatrixMechanismDpEvent(2.0, (1.0,), iterations=10, min_sep=10, max_participations=1)


def gaussian_delta(mu: float, epsilon: float) -> float:
    def normal(x: float) -> float:
        return 0.5 * math.erfc(-x / math.sqrt(2))

    return normal(mu / 2 - epsilon / mu) - math.exp(epsilon) * normal(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("users", [False, True])
def test_one_record_in_front_moves_all_others(users: bool, tmp_path: Path) -> None:
    """Batches of one record in the order of the data, values 1 and -1 in turn: ten sums change by 2."""
    event: dp_event.DpEvent = schemes.UsersDpEvent(ONE_BY_ONE, 1) if users else ONE_BY_ONE
    data = [(-1.0) ** i for i in range(10)]
    shift = math.dist(data, [-1.0, *data[:-1]])
    usual = certified(event, tmp_path)
    assert usual.relation is ZERO, "where nothing is asked for"
    assert gaussian_delta(shift / 2.0, usual.guarantee.epsilon) == near(0.703, rel=1e-3)
    assert "others-stay" not in usual.hypotheses
    assert "participation-not-by-content" in usual.hypotheses
    asked = certified(event, tmp_path, neighboring_relation="add-or-remove")
    assert "others-stay" in asked.hypotheses
    assert HYPOTHESES["others-stay"].sentence in asked.statement


def test_a_matrix_mechanism_beside_others_is_under_zero_out() -> None:
    both = dp_event.ComposedDpEvent([dp_event.GaussianDpEvent(4.0), ONE_BY_ONE])
    assert Composition.of(both).relation is ZERO
    assert Composition.of(both, "add-or-remove").relation is ADD
    users = schemes.UsersDpEvent(schemes.CyclicPoissonDpEvent(5.0, 6, 2, 0.5, "fixed"), 2)
    assert Composition.of(users).relation is ZERO
    with pytest.raises(OtherRelationError):
        Composition.of(users, "add-or-remove")
    answers = [dp_event.RandomizedResponseDpEvent(0.5, 2), schemes.ShuffledBatchesDpEvent(5.0, 1)]
    for order in (answers, answers[::-1]):
        assert Composition.of(dp_event.ComposedDpEvent(order)).relation is ZERO


# --- steps, rates and divisors (R9.6) -------------------------------------------------------------

SCHEMES = [
    SAMPLED(0.01, dp_event.GaussianDpEvent(1.0)),
    SAMPLED(1.0, dp_event.GaussianDpEvent(1.0)),
    schemes.PoissonSampledUsersDpEvent(1.0, 0.01, 3),
    dp_event.TruncatedSubsampledGaussianDpEvent(100, 0.1, 20, 1.0),
    schemes.CyclicPoissonDpEvent(2.0, 6, 3, 0.5, "independent"),
    schemes.CyclicPoissonDpEvent(2.0, 6, 1, 0.5, "fixed"),
    schemes.BMinSepDpEvent(2.0, 6, 2, 0.3, True),
    schemes.BallsInBinsDpEvent(2.0, 6, 3),
    schemes.RandomAllocationDpEvent(2.0, 6, 2),
    schemes.RedrawnBinsDpEvent(2.0, 3, 2),
    schemes.UsersDpEvent(schemes.BallsInBinsDpEvent(2.0, 6, 3), 2),
    ONE_BY_ONE,
]


@pytest.mark.parametrize("event", SCHEMES, ids=lambda one: type(one).__name__)
def test_every_scheme_says_what_may_depend_on_the_number_of_records(event: dp_event.DpEvent) -> None:
    said = [one.sentence for one in hypotheses_of(event, ADD)]
    assert any("did not depend on the data, the number of records included" in one for one in said)
    if not isinstance(event, dp_event.TruncatedSubsampledGaussianDpEvent):
        said = [one.sentence for one in hypotheses_of(event, ZERO)]
        assert any("the number of records is public" in one for one in said)


# --- places of batches without replacement (R9.4) -------------------------------------------------


@pytest.mark.parametrize(
    ("base", "p", "epsilon", "truth"),
    [
        (schemes.EpsilonDeltaDpEvent(1.0, 0.0), ODDS, 0.136, 0.0406),
        (dp_event.RandomizedResponseDpEvent(0.5, 2), 0.75, 0.157, 0.0439),
    ],
    ids=["known", "answers"],
)
def test_places_of_a_batch_may_be_seen(base: Any, p: float, epsilon: float, truth: float, tmp_path: Path) -> None:
    seen, unseen = ([0.99, 0.01 * x, 0.01 * (1 - x)] for x in (p, 1 - p))
    assert delta_of(seen, unseen, 10, epsilon) == near(truth, rel=5e-3)
    event = REPEATED(DRAWN(100, 1, base), 10)
    certificate = certified(event, tmp_path, neighboring_relation="replace-one")
    assert certificate.guarantee.epsilon == epsilon
    assert "batch-by-itself" in certificate.hypotheses
    assert "does not show which records were in the batch" in certificate.statement
    noise = REPEATED(DRAWN(100, 1, dp_event.GaussianDpEvent(3.0)), 10)
    assert "batch-by-itself" not in {one.id for one in hypotheses_of(noise, REPLACE)}


# --- users (R9.7), and events that can be read only once ------------------------------------------


def test_users_with_fewer_records_have_empty_ones_under_replace_one() -> None:
    for event in (
        schemes.PoissonSampledUsersDpEvent(1.0, 0.01, 3),
        schemes.FixedBatchUsersDpEvent(1.0, 100, 10, 3),
        schemes.UsersDpEvent(ONE_BY_ONE, 3),
        schemes.UsersDpEvent(schemes.CyclicPoissonDpEvent(5.0, 6, 2, 0.5, "fixed"), 3),
        schemes.UsersDpEvent(schemes.BallsInBinsDpEvent(2.0, 6, 3), 3),
    ):
        assert HYPOTHESES["padded-users"] in hypotheses_of(event, REPLACE)


def test_a_generator_of_events_is_not_nothing() -> None:
    """Read once under add-or-remove, it was empty under zero-out: the composition cost nothing."""
    parts = (dp_event.GaussianDpEvent(1.0), schemes.ShuffledBatchesDpEvent(1.0, 3))
    with pytest.raises(TypeError, match=r"events=.* can be read only once: give a list"):
        Composition.of(dp_event.ComposedDpEvent(one for one in parts))
    assert Composition.of(dp_event.ComposedDpEvent(list(parts))).remove


# --- Events in other collections than lists ---------------------------------------------------------


@pytest.mark.parametrize("kept", [list, tuple, deque, set, lambda events: np.array(events, dtype=object)])
@pytest.mark.parametrize(
    ("inner", "why"),
    [
        (schemes.EpsilonDeltaDpEvent(1.0, 0.0), "additive noise on a sum"),
        (schemes.BallsInBinsDpEvent(2.0, 4, 4), "says itself who takes part"),
        (schemes.ThresholdSelectDpEvent(GAUSSIAN, 0.5), "selection"),
    ],
)
def test_groups_are_looked_into_whatever_holds_them(kept: Any, inner: dp_event.DpEvent, why: str) -> None:
    """Of a set or an array of events nobody saw what was in it: nothing was refused, and nothing assumed."""
    with pytest.raises(OtherRelationError, match=why):
        Composition.of(schemes.OneOfDpEvent(kept([inner, GAUSSIAN])), ZERO)
    groups = schemes.OneOfDpEvent(kept([GAUSSIAN, dp_event.LaplaceDpEvent(1.0)]))
    assert HYPOTHESES["sensitivity"] in hypotheses_of(groups, ZERO)


def test_groups_that_can_be_read_only_once_are_refused() -> None:
    for make in (iter, reversed):
        read_once: Any = make([GAUSSIAN, GAUSSIAN])
        with pytest.raises(TypeError, match=r"events=.* can be read only once: give a list"):
            Composition.of(schemes.OneOfDpEvent(read_once))


# --- Laws of two directions under replace-one (R1.3) -----------------------------------------------


@attr.s(frozen=True, slots=True, auto_attribs=True)
class SkewDpEvent(dp_event.DpEvent):
    """Says yes with a chance of 3% where a record has something, else with one of 1%."""


SKEW = [Fraction(1, 100), Fraction(99, 100)], [Fraction(3, 100), Fraction(97, 100)]


@pytest.fixture
def skew() -> Iterator[Callable[[], Pairs]]:
    laws = Pairs(RationalOutcomes(*map(tuple, SKEW)), RationalOutcomes(*map(tuple, SKEW[::-1])))
    try:
        yield lambda: laws
    finally:
        MECHANISMS.pop(SkewDpEvent, None)


def test_a_record_and_its_replacement_change_places(skew: Callable[[], Pairs]) -> None:
    """Of two questions, a record has what the first asks for, and its replacement what the second does."""
    low, high = ([float(one) for one in law] for law in SKEW)
    epsilon, crossed = 1.08, [[a * b for a in one for b in other] for one, other in ((low, high), (high, low))]
    truth = sum(max(0.0, b - math.exp(epsilon) * a) for a, b in zip(*crossed, strict=True))
    by_direction = Composition.from_counts([(skew(), 2)], REPLACE)
    assert pair_delta_of(by_direction, epsilon) < 0.6 * truth
    evr.register(SkewDpEvent, lambda event: skew(), under={REPLACE: lambda event: skew()})
    for event in (SkewDpEvent(), DRAWN(10, 5, SkewDpEvent()), schemes.OneOfDpEvent([SkewDpEvent()])):
        with pytest.raises(UnsupportedEventError, match=r"change places|replacing a record"):
            Composition.of(event, REPLACE)
    assert Composition.of(REPEATED(SkewDpEvent(), 2), ADD) == Composition.from_counts([(skew(), 2)], ADD)
    evr.register(SkewDpEvent, lambda event: skew(), under={REPLACE: lambda event: Pairs.both(skew().add)})
    assert Composition.of(DRAWN(10, 5, SkewDpEvent()), REPLACE).is_symmetric


def pair_delta_of(composition: Composition, epsilon: float) -> float:
    return evr.estimate_delta(composition, epsilon, method="strict").value


@pytest.mark.parametrize("relation", [None, lambda event: ADD])
def test_what_stands_for_users_is_about_users(skew: Callable[[], Pairs], relation: Any) -> None:
    evr.register(SkewDpEvent, lambda event: schemes.PoissonSampledUsersDpEvent(1.0, 0.1, 3), relation=relation)
    assert Composition.of(SkewDpEvent()).unit == unit_of(SkewDpEvent()) == "user"
    with pytest.raises(ValueError, match="unit='example' is not one of 'user', 'client'"):
        Composition.of(SkewDpEvent(), unit="example")
    for order in ([SkewDpEvent(), dp_event.GaussianDpEvent(1.0)], [dp_event.GaussianDpEvent(1.0), SkewDpEvent()]):
        with pytest.raises(UnsupportedEventError, match="a guarantee has one unit"):
            Composition.of(dp_event.ComposedDpEvent(order))
    evr.register(SkewDpEvent, lambda event: skew(), relation=relation)
    assert Composition.of(SkewDpEvent()).unit == "record"


@attr.s(frozen=True, slots=True, auto_attribs=True)
class WrappingDpEvent(dp_event.DpEvent):
    """Laws of its own, made of those of another event."""

    event: dp_event.DpEvent


def test_laws_that_are_made_of_those_of_users_are_about_users() -> None:
    """A statement about users, with Gaussian noise that was scaled for what one record adds."""

    def laws(event: WrappingDpEvent) -> Pairs:
        inner = Composition.of(event.event)
        return Pairs(inner.remove[0].law, inner.add[0].law)

    evr.register(WrappingDpEvent, laws, assumptions=("nobody looked",))
    try:
        for inner, unit in ((schemes.PoissonSampledUsersDpEvent(1.0, 0.1, 3), "user"), (GAUSSIAN, "record")):
            wrapped = WrappingDpEvent(inner)
            assert Composition.of(wrapped).unit == unit_of(wrapped) == unit
            both = dp_event.ComposedDpEvent([wrapped, GAUSSIAN])
            if unit == "record":
                assert Composition.of(both).unit == "record"
                continue
            with pytest.raises(UnsupportedEventError, match="a guarantee has one unit"):
                Composition.of(both)
        of_scheme = WrappingDpEvent(schemes.BallsInBinsDpEvent(1.0, 4, 4))
        assert Composition.of(of_scheme).remove
        with pytest.raises(UnsupportedEventError, match="says itself who takes part"):
            Composition.of(SAMPLED(0.1, of_scheme))
    finally:
        MECHANISMS.pop(WrappingDpEvent)
