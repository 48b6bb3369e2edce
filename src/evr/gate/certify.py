"""``certify``: estimate, verify, certify. The main job."""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import Executor
from fractions import Fraction
from pathlib import Path
from typing import Any

import attrs
from dp_accounting.dp_event import (
    DpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)

from evr import validate
from evr.certification.certificate import Certificate
from evr.certification.ledger import Ledger
from evr.errors import FalseClaimError
from evr.estimation import Estimate, UpperBound, calibrate, estimate_delta, estimate_epsilon
from evr.estimation.calibration import TIGHTEST
from evr.gate.attempt import foresee, opened, perform, start
from evr.gate.request import Request, Subject
from evr.mechanisms import Composition
from evr.mechanisms.relations import Relation
from evr.numbers import round_up
from evr.proving import Announce
from evr.proving.slack import DEFAULT, LOOSEST, not_below, tau_of
from evr.verification import Claim
from evr.verification.driver import ProgressHook
from evr.verification.settings import METHODS, Settings
from evr.verification.strict import threshold_of

_AROUND = (SelfComposedDpEvent, PoissonSampledDpEvent, SampledWithoutReplacementDpEvent)
_LEAST = 1e-290  # of a delta that is not 0


def certify(
    event: Any,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    tau: float | None = None,
    exact: bool = False,
    ledger: Ledger | str | Path | None = None,
    path: str | Path | None = None,
    proof: str | Path | None = None,
    release: str | None = None,
    floor: float | None = None,
    seed: int | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    progress: ProgressHook | None = None,
    announce: Announce | None = None,
    method: str = "auto",
    neighboring_relation: Relation | None = None,
    record: dict[str, Any] | None = None,
    description: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Certificate:
    """Certify what everything that ran guarantees: estimate, verify, write down.

    With ``delta``, the least epsilon is found, rounded up to three digits and certified; with
    ``epsilon``, the least delta, and its estimate over ``tau`` is certified; with both, just that
    pair is, or an error says at once that it is false and what would hold. A claim that is not
    verified gives a certificate with the verdict ``"rejected"`` and without a guarantee.

    Parameters
    ----------
    event
        A ``DpEvent`` tree.
    delta, epsilon
        One of the two, or both.
    tau
        In (0, 1): how far below the claim the truth is taken to be. The closer to 1, the tighter
        what is found and the more samples. By default it is chosen from the estimate. A pair with
        a ``tau`` is tested as it is, without an estimate.
    exact
        Keep all digits of epsilon instead of three: a few thousandths tighter, and some ten times
        the samples.
    ledger
        Where the attempt is counted: ``.evr/ledger.sqlite`` in the working directory by default.
    path
        Where to write the certificate.
    proof
        Where to write its proof file, which anybody can check without evr: a strict method is
        needed. ``check_proof.py`` is put beside it.
    release, floor
        A name that groups attempts across claims, and the least that any of them may claim, fixed
        by the first (by default its claim).
    seed
        For results that can be repeated; a guarantee wants fresh entropy, so leave it out.
    workers, executor, progress
        As of ``evr.verify``.
    announce
        Called with a ``Forecast`` (claim, method, samples, seconds) before the attempt is counted;
        what it raises stops everything, and costs nothing.
    method
        As of ``evr.verify``; or ``"auto"``: ``"strict"`` where every law is on a line and has an
        exact form, and the proof takes seconds and succeeds, else ``"sequential"``. A seed,
        ``proposal``, ``max_samples`` or ``device`` belong to samples and choose them. ``"both"`` is
        for where doubt is expensive. The statement says how the claim was proved.
    neighboring_relation
        Which data sets are neighbours: as of ``evr.estimate_delta``. The certificate holds it, and
        the statement names it.
    record
        What the certificate says of the record that the event comes from: ``Record.certify`` gives
        it.
    description
        The training in the numbers that people state, for the statement: ``title``, ``unit``
        (``"example"``, ``"user"`` or ``"client"``), ``dataset_size``, ``batch_size``, ``epochs``.
        Each may be left out. Numbers that do not fit the event are refused.
    settings
        ``proposal``, ``max_samples``, ``offset``, ``device`` as of ``evr.verify``.

    Returns
    -------
    Certificate
        Accepted or rejected; written to ``path`` where one is given.

    Raises
    ------
    FalseClaimError
        If the pair is false by its estimate, or true by too little to be verified. Nothing is
        counted then.
    ValueError
        If a value is out of its range. Nothing is counted then.
    UnsupportedEventError
        If some mechanism has no law here, or none under the relation.
    LedgerError
        If the ledger cannot be used, or the release does not allow the claim.

    Examples
    --------
    >>> import evr, tempfile
    >>> from dp_accounting import dp_event
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     certificate = evr.certify(dp_event.GaussianDpEvent(4.0), delta=1e-5, tau=0.9,
    ...                               ledger=f"{folder}/ledger.sqlite")
    >>> certificate.verdict, certificate.guarantee.delta, round(certificate.guarantee.epsilon, 2)
    ('accepted', 1e-05, 0.93)

    The pair that one prints:

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pair = evr.certify(dp_event.GaussianDpEvent(4.0), epsilon=0.95, delta=1e-5,
    ...                        ledger=f"{folder}/ledger.sqlite")
    >>> pair.guarantee.epsilon, pair.guarantee.delta
    (0.95, 1e-05)
    """
    if announce is not None:
        validate.function(announce=announce)
    request = requested(
        event,
        epsilon=epsilon,
        delta=delta,
        tau=tau,
        exact=exact,
        method=method,
        neighboring_relation=neighboring_relation,
        name=release,
        floor=floor,
        seed=seed,
        path=path,
        proof=proof,
        workers=workers,
        executor=executor,
        progress=progress,
        record=record,
        description=description,
        **settings,
    )
    return certify_claim(request, ledger=ledger, announce=announce)


def requested(
    event: Any,
    *,
    epsilon: float | None,
    delta: float | None,
    tau: float | None = None,
    exact: bool = False,
    method: str = "auto",
    neighboring_relation: Relation | None = None,
    seed: int | None = None,
    path: str | Path | None = None,
    proof: str | Path | None = None,
    name: str | None = None,
    floor: float | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    progress: ProgressHook | None = None,
    record: dict[str, Any] | None = None,
    description: Mapping[str, Any] | None = None,
    refuses: bool = True,
    **settings: Any,
) -> Request:
    """Estimate, and check everything that can be checked before anything is counted. ``refuses``
    says whether a pair that seems to be false is refused; else it is tested.
    """
    for other, why in (
        ("direction", "a guarantee needs both"),
        ("attempt", "the ledger counts attempts"),
    ):
        if other in settings:
            raise TypeError(f"{other}={settings[other]!r} cannot be given here: {why}")
    automatic = validate.one_of(("auto", *METHODS), method=method) == "auto"
    chosen = Settings.of({"method": "sequential" if automatic else method, **settings})
    subject = Subject.of(event, neighboring_relation)
    if tau is not None:
        tau = validate.open_probability(tau=tau)
    claim = _estimated(
        subject.composition, delta, epsilon, tau, exact=exact, ran=event, refuses=refuses
    )
    if automatic and seed is None and not settings:
        enough = threshold_of(claim) * (1 - Fraction(claim.kappa))  # as an attempt of a release
        if subject.strict.shows(claim, enough):
            chosen = Settings("strict")
    return Request(
        subject,
        claim,
        chosen,
        name=name,
        floor=floor,
        seed=seed,
        path=None if path is None else validate.path(path=path).absolute(),
        proof=None if proof is None else validate.path(proof=proof).absolute(),
        workers=workers,
        executor=executor,
        progress=progress,
        record=record,
        description=description,
    )


def certify_claim(
    request: Request,
    *,
    ledger: Ledger | str | Path | None = None,
    announce: Announce | None = None,
) -> Certificate:
    """As ``certify``, for a request that is made."""
    with opened(ledger) as one:
        ahead = foresee(one, request)
        if announce is not None:
            announce(ahead)
        attempt = start(one, request)
        return perform(
            one,
            attempt,
            workers=request.workers,
            executor=request.executor,
            progress=request.progress,
            ahead=ahead,
        )


def _estimated(
    event: Composition,
    delta: float | None,
    epsilon: float | None,
    tau: float | None,
    *,
    exact: bool,
    ran: Any,
    refuses: bool,
) -> Claim:
    """The claim to test; ``ran`` is the event as it was given."""
    if epsilon is not None:
        epsilon = validate.level(epsilon=epsilon)
    if delta is not None:
        alone = epsilon is None  # no epsilon is found at 0
        check = validate.half_open_probability if alone else validate.probability
        delta = check(delta=delta)
    if epsilon is None and delta is None:
        raise ValueError(
            "certify what? Give delta (epsilon is found), epsilon (delta is found), or both"
        )
    if epsilon is not None and delta is not None:
        if tau is not None:
            return Claim(epsilon, delta, tau)
        found = estimate_delta(event, epsilon)
        if refuses:
            _refuse_false(event, epsilon, delta, found, ran)
        return Claim(epsilon, delta, tau_of(found, delta))
    if epsilon is not None:
        slack = DEFAULT if tau is None else tau
        found = estimate_delta(event, epsilon)
        value = min(1.0, _above(not_below(found) / slack, slack))
        value = max(value, _LEAST / LOOSEST) if value > 0 else value
        return Claim(epsilon, value, slack)
    assert delta is not None
    if delta <= _LEAST / LOOSEST:
        raise ValueError(
            f"delta={delta!r} is not above {_LEAST / LOOSEST:g}: floats cannot tell such a claim "
            "from 0; claim a greater delta"
        )
    if tau is None and not exact:
        return _rounded_pair(event, delta)
    slack = DEFAULT if tau is None else tau
    target = slack * delta
    found = _least_epsilon(event, target, delta)
    value = _above(not_below(found), slack)
    value = value if exact else round_up(value, 3)
    return Claim(value, delta, slack)


def _least_epsilon(event: Any, target: float, delta: float) -> Estimate | UpperBound:
    found = estimate_epsilon(event, target)
    if not math.isfinite(found.value):
        raise ValueError(
            f"no epsilon is enough for delta={delta!r}: some mechanism may fail with more than "
            "that; claim a greater delta"
        )
    return found


def _rounded_pair(event: Any, delta: float) -> Claim:
    """Epsilon with three digits, and the tau that its estimate leaves, 0.99 at the most."""
    epsilon = round_up(not_below(_least_epsilon(event, delta, delta)), 3)
    found = estimate_delta(event, epsilon)
    for _ in range(3):
        if not_below(found) <= DEFAULT * delta:
            break
        epsilon = round_up(epsilon * (1.0 + 1e-9), 3)
        found = estimate_delta(event, epsilon)
    return Claim(epsilon, delta, tau_of(found, delta))


def _refuse_false(
    event: Composition, epsilon: float, delta: float, found: Estimate | UpperBound, ran: Any
) -> None:
    """Refuse a pair that is false, or true by too little, with what would hold."""
    if not_below(found) > TIGHTEST * delta:
        least = _rounded_pair(event, delta).epsilon
        false = found.value > delta
        noise = _enough_noise(ran, epsilon, delta, event.relation)
        raise FalseClaimError(
            f"epsilon={epsilon!r}, delta={delta!r}: "
            + ("this is false" if false else "this is true by too little to be verified")
            + f", for delta({epsilon!r}) is about {found.value:.6g}; epsilon={least!r} at this "
            f"delta would hold, or delta={round_up(found.value / DEFAULT, 3)!r} at this epsilon"
            + ("" if noise is None else f", or this pair with noise_multiplier={noise!r}")
        )


def _enough_noise(ran: Any, epsilon: float, delta: float, relation: Relation) -> float | None:
    """A noise multiplier with which the pair could be verified; None where what ran is not one
    Gaussian mechanism, sampled and repeated.
    """
    around = []
    while isinstance(ran, _AROUND):
        around.append(ran)
        ran = ran.event
    if not isinstance(ran, GaussianDpEvent) or not ran.noise_multiplier > 0:
        return None

    def with_noise(noise: float) -> DpEvent:
        event: DpEvent = GaussianDpEvent(noise)
        for outer in reversed(around):
            event = attrs.evolve(outer, event=event)
        return event

    try:
        return calibrate(
            with_noise,
            epsilon=epsilon,
            delta=delta,
            low=ran.noise_multiplier,
            neighboring_relation=relation,
        ).value
    except ValueError:  # no noise is enough
        return None


def _above(value: float, tau: float) -> float:
    """The value rounded up to digits that matter, so that it is written down exactly; costs a
    thousandth of the slack or less.
    """
    return round_up(value, 5 + math.ceil(-math.log10(1.0 - tau)))
