"""Proof files: evr's integers come out of them, forgeries do not, and three checkers agree."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from dp_accounting import dp_event
from flint import ctx, fmpz

import evr
from evr._kernel.events import Composition
from evr._kernel.pairs import Step
from evr._kernel.pairs.exact import ExactBins, ExactCurve, ExactGaussian, ExactMixture, exact_sampled
from evr._kernel.pairs.exact.law import ball
from evr._kernel.pairs.nested import SampledSteps
from evr._kernel.strict import prove_within
from evr._plan.strict import StrictCurve
from evr._proof import check_proof
from evr._proof.laws import law_text
from evr._proof.writer import proof_file
from evr.errors import UnsupportedEventError
from evr.types import Direction
from helpers import answers, proof_script, together

PROOFS = Path(__file__).parents[2] / "proofs"
VECTORS = PROOFS / "vectors"
ANSWERS = json.loads((VECTORS / "answers.json").read_text())
SCRIPT = Path(check_proof.__file__)
NATIVE = PROOFS / "checker" / "check_proof"
CODES = {check_proof.PROVED: 0, check_proof.LISTED: 4, check_proof.REPLACED: 4, check_proof.REFUSED: 3}
CODES |= {check_proof.REFUTED: 5, check_proof.REFUTED_LISTED: 4, check_proof.REFUTED_REPLACED: 4}


def made(event, epsilon, tolerance=0.02):
    """A proof file, and evr's own proofs."""
    composition, proofs = Composition.of(event), {}
    for direction, steps in composition.exact_directions().items():
        plans = StrictCurve(steps).plans(epsilon, tolerance=tolerance)
        proofs[direction] = prove_within(steps, Fraction(epsilon), plans)
    delta = max(proof.delta for proof in proofs.values())
    chosen = {direction: proof.plan for direction, proof in proofs.items()}
    return proof_file(composition, Fraction(epsilon), delta, chosen), list(proofs.values())


def resealed(text):
    """A body with the SHA-256 that fits it."""
    return text.encode() + f"sha256 {hashlib.sha256(text.encode()).hexdigest()}\n".encode()


def said(lines):
    """What a checker printed, as the answers have it."""
    first, *rest = lines.strip().splitlines()
    rows = [line.split() for line in rest if not line.startswith("reason ")]
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
    if expected["status"] not in CODES:
        with pytest.raises(check_proof.NotReadError, match=f"^{expected['status']}: "):
            check_proof.check(data)
        return
    answer = check_proof.check(data)
    assert answer.word == expected["status"]
    units = ["-" if bound is None else str(bound) for bound in answer.bounds]
    assert units == [row[1] for row in expected["bounds"]]


def test_forged_vectors_are_refused_and_good_ones_are_not():
    words = {name: answer["status"] for name, answer in ANSWERS.items()}
    assert len(words) >= 140
    accepted = {check_proof.PROVED, check_proof.LISTED, check_proof.REPLACED}
    assert {words[name] for name in words if name.startswith("good-")} == accepted
    assert {words[name] for name in words if name.startswith("forged-")} == {check_proof.REFUSED}
    assert {words[name] for name in words if name.startswith("untrue-")} == {check_proof.LISTED}
    not_read = {"damaged", "unreadable", "too large", "not version 2"}
    assert {words[name] for name in words if name.startswith("damaged-")} == not_read


@pytest.mark.skipif(not shutil.which("node"), reason="needs node, which runs verifier.js")
@pytest.mark.parametrize("wide", ["", "20000"])
def test_vectors_in_javascript(wide):
    names = [name for name in ANSWERS if not wide or name.startswith("good-")][:: 3 if wide else 1]
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
    refutations = VECTORS / "refutations"
    told = {VECTORS / f"{name}.proof": answer for name, answer in ANSWERS.items()}
    known = json.loads((refutations / "answers.json").read_text())
    told |= {refutations / f"{name}.proof": answer for name, answer in known.items()}
    for path, expected in told.items():
        done = subprocess.run([NATIVE, path], capture_output=True, text=True, check=False)
        assert said(done.stdout) == expected, path
        assert done.returncode == CODES.get(expected["status"], 2)


