"""Training schemes in many dimensions in words: what ran, under which adjacency, and what is assumed of the training.

The assumptions are the hypotheses of Theorem 1 of docs/guarantees_highdim.md in a user's words.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

KINDS = ("BallsInBins", "RedrawnBins", "CyclicPoisson", "BMinSep", "MatrixMechanism")

ADD_OR_REMOVE, ZERO_OUT = "ADD_OR_REMOVE_ONE", "REPLACE_SPECIAL"
ADJACENCIES = {
    ADD_OR_REMOVE: "add-or-remove-one adjacency",
    ZERO_OUT: "zero-out adjacency (a record is replaced by one that contributes nothing)",
}


def kind_of(document: dict[str, Any]) -> str:
    """The name of an event's class, without what all names have in common."""
    return str(document["type"]).rsplit(".", 1)[-1].removesuffix("DpEvent")


def describe_scheme(document: dict[str, Any]) -> str:
    """A scheme, given as JSON, in words.

    >>> describe_scheme({"type": "RedrawnBinsDpEvent", "noise_multiplier": 1.5, "cycle_length": 100, "epochs": 10})
    'balls in bins (100 bins, drawn anew in each of 10 epochs) of a Gaussian mechanism (noise multiplier 1.5)'
    """
    noise, kind = f"{document['noise_multiplier']:.17g}", kind_of(document)
    gaussian = f"a Gaussian mechanism (noise multiplier {noise}{_correlated(document.get('strategy'))})"
    if kind == "RedrawnBins":
        drawn = f"{document['cycle_length']:,} bins, drawn anew in each of {document['epochs']:,} epochs"
        return f"balls in bins ({drawn}) of {gaussian}"
    steps = f"{document['iterations']:,} iterations"
    if kind == "BallsInBins":
        return f"balls in bins ({document['cycle_length']:,} bins, drawn once, {steps}) of {gaussian}"
    if kind == "MatrixMechanism":
        most = document["max_participations"]
        often = "" if most is None else f", at most {most:,} times"
        return f"{steps} of {gaussian}, each record at least {document['min_sep']:,} iterations apart{often}"
    chance = f"sampling probability {document['sampling_probability']:g}"
    if kind == "BMinSep":
        start = "warm" if document["warm_start"] else "cold"
        return f"{document['min_sep']:,}-min-sep sampling ({chance}, {start} start, {steps}) of {gaussian}"
    groups = f"{document['cycle_length']:,} {document['partition']} groups in turn"
    return f"cyclic Poisson sampling ({groups}, {chance}, {steps}) of {gaussian}"


def _correlated(strategy: Any) -> str:
    if not strategy or strategy in ([1.0], (1.0,)):
        return ""
    if isinstance(strategy[0], list | tuple):
        return f", noise correlated by a strategy of {max(map(len, strategy))} bands"
    return f", noise correlated by a Toeplitz strategy of {len(strategy)} bands"


def schemes_in(document: Any) -> Iterator[dict[str, Any]]:
    """Every scheme in an event, or in anything else that is given as JSON."""
    if isinstance(document, dict):
        if isinstance(document.get("type"), str) and kind_of(document) in KINDS:
            yield document
        for value in document.values():
            yield from schemes_in(value)
    elif isinstance(document, list):
        for value in document:
            yield from schemes_in(value)


def adjacency_of(document: Any) -> str:
    """The relation that a statement about an event is under: groups of fixed size make it zeroing out."""
    fixed = any(
        kind_of(scheme) == "CyclicPoisson" and scheme["partition"] == "fixed" and scheme["cycle_length"] > 1
        for scheme in schemes_in(document)
    )
    return ZERO_OUT if fixed else ADD_OR_REMOVE


_DRAWN = {
    "BallsInBins": "each record was put into one bin, with equal chances and independently of all others, once for the "
    "whole training (not fixed-size batches of shuffled data)",
    "RedrawnBins": "each record was put into one bin in each epoch, with equal chances and independently of all others "
    "and of other epochs (not fixed-size batches of shuffled data)",
    "CyclicPoisson": "each record was in a batch of its group's turn independently with the stated probability, and its "
    "group came about as stated",
    "BMinSep": "each eligible record was in a batch independently with the stated probability",
    "MatrixMechanism": "no record took part more often, or at iterations closer to each other, than stated",
}


def scheme_assumptions(document: Any) -> list[str]:
    """What a statement assumes of the schemes in an event, each as a clause after "that"."""
    kinds = list(dict.fromkeys(kind_of(scheme) for scheme in schemes_in(document)))
    if not kinds:
        return []
    whose = (
        "what a record adds to a sum was clipped and depended on that record and on earlier outputs only, not on who else "
        "was in the batch (no truncated batches, no division by the size of the batch as drawn)"
    )
    return [*(_DRAWN[kind] for kind in kinds), whose]
