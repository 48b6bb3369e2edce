"""What an attacker can do at most, proved from strict points of a privacy curve (docs/guarantees_risk.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri_exp

from evr._basics import validate
from evr._estimate.fft import epsilon_of
from evr._estimate.results import Curve, drawn
from evr._kernel.events import Composition
from evr._kernel.events.relations import Relation
from evr._kernel.pairs import Direction, Floats
from evr._kernel.pairs.exact.law import Ball, at_precision, ball
from evr._kernel.strict import rounded_up
from evr._kernel.strict.tradeoff import Point, Tradeoff
from evr._kernel.verdict.results import Guarantee
from evr._plan.strict import StrictCurve
from evr.errors import UnsupportedEventError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SPACING = 0.1  # of the epsilons whose delta is proved: bounds on true positive rates are within e^SPACING
_LEAST_DELTA = 1e-8  # of the last point: false positive rates of 1e-6 are served well
_MOST_POINTS = 100  # in one direction: up to an epsilon of 10 they are spaced as stated


@dataclass(frozen=True, eq=False)
class TradeoffCurve(Curve):
    """The greatest true positive rate at each false positive rate, from above: the corners of a concave curve."""

    false_positive_rates: Floats
    true_positive_rates: Floats

    def columns(self) -> dict[str, Any]:
        return {"false_positive_rate": self.false_positive_rates, "true_positive_rate": self.true_positive_rates}

    def plot(self, ax: Axes | None = None, **style: Any) -> Axes:
        """Draw the curve on logarithmic axes, with that of guessing; ``style`` goes to matplotlib's ``plot``."""
        rates = np.union1d(np.geomspace(1e-6, 1.0, 200), self.false_positive_rates)
        rates = rates[rates >= 1e-6]
        most = np.interp(rates, self.false_positive_rates, self.true_positive_rates)
        lines = {"any attacker, at most": (rates, most), "guessing": (rates, rates)}
        ax = drawn(ax, "false positive rate", "true positive rate", lines, **style)
        ax.set(xscale="log", yscale="log")
        return ax


@dataclass(frozen=True)
class Risk:
    """Upper bounds on every attack that asks whether one record took part, or what it holds.

    ``proof`` is ``"strict"`` where all ``points`` of the curve have a strict proof, or ``"certificate"`` where there is
    only the pair of a sampled certificate, which holds with its false-positive rate. ``both_ways`` are the bounds for
    attackers who look for members, and for those who look for the others.
    """

    proof: str
    points: int
    both_ways: tuple[Tradeoff, Tradeoff] = field(repr=False)

    @property
    def advantage(self) -> float:
        """The greatest difference of true and false positive rate of a membership attack."""
        return _shown(self.both_ways[0].advantage)

    def true_positive_rate(self, false_positive_rate: float) -> float:
        """The greatest share of members that an attacker finds who accuses that share of non-members."""
        rate = validate.probability(false_positive_rate=false_positive_rate)
        return _shown(self.both_ways[0].at(Fraction(rate)))

    def reconstruction(self, baseline: float) -> float:
        """The greatest chance to reconstruct a secret that is guessed without the output with chance ``baseline``."""
        return _shown(self.both_ways[0].at(Fraction(validate.probability(baseline=baseline))))

    def accuracy(self, prior: float = 0.5) -> float:
        """The greatest chance of a right answer if a record is a member with that probability."""
        return _shown(self.both_ways[0].accuracy(Fraction(validate.probability(prior=prior))))

    def posterior(self, prior: float, false_positive_rate: float) -> float:
        """The greatest chance that an accused record is a member, for an attacker who accuses that share of
        non-members; ``prior`` is the chance before the attack. It is 0 where nobody can be accused.
        """
        before = Fraction(validate.open_probability(prior=prior))
        rate = Fraction(validate.probability(false_positive_rate=false_positive_rate))
        hits = before * self.both_ways[0].at(rate)
        return _shown(hits / (hits + (1 - before) * rate)) if hits or rate else 0.0

    def certainty(self, posterior: float, prior: float = 0.5) -> float:
        """The greatest chance that the output makes somebody surer than ``posterior`` that a member is a member."""
        after = Fraction(validate.open_probability(posterior=posterior))
        before = Fraction(validate.open_probability(prior=prior))
        return _shown(self.both_ways[0].exceeding(after * (1 - before) / ((1 - after) * before)))

    def gdp(self, delta0: float) -> float | None:
        """The mu of Gaussian differential privacy that holds up to ``delta0``, in both directions: every attack is at
        most as good as telling N(mu, 1) from N(0, 1), plus ``delta0``. None if the proved points show none.
        """
        rest = Fraction(validate.open_probability(delta0=delta0))
        present, absent = (_mu_of(way, rest) for way in self.both_ways)
        return None if present is None or absent is None else max(present, absent)

    @property
    def tradeoff(self) -> TradeoffCurve:
        """The curve of true over false positive rates; it has ``plot`` and ``to_frame``."""
        corners = [(abs(rounded_up(-false)), _shown(true)) for false, true in self.both_ways[0].corners]
        return TradeoffCurve(*np.array(corners).T)

    @classmethod
    def of_pair(cls, epsilon: float, delta: float) -> Risk:
        """From the one pair of a certificate, which holds in both directions."""
        bound = Tradeoff.of_point(Fraction(epsilon), Fraction(delta))
        return cls("certificate", 1, (bound, bound))


