"""Judge accountants by proved bounds. Nothing but the standard library is needed, and pytest for the plugin.

An *accountant* is a function from a case and a question to a number that it calls an upper bound, or None where it
has no answer. A *case* is a line of ``cases.jsonl``; README.md says what its fields mean. As a plugin of pytest:

    pytest_plugins = ["evr_conformance"]  # in conftest.py, this folder being on the path

    def test_delta(case):  # once for each case
        check(case, "delta", my_accountant)
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

CASES = Path(__file__).with_name("cases.jsonl")
Accountant = Callable[[dict[str, Any], str], float | None]


class Verdict(NamedTuple):
    """``holds``, ``refuted`` or ``loose``, and by which share of the proved bound."""

    word: str
    share: float = 0.0

    def __str__(self) -> str:
        return self.word if self.word == "holds" else f"{self.word} by {self.share:.1e}"


def load(path: Path = CASES) -> list[dict[str, Any]]:
    """The cases of a file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def judge(claim: float, lower: Fraction, upper: Fraction) -> Verdict:
    """Refuted below the lower bound, or where it is no number; loose above the upper one; between the two it holds,
    as far as is known.
    """
    claim = float(claim)  # other libraries have floats of their own
    if not claim >= lower:
        return Verdict("refuted", float(1 - Fraction(claim) / lower) if math.isfinite(claim) else math.inf)
    if claim > upper:
        return Verdict("loose", float(claim / upper - 1) if claim < float("inf") else float("inf"))
    return Verdict("holds")


def verdict(case: dict[str, Any], question: str, accountant: Accountant) -> Verdict | None:
    """What comes of asking an accountant for ``"delta"`` or ``"epsilon"``; None where there is no answer."""
    bounds = case.get(question)
    claim = None if bounds is None else accountant(case, question)
    return None if claim is None else judge(claim, *(Fraction(bounds[side]) for side in ("lower", "upper")))


def check(case: dict[str, Any], question: str, accountant: Accountant) -> None:
    """Fail a test of pytest if the accountant's bound is refuted; skip it if there is none."""
    import pytest

    found = verdict(case, question, accountant)
    if found is None:
        pytest.skip(f"no answer to {question} of {case['id']}")
    assert found.word != "refuted", f"{question} of {case['id']} is {found}"


def pytest_generate_tests(metafunc: Any) -> None:
    if "case" in metafunc.fixturenames:
        cases = load()
        metafunc.parametrize("case", cases, ids=[case["id"] for case in cases])
