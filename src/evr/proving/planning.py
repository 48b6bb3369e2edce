"""From a claim to a plan for one direction: tilts, merging, clip."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from evr.bounds import Tilt
from evr.errors import DeviceError
from evr.laws import Direction, Step, on_a_line
from evr.mechanisms import Composition
from evr.proving import devices
from evr.sampling import Plan, TiltedProposal, built
from evr.sampling.proposals import spread_steps
from evr.sampling.single import equal_steps
from evr.search.clipping import choose_clip
from evr.search.merging import merging_edges
from evr.search.mixtures import mixture_plan, plain_plan
from evr.search.single import single_proposal
from evr.search.tuning import capped_proposal, simple_proposal
from evr.verification.claims import Claim
from evr.verification.directions import Trial, shortcut
from evr.verification.settings import Settings

ALLOWANCE = 0.02
"""The share of the slack that drawing many steps as a few outcomes may cost."""

Search = Callable[[tuple[Step, ...], str, Claim], Plan]


def planned(
    steps: tuple[Step, ...], direction: str, claim: Claim, proposal: str, *, device: str = "cpu"
) -> Plan:
    """The plan of one direction for the proposal of that name. What it says may be bad, but not
    false.
    """
    search = SEARCHES[proposal]
    plan = (
        search(steps, direction, claim)
        if device != "cuda"
        else _for_gpu(steps, direction, claim, proposal)
    )
    drawn = built(plan, steps)
    rounding = drawn.rounding(claim.epsilon)
    chosen = choose_clip(
        drawn,
        rounding.bounded(claim.epsilon),
        log_unit=math.log(claim.threshold),
        estimate=claim.delta / claim.threshold,
        rounding=rounding.weight,
    )
    return replace(
        plan,
        clip=chosen.clip if math.isfinite(chosen.clip) else None,
        variance=chosen.variance,
        block_size=drawn.block_size()
        if device != "cuda"
        else devices.block_size(plan, claim, chosen.variance),
        device=device,
    )


def _for_gpu(steps: tuple[Step, ...], direction: str, claim: Claim, proposal: str) -> Plan:
    merges = proposal == "capped" and on_a_line(steps)
    plan = (
        devices.merged_plan(steps, claim) if merges else SEARCHES[proposal](steps, direction, claim)
    )
    return devices.placed(plan, steps)


class Planning:
    """Plans the directions of an attempt, each once: what was found before the attempt is counted
    is used in it.

    ``notes`` say who draws, where that is not who was hoped for.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._device, note = devices.chosen_device(settings.device)
        self.notes = [] if note is None else [note]
        self._found: dict[tuple[str, Claim], Plan] = {}

    def __call__(self, trial: Trial) -> Plan | None:
        if shortcut(trial.steps, trial.claim):
            return None
        key = (trial.direction, trial.claim)
        if key not in self._found:
            self._found[key] = self._plan(trial)
        return self._found[key]

    def _plan(self, trial: Trial) -> Plan:
        choice = (trial.steps, trial.direction, trial.claim, self._settings.proposal)
        try:
            return planned(*choice, device=self._device)
        except DeviceError as error:
            if self._settings.device != "auto":
                raise
            self.notes.append(
                f"the processor drew direction {trial.direction!r}, not a GPU: {error}"
            )
            return planned(*choice)


def check_proposal(composition: Composition, claim: Claim, proposal: str) -> None:
    """Refuse a proposal that is not made for a composition, before an attempt is counted."""
    steps = composition.simplified(Direction.REMOVE)
    if proposal == "single" and not shortcut(steps, claim):
        equal_steps(steps)


def _capped(steps: tuple[Step, ...], direction: str, claim: Claim) -> Plan:
    if not on_a_line(steps):
        return mixture_plan(steps, claim.epsilon, claim.delta, claim.threshold)
    allowance = ALLOWANCE * (1.0 - claim.tau)
    edges = merging_edges(steps, claim.epsilon, claim.delta, allowance)
    merged = spread_steps(steps, edges)
    found = shortcut(merged, claim) if merged != steps else None
    if found is not None and found.accepted:
        return TiltedProposal(merged, [Tilt()] * len(merged), name="simple").plan(edges)
    if found is not None:  # what merging made infinite rejects no claim
        edges, merged = (None,) * len(steps), steps
    return capped_proposal(merged, claim.epsilon).plan(edges)


def _simple(steps: tuple[Step, ...], direction: str, claim: Claim) -> Plan:
    if not on_a_line(steps):
        return plain_plan(steps)
    return simple_proposal(steps, claim.epsilon).plan()


def _single(steps: tuple[Step, ...], direction: str, claim: Claim) -> Plan:
    """The paper's covers the remove direction only, so add takes the default."""
    if direction != "remove":
        return _capped(steps, direction, claim)
    found = single_proposal(steps, claim.epsilon, theta="bound")
    return Plan("single", cells=found.cells, numbers=(("theta", found.theta),))


SEARCHES: dict[str, Search] = {"capped": _capped, "simple": _simple, "single": _single}
"""How the plan of each proposal is found."""
