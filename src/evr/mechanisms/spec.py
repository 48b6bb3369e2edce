"""Specification files: what ran, in TOML.

::

    [[mechanism]]
    kind = "dpsgd"
    noise_multiplier = 1.0
    sampling_probability = 1e-3
    steps = 1000

    [claim]            # optional: what to certify
    delta = 1e-9
    tau = 0.99

Every mechanism takes ``repeat`` (how many times) and, but for ``dpsgd`` and the schemes in many dimensions, which say
themselves who takes part when, ``sampling_probability`` (Poisson).
"""

from __future__ import annotations

import abc
import difflib
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from dp_accounting import dp_event
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from evr import validate
from evr.errors import SpecError
from evr.laws.mixture.strategy import frozen
from evr.mechanisms import events
from evr.mechanisms.composition import Composition
from evr.mechanisms.schemes import IDENTITY


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Matrix = Annotated[Any, BeforeValidator(frozen)]
"""A strategy: the first column of a Toeplitz matrix, or all columns from the diagonal down."""


class _Repeated(_Table, abc.ABC):
    repeat: int = 1

    @abc.abstractmethod
    def _once(self) -> dp_event.DpEvent: ...

    def event(self) -> dp_event.DpEvent:
        one = self._once()
        count = validate.positive_integer(repeat=self.repeat)
        return one if count == 1 else dp_event.SelfComposedDpEvent(one, count)


class _Mechanism(_Repeated):
    sampling_probability: float = 1.0

    @abc.abstractmethod
    def _base(self) -> dp_event.DpEvent: ...

    def _once(self) -> dp_event.DpEvent:
        q = validate.probability(sampling_probability=self.sampling_probability)
        return self._base() if q == 1 else dp_event.PoissonSampledDpEvent(q, self._base())


class DpSgd(_Repeated):
    """Poisson-sampled Gaussian mechanism, ``steps`` times."""

    kind: Literal["dpsgd"]
    noise_multiplier: float
    sampling_probability: float
    steps: int

    def _once(self) -> dp_event.DpEvent:
        return events.dpsgd(
            noise_multiplier=self.noise_multiplier,
            sampling_probability=self.sampling_probability,
            steps=self.steps,
        )


class Gaussian(_Mechanism):
    kind: Literal["gaussian"]
    noise_multiplier: float

    def _base(self) -> dp_event.DpEvent:
        return dp_event.GaussianDpEvent(self.noise_multiplier)


class Laplace(_Mechanism):
    kind: Literal["laplace"]
    noise_multiplier: float

    def _base(self) -> dp_event.DpEvent:
        return dp_event.LaplaceDpEvent(self.noise_multiplier)


class RandomizedResponse(_Mechanism):
    kind: Literal["randomized_response"]
    noise_parameter: float
    num_buckets: int

    def _base(self) -> dp_event.DpEvent:
        return dp_event.RandomizedResponseDpEvent(self.noise_parameter, self.num_buckets)


class DiscreteLaplace(_Mechanism):
    kind: Literal["discrete_laplace"]
    noise_parameter: float
    sensitivity: int = 1

    def _base(self) -> dp_event.DpEvent:
        return dp_event.DiscreteLaplaceDpEvent(self.noise_parameter, self.sensitivity)


class DiscreteGaussian(_Mechanism):
    kind: Literal["discrete_gaussian"]
    sigma: float
    sensitivity: int = 1

    def _base(self) -> dp_event.DpEvent:
        return events.DiscreteGaussianDpEvent(self.sigma, self.sensitivity)


class EpsilonDelta(_Mechanism):
    kind: Literal["epsilon_delta"]
    epsilon: float
    delta: float

    def _base(self) -> dp_event.DpEvent:
        return events.EpsilonDeltaDpEvent(self.epsilon, self.delta)


class MixtureOfGaussians(_Mechanism):
    kind: Literal["mixture_of_gaussians"]
    standard_deviation: float
    sensitivities: list[float]
    sampling_probs: list[float]

    def _base(self) -> dp_event.DpEvent:
        return dp_event.MixtureOfGaussiansDpEvent(
            self.standard_deviation, tuple(self.sensitivities), tuple(self.sampling_probs)
        )


class BallsInBins(_Repeated):
    """One of ``cycle_length`` bins, drawn once."""

    kind: Literal["balls_in_bins"]
    noise_multiplier: float
    iterations: int
    cycle_length: int
    strategy: Matrix = IDENTITY

    def _once(self) -> dp_event.DpEvent:
        return events.BallsInBinsDpEvent(self.noise_multiplier, self.iterations, self.cycle_length, self.strategy)


class RedrawnBins(_Repeated):
    """One of ``cycle_length`` bins, drawn anew in each epoch."""

    kind: Literal["redrawn_bins"]
    noise_multiplier: float
    cycle_length: int
    epochs: int

    def _once(self) -> dp_event.DpEvent:
        return events.RedrawnBinsDpEvent(self.noise_multiplier, self.cycle_length, self.epochs)


