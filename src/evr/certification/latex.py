"""The short statement of a certificate as LaTeX, and what to cite."""

from __future__ import annotations

import re

from evr.certification.certificate import Certificate
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
    rf"\(({_NUMBER}), ({_NUMBER})\)(?=-differential)"
    r"|(?<![\w.])(\d[\d.]*e[+-]?\d+)(?![\w])"
    r"|\b(epsilon|delta)\b"
)
_GREEK = {"epsilon": r"\varepsilon", "delta": r"\delta"}


def statement(certificate: Certificate) -> str:
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
    parts, last = [], 0
    for found in _MATHEMATICS.finditer(text):
        epsilon, delta, alone, letter = found.groups()
        if letter:
            mathematics = _GREEK[letter]
        elif alone:
            mathematics = latex(alone)
        else:
            mathematics = rf"(\varepsilon = {latex(epsilon)}, \delta = {latex(delta)})"
        parts += [_escaped(text[last : found.start()]), f"${mathematics}$"]
        last = found.end()
    return "".join([*parts, _escaped(text[last:])])


def _escaped(text: str) -> str:
    opened = re.sub(r'"(?=\w)', "``", text)
    return "".join(_SPECIAL.get(letter, letter) for letter in opened)
