"""``MonteCarloAccountant``: the Monte Carlo accountant behind dp_accounting's interface, and a step
at a time during training.
"""

from __future__ import annotations

import io
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from dp_accounting import dp_event

from evr import validate
from evr.atomic import write_bytes
from evr.estimation.accountants import CompositionAccountant
from evr.estimation.mc_online import RunningSamples, online_plan
from evr.estimation.monte_carlo import (
    DEFAULT_SAMPLES,
    monte_carlo_delta,
    monte_carlo_epsilon,
    pilot_epsilon,
)
from evr.laws import Direction, Step, infinite_mass
from evr.mechanisms import Composition
from evr.mechanisms.relations import ADD_OR_REMOVE, Relation, name_of
from evr.randomness import Stream, entropy_of
from evr.sampling import DrawPlan
from evr.sampling.plan import CappedPlan

_FORMAT = 3


class MonteCarloAccountant(CompositionAccountant):
    """Epsilon and delta by weighted samples: estimates, not bounds.

    Deterministic for its seed: equal compositions give equal answers, so that a calibration
    converges; and answers of one composition are monotone.

    Parameters
    ----------
    neighboring_relation
        As of ``evr.estimate_delta``; adding or removing one record by default.
    samples
        Samples of each answer.
    seed
        Of all samples.
    delta, horizon
        For ``step``: the delta to track, and about how many steps the run will have, for which
        samples are tilted.

    Examples
    --------
    >>> import dp_accounting, evr
    >>> step = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0))
    >>> accountant = evr.MonteCarloAccountant(samples=20_000, delta=1e-5, horizon=3)
    >>> epsilons = [accountant.step(step) for _ in range(3)]
    >>> exact = evr.FFTAccountant().compose(step, 3).get_epsilon(1e-5)
    >>> abs(epsilons[-1] / exact - 1) < 0.05
    True
    """

    def __init__(
        self,
        neighboring_relation: Relation = ADD_OR_REMOVE,
        *,
        samples: int = DEFAULT_SAMPLES,
        seed: int = 0,
        delta: float | None = None,
        horizon: int = 1000,
    ) -> None:
        super().__init__(neighboring_relation)
        self.samples = validate.positive_integer(samples=samples)
        self.seed = entropy_of(seed)
        self.delta = None if delta is None else validate.open_probability(delta=delta)
        self.horizon = validate.positive_integer(horizon=horizon)
        self._answers: dict[tuple[Composition, str], dict[float, float]] = {}
        self._runs: dict[Direction, RunningSamples] = {}

    def get_epsilon(self, target_delta: float) -> float:
        delta = validate.probability(target_delta=target_delta)
        if self.composition.is_non_private:
            return math.inf
        return self._monotone(
            "epsilon", delta, lambda c: monte_carlo_epsilon(c, delta, **self._options).value
        )

    def get_delta(self, target_epsilon: float) -> float:
        epsilon = validate.non_negative_or_infinite(target_epsilon=target_epsilon)
        return self._monotone(
            "delta", epsilon, lambda c: monte_carlo_delta(c, epsilon, **self._options).value
        )

    @property
    def _options(self) -> dict[str, Any]:
        return {"samples": self.samples, "seed": self.seed}

    def _monotone(self, kind: str, argument: float, compute: Any) -> float:
        """The answer, kept between those given before at greater and at lesser arguments: both
        curves fall.
        """
        composition = self.composition
        known = self._answers.setdefault((composition, kind), {})
        if argument not in known:
            value = compute(composition)
            at_least = max((v for a, v in known.items() if a > argument), default=0.0)
            at_most = min((v for a, v in known.items() if a < argument), default=math.inf)
            known[argument] = min(max(value, at_least), at_most)
        return known[argument]

    # --- a step at a time ---

    def step(self, event: dp_event.DpEvent) -> float:
        """Account for one more step and return epsilon at the accountant's ``delta``, from samples
        that grow with the run.
        """
        if self.delta is None:
            raise ValueError(
                "step() needs the delta to track: MonteCarloAccountant(delta=..., horizon=...)"
            )
        before = set(self._counts)
        self.compose(event)
        if self.composition.is_non_private:
            return math.inf
        added = Composition.of(event, self.neighboring_relation)
        if set(self._counts) != before or not self._runs:
            self._plan()
        best = 0.0
        for direction, run in self._runs.items():
            for step in added.steps(direction):
                run.advance(step.pair, step.count)
            best = max(best, run.epsilon(self.delta)[0])
        return best

    def _plan(self) -> None:
        """Tilts for the pairs seen so far, as if they went on to the horizon."""
        assert self.delta is not None
        composition = self.composition
        for direction in (Direction.REMOVE,) if composition.is_symmetric else tuple(Direction):
            run = self._runs.get(direction)
            if run is None:
                run = self._runs[direction] = self._start(direction)
            if steps := composition.steps(direction):
                future = self._future(steps)
                possible = infinite_mass(future) < self.delta
                centre = (
                    pilot_epsilon(future, self.delta, direction, self.seed, "capped")
                    if possible
                    else 1.0
                )
                run.take(online_plan("capped", future, centre), future)

    def _start(self, direction: Direction) -> RunningSamples:
        """A new run. Before the first step that tells the directions apart, one run served both,
        and its samples are the start.
        """
        run = RunningSamples.start(Stream(self.seed, "online", 1, direction.value), self.samples)
        if (served := self._runs.get(Direction.REMOVE)) is not None:
            run.losses[:], run.log_weights[:] = served.losses, served.log_weights
            run.steps, run.log_finite, run.log_apart = (
                served.steps,
                served.log_finite,
                served.log_apart,
            )
        return run

    def _future(self, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        """The steps, as if they went on to the horizon, or to where infinite losses alone exceed
        delta.
        """
        assert self.delta is not None
        scale = max(1, round(self.horizon / max(sum(step.count for step in steps), 1)))
        while True:
            future = tuple(Step(step.pair, step.count * scale) for step in steps)
            if scale == 1 or infinite_mass(future) < 0.9 * self.delta:
                return future
            scale = scale // 2

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run to a file, whole or not at all; ``load`` continues it as if it had not been
        interrupted.
        """
        sources = {
            str(d): DrawPlan(run.source).to_json()
            for d, run in self._runs.items()
            if run.source is not None
        }
        header = {
            "format": _FORMAT,
            "relation": name_of(self.neighboring_relation),
            "samples": self.samples,
            "seed": self.seed,
            "delta": self.delta,
            "horizon": self.horizon,
            "sources": sources,
        }
        arrays: dict[str, Any] = {"header": np.array(json.dumps(header))}
        for direction, run in self._runs.items():
            arrays[f"{direction}_losses"], arrays[f"{direction}_log_weights"] = (
                run.losses,
                run.log_weights,
            )
            arrays[f"{direction}_infinite"] = np.array([run.log_finite, run.log_apart])
            arrays[f"{direction}_steps"], arrays[f"{direction}_guess"] = (
                np.array(run.steps),
                np.array(run.guess or 0.0),
            )
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        write_bytes(Path(path), buffer.getvalue())

    @classmethod
    def load(cls, path: str | os.PathLike[str], event: dp_event.DpEvent) -> MonteCarloAccountant:
        """Continue a saved run, of which ``event`` is all that was composed so far (the
        accountant's ``ledger``).
        """
        with np.load(path, allow_pickle=False) as data:
            header = json.loads(str(data["header"]))
            if header.get("format") != _FORMAT:
                raise ValueError(
                    f"{path}: format {header.get('format')!r} is not {_FORMAT}: written by another "
                    "version"
                )
            accountant = cls(
                header["relation"],
                samples=header["samples"],
                seed=header["seed"],
                delta=header["delta"],
                horizon=header["horizon"],
            )
            accountant.compose(event)
            for name, source in header["sources"].items():
                steps = accountant.composition.steps(name)
                plan = DrawPlan.from_json(source).proposal
                if isinstance(plan, CappedPlan) and len(plan.kinds) != len(steps):
                    raise ValueError(
                        f"{path}: was saved with {len(plan.kinds)} kinds of steps, but event has "
                        f"{len(steps)}"
                    )
                losses, log_weights = data[f"{name}_losses"], data[f"{name}_log_weights"]
                steps_done, guess = int(data[f"{name}_steps"]), float(data[f"{name}_guess"]) or None
                run = RunningSamples(
                    Stream(accountant.seed, "online", 1, name),
                    losses,
                    log_weights,
                    steps_done,
                    guess,
                )
                run.take(plan, steps)
                run.log_finite, run.log_apart = data[f"{name}_infinite"].tolist()
                accountant._runs[Direction(name)] = run
        return accountant
