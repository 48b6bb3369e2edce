"""A strict bound is never below the truth, whatever the plan; and each fault planted into the
kernel is seen.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import mpmath as mp
import pytest

from kernel.strict.stress import lattice_case, lost_in_splits, plant, random_case, violations


def test_never_below_the_truth_under_any_plan():
    assert list(violations(400)) == []


def test_never_below_the_truth_on_a_lattice():
    assert list(violations(60, lattice_case)) == []


def test_splits_lose_nothing():
    assert list(lost_in_splits(200)) == []


def test_lattice_bounds_are_tight_so_that_they_would_show_a_fault():
    for seed in range(30):
        case = lattice_case(seed)
        assert case.bound() <= case.truth() * (1 + mp.mpf(10) ** -9) + 500 * mp.mpf(2) ** -case.plan.bits


FAULTS = {
    "products rounded down": (
        "masses",
        "raised = wide.packed + at_each(len(wide), wide.width, (1 << bits) - 1)",
        "raised = wide.packed",
    ),
    "balls rounded down": (
        "rounding",
        "rounded = number.ceil().unique_fmpz()",
        "rounded = number.floor().unique_fmpz()",
    ),
    "what escapes the window is dropped": ("grid_law", "min(law.infinite + escaped, 1 << law.bits)", "law.infinite"),
    "infinite losses of a step are dropped": ("one_step", "return masses[:-1], masses[-1]", "return masses[:-1], 0"),
    "infinity of products is the greater one": ("grid_law", "min(a + b - (a * b >> bits), 1 << bits)", "max(a, b)"),
    "infinity is left out of the sum": ("last_sum", "total + (self.infinite << self.bits)", "total"),
    "a positive term is left out": ("last_sum", "if other >= self.first.first:", "if other > self.first.first:"),
    "the cut is one higher": (
        "last_sum",
        "cut = (epsilon - self.offset) // self.spacing",
        "cut = (epsilon - self.offset) // self.spacing + 1",
    ),
    "a negative term is included": ("last_sum", "other = cut + 1 - place", "other = cut - place"),
    "the cut is one lower": (
        "last_sum",
        "cut = (epsilon - self.offset) // self.spacing",
        "cut = (epsilon - self.offset) // self.spacing - 1",
    ),
    "shares up are rounded down": (
        "grid_law",
        "alike(total, raised.rounded_up(bits), masses.most)",
        "alike(total, raised.rounded_down(bits), masses.most)",
    ),
    "odd masses go down": (
        "grid_law",
        "moved = total.packed - up.packed + (up.packed << 8 * up.width)",
        "moved = total.packed",
    ),
    "above the top all stays": (
        "grid_law",
        "return inside + Masses.of(top, [kept]), above.most - kept",
        "return inside + Masses.of(top, [above.most]), 0",
    ),
    "below the floor all is lost": ("grid_law", "if masses.first < floor:", "if False:"),
    "fine parts are lost where they meet coarse ones": (
        "grid_law",
        "coarse = (both + both + x.coarse) * x.coarse",
        "coarse = x.coarse * x.coarse",
    ),
    "once instead of twice": ("grid_law", "(both + both + x.coarse)", "(both + x.coarse)"),
    "the loss is put below": (
        "one_step",
        "masses[upper] += p * share\n        masses[upper - 1] += p * zero.max(one - share)",
        "masses[upper - 1] += p",
    ),
    "what is subtracted is rounded up": (
        "last_sum",
        "step = power_below(-self.spacing, wide)",
        "step = (power_below(-self.spacing, 8) + 1) << (wide - 8)",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault, monkeypatch):
    plant(monkeypatch, *FAULTS[fault])
    seen = itertools.chain(violations(60, lattice_case), lost_in_splits(60), violations(400))
    assert next(seen, None) is not None, f"{fault}: no bound fell below the truth"


def test_plans_that_do_not_fit_are_refused():
    case = random_case(0)
    with pytest.raises(ValueError, match="need 1 and"):
        type(case)(case.steps[:1], case.tables[:1], case.epsilon, case.plan.__class__(8, Fraction(1), (), ())).bound()
