"""Files of refutations: what is accepted is true, forgeries are refused, and no script takes one for a proof."""

from __future__ import annotations

import itertools
import json
import random
import re
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath as mp
import pytest
from dp_accounting import dp_event

import evr
from evr._kernel.events import Composition
from evr._kernel.strict.lower import bounds_below
from evr._plan.directions import strict_delta_below
from evr._proof import check_proof, listing, writer
from evr.types import Direction
from helpers import full, proof_script
from kernel.strict.stress import Case, random_case
from kernel.strict.test_lower import fine_case

SCRIPT = Path(check_proof.__file__)
VECTORS = Path(__file__).parents[2] / "proofs" / "vectors" / "refutations"
ANSWERS = json.loads((VECTORS / "answers.json").read_text())
Repeated, Gaussian, Laplace = dp_event.SelfComposedDpEvent, dp_event.GaussianDpEvent, dp_event.LaplaceDpEvent


def refuting(
    event: Any, epsilon: float, share: float = 0.999, relation: str = "add-or-remove"
) -> tuple[bytes, Fraction]:
    """A file that refutes a share of evr's lower bound, and that bound."""
    composition = Composition.of(event, relation)
    (bound, plan), direction = strict_delta_below(composition, epsilon, None, 5e-4)
    assert plan is not None
    return writer.refutation_file(composition, Fraction(epsilon), bound * Fraction(share), direction, plan), bound


def shown_by(answer: check_proof.Answer) -> Fraction:
    (units,), (section,) = answer.bounds, answer.file.sections
    return Fraction(units or 0, 1 << 2 * section.bits)


DPSGD = evr.dpsgd(noise_multiplier=1.1, sampling_probability=0.01, steps=37)
CLAIMS = [
    (DPSGD, 0.25, "add-or-remove", check_proof.REFUTED),
    (DPSGD, 0.25, "zero-out", check_proof.REFUTED),
    (Gaussian(2.0), 1.0, "add-or-remove", check_proof.REFUTED),
    (dp_event.PoissonSampledDpEvent(0.2, Gaussian(1.3)), 0.7, "add-or-remove", check_proof.REFUTED),
    (Repeated(Gaussian(3.0), 2), 0.5, "add-or-remove", check_proof.REFUTED),
    (Repeated(Gaussian(10.0), 5), 1.0, "replace-one", check_proof.REFUTED_REPLACED),
    (Repeated(Laplace(3.0), 6), 1.0, "add-or-remove", check_proof.REFUTED_LISTED),
    (dp_event.ComposedDpEvent([DPSGD, Laplace(5.0)]), 0.5, "add-or-remove", check_proof.REFUTED_LISTED),
    (Repeated(dp_event.RandomizedResponseDpEvent(0.5, 3), 4), 1.0, "replace-one", check_proof.REFUTED_LISTED),
    (Repeated(evr.events.EpsilonDeltaDpEvent(0.125, 1e-6), 20), 1.0, "add-or-remove", check_proof.REFUTED_LISTED),
]


@pytest.mark.parametrize(("event", "epsilon", "relation", "word"), CLAIMS)
def test_the_checker_finds_evrs_bound(event, epsilon, relation, word):
    data, bound = refuting(event, epsilon, relation=relation)
    answer = check_proof.check(data)
    assert answer.word == word
    assert bound * (1 - Fraction(1, 10**5)) <= shown_by(answer)
    estimate = evr.estimate_delta(event, epsilon, neighboring_relation=relation)
    assert answer.file.delta < shown_by(answer) <= Fraction(estimate.value + estimate.error)
    assert refuting(event, epsilon, relation=relation)[0] == data  # bit for bit


@pytest.mark.parametrize("seed", [*range(6), *(full(seed) for seed in range(6, 60))])
def test_trainings_drawn_at_random(seed):
    rng = random.Random(seed)
    noise, q, steps = rng.uniform(0.5, 4), 10 ** rng.uniform(-4, -0.3), int(10 ** rng.uniform(0, 3))
    event = evr.dpsgd(noise_multiplier=noise, sampling_probability=q, steps=steps)
    epsilon = evr.estimate_epsilon(event, 10 ** rng.uniform(-14, -2)).value
    answer = check_proof.check(refuting(event, epsilon)[0])
    estimate = evr.estimate_delta(event, epsilon)
    assert answer.word == check_proof.REFUTED
    assert 0.9994 * estimate.value <= shown_by(answer) <= estimate.value + estimate.error


# --- arithmetic -----------------------------------------------------------------------------------


