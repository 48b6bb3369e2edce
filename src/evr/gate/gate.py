"""The gate: verify first, and run the mechanism only if its claim was verified (Algorithm 1 of the
paper and its variants).

Whatever the mechanism and however often one tries, what comes out is ``(epsilon, delta / tau)``-DP:
docs/guarantees.md, Section 5. Verification never sees data.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Literal, ParamSpec, TypeVar

from dp_accounting import NeighboringRelation, dp_event

from evr import validate
from evr.certification.certificate import Certificate
from evr.certification.ledger import Ledger
from evr.certification.rows import Attempt
from evr.errors import EvrError, NotReleasedError
from evr.gate.attempt import checked_event, foresee, opened, perform, start
from evr.mechanisms import Composition
from evr.mechanisms.relations import Relation
from evr.proving.showing import check_progress
from evr.proving.without_samples import proved_delta
from evr.randomness import seed_of
from evr.verification import Claim
from evr.verification.driver import ProgressHook
from evr.verification.settings import Settings

T = TypeVar("T")
P = ParamSpec("P")
Source = Literal["mechanism", "fallback"]
_MISSING: Any = object()


@dataclass(frozen=True)
class Release(Generic[T]):
    """What came through the gate.

    Attributes
    ----------
    released
        Whether anything did.
    source
        ``"mechanism"``, ``"fallback"``, or None if nothing ran.
    certificates
        One for each attempt that was made; the last one decided.
    """

    released: bool
    source: Source | None
    certificates: tuple[Certificate, ...]
    _value: Any = field(default=_MISSING, repr=False)

    @property
    def certificate(self) -> Certificate:
        """Of the attempt that decided."""
        return self.certificates[-1]

    @property
    def value(self) -> T:
        """What the mechanism returned; raises ``NotReleasedError`` if nothing was released."""
        if not self.released:
            raise not_released(self.certificate)
        value: T = self._value
        return value


def not_released(certificate: Certificate) -> NotReleasedError:
    """The error that says why there is no value."""
    claim = certificate.claim
    return NotReleasedError(
        f"nothing was released: ({claim.epsilon!r}, {claim.delta!r})-differential privacy could "
        "not be verified",
        certificate,
    )


@dataclass(frozen=True)
class Gate:
    """What has to be verified before anything may pass."""

    event: Any
    relation: NeighboringRelation
    claim: Claim
    ledger: Ledger | str | Path | None
    fallback_event: Any
    instances: int
    name: str | None
    floor: float | None
    seed: int | None
    workers: int | None
    executor: Executor | None
    progress: ProgressHook | None
    path: Path | None
    settings: Settings

    @contextlib.contextmanager
    def open(self) -> Iterator[tuple[Source | None, tuple[Certificate, ...]]]:
        """Verify, count the output, and say what may run inside.

        Once it is counted it stays so, however the inside ends (docs/guarantees.md, Section 5.6).
        The ledger is closed meanwhile: what runs inside may take days, change the folder, or fork.
        """
        with opened(self.ledger) as ledger:
            path = ledger.path.absolute()
            certificates, attempt = self._verified(ledger)
            source: Source | None = "mechanism" if certificates[-1].accepted else None
            if source is None and certificates[-1].fallback is not None:
                source = "fallback"
            if source is not None:
                ledger.count_output(attempt, fallback=source == "fallback")
        if source is None:
            yield None, certificates
            return
        ending: Literal["released", "raised"] = "raised"
        try:
            yield source, certificates
            ending = "released"
        finally:
            with contextlib.suppress(EvrError), Ledger(path, create=False) as ledger:
                ledger.end_output(attempt, ending)

    def _verified(self, ledger: Ledger) -> tuple[tuple[Certificate, ...], Attempt]:
        """The certificates of all instances that it took, and the attempt that decided."""
        ledger.check()
        ledger.refuse_second_output(
            self.claim, name=self.name, floor=self.floor, relation=self.relation
        )
        fallback = self._fallback(ledger)
        certificates: list[Certificate] = []
        for instance in range(self.instances):
            ahead = foresee(
                ledger,
                self.event,
                self.claim,
                self.settings,
                relation=self.relation,
                name=self.name,
                floor=self.floor,
                workers=self.workers,
                executor=self.executor,
            )
            attempt = self._attempt(ledger, instance)
            certificates.append(
                perform(
                    ledger,
                    attempt,
                    workers=self.workers,
                    executor=self.executor,
                    progress=self.progress,
                    fallback=fallback,
                    ahead=ahead,
                )
            )
            if certificates[-1].accepted:
                break
        return tuple(certificates), attempt

    def _attempt(self, ledger: Ledger, instance: int) -> Attempt:
        return start(
            ledger,
            self.event,
            self.claim,
            self.settings,
            relation=self.relation,
            name=self.name,
            floor=self.floor,
            seed=None if self.seed is None else self.seed + instance,
            path=self.path,
            workers=self.workers,
            executor=self.executor,
            for_output=True,
        )

    def _fallback(self, ledger: Ledger) -> dict[str, Any] | None:
        """The fallback for the certificate, once it is proved to be private enough."""
        if self.fallback_event is None:
            return None
        document = checked_event(self.fallback_event, self.relation)
        terms = ledger.terms(self.claim, name=self.name, floor=self.floor, relation=self.relation)
        threshold = (1.0 - terms.kappa) * self.claim.value
        composition = Composition.of(self.fallback_event, self.relation)
        bounds = proved_delta(composition, self.claim.epsilon)
        direction, worst = max(bounds.items(), key=lambda item: item[1])
        if worst > threshold:
            raise ValueError(
                f"the fallback is not provably ({self.claim.epsilon!r}, {threshold!r})-DP: the "
                f"proved bound on its delta is {worst!r} (direction {direction!r}); give it more "
                "noise"
            )
        return {"event": document, "bounds": bounds}


def make_gate(
    event: Any,
    *,
    epsilon: float,
    delta: float,
    tau: float = 0.99,
    ledger: Ledger | str | Path | None = None,
    fallback_event: Any = None,
    instances: int = 1,
    name: str | None = None,
    floor: float | None = None,
    seed: int | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    progress: ProgressHook | None = None,
    path: str | Path | None = None,
    neighboring_relation: Relation | None = None,
    **settings: Any,
) -> Gate:
    """Check everything that can be checked before anything runs."""
    for refused, why in (
        ("direction", "a guarantee needs both"),
        ("attempt", "the ledger counts attempts"),
    ):
        if refused in settings:
            raise TypeError(f"{refused}={settings[refused]!r} cannot be given here: {why}")
    relation = _one_relation(event, fallback_event, neighboring_relation)
    checked_event(event, relation)
    check_progress(progress)
    return Gate(
        event=event,
        relation=relation,
        claim=Claim(epsilon, delta, tau),
        ledger=ledger,
        fallback_event=fallback_event,
        instances=validate.positive_integer(instances=instances),
        name=name,
        floor=floor,
        seed=seed_of(seed),
        workers=workers,
        executor=executor,
        progress=progress,
        path=None if path is None else validate.path(path=path).absolute(),
        settings=Settings.of(settings),
    )


def _one_relation(
    event: Any, fallback_event: Any, relation: Relation | None
) -> NeighboringRelation:
    """The relation asked for, or the one under which both the event and the fallback are."""
    events = [event] if fallback_event is None else [event, fallback_event]
    if relation is None and all(isinstance(one, dp_event.DpEvent) for one in events):
        return Composition.of(dp_event.ComposedDpEvent(events)).relation
    return Composition.of(event, relation).relation


def release(
    mechanism: Callable[[], T],
    event: Any,
    *,
    epsilon: float,
    delta: float,
    tau: float = 0.99,
    ledger: Ledger | str | Path | None = None,
    fallback: tuple[Callable[[], T], Any] | None = None,
    instances: int = 1,
    **options: Any,
) -> Release[T]:
    """Run ``mechanism()`` only if what it costs has been verified; what is released is ``(epsilon,
    delta / tau)``-DP.

    One output for each release: by default a release is all attempts in a ledger at the same
    ``(epsilon, delta / tau)``, however many mechanisms they try. The output is counted before the
    mechanism starts, and the next is refused, however that run ends: what may have gone out counts
    as out, also where the mechanism raises (its exception goes on to the caller) or the process
    dies. To let out another, which costs privacy again, give it a ``name``.

    Parameters
    ----------
    mechanism
        A function without arguments. It should return its result and write nothing: what it writes
        by itself is out.
    event
        The ``DpEvent`` tree of what it does.
    epsilon, delta, tau
        The estimate and its slack, as of ``evr.verify``.
    ledger
        A path or a ``Ledger``; ``.evr/ledger.sqlite`` in the working directory by default.
    fallback
        ``(mechanism2, event2)`` to run if the claim is rejected. It must be provably ``(epsilon, (1
        - kappa) delta / tau)``-DP, which is checked by a proved bound before anything runs;
        otherwise ``ValueError``.
    instances
        Verify up to so many times and run if one accepts; each counts as an attempt. With 2 a false
        rejection is as rare as its square.
    options
        ``name`` and ``floor`` of a named release; ``path`` of the certificate;
        ``neighboring_relation``, ``seed``, ``workers``, ``executor``, ``progress``, ``method``,
        ``proposal``, ``max_samples``, ``offset`` as of ``evr.verify``.

    Returns
    -------
    Release
        ``released``, ``value`` (which raises ``NotReleasedError`` where nothing was released) and
        the certificates.

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
    >>> delta = evr.estimate_delta(event, epsilon=1.0).value
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = f"{folder}/ledger.sqlite"
    ...     good = evr.release(lambda: "noisy answer", event, epsilon=1.0, delta=delta, tau=0.9,
    ...                        ledger=ledger)
    ...     bad = evr.release(lambda: "never runs", event, epsilon=1.0, delta=delta / 2, tau=0.9,
    ...                       ledger=ledger)
    >>> good.released, good.value
    (True, 'noisy answer')
    >>> bad.released
    False
    """
    _check_mechanism(mechanism)
    second: Callable[[], T] | None = None
    if fallback is not None:
        try:
            second, fallback_event = fallback
        except (TypeError, ValueError):
            raise TypeError(f"fallback={fallback!r} is not a pair (mechanism, event)") from None
        if not callable(second) or fallback_event is None:
            raise TypeError(f"fallback={fallback!r} is not a pair (mechanism, event)")
        _check_mechanism(second)
        options["fallback_event"] = fallback_event
    gate = make_gate(
        event, epsilon=epsilon, delta=delta, tau=tau, ledger=ledger, instances=instances, **options
    )
    with gate.open() as (source, certificates):
        if source is None:
            return Release(False, None, certificates)
        value = mechanism() if source == "mechanism" or second is None else second()
    return Release(True, source, certificates, value)


def _check_mechanism(mechanism: Any) -> None:
    """Refuse what does not run when it is called."""
    if not callable(mechanism):
        raise TypeError(
            f"mechanism={mechanism!r} is not callable: give a function without arguments"
        )
    if any(
        late(mechanism)
        for late in (
            inspect.isgeneratorfunction,
            inspect.iscoroutinefunction,
            inspect.isasyncgenfunction,
        )
    ):
        raise TypeError(
            f"mechanism={mechanism!r} is a generator or a coroutine: it would run behind nobody's "
            "gate, after the call; give a function that returns its result"
        )


class released:
    """``release`` for scripts: a decorator, or a context manager whose body runs only if the claim
    was verified.

    Arguments as of ``release``, without the mechanism. A decorated function returns a ``Release``.
    The context manager raises ``NotReleasedError`` before its body if the claim is rejected; it
    yields the certificate, and takes no fallback. The body is the one output of its release, also
    if it raises.

    Examples
    --------
    >>> import evr, tempfile
    >>> from dp_accounting import dp_event
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = f"{folder.name}/ledger.sqlite"
    >>> @evr.released(dp_event.GaussianDpEvent(4.0), epsilon=1.0, delta=1e-5, ledger=ledger)
    ... def answer(question):
    ...     return f"noisy answer to {question}"
    >>> answer("it all").value
    'noisy answer to it all'
    >>> event = dp_event.GaussianDpEvent(4.0)
    >>> with evr.released(event, epsilon=1.0, delta=2e-5, ledger=ledger) as certificate:
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
        if "fallback" in self._options:
            raise TypeError(
                "a context manager takes no fallback: use evr.release, or the decorator"
            )
        manager = make_gate(self._event, **self._options).open()
        source, certificates = manager.__enter__()
        certificate: Certificate = certificates[-1]
        if source is None:
            manager.__exit__(None, None, None)
            raise not_released(certificate)
        self._open = manager
        return certificate

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        assert self._open is not None
        return self._open.__exit__(kind, error, trace)
