"""Other people's accountants behind one small interface, for ``evr compare``, the benchmarks and
``paper/``.

- ``prv``: prv-accountant (Gopi, Lee and Wutschitz 2021), lower bound, estimate and upper bound;
  Gaussian mechanisms, Poisson sampled or not. It accounts for the remove direction only.
- ``pld``: dp_accounting's privacy loss distributions, connect-the-dots (pessimistic), and privacy
  buckets rounded down (optimistic) for Gaussian mechanisms.
- ``rdp``: dp_accounting's RDP accountant.
- ``afa``: autodp's analytical Fourier accountant (Zhu, Dong and Wang 2022), which needs SciPy older
  than 1.14.

``kind`` is what the peer claims of its number, not what we found. A peer that is not installed, or
cannot account for the event, yields a ``PeerUnavailable`` with the reason. Nothing is imported
before it is asked for.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from dp_accounting import NeighboringRelation, dp_event, privacy_accountant

from evr import validate
from evr.errors import UnsupportedEventError
from evr.estimation.rdp import rdp_delta, rdp_epsilon
from evr.laws import Direction
from evr.laws.line.gaussian import GaussianPair
from evr.laws.line.poisson import SampledPair
from evr.mechanisms import Composition
from evr.mechanisms.relations import ADD_OR_REMOVE, REPLACE_ONE, Relation, name_of

_PACKAGES = {
    "prv": "prv_accountant",
    "pld": "dp_accounting.pld",
    "rdp": "dp_accounting.rdp",
    "afa": "autodp",
}

Kind = Literal["estimate", "upper bound", "lower bound"]

_AFA_HINT = " with SciPy older than 1.14 (autodp uses its integrate.quadrature)"

PLD_INTERVAL = 1e-4
"""Width of dp_accounting's grid: its own default."""


@dataclass(frozen=True)
class PeerResult:
    """A peer's number: epsilon where delta was asked at, delta where epsilon was. ``seconds`` is
    for all its kinds.
    """

    peer: str
    kind: Kind
    value: float
    seconds: float


@dataclass(frozen=True)
class PeerUnavailable:
    """Why a peer has no number."""

    peer: str
    reason: str


class _NoAnswer(Exception):
    """Carries the reason of a ``PeerUnavailable``."""


@dataclass(frozen=True)
class _Gaussian:
    """``count`` steps of a Gaussian mechanism, sampled with ``probability`` (1: not sampled)."""

    noise: float
    probability: float
    count: int


Target = tuple[Literal["epsilon", "delta"], float]
Answers = list[tuple[Kind, float]]


@dataclass(frozen=True)
class _Question:
    """What peers are asked about: an event, and which data sets are neighbours."""

    event: dp_event.DpEvent
    relation: NeighboringRelation


def _gaussians(asked: _Question) -> list[_Gaussian]:
    """The event as (sampled) Gaussian mechanisms, or the reason why it is not."""
    if asked.relation is not ADD_OR_REMOVE:
        raise _NoAnswer(
            f"it knows add-or-remove adjacency only; asked about {name_of(asked.relation)}"
        )
    found = []
    for step in Composition.of(asked.event, asked.relation).steps(Direction.REMOVE):
        pair = step.pair
        if isinstance(pair, GaussianPair):
            found.append(_Gaussian(1 / pair.mu, 1.0, step.count))
        elif isinstance(pair, SampledPair) and isinstance(pair.base, GaussianPair):
            found.append(_Gaussian(1 / pair.base.mu, pair.q, step.count))
        else:
            raise _NoAnswer(
                f"only Gaussian mechanisms, Poisson sampled or not; found {pair.describe()}"
            )
    if not found:
        raise _NoAnswer("the event has no mechanism")
    return found


def _prv(asked: _Question, target: Target, eps_error: float, delta_error: float) -> Answers:
    import prv_accountant as prv

    steps = _gaussians(asked)
    variables = [
        prv.GaussianMechanism(s.noise)
        if s.probability == 1
        else prv.PoissonSubsampledGaussianMechanism(
            noise_multiplier=s.noise, sampling_probability=s.probability
        )
        for s in steps
    ]
    counts = [s.count for s in steps]
    accountant = prv.PRVAccountant(
        prvs=variables, max_self_compositions=counts, eps_error=eps_error, delta_error=delta_error
    )
    name, value = target
    compute = accountant.compute_delta if name == "epsilon" else accountant.compute_epsilon
    lower, estimate, upper = compute(value, counts)
    return [
        ("lower bound", float(lower)),
        ("estimate", float(estimate)),
        ("upper bound", float(upper)),
    ]


def _pld_upper(asked: _Question, target: Target) -> Answers:
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant(asked.relation, PLD_INTERVAL).compose(asked.event)
    name, value = target
    answer = accountant.get_delta(value) if name == "epsilon" else accountant.get_epsilon(value)
    return [("upper bound", float(answer))]


def _pld_lower(asked: _Question, target: Target) -> Answers:
    from dp_accounting.pld import privacy_loss_distribution as pld

    total: Any = None
    for s in _gaussians(asked):
        one = pld.from_gaussian_mechanism(
            s.noise,
            pessimistic_estimate=False,
            value_discretization_interval=PLD_INTERVAL,
            sampling_prob=s.probability,
            use_connect_dots=False,
        ).self_compose(s.count)
        total = one if total is None else total.compose(one)
    name, value = target
    answer = (
        total.get_delta_for_epsilon(value)
        if name == "epsilon"
        else total.get_epsilon_for_delta(value)
    )
    return [("lower bound", float(answer))]


