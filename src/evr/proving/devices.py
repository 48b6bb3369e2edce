"""Plans for a GPU: who draws, and what suits it. What is said here may be slow, but not false."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from evr.bounds import Tilt
from evr.errors import DeviceError
from evr.laws import DominatingPair, Step
from evr.sampling import Plan, TiltedProposal, built
from evr.sampling.cuda import why_not
from evr.sampling.cuda.device import most_outcomes
from evr.sampling.mixtures import MixtureProposal
from evr.sampling.placed_parts import MOST_COPIES
from evr.sampling.placed_parts import NAME as PARTS
from evr.sampling.plan import Kind
from evr.sampling.proposals import spread_steps
from evr.sampling.samplers import PLACED, identity
from evr.sampling.samplers.placed import MOST_STEPS
from evr.search.merging import Edges, merging_edges
from evr.search.tuning import capped_proposal
from evr.verification.claims import Claim
from evr.verification.directions import shortcut

_ALLOWANCES = (0.02, 0.06, 0.15)
"""Shares of the slack that merging may cost, in turn: a look-up costs a fifth of a normal number,
so more samples of merged steps are worth it.
"""

_BLOCKS = 48  # of a verification that goes as expected
_SMALLEST, _LARGEST = 8, 20  # block sizes, as powers of 2


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


def merged_plan(steps: tuple[Step, ...], claim: Claim) -> Plan:
    """Capped tilts of steps on as few outcomes as the slack allows, so that a step is a look-up;
    as they are where tables would not fit.
    """
    most = most_outcomes() - 2  # cuts, whose outcomes are one more, and an infinite loss
    for allowance in _ALLOWANCES:
        edges = merging_edges(
            steps, claim.epsilon, claim.delta, allowance * (1.0 - claim.tau), most=most
        )
        merged = spread_steps(steps, edges)
        found = shortcut(merged, claim)
        if found is not None and found.accepted:
            return TiltedProposal(merged, [Tilt()] * len(merged), name="simple").plan(edges)
        if found is None and any(cut is not None for cut in edges):
            return capped_proposal(merged, claim.epsilon).plan(edges)
    nowhere: tuple[Edges, ...] = (None,) * len(steps)
    return capped_proposal(steps, claim.epsilon).plan(nowhere)


def placed(plan: Plan, steps: tuple[Step, ...]) -> Plan:
    """The plan, drawn by samplers that a GPU has."""
    proposal = built(plan, steps)
    if isinstance(proposal, MixtureProposal):
        return _placed_mixture(plan, proposal)
    if not isinstance(proposal, TiltedProposal):
        raise DeviceError(
            f"a GPU does not draw the proposal {plan.proposal!r} of {steps[0].law.describe()}: "
            "take device='cpu' or 'auto'"
        )
    return replace(plan, kinds=_placed_kinds(plan.kinds, proposal))


def _placed_mixture(plan: Plan, proposal: MixtureProposal) -> Plan:
    if (most := max(count for _, count in proposal.laws)) > MOST_COPIES:
        raise DeviceError(
            f"a GPU draws up to {MOST_COPIES:,} equal laws in many dimensions, and these are "
            f"{most:,}: take device='cpu' or 'auto'"
        )
    on_line = [isinstance(step.law, DominatingPair) for step in proposal.steps]
    line = [kind for kind, is_on in zip(plan.kinds, on_line, strict=True) if is_on]
    beside = " beside a law in many dimensions"
    own = iter(_placed_kinds(line, proposal.line, beside) if proposal.line is not None else ())
    other = Kind(Tilt(), sampler=PARTS)
    return replace(plan, kinds=tuple(next(own) if is_on else other for is_on in on_line))


def _placed_kinds(
    kinds: Sequence[Kind], proposal: TiltedProposal, beside: str = ""
) -> tuple[Kind, ...]:
    if (most := max(proposal.counts, default=0)) > MOST_STEPS:
        raise DeviceError(
            f"a GPU draws up to {MOST_STEPS:,} equal steps one by one, and these are {most:,}: "
            "take device='cpu' or 'auto', which draw how many have each outcome"
        )
    found = []
    for kind, bounds in zip(kinds, proposal.bounds, strict=True):
        served = [one for one in PLACED if one.serves(bounds.pair, bounds.tilt)]
        if not served:
            raise DeviceError(
                "a GPU draws Poisson-sampled Gaussian steps and steps on finitely many outcomes, "
                f"and not {bounds.pair.describe()}{beside}: take device='cpu' or 'auto'"
            )
        found.append(replace(kind, sampler=identity(served[0])))
    return tuple(found)


def block_size(plan: Plan, claim: Claim, variance: float) -> int:
    """Samples of a block, so many that launching it costs little, and few enough for a verification
    to be some blocks: about how many samples it takes is a guess that nothing rests on.
    """
    slack = max(1.0 - claim.delta / claim.threshold, 1e-9)
    expected = 2.0 * variance * max(-claim.log_budget(1), 1.0) / slack**2
    power = round(math.log2(max(expected / _BLOCKS, 1.0)))
    return 1 << min(max(power, _SMALLEST), _LARGEST)
