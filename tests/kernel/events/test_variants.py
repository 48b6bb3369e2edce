"""Events of variants: adaptive clipping, AboveThreshold, disjoint parts, the square root of prefix sums."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event

import evr
from evr import events as E
from evr._wording.events import describe
from evr.errors import OtherRelationError, SpecError, UnsupportedEventError
from helpers import near

STEP = dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.0))
TRAINING = dp_event.SelfComposedDpEvent(STEP, 100)
RELATIONS = ("add-or-remove", "zero-out", "replace-one")


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("q", [1.0, 0.05])
def test_adaptive_clipping_is_one_gaussian(relation: str, q: float) -> None:
    """z' = (z^-2 + (2 s)^-2)^-1/2 of Andrew et al. (2021), Theorem 1."""
    z, s = 1.5, 2.0
    both = (z**-2 + (2 * s) ** -2) ** -0.5
    assert both < z
    for method in ("fft", "strict"):
        ours, theirs = (
            evr.estimate_epsilon(
                dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(q, step), 10),
                1e-5,
                method=method,
                neighboring_relation=relation,
            ).value
            for step in (E.AdaptiveClippingDpEvent(z, s), dp_event.GaussianDpEvent(both))
        )
        assert ours == near(theirs, rel=1e-6)


def test_adaptive_clipping_without_noise_has_no_privacy() -> None:
    for event in (E.AdaptiveClippingDpEvent(0.0, 1.0), E.AdaptiveClippingDpEvent(1.0, 0.0)):
        assert evr.estimate_epsilon(event, 1e-5).value == math.inf
    with pytest.raises(ValueError, match="clipped_count_stddev=-1"):
        evr.estimate_epsilon(E.AdaptiveClippingDpEvent(1.0, -1.0), 1e-5)


def test_above_threshold_is_pure() -> None:
    event = E.AboveThresholdDpEvent(0.5)
    for relation in RELATIONS:
        assert evr.estimate_delta(event, 0.5, neighboring_relation=relation).value == 0.0
        assert evr.estimate_delta(event, 0.49, neighboring_relation=relation).value > 0.0


@pytest.mark.parametrize("relation", ["add-or-remove", "zero-out"])
def test_disjoint_parts_cost_as_much_as_one(relation: str, tmp_path: object) -> None:
    parallel = E.ParallelDpEvent(TRAINING)
    asked: dict[str, Any] = {"delta": 1e-5, "neighboring_relation": relation}
    ours, one = (evr.estimate_epsilon(event, **asked).value for event in (parallel, TRAINING))
    assert ours == one
    certificate = evr.certify(parallel, **asked, ledger=f"{tmp_path}/ledger.sqlite")
    assert certificate.accepted
    assert "disjoint parts of the data" in certificate.short_statement
    assert any("the runs of at most one of the parts" in clause for clause in certificate.assumptions)
    empty = any("an empty record is in the part" in clause for clause in certificate.assumptions)
    assert empty == (relation == "zero-out")


def test_of_folds_the_statement_says_that_each_record_decides(tmp_path: Path) -> None:
    """Four of five trainings said nothing of the fifth, which has to see nothing of the record."""
    folds = E.ParallelDpEvent(dp_event.SelfComposedDpEvent(TRAINING, 4))
    certificate = evr.certify(folds, delta=1e-5, ledger=tmp_path / "ledger.sqlite")
    assert "the runs of each of several disjoint parts of the data (4 times" in certificate.short_statement
    assert any("other runs saw nothing of it" in clause for clause in certificate.assumptions)


def test_of_users_the_whole_user_is_in_one_part(tmp_path: Path) -> None:
    """The sentence must not let a user's records be in several parts, where the guarantee is per user."""
    step = E.PoissonSampledUsersDpEvent(2.0, 0.01, 4)
    event = E.ParallelDpEvent(dp_event.SelfComposedDpEvent(step, 10))
    certificate = evr.certify(event, delta=1e-5, ledger=tmp_path / "ledger.sqlite")
    assert certificate.unit == "user"
    assert any("all data of one record (or of one user" in clause for clause in certificate.assumptions)


def test_a_replaced_record_may_change_two_parts() -> None:
    with pytest.raises(
        OtherRelationError, match=r"another record may be in another part, and then two parts change; .*add-or-remove"
    ):
        evr.estimate_epsilon(E.ParallelDpEvent(TRAINING), 1e-5, neighboring_relation="replace-one")


def test_refusals_name_the_guide(tmp_path: Path) -> None:
    class PateDpEvent(dp_event.DpEvent):
        pass

    (tmp_path / "pate.toml").write_text('[[mechanism]]\nkind = "pate"\n')
    (tmp_path / "slip.toml").write_text('[[mechanism]]\nkind = "gausian"\n')
    with pytest.raises(UnsupportedEventError, match=r"docs/guide/my_variant\.md says what to give"):
        evr.estimate_epsilon(PateDpEvent(), 1e-5)
    with pytest.raises(SpecError, match=r"docs/guide/my_variant\.md says what to give"):
        evr.load(tmp_path / "pate.toml")
    with pytest.raises(SpecError, match=r"did you mean 'gaussian'\?$"):
        evr.load(tmp_path / "slip.toml")
    assert (Path(__file__).parents[3] / "docs" / "guide" / "my_variant.md").exists()


def test_words() -> None:
    assert describe(E.AboveThresholdDpEvent(0.5)) == "AboveThreshold (epsilon 0.5)"
    said = describe(E.AdaptiveClippingDpEvent(1.0, 10.0))
    assert said.endswith("(noise multiplier 1, noise of deviation 10 on the count of clipped records)")
    assert describe(E.ParallelDpEvent(TRAINING)) == (
        f"the runs of each of several disjoint parts of the data ({describe(TRAINING)})"
    )


def test_the_square_root_squared_is_the_matrix_of_prefix_sums() -> None:
    size = 50
    column = np.array(E.square_root_strategy(size))
    matrix = np.array([[column[i - j] if i >= j else 0.0 for j in range(size)] for i in range(size)])
    np.testing.assert_allclose(matrix @ matrix, np.tri(size), rtol=0, atol=1e-13)
    assert E.square_root_strategy(size, bands=4) == tuple(column[:4])
    with pytest.raises(ValueError, match="bands=0"):
        E.square_root_strategy(3, bands=0)
