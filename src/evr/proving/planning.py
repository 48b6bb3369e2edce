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
from evr.sampling import Plan, TiltedProposal
from evr.sampling.blended import NAME as BLENDED
from evr.sampling.proposals import drawn_steps, spread_steps
from evr.sampling.single import equal_steps
from evr.search.blending import blended_kinds
from evr.search.clipping import choose_clip
from evr.search.composing import composed_kinds
from evr.search.merging import merging_edges
from evr.search.mixtures import mixture_plan, plain_plan
from evr.search.single import single_proposal
from evr.search.tuning import capped_proposal, simple_proposal
from evr.verification.claims import Claim
from evr.verification.directions import Trial, shortcut
from evr.verification.drawing import Drawing
from evr.verification.settings import Settings

ALLOWANCE = 0.02
"""The share of the slack that drawing many steps as a few outcomes may cost."""

COMPOSING_ALLOWANCE = 0.08
"""The same for composing equal steps before they are drawn."""

LEAST_GAP = 1e-4
"""The least slack ``1 - tau`` at which composing is tried."""

WORTH_COMPOSING = 1.5
"""Seconds that sampling has to take for composing, which takes about one, to be tried."""

WORTH_BLENDING = 2.0
"""Seconds that sampling composed steps has to take for two tilts at once to be tried."""

SECONDS_PER_STEP = 2e-8
"""About what a step costs to draw."""

WEALTH = 10.0
"""About what a claim's budget asks of log wealth beyond the logarithm of the claim."""

USUAL_SPREAD = 8.0
"""Twice the variance of samples at good tilts, about, in units of delta squared."""

MERGED_WORK = 4_000
"""About what a sample of merged steps costs at the most, in steps that are drawn one by one."""

COMPOSED_CELLS = 1024
"""Of plans whose steps are on outcomes: each outcome is a cell anyway."""

Search = Callable[[tuple[Step, ...], str, Claim], Plan]


def planned(
    steps: tuple[Step, ...],
    direction: str,
    claim: Claim,
    proposal: str,
    *,
    device: str = "cpu",
    composing: bool = True,
) -> Plan:
    """The plan of one direction for the proposal of that name. What it says may be bad, but not
    false. ``composing`` says whether equal steps may be composed before they are drawn, which is
    done where it saves time.
    """
    if device == "cuda":
        return _for_gpu(steps, direction, claim, proposal)
    plan = None
    if composing and proposal == "capped" and on_a_line(steps):
        plan = _composed(steps, claim)
    if plan is None:
        plan, _ = _clipped(SEARCHES[proposal](steps, direction, claim), steps, claim)
    return replace(plan, device=device)


def _composed(steps: tuple[Step, ...], claim: Claim) -> Plan | None:
    """A plan with equal steps composed, where that pays; None where it does not."""
    quick = capped_proposal(steps, claim.epsilon, quick=True)
    log_unit, gap = math.log(claim.threshold), 1.0 - claim.tau
    if quick.log_greatest(claim.epsilon) <= log_unit or gap < LEAST_GAP:
        return None  # no sample is needed, or hardly any; or composing would need too many places
    work = min(quick.work, MERGED_WORK)
    seconds = SECONDS_PER_STEP * work * (WEALTH - log_unit) * USUAL_SPREAD / gap**2
    if seconds < WORTH_COMPOSING:
        return None
    allowance = COMPOSING_ALLOWANCE * gap
    kinds = composed_kinds(steps, quick.tilts, claim.epsilon, claim.delta, allowance)
    if kinds is None or shortcut(drawn_steps(steps, kinds).steps, claim) is not None:
        return None  # what composing made infinite rejects no claim
    found = [_clipped(Plan("capped", kinds, COMPOSED_CELLS), steps, claim)]
    if found[0][1] > WORTH_BLENDING and (blend := blended_kinds(steps, kinds, claim.epsilon)):
        found.append(_clipped(Plan(BLENDED, blend[0], shares=blend[1]), steps, claim))
    plan, composed_seconds = min(found, key=lambda x: x[1])
    return plan if composed_seconds < max(seconds, 60.0) else None


def _clipped(plan: Plan, steps: tuple[Step, ...], claim: Claim) -> tuple[Plan, float]:
    """The plan with its clip and the size of its blocks, and about how many seconds of one
    processor it takes.
    """
    drawing, log_unit = Drawing.of(plan, steps, claim.epsilon), math.log(claim.threshold)
    drawn, weight = drawing.proposal, drawing.rounding.weight
    chosen = choose_clip(
        drawn,
        drawing.epsilon,
        log_unit=log_unit,
        estimate=claim.delta / claim.threshold,
        rounding=weight,
    )
    found = replace(
        plan,
        clip=chosen.clip if math.isfinite(chosen.clip) else None,
        variance=chosen.variance,
        block_size=drawn.block_size(),
    )
    if drawing.log_greatest + weight <= log_unit:
        return found, 0.0
    wealth = WEALTH - log_unit
    samples = wealth / chosen.growth if chosen.growth > 0 else math.inf
    return found, SECONDS_PER_STEP * samples * drawn.work


def _for_gpu(steps: tuple[Step, ...], direction: str, claim: Claim, proposal: str) -> Plan:
    if on_a_line(steps):
        raise DeviceError(
            f"device='cuda': {steps[0].law.describe()} is a law on a line, which a GPU does "
            "not draw. A strict proof takes seconds: leave device out, or use method='strict'"
        )
    plan = SEARCHES[proposal](steps, direction, claim)
    found, _ = _clipped(devices.placed(plan, steps), steps, claim)
    return replace(found, block_size=devices.block_size(claim, found.variance), device="cuda")


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
        composing = self._settings.method != "both"  # the sampled proof shares no composed law
        try:
            return planned(*choice, device=self._device, composing=composing)
        except DeviceError as error:
            if self._settings.device != "auto":
                raise
            self.notes.append(
                f"the processor drew direction {trial.direction!r}, not a GPU: {error}"
            )
            return planned(*choice, composing=composing)


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
