"""What is said before a proof is planned, where that lasts: how long it will take; and then how far it is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable

from evr._basics import validate
from evr._basics.numbers import duration
from evr._kernel.events import Composition
from evr._kernel.pairs import Step
from evr._kernel.pairs.exact import ExactBins, ExactGaussian
from evr._kernel.pairs.grouping import MOST_KINDS, sampled_gaussians
from evr._kernel.pairs.nested import NestedLaw
from evr._kernel.pairs.selection import Selection
from evr._proving.progress import ProgressHook, is_shown
from evr.types import Method

_LASTS = 2.0  # seconds: what takes longer says so
_READING = 0.0015  # a step of a schedule: to read it, to group it, and to write it down
_KIND, _AMONG = 0.03, 0.0005  # a kind of step in one direction; and for each other kind beside it
_REPLACED = 0.4  # a kind under replace-one, which serves both directions
_LONGER = {ExactBins: 2.5, NestedLaw: 3.0, Selection: 2.0, ExactGaussian: 0.0}  # a kind of step of these laws

Tell = Callable[[str], None]
"""Says how far the planning is."""


def seconds_ahead(composition: Composition) -> float:
    """About how many processor seconds of a usual machine (2026) it takes to estimate, plan and prove a composition,
    within a factor of two, known before any of it is done.
    """
    return sum(_seconds(composition.simplified(one)) for one in composition.directions())


def _seconds(steps: Iterable[Step]) -> float:
    members, others = sampled_gaussians(steps)
    seconds = sum(_longest(step) for step in others)
    for direction, own in members.items():
        kinds = min(len(own), MOST_KINDS)
        each = _KIND + _AMONG * kinds if direction else _REPLACED
        seconds += _READING * len(own) + each * kinds
    return seconds


def _longest(step: Step) -> float:
    return next((seconds for law, seconds in _LONGER.items() if isinstance(step.law, law)), _KIND)


def planning_told(composition: Composition, progress: ProgressHook | None, method: str) -> Tell:
    """Say how long it takes to plan and prove a composition, unless by samples only, if it lasts and somebody looks.
    Returns what says then how far it is.
    """
    is_strict = validate.one_of(Method, method=method) in ("auto", "strict", "both")
    if not (is_strict and is_shown(progress) and (seconds := seconds_ahead(composition)) > _LASTS):
        return lambda stage: None
    start, kinds = time.perf_counter(), len(composition.remove)
    what, about = f"{kinds:,} different step{'s' * (kinds > 1)}", duration(float(f"{seconds:.2g}"))
    print(f"{what}: about {about} to estimate, plan and prove.", file=sys.stderr)

    def tell(stage: str) -> None:
        print(f"{stage}, after {duration(time.perf_counter() - start)}.", file=sys.stderr)

    return tell
