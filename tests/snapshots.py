"""Verifications as the ledger makes them."""

from __future__ import annotations

import dataclasses
from typing import Any

from evr._kernel.events import Composition
from evr._kernel.verdict.attempts import Attempt
from evr._kernel.verdict.results import Verification
from evr._kernel.verdict.settings import Claim, Settings, Terms
from evr._proving.api import prove


def proved(
    event: Any, *, epsilon: float, delta: float, tau: float, terms: Terms | None = None, **options: Any
) -> Verification:
    """``evr.verify`` that also takes ``alive`` and ``terms``."""
    names = [field.name for field in dataclasses.fields(Settings)]
    settings = Settings(**{name: options.pop(name) for name in names if name in options})
    if "attempt" in options:
        options["number"] = options.pop("attempt")
    shown = {name: options.pop(name) for name in ("workers", "progress", "alive") if name in options}
    claim = Claim(epsilon, delta, tau, terms)
    return prove(Composition.of(event), claim, settings, Attempt(**options), **shown)
