"""Writes docs/check_proof.html: the checker as a page of its own, without a network.

python proofs/make_page.py
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "check_proof.html"
PARTS = HERE.parent / "src" / "evr" / "_report"


def page() -> str:
    """The page's text."""
    checker = (PARTS / "verifier.js").read_text() + (PARTS / "checking.js").read_text()
    text = (HERE / "page.html").read_text().replace("@PANEL@", (PARTS / "panel.js").read_text())
    return text.replace("@CHECKER@", checker)


if __name__ == "__main__":
    PAGE.write_text(page())
