"""The table of meanings: it is whole, what it says is what evr does, and nobody else says it."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import attr
import pytest
from dp_accounting import NeighboringRelation, dp_event
from dp_accounting.privacy_accountant import UnsupportedEventError as PeerError

import evr
from evr._certificate.certificate import Certificate
from evr._kernel.events import MECHANISMS, Composition, noise, schemes
from evr._kernel.events.meaning import Row, hypotheses_of, row_of, rows, unit_of
from evr._kernel.events.relations import Hypothesis, Meaning, Refused
from evr._kernel.events.table import BUILT_IN, HYPOTHESES, WRAPPERS
from evr._kernel.pairs import Pairs
from evr._kernel.pairs.exact import ExactOutcomes
from evr._kernel.pairs.exact.law import Ball, OutcomeSet, ball
from evr.errors import CertificateError, OtherRelationError, UnsupportedEventError
from forging import text

ROOT = Path(__file__).parents[3]


def loaded() -> Any:
    spec = importlib.util.spec_from_file_location("meaning_page", ROOT / "docs" / "meaning_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGE = loaded()
RELATIONS = list(PAGE.RELATIONS.values())
ADD, ZERO, REPLACE = RELATIONS
every = pytest.mark.parametrize("subject", PAGE.EXAMPLES)


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    before = dict(MECHANISMS)
    yield
    MECHANISMS.clear()
    MECHANISMS.update(before)


def own_rows() -> list[Row]:
    """Those of evr's own mechanisms: other tests may have registered some."""
    return [row for row in rows() if row.event in (*BUILT_IN, *WRAPPERS)]


# --- what is in it --------------------------------------------------------------------------------


def test_every_mechanism_has_an_answer_under_every_relation() -> None:
    found = own_rows()
    assert {row.event for row in found} == {*BUILT_IN, *WRAPPERS}
    subjects = {row.subject for row in found}
    assert len(found) == 3 * len(subjects) == 198
    for subject in subjects:
        assert [row.answer.relation for row in found if row.subject == subject] == RELATIONS
    assert subjects == {*PAGE.EXAMPLES, "PoissonSampledDpEvent of registered noise"}


def test_hypotheses_are_clauses_with_ids_and_each_is_used() -> None:
    used = {one for row in own_rows() if isinstance(row.answer, Meaning) for one in row.answer.hypotheses}
    assert used | {HYPOTHESES["empty-as-absent"]} == set(HYPOTHESES.values())  # that one is of registered mechanisms
    sentences = [one.sentence for one in HYPOTHESES.values()]
    assert len(set(sentences)) == len(sentences)
    for name, one in HYPOTHESES.items():
        assert name == one.id
        assert re.fullmatch("[a-z]+(-[a-z]+)*", one.id)
        assert re.fullmatch(r"[a-z].*[^.]", one.sentence)


def test_every_refusal_has_a_reason_and_a_remedy() -> None:
    for row in own_rows():
        if isinstance(row.answer, Refused):
            assert row.answer.why
            assert row.answer.remedy
            asked = re.search("--adjacency ([a-z-]+)", row.answer.remedy)
            if asked is not None:  # where another relation is the remedy, there is a law
                others = [one.answer for one in own_rows() if one.subject == row.subject]
                (other,) = [one for one in others if one.relation is PAGE.RELATIONS[asked[1]]]
                assert isinstance(other, Meaning)


def test_every_theorem_is_in_the_documentation() -> None:
    for row in own_rows():
        if isinstance(row.answer, Meaning):
            file = (ROOT / "docs" / re.findall(r"\((.*)#", PAGE.link(row.answer.theorem))[0]).read_text("utf-8")
            assert re.search(rf"\b{re.escape(row.answer.theorem.split()[-1])}\b", file)


def test_every_hypothesis_is_in_the_section_or_with_its_theorem() -> None:
    """Section R9 names those that are not what the event itself says of who took part."""
    text = (ROOT / "docs" / "guarantees_relations.md").read_text("utf-8").partition("## R9.")[2]
    for name in (
        "sensitivity",
        "random-sensitivity",
        "integers",
        "empty-record-answers",
        "empty-as-absent",
        "batch-by-itself",
        "others-stay",
        "participation-not-by-content",
        "fixed-groups",
        "shuffled-batches",
        "constant-rate-and-steps",
        "padded-users",
    ):
        assert f"`{name}`" in text


def test_the_page_is_current() -> None:
    assert PAGE.PAGE.read_text("utf-8") == PAGE.page(), "run python docs/meaning_page.py --write"


