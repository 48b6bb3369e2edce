"""Who draws: the choice, what is said where there is no GPU, and plans for one."""

import contextlib
import math
import pickle
import re
import subprocess
import sys
import types
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event

import evr
from evr._basics.randomness import Stream
from evr._devices import cuda as device
from evr._kernel.events import Composition
from evr._kernel.sampled.moments import Tilt
from evr._kernel.sampled.plan import ByScale, CappedPlan, MixturePlan, SimplePlan, StepPlan
from evr._kernel.sampled.proposals import built
from evr._kernel.sampled.summary import Work, on_processor
from evr._kernel.verdict.settings import Settings
from evr._plan import sampled
from evr.errors import DeviceError, LedgerError

TRAINING = evr.dpsgd(noise_multiplier=4.0, sampling_probability=0.2, steps=60)
CLAIM: dict[str, Any] = {"epsilon": 1.0, "delta": 0.002875, "tau": 0.8, "seed": 1}
CLAIM["method"] = "sequential"
WHY = "no NVIDIA GPU is visible: look"


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(sampled, "why_not", lambda: WHY)


@pytest.fixture
def seeming_gpu(monkeypatch):
    """Plans for a GPU, drawn by NumPy."""
    monkeypatch.setattr(sampled, "why_not", lambda: None)
    monkeypatch.setattr(device, "why_not", lambda: WHY)


def test_cuda_without_a_gpu_is_refused_with_the_remedy(no_gpu):
    with pytest.raises(DeviceError, match=r"no NVIDIA GPU.*device='cpu' or 'auto'"):
        evr.verify(TRAINING, **CLAIM, device="cuda")


def test_it_is_refused_before_an_attempt_is_counted(no_gpu, tmp_path):
    with evr.Ledger(tmp_path / "ledger.sqlite") as ledger:
        with pytest.raises(DeviceError, match="no NVIDIA GPU"):
            evr.certify(TRAINING, epsilon=1.0, tau=0.8, method="sequential", device="cuda", ledger=ledger)
        assert ledger.attempts() == []


def test_auto_falls_back_and_says_so(no_gpu):
    found = evr.verify(TRAINING, **CLAIM, device="auto")
    assert any(WHY in note for note in found.notes)
    assert found.directions["remove"].plan.device == "cpu"
    same = evr.verify(TRAINING, **CLAIM)
    assert found.directions["remove"].log_wealth == same.directions["remove"].log_wealth


def test_an_attempt_is_not_continued_on_another_device(no_gpu, tmp_path, monkeypatch):
    """Other samples would be a second test within the budget of one."""

    def stop(_):
        raise KeyboardInterrupt

    with evr.Ledger(tmp_path / "ledger.sqlite") as ledger:
        with pytest.raises(KeyboardInterrupt):
            evr.certify(TRAINING, **CLAIM, device="auto", ledger=ledger, progress=stop)
        with monkeypatch.context() as patch:
            patch.setattr(sampled, "why_not", lambda: None)
            with pytest.raises(LedgerError, match="begun with device='cpu', and device='auto' is another one here"):
                evr.resume(ledger)
        assert evr.resume(ledger).accepted


def test_a_device_that_nobody_knows_is_refused():
    with pytest.raises(ValueError, match=r"device='gpu'.*auto"):
        Settings(device="gpu")


def test_a_law_on_a_line_is_refused_with_the_remedy_and_auto_draws_it(seeming_gpu):
    why = r"a law on a line, which a GPU does not draw.*leave device out, or use method='strict'"
    with pytest.raises(DeviceError, match=why):
        evr.verify(TRAINING, **CLAIM, device="cuda")
    found = evr.verify(TRAINING, **CLAIM, device="auto")
    assert found.directions["remove"].plan.device == "cpu"
    assert any(re.search(why, note) for note in found.notes)


def test_a_law_on_a_line_is_refused_before_an_attempt_is_counted(seeming_gpu, tmp_path):
    with evr.Ledger(tmp_path / "ledger.sqlite") as ledger:
        with pytest.raises(DeviceError, match="a law on a line"):
            evr.certify(TRAINING, epsilon=1.0, tau=0.8, method="sequential", device="cuda", ledger=ledger)
        assert ledger.attempts() == []


@pytest.mark.parametrize(
    "event",
    [
        evr.events.RedrawnBinsDpEvent(2.0, 6, 2),
        evr.events.BallsInBinsDpEvent(2.0, 24, 6, (1.0, 0.5)),
        evr.events.BMinSepDpEvent(2.0, 20, 4, 0.1, True, (1.0, 0.5)),
    ],
)
def test_laws_in_many_dimensions_are_drawn_for_a_gpu(seeming_gpu, event):
    how: dict[str, Any] = {"method": "monte_carlo", "relative_error": 0.02, "direction": "remove"}
    estimate = evr.estimate_delta(event, 1.0, **how, seed=1)
    delta = 1.06 * float(estimate)
    found = evr.verify(event, epsilon=1.0, delta=delta / 0.8, tau=0.8, seed=3, device="cuda")
    assert found.accepted
    one = found.directions["remove"]
    assert one.samples > 0
    assert one.plan.device == "cuda"
    assert one.plan.proposal.by_place
    error = math.hypot(one.standard_error, estimate.standard_error)
    assert abs(one.estimate - float(estimate)) < 6 * error
    false: dict[str, Any] = {"epsilon": 1.0, "delta": 0.6 * delta, "max_samples": 20_000}
    assert not evr.verify(event, **false, tau=0.8, seed=3, device="cuda").accepted


