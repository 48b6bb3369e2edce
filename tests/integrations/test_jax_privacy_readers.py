"""What evr reads of JAX Privacy 2.0 to 2.3, and that it refuses by name whatever it does not know."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, make_dataclass, replace

import numpy as np
import pytest
from dp_accounting import NeighboringRelation, dp_event

import evr
import evr.integrations.jax_privacy as reader
from evr._kernel.events import Composition
from evr._kernel.events.relations import name_of
from evr.errors import OtherRelationError, UnsupportedEventError
from helpers import near
from integrations import jax_stand_ins as J

E, read = evr.events, evr.events.from_jax_privacy
BANDS = (1.0, 0.5, 0.375, 0.3125)
ADD_OR_REMOVE, ZERO_OUT = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_SPECIAL
PLAIN = evr.dpsgd(noise_multiplier=2.0, sampling_probability=0.2, steps=200)


@pytest.fixture(autouse=True)
def version(monkeypatch):
    """The version that seems to be installed."""

    def seems(name):
        monkeypatch.setitem(sys.modules, "jax_privacy", J.module(name))

    seems("2.0")
    return seems


def config(kind="2.0", strategy=(1.0,), **options):
    if kind in ("2.3", "allocation"):
        options.setdefault("expected_participations", 200 * 0.2 / len(strategy))
    return J.CONFIGS[kind](strategy=np.array(strategy), **options)


# --- every version --------------------------------------------------------------------------------

MADE = ("2.2", "2.3", "allocation")


@pytest.mark.parametrize("kind", MADE)
def test_one_band_is_dp_sgd(kind, version):
    version(kind)
    assert read(config(kind)) == PLAIN == read(config(kind).make())
    assert read(config(kind, num_examples=1000)) == E.ZeroOutDpEvent(PLAIN) == read(config(kind, num_examples=9).make())


def test_one_band_of_2_0():
    independent = config(partition_type=J.PartitionType.INDEPENDENT, accountant=J.Accountant(ADD_OR_REMOVE))
    assert read(config(strategy=[3.0])) == E.ZeroOutDpEvent(PLAIN)
    assert read(independent) == PLAIN, "an accountant for add-or-remove was asked for"
    assert read(independent.plan) == E.ZeroOutDpEvent(PLAIN), "the plan of 2.0 does not say"
    assert read(independent.plan, neighboring_relation="add-or-remove") == PLAIN


@pytest.mark.parametrize("kind", ["2.0", *MADE])
def test_bands(kind, version, tmp_path):
    version(kind)
    bands = config(kind, BANDS, num_examples=1000)
    event = read(bands)
    norm = float(np.linalg.norm(BANDS))
    assert event == E.ZeroOutDpEvent(E.CyclicPoissonDpEvent(2.0 * norm, 200, 4, 0.2, "fixed", BANDS))
    with pytest.raises(OtherRelationError, match="'zero-out'"):
        evr.certify(event, delta=1e-5, neighboring_relation="add-or-remove")
    certificate = evr.certify(event, delta=1e-5, ledger=tmp_path / "ledger.sqlite")
    assert "(4 fixed groups in turn, sampling probability 0.2, 200 it" in certificate.statement
    assert "under zero-out adjacency" in certificate.statement
    theirs = evr.estimate_epsilon((bands.plan if kind == "2.0" else bands.make()).dp_event, 1e-5).value
    assert evr.estimate_epsilon(event, 1e-5).value == near(theirs, rel=1e-9), "the law is theirs: no number changes"
    with pytest.raises(UnsupportedEventError, match=r"fixed groups take turns.*neighboring_relation='zero-out'"):
        read(bands, neighboring_relation="add-or-remove")


@pytest.mark.parametrize("kind", MADE)
def test_random_groups(kind, version):
    version(kind)
    event = read(config(kind, (1.0, 0.5)))
    assert event.partition == "independent"
    assert name_of(Composition.of(event).relation) == "add-or-remove"


def test_random_groups_of_2_0():
    independent = config(strategy=(1.0, 0.5), partition_type=J.PartitionType.INDEPENDENT)
    event = read(independent)
    assert event.event.partition == "independent"
    assert read(replace(independent, accountant=J.Accountant(ADD_OR_REMOVE))) == event.event


@pytest.mark.parametrize("kind", ["2.0", *MADE])
def test_batches_that_are_cut_off(kind, version):
    version(kind)
    cut = config(kind, truncated_batch_size=300, num_examples=1000)
    with pytest.raises(
        UnsupportedEventError,
        match=r"under zero-out the empty record takes a place.*neighboring_relation='add-or-remove'",
    ):
        read(cut)
    event = read(cut, neighboring_relation="add-or-remove")
    assert event == cut.event()
    assert name_of(Composition.of(event).relation) == "add-or-remove"
    with pytest.raises(UnsupportedEventError, match="truncates batches at 64"):
        read(config(kind, (1.0, 0.5), truncated_batch_size=64, num_examples=1000), neighboring_relation=ADD_OR_REMOVE)


def test_a_trainer_is_its_configuration(version):
    version("2.3")
    assert read(J.DPTrainer(config=config("2.3"))) == PLAIN
    with pytest.raises(UnsupportedEventError, match=r"noise_seed=42: whoever knows the seed knows the noise.*\(None\)"):
        read(J.DPTrainer(config=config("2.3"), performance_flags=J.PerformanceFlags(noise_seed=42)))


# --- columns of length 1 --------------------------------------------------------------------------


def test_normalised_columns_of_2_0():
    """The noise of the plan is |c| times the multiplier also where columns have length 1."""
    short = config(strategy=[0.5, 0.25], iterations=5, column_normalize=True)
    event = read(short)
    stated = evr.estimate_epsilon(short.plan.dp_event, 1e-5).value
    true = evr.dpsgd(noise_multiplier=2 * np.hypot(0.5, 0.25), sampling_probability=0.2, steps=3)
    ours = evr.estimate_epsilon(event, 1e-5).value
    assert ours == near(evr.estimate_epsilon(true, 1e-5).value, rel=1e-9)
    assert ours > 2 * stated
    assert [len(column) for column in event.event.strategy] == [2, 2, 2, 2, 1]


@pytest.mark.parametrize("kind", MADE)
def test_normalised_columns_where_versions_differ_in_the_noise(kind, version):
    version(kind)
    with pytest.raises(
        UnsupportedEventError, match=r"norm 5: versions .* differ in the noise. Divide the strategy by its norm"
    ):
        read(config(kind, [3.0, 4.0], column_normalize=True))
    assert read(config(kind, [0.6, 0.8], column_normalize=True)).noise_multiplier == near(2.0)


# --- batch selection ------------------------------------------------------------------------------


def test_schemes():
    cyclic = J.CyclicPoissonSampling(0.1, 100, cycle_length=4)
    assert read(cyclic, noise_multiplier=2.0) == E.CyclicPoissonDpEvent(2.0, 100, 4, 0.1, "fixed")
    independent = replace(cyclic, partition_type=J.PartitionType.INDEPENDENT)
    assert read(independent, noise_multiplier=2.0).partition == "independent"
    event = read(J.BMinSepSampling(0.1, 100, 8), noise_multiplier=2.0, strategy=np.array([1.0, 0.5]))
    assert event == E.BMinSepDpEvent(2.0, 100, 8, 0.1, True, (1.0, 0.5))
    assert read(J.BallsInBinsSampling(100, 10), noise_multiplier=2.0) == E.BallsInBinsDpEvent(2.0, 100, 10)
    for allocation in (J.RandomAllocationSampling, J.CyclicAllocationSampling):
        assert read(allocation(1, 100), noise_multiplier=2.0) == E.BallsInBinsDpEvent(2.0, 100, 100)
        assert read(allocation(3, 100), noise_multiplier=2.0) == E.RandomAllocationDpEvent(2.0, 100, 3)


def test_allocation_in_cycles_is_allocation_in_one_group():
    """5 of 100 was certified at (3.49, 1e-6) where each record has 5 of the 10 turns of its group: delta was 1.9e-3."""
    found = E.AllocatedDpEvent(dp_event.GaussianDpEvent(1.0), 5, 10)
    for iterations in (100, 109):
        scheme = J.CyclicAllocationSampling(5, iterations, cycle_length=10)
        assert read(scheme, noise_multiplier=1.0) == E.ZeroOutDpEvent(found)
        assert read(scheme, noise_multiplier=1.0, neighboring_relation="add-or-remove") == found
    assert evr.estimate_delta(read(scheme, noise_multiplier=1.0), epsilon=1.0).value > 0.09322  # of random groups


def test_allocation_in_cycles_with_bands(version):
    """The greatest column, in the plan's own relation."""
    version("allocation")
    made = config("allocation", strategy=[3.0, 4.0], sub_strategy=J.CyclicInnerStrategy.RANDOM_ALLOCATION)
    event = read(made)
    assert (event.num_selected, event.num_steps) == (20, 100)
    assert event.event.noise_multiplier == near(2.0)
    with pytest.raises(UnsupportedEventError, match="cycle_length=2 and 3 bands"):
        read(J.CyclicAllocationSampling(5, 100, cycle_length=2), noise_multiplier=1.0, strategy=(1.0, 0.5, 0.5))
    with pytest.raises(UnsupportedEventError, match="total_participations=6: a group has 5 turns"):
        read(J.CyclicAllocationSampling(6, 100, cycle_length=20), noise_multiplier=1.0)


