"""The checker on pages: a button on the report, and a page of its own."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

import evr
from browser import BROWSERS
from evr._report.page import render

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "proofs" / "vectors"
GROUND = "getComputedStyle(document.querySelector('.check-words')).backgroundColor"


def test_the_page_of_its_own_is_made_of_its_parts():
    sys.path.insert(0, str(ROOT / "proofs"))
    try:
        import make_page  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)
    assert make_page.PAGE.read_text() == make_page.page()


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """A certificate, and its proof file with the checker beside it."""
    folder = tmp_path_factory.mktemp("certified")
    event = evr.dpsgd(noise_multiplier=1.1, sampling_probability=0.01, steps=20)
    certificate = evr.certify(event, epsilon=0.5, ledger=folder / "ledger.sqlite", proof=folder / "training.proof")
    return certificate, folder / "training.proof"


def test_a_certificate_carries_the_digest_of_its_proof(certified):
    certificate, path = certified
    assert path.read_text().endswith(f"\nsha256 {certificate.proof}\n")
    assert path.with_name("check_proof.py").exists()
    assert evr.replay(certificate).agrees
    altered = certificate.model_copy(update={"proof": "0" * 64})
    assert [one.field for one in evr.replay(altered).mismatches] == ["proof"]


def test_a_page_without_a_proof_has_no_button(certified):
    certificate, path = certified
    assert "Check this proof" not in render(certificate)
    page = render(certificate, proof=path.read_bytes())
    assert path.read_text() in page  # as it is: nothing in it is markup
    assert page.count("</script>") == 3


@pytest.mark.parametrize("kind", BROWSERS)
def test_the_button_of_the_report(tmp_path, certified, kind):
    certificate, path = certified
    page = tmp_path / "page.html"
    page.write_text(render(certificate, proof=path.read_bytes()), encoding="utf-8")
    with kind(tmp_path, 390, 844) as browser:
        browser.open(page)
        browser.run("document.querySelector('.check-run').click()")
        browser.wait_for("document.getElementById('proof-check').dataset.status")
        said = browser.run("document.querySelector('.check-words').innerText")
        assert said.startswith("Proved for DP-SGD: at epsilon = 0.5, delta is at most 7.7")
        assert "Of this mechanism (neighbours: add-or-remove)" in said
        assert browser.run(GROUND) == "rgb(229, 243, 236)"  # green
        assert browser.run("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("kind", BROWSERS)
def test_the_page_of_its_own(tmp_path, kind):
    green, red, none = "rgb(229, 243, 236)", "rgb(250, 233, 231)", "rgba(0, 0, 0, 0)"
    wanted = {"good-poisson-7": ("proved", green), "forged-poisson-7-delta": ("refused", red)}
    wanted |= {"good-laplace-10": ("listed", none), "damaged-laplace-10-bit": ("damaged", red)}
    wanted |= {"damaged-laplace-10-huge-cells": ("too large", red)}
    with kind(tmp_path) as browser:
        for name, (status, colour) in wanted.items():
            path = Path(shutil.copy(VECTORS / f"{name}.proof", tmp_path))
            browser.open(ROOT / "docs" / "check_proof.html")
            browser.choose("#file", path)
            browser.wait_for("document.getElementById('panel').dataset.status")  # it starts by itself
            assert browser.run("document.getElementById('panel').dataset.status") == status
            assert browser.run(GROUND) == colour
            said = browser.run("document.querySelector('.check-words').innerText")
            assert said.startswith("Not checked") != ("Checked in" in said)