# --- what it says is what evr does ----------------------------------------------------------------


@every
@pytest.mark.parametrize("relation", RELATIONS, ids=PAGE.RELATIONS)
def test_laws_are_given_where_the_table_has_a_meaning(subject: str, relation: NeighboringRelation) -> None:
    event = PAGE.EXAMPLES[subject]
    row = row_of(event, relation)
    assert row.subject == subject
    whole = [row] if isinstance(row.answer, Refused) else [row, *(row_of(one, relation) for one in inside(event))]
    if any(isinstance(one.answer, Refused) for one in whole):
        with pytest.raises(OtherRelationError):
            Composition.of(event, relation)
        with pytest.raises(OtherRelationError):
            hypotheses_of(event, relation)
        return
    composition = Composition.of(event, relation)
    assert composition.remove
    assert composition.relation is relation
    assert isinstance(row.answer, Meaning)
    assert composition.unit == unit_of(event)
    assert row.answer.unit in (None, composition.unit)
    found = hypotheses_of(event, relation)
    assert set(row.answer.hypotheses) <= set(found)
    assert len(set(found)) == len(found)
    assert found == hypotheses_of(dp_event.ComposedDpEvent([event, dp_event.SelfComposedDpEvent(event, 3)]), relation)


def inside(event: Any) -> list[Any]:
    """What sampling, selection and zeroing out are applied to; users are as their row says."""
    return [event.event] if hasattr(event, "event") and type(event) in WRAPPERS else []


@every
def test_the_relation_that_is_taken_by_itself(subject: str) -> None:
    """Add-or-remove, or zero-out where the table says so; never one that is refused."""
    event = PAGE.EXAMPLES[subject]
    answers = {one: row_of(event, one).answer for one in RELATIONS}
    if answers[ADD].instead is not None:
        assert Composition.of(event).relation is ZERO
    elif isinstance(answers[ADD], Refused) or subject.endswith("of any other mechanism"):
        with pytest.raises(OtherRelationError):
            Composition.of(event)
    else:
        assert Composition.of(event).relation is ADD


def test_the_unit_of_a_composition() -> None:
    known = schemes.EpsilonDeltaDpEvent(1.0, 0.0)
    users = schemes.PoissonSampledUsersDpEvent(1.0, 0.1, 3)
    for event, unit in (
        (known, None),
        (dp_event.NoOpDpEvent(), None),
        (dp_event.PoissonSampledDpEvent(0.1, known), "record"),
        (dp_event.ComposedDpEvent([known, dp_event.GaussianDpEvent(1.0)]), "record"),
        (dp_event.ComposedDpEvent([known, users]), "user"),
        (schemes.UsersDpEvent(PAGE.BINS, 2), "user"),
    ):
        assert Composition.of(event).unit == unit_of(event) == unit


def test_accountants_have_one_unit() -> None:
    accountant = evr.FFTAccountant().compose(dp_event.GaussianDpEvent(1.0))
    users = schemes.PoissonSampledUsersDpEvent(1.0, 0.1, 3)
    assert not accountant.supports(users)
    with pytest.raises(PeerError, match="one user"):
        accountant.compose(users)
    assert accountant.composition == Composition.of(dp_event.GaussianDpEvent(1.0))
    assert accountant.composition.unit == "record"


# --- certificates ---------------------------------------------------------------------------------


def test_a_certificate_has_the_hypotheses_of_its_event(tmp_path: Path) -> None:
    event = evr.dpsgd(noise_multiplier=2.0, sampling_probability=0.1, steps=3)
    certificate = evr.certify(event, delta=1e-5, ledger=tmp_path / "ledger.sqlite")
    assert certificate.hypotheses == ["poisson", "constant-rate-and-steps", "sensitivity"]
    for one in certificate.hypotheses:
        assert HYPOTHESES[one].sentence in certificate.statement
    for ids in (
        [],
        certificate.hypotheses[:-1],
        certificate.hypotheses[::-1],
        [*certificate.hypotheses, "known-private"],
        ["poisson", "constant-rate-and-steps-zero-out", "sensitivity"],
    ):
        with pytest.raises(CertificateError, match="hypotheses"):
            Certificate.from_json(text(certificate.document() | {"hypotheses": ids}))


# --- registered mechanisms ------------------------------------------------------------------------


@attr.s(frozen=True, auto_attribs=True)
class OwnDpEvent(dp_event.DpEvent):
    noise_multiplier: float


