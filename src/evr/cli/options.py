"""Options that commands share, and the training that they describe."""

import inspect
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from functools import cache, cached_property, partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

import evr
from evr import types
from evr._basics.file_types import is_record
from evr._basics.numbers import typed
from evr.cli.output import Json as Json
from evr.cli.output import Out as Out
from evr.cli.output import Quiet as Quiet
from evr.cli.parsing import Schedule, Several, changing, each, real, whole_number

if TYPE_CHECKING:
    from evr._kernel.events.relations import Relation
    from evr._spec import Spec, Target


def flag_of(name: str) -> str:
    """The flag of a keyword."""
    return f"--{name.replace('_', '-')}"


def option(help: str, *names: str, **more: Any) -> Any:
    """An option or a switch of a command."""
    return typer.Option(*names, help=help, **more)


def argument(metavar: str, help: str, **more: Any) -> Any:
    """An argument of a command."""
    return typer.Argument(metavar=metavar, help=help, show_default=False, **more)


number = partial(option, metavar="NUMBER", parser=real)
numbers = partial(option, metavar="NUMBER", parser=lambda text: each(real, text))
whole = partial(option, metavar="INTEGER", parser=whole_number)
wholes = partial(option, metavar="INTEGER", parser=lambda text: each(whole_number, text))
schedule = partial(numbers, parser=lambda text: changing(real, text))
whole_schedule = partial(wholes, parser=lambda text: changing(whole_number, text))
text = partial(option, metavar="NAME")
file = partial(option, metavar="FILE")


