"""Options that commands share, and the event that they describe."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_type_hints

import typer

from evr.kinds import is_record

if TYPE_CHECKING:
    from evr.records import Record
    from evr.spec import Target

_GREATEST_RANGE = 100_000


def real(text: str) -> float:
    """A number of the command line; fractions such as ``256/60000`` are numbers too."""
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


def whole(text: str) -> int:
    """A whole number, ``1e6`` being one."""
    try:
        return int(text)
    except ValueError:
        value = real(text)
        if not value.is_integer():
            raise typer.BadParameter(f"{text!r} is not a whole number") from None
        return int(value)


class Several(NamedTuple):
    """A list ``0,1,2`` or a range ``first:last:step``, its last included, and its numbers."""

    text: str
    values: tuple[float, ...]


def several(text: str) -> Several:
    """The numbers of a list or of a range."""
    ranged = ":" in text
    parts = [real(part) for part in text.split(":" if ranged else ",")]
    if not ranged:
        return Several(text, tuple(parts))
    if len(parts) != 3 or not all(map(math.isfinite, parts)):
        raise typer.BadParameter(f"{text!r} is not a list like 0,1,2 nor a range first:last:step like 0:5:0.25")
    first, last, step = parts
    if step <= 0 or last < first:
        raise typer.BadParameter(
            f"{text!r} is an empty range: the step must be positive and the last not below the first"
        )
    count = math.floor((last - first) / step * (1 + 1e-12) + 1e-9) + 1
    if count > _GREATEST_RANGE:
        raise typer.BadParameter(f"{text!r} has {count:,} points, more than {_GREATEST_RANGE:,}: take a greater step")
    return Several(text, tuple(float(f"{first + i * step:.12g}") for i in range(count)))


def _numbers(text: str) -> float | Several:
    return several(text) if "," in text or ":" in text else real(text)


def _wholes(text: str) -> int | Several:
    if "," not in text and ":" not in text:
        return whole(text)
    found = several(text)
    return Several(text, tuple(whole(f"{value:.17g}") for value in found.values))


def number_option(help: str, name: str | None = None, *, ranges: bool = False) -> Any:
    """An option that takes a number, or several, and has no default."""
    return _option(name, "NUMBER", help, parser=_numbers if ranges else real)


def whole_option(help: str, *, ranges: bool = False) -> Any:
    """An option that takes a whole number, or several, and has no default."""
    return _option(None, "INTEGER", help, parser=_wholes if ranges else whole)


def text_option(help: str) -> Any:
    """An option that takes a name and has no default."""
    return _option(None, "NAME", help)


def file_option(help: str, *names: str) -> Any:
    """An option that takes a file and has no default."""
    return typer.Option(*names, metavar="FILE", help=help, show_default=False)


def _option(name: str | None, metavar: str, help: str, **more: Any) -> Any:
    return typer.Option(*([] if name is None else [name]), metavar=metavar, help=help, show_default=False, **more)


def choice_option(choices: Sequence[str], help: str, *, show_default: bool = True) -> Any:
    """An option that takes one of some words, which shells complete."""
    return typer.Option(
        metavar="|".join(choices), help=help, show_default=show_default, autocompletion=lambda: list(choices)
    )


RELATIONS = ("add-or-remove", "replace-one", "zero-out")
Csv = Annotated[Path | None, file_option("Write the table to this file too.")]
Plot = Annotated[Path | None, file_option("Draw the result into this file: .png, .svg or .pdf.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]
MaxSeconds = Annotated[float | None, number_option("Give up after this many seconds: 600 by default, inf: no limit.")]
PATIENCE = 600.0
"""Seconds that a file from a stranger may keep a command busy."""
LedgerFile = Annotated[
    str | None, file_option("Where attempts are counted: a file (.evr/ledger.sqlite by default), or postgresql://...")
]
Workers = Annotated[int | None, whole_option("Number of threads; all by default.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the result only, no progress.")]


def _number(help: str) -> Any:
    return number_option(help, ranges=True)


def _whole(help: str) -> Any:
    return whole_option(help, ranges=True)


class Training(NamedTuple):
    """The DP-SGD training that the flags describe."""

    noise_multiplier: Annotated[float | None, _number("Standard deviation of the noise over the clipping norm.")] = None
    sampling_probability: Annotated[
        float | None, _number("Probability that a record is in a batch: 0.004 or 256/60000.")
    ] = None
    steps: Annotated[int | None, _whole("Number of optimizer steps.")] = None
    dataset_size: Annotated[int | None, _whole("Number of records in the training set.")] = None
    batch_size: Annotated[
        int | None, _whole("Expected batch size; with --dataset-size, instead of --sampling-probability.")
    ] = None
    epochs: Annotated[float | None, _number("Passes over the data, instead of --steps.")] = None
    sampling: Annotated[
        str | None,
        choice_option(
            ("poisson", "without-replacement", "allocation"),
            "How batches are drawn: poisson by default; without-replacement for a fixed size; allocation for whole "
            "epochs.",
            show_default=False,
        ),
    ] = None
    records_per_user: Annotated[
        int | None, _whole("Protect users who own at most this many records, instead of records.")
    ] = None
    user_norm: Annotated[
        float | None, _number("Norm to which a user's records in a batch are clipped together, in clipping norms.")
    ] = None

    @property
    def several(self) -> dict[str, Several]:
        """The flags that have several values."""
        return {name: value for name, value in self._asdict().items() if isinstance(value, Several)}

    def least(self) -> Training:
        """The first of several trainings."""
        first: dict[str, Any] = {name: one.values[0] for name, one in self.several.items()}
        return self._replace(**first)

    @property
    def settings(self) -> dict[str, Any]:
        """Keywords of ``evr.sweep``."""
        return {
            name: value.values if isinstance(value, Several) else value
            for name, value in self._asdict().items()
            if value is not None
        }

    @property
    def given(self) -> list[str]:
        """The flags that are there."""
        return [flag(name) for name, value in self._asdict().items() if value is not None]

    def event(self) -> Any:
        """The event tree, or an error that names the flags that are missing."""
        missing = []
        if self.noise_multiplier is None:
            missing.append("--noise-multiplier")
        if self.sampling_probability is None and (self.dataset_size is None or self.batch_size is None):
            missing.append(
                "--sampling-probability (1 if every record is in every step), or --dataset-size and --batch-size"
            )
        if self.steps is None and self.epochs is None:
            missing.append("--steps or --epochs")
        if missing:
            raise ValueError(f"what ran? Give a SPEC file, or describe DP-SGD by flags: add {'; '.join(missing)}")
        from evr.events import dpsgd

        return dpsgd(**{k: v for k, v in self._asdict().items() if v is not None})

    @property
    def caption(self) -> str:
        """The flags as words."""
        words = [
            f"{name.replace('_', ' ')} {value if isinstance(value, str) else format(value, ',g')}"
            for name, value in self._asdict().items()
            if value is not None and not isinstance(value, Several)
        ]
        return ", ".join(words).capitalize()


def flag(name: str) -> str:
    """The flag of a name."""
    return f"--{name.replace('_', '-')}"


class Described(NamedTuple):
    """The event, the claim of the file, and the relation of neighbours, where it is given."""

    event: Any
    claim: Target | None
    relation: str | None


class WhatRan(NamedTuple):
    """A file, or flags, that describe what ran."""

    spec: Annotated[
        Path | None, typer.Argument(metavar="SPEC", help="Specification file (TOML); or describe DP-SGD by flags.")
    ] = None
    training: Training = Training()
    adjacency: Annotated[
        str | None,
        choice_option(RELATIONS, "Which data sets are neighbours; by default add-or-remove.", show_default=False),
    ] = None

    def described(self) -> Described:
        """The event tree from the file or from the flags, with what the file says of it."""
        if self.spec is None:
            return Described(self.training.event(), None, self.adjacency)
        self._alone()
        from evr.spec import load

        loaded = load(self.spec)
        relation = self.adjacency or loaded.adjacency
        return Described(loaded.event(relation), loaded.claim, relation)

    def record(self) -> Record | None:
        """The record of a training, if that is what the file is; of several processes, all of them."""
        if self.spec is None or not is_record(self.spec):
            return None
        self._alone()
        from evr.records import Record

        return Record.load(self.spec)

    def _alone(self) -> None:
        if given := self.training.given:
            raise ValueError(f"{self.spec} and {', '.join(given)} both describe a mechanism: give one of them")

    def description(self) -> dict[str, Any]:
        """The numbers that flags, or the one table of a file, give of a DP-SGD training."""
        if self.spec is None:
            given = self.training._asdict()
        else:
            from evr.spec import load

            loaded = load(self.spec)
            (first, *others) = loaded.mechanism
            if others or loaded.tuning or first.kind != "dpsgd" or first.repeat != 1:
                return {}
            given = first.model_dump()
        return {"algorithm": "DP-SGD"} | {key: given[key] for key in ("dataset_size", "batch_size", "epochs")}

    @property
    def records(self) -> int | None:
        """The number of records, where flags or the tables of a file say it."""
        if self.spec is None or self.spec.suffix != ".toml":
            return self.training.dataset_size
        from evr.spec import load

        sizes = [getattr(one, "dataset_size", None) for one in load(self.spec).mechanism]
        return max((size for size in sizes if size), default=None)

    @property
    def caption(self) -> str:
        """It in the few words that a title holds."""
        return self.training.caption if self.spec is None else self.spec.name


def asks_what_ran(command: Callable[..., None], *, ranges: bool = False) -> Callable[..., None]:
    """Give a command the options that describe what ran, before its own. It takes them as one ``WhatRan``, its first
    argument. ``ranges`` says whether a flag may have several values.
    """
    (spec, _, adjacency), (_, *own) = _options(WhatRan), _options(command)
    options = [spec, *_options(Training), adjacency, *own]

    @wraps(command)
    def asked(**given: Any) -> None:
        training = Training(**{name: given.pop(name) for name in Training._fields})
        for name, value in training.several.items():
            if not ranges:
                raise ValueError(
                    f"{flag(name)}={value.text} has several values: give one; `evr estimate` takes several"
                )
        command(WhatRan(given.pop("spec"), training, given.pop("adjacency")), **given)

    # Typer reads both; that a function may have a signature of its own, mypy does not know.
    asked.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    asked.__annotations__ = {option.name: option.annotation for option in options}
    return asked


def _options(function: Callable[..., Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters.values()
    return [parameter.replace(annotation=hints[parameter.name]) for parameter in parameters]


def check_epsilon(epsilon: float, delta: float) -> None:
    """Refuse a delta of 0 where no epsilon is enough."""
    if delta == 0 and math.isinf(epsilon):
        raise ValueError(
            "delta=0.0: epsilon is infinite there, for privacy losses have no bound; give a delta above 0, such as 1e-9"
        )


def picture(path: Path | None) -> Path | None:
    """The file to draw into, refused before any work is done if its kind is not known."""
    if path is not None and path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ValueError(f"--plot={str(path)!r} does not end in .png, .svg or .pdf: name one of these")
    return path
