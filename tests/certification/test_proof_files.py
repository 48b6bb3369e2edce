"""Proof files: evr's integers come out of them, forgeries do not, and three checkers agree."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from dp_accounting import dp_event

import evr
import messages
from evr.bounds.strict import prove_within
from evr.certification import check_proof
from evr.certification.proof_file import law_text, proof_file
from evr.errors import UnsupportedEventError
from evr.laws.exact import ExactBins, ExactGaussian
from evr.laws.law import Direction
from evr.mechanisms import Composition
from evr.planning.strict import StrictCurve
from helpers import answers, together

PROOFS = Path(__file__).parents[2] / "proofs"
VECTORS = PROOFS / "vectors"
ANSWERS = json.loads((VECTORS / "answers.json").read_text())
SCRIPT = Path(check_proof.__file__)
NATIVE = PROOFS / "checker" / "check_proof"


def made(event, epsilon, tolerance=0.02):
    """A proof file, and evr's own proofs."""
    composition, proofs = Composition.of(event), {}
    for direction, steps in composition.exact_directions().items():
        plans = StrictCurve(steps).plans(epsilon, tolerance=tolerance)
        proofs[direction] = prove_within(steps, Fraction(epsilon), plans)
    delta = max(proof.delta for proof in proofs.values())
    chosen = {direction: proof.plan for direction, proof in proofs.items()}
    return proof_file(composition, Fraction(epsilon), delta, chosen), list(proofs.values())


def said(lines):
    """What a checker printed, as the answers have it."""
    first, *rest = lines.strip().splitlines()
    rows = [line.split() for line in rest]
    return {"status": first, "bounds": [[mark, units, int(bits)] for mark, units, bits in rows]}


@pytest.mark.parametrize(
    "event",
    [
        evr.dpsgd(noise_multiplier=1.1, sampling_probability=0.01, steps=37),
        evr.dpsgd(noise_multiplier=1.1, sampling_probability=0.01, steps=1),
        dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(3.0), 6),
        together((answers(0.5, 3), 1), dp_event.GaussianDpEvent(4.0)),
    ],
)
def test_the_checker_finds_evrs_integers(event):
    data, proofs = made(event, 0.25)
    answer = check_proof.check(data)
    assert answer.accepted
    bounds = zip(answer.file.sections, answer.bounds, strict=True)
    assert [Fraction(units, 1 << 2 * one.bits) for one, units in bounds] == [p.delta for p in proofs]
    assert made(event, 0.25)[0] == data  # bit for bit


def test_a_sum_that_stays_within_epsilon_has_a_proof_of_zero():
    data, _ = made(dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(10.0), 1000), 100.0)
    answer = check_proof.check(data)
    assert answer.accepted
    assert answer.file.delta == 0


@pytest.mark.parametrize("name", ANSWERS)
def test_vectors_in_python(name):
    data = (VECTORS / f"{name}.proof").read_bytes()
    expected = ANSWERS[name]
    if expected["status"] not in ("accepted", "refused"):
        with pytest.raises(check_proof.NotReadError, match=messages.status(expected["status"])):
            check_proof.check(data)
        return
    answer = check_proof.check(data)
    assert answer.accepted == (expected["status"] == "accepted")
    units = ["-" if bound is None else str(bound) for bound in answer.bounds]
    assert units == [row[1] for row in expected["bounds"]]


def test_forged_vectors_are_refused_and_good_ones_accepted():
    told = {name: answer["status"] for name, answer in ANSWERS.items()}
    assert len(told) == 100
    assert all(told[name] == "accepted" for name in told if name.startswith("good-"))
    assert all(told[name] == "refused" for name in told if name.startswith("forged-"))
    not_read = {"damaged", "unreadable", "too large"}
    assert all(told[name] in not_read for name in told if name.startswith("damaged-"))


@pytest.mark.skipif(not shutil.which("node"), reason="needs node, which runs verifier.js")
@pytest.mark.parametrize("wide", ["", "20000"])
def test_vectors_in_javascript(wide):
    names = [name for name in ANSWERS if not wide or name.startswith("good-")]
    files = [str(VECTORS / f"{name}.proof") for name in names]
    done = subprocess.run(
        ["node", str(PROOFS / "checker" / "check_proof.js"), *files],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "WIDE": wide},
    )
    found = [said(part.partition("\n")[2]) for part in done.stdout.split("== ")[1:]]
    assert found == [ANSWERS[name] for name in names]


