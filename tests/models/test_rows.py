"""Every row of the table of meanings against its model."""

from __future__ import annotations

import pytest

from evr._kernel.events.meaning import Row
from models.rows import (
    CASES,
    MODELS,
    PIPELINES,
    REFUSED,
    ROWS,
    check_default,
    check_row,
    check_unit,
    name,
    table,
    tightness,
)

LOOSE = {
    "DiscreteGaussianDpEvent on many numbers": 0.85,  # that integers are rounded costs something where noise is small
    "ZCDpEvent": 0.4,  # a bound on moments says less than a law
    "PermuteAndFlipDpEvent": 0.8,  # accounted for as pure differential privacy
    "AboveThresholdDpEvent": 0.1,  # two or three scores tell less than many
    "RepeatAndSelectDpEvent": 0.6,  # the worst ranking of the worst run
    "BinomialSelectDpEvent": 0.8,
    "ThresholdSelectDpEvent": 0.3,
    "SampledWithReplacementDpEvent of Gaussian noise": 0.3,  # one pair for both sides, and labelled draws
    "SampledWithoutReplacementDpEvent of Gaussian noise": 0.3,  # zero-out is accounted for as replace-one
    "AllocatedDpEvent of noise on a sum": 0.6,  # blocks
    "OneOfDpEvent of other mechanisms": 0.8,
    "PoissonSampledDpEvent of several kinds of noise on sums": 0.8,  # cells of the model are wide
    "OneOfDpEvent of noise on sums": 0.8,
}
"""How tight the tightest case is at least, where a law is known to be loose; 0.95 for all others."""


def test_every_subject_has_a_model() -> None:
    assert {row.subject for row in table()} == {*MODELS, *REFUSED}
    assert len(MODELS) >= 40


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_the_law_of_a_row_dominates_its_model(row: Row) -> None:
    comparisons = check_row(row, range(CASES))
    if comparisons:
        median, tightest = tightness(comparisons)
        print(f"{name(row)}: median tightness {median:.4f}, of the tightest case {tightest:.4f}")
        assert tightest >= LOOSE.get(row.subject, 0.95)


@pytest.mark.full
@pytest.mark.parametrize("row", ROWS, ids=name)
def test_the_law_of_a_row_dominates_its_model_in_many_cases(row: Row) -> None:
    check_row(row, range(CASES, 60))


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_a_row_has_the_unit_of_its_model(row: Row) -> None:
    check_unit(row)


@pytest.mark.parametrize("subject", PIPELINES)
def test_what_people_usually_run_is_covered_by_default(subject: str) -> None:
    check_default(subject)
