"""Options that commands share, and the training that they describe."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property, partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evr import validate
from evr.kinds import is_record
from evr.numbers import typed

if TYPE_CHECKING:
    from evr.records import Record
    from evr.spec import Spec, Target

_GREATEST_RANGE = 100_000


def _real(given: str | float) -> float:
    """A number of the command line, or a default; fractions such as ``256/60000`` are numbers too."""
    text = str(given)
    above, slash, below = text.partition("/")
    try:
        value = float(above) / float(below) if slash else float(text)
    except (ValueError, ZeroDivisionError):
        raise typer.BadParameter(f"{text!r} is not a number") from None
    if (value == 0 and re.search("[1-9]", above.lower().partition("e")[0])) or (
        math.isinf(value) and "inf" not in text.lower()
    ):
        raise typer.BadParameter(f"{text!r} is beyond what a float holds (1e-308 to 1e308)")
    return value


def _whole(text: str) -> int:
    """A whole number, ``1e6`` being one."""
    try:
        return int(text)
    except ValueError:
        value = _real(text)
        if not value.is_integer():
            raise typer.BadParameter(f"{text!r} is not a whole number") from None
        return int(value)


def several(text: str) -> tuple[float, ...]:
    """The numbers of a list ``0,1,2``, or of a range ``first:last:step``, its last included."""
    ranged = ":" in text
    parts = tuple(_real(part) for part in text.split(":" if ranged else ","))
    if not ranged:
        return parts
    first, last, step = parts if len(parts) == 3 else (0.0, 0.0, 0.0)
    if not (step > 0 and first <= last < math.inf and math.isfinite(step)):
        raise typer.BadParameter(f"{text!r} is not a list like 0,1,2 nor a rising range first:last:step like 0:5:0.25")
    count = math.floor((last - first) / step * (1 + 1e-12) + 1e-9) + 1
    if count > _GREATEST_RANGE:
        raise typer.BadParameter(f"{text!r} has {count:,} points, more than {_GREATEST_RANGE:,}: take a greater step")
    return tuple(float(f"{first + i * step:.12g}") for i in range(count))


def _each(parse: Callable[[str], Any], text: str) -> Any:
    """A number, or a tuple of them: those of a list or a range."""
    return tuple(parse(repr(one)) for one in several(text)) if "," in text or ":" in text else parse(text)


def option(help: str, *names: str, **more: Any) -> Any:
    """An option or a switch of a command."""
    return typer.Option(*names, help=help, **more)


number = partial(option, metavar="NUMBER", parser=_real)
numbers = partial(option, metavar="NUMBER", parser=lambda text: _each(_real, text))
whole = partial(option, metavar="INTEGER", parser=_whole)
wholes = partial(option, metavar="INTEGER", parser=lambda text: _each(_whole, text))
text = partial(option, metavar="NAME")
file = partial(option, metavar="FILE")


def choice(words: str, help: str) -> Any:
    """An option that takes one of some words, given as ``a|b|c``; shells complete them."""
    return option(help, metavar=words, autocompletion=lambda: words.split("|"))


RELATIONS = "add-or-remove|replace-one|zero-out"
UNITS = "record|example|user|client"
Unit = Annotated[str | None, choice(UNITS, "Whose data one record holds.")]
Csv = Annotated[Path | None, file("Write the table to this file too.")]
Plot = Annotated[Path | None, file("Draw the result into this file: .png, .svg or .pdf.")]
Force = Annotated[bool, option("Replace an existing file.", "--force")]
PATIENCE = 600.0
"""Seconds that a file from a stranger may keep a command busy."""
MaxSeconds = Annotated[float, number("Give up after this many seconds; inf: no limit.")]
LedgerFile = Annotated[str | None, file("Ledger of attempts: .evr/ledger.sqlite by default; or postgresql://...")]
Workers = Annotated[int | None, whole("Number of threads; all by default.")]
Json = Annotated[bool, option("Print one JSON document.", "--json")]
Quiet = Annotated[bool, option("Print the result only, no progress.", "--quiet", "-q")]


@dataclass(frozen=True)
class WhatRan:
    """What ran: a file, or the flags of a DP-SGD training. A tuple is a flag with several values."""

    spec: Annotated[Path | None, typer.Argument(metavar="SPEC", help="Specification file (TOML), or use flags.")] = None
    noise_multiplier: Annotated[float | None, numbers("Standard deviation of the noise over the clipping norm.")] = None
    sampling_probability: Annotated[float | None, numbers("A record's probability per batch, as 0.01 or 1/235.")] = None
    steps: Annotated[int | None, wholes("Number of optimizer steps.")] = None
    dataset_size: Annotated[int | None, wholes("Number of records in the training set.")] = None
    batch_size: Annotated[int | None, wholes("Expected batch size; needs --dataset-size.")] = None
    epochs: Annotated[float | None, numbers("Passes over the data, instead of --steps.")] = None
    sampling: Annotated[
        str | None,
        choice(
            "poisson|without-replacement|allocation",
            "How batches are drawn; by default poisson. without-replacement: fixed size. allocation: whole epochs.",
        ),
    ] = None
    records_per_user: Annotated[int | None, wholes("Protect users who own at most this many records.")] = None
    user_norm: Annotated[float | None, numbers("A user's joint clipping norm in a batch, in clipping norms.")] = None
    adjacency: Annotated[str | None, choice(RELATIONS, "Neighbouring data sets; by default add-or-remove.")] = None

    @property
    def given(self) -> dict[str, Any]:
        """The flags of a training, each a keyword of ``evr.dpsgd``."""
        flags = [one.name for one in fields(self) if one.name not in ("spec", "adjacency")]
        return {name: value for name in flags if (value := getattr(self, name)) is not None}

    @property
    def ranges(self) -> dict[str, tuple[float, ...]]:
        """The flags that have several values."""
        return {name: value for name, value in self.given.items() if isinstance(value, tuple)}

    def check(self) -> None:
        """Refuse flags that leave open what ran, and name those that are missing."""
        given = self.given.keys()
        wanted = {
            "--noise-multiplier": "noise_multiplier" in given,
            "--sampling-probability (1 if every record is in every step), or --dataset-size and --batch-size": (
                "sampling_probability" in given or {"dataset_size", "batch_size"} <= given
            ),
            "--steps or --epochs": "steps" in given or "epochs" in given,
        }
        if missing := [flags for flags, are_there in wanted.items() if not are_there]:
            raise ValueError(f"what ran? Give a SPEC file, or describe DP-SGD by flags: add {'; '.join(missing)}")

    def event(self) -> Any:
        """The training that the flags describe."""
        self.check()
        from evr.events import dpsgd

        return dpsgd(**self.given)

    @cached_property
    def file(self) -> Spec | None:
        """The tables of the file."""
        from evr.spec import load

        return None if self.spec is None else load(self.spec)

    def described(self) -> tuple[Any, Target | None, str | None]:
        """The event of the file or of the flags, the claim of the file, and the relation of neighbours, where given."""
        if self.file is None:
            return self.event(), None, self.adjacency
        relation = self.adjacency or self.file.adjacency
        return self.file.event(relation), self.file.claim, relation

    def record(self) -> Record | None:
        """The record of a training, if that is what the file is; of several processes, all of them."""
        if self.spec is None or not is_record(self.spec):
            return None
        from evr.records import Record

        return Record.load(self.spec)

    def description(self) -> dict[str, Any]:
        """The numbers that flags, or the one table of a file, give of a DP-SGD training."""
        given = self.given
        if self.file is not None:
            first, *others = self.file.mechanism
            if others or self.file.tuning or first.kind != "dpsgd" or first.repeat != 1:
                return {}
            given = first.given
        return {"algorithm": "DP-SGD"} | {key: given.get(key) for key in ("dataset_size", "batch_size", "epochs")}

    @property
    def records(self) -> int:
        """The number of records, where flags or the tables of a file say it; else 0."""
        if self.file is None:
            return self.dataset_size or 0
        return max(one.given.get("dataset_size") or 0 for one in self.file.mechanism)

    @property
    def caption(self) -> str:
        """What ran, short enough for a title."""
        fixed = {name: value for name, value in self.given.items() if name not in self.ranges}
        words = ", ".join(f"{name.replace('_', ' ')} {typed(value)}" for name, value in fixed.items())
        return words.capitalize() if self.spec is None else self.spec.name


def asks_what_ran(command: Callable[..., None], *, ranges: bool = False) -> Callable[..., None]:
    """Give a command the options that describe what ran, before its own. It takes them as one ``WhatRan``, its first
    argument. ``ranges`` says whether a flag may have several values.
    """
    shared = inspect.signature(WhatRan, eval_str=True).parameters
    _, *own = inspect.signature(command, eval_str=True).parameters.values()

    @wraps(command)
    def asked(**given: Any) -> None:
        ran = WhatRan(**{name: given.pop(name) for name in shared})
        flags = {f"--{name.replace('_', '-')}": value for name, value in ran.given.items()}
        if ran.spec is not None and flags:
            raise ValueError(f"{ran.spec} and {', '.join(flags)} both describe a mechanism: give one of them")
        for flag, value in flags.items():
            if isinstance(value, tuple) and not ranges:
                told = f"{flag}={validate.shown(value)} has several values"
                raise ValueError(f"{told}: give one; `evr estimate` takes several")
        command(ran, **given)

    # Typer reads both.
    asked.__signature__ = inspect.Signature([*shared.values(), *own])  # type: ignore[attr-defined]
    asked.__annotations__ = {one.name: one.annotation for one in [*shared.values(), *own]}
    return asked
