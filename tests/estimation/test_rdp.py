"""The moments accountant: above the truth everywhere, refusing what it cannot account for."""

import logging
import math
import threading

import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant

import evr
from estimation.references import REFERENCES, references
from evr._estimate.rdp import rdp_bound, rdp_curve_delta
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction
from evr.errors import UnsupportedEventError
from evr.events import EpsilonDeltaDpEvent, dpsgd
from helpers import near


@pytest.mark.parametrize("r", REFERENCES[::2], ids=[r.label for r in REFERENCES[::2]])
def test_above_the_truth(r):
    assert rdp_bound(r.event, "delta", r.epsilon) >= r.delta


SOME = references("issue", "add")[::3]


@pytest.mark.parametrize("r", SOME, ids=[r.label for r in SOME])
def test_on_pairs_is_between_the_truth_and_dp_accounting(r):
    bound = rdp_curve_delta(Composition.of(r.event).steps(r.direction), r.epsilon)
    assert r.delta <= bound <= rdp_bound(r.event, "delta", r.epsilon) * (1 + 1e-6)


def test_epsilon_inverts_delta():
    event = dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=500)
    epsilon = rdp_bound(event, "epsilon", 1e-5)
    assert rdp_bound(event, "delta", epsilon) <= 1e-5 * (1 + 1e-6)


def test_gaussian_is_the_closed_form():
    # log of the bound at order a: a (a+1) mu^2 / 2 - a eps + a log a - (1+a) log(1+a), least on a
    # fine grid of a.
    mu, epsilon = 0.5, 2.0
    orders = [0.01 * n for n in range(1, 3000)]
    logs = [a * (a + 1) * mu**2 / 2 - a * epsilon + a * math.log(a) - (1 + a) * math.log1p(a) for a in orders]
    steps = Composition.of(dp_event.GaussianDpEvent(1 / mu)).remove
    assert rdp_curve_delta(steps, epsilon) == near(math.exp(min(logs)), rel=1e-5)


def test_infinite_losses_are_added():
    event = dp_event.SelfComposedDpEvent(EpsilonDeltaDpEvent(0.1, 1e-4), 10)
    steps = Composition.of(event).steps(Direction.REMOVE)
    assert rdp_curve_delta(steps, 3.0) == near(1 - (1 - 1e-4) ** 10, rel=1e-6)
    assert rdp_curve_delta(steps, 0.3) > 1 - (1 - 1e-4) ** 10


def test_extremes():
    assert rdp_bound(dp_event.NonPrivateDpEvent(), "delta", 1.0) == 1.0
    assert rdp_bound(dp_event.NonPrivateDpEvent(), "epsilon", 1e-5) == math.inf
    assert rdp_curve_delta(Composition.of(dp_event.NonPrivateDpEvent()).remove, 1.0) == 1.0
    assert rdp_bound(dp_event.NoOpDpEvent(), "delta", 1.0) == 0.0


@pytest.mark.parametrize("event", [EpsilonDeltaDpEvent(1.0, 1e-5), dp_event.UnsupportedDpEvent()])
def test_unsupported_events_are_named(event):
    with pytest.raises(UnsupportedEventError, match=type(event).__name__):
        rdp_bound(event, "delta", 1.0)


def test_values_are_checked():
    with pytest.raises(ValueError, match="epsilon=-1"):
        evr.estimate_delta(dp_event.NoOpDpEvent(), -1, method="rdp")
    with pytest.raises(ValueError, match="delta=2"):
        evr.estimate_epsilon(dp_event.NoOpDpEvent(), 2, method="rdp")


def test_only_the_warnings_of_this_thread_are_left_out(monkeypatch, caplog):
    """The level of the log was raised meanwhile, for all threads: two at a time could leave it there."""
    logger, plain = logging.getLogger("absl"), RdpAccountant.compose

    def compose(*arguments):
        logger.warning("of an order")
        elsewhere = threading.Thread(target=logger.warning, args=("of another thread",))
        elsewhere.start()
        elsewhere.join()
        return plain(*arguments)

    monkeypatch.setattr(RdpAccountant, "compose", compose)
    before = logger.level, list(logger.filters)
    monkeypatch.setattr(logger, "propagate", True)
    with caplog.at_level(logging.WARNING, "absl"):
        rdp_bound(dp_event.GaussianDpEvent(1.0), "delta", 1.0)
    assert caplog.messages == ["of another thread"]
    assert (logger.level, list(logger.filters)) == before
