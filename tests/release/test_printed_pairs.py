"""Certifying what one prints: epsilon in three digits, or just the pair that is given."""

from __future__ import annotations

from pathlib import Path

import pytest
from dp_accounting import dp_event

import evr
from evr.errors import FalseClaimError

GAUSSIAN = dp_event.GaussianDpEvent(2.0)
SGD = evr.dpsgd(noise_multiplier=1.1, dataset_size=60_000, batch_size=256, epochs=1)


@pytest.mark.parametrize("delta", [1e-5, 0.1, 3e-7])
@pytest.mark.parametrize("event", [GAUSSIAN, SGD], ids=["gaussian", "sgd"])
def test_epsilon_has_three_digits_and_delta_is_the_one_asked_for(
    event: dp_event.DpEvent, delta: float, tmp_path: Path
) -> None:
    found = evr.certify(event, delta=delta, ledger=tmp_path / "ledger.sqlite")
    assert found.guarantee is not None
    assert found.guarantee.delta == delta
    epsilon = found.guarantee.epsilon
    assert float(f"{epsilon:.3g}") == epsilon
    least = float(evr.estimate_epsilon(event, delta))
    assert least <= epsilon <= 1.02 * least
    assert evr.replay(found).agrees


def test_just_the_pair_that_is_given(tmp_path: Path) -> None:
    found = evr.certify(GAUSSIAN, epsilon=2.1, delta=1e-4, ledger=tmp_path / "ledger.sqlite")
    assert found.guarantee is not None
    assert (found.guarantee.epsilon, found.guarantee.delta) == (2.1, 1e-4)


def test_a_false_pair_is_refused_with_what_would_hold(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.sqlite"
    with pytest.raises(FalseClaimError, match=r"this is false.*would hold") as refused:
        evr.certify(GAUSSIAN, epsilon=1.0, delta=1e-4, ledger=ledger)
    assert not ledger.exists()  # nothing was counted
    words = str(refused.value)
    epsilon = float(words.split("epsilon=")[2].split(" ")[0])
    delta = float(words.rsplit("delta=", 1)[1].split(" ")[0])
    noise = float(words.split("this pair with noise_multiplier=")[1])
    enough = dp_event.GaussianDpEvent(noise)
    assert evr.certify(GAUSSIAN, epsilon=epsilon, delta=1e-4, ledger=ledger).accepted
    assert evr.certify(GAUSSIAN, epsilon=1.0, delta=delta, ledger=ledger).accepted
    assert evr.certify(enough, epsilon=1.0, delta=1e-4, ledger=ledger).accepted


def test_a_refusal_names_a_noise_only_where_there_is_one(tmp_path: Path) -> None:
    laplace = dp_event.LaplaceDpEvent(1.0)
    for event in (laplace, dp_event.ComposedDpEvent([GAUSSIAN, laplace])):
        with pytest.raises(ValueError, match="this is false") as refused:
            evr.certify(event, epsilon=0.5, delta=1e-4, ledger=tmp_path / "ledger.sqlite")
        assert "noise_multiplier" not in str(refused.value)


def test_a_pair_that_is_true_by_too_little(tmp_path: Path) -> None:
    delta = float(evr.estimate_delta(GAUSSIAN, 1.0)) * (1 + 1e-6)
    with pytest.raises(FalseClaimError, match="true by too little to be verified"):
        evr.certify(GAUSSIAN, epsilon=1.0, delta=delta, ledger=tmp_path / "ledger.sqlite")


def test_a_pair_with_a_tau_is_tested_as_it_is(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.sqlite"
    with pytest.raises(FalseClaimError):
        evr.certify(GAUSSIAN, epsilon=0.1, delta=1e-9, ledger=ledger)
    found = evr.certify(GAUSSIAN, epsilon=0.1, delta=1e-9, tau=0.9, ledger=ledger)
    assert (found.verdict, found.claim.tau) == ("rejected", 0.9)


# --- in the user's units --------------------------------------------------------------------------


def test_units_of_a_training() -> None:
    by_units = evr.dpsgd(noise_multiplier=1.1, dataset_size=60_000, batch_size=256, epochs=15)
    assert by_units == evr.dpsgd(noise_multiplier=1.1, sampling_probability=256 / 60_000, steps=3516)
    assert evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.1, epochs=2.5).count == 25
    assert evr.dpsgd(noise_multiplier=1.0, dataset_size=100, batch_size=100, steps=3).event.sampling_probability == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 10}, "how often is a record sampled"),
        ({"steps": 10, "batch_size": 5}, "how often is a record sampled"),
        ({"sampling_probability": 0.1}, "for how long"),
        ({"sampling_probability": 0.1, "batch_size": 5, "steps": 1}, "say the same twice"),
        ({"sampling_probability": 0.1, "steps": 1, "epochs": 1}, "say the same twice"),
        ({"dataset_size": 5, "batch_size": 6, "steps": 1}, "is above dataset_size=5"),
        ({"dataset_size": 0, "batch_size": 6, "steps": 1}, "dataset_size=0 is not an integer >= 1"),
        ({"dataset_size": 5, "batch_size": 2, "epochs": -1}, "epochs=-1 is not positive"),
        ({"sampling_probability": 0.0, "epochs": 1}, "has no epochs"),
    ],
)
def test_units_that_do_not_fit(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evr.dpsgd(noise_multiplier=1.0, **options)  # type: ignore[arg-type]


# --- figures that look like numbers ---------------------------------------------------------------


def test_estimates_look_like_numbers() -> None:
    found = evr.estimate_epsilon(GAUSSIAN, 1e-5)
    assert f"{found:.3f}" == f"{found.value:.3f}"
    assert f"{found}" == f"{found.value:.6g}"
    assert "estimate by fft" in found._repr_html_()
    assert len(repr(found)) < 200
    assert "upper bound by rdp" in evr.estimate_epsilon(GAUSSIAN, 1e-5, method="rdp")._repr_html_()


def test_curves_have_a_picture_and_a_table() -> None:
    from matplotlib import pyplot

    curve = evr.privacy_curve(GAUSSIAN, [2.0, 0.0, 1.0])
    ax = curve.plot(color="red")
    assert ax.lines[0].get_xdata().tolist() == [0.0, 1.0, 2.0]
    assert curve.plot(ax) is ax
    pyplot.close("all")
    assert curve._repr_html_().count("<tr>") == 4
    assert len(repr(curve)) < 200
    assert {curve: 1}[curve] == 1
    assert curve != evr.privacy_curve(GAUSSIAN, [2.0, 0.0, 1.0])  # each is itself
    pandas = pytest.importorskip("pandas")
    frame = curve.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["delta"].tolist() == curve.deltas.tolist()
