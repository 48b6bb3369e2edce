"""``evr refute``: a proof that a claim is false."""

import sys
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from evr.cli import REJECTED, options
from evr.cli.files import new_files
from evr.types import Direction


def refute(
    ran: options.WhatRan,
    *,
    epsilon: Annotated[float | None, options.number("The claimed epsilon.")] = None,
    delta: Annotated[float | None, options.number("The claimed delta.")] = None,
    proof: Annotated[
        Path | None, options.file("Write a file that needs no evr, and check_proof.py, if refuted.")
    ] = None,
    out: options.Out,
) -> None:
    """Try to prove that a pair is false: that delta at this epsilon is greater, for some training of the description.

    SPEC may also be the record of a training. Without `--epsilon` and `--delta`, SPEC's claim is used. Exit code 3:
    refuted; 0: open, which proves nothing about the pair. With `--proof`, a refutation is also written as a file that
    check_proof.py, beside it, checks without evr.

    Example: evr refute --noise-multiplier 1.1 --dataset-size 60000 --batch-size 256 --epochs 60
    --epsilon 2.32 --delta 1e-5
    """
    from evr._kernel.events import Composition
    from evr._proof.writer import refutation_file, write_proof
    from evr._proving.refuting import refute_by_plan

    event, claim, relation = ran.described(records=True)
    if claim is not None:
        epsilon, delta = claim.epsilon if epsilon is None else epsilon, claim.delta if delta is None else delta
    if epsilon is None or delta is None:
        missing = [name for name, value in (("--epsilon", epsilon), ("--delta", delta)) if value is None]
        raise ValueError(f"refute which pair? Add {' and '.join(missing)}")
    new_files(ran.spec, proof=proof)
    with out.busy("Still looking for a proof"):
        found, plan = refute_by_plan(event, epsilon, delta, None, relation)
    if proof is not None and plan is not None and found.refuted:
        exact, direction = (Fraction(epsilon), Fraction(delta)), Direction(found.direction)
        data = refutation_file(Composition.of(event, relation), *exact, direction, plan)
        write_proof(proof, data)
        out.wrote_proof(proof, data)
    elif proof is not None and not out.quiet:
        print(f"{proof}: not written, since nothing is refuted", file=sys.stderr)
    document = {**asdict(found), "sentence": found.sentence}
    out.answer(document, "refuted" if found.refuted else "open", found.sentence)
    if found.refuted:
        raise typer.Exit(REJECTED)
