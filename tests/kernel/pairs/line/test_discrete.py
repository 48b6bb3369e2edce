"""Floats of laws on outcomes: losses and tails are as accurate as docs/guarantees.md, Section 6, takes them to be."""

from __future__ import annotations

import math
import random
import re
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from evr._kernel.pairs import Direction, DiscretePair, Measure, Pairs
from evr._kernel.pairs.law import UNIT
from evr._kernel.pairs.line import discrete
from evr._kernel.pairs.line.poisson import poisson_sampled

PAIRS = [
    *((0.5 + random.Random(seed).random() * 10.0**-size, size) for seed in range(40) for size in (1, 4, 7, 10)),
    (1e-300, 0), (1 - 2.0**-53, 0), (2.0**-1060, 0), (0.25, 0),
]  # fmt: skip


def test_losses_are_relatively_accurate() -> None:
    """For ratios near 1, and far from it: where logarithms of both are subtracted, digits are lost."""
    for x, _ in PAIRS:
        for p, q in ((x, 1 - x), (1 - x, x), (x, min(3 * x, 0.9)), (x, x * (1 - 2.0**-40))):
            pair = DiscretePair.from_probabilities([p, 1 - p], [q, 1 - q])
            finite = [loss for loss in pair.loss_values if loss and math.isfinite(loss)]
            with mpmath.workdps(80):
                both = [(mpmath.mpf(a), mpmath.mpf(b)) for a, b in ((p, q), (1 - p, 1 - q)) if a and b and a != b]
                for loss, true in zip(finite, sorted(mpmath.log(a / b) for a, b in both), strict=True):
                    assert abs(mpmath.mpf(loss) - true) <= 8 * UNIT * abs(true)


def test_losses_from_logarithms_say_what_they_are_off_by() -> None:
    x = 0.5000000999335052
    pair = DiscretePair.from_logs(np.log([x, 1 - x]), np.log([1 - x, x]))
    with mpmath.workdps(60):
        off = abs(mpmath.log(mpmath.mpf(x) / mpmath.mpf(1 - x)) - mpmath.mpf(pair.loss_values[-1]))
    assert 8 * UNIT * pair.loss_magnitude < off <= pair.loss_error


@pytest.mark.parametrize("lack", [9e-10, 1e-12, 1e-15, -9e-10])
def test_probabilities_that_do_not_sum_to_1_are_refused(lack: float) -> None:
    short = [0.5 - lack / 2] * 2
    for p, q, name in ((short, [0.5, 0.5], "p"), ([0.5, 0.5], short, "q")):
        with pytest.raises(ValueError, match=re.escape(f"{name}={short!r}")):
            DiscretePair.from_probabilities(p, q)


@pytest.mark.parametrize("number", [3, 10, 49, 1000])
def test_rounded_probabilities_are_taken(number: int) -> None:
    weights = np.random.default_rng(number).random((2, number))
    DiscretePair.from_probabilities(*(weights / weights.sum(axis=1, keepdims=True)))
    DiscretePair.from_probabilities([1 / number] * number, [float(Fraction(1, number))] * number)


def test_tails_of_many_outcomes_are_as_accurate_as_those_of_few() -> None:
    """Of 390,013 outcomes; one after the other, sums of logarithms lose 11 units in the last place of the greatest."""
    sigma, shift = 5000.0, 7
    pair = discrete.discrete_gaussian(sigma, shift)
    reach = (len(pair.log_p) - 1 - shift) // 2
    x = np.arange(-reach, shift + reach + 1.0)
    for measure, centre in ((Measure.P, shift), (Measure.Q, 0)):
        masses = np.exp(-((x - centre) ** 2) / (2 * sigma**2))
        whole = float(np.sum(masses))
        for place in range(reach // 3, 3 * reach // 4, reach // 40):
            tail = float(pair.log_mass(measure, -np.inf, float(place)))
            true = math.log(float(np.sum(masses[: place + 1]))) - math.log(whole)
            assert abs(tail - true) <= 4 * UNIT * (2 + abs(true))


@pytest.mark.parametrize("law", [([0.0], [math.log(0.01)]), ([math.log(0.01)], [0.0])], ids=["q", "p"])
def test_outcomes_that_leave_something_out_are_no_law(law: tuple[list[float], list[float]]) -> None:
    """Q has 99/100 where P has nothing. Half of all records sampled, three times: delta at 5 is 0.4633, and 0.2 was
    accepted.
    """
    short = DiscretePair.from_logs(*law)
    whole = DiscretePair.from_probabilities([0.01, 0.99], [1.0, 0.0])
    for one in (short, poisson_sampled(short, 0.5, Direction.REMOVE)):
        for laws in ((one, whole), (whole, one)):
            with pytest.raises(ValueError, match=r"outcomes hold 0\.01\d* of [PQ]: together they must hold all"):
                Pairs(*laws)
    assert Pairs.both(discrete.discrete_gaussian(50.0, 7))


@pytest.mark.parametrize("losses", [[-0.1, 0.1], [-math.log(9), math.inf], [-math.log(9) * (1 + 1e-9), math.log(9)]])
def test_losses_that_are_not_those_of_the_probabilities_are_no_law(losses: list[float]) -> None:
    """Three times 9 to 1, with losses of a tenth: (0.31, 0.001) was accepted without a sample."""
    p, q = np.log([0.1, 0.9]), np.log([0.9, 0.1])
    assert Pairs.both(DiscretePair.from_logs(p, q, [-math.log(9), math.log(9)]))
    with pytest.raises(ValueError, match=r"the loss .*: give losses that agree with the probabilities"):
        Pairs.both(DiscretePair.from_logs(p, q, losses))


@pytest.mark.parametrize("error", [math.nan, math.inf, -1.0])
def test_errors_that_are_no_bound_are_refused(error: float) -> None:
    """With one that is not a number, three times 9 to 1 was (0.31, 0.001) again."""
    p, q = tuple(np.log([0.1, 0.9]).tolist()), tuple(np.log([0.9, 0.1]).tolist())
    with pytest.raises(ValueError, match=r"losses have error=.*: give a finite number"):
        Pairs.both(DiscretePair((-0.1, 0.1), p, q, error=error))


def test_losses_that_are_not_numbers_or_out_of_order_are_refused() -> None:
    """The last loss is taken to be the greatest."""
    p, q = tuple(np.log([0.9, 0.1]).tolist()), tuple(np.log([0.1, 0.9]).tolist())
    with pytest.raises(ValueError, match="the loss nan, and log P/Q is"):
        Pairs.both(DiscretePair((math.nan, math.nan), p, q))
    with pytest.raises(ValueError, match="not in the order of their losses"):
        Pairs.both(DiscretePair((math.log(9), -math.log(9)), p, q))
    half = (math.log(0.5), math.log(0.5))
    with pytest.raises(ValueError, match="not in the order of their losses"):  # a division by zero
        Pairs.both(DiscretePair((0.0, 0.0), half, half))


def test_outcomes_that_hold_too_much_of_q_are_no_law() -> None:
    """Delta was 0 at 0.05."""
    nine, one = math.log(0.9), math.log(0.1)
    with pytest.raises(ValueError, match=r"outcomes hold 1\.8 of Q"):
        Pairs.both(DiscretePair.from_logs([nine, one], [nine, nine]))
