"""Options that commands share, and the training that they describe."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property, partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evr import types
from evr._basics import validate
from evr._basics.file_types import is_record
from evr._basics.numbers import typed
from evr.cli.parsing import Schedule, each, real, whole_number

if TYPE_CHECKING:
    from evr._records import Record
    from evr._spec import Spec, Target

_CHANGING = ("noise_multiplier", "sampling_probability", "batch_size")  # what a schedule may change


def flag_of(name: str) -> str:
    """The flag of a keyword."""
    return f"--{name.replace('_', '-')}"


def option(help: str, *names: str, **more: Any) -> Any:
    """An option or a switch of a command."""
    return typer.Option(*names, help=help, **more)


number = partial(option, metavar="NUMBER", parser=real)
numbers = partial(option, metavar="NUMBER", parser=lambda text: each(real, text))
whole = partial(option, metavar="INTEGER", parser=whole_number)
wholes = partial(option, metavar="INTEGER", parser=lambda text: each(whole_number, text))
text = partial(option, metavar="NAME")
file = partial(option, metavar="FILE")


def choice(words: str, help: str) -> Any:
    """An option that takes one of some words, given as ``a|b|c``; shells complete them."""
    return option(help, metavar=words, autocompletion=lambda: words.split("|"))


Advantage = Annotated[float | None, number("The greatest advantage of a membership attack, instead of a pair.")]
TruePositives = Annotated[float | None, number("The greatest true positive rate of an attack, instead of a pair.")]
FalsePositives = Annotated[float | None, number("The false positive rate of that attack.")]
_GROUPS = {
    "What ran": "noise_multiplier sampling_probability steps dataset_size batch_size epochs sampling records_per_user "
    "user_norm adjacency unit title",
    "What to promise": "epsilon delta advantage true_positive_rate false_positive_rate",
    "How it is proved": "method tau seed workers device max_seconds fresh",
    "What it counts against": "ledger name budget by",
    "What is written": "output force report proof html card plot json quiet",
}
GROUP_OF = {name: title for title, names in _GROUPS.items() for name in names.split()}
"""Under which heading `--help` lists an option."""

RELATIONS = "|".join(types.Relation)
UNITS = "|".join(types.Unit)
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
    noise_multiplier: Annotated[
        float | None, numbers("Standard deviation of the noise over the clipping norm; by epochs as 1.2@10,0.8@5.")
    ] = None
    sampling_probability: Annotated[float | None, numbers("A record's probability per batch, as 0.01 or 1/235.")] = None
    steps: Annotated[int | None, wholes("Number of optimizer steps.")] = None
    dataset_size: Annotated[int | None, wholes("Number of records in the training set.")] = None
    batch_size: Annotated[int | None, wholes("Expected batch size; by epochs as 256@10,512@5.")] = None
    epochs: Annotated[float | None, numbers("Passes over the data, instead of --steps.")] = None
    sampling: Annotated[
        str | None,
        choice(
            "|".join(types.Sampling),
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
    def schedules(self) -> dict[str, Schedule]:
        """The flags that change in the course of the training."""
        return {name: value for name, value in self.given.items() if isinstance(value, Schedule)}

    @property
    def described_schedule(self) -> dict[str, Any]:
        """What a statement says of a training whose flags change, beside its event."""
        return {"algorithm": "DP-SGD", "dataset_size": self.dataset_size} if self.schedules else {}

    def phases(self) -> list[dict[str, Any]]:
        """The keywords of ``evr.dpsgd`` of each phase in which nothing changes."""
        if not self.schedules:
            return [self.given]
        if wrong := [name for name in self.schedules if name not in _CHANGING]:
            raise ValueError(f"{flag_of(wrong[0])} does not change in a training: give one number")
        lengths = {flag_of(name): one.ends[-1] for name, one in self.schedules.items()}
        if self.epochs is not None:
            lengths["--epochs"] = Fraction(repr(float(self.epochs)))
        if self.steps is not None or len(set(lengths.values())) > 1:
            said = " and ".join(f"{flag} has {float(length):g} epochs" for flag, length in lengths.items())
            remedy = "leave out --steps" if self.steps is not None else "let them agree"
            raise ValueError(f"a schedule such as 256@10,512@10 counts epochs, and {said}: {remedy}")
        edges = [Fraction(0), *sorted({end for one in self.schedules.values() for end in one.ends})]
        return [
            self.given | {name: one.at(start) for name, one in self.schedules.items()} | {"epochs": float(end - start)}
            for start, end in itertools.pairwise(edges)
        ]

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
            "--steps or --epochs": "steps" in given or "epochs" in given or bool(self.schedules),
        }
        if missing := [flags for flags, are_there in wanted.items() if not are_there]:
            raise ValueError(f"what ran? Give a SPEC file, or describe DP-SGD by flags: add {'; '.join(missing)}")

    def event(self) -> Any:
        """The training that the flags describe."""
        self.check()
        from evr._dpsgd import composed, dpsgd

        return composed([dpsgd(**phase) for phase in self.phases()])

    @cached_property
    def file(self) -> Spec | None:
        """The tables of the file."""
        from evr._spec import load

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
        from evr._records import Record

        return Record.load(self.spec)

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
        flags = {flag_of(name): value for name, value in ran.given.items()}
        if ran.spec is not None and flags:
            raise ValueError(f"{ran.spec} and {', '.join(flags)} both describe a mechanism: give one of them")
        if ran.schedules and ran.ranges:
            both = " and ".join(flag_of(name) for name in (*ran.schedules, *ran.ranges))
            raise ValueError(f"{both}: a schedule has one training, so leave out the list or the range")
        for flag, value in flags.items():
            if isinstance(value, tuple) and not ranges:
                told = f"{flag}={validate.shown(value)} has several values"
                raise ValueError(f"{told}: give one; `evr estimate` takes several")
        command(ran, **given)

    # Typer reads both.
    asked.__signature__ = inspect.Signature([*shared.values(), *own])  # type: ignore[attr-defined]
    asked.__annotations__ = {one.name: one.annotation for one in [*shared.values(), *own]}
    return asked
