"""``evr estimate``: epsilon at a delta or delta at an epsilon, of one training or of many."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evr import validate
from evr.cli.files import new_files
from evr.cli.options import (
    Csv,
    Described,
    Json,
    Plot,
    Quiet,
    Several,
    WhatRan,
    asks_what_ran,
    check_epsilon,
    choice_option,
    number_option,
    picture,
    whole_option,
)
from evr.cli.output import as_json, number, progress_bar, say, seconds, table, write_csv, wrote
from evr.cli.sanity import note
from evr.methods import ESTIMATES
from evr.numbers import above

if TYPE_CHECKING:
    from evr.estimation import Estimate, UpperBound
    from evr.estimation.comparison import Answer

Number = float | Several
Epsilon = Annotated[float | None, number_option("--epsilon", "Find delta at this epsilon.", ranges=True)]
Delta = Annotated[float | None, number_option("--delta", "Find epsilon at this delta.", ranges=True)]
Method = Annotated[str, choice_option("--method", ESTIMATES, "Which accountant.")]
Every = Annotated[int | None, whole_option("--every", "Show epsilon at this interval of steps, and at the end.")]
Compare = Annotated[bool, typer.Option("--compare", help="Ask the accountants of other libraries too.")]


def _command(
    ran: WhatRan,
    epsilon: Epsilon = None,
    delta: Delta = None,
    method: Method = "fft",
    every: Every = None,
    compare: Compare = False,
    csv: Csv = None,
    plot: Plot = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Estimate delta at an epsilon, or epsilon at a delta: near-exact by default.

    An estimate is not a guarantee: `evr certify` proves it, and `--method strict` gives a proved bound. Any number may
    be a list (128,256) or a range first:last:step (0:5:0.25): the answers are a table then, and `--plot` draws it.
    Without `--epsilon` and `--delta`, SPEC's claim is used.

    Example: evr estimate --noise-multiplier 0.6:2:0.1 --batch-size 128,256 --dataset-size 60000
    --epochs 15 --delta 1e-5 --plot sweep.svg
    """
    validate.one_of(ESTIMATES, method=method)
    plot = picture(plot)
    new_files(csv=csv, plot=plot)
    out = _Out(ran, method, csv, plot, json=json, quiet=quiet)
    one = not ran.training.several
    described = ran.described() if one else Described(None, None, ran.adjacency)
    given, at = _target(epsilon, delta, described)
    many = isinstance(at, Several)
    for flag, wanted in (("--every", every is not None), ("--compare", compare)):
        if wanted and (many or not one):
            raise ValueError(f"{flag} belongs to one training and one target: leave out ranges")
    if every is not None:
        out.online(described, given, at, every)
    elif compare:
        out.comparison(described, given, at)
    elif one and many and given == "epsilon" and method != "monte_carlo":
        out.curve(described, at)
    elif one and not many:
        out.single(described, given, at)
    else:
        out.sweep(described, given, at)


command = asks_what_ran(_command, ranges=True)


def _target(epsilon: Number | None, delta: Number | None, said: Described) -> tuple[str, Any]:
    """The level that was given, epsilon or delta, and its value: from the flags, or else from the file's claim."""
    if epsilon is None and delta is None and said.claim is not None:
        epsilon, delta = said.claim.epsilon, said.claim.delta
    if epsilon is not None and delta is not None:
        raise ValueError(
            f"epsilon={_text(epsilon)} and delta={_text(delta)} are both given: give one, and evr estimates the other"
        )
    if epsilon is not None:
        for value in _values(epsilon):
            validate.level_or_infinite(epsilon=value)
        return "epsilon", epsilon
    if delta is not None:
        for value in _values(delta):
            validate.probability(delta=value)
        return "delta", delta
    raise ValueError("estimate what? Give --epsilon (to find delta) or --delta (to find epsilon)")


def _values(given: Number) -> tuple[float, ...]:
    return given.values if isinstance(given, Several) else (given,)


def _text(given: Number) -> str:
    return given.text if isinstance(given, Several) else repr(given)


