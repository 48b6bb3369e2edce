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

ROOMS = ("laws", "mechanisms", "bounds", "sampling", "verification")
MEMBERS = 8
"""Of a contract, at the most."""


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
    assert {"Proposal", "Part", "DominatingPair"} <= set(found)
    assert not {name: names for name, names in found.items() if len(names) > MEMBERS}


def test_the_checks_see_what_is_wrong() -> None:
    class Contract(abc.ABC):
        @abc.abstractmethod
        def draw(self) -> None: ...

    class Final(Contract):
        def draw(self) -> None: ...

    assert is_contract(Contract)
    assert not is_contract(Final)


@pytest.mark.parametrize("composing", [False, True])
def test_one_verification_passes_few_kinds_of_objects(composing: bool) -> None:
    """Counted: what functions of sampling and verification hold, both directions."""
    event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=30)
    delta = evr.estimate_delta(event, 1.0).value
    method = "sequential" if composing else "both"
    seen: set[str] = set()

    def watch(frame: Any, happened: str, _: Any) -> None:
        if happened == "call":
            for value in frame.f_locals.values():
                if type(value).__module__.startswith(("evr.sampling", "evr.verification")):
                    seen.add(type(value).__name__)

    sys.setprofile(watch)
    try:
        evr.verify(event, epsilon=1.0, delta=delta / 0.7, tau=0.7, method=method, seed=1, workers=1)
    finally:
        sys.setprofile(None)
    assert {"DrawPlan", "State", "Verification"} <= seen
    assert len(seen) <= 24, sorted(seen)