OWN = OwnDpEvent(2.0)
SAMPLED_OWN = dp_event.PoissonSampledDpEvent(0.1, OWN)


def gaussian(event: OwnDpEvent) -> Any:
    return noise.gaussian(dp_event.GaussianDpEvent(event.noise_multiplier))


def replaced(event: OwnDpEvent) -> Any:
    return noise.gaussian(dp_event.GaussianDpEvent(event.noise_multiplier), times=2)


def test_a_registered_mechanism_has_rows() -> None:
    evr.register(OwnDpEvent, gaussian, assumptions=("nobody looked", "nobody asked"))
    found = [row.answer for row in rows() if row.event is OwnDpEvent]
    assert [one.relation for one in found] == RELATIONS
    assert [type(one) for one in found] == [Meaning, Meaning, Refused]
    first, second = Hypothesis("own-1", "nobody looked"), Hypothesis("own-2", "nobody asked")
    assert hypotheses_of(OWN, ADD) == (first, second)
    assert hypotheses_of(OWN, ZERO) == (first, second, HYPOTHESES["empty-as-absent"])
    evr.register(OwnDpEvent, gaussian, relation=lambda event: ZERO)
    assert len([row for row in rows() if row.event is OwnDpEvent]) == 9
    assert Composition.of(OWN).relation is ZERO
    assert hypotheses_of(OWN, ZERO) == ()


class Twice(ExactOutcomes):
    """9 to 1, with nine tenths of Q put to the outcome that has a tenth of it: the loss is 0 there."""

    def sets(self) -> list[OutcomeSet]:
        nine, one = ball(Fraction(9, 10)), ball(Fraction(1, 10))
        return [OutcomeSet(nine, nine, Ball(0)), OutcomeSet(one, nine, -Ball(9).log())]


def test_registered_outcomes_hold_no_more_than_all() -> None:
    """(0.05, 0.02) was proved."""
    evr.register(OwnDpEvent, lambda event: Pairs.both(Twice()))
    with pytest.raises(ValueError, match=r"sets of Twice hold 1\.80000000 of Q: .* no more"):
        evr.verify(OWN, epsilon=0.05, delta=0.02)


@pytest.mark.parametrize("translator", [gaussian, lambda event: dp_event.GaussianDpEvent(event.noise_multiplier)])
def test_only_what_says_that_it_adds_noise_to_a_sum_is_sampled_elsewhere(translator: Any) -> None:
    evr.register(OwnDpEvent, translator, under={REPLACE: replaced})
    assert Composition.of(SAMPLED_OWN, ADD).remove
    for relation in (ZERO, REPLACE):
        with pytest.raises(OtherRelationError, match="additive noise"):
            Composition.of(SAMPLED_OWN, relation)
    evr.register(OwnDpEvent, translator, under={REPLACE: replaced}, adds_noise_to_a_sum=True)
    plain = dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(2.0))
    for relation in RELATIONS:
        assert Composition.of(SAMPLED_OWN, relation).remove == Composition.of(plain, relation).remove
    assert HYPOTHESES["scalar-noise"] in hypotheses_of(SAMPLED_OWN, REPLACE)
    assert HYPOTHESES["empty-as-absent"] not in hypotheses_of(OWN, ZERO)


@pytest.mark.parametrize(
    "scheme",
    [
        dp_event.TruncatedSubsampledGaussianDpEvent(10_000, 0.1, 10, 1.0),
        schemes.PoissonSampledUsersDpEvent(1.0, 0.1, 3),
        PAGE.BEST,
        dp_event.ComposedDpEvent([PAGE.BINS]),
    ],
    ids=lambda one: type(one).__name__,
)
@pytest.mark.parametrize("relation", [None, lambda event: ADD])
def test_a_mechanism_that_a_scheme_stands_for_is_not_sampled(scheme: dp_event.DpEvent, relation: Any) -> None:
    """Sampling would be counted twice."""
    evr.register(OwnDpEvent, lambda event: scheme, relation=relation)
    assert Composition.of(OWN).remove
    with pytest.raises(UnsupportedEventError, match=r"says itself who takes part|nor made on a sample"):
        Composition.of(SAMPLED_OWN)


