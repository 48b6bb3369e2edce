"""``evr estimate``: epsilon at a delta or delta at an epsilon, of one training or of many."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from evr import validate
from evr.cli import options
from evr.cli.output import as_json, draw, new_files, number, say, seconds, table, write_csv, wrote
from evr.cli.sanity import note
from evr.methods import ESTIMATES
from evr.numbers import above

if TYPE_CHECKING:
    from evr.estimation.results import OnlineEpsilon, PrivacyCurve
    from evr.spec import Target
    from evr.sweeps import Sweep


@partial(options.asks_what_ran, ranges=True)
def command(
    ran: options.WhatRan,
    epsilon: Annotated[float | None, options.numbers("Find delta at this epsilon.")] = None,
    delta: Annotated[float | None, options.numbers("Find epsilon at this delta.")] = None,
    method: Annotated[str, options.choice(ESTIMATES, "Which accountant.")] = "fft",
    every: Annotated[int | None, options.whole("Show epsilon at this interval of steps, and at the end.")] = None,
    compare: Annotated[bool, typer.Option("--compare", help="Ask the accountants of other libraries too.")] = False,
    csv: options.Csv = None,
    plot: options.Plot = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Estimate delta at an epsilon, or epsilon at a delta: near-exact by default.

    An estimate is not a guarantee: `evr certify` proves it, and `--method strict` gives a proved bound. Any number may
    be a list (128,256) or a range first:last:step (0:5:0.25): the answers are a table then, and `--plot` draws it.
    Without `--epsilon` and `--delta`, SPEC's claim is used.

    Example: evr estimate --noise-multiplier 0.6:2:0.1 --batch-size 128,256 --dataset-size 60000
    --epochs 15 --delta 1e-5 --plot sweep.svg
    """
    validate.one_of(ESTIMATES, method=method)
    new_files(csv=csv, plot=plot)
    event, claim, relation = (None, None, ran.adjacency) if ran.ranges else ran.described()
    asked = _Question(ran, event, relation, *_target(epsilon, delta, claim), method)
    for name, wanted in (("--every", every is not None), ("--compare", compare)):
        if wanted and asked.has_ranges:
            raise ValueError(f"{name} belongs to one training and one target: leave out ranges")
    if asked.has_ranges or every is not None:
        asked.many(every, csv, plot, json=json, quiet=quiet)
    elif plot is not None or csv is not None:
        raise ValueError("--plot and --csv need several answers: give a list or a range")
    elif compare:
        asked.compare(json=json, quiet=quiet)
    else:
        asked.one(json=json, quiet=quiet)
    if not asked.has_ranges:
        levels = {asked.given: asked.at}
        note(event, records=ran.records, **levels, quiet=quiet)


def _target(epsilon: Any, delta: Any, claim: Target | None) -> tuple[str, Any]:
    """The level that was given, epsilon or delta, and its value: from the flags, or else from the file's claim."""
    if epsilon is None and delta is None and claim is not None:
        epsilon, delta = claim.epsilon, claim.delta
    if epsilon is not None and delta is not None:
        raise ValueError(
            f"epsilon={epsilon!r} and delta={delta!r} are both given: give one, and evr estimates the other"
        )
    if epsilon is None and delta is None:
        raise ValueError("estimate what? Give --epsilon (to find delta) or --delta (to find epsilon)")
    given, at = ("delta", delta) if epsilon is None else ("epsilon", epsilon)
    check = validate.probability if epsilon is None else validate.level_or_infinite
    for value in at if isinstance(at, tuple) else (at,):
        check(**{given: value})
    return given, at


