"""``verify``: one attempt to prove a claim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Unpack

from dp_accounting import dp_event

from evr._kernel.events import Composition
from evr._kernel.events.relations import Relation
from evr._kernel.sampled.plan import DrawPlan
from evr._kernel.verdict.attempts import Attempt, Trial
from evr._kernel.verdict.results import Verification
from evr._kernel.verdict.settings import Claim, Settings, threshold_of
from evr._plan.sampled import Planning
from evr._proving.choosing import DEFAULT, Forecast, StrictProving, affordable, likely_tau
from evr._proving.planning import planning_told
from evr._proving.progress import ProgressHook, check_progress, reporter, watching
from evr._proving.sampling import Sampling, SamplingOptions, working


def verify(
    event: dp_event.DpEvent | Composition,
    *,
    epsilon: float,
    delta: float,
    tau: float | None = None,
    method: str = "auto",
    attempt: int | None = None,
    direction: str | None = None,
    neighboring_relation: Relation | None = None,
    unit: str | None = None,
    progress: ProgressHook | None = None,
    **sampling: Unpack[SamplingOptions],
) -> Verification:
    """Try to prove, in exact arithmetic or by Monte Carlo, that everything that ran is ``(epsilon, delta)``-DP.

    Sampled methods rest on: fresh samples in each attempt; a claim that does not depend on them; trials and stopping
    that do not depend on the data; one output for each release, attempts counted before they run (``evr.release`` and
    the ledger do that). docs/guarantees.md, Section 5.

    Parameters
    ----------
    event
        A ``DpEvent`` tree, or a ``Composition``.
    epsilon, delta
        What is promised.
    tau
        For sampled methods, in (0, 1): the truth is taken to be about ``tau delta``. The closer to 1, the more samples.
        By default it is chosen from an estimate. For the paper's estimate ``d`` and slack ``tau``, give ``delta=d /
        tau`` and ``tau``.
    method
        ``"strict"``: no sample, a bound in exact arithmetic that is never wrong (compositions of one-dimensional
        mechanisms; docs/guarantees_strict.md); ``"sequential"`` (testing by betting); ``"fixed"`` (Algorithm 2 of the
        paper); ``"both"``: the strict and the sequential one, and an error if they do not agree; or ``"auto"``:
        ``"strict"`` where every law has an exact form and the proof takes seconds and succeeds, else ``"sequential"``.
        A seed, ``proposal``, ``max_samples`` or ``device`` belong to samples and choose them.
    attempt
        The number of this attempt at the release, from 1: it sets the false-positive rate ``kappa delta 2^-attempt``.
        The fixed verifier without one spends the paper's budget, ``delta``, which is good for a single attempt.
    direction
        Test only ``"remove"`` or ``"add"``: then there is no guarantee, for it needs both.
    neighboring_relation, unit
        Which data sets are neighbours, and whose data is protected: as of ``evr.estimate_delta``.
    progress
        Called with a ``Progress`` now and then. By default a line is shown on a terminal and in a notebook; True shows
        lines elsewhere too, and False nothing.
    sampling
        ``seed``, for results that can be repeated (a guarantee wants fresh entropy: leave it out); ``max_samples`` in
        each direction, beyond which the sequential verifier rejects and the fixed one refuses; ``workers``, threads, or
        ``executor``, any ``concurrent.futures.Executor``, on which the answer does not depend; ``device``, ``"cpu"``,
        ``"cuda"`` (docs/guide/gpu.md) or ``"auto"``, a GPU if one can be used, which ``notes`` say; ``proposal``,
        ``"capped"``, which is tilted, or ``"simple"``, the paper's simple Monte Carlo.

    Returns
    -------
    Verification
        The verdict, the guarantee if it is ``ACCEPTED``, and what happened in each direction.

    Raises
    ------
    UnsupportedEventError
        If some mechanism has no law here, or none under the relation.
    ValueError, TypeError, DeviceError
        If a value is out of its range, no GPU can be used, or the claim cannot be tested: the error says what can.

    Examples
    --------
    >>> import evr
    >>> event = evr.dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=100)
    >>> evr.estimate_delta(event, epsilon=0.5).value
    1.609...e-11
    >>> verification = evr.verify(event, epsilon=0.5, delta=1.7e-11)
    >>> verification.guarantee
    Guarantee(epsilon=0.5, delta=1.7e-11)

    The paper's verifier, for an estimate of 1.62e-11 and its slack 0.8:

    >>> evr.verify(event, epsilon=0.5, delta=1.62e-11 / 0.8, tau=0.8, method="sequential").verdict
    <Verdict.ACCEPTED: 'accepted'>
    """
    drawn = Sampling.of(sampling)
    claim = Claim(epsilon, delta, DEFAULT if tau is None else tau)
    how = Attempt(attempt, drawn.seed, direction, drawn.executor)
    check_progress(progress)
    composition = Composition.of(event, neighboring_relation, unit)
    strict = StrictProving(composition, planning_told(composition, progress, method))
    settings = strict.settings(method, drawn, claim, threshold_of(claim))
    if tau is None and settings.method != "strict":
        claim = replace(claim, tau=likely_tau(composition, claim))
    ahead = Forecast(claim, settings, strict)
    return prove(composition, claim, settings, how, ahead, workers=drawn.workers, progress=progress)


def prove(
    composition: Composition,
    claim: Claim,
    settings: Settings,
    how: Attempt,
    ahead: Forecast | None = None,
    *,
    workers: int | None = None,
    progress: ProgressHook | None = None,
    alive: Callable[[], None] | None = None,
) -> Verification:
    """``verify`` with value objects, for the ledger. ``ahead`` has the proofs and plans in hand; ``alive`` is called
    every few seconds while samples are drawn.
    """
    ahead = ahead or Forecast(claim, settings, StrictProving(composition))
    grids, proofs = ahead.strict.planner(claim), ahead.strict.proofs
    if settings.method == "strict":
        return how.run(composition, claim, settings, strictly=grids, proofs=proofs)
    planning = ahead.planning or Planning(settings)

    def planned(trial: Trial) -> DrawPlan | None:
        plan = planning(trial)
        affordable(trial, plan)
        return plan

    with watching(progress) as hook, working(how.executor, workers) as pool:
        drawing = replace(how, executor=pool, on_block=reporter(hook, alive))
        found = drawing.run(composition, claim, settings, planned, grids, proofs)
    return found.noted(*planning.notes)