def test_more_laws_in_many_dimensions_than_have_places_are_refused(seeming_gpu):
    event = evr.events.RedrawnBinsDpEvent(60.0, 2, 5000)
    claim: dict[str, Any] = {"epsilon": 1.0, "delta": 0.002, "tau": 0.5, "max_samples": 100}
    with pytest.raises(DeviceError, match=r"up to 4,096 equal laws.*device='cpu'"):
        evr.verify(event, **claim, direction="remove", device="cuda")


def test_what_is_beside_laws_in_many_dimensions_is_drawn_by_the_processor(seeming_gpu):
    event = dp_event.ComposedDpEvent([evr.events.RedrawnBinsDpEvent(3.0, 6, 2), dp_event.LaplaceDpEvent(2.0)])
    claim: dict[str, Any] = {"epsilon": 2.0, "delta": 0.4, "tau": 0.5, "direction": "add"}
    found = evr.verify(event, **claim, device="cuda", seed=1)
    assert found.accepted
    proposal = found.directions["add"].plan.proposal
    assert proposal.by_place
    assert len(proposal.kinds) == 1


class FakeRuntimeError(RuntimeError):
    def __init__(self, status):
        super().__init__(f"status {status}")
        self.status = status


def fake_cupy(count):
    """As much of CuPy as ``why_not`` asks."""

    def devices_here():
        if isinstance(count, Exception):
            raise count
        return count

    runtime = types.SimpleNamespace(getDeviceCount=devices_here, CUDARuntimeError=FakeRuntimeError)
    return types.SimpleNamespace(cuda=types.SimpleNamespace(runtime=runtime))


@pytest.mark.parametrize(
    ("cupy", "words"),
    [
        (None, "pip install 'evr-dp[gpu]'"),
        (fake_cupy(0), "no NVIDIA GPU is visible"),
        (fake_cupy(FakeRuntimeError(100)), "no NVIDIA GPU is visible"),
        (fake_cupy(FakeRuntimeError(35)), "the NVIDIA driver is missing, or too old"),
        (fake_cupy(FakeRuntimeError(999)), "status 999"),
    ],
)
def test_why_there_is_no_gpu_is_said_in_words(cupy, words, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    assert words in device.why_not.__wrapped__()


def test_with_a_gpu_nothing_is_in_the_way(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(1))
    assert device.why_not.__wrapped__() is None


@pytest.mark.parametrize("kind", ["memory.OutOfMemoryError", "runtime.CUDARuntimeError"])
def test_what_fails_on_the_gpu_is_said_with_the_remedy(kind, monkeypatch):
    class Failure(Exception):
        pass

    class Other(Exception):
        pass

    parts = {
        name: types.SimpleNamespace(**{error: Failure if kind == f"{name}.{error}" else Other})
        for name, error in (
            ("memory", "OutOfMemoryError"),
            ("compiler", "CompileException"),
            ("runtime", "CUDARuntimeError"),
            ("driver", "CUDADriverError"),
        )
    }
    stream = {"Stream": lambda **_: contextlib.nullcontext()}
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(cuda=types.SimpleNamespace(**parts, **stream)))
    monkeypatch.setattr(device, "_here", types.SimpleNamespace())
    with pytest.raises(DeviceError, match="device='cpu'"), device.at_work():
        raise Failure("out of it")


@pytest.mark.skipif(device.why_not() is not None, reason="no GPU here")
@pytest.mark.parametrize(
    "event",
    [
        evr.events.RedrawnBinsDpEvent(2.0, 6, 2),
        evr.events.BallsInBinsDpEvent(2.0, 24, 6, (1.0, 0.5)),
        evr.events.BMinSepDpEvent(2.0, 20, 4, 0.1, True, (1.0, 0.5)),
        dp_event.ComposedDpEvent([evr.events.RedrawnBinsDpEvent(2.0, 6, 2), dp_event.GaussianDpEvent(5.0)]),
    ],
    ids=["independent bins", "correlated bins", "b-min-sep", "beside a Gaussian"],
)
def test_the_gpu_draws_what_numpy_draws(event, monkeypatch):
    delta = 1.02 * float(evr.estimate_delta(event, 1.0))
    claim: dict[str, Any] = {"epsilon": 1.0, "delta": delta / 0.8, "tau": 0.8, "seed": 3}
    there, again = (evr.verify(event, **claim, device="cuda") for _ in range(2))
    assert any(one.samples for one in there.directions.values())
    monkeypatch.setattr(device, "why_not", lambda: WHY)
    here = evr.verify(event, **claim, device="cuda")
    for name, one in there.directions.items():
        assert one.log_wealth == again.directions[name].log_wealth
        other = here.directions[name]
        assert math.isclose(one.log_wealth, other.log_wealth, rel_tol=1e-9)
        np.testing.assert_allclose(one.estimate, other.estimate, rtol=1e-9)


@pytest.mark.parametrize("backend", [on_processor, device.on_gpu])
@pytest.mark.parametrize(
    ("event", "plan"),
    [
        (TRAINING, CappedPlan((StepPlan(Tilt(1.0, 3.0, -3.0), tuple(np.linspace(-8.0, 8.0, 50).tolist())),))),
        (TRAINING, SimplePlan()),
        (evr.events.BallsInBinsDpEvent(2.0, 50, 5), MixturePlan(ByScale(2.0, 1.0), by_place=True)),
    ],
    ids=["capped", "simple", "bins"],
)
def test_work_is_done_in_a_process_that_has_imported_nothing(event, plan, backend):
    """It imports the device and the proposal by the names in the work."""
    proposal = built(plan, Composition.of(event).simplified("remove"))
    work = Work(proposal, Stream(1, "test"), 64, 0.1, 0.0, math.inf, 5.0, 0.9, backend)
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer)(0, 64, 0.1).total.hex())"
    told = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(work), capture_output=True, check=True)
    assert float.fromhex(told.stdout.decode()) == work(0, 64, 0.1).total
