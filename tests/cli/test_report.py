"""``evr report``, and ``evr certify --report``."""

from __future__ import annotations

import pytest

SMALL = [
    "--noise-multiplier",
    1,
    "--sampling-probability",
    1e-3,
    "--steps",
    20,
    "--epsilon",
    0.5,
    "--tau",
    0.5,
    "--seed",
    1,
]


@pytest.fixture
def certified(evr, tmp_path):
    file = tmp_path / "run.certificate.json"
    ran = evr("certify", *SMALL, "--ledger", tmp_path / "ledger.sqlite", "-o", file, "-q")
    assert ran.code == 0, ran.err
    return file


def test_the_page_lies_beside_its_certificate(evr, certified):
    ran = evr("report", certified)
    page = certified.with_name("run.report.html")
    assert (ran.code, ran.out) == (0, f"report: {page}\n")
    assert page.read_text("utf-8").startswith("<!doctype html>")


def test_output_quiet_and_json(evr, certified, tmp_path):
    page = tmp_path / "other.html"
    assert evr("report", certified, "-o", page, "-q").out == f"{page}\n"
    said = evr("report", certified, "--output", page, "--json").json
    assert said == {"report": str(page), "certificate": str(certified), "verdict": "accepted"}


def test_certify_writes_the_page_too(evr, tmp_path):
    page = tmp_path / "page.html"
    ran = evr(
        "certify",
        *SMALL,
        "--ledger",
        tmp_path / "l.sqlite",
        "-o",
        tmp_path / "c.json",
        "--report",
        page,
    )
    assert ran.code == 0
    assert f"wrote {page}" in ran.err
    assert "differentially private" in page.read_text("utf-8")


def test_bad_input(refused, certified, tmp_path):
    assert "cannot be read" in refused("report", tmp_path / "nothing.json")
    broken = tmp_path / "broken.json"
    broken.write_text(certified.read_text()[:200])
    assert "not valid JSON" in refused("report", broken)
    altered = tmp_path / "altered.json"
    altered.write_text(certified.read_text().replace('"accepted"', '"rejected"', 1))
    assert "altered" in refused("report", altered)
    assert "does not exist" in refused("certify", *SMALL, "--report", tmp_path / "no" / "page.html")
    assert "does not exist" in refused("report", certified, "-o", tmp_path / "no" / "page.html")


def test_interrupted(evr, certified, monkeypatch):
    from evr.report import page

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(page, "render", interrupt)
    ran = evr("report", certified)
    assert ran.code == 130
    assert not certified.with_name("run.report.html").exists()
