"""The gate: verify first, and run the mechanism only if its claim was verified (Algorithm 1 of the paper and its
variants).

Whatever the mechanism and however often one tries, what comes out is ``(epsilon, delta)``-DP: docs/guarantees.md,
Section 5. Verification never sees data.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Literal, ParamSpec, TypeVar

from evr.certification.certificate import Certificate
from evr.certification.ledger import Ledger, opened
from evr.errors import EvrError, NotReleasedError
from evr.gate.attempt import attempted
from evr.gate.request import Request

T = TypeVar("T")
P = ParamSpec("P")
_MISSING: Any = object()


@dataclass(frozen=True)
class Release(Generic[T]):
    """The outcome of a release.

    Attributes
    ----------
    released
        Whether anything did.
    certificate
        Of the attempt that decided.
    """

    released: bool
    certificate: Certificate
    _value: Any = field(default=_MISSING, repr=False)

    @property
    def value(self) -> T:
        """The mechanism's output; raises ``NotReleasedError`` if nothing was released."""
        if not self.released:
            raise not_released(self.certificate)
        value: T = self._value
        return value


def not_released(certificate: Certificate) -> NotReleasedError:
    """The error that says why there is no value."""
    claim = certificate.claim
    return NotReleasedError(
        f"nothing was released: ({claim.epsilon!r}, {claim.delta!r})-differential privacy could not be verified",
        certificate,
    )


@contextlib.contextmanager
def opened_gate(request: Request, ledger: Ledger | str | Path | None) -> Iterator[Certificate]:
    """Verify; where the claim was accepted, count the output: what runs inside may pass.

    Once it is counted it stays so, however the inside ends (docs/guarantees.md, Section 5.6). The ledger is closed
    meanwhile: what runs inside may take days, change the folder, or fork.
    """
    with opened(request.place(ledger)) as counting:
        address = counting.address
        counting.check()
        relation = request.subject.composition.relation
        counting.refuse_second_output(request.claim, name=request.name, relation=relation)
        attempt, certificate = attempted(counting, request, for_output=True)
        if certificate.accepted:
            counting.count_output(attempt)
    if not certificate.accepted:
        yield certificate
        return
    ending: Literal["released", "raised"] = "raised"
    try:
        yield certificate
        ending = "released"
    finally:
        with contextlib.suppress(EvrError), Ledger(address, create=False) as counting:
            counting.end_output(attempt, ending)


def release(
    mechanism: Callable[[], T],
    event: Any,
    *,
    epsilon: float,
    delta: float,
    ledger: Ledger | str | Path | None = None,
    **options: Any,
) -> Release[T]:
    """Run ``mechanism()`` only if what it costs has been verified; what is released is ``(epsilon, delta)``-DP.

    One output for each release: by default a release is all attempts in a ledger at the same ``(epsilon, delta)``,
    however many mechanisms they try. The output is counted before the mechanism starts, and the next is refused,
    however that run ends: what may have gone out counts as out, also where the mechanism raises (its exception goes on
    to the caller) or the process dies. To let out another, which costs privacy again, give it a ``name``. Where a claim
    is rejected, another mechanism may be tried at the same claim: that is the next attempt of the release (the paper's
    fallback; docs/guarantees.md, Section 5.4).

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
    options
        ``name`` of the release; ``method``, ``tau``, ``path``, ``budget``, ``neighboring_relation``, ``progress`` and
        the options of samples as of ``evr.certify``.

    Returns
    -------
    Release
        ``released``, ``value`` (which raises ``NotReleasedError`` where nothing was released) and the certificate.

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
    >>> good.released, good.value
    (True, 'noisy answer')
    >>> bad.released
    False
    """
    _check_mechanism(mechanism)
    request = Request.of(event, epsilon=epsilon, delta=delta, ledger=ledger, refuses=False, **options)
    with opened_gate(request, ledger) as certificate:
        if not certificate.accepted:
            return Release(False, certificate)
        value = mechanism()
    return Release(True, certificate, value)


def _check_mechanism(mechanism: Any) -> None:
    """Refuse what does not run when it is called."""
    if not callable(mechanism):
        raise TypeError(f"mechanism={mechanism!r} is not callable: give a function without arguments")
    if any(
        late(mechanism)
        for late in (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    ):
        raise TypeError(
            f"mechanism={mechanism!r} is a generator or a coroutine: it would run after "
            "the gate has closed; give a function that returns its result"
        )


class released:
    """``release`` for scripts: a decorator, or a context manager whose body runs only if the claim was verified.

    Arguments as of ``release``, without the mechanism. A decorated function returns a ``Release``. The context manager
    raises ``NotReleasedError`` before its body if the claim is rejected; it yields the certificate. The body is the one
    output of its release, also
    if it raises.

    Examples
    --------
    >>> import evr, tempfile
    >>> from dp_accounting import dp_event
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = f"{folder.name}/ledger.sqlite"
    >>> @released(dp_event.GaussianDpEvent(4.0), epsilon=1.0, delta=1e-5, ledger=ledger)
    ... def answer(question):
    ...     return f"noisy answer to {question}"
    >>> answer("it all").value
    'noisy answer to it all'
    >>> event = dp_event.GaussianDpEvent(4.0)
    >>> with released(event, epsilon=1.0, delta=2e-5, ledger=ledger) as certificate:
    ...     print(certificate.verdict)
    accepted
    >>> folder.cleanup()
    """

    def __init__(self, event: Any, **options: Any) -> None:
        self._event, self._options = event, options
        self._open: contextlib.AbstractContextManager[Any] | None = None

    def __call__(self, mechanism: Callable[P, T]) -> Callable[P, Release[T]]:
        _check_mechanism(mechanism)

        @functools.wraps(mechanism)
        def gated(*args: P.args, **kwargs: P.kwargs) -> Release[T]:
            return release(lambda: mechanism(*args, **kwargs), self._event, **self._options)

        return gated

    def __enter__(self) -> Certificate:
        options = dict(self._options)
        ledger = options.pop("ledger", None)
        manager = opened_gate(Request.of(self._event, ledger=ledger, refuses=False, **options), ledger)
        certificate = manager.__enter__()
        if not certificate.accepted:
            manager.__exit__(None, None, None)
            raise not_released(certificate)
        self._open = manager
        return certificate

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        assert self._open is not None
        return self._open.__exit__(kind, error, trace)
