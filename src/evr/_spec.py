"""Specification files: what ran, in TOML, and what to certify of it. docs/cli.md ("Specification files") lists the
kinds of mechanisms with their keys: those of the registered mechanisms, and ``dpsgd``.
"""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import difflib
import functools
import inspect
import operator
import re
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Union

import attr
from dp_accounting import dp_event
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from evr._basics import atomic, validate
from evr._basics.file_types import instead
from evr._basics.numbers import is_beyond_floats
from evr._described import DPSGD, described
from evr._dpsgd import composed, dpsgd
from evr._kernel.events.composition import Composition
from evr._kernel.events.registry import MECHANISMS, is_writable, written_fields
from evr._kernel.events.relations import Mechanism, Relation
from evr._kernel.events.schemes import UsersDpEvent
from evr._kernel.events.table import USERS_OF
from evr._tuning import tuning
from evr.errors import SpecError

Keys = Mapping[str, tuple[Any, Any]]
"""The type and the default of each key of a table; ``...`` is the default of a key that must be there."""

_FILE: Keys = {
    "mechanism": (Annotated[list[Any], Field(min_length=1)], ...),
    "tuning": (dict[str, Any], None),
    "adjacency": (Literal["add-or-remove", "replace-one", "zero-out"], None),
    "claim": (dict[str, Any], {}),
}
_VARIANTS = (
    " (docs/guide/my_variant.md says what to give for adaptive clipping, PATE, disjoint data, k-fold and others)"
)
_NOTHING = (
    'no mechanism is described: write what ran in a table [[mechanism]], such as kind = "dpsgd", '
    "noise_multiplier = 1.0, sampling_probability = 0.01, steps = 1000"
)


@dataclasses.dataclass(frozen=True)
class Target:
    """What to certify: one of ``epsilon`` and ``delta``, and the slack ``tau``."""

    epsilon: Annotated[float, Field(ge=0)] | None = None
    delta: Annotated[float, Field(ge=0, le=1)] | None = None
    tau: Annotated[float, Field(gt=0, lt=1)] | None = None


@dataclasses.dataclass(frozen=True)
class Table:
    """One mechanism. ``given`` holds the keys of its kind that are in the file."""

    kind: str
    repeat: int
    given: dict[str, Any]
    make: Callable[..., dp_event.DpEvent]

    def event(self) -> dp_event.DpEvent:
        one, count = self.make(**self.given), validate.positive_integer(repeat=self.repeat)
        return one if count == 1 else dp_event.SelfComposedDpEvent(one, count)


