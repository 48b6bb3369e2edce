"""Audits in one run: what canaries that took part by fair coins say of a privacy curve (docs/guarantees_audit.md)."""

from __future__ import annotations

import contextlib
import math
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import scipy
from dp_accounting.dp_event import DpEvent, GaussianDpEvent, NoOpDpEvent

from evr._accounting import estimate_epsilon, privacy_curve
from evr._accounting.noise import scaled_noise
from evr._basics import validate
from evr._basics.numbers import above, round_up, typed
from evr._kernel.events.relations import Relation
from evr._kernel.pairs import Floats
from evr._kernel.strict.tradeoff import Tradeoff
from evr._proving.guessing import Count, Curve, Independent, Several, bisected, gaussian, hull, p_value_of, pair
from evr._proving.risk import of_certificate, risk

FEWEST_CANARIES = 10
CONSISTENT, CONTRADICTS = "consistent", "contradicts the certificate"
_SPACING, _POINTS = 0.1, 24  # the distance of the epsilons that define a curve of the family, and their greatest number
_FARTHEST = 64.0  # a bound is searched from 1/64 to 64 times the event's strength, or as mu or epsilon
_HALVINGS = 11  # of the logarithms of that range: within 0.4%
_LEVELS = (0.8, 0.1, 0.1)  # the share of the level that each of three tests has
_TAIL = 0.01  # the share of canaries with the highest scores: a few canaries that leak whole show there
_MOST = 0.45  # the share guessed in, and out, in case that the scores tell nearly all canaries apart
_SHARES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5)  # of canaries that are guessed in, and out


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Attributes
    ----------
    verdict, p_value
        ``"consistent"`` or ``"contradicts the certificate"``: the p-value is at most ``1 - confidence``. It bounds how
        probable so many right guesses are if the claimed curve is true; that curve is proved.
    epsilon, delta, confidence
        With this confidence, epsilon at delta is at least ``epsilon``, for mechanisms of ``family``, whose curves are
        near-exact estimates.
    family, epsilon_of_any
        ``"noise"``: the event with another noise multiplier; ``"gaussian"``, where there is none or none fits the
        scores. Without a family, the bound is weaker.
    claimed
        Epsilon at delta of the claimed curve, about; None if no curve was claimed.
    guesses, correct, canaries
        How many canaries the first test guessed, how many of these rightly, and how many there are.
    attack, claimed_curve
        True over false positive rates of the scores, and at most by the claim: what ``evr audit --plot`` draws.
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
    attack: Curve = field(repr=False)
    claimed_curve: Curve | None = field(repr=False)

    def __bool__(self) -> bool:
        raise TypeError("an Audit has no truth value: use .verdict")

    @property
    def sentence(self) -> str:
        """What was found, in words."""
        whom = {"noise": "this mechanism with any noise multiplier", "gaussian": "Gaussian mechanisms"}[self.family]
        least = f"{abs(round_up(-self.epsilon, 3)):.3g} with confidence {typed(self.confidence)}"
        words = f"{self.correct:,} of {self.guesses:,} guesses were right, of {self.canaries:,} canaries. "
        words += f"Epsilon at delta = {typed(self.delta)} is at least {least}, for {whom}."
        if self.p_value is None or self.claimed is None:
            return words
        verb = "is consistent with" if self.verdict == CONSISTENT else "contradicts"
        p_value = above(self.p_value, 2)
        return f"{words} The audit {verb} epsilon {above(self.claimed, 3)}, as claimed: p-value {p_value}."