class _Question(NamedTuple):
    """A question about what ran: epsilon at a delta, or delta at an epsilon; ``at`` is the given one."""

    ran: options.WhatRan
    event: Any  # None where flags have several values
    relation: str | None
    given: str
    at: Any  # a number, or a tuple of several
    method: str

    @property
    def wanted(self) -> str:
        return "delta" if self.given == "epsilon" else "epsilon"

    @property
    def has_ranges(self) -> bool:
        return bool(self.ran.ranges) or isinstance(self.at, tuple)

    def one(self, *, json: bool, quiet: bool) -> None:
        """One number, in a sentence."""
        from evr.estimation import UpperBound, estimate_delta, estimate_epsilon

        estimate = estimate_delta if self.wanted == "delta" else estimate_epsilon
        found = estimate(self.event, self.at, method=self.method, neighboring_relation=self.relation)
        self._check_finite(found.value)
        if self.wanted == "epsilon":
            note(epsilon=found.value, quiet=quiet)
        kind = "upper bound" if isinstance(found, UpperBound) else "estimate"
        error, spread = (getattr(found, name, None) for name in ("error", "standard_error"))
        if json:
            how = {"kind": kind, "method": found.method, "direction": found.direction}
            about = {"error": error, "standard_error": spread, "seconds": found.seconds, "event": repr(self.event)}
            as_json({self.given: self.at, self.wanted: found.value, **how, **about})
        elif quiet:
            print(repr(found.value))
        else:
            words = [f"{kind} by {found.method}", f"{found.direction} direction{'s' * (found.direction == 'both')}"]
            words += [] if self.relation is None else [f"{self.relation} adjacency"]
            words += [f"numerical error about {number(error, 1)}"] if error else []
            words += [f"standard error {number(spread, 2)}"] if spread else []
            words += [seconds(found.seconds)]
            say(f"{self.wanted} = {found} at {self.given} = {number(self.at)} ({', '.join(words)})")

    def _check_finite(self, found: float) -> None:
        if self.wanted == "epsilon" and self.at == 0 and math.isinf(found):
            raise ValueError(
                "delta=0.0: epsilon is infinite there, for privacy losses have no bound; give a delta above 0, such as "
                "1e-9"
            )

    def many(self, every: int | None, csv: Path | None, plot: Path | None, *, json: bool, quiet: bool) -> None:
        """Many answers: as JSON or as a table, in a file, in a picture."""
        asked = {"neighboring_relation": self.relation, "progress": not quiet and sys.stderr.isatty()}
        title, found = self._sweep(asked) if every is None else self._online(every, asked)
        columns = {name: values for name, values in found.columns().items() if name != "error"}
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        if json:
            about = {"given": self.ran.given} if self.event is None else {"event": repr(self.event)}
            how = {"method": self.method, "seconds": found.seconds}
            as_json({**about, self.given: self.at, **how, "rows": rows})
        else:
            shown = partial(above, digits=6) if self.method in ("strict", "rdp") else number
            table(title, [row | {self.wanted: shown(row[self.wanted])} for row in rows], quiet=quiet)
        if csv is not None:
            write_csv(csv, rows)
            wrote(csv, quiet=quiet)
        draw(plot, lambda plots: plots.curve(found, title=f"{title}\n{self.ran.caption}"), quiet=quiet)

    def _online(self, every: int, asked: dict[str, Any]) -> tuple[str, OnlineEpsilon]:
        from evr.estimation import online_epsilon

        if self.given != "delta":
            raise ValueError("--every shows epsilon after so many steps: give --delta")
        if self.method != "fft":
            raise ValueError(f"--every goes with --method fft, not with {self.method!r}")
        found = online_epsilon(self.event, self.at, every=every, **asked)
        return f"Epsilon by number of steps, at delta = {number(self.at)}", found

    def _sweep(self, asked: dict[str, Any]) -> tuple[str, PrivacyCurve | Sweep]:
        from evr.estimation import privacy_curve
        from evr.sweeps import sweep

        if self.wanted == "delta" and not self.ran.ranges and self.method != "monte_carlo":
            return "Privacy curve", privacy_curve(self.event, self.at, method=self.method, **asked)
        if self.event is None:
            self.ran.check()
        settings = self.ran.given if self.event is None else {"event": lambda: self.event}
        found = sweep(**settings, **{self.given: self.at}, method=self.method, **asked)
        at_one = "" if isinstance(self.at, tuple) else f" at {self.given} = {number(self.at)}"
        return f"{self.wanted.capitalize()}{at_one}", found

    def compare(self, *, json: bool, quiet: bool) -> None:
        """Other people's answers beside evr's."""
        from evr.estimation.comparison import compare

        answers = compare(self.event, **{self.given: self.at}, neighboring_relation=self.relation)
        ours = answers[0].value
        assert ours is not None
        self._check_finite(ours)
        off = [None if one.value is None or not ours else (one.value - ours) / ours for one in answers]
        if json:
            listed = [asdict(one) | {"relative_difference": far} for one, far in zip(answers, off, strict=True)]
            as_json({self.given: self.at, "estimated": self.wanted, "accountants": listed, "event": repr(self.event)})
            return
        rows = [
            {
                "accountant": one.accountant,
                "kind": None if one.value is None else one.kind,
                self.wanted: number(one.value, 8),
                "relative difference": None if far is None else f"{far:+.1e}",
                "time": None if one.value is None else seconds(one.seconds),
                "note": one.note,
            }
            for one, far in zip(answers, off, strict=True)
        ]
        table(f"{self.wanted} at {self.given} = {number(self.at)}", rows, quiet=quiet)
