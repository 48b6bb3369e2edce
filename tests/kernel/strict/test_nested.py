"""Laws made of compositions against brute force: random trees of finite mechanisms, random and often very coarse grids.
A bound below the truth would be a false guarantee.
"""

import importlib
import math
import random
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event

from evr._kernel.events import Composition
from evr._kernel.pairs import Step
from evr._kernel.pairs.exact import RationalOutcomes
from evr._kernel.pairs.nested import NestedLaw, OneOf, SampledSteps
from evr._kernel.strict import Grid, NestedPlan, ProofPlan, Window, prove, schedule
from evr._kernel.strict.lower import _outcomes, bounds_below
from evr._plan.lower import delta_below, epsilon_below
from evr._plan.strict import StrictCurve
from evr.errors import UnsupportedEventError
from evr.types import Direction
from helpers import full
from kernel.strict.stress import plant

REMOVE, ADD = Direction.REMOVE, Direction.ADD
EPSILONS = (0.0, 0.3, 1.0, 2.5)
Tree = tuple[Any, ...]
BITS = 100


def leaf(rng: random.Random) -> Tree:
    size = rng.choice((2, 2, 3))

    def law() -> tuple[Fraction, ...]:
        weights = [rng.randint(0 if rng.random() < 0.15 else 1, 20) for _ in range(size)]
        weights[0] += not sum(weights)
        return tuple(Fraction(w, sum(weights)) for w in weights)

    return ("leaf", law(), law())


def tree(rng: random.Random, depth: int, *kinds: str) -> Tree:
    kind = rng.choice(kinds or ("composed", "sampled", "one of", "leaf")) if depth else "leaf"
    if kind == "leaf":
        return leaf(rng)
    if kind == "sampled":
        return (kind, tree(rng, depth - 1), Fraction(rng.randint(1, 9), 10))
    numbers = (1, 1, 2, 3) if kind == "composed" else (1, 2)
    return (kind, [(tree(rng, depth - 1), rng.choice(numbers)) for _ in range(rng.choice((1, 2)))])


def enumerated(node: Tree) -> tuple[Any, Any]:
    """The law of all outcomes with the record and without it."""
    if node[0] == "leaf":
        return tuple(np.array([float(x) for x in law]) for law in node[1:])  # type: ignore[return-value]
    if node[0] == "sampled":
        held, absent = enumerated(node[1])
        return (1 - float(node[2])) * absent + float(node[2]) * held, absent
    parts = [enumerated(inner) for inner, number in node[1] for _ in range(number)]
    if math.prod(len(held) for held, _ in parts) > 200_000:
        raise OverflowError

    def product(present: set[int]) -> Any:
        found = np.ones(1)
        for place, (held, absent) in enumerate(parts):
            found = np.outer(found, held if place in present else absent).ravel()
        return found

    everywhere = set(range(len(parts)))
    if node[0] == "composed":
        return product(everywhere), product(set())
    return sum(product({place}) for place in everywhere) / len(parts), product(set())


def steps_of(node: Tree, direction: Direction) -> tuple[Step, ...]:
    """The composition of a tree in the kernel's terms."""
    if node[0] == "composed":
        return tuple(
            Step(step.law, number * step.count) for inner, number in node[1] for step in steps_of(inner, direction)
        )
    law: Any
    if node[0] == "leaf":
        law = RationalOutcomes(*(node[1:] if direction is REMOVE else node[:0:-1]))
    elif node[0] == "sampled":
        law = SampledSteps(steps_of(node[1], direction), node[2], direction)
    else:
        law = OneOf(direction, tuple((steps_of(inner, direction), number) for inner, number in node[1]))
    return (Step(law, 1),)


