"""The short statement of a certificate as LaTeX, and what to cite."""

from __future__ import annotations

import re

from evr.certification.certificate import Certificate

BIBTEX = r"""
@software{evr,
  title = {evr: tight privacy accounting one can trust},
  author = {{The evr authors}},
  license = {Apache-2.0},
}

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

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}
_NUMBER = r"\d[\d.]*(?:e[+-]?\d+)?"
_PAIR_OR_NUMBER = re.compile(
    rf"\(({_NUMBER}), ({_NUMBER})\)(?=-differential)|(?<![\w.])(\d[\d.]*e[+-]?\d+)(?![\w])"
)


def statement(certificate: Certificate) -> str:
    """Two sentences with their citations; what they assume follows as a comment.

    >>> typeset("(1.14, 1e-5)-differentially private, but for 2.5e-9 & 50%")
    '$(1.14, 10^{-5})$-differentially private, but for $2.5 \\\\times 10^{-9}$ \\\\& 50\\\\%'
    """
    assumed = "".join(f"% - {clause}\n" for clause in certificate.assumptions)
    cited = typeset(certificate.short_statement) + r"~\cite{evr,wang2023randomized}"
    return f"{cited}\n% This assumes that\n{assumed}"


def typeset(text: str) -> str:
    """Plain text as LaTeX: powers of ten and pairs as mathematics, everything else escaped."""
    parts, last = [], 0
    for found in _PAIR_OR_NUMBER.finditer(text):
        parts.append(_escaped(text[last : found.start()]))
        epsilon, delta, alone = found.groups()
        parts.append(f"${_power(alone)}$" if alone else f"$({_power(epsilon)}, {_power(delta)})$")
        last = found.end()
    return "".join([*parts, _escaped(text[last:])])


def _escaped(text: str) -> str:
    return "".join(_SPECIAL.get(letter, letter) for letter in text)


def _power(number: str) -> str:
    mantissa, e, exponent = number.partition("e")
    if not e:
        return number
    power = f"10^{{{int(exponent)}}}"
    return power if mantissa == "1" else rf"{mantissa} \times {power}"
