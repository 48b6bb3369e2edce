"""Masses by power series are those of the curve, place by place."""

from fractions import Fraction
from typing import Any

import pytest

from evr._kernel.pairs.exact import ExactCurve, ExactGaussian
from evr._kernel.pairs.exact.sampled import SampledCurve
from evr._kernel.strict import one_step, series
from evr._kernel.strict.one_step import Losses
from evr._kernel.strict.plan import Grid
from evr.types import Direction
from kernel.strict.stress import plant

LAWS = [
    ExactGaussian(Fraction(1, 4)),
    *(SampledCurve(ExactGaussian(Fraction(1)), Fraction(1, 100), one) for one in Direction),
    SampledCurve(ExactGaussian(Fraction(4)), Fraction(1, 1000), Direction.REMOVE),
]
GRIDS = [Grid(Fraction(1, 700), 3, -20, 30, -60, 200), Grid(Fraction(0), 0, 0, 1, -100, 300)]


def masses_of(law: ExactCurve, grid: Grid, bits: int) -> tuple[list[int], int]:
    return one_step._spread_curve(law, Losses(grid, Fraction(1, 512)), bits)


@pytest.mark.parametrize("bits", [20, 70, 300])
@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("law", LAWS)
def test_series_give_the_integers_of_the_curve(
    law: ExactCurve, grid: Grid, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(series, "_LEAST_BLOCK", 8)
    used, near = list[bool](), series._expanded

    def counted(*given: Any) -> Any:
        used.append(bool(near(*given).series))
        return near(*given)

    monkeypatch.setattr(series, "_expanded", counted)
    by_series = masses_of(law, grid, bits)
    assert any(used) or grid != GRIDS[0] or bits > 100  # elsewhere blocks may have to be too short
    monkeypatch.setattr(type(law), "is_analytic", False)
    assert by_series == masses_of(law, grid, bits)


FAULTS = {
    "masses are rounded down": ("places * ((1 << point) - 1 + shift)", "places * shift"),
    "the rest of the series is left out": ("error = end_above(unit * most, _SEEN)", "error = 1"),
    "masses are a little too small": ("_series_of(mass, size", "_series_of(mass * arb('0.999'), size"),
    "places are off": ("ball(term.shift - middle)", "ball(term.shift - middle + 1)"),
    "the error counts for nothing": ("for shift in (-error, error)", "for shift in (-error << 12, -error << 12)"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [(law, grid, bits) for law in LAWS for grid in GRIDS for bits in (40, 70)]
    right = [masses_of(*case) for case in cases]
    plant(monkeypatch, "series", *FAULTS[fault])
    assert [masses_of(*case) for case in cases] != right
