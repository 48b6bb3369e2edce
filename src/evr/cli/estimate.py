"""``evr estimate``: epsilon at a delta or delta at an epsilon, of one training or of many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evr import validate
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
from evr.cli.output import as_json, draw, new_files, number, progress_bar, say, seconds, table, write_csv, wrote
from evr.cli.sanity import note
from evr.methods import ESTIMATES
from evr.numbers import above

if TYPE_CHECKING:
    from evr.estimation.comparison import Answer

Number = float | Several


def _command(
    ran: WhatRan,
    epsilon: Annotated[float | None, number_option("Find delta at this epsilon.", ranges=True)] = None,
    delta: Annotated[float | None, number_option("Find epsilon at this delta.", ranges=True)] = None,
    method: Annotated[str, choice_option(ESTIMATES, "Which accountant.")] = "fft",
    every: Annotated[int | None, whole_option("Show epsilon at this interval of steps, and at the end.")] = None,
    compare: Annotated[bool, typer.Option("--compare", help="Ask the accountants of other libraries too.")] = False,
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
    new_files(csv=csv, plot=picture(plot))
    one = not ran.training.several
    described = ran.described() if one else Described(None, None, ran.adjacency)
    given, at = _target(epsilon, delta, described)
    many = isinstance(at, Several)
    for flag, wanted in (("--every", every is not None), ("--compare", compare)):
        if wanted and (many or not one):
            raise ValueError(f"{flag} belongs to one training and one target: leave out ranges")
    out = _Out(ran, described, method, csv, plot, json, quiet)
    if every is not None:
        out.online(given, at, every)
    elif compare:
        out.comparison(given, at)
    elif one and many and given == "epsilon" and method != "monte_carlo":
        out.curve(at)
    elif one and not many:
        out.single(given, at)
    else:
        out.sweep(given, at)


command = asks_what_ran(_command, ranges=True)


def _target(epsilon: Number | None, delta: Number | None, said: Described) -> tuple[str, Any]:
    """The level that was given, epsilon or delta, and its value: from the flags, or else from the file's claim."""
    if epsilon is None and delta is None and said.claim is not None:
        epsilon, delta = said.claim.epsilon, said.claim.delta
    if epsilon is not None and delta is not None:
        both = [one.text if isinstance(one, Several) else repr(one) for one in (epsilon, delta)]
        raise ValueError(f"epsilon={both[0]} and delta={both[1]} are both given: give one, and evr estimates the other")
    if epsilon is None and delta is None:
        raise ValueError("estimate what? Give --epsilon (to find delta) or --delta (to find epsilon)")
    for value in () if epsilon is None else _values(epsilon):
        validate.level_or_infinite(epsilon=value)
    for value in () if delta is None else _values(delta):
        validate.probability(delta=value)
    return ("delta", delta) if epsilon is None else ("epsilon", epsilon)


def _values(given: Number) -> tuple[float, ...]:
    return given.values if isinstance(given, Several) else (given,)


