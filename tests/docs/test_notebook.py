"""The example notebook runs from top to bottom, and shows what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")
pytest.importorskip("pandas")

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
pytestmark = pytest.mark.filterwarnings("default")  # of Jupyter's own


def shown(cell) -> list[str]:
    """What is below a cell, without what differs from run to run."""
    texts = ["".join(output.get("text") or output.get("data", {}).get("text/plain", "")) for output in cell.outputs]
    # times, digests, and bounds that depend on how fine a proof is
    loose = r"(seconds|error)=[\d.e-]+|digest='[^']*'|at (most|least) [\d.e-]+"
    timeless = [re.sub(loose, "", text) for text in texts]
    rounded = [re.sub(r"\d+\.\d{5,}(e-?\d+)?", _digits, text).strip() for text in timeless]
    return [text for text in rounded if text]


def _digits(found: re.Match[str]) -> str:
    return f"{float(found[0]):.5g}"


def test_there_is_one() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_it_runs_and_shows_what_it_shows(path: Path, tmp_path: Path) -> None:
    stored = nbformat.read(path, as_version=4)
    again = nbformat.read(path, as_version=4)
    nbformat.validate(again)
    client = nbclient.NotebookClient(
        again, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    for before, now in zip(stored.cells, again.cells, strict=True):
        if before.cell_type == "code":
            assert shown(now) == shown(before), before.source
    pictures = [
        output
        for cell in again.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "image/png" in output.get("data", {})
    ]
    tables = [output for cell in again.cells for output in cell.get("outputs", [])]
    assert pictures
    assert sum("text/html" in output.get("data", {}) for output in tables) >= 3
    assert not list(tmp_path.iterdir()), "it leaves files behind"
