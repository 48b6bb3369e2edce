"""Options that commands share, and the event that they describe."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from evr import validate

if TYPE_CHECKING:
    from evr.mechanisms.spec import Target

_GREATEST_RANGE = 100_000


def real(text: str) -> float:
    """A number of the command line; fractions such as ``256/60000`` are numbers too."""
    above, slash, below = text.partition("/")
    try:
        return float(above) / float(below) if slash else float(text)
    except (ValueError, ZeroDivisionError):
        raise typer.BadParameter(f"{text!r} is not a number") from None


def whole(text: str) -> int:
    """A whole number, ``1e6`` being one."""
    try:
        return int(text)
    except ValueError:
        value = real(text)
        if not value.is_integer():
            raise typer.BadParameter(f"{text!r} is not a whole number") from None
        return int(value)


def number_option(name: str, help: str) -> Any:
    """An option that takes a number and has no default."""
    return typer.Option(name, parser=real, metavar="NUMBER", help=help, show_default=False)


SpecFile = Annotated[
    Path | None,
    typer.Argument(metavar="SPEC", help="Specification file (TOML); or describe DP-SGD by flags."),
]
NoiseMultiplier = Annotated[
    float | None,
    number_option("--noise-multiplier", "Standard deviation of the noise over the clipping norm."),
]
SamplingProbability = Annotated[
    float | None,
    number_option(
        "--sampling-probability", "Probability that a record is in a batch: 0.004 or 256/60000."
    ),
]
Steps = Annotated[
    int | None,
    typer.Option(
        "--steps",
        parser=whole,
        metavar="INTEGER",
        help="Number of optimizer steps.",
        show_default=False,
    ),
]
DatasetSize = Annotated[
    int | None,
    typer.Option(
        "--dataset-size",
        parser=whole,
        metavar="INTEGER",
        help="Number of records in the training set.",
        show_default=False,
    ),
]
BatchSize = Annotated[
    int | None,
    typer.Option(
        "--batch-size",
        parser=whole,
        metavar="INTEGER",
        help="Expected batch size; with --dataset-size, instead of --sampling-probability.",
        show_default=False,
    ),
]
Epochs = Annotated[
    float | None, number_option("--epochs", "Passes over the data, instead of --steps.")
]
Sampling = Annotated[
    str | None,
    typer.Option(
        "--sampling",
        metavar="poisson|without-replacement",
        help="How batches are drawn: poisson by default; without-replacement for a fixed size.",
        show_default=False,
        autocompletion=lambda: ["poisson", "without-replacement"],
    ),
]
Adjacency = Annotated[
    str | None,
    typer.Option(
        "--adjacency",
        metavar="add-or-remove|replace-one|zero-out",
        help="Which data sets are neighbours; by default add-or-remove.",
        show_default=False,
        autocompletion=lambda: ["add-or-remove", "replace-one", "zero-out"],
    ),
]
Epsilon = Annotated[float | None, number_option("--epsilon", "Find delta at this epsilon.")]
Delta = Annotated[float | None, number_option("--delta", "Find epsilon at this delta.")]
Direction = Annotated[
    str | None,
    typer.Option(
        "--direction",
        metavar="remove|add",
        help="One direction only; by default the greater of the two.",
        show_default=False,
        autocompletion=lambda: ["remove", "add"],
    ),
]
Csv = Annotated[
    Path | None,
    typer.Option(
        "--csv", metavar="FILE", help="Write the table to this file too.", show_default=False
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        help="Draw it into this file: .png, .svg or .pdf.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the result only, no progress.")]


class Training(NamedTuple):
    """What the flags say of a DP-SGD training."""

    noise_multiplier: float | None = None
    sampling_probability: float | None = None
    steps: int | None = None
    dataset_size: int | None = None
    batch_size: int | None = None
    epochs: float | None = None
    sampling: str | None = None

    @property
    def given(self) -> list[str]:
        """The flags that are there."""
        return [flag(name) for name, value in self._asdict().items() if value is not None]

    def event(self) -> Any:
        """The event tree, or an error that names the flags that are missing."""
        missing = []
        if self.noise_multiplier is None:
            missing.append("--noise-multiplier")
        if self.sampling_probability is None and (
            self.dataset_size is None or self.batch_size is None
        ):
            missing.append(
                "--sampling-probability (1 if every record is in every step), or --dataset-size "
                "and --batch-size"
            )
        if self.steps is None and self.epochs is None:
            missing.append("--steps or --epochs")
        if missing:
            raise ValueError(
                f"what ran? Give a SPEC file, or describe DP-SGD by flags: add {'; '.join(missing)}"
            )
        from evr.mechanisms.events import dpsgd

        return dpsgd(**{k: v for k, v in self._asdict().items() if v is not None})

    def caption(self, spec: Path | None) -> str:
        """What ran, in the few words that a title holds."""
        if spec is not None:
            return spec.name
        words = [
            f"{name.replace('_', ' ')} {value if isinstance(value, str) else format(value, ',g')}"
            for name, value in self._asdict().items()
            if value is not None
        ]
        return ", ".join(words).capitalize()


def flag(name: str) -> str:
    """The flag of a name."""
    return f"--{name.replace('_', '-')}"


class Described(NamedTuple):
    """What ran, what a file claims of it, and which data sets are neighbours, if that is said."""

    event: Any
    claim: Target | None
    relation: str | None


def described(spec: Path | None, training: Training, adjacency: str | None = None) -> Described:
    """The event tree from a file or from the DP-SGD flags, with what the file says of it."""
    if spec is None:
        return Described(training.event(), None, adjacency)
    if training.given:
        raise ValueError(
            f"{spec} and {', '.join(training.given)} both describe a mechanism: give one of them"
        )
    from evr.mechanisms.spec import load

    loaded = load(spec)
    relation = adjacency or loaded.adjacency
    return Described(loaded.event(relation), loaded.claim, relation)


def one_target(
    epsilon: float | None, delta: float | None, claim: Target | None
) -> dict[str, float]:
    """``{"epsilon": ...}`` or ``{"delta": ...}``: exactly one, from the flags or else from the
    file's claim.
    """
    if epsilon is None and delta is None and claim is not None:
        epsilon, delta = claim.epsilon, claim.delta
    if epsilon is not None and delta is not None:
        raise ValueError(
            f"epsilon={epsilon!r} and delta={delta!r} are both given: give one, and evr estimates "
            "the other"
        )
    if epsilon is not None:
        return {"epsilon": validate.level_or_infinite(epsilon=epsilon)}
    if delta is not None:
        return {"delta": validate.probability(delta=delta)}
    raise ValueError("estimate what? Give --epsilon (to find delta) or --delta (to find epsilon)")


def numbers(text: str, option: str) -> list[float]:
    """A list ``0,1,2`` or a range ``first:last:step``, its last included."""
    remedy = f"{option}={text!r} is not a list like 0,1,2 nor a range first:last:step like 0:5:0.25"
    ranged = ":" in text
    try:
        parts = [float(part) for part in text.split(":" if ranged else ",")]
    except ValueError:
        raise ValueError(remedy) from None
    if not ranged:
        return parts
    if len(parts) != 3 or not all(map(math.isfinite, parts)):
        raise ValueError(remedy)
    first, last, step = parts
    if step <= 0 or last < first:
        raise ValueError(
            f"{option}={text!r} is an empty range: the step must be positive and the last not "
            "below the first"
        )
    count = math.floor((last - first) / step * (1 + 1e-12) + 1e-9) + 1
    if count > _GREATEST_RANGE:
        raise ValueError(
            f"{option}={text!r} has {count:,} points, more than {_GREATEST_RANGE:,}: take a "
            "greater step"
        )
    return [float(f"{first + i * step:.12g}") for i in range(count)]


def picture(path: Path | None) -> Path | None:
    """The file to draw into, refused before any work is done if its kind is not known."""
    if path is not None and path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ValueError(
            f"--plot={str(path)!r} does not end in .png, .svg or .pdf: name one of these"
        )
    return path