@pytest.mark.full  # `make proofs` does the same
@pytest.mark.skipif(
    not all(map(shutil.which, ("coqc", "ocamlfind", "js_of_ocaml"))),
    reason="needs Coq, OCaml and js_of_ocaml: make proofs installs them",
)
def test_verifier_is_what_its_sources_make(tmp_path):
    shutil.copytree(PROOFS, tmp_path / "proofs")
    (tmp_path / "src/evr/_report").mkdir(parents=True)
    subprocess.run(["make", "-C", tmp_path / "proofs", "verifier"], check=True, capture_output=True)
    kept = PROOFS.parent / "src/evr/_report/verifier.js"
    assert (tmp_path / "src/evr/_report/verifier.js").read_bytes() == kept.read_bytes()


@pytest.mark.skipif(not shutil.which("node"), reason="needs node, which runs verifier.js")
def test_mutations_are_refused_or_give_the_right_integer():
    differ, tally = proof_script("compare").mutations(40, seed=2)
    assert not differ
    assert sum(tally.values()) == 40


def run(*arguments):
    command = [sys.executable, "-I", "-S", str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.full
@pytest.mark.skipif(not shutil.which("node") or not NATIVE.exists(), reason="needs node and make proofs")
def test_published_trainings_are_proved_by_every_checker(tmp_path):
    """`evr certify --proof` of each: three checkers find the same word and the same integers."""
    paths = []
    for spec in sorted((PROOFS.parent / "examples" / "published").glob("*_*.toml")):
        paths.append(tmp_path / f"{spec.stem}.proof")
        command = [sys.executable, "-m", "evr", "certify", str(spec), "--proof", str(paths[-1]), "--force"]
        output = ["--output", str(tmp_path / f"{spec.stem}.json"), "--ledger", str(tmp_path / "ledger.sqlite")]
        subprocess.run([*command, *output], capture_output=True, check=True)
    differ, tally = proof_script("compare").differing(paths)
    assert len(paths) >= 10
    assert (differ, tally) == ([], {check_proof.PROVED: len(paths)})
    assert [run(path).returncode for path in paths] == [0] * len(paths)


def test_the_command_says_what_it_knows_and_no_more(tmp_path):
    good = run(VECTORS / "good-poisson-7.proof")
    assert (good.returncode, "Answer: proved for DP-SGD." in good.stdout) == (0, True)
    assert "7 x poisson(0.3,gaussian(1.7))" in good.stdout
    assert "Not checked: that this is what ran." in good.stdout
    for name, word in (("good-laplace-10", check_proof.LISTED), ("good-gaussian-replace", check_proof.REPLACED)):
        held = run(VECTORS / f"{name}.proof")
        assert (held.returncode, f"Answer: {word}." in held.stdout) == (4, True)
        assert "Not checked: that the n" in held.stdout  # the numbers; the noise
        assert run("--listed", VECTORS / f"{name}.proof").returncode == 0
    forged = run("--listed", VECTORS / "forged-poisson-7-delta.proof")
    assert (forged.returncode, "This file proves nothing." in forged.stdout) == (3, True)
    damaged = run(VECTORS / "damaged-laplace-10-bit.proof")
    assert (damaged.returncode, "damaged" in damaged.stdout) == (2, True)
    assert "not version 2" in run(VECTORS / "damaged-laplace-10-version.proof").stdout
    assert run(tmp_path / "none").returncode == 2
    assert "check_proof.py training.proof" in run().stdout


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("noise", "delta of 100 x poisson(1/100,gaussian(109/100)) at epsilon 0.5 is at most"),
        ("rate", "delta of 100 x poisson(1/95,gaussian(11/10)) at epsilon 0.5 is at most"),
        ("epsilon", "delta of 100 x poisson(1/100,gaussian(11/10)) at epsilon 0.484375 is at most"),
        ("delta", "delta of 100 x poisson(1/100,gaussian(11/10)) at epsilon 0.5 is at most"),
        ("steps", "the file states 99 x poisson(1/100,gaussian(11/10)), and its plan is about 100"),
        ("relation", "poisson(1/100,gaussian(11/10)) is not a law for replace-one neighbours"),
        ("no-relation", "the relation 'none' is not one of add-or-remove, zero-out, replace-one"),
        ("listed", "the curve of poisson(1/100,gaussian(11/10)) has to be computed, not listed"),
        ("of-laplace", "the curve of laplace(3) has to be listed, not computed"),
        ("remove-as-both", "poisson(1/100,gaussian(11/10)) is not the same in both directions"),
        ("unreduced", "'22/20' is neither an integer nor a ratio of two in lowest terms"),
        ("rate-above-1", "poisson(11/10,gaussian(11/10)): the noise is not above 0, or the rate is above 1"),
        ("rate-0", "the curve of poisson(0,gaussian(11/10)) is not enclosed at place"),
    ],
)
def test_a_forgery_is_refused_by_name(name, reason):
    answer = check_proof.check((VECTORS / f"forged-own-{name}.proof").read_bytes())
    assert answer.word == check_proof.REFUSED
    assert reason in answer.reasons[0]


