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

    [tuning]           # optional: all of it is one run of several, the best of which is released
    mean = 20
    shape = 1

Above the first table there may be ``adjacency = "replace-one"`` (or ``"zero-out"``): which data sets are neighbours.

Kinds and keys are those of the registered mechanisms (``descriptor.py``), and ``dpsgd``. Every mechanism takes
``repeat`` (how many times) and, but for those that say themselves who takes part when, ``sampling_probability``
(Poisson), a number or a ratio as in ``"256/60000"``. Schemes of bins, bands and groups take ``records_per_user``.
"""

from __future__ import annotations

import collections.abc
import contextlib
import difflib
import functools
import inspect
import operator
import re
import tomllib
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union

import attr
from dp_accounting import dp_event
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, ValidationError, create_model

from evr import events, validate
from evr.described import DPSGD, described
from evr.errors import SpecError
from evr.kinds import instead
from evr.mechanisms.composition import Composition
from evr.mechanisms.registry import MECHANISMS, is_writable, written_fields
from evr.mechanisms.relations import Mechanism, Relation
from evr.mechanisms.training import SPLIT
from evr.searching import tuning


def _ratio(value: Any) -> Any:
    """A text such as ``256/60000`` as its number; what else is given, as it is."""
    found = re.fullmatch(r"(\d{1,18})\s*/\s*(\d{1,18})", value) if isinstance(value, str) else None
    return int(found[1]) / int(found[2]) if found and int(found[2]) else value


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Table = TypeVar("Table", bound=_Table)


class _Mechanism(_Table):
    """The table of one kind of mechanism. Keys are aliases, so a key may have any name."""

    make: ClassVar[Callable[..., dp_event.DpEvent]]
    kind: str
    repeat: int = 1

    @property
    def given(self) -> dict[str, Any]:
        """The keys that are in the file, without those that every table has."""
        return self.model_dump(by_alias=True, exclude_unset=True, exclude={"kind", "repeat"})

    def event(self) -> dp_event.DpEvent:
        one = type(self).make(**self.given)
        count = validate.positive_integer(repeat=self.repeat)
        return one if count == 1 else dp_event.SelfComposedDpEvent(one, count)


def _table(kind: str, keys: Mapping[str, tuple[Any, Any]], make: Callable[..., dp_event.DpEvent]) -> type[_Mechanism]:
    """The table of a kind whose keys have these types and defaults, ``...`` for none."""
    fields: dict[str, Any] = {"kind": (Literal[kind], ...)}
    fields |= {
        f"key_{index}": (
            Annotated[annotation, BeforeValidator(_ratio)] if key == "sampling_probability" else annotation,
            Field(default=default, alias=key),
        )
        for index, (key, (annotation, default)) in enumerate(keys.items())
    }
    table = create_model(kind, __base__=_Mechanism, **fields)
    table.make = make
    return table


@functools.cache
def _dpsgd() -> type[_Mechanism]:
    """The keys are the arguments of ``evr.dpsgd``."""
    hints = typing.get_type_hints(events.dpsgd)
    defaults = {one.name: one.default for one in inspect.signature(events.dpsgd).parameters.values()}
    keys = {name: (hints[name], ... if one is inspect.Parameter.empty else one) for name, one in defaults.items()}
    return _table(DPSGD, keys, events.dpsgd)


@functools.lru_cache(maxsize=100)
def _described(mechanism: Mechanism) -> type[_Mechanism]:
    """The table of a mechanism by its description, or ``TypeError``."""
    cls, description = mechanism.event, described(mechanism.event)
    if not is_writable(cls):
        raise TypeError(f"{cls.__name__} is not made by attrs, so its fields have no names in a file")
    hints = dict[str, Any]()
    with contextlib.suppress(NameError):  # of a class within a function, whose names nobody else sees
        hints = typing.get_type_hints(cls)
    own = {
        one.alias: description.fields.get(one.alias)
        or (_in_a_file(hints.get(one.name, one.type), one.alias), ... if one.default is attr.NOTHING else None)
        for one in written_fields(cls)
    }
    keys = dict(own)
    if mechanism.takes_sampling and "sampling_probability" not in own:
        keys["sampling_probability"] = (float, 1.0)
    elif cls in SPLIT:
        keys["records_per_user"] = (int | None, None)
    defaults = {key: default for key, (_, default) in description.fields.items() if default is not ...}

    def make(**given: Any) -> dp_event.DpEvent:
        one = cls(**defaults | {key: _frozen(value) for key, value in given.items() if key in own})
        more = {key: value for key, value in given.items() if key not in own}
        probability = validate.probability(sampling_probability=more.get("sampling_probability", 1.0))
        one = one if probability == 1 else dp_event.PoissonSampledDpEvent(probability, one)
        most = more.get("records_per_user")
        return one if most is None else events.UsersDpEvent(one, most)

    return _table(description.kind, keys, make)


def _frozen(value: Any) -> Any:
    """Lists as tuples: the fields of events are compared and hashed."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _in_a_file(hint: Any, name: str) -> Any:
    """The type in TOML of what has the type ``hint`` in an event: sequences of any kind are lists."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in (float, int, bool, str, type(None)) or origin is Literal:
        return hint
    inner = [_in_a_file(one, name) for one in arguments if one is not ...]
    if origin in (Union, types.UnionType):
        return functools.reduce(operator.or_, inner)
    if isinstance(origin, type) and issubclass(origin, collections.abc.Sequence):
        return types.GenericAlias(list, functools.reduce(operator.or_, inner))
    shown = getattr(hint, "__name__", None) or repr(hint)
    raise TypeError(
        f"its field {name!r} is declared as {shown}, which has no form in a spec file: "
        f"register it with fields={{{name!r}: (type, default)}}"
    )


class Target(_Table):
    """What to certify: one of ``epsilon`` and ``delta``, and the slack ``tau``."""

    epsilon: float | None = Field(default=None, ge=0)
    delta: float | None = Field(default=None, ge=0, le=1)
    tau: float | None = Field(default=None, gt=0, lt=1)


class Tuned(_Table):
    """The file describes one run of several, of which one is released: the keys are the arguments of ``evr.tuning``."""

    mean: float | None = None
    shape: float | None = None
    most_runs: int | None = None
    probability: float | None = None
    stop_probability: float | None = None


class Spec(_Table):
    """A whole file."""

    mechanism: list[_Mechanism] = Field(min_length=1)
    tuning: Tuned | None = None
    adjacency: Literal["add-or-remove", "replace-one", "zero-out"] | None = None
    claim: Target = Target()
    _source: str = PrivateAttr(default="")

    def event(self, relation: Relation | None = None) -> dp_event.DpEvent:
        """The event tree, translated once under the relation given or the file's, so that errors name their table."""
        built = [
            self._checked(mechanism.event, relation, f"mechanism[{index}] (kind {mechanism.kind!r})")
            for index, mechanism in enumerate(self.mechanism)
        ]
        one = built[0] if len(built) == 1 else dp_event.ComposedDpEvent(built)
        if self.tuning is None:
            return one
        given = self.tuning.model_dump()
        return self._checked(lambda: tuning(one, **given).event, relation, "tuning")

    def _checked(self, make: Callable[[], dp_event.DpEvent], relation: Relation | None, where: str) -> dp_event.DpEvent:
        try:
            event = make()
            Composition.of(event, relation or self.adjacency)
        except (ValueError, TypeError) as error:
            raise SpecError(f"{self._source}{where}: {error}") from None
        return event