def risk(event: Any, *, neighboring_relation: Relation | None = None, unit: str | None = None) -> Risk:
    """What an attacker can do at most.

    Parameters
    ----------
    event
        A ``DpEvent`` tree, or a ``Certificate``, whose pair counts too where it has a strict proof.
    neighboring_relation, unit
        As of ``estimate_delta``; a certificate has its own.

    Returns
    -------
    Risk
        Bounds on every attacker with any computing power who sees all outputs and knows all other records.

    Raises
    ------
    UnsupportedEventError
        If some mechanism has no exact law, and no certificate is given.

    Examples
    --------
    >>> import evr
    >>> event = evr.dpsgd(noise_multiplier=1.1, dataset_size=60_000, batch_size=256, epochs=15)
    >>> found = evr.risk(event)
    >>> f"{found.advantage:.3f}"
    '0.113'
    >>> found.true_positive_rate(1e-3) < 0.0055
    True
    """
    tree, relation, pair = of_certificate(event, neighboring_relation, unit)
    try:
        laws = Composition.of(tree, relation, unit).exact_directions()
        found = {way: _points(StrictCurve(steps)) for way, steps in laws.items()}
    except UnsupportedEventError:
        if pair is None:
            raise
        return Risk.of_pair(pair.epsilon, pair.delta)
    own = [] if pair is None or not event.proofs() else [(Fraction(pair.epsilon), Fraction(pair.delta))]
    remove = [*found[Direction.REMOVE], *own]
    add = [*found.get(Direction.ADD, found[Direction.REMOVE]), *own]
    ways = Tradeoff.of_points(remove, add), Tradeoff.of_points(add, remove)
    return Risk("strict", sum(map(len, found.values())), ways)


def of_certificate(
    event: Any, relation: Relation | None, unit: str | None = None
) -> tuple[Any, Relation | None, Guarantee | None]:
    """The event, relation and proved pair of a certificate; of an event, itself, the relation given, and no pair."""
    if not (hasattr(event, "guarantee") and hasattr(event, "dp_event")):
        return event, relation, None
    for name, given in (("neighboring_relation", relation), ("unit", unit)):
        if given is not None:
            raise ValueError(f"{name}= is for events: a certificate has its own")
    return event.dp_event(), event.relation, event.guarantee


def _points(curve: StrictCurve) -> list[Point]:
    """Proved points at equal distances, up to an epsilon with a negligible delta."""
    epsilons = [0.0]
    if curve.steps:
        last = epsilon_of(curve.fft, _LEAST_DELTA).value
        last = last if math.isfinite(last) else 10.0
        number = min(max(1, math.ceil(last / SPACING)), _MOST_POINTS)
        epsilons = [max(SPACING, last / number) * k for k in range(number + 1)]
    return [(proof.epsilon, proof.delta) for proof in curve.points(epsilons)]


def _mu_of(curve: Tradeoff, rest: Fraction) -> float | None:
    """A ``mu`` for which the curve is ``mu``-GDP up to ``rest``: guessed, and proved at every corner (K4)."""
    if curve.at(Fraction(0)) > rest:
        return None
    needed = [(v, true - rest) for v, true in curve.corners if v > 0 and rest < true > v + rest]
    found = max([0.0, *(_quantile(t) - _quantile(v) for v, t in needed)])
    for _ in range(40):
        if all(_reaches(v, t, found) for v, t in needed):
            return found
        found += max(1e-9 * found, 1e-12)
    return None


def _quantile(chance: Fraction) -> float:
    """About ``Phi^-1``, by the logarithm of the smaller tail."""
    tail = min(chance, 1 - chance)
    place = float(ndtri_exp(math.log(tail.numerator) - math.log(tail.denominator)))
    return place if tail == chance else -place


def _reaches(false_positive: Fraction, wanted: Fraction, mu: float) -> bool:
    """Whether ``Phi(Phi^-1(false_positive) + mu) >= wanted``, certainly."""
    place = _quantile(false_positive)
    with at_precision(128):
        start = Ball(place) - (1 + abs(place)) * Ball(2) ** -44
        below, above = ((-z / Ball(2).sqrt()).erfc() / 2 for z in (start, start + Ball(mu)))
        return bool(below <= ball(false_positive) and above >= ball(wanted))


def _shown(number: Fraction) -> float:
    return rounded_up(min(number, Fraction(1)))
