"""``evr estimate``: delta at an epsilon, or epsilon at a delta."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from evr.cli.options import (
    Delta,
    Direction,
    Epsilon,
    Json,
    Quiet,
    WhatRan,
    asks_what_ran,
    check_epsilon,
    choice_option,
    number_option,
    one_target,
    whole_option,
)
from evr.cli.output import as_json, number, say, seconds
from evr.cli.sanity import note

if TYPE_CHECKING:
    from evr.estimation.results import Estimate, UpperBound

METHODS = ("fft", "strict", "rdp", "monte_carlo")

Method = Annotated[
    str,
    choice_option("--method", METHODS, "Which accountant."),
]

Samples = Annotated[
    int | None,
    whole_option("--samples", "How many samples Monte Carlo draws."),
]
Seed = Annotated[
    int | None,
    whole_option("--seed", "Seed of Monte Carlo, to repeat a run."),
]


Tolerance = Annotated[
    float | None,
    number_option(
        "--tolerance", "For strict: by what share the bound may exceed delta. By default 5e-4."
    ),
]


def monte_carlo_options(method: str, samples: int | None, seed: int | None) -> dict[str, int]:
    """What the Monte Carlo accountant takes; other methods draw nothing."""
    given = {
        name: value for name, value in (("samples", samples), ("seed", seed)) if value is not None
    }
    if given and method != "monte_carlo":
        raise ValueError(
            f"--{next(iter(given))} belongs to --method monte_carlo, not to {method!r}"
        )
    return given


@asks_what_ran
def command(
    ran: WhatRan,
    epsilon: Epsilon = None,
    delta: Delta = None,
    method: Method = "fft",
    direction: Direction = None,
    samples: Samples = None,
    seed: Seed = None,
    tolerance: Tolerance = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Estimate delta at an epsilon, or epsilon at a delta: near-exact by default, and by other
    methods to compare.

    An estimate is not a guarantee; `evr certify` turns it into one. `--method strict` gives a bound
    that is proved. Without `--epsilon` and `--delta`, the claim of SPEC counts.

    Example: evr estimate --noise-multiplier 1 --sampling-probability 1e-3 --steps 1000 --delta
    1e-9
    """
    from evr import validate

    event, claim, relation = ran.described()
    target = one_target(epsilon, delta, claim)
    validate.one_of(METHODS, method=method)
    ((given, at),) = target.items()
    wanted = "delta" if given == "epsilon" else "epsilon"
    note(ran, event, **target, quiet=quiet)
    from evr.estimation import UpperBound, estimate_delta, estimate_epsilon

    estimate = estimate_delta if wanted == "delta" else estimate_epsilon
    options: dict[str, Any] = dict(monte_carlo_options(method, samples, seed))
    if tolerance is not None:
        if method != "strict":
            raise ValueError(f"--tolerance belongs to --method strict, not to {method!r}")
        options["tolerance"] = tolerance
    result = estimate(
        event, at, method=method, direction=direction, neighboring_relation=relation, **options
    )
    if wanted == "epsilon":
        check_epsilon(result.value, at)
        note(ran, epsilon=result.value, quiet=quiet)
    if json:
        as_json({given: at, wanted: result.value, **_about(result), "event": repr(event)})
    elif quiet:
        print(repr(result.value))
    else:
        kind = "upper bound" if isinstance(result, UpperBound) else "estimate"
        error = getattr(result, "error", None)
        how = [
            f"{kind} by {result.method}",
            f"{result.direction} direction{'s' * (result.direction == 'both')}",
        ]
        how += [] if relation is None else [f"{relation} adjacency"]
        how += [f"numerical error about {number(error, 1)}"] if error else []
        spread = getattr(result, "standard_error", None)
        how += [f"standard error {number(spread, 2)}"] if spread else []
        say(
            f"{wanted} = {result} at {given} = {number(at)} ({', '.join(how)}, "
            f"{seconds(result.seconds)})"
        )


def _about(result: Estimate | UpperBound) -> dict[str, Any]:
    from evr.estimation import UpperBound

    return {
        "kind": "upper bound" if isinstance(result, UpperBound) else "estimate",
        "method": result.method,
        "direction": result.direction,
        "error": getattr(result, "error", None),
        "standard_error": getattr(result, "standard_error", None),
        "seconds": result.seconds,
    }
