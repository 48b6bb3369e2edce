"""An answer does not depend on what was asked before: the same bits, whatever the order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event

import evr
from evr._estimate.monte_carlo import sampled_deltas
from evr._kernel.events import Composition
from helpers import full

RARE = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=1000)
BULK = evr.dpsgd(noise_multiplier=1.1, sampling_probability=256 / 60000, steps=500)
MIXED = dp_event.ComposedDpEvent(
    [
        evr.dpsgd(noise_multiplier=0.9, sampling_probability=0.02, steps=300),
        dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(8.0), 4),
        evr.events.EpsilonDeltaDpEvent(0.2, 0.0),
    ]
)
BANDED = evr.events.BallsInBinsDpEvent(1.5, 4, 2, (1.0, 0.5))
EVENTS = {"rare": RARE, "bulk": BULK, "mixed": MIXED}


def questions(event: Any) -> dict[str, Callable[[], Any]]:
    few = [0.2, 0.5, 0.9, 1.4]
    return {
        "delta": lambda: evr.estimate_delta(event, 0.5),
        "curve": lambda: evr.privacy_curve(event, few).deltas,
        "delta beside": lambda: evr.estimate_delta(event, 0.49),
        "added": lambda: evr.estimate_delta(event, 0.5, direction="add"),
        "epsilon": lambda: evr.estimate_epsilon(event, 1e-6),
        "online": lambda: evr.online_epsilon(event, 1e-6, every=250).epsilons,
        "strict": lambda: evr.estimate_epsilon(event, 1e-6, method="strict"),
        "other curve": lambda: evr.privacy_curve(event, [0.3, 0.5]).deltas,
    }


def bits(answer: Any) -> Any:
    if isinstance(answer, np.ndarray):
        return answer.tobytes()
    return answer.value, getattr(answer, "error", None), getattr(answer, "standard_error", None)


@pytest.mark.parametrize("name", ["rare", full("bulk"), "mixed"])
def test_any_order_gives_the_same_bits(name: str) -> None:
    """A curve was kept after the question: ``privacy_curve`` told it which epsilons would come, and
    a later delta differed in its tenth digit.
    """
    asked = questions(EVENTS[name])
    forward = {question: bits(ask()) for question, ask in asked.items()}
    backward = {question: bits(asked[question]()) for question in reversed(asked)}
    assert backward == forward


def test_sampled_answers_do_not_depend_on_earlier_ones() -> None:
    """Samples drawn for one epsilon served the next question too."""
    evr.estimate_delta(BANDED, 2.0, direction="remove")
    found = evr.estimate_delta(BANDED, 1.0, direction="remove")
    assert bits(found) == bits(sampled_deltas(Composition.of(BANDED), "remove")(1.0))
