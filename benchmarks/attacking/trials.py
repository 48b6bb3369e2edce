"""What evr says of one case, and whether that may stand.

Five questions: the estimate of each direction against the truth; a claim that is false by 3 to 50%;
a claim that is true with room to spare; for some cases the strict bounds, from above and from below.
An answer may be good, a refusal in words, or too slow to tell; everything else is a failure.
"""

from __future__ import annotations

import contextlib
import linecache
import math
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import evr
from attacking import relations
from attacking.events import Case
from attacking.laws import Unreached
from attacking.truth import Truth, of_composition, truth
from attacking.tuned import SELECTIONS, lower_bound

GOOD, REFUSED, SLOW, UNKNOWN, WRONG, CRASHED = ("good", "refused", "too slow", "truth unknown", "WRONG", "CRASHED")
FAILURES = (WRONG, CRASHED)
QUESTIONS = ("estimate, remove", "estimate, add", "false claim", "true claim", "strict bound")
DIRECTIONS = ("remove", "add")
KNOWN = 1e-3  # relative error of a truth that claims can be tested with
STRICT_EVERY = 16  # the strict bound takes longer than the rest together
MOST_SAMPLES = 1_000_000
_EVR = str(Path(evr.__file__).parent)
_LEAST_CLAIM = 1e-280
_NOISE = 1e-17  # of the floats that an explicit score is computed in
_SEARCH = 10  # times the seconds, for a search
_MORE = 5  # times the seconds, where a bound is said to be below the truth
_ENCLOSED = "enclosure"  # how a truth was found that evr's own bounds prove


@dataclass(frozen=True)
class Limits:
    """Processor seconds for each question, and for the truth of each direction."""

    truth: float = 3.0
    answer: float = 3.0


@dataclass(frozen=True)
class Answer:
    """To one question: the outcome, what was said, and processor seconds."""

    outcome: str
    detail: str = ""
    seconds: float = 0.0
    measure: float | None = None
    """Of an estimate: its error over the stated one."""


