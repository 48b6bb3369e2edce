"""Makes docs/meaning.md from the table of meanings (src/evr/_kernel/events/meanings.md).

python docs/meaning_page.py            # print the page
python docs/meaning_page.py --write    # write it
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from dp_accounting import NeighboringRelation
from dp_accounting import dp_event as d

from evr._kernel.events import Composition
from evr._kernel.events import schemes as s
from evr._kernel.events.attained import is_attained
from evr._kernel.events.meaning import row_of, rows
from evr._kernel.events.relations import Meaning, Refused
from evr._kernel.events.table import BUILT_IN, HYPOTHESES, WRAPPERS
from evr.errors import UnsupportedEventError

DOCS = Path(__file__).resolve().parent
PAGE = DOCS / "meaning.md"
RELATIONS = {
    "add-or-remove": NeighboringRelation.ADD_OR_REMOVE_ONE,
    "zero-out": NeighboringRelation.REPLACE_SPECIAL,
    "replace-one": NeighboringRelation.REPLACE_ONE,
}
FILES = {
    "R": "guarantees_relations.md",
    "guarantees ": "guarantees.md",
    "highdim ": "guarantees_highdim.md",
    "state ": "guarantees_state.md",
    "selection ": "guarantees_selection.md",
    "nested ": "guarantees_nested.md",
}
BANDS = (1.0, 0.5)
CORRELATED, INDEPENDENT = "correlated", "independent"


def sampled(event: d.DpEvent, q: float = 0.1) -> d.DpEvent:
    return d.PoissonSampledDpEvent(q, event)


def drawn(event: d.DpEvent) -> d.DpEvent:
    return d.SampledWithoutReplacementDpEvent(100, 10, event)


GAUSSIAN, BINS = d.GaussianDpEvent(2.0), s.BallsInBinsDpEvent(2.0, 6, 3)
FIXED = s.CyclicPoissonDpEvent(2.0, 6, 3, 0.5, "fixed")
MATRIX = s.MatrixMechanismDpEvent(2.0, BANDS, 6, 3)
BEST = d.RepeatAndSelectDpEvent(GAUSSIAN, 5.0, 1.0)
EXAMPLES: dict[str, d.DpEvent] = {
    "GaussianDpEvent": GAUSSIAN,
    "AdaptiveClippingDpEvent": s.AdaptiveClippingDpEvent(2.0, 5.0),
    "LaplaceDpEvent": d.LaplaceDpEvent(2.0),
    "DiscreteLaplaceDpEvent": d.DiscreteLaplaceDpEvent(0.5, 2),
    "DiscreteGaussianDpEvent on one number": s.DiscreteGaussianDpEvent(3.0, 1),
    "DiscreteGaussianDpEvent on many numbers": s.DiscreteGaussianDpEvent(30.0, 10, 5),
    "SummedDiscreteGaussiansDpEvent": s.SummedDiscreteGaussiansDpEvent(30.0, 4, 10, 5),
    "MixtureOfGaussiansDpEvent": d.MixtureOfGaussiansDpEvent(2.0, (0.0, 1.0), (0.5, 0.5)),
    "EpsilonDeltaDpEvent": s.EpsilonDeltaDpEvent(0.5, 1e-6),
    "ZCDpEvent": d.ZCDpEvent(0.1),
    "ExponentialMechanismDpEvent": s.ExponentialMechanismDpEvent(0.5),
    "PermuteAndFlipDpEvent": s.PermuteAndFlipDpEvent(0.5),
    "AboveThresholdDpEvent": s.AboveThresholdDpEvent(0.5),
    "RandomizedResponseDpEvent": d.RandomizedResponseDpEvent(0.5, 3),
    "BallsInBinsDpEvent": BINS,
    "RedrawnBinsDpEvent": s.RedrawnBinsDpEvent(2.0, 3, 2),
    "RandomAllocationDpEvent": s.RandomAllocationDpEvent(2.0, 6, 2),
    "BMinSepDpEvent": s.BMinSepDpEvent(2.0, 6, 2, 0.5, True),
    "CyclicPoissonDpEvent, fixed groups": FIXED,
    "CyclicPoissonDpEvent, independent groups or one": s.CyclicPoissonDpEvent(2.0, 6, 3, 0.5, "independent"),
    "MatrixMechanismDpEvent": MATRIX,
    "ShuffledBatchesDpEvent": s.ShuffledBatchesDpEvent(2.0, 3),
    "SingleEpochTreeAggregationDpEvent": d.SingleEpochTreeAggregationDpEvent(2.0, 7),
    "TruncatedSubsampledGaussianDpEvent": d.TruncatedSubsampledGaussianDpEvent(100, 0.1, 15, 2.0),
    "PoissonSampledUsersDpEvent": s.PoissonSampledUsersDpEvent(2.0, 0.1, 3),
    "FixedBatchUsersDpEvent": s.FixedBatchUsersDpEvent(2.0, 100, 10, 3),
    "UsersDpEvent of CyclicPoissonDpEvent, fixed groups": s.UsersDpEvent(FIXED, 2),
    "UsersDpEvent of MatrixMechanismDpEvent": s.UsersDpEvent(MATRIX, 2),
    "UsersDpEvent of other schemes": s.UsersDpEvent(BINS, 2),
    "UsersDpEvent of anything else": s.UsersDpEvent(GAUSSIAN, 2),
    "PoissonSampledDpEvent with probability 1": sampled(GAUSSIAN, 1.0),
    "PoissonSampledDpEvent of Gaussian noise": sampled(GAUSSIAN),
    "PoissonSampledDpEvent of several kinds of noise on sums": sampled(
        d.ComposedDpEvent([GAUSSIAN, d.LaplaceDpEvent(2.0)])
    ),
    "PoissonSampledDpEvent of several mechanisms": sampled(d.SelfComposedDpEvent(s.EpsilonDeltaDpEvent(0.5, 1e-6), 2)),
    "PoissonSampledDpEvent of Laplace or integer noise on one number": sampled(d.LaplaceDpEvent(2.0)),
    "PoissonSampledDpEvent of other noise on a sum": sampled(d.MixtureOfGaussiansDpEvent(2.0, (0.0, 1.0), (0.5, 0.5))),
    "PoissonSampledDpEvent of a known guarantee": sampled(s.EpsilonDeltaDpEvent(0.5, 1e-6)),
    "PoissonSampledDpEvent of any other mechanism": sampled(d.RandomizedResponseDpEvent(0.5, 3)),
    "PoissonSampledDpEvent of a scheme": sampled(BINS),
    "PoissonSampledDpEvent of a selection": sampled(BEST),
    "SampledWithoutReplacementDpEvent of Gaussian noise": drawn(GAUSSIAN),
    "SampledWithoutReplacementDpEvent of noise on a sum": drawn(d.LaplaceDpEvent(2.0)),
    "SampledWithoutReplacementDpEvent of any other mechanism": drawn(s.EpsilonDeltaDpEvent(0.5, 1e-6)),
    "SampledWithoutReplacementDpEvent of a scheme": drawn(BINS),
    "SampledWithoutReplacementDpEvent of a selection": drawn(BEST),
    "SampledWithReplacementDpEvent of Gaussian noise": d.SampledWithReplacementDpEvent(100, 10, GAUSSIAN),
    "SampledWithReplacementDpEvent of any other mechanism": d.SampledWithReplacementDpEvent(
        100, 10, d.LaplaceDpEvent(2.0)
    ),
    "SampledWithReplacementDpEvent of a scheme": d.SampledWithReplacementDpEvent(100, 10, BINS),
    "SampledWithReplacementDpEvent of a selection": d.SampledWithReplacementDpEvent(100, 10, BEST),
    "OneOfDpEvent of noise on sums": s.OneOfDpEvent([d.LaplaceDpEvent(2.0)] * 3),
    "OneOfDpEvent of other mechanisms": s.OneOfDpEvent([s.EpsilonDeltaDpEvent(0.5, 1e-6)] * 3),
    "OneOfDpEvent of a scheme": s.OneOfDpEvent([BINS] * 3),
    "OneOfDpEvent of a selection": s.OneOfDpEvent([BEST] * 3),
    "AllocatedDpEvent of noise on a sum": s.AllocatedDpEvent(d.LaplaceDpEvent(2.0), 2, 6),
    "AllocatedDpEvent of other mechanisms": s.AllocatedDpEvent(s.EpsilonDeltaDpEvent(0.5, 1e-6), 2, 6),
    "AllocatedDpEvent of a scheme": s.AllocatedDpEvent(BINS, 2, 6),
    "AllocatedDpEvent of a selection": s.AllocatedDpEvent(BEST, 2, 6),
    "RepeatAndSelectDpEvent": BEST,
    "BinomialSelectDpEvent": s.BinomialSelectDpEvent(GAUSSIAN, 5, 0.5),
    "ThresholdSelectDpEvent": s.ThresholdSelectDpEvent(GAUSSIAN, 0.2),
    "RepeatAndSelectDpEvent of a selection": d.RepeatAndSelectDpEvent(BEST, 5.0, 1.0),
    "BinomialSelectDpEvent of a selection": s.BinomialSelectDpEvent(BEST, 5, 0.5),
    "ThresholdSelectDpEvent of a selection": s.ThresholdSelectDpEvent(BEST, 0.2),
    "ParallelDpEvent": s.ParallelDpEvent(sampled(GAUSSIAN)),
    "ZeroOutDpEvent": s.ZeroOutDpEvent(sampled(GAUSSIAN)),
}
"""An event of every variant but that of registered noise."""

SCHEMES: list[tuple[str, str, str, d.DpEvent]] = [
    ("Poisson sampling (DP-SGD)", INDEPENDENT, "`evr.dpsgd(...)`, `PoissonSampledDpEvent`", sampled(GAUSSIAN)),
    ("full batches", INDEPENDENT, "`evr.dpsgd(sampling_probability=1, ...)`", sampled(GAUSSIAN, 1.0)),
    ("Poisson sampling of choices or known guarantees", "-", "`PoissonSampledDpEvent`", sampled(d.ZCDpEvent(0.1))),
    (
        "Poisson sampling, batches cut off at a greatest size",
        INDEPENDENT,
        "`TruncatedSubsampledGaussianDpEvent`",
        EXAMPLES["TruncatedSubsampledGaussianDpEvent"],
    ),
    (
        "cyclic Poisson (BandMF), groups of equal size",
        "any bands up to the cycle",
        '`CyclicPoissonDpEvent(partition="fixed")`',
        s.CyclicPoissonDpEvent(2.0, 6, 3, 0.5, "fixed", BANDS),
    ),
    (
        "cyclic Poisson (BandMF), groups drawn for each record",
        "any bands up to the cycle",
        '`CyclicPoissonDpEvent(partition="independent")`',
        s.CyclicPoissonDpEvent(2.0, 6, 3, 0.5, "independent", BANDS),
    ),
    ("b-min-sep", "any bands up to the separation", "`BMinSepDpEvent`", s.BMinSepDpEvent(2.0, 6, 2, 0.5, True, BANDS)),
    ("balls in bins, drawn once", INDEPENDENT, "`BallsInBinsDpEvent`", BINS),
    ("balls in bins, drawn once", CORRELATED, "`BallsInBinsDpEvent`", s.BallsInBinsDpEvent(2.0, 6, 3, BANDS)),
    ("balls in bins, drawn anew in each epoch", INDEPENDENT, "`RedrawnBinsDpEvent`", EXAMPLES["RedrawnBinsDpEvent"]),
    (
        "random allocation, k of t iterations",
        INDEPENDENT,
        '`evr.dpsgd(sampling="allocation")`, `RandomAllocationDpEvent`',
        EXAMPLES["RandomAllocationDpEvent"],
    ),
    (
        "fixed-size batches, drawn anew without replacement",
        INDEPENDENT,
        '`evr.dpsgd(sampling="without-replacement")`, `SampledWithoutReplacementDpEvent`',
        drawn(GAUSSIAN),
    ),
    (
        "fixed-size batches, drawn with replacement",
        INDEPENDENT,
        "`SampledWithReplacementDpEvent`",
        d.SampledWithReplacementDpEvent(100, 10, GAUSSIAN),
    ),
    ("shuffled batches", INDEPENDENT, "`ShuffledBatchesDpEvent`", EXAMPLES["ShuffledBatchesDpEvent"]),
    ("any order, separated participation (DP-FTRL, BandMF)", CORRELATED, "`MatrixMechanismDpEvent`", MATRIX),
    (
        "one pass, tree aggregation",
        "of a tree",
        "`SingleEpochTreeAggregationDpEvent`",
        EXAMPLES["SingleEpochTreeAggregationDpEvent"],
    ),
    (
        "users, Poisson sampling by records",
        INDEPENDENT,
        "`evr.dpsgd(records_per_user=...)`, `PoissonSampledUsersDpEvent`",
        EXAMPLES["PoissonSampledUsersDpEvent"],
    ),
    (
        "users, fixed-size batches of records",
        INDEPENDENT,
        "`FixedBatchUsersDpEvent`",
        EXAMPLES["FixedBatchUsersDpEvent"],
    ),
    ("users, bins, b-min-sep or drawn groups", "as the scheme", "`UsersDpEvent(...)`", s.UsersDpEvent(BINS, 2)),
    (
        "users, groups of equal size",
        "as the scheme",
        "`UsersDpEvent(CyclicPoissonDpEvent(...))`",
        s.UsersDpEvent(FIXED, 2),
    ),
    ("users, any order", CORRELATED, "`UsersDpEvent(MatrixMechanismDpEvent(...))`", s.UsersDpEvent(MATRIX, 2)),
    ("users sampled as wholes", "as for records", "the event for records, whose record is a user", sampled(GAUSSIAN)),
    ("the best of a random number of runs", "as the runs", "`evr.tuning(...)`, `RepeatAndSelectDpEvent`", BEST),
]
"""Schemes as people call them, with their noise, what to write, and an event."""

INTRODUCTION = """# What a number means

