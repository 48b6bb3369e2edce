"""``--device``: refused with the remedy where there is no GPU, or told."""

import pytest

from evr._devices import cuda
from evr._plan import sampled

WHY = "no NVIDIA GPU is visible: look"
CLAIM = ["--noise-multiplier", "1", "--sampling-probability", "1e-3", "--steps", "100"]
CLAIM += ["--epsilon", "0.5", "--delta", "2.025e-11", "--tau", "0.8"]


@pytest.fixture(autouse=True)
def _without_a_gpu(monkeypatch, tmp_path):
    monkeypatch.setattr(sampled, "why_not", lambda: WHY)
    monkeypatch.setattr(cuda, "why_not", lambda: WHY)
    monkeypatch.chdir(tmp_path)


def test_cuda_is_refused_where_there_is_no_gpu(refused):
    line = refused("certify", *CLAIM, "--device", "cuda")
    assert WHY in line
    assert "--device cpu or 'auto'" in line


def test_a_device_nobody_knows_is_refused(refused):
    assert "'auto', 'cpu', 'cuda'" in refused("certify", *CLAIM, "--device", "gpu")


def test_auto_says_that_the_processor_drew(evr):
    ran = evr("certify", *CLAIM, "--device", "auto")
    assert ran.code == 0, ran
    assert f"device: cpu, because {WHY}" in ran.err
    assert "device" not in evr("certify", *CLAIM, "--force", "--quiet", "--device", "auto").err