def test_a_relation_that_was_changed_is_refused(tmp_path):
    """A proof of add-or-remove was accepted as one of replace-one, where delta is 1e16 times as large."""
    event = evr.dpsgd(noise_multiplier=20.0, sampling_probability=0.01, steps=100)
    text = made(event, 0.05)[0][:-72].decode()
    forged = tmp_path / "forged.proof"
    forged.write_bytes(resealed(text.replace("relation add-or-remove", "relation replace-one", 1)))
    done = run("--listed", forged)
    assert (done.returncode, "not a law for replace-one neighbours" in done.stdout) == (3, True)


@pytest.mark.parametrize("offset", [10**49, -(10**49)])
def test_a_grid_that_is_far_from_epsilon_is_judged(tmp_path, offset):
    text = (VECTORS / "good-laplace-10.proof").read_bytes()[:-72].decode()
    far = tmp_path / "far.proof"
    far.write_bytes(resealed(re.sub(r"\ncurve \S+", f"\ncurve {offset}", text)))
    assert run(far).returncode in (2, 3, 4)


def test_what_is_proved_is_true_whatever_was_changed():
    """The law and epsilon of a file are changed at random, and the file is sealed again."""
    text = (VECTORS / "good-poisson-ratios.proof").read_bytes()[:-72].decode()
    draw, answers = random.Random(7), set()
    for _ in range(24):
        noise, q = Fraction(draw.randint(90, 150), 100), Fraction(draw.randint(1, 3), draw.randint(100, 400))
        epsilon = Fraction(draw.randint(20, 44), 64)
        forged = re.sub("(?m)^100 .*$", f"100 poisson({q},gaussian({noise}))", text)
        forged = re.sub("(?m)^epsilon .*$", f"epsilon {epsilon.numerator}/{epsilon.denominator}", forged)
        answer = check_proof.check(resealed(forged))
        answers.add(answer.word)
        if answer.word == check_proof.PROVED:
            event = evr.dpsgd(noise_multiplier=float(noise), sampling_probability=float(q), steps=100)
            assert evr.estimate_delta(event, float(epsilon)).value <= answer.file.delta * (1 + 1e-6)
    assert answers == {check_proof.PROVED, check_proof.REFUSED}


def test_curves_are_those_of_arb():
    """The checker's own numbers against evr's balls, far beyond where floats end."""
    cases = [
        (1.0, 0.4, 0.0),
        (1e-3, 0.6, 3.0),
        (0.01, 1.1, 12.5),
        (0.3, 10.0, -0.2),
        (1e-6, 2.0, 1e-5),
        (0.9, 0.2, 40.0),
        (0.004, 1.1, 14.56),  # at 386 bits, as a delta of 1e-100 takes, a rougher hint refused these two
        (0.004, 1.1, 14.57),
    ]
    for q, noise, loss in cases:
        law = f"poisson({Fraction(q)},gaussian({Fraction(noise)}))"
        off, den = Fraction(loss).as_integer_ratio()
        kind = check_proof.Kind("own", off, 0, [(0, 1), (0, 0), (0, 0)], 386, [], 0, [])
        section = check_proof.Section("remove", 50, den, 1, [kind], [], (0, 0))
        for up, direction in ((True, Direction.REMOVE), (False, Direction.ADD)):
            ((v, width),) = check_proof.own_values(section, kind, law, up)
            with ctx.workprec(1000):
                exact = exact_sampled(ExactGaussian(1 / Fraction(noise) ** 2), Fraction(q), direction)
                assert isinstance(exact, ExactCurve)
                value = exact.curve()(ball(Fraction(loss)).exp()) * fmpz(2) ** 386
                assert v <= value <= v + width, (law, loss, direction)


def test_the_limit_on_digits_is_what_it_was_before():
    """It was lifted for the whole process, so that other readers took integers of any length."""
    before = sys.get_int_max_str_digits()
    assert check_proof.main([str(VECTORS / "good-poisson-2.proof")]) == 0
    with pytest.raises(check_proof.NotReadError):
        check_proof.check(b"")
    assert sys.get_int_max_str_digits() == before


