"""Plans for a GPU: who draws, and what suits it. What is said here may be slow, but not false."""

from __future__ import annotations

import math
from dataclasses import replace

from evr.errors import DeviceError
from evr.laws import Step
from evr.laws.patterns.law import PatternLaw
from evr.sampling.cuda import why_not
from evr.sampling.mixtures import MOST_COPIES
from evr.sampling.plan import MixturePlan, ProposalPlan
from evr.verification.claims import Claim

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


def placed(plan: ProposalPlan, steps: tuple[Step, ...]) -> MixturePlan:
    """The plan of laws in many dimensions, drawn as a GPU draws them; the processor draws laws on a line."""
    if not isinstance(plan, MixturePlan):
        raise DeviceError(f"a GPU does not draw the proposal {plan.name!r}: take device='cpu' or 'auto'")
    if (most := max(s.count for s in steps if isinstance(s.law, PatternLaw))) > MOST_COPIES:
        raise DeviceError(
            f"a GPU draws up to {MOST_COPIES:,} equal laws in many dimensions, and these are "
            f"{most:,}: take device='cpu' or 'auto'"
        )
    return replace(plan, by_place=True)


def block_size(claim: Claim, variance: float) -> int:
    """Samples of a block, so many that launching it costs little, and few enough for a verification to be some blocks:
    about how many samples it takes is a guess that nothing rests on.
    """
    slack = max(1.0 - claim.estimate / claim.threshold, 1e-9)
    expected = 2.0 * variance * max(-claim.log_budget(1), 1.0) / slack**2
    power = round(math.log2(max(expected / _BLOCKS, 1.0)))
    return 1 << min(max(power, _SMALLEST), _LARGEST)
