"""Deliberate faults in what is drawn and in what is stated of it: the checks of the conformance
suite see each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from dp_accounting import dp_event

from conformance.proposal_cases import LONG, Case, exact, named
from conformance.proposal_checks import check_proposal
from evr.bounds import Tilt
from evr.bounds.cells import CellTable, TiltedBounds
from evr.events import dpsgd
from evr.laws import Direction, DiscretePair, DominatingPair, Floats, Step
from evr.laws.line.gaussian import GaussianPair
from evr.laws.line.poisson import SampledPair
from evr.mechanisms import Composition
from evr.sampling import Block, Proposal, TiltedProposal
from evr.sampling.samplers.envelope import EnvelopeSampler
from evr.sampling.samplers.lines import CellSampler
from evr.sampling.samplers.mixture import MixtureSampler
from evr.search import capped_proposal
from helpers import near
from sampling.test_cells import TILTS
from sampling.test_cells import test_bounds_of_a_tilt as check_bounds_of_a_tilt
from sampling.test_samplers import ENVELOPES
from sampling.test_samplers import (
    test_the_envelope_is_above_and_the_bound_on_its_gap_holds as check_envelope,
)

Patch = pytest.MonkeyPatch
EPSILON = 1.5
# one jump carries the loss
JUMPS = dpsgd(noise_multiplier=0.6, sampling_probability=1e-3, steps=100)
DENSE = dpsgd(noise_multiplier=3.0, sampling_probability=0.2, steps=60)  # all steps share it
LIKELY = dpsgd(noise_multiplier=1.0, sampling_probability=0.9999, steps=2)


def steps_of(event: dp_event.DpEvent, direction: str = "remove") -> tuple[Step, ...]:
    return Composition.of(event).simplified(direction)


def jumps() -> Proposal:
    return capped_proposal(steps_of(JUMPS), EPSILON)


def dense() -> Proposal:
    return capped_proposal(steps_of(DENSE), EPSILON)


def near_cap() -> Proposal:
    """Much of the law is beyond the cap."""
    return TiltedProposal(steps_of(JUMPS), [Tilt(6.0, 1.6, math.log1p(-1e-3))])


def single_step() -> Proposal:
    event = dpsgd(noise_multiplier=0.6, sampling_probability=0.1, steps=1)
    return TiltedProposal(steps_of(event), [Tilt(2.0, 1.8, math.log1p(-0.1))])


def gaussian() -> Proposal:
    """Cells, few of them."""
    return TiltedProposal([Step(GaussianPair(0.8), 1)], [Tilt(2.0, 1.6, -2.0)], cells=64)


def likely() -> Proposal:
    return TiltedProposal(steps_of(LIKELY, "add"), [Tilt(17.0, 16.0, -39.4)])


def check(make: Callable[[], Proposal], epsilon: float = EPSILON) -> None:
    proposal = make()
    check_proposal(proposal, epsilon, exact(proposal.steps, epsilon))


@pytest.mark.parametrize(
    "make", [jumps, dense, near_cap, single_step, gaussian], ids=lambda f: f.__name__
)
def test_without_a_fault_the_checks_pass(make: Callable[[], Proposal]) -> None:
    check(make)


def drop_weights(patch: Patch) -> None:
    draw = TiltedProposal.draw
    patch.setattr(TiltedProposal, "draw", lambda *a: Block(draw(*a).losses, np.zeros(a[2])))


def drop_normaliser(patch: Patch) -> None:
    draw = TiltedProposal.draw
    patch.setattr(
        TiltedProposal,
        "draw",
        lambda s, *a: (b := draw(s, *a))._replace(log_weights=b.log_weights - s.log_normaliser),
    )


def forget_tilt_in_mixture_weights(patch: Patch) -> None:
    """The weights (1 - q, q) of the paper instead of those of the tilted law."""

    def components(self: MixtureSampler, slope: int) -> tuple[Any, Any]:
        j, weights = right(self, slope)
        k = j / self.mu
        return j, weights - self.mu**2 * k * (k - 1) / 2

    right = MixtureSampler._components
    patch.setattr(MixtureSampler, "_components", components)


def forget_the_binomial(patch: Patch) -> None:
    patch.setattr("evr.sampling.samplers.mixture.binom", lambda n, j: np.ones_like(j))


def one_component_too_few(patch: Patch) -> None:
    right = MixtureSampler._components
    patch.setattr(MixtureSampler, "_components", lambda *a: tuple(x[:-1] for x in right(*a)))


def drop_pieces_beyond_the_cap(patch: Patch) -> None:
    right = MixtureSampler._pieces
    patch.setattr(MixtureSampler, "_pieces", lambda self: iter(list(right(self))[:-1]))


def heights_of_the_main_piece_everywhere(patch: Patch) -> None:
    build = MixtureSampler.__init__

    def lined(self: MixtureSampler, *arguments: Any) -> None:
        build(self, *arguments)
        wrong = SimpleNamespace(height=lambda loss: self._main.slope * loss + self._main.offset)
        object.__setattr__(self, "tilt", wrong)

    patch.setattr(MixtureSampler, "__init__", lined)


def what_is_left_out_is_forgotten(patch: Patch) -> None:
    deal = MixtureSampler._deal
    patch.setattr(MixtureSampler, "_deal", lambda *a: (np.empty(0, np.int64), deal(*a)[1]))


def dealt_in_order(patch: Patch) -> None:
    """The rare steps of single-step samples go to the first places."""

    class Ordered:
        def __init__(self, generator: np.random.Generator) -> None:
            self._generator = generator

        def choice(self, _: int, size: int, replace: bool) -> Any:
            return np.arange(size)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._generator, name)

    deal = MixtureSampler._deal_few
    patch.setattr(
        MixtureSampler,
        "_deal_few",
        lambda self, generator, *a: deal(self, cast(np.random.Generator, Ordered(generator)), *a),
    )


def no_second_draw_of_what_is_outside(patch: Patch) -> None:
    patch.setattr(
        "evr.sampling.samplers.mixture.sample_normal",
        lambda g, low, high: g.standard_normal(np.shape(low - high)),
    )


def normaliser_without_the_part_beyond_the_cap(patch: Patch) -> None:
    patch.setattr(
        TiltedBounds,
        "log_normaliser",
        property(lambda self: self._expectation(0.0, 1.0, above=False)),
    )


def cells_off_by_one(patch: Patch) -> None:
    build = CellSampler.__init__

    def shifted(self: CellSampler, *arguments: Any) -> None:
        build(self, *arguments)
        self._low, self._high = np.roll(self._low, -1)[:-1], np.roll(self._high, -1)[:-1]
        self._roof = self._roof[:-1]
        self._cumulated = np.minimum(self._cumulated[:-1], 1.0)

    patch.setattr(CellSampler, "__init__", shifted)


def masses_off_by_one(patch: Patch) -> None:
    """The table's masses of P belong to the cell before."""
    of = CellTable.of

    def shifted(_: type, *arguments: Any) -> CellTable:
        t = of(*arguments)
        return CellTable(
            t.low, t.high, t.least, t.greatest, np.concatenate((t.log_p[1:], t.log_p[:1])), t.log_q
        )

    patch.setattr(CellTable, "of", classmethod(shifted))


