"""Sampling of what an event tree has inside: the pairs of the sampled mechanism, or why there are
none.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TypeAlias

from dp_accounting import NeighboringRelation, dp_event

from evr import validate
from evr.errors import UnsupportedEventError
from evr.laws.exact import NON_PRIVATE_LAW, ExactPairs, exact_sampled, exact_without_replacement
from evr.laws.law import Direction, Pairs
from evr.laws.line import poisson, without_replacement
from evr.laws.line.discrete import TRIVIAL_PAIR
from evr.laws.steps import NON_PRIVATE_PAIR, Step, on_a_line, simplify
from evr.mechanisms.exact import exact_steps
from evr.mechanisms.relations import ADD_OR_REMOVE, REPLACE_ONE, not_under

NON_PRIVATE_PAIRS = Pairs(NON_PRIVATE_PAIR, NON_PRIVATE_PAIR, ExactPairs.both(NON_PRIVATE_LAW))
_TRIVIAL = Pairs(TRIVIAL_PAIR, TRIVIAL_PAIR)
_LEAST = 1e-250  # of a sampling probability but 0

Sampled: TypeAlias = "dp_event.PoissonSampledDpEvent | dp_event.SampledWithoutReplacementDpEvent"


@dataclass(frozen=True)
class Sampling:
    """A sampled part of a tree: its mechanisms are gathered until it ends.

    ``share`` is how likely a record takes part, below 1.
    """

    node: Sampled
    share: Fraction
    path: str
    inner: dict[Pairs, int] = field(default_factory=dict)

    def add(self, pairs: Pairs, count: int) -> None:
        """One more mechanism inside, so many times."""
        self.inner[pairs] = self.inner.get(pairs, 0) + count

    @property
    def _name(self) -> str:
        poisson = isinstance(self.node, dp_event.PoissonSampledDpEvent)
        return "Poisson sampling" if poisson else "sampling without replacement"

    def pairs(self) -> Pairs | None:
        """The pairs of what is inside, sampled; None if it costs nothing."""
        inner = {pairs: count for pairs, count in self.inner.items() if pairs != _TRIVIAL}
        if self.share == 0 or not inner:
            return None
        if NON_PRIVATE_PAIRS in inner:
            return NON_PRIVATE_PAIRS  # as dp_accounting: sampling does not help
        folded = [_folded(inner, direction) for direction in Direction]
        if not any(folded):
            return None
        if any(len(steps) != 1 or steps[0].count != 1 for steps in folded):
            raise UnsupportedEventError(
                f"{self._name} of a composition of several mechanisms at {self.path} has no "
                f"one-dimensional pair here: {self.node!r}. Sample one mechanism, or a composition "
                "of Gaussian mechanisms only; sampling each step anew is "
                f"SelfComposedDpEvent({type(self.node).__name__}(...)).",
                self.node,
            )
        if not all(map(on_a_line, folded)):
            raise UnsupportedEventError(
                f"{self._name} of {folded[0][0].law.describe()} at {self.path} has no pair here: "
                f"{self.node!r}. The scheme samples already; give its event without "
                f"{type(self.node).__name__}.",
                self.node,
            )
        base = Pairs(folded[0][0].law, folded[1][0].law)
        exact = _exact(tuple(inner.items()))
        if isinstance(self.node, dp_event.PoissonSampledDpEvent):
            return replace(
                poisson.sampled(base, float(self.share)),
                exact=None if exact is None else exact_sampled(exact, self.share),
            )
        return replace(
            without_replacement.sampled(base, float(self.share)),
            exact=None if exact is None else exact_without_replacement(exact, self.share),
        )


def sampling_of(node: Sampled, path: str, relation: NeighboringRelation) -> Sampling | None:
    """The sampling that a node stands for; None if every record takes part."""
    if isinstance(node, dp_event.PoissonSampledDpEvent):
        q = validate.probability(sampling_probability=node.sampling_probability)
        if 0 < q < _LEAST:
            raise ValueError(
                f"sampling_probability={q!r} is below {_LEAST:g}, where floats lose what a sampled "
                f"record adds: give {_LEAST:g}, which covers it, or 0 if nobody is sampled"
            )
        if relation is REPLACE_ONE and 0 < q < 1:
            raise not_under(f"Poisson sampling at {path}", relation, node, ADD_OR_REMOVE)
        return None if q == 1 else Sampling(node, Fraction(q), path)
    size = validate.positive_integer(source_dataset_size=node.source_dataset_size)
    batch = validate.non_negative_integer(sample_size=node.sample_size)
    if batch > size:
        raise ValueError(f"sample_size={batch!r} is above source_dataset_size={size!r}")
    if relation is not REPLACE_ONE:
        raise not_under(f"sampling without replacement at {path}", relation, node, REPLACE_ONE)
    return None if batch == size else Sampling(node, Fraction(batch, size), path)


def _folded(inner: dict[Pairs, int], direction: Direction) -> tuple[Step, ...]:
    """The laws of one direction, equal ones merged, Gaussians folded into one."""
    counts: dict[object, Step] = {}
    for pairs, count in inner.items():
        law = pairs.of(direction)
        counts[law] = Step(law, count + (counts[law].count if law in counts else 0))
    return simplify(tuple(counts.values()))


def _exact(inner: tuple[tuple[Pairs, int], ...]) -> ExactPairs | None:
    """The exact laws of what has folded into one mechanism."""
    if any(pairs.exact is None for pairs, _ in inner):
        return None
    remove, add = (exact_steps(inner, direction)[0].law for direction in Direction)
    return ExactPairs(remove, add)