_NOTHING = (
    'no mechanism is described: write what ran in a table [[mechanism]], such as kind = "dpsgd", '
    "noise_multiplier = 1.0, sampling_probability = 0.01, steps = 1000"
)


def load(path: str | Path) -> Spec:
    """Read a specification file (TOML). ``load(path).event()`` is the event that it describes.

    Parameters
    ----------
    path
        The file. A mistake in it raises ``SpecError``: the key, the rule, the nearest key.

    Returns
    -------
    Spec
        The file's tables; ``event()`` makes the event, ``claim`` holds what it claims.

    Raises
    ------
    SpecError
        If the file cannot be read, or says what cannot be.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "run.toml"
    ...     _ = path.write_text('[[mechanism]]\\nkind = "gaussian"\\nnoise_multiplier = 2.0\\n')
    ...     load(path).event()
    GaussianDpEvent(noise_multiplier=2.0)
    """
    validate.path(path=path)
    try:
        text = Path(path).read_text(encoding="utf-8")
        spec = parse(text)
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from None
    except OSError as error:
        raise SpecError(f"{path}: cannot be read ({error.strerror or error})") from None
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from None
    spec._source = f"{path}: "  # what the values are wrong with is found later, in ``event``
    return spec


def parse(text: str) -> Spec:
    """As ``load``, from a string.

    >>> parse('[[mechanism]]\\nkind = "gaussian"\\nnoise_multiplyer = 1.0')
    Traceback (most recent call last):
    ...
    evr.errors.SpecError: mechanism[0].noise_multiplyer: unknown key; did you mean ...
    """
    if other := instead(text, "a specification"):
        raise SpecError(other)
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # an endless integer is a ValueError, too
        raise SpecError(f"not valid TOML: {error or type(error).__name__}") from None
    tables = data.get("mechanism")
    if isinstance(tables, dict):
        raise SpecError("[mechanism] is one table, and a file holds a list of them: write [[mechanism]]")
    if tables is None and data.keys() <= {"claim", "adjacency", "tuning"}:
        raise SpecError(_NOTHING)
    if isinstance(tables, list):
        data["mechanism"] = [_mechanism(table, f"mechanism[{index}]") for index, table in enumerate(tables)]
    models: dict[str, type[_Table]] = {"claim": Target, "tuning": Tuned}
    for key in models.keys() & data.keys():
        if isinstance(data[key], dict):
            data[key] = _validated(models[key], data[key], f"{key}.")
    return _validated(Spec, data, "")


