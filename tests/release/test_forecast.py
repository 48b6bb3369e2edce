"""What a proof takes is told before it begins, and what would be refused later is refused then."""

from __future__ import annotations

import itertools
import statistics
import time
from pathlib import Path
from typing import Any

import pytest
from dp_accounting import dp_event

import evr
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction
from evr._kernel.verdict.attempts import Attempt
from evr._kernel.verdict.settings import Claim, Settings
from evr._plan.strict import StrictCurve
from evr._proving import progress
from evr._proving.api import prove
from evr._proving.choosing import Forecast, forecast
from evr._proving.progress import Progress
from evr.errors import UnsupportedEventError
from snapshots import proved

EVENT = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.1, steps=4)


class Stop(Exception):
    pass


def told(path: Path, event: Any = EVENT, **options: Any) -> Forecast:
    """The forecast alone: the attempt is stopped before it is counted."""
    found: list[Forecast] = []

    def announce(forecast: Forecast) -> None:
        found.append(forecast)
        raise Stop

    with pytest.raises(Stop):
        evr.certify(event, ledger=path / "ledger", announce=announce, **options)
    with evr.Ledger(path / "ledger") as ledger:
        assert ledger.attempts() == []
    return found[0]


def test_a_strict_proof_is_foretold_without_samples(tmp_path: Path) -> None:
    forecast = told(tmp_path, delta=1e-6, method="strict")
    assert forecast.total_samples == 0
    assert 0 < forecast.total_seconds < 20
    assert set(forecast.seconds) == {"remove", "add"}


def test_a_strict_proof_in_hand_takes_no_time(tmp_path: Path) -> None:
    """``auto`` proves first what takes seconds, and hands the proof on."""
    forecast = told(tmp_path, delta=1e-6)
    assert forecast.settings.method == "strict"
    assert forecast.seconds == {"remove": 0.0, "add": 0.0}


FORETOLD: dict[str, tuple[Any, dict[str, Any]]] = {
    "loose": (EVENT, {"delta": 1e-6, "tau": 0.9}),
    "tight": (EVENT, {"epsilon": 2.0, "tau": 0.999}),
    # samples vary more than the plan says, so that the first stakes are too high
    "bins": (evr.events.BallsInBinsDpEvent(5.0, iterations=40, cycle_length=20), {"epsilon": 0.213, "delta": 1e-5}),
    "bands": (
        evr.events.BallsInBinsDpEvent(2.0, iterations=8, cycle_length=4, strategy=(1.0, 0.5)),
        {"epsilon": 2.0, "tau": 0.95},
    ),
}


@pytest.mark.parametrize("name", FORETOLD)
def test_the_number_of_samples_is_right_within_a_factor_of_two(tmp_path: Path, name: str) -> None:
    """Of the median of three runs, which spread by a third or so to both sides of it."""
    event, options = FORETOLD[name]
    foretold = told(tmp_path, event, method="sequential", **options)
    drawn = []
    for seed in range(1, 4):
        trying = Attempt(1, seed)
        found = prove(Composition.of(event), foretold.claim, foretold.settings, trying, foretold, progress=False)
        assert found.accepted
        drawn.append(found.samples)
    assert 0.5 < foretold.total_samples / statistics.median(drawn) < 2.0, (foretold, drawn)
    assert foretold.total_seconds > 0


def test_a_false_claim_is_foretold_to_end_soon(tmp_path: Path) -> None:
    true = evr.estimate_delta(EVENT, 2.0).value
    claim = Claim(2.0, true / 1.8, 0.9)
    found = forecast(Composition.of(EVENT), claim, Settings("sequential"))
    drawn = prove(Composition.of(EVENT), claim, found.settings, Attempt(1, 1), found, progress=False)
    assert not drawn.accepted
    assert 0.5 < found.total_samples / drawn.samples < 2.0, (found, drawn.samples)


