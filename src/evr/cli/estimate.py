"""Commands that prove nothing. ``evr estimate``: epsilon at a delta or delta at an epsilon, of one training or of many.
``evr describe``: how evr understands a training.
"""

import math
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import evr
from evr._basics.numbers import above
from evr.cli import options
from evr.cli.files import new_files, write_csv
from evr.cli.output import as_json, number, say, seconds, table
from evr.types import Direction, EstimateMethod

if TYPE_CHECKING:
    from evr._estimate.results import OnlineEpsilon, PrivacyCurve
    from evr._kernel.events import Composition
    from evr._spec import Target
    from evr._sweeps import Sweep

_STEP_EPSILONS = (0.1, 0.5, 1.0, 2.0)  # where `evr describe` gives the delta of one step


def estimate(
    ran: options.WhatRan,
    *,
    epsilon: Annotated[float | None, options.numbers("Find delta at this epsilon.")] = None,
    delta: Annotated[float | None, options.numbers("Find epsilon at this delta.")] = None,
    method: Annotated[str, options.choice("|".join(EstimateMethod), "Which accountant.")] = "fft",
    every: Annotated[int | None, options.whole("Show epsilon at this interval of steps, and at the end.")] = None,
    compare: Annotated[bool, options.option("Ask the accountants of other libraries too.", "--compare")] = False,
    both_sides: Annotated[bool, options.option("Proved bounds from below and from above.", "--both-sides")] = False,
    csv: options.Csv = None,
    plot: options.Plot = None,
    out: options.Out,
) -> None:
    """Estimate delta at an epsilon, or epsilon at a delta: near-exact by default.

    An estimate is not a guarantee: `evr certify` proves it, and `--method strict` gives a proved bound. Any number may
    be a list (128,256) or a range first:last:step (0:5:0.25): the answers are a table then, and `--plot` draws it.
    Without `--epsilon` and `--delta`, SPEC's claim is used.

    Example: evr estimate --noise-multiplier 0.6:2:0.1 --batch-size 128,256 --dataset-size 60000
    --epochs 15 --delta 1e-5 --plot sweep.svg
    """
    new_files(ran.spec, csv=csv, plot=plot)
    event, claim, relation = (None, None, ran.adjacency) if ran.ranges else ran.described()
    given, at = _target(epsilon, delta, claim)
    if event is not None and relation is None:
        from evr._kernel.events import Composition
        from evr._kernel.events.relations import ADD_OR_REMOVE, name_of

        known = Composition.of(event).relation
        relation = None if known is ADD_OR_REMOVE else name_of(known)
    asked = _Question(ran, event, relation, given, at, method, out)
    has_ranges = bool(ran.ranges) or isinstance(at, tuple)
    kinds = {"--compare": compare, "--both-sides": both_sides, "--every": every is not None}
    special = " and ".join(flag for flag, is_given in kinds.items() if is_given)
    if " and " in special:
        raise ValueError(f"{special} ask for different things: give one of them")
    if special and has_ranges:
        raise ValueError(f"{special} belongs to one training and one target: leave out ranges")
    if special and method != "fft":
        raise ValueError(f"{special} has methods of its own: leave out --method {method}")
    if has_ranges or every is not None:
        asked.many(every, csv, plot)
    elif plot is not None or csv is not None:
        raise ValueError("--plot and --csv need several answers: give a list or a range")
    else:
        with out.busy("Still estimating"):
            (asked.compare if compare else asked.enclose if both_sides else asked.one)()
    if not has_ranges:
        levels = {given: at}
        out.note(event, records=ran.records, **levels)
    for name, (first, *others) in ran.ranges.items() if not out.quiet else ():
        if first == 0 and len(others) == 1:
            told = f"{options.flag_of(name)}: 0 and {others[0]:g} are two numbers"
            print(f"note: {told}; a decimal has a point, as 0.8", file=sys.stderr)


def _target(epsilon: Any, delta: Any, claim: "Target | None") -> tuple[str, Any]:
    """The level that was given, epsilon or delta, and its value: from the flags, or else from the file's claim."""
    if epsilon is None and delta is None and claim is not None:
        epsilon, delta = claim.epsilon, claim.delta
    if (epsilon is None) == (delta is None):
        raise ValueError("estimate what? Give either --epsilon (to find delta) or --delta (to find epsilon)")
    return ("delta", delta) if epsilon is None else ("epsilon", epsilon)