class TooSlow(BaseException):
    """No ``Exception``, so that nothing on the way catches it."""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise ``TooSlow`` after so many processor seconds; only in the main thread."""

    def stop(*_: Any) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def attack(case: Case, limits: Limits) -> dict[str, Any]:
    """All questions about one case, as a record for JSON."""
    start = time.process_time()
    if case.at_least is not None:
        return _attack_bound(case, case.at_least, limits, start)
    if isinstance(case.event, SELECTIONS):
        return _searched(case, limits, start)
    truths = {direction: _truth(case, direction, limits) for direction in DIRECTIONS}
    answers = {f"estimate, {d}": _ask(lambda d=d: _estimate(case, d, truths[d]), limits.answer) for d in DIRECTIONS}
    delta, relative = _greater(truths)
    if delta is None:
        unknown = Answer(UNKNOWN)
        answers |= {"false claim": unknown, "true claim": unknown}
    else:
        answers["false claim"] = _ask(lambda: _false_claim(case, delta * (1 - relative)), limits.answer)
        answers["true claim"] = _ask(lambda: _true_claim(case, delta * (1 + relative)), limits.answer)
    if case.index % STRICT_EVERY == 0:
        answers["strict bound"] = Answer(UNKNOWN)
        delta, relative = _greater(_by_other_means(truths))
        if delta is not None:
            answers["strict bound"] = _ask(lambda: _strict(case, delta, relative), limits.answer)
    return _record(case, truths, answers, start)


def _record(case: Case, truths: dict[str, Truth | None], answers: dict[str, Answer], start: float) -> dict[str, Any]:
    return {
        "index": case.index,
        "kind": case.kind,
        "event": repr(case.event),
        "epsilon": case.epsilon,
        "truth": {d: None if t is None else asdict(t) for d, t in truths.items()},
        "answers": {question: asdict(answer) for question, answer in answers.items()},
        "seconds": time.process_time() - start,
    }


def _attack_bound(case: Case, at_least: float, limits: Limits, start: float) -> dict[str, Any]:
    """A case that is bounded from above: no bound and no accepted claim may be below a mechanism of its kind, and what
    is proved may be claimed.
    """
    seconds = _MORE * limits.answer
    answers = {
        "strict bound": _ask(lambda: _above(case, at_least), seconds),
        "false claim": _ask(lambda: _false_claim(case, at_least * (1 - 1e-9)), seconds),
        "true claim": _ask(lambda: _proved_claim(case), seconds),
    }
    return _record(case, dict.fromkeys(DIRECTIONS), answers, start)


def _above(case: Case, at_least: float) -> Answer:
    bound = evr.estimate_delta(case.event, case.epsilon, method="strict").value
    return Answer(GOOD if bound >= at_least * (1 - 1e-9) else WRONG, f"bound {bound!r}, delta is at least {at_least!r}")


def _proved_claim(case: Case) -> Answer:
    """What is estimated, and 2% more."""
    delta = min(1.0, 1.02 * evr.estimate_delta(case.event, case.epsilon).value)
    if 0 < delta < _LEAST_CLAIM:
        return Answer(UNKNOWN, "delta is too small to claim")
    found = evr.verify(case.event, epsilon=case.epsilon, delta=delta, method="strict")
    return Answer(GOOD if found.accepted else WRONG, _reason(found))


def _searched(case: Case, limits: Limits, start: float) -> dict[str, Any]:
    """The questions about a search, whose truth is a lower bound: nothing may be below it. A claim of little more than
    the estimate is to be accepted.
    """
    least = {d: lower_bound(case.event, case.epsilon, d) for d in DIRECTIONS}
    most, seconds = max(least.values()), _SEARCH * limits.answer

    def above(value: float, floor: float) -> Answer:
        said = f"{value!r}, an explicit score has {floor!r}"
        return Answer(GOOD if 0 <= value <= 1 and value >= floor * (1 - 1e-9) - _NOISE else WRONG, said)

    def claim(delta: float, accepted: bool) -> Answer:
        found = evr.verify(case.event, epsilon=case.epsilon, delta=delta)
        return Answer(GOOD if found.accepted is accepted else WRONG, f"claim {delta!r}: {_reason(found)}")

    def estimate(direction: str | None = None, **options: Any) -> float:
        return evr.estimate_delta(case.event, case.epsilon, direction=direction, **options).value

    answers = {f"estimate, {d}": _ask(lambda d=d: above(estimate(d), least[d]), seconds) for d in DIRECTIONS}
    answers["false claim"] = Answer(UNKNOWN, "delta is too small to claim less")
    if most > 1e3 * _NOISE:
        answers["false claim"] = _ask(lambda: claim((1 - case.false_by) * most, False), seconds)
    answers["true claim"] = _ask(lambda: claim(max(min(1.0, 1.05 * estimate()), 1e-30), True), seconds)
    answers["strict bound"] = _ask(lambda: above(estimate(method="strict"), most), seconds)
    return _record(case, dict.fromkeys(DIRECTIONS), answers, start)


def attack_strict(case: Case, limits: Limits, known: dict[str, dict[str, Any] | None] | None) -> dict[str, Any]:
    """The strict bound of one case against the truths of its record, as a record for JSON.

    ``known`` is None where there is no record. A truth that a bound is said to be below is computed
    once more, with more time.
    """
    start = time.process_time()
    delta, relative, answer = None, 0.0, Answer(UNKNOWN)
    if case.at_least is not None:
        at_least = case.at_least
        answer = _ask(lambda: _above(case, at_least), limits.answer)
    else:
        truths = {d: _truth(case, d, limits) for d in DIRECTIONS} if known is None else _read(known)
        delta, relative = _greater(_by_other_means(truths))
    if delta is not None:
        answer = _ask(lambda: _strict(case, delta, relative), limits.answer)
    if answer.outcome == WRONG and case.at_least is None:
        more = Limits(_MORE * limits.truth, limits.answer)
        delta, relative = _greater(_by_other_means({d: _truth(case, d, more) for d in DIRECTIONS}))
        answer = Answer(UNKNOWN, answer.detail)
        if delta is not None:
            answer = _ask(lambda: _strict(case, delta, relative), _MORE * limits.answer)
    return {
        "index": case.index,
        "kind": case.kind,
        "event": repr(case.event),
        "epsilon": case.epsilon,
        "relative": None if delta is None else relative,
        "answers": {"strict bound": asdict(answer)},
        "seconds": time.process_time() - start,
    }


def _read(known: dict[str, dict[str, Any] | None]) -> dict[str, Truth | None]:
    """Truths as ``attack`` writes them."""
    return {d: None if t is None else Truth(**t) for d, t in known.items()}


def _truth(case: Case, direction: str, limits: Limits) -> Truth | None:
    """By means that share nothing with evr; where they fail, by evr's proved bounds from both sides."""
    if isinstance(case.event, SELECTIONS):
        return None  # only lower bounds are known
    found = None
    with contextlib.suppress(Unreached, TooSlow, MemoryError), limited(3 * limits.truth + 2):
        if case.relation is None:
            found = truth(case.event, case.epsilon, direction, limits.truth)
            found = replace(found, value=min(found.value, 1.0))  # sums of floats may pass 1
        else:
            laws = relations.composition(case.event, case.relation, direction)
            found = of_composition(laws, case.epsilon, limits.truth)
    if found is None or found.relative > KNOWN:
        with contextlib.suppress(TooSlow, MemoryError, ValueError), limited(limits.answer):
            bounds = evr.enclose_delta(
                case.event, case.epsilon, direction=direction, neighboring_relation=case.relation
            )
            middle = (bounds.lower + bounds.upper) / 2
            return Truth(middle, bounds.upper - middle, _ENCLOSED)
    return found


