"""Guides that are walked as a new reader walks them: every command, in order, in an empty folder."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from evr.cli import main

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here")
def test_the_guide_to_attestations(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```console\n(.*?)^```", (GUIDE / "attest.md").read_text("utf-8"), flags=re.S | re.M)
    shown = [one.partition("\n") for block in blocks for one in re.split(r"^\$ ", block, flags=re.M)[1:]]
    assert len(shown) == 9
    for command, _, output in shown:
        words = shlex.split(command)
        if words[0] != "evr":
            subprocess.run(words, check=True, capture_output=True)
            continue
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as left:
            main()
        assert not left.value.code, command
        printed = capsys.readouterr().out
        for line in output.splitlines():
            assert line in printed, command
    assert {path.name for path in tmp_path.glob("model.*")} == {
        "model.safetensors",
        "model.attestation.json",
        "model.statement.json",
    }
