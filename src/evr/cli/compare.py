"""``evr compare``: the answers of other libraries beside evr's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from evr.cli.options import (
    Delta,
    Epsilon,
    Json,
    Quiet,
    WhatRan,
    asks_what_ran,
    check_epsilon,
    choice_option,
    one_target,
)
from evr.cli.output import as_json, number, seconds, table

if TYPE_CHECKING:
    from evr.estimation import Estimate

METHODS = ("fft", "strict")
Method = Annotated[
    str,
    choice_option("--method", METHODS, "`strict` also shows evr's bound in exact arithmetic."),
]
WRONG = "claims to be a bound and is not"


@asks_what_ran
def command(
    ran: WhatRan,
    epsilon: Epsilon = None,
    delta: Delta = None,
    method: Method = "fft",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Ask other libraries the same question: values, relative differences from evr's, seconds, and
    bounds that do not hold.

    Libraries that are not installed are named; `pip install 'evr-dp[compare]'` installs them.

    Example: evr compare --noise-multiplier 0.5 --sampling-probability 1e-5 --steps 100 --epsilon
    1
    """
    from evr import validate

    validate.one_of(METHODS, method=method)
    event, claim, relation = ran.described()
    target = one_target(epsilon, delta, claim)
    from evr.estimation import Estimate, estimate_delta, estimate_epsilon, peers

    ((given, at),) = target.items()
    wanted = "delta" if given == "epsilon" else "epsilon"
    estimate = estimate_delta if wanted == "delta" else estimate_epsilon
    ours = estimate(event, at, neighboring_relation=relation)
    assert isinstance(ours, Estimate)
    if wanted == "epsilon":
        check_epsilon(ours.value, at)
    found: list[dict[str, Any]] = [
        {
            "accountant": "evr",
            "kind": "estimate",
            "value": ours.value,
            "relative_difference": 0.0,
            "seconds": ours.seconds,
        }
    ]
    if method == "strict":
        bound = estimate(event, at, method="strict", neighboring_relation=relation)
        found.append(_entry("evr strict", "upper bound", bound.value, bound.seconds, ours))
    asked = peers.compare(
        event,
        epsilon=target.get("epsilon"),
        delta=target.get("delta"),
        neighboring_relation=relation,
    )
    for peer in asked:
        if isinstance(peer, peers.PeerUnavailable):
            found.append({"accountant": peer.peer, "reason": peer.reason})
            continue
        found.append(_entry(peer.peer, peer.kind, peer.value, peer.seconds, ours))
    if json:
        as_json({**target, "estimated": wanted, "accountants": found, "event": repr(event)})
        return
    table(
        f"{wanted} at {given} = {number(at)}",
        ["accountant", "kind", wanted, "relative difference", "time", "note"],
        [_row(entry) for entry in found],
        quiet=quiet,
    )


def _entry(
    accountant: str, kind: str, value: float, taken: float, ours: Estimate
) -> dict[str, Any]:
    from evr.estimation.side_by_side import fails_as_bound

    return {
        "accountant": accountant,
        "kind": kind,
        "value": value,
        "relative_difference": (value - ours.value) / ours.value if ours.value else None,
        "seconds": taken,
        "fails_as_bound": fails_as_bound(kind, value, ours),
    }


def _row(entry: dict[str, Any]) -> list[str]:
    if "reason" in entry:
        return [entry["accountant"], "-", "-", "-", "-", entry["reason"]]
    difference = entry["relative_difference"]
    return [
        entry["accountant"],
        entry["kind"],
        number(entry["value"], 8),
        "-" if difference is None else f"{difference:+.1e}",
        seconds(entry["seconds"]),
        WRONG if entry.get("fails_as_bound") else "",
    ]
