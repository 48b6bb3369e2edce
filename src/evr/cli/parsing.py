"""Numbers of the command line: fractions, lists, ranges, schedules."""

import bisect
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import typer

from evr._basics.numbers import is_beyond_floats

_GREATEST_RANGE = 100_000


def real(given: str | float) -> float:
    """A number of the command line, or a default; fractions such as ``256/60000`` are numbers too."""
    text = str(given)
    above, slash, below = text.partition("/")
    try:
        value = float(above) / float(below) if slash else float(text)
    except (ValueError, ZeroDivisionError):
        raise typer.BadParameter(f"{text!r} is not a number") from None
    if is_beyond_floats(value, above):
        raise typer.BadParameter(f"{text!r} is beyond what a float holds (1e-308 to 1e308)")
    return value


def whole_number(text: str) -> int:
    """A whole number, ``1e6`` being one."""
    try:
        return int(text)
    except ValueError:
        value = real(text)
        if not value.is_integer():
            raise typer.BadParameter(f"{text!r} is not a whole number") from None
        return int(value)


def several(text: str) -> tuple[float, ...]:
    """The numbers of a list ``0,1,2``, or of a range ``first:last:step``, its last included."""
    ranged = ":" in text
    parts = tuple(real(part) for part in text.split(":" if ranged else ","))
    if not ranged:
        return parts
    first, last, step = parts if len(parts) == 3 else (0.0, 0.0, 0.0)
    if not (step > 0 and first <= last < math.inf and math.isfinite(step)):
        raise typer.BadParameter(f"{text!r} is not a list like 0,1,2 nor a rising range first:last:step like 0:5:0.25")
    count = math.floor((last - first) / step * (1 + 1e-12) + 1e-9) + 1
    if count > _GREATEST_RANGE:
        raise typer.BadParameter(f"{text!r} has {count:,} points, more than {_GREATEST_RANGE:,}: take a greater step")
    return tuple(float(f"{first + i * step:.12g}") for i in range(count))


@dataclass(frozen=True)
class Schedule:
    """A number that changes in the course of a training: each value, and the epochs for which it holds."""

    phases: tuple[tuple[Any, Fraction], ...]

    @property
    def ends(self) -> list[Fraction]:
        """The epochs at which phases end."""
        return list(itertools.accumulate(epochs for _, epochs in self.phases))

    def at(self, epoch: Fraction) -> Any:
        """The value that holds just after an epoch."""
        return self.phases[bisect.bisect_right(self.ends, epoch)][0]

    def __str__(self) -> str:
        return ",".join(f"{value!r}@{float(epochs):.12g}" for value, epochs in self.phases)


def _schedule(parse: Callable[[str], Any], text: str) -> Schedule:
    """The schedule of a text such as ``256@10,512@10``."""
    phases = []
    for part in text.split(","):
        value, at, epochs = part.partition("@")
        length = real(epochs) if at else 0.0
        if not 0 < length < math.inf:
            raise typer.BadParameter(f"{part!r} is not a value and its epochs: write a schedule as 256@10,512@10")
        phases.append((parse(value), Fraction(repr(length))))
    return Schedule(tuple(phases))


class Several(tuple[Any, ...]):
    """The numbers of a list or a range, and how they were typed."""

    text: str


def each(parse: Callable[[str], Any], text: str) -> Any:
    """A number, or a tuple of numbers: those of a list or a range."""
    if "@" in text:
        only = "only noise multiplier, sampling probability and batch size change in a training"
        raise typer.BadParameter(f"{text!r} is a schedule, and {only}: give a number")
    if not ("," in text or ":" in text):
        return parse(text)
    found = Several(parse(repr(one)) for one in several(text))
    found.text = text
    return found


def changing(parse: Callable[[str], Any], text: str) -> Any:
    """As ``each``, or a schedule."""
    return _schedule(parse, text) if "@" in text else each(parse, text)
