"""The default accountant: a Fourier transform of the exponentially tilted law of the privacy loss.

Peers convolve the law of the loss itself, where rounding is relative to 1 and everything below 1e-10 or so is lost. Here
each step's law is tilted, ``dP' = e^{order loss} dP / M``, with the order that centres the sum at epsilon; rounding is then
relative to the moments bound on delta, and a small delta costs nothing:

    delta(epsilon) = M^k e^{-order epsilon} sum_S p'(S) (1 - e^{epsilon - S})_+ e^{-order (S - epsilon)}

Four things make it near-exact. A single loss beyond epsilon and all that the other steps could take off again decides by
itself, and its contribution is linear in ``e^{-loss}``; such losses are joined into one point that keeps their mass under
both laws, so that rare huge losses do not spoil the tilt. The one-step law comes from interval probabilities by a fourth-order rule
(``mechanisms.discretise``). Its points are spread on the grid by six-point Lagrange weights, which keep five moments of the
tilted law, so the grid may be coarse. The kink at epsilon, which no grid point hits, is mended by the Euler-Maclaurin
formula, and the atoms of the composition, which no smooth rule can mend, are enumerated (``estimate.atoms``).
Infinite losses are apart: they contribute ``1 - prod (1 - p_inf)``.

The result is an estimate with an estimate of its error (the change from a grid of twice the width), not a bound.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from evr.estimation.atoms import Atoms, atoms_of
from evr.estimation.grid import Frame, TiltedLaw
from evr.estimation.tilting import Plan, plan_tilt
from evr.laws import DominatingPair, Step, infinite_mass

_RELATIVE = 1e-8  # wanted of the change from a grid of twice the width, relative to delta
_IRREGULAR = (
    5e-9  # what that change may miss, relative to delta: the cells' edges move with the grid, errors do not fall evenly
)
_REUSE = 1e-7  # what is good enough to use a law again at another epsilon
_SIZES = tuple(2**n for n in range(13, 22))


class Delta(NamedTuple):
    """A value of delta and an estimate of its absolute error."""

    value: float
    error: float


class FftCurve:
    """The privacy curve of one direction's steps.

    Examples
    --------
    >>> from evr.mechanisms import Composition
    >>> from evr.mechanisms.events import dpsgd
    >>> event = dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=1000)
    >>> curve = FftCurve(Composition.of(event).simplified("remove"))
    >>> f"{curve.delta(0.5).value:.4e}"
    '2.0582e-10'
    """

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self.steps = steps
        self.infinite_mass = infinite_mass(steps)
        self.greatest = math.fsum(step.count * _finite_range(step.pair)[1] for step in steps) if steps else 0.0
        self._atoms: Atoms | None = None
        self._laws: list[tuple[TiltedLaw, TiltedLaw, float]] = []
        self._single = len(steps) == 1 and steps[0].count == 1
        self._purely_atomic = False
        if steps and not self._single and all(len(step.pair.flats) for step in steps):
            self._atoms = atoms_of(steps)
            self._purely_atomic = self._atoms is not None and all(_is_atomic(step.pair) for step in steps)

    def delta(self, epsilon: float) -> Delta:
        """Delta at one epsilon >= 0, with an estimate of the error."""
        if not self.steps:
            return Delta(0.0, 0.0)
        if math.isinf(epsilon) or epsilon >= self.greatest or self.infinite_mass >= 1.0:
            return Delta(self.infinite_mass, 0.0)
        if self._single:
            value = self.steps[0].pair.delta(epsilon)
            return Delta(value, 1e-12 * value)
        if self._purely_atomic and self._atoms is not None:
            value = self._atoms.delta(epsilon)
            return Delta(min(1.0, value + self.infinite_mass), 1e-11 * value)
        finite = self._finite_delta(epsilon)
        return Delta(min(1.0, max(0.0, finite.value) + self.infinite_mass), finite.error)

    def _finite_delta(self, epsilon: float) -> Delta:
        for fine, coarse, reached in self._laws:
            if fine.covers(epsilon):
                result = compare(fine, coarse, self._atoms, epsilon)
                if result.error <= max(_REUSE, 2.0 * reached) * result.value:  # another law would do no better
                    return result
        plan = plan_tilt(self.steps, epsilon)
        if plan is None:
            return Delta(0.0, 0.0)
        _, fine, coarse, result = refine(plan, self.steps, self._atoms, epsilon)
        self._laws.append((fine, coarse, result.error / result.value if result.value > 0 else 0.0))
        return result


def compare(fine: TiltedLaw, coarse: TiltedLaw, atoms: Atoms | None, epsilon: float) -> Delta:
    """Delta of the finite losses on the finer grid; its error from the coarser one and from rounding."""
    exact = atoms.delta(epsilon) if atoms is not None else 0.0
    scale, share, rough = fine.scale(epsilon), fine.tail_sum(epsilon), coarse.delta(epsilon)
    value = scale * share
    return Delta(value + exact, abs(value - rough) + 1e-15 * scale + _IRREGULAR * abs(value) + 1e-11 * exact)


def refine(
    plan: Plan, steps: tuple[Step, ...], atoms: Atoms | None, epsilon: float
) -> tuple[Frame, TiltedLaw, TiltedLaw, Delta]:
    """Grids of twice the size until the error estimate is small enough, or rounding rules."""
    pairs = [step.pair for step in steps]
    coarse = Frame(plan, pairs, _SIZES[0], with_atoms=atoms is not None).law(steps)
    best: tuple[Frame, TiltedLaw, TiltedLaw, Delta] | None = None
    for size in _SIZES[1:]:
        frame = Frame(plan, pairs, size, with_atoms=atoms is not None)
        fine = frame.law(steps)
        result = compare(fine, coarse, atoms, epsilon)
        if best is not None and result.error > best[3].error and size > 8 * _SIZES[0]:
            break
        best = (frame, fine, coarse, result) if best is None or result.error < best[3].error else best
        if result.error <= (_RELATIVE + _IRREGULAR) * result.value:
            break
        coarse = fine
    assert best is not None
    return best


def _finite_range(pair: DominatingPair) -> tuple[float, float]:
    least, greatest = pair.loss_range
    if pair.infinite_loss_mass > 0:  # the last flat; the loss where it starts is the greatest below it
        greatest = float(pair.privacy_loss(pair.flats[-1, 0]))
    return least, greatest if greatest > -math.inf else 0.0


def _is_atomic(pair: DominatingPair) -> bool:
    """Whether flats hold all of the line."""
    flats = pair.flats
    return bool(np.all(flats[1:, 0] == flats[:-1, 1])) and flats.shape[0] > 0 and flats[0, 0] <= pair.span()[0]
