"""Audits in one run: what canaries that took part by fair coins say of a privacy curve (docs/guarantees_audit.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from dp_accounting.dp_event import DpEvent
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from evr import validate
from evr.bounds.strict.tradeoff import Tradeoff
from evr.estimation import estimate_epsilon, privacy_curve
from evr.laws import Floats
from evr.mechanisms.relations import Relation
from evr.proving.one_run import Count, Curve, Independent, gaussian, hull, pair
from evr.proving.risk import Risk, risk

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEWEST_CANARIES = 10
CONSISTENT, CONTRADICTS = "consistent", "contradicts the certificate"

_BISECTIONS = 60
_SPACING = 0.1  # of the epsilons by which a curve of the family is known
_MOST_NOISE = 64.0  # times that of the event: the weakest of the family
_CLOSE = 1e-3  # in the noise, relatively, or in epsilon
_SHARES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5)  # of canaries guessed in, and out


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Attributes
    ----------
    verdict
        ``"consistent"`` or ``"contradicts the certificate"``: the p-value is at most
        ``1 - confidence``.
    p_value
        At most how probable so many right guesses are if the claimed curve is true.
    epsilon, delta, confidence
        With this confidence, epsilon at delta is at least ``epsilon``, for mechanisms of ``family``.
    family
        ``"noise"``: the event with another noise multiplier; ``"gaussian"``.
    epsilon_of_any
        The bound that assumes no family, which is weaker.
    claimed
        Epsilon at delta of the claimed curve, about; None if no curve was claimed.
    guesses, correct, canaries
        How many canaries were guessed, how many of these rightly, and how many there are.
    """

    verdict: str
    p_value: float | None
    epsilon: float
    delta: float
    confidence: float
    family: str
    epsilon_of_any: float
    claimed: float | None
    guesses: int
    correct: int
    canaries: int

    def __bool__(self) -> bool:
        raise TypeError("an Audit has no truth value: use .verdict")

    @property
    def sentence(self) -> str:
        """What was found, in words."""
        whom = {"noise": "for this mechanism with any noise multiplier", "gaussian": "for Gaussian mechanisms"}[
            self.family
        ]
        words = (
            f"{self.correct:,} of {self.guesses:,} guesses were right, of {self.canaries:,} "
            "canaries. "
            f"Epsilon at delta = {self.delta:g} is at least {self.epsilon:.3g} with confidence "
            f"{self.confidence:g}, {whom}."
        )
        if self.p_value is None or self.claimed is None:
            return words
        return (
            f"{words} The audit is {self.verdict} (epsilon {self.claimed:.3g}): "
            if self.verdict == CONSISTENT
            else f"{words} The audit {self.verdict} (epsilon {self.claimed:.3g}): "
        ) + f"p-value {self.p_value:.3g}."

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the bounds on a line of epsilons, beside what was claimed."""
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.figure(figsize=(6.4, 2.2), layout="constrained").add_subplot()
        ends = [self.epsilon, self.epsilon_of_any, self.claimed or 0.0]
        ax.barh(
            ["any mechanism", "this family"],
            [self.epsilon_of_any, self.epsilon],
            color=["#9db4d0", "#3b6ea5"],
            height=0.5,
        )
        if self.claimed is not None:
            ax.axvline(self.claimed, color="#b03a2e", linestyle="--", label="claimed")
            ax.legend(loc="lower right")
        ax.set(
            xlabel=f"epsilon at delta = {self.delta:g}: lower bounds of the audit", xlim=(0.0, 1.1 * max([*ends, 1e-3]))
        )
        return ax


def audit(
    scores: Iterable[float],
    included: Iterable[bool],
    event: Any = None,
    *,
    delta: float = 1e-5,
    confidence: float = 0.95,
    independent: bool = False,
    guesses: tuple[int, int] | None = None,
    neighboring_relation: Relation | None = None,
) -> Audit:
    """Test a claimed privacy curve against the scores of canaries, and bound epsilon from below.

    Parameters
    ----------
    scores
        One number for each canary. Higher means "took part".
    included
        For each canary, whether its fair coin let it take part.
    event
        The ``DpEvent`` tree or the ``Certificate`` that is claimed; None for a lower bound alone.
    delta
        Of the lower bound on epsilon.
    confidence
        Of the lower bound; the claim is contradicted at a p-value of at most one minus this.
    independent
        Whether the scores of different canaries are independent given the coins, as those of one-hot gradients with
        independent noise are. The bounds are much stronger then.
    guesses
        How many canaries are guessed to be in, and out; chosen from the claimed curve by default, never from the
        scores.
    neighboring_relation
        As of ``estimate_delta``; a certificate has its own.

    Returns
    -------
    Audit
        The p-value of the claim, the verdict, and the lower bound.

    Raises
    ------
    ValueError
        If scores and coins do not match, or a value is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> from dp_accounting.dp_event import GaussianDpEvent
    >>> rng = np.random.default_rng(1)
    >>> included = rng.random(2000) < 0.5
    >>> honest = included + 2.0 * rng.standard_normal(2000)
    >>> audit(honest, included, GaussianDpEvent(2.0)).verdict
    'consistent'
    >>> too_little_noise = included + 0.5 * rng.standard_normal(2000)
    >>> audit(too_little_noise, included, GaussianDpEvent(2.0)).verdict
    'contradicts the certificate'
    """
    values, coins = _checked(scores, included)
    delta = validate.open_probability(delta=delta)
    confidence = validate.open_probability(confidence=confidence)
    level, canaries = 1.0 - confidence, values.size
    known = None if event is None else risk(event, neighboring_relation=neighboring_relation)
    curve = gaussian(1.0) if known is None else curve_of(known)
    found: Count | Independent
    if independent:
        if guesses is not None:
            raise ValueError("guesses= has no use with independent=True: every canary is guessed")
        found = _all_guessed(values, coins)
    else:
        top, bottom = _chosen(guesses, curve, canaries, level)
        found = Count(_right(values, coins, top, bottom), top + bottom, canaries)
    p_value = None if known is None else found.p_value(curve)
    tree = event.dp_event() if hasattr(event, "dp_event") else event
    relation = getattr(event, "neighboring_relation", neighboring_relation)
    family, epsilon = _family_bound(found, tree, relation, delta, level)
    claimed = (
        None if known is None else estimate_epsilon(tree, delta=delta, neighboring_relation=_relation(relation)).value
    )
    return Audit(
        verdict=CONTRADICTS if p_value is not None and p_value <= level else CONSISTENT,
        p_value=p_value,
        epsilon=epsilon,
        delta=delta,
        confidence=confidence,
        family=family,
        epsilon_of_any=_any_bound(found, delta, level),
        claimed=claimed,
        guesses=found.guesses,
        correct=found.correct,
        canaries=canaries,
    )


def curve_of(found: Risk) -> Curve:
    """The concave hull of both directions of proved bounds."""
    return hull(found.both_ways)


def _chosen(guesses: tuple[int, int] | None, curve: Curve, canaries: int, level: float) -> tuple[int, int]:
    """How many canaries to guess in and out: those with the best bound if the attack is the best one against the
    claimed curve.
    """
    if guesses is not None:
        top, bottom = (validate.non_negative_integer(guesses=one) for one in guesses)
        if not 1 <= top + bottom <= canaries:
            raise ValueError(f"guesses={guesses!r} are not from 1 to {canaries:,} in all, the canaries")
        return top, bottom
    best, number = -1.0, 1
    for share in _SHARES:
        each = max(1, round(share * canaries))
        hits = _expected(curve, each / canaries) * canaries
        bound = _gaussian_bound(Count(math.floor(2 * hits), 2 * each, canaries), level)
        best, number = max((best, number), (bound, each))
    return number, number


def _expected(curve: Curve, share: float) -> float:
    """The share of canaries that are rightly guessed to be in, if that share is guessed so and the attack is the best
    one.
    """
    shares = (curve.false + curve.true) / 2
    return float(np.interp(share, shares, curve.true / 2))


def _right(values: Floats, coins: Any, top: int, bottom: int) -> int:
    """How many guesses are right; ties are broken by place."""
    order = np.argsort(values, kind="stable")
    lowest, highest = order[:bottom], order[values.size - top :]
    return int(coins[highest].sum()) + int((~coins[lowest]).sum())


def _all_guessed(values: Floats, coins: Any) -> Independent:
    """Guesses by a threshold that a tenth of the canaries set, for the others."""
    aside = max(1, values.size // 10)
    guessed = values[aside:] > np.median(values[:aside])
    return Independent(int((guessed == coins[aside:]).sum()), guessed.size)


def _family_bound(
    found: Count | Independent, tree: Any, relation: Any, delta: float, level: float
) -> tuple[str, float]:
    """The family, and its lower bound on epsilon (U4)."""
    if tree is not None and (scaled(tree, 2.0)) is not None:
        noise = _greatest(lambda factor: found.rejects(_estimated(scaled(tree, factor), relation), level))
        if noise is None:
            return "noise", 0.0
        event = scaled(tree, noise)
        value = estimate_epsilon(event, delta=delta, neighboring_relation=_relation(relation)).value
        return "noise", value
    return "gaussian", _gaussian_epsilon(_gaussian_bound(found, level), delta)


def _gaussian_bound(found: Count | Independent, level: float) -> float:
    """The greatest mu that is rejected, about."""
    if not found.rejects(gaussian(1e-6), level):
        return 0.0
    low, high = 0.0, 1.0
    while found.rejects(gaussian(high), level) and high < 64.0:
        low, high = high, 2 * high
    while high - low > _CLOSE * high:
        middle = (low + high) / 2
        low, high = (middle, high) if found.rejects(gaussian(middle), level) else (low, middle)
    return low


def _greatest(rejected: Callable[[float], bool]) -> float | None:
    """The least factor of the noise that is rejected, about; None if none is."""
    if not rejected(_MOST_NOISE):
        return None
    low, high = math.log(1 / _MOST_NOISE), math.log(_MOST_NOISE)
    while high - low > _CLOSE:
        middle = (low + high) / 2
        low, high = (low, middle) if rejected(math.exp(middle)) else (middle, high)
    return math.exp(high)


def scaled(event: Any, factor: float) -> DpEvent | None:
    """The event with every noise multiplier times a factor; None where something else adds the noise."""
    if hasattr(event, "noise_multiplier"):
        value = event.noise_multiplier * factor
        return attrs.evolve(event, noise_multiplier=value)
    if hasattr(event, "events"):
        parts = [scaled(part, factor) for part in event.events]
        return None if None in parts else attrs.evolve(event, events=parts)
    if hasattr(event, "event"):
        inner = scaled(event.event, factor)
        return None if inner is None else attrs.evolve(event, event=inner)
    return None


def _estimated(event: Any, relation: Any) -> Curve:
    """The curve of an event by estimates, which err by far less than samples do."""
    asked = {"neighboring_relation": _relation(relation)}
    last = estimate_epsilon(event, delta=1e-7, **asked).value
    epsilons = np.linspace(0.0, last, max(2, min(60, math.ceil(last / _SPACING))) + 1)
    lines = []
    for direction in ("remove", "add"):
        deltas = privacy_curve(event, epsilons, direction=direction, **asked).deltas
        points = zip(epsilons.tolist(), deltas.tolist(), strict=True)
        lines.append([(Fraction(e), Fraction(min(d, 1.0))) for e, d in points])
    remove, add = lines
    return hull([Tradeoff.of_points(remove, add), Tradeoff.of_points(add, remove)])


def _relation(relation: Any) -> Any:
    """A certificate names its relation as dp_accounting does."""
    from dp_accounting import NeighboringRelation

    is_name = isinstance(relation, str) and relation in NeighboringRelation.__members__
    return NeighboringRelation[relation] if is_name else relation


def _gaussian_epsilon(mu: float, delta: float) -> float:
    """Epsilon of a Gaussian mechanism at delta, by bisection."""
    if mu == 0:
        return 0.0

    def at(epsilon: float) -> float:
        one, other = ndtr(mu / 2 - epsilon / mu), ndtr(-mu / 2 - epsilon / mu)
        return float(one - math.exp(epsilon) * other)

    low, high = 0.0, mu * mu / 2 - mu * float(ndtri(delta)) + 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle) > delta else (low, middle)
    return low


def _any_bound(found: Count | Independent, delta: float, level: float) -> float:
    """The lower bound that assumes no family."""
    if not found.rejects(pair(0.0, delta), level):
        return 0.0
    low, high = 0.0, 1.0
    while found.rejects(pair(high, delta), level) and high < 1e3:
        low, high = high, 2 * high
    while high - low > _CLOSE * high:
        middle = (low + high) / 2
        low, high = (middle, high) if found.rejects(pair(middle, delta), level) else (low, middle)
    return low


def _checked(scores: Iterable[float], included: Iterable[bool]) -> tuple[Floats, Any]:
    """Both as arrays, or an error in words."""
    values = np.asarray(list(scores), dtype=np.float64)
    coins = np.asarray(list(included))
    if values.ndim != 1 or coins.shape != values.shape:
        raise ValueError(
            f"scores has the shape {values.shape} and included {coins.shape}: give one of each for every canary"
        )
    if values.size < FEWEST_CANARIES:
        raise ValueError(
            f"{values.size} canaries are too few to audit by: give at least {FEWEST_CANARIES}, better 1,000"
        )
    if np.isnan(values).any():
        raise ValueError(f"{int(np.isnan(values).sum())} of the scores are NaN: score every canary")
    if not np.isin(coins, (0, 1)).all():
        raise ValueError("included holds something other than true and false (or 1 and 0)")
    coins = coins.astype(bool)
    if coins.all() or not coins.any():
        word = "took part" if coins.all() else "stayed out"
        raise ValueError(f"every canary {word}: include each by a fair coin of its own")
    share = float(coins.mean())
    if 2 * binom.sf(max(coins.sum(), (~coins).sum()) - 1, coins.size, 0.5) < 1e-6:
        raise ValueError(
            f"{share:.1%} of the canaries took part, which fair coins do not give: include each by "
            "a fair coin of its own"
        )
    # canaries are often listed by their coins; guesses must not depend on that order
    order = np.random.default_rng(0).permutation(values.size)
    return values[order], coins[order]
