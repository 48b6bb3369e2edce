"""The table of meanings: what each mechanism, scheme and wrapper means under each relation of neighbours, or why it is
refused there. Whatever evr says of relations, units and hypotheses is made from these rows. docs/meaning.md shows them;
docs/guarantees_relations.md, Section R9, goes through them one by one.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from dp_accounting import NeighboringRelation, dp_event

from evr.mechanisms import noise, relations, schemes, training
from evr.mechanisms.hypotheses import assumed
from evr.mechanisms.relations import ADD_OR_REMOVE, REPLACE_ONE, ZERO_OUT, Mechanism, Translator, Variant


class _Law(NamedTuple):
    """A theorem, the ids of its hypotheses, a translator, and the relation that is taken if none is asked for."""

    theorem: str
    hypotheses: str = ""
    pair: Translator | None = None
    instead: NeighboringRelation | None = None


class _No(NamedTuple):
    """As ``relations.Refused``."""

    why: str
    remedy: str
    instead: NeighboringRelation | None = None


_ORDER = (ADD_OR_REMOVE, ZERO_OUT, REPLACE_ONE)
_Cell = _Law | _No
_Row = tuple[type[dp_event.DpEvent], Variant]


def _row(
    event: type[dp_event.DpEvent],
    kind: str,
    cells: tuple[_Cell, _Cell, _Cell],
    of: str = "",
    holds: Callable[[Any], bool] = lambda event: True,
    inside: Iterable[str] | None = None,
    unit: str | None = "record",
) -> _Row:
    """A variant, from what it means under add-or-remove, zero-out and replace-one."""
    answers: dict[NeighboringRelation, relations.Answer] = {}
    for relation, cell in zip(_ORDER, cells, strict=True):
        if isinstance(cell, _No):
            answers[relation] = relations.Refused(relation, *cell)
        else:
            theorem, ids, pair, instead = cell
            answers[relation] = relations.Meaning(relation, unit, theorem, assumed(ids, relation), pair, instead)
    kinds = None if inside is None else frozenset(inside)
    return event, Variant(f"{event.__name__}{of}", kind, answers, holds, kinds)


def ask_for(relation: NeighboringRelation) -> str:
    """A remedy in words that hold for Python and for flags."""
    name = relations.name_of(relation)
    return f"it has one under {name!r}: neighboring_relation={name!r} (--adjacency {name})"


# --- noise, answers and known guarantees ----------------------------------------------------------


def _noise(laws: Callable[..., Any], ids: str, add: str = "R9.1", zero: str = "R1.2", replace: str = "R1.3") -> Any:
    """Noise on a sum: replacing a record changes the sum by up to twice its norm."""
    return _Law(add, ids, laws), _Law(zero, ids, laws), _Law(replace, ids, partial(laws, times=2))


def _known(event: type[dp_event.DpEvent], theorem: str, ids: str, laws: Translator) -> _Row:
    return _row(event, "known", (_Law(theorem, ids, laws),) * 3, unit=None)


_INTEGERS = _noise(noise.discrete_gaussian, "integers sensitivity")
_ANSWERS = (
    _No(
        "everybody answers, so one record more is one published answer more",
        f"{ask_for(REPLACE_ONE)}, which compares an answer with another answer",
    ),
    _Law("R1.2", "empty-record-answers", partial(noise.randomized_response, uniform=True)),
    _Law("R1.4", "", noise.randomized_response),
)
_MIXED = _noise(noise.mixture, "random-sensitivity", "R5.4", "R5.4", "R5.3")
_SINGLE = (
    _row(dp_event.GaussianDpEvent, "gaussian", _noise(noise.gaussian, "sensitivity")),
    _row(dp_event.LaplaceDpEvent, "scalar", _noise(noise.laplace, "sensitivity")),
    _row(dp_event.DiscreteLaplaceDpEvent, "scalar", _noise(noise.discrete_laplace, "integers sensitivity")),
    _row(schemes.DiscreteGaussianDpEvent, "scalar", _INTEGERS, " on one number", lambda event: event.dimension == 1),
    _row(schemes.DiscreteGaussianDpEvent, "noise", _INTEGERS, " on many numbers"),
    _row(schemes.SummedDiscreteGaussiansDpEvent, "noise", _INTEGERS),
    _row(dp_event.MixtureOfGaussiansDpEvent, "noise", _MIXED),
    _known(schemes.EpsilonDeltaDpEvent, "R1.4", "known-private", noise.epsilon_delta),
    _known(dp_event.ZCDpEvent, "state G3", "known-zcdp", noise.concentrated),
    _known(schemes.ExponentialMechanismDpEvent, "state G4", "exponential-choice score-sensitivity", noise.exponential),
    _known(schemes.PermuteAndFlipDpEvent, "state G6", "score-sensitivity", noise.permute_and_flip),
    _row(dp_event.RandomizedResponseDpEvent, "any", _ANSWERS),
)

# --- training schemes -----------------------------------------------------------------------------

_MOVES = _No("one record more moves others to other batches", ask_for(ZERO_OUT), ZERO_OUT)
_MOVES_LEAVES = _MOVES._replace(why="one record more moves others to other leaves")
_NO_THEOREM = _No("no theorem here says what replacing a record costs", ask_for(ZERO_OUT))
_SAME_FOR_ALL, _IN_BATCH = (
    "constant-rate-and-steps own-contribution",
    "constant-rate-and-steps own-contribution-in-batch",
)


def _by_itself(theorem: str, ids: str, laws: Translator, replaced: Translator | None = None) -> Any:
    """A scheme in which each record takes part by itself, whoever else does."""
    law = _Law(theorem, f"{ids} {_SAME_FOR_ALL}", laws)
    return law, law, law._replace(theorem="R8.1", pair=replaced or laws)


def _has_fixed_groups(event: Any) -> bool:
    return bool(event.partition == "fixed" and event.cycle_length != 1)


_BINS, _MIN_SEP = training.balls_in_bins, training.min_sep
_GROUPS = _Law("highdim 3.1", f"fixed-groups {_SAME_FOR_ALL}", training.cyclic_poisson)
_MATRIX = _Law(
    "highdim 3.2", f"separated-participation participation-not-by-content {_SAME_FOR_ALL}", training.matrix_mechanism
)
_MATRIX_ADDED = _Law(
    "highdim 3.2", f"separated-participation others-stay {_SAME_FOR_ALL}", training.matrix_mechanism, ZERO_OUT
)
_SHUFFLED = _Law("guarantees 1.6", f"shuffled-batches {_IN_BATCH}", training.shuffled_batches)
_TREE = _Law("R1.5", f"one-step-of-all-trees participation-not-by-content {_IN_BATCH}", training.tree_aggregation)
_CUT = _Law("R3.1", f"truncated-batches truncated-dataset-size {_IN_BATCH}", training.truncated)
_PLACE = _No("an empty or another record takes a place in a batch that is cut off", ask_for(ADD_OR_REMOVE))
_cyclic = partial(_row, schemes.CyclicPoissonDpEvent, "scheme")
_SCHEMES = (
    _row(
        schemes.BallsInBinsDpEvent,
        "scheme",
        _by_itself("highdim Theorem 1", "bins-drawn-once", _BINS, partial(training.replaced, _BINS)),
    ),
    _row(
        schemes.RedrawnBinsDpEvent, "scheme", _by_itself("highdim 1.3", "bins-drawn-each-epoch", training.redrawn_bins)
    ),
    _row(schemes.RandomAllocationDpEvent, "scheme", _by_itself("state G7", "random-allocation", training.allocation)),
    _row(
        schemes.BMinSepDpEvent,
        "scheme",
        _by_itself("highdim Theorem 1", "b-min-sep", _MIN_SEP, partial(training.replaced, _MIN_SEP)),
    ),
    _cyclic((_MOVES, _GROUPS, _GROUPS._replace(theorem="R8.2")), ", fixed groups", _has_fixed_groups),
    _cyclic(_by_itself("highdim 3.1", "independent-groups", training.cyclic_poisson), ", independent groups or one"),
    _row(schemes.MatrixMechanismDpEvent, "scheme", (_MATRIX_ADDED, _MATRIX, _MATRIX)),
    _row(schemes.ShuffledBatchesDpEvent, "scheme", (_MOVES, _SHUFFLED, _SHUFFLED)),
    _row(dp_event.SingleEpochTreeAggregationDpEvent, "scheme", (_MOVES_LEAVES, _TREE, _NO_THEOREM)),
    _row(dp_event.TruncatedSubsampledGaussianDpEvent, "scheme", (_CUT, _PLACE, _PLACE)),
)

# --- users who own several records ----------------------------------------------------------------

USERS_OF = (
    schemes.BallsInBinsDpEvent,
    schemes.RedrawnBinsDpEvent,
    schemes.BMinSepDpEvent,
    schemes.CyclicPoissonDpEvent,
    schemes.MatrixMechanismDpEvent,
)
"""Schemes for records that may be about users."""
_SAMPLED = _Law("R5.4", "records-per-user poisson records-clipped constant-rate-and-steps", training.sampled_users)
_SAMPLED_TWICE = _SAMPLED._replace(
    hypotheses=f"{_SAMPLED.hypotheses} padded-users", pair=partial(training.sampled_users, times=2)
)
_FIXED = _Law(
    "R7.3",
    "records-per-user without-replacement padded-users records-clipped constant-rate-and-steps",
    training.fixed_batches,
)
_FIXED_SIZE = _No(
    "in batches of a fixed size a record that comes, goes or is empty takes or leaves a place", ask_for(REPLACE_ONE)
)
_SPLIT = _Law("R7.4", "records-per-user each-record-of-a-user", training.split)
_SPLIT_TWICE = _SPLIT._replace(hypotheses="records-per-user padded-users each-record-of-a-user")
_NOT_SPLIT = _No(
    "the noise of a scheme for records is split among the records of a user, and this is none",
    f"give one of {', '.join(sorted(cls.__name__ for cls in USERS_OF))}; for DP-SGD, dpsgd(..., records_per_user=...) "
    "(--records-per-user)",
)
_users = partial(_row, schemes.UsersDpEvent, "scheme", unit="user")
_USERS = (
    _row(schemes.PoissonSampledUsersDpEvent, "scheme", (_SAMPLED, _SAMPLED, _SAMPLED_TWICE), unit="user"),
    _row(schemes.FixedBatchUsersDpEvent, "scheme", (_FIXED_SIZE, _FIXED_SIZE, _FIXED), unit="user"),
    _users(
        (_MOVES, _SPLIT, _SPLIT_TWICE),
        " of CyclicPoissonDpEvent, fixed groups",
        lambda event: type(event.event) is schemes.CyclicPoissonDpEvent and _has_fixed_groups(event.event),
    ),
    _users(
        (_SPLIT._replace(instead=ZERO_OUT), _SPLIT, _SPLIT_TWICE),
        " of MatrixMechanismDpEvent",
        lambda event: type(event.event) is schemes.MatrixMechanismDpEvent,
    ),
    _users(
        (_SPLIT, _SPLIT, _SPLIT_TWICE),
        " of bins, min-sep or independent groups",
        lambda event: type(event.event) in USERS_OF,
    ),
    _users((_NOT_SPLIT,) * 3, " of anything else"),
)

# --- what wraps other events ----------------------------------------------------------------------

NOISE = frozenset({"gaussian", "scalar", "noise", "own noise"})
"""Kinds of mechanisms that say that they add noise to a sum. A pair does not say that."""
_ANY = NOISE | {"known", "any"}
_AROUND = _No(
    "what is inside says itself who takes part, so it cannot be applied to a sample of the records",
    "describe one sampling",
)
_ONE_SELECTION = _No(
    "a selection may be neither part of a run of another selection nor made on a sample of the records",
    "describe one selection, around the sampling",
)
_EMPTIED = _No(
    "only of additive noise on a sum is it known that an empty record in a batch is as good as an absent one",
    ask_for(ADD_OR_REMOVE),
)
_REPLACED = _No("only additive noise on a sum has a theorem about replacing a sampled record", ask_for(ADD_OR_REMOVE))
_OTHER_NOISE = _No("no theorem here is about replacing a sampled record under this noise", ask_for(ADD_OR_REMOVE))
_ADDED = _Law("guarantees 1.4", "poisson constant-rate-and-steps")
_ZEROED, _TWO_SIDED = _ADDED._replace(theorem="R1.2"), _ADDED._replace(theorem="R5.2")
_SCALARS = _Law("R6.1", "poisson constant-rate-and-steps scalar-noise")
_ANEW = _Law("R2.1", "without-replacement constant-rate-and-steps")
_ANEW_BY_ITSELF = _ANEW._replace(hypotheses=f"{_ANEW.hypotheses} batch-by-itself")
_ZERO_OUT_ONLY = _No("it was said to hold for zeroing out a record only", ask_for(ZERO_OUT), ZERO_OUT)
_EVERYBODY = (_Law("guarantees 1.1", "constant-rate-and-steps"),) * 3
_BEST = (_Law("selection T1", "fresh-runs scored-by-output hidden-number-of-runs"),) * 3
_poisson = partial(_row, dp_event.PoissonSampledDpEvent, "inside")
_without_replacement = partial(_row, dp_event.SampledWithoutReplacementDpEvent, "scheme")
_SELECTIONS = (dp_event.RepeatAndSelectDpEvent, schemes.BinomialSelectDpEvent, schemes.ThresholdSelectDpEvent)
_WRAPPERS = (
    _poisson(_EVERYBODY, " with probability 1", lambda event: bool(event.sampling_probability == 1), unit=None),
    _poisson((_ADDED, _ZEROED, _TWO_SIDED), " of Gaussian noise", inside={"gaussian"}),
    _poisson((_ADDED, _ZEROED, _SCALARS), " of Laplace or integer noise on one number", inside={"scalar"}),
    _poisson((_ADDED, _ZEROED, _SCALARS), " of registered noise", inside={"own noise"}),
    _poisson((_ADDED, _ZEROED, _OTHER_NOISE), " of other noise on a sum", inside=NOISE),
    _poisson((_ADDED, _EMPTIED, _REPLACED), " of a known guarantee", inside=NOISE | {"known"}),
    _poisson((_ADDED, _EMPTIED, _REPLACED), " of any other mechanism", inside=_ANY),
    _poisson((_AROUND,) * 3, " of a scheme", inside=_ANY | {"scheme"}),
    _poisson((_ONE_SELECTION,) * 3, " of a selection"),
    _without_replacement((_FIXED_SIZE, _FIXED_SIZE, _ANEW), " of noise on a sum", inside=NOISE),
    _without_replacement((_FIXED_SIZE, _FIXED_SIZE, _ANEW_BY_ITSELF), " of any other mechanism", inside=_ANY),
    _without_replacement((_AROUND,) * 3, " of a scheme", inside=_ANY | {"scheme"}),
    _without_replacement((_ONE_SELECTION,) * 3, " of a selection"),
    *(_row(one, "selection", _BEST, inside=_ANY | {"scheme"}, unit=None) for one in _SELECTIONS),
    *(_row(one, "selection", (_ONE_SELECTION,) * 3, " of a selection", unit=None) for one in _SELECTIONS),
    _row(schemes.ZeroOutDpEvent, "inside", (_ZERO_OUT_ONLY, _Law("R1.7"), _ZERO_OUT_ONLY), unit=None),
)


def _by_class(rows: Iterable[_Row]) -> dict[type[dp_event.DpEvent], Mechanism]:
    found: dict[type[dp_event.DpEvent], tuple[Variant, ...]] = {}
    for event, variant in rows:
        found[event] = (*found.get(event, ()), variant)
    return {event: Mechanism(event, variants) for event, variants in found.items()}


BUILT_IN = _by_class((*_SINGLE, *_SCHEMES, *_USERS))
WRAPPERS = _by_class(_WRAPPERS)


def registered(
    event_type: type[dp_event.DpEvent],
    translator: Translator,
    hypotheses: tuple[relations.Hypothesis, ...] = (),
    kind: str = "any",
    relation: Callable[[Any], NeighboringRelation] | None = None,
    under: Mapping[NeighboringRelation, Translator | None] = MappingProxyType({}),
) -> Mechanism:
    """Its rows of the table: one variant for each relation that a function of the event may name, or for adding or
    removing one record. These laws serve zeroing out too, unless ``under`` says otherwise.
    """
    law = relations.Meaning(ADD_OR_REMOVE, "record", "evr.register", hypotheses, translator)

    def answer(asked: NeighboringRelation, held: NeighboringRelation) -> relations.Answer:
        if (own := under.get(asked)) is not None:
            return replace(law, relation=asked, pair=own)
        if asked is held and asked not in under:
            return replace(law, relation=asked)
        if asked is ZERO_OUT and held is ADD_OR_REMOVE and asked not in under:
            more = () if kind in NOISE else assumed("empty-as-absent", ZERO_OUT)
            return replace(law, relation=asked, hypotheses=(*hypotheses, *more))
        instead = held if held is ZERO_OUT else None
        return relations.Refused(asked, "whoever registered it gave no laws for it", ask_for(held), instead)

    def variant(held: NeighboringRelation) -> Variant:
        answers = {asked: answer(asked, held) for asked in _ORDER}
        if relation is None:
            return Variant(event_type.__name__, kind, answers)
        subject = f"{event_type.__name__} that holds under {relations.name_of(held)}"
        return Variant(subject, kind, answers, lambda event: relation(event) is held)

    if relation is not None:
        return Mechanism(event_type, tuple(map(variant, _ORDER)), speaks=bool(hypotheses))
    standing = {asked: replace(law, relation=asked) for asked in _ORDER if asked not in under}
    return Mechanism(event_type, (variant(ADD_OR_REMOVE),), settles=False, speaks=bool(hypotheses), stands_for=standing)