def plan_of(steps: tuple[Step, ...], rng: random.Random, *, grids: bool, bits: int = BITS) -> ProofPlan:
    """Any plan: the bound has to hold whatever it says."""
    laws = [step.exact_law for step in steps]
    nested = tuple(nested_plan(law, rng, bits) for law in laws if isinstance(law, NestedLaw))
    if not grids:
        return ProofPlan(bits, Fraction(1), (), (), nested=nested)
    spacing = Fraction(1, rng.choice((4, 16, 64, 256)))
    floor, top = math.floor(-rng.choice((2, 6, 12)) / spacing), math.ceil(rng.choice((3, 8, 14)) / spacing)
    windows = [Window(0, 0, 1, floor, top)] * len(schedule([step.count for step in steps]))
    return ProofPlan(bits, spacing, (Grid(Fraction(0), 0, 0, 1, floor, top),) * len(steps), tuple(windows), (), nested)


def nested_plan(law: NestedLaw, rng: random.Random, bits: int) -> NestedPlan:
    alone = [len(steps) == 1 and steps[0].count == 1 and rng.random() < 0.5 for steps in law.compositions]
    plans = tuple(plan_of(s, rng, grids=not one, bits=bits) for s, one in zip(law.compositions, alone, strict=True))
    return NestedPlan(plans, Fraction(1, rng.choice((2, 8, 32, 128))), Fraction(rng.choice((1, 3))))


def compared(rng: random.Random, *kinds: str) -> list[float]:
    """Bounds over the true deltas of one tree, both directions, four epsilons; none is below."""
    while True:
        node = tree(rng, rng.choice((1, 2, 3)), *kinds)
        try:
            worlds = enumerated(node)
            break
        except OverflowError:
            continue
    ratios = []
    for direction in Direction:
        steps = steps_of(node, direction)
        alone = len(steps) == 1 and steps[0].count == 1
        p, q = worlds if direction is REMOVE else worlds[::-1]
        for epsilon in EPSILONS:
            plan = plan_of(steps, rng, grids=not alone or rng.random() < 0.3)
            truth = float(np.maximum(p - math.exp(epsilon) * q, 0).sum())
            bound = float(prove(steps, Fraction(epsilon), plan).delta)
            assert bound >= truth * (1 - 1e-11) - 1e-15, (node, direction, epsilon, bound, truth)
            if truth > 1e-6:
                ratios.append(bound / truth)
    return ratios


@pytest.mark.parametrize("seed", [0, 1, *map(full, range(2, 6))])
def test_a_bound_is_never_below_the_truth(seed: int) -> None:
    rng = random.Random(seed)
    ratios = [ratio for _ in range(60) for ratio in compared(rng)]
    assert np.median(ratios) < 1.05  # and it says something


def below(rng: random.Random) -> list[tuple[float, float]]:
    """Lower bounds, by the functions as they are now, and the true deltas of one tree without groups."""
    now = importlib.import_module("evr._kernel.strict.lower")
    inner = tree(rng, rng.choice((1, 2)), "composed", "sampled")
    node: Tree = ("composed", [(inner, rng.choice((1, 2, 3)))])
    try:
        worlds = enumerated(node)
    except OverflowError:
        return []
    if "one of" in repr(node):
        return []
    found = []
    bits = rng.choice((12, BITS))
    for direction in Direction:
        steps = steps_of(node, direction)
        p, q = worlds if direction is REMOVE else worlds[::-1]
        for epsilon in map(Fraction, EPSILONS):
            plan = plan_of(steps, rng, grids=True, bits=bits)
            bound = float(now.bounds_below(steps, plan, epsilon, epsilon)(epsilon))
            found.append((bound, float(np.maximum(p - math.exp(epsilon) * q, 0).sum())))
    return found


@pytest.mark.parametrize("seed", range(2))
def test_a_lower_bound_is_never_above_the_truth(seed: int) -> None:
    rng = random.Random(seed)
    found = [one for _ in range(40) for one in below(rng)]
    assert all(bound <= truth * (1 + 1e-11) + 1e-15 for bound, truth in found)
    assert np.median([bound / truth for bound, truth in found if truth > 1e-6]) > 0.8  # and it says something


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("below + (factor * there >> wide) + 1", "below + (factor * there >> wide + 1)"),
        ("above, below = infinite, 0", "above, below = infinite + (unit * unit >> 8), 0"),
        ("ratio = power_above(plan.spacing, wide)", "ratio = power_above(plan.spacing / 2, wide)"),
        ("- (first + len(p) - 1) * plan.spacing", "- (first + len(p)) * plan.spacing"),
        ("with_outcomes(steps, plan, _outcomes)", "with_outcomes(steps, plan)"),
    ],
)
def test_a_fault_in_a_lower_bound_is_seen(right: str, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "lower", right, wrong)
    rng = random.Random(1)
    seen = (bound > truth * (1 + 1e-11) + 1e-15 for _ in range(150) for bound, truth in below(rng))
    assert any(seen)