def _by_other_means(truths: dict[str, Truth | None]) -> dict[str, Truth | None]:
    """Those that can judge a strict bound: not by one."""
    return {d: None if t is None or t.way == _ENCLOSED else t for d, t in truths.items()}


def _greater(truths: dict[str, Truth | None]) -> tuple[float | None, float]:
    """The greater delta of both directions and its relative error, where it is
    known well enough.
    """
    found = [t for t in truths.values() if t is not None]
    if len(found) < len(truths):
        return None, math.inf
    most = max(found, key=lambda t: t.value)
    least_known = max(t.value + t.error for t in found)
    doubt = max(most.error, least_known - most.value)
    relative = doubt / most.value if most.value > 0 else (math.inf if doubt else 0.0)
    return (most.value, relative) if relative <= KNOWN else (None, math.inf)


def _ask(question: Callable[[], Answer], seconds: float) -> Answer:
    """The answer, or what became of the question."""
    start = time.process_time()
    try:
        with limited(seconds), warnings.catch_warnings():
            warnings.simplefilter("error")
            found = question()
    except TooSlow:
        found = Answer(SLOW)
    except Exception as error:
        found = Answer(
            REFUSED if _is_refusal(error) else CRASHED, f"{type(error).__name__}: {error}"[:400] + _place(error)
        )
    return Answer(found.outcome, found.detail, time.process_time() - start, found.measure)


def _is_refusal(error: Exception) -> bool:
    """Whether evr itself raised it, on purpose: a ``ValueError`` from a line of evr that says
    ``raise``.
    """
    last = traceback.extract_tb(error.__traceback__)[-1]
    raised = linecache.getline(last.filename, last.lineno or 0).strip().startswith("raise")
    return isinstance(error, ValueError) and last.filename.startswith(_EVR) and raised


def _place(error: Exception) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(_EVR)]
    return f" [{Path(frames[-1].filename).relative_to(_EVR)}:{frames[-1].lineno}]" if frames else ""


