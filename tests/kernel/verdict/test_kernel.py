"""The shape of the kernel: classes are abstract or final, contracts are small, and one verification
passes few kinds of objects.
"""

from __future__ import annotations

import abc
import enum
import importlib
import inspect
import pkgutil
import sys
from typing import Any

import pytest

import evr

ROOMS = ("_kernel",)
DECIDING = ("evr._kernel.verdict", *(f"evr._kernel.sampled.{name}" for name in ("deciding", "driver", "summary")))
MEMBERS = 8
"""Of a contract, at the most."""
KINDS = 13
"""Of objects that one verification passes on, at the most."""


def kernel_classes() -> list[type[Any]]:
    found = []
    for room in ROOMS:
        package = importlib.import_module(f"evr.{room}")
        names = [one.name for one in pkgutil.walk_packages(package.__path__, f"evr.{room}.")]
        for name in (f"evr.{room}", *names):
            module = importlib.import_module(name)
            found += [one for one in vars(module).values() if inspect.isclass(one) and one.__module__ == name]
    return found


def is_contract(one: type[Any]) -> bool:
    """Abstract, or a protocol, or a base that only enumerations and the like have."""
    return inspect.isabstract(one) or getattr(one, "_is_protocol", False)


def members(one: type[Any]) -> list[str]:
    """What a contract offers: names of its own and of contracts above it, fields included."""
    names = set()
    for parent in one.__mro__:
        if parent.__module__.startswith("evr."):
            names |= set(vars(parent)) | set(vars(parent).get("__annotations__", {}))
    return sorted(name for name in names if not name.startswith("_"))


def test_a_class_is_abstract_or_final() -> None:
    classes = kernel_classes()
    assert len(classes) > 100
    found = {
        f"{one.__name__}({parent.__name__})"
        for one in classes
        for parent in one.__bases__
        if parent.__module__.startswith("evr.")
        and not is_contract(parent)
        and not issubclass(parent, enum.Enum | Exception)
    }
    assert not found


def test_contracts_are_small() -> None:
    found = {one.__name__: members(one) for one in kernel_classes() if is_contract(one)}
    assert {"Proposal", "Component", "DominatingPair"} <= set(found)
    assert not {name: names for name, names in found.items() if len(names) > MEMBERS}


def test_the_checks_see_what_is_wrong() -> None:
    class Contract(abc.ABC):
        @abc.abstractmethod
        def draw(self) -> None: ...

    class Final(Contract):
        def draw(self) -> None: ...

    assert is_contract(Contract)
    assert not is_contract(Final)


@pytest.mark.parametrize("method", ["sequential", "both"])
def test_one_verification_passes_few_kinds_of_objects(method: str) -> None:
    """Counted: what functions of verification are given by another module, and what they give to sampling, in both
    directions. Not counted: what an object is made of, enumerations, and the executor, which the caller may bring.
    """
    event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=30)
    delta = evr.estimate_delta(event, 1.0).value
    seen: set[str] = set()

    def watch(frame: Any, happened: str, _: Any) -> None:
        if happened != "call" or frame.f_back is None:
            return
        module, code = frame.f_globals.get("__name__", ""), frame.f_code
        caller = frame.f_back.f_globals.get("__name__", "")
        into = module.startswith(DECIDING) and caller != module
        out = module.startswith("evr._kernel.sampled") and caller.startswith(DECIDING)
        if not (into or out) or code.co_filename == "<string>":  # the constructor of a dataclass
            return
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        given = [frame.f_locals[name] for name in names if name not in ("self", "cls")]
        for value in given + [one for each in given if type(each) in (tuple, list) for one in each]:
            if type(value).__module__.startswith(tuple(f"evr.{room}" for room in ROOMS)):
                seen.add(type(value).__name__)
            seen.discard("Direction")
            seen.discard("Lazily")

    sys.setprofile(watch)
    try:
        evr.verify(event, epsilon=1.0, delta=delta / 0.7, tau=0.7, method=method, seed=1, workers=1)
    finally:
        sys.setprofile(None)
    assert {"Composition", "Claim", "DrawPlan", "State"} <= seen
    assert len(seen) <= KINDS, sorted(seen)