def audit(
    scores: Iterable[float],
    included: Iterable[bool],
    event: Any = None,
    *,
    delta: float | None = None,
    confidence: float = 0.95,
    independent: bool = False,
    neighboring_relation: Relation | None = None,
    unit: str | None = None,
) -> Audit:
    """Test a claimed privacy curve against the scores of canaries, and bound epsilon from below.

    Parameters
    ----------
    scores, included
        For each canary, a number that is higher the more it seems to have taken part, and whether its fair coin let it.
    event
        The ``DpEvent`` tree or the ``Certificate`` that is claimed; None for a lower bound alone.
    delta, confidence
        Of the lower bound on epsilon; ``delta`` is by default the certificate's, or 1e-5. The claim is contradicted at
        a p-value of at most ``1 - confidence``.
    independent
        Whether the scores of different canaries are independent given the coins, as those of one-hot gradients with
        independent noise are. The bounds are much stronger then.
    neighboring_relation, unit
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
    tree, relation, proved = of_certificate(event, neighboring_relation, unit)
    if delta is None:
        delta = 1e-5 if proved is None else proved.delta
    delta = validate.open_probability(delta=delta)
    level = 1.0 - validate.open_probability(confidence=confidence)
    known = None if event is None else risk(event, neighboring_relation=neighboring_relation, unit=unit)
    curve = None if known is None else hull(known.both_ways)
    found = _tests(values, coins, _chosen(curve or gaussian(1.0), values.size, level), independent=independent)
    p_value = None if curve is None else p_value_of(found, curve)
    is_strict = known is not None and known.proof == "strict"
    family, epsilon = _family_bound(found, tree if is_strict else None, relation, delta, level)
    claimed = proved.epsilon if proved is not None and delta == proved.delta else None
    if claimed is None and known is not None:
        claimed = estimate_epsilon(tree, delta=delta, neighboring_relation=relation).value
    first = found.tests[0][1]
    return Audit(
        verdict=CONTRADICTS if p_value is not None and p_value <= level else CONSISTENT,
        p_value=p_value,
        epsilon=epsilon,
        delta=delta,
        confidence=confidence,
        family=family,
        epsilon_of_any=_greatest(lambda one: found.rejects(pair(one, delta), level)),
        claimed=claimed,
        guesses=first.guesses,
        correct=first.correct,
        canaries=values.size,
        attack=_attack(values, coins),
        claimed_curve=curve,
    )


def _tests(values: Floats, coins: Any, number: int, *, independent: bool) -> Several:
    """What the scores are tested by, the heaviest first (U6): so many are guessed in, and out, of the chosen test."""

    ordered = coins[np.argsort(values, kind="stable")]  # ties are broken by place

    def count(top: int, bottom: int) -> Count:
        right = ordered[values.size - top :].sum() + (~ordered[:bottom]).sum()
        return Count(int(right), top + bottom, values.size)

    chosen, tail = count(number, number), count(math.ceil(_TAIL * values.size), 0)
    every = math.floor(_MOST * values.size)
    tests: list[Count | Independent] = [chosen, tail, count(every, every)]
    if independent:
        tests = [_all_guessed(values, coins), tail, chosen]
    return Several(list(zip(_LEVELS, tests, strict=True)))


def _chosen(curve: Curve, canaries: int, level: float) -> int:
    """How many canaries to guess in, and out: as many as bound best if the attack is the best against the curve."""

    def bound(share: float) -> tuple[float, int]:
        each = min(max(1, round(share * canaries)), canaries // 2)
        right = np.interp(each / canaries, (curve.false + curve.true) / 2, curve.true / 2)  # of those guessed in
        hits = Count(min(math.floor(2 * float(right) * canaries), 2 * each), 2 * each, canaries)
        return _greatest(lambda mu: hits.rejects(gaussian(mu), level)), each

    return max(map(bound, _SHARES))[1]


def _all_guessed(values: Floats, coins: Any) -> Independent:
    """Guesses by a threshold that a tenth of the canaries set, halfway between those in and those out."""
    aside = max(1, values.size // 10)
    seen, known = values[:aside], coins[:aside]
    both = 0 < known.sum() < aside
    threshold = (np.median(seen[known]) + np.median(seen[~known])) / 2 if both else np.median(seen)
    guessed = values[aside:] > threshold
    return Independent(int((guessed == coins[aside:]).sum()), guessed.size)


def _attack(values: Floats, coins: Any) -> Curve:
    """The rates of guessing in whatever scores more than a threshold, for each threshold."""
    order = np.argsort(-values, kind="stable")
    last = np.flatnonzero(np.append(np.diff(values[order]) != 0, True))  # of canaries with equal scores
    true, false = (np.cumsum(one[order])[last] / one.sum() for one in (coins, ~coins))
    return Curve(np.append(0.0, false), np.append(0.0, true))


def _family_bound(found: Several, tree: Any, relation: Any, delta: float, level: float) -> tuple[str, float]:
    """The family, and its lower bound on epsilon (U4): noise, unless no noise at all fits the scores."""
    if tree is not None and scaled(tree, 2.0) is not None:

        def rejected(strength: float) -> bool:
            return found.rejects(_estimated(scaled(tree, 1 / strength), relation), level)

        if not rejected(_FARTHEST):
            strength = _greatest(rejected)
            weaker = scaled(tree, 1 / strength) if strength else NoOpDpEvent()
            return "noise", estimate_epsilon(weaker, delta=delta, neighboring_relation=relation).value
    mu = _greatest(lambda mu: found.rejects(gaussian(mu), level))
    return "gaussian", estimate_epsilon(GaussianDpEvent(1 / mu), delta=delta).value if mu else 0.0


def _greatest(rejected: Callable[[float], bool]) -> float:
    """The greatest parameter that is rejected, from below; 0 if none is."""
    if not rejected(1 / _FARTHEST):
        return 0.0
    low, _ = bisected(-math.log(_FARTHEST), math.log(_FARTHEST), lambda log: rejected(math.exp(log)), _HALVINGS)
    return math.exp(low)


def scaled(event: Any, factor: float) -> DpEvent | None:
    """The event with all its noise times a factor; None where something else than noise makes it private."""
    with contextlib.suppress(ValueError):
        return scaled_noise(event, factor)
    return None


def _estimated(event: Any, relation: Any) -> Curve:
    """The curve of an event by estimates, which err by far less than samples do."""
    last = estimate_epsilon(event, delta=1e-6, neighboring_relation=relation).value
    epsilons = np.linspace(0.0, last, max(2, min(_POINTS, math.ceil(last / _SPACING))) + 1)

    def points(direction: str) -> list[tuple[Fraction, Fraction]]:
        deltas = privacy_curve(event, epsilons, direction=direction, neighboring_relation=relation).deltas
        return [(Fraction(e), Fraction(min(d, 1.0))) for e, d in zip(epsilons, deltas, strict=True)]

    remove, add = points("remove"), points("add")
    return hull([Tradeoff.of_points(remove, add), Tradeoff.of_points(add, remove)])


def _checked(scores: Iterable[float], included: Iterable[bool]) -> tuple[Floats, Any]:
    """Scores and coins as arrays in a random order; what cannot be audited is refused."""
    try:
        values = np.asarray(validate.sequence(scores=scores), dtype=np.float64)
        coins = np.asarray(validate.sequence(included=included))
    except (ValueError, TypeError) as error:
        raise TypeError(f"scores or included cannot be read: {error}") from None
    if values.ndim != 1 or coins.shape != values.shape:
        shapes = f"scores has the shape {values.shape} and included {coins.shape}"
        raise ValueError(f"{shapes}: give one of each for every canary")
    if values.size < FEWEST_CANARIES:
        raise ValueError(f"{values.size} canaries are too few to audit by: give {FEWEST_CANARIES} or more, best 1,000")
    if np.isnan(values).any():
        raise ValueError(f"{int(np.isnan(values).sum())} of the scores are NaN: score every canary")
    if not np.isin(coins, (0, 1)).all():
        raise ValueError("included holds something other than true and false (or 1 and 0)")
    coins = coins.astype(bool)
    more = max(coins.sum(), (~coins).sum())
    if more == coins.size or 2 * scipy.stats.binom.sf(more - 1, coins.size, 0.5) < 1e-6:
        unfair = f"{coins.mean():.1%} of the canaries took part, which fair coins do not give"
        raise ValueError(f"{unfair}: include each by a fair coin of its own")
    values = np.clip(values, -1e300, 1e300)
    # canaries are often listed by their coins; an order from fresh entropy knows nothing of them (Section U7)
    order = np.random.default_rng(secrets.randbits(128)).permutation(values.size)
    return values[order], coins[order]