def bound_of(case: Case, checker: Any = check_proof) -> Fraction:
    """What the checker finds of listed chances, under any plan."""
    plan, laws = case.plan, [f"laplace({k + 1})" for k in range(len(case.steps))]
    den = writer._denominator(plan.spacing, case.epsilon, plan.grids)
    kinds = (
        writer._scores(step.exact_law, listing.Places.of(grid, plan.spacing, den), grid, plan.bits)
        for step, grid in zip(case.steps, plan.grids, strict=True)
    )
    epsilon, section = case.epsilon, f"grid {plan.bits} {den} {int(plan.spacing * den)}"
    lines = [
        f"evr-refutation 2\nrelation add-or-remove\nepsilon {epsilon.numerator}/{epsilon.denominator}\ndelta 0/1",
        f"steps {len(laws)}",
        *(f"{step.count} {law}" for step, law in zip(case.steps, laws, strict=True)),
        "directions 1\ndirection remove",
        *writer._section(case.steps, section, kinds, plan),
        "end\n",
    ]
    file = checker.Words("\n".join(lines).encode()).file()
    return Fraction(checker.bound(file, file.sections[0]), 1 << 2 * plan.bits)


def violations(cases: range, *makers: Callable[[int], Case], checker: Any = check_proof) -> Iterator[int]:
    """The cases whose bound is above the truth."""
    for make, seed in itertools.product(makers, cases):
        case = make(seed)
        with mp.workdps(60):
            found = bound_of(case, checker)
            if mp.mpf(found.numerator) / found.denominator > case.truth() + mp.mpf(10) ** -50:
                yield seed


@pytest.mark.parametrize("cases", [100, full(1000)])
def test_never_above_the_truth_under_any_plan(cases):
    assert list(violations(range(cases), random_case, fine_case)) == []


def test_the_arithmetic_is_that_of_evr():
    """Up to the rounding of powers of e."""
    for case in map(fine_case, range(40)):
        own = bounds_below(case.steps, case.plan, case.epsilon, case.epsilon)(case.epsilon)
        assert abs(bound_of(case) - own) <= Fraction(2000, 1 << case.plan.bits)


FAULTS = {
    "q is rounded down": ("super().rounded(coef) if self.of_q else [", "["),
    "p is rounded up": ("else [z >> self.bits for z in coef]", "else super().rounded(coef)"),
    "infinite masses are added": ("a + b - ceiling(a * b, self.unit)", "a + b"),
    "coarsening has no weights": ("weights = self.shares(a, b)", "weights = [self.q] * size"),
    "q is given up above the top": (
        "return plus(under(inside, top + 1), Masses(top, [kept])), 0",
        "return plus(under(inside, top + 1), Masses(top, [0 if self.of_q else kept])), 0",
    ),
    "the last sum begins a place off": (
        "offset - eps + start * self.spacing,",
        "offset - eps + (start + 1) * self.spacing,",
    ),
    "the last sum takes all of p": ("mass - ceiling(factor * other, self.q)", "mass"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault):
    source, (right, wrong) = SCRIPT.read_text(), FAULTS[fault]
    assert source.count(right) == 1
    module = types.ModuleType("faulty")
    sys.modules["faulty"] = module
    try:
        exec(compile(source.replace(right, wrong), "faulty", "exec"), module.__dict__)
        assert next(violations(range(400), fine_case, random_case, checker=module), None) is not None
    finally:
        del sys.modules["faulty"]


def test_chances_are_those_of_arb():
    """The checker's own numbers against evr's balls, far beyond where floats end."""
    for noise, q, bits in ((1.1, 0.01, 60), (0.3, 1e-4, 120), (2.0, 1.0, 300), (0.6, 0.5, 700)):
        law = f"poisson({Fraction(q)},gaussian({Fraction(noise)}))"
        thresholds = [(t, 3) for t in range(-40, 90, 10)]
        kind = check_proof.Kind("tests", 0, 0, [(0, len(thresholds) + 1), (0, 0), (0, 0)], bits, thresholds, 0, [])
        section = check_proof.Section("remove", 50, 4, 1, [kind], [], (0, 0))
        for up in (True, False):
            found = check_proof.own_scores(section, kind, law, up)
            with mp.workdps(400):
                mean = (1 if up else -1) / mp.mpf(noise)
                edges = [mp.inf, *(-mp.mpf(t) / 8 for t, _ in thresholds), -mp.inf]
                tails = [mp.mpf(1), *(mp.erfc(-x / mp.sqrt(2)) / 2 for x in edges[1:-1]), mp.mpf(0)]
                moved = [mp.mpf(1), *(mp.erfc(-(x + mean) / mp.sqrt(2)) / 2 for x in edges[1:-1]), mp.mpf(0)]
                mixed = [(1 - mp.mpf(q)) * a + mp.mpf(q) * b for a, b in zip(tails, moved, strict=True)]
                one, other = (mixed, tails) if up else (tails, mixed)
                for j, (p, q_) in enumerate(found):
                    exact_p = (one[j] - one[j + 1]) * mp.mpf(2) ** bits
                    exact_q = (other[j] - other[j + 1]) * mp.exp(mp.mpf(j) / 4) * mp.mpf(2) ** bits
                    assert exact_p - 2 <= p <= exact_p, (law, up, j)
                    assert exact_q <= q_ <= exact_q + 2, (law, up, j)


# --- forgeries ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ANSWERS)
def test_vectors(name):
    assert proof_script("make_vectors").answer_of((VECTORS / f"{name}.proof").read_bytes()) == ANSWERS[name]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("noise", "delta of 100 x poisson(1/100,gaussian(111/100)) at epsilon 0.5 is shown to be at least"),
        ("rate", "delta of 100 x poisson(1/105,gaussian(11/10)) at epsilon 0.5 is shown to be at least"),
        ("epsilon", "delta of 100 x poisson(1/100,gaussian(11/10)) at epsilon 0.515625 is shown to be at least"),
        ("delta", "which does not exceed the stated"),
        ("steps", "the file states 99 x poisson(1/100,gaussian(11/10)), and its plan is about 100"),
        ("relation", "poisson(1/100,gaussian(11/10)) is not a law for replace-one neighbours"),
        ("listed", "the curve of poisson(1/100,gaussian(11/10)) has to be computed, not listed"),
        ("of-laplace", "the curve of laplace(3) has to be listed, not computed"),
        ("both", "a refutation holds one direction"),
        ("falling", "the thresholds of poisson(1/100,gaussian(11/10)) fall"),
    ],
)
def test_a_forgery_is_refused_by_name(name, reason):
    answer = check_proof.check((VECTORS / f"forged-{name}.proof").read_bytes())
    assert answer.word == check_proof.REFUSED
    assert reason in answer.reasons[0]


