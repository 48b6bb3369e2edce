"""Schedules: many sampled Gaussians of different noise or rates, grouped to the safe side
(docs/guarantees_nested.md, G5). Each group becomes as many equal steps: a labelled mixture of one below all
of its steps and one above.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple

from evr._kernel.pairs.exact.law import Ball, ExactCurve, at_precision, ball, integer_above
from evr._kernel.pairs.exact.line import ExactGaussian, ExactMixture
from evr._kernel.pairs.exact.sampled import ExactEither, SampledCurve
from evr._kernel.pairs.steps import Law, Step
from evr.types import Direction

MOST_KINDS = 128  # of sampled Gaussians: more are grouped to as many
_ROOM = 2  # how far beyond a group its upper step is, in widths of the group
_BITS = 53  # of the weights of a mixture


class SampledGaussian(NamedTuple):
    """A sampled Gaussian: one over the square of its noise, its rate and direction (replace-one: None)."""

    square: Fraction
    rate: Fraction
    direction: Direction | None

    @classmethod
    def of(cls, law: Law) -> SampledGaussian | None:
        """The sampled Gaussian whose law it is, if it is one."""
        match law:
            case SampledCurve(ExactGaussian(square), rate, direction):
                return cls(square, rate, direction)
            case ExactMixture((0, 1), (_, rate), None, square):
                return cls(square, rate, None)
        return None

    @property
    def exact(self) -> ExactCurve:
        if self.direction is None:
            return ExactMixture((Fraction(0), Fraction(1)), (1 - self.rate, self.rate), None, self.square)
        return SampledCurve(ExactGaussian(self.square), self.rate, self.direction)


class Member(NamedTuple):
    """A kind of sampled Gaussian in a group, and how many times it runs."""

    square: Fraction
    rate: Fraction
    times: int


@dataclass(frozen=True, eq=False)
class Group:
    """Members that become one kind of step, in the order of their squares."""

    members: tuple[Member, ...]

    @cached_property
    def squares(self) -> tuple[Fraction, Fraction]:
        """The least and the greatest."""
        return self.members[0].square, self.members[-1].square

    @cached_property
    def rates(self) -> tuple[Fraction, Fraction]:
        """The least and the greatest."""
        rates = {one.rate for one in self.members}
        return min(rates), max(rates)

    @cached_property
    def size(self) -> int:
        return sum(one.times for one in self.members)

    @cached_property
    def cost(self) -> Fraction:
        """About the variance of the losses that it adds."""
        square, rate = self.squares[1], self.rates[1]
        variance = self.size * rate**2 * square * (1 + square)
        return variance * ((1 + square) * _width(self.squares) + 2 * _width(self.rates))

    @cached_property
    def halves(self) -> tuple[Group, Group]:
        """Those below and above the middle of the wider number, of a group of different members."""
        if _width(self.squares) >= _width(self.rates):
            index = bisect_right(self.members, sum(self.squares) / 2, key=lambda one: one.square)
            return Group(self.members[:index]), Group(self.members[index:])
        middle = sum(self.rates) / 2
        rare = tuple(one for one in self.members if one.rate <= middle)
        return Group(rare), Group(tuple(one for one in self.members if one.rate > middle))


def _width(ends: tuple[Fraction, Fraction]) -> Fraction:
    """Relative to the least."""
    low, high = ends
    return (high - low) / low


@lru_cache(maxsize=8)
def _whole(members: tuple[Member, ...]) -> Group:
    """The group of all: its halves, and theirs, are found once, however many groups are asked for."""
    return Group(members)


def groups_of(members: Iterable[Member], most: int) -> list[Group]:
    """At most so many groups of members that are near to each other: the one that costs most is halved."""
    found = [_whole(tuple(sorted(members)))]
    while len(found) < most and (greatest := max(one.cost for one in found)) > 0:
        index = [one.cost for one in found].index(greatest)
        found[index : index + 1] = found[index].halves
    return found


def sampled_gaussians(steps: Iterable[Step]) -> tuple[dict[Direction | None, list[Member]], list[Step]]:
    """The sampled Gaussians among steps by their direction, and the other steps."""
    members, others = dict[Direction | None, list[Member]](), list[Step]()
    for step in steps:
        if (known := SampledGaussian.of(step.law)) is None:
            others.append(step)
        else:
            members.setdefault(known.direction, []).append(Member(known.square, known.rate, step.count))
    return members, others


@lru_cache(maxsize=64)
def grouped(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Steps that dominate the given ones (G5.4): fewer kinds, where there are many of sampled Gaussians."""
    members, others = sampled_gaussians(steps)
    if sum(map(len, members.values())) <= MOST_KINDS:
        return steps
    found = [(one, group) for one, own in members.items() for group in groups_of(own, MOST_KINDS)]
    return (*others, *(_equal_steps(group, one) for one, group in found))


def _equal_steps(group: Group, direction: Direction | None) -> Step:
    """As many equal steps as a group has, which dominate it."""
    (low, high), (rare, often) = group.squares, group.rates
    far = min(often + _ROOM * (often - rare), (1 + often) / 2)
    below = SampledGaussian(low, rare, direction)
    above = SampledGaussian(high + _ROOM * (high - low), far, direction)
    weight = _weight(group, below, above) if len(group.members) > 1 else Fraction(1)
    if weight == 1:
        return Step(SampledGaussian(high, often, direction).exact, group.size)
    return Step(ExactEither(below.exact, above.exact, weight), group.size)


def _weight(group: Group, below: SampledGaussian, above: SampledGaussian) -> Fraction:
    """The weight of the upper step: ``1 - (prod (1 - t_i))^(1/n)``, rounded up; ``t_i`` is how far the step
    ``i`` is from the lower one, by the noise or by the rate, whichever is more (G5.3 to G5.5). It is 1 where
    balls do not tell, or no proof is known.
    """
    replaced, both_change = below.direction is None, below.square < above.square and below.rate < above.rate
    if replaced and both_change and above.rate * above.square > 1:
        return Fraction(1)
    with at_precision(3 * _BITS):
        root = Ball(2 if replaced else 8).sqrt()

        def distance(square: Fraction) -> Ball:
            """Of a Gaussian mechanism, in total variation."""
            return (ball(square).sqrt() / root).erf()

        start, end, total = distance(below.square), distance(above.square), Ball(0)
        for square, rate, times in group.members:
            by_rate = by_noise = Ball(0)
            if above.rate > below.rate:
                by_rate = ball((rate - below.rate) / (above.rate - below.rate))
            if above.square > below.square:
                by_noise = (distance(square) - start) / (end - start)
            total += times * (1 - by_rate.max(by_noise)).log()
        kept = (total / group.size).exp()
        units = integer_above((1 - kept) * (1 << _BITS)) if kept.is_finite() else 1 << _BITS
    return Fraction(min(max(units, 1), 1 << _BITS), 1 << _BITS)
