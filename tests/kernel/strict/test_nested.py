"""Laws made of compositions against brute force: random trees of finite mechanisms, random and often very coarse grids.
A bound below the truth would be a false guarantee.
"""

import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from evr._kernel.pairs import Step
from evr._kernel.pairs.exact import RationalOutcomes
from evr._kernel.pairs.nested import NestedLaw, OneOf, SampledSteps
from evr._kernel.strict import Grid, NestedPlan, ProofPlan, Window, prove, schedule
from evr.types import Direction

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


def plan_of(steps: tuple[Step, ...], rng: random.Random, *, grids: bool) -> ProofPlan:
    """Any plan: the bound has to hold whatever it says."""
    nested = tuple(nested_plan(step.exact_law, rng) for step in steps if isinstance(step.exact_law, NestedLaw))
    if not grids:
        return ProofPlan(BITS, Fraction(1), (), (), nested=nested)
    spacing = Fraction(1, rng.choice((4, 16, 64, 256)))
    floor, top = math.floor(-rng.choice((2, 6, 12)) / spacing), math.ceil(rng.choice((3, 8, 14)) / spacing)
    windows = [Window(0, 0, 1, floor, top)] * len(schedule([step.count for step in steps]))
    return ProofPlan(BITS, spacing, (Grid(Fraction(0), 0, 0, 1, floor, top),) * len(steps), tuple(windows), (), nested)


def nested_plan(law: NestedLaw, rng: random.Random) -> NestedPlan:
    alone = [len(steps) == 1 and steps[0].count == 1 and rng.random() < 0.5 for steps in law.compositions]
    plans = tuple(plan_of(s, rng, grids=not one) for s, one in zip(law.compositions, alone, strict=True))
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


@pytest.mark.parametrize("seed", range(6))
def test_a_bound_is_never_below_the_truth(seed: int) -> None:
    rng = random.Random(seed)
    ratios = [ratio for _ in range(60) for ratio in compared(rng)]
    assert np.median(ratios) < 1.05  # and it says something
