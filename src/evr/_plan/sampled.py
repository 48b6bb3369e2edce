"""Makes the plan of one direction of a claim: what to draw, on which device, where to clip, how large blocks are."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from evr._devices.cuda import why_not
from evr._estimate.capped import capped_plan
from evr._estimate.clipping import block_size, choose_clip
from evr._estimate.mixtures import mixture_proposal, pilot_variance, plain_plan
from evr._kernel.pairs import Step, on_a_line
from evr._kernel.pairs.patterns.law import PatternLaw
from evr._kernel.sampled.composing import composed, masses_of
from evr._kernel.sampled.line import spread_steps
from evr._kernel.sampled.mixtures import MOST_COPIES
from evr._kernel.sampled.plan import CappedPlan, DrawPlan, MixturePlan, ProposalPlan, SimplePlan
from evr._kernel.sampled.proposals import built, drawing_of
from evr._kernel.verdict.attempts import Trial, shortcut
from evr._kernel.verdict.settings import Claim, Settings
from evr.errors import DeviceError

ALLOWANCE = 0.02  # the share of the slack that drawing steps as a few outcomes may cost
COMPOSING_ALLOWANCE = 0.2  # the same where all steps are composed, and a sample costs next to nothing
LEAST_GAP = 1e-4  # the least slack ``1 - tau`` at which steps are composed: below, it would take too many places
_BLOCKS = 48  # how many a verification takes that goes as expected
_SMALLEST, _LARGEST = 8, 20  # block sizes, as powers of 2


def planned(
    steps: tuple[Step, ...], claim: Claim, proposal: str, *, device: str = "cpu", composing: bool = True
) -> DrawPlan:
    """The plan of one direction for the proposal of that name. What it says may be bad, but not false. ``composing``
    says whether steps on a line are composed before they are drawn.
    """
    if on_a_line(steps):
        if device == "cuda":
            raise DeviceError(
                f"device={device!r}: {steps[0].floats.describe()} is a law on a line, which a GPU does "
                "not draw. A strict proof takes seconds: leave device out, or use method='strict'"
            )
        found = _capped(steps, claim, composing) if proposal == "capped" else SimplePlan()
        return replace(_clipped(found, steps, claim), device=device)
    if proposal == "capped":
        mixture = mixture_proposal(steps, claim.epsilon, claim.estimate, claim.threshold).plan
    else:
        mixture = plain_plan(steps)
    if device != "cuda":
        return replace(_clipped(mixture, steps, claim), device=device)
    if (most := max(s.count for s in steps if isinstance(s.floats, PatternLaw))) > MOST_COPIES:
        raise DeviceError(
            f"a GPU draws up to {MOST_COPIES:,} equal laws in many dimensions, and these are "
            f"{most:,}: take device='cpu' or 'auto'"
        )
    plan = _clipped(replace(mixture, by_place=True), steps, claim)
    return replace(plan, block_size=_gpu_block_size(claim, plan.variance), device=device)


def _clipped(plan: ProposalPlan, steps: tuple[Step, ...], claim: Claim) -> DrawPlan:
    """The plan with its clip and the size of its blocks."""
    proposal = built(plan, steps)
    drawing = drawing_of(proposal, claim.epsilon)
    chosen = choose_clip(
        drawing,
        log_unit=math.log(claim.threshold),
        estimate=claim.estimate / claim.threshold,
        rounding=drawing.rounding.weight,
        variance=pilot_variance(proposal, drawing.epsilon_for_bounds, claim.threshold)
        if isinstance(plan, MixturePlan)
        else None,
    )
    clip = chosen.clip if 0.0 < chosen.clip < math.inf else None
    return DrawPlan(plan, clip=clip, variance=chosen.variance, block_size=block_size(proposal))


class Planning:
    """Plans the directions of an attempt, each once: what was found before the attempt is counted is used in it.

    ``notes`` say who draws, where that is not who was hoped for.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._device, note = chosen_device(settings.device)
        self.notes = [] if note is None else [note]
        self._found: dict[tuple[str, Claim], DrawPlan] = {}

    def __call__(self, trial: Trial) -> DrawPlan | None:
        if shortcut(trial.steps, trial.claim):
            return None
        key = (trial.direction, trial.claim)
        if key in self._found:
            return self._found[key]
        choice = (trial.steps, trial.claim, self._settings.proposal)
        composing = self._settings.method != "both"  # the sampled proof shares no composed law
        try:
            found = planned(*choice, device=self._device, composing=composing)
        except DeviceError as error:
            if self._settings.device != "auto":
                raise
            self.notes.append(f"the processor drew direction {trial.direction!r}, not a GPU: {error}")
            found = planned(*choice, composing=composing)
        return self._found.setdefault(key, found)


def _capped(steps: tuple[Step, ...], claim: Claim, composing: bool) -> ProposalPlan:
    gap = 1.0 - claim.tau
    composing = composing and gap >= LEAST_GAP
    allowance = (COMPOSING_ALLOWANCE if composing else ALLOWANCE) * gap
    how: dict[str, Any] = {"delta": claim.estimate, "composing": composing}
    plan = capped_plan(steps, claim.epsilon, allowance=allowance, **how)
    if plan.places:  # what composing made infinite, or raised, rejects no claim
        found = shortcut(built(plan, steps).steps, claim)
        raised = _composed_delta(plan, steps, claim.epsilon)
        is_bad = found is not None and not found.accepted
        if not is_bad and raised > claim.threshold:  # by the steps, or by the places: others would tell
            finer = capped_plan(steps, claim.epsilon, allowance=allowance / 4, **how)
            least = raised * (1.0 - allowance)
            is_bad = not finer.places or _composed_delta(finer, steps, claim.epsilon) < least
        if is_bad:
            return _capped(steps, claim, composing=False)
    return plan


def _composed_delta(plan: CappedPlan, steps: tuple[Step, ...], epsilon: float) -> float:
    """Delta of the one law that all steps are composed to."""
    law = masses_of(composed(spread_steps(steps, plan.kinds), plan.places))
    return law.infinite - float(law.masses @ np.expm1(np.minimum(epsilon - law.losses, 0.0)))


def chosen_device(device: str) -> tuple[str, str | None]:
    """Who draws, and a note where that is not who ``"auto"`` hopes for.

    Examples
    --------
    >>> chosen_device("cpu")
    ('cpu', None)
    """
    if device not in ("auto", "cuda"):
        return device, None
    why = why_not()
    if why is None:
        return "cuda", None
    if device == "cuda":
        raise DeviceError(f"device='cuda': {why}; or take device='cpu' or 'auto'")
    return "cpu", f"the processor drew, not a GPU: {why}"


def _gpu_block_size(claim: Claim, variance: float) -> int:
    """Samples of a GPU's block, so many that launching it costs little, and few enough for a verification to be some
    blocks: about how many samples it takes is a guess that nothing rests on.
    """
    slack = max(1.0 - claim.estimate / claim.threshold, 1e-9)
    expected = 2.0 * variance * max(-claim.log_budget(1), 1.0) / slack**2
    power = round(math.log2(max(expected / _BLOCKS, 1.0)))
    return 1 << min(max(power, _SMALLEST), _LARGEST)
