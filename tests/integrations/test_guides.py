"""The scripts of the guides run as they are printed: quickstarts of others, of which at most five lines are evr's. Each
gives a certificate of the event that one computes by hand.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from dp_accounting import dp_event

import evr
from integrations.programs import PATIENCE, environment

GUIDES = Path(__file__).parents[2] / "docs" / "guide"
OURS = re.compile(r"\bevr\b|\brecord|\bRecord\(|PrivateTrainer|Accountant\(|callback|accountant|seed=|certif")


def steps(noise, rate, count):
    return evr.dpsgd(noise_multiplier=noise, sampling_probability=rate, steps=count)


SCRIPTS = [  # guide, the package, what names its script, the event by hand
    ("train_with_opacus", "opacus", "evr.record(", steps(1.1, 0.1, 20)),
    ("lightning", "lightning", "evr.integrations.lightning", steps(1.1, 0.1, 20)),
    ("hugging_face", "transformers", "PrivateTrainer", steps(1.2, 1 / 6, 12)),
    ("hugging_face", "accelerate", "Accelerator", steps(1.1, 0.1, 10)),
    ("jax_privacy", "jax_privacy", "evr.integrations.jax ", steps(1.1, 0.1, 20)),
    ("jax_privacy", "keras", "evr.integrations.keras", steps(1.1, 0.1, 20)),
    ("federated", "flwr", "run_simulation", dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(4.0), 5)),
]


@pytest.mark.parametrize(("guide", "package", "name", "event"), SCRIPTS, ids=[package for _, package, *_ in SCRIPTS])
def test_the_script_of_a_guide(guide, package, name, event, tmp_path):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"needs {package}")
    blocks = re.findall(r"```python\n(.*?)```", (GUIDES / f"{guide}.md").read_text("utf-8"), flags=re.S)
    whole = [block for block in blocks if block.startswith("import") and "model.certificate.json" in block]
    (script,) = [block for block in whole if name in block]
    ours = [line for line in script.splitlines() if OURS.search(line)]
    assert 0 < len(ours) <= 5, ours
    (tmp_path / "script.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    certificate = evr.Certificate.load(tmp_path / "model.certificate.json")
    assert certificate.accepted
    assert certificate.dp_event() == event
    assert certificate.statement in done.stdout