# --- what is refused by name ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["1.0.0", "2.4.0", "3.0.0", "of an unknown version"])
def test_versions_that_nobody_read(name, version):
    version(name)
    with pytest.raises(UnsupportedEventError, match=f"JAX Privacy {re.escape(name)}: evr has read 2.0 to 2.3"):
        read(J.BallsInBinsSampling(100, 10), noise_multiplier=2.0)


@pytest.mark.parametrize(
    "cls",
    [J.CyclicPoissonSampling, J.BallsInBinsSampling, J.BMinSepSampling, J.CyclicAllocationSampling, *J.CONFIGS.values(),
     J.OldPlan, J.Plan, J.DPTrainer],
)  # fmt: skip
def test_a_field_more_or_less_is_refused_by_name(cls):
    fields = [(name, "Any", None) for name in cls.__dataclass_fields__]
    for changed in ([*fields, ("burn_in", "Any", 7)], fields[1:]):
        other = make_dataclass(cls.__name__, changed)
        other.__module__, other.__qualname__ = cls.__module__, cls.__name__
        missing = "burn_in" if len(changed) > len(fields) else fields[0][0]
        with pytest.raises(UnsupportedEventError, match=rf"other fields than evr knows \({missing}"):
            read(other(), noise_multiplier=1.0)


