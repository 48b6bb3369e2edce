"""Only the kernel makes proofs, verdicts and guarantees, and it makes each once."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

import evr
from evr._kernel.events import Composition, walk
from evr._kernel.pairs import Direction
from evr._kernel.sampled import proposals as registry
from evr._kernel.sampled.plan import CappedPlan
from evr._kernel.sampled.proposals import drawing_of
from evr._kernel.strict import Proof, ProofPlan, proof, prove_within
from evr._kernel.verdict.attempts import Attempt
from evr._kernel.verdict.settings import Claim, Settings
from evr._plan import strict as choosing
from evr._plan.strict import StrictCurve

SOURCE = Path(evr.__file__).parent
KERNEL = ("_kernel",)
MADE_IN_THE_KERNEL = {"Proof", "Verification", "Guarantee", "DirectionReport", "tested", "joined"}
TRAINING = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=200)
OTHER = evr.dpsgd(noise_multiplier=4.0, sampling_probability=0.001, steps=200)


def test_a_proof_cannot_be_put_together():
    steps = Composition.of(TRAINING).exact(Direction.REMOVE)
    with pytest.raises(TypeError, match="comes out of"):
        Proof(steps, Fraction(1), Fraction(0))
    found = prove_within(steps, Fraction(1), StrictCurve(steps).plans(1.0))
    with pytest.raises(TypeError, match="comes out of"):
        replace(found, delta=Fraction(0))


def test_a_verification_cannot_be_put_together():
    rejected = evr.verify(TRAINING, epsilon=1.0, delta=1e-12, method="strict")
    assert rejected.verdict is evr.proving.Verdict.REJECTED
    with pytest.raises(TypeError, match=r"made by evr\.verify"):
        replace(rejected, verdict=evr.proving.Verdict.ACCEPTED)
    with pytest.raises(TypeError, match=r"made by evr\.verify"):
        replace(rejected, guarantee=evr.Guarantee(1.0, 1e-12))


def test_nothing_above_the_kernel_makes_one():
    """Read in the sources: no call of a constructor, no import of the key."""
    seen = 0
    for path in sorted(SOURCE.rglob("*.py")):
        if path.relative_to(SOURCE).parts[0] in KERNEL:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", None))
                assert name not in MADE_IN_THE_KERNEL, (path, node.lineno)
                seen += 1
            if isinstance(node, ast.ImportFrom):
                assert not {"SEAL", "_SEAL", "tested", "joined"} & {a.name for a in node.names}, path
    assert seen > 3000


def test_plans_are_followed_up_to_the_first_that_is_enough(monkeypatch):
    steps = Composition.of(TRAINING).exact(Direction.REMOVE)
    curve = StrictCurve(steps)
    coarse, fine, finer = (next(curve.plans(1.0, tolerance)) for tolerance in (0.5, 0.1, 0.01))
    asked = []

    def plans():
        for plan in (coarse, fine, finer):
            asked.append((plan, (yield plan)))

    bounds = [prove_within(steps, Fraction(1), [plan]).delta for plan in (coarse, fine, finer)]
    assert bounds[0] > bounds[1] > bounds[2]
    found = prove_within(steps, Fraction(1), plans(), enough=bounds[1])
    assert (found.delta, found.plan) == (bounds[1], fine)
    assert asked == [(coarse, bounds[0])]  # the second was enough, so nobody asked on


def test_without_a_plan_the_bound_is_one():
    steps = Composition.of(TRAINING).exact(Direction.REMOVE)
    assert prove_within(steps, Fraction(1), ()).delta == 1


def test_a_proof_of_something_else_is_not_believed():
    """A proof in hand counts for its own steps and its own epsilon only."""
    private, other = Composition.of(OTHER), Composition.of(TRAINING)
    enough = Fraction(1, 10**9)

    def planner(direction, steps):
        return StrictCurve(steps).plans(1.0, enough=enough)

    proofs = {
        one: prove_within(steps, Fraction(1), planner(one, steps), enough)
        for one, steps in private.exact_directions().items()
    }
    assert all(one.delta <= enough for one in proofs.values())
    claim = Claim(1.0, 1e-9, 0.9)
    assert not Attempt().run(other, claim, Settings("strict"), strictly=planner, proofs=proofs).accepted
    smaller = Claim(0.01, 1e-9, 0.9)
    assert not Attempt().run(private, smaller, Settings("strict"), strictly=planner, proofs=proofs).accepted
    assert Attempt().run(private, claim, Settings("strict"), strictly=planner, proofs=proofs).accepted


def test_a_coarse_plan_of_a_stranger_rejects():
    """A plan that loses too much cannot make the kernel accept."""
    worst = ProofPlan.of_one_step(4)

    def planner(direction, steps):
        return [worst]

    event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1.0, steps=1)
    delta = evr.estimate_delta(event, 3.0).value
    claim = Claim(3.0, delta, 0.999)
    assert not Attempt().run(Composition.of(event), claim, Settings("strict"), strictly=planner).accepted


def test_each_fact_is_built_once(tmp_path, monkeypatch):
    """One strict certificate: one translation, one grid and one proof for each direction."""
    calls: Counter[str] = Counter()

    def counted(module, name):
        original = getattr(module, name)

        def wrapper(*args, **options):
            calls[name] += 1
            return original(*args, **options)

        monkeypatch.setattr(module, name, wrapper)

    counted(proof, "prove")
    counted(choosing, "choose")
    counted(choosing, "outlook")
    counted(walk.Walk, "counts")
    found = evr.certify(TRAINING, delta=1e-5, ledger=tmp_path / "ledger.sqlite")
    assert found.accepted
    assert found.verification.method == "strict"
    assert calls == {"counts": 1, "choose": 2, "outlook": calls["outlook"], "prove": 2}


@pytest.mark.parametrize("tau", [0.7, 0.99], ids=["drawn as it is", "composed"])
def test_each_proposal_is_built_once_and_asked_for_its_rounding_once(tmp_path, monkeypatch, tau):
    """Of one ``verify``, planning included, and of one ``certify``, whose forecast draws too."""
    built: Counter[object] = Counter()
    asked: Counter[object] = Counter()
    build = registry.BUILDERS[CappedPlan]

    def counting(plan, steps):
        built[plan, steps] += 1
        proposal = build(plan, steps)
        rounding = proposal.rounding

        def counted(epsilon):
            asked[plan, steps] += epsilon == how["epsilon"]
            return rounding(epsilon)

        monkeypatch.setattr(proposal, "rounding", counted)
        return proposal

    monkeypatch.setitem(registry.BUILDERS, CappedPlan, counting)
    how = {"epsilon": 1.0, "tau": tau, "method": "sequential", "max_samples": 2**17}
    for certified in (False, True):
        registry.built.cache_clear()
        drawing_of.cache_clear()
        built.clear()
        asked.clear()
        if certified:
            evr.certify(TRAINING, **how, ledger=tmp_path / "ledger.sqlite")
        else:
            evr.verify(TRAINING, **how, delta=4.14e-6)
        assert built == asked
        assert built
        assert set(built.values()) == {1}
    registry.built.cache_clear()
