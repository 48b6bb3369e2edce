"""What bounds on attacks mean, in words for readers who do not know what an epsilon is. No word is stronger than what
was proved (docs/guarantees_risk.md).
"""

from __future__ import annotations

from typing import NamedTuple

from evr.certification.certificate import Certificate
from evr.certification.time_limits import alarmed, seconds_allowed, understood
from evr.certification.words import METHOD_WORDS, unit
from evr.errors import TooLongError
from evr.numbers import percent, stated
from evr.proving.risk import Risk, risk

GDP_REST = 1e-3
"""Up to which Gaussian differential privacy is stated."""
_PATIENCE = 10.0  # seconds that the bounds of a whole curve may take, where the certificate's pair will do


class Question(NamedTuple):
    """What is known of an attacker: the share of others that is accused, and two chances before the attack, that a
    record took part and that a guess hits a secret.
    """

    false_positive_rate: float = 1e-3
    prior: float = 0.5
    baseline: float = 1e-4

    def bounds(self, found: Risk) -> dict[str, float | None]:
        """The answers, by the names of ``Risk``'s methods."""
        return {
            "advantage": found.advantage,
            "true_positive_rate": found.true_positive_rate(self.false_positive_rate),
            "posterior": found.posterior(self.prior, self.false_positive_rate),
            "accuracy": found.accuracy(self.prior),
            "reconstruction": found.reconstruction(self.baseline),
            "gdp": found.gdp(GDP_REST),
        }


def bounded(certificate: Certificate, max_seconds: float) -> Risk:
    """``evr.risk`` of a certificate that may come from a stranger."""
    seconds = seconds_allowed(max_seconds)
    with alarmed(seconds, "bounding attacks"):
        understood(certificate, seconds)
        return risk(certificate)


def meaning(certificate: Certificate) -> list[str]:
    """What an accepted certificate means for attacks, in sentences. The last says what they rest on: strict points of
    the whole curve, or the certificate's pair where the curve takes too long.
    """
    pair, whose = certificate.guarantee, unit(certificate.document())
    if pair is None:
        return []
    try:
        found = bounded(certificate, _PATIENCE)
    except TooLongError:
        found = Risk.of_pair(pair.epsilon, pair.delta)
    replaced = certificate.neighboring_relation == "REPLACE_ONE"
    return [*attacks(found, whose, Question(), replaced=replaced), basis(found, whose, certificate)]


def attacks(found: Risk, whose: str, asked: Question, *, replaced: bool) -> list[str]:
    """A sentence for each question; ``replaced`` where neighbours differ in which of two records they hold."""
    accused, before, guessed = map(percent, asked)
    hits = percent(found.true_positive_rate(asked.false_positive_rate))
    first = f"one {whose} took part"
    told = (
        f"accuses {accused} of the {whose}s that did not take part finds at most {hits} of those that did, on average"
    )
    if replaced:
        first = f"the first of two given {whose}s is in the data"
        told = f"takes the second of two given {whose}s for the first in {accused} of all cases recognises the first in"
        told += f" at most {hits}"
    return [
        f"An attacker who {told}.",
        f"If the chance that {first} was {before} beforehand, such an attacker is right with a chance of at most "
        f"{percent(found.posterior(asked.prior, asked.false_positive_rate))} when saying so.",
        f"A secret of one {whose} that can be guessed with a chance of {guessed} is found with a chance of at most "
        f"{percent(found.reconstruction(asked.baseline))} by somebody who also sees the result.",
        "Over all attacks, the share that is rightly found exceeds the share that is wrongly accused by at most "
        f"{percent(found.advantage)[:-1]} percentage points.",
    ]


def basis(found: Risk, whose: str, certificate: Certificate | None) -> str:
    """What the sentences rest on."""
    rests = f"are proved in exact arithmetic from {found.points} points of the privacy curve"
    if found.proof == "certificate":
        assert certificate is not None
        pair = "is proved in exact arithmetic"
        if METHOD_WORDS[certificate.verification.method].samples:
            total = stated(certificate.release.total_budget, 2)
            pair = f"samples verified: if it were false, it would be accepted with a probability of at most {total}"
        rests = f"follow from the certificate's one pair of epsilon and delta, which {pair}"
    given = "it ran as described" if certificate is None else "the assumptions of the statement hold"
    return (
        f"The attacker may have any computing power, see every output and know all other {whose}s. These bounds "
        f"{rests}. They hold if {given}."
    )
