"""The gate: ``certify`` estimates, verifies and writes down; ``release`` runs a mechanism only if its claim is verified
(Algorithm 1 of the paper). However often one tries, what comes out is ``(epsilon, delta)``-DP: docs/guarantees.md,
Section 5. Verification never sees data.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar, Unpack

from evr._basics import validate
from evr._certificate.build import differences, software
from evr._certificate.certificate import Certificate
from evr._kernel.events.relations import Relation
from evr._proving.choosing import Announce
from evr._proving.progress import ProgressHook, check_progress
from evr._proving.sampling import Sampling, SamplingOptions
from evr._release.attempt import Request, attempted, drawing_device, perform, writable
from evr._release.budget import Budget
from evr._release.ledger import Ledger, opened
from evr.errors import EvrError, LedgerError, NotReleasedError

T = TypeVar("T")


def certify(
    event: Any,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    advantage: float | None = None,
    true_positive_rate: float | None = None,
    false_positive_rate: float | None = None,
    tau: float | None = None,
    method: str = "auto",
    ledger: Ledger | str | Path | None = None,
    path: str | Path | None = None,
    proof: str | Path | None = None,
    name: str | None = None,
    budget: Budget | str | None = None,
    progress: ProgressHook | None = None,
    announce: Announce | None = None,
    neighboring_relation: Relation | None = None,
    unit: str | None = None,
    record: dict[str, Any] | None = None,
    description: Mapping[str, Any] | None = None,
    **sampling: Unpack[SamplingOptions],
) -> Certificate:
    """Certify what everything that ran guarantees: estimate, verify, write down.

    With ``delta``, the least epsilon is found, rounded up to three digits and certified. With ``epsilon``, the least
    delta is found, and certified over ``tau``. With both, the pair is certified, or refused at once if it is false. A
    claim that is not verified gives a certificate with the verdict ``"rejected"`` and without a guarantee.

    Parameters
    ----------
    event
        A ``DpEvent`` tree.
    delta, epsilon
        One of the two, or both; or instead a risk, as of ``evr.calibrate``, with which the statement begins.
    advantage, true_positive_rate, false_positive_rate
        A risk. The pair of epsilon and delta from which it follows is certified: docs/guarantees_risk.md, K6.
    tau
        In (0, 1): how far below the claim the truth is taken to be, by default as estimated. The closer to 1, the
        tighter what is found and the more samples. A pair with a ``tau`` is tested without an estimate.
    ledger
        Where the attempt is counted: ``.evr/ledger.sqlite`` in the working directory by default.
    path, proof
        Where to write the certificate, and its proof file, which anybody can check without evr by ``check_proof.py``
        beside it. A proof file needs a strict method.
    name
        The name of a release: it groups attempts across claims; the first fixes the least that any may claim.
    budget
        An ``evr.Budget``, or its name in the ledger: an accepted attempt is spent from it before the certificate is
        written, and the certificate names it. What does not fit is refused.
    announce
        Called with a ``Forecast`` before the attempt is counted; what it raises stops everything, and costs nothing.
    unit
        Whose data one record holds, all of it: ``"example"`` (or ``"record"``), ``"user"`` or ``"client"``; of events
        about users, what these are. The guarantee is per unit.
    record
        What the certificate says of the record that the event comes from: ``Record.certify`` gives it.
    description
        The training in the numbers that people state, for the statement: ``title``, ``dataset_size``, ``batch_size``,
        ``epochs``. Numbers that do not fit the event are refused.
    method, progress, neighboring_relation, sampling
        As of ``evr.verify``.

    Returns
    -------
    Certificate
        Accepted or rejected; written to ``path`` where one is given.

    Raises
    ------
    BudgetExceededError, FalseClaimError
        If the event does not fit in the budget, or the pair is false by its estimate, or true by too little to be
        verified: nothing is spent, and the error says what would do.
    ValueError, UnsupportedEventError, LedgerError
        If a value is out of its range, a mechanism has no law under the relation, the ledger cannot be used, or the
        release does not allow the claim.

    Examples
    --------
    >>> import evr, tempfile
    >>> from dp_accounting import dp_event
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     certificate = evr.certify(dp_event.GaussianDpEvent(4.0), delta=1e-5, tau=0.9,
    ...                               ledger=f"{folder}/ledger.sqlite")
    >>> certificate.verdict, certificate.guarantee.delta, round(certificate.guarantee.epsilon, 2)
    ('accepted', 1e-05, 0.93)
    """
    risk = {"advantage": advantage, "true_positive_rate": true_positive_rate}
    request = Request(
        event,
        False,
        epsilon=epsilon,
        delta=delta,
        risk=risk | {"false_positive_rate": false_positive_rate},
        tau=tau,
        method=method,
        ledger=ledger,
        path=path,
        proof=proof,
        name=name,
        budget=budget,
        progress=progress,
        announce=announce,
        neighboring_relation=neighboring_relation,
        unit=unit,
        record=record,
        description=description,
        **sampling,
    )
    with opened(request.ledger) as one:
        return attempted(one, request)[1]


@dataclass(frozen=True)
class Release(Generic[T]):
    """The outcome of a release: whether the output was ``released``, and the ``certificate`` that decided it."""

    released: bool
    certificate: Certificate
    _value: Any = field(default=None, repr=False)

    @property
    def value(self) -> T:
        """The mechanism's output; raises ``NotReleasedError`` if nothing was released."""
        if not self.released:
            pair = f"({self.certificate.claim.epsilon!r}, {self.certificate.claim.delta!r})"
            why = f"nothing was released: {pair}-differential privacy could not be verified"
            raise NotReleasedError(why, self.certificate)
        value: T = self._value
        return value


