"""The numbers of a Poisson-sampled training that must not depend on the number of records where that is private
(docs/guarantees_relations.md, R1.7).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from evr import validate


@dataclass(frozen=True)
class Constants:
    """What somebody fixed without looking at the data."""

    divisor: float
    sampling_probability: float
    steps: int

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Constants:
        """The constants as callers give them and as records hold them.

        >>> Constants.of({"divisor": 256, "sampling_probability": 0.01, "steps": 100})
        Constants(divisor=256.0, sampling_probability=0.01, steps=100)
        """
        wanted = set(cls.__dataclass_fields__)
        if not isinstance(given, Mapping) or set(given) != wanted:
            raise ValueError(
                f"constants={validate.shown(given)} are not a divisor, a sampling_probability and "
                "steps: give a dictionary of these three"
            )
        return cls(
            validate.positive(divisor=given["divisor"]),
            validate.probability(sampling_probability=given["sampling_probability"]),
            validate.positive_integer(steps=given["steps"]),
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def unlike(self, divisor: float | None, sampling_probability: float) -> str | None:
        """How a step differs from these constants, in words; None if it does not."""
        if divisor != self.divisor:
            seen = "was not recorded" if divisor is None else f"was {divisor!r}"
            return f"the divisor {seen}, and the constant is {self.divisor!r}"
        if sampling_probability != self.sampling_probability:
            return (
                f"the sampling probability was {sampling_probability!r}, and the constant is "
                f"{self.sampling_probability!r}"
            )
        return None