class Grouped(TyperCommand):
    """A command whose help has its options in groups, by what they are about."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        asked = [(one.metavar or "", one) for one in self.get_params(ctx) if one.param_type_name == "argument"]
        return ["[OPTIONS]", *(name if one.required else f"[{name}]" for name, one in asked)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {title: [] for title in GROUPS}
        title_of = {name: title for title, names in GROUPS.items() for name in names.split()}
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is not None:
                is_argument = parameter.param_type_name == "argument"
                title = "Arguments" if is_argument else title_of.get(parameter.name or "", "Options")
                groups[title].append((parameter.metavar or record[0] if is_argument else record[0], record[1]))
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def choice(words: str, help: str) -> Any:
    """An option that takes one of some words, given as ``a|b|c``; shells complete them."""
    return option(help, metavar=words, autocompletion=lambda: words.split("|"))


GROUPS = {
    "Arguments": "",
    "What ran": "noise_multiplier sampling_probability steps dataset_size batch_size epochs sampling records_per_user "
    "user_norm adjacency unit title",
    "What to promise": "epsilon delta advantage true_positive_rate false_positive_rate",
    "How it is proved": "method tau seed workers device max_seconds fresh dry_run",
    "What is written": "output force report proof html card plot json quiet",
    "What it counts against": "ledger name budget by",
    "Options": "",
}
"""The headings of `--help`, in order, and the options below them; the last has all others."""

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


@dataclass(frozen=True)
class Goal:
    """What to promise: a pair of epsilon and delta, of which one may be found, or a risk."""

    epsilon: Annotated[float | None, number("Epsilon of the pair.")] = None
    delta: Annotated[float | None, number("Delta of the pair.")] = None
    advantage: Annotated[float | None, number("The greatest advantage of a membership attack.")] = None
    true_positive_rate: Annotated[float | None, number("The greatest true positive rate of an attack.")] = None
    false_positive_rate: Annotated[float | None, number("The false positive rate of that attack.")] = None

    @property
    def given(self) -> dict[str, float]:
        """What was given, by its keyword."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class WhatRan:
    """What ran: a file, or the flags of a DP-SGD training. A tuple is a flag with several values."""

    spec: Annotated[Path | None, argument("SPEC", "Specification file (TOML), or use flags.")] = None
    noise_multiplier: Annotated[
        float | None, schedule("Standard deviation of the noise over the clipping norm; by epochs as 1.2@10,0.8@5.")
    ] = None
    sampling_probability: Annotated[float | None, schedule("A record's probability per batch: 0.01 or 1/235.")] = None
    steps: Annotated[int | None, wholes("Number of optimizer steps.")] = None
    dataset_size: Annotated[int | None, wholes("Number of records in the training set.")] = None
    batch_size: Annotated[int | None, whole_schedule("Expected batch size; by epochs as 256@10,512@5.")] = None
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

    def __post_init__(self) -> None:
        if self.spec is not None and self.given:
            flags = ", ".join(map(flag_of, self.given))
            raise ValueError(f"{self.spec} and {flags} both describe a mechanism: give one of them")
        if self.schedules and self.ranges:
            both = " and ".join(map(flag_of, (*self.schedules, *self.ranges)))
            raise ValueError(f"{both}: a schedule has one training, so leave out the list or the range")

    @property
    def given(self) -> dict[str, Any]:
        """The flags of a training that are given, each a keyword of ``evr.dpsgd``."""
        return {name: value for name in DESCRIBING if (value := getattr(self, name)) is not None}

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
        lengths = {flag_of(name): one.ends[-1] for name, one in self.schedules.items()}
        if self.epochs is not None:
            lengths["--epochs"] = Fraction(repr(float(self.epochs)))
        if self.steps is not None or len(set(lengths.values())) > 1:
            said = " and ".join(f"{flag} has {float(length):g} epochs" for flag, length in lengths.items())
            remedy = "leave out --steps" if self.steps is not None else "make them agree"
            raise ValueError(f"a schedule such as 256@10,512@10 counts epochs, and {said}: {remedy}")
        edges = [Fraction(0), *sorted({end for one in self.schedules.values() for end in one.ends})]
        return [
            self.given | {name: one.at(start) for name, one in self.schedules.items()} | {"epochs": float(end - start)}
            for start, end in itertools.pairwise(edges)
        ]

    @property
    def ranges(self) -> dict[str, Several]:
        """The flags that have several values."""
        return {name: value for name, value in self.given.items() if isinstance(value, Several)}

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

    def check_one(self) -> None:
        """Refuse flags that have several values."""
        for name, value in self.ranges.items():
            told = f"{flag_of(name)}={value.text} has several values"
            raise ValueError(f"{told}: give one (0.8 and 60000 have no comma); `evr estimate` takes several")

    def event(self) -> Any:
        """The training that the flags describe."""
        self.check_one()
        self.check()
        from evr._dpsgd import composed

        return composed([evr.dpsgd(**phase) for phase in self.phases()])

    @cached_property
    def file(self) -> "Spec | None":
        """The tables of the file."""
        return None if self.spec is None else evr.load(self.spec)

    def described(self, *, records: bool = False) -> "tuple[Any, Target | None, Relation | None]":
        """The event of the file or of the flags, the claim of the file, and the relation of neighbours, where given.
        With ``records``, the file may be a record.
        """
        if records and (record := self.record()) is not None:
            return record.event, None, record.checked_relation(self.adjacency)
        if self.file is None:
            return self.event(), None, self.adjacency
        relation = self.adjacency or self.file.adjacency
        return self.file.event(relation), self.file.claim, relation

    def record(self) -> "evr.Record | None":
        """The record of a training, if that is what the file is; of several processes, all of them."""
        if self.spec is None or not is_record(self.spec):
            return None
        return evr.Record.load(self.spec)

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


DESCRIBING = tuple(one.name for one in fields(WhatRan) if one.name not in ("spec", "adjacency"))
PROMISING = tuple(one.name for one in fields(Goal))
"""The flags of a training and of a goal, each a keyword of the library."""


def unfolded(command: Callable[..., None]) -> Callable[..., None]:
    """A command as typer reads it: an argument that is a dataclass of options stands for these options."""
    options, kinds = dict[str, inspect.Parameter](), dict[str, Any]()
    for name, one in inspect.signature(command, eval_str=True).parameters.items():
        if is_dataclass(one.annotation):
            kinds[name] = one.annotation
        options |= _options_of(one.annotation) if name in kinds else {name: one}

    @wraps(command)
    def asked(**given: Any) -> None:
        folded = {name: kind(**{one: given.pop(one) for one in _options_of(kind)}) for name, kind in kinds.items()}
        command(**folded, **given)

    # Typer reads both.
    keywords = [one.replace(kind=one.KEYWORD_ONLY) for one in options.values()]
    asked.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    asked.__annotations__ = {name: one.annotation for name, one in options.items()}
    return asked


@cache
def _options_of(kind: Any) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(kind, eval_str=True).parameters
