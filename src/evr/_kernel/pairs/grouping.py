"""Schedules: many sampled Gaussians of different noise or rates, grouped to the safe side
(docs/guarantees_nested.md, G5). Each group becomes as many equal steps: a labelled mixture of a step below
all of its steps and one above.
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


class Sampled(NamedTuple):
    """A sampled Gaussian: one over the square of its noise, and its sampling probability."""

    square: Fraction
    rate: Fraction
    direction: Direction

    @property
    def exact(self) -> SampledCurve:
        return SampledCurve(ExactGaussian(self.square), self.rate, self.direction)


class Member(NamedTuple):
    """A kind of sampled Gaussian in a group, and how many times it runs."""

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

    def halves(self) -> tuple[Group, Group]:
        """Both parts of a group of different members, on both sides of the middle of its wider number."""
        name = max(("square", "rate"), key=self.width)
        middle = sum(self.ends(name), Fraction(0)) / 2
        lower = tuple(one for one in self.members if getattr(one, name) <= middle)
        return Group(lower), Group(tuple(one for one in self.members if getattr(one, name) > middle))


def groups_of(members: Sequence[Member], most: int) -> list[Group]:
    """At most so many groups of members that are near to each other: the one that costs most is halved."""

    def cost(group: Group) -> Fraction:
        """About the variance of the losses that it adds."""
        square, rate = group.ends("square")[1], group.ends("rate")[1]
        variance = group.size * rate**2 * square * (1 + square)
        return variance * ((1 + square) * group.width("square") + 2 * group.width("rate"))

    found = [Group(tuple(sorted(members)))]
    costs = [cost(found[0])]
    while len(found) < most and (greatest := max(costs)) > 0:
        place = costs.index(greatest)
        parts = found[place].halves()
        found[place : place + 1], costs[place : place + 1] = parts, map(cost, parts)
    return found


@lru_cache(maxsize=64)
def grouped(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Steps that dominate the given ones (G5.4): where there are very many kinds of sampled Gaussians, fewer
    kinds.
    """
    members = dict[Direction, list[Member]]({one: [] for one in Direction})
    rest = list[Step]()
    for step in steps:
        match step.law:
            case SampledCurve(ExactGaussian(square), rate, direction):
                members[direction].append(Member(square, rate, step.count))
            case _:
                rest.append(step)
    if sum(map(len, members.values())) <= MOST_KINDS:
        return steps
    found = [(one, group) for one, own in members.items() if own for group in groups_of(own, MOST_KINDS)]
    return (*rest, *(_equal_steps(group, one) for one, group in found))


def _equal_steps(group: Group, direction: Direction) -> Step:
    """As many equal steps as a group has, which dominate it."""
    (low, high), (rare, often) = group.ends("square"), group.ends("rate")
    far = min(often + _ROOM * (often - rare), (1 + often) / 2)
    below, above = Sampled(low, rare, direction), Sampled(high + _ROOM * (high - low), far, direction)
    weight = _weight(group, below, above) if len(group.members) > 1 else Fraction(1)
    if weight == 1:
        return Step(Sampled(high, often, direction).exact, group.size)
    return Step(ExactEither(below.exact, above.exact, weight), group.size)


def _weight(group: Group, below: Sampled, above: Sampled) -> Fraction:
    """The weight of the upper step: ``1 - (prod (1 - t_i))^(1/n)``, rounded up; ``t_i`` is how far the step
    ``i`` is from the lower one, by the noise or by the rate, whichever is more (G5.3, G5.4). It is 1 where
    balls do not tell.
    """
    with at_precision(3 * _BITS):
        root = Ball(8).sqrt()

        def distance(square: Fraction) -> Ball:
            """Of a Gaussian mechanism, in total variation."""
            return (ball(square).sqrt() / root).erf()

        start, end, total = distance(below.square), distance(above.square), Ball(0)
        for square, rate, times in group.members:
            by_rate = (
                ball((rate - below.rate) / (above.rate - below.rate)) if above.rate > below.rate else Ball(0)
            )
            by_noise = (distance(square) - start) / (end - start) if above.square > below.square else Ball(0)
            total += times * (1 - by_rate.max(by_noise)).log()
        rest = (total / group.size).exp()
        units = integer_above((1 - rest) * (1 << _BITS)) if rest.is_finite() else 1 << _BITS
    return Fraction(min(max(units, 1), 1 << _BITS), 1 << _BITS)
