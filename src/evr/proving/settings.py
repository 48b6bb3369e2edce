"""How to verify."""

from __future__ import annotations

from dataclasses import dataclass

from evr import validate

METHODS = ("sequential", "fixed", "strict")
PROPOSALS = ("capped", "single", "simple")


@dataclass(frozen=True)
class Settings:
    """How to verify; what an attempt has to remember to be continued."""

    method: str = "sequential"
    proposal: str = "capped"
    max_samples: int | None = None
    offset: float | None = None

    def __post_init__(self) -> None:
        validate.one_of(METHODS, method=self.method)
        validate.one_of(PROPOSALS, proposal=self.proposal)
        if self.max_samples is not None:
            validate.positive_integer(max_samples=self.max_samples)
        if self.offset is not None:
            if self.method != "fixed":
                raise ValueError(f"offset={self.offset!r} belongs to method='fixed'")
            validate.positive(offset=self.offset)