class CyclicPoisson(_Repeated):
    """Poisson sampling of ``cycle_length`` groups in turn."""

    kind: Literal["cyclic_poisson"]
    noise_multiplier: float
    iterations: int
    cycle_length: int
    sampling_probability: float
    partition: str
    strategy: Matrix = IDENTITY

    def _once(self) -> dp_event.DpEvent:
        return events.CyclicPoissonDpEvent(
            noise_multiplier=self.noise_multiplier,
            iterations=self.iterations,
            cycle_length=self.cycle_length,
            sampling_probability=self.sampling_probability,
            partition=self.partition,
            strategy=self.strategy,
        )


class BMinSep(_Repeated):
    """Poisson sampling of those who were in none of the last ``min_sep - 1`` batches."""

    kind: Literal["b_min_sep"]
    noise_multiplier: float
    iterations: int
    min_sep: int
    sampling_probability: float
    warm_start: bool
    strategy: Matrix = IDENTITY

    def _once(self) -> dp_event.DpEvent:
        return events.BMinSepDpEvent(
            noise_multiplier=self.noise_multiplier,
            iterations=self.iterations,
            min_sep=self.min_sep,
            sampling_probability=self.sampling_probability,
            warm_start=self.warm_start,
            strategy=self.strategy,
        )


class MatrixMechanism(_Repeated):
    """Correlated noise without amplification."""

    kind: Literal["matrix_mechanism"]
    noise_multiplier: float
    strategy: Matrix
    iterations: int
    min_sep: int
    max_participations: int | None = None

    def _once(self) -> dp_event.DpEvent:
        return events.MatrixMechanismDpEvent(
            noise_multiplier=self.noise_multiplier,
            strategy=self.strategy,
            iterations=self.iterations,
            min_sep=self.min_sep,
            max_participations=self.max_participations,
        )


Mechanism = (
    DpSgd
    | Gaussian
    | Laplace
    | RandomizedResponse
    | DiscreteLaplace
    | DiscreteGaussian
    | EpsilonDelta
    | MixtureOfGaussians
    | BallsInBins
    | RedrawnBins
    | CyclicPoisson
    | BMinSep
    | MatrixMechanism
)


class Claim(_Table):
    """What to certify: one of ``epsilon`` and ``delta``, and the slack ``tau``."""

    epsilon: float | None = None
    delta: float | None = None
    tau: float | None = None


class Spec(_Table):
    """A whole file."""

    mechanism: list[Annotated[Mechanism, Field(discriminator="kind")]] = Field(min_length=1)
    claim: Claim = Claim()

    def event(self) -> dp_event.DpEvent:
        """The event tree; translated once here, so that a value that cannot be is named with its table."""
        built = []
        for index, mechanism in enumerate(self.mechanism):
            try:
                event = mechanism.event()
                Composition.of(event)
            except (ValueError, TypeError) as error:
                raise SpecError(f"mechanism[{index}] (kind {mechanism.kind!r}): {error}") from None
            built.append(event)
        return built[0] if len(built) == 1 else dp_event.ComposedDpEvent(built)


def load(path: str | Path) -> Spec:
    """Read a specification file. Every mistake raises ``SpecError`` with the key, the rule and the nearest known key."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from None
    except OSError as error:
        raise SpecError(f"{path}: cannot be read ({error.strerror or error})") from None
    try:
        return parse(text)
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from None


def parse(text: str) -> Spec:
    """As ``load``, from a string.

    >>> parse('[[mechanism]]\\nkind = "gaussian"\\nnoise_multiplyer = 1.0')
    Traceback (most recent call last):
    ...
    evr.errors.SpecError: mechanism[0].noise_multiplyer: unknown key; did you mean 'noise_multiplier'?
    """
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # TOMLDecodeError is a ValueError; so is an integer without end
        raise SpecError(f"not valid TOML: {error or type(error).__name__}") from None
    try:
        return Spec.model_validate(data)
    except ValidationError as error:
        raise SpecError(_first(error)) from None


def _first(error: ValidationError) -> str:
    """The most telling of pydantic's complaints: an unknown key before a missing one, for it is usually the cause."""
    problems = sorted(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
    problem = problems[0]
    location = [part for part in problem["loc"] if part not in _KINDS or problem["loc"].index(part) != 2]
    path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in location).lstrip(".")
    kind = problem["type"]
    if kind == "extra_forbidden":
        known = _known_keys(problem["loc"])
        near = difflib.get_close_matches(str(location[-1]), known, n=1, cutoff=0.4)
        return f"{path}: unknown key; " + (f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}")
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        given = problem["input"].get("kind") if isinstance(problem["input"], dict) else None
        near = difflib.get_close_matches(str(given), _KINDS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(_KINDS)}"
        return f"{path}.kind: {'missing' if given is None else f'unknown kind {validate.shown(given)}'}; {hint}"
    return f"{path}: {problem['msg'][0].lower()}{problem['msg'][1:]}" + (
        "" if kind == "missing" else f" (found {validate.shown(problem['input'])})"
    )


_KINDS = {model.model_fields["kind"].annotation.__args__[0]: model for model in Mechanism.__args__}


def _known_keys(location: tuple[str | int, ...]) -> list[str]:
    if len(location) == 1:
        return sorted(Spec.model_fields)
    if location[0] == "claim":
        return sorted(Claim.model_fields)
    return sorted(_KINDS[str(location[2])].model_fields)
