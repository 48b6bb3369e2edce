"""Events are known by name and fields: classes of another release, of a module that was loaded
twice, pickled by value.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attr
import pytest
from dp_accounting import dp_event

import evr
from evr._certificate.event_json import event_from_json, event_to_json
from evr._kernel.events import Composition
from evr._release.filters import PrivacyFilter
from evr.errors import UnsupportedEventError

E = evr.events


def loaded_again(name: str) -> Any:
    """A second copy of a module, with classes of its own."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module is not sys.modules[name]
    return module


def made(name: str, decorate: Callable[[type], type], base: type = dp_event.DpEvent, **hints: Any):
    return decorate(type(name, (base,), {"__annotations__": hints, "__module__": "newer.events"}))


def by_attrs(cls: type) -> type:
    return attr.s(frozen=True, slots=True, auto_attribs=True)(cls)


def by_dataclass(cls: type) -> type:
    return dataclasses.dataclass(frozen=True)(cls)


@pytest.mark.parametrize("decorate", [by_attrs, by_dataclass])
def test_a_class_of_the_same_name_and_fields_is_ours(decorate: Any) -> None:
    """Newer releases of dp_accounting have an EpsilonDeltaDpEvent of their own."""
    theirs = made("EpsilonDeltaDpEvent", decorate, epsilon=float, delta=float)(0.5, 1e-6)
    ours = E.EpsilonDeltaDpEvent(0.5, 1e-6)
    assert type(theirs) is not type(ours)
    for wrapped in (lambda e: e, lambda e: dp_event.ComposedDpEvent([e, E.ZeroOutDpEvent(e)])):
        assert event_from_json(event_to_json(wrapped(theirs))) == wrapped(ours)
        assert Composition.of(wrapped(theirs)) == Composition.of(wrapped(ours))


def test_a_certificate_names_our_class(tmp_path: Path) -> None:
    theirs = made("EpsilonDeltaDpEvent", by_attrs, epsilon=float, delta=float)(0.5, 1e-6)
    certificate = evr.certify(theirs, epsilon=0.5, delta=2e-6, ledger=tmp_path / "l.sqlite")
    assert certificate.dp_event() == E.EpsilonDeltaDpEvent(0.5, 1e-6)
    assert evr.replay(certificate).agrees


def test_events_of_a_module_that_was_loaded_twice() -> None:
    again = loaded_again("dp_accounting.dp_event")
    step = again.PoissonSampledDpEvent(0.01, again.GaussianDpEvent(1.0))
    theirs = again.ComposedDpEvent([again.SelfComposedDpEvent(step, 10), again.NoOpDpEvent()])
    ours = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=10)
    assert not isinstance(theirs, dp_event.DpEvent)
    assert Composition.of(theirs) == Composition.of(ours)
    assert event_to_json(theirs)["events"][0] == event_to_json(ours)
    budget = PrivacyFilter(epsilon=2.0, delta=1e-6)
    assert budget.fits(again.SelfComposedDpEvent(again.ZCDpEvent(1e-3), 2))
    schemes = loaded_again("evr._kernel.events.schemes")
    bins = schemes.ZeroOutDpEvent(schemes.RedrawnBinsDpEvent(3.0, 4, 5))
    assert Composition.of(bins) == Composition.of(E.ZeroOutDpEvent(E.RedrawnBinsDpEvent(3.0, 4, 5)))


def test_events_of_newer_releases_of_dp_accounting() -> None:
    """By default the dimension of theirs is not known, and nothing is taken for one coordinate."""
    integers = made("DiscreteGaussianDpEvent", by_attrs, sigma=float, sensitivity=float, dimension=int)
    assert Composition.of(integers(3.0, 1.0, None)) == Composition.of(E.DiscreteGaussianDpEvent(3.0, 1.0, None))
    assert Composition.of(integers(3.0, 1.0, 1)) == Composition.of(E.DiscreteGaussianDpEvent(3.0, 1))
    assert Composition.of(integers(3.0, 1.0, None)) != Composition.of(E.DiscreteGaussianDpEvent(3.0, 1))
    choice = made("ExponentialMechanismDpEvent", by_attrs, epsilon=float)
    assert Composition.of(choice(0.5)) == Composition.of(E.ExponentialMechanismDpEvent(0.5))


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (
            made("DiscreteGaussianDpEvent", by_attrs, sigma=float, sensitivity=float)(3.0, 1),
            r"Its fields are sensitivity, sigma; wanted are dimension, sensitivity, sigma\. If it",
        ),
        (
            made("EpsilonDeltaDpEvent", by_dataclass, eps=float, delta=float)(0.5, 1e-6),
            "Its fields are delta, eps; wanted are delta, epsilon",
        ),
        (made("NoOpDpEvent", by_attrs, really=bool)(False), "Its fields are really; wanted are none"),
        (
            made("GaussianDpEvent", lambda cls: cls, noise_multiplier=float)(),
            "Its fields are unknown; wanted are noise_multiplier",
        ),
        (
            made("GaussianDpEvent", by_attrs, dp_event.GaussianDpEvent)(1.0),
            "Its class is derived from dp_accounting.dp_event.GaussianDpEvent",
        ),
    ],
    ids=["dimension", "name", "more", "plain", "derived"],
)
def test_the_same_name_with_other_fields_is_refused(event: Any, message: str) -> None:
    for ask in (Composition.of, event_to_json, lambda e: evr.estimate_epsilon(e, 1e-5)):
        with pytest.raises(UnsupportedEventError, match=message) as raised:
            ask(event)
        assert raised.value.event is event
        assert "Mechanisms that evr knows:" not in str(raised.value), "which would list the very name"
    with pytest.raises(UnsupportedEventError, match=r"at event\.events\[1\]: "):
        Composition.of(dp_event.ComposedDpEvent([dp_event.NoOpDpEvent(), event]))


@pytest.mark.parametrize(
    "event",
    [
        made("FreeDpEvent", by_attrs, dp_event.NoOpDpEvent)(),
        made("ShuffledDpEvent", by_attrs, dp_event.PoissonSampledDpEvent)(0.01, dp_event.GaussianDpEvent(1.0)),
        made("RandomlyStoppedDpEvent", by_attrs, dp_event.SelfComposedDpEvent)(dp_event.GaussianDpEvent(1.0), 3),
    ],
    ids=lambda e: type(e).__name__,
)
def test_a_class_derived_from_a_known_one_is_another_mechanism(event: Any) -> None:
    with pytest.raises(UnsupportedEventError, match=f"unsupported {type(event).__name__} at event"):
        Composition.of(event)
