"""A certificate for others to publish: sentences in LaTeX with what to cite, and a block for a model card."""

from __future__ import annotations

import json
import re
from typing import Any

from evr.certification.certificate import Certificate
from evr.certification.meaning import meaning
from evr.certification.words import METHOD_WORDS, unit
from evr.described import adjacency
from evr.numbers import latex

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

_SPECIAL = {letter: f"\\{letter}" for letter in "{}$&%#_"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    '"': "''",
}
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
  epsilon: {epsilon}
  delta: {delta}
  unit: {unit}
  neighbors: {neighbours}
  method: {method}
  software: {software}
  certificate: {digest}
---

## Differential privacy

{statement}

What this means:

{meant}

It is assumed that

{assumed}

To check it, install version {version} of `evr-dp` and run `evr replay` on the certificate, whose digest is {digest}.
"""


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
        f"  version = {{{software.evr}}},\n  year = {{{year}}},\n{note}"
        f"  license = {{Apache-2.0}},\n}}\n{PAPER}"
    )


def typeset(text: str) -> str:
    r"""Plain text as LaTeX: Greek letters, powers of ten and pairs as mathematics, everything else escaped.

    >>> print(typeset("(1.14, 1e-5)-differentially private, with delta at most 2.5e-9 & 50%"))
    $(\varepsilon = 1.14, \delta = 10^{-5})$-differentially private, with $\delta$ at most
    $2.5 \times 10^{-9}$ \& 50\%
    """
    opened = re.sub(r'"(?=\w)', "``", text)
    return _MATHEMATICS.sub(_mathematics, opened.translate(str.maketrans(_SPECIAL)))


def _mathematics(found: re.Match[str]) -> str:
    if found["letter"]:
        return f"${_GREEK[found['letter']]}$"
    if found["number"]:
        return f"${latex(found['number'])}$"
    return rf"$(\varepsilon = {latex(found['epsilon'])}, \delta = {latex(found['delta'])})$"


def model_card(certificate: Certificate) -> str:
    """Metadata in YAML and prose in Markdown, to put at the top of a model's README on Hugging Face."""
    metadata = {
        "epsilon": certificate.claim.epsilon,
        "delta": certificate.claim.delta,
        "unit": unit(certificate.document()),
        "neighbours": adjacency(certificate.neighboring_relation),
        "method": METHOD_WORDS[certificate.verification.method].proof,
        "software": f"evr {certificate.software.evr}",
        "digest": certificate.digest,
    }
    return _CARD.format(
        statement=certificate.short_statement,
        version=certificate.software.evr,
        meant="\n".join(f"- {one}" for one in meaning(certificate)),
        assumed="\n".join(f"- {one}" for one in certificate.assumptions),
        **{key: _scalar(value) for key, value in metadata.items()},
    )


def _scalar(value: Any) -> str:
    """A value as YAML, which reads JSON's strings; YAML 1.1 takes 1e-05 for text, and 1.0e-05 for a number.

    >>> _scalar(1e-05), _scalar(0.25), _scalar("a: b")
    ('1.0e-05', '0.25', '"a: b"')
    """
    text = json.dumps(value, ensure_ascii=False)
    return re.sub(r"^(\d+)e", r"\1.0e", text) if isinstance(value, float) else text
