"""Steps composed before they are drawn: above the exact law for whatever places, close to it for
good ones, and refused where a plan says what cannot be.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.dp_event import ComposedDpEvent, DiscreteLaplaceDpEvent
from mpmath import mp, mpf

import evr
import evr._kernel.sampled.composing as kernel
from evr._basics.randomness import Stream
from evr._estimate.capped import capped_plan
from evr._kernel.events import Composition
from evr._kernel.order import power as composed_by_squares
from evr._kernel.pairs import DiscretePair, Step
from evr._kernel.pairs.law import UNIT
from evr._kernel.sampled.composing import LossGrid, LossMasses, masses_of, product_count
from evr._kernel.sampled.composing import composed as composed_law
from evr._kernel.sampled.line import on_outcomes, spread_steps
from evr._kernel.sampled.moments import Rounding, sum_error
from evr._kernel.sampled.plan import CappedPlan, DrawPlan
from evr._kernel.sampled.proposals import built
from evr._kernel.verdict import attempts
from evr._kernel.verdict.settings import Claim, Settings
from evr._plan.sampled import planned
from helpers import answers, near, together

TRAINING = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=1200)
EPSILON = 2.0
HUGE = [-1.7e308, 1.7e308]  # whose difference is no float


def exact_delta(laws: list[LossMasses], epsilon: float) -> mpf:
    """Of independent laws on few outcomes, one combination after the other, in 50 digits."""
    with mp.workdps(50):
        total, finite = mpf(0), mpf(1)
        for law in laws:
            finite *= 1 - mpf(law.infinite)
        for combination in product(*(range(law.losses.size) for law in laws)):
            chosen = list(zip(laws, combination, strict=True))
            loss = sum((mpf(float(law.losses[i])) for law, i in chosen), mpf(0))
            mass = mpf(1)
            for law, i in chosen:
                mass *= mpf(float(law.masses[i]))
            if loss > epsilon:
                total += mass * (1 - mp.exp(mpf(epsilon) - loss))
        return total + 1 - finite


def random_law(generator: np.random.Generator, size: int) -> LossMasses:
    masses = generator.dirichlet(np.ones(size + 1))
    infinite = float(masses[-1]) * 1e-3
    masses = masses[:-1] * ((1.0 - infinite) / masses[:-1].sum())
    return LossMasses(np.sort(generator.normal(0.1, 0.5, size)), masses, infinite)


def worst_ratio(number: int) -> float:
    """Delta of a product over the exact one, at its least, in random laws, places and epsilons."""
    least = np.inf
    for seed in range(number):
        generator = np.random.default_rng(seed)
        a, b = random_law(generator, 5), random_law(generator, 4)
        places = np.sort(generator.uniform(-1.0, 1.5, generator.integers(2, 30)))
        for other in (b, a):
            found = a.times(other, places)
            for epsilon in generator.uniform(-0.5, 1.5, 2).tolist():
                least = min(least, float(exact_delta([found], epsilon) / exact_delta([a, other], epsilon)))
    return least


def test_products_send_nothing_to_infinity_that_fits_their_places() -> None:
    """Sums are rounded up. The greatest one once passed the last place by an ulp and became
    infinite, which doubled a delta of 5e-36: a true claim at tau 0.9 was rejected.
    """
    event = evr.dpsgd(noise_multiplier=127.29881925631855, sampling_probability=1.054351881908547e-06, steps=102875)
    delta = 4.958399427162387e-36  # by a contour integral of 40 digits
    claim = Claim(epsilon=2.9748335976898833e-05, delta=delta / 0.9, tau=0.9)
    steps = Composition.of(event).simplified("remove")
    plan = planned(steps, claim, "capped")
    merged = spread_steps(steps, plan.proposal.kinds)
    single = masses_of(cast(DiscretePair, merged[0].pair))
    whole = masses_of(composed_law(merged, plan.proposal.places))
    assert whole.infinite - steps[0].count * single.infinite < 1e-3 * delta


def test_places_are_found_where_the_tilt_is_far_from_all_mass() -> None:
    """Weights were taken from where the tilt is highest, and all of them were 0: a crash."""
    event = ComposedDpEvent(
        [
            DiscreteLaplaceDpEvent(0.006048357465349389, 60),
            evr.dpsgd(noise_multiplier=40.5038637096886, sampling_probability=7.49356692309994e-07, steps=2608),
        ]
    )
    epsilon = 0.36290559676055845
    delta = evr.estimate_delta(event, epsilon).value
    found = evr.verify(event, epsilon=epsilon, delta=delta / 0.9, tau=0.9, seed=1, method="sequential")
    assert found.accepted


def test_a_product_is_never_below_the_exact_one() -> None:
    assert worst_ratio(60) >= 1.0


def test_products_on_fine_places_are_close() -> None:
    generator = np.random.default_rng(7)
    a = random_law(generator, 6)
    fine = a.times(a, np.linspace(-4.0, 4.0, 8001))
    assert 1.0 <= float(exact_delta([fine], 0.3) / exact_delta([a, a], 0.3)) < 1.0 + 1e-5


def test_a_product_keeps_both_masses() -> None:
    """Of P and of Q, but for what rounding adds: where no loss is beyond the places."""
    a = replace(random_law(np.random.default_rng(3), 40), infinite=0.0)
    found = a.times(a, np.linspace(-6.0, 6.0, 500))
    for power in (0.0, -1.0):
        one = float(np.sum(a.masses * np.exp(power * a.losses)))
        two = float(np.sum(found.masses * np.exp(power * found.losses)))
        assert one**2 <= two * (1 + 1e-15) < one**2 * (1 + 1e-11)


def _without(chosen: int) -> Callable[..., Any]:
    genuine = kernel._split

    def split(*arguments: Any) -> Any:
        found: list[Any] = list(genuine(*arguments))
        found[chosen] = found[chosen] * 0.999
        return kernel.Split(*found)

    return split


@pytest.mark.parametrize("part", [0, 1, 2])
def test_a_thousandth_of_a_part_that_is_dropped_is_noticed(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "_split", _without(part))
    assert worst_ratio(60) < 1.0


def test_losses_that_go_down_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = kernel._split

    def lower(losses: Any, masses: Any, places: Any) -> Any:
        return genuine(losses - 1e-3, masses, places)

    monkeypatch.setattr(kernel, "_split", lower)
    assert worst_ratio(60) < 1.0


@pytest.mark.parametrize("size", [2, 3, 7, 8, 100, 1170])
def test_products_make_the_size(size: int) -> None:
    made = []

    def times(x: int, y: int) -> int:
        made.append(x + y)
        return x + y

    assert composed_by_squares(1, size, times) == size
    assert len(made) == product_count([Step(DiscretePair.from_probabilities([0.3, 0.7], [0.6, 0.4]), size)])


def test_all_steps_are_in_the_composite() -> None:
    pairs = [DiscretePair.from_probabilities([p, 1 - p], [0.6, 0.4]) for p in (0.3, 0.8)]
    places = LossGrid((-30.0, 30.0), 4000)
    for counts in ((17,), (1, 1), (5, 3)):
        steps = [Step(pair, count) for pair, count in zip(pairs, counts, strict=False)]
        law = masses_of(composed_law(steps, (places,) * product_count(steps)))
        means = [float(np.exp(np.array(pair.log_p)) @ pair.losses) for pair in pairs]
        expected = sum(count * mean for count, mean in zip(counts, means, strict=False))
        assert float(law.masses @ law.losses) == near(expected, abs=1e-3)


def test_a_pair_of_infinite_losses_only_is_composed_to_one() -> None:
    pair = DiscretePair.from_probabilities([0.0, 1.0], [1.0, 0.0])
    law = composed_law([Step(pair, 4)], (LossGrid((0.0, 1.0), 1),) * 2)
    assert law.losses.tolist() == [math.inf]
    assert np.exp(law.log_p) == near([1.0])


@pytest.fixture(scope="module")
def composed() -> tuple[DrawPlan, tuple[Step, ...], float]:
    """A plan that composes 1,200 steps, and the exact delta."""
    steps = Composition.of(TRAINING).simplified("remove")
    delta = float(evr.estimate_delta(TRAINING, EPSILON, direction="remove"))
    return planned(steps, Claim(EPSILON, delta / 0.99, 0.99), "capped"), steps, delta


def test_all_steps_are_composed(composed: tuple[DrawPlan, tuple[Step, ...], float]) -> None:
    plan, steps, delta = composed
    assert len(plan.proposal.places) == product_count(steps)
    proposal = built(plan.proposal, steps)
    assert [step.count for step in proposal.steps] == [1]
    values = proposal.draw(Stream(1, "test").block(0), 200_000).values(EPSILON)
    error = values.std() / np.sqrt(values.size)
    assert abs(values.mean() - delta) < 5 * error + 3e-3 * delta
    assert values.max() <= math.exp(proposal.log_greatest(EPSILON)) * (1 + 1e-9)
    assert DrawPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_composites_are_known_as_well_as_the_steps_they_hold(
    composed: tuple[DrawPlan, tuple[Step, ...], float],
) -> None:
    """1,200 losses that are rounded, not a dozen."""
    plan, steps, _ = composed
    proposal = built(plan.proposal, steps)
    (single,) = proposal.composed
    whole = single.count
    assert whole == 1200
    least = whole * 8.0 * UNIT * single.pair.loss_magnitude
    drawn = sum(sum_error(step.floats, step.count) for step in proposal.steps)
    rounding = proposal.rounding(EPSILON)
    assert rounding.loss > least > 0.0
    assert rounding.loss < least + drawn + 8.0 * UNIT * EPSILON
    assert rounding.weight > 1e-7 + 1e-12 * whole


def test_what_decides_without_samples_counts_single_steps(
    composed: tuple[DrawPlan, tuple[Step, ...], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, steps, delta = composed
    asked: list[Any] = []

    def spy(*arguments: Any) -> None:
        asked.append(arguments)

    monkeypatch.setattr(attempts, "shortcut", spy)
    claim = Claim(EPSILON, delta / 0.99, 0.99)
    trial = attempts.Trial("remove", steps, claim, Settings("sequential"), 1, -30.0, Stream(1, "test"))
    trial.prepared(plan)
    assert asked[1:] == [(built(plan.proposal, steps).steps, claim, built(plan.proposal, steps).rounding(EPSILON))]


def test_rounding_decides_where_infinite_losses_are_all_there_is() -> None:
    pair = DiscretePair.from_probabilities([0.5, 0.499, 0.001], [0.4, 0.6, 0.0])
    steps, claim = (Step(pair, 1),), Claim(1.0, 0.00101 / 0.999, 0.999)
    for rounding, accepted in ((None, True), (Rounding(0.0, 1e-3), True), (Rounding(0.0, 0.1), False)):
        found = attempts.shortcut(steps, claim, rounding)
        assert found is not None
        assert found.accepted is accepted
    tie = Claim(float(pair.losses[1]), 0.00101 / 0.999, 0.999)
    assert attempts.shortcut(steps, tie, Rounding(1e-6, 0.0)) is not None
    with pytest.raises(ValueError, match="floats cannot tell"):
        attempts.shortcut(steps, tie, Rounding(1e-3, 0.0))


def test_claims_are_decided_by_composed_steps() -> None:
    delta = float(evr.estimate_delta(TRAINING, EPSILON).value)
    for share, accepted in ((1.0, True), (0.95, False)):
        found = evr.verify(TRAINING, epsilon=EPSILON, delta=share * delta / 0.99, tau=0.99, seed=1, method="sequential")
        plan = found.directions["remove"].plan
        assert plan is not None
        assert plan.proposal.places
        assert found.accepted is accepted


def changed(document: dict[str, Any], path: list[Any], value: Any) -> dict[str, Any]:
    other = copy.deepcopy(document)
    place = other
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return other


def test_plans_that_compose_what_cannot_be_are_refused(composed: tuple[DrawPlan, tuple[Step, ...], float]) -> None:
    plan, steps, _ = composed
    document, proposal = plan.to_json(), cast(CappedPlan, plan.proposal)
    how = ["proposal", "places", 0]
    wrong = [
        (r"valid (array|tuple)", changed(document, ["proposal", "places"], None)),
        (r"required", changed(document, how, {})),
        (r"[Uu]nexpected", changed(document, [*how, "more"], 1)),
        (r"not two or more", changed(document, [*how, "knots"], [1.0])),
        (r"not two or more", changed(document, [*how, "knots"], [1.0, 0.0])),
        (r"valid number", changed(document, [*how, "knots"], ["-inf", 0.0])),
        (r"finite number", changed(document, [*how, "knots"], [math.nan, 0.0])),
        (r"numbers that rise, of at most", changed(document, [*how, "knots"], HUGE)),
        (r"parts=0", changed(document, [*how, "parts"], 0)),
        (r"places", changed(document, [*how, "parts"], 10**6)),
    ]
    for message, other in wrong:
        with pytest.raises(ValueError, match=message):
            DrawPlan.from_json(other)
    with pytest.raises(ValueError, match="products: these steps need"):
        built(replace(proposal, places=proposal.places[1:]), steps)
    with pytest.raises(ValueError, match="products: these steps need"):
        built(proposal, (replace(steps[0], count=4800),))
    huge = (replace(steps[0], count=(1 << 2000) - 1),)
    with pytest.raises(ValueError, match="128 are the most"):
        built(replace(proposal, places=proposal.places[:1] * 3998), huge)
    with pytest.raises(ValueError, match="no outcomes"):
        built(replace(proposal, kinds=(replace(proposal.kinds[0], edges=None),)), steps)


def test_a_composite_that_is_not_tilted_has_its_own_mass(composed: tuple[DrawPlan, tuple[Step, ...], float]) -> None:
    """Rounding adds mass to products; no sample misses it."""
    plan, steps, _ = composed
    capped = cast(CappedPlan, plan.proposal)
    untilted = replace(capped, kinds=(replace(capped.kinds[0], tilt=None),))
    proposal = built(untilted, steps)
    law = on_outcomes(proposal.steps[0])
    mass = float(np.sum(np.exp(law.log_p)))
    weights = np.exp(proposal.draw(Stream(1, "test").block(0), 10).log_weights)
    np.testing.assert_allclose(weights, mass, rtol=1e-14)
    greatest = -math.expm1(EPSILON - float(law.losses[-1])) * mass + proposal.infinite
    bound = math.exp(proposal.log_greatest(EPSILON))
    assert greatest * (1 - 1e-14) <= bound <= mass + proposal.infinite


def test_whatever_places_a_plan_has_samples_average_to_delta_or_more(
    composed: tuple[DrawPlan, tuple[Step, ...], float],
) -> None:
    plan, steps, delta = composed
    generator = np.random.default_rng(5)
    for _ in range(4):
        document = plan.to_json()
        for places in document["proposal"]["places"]:
            knots = generator.choice(places["knots"], 12, replace=False)
            places["knots"] = np.unique(knots + generator.normal(0, 1e-3, 12)).tolist()
            places["parts"] = int(generator.integers(1, 40))
        proposal = built(DrawPlan.from_json(document).proposal, steps)
        values = proposal.draw(Stream(1, "test").block(0), 20_000).values(EPSILON)
        assert values.mean() + 6 * values.std() / np.sqrt(values.size) > delta


def test_both_proofs_share_no_composed_law() -> None:
    delta = float(evr.estimate_delta(TRAINING, EPSILON).value)
    claim: dict[str, Any] = {"epsilon": EPSILON, "tau": 0.9, "seed": 1, "method": "both"}
    event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=200)
    found = evr.verify(event, delta=delta, **claim)
    for report in found.directions.values():
        assert report.plan is None or not report.plan.proposal.places


def test_certificates_of_composed_steps_replay_and_altered_ones_do_not(tmp_path: Path) -> None:
    certificate = evr.certify(
        TRAINING, epsilon=EPSILON, tau=0.97, method="sequential", seed=1, ledger=tmp_path / "ledger.sqlite"
    )
    plan = certificate.verification.directions["remove"].plan
    assert plan is not None
    assert plan["proposal"]["places"]
    assert evr.replay(certificate).agrees
    plan["proposal"]["places"][-1]["parts"] += 1
    assert not evr.replay(certificate).agrees


def test_places_are_cut_evenly() -> None:
    places = LossGrid((0.0, 0.25, 1.0), 3).losses
    expected = [Fraction(0), Fraction(1, 12), Fraction(1, 6), Fraction(1, 4), Fraction(1, 2)]
    np.testing.assert_allclose(places[:5], [float(x) for x in expected], atol=1e-16)


def test_a_sum_that_counts_only_far_beyond_epsilon_is_not_composed() -> None:
    """Gaussian steps beside one outcome: no place was left below the top, and planning crashed.
    Samples do not settle the add direction; a strict proof does.
    """
    step = dp_event.PoissonSampledDpEvent(
        0.9878459909610107, dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(424.83672980979077), 49)
    )
    event = dp_event.ComposedDpEvent(
        [dp_event.SelfComposedDpEvent(step, 79), evr.events.EpsilonDeltaDpEvent(2.6970576647561253, 0.0)]
    )
    truth = 1.4341536154751314e-14  # by a contour integral
    claim: dict[str, Any] = {"epsilon": 3.73, "delta": truth / 0.6, "tau": 0.6}
    with pytest.raises(ValueError, match="method='strict'"):
        evr.verify(event, **claim, method="sequential", seed=1)
    assert evr.verify(event, **claim, method="strict").accepted


def test_steps_whose_places_would_be_too_wide_are_not_composed() -> None:
    """Nine million steps with losses of 1e-10: places were too wide for their sum, and a true claim
    of 2e-7 was rejected.
    """
    step = evr.events.EpsilonDeltaDpEvent(0.00015501777098304498, 3.893512195910073e-21)
    event = dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(7.303721901110735e-07, step), 9235588)
    truth = 1.3722381366307343e-07  # by a contour integral
    steps = Composition.of(event).simplified("add")
    for allowance in (0.03, 0.1):
        plan = capped_plan(steps, 8.76e-11, delta=truth, allowance=allowance, composing=True)
        assert plan.places == ()


def test_a_composition_that_floats_do_not_hold_is_not_composed() -> None:
    """All of the mass goes beyond the top, and planning divided zero by zero."""
    event = dp_event.SelfComposedDpEvent(
        dp_event.PoissonSampledDpEvent(0.998882585433664, dp_event.LaplaceDpEvent(0.07055)), 11646
    )
    steps = Composition.of(event).simplified("remove")
    assert capped_plan(steps, 0.0, delta=0.4, allowance=0.1, composing=True).places == ()


@pytest.mark.parametrize(
    ("event", "epsilon", "truth"),
    [
        (
            ComposedDpEvent(
                [
                    dp_event.SelfComposedDpEvent(evr.events.EpsilonDeltaDpEvent(2.6236181718779235, 0.0), 3),
                    dp_event.GaussianDpEvent(30.161697011871652),
                ]
            ),
            7.8902427173323115,
            0.004690725845498322,  # by a contour integral
        ),
        (
            dp_event.SelfComposedDpEvent(
                dp_event.PoissonSampledDpEvent(
                    0.023966177819581495, evr.events.EpsilonDeltaDpEvent(1.0925647426352596e-06, 0.0)
                ),
                89,
            ),
            2.3304307207870615e-06,
            3.231024932600583e-42,  # by enumeration
        ),
        (
            ComposedDpEvent(
                [
                    dp_event.SelfComposedDpEvent(evr.events.EpsilonDeltaDpEvent(1.8855474661228526, 0.0), 3),
                    dp_event.GaussianDpEvent(1878.861845683528),
                ]
            ),
            5.657047630662401,
            4.481178094044906e-05,  # by a contour integral; sums that were rounded up went to the next atom
        ),
        (
            ComposedDpEvent(
                [
                    dp_event.SelfComposedDpEvent(
                        evr.events.EpsilonDeltaDpEvent(7.20834684393773, 4.952992319345139e-21), 3
                    ),
                    dp_event.GaussianDpEvent(10.848397378887432),
                ]
            ),
            22.15623296661189,
            8.158492980579065e-11,  # by a contour integral; infinite losses of 1e-20 ruled the tilt
        ),
        (
            together((answers(0.999999997298489, 10, 0.011933701249278752), 523)),
            3.43e-08,
            1.895168577359815e-34,  # by enumeration
        ),
    ],
)
def test_an_atom_is_not_raised_by_all_that_is_below_it(event: Any, epsilon: float, truth: float) -> None:
    """The first place was put at the first atom that counts. All atoms below were raised to it, which took 15% of
    delta and more: true claims at tau 0.9 and 0.7 were rejected.
    """
    steps = Composition.of(event).simplified("remove")
    plan = capped_plan(steps, epsilon, delta=truth, allowance=0.02, composing=True)
    assert plan.places
    law = masses_of(composed_law(spread_steps(steps, plan.kinds), plan.places))
    found = law.infinite - float(law.masses @ np.minimum(np.expm1(epsilon - law.losses), 0.0))
    assert truth * (1 - 1e-6) <= found <= truth * 1.02


def test_a_composition_that_floats_hold_too_coarsely_is_not_rejected() -> None:
    """Losses of 1e-7 beside one of 130,000: what rounding adds raised delta by more than the slack, and a true claim
    was rejected.
    """
    event = ComposedDpEvent(
        [
            evr.events.EpsilonDeltaDpEvent(130_000.0, 0.0),
            evr.dpsgd(noise_multiplier=642.4302804288137, sampling_probability=2.1286085790348444e-05, steps=58),
        ]
    )
    truth = 1.0066862242855091e-07  # by a contour integral
    assert evr.verify(event, epsilon=130_000.0, delta=truth / 0.95, tau=0.95, method="sequential", seed=1).accepted


def test_an_outcome_far_beyond_epsilon_does_not_rule_where_places_are() -> None:
    """The top outcome of a spread Gaussian has a mass of 1e-22 and a loss of four times epsilon. Its tilted weight
    put the first place above epsilon, all losses were raised to it, and a true claim was rejected.
    """
    event = ComposedDpEvent(
        [
            dp_event.PoissonSampledDpEvent(5.2233191807291015e-06, dp_event.LaplaceDpEvent(261.2912955292761)),
            dp_event.PoissonSampledDpEvent(8.017381212439732e-08, dp_event.GaussianDpEvent(293.4633958336268)),
        ]
    )
    epsilon, truth = 2.118637491148723e-08, 3.8334407224903484e-16  # of the remove direction, by a contour integral
    assert evr.verify(event, epsilon=epsilon, delta=truth / 0.8, tau=0.8, method="sequential", seed=1).accepted


def test_places_that_raise_delta_themselves_reject_no_claim() -> None:
    """Losses of 5e-5 and of -5e-8: sums lie in clusters that no places follow, delta rose by 1.8 times, and a true
    claim was rejected. A false claim still is.
    """
    event = together((answers(0.010128935382317152, 10, 5.46201243933838e-08), 212))
    epsilon, truth = 0.0015936940943558416, 1.0173070454699497e-60
    for share, accepted in ((0.6, True), (1.5, False)):  # the truth is by enumeration
        claim: dict[str, Any] = {"tau": 0.6, "method": "sequential", "seed": 1}
        assert evr.verify(event, epsilon=epsilon, delta=truth / share, **claim).accepted is accepted


@pytest.mark.full
def test_an_atom_at_the_top_that_is_all_that_counts_has_cells() -> None:
    """Planning looked for a finite cell among none, and crashed."""
    laplace = dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(0.25), 3)
    steps = together(laplace, (answers(0.9999999999976634, 2), 7)).simplified("remove")
    assert capped_plan(steps, 12.0, delta=1e-12, allowance=0.1, composing=True).kinds
