"""Users (docs/guarantees_relations.md, R7): batches of a fixed size, clipping per user, bins and bands; instances by
brute force, statements, what is refused.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import attr
import numpy as np
import pytest
from dp_accounting import dp_event

import evr
from evr._estimate.closed_forms import pair_delta
from evr._kernel.events import Composition
from evr._kernel.events.users import hypergeometric
from evr._kernel.pairs.patterns.strategy import noise_over
from evr._proof import check_proof
from evr._spec import parse
from evr.errors import UnsupportedEventError
from evr.events import (
    BallsInBinsDpEvent,
    BMinSepDpEvent,
    CyclicPoissonDpEvent,
    FixedBatchUsersDpEvent,
    MatrixMechanismDpEvent,
    PoissonSampledUsersDpEvent,
    RedrawnBinsDpEvent,
    UsersDpEvent,
)
from helpers import near, proof_script

REPLACED: dict[str, Any] = {"neighboring_relation": "replace-one"}

# records, batch, per user, noise, epsilon, delta: quadrature of the labelled pair
FIXED = [
    (1000, 10, 5, 2.0, 0.5, 0.000408016962695),
    (60_000, 256, 20, 4.0, 0.2, 0.000375671429314),
    (100, 10, 3, 3.0, 1.0, 0.00273138340948),
]
# per user, noise, epsilon, remove, add: two bins, one epoch, exactly; splitting the noise is a bound
BINS = [
    (1, 1.0, 1.0, 0.059206481, 0.050197611),
    (2, 1.0, 1.0, 0.32476317, 0.31459283),
    (2, 2.0, 0.5, 0.13098599, 0.12945870),
    (3, 2.0, 1.0, 0.15883021, 0.15615126),
    (3, 1.5, 2.0, 0.13361468, 0.12568327),
]


def delta(event: Any, epsilon: float, **options: Any) -> float:
    return evr.estimate_delta(event, epsilon, **options).value


@pytest.mark.parametrize(("size", "batch", "most", "noise", "epsilon", "expected"), FIXED)
def test_one_batch_of_a_fixed_size(
    size: int, batch: int, most: int, noise: float, epsilon: float, expected: float
) -> None:
    event = FixedBatchUsersDpEvent(noise, size, batch, most)
    for method in ("fft", "strict"):
        assert delta(event, epsilon, method=method, **REPLACED) == near(expected, rel=5e-12)


def test_one_record_per_user_is_a_record() -> None:
    training: dict[str, Any] = {"noise_multiplier": 2.0, "dataset_size": 500, "batch_size": 20, "steps": 30}
    fixed = {**training, "sampling": "without-replacement"}
    records = delta(evr.dpsgd(**fixed), 1.0, **REPLACED)
    assert delta(evr.dpsgd(**fixed, records_per_user=1), 1.0, **REPLACED) == near(records, rel=1e-9)
    bins = BallsInBinsDpEvent(1.0, 20, 10)
    assert delta(UsersDpEvent(bins, 1), 1.0) == near(delta(bins, 1.0), rel=1e-12)


def test_everybody_takes_part_in_a_whole_batch() -> None:
    event = FixedBatchUsersDpEvent(3.0, 9, 9, 2)
    assert delta(event, 1.0, **REPLACED) == near(delta(dp_event.GaussianDpEvent(3.0 / 4.0), 1.0), rel=1e-12)


def test_the_hypergeometric_law() -> None:
    for size, most, batch in ((7, 3, 4), (6, 2, 5), (5, 5, 2)):
        found = hypergeometric(size, most, batch)
        batches = list(itertools.combinations(range(size), batch))
        for number, chance in found.items():
            hits = sum(sum(place < most for place in one) == number for one in batches)
            assert chance == Fraction(hits, len(batches))
        assert sum(found.values()) == 1
    assert sum(hypergeometric(10**9, 1_000, 10**6).values()) == 1


def test_no_group_in_the_plane_exceeds_the_pair() -> None:
    """Users of two or three records whose contributions are vectors of the plane, in both worlds: 30 instances by a sum
    over a grid.
    """
    rng, axis = np.random.default_rng(3), np.linspace(-12.0, 12.0, 361)
    cell = (axis[1] - axis[0]) ** 2
    x, y = np.meshgrid(axis, axis, indexing="ij")
    for trial in range(30):
        q, noise, most = float(rng.choice([0.1, 0.4])), float(rng.uniform(1.0, 2.0)), int(rng.integers(2, 4))
        epsilon, norm = float(rng.uniform(-0.3, 1.0)), float(rng.choice([1.0, 1.5, 9.0]))
        laws = []
        for sign in (1.0, -1.0):
            vectors = rng.normal(size=(most, 2))
            vectors /= np.maximum(1.0, np.linalg.norm(vectors, axis=1, keepdims=True))
            if trial % 3 == 0:
                vectors = np.tile([sign, 0.0], (most, 1))
            law = np.zeros_like(x)
            for chosen in itertools.product((0, 1), repeat=most):
                total = np.array(chosen) @ vectors
                total = total * min(1.0, norm / max(float(np.linalg.norm(total)), 1e-9)) / noise
                chance = math.prod(q if one else 1 - q for one in chosen)
                law += chance * np.exp(-((x - total[0]) ** 2 + (y - total[1]) ** 2) / 2) / (2 * math.pi)
            laws.append(law)
        instance = float(np.maximum(laws[0] - math.exp(epsilon) * laws[1], 0.0).sum() * cell)
        event = PoissonSampledUsersDpEvent(noise, q, most, norm)
        (step,) = Composition.of(event, "replace-one").steps("remove")
        claim = pair_delta(step.pair, epsilon)
        assert instance <= claim * (1 + 2e-3)
        if trial % 3 == 0:
            assert instance == near(claim, rel=2e-3)


def test_clipping_users_together() -> None:
    training: dict[str, Any] = {"noise_multiplier": 1.0, "steps": 1}
    together = evr.dpsgd(**training, sampling_probability=0.01, records_per_user=8, user_norm=1.0)
    sampled = evr.dpsgd(**training, sampling_probability=1 - 0.99**8)
    for relation in ("add-or-remove", "replace-one", "zero-out"):
        asked = {"neighboring_relation": relation}
        assert delta(together, 1.0, **asked) == near(delta(sampled, 1.0, **asked), rel=1e-9)
    by_norm = [delta(PoissonSampledUsersDpEvent(1.0, 0.1, 4, norm), 1.0) for norm in (0.5, 1.0, 1.5, 4.0, 9.0, None)]
    assert by_norm[0] < by_norm[1] < by_norm[2] < by_norm[3] == by_norm[4] == by_norm[5]


@pytest.mark.parametrize(("most", "noise", "epsilon", "remove", "add"), BINS)
def test_users_in_bins(most: int, noise: float, epsilon: float, remove: float, add: float) -> None:
    """Splitting the noise is exact for one record, and above the truth by at most a third for these."""
    event = UsersDpEvent(BallsInBinsDpEvent(noise, 2, 2), most)
    for direction, truth in (("remove", remove), ("add", add)):
        bound = delta(event, epsilon, direction=direction)
        assert truth * (1 - 1e-6) <= bound <= truth * (1.002 if most == 1 else 1.4)


def test_users_of_full_batches_are_exact() -> None:
    matrix = MatrixMechanismDpEvent(3.0, (1.0, 0.5), 10, 5)
    whole = evr.estimate_epsilon(matrix, 1e-6).value
    for most in (2, 4):
        scaled = MatrixMechanismDpEvent(3.0 / most, (1.0, 0.5), 10, 5)
        found = evr.estimate_epsilon(UsersDpEvent(matrix, most), 1e-6).value
        assert found == near(evr.estimate_epsilon(scaled, 1e-6).value, rel=1e-9)
        assert found > whole


@pytest.mark.parametrize(
    "scheme",
    [
        BallsInBinsDpEvent(2.0, 20, 10),
        RedrawnBinsDpEvent(2.0, 10, 2),
        CyclicPoissonDpEvent(2.0, 20, 5, 0.2, "fixed", (1.0, 0.5)),
        BMinSepDpEvent(2.0, 12, 3, 0.3, True),
        MatrixMechanismDpEvent(2.0, (1.0, 0.5), 20, 5),
    ],
)
def test_every_scheme_has_laws_for_users(scheme: Any) -> None:
    for relation in (None, "replace-one"):
        users = Composition.of(UsersDpEvent(scheme, 3), relation)
        one = Composition.of(scheme, relation)
        assert users.relation is one.relation
        assert sum(s.count for s in users.steps("remove")) == 3 * sum(s.count for s in one.steps("remove"))


def test_statements_speak_of_users_and_of_records(tmp_path: Path) -> None:
    fixed: dict[str, Any] = {"dataset_size": 400, "batch_size": 20, "epochs": 1, "sampling": "without-replacement"}
    event = evr.dpsgd(noise_multiplier=4.0, records_per_user=4, **fixed)
    proof = tmp_path / "users.proof"
    asked: dict[str, Any] = {"delta": 1e-5, "ledger": tmp_path / "ledger.sqlite", **REPLACED}
    made = evr.certify(event, proof=proof, **asked)
    assert "per user under replace-one adjacency (all records of one user" in made.statement
    assert "at most 4 records per user" in made.statement
    assert any("no user had more than the stated number of records" in one for one in made.assumptions)
    record = evr.estimate_epsilon(evr.dpsgd(noise_multiplier=4.0, **fixed), 1e-5, **REPLACED).value
    assert made.per_record is not None
    assert record <= made.per_record <= record * 1.02
    assert (
        f"Per record (of those in the data) instead of per user it is ({made.per_record:g}, 1e-5)"
        in made.short_statement
    )
    assert evr.replay(made).agrees
    answer = check_proof.check(proof.read_bytes())
    assert answer.word == check_proof.LISTED
    assert proof_script("enclosures").disagreeing(answer.file)[0] == 0

    client = evr.certify(event, description={"unit": "client"}, **asked)
    assert "per client" in client.statement
    assert "user" not in client.statement


def test_a_number_per_record_that_is_too_small_shows(tmp_path: Path) -> None:
    event = evr.dpsgd(noise_multiplier=2.0, sampling_probability=0.01, steps=10, records_per_user=4)
    made = evr.certify(event, delta=1e-6, ledger=tmp_path / "ledger.sqlite")
    assert "per user" in made.statement
    assert "4 records per user" in made.statement
    assert any("no user had more" in one for one in made.assumptions)
    document = made.document()
    assert made.per_record is not None
    document["per_record"] = made.per_record * 0.9
    document["statement"] = document["statement"].replace(f"({made.per_record:g}, 1e-6)-", "(0.1, 1e-6)-")
    forged = type(made).sealed(document)
    assert "per_record" in {one.field for one in evr.replay(forged).mismatches}


def test_false_claims_are_rejected() -> None:
    fixed = evr.dpsgd(
        noise_multiplier=4.0,
        dataset_size=2000,
        batch_size=20,
        steps=20,
        sampling="without-replacement",
        records_per_user=4,
    )
    split = UsersDpEvent(BallsInBinsDpEvent(2.0, 20, 20), 2)
    clipped = evr.dpsgd(noise_multiplier=2.0, sampling_probability=0.05, steps=20, records_per_user=5, user_norm=1.5)
    for event, relation in ((fixed, "replace-one"), (split, None), (clipped, "replace-one")):
        asked: dict[str, Any] = {"epsilon": 0.5, "method": "strict", "neighboring_relation": relation}
        truth = delta(event, 0.5, neighboring_relation=relation)
        assert evr.verify(event, delta=truth * 1.01, **asked).accepted
        assert not evr.verify(event, delta=truth * 0.98, **asked).accepted


def test_a_spec_file_may_speak_of_users() -> None:
    text = """
        [[mechanism]]
        kind = "dpsgd"
        noise_multiplier = 2.0
        sampling_probability = 0.01
        steps = 10
        records_per_user = 4
        user_norm = 2.0
        [[mechanism]]
        kind = "balls_in_bins"
        noise_multiplier = 2.0
        iterations = 10
        cycle_length = 5
        records_per_user = 4
    """
    first, second = parse(text).event().events
    assert first.event == PoissonSampledUsersDpEvent(2.0, 0.01, 4, 2.0)
    assert second == UsersDpEvent(BallsInBinsDpEvent(2.0, 10, 5), 4)


@pytest.mark.parametrize(
    ("event", "word"),
    [
        (PoissonSampledUsersDpEvent(1.0, 0.1, 4, 0.0), "user_norm"),
        (PoissonSampledUsersDpEvent(1.0, 0.1, 4, math.nan), "user_norm"),
        (PoissonSampledUsersDpEvent(1.0, 0.1, 4, math.inf), "user_norm"),
        (FixedBatchUsersDpEvent(1.0, 10, 11, 2), "sample_size"),
        (FixedBatchUsersDpEvent(1.0, 10, 2, 11), "records_per_user"),
        (FixedBatchUsersDpEvent(1.0, 10, 2, 0), "records_per_user"),
        (UsersDpEvent(BallsInBinsDpEvent(1.0, 10, 5), 0), "records_per_user"),
        (UsersDpEvent(BallsInBinsDpEvent(1.0, 10, 5), True), "records_per_user"),
    ],
)
def test_bad_values_are_refused(event: Any, word: str) -> None:
    with pytest.raises((ValueError, TypeError), match=word):
        Composition.of(event, "replace-one")


def test_what_has_no_law_for_users_is_refused() -> None:
    with pytest.raises(UnsupportedEventError, match="UsersDpEvent of GaussianDpEvent"):
        Composition.of(UsersDpEvent(dp_event.GaussianDpEvent(1.0), 3))
    with pytest.raises(UnsupportedEventError, match="--adjacency replace-one"):
        Composition.of(FixedBatchUsersDpEvent(1.0, 100, 10, 3))
    with pytest.raises(UnsupportedEventError, match="one user"):
        Composition.of(
            dp_event.ComposedDpEvent([UsersDpEvent(RedrawnBinsDpEvent(1.0, 4, 2), 3), RedrawnBinsDpEvent(1.0, 4, 2)])
        )
    with pytest.raises(ValueError, match="needs records_per_user"):
        evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.1, steps=1, user_norm=1.0)


def test_one_record_beside_others_moves_a_clipped_sum_from_end_to_end(tmp_path: Path) -> None:
    """A user owns -0.5, and +1 is added: the sum that is clipped to 0.5 moves by 1."""
    event = PoissonSampledUsersDpEvent(1.0, 1.0, 2, 0.5)
    made = evr.certify(event, epsilon=1.0, delta=1e-2, ledger=tmp_path / "ledger.sqlite")
    assert made.per_record is not None
    assert evr.estimate_delta(dp_event.GaussianDpEvent(1.0), made.per_record).value <= 1e-2


ASKING = {
    "estimate_delta": lambda event, unit: evr.estimate_delta(event, epsilon=1.0, unit=unit),
    "estimate_epsilon": lambda event, unit: evr.estimate_epsilon(event, delta=1e-6, unit=unit),
    "privacy_curve": lambda event, unit: evr.privacy_curve(event, [1.0], unit=unit),
    "online_epsilon": lambda event, unit: evr.online_epsilon(event, delta=1e-6, unit=unit),
    "enclose_delta": lambda event, unit: evr.enclose_delta(event, epsilon=1.0, unit=unit),
    "enclose_epsilon": lambda event, unit: evr.enclose_epsilon(event, delta=1e-6, unit=unit),
    "verify": lambda event, unit: evr.verify(event, epsilon=3.0, delta=1e-3, unit=unit),
    "refute": lambda event, unit: evr.refute(event, epsilon=3.0, delta=1e-3, unit=unit),
    "risk": lambda event, unit: evr.risk(event, unit=unit),
    "audit": lambda event, unit: evr.audit([1.0, 0.0] * 10, [True, False] * 10, event, unit=unit),
    "calibrate": lambda event, unit: evr.calibrate(lambda _: event, epsilon=1.0, delta=1e-6, unit=unit),
    "sweep": lambda event, unit: evr.sweep(lambda: event, delta=1e-6, unit=unit),
}


@pytest.mark.parametrize("name", ASKING)
def test_the_unit_is_asked_for_wherever_an_event_goes_in(name):
    """What bounds a user says nothing about records; what bounds a record may hold the data of one user."""
    ask = ASKING[name]
    of_users = evr.dpsgd(noise_multiplier=1.0, dataset_size=6000, batch_size=60, steps=3, records_per_user=2)
    of_records = evr.dpsgd(noise_multiplier=1.0, sampling_probability=0.01, steps=3)
    with pytest.raises(ValueError, match="is not one of"):
        ask(of_users, "record")
    with pytest.raises(ValueError, match="is not one of"):
        ask(of_records, "patient")
    if name not in ("audit", "calibrate"):  # an audit takes long; one event at every parameter has nothing to find
        ask(of_users, "user")
        ask(of_records, evr.types.Unit.RECORD)


@pytest.mark.parametrize("relation", ["add-or-remove", "zero-out"])
def test_users_in_random_groups(relation: str) -> None:
    """Groups stand for the scheme, and a step in one of them says whose data it bounds: a record's (R7.4)."""
    inner = CyclicPoissonDpEvent(6.0, 20, 4, 0.5, "independent")
    found = Composition.of(UsersDpEvent(inner, 3), relation)
    each = Composition.of(attr.evolve(inner, noise_multiplier=noise_over(6.0, 3)), relation)
    assert found.unit == "user"
    assert [(one.law, one.count) for one in found.remove] == [(one.law, 3 * one.count) for one in each.remove]
