"""How to verify."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from evr import validate
from evr.verification.summary import BACKENDS

METHODS = ("sequential", "fixed", "strict", "both")
PROPOSALS = ("capped", "simple", "single")


@dataclass(frozen=True)
class Settings:
    """How to verify; what an attempt has to remember to be continued."""

    method: str = "sequential"
    proposal: str = "capped"
    max_samples: int | None = None
    offset: float | None = None
    device: str = "cpu"

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Settings:
        """From keywords of ``certify`` or ``release``; one that does not exist is named."""
        known = [one.name for one in fields(cls)]
        for name in options:
            if name not in known:
                raise TypeError(
                    f"unexpected keyword argument {name!r}: a verification takes {', '.join(known)}"
                )
        return cls(**options)

    def __post_init__(self) -> None:
        validate.one_of(METHODS, method=self.method)
        validate.one_of(PROPOSALS, proposal=self.proposal)
        validate.one_of(("auto", *BACKENDS), device=self.device)
        if self.max_samples is not None:
            object.__setattr__(
                self, "max_samples", validate.positive_integer(max_samples=self.max_samples)
            )
        if self.method == "strict" and self.max_samples is not None:
            raise ValueError(
                f"max_samples={self.max_samples!r} belongs to methods that sample: leave it out "
                "for method='strict'"
            )
        if self.offset is not None:
            if self.method != "fixed":
                raise ValueError(f"offset={self.offset!r} belongs to method='fixed'")
            object.__setattr__(self, "offset", validate.positive(offset=self.offset))
