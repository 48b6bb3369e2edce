"""``FFTAccountant`` behind the interface that the field shares: the peer's own base tests,
calibration, incremental use.
"""

import copy
import math
import pickle
import threading

import dp_accounting
import pytest
from absl.testing import absltest
from dp_accounting import NeighboringRelation, dp_event, privacy_accountant_test

import evr
from evr._kernel.events import Composition
from helpers import near, switching_often

STEP = dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.0))


class TestFFTAccountant(privacy_accountant_test.PrivacyAccountantTest):
    """Everything that dp_accounting asks of an accountant, under each relation."""

    def _make_test_accountants(self):
        return [
            kind(relation) for kind in (evr.FFTAccountant, evr.StrictAccountant) for relation in NeighboringRelation
        ]


def test_the_base_tests_were_collected():
    names = absltest.TestLoader().getTestCaseNames(TestFFTAccountant)
    assert len(names) >= 10


def test_the_strict_accountant_proves_what_the_other_estimates():
    strict, fft = (kind().compose(STEP, 100) for kind in (evr.StrictAccountant, evr.FFTAccountant))
    assert 1 < strict.get_epsilon(1e-6) / fft.get_epsilon(1e-6) < 1.0005
    bound = evr.estimate_delta(strict.composition, 0.3, method="strict")
    assert fft.get_delta(0.3) < strict.get_delta(0.3) == bound.value


def test_the_strict_accountant_refuses_what_has_no_exact_law():
    correlated = evr.events.BallsInBinsDpEvent(3.0, 20, 10, (1.0, 0.5))
    accountant = evr.StrictAccountant().compose(correlated)
    with pytest.raises(evr.errors.UnsupportedEventError, match=r"CorrelatedBins.*offers no exact law"):
        accountant.get_epsilon(1e-6)


def test_composing_step_by_step_is_composing_at_once():
    slowly, at_once = evr.FFTAccountant(), evr.FFTAccountant()
    for _ in range(50):
        slowly.compose(STEP)
    at_once.compose(dp_event.SelfComposedDpEvent(STEP, 25)).compose(STEP, 25)
    assert slowly.composition == at_once.composition == Composition.of(dp_event.SelfComposedDpEvent(STEP, 50))
    assert slowly.get_epsilon(1e-6) == at_once.get_epsilon(1e-6)
    assert slowly.get_delta(0.3) == evr.estimate_delta(dp_event.SelfComposedDpEvent(STEP, 50), 0.3).value


@pytest.mark.parametrize("kind", [evr.FFTAccountant, evr.StrictAccountant])
def test_a_copy_is_on_its_own(kind):
    """As of dp_accounting's accountants; their ledgers are shared even so."""
    accountant = kind().compose(STEP, 100)
    for same in (copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))):
        before = accountant.get_epsilon(1e-6), accountant.ledger
        copied = same(accountant)
        assert (copied.get_epsilon(1e-6), copied.ledger) == before
        copied.compose(STEP)
        assert (accountant.get_epsilon(1e-6), accountant.ledger) == before
        assert copied.get_epsilon(1e-6) > before[0]


def test_the_answer_moves_on_with_the_run():
    accountant = evr.FFTAccountant()
    epsilons = [accountant.compose(STEP, 10).get_epsilon(1e-6) for _ in range(4)]
    assert epsilons == sorted(epsilons)
    assert epsilons[0] > 0


def test_the_ledger_is_the_peers():
    accountant = evr.FFTAccountant().compose(STEP, 10).compose(dp_event.LaplaceDpEvent(3.0))
    again = evr.FFTAccountant().compose(accountant.ledger)
    assert again.get_epsilon(1e-6) == accountant.get_epsilon(1e-6)


def test_calibration_by_the_peer():
    def make(noise):
        return evr.dpsgd(noise_multiplier=noise, sampling_probability=0.01, steps=500)

    theirs = dp_accounting.calibrate_dp_mechanism(evr.FFTAccountant, make, 1.0, 1e-6, tol=1e-7)
    assert evr.estimate_delta(make(theirs), 1.0).value == near(1e-6, rel=2e-6)
    assert 0 < evr.calibrate(make, epsilon=1.0, delta=1e-6).value - theirs < 1.1e-3


def test_an_unsupported_event_leaves_everything_as_it_was():
    accountant = evr.FFTAccountant().compose(STEP)
    before = accountant.get_epsilon(1e-6)
    with pytest.raises(dp_accounting.UnsupportedEventError):
        accountant.compose(dp_event.ComposedDpEvent([STEP, dp_event.UnsupportedDpEvent()]))
    assert accountant.get_epsilon(1e-6) == before


def test_no_privacy_even_at_delta_one():
    accountant = evr.FFTAccountant().compose(dp_event.NonPrivateDpEvent())
    assert accountant.get_epsilon(1.0) == math.inf
    with pytest.raises(ValueError, match="target_delta=2"):
        accountant.get_epsilon(2)


@pytest.mark.parametrize("kind", [evr.FFTAccountant, evr.StrictAccountant])
def test_an_accountant_has_one_unit(kind):
    users = evr.events.UsersDpEvent(evr.events.MatrixMechanismDpEvent(40.0, (1.0,), 3, 1), 4)
    accountant = kind().compose(STEP)
    assert not accountant.supports(users)
    with pytest.raises(dp_accounting.UnsupportedEventError, match="a guarantee has one unit"):
        accountant.compose(users)
    assert accountant.composition == Composition.of(STEP)


def test_threads_compose_one_after_the_other():
    accountant = evr.FFTAccountant()

    def compose():
        for _ in range(1000):
            accountant.compose(STEP)

    threads = [threading.Thread(target=compose) for _ in range(4)]
    with switching_often():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [step.count for step in accountant.composition.remove] == [4000]


def test_an_answer_is_about_whole_events():
    """Asked from another thread, it was about half of one."""
    accountant = evr.FFTAccountant()
    many = dp_event.ComposedDpEvent([dp_event.LaplaceDpEvent(3.0 + n) for n in range(300)])

    def compose():
        for _ in range(20):
            accountant.compose(many)

    thread = threading.Thread(target=compose)
    with switching_often():
        thread.start()
        while thread.is_alive():
            assert len({step.count for step in accountant.composition.remove}) <= 1