def test_enclosures_are_computed_again(capsys):
    pytest.importorskip("mpmath")
    enclosures = proof_script("enclosures")
    for name in ("good-poisson-response", "good-four-kinds", "good-truncated", "good-poisson-replace", "good-mixture"):
        assert enclosures.main([str(VECTORS / f"{name}.proof")]) == 0, name
    for name in ("untrue-laplace-10-noise", "untrue-poisson-laplace-noise", "untrue-poisson-laplace-both"):
        assert enclosures.main([str(VECTORS / f"{name}.proof")]) == 3, name
        assert "disagree" in capsys.readouterr().out


def test_a_mixture_of_one_gaussian_is_not_taken_for_the_other_side():
    mp = pytest.importorskip("mpmath").mp
    enclosures = proof_script("enclosures")
    law = enclosures.law_of("mixture(means(10),weights(1))")
    for add in (False, True):
        assert enclosures.curve_of(law, add=add)(mp.mpf(2)) > 0.99


def test_the_checker_needs_nothing_of_evr_and_no_new_python():
    text = SCRIPT.read_text()
    assert "import evr" not in text
    assert "from evr" not in text
    assert "match " not in text.replace("fullmatch ", "")


def test_a_proof_that_no_checker_would_take_is_refused(monkeypatch):
    monkeypatch.setattr(check_proof, "MOST_EFFORT", 1000)
    with pytest.raises(
        ValueError, match=r"a proof file of this is too large: .*: claim a little more, or leave the proof file out"
    ):
        made(evr.dpsgd(noise_multiplier=1.1, sampling_probability=0.01, steps=37), 0.25)


def test_laws_without_a_text_are_refused_by_name():
    assert law_text(ExactGaussian(Fraction(1, 4))) == "gaussian(2)"
    assert law_text(ExactGaussian(Fraction(2, 5))) == "gaussians(2/5)"
    assert law_text(ExactGaussian(1 / Fraction(1.1) ** 2)) == "gaussian(2476979795053773/2251799813685248)"
    with pytest.raises(
        UnsupportedEventError, match=r"balls in bins \(or random allocation\) cannot be stated in a proof file"
    ):
        law_text(ExactBins(Direction.REMOVE, 10, Fraction(1)))
    steps = (Step(ExactGaussian(Fraction(1)), 1),)
    with pytest.raises(UnsupportedEventError, match=r"^several mechanisms on one sample, or .* in a proof file"):
        law_text(SampledSteps(steps, Fraction(1, 2), Direction.REMOVE))


def test_a_file_states_where_the_gaussians_of_a_mixture_are(tmp_path, capsys):
    """It gave sizes without their unit: a mixture of noise 3 was stated as one of noise 1, whose delta is 0.0155."""
    event = dp_event.SampledWithReplacementDpEvent(100, 2, dp_event.GaussianDpEvent(3.0))
    data, _ = made(dp_event.SelfComposedDpEvent(event, 2), 0.5)
    assert b"2 mixture(means(0,2/3,4/3),weights(9801/10000,99/5000,1/10000))\n" in data
    (tmp_path / "file.proof").write_bytes(data)
    assert proof_script("enclosures").main([str(tmp_path / "file.proof")]) == 0, capsys.readouterr().out
    mixture = ExactMixture((Fraction(0), Fraction(1)), (Fraction(1, 2),) * 2, Direction.ADD, Fraction(2))
    with pytest.raises(UnsupportedEventError, match=r"irrational means cannot be stated in a proof file"):
        law_text(mixture)


def test_the_definitions_are_those_of_the_printed_theorems():
    """`make proofs` compares them too; this needs no Coq."""
    files = [PROOFS / "coq" / name for name in ("Training.v", "Statement.v")]
    digests = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in files]
    assert (PROOFS / "theorems.txt").read_text().splitlines()[:2] == digests


def test_pages_name_theorems_that_there_are():
    proved = "".join(path.read_text() for path in (PROOFS / "coq").glob("*.v"))
    page = (PROOFS.parent / "docs" / "guarantees_strict.md").read_text()
    named = re.findall(r"\[((?:[^\[\]()]*`[a-z_]+`[^\[\]()]*)+)\][*., ]", page)
    names = {name for group in named for name in re.findall("`([a-z_]+)`", group)}
    assert len(names) > 15
    kinds = "Lemma|Theorem|Definition|Fixpoint"
    assert not [name for name in names if not re.search(rf"({kinds}) {name}\b", proved)]
