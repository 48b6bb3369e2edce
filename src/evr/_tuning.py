"""``tuning``: the number of runs of which the best is released, drawn from the law that is certified."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dp_accounting import dp_event
from flint import arb, fmpq

from evr._basics import validate
from evr._basics.randomness import ENTROPY_BITS
from evr._basics.version import __version__
from evr._certificate.event_json import event_to_json
from evr._kernel.events.sampling import rule_of
from evr._kernel.events.schemes import BinomialSelectDpEvent, ThresholdSelectDpEvent
from evr._kernel.pairs.exact.law import at_precision, ball
from evr._kernel.pairs.selection import BinomialRuns, NegativeBinomialRuns, PoissonRuns, Rule, UntilGood

_MORE_BITS = 64  # of balls than of entropy


@dataclass(frozen=True)
class Tuning:
    """A search for the best run, before it starts.

    Make exactly ``runs`` runs; it may be 0. With ``stop_probability``, make at most that many and stop at the first
    good one. Do not show the number to anybody: the guarantee rests on its being secret.
    """

    event: dp_event.DpEvent  # what is certified: the whole search
    runs: int = field(repr=False)
    entropy: int = field(repr=False)  # the fresh random bits that ``runs`` follows from, after a leading 1

    @property
    def record(self) -> dict[str, Any]:
        """What to keep, in JSON's types and in a safe place: anybody who has it can draw the same number again."""
        event = event_to_json(self.event)
        return {"event": event, "runs": self.runs, "entropy": f"{self.entropy:x}", "evr": __version__}


def tuning(
    event: dp_event.DpEvent,
    *,
    mean: float | None = None,
    shape: float | None = None,
    most_runs: int | None = None,
    probability: float | None = None,
    stop_probability: float | None = None,
) -> Tuning:
    """Draw the number of runs of a search for hyper-parameters, from fresh entropy, and make the event to certify.

    Each run draws its hyper-parameters anew, with replacement, from a list that does not depend on the data. The best
    output is released and nothing else: docs/guide/tuning.md.

    Parameters
    ----------
    event
        One run: its training, and its score if that costs privacy. Where candidates differ, the one that costs most.
    mean, shape
        The mean number of runs, and the shape of its law: 1 is geometric (the default), 0 logarithmic, ``math.inf``
        Poisson, others truncated negative binomial: as of dp_accounting's ``RepeatAndSelectDpEvent``.
    most_runs, probability
        Instead, a binomial number of runs: at most ``most_runs``, each made with this probability.
    stop_probability
        Instead, run until one is good enough. After each run that is not, the search ends with this probability.

    Returns
    -------
    Tuning
        ``event``, which ``certify`` takes, and ``runs``.

    Raises
    ------
    ValueError, TypeError
        If a value is out of its range, or not exactly one law is given.

    Examples
    --------
    >>> import evr
    >>> run = evr.dpsgd(noise_multiplier=2.0, sampling_probability=0.01, steps=100)
    >>> search = evr.tuning(run, mean=20)
    >>> search.runs >= 1
    True
    >>> evr.estimate_epsilon(search.event, delta=1e-5).value < 4 * evr.estimate_epsilon(run, delta=1e-5).value
    True
    """
    if not isinstance(event, dp_event.DpEvent):
        raise TypeError(f"event={validate.shown(event)} is not a DpEvent: give one run, as evr.dpsgd(...) returns it")
    laws = [(mean, shape), (most_runs, probability), (stop_probability,)]
    if sum(any(one is not None for one in law) for law in laws) != 1 or (shape is not None and mean is None):
        ways = "mean (and shape), or most_runs and probability, or stop_probability"
        raise ValueError(f"which law has the number of runs? Give {ways}")
    whole: dp_event.DpEvent
    if stop_probability is not None:
        whole = ThresholdSelectDpEvent(event, stop_probability)
    elif mean is not None:
        whole = dp_event.RepeatAndSelectDpEvent(event, mean, 1.0 if shape is None else shape)
    elif most_runs is None or probability is None:
        raise ValueError(f"most_runs={most_runs!r} and probability={probability!r}: a binomial law needs both")
    else:
        whole = BinomialSelectDpEvent(event, most_runs, probability)
    rule = rule_of(whole)
    if isinstance(rule, UntilGood):
        rule = NegativeBinomialRuns(1 / rule.stop, Fraction(1))
    entropy, found = 1, 1 if rule is None else None
    while rule is not None and found is None:
        entropy = entropy << ENTROPY_BITS | secrets.randbits(ENTROPY_BITS)
        found = number_of_runs(rule, entropy)
    return Tuning(whole, found or 0, entropy)


def chances_of(law: Rule) -> tuple[arb, Callable[[int], arb]]:
    """The probability of no run; and for each ``k >= 1`` the probability of ``k + 1`` runs over that of ``k`` runs."""
    match law:
        case PoissonRuns(mean):
            return ball(-mean).exp(), lambda k: ball(mean / (k + 1))
        case NegativeBinomialRuns(_, shape):
            limit = -(-law.log_odds()).expm1()
            return arb(0), lambda k: limit * ball((k + shape) / (k + 1))
        case BinomialRuns(most, probability):
            odds = probability / (1 - probability)
            return ball(1 - probability) ** most, lambda k: ball(Fraction(max(most - k, 0), k + 1) * odds)
    raise TypeError(f"{law!r} has no number of runs that is independent of the data")


def number_of_runs(law: Rule, entropy: int) -> int | None:
    """The number of runs by inversion: the least ``k`` whose distribution function exceeds the uniform number whose
    binary digits are those of ``entropy`` after the leading 1. None if these digits do not decide it. Balls enclose the
    distribution function, so the law is exact.
    """
    bits = entropy.bit_length() - 1
    place = entropy - (1 << bits)
    with at_precision(bits + _MORE_BITS):
        low, high = (arb(fmpq(end, 1 << bits)) for end in (place, place + 1))
        (below, growth), k = chances_of(law), 0
        chance = law.log_density()(arb(1)).exp()  # that of one run
        while not high <= below:
            if not below <= low:
                return None
            k += 1
            below = below + chance
            chance = chance * growth(k)
    return k
