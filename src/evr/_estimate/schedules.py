"""Estimates of schedules: very many kinds of sampled Gaussians as few, two or three for each group of nearly equal
steps. No guarantee rests on these: a strict proof groups steps to the safe side.
"""

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

import numpy as np

from evr._kernel.pairs import Floats, Law, Step
from evr._kernel.pairs.exact.sampled import ExactEither
from evr._kernel.pairs.grouping import Group, SampledGaussian, grouped, groups_of, sampled_gaussians
from evr.types import Direction

_MOST_KINDS = 256  # that an estimate takes as they are
_STRAIGHT = 1e-4  # of variances: what a group of steps on a curve has across it
_STEEPEST = 50.0  # square of a mean, beyond which variances are not told apart


@lru_cache(maxsize=16)
def condensed(steps: tuple[Step, ...], groups: int) -> tuple[tuple[Step, ...], float]:
    """The same composition in fewer kinds, where there are very many: what half as many groups give tells how far it is
    off. And by how much of itself the variance of losses is greater where a proof groups steps to the safe side.
    """
    safe = grouped(steps)
    if safe == steps:
        return steps, 0.0
    added = _variance_of(safe) / _variance_of(steps) - 1.0
    if len(steps) <= _MOST_KINDS:
        return steps, added
    members, rest = sampled_gaussians(steps)
    few = [step for one, own in members.items() for group in groups_of(own, groups) for step in _nodes(group, one)]
    return (*rest, *few), added


def _nodes(group: Group, direction: Direction | None) -> list[Step]:
    """As many steps as a group has, of a few kinds: two or four around the middle, and the rest there, such that their
    means and rates have the mean, the deviations and the correlation of the group's. What is smooth in both has about
    the same sum.
    """
    counts = np.array([one.times for one in group.members], float)
    rows = np.array([(math.sqrt(one.square), float(one.rate)) for one in group.members])
    scale = rows.max(axis=0)
    mean = np.average(rows / scale, axis=0, weights=counts)
    squares, axes = np.linalg.eigh(np.atleast_2d(np.cov((rows / scale).T, bias=True, fweights=counts.astype(int))))
    axes = axes[:, squares > _STRAIGHT * max(squares[-1], 1e-24)]
    held = squares[squares > _STRAIGHT * max(squares[-1], 1e-24)]
    each = group.size // (2 * held.size) if held.size else 0
    if not each:
        return [_step(row, one.times, direction) for row, one in zip(rows, group.members, strict=True)]
    rest = group.size - 2 * each * held.size
    reach = (axes * np.sqrt(held * group.size / (2 * each))).T
    nodes = [(mean + sign * one, each) for one in reach for sign in (1, -1)] + [(mean, rest)] * (rest > 0)
    ends = rows.min(axis=0), rows.max(axis=0)
    return [_step(np.clip(node * scale, *ends), count, direction) for node, count in nodes]


def _step(row: Floats, count: int, direction: Direction | None) -> Step:
    mean, rate = map(Fraction, row.tolist())
    return Step(SampledGaussian(mean**2, rate, direction).exact, count)


def _variance_of(steps: Iterable[Step]) -> float:
    """About the variance of the losses of all sampled Gaussians, and of groups of them."""
    return math.fsum(
        step.count * float(weight) * _variance(known)
        for step in steps
        for weight, law in _parts(step.law)
        if (known := SampledGaussian.of(law)) is not None
    )


def _parts(law: Law) -> list[tuple[Fraction, Law]]:
    if isinstance(law, ExactEither):
        return [(1 - law.weight, law.below), (law.weight, law.above)]
    return [(Fraction(1), law)]


def _variance(one: SampledGaussian) -> float:
    square = min(float(one.square), _STEEPEST)
    return float(one.rate) ** 2 * (4.0 * math.sinh(square) if one.direction is None else math.expm1(square))
