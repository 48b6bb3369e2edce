"""``certify``: estimate, verify, certify. The main job."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from pathlib import Path
from typing import Any

from evr import validate
from evr.certification.certificate import Certificate
from evr.certification.ledger import Ledger
from evr.estimation import estimate_delta, estimate_epsilon
from evr.gate.attempt import checked_event, opened, perform, start
from evr.verification import Claim
from evr.verification.driver import ProgressHook
from evr.verification.settings import Settings


def certify(
    event: Any,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    tau: float = 0.99,
    ledger: Ledger | str | Path | None = None,
    path: str | Path | None = None,
    release: str | None = None,
    floor: float | None = None,
    seed: int | None = None,
    workers: int | None = None,
    progress: ProgressHook | None = None,
    **settings: Any,
) -> Certificate:
    """Certify what everything that ran guarantees: estimate, verify, write down.

    With ``delta``, epsilon is estimated at ``tau * delta`` and ``(epsilon, delta)`` is certified; with ``epsilon``, delta is
    estimated and ``(epsilon, delta_estimate / tau)`` is certified. Estimates are rounded outwards by their own error, so that a
    good one is not below the truth. A claim that is not verified gives a certificate with the verdict ``"rejected"`` and without a guarantee.

    Parameters
    ----------
    event
        A ``DpEvent`` tree.
    delta, epsilon
        One of the two.
    tau
        Slack in (0, 1): the closer to 1, the tighter the guarantee and the more samples.
    ledger
        Where the attempt is counted: ``.evr/ledger.sqlite`` in the working directory by default.
    path
        Where to write the certificate.
    release, floor
        A name that groups attempts across claims, and the least that any of them may claim, fixed by the first (by default its claim).
    seed
        For results that can be repeated; a guarantee wants fresh entropy, so leave it out.
    workers, progress
        As of ``evr.verify``.
    settings
        ``method``, ``proposal``, ``max_samples``, ``offset`` as of ``evr.verify``.

    Examples
    --------
    >>> import evr, tempfile
    >>> from dp_accounting import dp_event
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     certificate = evr.certify(dp_event.GaussianDpEvent(4.0), delta=1e-5, tau=0.9, ledger=f"{folder}/ledger.sqlite")
    >>> certificate.verdict, certificate.guarantee.delta, round(certificate.guarantee.epsilon, 2)
    ('accepted', 1e-05, 0.93)
    """
    chosen = Settings(**settings)
    checked_event(event)
    tau = validate.open_probability(tau=tau)
    claim, estimate = _estimated(event, delta, epsilon, tau)
    return certify_claim(
        event, claim, chosen, ledger=ledger, path=path, release=release, floor=floor, seed=seed, workers=workers,
        progress=progress, estimate=estimate,
    )  # fmt: skip


def certify_claim(
    event: Any,
    claim: Claim,
    settings: Settings,
    *,
    ledger: Ledger | str | Path | None = None,
    path: str | Path | None = None,
    release: str | None = None,
    floor: float | None = None,
    seed: int | None = None,
    workers: int | None = None,
    progress: ProgressHook | None = None,
    estimate: dict[str, Any] | None = None,
) -> Certificate:
    """As ``certify``, for a claim whose estimate is given."""
    target = None if path is None else Path(path).absolute()
    with opened(ledger) as one:
        attempt = start(
            one, event, claim, settings, name=release, floor=floor, seed=seed, estimate=estimate, path=target
        )
        return perform(one, attempt, workers=workers, progress=progress)


def _estimated(event: Any, delta: float | None, epsilon: float | None, tau: float) -> tuple[Claim, dict[str, Any]]:
    """The claim to test, and where it comes from."""
    if (delta is None) == (epsilon is None):
        given = "both are given" if delta is not None else "neither is given"
        raise ValueError(f"epsilon={epsilon!r} and delta={delta!r}: {given}; give one, and evr estimates the other")
    if epsilon is not None:
        epsilon = validate.non_negative(epsilon=epsilon)
        found = estimate_delta(event, epsilon)
        error = getattr(found, "error", None) or 0.0
        value = min(1.0, _above(found.value + error, tau))
        value = max(value, 1e-290) if value > 0 else value
        claim = Claim(epsilon, value, tau)
        return claim, _section("delta", epsilon, found)
    delta = validate.half_open_probability(delta=delta)
    target = _estimate_for(delta, tau)
    found = estimate_epsilon(event, target)
    if not math.isfinite(found.value):
        raise ValueError(
            f"no epsilon is enough for delta={delta!r}: some mechanism may fail with more than that; claim more"
        )
    error = getattr(found, "error", None) or 0.0
    return Claim(_above(found.value + error, tau), target, tau), _section("epsilon", target, found)


def _section(quantity: str, at: float, found: Any) -> dict[str, Any]:
    return {
        "method": found.method,
        "quantity": quantity,
        "at": at,
        "value": found.value,
        "error": getattr(found, "error", None),
        "direction": found.direction,
    }


def _above(value: float, tau: float) -> float:
    """The value rounded up to digits that matter, so that it is written down exactly; costs a thousandth of the slack or less."""
    if value == 0:
        return 0.0
    digits = 5 + math.ceil(-math.log10(1.0 - tau))
    return float(Decimal(value).normalize(Context(digits, ROUND_CEILING)))


def _estimate_for(delta: float, tau: float) -> float:
    """The estimate whose claim is ``delta``: the greatest float that, divided by ``tau``, is at most that."""
    value = min(1.0, tau * delta)
    for _ in range(4):
        value = math.nextafter(value, math.inf)
    while value / tau > delta:
        value = math.nextafter(value, 0.0)
    return value