@pytest.mark.parametrize("bits", [10, BITS])
def test_outcomes_below_a_composition_are_a_pair_whose_losses_fall(bits: int) -> None:
    """Of the greatest chances of tests: else what roundings leave would count as outcomes of a great loss."""
    rng = random.Random(bits)
    for _ in range(20):
        steps = (Step(RationalOutcomes(*leaf(rng)[1:]), rng.randint(1, 5)),)
        law = _outcomes(steps, plan_of(steps, rng, grids=True, bits=bits))
        assert sum(law.p) == sum(law.q) == 1
        sets = [(p, q) for p, q in zip(law.p, law.q, strict=True) if p or q]
        assert all(a * d > b * c for (a, b), (c, d) in pairwise(sets))


def test_groups_have_no_lower_bound_at_any_depth() -> None:
    base = (Step(RationalOutcomes.of([0.25, 0.75], [0.75, 0.25]), 1),)
    groups = (Step(OneOf(REMOVE, ((base, 2),)), 2),)
    for steps in (groups, (Step(SampledSteps(groups, Fraction(1, 2), REMOVE), 1),)):
        with pytest.raises(UnsupportedEventError, match=r"one of 2 groups.* has no lower bound here"):
            bounds_below(steps, ProofPlan.of_one_step(8), Fraction(1), Fraction(1))


def repeated(event: dp_event.DpEvent, count: int) -> dp_event.DpEvent:
    return dp_event.SelfComposedDpEvent(event, count)


HALF = dp_event.PoissonSampledDpEvent(0.5, dp_event.GaussianDpEvent(2.0))
ANSWERS = dp_event.RandomizedResponseDpEvent(0.3, 4)  # outcomes below three of them have losses next to 0
SAMPLES = [
    (dp_event.PoissonSampledDpEvent(0.05, repeated(HALF, 4)), "add-or-remove"),
    (dp_event.PoissonSampledDpEvent(0.2, repeated(dp_event.LaplaceDpEvent(3.0), 2)), "add-or-remove"),
    (dp_event.SampledWithoutReplacementDpEvent(100, 20, repeated(ANSWERS, 3)), "replace-one"),
]


@pytest.mark.parametrize(("event", "relation"), SAMPLES)
def test_both_sides_of_samples_in_compositions(event: dp_event.DpEvent, relation: Any) -> None:
    for steps in Composition.of(repeated(event, 10), relation).exact_directions().values():
        assert isinstance(steps[0].law, SampledSteps)
        curve = StrictCurve(steps)
        estimate, lower, upper = curve.estimate(1.0), delta_below(curve, 1.0).delta, curve.bound(1.0)
        assert lower <= upper
        assert (1 - 5e-4) * estimate <= lower <= estimate * (1 + 1e-6)


def test_an_epsilon_of_a_sample_whose_losses_are_bounded() -> None:
    """It was planned at an epsilon that no loss exceeds, and was infinite."""
    event = dp_event.PoissonSampledDpEvent(0.5, repeated(dp_event.LaplaceDpEvent(2.0), 3))
    for steps in Composition.of(dp_event.PoissonSampledDpEvent(0.3, event)).exact_directions().values():
        curve = StrictCurve(steps)
        least = curve.estimated_epsilon(1e-4)
        assert least * (1 - 1e-4) <= epsilon_below(curve, 1e-4) <= least * (1 + 1e-9)
        assert least * (1 - 1e-9) <= curve.epsilon(1e-4) <= least * (1 + 1e-4)
