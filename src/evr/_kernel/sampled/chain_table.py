"""Replicas of b-min-sep patterns (docs/guarantees_highdim.md, 5.1c)."""

import math
from functools import cached_property, singledispatch

import numpy as np
from numpy.typing import NDArray
from scipy.special import comb, gammaln

from evr._kernel.pairs.law import Floats
from evr._kernel.sampled.replica_states import (
    MOST_STATES,
    MOST_VALUES,
    Counts,
    chosen_of,
    state_numbers,
    with_sum,
)


class ChainTable:
    """Replicas of b-min-sep patterns; a state counts those that took part so many steps ago (5.1c).

    ``overlaps[d, i]`` is ``<C e_i, C e_{i-d}> / s^2`` for ``d < separation``, 0 where ``i < d``.
    """

    def __init__(self, overlaps: Floats, separation: int, probability: float, warm: bool, order: int) -> None:
        self.overlaps, self.order, self.probability = overlaps, order, probability
        self.near, self.steps = overlaps.shape
        states = with_sum(order, separation)  # 1, .., separation - 1 steps ago; and eligible
        self.recent, self._eligible = states[:, : self.near - 1].astype(float), states[:, -1]
        self.next = np.zeros((states.shape[0], order + 1), dtype=np.int32)
        self.chances = np.zeros((states.shape[0], order + 1))
        for j in range(order + 1):
            able = self._eligible >= j
            after = np.column_stack((np.full(len(states), j), states[:, :-1]))
            after[:, -1] += self._eligible - j
            self.next[able, j] = state_numbers(after[able])
            rest = self._eligible[able] - j
            ways = np.round(comb(self._eligible[able], j))
            self.chances[able, j] = ways * (probability**j * (1.0 - probability) ** rest)
        self.unmoved = self.next[:, 0].copy()
        self._first = _starts(states, separation, probability, warm)
        self.values = np.empty((self.steps + 1, states.shape[0]))
        self.values[-1] = 1.0
        weights, known = self.chances, b""
        for step in range(self.steps - 1, -1, -1):
            if overlaps[:, step].tobytes() != known:
                known = overlaps[:, step].tobytes()
                weights = self.weights(np.arange(states.shape[0]), step)
            later = self.values[step + 1][self.next]
            np.einsum("sj,sj->s", weights, later, out=self.values[step])

    @staticmethod
    def is_affordable(steps: int, separation: int, order: int) -> bool:
        states = math.comb(separation + order - 1, order)
        return states <= MOST_STATES and states * (steps + 1) <= MOST_VALUES

    def weights(self, states: NDArray[np.integer], step: int) -> Floats:
        """The weight of each number of replicas that take part, in each state."""
        pull = self.recent[states] @ self.overlaps[1:, step]
        j, chances = np.arange(self.order + 1), self.chances[states]
        exponents = pull[:, None] * j + j * (j - 1) / 2 * self.overlaps[0, step]
        exponents[chances == 0.0] = -np.inf  # more than are eligible: e^exponent may be no float
        return chances * np.exp(exponents)

    @cached_property
    def log_moment(self) -> float:
        """``log M_k``."""
        return math.log(float(self._first @ self.values[0]))

    @cached_property
    def starts(self) -> Floats:
        """Weights of the states before the first step, added up."""
        return np.cumsum(self._first * self.values[0])

    def draw(self, generator: np.random.Generator, size: int) -> Floats:
        """The number of replicas that take part in each step."""
        start = generator.random(size) * self.starts[-1]
        state = np.searchsorted(self.starts[:-1], start, side="right").astype(np.int32)
        return draw_chain(state, self, generator)

    @cached_property
    def staying(self) -> Floats:
        """The chance that no replica takes part, which is the likeliest, by step and the state before it."""
        later = self.values[1:][:, self.unmoved] * self.chances[:, 0]
        # where both are 0, a state is never reached
        return np.divide(later, self.values[:-1], out=np.ones_like(later), where=self.values[:-1] > 0)


@singledispatch
def draw_chain(state: NDArray[np.int32], table: ChainTable, generator: np.random.Generator) -> Floats:
    """The number of replicas that take part in each step, from the states before the first."""
    pulses = np.zeros((table.steps, state.size))
    for step in range(table.steps):
        drawn = generator.random(state.size)
        moved = np.flatnonzero(drawn >= table.staying[step].take(state))
        after = table.unmoved.take(state)
        if moved.size:
            at = state[moved]
            weights = table.weights(at, step) * table.values[step + 1][table.next[at]]
            pulses[step, moved] = chosen = chosen_of(drawn[moved], weights)
            after[moved] = table.next[at, chosen]
        state = after
    return pulses.T


def _starts(states: Counts, separation: int, probability: float, warm: bool) -> Floats:
    """The chance of each state before the first step."""
    order = int(states[0].sum())
    if not warm:
        return (states[:, -1] == order).astype(float)
    whole = 1.0 + (separation - 1) * probability
    logs = np.full(separation, math.log(probability / whole))
    logs[-1] = -math.log(whole)
    return np.asarray(np.exp(gammaln(order + 1) - gammaln(states + 1).sum(axis=1) + states @ logs))
