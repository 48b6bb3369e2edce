"""``evr show``: in words, as a page, as LaTeX; and ``evr certify --report``."""

from __future__ import annotations

import sys

import pytest

SMALL = ["--noise-multiplier", 1, "--sampling-probability", 1e-3, "--steps", 20]
SMALL += ["--epsilon", 0.5, "--tau", 0.5, "--seed", 1]

SEARCH = """
[[mechanism]]
kind = "dpsgd"
noise_multiplier = 5.0
sampling_probability = 0.01
steps = 10

[tuning]
mean = 2
"""


@pytest.fixture
def certified(evr, tmp_path):
    file = tmp_path / "run.certificate.json"
    ran = evr("certify", *SMALL, "--ledger", tmp_path / "ledger.sqlite", "-o", file, "-q")
    assert ran.code == 0, ran.err
    return file


def test_a_page(evr, certified, tmp_path):
    page = tmp_path / "page.html"
    ran = evr("show", certified, "--html", page)
    assert (ran.code, ran.out, ran.err) == (0, "", f"wrote {page}\n")
    assert page.read_text("utf-8").startswith("<!doctype html>")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_page_names_a_file_whose_name_is_no_text(evr, certified, tmp_path):
    page, odd = tmp_path / "page.html", certified.rename(tmp_path / "\udcff.json")
    assert evr("show", odd, "--html", page).code == 0
    assert r"\udcff.json" in page.read_text("utf-8")


def test_certify_writes_the_page_too(evr, tmp_path):
    page = tmp_path / "page.html"
    files = ["--ledger", tmp_path / "l.sqlite", "-o", tmp_path / "c.json", "--report", page]
    ran = evr("certify", *SMALL, *files)
    assert ran.code == 0
    assert f"wrote {page}" in ran.err
    assert "differentially private" in page.read_text("utf-8")


def test_bad_input(evr, refused, certified, tmp_path):
    assert "cannot be read" in refused("show", tmp_path / "nothing.json")
    broken = tmp_path / "broken.json"
    broken.write_text(certified.read_text()[:200])
    assert "not valid JSON" in refused("show", broken)
    altered = tmp_path / "altered.json"
    altered.write_text(certified.read_text().replace('"accepted"', '"rejected"', 1))
    assert "altered" in refused("show", altered, "--html", tmp_path / "page.html")
    assert "does not exist" in refused("certify", *SMALL, "--report", tmp_path / "no" / "page.html")
    for wrong, words in (
        (tmp_path / "no" / "page.html", "does not exist"),
        (certified, "is read, too"),
        (tmp_path, "is a folder"),
    ):
        assert words in refused("show", certified, "--html", wrong)
    assert "give one of them" in refused("show", certified, "--json", "--latex")
    page, checker = tmp_path / "page.html", tmp_path / "check_proof.py"
    assert "too: name another file" in refused("show", certified, "--html", page, "--proof", page)
    strict = ["certify", "--noise-multiplier", 4, "--sampling-probability", 0.01, "--steps", 10, "--delta", 1e-6]
    assert "is the checker, which is written beside it" in refused(*strict, "--proof", checker)
    evr(*strict, "--output", tmp_path / "strict.json")
    assert "is the checker, which is written beside it" in refused("show", tmp_path / "strict.json", "--proof", checker)
    assert not checker.exists()


def test_interrupted(evr, certified, monkeypatch, tmp_path):
    from evr._report import page

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(page, "render", interrupt)
    ran = evr("show", certified, "--html", tmp_path / "page.html")
    assert ran.code == 130
    assert not (tmp_path / "page.html").exists()


def test_a_proof_file_comes_out_the_same(evr, refused, certified, tmp_path):
    one, other = tmp_path / "one" / "a.proof", tmp_path / "other" / "a.proof"
    for path in (one, other):
        path.parent.mkdir()
    strict = [*SMALL[:6], "--epsilon", 0.5, "--ledger", tmp_path / "l.sqlite"]
    ran = evr("certify", *strict, "-o", tmp_path / "c.json", "--proof", one)
    assert (ran.code, f"wrote {one}" in ran.err) == (0, True)
    assert f"{one}: proved for DP-SGD\n" in ran.err
    ran = evr("show", tmp_path / "c.json", "--proof", other)
    assert (ran.code, ran.out) == (0, "")
    assert f"{other}: proved for DP-SGD\n" in ran.err
    assert one.read_bytes() == other.read_bytes()
    assert other.with_name("check_proof.py").read_text().startswith("#!/usr/bin/env python3")
    assert "exact arithmetic" in refused("show", certified, "--proof", other)
    sampled = ["--ledger", tmp_path / "l.sqlite", "--proof", other]
    assert "draws samples" in refused("certify", *SMALL, *sampled)


def test_what_no_proof_file_can_state_is_said_in_words(refused, tmp_path):
    spec = tmp_path / "search.toml"
    spec.write_text(SEARCH)
    asked = ["--delta", 1e-6, "--ledger", tmp_path / "l.sqlite", "--proof", tmp_path / "s.proof", "-q"]
    why = refused("certify", spec, *asked)
    assert "a selection of the best of several runs cannot be stated in a proof file" in why
    assert "evr replay" in why