def test_what_is_refuted_is_false_whatever_was_changed():
    """The words of a file are changed at random, and the file is sealed again."""
    mutated, draw = proof_script("compare").mutated, random.Random(5)
    data, tally = (VECTORS / "good-poisson-100.proof").read_bytes(), dict.fromkeys((check_proof.REFUTED, "else"), 0)
    for _ in range(60):
        try:
            answer = check_proof.check(mutated(data, draw))
        except check_proof.NotReadError:
            continue
        if answer.word != check_proof.REFUTED:
            tally["else"] += 1
            continue
        (count, law), epsilon = answer.file.steps[0], float(answer.file.epsilon)
        own = check_proof.read_law(law)
        assert own is not None
        event = evr.dpsgd(
            noise_multiplier=own.noise[0] / own.noise[1], sampling_probability=own.rate[0] / own.rate[1], steps=count
        )
        direction = Direction(answer.file.sections[0].mark).value
        assert evr.estimate_delta(event, epsilon, direction=direction).value * (1 + 1e-6) >= shown_by(answer)
        tally[check_proof.REFUTED] += 1
    assert min(tally.values()) > 3


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-S", str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_no_script_takes_a_refutation_for_a_proof():
    own, listed = VECTORS / "good-poisson-100.proof", VECTORS / "good-laplace-10.proof"
    assert (run(own).returncode, run("--listed", own).returncode) == (5, 5)
    assert (run(listed).returncode, run("--listed", listed).returncode) == (4, 5)
    assert run("--listed", VECTORS / "forged-delta.proof").returncode == 3
    said = run(own).stdout
    for words in (
        "delta is greater than",
        "Answer: refuted for DP-SGD.",
        "It says nothing about one training. Coq has proved that the laws of the steps have this delta",
        "that a\ntraining attains them is proved on paper",
    ):
        assert words in said
    assert "at most" not in said


def test_words_of_one_kind_of_file_do_not_stand_in_the_other():
    text = (VECTORS / "good-poisson-100.proof").read_bytes()[:-72].decode()
    seal = proof_script("make_vectors").sealed
    for forged in (text.replace("evr-refutation", "evr-proof"), re.sub("(?m)^tests", "own", text)):
        with pytest.raises(check_proof.NotReadError, match="unreadable"):
            check_proof.check(seal(forged))


def test_a_claim_that_the_file_would_not_refute_is_said(monkeypatch):
    with pytest.raises(
        ValueError,
        match=r"the file would not refute the claim: direction remove: delta of 37 x .*; refute a smaller delta",
    ):
        refuting(DPSGD, 0.25, share=1.01)