def _estimate(case: Case, direction: str, known: Truth | None) -> Answer:
    found = evr.estimate_delta(case.event, case.epsilon, direction=direction, neighboring_relation=case.relation)
    stated = found.error if found.standard_error is None else 6 * found.standard_error  # wrong once in 1e9
    if not (0 <= found.value <= 1) or stated is None or not stated >= 0:
        return Answer(WRONG, f"estimate {found.value!r} with an error of {stated!r}")
    if known is None or known.relative > KNOWN:
        return Answer(UNKNOWN)
    away = abs(found.value - known.value)
    rounding = 4e-16 * known.value
    measure = away / stated if stated > 0 else (0.0 if away <= rounding else math.inf)
    said = f"estimate {found.value!r} ± {stated:.3g}, truth {known.value!r} ± {known.error:.3g} ({known.way})"
    return Answer(GOOD if away <= stated + known.error + rounding else WRONG, said, measure=measure)


def _false_claim(case: Case, delta: float) -> Answer:
    """``delta`` is at most the truth; what is claimed is less."""
    claimed = (1 - case.false_by) * delta
    if claimed * case.tau_false < _LEAST_CLAIM:
        return Answer(UNKNOWN, "delta is too small to claim less")
    seeds = [case.seed, *range(4)]
    for tried, seed in enumerate(seeds):
        found = _verified(case, claimed * case.tau_false, case.tau_false, seed)
        if tried == 0 and not found.accepted:
            return Answer(GOOD, _reason(found))
        if tried == 0:
            first, accepted, samples = found, 0, found.samples
        accepted += found.accepted
        if samples == 0:
            break
    said = (
        f"claim {claimed!r} (tau {case.tau_false}), truth {delta!r}: accepted ({_reason(first)}), "
        f"with {accepted} of {tried + 1} seeds"
    )
    within = first.false_positive_rate > 1e-4 and accepted == 1  # what the budget allows may happen
    return Answer(GOOD if within else WRONG, said)


def _true_claim(case: Case, delta: float) -> Answer:
    """``delta`` is at least the truth, and a claim of ``delta / tau`` has room to spare."""
    if delta < _LEAST_CLAIM:
        return Answer(UNKNOWN, "delta is too small to claim")
    found = _verified(case, min(delta, 1.0), case.tau_true, case.seed)
    if found.accepted:
        return Answer(GOOD, _reason(found))
    if "stopped at the limit" in _reason(found):
        return Answer(SLOW, _reason(found))
    return Answer(WRONG, f"claim of the truth {delta!r} at tau {case.tau_true} rejected: {_reason(found)}")


def _verified(case: Case, delta: float, tau: float, seed: int) -> Any:
    return evr.verify(
        case.event,
        epsilon=case.epsilon,
        delta=min(1.0, delta / tau),
        tau=tau,
        seed=seed,
        max_samples=MOST_SAMPLES,
        workers=1,
        neighboring_relation=case.relation,
    )


def _reason(found: Any) -> str:
    return "; ".join(f"{name}: {report.reason}, {report.samples} samples" for name, report in found.directions.items())


def _strict(case: Case, delta: float, relative: float) -> Answer:
    """``delta`` is the truth, but for a relative error: no bound is below it, and no lower one above."""
    bound = evr.estimate_delta(case.event, case.epsilon, method="strict", neighboring_relation=case.relation).value
    lower, most = 0.0, min(1.0, delta * (1 + relative + 1e-15))
    with contextlib.suppress(evr.errors.UnsupportedEventError):  # not every law has lower bounds
        lower = evr.refute(case.event, epsilon=case.epsilon, delta=most, neighboring_relation=case.relation).lower
    said = f"bounds {lower!r} and {bound!r}, truth {delta!r} ± {relative * delta:.3g}"
    return Answer(
        GOOD if lower <= most and bound >= delta * (1 - relative - 1e-15) else WRONG,
        said,
        measure=bound / delta - 1 if delta > 0 else None,
    )
