"""The contract of exact laws: sets hold all of both laws, and floats come from balls that no other thread disturbs."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction

import pytest
from dp_accounting import dp_event
from flint import ctx

import evr
from evr._kernel.pairs import Direction, DiscretePair, Floats, Pairs, Step, as_floats
from evr._kernel.pairs.exact import (
    Ball,
    ExactCurve,
    ExactGaussian,
    ExactOutcomes,
    OutcomeSet,
    RationalOutcomes,
    exact_sampled,
)
from evr._kernel.pairs.exact.law import at_precision, ball
from evr._kernel.pairs.exact.sampled import SampledOutcomes, WithoutReplacementOutcomes
from evr._kernel.strict import Grid, ProofPlan, Window, prove, schedule
from helpers import switching_often
from kernel.pairs.registered import registered


@dataclass(frozen=True)
class Listed(ExactOutcomes):
    """Sets as they are given: probabilities of P and Q, and a loss."""

    rows: tuple[tuple[Fraction | int, Fraction | int, int], ...]

    def sets(self) -> list[OutcomeSet]:
        return [OutcomeSet(ball(p), ball(q), Ball(loss)) for p, q, loss in self.rows]


SHORT_OF_Q = Listed(((1, Fraction(1, 100), 5),))  # Q has 99/100 elsewhere, where P has nothing
SHORT_OF_P = Listed(((Fraction(1, 2), Fraction(1, 2), 0), (0, Fraction(1, 2), -9)))
NEGATIVE = Listed(((Fraction(3, 2), Fraction(1, 2), 2), (Fraction(-1, 2), Fraction(1, 2), 0)))


def plan(counts: int, bits: int = 64) -> ProofPlan:
    windows = tuple(Window(0, 0, 0, -400, 400) for _ in schedule((counts,)))
    return ProofPlan(bits, Fraction(1, 16), (Grid(Fraction(0), 0, 0, 0, -100, 200),), windows)


@pytest.mark.parametrize("law", [SHORT_OF_Q, SHORT_OF_P, NEGATIVE], ids=["q", "p", "negative"])
@pytest.mark.parametrize(
    "use",
    [
        as_floats,
        lambda law: law.greatest(),
        lambda law: SampledOutcomes(law, Fraction(1, 2), Direction.REMOVE).sets(),
        lambda law: WithoutReplacementOutcomes(law, Fraction(1, 2)).sets(),
        lambda law: prove([Step(law, 3)], Fraction(5), plan(3)),
        lambda law: prove([Step(law, 1)], Fraction(5), ProofPlan.of_one_step(64)),
    ],
    ids=["floats", "greatest", "poisson", "without replacement", "composed", "one step"],
)
def test_sets_that_leave_something_out_are_refused(law: ExactOutcomes, use: Callable[[ExactOutcomes], object]) -> None:
    with pytest.raises(ValueError, match=r"of [PQ], or a negative mass: together they must hold all of P and of Q"):
        use(law)


def test_sampling_of_sets_that_leave_out_a_part_of_q_proves_nothing() -> None:
    """Half of all records are sampled, three times: delta at 5 is 0.4633, and no claim of 0.2 is accepted."""
    add = RationalOutcomes.of([Fraction(1, 100), Fraction(99, 100)], [1, 0])
    with registered(Pairs(SHORT_OF_Q, add)) as event:
        sampled = dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.5, event), 3)
        with pytest.raises(ValueError, match=r"of [PQ], or a negative mass: together they must hold all of P and of Q"):
            evr.verify(sampled, epsilon=5.0, delta=0.2, method="strict")


def test_a_set_whose_loss_exceeds_the_one_that_it_states_is_refused() -> None:
    """A sign that is wrong: delta at 0.5 is 0.34, and was proved to be 0."""
    law = Listed(((Fraction(3, 4), Fraction(1, 4), -1), (Fraction(1, 4), Fraction(3, 4), -1)))
    with pytest.raises(ValueError, match="a set of Listed has more of P than e\\^loss times its Q: state a loss"):
        law.greatest()
    with registered(Pairs.both(law)) as event, pytest.raises(ValueError, match="has more of P"):
        evr.verify(event, epsilon=0.5, delta=0.0, method="strict")


@dataclass(frozen=True)
class Rising(ExactCurve):
    """No privacy curve: it is not convex."""

    def curve(self) -> Callable[[Ball], Ball]:
        return lambda ratio: (1 - (ratio - 1) ** 4).max(Ball(0))


def test_a_curve_with_negative_masses_is_refused() -> None:
    with pytest.raises(ValueError, match="has a negative mass: give a curve that is convex"):
        prove([Step(Rising(), 2)], Fraction(1), plan(2))


def test_a_law_that_is_derived_from_another_is_refused() -> None:
    """What is known of a law by its class is not true of what is derived from it: outcomes of equal probabilities
    count as nothing, whatever ``sets`` says, a Gaussian's floats are those of its parameter, and losses of outcomes
    are those that are listed.
    """
    why = r"is derived from \w+, a law by itself: derive it from ExactOutcomes, ExactCurve or DominatingPair"
    with pytest.raises(TypeError, match=why):

        class Lifted(RationalOutcomes):
            def sets(self) -> list[OutcomeSet]:
                return Listed(((Fraction(9, 10), Fraction(1, 10), 3), (Fraction(1, 10), Fraction(9, 10), 0))).sets()

    with pytest.raises(TypeError, match=why):

        class Louder(ExactGaussian):
            def curve(self) -> Callable[[Ball], Ball]:
                return ExactGaussian(100 * self.square).curve()

    with pytest.raises(TypeError, match=why):

        class Tripled(DiscretePair):
            def privacy_loss(self, t: object) -> Floats:
                return 3 * super().privacy_loss(t)


@contextmanager
def working_beside(work: Callable[[], object]) -> Iterator[None]:
    """Another thread does the work again and again, and takes turns with this one as often as Python lets it."""
    stop = threading.Event()

    def again() -> None:
        while not stop.is_set():
            work()

    thread = threading.Thread(target=again)
    with switching_often():
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def narrow_ratio(size: int) -> RationalOutcomes:
    """Two outcomes whose ratio is ``10^-size`` from 1, or twice that."""
    more, less = (Fraction(1, 2) + sign * Fraction(1, 10**size) for sign in (1, -1))
    return RationalOutcomes.of([more, less], [less, more])


def test_floats_of_a_law_are_the_same_while_another_thread_proves() -> None:
    law, before = narrow_ratio(11), ctx.prec
    alone = as_floats(law)
    with working_beside(lambda: prove([Step(law, 3)], Fraction(1, 10), plan(3, bits=8))):
        assert all(as_floats(law) == alone for _ in range(3000))
    assert ctx.prec == before


def test_proofs_are_the_same_while_another_thread_proves() -> None:
    step, before = (Step(exact_sampled(ExactGaussian(Fraction(1)), Fraction(1, 100), Direction.REMOVE), 50), ctx.prec)
    alone = prove([step], Fraction(1, 2), plan(50, bits=200))
    with working_beside(lambda: prove([step], Fraction(1, 2), plan(50, bits=20))):
        assert all(prove([step], Fraction(1, 2), plan(50, bits=200)) == alone for _ in range(5))
    assert ctx.prec == before


def test_floats_are_right_however_close_to_1_a_ratio_is() -> None:
    """At 10^-100 the first precision holds no digit of the loss."""
    for size in (11, 70, 100):
        assert Step(narrow_ratio(size), 1).pair.privacy_loss(1.0) == float(4 / Fraction(10**size))


def end() -> None:
    with at_precision(100):
        os._exit(0)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_does_not_inherit_the_lock_of_another_thread() -> None:
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with at_precision(100):
            inside.set()
            leave.wait(0.2)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait()
    child = multiprocessing.get_context("fork").Process(target=end)
    child.start()
    child.join(20)
    alive = child.is_alive()
    if alive:
        child.kill()
    leave.set()
    thread.join()
    assert not alive
