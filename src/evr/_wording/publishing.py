"""A certificate for readers: what it means for attacks, sentences in LaTeX with what to cite, a block for a model card.

No word about attacks is stronger than what was proved (docs/guarantees_risk.md).
"""

import json
import re
from typing import NamedTuple

from evr._basics.numbers import latex, percent, stated
from evr._certificate.certificate import Certificate
from evr._certificate.limits import limited, seconds_allowed, understood
from evr._described import adjacency
from evr._proving.risk import Risk, risk
from evr._wording.statement import METHOD_WORDS, unit
from evr.types import Relation

GDP_REST = 1e-3  # up to which Gaussian differential privacy is stated
PAPER = r"""
@inproceedings{wang2023randomized,
  title = {A Randomized Approach to Tight Privacy Accounting},
  author = {Wang, Jiachen T. and Mahloujifar, Saeed and Wu, Tong and Jia, Ruoxi
            and Mittal, Prateek},
  booktitle = {Advances in Neural Information Processing Systems},
  volume = {36},
  year = {2023},
}
"""
"""As CITATION.cff, which a test holds it to."""
TITLE = "evr: tight privacy accounting you can trust"

_SPECIAL = str.maketrans(
    {letter: f"\\{letter}" for letter in "{}$&%#_"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", '"': "''"}
)
_NUMBER = r"\d[\d.]*(?:e[+-]?\d+)?"
_MATHEMATICS = re.compile(
    rf"\((?P<epsilon>{_NUMBER}), (?P<delta>{_NUMBER})\)(?=-differential)"
    r"|(?<![\w.])(?P<number>\d[\d.]*e[+-]?\d+)(?![\w])"
    r"|\b(?P<letter>epsilon|delta)\b"
)
_GREEK = {"epsilon": r"\varepsilon", "delta": r"\delta"}
_CARD = """---
tags:
- differential-privacy
differential_privacy:
{metadata}
---

## Differential privacy

{statement}

What this means:

{meant}

It is assumed that

{assumed}

To check it, install version {version} of `evr-dp` and run `evr replay` on the certificate, whose digest is {digest}.
"""


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


def bounded(certificate: Certificate, max_seconds: float | None) -> Risk:
    """``evr.risk`` of a certificate that may come from a stranger."""
    seconds = seconds_allowed(max_seconds)

    def work() -> Risk:
        understood(certificate, seconds)
        return risk(certificate)

    return limited(seconds, "bounding attacks", work)


def meaning(certificate: Certificate, max_seconds: float | None = None) -> list[str]:
    """What an accepted certificate means for attacks, in sentences. The last says what they rest on: strict points of
    the whole curve where the certificate has a strict proof, else its pair.
    """
    pair, whose = certificate.guarantee, unit(certificate)
    if pair is None:
        return []
    found = bounded(certificate, max_seconds) if certificate.proofs() else Risk.of_pair(pair.epsilon, pair.delta)
    replaced = certificate.neighboring_relation == Relation.REPLACE_ONE
    return [*attacks(found, whose, Question(), replaced=replaced), basis(found, whose, certificate)]


def attacks(found: Risk, whose: str, asked: Question, *, replaced: bool) -> list[str]:
    """A sentence for each question. ``replaced``: neighbours differ in which of two records they hold."""
    accused, before, guessed = map(percent, asked)
    hits = percent(found.true_positive_rate(asked.false_positive_rate))
    first = f"one {whose} took part"
    told = f"accuses {accused} of the {whose}s that did not take part finds at most {hits} of those that did"
    if replaced:
        first = f"the first of two given {whose}s is in the data"
        told = f"takes the second of two given {whose}s for the first in {accused} of all cases recognises the first in"
    return [
        f"An attacker who {told}" + (f" at most {hits}." if replaced else ", on average."),
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
            total = stated(certificate.release.total_allowance or 0.0, 2)
            pair = f"samples verified, as it records: were it false, the probability of that would be at most {total}"
        rests = f"follow from the certificate's one pair of epsilon and delta, which {pair}"
    given = "everything ran as described" if certificate is None else "the assumptions of the statement hold"
    return (
        f"The attacker may have any computing power, see every output and know all other {whose}s. These bounds "
        f"{rests}. They hold if {given}."
    )


def latex_statement(certificate: Certificate) -> str:
    """Two sentences with their citations; what they assume follows as a comment."""
    assumed = "".join(f"% - {clause}\n" for clause in certificate.assumptions)
    cited = typeset(certificate.short_statement) + r"~\cite{evr,wang2023randomized}"
    return f"{cited}\n% This assumes that\n{assumed}"


def bibtex(certificate: Certificate) -> str:
    """BibTeX entries: the version of evr that made the certificate, and the paper."""
    software, year = certificate.software, certificate.times.finished[:4]
    note = f"  note = {{Commit {software.commit}}},\n" if software.commit else ""
    return (
        f"@software{{evr,\n  title = {{{TITLE}}},\n  author = {{{{The evr authors}}}},\n"
        f"  version = {{{software.evr}}},\n  year = {{{year}}},\n{note}  license = {{Apache-2.0}},\n}}\n{PAPER}"
    )


def typeset(text: str) -> str:
    r"""Plain text as LaTeX: Greek letters, powers of ten and pairs as mathematics, everything else escaped.

    >>> print(typeset("(1.14, 1e-5)-differentially private, with delta at most 2.5e-9 & 50%"))
    $(\varepsilon = 1.14, \delta = 10^{-5})$-differentially private, with $\delta$ at most
    $2.5 \times 10^{-9}$ \& 50\%
    """
    opened = re.sub(r'"(?=\w)', "``", text)
    return _MATHEMATICS.sub(_mathematics, opened.translate(_SPECIAL))


def _mathematics(found: re.Match[str]) -> str:
    if found["letter"]:
        return f"${_GREEK[found['letter']]}$"
    if found["number"]:
        return f"${latex(found['number'])}$"
    return rf"$(\varepsilon = {latex(found['epsilon'])}, \delta = {latex(found['delta'])})$"


def model_card(certificate: Certificate, max_seconds: float | None = None) -> str:
    """Metadata in YAML and prose in Markdown, to put at the top of a model's README on Hugging Face."""
    metadata = {
        "epsilon": certificate.claim.epsilon,
        "delta": certificate.claim.delta,
        "unit": unit(certificate),
        "neighbors": adjacency(certificate.relation),
        "method": METHOD_WORDS[certificate.verification.method].proof,
        "software": f"evr {certificate.software.evr}",
        "certificate": certificate.digest,
    }
    lines = "\n".join(f"  {key}: {json.dumps(value, ensure_ascii=False)}" for key, value in metadata.items())
    return _CARD.format(
        metadata=re.sub(r": (\d+)e", r": \1.0e", lines),  # YAML 1.1 takes 1e-05 for text, 1.0e-05 for a number
        statement=certificate.short_statement,
        meant="\n".join(f"- {one}" for one in meaning(certificate, max_seconds)),
        assumed="\n".join(f"- {one}" for one in certificate.assumptions),
        version=certificate.software.evr,
        digest=certificate.digest,
    )