class _Question(NamedTuple):
    """A question about what ran: epsilon at a delta, or delta at an epsilon; ``at`` is the given one."""

    ran: options.WhatRan
    event: Any  # None where flags have several values
    relation: str | None  # None for add-or-remove, which goes without saying
    given: str
    at: Any  # a number, or a tuple of several
    method: str
    out: options.Out

    @property
    def wanted(self) -> str:
        return "delta" if self.given == "epsilon" else "epsilon"

    @property
    def _about(self) -> dict[str, Any]:
        """The question, for JSON."""
        ran = {"given": self.ran.given} if self.event is None else {"event": repr(self.event)}
        return {**ran, "adjacency": self.relation or "add-or-remove", self.given: self.at}

    def one(self) -> None:
        """One number, in a sentence."""
        ask = evr.estimate_delta if self.wanted == "delta" else evr.estimate_epsilon
        found = ask(self.event, self.at, method=self.method, neighboring_relation=self.relation)
        self._check_finite(found.value)
        if self.wanted == "epsilon":
            self.out.note(epsilon=found.value)
        kind = "upper bound" if isinstance(found, evr.UpperBound) else "estimate"
        error, spread = (getattr(found, name, None) for name in ("error", "standard_error"))
        how = {"kind": kind, "method": found.method, "direction": found.direction, "error": error}
        document = {**self._about, self.wanted: found.value, **how, "standard_error": spread, "seconds": found.seconds}
        words = [f"{kind} by {found.method}", f"{found.direction} direction{'s' * (found.direction == 'both')}"]
        words += self._adjacency
        words += [f"numerical error about {number(error, 1)}"] if error else []
        words += [f"standard error {number(spread, 2)}"] if spread else []
        self._answer(document, repr(found.value), f"= {found}", words, found.seconds)

    def _answer(self, document: Any, brief: str, value: str, words: list[str], took: float) -> None:
        told = f"{self.wanted} {value} at {self.given} = {number(self.at)} ({', '.join(words)}, {seconds(took)})"
        self.out.answer(document, brief, told)

    @property
    def _adjacency(self) -> list[str]:
        return [] if self.relation is None else [f"{self.relation} adjacency"]

    def enclose(self) -> None:
        """Two proved numbers, in a sentence that says what the lower one is about."""
        ask = evr.enclose_delta if self.wanted == "delta" else evr.enclose_epsilon
        found = ask(self.event, self.at, neighboring_relation=self.relation)
        self._check_finite(found.upper)
        words = ["both proved", f"the lower in the {found.direction} direction"]
        words += [] if found.attained else ["for evr's pair only: the mechanism may have less"]
        document = {**self._about, "estimated": self.wanted, **asdict(found)}
        words += self._adjacency
        self._answer(document, f"{found.lower}\t{found.upper}", f"in {found}", words, found.seconds)

    def _check_finite(self, found: float) -> None:
        if self.wanted == "epsilon" and self.at == 0 and math.isinf(found):
            why = "epsilon is infinite there because privacy losses have no bound"
            raise ValueError(f"delta=0.0: {why}; give a delta above 0, such as 1e-9")

    def many(self, every: int | None, csv: Path | None, plot: Path | None) -> None:
        """Many answers: as JSON or as a table, in a file, in a picture."""
        title, found = self._curve(every)
        title += "" if self.relation is None else f", {self.relation} adjacency"
        columns = {name: values for name, values in found.columns().items() if name != "error"}
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        if self.out.json:
            as_json({**self._about, "method": self.method, "seconds": found.seconds, "rows": rows})
        else:
            shown = partial(above, digits=6) if self.method in ("strict", "rdp") else number
            self.out.table(title, [row | {self.wanted: shown(row[self.wanted])} for row in rows])
        if csv is not None:
            write_csv(csv, rows)
            self.out.wrote(csv)
        self.out.draw(plot, lambda plots: plots.curve(found, title=f"{title}\n{self.ran.caption}"))

    def _curve(self, every: int | None) -> "tuple[str, PrivacyCurve | OnlineEpsilon | Sweep]":
        """The answers, and their title."""
        asked: Any = {"neighboring_relation": self.relation, "progress": not self.out.quiet and sys.stderr.isatty()}
        if every is not None:
            if self.given != "delta":
                raise ValueError("--every finds epsilon: give --delta, not --epsilon")
            title = f"Epsilon by number of steps, at delta = {number(self.at)}"
            return title, evr.online_epsilon(self.event, self.at, every=every, **asked)
        if self.wanted == "delta" and not self.ran.ranges and self.method != "monte_carlo":
            return "Privacy curve", evr.privacy_curve(self.event, self.at, method=self.method, **asked)
        if self.event is None:
            self.ran.check()
        settings = self.ran.given if self.event is None else {"event": lambda: self.event}
        at_one = "" if isinstance(self.at, tuple) else f" at {self.given} = {number(self.at)}"
        found = evr.sweep(**settings, **{self.given: self.at}, method=self.method, **asked)
        return f"{self.wanted.capitalize()}{at_one}", found

    def compare(self) -> None:
        """Other people's answers beside evr's."""
        from evr._accounting.comparison import compare

        answers = compare(self.event, **{self.given: self.at}, neighboring_relation=self.relation)
        ours = answers[0].value
        assert ours is not None
        self._check_finite(ours)
        off = [None if one.value is None or not ours else (one.value - ours) / ours for one in answers]
        if self.out.json:
            listed = [asdict(one) | {"relative_difference": far} for one, far in zip(answers, off, strict=True)]
            as_json({**self._about, "estimated": self.wanted, "accountants": listed})
            return
        rows = [
            {
                "accountant": one.accountant,
                "kind": None if one.value is None else one.kind,
                self.wanted: number(one.value, 8),
                "off by": None if far is None else f"{far:+.1e}",
                "time": None if one.value is None else seconds(one.seconds),
                "note": one.note,
            }
            for one, far in zip(answers, off, strict=True)
        ]
        self.out.table(f"{self.wanted} at {self.given} = {number(self.at)}", rows)


