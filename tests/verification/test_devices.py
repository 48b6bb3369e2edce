"""Who draws: the choice, what is said where there is no GPU, and plans for one."""

import math
import re
import sys
import types
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event

import evr
from evr.bounds import Tilt
from evr.errors import DeviceError
from evr.laws import Step
from evr.mechanisms import Composition
from evr.proving import devices
from evr.sampling import Kind, Plan
from evr.sampling.cuda import device
from evr.verification.settings import Settings

TRAINING = evr.dpsgd(noise_multiplier=4.0, sampling_probability=0.2, steps=60)
MANY = evr.dpsgd(noise_multiplier=2.0, sampling_probability=0.1, steps=200)
CLAIM: dict[str, Any] = {"epsilon": 1.0, "delta": 0.0023, "tau": 0.8, "seed": 1}
WHY = "no NVIDIA GPU is visible: look"


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(devices, "why_not", lambda: WHY)


@pytest.fixture
def seeming_gpu(monkeypatch):
    """Plans for a GPU, drawn by NumPy."""
    monkeypatch.setattr(devices, "why_not", lambda: None)
    monkeypatch.setattr(devices, "most_outcomes", lambda: 1 << 12)
    monkeypatch.setattr(device, "why_not", lambda: WHY)


def test_cuda_without_a_gpu_is_refused_with_the_remedy(no_gpu):
    with pytest.raises(DeviceError, match=r"no NVIDIA GPU.*device='cpu' or 'auto'"):
        evr.verify(TRAINING, **CLAIM, device="cuda")


def test_it_is_refused_before_an_attempt_is_counted(no_gpu, tmp_path):
    with evr.Ledger(tmp_path / "ledger.sqlite") as ledger:
        with pytest.raises(DeviceError, match="no NVIDIA GPU"):
            evr.certify(TRAINING, epsilon=1.0, tau=0.8, device="cuda", ledger=ledger)
        assert ledger.attempts() == []


def test_auto_falls_back_and_says_so(no_gpu):
    found = evr.verify(TRAINING, **CLAIM, device="auto")
    assert any(WHY in note for note in found.notes)
    assert found.directions["remove"].plan.device == "cpu"
    same = evr.verify(TRAINING, **CLAIM)
    assert found.directions["remove"].log_wealth == same.directions["remove"].log_wealth


def test_a_device_that_nobody_knows_is_refused():
    with pytest.raises(ValueError, match=r"device='gpu'.*auto"):
        Settings(device="gpu")


@pytest.mark.parametrize(
    ("event", "most", "samplers"),
    [
        (TRAINING, 2, {"remove": "mixture_philox/1", "add": "envelope_philox/1"}),
        (MANY, 4096, {"remove": "outcomes_philox/1", "add": "outcomes_philox/1"}),
    ],
)
def test_plans_for_a_gpu_verify_the_same_claims(seeming_gpu, monkeypatch, event, most, samplers):
    monkeypatch.setattr(devices, "most_outcomes", lambda: most)
    delta = float(evr.estimate_delta(event, 1.0))
    found = evr.verify(event, epsilon=1.0, delta=delta, tau=0.7, seed=3, device="cuda")
    assert found.accepted
    assert found.notes == evr.verify(event, epsilon=1.0, delta=1.0, seed=3).notes
    for name, one in found.directions.items():
        assert one.plan.device == "cuda"
        assert one.plan.kinds[0].sampler == samplers[name]
        assert one.block_size >= 256
        assert abs(one.estimate - delta) < 6 * one.standard_error or one.estimate < delta


def test_a_false_claim_is_not_accepted_from_plans_for_a_gpu(seeming_gpu):
    delta = float(evr.estimate_delta(MANY, 1.0))
    false: dict[str, Any] = {"epsilon": 1.0, "delta": 0.6 * delta, "max_samples": 20_000}
    assert not evr.verify(MANY, **false, tau=0.8, seed=3, device="cuda").accepted


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
    found = evr.verify(event, epsilon=1.0, delta=delta, tau=0.8, seed=3, device="cuda")
    assert found.accepted
    one = found.directions["remove"]
    assert one.samples > 0
    assert one.plan.device == "cuda"
    assert one.plan.kinds[0].sampler == "parts_philox/1"
    error = math.hypot(one.standard_error, estimate.standard_error)
    assert abs(one.estimate - float(estimate)) < 6 * error
    false: dict[str, Any] = {"epsilon": 1.0, "delta": 0.6 * delta, "max_samples": 20_000}
    assert not evr.verify(event, **false, tau=0.8, seed=3, device="cuda").accepted


