"""``evr compare``: the answers of other libraries beside evr's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evr.cli.options import (
    Delta,
    Epsilon,
    Json,
    Quiet,
    WhatRan,
    asks_what_ran,
    check_epsilon,
    one_target,
)
from evr.cli.output import as_json, number, seconds, table

if TYPE_CHECKING:
    from evr.estimation.comparison import Answer


@asks_what_ran
def command(
    ran: WhatRan,
    epsilon: Epsilon = None,
    delta: Delta = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Ask other libraries the same question: values, relative differences from evr's, seconds, and
    bounds that do not hold.

    Libraries that are not installed are named; `pip install 'evr-dp[compare]'` installs them.

    Example: evr compare --noise-multiplier 0.5 --sampling-probability 1e-5 --steps 100 --epsilon
    1
    """
    from dataclasses import asdict

    event, claim, relation = ran.described()
    target = one_target(epsilon, delta, claim)
    from evr.estimation.comparison import compare

    ((given, at),) = target.items()
    wanted = "delta" if given == "epsilon" else "epsilon"
    answers = compare(event, **target, neighboring_relation=relation)
    ours = answers[0].value
    assert ours is not None
    if wanted == "epsilon":
        check_epsilon(ours, at)
    if json:
        found = [{**asdict(one), "relative_difference": _off(one, ours)} for one in answers]
        as_json({**target, "estimated": wanted, "accountants": found, "event": repr(event)})
        return
    table(
        f"{wanted} at {given} = {number(at)}",
        ["accountant", "kind", wanted, "relative difference", "time", "note"],
        [_row(one, ours) for one in answers],
        quiet=quiet,
    )


def _off(answer: Answer, ours: float) -> float | None:
    return None if answer.value is None or not ours else (answer.value - ours) / ours


def _row(answer: Answer, ours: float) -> list[str]:
    if answer.value is None:
        return [answer.accountant, "-", "-", "-", "-", answer.note]
    off = _off(answer, ours)
    return [
        answer.accountant,
        answer.kind,
        number(answer.value, 8),
        "-" if off is None else f"{off:+.1e}",
        seconds(answer.seconds),
        answer.note,
    ]
