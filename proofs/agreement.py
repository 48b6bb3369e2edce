"""The 32 settings in which four programs are compared: published trainings, several kinds of steps,
outcomes, tiny deltas, one step, no loss beyond epsilon, other relations.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import make_vectors as vectors
from dp_accounting import dp_event

import evr
from evr._kernel.events import Composition
from evr._kernel.events.schemes import DiscreteGaussianDpEvent
from evr._kernel.strict import Proof, prove_within
from evr._plan.strict import StrictCurve
from evr._proof.writer import proof_file
from evr._spec import load

EXAMPLES = Path(__file__).parents[1] / "examples"
Setting = tuple[dp_event.DpEvent, float, float | None, str]
"""Event, epsilon, delta to be shown or None, relation."""


def published(path: Path) -> Setting:
    """A training of examples/published at its delta and the epsilon that evr finds."""
    spec = load(path)
    event, delta = spec.event(), spec.claim.delta
    if spec.claim.epsilon is not None:
        return event, spec.claim.epsilon, delta, "add-or-remove"
    found = evr.estimate_epsilon(event, delta=delta).value
    return event, round(found * 1.002, 4), delta, "add-or-remove"


def of(name: str) -> Callable[[], Setting]:
    """One of the vectors' settings."""
    event, epsilon, relation = vectors.GOOD[name]
    return lambda: (event, epsilon, None, relation)


def sampled(noise: float, q: float, steps: int, epsilon: float) -> Callable[[], Setting]:
    """DP-SGD, to a tolerance of 5e-4 in both directions, however small delta is."""
    event = evr.dpsgd(noise_multiplier=noise, sampling_probability=q, steps=steps)
    return lambda: (event, epsilon, None, "add-or-remove")


_TRAININGS = [path for path in sorted((EXAMPLES / "published").glob("*.toml")) if path.stem != "sources"]
SETTINGS: dict[str, Callable[[], Setting]] = {
    **{f"published/{path.stem}": (lambda path=path: published(path)) for path in _TRAININGS},
    "mixed.toml": lambda: (load(EXAMPLES / "mixed.toml").event(), 0.7, None, "add-or-remove"),
    "noise 0.6, q 1e-3, 1,000 steps, epsilon 1.5": sampled(0.6, 1e-3, 1000, 1.5),
    "noise 1, q 1e-3, 1,000 steps, epsilon 0.5": sampled(1.0, 1e-3, 1000, 0.5),
    "noise 1.1, q 0.004, 3,516 steps, delta 1e-100": lambda: (
        evr.dpsgd(noise_multiplier=1.1, sampling_probability=0.004, steps=3516),
        19.3,
        1e-100,
        "add-or-remove",
    ),
    "one step": of("poisson-one"),
    "no loss beyond epsilon": of("laplace-within"),
    "randomized response": of("response"),
    "(epsilon, delta) twenty times": of("epsilon-delta"),
    "discrete Laplace": of("discrete-laplace"),
    "discrete Gaussian, sampled": lambda: (
        vectors.times(vectors.poisson(0.1, DiscreteGaussianDpEvent(2.0, 1)), 20),
        1.0,
        None,
        "add-or-remove",
    ),
    "mixture of Gaussians": of("mixture"),
    "without replacement, replace-one": of("without-replacement"),
    "truncated batches": of("truncated"),
    "four kinds": of("four-kinds"),
}


def certified(make: Callable[[], Setting]) -> tuple[bytes, list[tuple[Proof, int]]]:
    """A proof file, evr's proof of each direction, and the bits of its section."""
    event, epsilon, delta, relation = make()
    composition, proofs = Composition.of(event, relation), {}
    enough = None if delta is None else Fraction(delta)
    for direction, steps in composition.exact_directions().items():
        plans = StrictCurve(steps).plans(epsilon, enough=enough)
        proofs[direction] = prove_within(steps, Fraction(epsilon), plans, enough)
    shown = enough or max(proof.delta for proof in proofs.values())
    plans_of = {direction: proof.plan for direction, proof in proofs.items()}
    data = proof_file(composition, Fraction(epsilon), shown, plans_of)
    bits = [48 if proof.plan is None else proof.plan.bits for proof in proofs.values()]
    return data, list(zip(proofs.values(), bits, strict=True))
