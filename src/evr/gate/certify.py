"""``certify``: estimate, verify, certify. The main job."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evr import validate
from evr.certification.budget import Budget
from evr.certification.certificate import Certificate
from evr.certification.ledger import Ledger, opened
from evr.gate.attempt import attempted
from evr.gate.request import Request
from evr.mechanisms.relations import Relation
from evr.proving import Announce
from evr.verification.driver import ProgressHook


def certify(
    event: Any,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    tau: float | None = None,
    method: str = "auto",
    ledger: Ledger | str | Path | None = None,
    path: str | Path | None = None,
    proof: str | Path | None = None,
    release: str | None = None,
    budget: Budget | str | None = None,
    progress: ProgressHook | None = None,
    announce: Announce | None = None,
    neighboring_relation: Relation | None = None,
    record: dict[str, Any] | None = None,
    description: Mapping[str, Any] | None = None,
    **sampling: Any,
) -> Certificate:
    """Certify what everything that ran guarantees: estimate, verify, write down.

    With ``delta``, the least epsilon is found, rounded up to three digits and certified; with ``epsilon``, the least
    delta, and its estimate over ``tau`` is certified; with both, just that pair is, or an error says at once that it is
    false and what would hold. A claim that is not verified gives a certificate with the verdict ``"rejected"`` and
    without a guarantee.

    Parameters
    ----------
    event
        A ``DpEvent`` tree.
    delta, epsilon
        One of the two, or both.
    tau
        In (0, 1): how far below the claim the truth is taken to be. The closer to 1, the tighter what is found and the
        more samples. By default it is chosen from the estimate. A pair with a ``tau`` is tested as it is, without an
        estimate.
    ledger
        Where the attempt is counted: ``.evr/ledger.sqlite`` in the working directory by default.
    path
        Where to write the certificate.
    proof
        Where to write its proof file, which anybody can check without evr: a strict method is needed.
        ``check_proof.py`` is put beside it.
    release
        A name that groups attempts across claims; the first fixes the least that any may claim.
    budget
        An ``evr.Budget``, or its name in the ledger: an accepted attempt is spent from it, before the certificate is
        written, and the certificate names it. What does not fit is refused.
    progress
        As of ``evr.verify``.
    announce
        Called with a ``Forecast`` (claim, method, samples, seconds) before the attempt is counted; what it raises stops
        everything, and costs nothing.
    method
        As of ``evr.verify``; or ``"auto"``: ``"strict"`` where every law is on a line and has an exact form, and the
        proof takes seconds and succeeds, else ``"sequential"``. A seed, ``proposal``, ``max_samples`` or ``device``
        belong to samples and choose them. ``"both"`` is for where doubt is expensive. The statement says how the claim
        was proved.
    neighboring_relation
        Which data sets are neighbours: as of ``evr.estimate_delta``. The certificate holds it, and the statement names
        it.
    record
        What the certificate says of the record that the event comes from: ``Record.certify`` gives it.
    description
        The training in the numbers that people state, for the statement: ``title``, ``unit`` (``"example"``, ``"user"``
        or ``"client"``), ``dataset_size``, ``batch_size``, ``epochs``. Each may be left out. Numbers that do not fit
        the event are refused.
    sampling
        ``seed``, ``max_samples``, ``workers``, ``executor``, ``device``, ``proposal`` as of ``evr.verify``.

    Returns
    -------
    Certificate
        Accepted or rejected; written to ``path`` where one is given.

    Raises
    ------
    BudgetExceededError
        If the event does not fit in the budget: nothing is spent then, and the error says what would fit.
    FalseClaimError
        If the pair is false by its estimate, or true by too little to be verified. Nothing is counted then.
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
    request = Request.of(
        event,
        epsilon=epsilon,
        delta=delta,
        tau=tau,
        method=method,
        neighboring_relation=neighboring_relation,
        name=release,
        path=path,
        proof=proof,
        progress=progress,
        record=record,
        description=description,
        budget=budget,
        ledger=ledger,
        **sampling,
    )
    return certify_claim(request, ledger=ledger, announce=announce)


def certify_claim(
    request: Request, *, ledger: Ledger | str | Path | None = None, announce: Announce | None = None
) -> Certificate:
    """As ``certify``, of a request."""
    with opened(request.place(ledger)) as one:
        return attempted(one, request, announce)[1]
