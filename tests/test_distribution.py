"""The distribution is ``evr-dp``: the name ``evr`` on PyPI belongs to somebody else, and no text
may send anybody there.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SKIPPED = {".git", ".venv", "node_modules", "site", "build", "dist", "out"}
PICTURES = {".png", ".svg", ".pdf", ".ico"}

_OURS = r"""(?<![\w./=-])['"`]?evr"""  # the bare name, not a path, not part of a longer one
_TOOL = r"\b(?:pip3?|pipx|uvx?|conda|mamba|poetry|pdm|hatch|rye)\b"
STRANGERS = re.compile(
    # pip install evr
    rf"{_TOOL}[^\n]*?\b(?:install|add|run|require|download|wheel)\b[^\n]*?{_OURS}(?![\w./-])"
    rf"|{_OURS}\[[a-z]"  # evr[extra]
    rf"|{_OURS}\s*(?:==|>=|<=|~=|!=)\s*\d",  # evr==1.0, a requirement
    re.IGNORECASE,
)


def texts() -> Iterator[tuple[Path, str]]:
    """Every text file that is in the repository, or would be with the next commit."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0:
        files = [ROOT / name for name in listed.stdout.splitlines()]
    else:  # an unpacked archive
        files = [f for f in ROOT.rglob("*") if not SKIPPED & set(f.relative_to(ROOT).parts)]
    for file in files:
        if file.is_file() and file.suffix not in PICTURES and file != Path(__file__).resolve():
            yield file, file.read_text("utf-8", errors="replace")


def test_no_text_sends_anybody_to_a_strangers_package() -> None:
    read = 0
    for file, text in texts():
        read += 1
        for number, line in enumerate(text.splitlines(), 1):
            found = STRANGERS.search(line)
            assert found is None, (
                f"{file.relative_to(ROOT)}:{number} says {found.group()!r}: the distribution is evr-dp"
            )
    assert read > 150


@pytest.mark.parametrize(
    "line",
    [
        "pip install evr",
        "python -m pip install --upgrade 'evr[compare]'",
        '`pip install "evr"`',
        "uv add evr",
        "pipx install evr",
        "conda install -c conda-forge evr",
        "brought by evr[compare]",
        "# (evr==0.1.0)",
        "pip install numpy evr",
    ],
)
def test_what_is_caught(line: str) -> None:
    assert STRANGERS.search(line)


@pytest.mark.parametrize(
    "line",
    [
        "pip install evr-dp",
        "pip install 'evr-dp[compare]'",
        "pip install -e .[test]",
        "pip install ./evr",
        "evr certify examples/dpsgd.toml",
        "import evr",
        "This creates `.venv`, installs evr into it and runs it",
    ],
)
def test_what_is_not(line: str) -> None:
    assert not STRANGERS.search(line)


def test_the_metadata_say_so_too() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["name"] == "evr-dp"
    assert project["scripts"] == {"evr": "evr.cli:main"}
