"""How long a proof takes is said before it is planned, and how far it is."""

from __future__ import annotations

import math
import time

import pytest
from dp_accounting import dp_event as d

import evr
from evr._kernel.events import Composition
from evr._proving import planning
from evr._proving.planning import planning_told, seconds_ahead


def schedule(number: int) -> d.DpEvent:
    noises = [0.8 + 0.6 * math.cos(math.pi * i / (2 * number)) for i in range(number)]
    return d.ComposedDpEvent([d.PoissonSampledDpEvent(0.01, d.GaussianDpEvent(noise)) for noise in noises])


def test_a_schedule_of_thousands_of_steps_has_its_forecast_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever relation: nothing is grouped for it."""
    for relation, seconds in (("add-or-remove", 33), ("replace-one", 56)):
        composition, start = Composition.of(schedule(3000), relation), time.process_time()
        planning_told(composition, True, "auto")("Estimated")
        assert time.process_time() - start < 3
        said = capsys.readouterr().err.splitlines()
        assert said == [
            f"3,000 different steps: about {seconds} s to estimate, plan and prove.",
            "Estimated, after 1 s.",
        ]


@pytest.mark.parametrize(
    ("progress", "method"), [(False, "auto"), (None, "auto"), (lambda one: None, "auto"), (True, "fixed")]
)
def test_nothing_is_said_to_who_does_not_look(
    progress: object, method: str, capsys: pytest.CaptureFixture[str]
) -> None:
    planning_told(Composition.of(schedule(300)), progress, method)("Estimated")  # type: ignore[arg-type]
    assert not capsys.readouterr().err


def test_what_is_short_is_not_told() -> None:
    event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=10_000)
    assert seconds_ahead(Composition.of(event)) < 1


def test_certify_says_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: object
) -> None:
    monkeypatch.setattr(planning, "_LASTS", 0.1)
    evr.certify(schedule(3), delta=1e-5, progress=True, ledger=f"{tmp_path}/ledger.sqlite")
    said = [line.rpartition(", after")[0] or line for line in capsys.readouterr().err.splitlines()]
    assert said == [
        "3 different steps: about 1 s to estimate, plan and prove.",
        "Estimated: (0.151, 1e-5) is to be proved",
        "Planned",
        "Proved the remove direction",
        "Proved the add direction",
    ]
