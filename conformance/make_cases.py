"""Write ``cases.jsonl``: 300 compositions, drawn from a seed, with proved bounds of delta and epsilon.

python conformance/make_cases.py            # about ten minutes of processor time
python conformance/make_cases.py --count 3  # the first three of each kind, to standard output
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import evr
from evr_conformance import CASES
from evr_side import event_of

TOLERANCE = 1e-4  # of delta, on either side: finer than what evr does by default
Part = dict[str, Any]


def rounded(value: float, digits: int = 3) -> float:
    return float(f"{value:.{digits}g}")


def between(rng: random.Random, low: float, high: float) -> float:
    """A number of three digits, its logarithm uniform."""
    return rounded(math.exp(rng.uniform(math.log(low), math.log(high))))


def dpsgd(rng: random.Random) -> list[Part]:
    steps, q = round(between(rng, 2, 2e5)), between(rng, 1e-5, 0.3)
    return [
        {"mechanism": "gaussian", "noise_multiplier": between(rng, 0.5, 6), "sampling_probability": q, "count": steps}
    ]


def large_batches(rng: random.Random) -> list[Part]:
    noise, q = between(rng, 2, 60), between(rng, 0.3, 0.95)
    return [
        {
            "mechanism": "gaussian",
            "noise_multiplier": noise,
            "sampling_probability": q,
            "count": round(between(rng, 2, 2e3)),
        }
    ]


def one(rng: random.Random, sampled: float, kinds: str) -> Part:
    """One mechanism, sampled with a given chance."""
    kind = rng.choice(kinds.split())
    numbers: Part = {
        "gaussian": {"noise_multiplier": between(rng, 0.7, 20)},
        "laplace": {"noise_multiplier": between(rng, 0.7, 20)},
        "discrete_laplace": {"noise_parameter": between(rng, 0.05, 1), "sensitivity": rng.randint(1, 3)},
        "discrete_gaussian": {"sigma": between(rng, 1, 12), "sensitivity": rng.randint(1, 2)},
        "randomized_response": {"noise_parameter": between(rng, 0.2, 0.95), "num_buckets": rng.randint(2, 8)},
        "epsilon_delta": {"epsilon": between(rng, 0.02, 0.5), "delta": between(rng, 1e-10, 1e-7)},
    }[kind]
    noisy = kind not in ("randomized_response", "epsilon_delta")
    rate = {"sampling_probability": between(rng, 0.005, 0.5)} if noisy and rng.random() < sampled else {}
    return {"mechanism": kind, **numbers, **rate}


NOISE = "gaussian laplace discrete_laplace discrete_gaussian"


def one_step(rng: random.Random) -> list[Part]:
    return [one(rng, 0.5, NOISE) | {"count": 1}]


def mixed(rng: random.Random) -> list[Part]:
    first, kinds = one(rng, 1.0, "gaussian"), "gaussian laplace discrete_laplace epsilon_delta"
    others = [one(rng, 0.5, kinds) | {"count": rng.randint(1, 12)} for _ in range(rng.randint(1, 2))]
    return [first | {"count": round(between(rng, 10, 300))}, *others]


def atoms(rng: random.Random) -> list[Part]:
    kinds = "laplace discrete_laplace epsilon_delta"
    return [one(rng, 0.3, kinds) | {"count": rng.randint(2, 60)} for _ in range(rng.randint(1, 2))]


def discrete(rng: random.Random) -> list[Part]:
    return [one(rng, 0.5, "discrete_gaussian") | {"count": rng.randint(2, 20)}]


def mixtures(rng: random.Random) -> list[Part]:
    sizes = sorted(rng.sample([0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0], rng.randint(2, 3)))
    chances = [rng.randint(1, 12) / 64 for _ in sizes]  # they and what is left add up to 1 without rounding
    mixture = {"values": [0.0, *sizes], "probabilities": [1 - sum(chances), *chances]}
    noise = between(rng, 2, 12)
    return [{"mechanism": "gaussian_mixture", "standard_deviation": noise, **mixture, "count": rng.randint(1, 100)}]


def replaced(rng: random.Random) -> list[Part]:
    if rng.random() < 0.3:
        return [one(rng, 0.0, "randomized_response") | {"count": rng.randint(1, 20)}]
    return [one(rng, 1.0, NOISE) | {"count": round(between(rng, 1, 300))}]


def users(rng: random.Random) -> list[Part]:
    q = {"sampling_probability": between(rng, 0.002, 0.1), "records_per_user": rng.randint(2, 8)}
    noise = between(rng, 0.8, 8)
    return [{"mechanism": "gaussian_users", "noise_multiplier": noise, **q, "count": round(between(rng, 2, 2e3))}]


KINDS: list[tuple[str, int, str, Callable[[random.Random], list[Part]]]] = [
    ("dpsgd", 120, "add-or-remove", dpsgd),
    ("large-batches", 20, "add-or-remove", large_batches),
    ("one-step", 40, "add-or-remove", one_step),
    ("mixed", 60, "add-or-remove", mixed),
    ("atoms", 24, "add-or-remove", atoms),
    ("discrete", 8, "add-or-remove", discrete),
    ("mixtures", 8, "add-or-remove", mixtures),
    ("replace-one", 12, "replace-one", replaced),
    ("users", 8, "add-or-remove", users),
]


def ratio(value: float) -> str:
    return str(Fraction(value))


def enclosed(name: str, relation: str, parts: list[Part], rng: random.Random) -> dict[str, Any] | None:
    """The case with its bounds; None where the numbers are of no use."""
    case: dict[str, Any] = {"id": name, "relation": relation, "parts": parts}
    event, delta = event_of(case), rounded(10 ** rng.uniform(-15, -3), 1)
    try:
        epsilon = rounded(evr.estimate_epsilon(event, delta, neighboring_relation=relation).value)
    except evr.errors.AccuracyError:
        return None
    if not 0.01 < epsilon < 50:
        return None
    found = evr.enclose_delta(event, epsilon, neighboring_relation=relation, tolerance=TOLERANCE)
    if not (found.attained and found.lower > 0 and found.upper < 1.002 * found.lower):
        return None
    case["direction"] = found.direction
    case["delta"] = {"at": epsilon, "lower": ratio(found.lower), "upper": ratio(found.upper)}
    if len(parts) == 1 and parts[0]["mechanism"] == "gaussian" and relation == "add-or-remove":
        least = evr.enclose_epsilon(event, delta, tolerance=TOLERANCE)
        case["epsilon"] = {"at": delta, "lower": ratio(least.lower), "upper": ratio(least.upper)}
    return case


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, help="cases of each kind, to standard output")
    parser.add_argument("--kind", choices=[kind for kind, *_ in KINDS], help="of this kind only, to standard output")
    count, only = (given := parser.parse_args()).count, given.kind
    out = sys.stdout if count or only else CASES.open("w", encoding="utf-8")
    for kind, number, relation, parts in KINDS:
        if only not in (None, kind):
            continue
        rng, made = random.Random(kind), 0
        while made < (count or number):
            case = enclosed(f"{kind}-{made + 1:03}", relation, parts(rng), rng)
            if case is not None:
                made += 1
                print(json.dumps(case), file=out, flush=True)


if __name__ == "__main__":
    main()