def pieces_off_by_one_cell(patch: Patch) -> None:
    """The cell below the cap counts as beyond it, the cell below the floor as above."""
    parts = vars(TiltedBounds)["_parts"].func

    def shifted(self: TiltedBounds) -> list[tuple[slice, float, float]]:
        last = self.table.high.size
        return [
            (slice(max(p.start - 1, 0), p.stop - (p.stop < last)), a, o) for p, a, o in parts(self)
        ]

    changed = cached_property(shifted)
    changed.__set_name__(TiltedBounds, "_parts")
    patch.setattr(TiltedBounds, "_parts", changed)


def bound_on_samples_too_small(patch: Patch) -> None:
    right = TiltedProposal.log_greatest
    patch.setattr(TiltedProposal, "log_greatest", lambda *a: right(*a) - 1.0)


def second_moment_too_small(patch: Patch) -> None:
    """A bound of a fiftieth: these bounds are generous, and one of a half would still hold."""
    right = TiltedProposal.log_moment
    patch.setattr(TiltedProposal, "log_moment", lambda *a: right(*a) - math.log(50.0))


def no_rejection_under_the_envelope(patch: Patch) -> None:
    patch.setattr(EnvelopeSampler, "_gap", lambda self, rise, ratios: np.full(rise.size, -1.0))


def bounds_below_the_gaps(patch: Patch) -> None:
    def low(self: EnvelopeSampler, rise: Floats, ratios: Floats, out: Floats) -> None:
        np.multiply(self._gap(rise, ratios), 0.3, out=out)

    patch.setattr(EnvelopeSampler, "_bound_gaps", low)


