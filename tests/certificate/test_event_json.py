"""Event trees as JSON: there and back for every class, and nothing but known classes built."""

from __future__ import annotations

import json
import math
from typing import Any

import attr
import numpy as np
import pytest
from dp_accounting import dp_event

import evr
from evr import events
from evr._certificate.event_json import DEEPEST, canonical, event_digest, event_from_json, event_to_json
from evr._kernel.events import MECHANISMS
from evr._kernel.events.table import registered
from evr.errors import CertificateError

GAUSSIAN = dp_event.GaussianDpEvent(1.1)
EVENTS = [
    dp_event.NoOpDpEvent(),
    dp_event.NonPrivateDpEvent(),
    dp_event.UnsupportedDpEvent(),
    GAUSSIAN,
    dp_event.LaplaceDpEvent(1 / 3),
    dp_event.RandomizedResponseDpEvent(0.3, 5),
    dp_event.DiscreteLaplaceDpEvent(0.1, 2),
    dp_event.MixtureOfGaussiansDpEvent(1.5, [0.0, 1.0, 2.0], [0.5, 0.25, 0.25]),
    dp_event.SelfComposedDpEvent(GAUSSIAN, 7),
    dp_event.ComposedDpEvent([GAUSSIAN, dp_event.NoOpDpEvent()]),
    dp_event.PoissonSampledDpEvent(1e-3, GAUSSIAN),
    dp_event.SampledWithReplacementDpEvent(1000, 10, GAUSSIAN),
    dp_event.SampledWithoutReplacementDpEvent(1000, 10, GAUSSIAN),
    dp_event.SingleEpochTreeAggregationDpEvent(1.0, [3, 4]),
    dp_event.SingleEpochTreeAggregationDpEvent(1.0, 5),
    dp_event.RepeatAndSelectDpEvent(GAUSSIAN, 2.0, 1.0),
    events.BinomialSelectDpEvent(GAUSSIAN, 20, 0.5),
    events.ThresholdSelectDpEvent(GAUSSIAN, 0.1),
    dp_event.ZCDpEvent(0.5, 0.1),
    dp_event.TruncatedSubsampledGaussianDpEvent(100, 0.1, 20, 1.0),
    events.DiscreteGaussianDpEvent(3.0, 2),
    events.EpsilonDeltaDpEvent(1.0, 1e-6),
    events.BallsInBinsDpEvent(3.0, 1000, 100, (1.0, 0.5)),
    events.RedrawnBinsDpEvent(1.5, 100, 10),
    events.RandomAllocationDpEvent(1.5, 100, 10),
    events.ExponentialMechanismDpEvent(0.5),
    events.PermuteAndFlipDpEvent(0.5),
    events.AboveThresholdDpEvent(0.5),
    events.AdaptiveClippingDpEvent(1.0, 10.0),
    events.ParallelDpEvent(GAUSSIAN),
    events.SummedDiscreteGaussiansDpEvent(3.0, 20, 4.0, 1000),
    events.CyclicPoissonDpEvent(1.0, 120, 6, 0.3, "fixed"),
    events.BMinSepDpEvent(2.0, 3, 2, 0.5, True, ((1.0, 0.5), (1.0, 0.25), (1.0,))),
    events.MatrixMechanismDpEvent(4.0, (1.0, -0.5), 100, 10, 3),
    events.ShuffledBatchesDpEvent(1.1, 15),
    events.OneOfDpEvent([dp_event.LaplaceDpEvent(1.0), dp_event.LaplaceDpEvent(2.0)]),
    events.AllocatedDpEvent(dp_event.LaplaceDpEvent(1.0), 1, 4),
    events.PoissonSampledUsersDpEvent(1.1, 0.01, 8),
    events.FixedBatchUsersDpEvent(1.1, 1000, 10, 8),
    events.UsersDpEvent(events.BallsInBinsDpEvent(1.1, 10, 5), 8),
    events.ZeroOutDpEvent(GAUSSIAN),
    events.PoissonSampledUsersDpEvent(1.0, 0.1, 4),
    evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=1000),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_there_and_back(event: dp_event.DpEvent) -> None:
    text = canonical(event_to_json(event))
    assert event_from_json(json.loads(text)) == event
    assert len(event_digest(event)) == 64


def test_every_class_of_both_modules_is_here() -> None:
    known = {
        value
        for module in (dp_event, events)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, dp_event.DpEvent) and value is not dp_event.DpEvent
    }
    assert {type(event) for event in EVENTS} == known


@attr.s(frozen=True, slots=True, auto_attribs=True)
class OwnDpEvent(dp_event.DpEvent):
    scale: float


def test_registered_classes_are_named_with_their_module(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="OwnDpEvent is not a known event: register it"):
        event_to_json(OwnDpEvent(1.0))
    monkeypatch.setitem(MECHANISMS, OwnDpEvent, registered(OwnDpEvent, lambda event: None))
    document = event_to_json(OwnDpEvent(2.0))
    assert document["type"].endswith(".OwnDpEvent")
    assert "." in document["type"].removesuffix(".OwnDpEvent") or document["type"].startswith(OwnDpEvent.__module__)
    assert event_from_json(document) == OwnDpEvent(2.0)


def test_numpy_values_and_infinities() -> None:
    event = dp_event.ComposedDpEvent([dp_event.GaussianDpEvent(np.float64(0.1)), dp_event.LaplaceDpEvent(math.inf)])
    assert event_from_json(json.loads(canonical(event_to_json(event)))) == event
    mixture = dp_event.MixtureOfGaussiansDpEvent(1.0, np.array([0.0, 1.0]), (0.5, 0.5))
    assert event_to_json(mixture)["sensitivities"] == [0.0, 1.0]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"type": "os.system", "command": "true"}, "event.type='os.system' is not a known event: a mechanism"),
        ({"type": "DpEvent"}, "not a known event"),
        ({"type": ["GaussianDpEvent"]}, "not a known event"),
        ({}, "event.type=None is not a known event"),
        ({"type": "GaussianDpEvent"}, "has the fields \\['noise_multiplier'\\], not \\[\\]"),
        ({"type": "GaussianDpEvent", "noise_multiplier": 1, "more": 2}, "not \\['more', 'noise_multiplier'\\]"),
        ({"type": "SelfComposedDpEvent", "count": 2, "event": {"type": "X"}}, "event.event.type='X'"),
        ([], "is not an event"),
        (None, "is not an event"),
        ("inf", "is not an event"),
    ],
)
def test_anything_else_is_refused(document: Any, message: str) -> None:
    with pytest.raises(CertificateError, match=message.replace(".", r"\.")):
        event_from_json(document)


def test_endless_trees_are_refused() -> None:
    deep: dp_event.DpEvent = GAUSSIAN
    document = event_to_json(GAUSSIAN)
    for _ in range(DEEPEST + 1):
        deep = dp_event.SelfComposedDpEvent(deep, 1)
        document = {"type": "SelfComposedDpEvent", "event": document, "count": 1}
    with pytest.raises(ValueError, match="levels"):
        event_to_json(deep)
    with pytest.raises(CertificateError, match="levels"):
        event_from_json(document)
    with pytest.raises(TypeError, match="is not a DpEvent"):
        event_to_json(object())