class _Out:
    """Asks, and prints the answer as the flags want it."""

    def __init__(
        self, ran: WhatRan, method: str, csv: Path | None, plot: Path | None, *, json: bool, quiet: bool
    ) -> None:
        self.ran, self.method, self.csv, self.plot = ran, method, csv, plot
        self.json, self.quiet = json, quiet
        self.shown = partial(above, digits=6) if method in ("strict", "rdp") else number

    def single(self, said: Described, given: str, at: float) -> None:
        """One number, in a sentence."""
        from evr.estimation import UpperBound, estimate_delta, estimate_epsilon

        if self.plot is not None or self.csv is not None:
            raise ValueError("--plot and --csv need several answers: give a list or a range")
        event, _, relation = said
        wanted, estimate = ("delta", estimate_delta) if given == "epsilon" else ("epsilon", estimate_epsilon)
        note(self.ran, event, **{given: at}, quiet=self.quiet)
        found = estimate(event, at, method=self.method, neighboring_relation=relation)
        if wanted == "epsilon":
            check_epsilon(found.value, at)
            note(self.ran, epsilon=found.value, quiet=self.quiet)
        kind = "upper bound" if isinstance(found, UpperBound) else "estimate"
        if self.json:
            about = {"kind": kind, **_about(found), "seconds": found.seconds, "event": repr(event)}
            as_json({given: at, wanted: found.value, **about})
        elif self.quiet:
            print(repr(found.value))
        else:
            error, spread = (getattr(found, name, None) for name in ("error", "standard_error"))
            how = [f"{kind} by {found.method}", f"{found.direction} direction{'s' * (found.direction == 'both')}"]
            how += [] if relation is None else [f"{relation} adjacency"]
            how += [f"numerical error about {number(error, 1)}"] if error else []
            how += [f"standard error {number(spread, 2)}"] if spread else []
            say(f"{wanted} = {found} at {given} = {number(at)} ({', '.join(how)}, {seconds(found.seconds)})")

    def curve(self, said: Described, at: Several) -> None:
        """Delta at many epsilons, in one pass."""
        from evr.estimation import privacy_curve

        event, _, relation = said
        asked = partial(privacy_curve, event, method=self.method, neighboring_relation=relation)
        with progress_bar("privacy curve", quiet=self.quiet) as progress:
            curve = asked(at.values, progress=progress)
        columns = {
            "epsilon": curve.epsilons.tolist(),
            "delta": curve.deltas.tolist(),
            "direction": list(curve.directions),
        }
        if self.json:
            about = {"method": curve.method, "seconds": curve.seconds, "event": repr(event)}
            as_json({f"{name}s": values for name, values in columns.items()} | about)
        self._table("Privacy curve", columns, "delta")
        if self.plot is not None:
            from evr.report import plots

            drawn = asked(plots.smooth(min(at.values), max(at.values)))
            lines = {self.method: (drawn.epsilons, drawn.deltas)}
            self._draw(plots.privacy_curves(lines, title=self.ran.caption))

    def online(self, said: Described, given: str, at: float, every: int) -> None:
        """Epsilon after every so many steps."""
        from evr.estimation import online_epsilon

        event, _, relation = said
        if given != "delta":
            raise ValueError("--every shows epsilon after so many steps: give --delta")
        if self.method != "fft":
            raise ValueError(f"--every goes with --method fft, not with {self.method!r}")
        validate.positive_integer(every=every)
        note(self.ran, event, delta=at, quiet=self.quiet)
        with progress_bar("steps", quiet=self.quiet) as progress:
            found = online_epsilon(event, at, every=every, neighboring_relation=relation, progress=progress)
        columns = {"steps": found.steps.tolist(), "epsilon": found.epsilons.tolist()}
        if self.json:
            about = {"delta": found.delta, "method": self.method, "seconds": found.seconds}
            document = {"steps": columns["steps"], "epsilons": columns["epsilon"]}
            as_json({**document, **about, "event": repr(event)})
        self._table(f"Epsilon by number of steps, at delta = {number(at)}", columns, "epsilon")
        if self.plot is not None:
            from evr.report import plots

            lines = {self.method: (found.steps, found.epsilons)}
            self._draw(plots.online_epsilon(lines, at, title=self.ran.caption))

    def comparison(self, said: Described, given: str, at: float) -> None:
        """Other people's answers beside evr's."""
        from dataclasses import asdict

        from evr.estimation.comparison import compare

        event, _, relation = said
        wanted = "delta" if given == "epsilon" else "epsilon"
        answers = compare(event, **{given: at}, neighboring_relation=relation)
        ours = answers[0].value
        assert ours is not None
        if wanted == "epsilon":
            check_epsilon(ours, at)
        if self.json:
            listed = [{**asdict(one), "relative_difference": _off(one, ours)} for one in answers]
            as_json({given: at, "estimated": wanted, "accountants": listed, "event": repr(event)})
            return
        table(
            f"{wanted} at {given} = {number(at)}",
            ["accountant", "kind", wanted, "relative difference", "time", "note"],
            [_row(one, ours) for one in answers],
            quiet=self.quiet,
        )

    def sweep(self, said: Described, given: str, at: Number) -> None:
        """A row for each setting."""
        from evr.sweeps import sweep

        if said.event is None:
            settings, of = self.ran.training.settings, {}
            self.ran.training.least().event()  # what is missing is said now
        else:
            settings, of = {}, {"event": lambda: said.event}
        target: dict[str, Any] = {given: _values(at)}
        with progress_bar("settings", quiet=self.quiet) as progress:
            found = sweep(
                **of, **settings, **target, method=self.method, neighboring_relation=said.relation, progress=progress
            )
        rows = found.rows
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        if self.json:
            about = {"method": self.method, "seconds": found.seconds}
            as_json({"settings": [*found.settings], "rows": rows, **about})
        at_one = "" if isinstance(at, Several) else f" at {given} = {number(at)}"
        self._table(f"{found.wanted.capitalize()}{at_one}", columns, found.wanted)
        if self.plot is not None:
            from evr.report import plots

            self._draw(plots.sweep(found, title=self.ran.caption))

    def _table(self, title: str, columns: dict[str, list[Any]], answer: str) -> None:
        """The columns as a table, unless JSON was asked for; and as a file."""
        rows = list(zip(*columns.values(), strict=True))
        if not self.json:
            ways = [self.shown if name == answer else _plain for name in columns]
            listed = [[way(one) for way, one in zip(ways, row, strict=True)] for row in rows]
            table(title, list(columns), listed, quiet=self.quiet)
        if self.csv is not None:
            write_csv(self.csv, list(columns), rows)
            wrote(self.csv, quiet=self.quiet)

    def _draw(self, figure: Any) -> None:
        from evr.report import plots

        assert self.plot is not None
        plots.save(figure, self.plot)
        wrote(self.plot, quiet=self.quiet)


def _plain(value: Any) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _about(found: Estimate | UpperBound) -> dict[str, Any]:
    return {
        "method": found.method,
        "direction": found.direction,
        "error": getattr(found, "error", None),
        "standard_error": getattr(found, "standard_error", None),
    }


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
