"""Strict bounds beside other upper bounds: over the truth, in seconds and memory, in one run.

    python benchmarks/strict.py              # some minutes, nearly all of them prv-accountant's and
    the sampled verifier's
    python benchmarks/strict.py --quick      # four settings, no peers
    python benchmarks/strict.py --race       # the rows of docs/comparison.md, beside dp_accounting
    python benchmarks/strict.py --forecasts  # how long proofs take, and how long they were foretold to

Truths are closed forms and contour integrals in 80-bit floats that share nothing with evr
(``benchmarks/attacking/truth.py``). Columns are ``bound / truth - 1``, processor seconds (imports
not counted) and peak memory, each answer from a process of its own with one thread; where evr is
beside dp_accounting, the fastest of several runs in turn. dp_accounting's PLD at its default
interval is meant to be pessimistic; prv-accountant's upper bound has ``eps_error`` 0.01 and
``delta_error`` a thousandth of delta. The sampled verifier proves ``delta / 0.99``; it takes the
truth as its estimate.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks")]

from estimate import Setting, _event, apart  # noqa: E402

LOOSE, TIGHT = 5e-4, 5e-5
STRICT = ("evr.accounting", "evr._plan.directions", "evr._spec")  # what a strict bound imports
NOTHING = 1e-200  # a bound may be as much where the truth is below the least float


class Case(NamedTuple):
    """A question; without a setting, the mixed specification of the examples."""

    name: str
    epsilon: float
    setting: Setting | None


def case(epsilon: float, steps: int, probability: float, noise: float) -> Case:
    name = f"{epsilon:g}, {steps}, {probability:.4g}, {noise:g}"
    return Case(name, epsilon, Setting(epsilon, steps, probability, noise, math.nan))


CASES = [
    case(1.5, 100, 1e-3, 0.6),
    case(1.5, 1000, 1e-3, 0.6),
    case(1.5, 1000, 1e-3, 0.5),
    case(0.5, 1000, 1e-3, 1.0),
    case(1.0, 1000, 1e-3, 1.0),
    case(1.0, 100, 1e-5, 0.5),
    case(1.0, 1500, 0.01, 2.0),
    case(2.0, 360, 4096 / 50000, 5.971),
    case(1.0, 1200, 1.0, 70.0),
    case(3.0, 1200, 1.0, 70.0),
    case(2.38, 14_040, 256 / 60_000, 1.1),
    case(7.441, 71_589, 0.01279, 2.5),
    case(1.71, 100_000, 4.08e-5, 0.614),
    case(1.746, 1_000_000, 3e-4, 1.0),
    case(582.0, 51_504, 5.82e-5, 0.1),
    case(0.7, 1, 0.2, 1.3),
    case(0.7, 2, 0.2, 1.3),
    case(1.849, 4, 0.3223, 1.711),
    case(3.349, 26, 0.154, 0.6373),
    Case("examples/mixed.toml", 0.7, None),
]
QUICK = (3, 6, 10, 17)
IN_DOCS = (1, 3, 4, 5, 6, 9, 10, 11, 13, 14, 16, 19)  # the rows of docs/comparison.md
TURNS = 5


def event_of(one: Case) -> Any:
    if one.setting is not None:
        return _event(one.setting)
    from evr._spec import load

    return load(ROOT / "examples" / "mixed.toml").event()


def truth(one: Case, direction: str) -> float:
    """delta of one direction, by means that share nothing with evr; nan where they have no digits,
    0 where nothing is left.
    """
    from attacking.laws import Unreached
    from attacking.truth import truth as by_contours

    try:
        found = by_contours(event_of(one), one.epsilon, direction, 60.0)
    except Unreached:
        return math.nan
    return found.value if found.relative < 1e-7 or found.value == 0 else math.nan


def strict(one: Case, direction: str | None, tolerance: float) -> float:
    import evr

    bound = evr.estimate_delta(event_of(one), one.epsilon, method="strict", direction=direction, tolerance=tolerance)
    return float(bound.value)


def sampled(one: Case, delta: float) -> bool:
    import evr

    return evr.verify(event_of(one), epsilon=one.epsilon, delta=delta / 0.99, tau=0.99, seed=1, workers=1).accepted


def cell(found: tuple[Any, Any, Any], exact: float) -> str:
    """Excess over the truth and seconds, or why there is none."""
    value, seconds, _ = found
    if seconds is None:
        return f"{str(value)[:20]:>22}"
    if not exact > 0:
        return f"{'':>12}{seconds:>8.2f} s"
    return f"{value / exact - 1:>+12.1e}{seconds:>8.2f} s"


def bounds(cases: list[Case], limit: float) -> tuple[bool, dict[Case, float]]:
    """Each direction by itself, at both tolerances."""
    print(
        f"\n{'epsilon, steps, q, noise':32}{'':8}{'truth':>14}{'strict, 5e-4':>22}{'':>10}{'strict, 5e-5':>22}{'':>10}"
    )
    fine, greatest = True, dict[Case, float]()
    for one in cases:
        for direction in ("remove", "add"):
            exact = apart(("attacking.truth",), truth, one, direction, limit=limit)[0]
            exact = exact if isinstance(exact, float) else math.nan
            loose = apart(STRICT, strict, one, direction, LOOSE, limit=limit)
            tight = apart(STRICT, strict, one, direction, TIGHT, limit=limit)
            memory = [f"{run[2]:>6.0f} MiB" if run[1] is not None else f"{'':>10}" for run in (loose, tight)]
            text = f"{exact:>14.6e}" if exact >= 0 else f"{'unknown':>14}"
            print(
                f"{one.name:32}{direction:8}{text}{cell(loose, exact)}{memory[0]}{cell(tight, exact)}{memory[1]}",
                flush=True,
            )
            if exact == 0:  # or below the least float
                fine &= all(run[1] is not None and run[0] <= NOTHING for run in (loose, tight))
            elif exact > 0:
                greatest[one] = max(exact, greatest.get(one, 0.0))
                for run, tolerance, seconds in ((loose, LOOSE, 6.0), (tight, TIGHT, 60.0)):
                    kept = run[1] is not None and -1e-9 <= run[0] / exact - 1 <= tolerance
                    fine &= kept and run[1] <= seconds and run[2] <= 1024
    print(f"\nwithin the tolerance, 6 s (60 s for the tighter) and 1 GiB everywhere: {fine}")
    return fine, greatest


def pld(one: Case) -> float:
    from dp_accounting.pld import PLDAccountant

    return float(PLDAccountant().compose(event_of(one)).get_delta(one.epsilon))


def in_turn(one: Case, limit: float) -> tuple[Any, Any]:
    """The fastest of several runs, in turn, of a strict bound in both directions and of PLD."""
    runs = [
        (
            apart(STRICT, strict, one, None, LOOSE, limit=limit),
            apart(("dp_accounting.pld", "evr._spec"), pld, one, limit=limit),
        )
        for _ in range(TURNS)
    ]
    ours, theirs = (min(each, key=lambda run: run[1] or math.inf) for each in zip(*runs, strict=True))
    return ours, theirs


def race(cases: list[Case], limit: float) -> None:
    """Strict bounds beside PLD: who takes less processor time."""
    print(f"{'both directions':40}{'truth':>14}{'strict':>22}{'dp_accounting PLD':>22}{'ratio':>8}")
    for one in cases:
        exact = max(apart(("attacking.truth",), truth, one, d, limit=limit)[0] for d in ("remove", "add"))
        ours, theirs = in_turn(one, limit)
        ratio = ours[1] / theirs[1]
        print(f"{one.name:40}{exact:>14.6e}{cell(ours, exact)}{cell(theirs, exact)}{ratio:>8.2f}", flush=True)


def beside(cases: list[Case], greatest: dict[Case, float], limit: float) -> None:
    """Both directions at once, beside the peers and the sampled verifier."""
    names = ("strict", "dp_accounting PLD", "prv upper bound", "sampled, tau 0.99")
    print(f"\n{'both directions':40}{'truth':>14}" + "".join(f"{name:>22}" for name in names))
    for one in cases:
        exact = greatest.get(one, math.nan)
        cells = [cell(run, exact) for run in in_turn(one, limit)]
        if one.setting is None:
            cells.append(f"{'-':>22}")
        else:
            asked = one.setting._replace(delta=exact)
            cells.append(cell(apart(("prv_accountant",), prv_upper, asked, limit=limit), exact))
        accepted, seconds, _ = apart(("evr._proving",), sampled, one, exact, limit=limit)
        told = (
            f"{'accepted' if accepted else 'rejected':>12}{seconds:>8.2f} s"
            if seconds is not None
            else f"{str(accepted)[:20]:>22}"
        )
        print(f"{one.name:40}{exact:>14.6e}" + "".join(cells) + told, flush=True)


def forecasts() -> None:
    """Processor seconds of a proof in one direction, foretold and taken."""
    import time

    from dp_accounting import dp_event

    import evr
    from evr._kernel.events import Composition
    from evr._plan.strict import StrictCurve

    def sampled_steps(q: float, event: Any, steps: int) -> Any:
        return dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(q, event), steps)

    def dpsgd(noise: float, q: float, steps: int) -> Any:
        return sampled_steps(q, dp_event.GaussianDpEvent(noise), steps)

    different = dp_event.ComposedDpEvent([dpsgd(1.2 + 0.05 * i, 4e-3, 300 + i) for i in range(8)])
    asked = {
        "DP-SGD, 1500 steps": (dpsgd(2.0, 0.01, 1500), 1.0, LOOSE),
        "DP-SGD, 14,040 steps": (dpsgd(1.1, 256 / 60_000, 14_040), 2.38, LOOSE),
        "DP-SGD, 14,040 steps, tight": (dpsgd(1.1, 256 / 60_000, 14_040), 2.38, TIGHT),
        "DP-SGD, a million steps": (dpsgd(1.0, 3e-4, 10**6), 1.746, LOOSE),
        "eight phases": (different, 1.0, 1e-3),
        "samples of compositions": (sampled_steps(0.05, dpsgd(2.0, 0.5, 4), 50), 1.0, 1e-3),
        "one sample of a training": (dp_event.PoissonSampledDpEvent(0.1, dpsgd(1.5, 0.05, 50)), 1.0, 1e-3),
        "bins, redrawn": (evr.events.RedrawnBinsDpEvent(2.0, cycle_length=20, epochs=5), 2.0, 5e-3),
        "bins, kept": (evr.events.BallsInBinsDpEvent(5.0, iterations=40, cycle_length=20), 1.0, 0.02),
    }
    print(f"{'what, direction':40}{'foretold':>10}{'took':>10}{'ratio':>8}")
    for name, (event, epsilon, tolerance) in asked.items():
        for direction, steps in Composition.of(event).exact_directions().items():
            curve = StrictCurve(steps)
            foretold, start = curve.seconds(epsilon, tolerance), time.thread_time()
            curve.bound(epsilon, tolerance)
            took = time.thread_time() - start
            print(
                f"{name + ', ' + direction.value:40}{foretold:>8.2f} s{took:>8.2f} s{foretold / took:>8.2f}", flush=True
            )


def prv_upper(s: Setting) -> float:
    from estimate import _prv

    return float(_prv(s, 0.01).compute_delta(s.epsilon, [s.steps])[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="four settings, no peers")
    parser.add_argument("--race", action="store_true", help="the rows of docs/comparison.md beside dp_accounting")
    parser.add_argument("--forecasts", action="store_true", help="how long proofs take, and were foretold to")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds that one answer may take")
    arguments = parser.parse_args()
    if arguments.forecasts:
        forecasts()
        return
    if arguments.race:
        race([CASES[i] for i in IN_DOCS], arguments.limit)
        return
    cases = [CASES[i] for i in QUICK] if arguments.quick else CASES
    fine, greatest = bounds(cases, arguments.limit)
    if not arguments.quick:
        beside(cases, greatest, arguments.limit)
    if not fine:
        sys.exit("some of what is wanted does not hold, see above")


if __name__ == "__main__":
    main()