@dataclasses.dataclass(frozen=True)
class Spec:
    """A whole file. ``tuning`` holds arguments of ``evr.tuning``."""

    mechanism: list[Table]
    claim: Target
    tuning: dict[str, Any] | None = None
    adjacency: str | None = None
    source: str = ""  # begins every error about a value

    def event(self, relation: Relation | None = None) -> dp_event.DpEvent:
        """The event tree, translated once under the relation given or the file's, so that errors name their table."""
        built = [
            self._checked(table.event, relation, f"mechanism[{index}] (kind {table.kind!r})")
            for index, table in enumerate(self.mechanism)
        ]
        one = composed(built)
        if self.tuning is None:
            return one
        given = self.tuning
        return self._checked(lambda: tuning(one, **given).event, relation, "tuning")

    def _checked(self, make: Callable[[], dp_event.DpEvent], relation: Relation | None, where: str) -> dp_event.DpEvent:
        try:
            event = make()
            Composition.of(event, relation or self.adjacency)
        except (ValueError, TypeError) as error:
            raise SpecError(f"{self.source}{where}: {error}") from None
        return event


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
        If the file cannot be read, or holds a mistake.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "run.toml"
    ...     _ = path.write_text('[[mechanism]]\\nkind = "gaussian"\\nnoise_multiplier = 2.0\\n')
    ...     load(path).event()
    GaussianDpEvent(noise_multiplier=2.0)
    """
    with atomic.reading(validate.path(path=path), SpecError) as data:
        return dataclasses.replace(parse(data.decode("utf-8")), source=f"{path}: ")


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
        data = tomllib.loads(text, parse_float=_number)
    except (ValueError, RecursionError) as error:  # an endless integer is a ValueError, too
        raise SpecError(f"not valid TOML: {error or type(error).__name__}") from None
    if isinstance(data.get("mechanism"), dict):
        raise SpecError("[mechanism] is one table, and a file holds a list of them: write [[mechanism]]")
    if data.keys() <= _FILE.keys() - {"mechanism"}:
        raise SpecError(_NOTHING)
    found = _checked(_FILE, data, "")
    found["mechanism"] = [_table(table, f"mechanism[{index}]") for index, table in enumerate(found["mechanism"])]
    found["claim"] = Target(**_checked(_arguments(Target), found.get("claim", {}), "claim."))
    if "tuning" in found:
        keys = {key: one for key, one in _arguments(tuning).items() if key != "event"}
        found["tuning"] = _checked(keys, found["tuning"], "tuning.")
    return Spec(**found)


def _number(text: str) -> float:
    """A number of a file; a rate that is above 0 is not read as 0."""
    if is_beyond_floats(value := float(text), text):
        raise ValueError(f"{text} is beyond what a float holds (1e-308 to 1e308)")
    return value


def _table(table: Any, where: str) -> Table:
    if not isinstance(table, dict):
        raise SpecError(f"{where}: input should be a table (found {validate.shown(table)})")
    kind, kinds = table.get("kind"), {described(one.event).kind: one for one in MECHANISMS.values()}
    if kind == DPSGD:
        keys, make = _arguments(dpsgd), dpsgd
    elif isinstance(kind, str) and kind in kinds:
        try:
            keys, make = _described(kinds[kind])
        except TypeError as error:
            raise SpecError(f"{where}.kind: {kind!r} cannot be written here: {error}") from None
    else:
        known = [DPSGD]
        for name, one in kinds.items():
            with contextlib.suppress(TypeError):  # of a kind that cannot be written
                _described(one)
                known.append(name)
        said = "missing" if kind is None else f"unknown kind {validate.shown(kind)}"
        hint = _hint(kind, known, 0.6)
        raise SpecError(f"{where}.kind: {said}; {hint}{_VARIANTS if hint.startswith('known') else ''}")
    given = _checked({**keys, "kind": (str, ...), "repeat": (int, 1)}, table, f"{where}.")
    return Table(given.pop("kind"), given.pop("repeat", 1), given, make)


@functools.cache
def _arguments(function: Callable[..., Any]) -> Keys:
    """The arguments of a function, as keys of a table."""
    hints = typing.get_type_hints(function, include_extras=True)
    defaults = {one.name: one.default for one in inspect.signature(function).parameters.values()}
    return {name: (hints[name], ... if one is inspect.Parameter.empty else one) for name, one in defaults.items()}


@functools.lru_cache(maxsize=100)
def _described(mechanism: Mechanism) -> tuple[Keys, Callable[..., dp_event.DpEvent]]:
    """The keys of a mechanism by its description, and what makes its event of them; or ``TypeError``."""
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
    more: dict[str, tuple[Any, Any]] = {}
    if mechanism.takes_sampling and "sampling_probability" not in own:
        more = {"sampling_probability": (float, 1.0)}
    elif cls in USERS_OF:
        more = {"records_per_user": (int | None, None)}
    defaults = {key: default for key, (_, default) in description.fields.items() if default is not ...}

    def make(**given: Any) -> dp_event.DpEvent:
        around = {key: given.pop(key) for key in more.keys() & given.keys()}
        one = cls(**defaults | {key: _frozen(value) for key, value in given.items()})
        if "sampling_probability" in around and (rate := validate.probability(**around)) < 1:
            return dp_event.PoissonSampledDpEvent(rate, one)
        return UsersDpEvent(one, around["records_per_user"]) if "records_per_user" in around else one

    return own | more, make


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
    wrong = f"its field {name!r} is declared as {shown}, which has no form in a spec file"
    raise TypeError(f"{wrong}: register it with fields={{{name!r}: (type, default)}}")


def _checked(keys: Keys, table: dict[str, Any], where: str) -> dict[str, Any]:
    """A table's values. The first complaint is about an unknown key, for it may explain one that is missing."""
    if unknown := [key for key in table if key not in keys]:
        raise SpecError(f"{where}{validate.printable(unknown[0])}: unknown key; {_hint(unknown[0], sorted(keys), 0.4)}")
    found = {key: _value(keys[key][0], key, value, where) for key, value in table.items()}
    for key, (_, default) in keys.items():
        if default is ... and key not in found:
            raise SpecError(f"{where}{key}: field required")
    return found


def _value(wanted: Any, key: str, value: Any, where: str) -> Any:
    """A value of the type that is wanted; a probability may be a ratio such as ``"256/60000"``."""
    if key == "sampling_probability" and isinstance(value, str):
        ratio = re.fullmatch(r"(\d{1,18})\s*/\s*(\d{1,18})", value)
        value = int(ratio[1]) / int(ratio[2]) if ratio and int(ratio[2]) else value
    one: Any = types.GenericAlias(tuple, (wanted,))  # a model as the type itself allows no configuration but its own
    reader: Any = TypeAdapter(one, config=ConfigDict(strict=True))
    try:
        return reader.dump_python(reader.validate_python((value,)))[0]
    except ValidationError as error:
        problem = error.errors()[0]
    place = "".join(f"[{part}]" for part in problem["loc"][1:] if isinstance(part, int))
    message, found = problem["msg"], validate.shown(problem["input"])
    raise SpecError(f"{where}{key}{place}: {message[0].lower()}{message[1:]} (found {found})")


def _hint(given: Any, known: Iterable[str], cutoff: float) -> str:
    near = difflib.get_close_matches(str(given), known, n=1, cutoff=cutoff)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
