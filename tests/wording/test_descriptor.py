"""Descriptors: every mechanism, and one of a user's, in spec files, in JSON and in statements."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import attr
import pytest
from dp_accounting import NeighboringRelation, dp_event
from pydantic import BaseModel

import evr
from evr._certificate.event_json import canonical, event_from_json, event_to_json
from evr._described import described
from evr._kernel.events import MECHANISMS, Composition, noise
from evr._kernel.events.meaning import hypotheses_of
from evr._kernel.events.relations import Hypothesis
from evr._kernel.events.table import BUILT_IN
from evr._kernel.pairs import DiscretePair, Pairs
from evr._spec import parse
from evr._wording.events import describe
from evr._wording.statement import identified
from evr.errors import CertificateError, SpecError, UnsupportedEventError

E = evr.events

EVENTS: list[dp_event.DpEvent] = [
    dp_event.GaussianDpEvent(1.5),
    dp_event.LaplaceDpEvent(0.5),
    dp_event.RandomizedResponseDpEvent(0.25, 4),
    dp_event.DiscreteLaplaceDpEvent(0.25, 2),
    dp_event.MixtureOfGaussiansDpEvent(1.0, (0.0, 1.0), (0.5, 0.5)),
    E.DiscreteGaussianDpEvent(3.0, 2),
    E.EpsilonDeltaDpEvent(1.0, 1e-6),
    E.BallsInBinsDpEvent(3.0, 20, 4, (1.0, 0.5)),
    E.RedrawnBinsDpEvent(3.0, 4, 5),
    E.CyclicPoissonDpEvent(3.0, 20, 4, 0.25, "fixed"),
    E.BMinSepDpEvent(3.0, 2, 4, 0.25, False, ((1.0, 0.5), (2.0,))),
    E.MatrixMechanismDpEvent(3.0, (1.0, -0.5), 20, 4, 3),
    dp_event.SingleEpochTreeAggregationDpEvent(3.0, (10, 40)),
    E.ShuffledBatchesDpEvent(3.0, 5),
    dp_event.TruncatedSubsampledGaussianDpEvent(100, 0.125, 16, 3.0),
    E.RandomAllocationDpEvent(3.0, 20, 5),
    E.ExponentialMechanismDpEvent(0.5),
    E.PermuteAndFlipDpEvent(0.5),
    E.AboveThresholdDpEvent(0.5),
    E.AdaptiveClippingDpEvent(1.0, 10.0),
    E.SummedDiscreteGaussiansDpEvent(3.0, 20, 4.0, 1000),
    dp_event.ZCDpEvent(0.125, 0.5),
    E.PoissonSampledUsersDpEvent(3.0, 0.125, 4, 2.5),
    E.FixedBatchUsersDpEvent(3.0, 100, 16, 4),
    E.UsersDpEvent(E.BallsInBinsDpEvent(3.0, 20, 4, (1.0, 0.5)), 4),
]
by_class = pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)


def toml(event: dp_event.DpEvent) -> str:
    """An event as a table of a spec file, from what its descriptor and its JSON say."""
    if isinstance(event, E.UsersDpEvent):
        return f"{toml(event.event)}records_per_user = {event.records_per_user}\n"
    fields = {key: value for key, value in event_to_json(event).items() if key != "type"}
    lines = [f'kind = "{described(type(event)).kind}"', *(f"{k} = {json.dumps(v)}" for k, v in fields.items())]
    return "[[mechanism]]\n" + "\n".join(lines) + "\n"


def test_every_mechanism_is_here() -> None:
    assert {type(event) for event in EVENTS} == set(BUILT_IN)


def relation(event: dp_event.DpEvent) -> str | None:
    """What has to be asked for: both know neither add-or-remove nor another one by themselves."""
    asked = E.FixedBatchUsersDpEvent, dp_event.RandomizedResponseDpEvent
    return "replace-one" if isinstance(event, asked) else None


@by_class
def test_spec_files_and_json_there_and_back(event: dp_event.DpEvent) -> None:
    assert parse(toml(event)).event(relation(event)) == event
    again = event_from_json(json.loads(canonical(event_to_json(event))))
    assert event_to_json(again) == event_to_json(event)
    assert describe(again) == describe(event)


@by_class
def test_every_value_stands_in_its_words(event: dp_event.DpEvent) -> None:
    """An event that differs in one field differs in its words, but for the entries of a strategy:
    in its last digit too, for a probability of 0.09999996 that is told as 0.1 makes a statement
    false.
    """
    for one in attr.fields(type(event)):
        value = getattr(event, one.name)
        other = {bool: lambda v: not v, int: lambda v: v + 1, float: lambda v: math.nextafter(v, 0.0)}.get(type(value))
        if other is not None:
            assert describe(attr.evolve(event, **{one.name: other(value)})) != describe(event), one.name


@by_class
def test_only_those_who_take_sampling_have_the_key(event: dp_event.DpEvent) -> None:
    text, sampled = toml(event), MECHANISMS[type(event)].takes_sampling
    if sampled:
        event_ = parse(text + "sampling_probability = 0.5").mechanism[0].event()
        assert isinstance(event_, dp_event.PoissonSampledDpEvent)
    elif "sampling_probability" not in text:
        with pytest.raises(SpecError, match="sampling_probability: unknown key"):
            parse(text + "sampling_probability = 0.5")


def test_words_stay_short() -> None:
    many = dp_event.MixtureOfGaussiansDpEvent(1.0, [float(i) for i in range(100)], [0.01] * 100)
    assert "sensitivities of 100 values, the first being 0, sampling probs of 100 values" in describe(many)
    nested = dp_event.ComposedDpEvent([dp_event.ComposedDpEvent([many] * 6)] * 6)
    assert describe(nested).startswith("6 mechanisms one after the other, the first being (a mixture of Gaussians")
    assert len(describe(nested)) < 2000


# --- a mechanism of one's own ---------------------------------------------------------------------


@attr.s(frozen=True, slots=True, auto_attribs=True)
class AlarmDpEvent(dp_event.DpEvent):
    hit: float
    false_alarm: float
    days: int = 1


def alarm(event: AlarmDpEvent) -> Pairs:
    hit = evr._basics.validate.open_probability(hit=event.hit)
    false_alarm = evr._basics.validate.open_probability(false_alarm=event.false_alarm)
    one, other = [1 - hit, hit], [1 - false_alarm, false_alarm]
    return Pairs(DiscretePair.from_probabilities(one, other), DiscretePair.from_probabilities(other, one))


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    before = dict(MECHANISMS)
    yield
    MECHANISMS.clear()
    MECHANISMS.update(before)


TEXT = '[[mechanism]]\nkind = "alarm"\nhit = 0.6\nfalse_alarm = 0.4\n'


def test_two_arguments_reach_everything(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="unknown kind 'alarm'; known: dpsgd, gaussian, laplace"):
        parse(TEXT)
    evr.register(AlarmDpEvent, alarm)
    event = parse(TEXT).event()
    assert event == AlarmDpEvent(0.6, 0.4, 1)
    assert parse(TEXT + "days = 3\nrepeat = 2\nsampling_probability = 0.5").event() == dp_event.SelfComposedDpEvent(
        dp_event.PoissonSampledDpEvent(0.5, AlarmDpEvent(0.6, 0.4, 3)), 2
    )
    certificate = evr.certify(event, epsilon=0.2, tau=0.8, ledger=tmp_path / "ledger.sqlite")
    assert "The composition of an alarm mechanism (hit 0.6, false alarm 0.4, days 1) is (" in certificate.statement
    assert evr.replay(certificate).agrees


def test_mistakes_in_a_table_of_ones_own() -> None:
    evr.register(AlarmDpEvent, alarm)
    for lines, message in (
        ("hits = 0.6", r"mechanism\[0\].hits: unknown key; did you mean 'hit'\?"),
        ("qqq = 0.6", "unknown key; known: days, false_alarm, hit, kind, repeat, sampling_probability"),
        ("hit = 'often'", r"mechanism\[0\].hit: input should be a valid number \(found 'often'\)"),
        ("hit = 0.6\nfalse_alarm = 1.5", r"mechanism\[0\] \(kind 'alarm'\): false_alarm=1.5 is not in \(0, 1\)"),
        ("hit = 0.6", r"mechanism\[0\].false_alarm: field required"),
    ):
        with pytest.raises(SpecError, match=message):
            parse(f'[[mechanism]]\nkind = "alarm"\n{lines}\n').event()


def test_words_and_assumptions_come_from_the_descriptor(tmp_path: Path) -> None:
    evr.register(
        AlarmDpEvent,
        alarm,
        kind="smoke_alarm",
        fields={"days": (int, 7)},
        words=lambda event: f"an alarm over {event.days} days",
        assumptions=("nobody heard the alarm twice", "no battery was empty"),
    )
    event = parse(TEXT.replace('"alarm"', '"smoke_alarm"')).event()
    assert event == AlarmDpEvent(0.6, 0.4, 7)
    certificate = evr.certify(event, epsilon=0.2, tau=0.8, ledger=tmp_path / "ledger.sqlite")
    assert "The composition of an alarm over 7 days is (" in certificate.statement
    assert "assumes that nobody heard the alarm twice; that no battery was empty; that the" in certificate.statement
    assert evr.replay(certificate).agrees
    evr.register(AlarmDpEvent, alarm)
    fields = [m.field for m in evr.replay(certificate).mismatches]
    assert fields == ["hypotheses"], "the words are whose code it is"


def test_a_mechanism_that_is_forgotten_is_unknown_everywhere() -> None:
    evr.register(AlarmDpEvent, alarm)
    event = parse(TEXT).event()
    document = event_to_json(event)
    del MECHANISMS[AlarmDpEvent]
    with pytest.raises(SpecError, match="unknown kind 'alarm'"):
        parse(TEXT)
    with pytest.raises(CertificateError, match="is not a known event"):
        event_from_json(document)


def test_a_class_that_is_defined_again_takes_the_place_of_the_first() -> None:
    """As in a notebook whose cell runs twice."""

    def defined() -> Any:
        @attr.s(frozen=True, auto_attribs=True)
        class AgainDpEvent(dp_event.DpEvent):
            noise: float

        return AgainDpEvent

    first, second = defined(), defined()
    evr.register(first, noise.gaussian)
    evr.register(second, noise.gaussian)
    assert first not in MECHANISMS
    assert type(event_from_json(event_to_json(second(1.0)))) is second
    with pytest.raises(ValueError, match="is not a known event"):
        event_to_json(first(1.0))


WORDS: list[tuple[Any, str]] = [
    (lambda event: "two\nlines", "one line of text"),
    (lambda event: "", "one line of text"),
    (lambda event: None, "one line of text"),
    (lambda event: event.colour, "AlarmDpEvent has no words for these values: AttributeError"),
]


@pytest.mark.parametrize(("words", "message"), WORDS, ids=["lines", "empty", "nothing", "raises"])
def test_words_that_fail_do_so_before_an_attempt_is_counted(words: Any, message: str, tmp_path: Path) -> None:
    evr.register(AlarmDpEvent, alarm, words=words)
    with evr.Ledger(tmp_path / "ledger.sqlite") as ledger:
        with pytest.raises(ValueError, match=message):
            evr.certify(AlarmDpEvent(0.6, 0.4), epsilon=0.2, tau=0.8, ledger=ledger)
        assert ledger.attempts() == []


@attr.s(frozen=True, auto_attribs=True)
class RepeatDpEvent(dp_event.DpEvent):
    repeat: int


REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no class": (3, {}, "event_type=3 is not a subclass of DpEvent"),
    "another class": (int, {}, "is not a subclass of DpEvent"),
    "kind taken": (
        AlarmDpEvent,
        {"kind": "gaussian"},
        "kind='gaussian' is taken by GaussianDpEvent: give AlarmDpEvent",
    ),
    "kind of DP-SGD": (AlarmDpEvent, {"kind": "dpsgd"}, "kind='dpsgd' is taken by DP-SGD"),
    "kind": (AlarmDpEvent, {"kind": "An alarm"}, "kind='An alarm' is not a name"),
    "fields": (AlarmDpEvent, {"fields": {"colour": (str, "red")}}, "has no field 'colour', but days, false_alarm, hit"),
    "words": (AlarmDpEvent, {"words": "an alarm"}, "words='an alarm' is not a function"),
    "relation": (AlarmDpEvent, {"relation": "ADD"}, "relation='ADD' is not a function"),
    "one text": (AlarmDpEvent, {"assumptions": "it rang"}, "are not clauses: give a tuple"),
    "two lines": (AlarmDpEvent, {"assumptions": ("it\nrang",)}, "are not clauses"),
    "a key": (RepeatDpEvent, {}, "RepeatDpEvent has a field 'repeat', which means something else in files"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_registered(name: str) -> None:
    event_type, parts, message = REFUSED[name]
    before = dict(MECHANISMS)
    with pytest.raises((TypeError, ValueError), match=message):
        evr.register(event_type, alarm, **parts)
    assert before == MECHANISMS


def test_a_translator_is_a_function() -> None:
    nothing: Any = None
    with pytest.raises(TypeError, match="translator=None is not a function"):
        evr.register(AlarmDpEvent, nothing)


def test_a_class_of_the_same_name_elsewhere_needs_another_kind() -> None:
    own: Any = attr.make_class("GaussianDpEvent", ["noise_multiplier"], bases=(dp_event.DpEvent,), frozen=True)
    with pytest.raises(ValueError, match="kind='gaussian' is taken by GaussianDpEvent: give GaussianDpEvent another"):
        evr.register(own, noise.gaussian)
    evr.register(own, noise.gaussian, kind="own_gaussian")
    assert event_to_json(own(1.0))["type"] == f"{own.__module__}.GaussianDpEvent"
    assert event_from_json(event_to_json(own(1.0))) == own(1.0)
    assert event_from_json(event_to_json(dp_event.GaussianDpEvent(1.0))) == dp_event.GaussianDpEvent(1.0)


# --- fields of all sorts --------------------------------------------------------------------------


@attr.s(frozen=True, slots=True, auto_attribs=True)
class SortsDpEvent(dp_event.DpEvent):
    """Names that pydantic's models have for themselves, and every sort of type that has a form in
    TOML.
    """

    json: float
    model_fields: tuple[float, ...]
    _private: Literal["a", "b"]
    event: int | None = None
    copy: int | list[int] = attr.Factory(lambda: 3)
    once: float = attr.ib(init=False, default=2.0)


def test_fields_of_all_sorts() -> None:
    evr.register(SortsDpEvent, lambda event: noise.gaussian(dp_event.GaussianDpEvent(event.json)))
    text = '[[mechanism]]\nkind = "sorts"\njson = 2\nmodel_fields = [1, 2.5]\nprivate = "b"\n'
    event = parse(text).event()
    assert event == SortsDpEvent(2.0, (1.0, 2.5), "b", None, 3)
    full = parse(text + "event = 4\ncopy = [1, 2]").event()
    assert full == SortsDpEvent(2.0, (1.0, 2.5), "b", 4, cast(Any, (1, 2)))
    assert describe(full) == "a sorts mechanism (json 2, model fields [1.0, 2.5], private b, event 4, copy [1, 2])"
    document = event_to_json(full)
    assert list(document) == ["type", "json", "model_fields", "private", "event", "copy"]
    assert event_to_json(event_from_json(document)) == document
    for line, message in (
        ("json = 'x'", r"mechanism\[0\]\.json: input should be a valid number"),
        ("model_fields = 1", r"mechanism\[0\]\.model_fields: input should be a valid list"),
        ("model_fields = [1, 'x']", r"mechanism\[0\]\.model_fields\[1\]: input should be a valid number"),
        ("private = 'c'", r"mechanism\[0\]\.private: input should be 'a' or 'b'"),
        ("once = 1.0", r"mechanism\[0\]\.once: unknown key"),
        ("copy = 'x'", r"mechanism\[0\]\.copy: input should be a valid integer"),
    ):
        key = line.split(" ")[0]
        kept = "\n".join(one for one in text.splitlines() if not one.startswith(f"{key} "))
        with pytest.raises(SpecError, match=message):
            parse(f"{kept}\n{line}\n")


@attr.s(frozen=True, auto_attribs=True)
class WrapDpEvent(dp_event.DpEvent):
    inner: dp_event.DpEvent


class Scales(BaseModel, strict=True):
    """A table within a table."""

    first: float
    second: float


@attr.s(frozen=True, auto_attribs=True)
class ScaledDpEvent(dp_event.DpEvent):
    scales: Any


def test_own_words_that_leave_a_matrix_out_are_told_apart() -> None:
    evr.register(ScaledDpEvent, lambda event: dp_event.GaussianDpEvent(1.0), words=lambda event: "scales")
    one, other = (identified(ScaledDpEvent(((1.0,), (second, 1.0)))) for second in (0.5, 0.25))
    assert one != other
    assert "SHA-256" in one


def test_a_field_may_be_a_table_of_its_own() -> None:
    evr.register(ScaledDpEvent, lambda event: dp_event.GaussianDpEvent(1.0), fields={"scales": (Scales, ...)})
    text = '[[mechanism]]\nkind = "scaled"\nscales = '
    assert parse(text + "{first = 1.0, second = 2.0}").event() == ScaledDpEvent({"first": 1.0, "second": 2.0})
    with pytest.raises(SpecError, match=r"mechanism\[0\]\.scales: input should be a valid number \(found 'x'\)"):
        parse(text + "{first = 1.0, second = 'x'}")


def test_what_has_no_form_in_a_spec_file_says_so_and_harms_nobody_else() -> None:
    evr.register(WrapDpEvent, lambda event: event.inner)
    with pytest.raises(
        SpecError, match=r"'wrap' cannot be written here: its field 'inner' is declared as DpEvent.*fields="
    ):
        parse('[[mechanism]]\nkind = "wrap"\ninner = 1')
    assert parse('[[mechanism]]\nkind = "gaussian"\nnoise_multiplier = 1').event() == dp_event.GaussianDpEvent(1.0)
    event = WrapDpEvent(dp_event.GaussianDpEvent(1.0))
    assert event_from_json(event_to_json(event)) == event
    assert describe(event) == "a wrap mechanism (inner a Gaussian mechanism (noise multiplier 1))"


@dataclass(frozen=True)
class PlainDpEvent(dp_event.DpEvent):
    """Not made by attrs, of which it inherits that it has no fields."""

    noise: float = 10.0


def test_a_class_without_attrs_composes_and_is_not_written_down(tmp_path: Path) -> None:
    """It would be written down without its noise: what was verified, and certified, was the
    default.
    """
    evr.register(PlainDpEvent, lambda event: noise.gaussian(dp_event.GaussianDpEvent(event.noise)))
    assert Composition.of(PlainDpEvent(1.0)) == Composition.of(dp_event.GaussianDpEvent(1.0))
    with pytest.raises(ValueError, match=r"PlainDpEvent is not a known event: .* attrs"):
        evr.release(lambda: 1, PlainDpEvent(0.1), epsilon=1.0, delta=1e-6, ledger=tmp_path / "ledger.sqlite")
    with pytest.raises(SpecError, match="'plain' cannot be written here: PlainDpEvent is not made by attrs"):
        parse('[[mechanism]]\nkind = "plain"')


# --- events that stand for others -----------------------------------------------------------------


@attr.s(frozen=True, auto_attribs=True)
class TrainingDpEvent(dp_event.DpEvent):
    noise_multiplier: float


SAMPLED = dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(1.0))
FIXED = E.CyclicPoissonDpEvent(1.0, 10, 2, 0.5, "fixed")


def test_assumptions_of_what_stands_for_an_event() -> None:
    evr.register(TrainingDpEvent, lambda event: SAMPLED)
    evr.register(WrapDpEvent, lambda event: event.inner)
    event = TrainingDpEvent(1.0)
    for relation in NeighboringRelation:
        assert hypotheses_of(event, relation) == hypotheses_of(SAMPLED, relation) != ()
        wrapped = dp_event.ComposedDpEvent([WrapDpEvent(event)])
        assert hypotheses_of(wrapped, relation) == hypotheses_of(SAMPLED, relation)
    evr.register(TrainingDpEvent, lambda event: SAMPLED, assumptions=("all went well",))
    assert hypotheses_of(event, NeighboringRelation.ADD_OR_REMOVE_ONE) == (Hypothesis("training-1", "all went well"),)


def test_relation_of_what_stands_for_an_event(tmp_path: Path) -> None:
    """A statement about adding a record would be false: groups of a fixed size move."""
    evr.register(TrainingDpEvent, lambda event: attr.evolve(FIXED, noise_multiplier=event.noise_multiplier))
    repeated = dp_event.SelfComposedDpEvent(TrainingDpEvent(1.0), 3)
    assert Composition.of(repeated).relation is NeighboringRelation.REPLACE_SPECIAL
    with pytest.raises(UnsupportedEventError, match="CyclicPoissonDpEvent has no law under 'add"):
        Composition.of(repeated, "add-or-remove")
    certificate = evr.certify(TrainingDpEvent(2.0), epsilon=1.5, tau=0.8, ledger=tmp_path / "ledger.sqlite")
    assert certificate.neighboring_relation == "zero-out"
    assert "zero-out adjacency" in certificate.statement
    assert "no truncated batches" in certificate.statement
    evr.register(TrainingDpEvent, lambda event: FIXED, relation=lambda event: NeighboringRelation.ADD_OR_REMOVE_ONE)
    declared = Composition.of(TrainingDpEvent(1.0))
    assert declared.relation is NeighboringRelation.ADD_OR_REMOVE_ONE


def test_replace_one_has_to_be_asked_for() -> None:
    """What holds under replace-one only is refused under the default; a translator for it alone
    serves it alone.
    """

    def translated(event: TrainingDpEvent) -> Any:
        return noise.gaussian(dp_event.GaussianDpEvent(event.noise_multiplier), times=2)

    evr.register(TrainingDpEvent, translated, relation=lambda event: NeighboringRelation.REPLACE_ONE)
    with pytest.raises(UnsupportedEventError, match="has one under 'replace-one'"):
        Composition.of(TrainingDpEvent(1.0))
    laws = Composition.of(TrainingDpEvent(1.0), "replace-one").remove
    assert laws == Composition.of(dp_event.GaussianDpEvent(1.0), "replace-one").remove
    evr.register(
        TrainingDpEvent,
        lambda event: dp_event.GaussianDpEvent(event.noise_multiplier),
        under={NeighboringRelation.REPLACE_SPECIAL: None},
    )
    assert Composition.of(TrainingDpEvent(1.0), "replace-one").remove == laws
    with pytest.raises(UnsupportedEventError, match="no law under 'zero-out'"):
        Composition.of(TrainingDpEvent(1.0), "zero-out")


def test_a_translator_that_returns_nothing_is_refused() -> None:
    """A forgotten ``return`` was once taken for a mechanism without privacy."""
    evr.register(TrainingDpEvent, lambda event: None)
    with pytest.raises(TypeError, match=r"TrainingDpEvent at event returned None: .* return Pairs"):
        Composition.of(TrainingDpEvent(1.0))
    evr.register(TrainingDpEvent, lambda event: dp_event.NonPrivateDpEvent())
    assert Composition.of(TrainingDpEvent(1.0)).is_non_private


OWN_MODULE = """
import attr
from dp_accounting import dp_event
from evr import register
from evr._kernel.events import noise

@attr.s(frozen=True, slots=True, auto_attribs=True)
class HumDpEvent(dp_event.DpEvent):
    loudness: float

register(HumDpEvent, lambda event: noise.gaussian(dp_event.GaussianDpEvent(event.loudness)))
"""


OWN_COMMANDS = """
import sys
import hums
from evr.cli import main

for words in ("certify hum.toml --epsilon 1 --tau 0.8", "replay hum.certificate.json"):
    sys.argv = ["evr", *words.split()]
    try:
        main()
    except SystemExit as left:
        print("left with", left.code or 0)
"""


def test_the_command_knows_what_its_process_has_registered(tmp_path: Path) -> None:
    """As docs/extending.md says, from a spec file to a certificate that replays."""
    (tmp_path / "hums.py").write_text(OWN_MODULE)
    (tmp_path / "hum.toml").write_text('[[mechanism]]\nkind = "hum"\nloudness = 2.0\n')

    command = [sys.executable, "-c", OWN_COMMANDS]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("error")) == (0, 0)
    assert "a hum mechanism (loudness 2)" in done.stdout
    assert done.stdout.count("left with 0") == 2
    assert json.loads((tmp_path / "hum.certificate.json").read_text())["event"]["type"] == "hums.HumDpEvent"
