"""Statements in two sentences, their LaTeX, and what a notebook shows."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from dp_accounting import dp_event

import evr
from evr._accounting import UpperBound
from evr._basics.numbers import above, scientific_above, stated
from evr._certificate.event_json import event_digest
from evr._kernel.verdict.results import Guarantee
from evr._wording import publishing
from evr._wording.statement import identified

ROOT = Path(__file__).parents[2]
PLAIN = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
EVENT = evr.dpsgd(noise_multiplier=2.0, sampling_probability=0.5, steps=2)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    ledger = tmp_path_factory.mktemp("words") / "ledger.sqlite"
    return {
        "accepted": evr.certify(EVENT, delta=1e-5, tau=0.8, seed=1, ledger=ledger),
        "rejected": evr.certify(EVENT, delta=1e-4, tau=0.99, seed=1, ledger=ledger, max_samples=1),
    }


def sentences(text: str) -> int:
    return len(re.findall(r"\.(?: [A-Z]|$)", text))


def test_two_sentences(certificates: dict[str, Any]) -> None:
    certificate = certificates["accepted"]
    short = certificate.short_statement
    assert sentences(short) == 2
    assert len(short.split()) < 70 < len(certificate.statement.split())
    assert short.startswith("DP-SGD (Poisson sampling with probability 0.5, 2 steps, noise multiplier ")
    assert f"is ({certificate.guarantee.epsilon!r}, 1e-5)-differentially private per example" in short
    assert stated(certificate.release.total_allowance, 2) in short
    for clause in certificate.assumptions:  # what is short leaves nothing out: the rest is the list
        assert clause in certificate.statement
    assert "not shuffled batches" in certificate.assumptions[0]
    assert certificate.assumptions[1].endswith("did not depend on the data, the number of records included")


@pytest.mark.parametrize("method", ["strict", "both"])
def test_of_a_proof_no_probability_is_stated(method: str, tmp_path: Path) -> None:
    event = evr.dpsgd(noise_multiplier=2.0, sampling_probability=1.0, steps=1)
    certificate = evr.certify(event, delta=1e-3, tau=0.8, method=method, ledger=tmp_path / "ledger.sqlite")
    short = certificate.short_statement
    assert sentences(short) == 2
    assert "proved in exact arithmetic" in short
    assert "probability" not in short


def test_a_rejection_states_no_guarantee(certificates: dict[str, Any]) -> None:
    short = certificates["rejected"].short_statement
    assert sentences(short) == 2
    assert short.startswith("It was not shown that")
    assert "no guarantee" in short


@pytest.mark.parametrize("name", ["accepted", "rejected"])
def test_reprs_are_short(certificates: dict[str, Any], name: str) -> None:
    certificate = certificates[name]
    assert len(repr(certificate)) < 200
    assert repr(certificate) == str(certificate)
    assert f"Certificate {name}" in repr(certificate)


def test_of_a_verification() -> None:
    verification = evr.verify(EVENT, epsilon=2.0, delta=0.0125, tau=0.8, seed=1)
    assert len(repr(verification)) < 200
    assert repr(verification).startswith(
        "<Verification accepted: epsilon=2.0, delta=0.0125, tau=0.8, method='sequential'"
    )


def test_latex(certificates: dict[str, Any]) -> None:
    text = publishing.latex_statement(certificates["accepted"])
    epsilon = certificates["accepted"].guarantee.epsilon
    assert rf"$(\varepsilon = {epsilon!r}, \delta = 10^{{-5}})$-differentially private" in text
    assert r"\cite{evr,wang2023randomized}" in text
    sentence, *comments = text.splitlines()
    assert all(line.startswith("% ") for line in comments)
    assert not re.search(r"(?<!\\)[%&#_]", sentence.split(r"~\cite")[0])


def test_latex_escapes() -> None:
    assert publishing.typeset("a_b 50% {x} \\") == r"a\_b 50\% \{x\} \textbackslash{}"
    assert publishing.typeset("at most 2.5e-09, 1e-5 of 1000") == r"at most $2.5 \times 10^{-9}$, $10^{-5}$ of 1000"


def test_bibtex_says_what_citation_cff_says(certificates: dict[str, Any]) -> None:
    bibtex = " ".join(publishing.bibtex(certificates["accepted"]).split())
    assert f"version = {{{evr.__version__}}}" in bibtex
    assert f"year = {{{certificates['accepted'].times.finished[:4]}}}" in bibtex
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    for title in re.findall(r'^ *(?:- )?(?:title|collection-title): "(.*)"$', citation, flags=re.M):
        assert f"= {{{title}}}" in bibtex
    families = re.findall(r"family-names: (.*)", citation)
    given = re.findall(r"given-names: (.*)", citation)
    assert " and ".join(f"{f}, {g}" for f, g in zip(families, given, strict=True)) in bibtex
    for year in re.findall(r"^ *year: (\d+)$", citation, flags=re.M):
        assert f"year = {{{year}}}" in bibtex


def test_statements_of_other_strategies_are_other_statements(tmp_path: Path) -> None:
    """What words leave out, the digest of the event in the certificate tells apart."""
    said = set()
    for last in (0.25, 0.24):
        event = evr.events.MatrixMechanismDpEvent(2.0, (1.0, *[0.5] * 12, last), 20, 20)
        certificate = evr.certify(event, delta=1e-5, ledger=tmp_path / f"{last}.sqlite")
        digest = hashlib.sha256(rfc8785.dumps(certificate.event)).hexdigest()
        for text in (certificate.statement, certificate.short_statement):
            assert f"apart, in full the event with SHA-256 {digest}, is (" in text
            said.add(text)
    assert len(said) == 4
    short = evr.events.MatrixMechanismDpEvent(2.0, (1.0, 0.5), 20, 20)
    assert identified(short).endswith("as given: 1, 0.5), each record at least 20 iterations apart")
    columns = evr.events.MatrixMechanismDpEvent(2.0, ((1.0, 0.5), (1.0,)), 2, 2)
    parts = dp_event.ComposedDpEvent([dp_event.GaussianDpEvent(x) for x in range(1, 8)])
    for event in (columns, parts, dp_event.SelfComposedDpEvent(parts, 2)):
        assert f"SHA-256 {event_digest(event)}," in identified(event)


@pytest.mark.parametrize("value", [0.41000049, 1.0000004e-9, 2.06049e-10, 3.0000001])
def test_what_is_promised_is_never_printed_smaller(value: float) -> None:
    guarantee = Guarantee(value, value / 10)
    epsilon, delta = re.findall(r"[\d.e+-]+(?=[,)])", str(guarantee))
    assert value <= float(epsilon) < value * 1.00001
    assert value / 10 <= float(delta) < value / 10 * 1.00001
    bound = UpperBound(value, "strict", "remove")
    html = re.search(r"<b>(.*)</b>", bound._repr_html_())
    assert html is not None
    for shown in (str(bound), f"{bound}", html[1], above(value, 6)):
        assert value <= float(shown) < value * 1.00001
    page = scientific_above(value).replace("\u00a0×\u00a010", "e").translate(PLAIN)
    assert value <= float(page) < value * 1.01