A law says how private a mechanism is *under a relation of neighbours*, and only if the training did what the theorem
assumes. This page is the table behind both: for each mechanism and relation either a theorem with its hypotheses, or
the reason why evr refuses it. Statements print the hypotheses and certificates carry their ids. evr knows nothing else
about relations: laws and refusals are made from the same table. Each hypothesis is needed:
[Section R9](guarantees_relations.md#r9-every-row-of-the-table-of-meanings) shows what goes wrong without it.

[Three relations](guarantees_relations.md#r1-three-relations): under *add-or-remove* one data set has one record more;
under *zero-out* one record is replaced by an empty one, and the number of records is public; under *replace-one* one
record is any other. `evr describe` shows the rows of a training.

This page is made by `python docs/meaning_page.py --write`.
"""
PROOFS = """
*Strict*: proved in exact arithmetic, without a failure probability. *Sampled*: tested on samples, with a failure
probability that delta includes.
"""


def slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def link(theorem: str) -> str:
    """A theorem, linked to its section."""
    prefix = next((one for one in FILES if theorem.startswith(one)), None)
    if prefix is None:
        return theorem
    name = re.sub(r"^(R\d|[A-Z]\d|\d|Theorem 1).*", r"\1", theorem.removeprefix(prefix if prefix != "R" else ""))
    start = "1" if name == "Theorem 1" else name
    text = (DOCS / FILES[prefix]).read_text("utf-8")
    heading = next(line for line in text.splitlines() if re.match(rf"## {start}\b", line))
    return f"[{theorem}]({FILES[prefix]}#{slug(heading.removeprefix('## '))})"


def proof(event: d.DpEvent, relation: NeighboringRelation) -> str:
    """How claims about an event are proved: by exact arithmetic wherever its laws are known exactly."""
    try:
        return "strict" if Composition.of(event, relation).exact_directions() else ""
    except UnsupportedEventError:
        return "sampled"


def attained(event: d.DpEvent, relation: NeighboringRelation) -> str:
    """Whether a lower bound is one on the mechanism."""
    try:
        return "yes" if is_attained(event, Composition.of(event, relation)) else "-"
    except UnsupportedEventError:
        return "-"


def answered(event: d.DpEvent, relation: NeighboringRelation) -> str:
    try:
        answer = row_of(event, relation).answer
    except UnsupportedEventError:
        return "refused: evr has no law for it"
    if isinstance(answer, Refused):
        return f"refused: {answer.why}"
    asked = ", if asked for (by default zero-out)" if answer.instead else ""
    return f"{link(answer.theorem)}, {proof(event, relation)}{asked}"


def table(head: str, lines: list[list[Any]]) -> list[str]:
    names = head.split(" | ")
    return [f"| {head} |", "|---" * len(names) + "|", *(f"| {' | '.join(line)} |" for line in lines)]


def assumed(meaning: Meaning) -> str:
    return ", ".join(f"[`{one.id}`](#{one.id})" for one in meaning.hypotheses) or "-"


def page() -> str:
    schemes = [[*line[:3], *(answered(line[3], one) for one in RELATIONS.values())] for line in SCHEMES]
    found: dict[str, list[Any]] = {}
    for row in rows():
        if row.event in (*BUILT_IN, *WRAPPERS):  # not those that this process registered
            found.setdefault(row.subject, []).append(row.answer)
    mechanisms, refused = [], []
    for subject, answers in found.items():
        for name, answer in zip(RELATIONS, answers, strict=True):
            if isinstance(answer, Refused):
                refused.append([subject, name, answer.why, answer.remedy])
            else:
                about = (EXAMPLES[subject], answer.relation) if subject in EXAMPLES else None
                kind, reached = (proof(*about), attained(*about)) if about else ("as registered", "-")
                unit = answer.unit or "either"
                mechanisms.append([subject, name, unit, link(answer.theorem), kind, reached, assumed(answer)])
    sentences = [[f'<a id="{one.id}"></a>`{one.id}`', one.sentence] for one in HYPOTHESES.values()]
    return "\n".join(
        [
            INTRODUCTION,
            "## Which scheme, which event",
            PROOFS,
            *table("scheme | noise | event | " + " | ".join(RELATIONS), schemes),
            "\n## Every mechanism\n",
            "Whose data it protects, the theorem, how it is proved, whether the pair is "
            "[attained](guarantees_lower.md#l8-what-a-refutation-is-about) (only then can a claim be *refuted*; shown "
            "for an example, and some have a condition there), and what its statement assumes.\n",
            *table("mechanism | relation | unit | theorem | proof | attained | it is assumed", mechanisms),
            "\n## Hypotheses\n",
            'A statement says "It is assumed that" these; a certificate carries the ids.\n',
            *table("id | it is assumed that", sentences),
            "\n## Refused\n",
            *table("mechanism | relation | because | instead", refused),
            "",
        ]
    )


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page())
