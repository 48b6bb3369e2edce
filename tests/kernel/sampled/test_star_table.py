"""Replicas around one of them: the bound on their weights, and the law of what is accepted, by enumeration."""

import math
from collections import Counter, defaultdict
from itertools import product

import numpy as np
import pytest
from dp_accounting import dp_event

from evr._basics.randomness import Stream
from evr._kernel.events import Composition
from evr._kernel.pairs import Direction
from evr._kernel.pairs.patterns.bins import CorrelatedBins
from evr._kernel.pairs.patterns.law import PatternLaw
from evr._kernel.sampled.plan import ByOrder, ByStar, DrawPlan, MixturePlan
from evr._kernel.sampled.proposals import built
from evr._kernel.sampled.replica_tables import OccupancyTable, has_star, star_of
from evr._kernel.sampled.star_table import StarTable
from evr.events import BallsInBinsDpEvent, BMinSepDpEvent
from helpers import near

EVENT = BallsInBinsDpEvent(1.5, 10, 5, (0.8, 0.5, 0.33))


def law_of(event: dp_event.DpEvent) -> CorrelatedBins:
    law = Composition.of(event).simplified("remove")[0].floats
    assert isinstance(law, CorrelatedBins)
    return law


LAW = law_of(EVENT)


def weights_of(law: CorrelatedBins, order: int) -> dict[tuple[int, ...], float]:
    """The weight of each occupancy, added up over the bins of all replicas."""
    found: defaultdict[tuple[int, ...], float] = defaultdict(float)
    for bins in product(range(law.bins), repeat=order):
        pairs = sum(law.gram[bins[i], bins[j]] for i in range(order) for j in range(i))
        found[tuple(np.bincount(bins, minlength=law.bins).tolist())] += math.exp(pairs) / law.bins**order
    return found


@pytest.mark.parametrize("order", [2, 3, 5])
def test_accepted_replicas_have_the_law_of_order_k(order: int) -> None:
    table, weights, size = StarTable(LAW, order), weights_of(LAW, order), 60_000
    moment = math.fsum(weights.values())
    assert moment == near(math.exp(OccupancyTable(LAW, order).log_moment), rel=1e-12)
    around = np.exp(order / 2 * LAW.gram).mean(axis=1)
    assert table.log_moment == near(math.log((around ** (order - 1)).mean()), rel=1e-12)
    assert table.log_moment >= math.log(moment) - 1e-12
    occupied, pulled, accepted = table.draw(np.random.default_rng(1), size)
    np.testing.assert_allclose(pulled, occupied @ LAW.gram, rtol=1e-14)
    seen = Counter(tuple(row) for row in occupied[accepted].astype(int).tolist())
    for state, weight in weights.items():  # accepted draws have the density weight / exp(log_moment)
        chance = weight / math.exp(table.log_moment)
        assert abs(seen[state] / size - chance) < 6.0 * math.sqrt(chance * (1.0 - chance) / size) + 1e-5


@pytest.mark.parametrize("by_place", [False, True])
def test_the_mean_is_that_of_another_order(by_place: bool) -> None:
    steps, size = Composition.of(EVENT).simplified("remove"), 200_000
    found = []
    for part in (ByStar(5), ByOrder(4)):
        proposal = built(MixturePlan(part, by_place=by_place), steps)
        values = proposal.draw(Stream(3, "star").block(0), size).values(1.0)
        assert values.max() <= math.exp(proposal.log_greatest(1.0)) * (1 + 1e-9)
        found.append((values.mean(), values.std() / math.sqrt(size)))
    (one, error), (other, other_error) = found
    assert abs(one - other) < 6.0 * math.hypot(error, other_error)


def test_a_plan_of_replicas_is_data() -> None:
    plan = DrawPlan(MixturePlan(ByStar(7)))
    assert DrawPlan.from_json(plan.to_json()) == plan


def test_replicas_are_refused_where_they_are_not_drawn() -> None:
    min_sep = Composition.of(BMinSepDpEvent(2.0, 60, 4, 0.2, True, (0.8, 0.6))).simplified("remove")[0].floats
    independent = Composition.of(BallsInBinsDpEvent(3.0, 200, 20)).simplified("remove")[0].floats
    for law, order in ((min_sep, 3), (independent, 3), (LAW, 1), (LAW, 41)):
        assert isinstance(law, PatternLaw)
        assert not has_star(law, order)
        with pytest.raises(ValueError, match="not drawn around one of them"):
            star_of(law, order)
    steps = Composition.of(EVENT).simplified(Direction.ADD)
    with pytest.raises(ValueError, match="has no part"):
        built(MixturePlan(ByStar(3)), steps)