def _rdp(asked: _Question, target: Target) -> Answers:
    name, value = target
    if asked.relation is REPLACE_ONE:
        raise _NoAnswer(
            "its noise multiplier is noise over the change by replacing a record, not over the "
            "norm of one record: another question"
        )
    function = rdp_delta if name == "epsilon" else rdp_epsilon
    return [("upper bound", function(asked.event, value, asked.relation))]


def _afa(asked: _Question, target: Target) -> Answers:
    import scipy

    if not hasattr(scipy.integrate, "quadrature"):
        raise _NoAnswer(f"found SciPy {scipy.__version__}: run autodp{_AFA_HINT}")
    from autodp import mechanism_zoo, transformer_zoo

    steps = _gaussians(asked)
    answers = []
    for neighboring in ("remove_only", "add_only"):
        mechanisms = []
        for s in steps:
            base = mechanism_zoo.ExactGaussianMechanism(s.noise)
            sampling = transformer_zoo.AmplificationBySampling_pld(neighboring=neighboring)
            mechanisms.append(sampling(base, s.probability) if s.probability < 1 else base)
        total = transformer_zoo.ComposeAFA()(mechanisms, [s.count for s in steps])
        with contextlib.redirect_stdout(io.StringIO()):  # it prints its searches
            answers.append(_afa_answer(total, asked.event, target))
    return [("estimate", max(answers))]


def _afa_answer(total: Any, event: dp_event.DpEvent, target: Target) -> float:
    """Its delta; for epsilon a root search of ours to 1e-4, as its own takes seconds for each of a
    hundred values.
    """
    name, value = target
    if name == "epsilon":
        return float(total.get_approx_delta(value))
    from scipy.optimize import brentq

    most = rdp_epsilon(event, value)
    if total.get_approx_delta(0.0) <= value:
        return 0.0
    return float(
        brentq(lambda epsilon: total.get_approx_delta(epsilon) - value, 0.0, most, xtol=1e-4 * most)
    )


def compare(
    event: dp_event.DpEvent,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    peers: tuple[str, ...] = ("prv", "pld", "rdp", "afa"),
    eps_error: float = 1e-3,
    delta_error: float = 1e-10,
    neighboring_relation: Relation | None = None,
) -> list[PeerResult | PeerUnavailable]:
    """Ask each peer for delta at ``epsilon`` or for epsilon at ``delta``; give exactly one.

    ``neighboring_relation`` is as of ``evr.estimate_delta``; peers that know another one only say
    so. ``eps_error`` and ``delta_error`` are prv-accountant's (the values of Wang et al. 2023,
    Figure 1).

    Examples
    --------
    >>> from evr.events import dpsgd
    >>> event = dpsgd(noise_multiplier=2.0, sampling_probability=0.01, steps=100)
    >>> [(r.peer, r.kind) for r in compare(event, epsilon=0.2, peers=("rdp",))]
    [('rdp', 'upper bound')]
    """
    if (epsilon is None) == (delta is None):
        raise ValueError(f"epsilon={epsilon!r} and delta={delta!r}: give exactly one of them")
    target: Target = (
        ("epsilon", validate.non_negative(epsilon=epsilon))
        if epsilon is not None
        else ("delta", validate.open_probability(delta=delta))
    )
    asked = _Question(event, Composition.of(event, neighboring_relation).relation)
    adapters: dict[str, list[Callable[[], Answers]]] = {
        "prv": [lambda: _prv(asked, target, eps_error, delta_error)],
        "pld": [lambda: _pld_upper(asked, target), lambda: _pld_lower(asked, target)],
        "rdp": [lambda: _rdp(asked, target)],
        "afa": [lambda: _afa(asked, target)],
    }
    for peer in peers:
        validate.one_of(tuple(adapters), peer=peer)
    return [
        result for peer in peers for adapter in adapters[peer] for result in _asked(peer, adapter)
    ]


def _asked(peer: str, adapter: Callable[[], Answers]) -> Iterator[PeerResult | PeerUnavailable]:
    """Run one adapter. A peer's own failure, whatever it is, is a reason and no exception: it is
    not our code.
    """
    start = math.nan
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # peers warn about their own numerics; their values are judged by us
            importlib.import_module(_PACKAGES[peer])  # not part of the time
            start = time.perf_counter()
            answers = adapter()
    except ImportError as error:
        yield PeerUnavailable(
            peer, f"{error}: pip install 'evr-dp[compare]'" + (_AFA_HINT if peer == "afa" else "")
        )
    except (_NoAnswer, UnsupportedEventError, privacy_accountant.UnsupportedEventError) as error:
        yield PeerUnavailable(peer, str(error))
    except Exception as error:
        yield PeerUnavailable(peer, f"it failed with {type(error).__name__}: {error}")
    else:
        seconds = time.perf_counter() - start
        for kind, value in answers:
            if math.isnan(value):
                yield PeerUnavailable(peer, f"its {kind} is not a number")
            else:
                yield PeerResult(peer, kind, value, seconds)