def test_more_laws_in_many_dimensions_than_have_places_are_refused(seeming_gpu):
    event = evr.events.RedrawnBinsDpEvent(60.0, 2, 5000)
    claim: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-3, "tau": 0.5, "max_samples": 100}
    with pytest.raises(DeviceError, match=r"up to 4,096 equal laws.*device='cpu'"):
        evr.verify(event, **claim, direction="remove", device="cuda")


def test_what_is_not_drawn_beside_laws_in_many_dimensions_is_said(seeming_gpu):
    event = dp_event.ComposedDpEvent(
        [evr.events.RedrawnBinsDpEvent(3.0, 6, 2), dp_event.LaplaceDpEvent(2.0)]
    )
    claim: dict[str, Any] = {"epsilon": 2.0, "delta": 0.2, "tau": 0.5, "direction": "add"}
    why = r"and not Lap\(1, 2\) \| Lap\(0, 2\) beside a law in many dimensions: take device='cpu'"
    with pytest.raises(DeviceError, match=why):
        evr.verify(event, **claim, device="cuda", max_samples=1000)
    found = evr.verify(event, **claim, device="auto", seed=1)
    assert any(re.search(why, note) for note in found.notes)


def test_few_steps_of_any_law_are_merged_for_a_gpu(seeming_gpu):
    few = dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(2.0), 5)
    delta = float(evr.estimate_delta(few, 1.5))
    found = evr.verify(few, epsilon=1.5, delta=delta, tau=0.7, seed=1, device="cuda")
    assert found.accepted
    assert found.directions["remove"].plan.kinds[0].sampler == "outcomes_philox/1"


def test_what_a_gpu_does_not_draw_is_refused_and_auto_draws_it(seeming_gpu):
    claim: dict[str, Any] = {**CLAIM, "direction": "remove", "proposal": "single"}
    with pytest.raises(DeviceError, match=r"does not draw the proposal 'single'.*device='cpu'"):
        evr.verify(TRAINING, **claim, max_samples=500, device="cuda")
    found = evr.verify(TRAINING, **claim, max_samples=500, device="auto")
    assert found.directions["remove"].plan.device == "cpu"
    assert any("does not draw" in note for note in found.notes)


def test_too_many_steps_to_have_places_are_refused(seeming_gpu):
    steps = Composition.of(MANY).simplified("remove")
    plan = Plan("capped", (Kind(Tilt(), None, ""),), cells=1024)
    with pytest.raises(DeviceError, match="a GPU draws up to"):
        devices.placed(plan, (Step(steps[0].pair, 1 << 30),))


class FakeRuntimeError(RuntimeError):
    def __init__(self, status):
        super().__init__(f"status {status}")
        self.status = status


def fake_cupy(count, driver=12040):
    """As much of CuPy as ``why_not`` asks."""

    def devices_here():
        if isinstance(count, Exception):
            raise count
        return count

    runtime = types.SimpleNamespace(
        getDeviceCount=devices_here,
        driverGetVersion=lambda: driver,
        CUDARuntimeError=FakeRuntimeError,
    )
    return types.SimpleNamespace(cuda=types.SimpleNamespace(runtime=runtime))


@pytest.mark.parametrize(
    ("cupy", "words"),
    [
        (None, "pip install 'evr-dp[gpu]'"),
        (fake_cupy(0), "no NVIDIA GPU is visible"),
        (fake_cupy(FakeRuntimeError(100)), "no NVIDIA GPU is visible"),
        (fake_cupy(FakeRuntimeError(35)), "the driver of the GPU is too old"),
        (fake_cupy(FakeRuntimeError(35), driver=0), "there is no NVIDIA driver"),
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
def test_what_fails_on_the_gpu_is_said_with_the_remedy(kind):
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
    cupy = types.SimpleNamespace(cuda=types.SimpleNamespace(**parts))
    with pytest.raises(DeviceError, match="device='cpu'"), device._in_words(cupy):
        raise Failure("out of it")


@pytest.mark.skipif(device.why_not() is not None, reason="no GPU here")
@pytest.mark.parametrize("event", [TRAINING, MANY])
def test_the_gpu_draws_what_numpy_draws(event, monkeypatch):
    delta = float(evr.estimate_delta(event, 1.0))
    claim: dict[str, Any] = {"epsilon": 1.0, "delta": delta, "tau": 0.8, "seed": 3}
    there, again = (evr.verify(event, **claim, device="cuda") for _ in range(2))
    monkeypatch.setattr(device, "why_not", lambda: WHY)
    here = evr.verify(event, **claim, device="cuda")
    for name, one in there.directions.items():
        assert one.log_wealth == again.directions[name].log_wealth
        other = here.directions[name]
        assert one.histogram == other.histogram
        assert math.isclose(one.log_wealth, other.log_wealth, rel_tol=1e-9)
        np.testing.assert_allclose(one.estimate, other.estimate, rtol=1e-9)
