"""How to verify."""

from __future__ import annotations

from dataclasses import dataclass

from evr import validate
from evr.methods import PROOFS
from evr.verification.summary import BACKENDS

PROPOSALS = ("capped", "simple")


@dataclass(frozen=True)
class Settings:
    """How to verify; what an attempt has to remember to be continued."""

    method: str = "sequential"
    proposal: str = "capped"
    max_samples: int | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        validate.one_of(PROOFS, method=self.method)
        validate.one_of(PROPOSALS, proposal=self.proposal)
        validate.one_of(("auto", *BACKENDS), device=self.device)
        if self.max_samples is not None:
            object.__setattr__(self, "max_samples", validate.positive_integer(max_samples=self.max_samples))
        if self.method == "strict" and self.max_samples is not None:
            raise ValueError(f"max_samples={self.max_samples!r} belongs to methods that sample, not to method='strict'")