@pytest.mark.skipif(not NATIVE.exists(), reason="needs the native checker: make proofs")
def test_vectors_natively():
    for name, expected in ANSWERS.items():
        path = VECTORS / f"{name}.proof"
        done = subprocess.run([NATIVE, path], capture_output=True, text=True, check=False)
        assert said(done.stdout) == expected, name
        codes = {"accepted": 0, "refused": 3}
        assert done.returncode == codes.get(expected["status"], 2)


@pytest.mark.full  # `make proofs` does the same
@pytest.mark.skipif(
    not all(map(shutil.which, ("coqc", "ocamlfind", "js_of_ocaml"))),
    reason="needs Coq, OCaml and js_of_ocaml: make proofs installs them",
)
def test_verifier_is_what_its_sources_make(tmp_path):
    shutil.copytree(PROOFS, tmp_path / "proofs")
    (tmp_path / "src/evr/report").mkdir(parents=True)
    subprocess.run(["make", "-C", tmp_path / "proofs", "verifier"], check=True, capture_output=True)
    kept = PROOFS.parent / "src/evr/report/verifier.js"
    assert (tmp_path / "src/evr/report/verifier.js").read_bytes() == kept.read_bytes()


@pytest.mark.skipif(not shutil.which("node"), reason="needs node, which runs verifier.js")
def test_mutations_are_refused_or_give_the_right_integer():
    sys.path.insert(0, str(PROOFS))
    try:
        import compare  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)
    differ, tally = compare.mutations(40, seed=2)
    assert not differ
    assert sum(tally.values()) == 40


def run(*arguments):
    command = [sys.executable, "-I", str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_says_what_it_knows_and_no_more(tmp_path):
    good = run(VECTORS / "good-poisson-7.proof")
    assert good.returncode == 0
    assert "7 x poisson(0.3,gaussian(1.7))" in good.stdout
    assert "provided that the listed numbers enclose the privacy curve of one step" in good.stdout
    forged = run(VECTORS / "forged-poisson-7-delta.proof")
    assert (forged.returncode, "REFUSED" in forged.stdout) == (3, True)
    damaged = run(VECTORS / "damaged-laplace-10-bit.proof")
    assert (damaged.returncode, "damaged" in damaged.stdout) == (2, True)
    assert run(tmp_path / "none").returncode == 2
    assert "check_proof.py training.proof" in run().stdout


def test_the_limit_on_digits_is_what_it_was_before():
    """It was lifted for the whole process, so that other readers took integers of any length."""
    before = sys.get_int_max_str_digits()
    assert check_proof.main([str(VECTORS / "good-truncated.proof")]) == 0
    with pytest.raises(check_proof.NotReadError):
        check_proof.check(b"")
    assert sys.get_int_max_str_digits() == before


def test_enclosures_are_computed_again(capsys):
    pytest.importorskip("mpmath")
    for name in ("good-poisson-response", "good-poisson-7", "good-truncated", "good-poisson-replace", "good-mixture"):
        assert check_proof.main(["--enclosures", str(VECTORS / f"{name}.proof")]) == 0, name
    for name in ("untrue-poisson-7-noise", "untrue-poisson-one-noise"):
        assert check_proof.main(["--enclosures", str(VECTORS / f"{name}.proof")]) == 3, name
        assert "disagree" in capsys.readouterr().out


def test_a_mixture_of_one_gaussian_is_not_taken_for_the_other_side():
    mp = pytest.importorskip("mpmath").mp
    law = check_proof.law_of("mixture(sizes(10),weights(1))")
    for add in (False, True):
        assert check_proof.curve_of(mp, law, add)(mp.mpf(2)) > 0.99


def test_the_checker_needs_nothing_of_evr_and_no_new_python():
    text = SCRIPT.read_text()
    assert "import evr" not in text
    assert "from evr" not in text
    assert "match " not in text.replace("fullmatch ", "")


def test_laws_without_a_text_are_refused_by_name():
    assert law_text(ExactGaussian(Fraction(1, 4))) == "gaussian(2)"
    with pytest.raises(UnsupportedEventError, match=messages.NO_TEXT):
        law_text(ExactBins(Direction.REMOVE, 10, Fraction(1)))


def test_pages_name_theorems_that_there_are():
    proved = "".join(path.read_text() for path in (PROOFS / "coq").glob("*.v"))
    page = (PROOFS.parent / "docs" / "guarantees_strict.md").read_text()
    named = re.findall(r"\[((?:[^\[\]()]*`[a-z_]+`[^\[\]()]*)+)\][*., ]", page)
    names = {name for group in named for name in re.findall("`([a-z_]+)`", group)}
    assert len(names) > 15
    kinds = "Lemma|Theorem|Definition|Fixpoint"
    assert not [name for name in names if not re.search(rf"({kinds}) {name}\b", proved)]
