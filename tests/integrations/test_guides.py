"""The scripts of the guides run as they are printed."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import evr

GUIDES = Path(__file__).parents[2] / "docs" / "guide"
PATIENCE = 900.0


@pytest.mark.parametrize(
    ("guide", "extra", "steps"),
    [("lightning", "lightning", 20), ("hugging_face", "transformers", 12), ("jax_privacy", "jax_privacy", 20)],
)
def test_the_script_of_a_guide(guide, extra, steps, tmp_path):
    if importlib.util.find_spec(extra) is None:
        pytest.skip(f"needs {extra}")
    blocks = re.findall(r"```python\n(.*?)```", (GUIDES / f"{guide}.md").read_text("utf-8"), flags=re.S)
    (script,) = [block for block in blocks if block.startswith("import") and "model.certificate.json" in block]
    (tmp_path / "script.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(evr.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert evr.Record.load(tmp_path / "training.record.jsonl").event.count == steps
    assert evr.Certificate.load(tmp_path / "model.certificate.json").accepted