@dataclass(frozen=True)
class _Out:
    """Asks, and prints the answer as the flags want it."""

    ran: WhatRan
    said: Described
    method: str
    csv: Path | None
    plot: Path | None
    json: bool
    quiet: bool

    def single(self, given: str, at: float) -> None:
        """One number, in a sentence."""
        from evr.estimation import UpperBound, estimate_delta, estimate_epsilon

        if self.plot is not None or self.csv is not None:
            raise ValueError("--plot and --csv need several answers: give a list or a range")
        event, _, relation = self.said
        wanted, estimate = ("delta", estimate_delta) if given == "epsilon" else ("epsilon", estimate_epsilon)
        note(self.ran, event, **{given: at}, quiet=self.quiet)
        found = estimate(event, at, method=self.method, neighboring_relation=relation)
        if wanted == "epsilon":
            check_epsilon(found.value, at)
            note(self.ran, epsilon=found.value, quiet=self.quiet)
        kind = "upper bound" if isinstance(found, UpperBound) else "estimate"
        error, spread = (getattr(found, name, None) for name in ("error", "standard_error"))
        if self.json:
            how = {"kind": kind, "method": found.method, "direction": found.direction}
            about = {"error": error, "standard_error": spread, "seconds": found.seconds, "event": repr(event)}
            as_json({given: at, wanted: found.value, **how, **about})
        elif self.quiet:
            print(repr(found.value))
        else:
            words = [f"{kind} by {found.method}", f"{found.direction} direction{'s' * (found.direction == 'both')}"]
            words += [] if relation is None else [f"{relation} adjacency"]
            words += [f"numerical error about {number(error, 1)}"] if error else []
            words += [f"standard error {number(spread, 2)}"] if spread else []
            say(f"{wanted} = {found} at {given} = {number(at)} ({', '.join(words)}, {seconds(found.seconds)})")

    def curve(self, at: Several) -> None:
        """Delta at many epsilons, in one pass."""
        from evr.estimation import privacy_curve

        event, _, relation = self.said
        asked = partial(privacy_curve, event, method=self.method, neighboring_relation=relation)
        with progress_bar("privacy curve", quiet=self.quiet) as progress:
            curve = asked(at.values, progress=progress)
        columns = {
            "epsilon": curve.epsilons.tolist(),
            "delta": curve.deltas.tolist(),
            "direction": list(curve.directions),
        }

        def figure(plots: Any) -> Any:
            drawn = asked(plots.smooth(min(at.values), max(at.values)))
            return plots.privacy_curves({self.method: (drawn.epsilons, drawn.deltas)}, title=self.ran.caption)

        about = {"method": curve.method, "seconds": curve.seconds, "event": repr(event)}
        document = {f"{name}s": values for name, values in columns.items()} | about
        self._show("Privacy curve", columns, "delta", document, figure)

    def online(self, given: str, at: float, every: int) -> None:
        """Epsilon after every so many steps."""
        from evr.estimation import online_epsilon

        event, _, relation = self.said
        if given != "delta":
            raise ValueError("--every shows epsilon after so many steps: give --delta")
        if self.method != "fft":
            raise ValueError(f"--every goes with --method fft, not with {self.method!r}")
        validate.positive_integer(every=every)
        note(self.ran, event, delta=at, quiet=self.quiet)
        with progress_bar("steps", quiet=self.quiet) as progress:
            found = online_epsilon(event, at, every=every, neighboring_relation=relation, progress=progress)
        columns = {"steps": found.steps.tolist(), "epsilon": found.epsilons.tolist()}
        about = {"delta": found.delta, "method": self.method, "seconds": found.seconds, "event": repr(event)}
        document = {"steps": columns["steps"], "epsilons": columns["epsilon"], **about}
        lines = {self.method: (found.steps, found.epsilons)}
        self._show(
            f"Epsilon by number of steps, at delta = {number(at)}",
            columns,
            "epsilon",
            document,
            lambda plots: plots.online_epsilon(lines, at, title=self.ran.caption),
        )

    def sweep(self, given: str, at: Number) -> None:
        """A row for each setting."""
        from evr.sweeps import sweep

        asked: dict[str, Any] = {given: _values(at), "method": self.method, "neighboring_relation": self.said.relation}
        if self.said.event is None:
            asked |= self.ran.training.settings
            self.ran.training.least().event()  # what is missing is said now
        else:
            asked["event"] = lambda: self.said.event
        with progress_bar("settings", quiet=self.quiet) as progress:
            found = sweep(**asked, progress=progress)
        about = {"method": self.method, "seconds": found.seconds}
        at_one = "" if isinstance(at, Several) else f" at {given} = {number(at)}"
        self._show(
            f"{found.wanted.capitalize()}{at_one}",
            found.columns(),
            found.wanted,
            {"settings": [*found.settings], "rows": found.rows, **about},
            lambda plots: plots.sweep(found, title=self.ran.caption),
        )

    def comparison(self, given: str, at: float) -> None:
        """Other people's answers beside evr's."""
        from evr.estimation.comparison import compare

        event, _, relation = self.said
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
        header = ["accountant", "kind", wanted, "relative difference", "time", "note"]
        rows = [_row(one, ours) for one in answers]
        table(f"{wanted} at {given} = {number(at)}", header, rows, quiet=self.quiet)

    def _show(
        self, title: str, columns: Any, answer: str, document: dict[str, Any], figure: Callable[[Any], Any]
    ) -> None:
        """Many answers: as JSON or as a table, in a file, in a picture."""
        rows = list(zip(*columns.values(), strict=True))
        if self.json:
            as_json(document)
        else:
            shown = partial(above, digits=6) if self.method in ("strict", "rdp") else number
            ways = [shown if name == answer else _plain for name in columns]
            listed = [[way(one) for way, one in zip(ways, row, strict=True)] for row in rows]
            table(title, list(columns), listed, quiet=self.quiet)
        if self.csv is not None:
            write_csv(self.csv, list(columns), rows)
            wrote(self.csv, quiet=self.quiet)
        draw(self.plot, figure, quiet=self.quiet)


def _plain(value: Any) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _off(answer: Answer, ours: float) -> float | None:
    return None if answer.value is None or not ours else (answer.value - ours) / ours


def _row(answer: Answer, ours: float) -> list[str]:
    if answer.value is None:
        return [answer.accountant, "-", "-", "-", "-", answer.note]
    off = _off(answer, ours)
    shown = "-" if off is None else f"{off:+.1e}"
    return [answer.accountant, answer.kind, number(answer.value, 8), shown, seconds(answer.seconds), answer.note]
