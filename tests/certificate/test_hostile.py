"""Certificates from strangers: what they would have evr do is bounded before
it is begun, and told.
"""

from __future__ import annotations

import contextlib
import copy
import json
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import evr
from evr._basics.atomic import MOST_BYTES
from evr._certificate.limits import MAX_SECONDS, limited, understood
from evr._kernel.sampled.driver import Driver
from evr._report import page
from evr._wording.statement import describe_event
from evr.errors import CertificateError, TooLongError
from forging import assuming, consistent, text

STEPS = evr.events.opacus_history([(1.0, 0.1, 5)])  # an event that does not call itself DP-SGD
GAUSSIAN = {"type": "GaussianDpEvent", "noise_multiplier": 2.0}
SOON = 20.0  # seconds of this process, on a machine that others use too
Alter = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def genuine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A certificate whose steps are drawn one by one, as they come."""
    ledger = tmp_path_factory.mktemp("hostile") / "ledger.sqlite"
    options: dict[str, Any] = {"proposal": "simple", "max_samples": 10**6, "seed": 1, "ledger": ledger}
    certificate = evr.certify(STEPS, epsilon=0.5, tau=0.5, **options)
    assert certificate.accepted
    assert certificate.verification.directions["remove"].samples > 0
    return certificate.document()


def sealed(document: dict[str, Any]) -> evr.Certificate:
    return evr.Certificate.from_json(text(assuming(document)))


_MADE: dict[Alter, evr.Certificate] = {}


def hostile(genuine: dict[str, Any], alter: Alter) -> evr.Certificate:
    """Consistent with itself. Certificates are frozen, and large ones take seconds to seal: each is made once."""
    if alter not in _MADE:
        document = copy.deepcopy(genuine)
        alter(document)
        _MADE[alter] = sealed(consistent(document))
    return _MADE[alter]


def many_steps(document: dict[str, Any]) -> None:
    """A single block of these takes years."""
    document["event"]["count"] = 10**15


def many_kinds(document: dict[str, Any]) -> None:
    step = document["event"]["event"]
    kinds = [{**step, "sampling_probability": 0.1 + i * 1e-6} for i in range(5000)]
    document["event"] = {"type": "ComposedDpEvent", "events": kinds}


def many_parts(document: dict[str, Any]) -> None:
    document["event"] = {"type": "ComposedDpEvent", "events": [{"type": "NoOpDpEvent"}] * 10**5}


def many_outcomes(document: dict[str, Any]) -> None:
    kinds = [
        {"type": "DiscreteGaussianDpEvent", "sigma": 19_000.0 + i, "sensitivity": 1, "dimension": 1} for i in range(100)
    ]
    document["event"] = {"type": "ComposedDpEvent", "events": kinds}


def many_means(document: dict[str, Any]) -> None:
    number = 10**5
    document["event"] = {
        "type": "MixtureOfGaussiansDpEvent",
        "standard_deviation": 1.0,
        "sensitivities": [i / number for i in range(number)],
        "sampling_probs": [1 / number] * number,
    }


def many_iterations(document: dict[str, Any]) -> None:
    document["event"] = {
        "type": "BallsInBinsDpEvent",
        "noise_multiplier": 1.0,
        "iterations": 10**11,
        "cycle_length": 1,
        "strategy": [1.0, 0.5],
    }


def many_masses(document: dict[str, Any]) -> None:
    """Of a proof in exact arithmetic."""
    grid, window = ["0", 0, 0, 0, 0, 1 << 26], [0, 0, 0, 0, 1 << 26]
    plan = {"bits": 6_000, "spacing": "1/1000", "grids": [grid], "windows": [window] * 1000}
    proof = {"bound": "1/1000", "plan": plan, "digest": "0" * 64}
    parts = document["verification"]["directions"].items()
    directions = {name: {"accepted": True, "reason": part["reason"], "strict": proof} for name, part in parts}
    document["verification"] = {"method": "strict", "directions": directions}
    document["claim"].pop("tau")
    document["release"] = {"attempt": document["release"]["attempt"]}


def many_places(document: dict[str, Any]) -> None:
    """Of steps that are composed."""
    tilt = {"order": 1.0, "cap": 1.0, "floor": -1.0}
    kind = {"tilt": tilt, "edges": [0.0, 0.5]}
    places = [{"knots": [0.0, 1.0], "parts": 1 << 14}] * 100
    for fields in document["verification"]["directions"].values():
        fields["plan"]["proposal"] = {"kinds": [kind], "places": places, "name": "capped"}


LARGE = [many_outcomes, many_means, many_iterations]
SLOW = [many_kinds]
ODD = [many_steps, many_places]


def names(alterations: Sequence[Alter]) -> Any:
    return pytest.mark.parametrize("alter", alterations, ids=lambda alter: alter.__name__)


@names([*LARGE, many_masses])
def test_what_would_keep_a_replay_busy_is_refused_before_it_is_begun(genuine: dict[str, Any], alter: Alter) -> None:
    certificate = hostile(genuine, alter)
    start = time.process_time()
    with pytest.raises(TooLongError, match=r"more than the limit of .*--max-seconds"):
        evr.replay(certificate, workers=1)
    assert time.process_time() - start < SOON


@names(LARGE)
def test_what_would_keep_a_page_busy_is_refused_before_it_is_begun(genuine: dict[str, Any], alter: Alter) -> None:
    certificate = hostile(genuine, alter)
    start = time.process_time()
    with pytest.raises(TooLongError, match="more than the limit of"):
        page.render(certificate, max_seconds=600.0)
    assert time.process_time() - start < SOON


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it may ring in a destructor
@names(SLOW)
def test_an_alarm_stops_what_is_slow_and_not_large(genuine: dict[str, Any], alter: Alter) -> None:
    certificate = hostile(genuine, alter)
    start = time.process_time()
    with pytest.raises(TooLongError, match="more than 1 s"):
        evr.replay(certificate, workers=1, max_seconds=1.0)
    assert time.process_time() - start < SOON


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it may ring in a destructor
def test_an_alarm_stops_a_slow_page(genuine: dict[str, Any]) -> None:
    with pytest.raises(TooLongError, match=r"more than 0.1 s"):
        page.render(hostile(genuine, many_kinds), max_seconds=0.1)


@names(ODD)
def test_what_the_kernel_refuses_does_not_agree(genuine: dict[str, Any], alter: Alter) -> None:
    certificate = hostile(genuine, alter)
    start = time.process_time()
    assert not evr.replay(certificate, workers=1).agrees
    assert time.process_time() - start < SOON


@names([*LARGE, *SLOW, *ODD, many_masses])
def test_words_for_them_are_few_and_quick(genuine: dict[str, Any], alter: Alter) -> None:
    start = time.process_time()
    assert len(describe_event(hostile(genuine, alter).event)) < 5000
    assert time.process_time() - start < SOON


def test_how_long_a_replay_may_take_is_the_callers_to_say(genuine: dict[str, Any]) -> None:
    certificate = sealed(genuine)
    with pytest.raises(TooLongError, match="more than 1e-09 s"):
        evr.replay(certificate, max_seconds=1e-9)
    assert evr.replay(certificate, max_seconds=None).agrees
    assert evr.replay(certificate, max_seconds=1e9).agrees


def test_a_fresh_replay_stops_in_time(genuine: dict[str, Any]) -> None:
    """A claim that is true by next to nothing needs more samples than anybody draws; the
    certificate says there were few.
    """

    def tight(document: dict[str, Any]) -> None:
        delta = evr.estimate_delta(STEPS, 0.5).value
        document["claim"] |= {"tau": 0.9999, "delta": delta / 0.9999}
        document["verification"]["max_samples"] = 10**15
        for section in document["verification"]["directions"].values():
            section |= {"log_wealth": 1000.0, "correction": 0.0}
            section.pop("clip", None)
            section["plan"]["clip"] = None

    certificate = hostile(genuine, tight)
    start = time.monotonic()
    with pytest.raises(TooLongError, match="more than 1 s"):
        evr.replay(certificate, fresh=True, workers=1, max_seconds=1.0)
    assert time.monotonic() - start < 60
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def test_the_callers_timer_goes_on(genuine: dict[str, Any]) -> None:
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1000.0, 500.0)
        assert evr.replay(sealed(genuine), max_seconds=60.0).agrees
        left, often = signal.getitimer(signal.ITIMER_REAL)
        assert 0 < left < 1000.0
        assert often == 500.0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # an alarm may ring in a callback of gc
def test_what_ends_too_late_is_late() -> None:
    """Work that draws samples is not stopped from outside, and may end before it sees that it should."""
    late = eval("lambda: time.sleep(0.2)", {"__name__": Driver.__module__, "time": time})
    with pytest.raises(TooLongError, match="drawing took more than"):
        limited(0.01, "drawing", late, threading.Event())
    assert limited(60.0, "drawing", late, threading.Event()) is None


def test_other_threads_have_alarms_too(genuine: dict[str, Any]) -> None:
    certificate = hostile(genuine, many_kinds)
    with ThreadPoolExecutor(1) as executor:
        drawn = executor.submit(page.render, certificate, max_seconds=0.1)
        assert isinstance(drawn.exception(), TooLongError)
        assert executor.submit(lambda: "goes on").result() == "goes on"


def deep(levels: int) -> dict[str, Any]:
    event: dict[str, Any] = GAUSSIAN
    for _ in range(levels):
        event = {"type": "SelfComposedDpEvent", "event": event, "count": 1}
    return event


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("event",), deep(101), "more than 100 levels"),
        (("event",), deep(300), "more than 100 levels"),
        (("verification", "samples"), 10**4000, "JSON cannot hold"),
        (("release", "attempt"), 10**300, "JSON cannot hold"),
        (("verification", "directions", "remove", "trace"), [[0.0] * 4] * 10**5, "at most 1000 items"),
        (("verification", "directions", "remove", "trace"), [[0.0] * 10**5], "at most 4 items"),
        (("verification", "directions", "remove", "reason"), "a" * 10**6, "at most 100000 characters"),
        (("verification", "entropy"), "a" * 10**5, "is not as evr writes it"),
        (("claim", "epsilon"), 10**400, "JSON cannot hold"),
        (("statement",), "a" * 10**6, "at most 100000 characters"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_too_large_is_not_read(
    genuine: dict[str, Any], path: tuple[str, ...], value: Any, message: str
) -> None:
    document = copy.deepcopy(genuine)
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    start = time.process_time()
    with pytest.raises(CertificateError, match=message) as raised:
        sealed(document)
    assert len(str(raised.value)) < 1000
    assert time.process_time() - start < SOON


def test_files_without_end_are_not_read(tmp_path: Path) -> None:
    if Path("/dev/zero").exists():
        with pytest.raises(CertificateError, match="larger than 32 MiB"):
            evr.Certificate.load("/dev/zero")
    file = tmp_path / "large.json"
    file.write_bytes(b" " * (MOST_BYTES + 1))
    with pytest.raises(CertificateError, match="larger than 32 MiB"):
        evr.Certificate.load(file)


def test_words_of_wide_and_nested_compositions_are_few() -> None:
    nested: dict[str, Any] = GAUSSIAN
    for _ in range(5):
        nested = {"type": "ComposedDpEvent", "events": [nested] * 6}
    assert len(describe_event(nested)) < 10_000


def test_what_everybody_does_is_not_refused(genuine: dict[str, Any]) -> None:
    for event in (
        {"type": "SelfComposedDpEvent", "event": GAUSSIAN, "count": 10**9},
        {"type": "DiscreteGaussianDpEvent", "sigma": 20_000.0, "sensitivity": 1, "dimension": 1},
        {"type": "ComposedDpEvent", "events": [GAUSSIAN] * 10_000},
        {
            "type": "BallsInBinsDpEvent",
            "noise_multiplier": 1.0,
            "iterations": 2000,
            "cycle_length": 100,
            "strategy": [1.0, 0.5],
        },
    ):
        understood(sealed(consistent({**genuine, "event": event})), MAX_SECONDS)


def test_an_endless_integer_in_a_plan_is_no_crash(genuine: dict[str, Any]) -> None:
    document = copy.deepcopy(genuine)
    section = next(iter(document["verification"]["directions"].values()))
    section["plan"]["variance"] = 10**400
    with pytest.raises(CertificateError, match="JSON cannot hold"):
        evr.Certificate.from_json(json.dumps(document))


def test_a_replay_that_is_stopped_leaves_no_lock_taken(genuine: dict[str, Any]) -> None:
    """One lock serves the executors of a process: work that is stopped while it hands out a block must not keep it."""
    certificate = sealed(genuine)
    for seconds in (1e-9, 1e-3, 5e-3, 2e-2):
        with contextlib.suppress(TooLongError):
            evr.replay(certificate, max_seconds=seconds, workers=2)
    with ThreadPoolExecutor(1) as executor:
        assert executor.submit(lambda: "goes on").result(timeout=10) == "goes on"
    assert threading.active_count() < 20
