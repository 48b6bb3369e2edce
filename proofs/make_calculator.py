"""Writes docs/calculator.html: the calculator as a page of its own, without a network.

python proofs/make_calculator.py
"""

from __future__ import annotations

from pathlib import Path

from evr._report.calculator import page

PAGE = Path(__file__).parents[1] / "docs" / "calculator.html"

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
