"""One question, several accountants in one table: evr's ``fft`` and ``strict``; dp_accounting's ``pld`` and ``rdp``;
and ``prv``, prv-accountant (Gopi, Lee and Wutschitz 2021), which knows Gaussian mechanisms, Poisson sampled or not, in
the remove direction.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from dp_accounting import NeighboringRelation

from evr._accounting.api import estimate_delta, estimate_epsilon
from evr._basics import validate
from evr._estimate.rdp import rdp_bound
from evr._estimate.results import Estimate, UpperBound
from evr._kernel.events import Composition
from evr._kernel.events.relations import ADD_OR_REMOVE, REPLACE_ONE, Relation, name_of
from evr._kernel.pairs import Direction
from evr._kernel.pairs.line.gaussian import GaussianPair
from evr._kernel.pairs.line.poisson import SampledPair

Kind = Literal["estimate", "upper bound", "lower bound"]

WRONG = "claims to be a bound and is not"
_SIGNS: dict[Kind, float] = {"lower bound": 1.0, "estimate": 0.0, "upper bound": -1.0}
_ROUNDING = 1e-9  # relative: a bound that misses by no more has only rounded


@dataclass(frozen=True)
class Answer:
    """One accountant's number and its claim; the note says why there is none, or that a bound does not hold."""

    accountant: str
    kind: Kind
    value: float | None
    seconds: float  # of all kinds of this accountant
    note: str = ""


class _Question(NamedTuple):
    event: Any
    relation: NeighboringRelation
    wanted: Literal["delta", "epsilon"]
    at: float

    def ours(self, method: str) -> Estimate | UpperBound:
        ask = estimate_delta if self.wanted == "delta" else estimate_epsilon
        return ask(self.event, self.at, method=method, neighboring_relation=self.relation)


def compare(
    event: Any,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    neighboring_relation: Relation | None = None,
) -> list[Answer]:
    """Delta at ``epsilon``, or epsilon at ``delta`` (give one), by every accountant. An accountant that is missing,
    fails or does not know the event says so in its note. Not for several threads at a time: meanwhile no thread's
    warnings are shown, for some are of other libraries about their own numerics.

    Examples
    --------
    >>> from evr._dpsgd import dpsgd
    >>> event = dpsgd(noise_multiplier=2.0, sampling_probability=0.01, steps=100)
    >>> [(answer.accountant, answer.kind) for answer in compare(event, epsilon=0.2)][:4]
    [('fft', 'estimate'), ('strict', 'upper bound'), ('pld', 'upper bound'), ('rdp', 'upper bound')]
    """
    if (epsilon is None) == (delta is None):
        raise ValueError(f"epsilon={epsilon!r} and delta={delta!r}: give exactly one of them")
    relation = Composition.of(event, neighboring_relation).relation
    if epsilon is not None:
        asked = _Question(event, relation, "delta", validate.non_negative(epsilon=epsilon))
    else:
        asked = _Question(event, relation, "epsilon", validate.probability(delta=delta))
    ours = asked.ours("fft")
    slack = max(ours.doubt or 0.0, _ROUNDING * ours.value)
    found = [Answer("fft", "estimate", ours.value, ours.seconds)]
    for name, accountant in _OTHERS.items():
        start = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answers = accountant(asked)
        except Exception as error:  # other people's failures are not ours
            remedy = ": pip install 'evr-dp[compare]'" if isinstance(error, ImportError) else ""
            found.append(Answer(name, "estimate", None, 0.0, f"{type(error).__name__}: {error}{remedy}"))
            continue
        seconds = time.perf_counter() - start
        for kind, value in answers.items():
            if math.isnan(value):
                found.append(Answer(name, kind, None, seconds, "it is not a number"))
                continue
            # a bound that lies on the wrong side of evr's estimate by more than errors explain
            is_wrong = _SIGNS[kind] * (value - ours.value) > slack
            found.append(Answer(name, kind, value, seconds, WRONG if is_wrong else ""))
    return found


def _pld(asked: _Question) -> dict[Kind, float]:
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant(asked.relation).compose(asked.event)
    return {"upper bound": float(getattr(accountant, f"get_{asked.wanted}")(asked.at))}


def _rdp(asked: _Question) -> dict[Kind, float]:
    if asked.relation is REPLACE_ONE:
        raise ValueError("its noise multiplier is noise over the change by replacing a record: another question")
    return {"upper bound": rdp_bound(asked.event, asked.wanted, asked.at, asked.relation)}


def _prv(asked: _Question) -> dict[Kind, float]:
    import prv_accountant as prv

    if asked.relation is not ADD_OR_REMOVE:
        raise ValueError(f"it knows add-or-remove adjacency, not {name_of(asked.relation)}")
    variables, counts = [], []
    for step in Composition.of(asked.event, asked.relation).steps(Direction.REMOVE):
        pair = step.pair
        if isinstance(pair, GaussianPair):
            variables.append(prv.GaussianMechanism(1 / pair.mu))
        elif isinstance(pair, SampledPair) and isinstance(pair.base, GaussianPair):
            variables.append(prv.PoissonSubsampledGaussianMechanism(pair.q, 1 / pair.base.mu))
        else:
            raise ValueError(f"it knows Gaussian mechanisms only; found {pair.describe()}")
        counts.append(step.count)
    accountant = prv.PRVAccountant(prvs=variables, max_self_compositions=counts, eps_error=0.01, delta_error=1e-10)
    compute = getattr(accountant, f"compute_{asked.wanted}")
    kinds: tuple[Kind, ...] = ("lower bound", "estimate", "upper bound")
    return dict(zip(kinds, map(float, compute(asked.at, counts)), strict=True))


_OTHERS: dict[str, Callable[[_Question], dict[Kind, float]]] = {
    "strict": lambda asked: {"upper bound": asked.ours("strict").value},
    "pld": _pld,
    "rdp": _rdp,
    "prv": _prv,
}