def _mechanism(table: Any, where: str) -> _Mechanism:
    if not isinstance(table, dict):
        raise SpecError(f"{where}: input should be a table (found {validate.shown(table)})")
    kinds = {described(one.event).kind: one for one in MECHANISMS.values()}
    kind = table.get("kind")
    if kind == DPSGD:
        return _validated(_dpsgd(), table, f"{where}.")
    if not isinstance(kind, str) or kind not in kinds:
        known = [DPSGD]
        for name, one in kinds.items():
            with contextlib.suppress(TypeError):  # of a kind that cannot be written
                _described(one)
                known.append(name)
        near = difflib.get_close_matches(str(kind), known, n=1)
        said = "missing" if kind is None else f"unknown kind {validate.shown(kind)}"
        raise SpecError(f"{where}.kind: {said}; {_hint(near, known)}")
    try:
        model = _described(kinds[kind])
    except TypeError as error:
        raise SpecError(f"{where}.kind: {kind!r} cannot be written here: {error}") from None
    return _validated(model, table, f"{where}.")


def _hint(near: list[str], known: list[str]) -> str:
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"


def _validated(model: type[Table], data: dict[str, Any], where: str) -> Table:
    """A table, or the most telling complaint: an unknown key first, for it may explain one that is missing."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problem = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    key, *within = problem["loc"]
    path = f"{where}{key}" + "".join(f"[{part}]" for part in within if isinstance(part, int))
    if problem["type"] == "extra_forbidden":
        known = sorted(field.alias or name for name, field in model.model_fields.items())
        near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.4)
        raise SpecError(f"{path}: unknown key; {_hint(near, known)}")
    found = "" if problem["type"] == "missing" else f" (found {validate.shown(problem['input'])})"
    raise SpecError(f"{path}: {problem['msg'][0].lower()}{problem['msg'][1:]}{found}")