def describe(ran: options.WhatRan, *, json: options.Json = False) -> None:
    """Show how evr understands a training: in words, then each mechanism's pairs and the delta of one step.

    Example: evr describe examples/dpsgd.toml
    """
    from evr._described import adjacency
    from evr._dpsgd import stated_in
    from evr._kernel.events import Composition
    from evr._kernel.events.meaning import hypotheses_of, meanings_in
    from evr._kernel.events.relations import name_of
    from evr._kernel.events.table import PLAIN
    from evr._wording.description import description_of, trained
    from evr._wording.events import describe

    event, _, relation = ran.described()
    composition = Composition.of(event, relation)
    hypotheses = {one.id: one.sentence for one in hypotheses_of(event, composition.relation)}
    meant = meanings_in(event, composition.relation)
    theorems = {row.subject: meaning.theorem for row, meaning in meant if row.event not in PLAIN}
    steps = _steps(composition)
    if json:
        meaning = {"adjacency": name_of(composition.relation), "unit": composition.unit, "theorems": theorems}
        ran_and_meant = {"event": repr(event), "what_ran": describe(event), **meaning, "hypotheses": hypotheses}
        as_json({**ran_and_meant, "steps": steps})
        return
    if not steps:
        print("This composition costs no privacy.")
        return
    if training := trained(event, description_of(stated_in(event), event)):
        say(f"Training: {training}.")
        say("A noise multiplier is the standard deviation of the noise over the clipping norm.")
    say(f"What ran: {describe(event)}.")
    say(f"Neighbours: {adjacency(composition.relation, users=composition.unit == 'user')}.")
    say(f"Protected: each {composition.unit or 'record or user, whichever was meant'}.")
    say(f"Theorems: {'; '.join(f'{name}, {theorem}' for name, theorem in theorems.items())} (docs/meaning.md).")
    for id, sentence in hypotheses.items():
        say(f"It is assumed that {sentence} ({id}).")
    print()
    rows = [
        {"direction": one["direction"], "count": f"{one['count']:,}", "dominating pair P | Q": one["pair"]}
        | {f"delta({float(epsilon):g})": number(delta, 4) for epsilon, delta in one["delta"].items()}
        for one in steps
    ]
    table("One step of each mechanism", rows)


def _steps(composition: "Composition") -> list[dict[str, Any]]:
    """Each mechanism in both directions, with the delta of one step where it has a closed form."""
    from evr._estimate.closed_forms import pair_delta
    from evr._kernel.pairs import DominatingPair

    steps = []
    for direction in Direction:
        for step in composition.steps(direction):
            law = step.floats
            exact = partial(pair_delta, law) if isinstance(law, DominatingPair) else None
            deltas = {str(epsilon): exact and exact(epsilon) for epsilon in _STEP_EPSILONS}
            about = {"direction": direction.value, "count": step.count, "pair": law.describe()}
            steps.append(about | {"delta": deltas})
    return steps
