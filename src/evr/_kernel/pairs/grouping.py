"""Schedules: many sampled Gaussians of different noise or rates, grouped to the safe side
(docs/guarantees_nested.md, G5). Each group becomes as many equal steps: a labelled mixture of one below all
of its steps and one above.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from evr._kernel.pairs.exact.law import Ball, at_precision, ball, integer_above
from evr._kernel.pairs.exact.line import ExactGaussian
from evr._kernel.pairs.exact.sampled import ExactEither, SampledCurve
from evr._kernel.pairs.steps import Step
from evr.types import Direction

MOST_KINDS = 128  # of sampled Gaussians: more are grouped to as many
_ROOM = 2  # how far beyond a group its upper step is, in widths of the group
_BITS = 53  # of the weights of a mixture


def sampled_gaussian(square: Fraction, rate: Fraction, direction: Direction) -> SampledCurve:
    """One over the square of its noise, and its sampling probability."""
    return SampledCurve(ExactGaussian(square), rate, direction)


class Member(NamedTuple):
    """A sampled Gaussian in a group, and how many times it runs."""

    square: Fraction
    rate: Fraction
    times: int


class Group(NamedTuple):
    """Members that become one kind of step."""

    members: tuple[Member, ...]

    def ends(self, name: str) -> tuple[Fraction, Fraction]:
        values = [getattr(one, name) for one in self.members]
        return min(values), max(values)

    def width(self, name: str) -> Fraction:
        """Relative to the least."""
        low, high = self.ends(name)
        return (high - low) / low

    @property
    def size(self) -> int:
        return sum(one.times for one in self.members)

    @property
    def cost(self) -> Fraction:
        """About the variance of the losses that it adds."""
        square, rate = self.ends("square")[1], self.ends("rate")[1]
        variance = self.size * rate**2 * square * (1 + square)
        return variance * ((1 + square) * self.width("square") + 2 * self.width("rate"))

    def halves(self) -> tuple[Group, Group]:
        """Those below and above the middle of the wider number, of a group of different members."""
        name = max(("square", "rate"), key=self.width)
        middle = sum(self.ends(name), Fraction(0)) / 2
        lower = tuple(one for one in self.members if getattr(one, name) <= middle)
        return Group(lower), Group(tuple(one for one in self.members if getattr(one, name) > middle))


def groups_of(members: Sequence[Member], most: int) -> list[Group]:
    """At most so many groups of members that are near to each other: the one that costs most is halved."""
    found = [Group(tuple(sorted(members)))]
    costs = [found[0].cost]
    while len(found) < most and (greatest := max(costs)) > 0:
        index = costs.index(greatest)
        halves = found[index].halves()
        found[index : index + 1], costs[index : index + 1] = halves, [half.cost for half in halves]
    return found


@lru_cache(maxsize=64)
def grouped(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Steps that dominate the given ones (G5.4): fewer kinds, where there are many of sampled Gaussians."""
    members = dict[Direction, list[Member]]({one: [] for one in Direction})
    others = list[Step]()
    for step in steps:
        match step.law:
            case SampledCurve(ExactGaussian(square), rate, direction):
                members[direction].append(Member(square, rate, step.count))
            case _:
                others.append(step)
    if sum(map(len, members.values())) <= MOST_KINDS:
        return steps
    found = [(one, group) for one, own in members.items() if own for group in groups_of(own, MOST_KINDS)]
    return (*others, *(_equal_steps(group, one) for one, group in found))


def _equal_steps(group: Group, direction: Direction) -> Step:
    """As many equal steps as a group has, which dominate it."""
    (low, high), (rare, often) = group.ends("square"), group.ends("rate")
    less_noise = high + _ROOM * (high - low)
    more_often = min(often + _ROOM * (often - rare), (1 + often) / 2)
    weight = Fraction(1)
    if len(group.members) > 1:
        weight = _weight(group, (low, less_noise), (rare, more_often))
    if weight == 1:
        return Step(sampled_gaussian(high, often, direction), group.size)
    below = sampled_gaussian(low, rare, direction)
    return Step(ExactEither(below, sampled_gaussian(less_noise, more_often, direction), weight), group.size)


def _weight(group: Group, squares: tuple[Fraction, Fraction], rates: tuple[Fraction, Fraction]) -> Fraction:
    """The weight of the upper step: ``1 - (prod (1 - t_i))^(1/n)``, rounded up; ``t_i`` is how far the step
    ``i`` is from the lower one, by the noise or by the rate, whichever is more (G5.3, G5.4). It is 1 where
    balls do not tell.
    """
    (low, high), (rare, often) = squares, rates
    with at_precision(3 * _BITS):
        root = Ball(8).sqrt()

        def distance(square: Fraction) -> Ball:
            """Of a Gaussian mechanism, in total variation."""
            return (ball(square).sqrt() / root).erf()

        start, end, total = distance(low), distance(high), Ball(0)
        for square, rate, times in group.members:
            by_rate = ball((rate - rare) / (often - rare)) if often > rare else Ball(0)
            by_noise = (distance(square) - start) / (end - start) if high > low else Ball(0)
            total += times * (1 - by_rate.max(by_noise)).log()
        kept = (total / group.size).exp()
        units = integer_above((1 - kept) * (1 << _BITS)) if kept.is_finite() else 1 << _BITS
    return Fraction(min(max(units, 1), 1 << _BITS), 1 << _BITS)
