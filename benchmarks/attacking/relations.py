"""Replace-one and users: random events, and the laws of their losses, written from the definitions and from nothing in
evr.

``docs/guarantees_relations.md`` R5 to R8 says which laws dominate; here they are written down once more, in long
doubles, and composed by the machinery of all other truths.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from dp_accounting import dp_event

from attacking.composition import Composition
from attacking.events import FALSE_BY, TAU_WEIGHTS, TAUS, Case, Generator, log_uniform
from attacking.laws import HALF_LOG_TWO_PI, LONG, Law, Longs, Normals, Unreached, long, mixed
from evr import events

_NONE = np.empty(0, LONG)
_REACH, _FARTHEST = 24, 60
_MEANS = 1e-4, 20.0  # of losses of one step that are of use


# --- laws -----------------------------------------------------------------------------------------


def composition(event: Any, relation: str, direction: str) -> Composition:
    """The laws of an event with their counts."""
    square, parts = LONG(0), []
    for found, count in _leaves(event, relation, direction, 1):
        if isinstance(found, Law):
            parts.append((found, count))
        else:
            square += count * found
    if square > 0:
        parts.append((Law(_NONE, _NONE, square=square), 1))
    return Composition(tuple(parts))


def _leaves(event: Any, relation: str, direction: str, count: int) -> Iterator[tuple[Any, int]]:
    """Laws, and squares of the means of Gaussian mechanisms."""
    name, replaced = type(event).__name__, relation == "replace-one"
    if name == "SelfComposedDpEvent":
        yield from _leaves(event.event, relation, direction, count * event.count)
    elif name == "ComposedDpEvent":
        for one in event.events:
            yield from _leaves(one, relation, direction, count)
    elif name == "PoissonSampledDpEvent":
        yield _sampled(event.event, Fraction(event.sampling_probability)), count
    elif name == "GaussianDpEvent":
        yield ((2 if replaced else 1) / LONG(event.noise_multiplier)) ** 2, count
    elif name == "MixtureOfGaussiansDpEvent":
        weights = [Fraction(w) for w in event.sampling_probs]
        yield (
            _two_sided([w / sum(weights) for w in weights], list(event.sensitivities), event.standard_deviation),
            count,
        )
    elif name == "PoissonSampledUsersDpEvent":
        yield _users(event, replaced, direction), count
    elif name == "FixedBatchUsersDpEvent":
        yield _fixed_batches(event), count
    elif name == "UsersDpEvent":
        yield from _leaves(event.event, relation, direction, count * event.records_per_user**2)
    elif name == "BallsInBinsDpEvent" and event.cycle_length == 2:  # R8.4
        cycles = -(-event.iterations // 2)
        yield 2 * cycles / LONG(event.noise_multiplier) ** 2, count
    elif name == "BMinSepDpEvent" and event.iterations == 1 and not event.warm_start:
        q = Fraction(event.sampling_probability)
        yield _two_sided([1 - q, q], [0.0, 1.0], event.noise_multiplier), count
    elif name == "CyclicPoissonDpEvent":
        cycles = -(-event.iterations // event.cycle_length)
        q = Fraction(event.sampling_probability)
        yield _two_sided([1 - q, q], [0.0, 1.0], event.noise_multiplier), count * cycles
    else:
        raise Unreached(name)


def _two_sided(weights: list[Fraction], sizes: list[float], noise: float) -> Law:
    """``sum w N(m, 1)`` against ``sum w N(-m, 1)``."""
    kept = sorted((LONG(m) / LONG(noise), w) for m, w in zip(sizes, weights, strict=True) if w > 0)
    normals = Normals(tuple(w for _, w in kept), tuple(m for m, _ in kept))
    most = kept[-1][0]
    one_sided = normals.law("remove")
    assert one_sided.density is not None

    def density(x: Longs) -> tuple[Longs, Longs]:
        assert one_sided.density is not None
        log_p, _ = one_sided.density(x)
        return log_p, normals.log_ratio(x) - normals.log_ratio(-x)

    def edges(order: Any) -> Longs:
        moved = min(max(2 * order * most, LONG(-_FARTHEST)), LONG(_FARTHEST))
        low, high = -most + min(LONG(0), moved) - _REACH, most + max(LONG(0), moved) + _REACH
        return np.linspace(low, high, math.ceil((high - low) / 2) + 1, dtype=LONG)

    return Law(_NONE, _NONE, LONG(0), density, edges, LONG(np.inf))


def _sampled(noise: Any, q: Fraction) -> Law:
    """Poisson sampling of additive noise under replace-one."""
    name = type(noise).__name__
    if name == "GaussianDpEvent":
        return _two_sided([1 - q, q], [0.0, 1.0], noise.noise_multiplier)
    if name == "LaplaceDpEvent":
        return _laplace(LONG(noise.noise_multiplier), long(q), np.log(long(1 - q)))
    if name == "DiscreteLaplaceDpEvent":
        a, shift = LONG(noise.noise_parameter), noise.sensitivity
        x = np.arange(-shift, shift + 1, dtype=LONG)
        log_f, log_up = (np.log(np.tanh(a / 2)) - a * np.abs(x - by) for by in (0, shift))
        for law in (log_f, log_up):
            law[[0, -1]] += -np.log1p(np.exp(-a)) - np.log(np.tanh(a / 2))
        return _atoms(
            log_f,
            a * (np.abs(x) - np.abs(x - shift)),
            q,
            np.logaddexp(np.log(long(1 - q)) + log_f, np.log(long(q)) + log_up),
            0.0,
        )
    sigma, shift = LONG(noise.sigma), noise.sensitivity
    reach = math.ceil(32 * sigma) + 3 + shift
    x = np.arange(-reach, reach + 1, dtype=LONG)
    log_f = -((x / sigma) ** 2) / 2
    log_f -= np.logaddexp.reduce(log_f)
    base = shift * (2 * x - shift) / (2 * sigma**2)
    return _atoms(log_f, base, q, log_f + mixed(base, long(q)), math.exp(-(31**2) / 2))


def _atoms(log_f: Longs, base: Longs, q: Fraction, log_p: Longs, cut: float) -> Law:
    rising = mixed(base, long(q))
    loss = rising - rising[::-1]
    greatest = LONG(np.inf) if cut else loss[-1]
    return Law(log_p, loss, LONG(0), greatest=greatest, cut=cut)


def _laplace(scale: Any, q: Any, log_rest: Any) -> Law:
    """On ``[-1, 1]`` a density, beyond two atoms."""

    def log_p(t: Longs) -> Longs:
        return np.logaddexp(log_rest - np.abs(t) / scale, np.log(q) - np.abs(t - 1) / scale) - np.log(2 * scale)

    def loss(t: Longs) -> Longs:
        rising = mixed((np.abs(t) - np.abs(t - 1)) / scale, q)
        falling = mixed((np.abs(t) - np.abs(t + 1)) / scale, q)
        return rising - falling

    def edges(order: Any) -> Longs:
        near = np.minimum(2.0 ** np.arange(-40, 0, dtype=LONG), LONG(0.5))
        fine = near[near / scale > 0.3]
        half = np.concatenate(([LONG(0), LONG(1)], fine, 1 - fine))
        return np.unique(np.concatenate((half, -half)))

    ends = np.array([-1, 1], LONG)
    log_tails = log_p(ends) + np.log(scale)
    return Law(log_tails, loss(ends), LONG(0), lambda t: (log_p(t), loss(t)), edges, loss(ends)[1])


def _users(event: Any, replaced: bool, direction: str) -> Law:
    most, q = event.records_per_user, Fraction(event.sampling_probability)
    norm = most if event.user_norm is None else event.user_norm
    sizes: dict[float, Fraction] = {}
    for j in range(most + 1):
        size = float(min(j, norm))
        sizes[size] = sizes.get(size, Fraction(0)) + math.comb(most, j) * q**j * (1 - q) ** (most - j)
    if replaced:
        return _two_sided(list(sizes.values()), list(sizes), event.noise_multiplier)
    means = tuple(LONG(size) / LONG(event.noise_multiplier) for size in sizes)
    return Normals(tuple(sizes.values()), means).law(direction)


def _fixed_batches(event: Any) -> Law:
    """By the loss ``b`` of the labelled Gaussians, seen through sampling of a share; the rest is at 0."""
    n, batch, most = event.source_dataset_size, event.sample_size, event.records_per_user
    ways = [Fraction(math.comb(batch, j) * math.comb(n - batch, most - j), math.comb(n, most)) for j in range(most + 1)]
    share = long(1 - ways[0])
    kept = [
        (2 * LONG(j) / LONG(event.noise_multiplier), long(w / (1 - ways[0]))) for j, w in enumerate(ways) if j and w
    ]
    means, log_w = (np.array(x, LONG) for x in zip(*((m, np.log(w)) for m, w in kept), strict=True))
    log_rest, widest = np.log(long(ways[0])) if ways[0] else LONG(-np.inf), means.max()

    def log_base(b: Longs, sign: int) -> Longs:
        z = (b[..., None] - sign * (means * means / 2).astype(b.dtype)) / means.astype(b.dtype)
        terms = (log_w - np.log(means)).astype(b.dtype) - z * z / 2 - b.dtype.type(HALF_LOG_TWO_PI)
        return np.logaddexp.reduce(terms, axis=-1)

    def density(b: Longs) -> tuple[Longs, Longs]:
        up, down = log_base(b, 1), log_base(b, -1)
        above = np.logaddexp(log_rest.astype(b.dtype) + down, np.log(share).astype(b.dtype) + up)
        gain = mixed(np.abs(b), share) if ways[0] else np.abs(b)
        return np.where(b > 0, above, up), np.copysign(gain, b)

    def edges(order: Any) -> Longs:
        tilted = min(abs(order) * widest * widest, _FARTHEST * widest)
        far = widest * widest / 2 + tilted + _REACH * widest
        near = means.min() * 2.0 ** np.arange(-2, 6, dtype=LONG)
        half = np.unique(np.concatenate(([LONG(0), far], near[near < far], np.arange(1, 40, dtype=LONG) * far / 40)))
        return np.unique(np.concatenate((half, -half)))

    grid = np.concatenate([np.linspace(0, float(widest * widest / 2 + _REACH * widest), 200_001)]).astype(LONG)
    middles, width = (grid[1:] + grid[:-1]) / 2, grid[1] - grid[0]
    excess = np.sum(np.exp(log_base(middles, 1)) * -np.expm1(-middles)) * width
    log_atom = log_rest + np.log(excess)
    atom = (np.array([log_atom]), np.array([LONG(0)])) if ways[0] else (_NONE, _NONE)
    return Law(*atom, LONG(0), density, edges, LONG(np.inf))


# --- events ---------------------------------------------------------------------------------------


def make(seed: int, index: int) -> Case:
    """The case of that index."""
    rng = np.random.default_rng([seed, index, 28])
    kinds = list(_KINDS)
    for _ in range(60):
        kind = str(rng.choice(kinds))
        event, relation = _KINDS[kind](rng)
        event = dp_event.SelfComposedDpEvent(event, _count(rng)) if not _whole(event) else event
        try:
            epsilon = _epsilon(rng, composition(event, relation, "remove"))
        except (Unreached, FloatingPointError):
            continue
        if 1e-6 < epsilon < 1e3:
            break
    tau_true, tau_false = (float(rng.choice(TAUS, p=TAU_WEIGHTS)) for _ in range(2))
    return Case(
        index,
        kind,
        event,
        epsilon,
        tau_true,
        tau_false,
        float(rng.choice(FALSE_BY)),
        int(rng.integers(2**62)),
        relation,
    )


def _whole(event: Any) -> bool:
    """Schemes over a whole training run once."""
    return type(event).__name__ in ("BallsInBinsDpEvent", "UsersDpEvent", "BMinSepDpEvent", "CyclicPoissonDpEvent")


def _count(rng: Generator) -> int:
    return 1 if rng.random() < 0.3 else round(log_uniform(rng, 2, 3000))


def _epsilon(rng: Generator, laws: Composition) -> float:
    """The mean of the losses and some deviations more."""
    tilts = laws.tilted(LONG(0), None)
    mean, deviation = float(laws.excess(tilts, 0.0)), math.sqrt(laws.variance(tilts))
    if not _MEANS[0] < deviation < _MEANS[1]:
        raise Unreached("losses of no use")
    return max(mean, 0.0) + deviation * float(rng.uniform(0.0, 4.5))


def _q(rng: Generator) -> float:
    return log_uniform(rng, 1e-4, 0.9)


def _noise(rng: Generator) -> float:
    return log_uniform(rng, 0.4, 20.0)


def _sampled_noise(rng: Generator) -> tuple[Any, str]:
    noise = [
        dp_event.GaussianDpEvent(_noise(rng)),
        dp_event.LaplaceDpEvent(_noise(rng)),
        dp_event.DiscreteLaplaceDpEvent(1 / _noise(rng), int(rng.integers(1, 5))),
        events.DiscreteGaussianDpEvent(_noise(rng), int(rng.integers(1, 4))),
    ][int(rng.integers(4))]
    return dp_event.PoissonSampledDpEvent(_q(rng), noise), "replace-one"


def _mixture(rng: Generator) -> tuple[Any, str]:
    sizes = [0.0, *np.sort(rng.uniform(0.1, 3.0, 2)).tolist()]
    return dp_event.MixtureOfGaussiansDpEvent(2 * _noise(rng), sizes, rng.dirichlet(np.ones(3)).tolist()), "replace-one"


def _poisson_users(rng: Generator) -> tuple[Any, str]:
    most = int(rng.integers(1, 12))
    norm = None if rng.random() < 0.6 else log_uniform(rng, 0.3, most + 1.0)
    relation = "replace-one" if rng.random() < 0.5 else "add-or-remove"
    return events.PoissonSampledUsersDpEvent(most**0.5 * _noise(rng), _q(rng), most, norm), relation


def _fixed_users(rng: Generator) -> tuple[Any, str]:
    size = round(log_uniform(rng, 4, 1e5))
    batch, most = int(rng.integers(1, max(2, size // 2))), int(rng.integers(1, min(10, size) + 1))
    return events.FixedBatchUsersDpEvent(most**0.5 * _noise(rng), size, batch, most), "replace-one"


def _schemes(rng: Generator) -> tuple[Any, str]:
    bins = events.BallsInBinsDpEvent(2 * _noise(rng), 2 * int(rng.integers(1, 5)), 2)
    return [
        bins,
        events.UsersDpEvent(bins, int(rng.integers(1, 5))),
        events.BMinSepDpEvent(_noise(rng), 1, int(rng.integers(2, 6)), _q(rng), False),
        events.CyclicPoissonDpEvent(_noise(rng), 60, int(rng.integers(1, 9)), _q(rng), "fixed"),
    ][int(rng.integers(4))], "replace-one"


_KINDS = {
    "sampled noise": _sampled_noise,
    "mixture": _mixture,
    "users, Poisson": _poisson_users,
    "users, fixed batches": _fixed_users,
    "schemes": _schemes,
}