@pytest.mark.parametrize(
    "event_type",
    [dp_event.GaussianDpEvent, schemes.BallsInBinsDpEvent, dp_event.PoissonSampledDpEvent, dp_event.NoOpDpEvent],
)
def test_what_is_in_the_table_keeps_its_meaning(event_type: Any) -> None:
    """Allocations of Gaussian noise kept to the law of the table, samples took no notice, statements did."""
    known = dict(MECHANISMS)
    with pytest.raises(ValueError, match=f"{event_type.__name__} of .* has a meaning"):
        evr.register(event_type, lambda event: schemes.EpsilonDeltaDpEvent(5.0, 0.1), kind="mine")
    assert known == MECHANISMS


def test_a_relation_that_is_none_is_an_error() -> None:
    evr.register(OwnDpEvent, gaussian, relation=lambda event: "zero-out")
    with pytest.raises(TypeError, match="was registered with is not a NeighboringRelation"):
        Composition.of(OWN)


# --- what is not known is refused by name ---------------------------------------------------------


def test_derived_classes_and_other_fields_are_refused_wherever_they_are() -> None:
    derived: Any = attr.make_class("GaussianDpEvent", ["layers"], bases=(dp_event.GaussianDpEvent,), frozen=True)
    elsewhere: Any = attr.make_class("GaussianDpEvent", ["noise_multiplier", "layers"], bases=(dp_event.DpEvent,))
    strange: Any = attr.make_class("StrangeDpEvent", ["noise_multiplier"], bases=(dp_event.DpEvent,))
    for node in (derived(1.0, 1000), elsewhere(1.0, 1000), strange(1.0)):
        for event in (
            node,
            dp_event.SelfComposedDpEvent(node, 3),
            dp_event.ComposedDpEvent([node]),
            dp_event.PoissonSampledDpEvent(0.1, node),
            dp_event.RepeatAndSelectDpEvent(node, 5.0, 1.0),
            schemes.ZeroOutDpEvent(node),
            schemes.UsersDpEvent(node, 3),
        ):
            for ask in (Composition.of, hypotheses_of):
                with pytest.raises(UnsupportedEventError, match="DpEvent"):
                    ask(event, ZERO)


def test_a_twin_means_the_same() -> None:
    twin: Any = attr.make_class("GaussianDpEvent", ["noise_multiplier"], bases=(dp_event.DpEvent,), frozen=True)
    for relation in RELATIONS:
        assert row_of(twin(1.0), relation) == row_of(dp_event.GaussianDpEvent(1.0), relation)
        event = dp_event.PoissonSampledDpEvent(0.1, twin(1.0))
        assert hypotheses_of(event, relation) == hypotheses_of(
            evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.1, steps=1), relation
        )


def test_a_twin_of_another_release_is_seen_inside() -> None:
    """It is no instance of this DpEvent: overlooked, a sample of it would pass for one of Gaussian noise."""
    base = type("DpEvent", (), {})
    twins = [
        attr.make_class("EpsilonDeltaDpEvent", ["epsilon", "delta"], bases=(base,), frozen=True)(1.0, 0.0),
        attr.make_class(
            "BallsInBinsDpEvent",
            ["noise_multiplier", "iterations", "cycle_length", "strategy"],
            bases=(base,),
            frozen=True,
        )(1.0, 6, 3, (1.0,)),
    ]
    for twin in twins:
        with pytest.raises(OtherRelationError):
            Composition.of(dp_event.PoissonSampledDpEvent(0.1, twin), ZERO)
        assert hypotheses_of(dp_event.SelfComposedDpEvent(twin, 3), ZERO)
        assert unit_of(dp_event.ComposedDpEvent([twin])) == unit_of(twin)


@attr.s(frozen=True, auto_attribs=True)
class OtherDpEvent(dp_event.DpEvent):
    noise_multiplier: float


def test_hypotheses_of_two_mechanisms_that_one_event_stands_for_are_all_there() -> None:
    for one, clause in ((OwnDpEvent, "nobody looked"), (OtherDpEvent, "nobody asked")):
        evr.register(one, lambda event: dp_event.GaussianDpEvent(event.noise_multiplier), assumptions=(clause,))
    parts = [OWN, dp_event.GaussianDpEvent(1.0), OtherDpEvent(2.0)]
    for order in (parts, parts[::-1]):
        found = hypotheses_of(dp_event.ComposedDpEvent(order), ADD)
        assert {one.id for one in found} == {"own-1", "sensitivity", "other-1"}


def test_pairs_alone_say_nothing_of_relations() -> None:
    """Nothing but the table is asked: a law has no relation."""
    assert not {"relation", "under", "unit"} & set(Pairs.__dataclass_fields__)
