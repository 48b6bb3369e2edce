"""Adaptive compositions of two and three models: which data a later mechanism gets depends on earlier outputs."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event

import evr
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction
from evr.testing import hockey_stick
from models import mechanisms, trainings
from models.cases import ADD_OR_REMOVE, RELATIONS, REPLACE_ONE, ZERO_OUT, Case, Maker
from models.rows import laws_of

SAMPLED = [mechanisms.poisson_of_gaussian, mechanisms.poisson_of_scalar_noise]
SINGLE = [mechanisms.gaussian, mechanisms.laplace, mechanisms.discrete_laplace, mechanisms.exponential]
KNOWN = [mechanisms.epsilon_delta, mechanisms.permute_and_flip, mechanisms.exponential]
RECORDS: dict[str, list[Maker]] = {
    ADD_OR_REMOVE: [*SINGLE, *SAMPLED, *KNOWN, mechanisms.truncated, mechanisms.poisson_of_guarantee],
    ZERO_OUT: [*SINGLE, *SAMPLED, *KNOWN, mechanisms.randomized_response, trainings.shuffled, trainings.matrix],
    REPLACE_ONE: [*SINGLE, *SAMPLED, *KNOWN, mechanisms.randomized_response, mechanisms.without_replacement_of_noise],
}
USERS: dict[str, list[Maker]] = {relation: [trainings.poisson_users, *KNOWN] for relation in RELATIONS}
OUTCOMES = 60  # of one mechanism
DELTAS = (1.0, 0.1, 1e-3)  # of the models, about: at epsilon 0 and where these are reached

Pair = tuple[np.ndarray, np.ndarray]


def coarse(p: Any, q: Any) -> Pair:
    """Both laws on few outcomes, those of similar likelihood ratios put together: what is seen tells less."""
    if not isinstance(p, np.ndarray):
        p, q = (np.array([law.get(outcome, 0.0) for outcome in {**p, **q}]) for law in (p, q))
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(np.log(p / q))
    first = np.unique(np.linspace(0, len(p), OUTCOMES, endpoint=False).astype(int))
    return np.add.reduceat(p[order], first), np.add.reduceat(q[order], first)


def adaptively(first: Pair, rng: random.Random, choices: list[Pair]) -> Pair:
    """The law of an output of the first pair and of one of the next mechanism: for each range of likelihood ratios of
    the first output, other data are handed to the next mechanism.
    """
    p, q = first
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(np.log(p / q))
    parts = [(outcomes, rng.choice(choices)) for outcomes in np.array_split(order, rng.choice([2, 3]))]
    both = [(np.outer(p[part], next_p).ravel(), np.outer(q[part], next_q).ravel()) for part, (next_p, next_q) in parts]
    return np.concatenate([of_p for of_p, _ in both]), np.concatenate([of_q for _, of_q in both])


def check_composition(rng: random.Random, relation: str, makers: list[Maker], number: int) -> float:
    """Fails unless evr proves no less than the adaptive composition of some models has; returns how tight that is."""
    cases: list[Case] = [rng.choice(makers)(rng, relation) for _ in range(number)]
    pairs = [worst_first([coarse(p, q) for p, q in laws_of(case, relation)]) for case in cases]
    composed = []
    for attempt in range(4):
        law = pairs[0][0] if attempt < 2 else rng.choice(pairs[0])
        for choices in pairs[1:]:
            law = adaptively(law, rng, choices[:2] if attempt < 2 else choices)
        composed.append(law)
    composition = Composition.of(dp_event.ComposedDpEvent([case.event for case in cases]), relation)
    shares = []
    for direction in Direction:
        ordered = composed if direction is Direction.REMOVE else [(q, p) for p, q in composed]
        many = np.linspace(0.0, 8.0, 200)
        deltas = np.max([hockey_stick(p, q, many) for p, q in ordered], axis=0)
        for wanted in DELTAS:
            place = min(int(np.argmax(np.append(deltas <= wanted, True))), len(many) - 1)
            proved = evr.estimate_delta(composition, many[place], method="strict", direction=direction.value).value
            assert deltas[place] <= proved * (1 + 1e-9) + 1e-12, (cases, direction, many[place])
            shares.append(deltas[place] / proved if proved else 1.0)
    return float(np.median(shares))


def worst_first(pairs: list[Pair]) -> list[Pair]:
    return sorted(pairs, key=lambda pair: -float(np.abs(pair[0] - pair[1]).sum()))


@pytest.mark.parametrize("number", [2, 3])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("makers", [RECORDS, USERS], ids=["records", "users"])
def test_adaptive_compositions_are_dominated(makers: dict[str, list[Maker]], relation: str, number: int) -> None:
    rng = random.Random(f"{relation} {number}")
    tightness = check_composition(rng, relation, makers[relation], number)
    print(f"{number} mechanisms under {relation}: median tightness {tightness:.4f}")


@pytest.mark.full
@pytest.mark.parametrize("seed", range(150))
def test_many_adaptive_compositions_are_dominated(seed: int) -> None:
    rng = random.Random(seed)
    relation, makers = rng.choice(RELATIONS), rng.choice([RECORDS, USERS])
    check_composition(rng, relation, makers[relation], rng.choice([2, 3]))
