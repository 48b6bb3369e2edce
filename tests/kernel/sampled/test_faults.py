"""Deliberate faults in the verifier: each lets false claims pass, and the counts of acceptances see
it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from evr._kernel.pairs import Floats
from evr._kernel.sampled.deciding import SequentialTest, State
from evr._kernel.sampled.proposals import Block, Drawing
from evr._kernel.sampled.summary import summarize
from evr._kernel.verdict.settings import Claim
from helpers import near
from kernel.sampled import laws
from kernel.sampled.laws import KnownLaw, acceptances, most_of, play, sequential_of, two_points
from kernel.sampled.laws import update as laws_update

Patch = pytest.MonkeyPatch
BUDGET, RUNS, TAU = 0.05, 200, 0.5


def at_the_threshold(law: KnownLaw) -> Claim:
    return Claim(1.0, law.mean / (1 - (1 - TAU) / 40), TAU)


def counted(law: KnownLaw, size: int = 16, runs: int = RUNS) -> int:
    return acceptances(law, [at_the_threshold(law)], BUDGET, runs=runs, blocks=40, size=size)[0]


def coin() -> KnownLaw:
    return two_points(1e-6, 2e-6)


def far() -> KnownLaw:
    return two_points(1e-6, 3e-5)


def huge() -> KnownLaw:
    """Clipped: two thirds of the mean are in rare values."""
    return KnownLaw([0.0, 0.6e-6, 2e-3], [0.5, 0.5 - 3.5e-4, 3.5e-4])


@pytest.mark.parametrize("size", [16, 512])
@pytest.mark.parametrize("law", [coin, far, huge], ids=lambda f: f.__name__)
def test_without_a_fault_the_counts_are_right(law: Callable[[], KnownLaw], size: int) -> None:
    assert counted(law(), size) <= most_of(RUNS, BUDGET)


def bet_with_the_current_block(patch: Patch) -> None:
    """The stake sees the samples that it is placed on."""

    def update(test: SequentialTest, state: State, values: Floats) -> State:
        ahead = laws_update(test, state, values)
        return state.added(summarize(values, 0, test.clip, test.mean, test.stake(ahead)))

    patch.setattr(laws, "update", update)


def bet_on_the_current_block(patch: Patch) -> None:
    """The boldest use of what is not yet known: all on a block whose mean is low, nothing on
    another.
    """

    def update(test: SequentialTest, state: State, values: Floats) -> State:
        stake = test.limit if values.mean() < test.mean else 0.0
        return state.added(summarize(values, 0, test.clip, test.mean, stake))

    patch.setattr(laws, "update", update)


def no_limit_on_stakes(patch: Patch) -> None:
    """Wealth that would be negative is taken for positive."""
    limit = vars(SequentialTest)["limit"].fget

    def update(test: SequentialTest, state: State, values: Floats) -> State:
        stake = test.stake(state)
        gain = float(np.sum(np.log(np.abs(1 + stake * (test.mean - values)) + 1e-300)))
        return state.added(summarize(values, 0, math.inf, test.mean, 0.0)._replace(log_wealth=gain))

    patch.setattr(SequentialTest, "limit", property(lambda self: 50.0 * limit(self)))
    patch.setattr(laws, "update", update)


def no_correction_for_clipping(patch: Patch) -> None:
    patch.setattr(Drawing, "excess", lambda *a: 0.0)


def correction_in_the_wrong_unit(patch: Patch) -> None:
    right = Drawing.excess
    patch.setattr(Drawing, "excess", lambda self, clip, log_unit: right(self, clip, log_unit) * math.exp(log_unit))


def second_moment_too_small(patch: Patch) -> None:
    """With a moment bound of a thousandth the correction is too small."""
    right = KnownLaw.log_moment
    patch.setattr(KnownLaw, "log_moment", lambda *a: right(*a) - math.log(1000.0))


def weights_too_small(patch: Patch) -> None:
    draw = KnownLaw.draw
    patch.setattr(KnownLaw, "draw", lambda *a: (b := draw(*a))._replace(log_weights=b.log_weights - 0.7))


def target_forgotten(patch: Patch) -> None:
    """The wealth is compared with 1 instead of 1/beta."""
    patch.setattr(SequentialTest, "accepts", lambda _, state: state.log_wealth > 0)


FAULTS = [
    (bet_on_the_current_block, coin, 16),
    (no_limit_on_stakes, far, 16),
    (no_correction_for_clipping, huge, 16),
    (correction_in_the_wrong_unit, huge, 16),
    (second_moment_too_small, huge, 16),
    (weights_too_small, coin, 16),
    (target_forgotten, far, 16),
]


@pytest.mark.parametrize(("fault", "law", "size"), FAULTS, ids=lambda x: getattr(x, "__name__", None))
def test_a_fault_is_seen(
    fault: Callable[[Patch], None], law: Callable[[], KnownLaw], size: int, monkeypatch: Patch
) -> None:
    fault(monkeypatch)
    assert counted(law(), size) > most_of(RUNS, BUDGET)


def test_bets_that_know_the_current_block_among_others_are_seen(monkeypatch: Patch) -> None:
    """The likeliest slip, counting a block before betting on it, raises the rate to some three
    times the budget.
    """
    runs = 600
    bet_with_the_current_block(monkeypatch)
    assert counted(coin(), 256, runs) > most_of(runs, BUDGET)


def test_stakes_are_placed_before_the_block_is_seen() -> None:
    law = coin()
    test, state = sequential_of(law, at_the_threshold(law), BUDGET), State()
    for block in range(5):
        stake, wealth = test.stake(state), state.log_wealth
        values = np.where(np.arange(64) % (block + 2) == 0, 2.0, 0.0)
        state = laws_update(test, state, values)
        gain = float(np.sum(np.log1p(stake * (test.mean - np.minimum(values, test.clip)))))
        assert state.log_wealth == near(wealth + gain, rel=1e-12)
        assert 0 <= stake < 1 / (test.clip - test.mean)


def test_a_bound_that_is_too_small_is_seen_by_the_count(monkeypatch: Patch) -> None:
    """Samples above a wrong bound are clipped without a correction."""
    right = KnownLaw.log_greatest
    monkeypatch.setattr(KnownLaw, "log_greatest", lambda *a: right(*a) - math.log(20.0))
    assert counted(far()) > most_of(RUNS, BUDGET)


@pytest.mark.parametrize("shift", [-math.log(20.0), -1e-3])
def test_a_bound_that_is_too_small_stops_a_run(shift: float, monkeypatch: Patch) -> None:
    right = KnownLaw.log_greatest
    monkeypatch.setattr(KnownLaw, "log_greatest", lambda *a: right(*a) + shift)
    with pytest.raises(ArithmeticError, match="its proved bound"):
        play(far(), at_the_threshold(far()), BUDGET, 1, max_samples=5000)


@pytest.mark.parametrize("part", ["losses", "log_weights"])
def test_what_is_not_a_number_stops_a_run(part: str, monkeypatch: Patch) -> None:
    draw = KnownLaw.draw

    def broken(*arguments: object) -> Block:
        block = draw(*arguments)  # type: ignore[arg-type]
        getattr(block, part)[:] = np.where(block.losses > 0, np.nan, getattr(block, part))
        return block

    monkeypatch.setattr(KnownLaw, "draw", broken)
    with pytest.raises(ArithmeticError, match="a sample is nan"):
        play(far(), at_the_threshold(far()), BUDGET, 1, max_samples=5000)