def release(
    mechanism: Callable[[], T],
    event: Any,
    *,
    epsilon: float,
    delta: float,
    ledger: Ledger | str | Path | None = None,
    certified: Callable[[Certificate], None] = lambda _: None,
    **options: Any,
) -> Release[T]:
    """Run ``mechanism()`` only if what it costs has been verified; what is released is ``(epsilon, delta)``-DP.

    One output for each release: by default a release is all attempts in a ledger at the same ``(epsilon, delta)``,
    however many mechanisms they try. The output is counted before the mechanism starts and stays counted, also where
    the mechanism raises (its exception goes on to the caller) or the process dies: what may have gone out counts as
    out. To let out another, which costs privacy again, give it a ``name``. Where a claim is rejected, another mechanism
    may be tried at the same claim, as the next attempt (the paper's fallback; docs/guarantees.md, Section 5.4).

    Parameters
    ----------
    mechanism
        A function without arguments. It should return its result and write nothing: what it writes by itself is out.
    event
        The ``DpEvent`` tree of what it does.
    epsilon, delta
        What is promised.
    ledger
        A path or a ``Ledger``; ``.evr/ledger.sqlite`` in the working directory by default.
    certified
        Called with the certificate before the mechanism runs; if it raises, the mechanism does not run.
    options
        ``name`` of the release; others as of ``evr.certify``.

    Returns
    -------
    Release
        ``released``, the certificate and ``value``, which raises ``NotReleasedError`` where nothing was released.

    Raises
    ------
    AlreadyReleasedError
        If the release has let out its output.
    ValueError, TypeError, UnsupportedEventError, LedgerError
        If something cannot be tested; the mechanism has not run then.

    Examples
    --------
    >>> import evr, tempfile
    >>> from dp_accounting import dp_event
    >>> event = dp_event.GaussianDpEvent(4.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = f"{folder}/ledger.sqlite"
    ...     good = evr.release(lambda: "noisy answer", event, epsilon=1.0, delta=1e-5,
    ...                        ledger=ledger)
    ...     bad = evr.release(lambda: "never runs", event, epsilon=1.0, delta=1e-7, ledger=ledger)
    >>> good.released, good.value, bad.released
    (True, 'noisy answer', False)
    """
    validate.function(mechanism=mechanism)
    validate.function(certified=certified)
    late_kinds = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    if any(is_late(mechanism) for is_late in late_kinds):
        late = f"mechanism={mechanism!r} is a generator or a coroutine: it would run after the gate has closed"
        raise TypeError(f"{late}; give a function that returns its result")
    request = Request(event, True, epsilon=epsilon, delta=delta, ledger=ledger, **options)
    with opened(request.ledger) as counting:
        counting.check()
        attempt, certificate = attempted(counting, request)
        certified(certificate)
        if not certificate.accepted:
            return Release(False, certificate)
        counting.count_output(attempt)
        address = counting.address
    # The ledger is closed meanwhile: the mechanism may take days, change the folder, or fork.
    ending: Literal["released", "raised"] = "raised"
    try:
        value = mechanism()
        ending = "released"
    finally:
        with contextlib.suppress(EvrError), Ledger(address, create=False) as counting:
            counting.end_output(attempt, ending)
    return Release(True, certificate, value)


def resume(
    ledger: Ledger | str | Path | None = None,
    *,
    attempt: int | None = None,
    path: str | Path | None = None,
    progress: ProgressHook | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
) -> Certificate:
    """Continue a verification that was interrupted. Its samples are drawn again, and so the verdict is as it would be.

    Parameters
    ----------
    ledger
        Where it is counted: ``.evr/ledger.sqlite`` in the working directory by default.
    attempt
        The ``id`` of one in ``Ledger.interrupted()``; the latest by default.
    path
        Where to write the certificate, instead of the file that was planned.
    workers, executor, progress
        As of ``evr.verify``.

    Returns
    -------
    Certificate
        Of the attempt, now complete.

    Raises
    ------
    LedgerError
        If there is none, or if it was begun with another version of evr, NumPy or SciPy, or on another device: its
        samples could not be drawn again.
    """
    with opened(ledger) as one:
        waiting = [each for each in one.interrupted() if attempt in (None, each.id)]
        if not waiting:
            what = "no verification was interrupted" if attempt is None else f"attempt {attempt!r} was not interrupted"
            raise LedgerError(f"{one.path}: {what}")
        chosen = waiting[0]
        changed, device = differences(chosen.software, software()), chosen.options["device"]
        if chosen.settings.device == "auto" and drawing_device(chosen.settings) != device:
            changed.append(f"device={device!r}, and device='auto' is another one here")
        if changed:
            begun = f"attempt {chosen.number} was begun with {changed[0]}"
            raise LedgerError(f"{begun}: its samples may not come out the same, so start another attempt")
        elsewhere = writable(path=path)
        writable(path=elsewhere or chosen.options["path"])
        check_progress(progress)
        sampling = Sampling(workers=workers, executor=executor)
        sampling.check_at_work()
        return perform(one, one.take_over(chosen), sampling, progress=progress, path=elsewhere)