def what_is_refused_stays(patch: Patch) -> None:
    right = EnvelopeSampler._refused
    patch.setattr(EnvelopeSampler, "_refused", lambda *a: right(*a)[:0])


def samples_in_pairs(patch: Patch) -> None:
    draw = TiltedProposal.draw

    def paired(self: TiltedProposal, generator: np.random.Generator, size: int) -> Block:
        half = draw(self, generator, size // 2)
        return Block(np.repeat(half.losses, 2), np.repeat(half.log_weights, 2))

    patch.setattr(TiltedProposal, "draw", paired)


def sorted_samples(patch: Patch) -> None:
    draw = TiltedProposal.draw

    def ordered(self: TiltedProposal, generator: np.random.Generator, size: int) -> Block:
        block = draw(self, generator, size)
        order = np.argsort(block.losses)
        return Block(block.losses[order], block.log_weights[order])

    patch.setattr(TiltedProposal, "draw", ordered)


FAULTS = [
    (drop_weights, jumps),
    (drop_normaliser, dense),
    (forget_tilt_in_mixture_weights, jumps),
    (forget_tilt_in_mixture_weights, dense),
    (forget_the_binomial, dense),
    (one_component_too_few, jumps),
    (drop_pieces_beyond_the_cap, near_cap),
    (heights_of_the_main_piece_everywhere, near_cap),
    (what_is_left_out_is_forgotten, near_cap),
    (dealt_in_order, single_step),
    (no_second_draw_of_what_is_outside, near_cap),
    (normaliser_without_the_part_beyond_the_cap, gaussian),
    (cells_off_by_one, gaussian),
    (masses_off_by_one, gaussian),
    (bound_on_samples_too_small, dense),
    (second_moment_too_small, jumps),
    (samples_in_pairs, jumps),
    (sorted_samples, jumps),
]


@pytest.mark.parametrize(("fault", "make"), FAULTS, ids=lambda f: f.__name__)
def test_a_fault_is_seen(
    fault: Callable[[Patch], None], make: Callable[[], Proposal], monkeypatch: Patch
) -> None:
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        check(make)


@pytest.mark.parametrize("fault", [no_rejection_under_the_envelope, what_is_refused_stays])
def test_a_fault_of_the_envelope_is_seen(
    fault: Callable[[Patch], None], monkeypatch: Patch
) -> None:
    check(likely, 15.0)
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        check(likely, 15.0)


def test_bounds_below_the_gaps_are_seen(monkeypatch: Patch) -> None:
    bounds_below_the_gaps(monkeypatch)
    with pytest.raises(AssertionError):
        check_envelope(*ENVELOPES["steep"])


def test_pieces_off_by_one_cell_are_seen(monkeypatch: Patch) -> None:
    """No sample would tell: the effect is of second order in the width of a
    cell. Quadrature does.
    """
    pieces_off_by_one_cell(monkeypatch)
    with pytest.raises(AssertionError):
        check_bounds_of_a_tilt("gaussian", TILTS["fraction"])


@pytest.mark.parametrize("case", [LONG, *named("sampled response")], ids=lambda case: case.name)
def test_the_wrong_direction_is_seen(case: Case) -> None:
    remove, add = (case.steps(direction) for direction in ("remove", "add"))
    proposal = capped_proposal(add, case.epsilon)
    check_proposal(proposal, case.epsilon, exact(add, case.epsilon))
    with pytest.raises(AssertionError):
        check_proposal(proposal, case.epsilon, exact(remove, case.epsilon))


def test_the_tempting_wrong_pair_is_seen() -> None:
    """Swapping the base pair and sampling it as in the remove direction; invisible for Gaussians,
    so outcomes are drawn.
    """
    p, q = [0.444, 0.556], [0.599, 0.401]
    swapped = DiscretePair.from_probabilities(q, p)
    right: DominatingPair = SampledPair(swapped, 0.38, Direction.ADD)
    wrong: DominatingPair = SampledPair(swapped, 0.38, Direction.REMOVE)
    delta = exact((Step(right, 4),), 0.3)
    assert delta == near(0.0139, abs=5e-5)
    check_proposal(capped_proposal((Step(right, 4),), 0.3), 0.3, delta)
    with pytest.raises(AssertionError):
        check_proposal(capped_proposal((Step(wrong, 4),), 0.3), 0.3, delta)