def test_a_busy_machine_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something else runs for a hundred seconds between any two looks at the clock."""
    looks = itertools.count()
    monkeypatch.setattr("time.perf_counter", lambda: 100.0 * next(looks))
    assert told(tmp_path, delta=1e-6, tau=0.9, method="sequential").total_seconds < 60


def _dpsgd(noise: float, q: float, steps: int) -> Any:
    return evr.dpsgd(noise_multiplier=noise, sampling_probability=q, steps=steps)


PROVED: dict[str, tuple[Any, float, float]] = {
    "redrawn bins": (evr.events.RedrawnBinsDpEvent(3.0, cycle_length=5, epochs=2), 1.0, 0.02),
    "kept bins": (evr.events.BallsInBinsDpEvent(5.0, iterations=40, cycle_length=20), 1.0, 0.02),
    "dpsgd": (_dpsgd(1.1, 256 / 60_000, 14_040), 2.38, 5e-5),
    "phases": (dp_event.ComposedDpEvent([_dpsgd(1.2 + 0.05 * i, 4e-3, 300 + i) for i in range(8)]), 1.0, 1e-3),
    "nested": (dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.05, _dpsgd(2.0, 0.5, 4)), 50), 1.0, 1e-3),
}


@pytest.mark.parametrize("name", PROVED)
def test_exact_proofs_take_what_is_foretold(name: str) -> None:
    """In processor seconds; a proof of bins takes most of them for a grid of ratios."""
    event, epsilon, tolerance = PROVED[name]
    curve = StrictCurve(Composition.of(event).exact_directions()[Direction.REMOVE])
    foretold = curve.seconds(epsilon, tolerance)
    start = time.thread_time()
    curve.bound(epsilon, tolerance)
    assert 0.4 < foretold / (time.thread_time() - start) < 2.5


def test_max_samples_ends_what_is_foretold(tmp_path: Path) -> None:
    forecast = told(tmp_path, delta=1e-6, tau=0.99, method="sequential", max_samples=10)
    free = told(tmp_path, delta=1e-6, tau=0.99, method="sequential")
    assert forecast.total_samples < free.total_samples / 2


REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "too few samples": (
        EVENT,
        {"delta": 1e-6, "tau": 0.9, "method": "fixed", "max_samples": 10},
        "max_samples=10 is below",
    ),
    "too many samples": (
        EVENT,
        {"delta": 1e-6, "tau": 0.999999, "method": "sequential", "proposal": "simple"},
        "lower tau",
    ),
    "no exact law": (
        evr.events.BallsInBinsDpEvent(2.0, iterations=4, cycle_length=2, strategy=(1.0, 0.5)),
        {"delta": 1e-3, "method": "strict"},
        "exact|line",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_only_a_plan_shows_is_refused_before_it_counts(name: str, tmp_path: Path) -> None:
    event, options, message = REFUSED[name]
    with pytest.raises((ValueError, UnsupportedEventError), match=message):
        evr.certify(event, ledger=tmp_path / "ledger", **options)
    with evr.Ledger(tmp_path / "ledger") as ledger:
        assert ledger.attempts() == []


def test_a_gpu_is_not_named_for_laws_that_it_does_not_draw() -> None:
    with pytest.raises(ValueError, match=r"would take about .* samples") as refused:
        evr.verify(EVENT, epsilon=2.0, delta=2.6e-5 / 0.99999, tau=0.99999, proposal="simple")
    remedies = "lower tau (now 0.99999), use proposal='capped', use method='strict', or set max_samples"
    assert remedies in str(refused.value)
    assert "GPU" not in str(refused.value)


def test_a_release_refuses_before_it_counts_too(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="max_samples=10"):
        evr.release(
            lambda: 1,
            EVENT,
            epsilon=1.0,
            delta=1e-6,
            tau=0.9,
            method="fixed",
            max_samples=10,
            ledger=tmp_path / "ledger",
        )
    with evr.Ledger(tmp_path / "ledger") as ledger:
        assert ledger.attempts() == []


def claimed(tau: float) -> dict[str, Any]:
    """A true claim."""
    delta = 1.001 * float(evr.estimate_delta(EVENT, 1.5))
    return {"epsilon": 1.5, "delta": delta / tau, "tau": tau}


def test_the_time_left_is_right_within_a_factor_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """In samples at the speed shown, so that a busy machine does not matter."""
    monkeypatch.setattr(progress, "_SHOWN", 0.0)
    seen: list[Progress] = []
    found = proved(EVENT, **claimed(0.998), seed=5, progress=seen.append)
    total = found.directions["remove"].samples
    ratios = []
    for state in seen:
        drawn, left = state.samples, total - state.samples
        if state.direction == "remove" and drawn > total / 10 and left > total / 10:
            assert state.seconds_left is not None
            ratios.append(state.seconds_left * drawn / state.seconds / left)
    assert len(ratios) > 1
    assert 0.5 < statistics.median(ratios) < 2.0, ratios  # each rests on luck: evidence is random