def test_subclasses_and_classes_of_others():
    @dataclass(frozen=True)
    class Twice(J.CyclicPoissonSampling):
        def batch_iterator(self):
            return ()

    @dataclass(frozen=True)
    class BallsInBinsSampling:
        iterations: int
        cycle_length: int

    with pytest.raises(UnsupportedEventError, match="Twice is derived from JAX Privacy's Cyclic"):
        read(Twice(0.1, 100), noise_multiplier=2.0)
    for foreign in (BallsInBinsSampling(100, 10), 3, None):
        with pytest.raises(UnsupportedEventError, match=f"{type(foreign).__name__} is not of JAX Priv"):
            read(foreign, noise_multiplier=2.0)
    with pytest.raises(UnsupportedEventError, match="not account for JAX Privacy's FixedBatchSampl"):
        read(J.FixedBatchSampling(10, 100), noise_multiplier=2.0)


def test_members_of_enums_that_are_not_known():
    with pytest.raises(UnsupportedEventError, match=r"PartitionType\.SORTED is not one of EQUAL_SPLIT"):
        read(J.CyclicPoissonSampling(0.1, 100, partition_type=J.PartitionType.SORTED), noise_multiplier=2.0)


def test_what_no_theorem_covers(version):
    with pytest.raises(UnsupportedEventError, match="truncates batches at 64"):
        read(J.BMinSepSampling(0.1, 100, 8, truncated_batch_size=64), noise_multiplier=2.0)
    with pytest.raises(UnsupportedEventError, match="total_participations=3 and correlated noise"):
        read(J.RandomAllocationSampling(3, 100), noise_multiplier=2.0, strategy=(1.0, 0.5))
    with pytest.raises(UnsupportedEventError, match="for replace-one adjacency"):
        read(config(accountant=J.Accountant(NeighboringRelation.REPLACE_ONE)))
    with pytest.raises(UnsupportedEventError, match=r"noise_seed=42: whoever knows the seed knows the noise.*\(None\)"):
        read(config(noise_seed=42))
    for norm in (0.0, float("inf"), float("nan")):
        with pytest.raises(UnsupportedEventError, match="clipping is switched off"):
            read(config(l2_clip_norm=norm))
    version("2.2")
    with pytest.raises(UnsupportedEventError, match=r"no noise_multiplier: calibrate\(\) it first"):
        read(config("2.2", noise_multiplier=None))
    with pytest.raises(UnsupportedEventError, match="give 'zero-out' or 'add-or-remove'"):
        read(config("2.2"), neighboring_relation="replace-one")


def test_plans_that_do_not_say_enough():
    bands = config(strategy=[1.0, 0.5])
    with pytest.raises(UnsupportedEventError, match="give the configuration that makes it"):
        read(bands.plan)
    with pytest.raises(UnsupportedEventError, match="give the configuration that makes it"):
        read(config(truncated_batch_size=64, num_examples=1000).plan)
    plan = config().plan
    others = ({"dp_event": bands.plan.dp_event}, {"dp_event": None})
    schemes = (J.BallsInBinsSampling(200, 1), J.CyclicPoissonSampling(0.3, 200))
    for changes in (*others, *({"batch_selection_strategy": scheme} for scheme in schemes)):
        with pytest.raises(UnsupportedEventError, match="give the configuration that makes it"):
            read(replace(plan, **changes))


def test_what_is_given_twice_or_not_at_all():
    with pytest.raises(TypeError, match="says its noise and its strategy itself"):
        read(config(), noise_multiplier=2.0)
    with pytest.raises(TypeError, match="does not say how much noise was added"):
        read(J.CyclicPoissonSampling(0.1, 100))


@pytest.mark.parametrize("ask", [evr.certify, evr.estimate_epsilon])
def test_a_plan_where_an_event_belongs_is_answered_in_one_line(ask):
    for source in (config(strategy=np.ones(500)), config(strategy=np.ones(50)).plan):
        with pytest.raises(
            TypeError, match=r"of JAX Privacy at event is not a DpEvent: give evr.events.from_jax_privacy\(config\)"
        ) as refused:
            ask(source, delta=1e-5)
        assert len(str(refused.value)) < 160


def test_the_reader_does_not_load_jax():
    assert "jax" not in reader.__dict__
    assert reader.VERSIONS == ("2.0", "2.1", "2.2", "2.3")
