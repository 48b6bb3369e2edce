"""The default accountant: a Fourier transform of the exponentially tilted law of the privacy loss.

Each step's law is tilted, ``dP' = e^{order loss} dP / M``, with the order that centres the sum at epsilon. Rounding is
then relative to the moments bound on delta, and not to 1:

    delta(epsilon) = M^k e^{-order epsilon} sum_S p'(S) (1 - e^{epsilon - S})_+ e^{-order (S - epsilon)}

Losses that decide by themselves, and atoms, have closed forms (``estimation.atoms``). One-step laws are points of a
fourth-order rule (``estimation.points``), spread on a coarse grid by weights that keep six moments
(``estimation.grid``); the Euler-Maclaurin formula mends the kink at epsilon. The error is an estimate: what a grid of
twice the width changes, the rounding of transforms and of losses, and how ragged the law is next to epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from evr._estimate.atoms import Atoms, Delta, atoms_of, jumps_beyond
from evr._estimate.closed_forms import delta_error, pair_delta
from evr._estimate.grid import law_on_grid, table_error
from evr._estimate.inversion import solve_epsilon
from evr._estimate.refining import IN_DOUBT, RELATIVE, ROUNDED, SIZES, UNSETTLED, Laws, compare, refine
from evr._estimate.schedules import condensed
from evr._estimate.tilting import excess, is_certain, likely_epsilon, limits, plan_tilt
from evr._kernel.pairs import DominatingPair, Step, greatest_loss, infinite_loss_mass, infinite_mass, loss_range
from evr._kernel.pairs.law import UNIT
from evr._kernel.strict.alone import infinite_delta
from evr.errors import AccuracyError

_MOST_CONDITIONS = 400  # atoms of some steps, to sum over what the others add
_REUSE = 1e-7  # what is good enough to use a law again at another epsilon
_ROUGH, _SMALL_SIZES = 1e-6, (2**10, 2**11)  # wanted of a rough delta, and the sizes that may do
_ROUGHLY_SETTLED = 1e-4  # an error, relative to delta, that a rough estimate may have
_GROUPS = 24  # of nearly equal steps, where there are very many kinds: a few kinds each
_NEGLIGIBLE = math.exp(-45.0)  # relative to what large losses add by themselves
BEYOND_FLOATS = (
    "Double precision cannot hold this sum (too many steps, or losses of very different size): account for the large "
    "losses apart, or ask for a proved bound (method='strict')"
)
SAYS_LITTLE = 0.3  # an error, relative to delta, above which an estimate is refused
FLOOR = 1e-13  # of one direction's delta: what is below it in the other need not be known
_LIKELY, _GUESSED = 2e-3, 1e-4  # relative: how far the root may be from what is likely, and from a guess


def _constant(value: float, moved: float = 0.0) -> Delta:
    """A delta that no longer falls with epsilon."""
    numerical = ROUNDED * value
    return Delta(value, numerical + min(1.0, moved), numerical, 0.0, moved)


class FftCurve:
    """The privacy curve of one direction's steps.

    A law made for one epsilon serves others, so that the last digits depend on what a curve was asked before. ``asked``
    are epsilons that it will be asked for: laws are made to serve them.

    Examples
    --------
    >>> from evr._kernel.events import Composition
    >>> from evr._dpsgd import dpsgd
    >>> event = dpsgd(noise_multiplier=1.0, sampling_probability=1e-3, steps=1000)
    >>> curve = FftCurve(Composition.of(event).simplified("remove"))
    >>> f"{curve.delta(0.5).value:.4e}"
    '2.0582e-10'
    """

    def __init__(self, steps: tuple[Step, ...], asked: Iterable[float] = (), *, rough: bool = False) -> None:
        self._planned, _ = condensed(steps, _GROUPS // 2)  # is enough to tell where to tilt
        steps, self._added = condensed(steps, _GROUPS)
        self.steps = steps
        self._rough = rough
        self._wanted, self._sizes = (_ROUGH, _SMALL_SIZES + SIZES) if rough else (RELATIVE, SIZES)
        self.infinite_mass = infinite_mass(steps)
        self._greatest = [(step.count, _greatest_finite(step.pair)) for step in steps]
        self.greatest = math.fsum(count * loss for count, loss in self._greatest)
        self._laws: list[Laws] = []
        self._asked = tuple(asked)
        self._single = len(steps) == 1 and steps[0].count == 1
        has_atoms = bool(steps) and not self._single and all(len(step.pair.flats) for step in steps)
        self._atoms = atoms_of(steps) if has_atoms else None
        self._purely_atomic = all(_is_atomic(step.pair) for step in steps)

    def value(self, epsilon: float) -> float:
        """Delta at one epsilon, the error left out where it costs extra."""
        if self._single and math.isfinite(epsilon):
            return pair_delta(self.steps[0].pair, epsilon)
        return self.delta(epsilon).value

    def delta(self, epsilon: float, floor: float = 0.0) -> Delta:
        """Delta at one epsilon, with an estimate of the error. A part below ``floor`` is left to the error."""
        if not self.steps:
            return _constant(0.0)
        if math.isinf(epsilon) or self.infinite_mass >= 1.0:
            return _constant(self.infinite_mass).worse(table_error(self.steps).beyond)
        if self._single:
            return single_delta(self.steps[0].pair, epsilon)
        if self._purely_atomic and self._atoms is not None:
            tail = self._atoms.tail(epsilon)
            tail = tail._replace(value=min(1.0, tail.value + self.infinite_mass))
            return tail.worse(ROUNDED * self.infinite_mass + table_error(self.steps).of(tail.value))
        if math.isfinite(self.greatest):
            beyond = -excess(self._greatest, epsilon)
            moved = math.fsum(2.0 * UNIT * count * abs(loss) for count, loss in self._greatest)
            if beyond >= -moved:  # rounded losses may hide that some exceed epsilon, or show some that do not
                found = _constant(self.infinite_mass, moved if beyond < moved else 0.0)
                return found.worse(table_error(self.steps).beyond)  # a cut law's greatest losses may be among these
        if is_certain(self._planned, epsilon):
            return _constant(1.0)
        try:
            found = self._composed(epsilon, floor)
        except ArithmeticError:
            raise AccuracyError(
                f"epsilon={epsilon!r}: the losses of these steps are so small that floats do not "
                "hold their density: ask for a proved bound (method='strict')"
            ) from None
        unsettled = _ROUGHLY_SETTLED if self._rough else UNSETTLED
        if found.error > unsettled * found.value and self._apart is not None:
            found = min(found, self._by_atoms(epsilon, *self._apart), key=lambda delta: delta.error)
        if self._added:  # what a proof of groups adds, so far as an estimate can say it
            shift = self._added * epsilon
            room = max(0.0, 0.9 * SAYS_LITTLE * found.value - found.error)  # no estimate is refused for its proof
            more = min(self._added * found.value + shift * found.slope, room)
            found = found._replace(error=found.error + more, moved=found.moved + shift)
        return found

    @cached_property
    def _apart(self) -> tuple[Atoms, float, FftCurve] | None:
        """The atoms of steps that have few, the chance of an infinite loss among these, and the curve of the others."""
        few: tuple[Step, ...] = ()
        listed = None
        for step in sorted(self.steps, key=lambda step: step.count * len(step.pair.flats)):
            atoms = atoms_of((*few, step), _MOST_CONDITIONS) if _is_atomic(step.pair) else None
            if atoms is not None:
                few, listed = (*few, step), atoms
        rest = tuple(step for step in self.steps if step not in few)
        return (listed, infinite_mass(few), FftCurve(rest, rough=self._rough)) if listed is not None and rest else None

    @staticmethod
    def _by_atoms(epsilon: float, atoms: Atoms, infinite: float, others: FftCurve) -> Delta:
        """The sum over the atoms of what the other steps add: right whatever the scales of both are."""
        weights = np.exp(atoms.log_weights)
        value, error, numerical, slope, moved = infinite, 0.0, 0.0, 0.0, 0.0
        for place in range(weights.size - 1, -1, -1):  # delta of the others falls on the way
            part, weight = others.delta(atoms.below(epsilon, place)), float(weights[place])
            value, slope, moved = value + weight * part.value, slope + weight * part.slope, max(moved, part.moved)
            error, numerical = error + weight * part.error, numerical + weight * part.numerical
            left = part.value * float(weights[:place].sum())
            if left <= 1e-13 * value:
                break
        rounded, shift = ROUNDED * value + left, atoms.loss_error
        error += rounded + min(1.0, slope * shift)
        return Delta(min(1.0, value), error, numerical + rounded, slope, moved + shift)

    def _composed(self, epsilon: float, floor: float) -> Delta:
        for laws in reversed(self._laws):
            if laws.fine.covers(epsilon):
                result, _ = compare(laws.fine, laws.coarse, laws.atoms, epsilon)
                # another law would do no better
                if result.error <= max(_REUSE, 2.0 * laws.reached) * result.value:
                    return laws.in_doubt(result, epsilon)
        _, cap = limits(self._planned, epsilon)
        jumps = jumps_beyond(self.steps, cap)
        apart = max(0.0, jumps.delta(epsilon))
        small = max(apart * _NEGLIGIBLE, floor)
        negligible = math.log(small) if small > 0.0 else -math.inf
        plan = plan_tilt(self._planned, epsilon, negligible=max(negligible, -760.0), asked=self._asked)
        if plan is None:
            grouped = IN_DOUBT * abs(apart - max(0.0, jumps_beyond(self._planned, cap).delta(epsilon)))
            numerical = ROUNDED * apart + jumps.error + floor + table_error(self.steps).of(apart) + grouped
            return Delta(apart, numerical, numerical, jumps.slope(epsilon), 0.0)
        most = SIZES[-1] if self._apart is None else SIZES[5]  # there is another way
        sizes = tuple(size for size in self._sizes if size <= most)
        # what is beyond the cap is counted with the jumps
        atoms = atoms_of(self.steps, cap=plan.cap) if self._atoms is not None else None
        fine, coarse, result = refine(plan, self.steps, atoms, epsilon, sizes, self._wanted)
        fewer = law_on_grid(plan, self._planned, SIZES[0], with_atoms=False) if self._planned != self.steps else None
        self._laws.append(Laws(fine, coarse, fewer, atoms, result.error / result.value if result.value > 0 else 0.0))
        return self._laws[-1].in_doubt(result, epsilon)


@lru_cache(maxsize=64)
def rough_delta_of(steps: tuple[Step, ...], epsilon: float) -> Delta:
    """Delta to about a millionth of it, by a curve that was asked for nothing else."""
    return FftCurve(steps, rough=True).delta(epsilon)


def single_delta(pair: DominatingPair, epsilon: float) -> Delta:
    """Delta of one step by its closed form; the error from what rounding moves the loss at epsilon by."""
    value = pair_delta(pair, epsilon)
    moved = 2.0 * UNIT * abs(epsilon)
    if _is_atomic(pair):  # a sampled loss comes from one that may be larger
        moved = max(moved, 2.0 * UNIT * pair.loss_magnitude)
    elif math.isfinite(place := float(pair.point(epsilon))):
        nudge = 4.0 * UNIT * (1.0 + abs(place))
        losses = pair.privacy_loss(np.array([place - nudge, place, place + nudge]))
        moved += float(np.max(np.abs(np.diff(losses)), where=np.isfinite(np.diff(losses)), initial=0.0))
    low, high = pair_delta(pair, epsilon - moved), pair_delta(pair, epsilon + moved)
    numerical = ROUNDED * value + delta_error(pair, epsilon)
    error = numerical + max(low - value, value - high, 0.0)
    apart = max(1e-6 * abs(epsilon), moved)
    fall = pair_delta(pair, epsilon - apart) - pair_delta(pair, epsilon + apart)
    return Delta(value, error, numerical, fall / (2.0 * apart) if apart > 0.0 else 0.0, moved)


def _greatest_finite(pair: DominatingPair) -> float:
    """The greatest finite loss, or 0. An infinite one is the last flat; the loss where that starts is the next."""
    infinite = infinite_loss_mass(pair) > 0
    greatest = float(pair.privacy_loss(pair.flats[-1, 0])) if infinite else loss_range(pair)[1]
    return greatest if greatest > -math.inf else 0.0


def _is_atomic(pair: DominatingPair) -> bool:
    """Whether flats hold all of the line."""
    flats = pair.flats
    if not flats.shape[0] or np.any(flats[1:, 0] != flats[:-1, 1]):
        return False
    low, high = pair.span()
    return bool(flats[0, 0] <= low and flats[-1, 1] >= high)


def by_failures(steps: tuple[Step, ...], delta: float) -> float | None:
    """Epsilon where infinite losses alone are as likely as delta, to within rounding, or likelier; None elsewhere.
    Exact laws decide which, where they are known; else what is within rounding is taken to be equal.
    """
    infinite, slack = infinite_mass(steps), 16.0 * UNIT * (1.0 - math.log(delta)) if delta > 0 else 0.0
    if infinite < delta * (1.0 - slack):
        return None
    more = infinite > delta * (1.0 + slack)
    if infinite > 0 and all(step.is_exact for step in steps):
        more = infinite_delta(steps) > Fraction(delta)
    return math.inf if more else max(0.0, greatest_loss(steps))


class Epsilon(NamedTuple):
    """An epsilon and an estimate of its absolute error."""

    value: float
    error: float


def epsilon_of(curve: FftCurve, delta: float, guess: float | None = None) -> Epsilon:
    """Epsilon of one direction at a delta in [0, 1] by the default method; ``guess`` is where to look first."""
    if delta == 1 or not curve.steps:
        return Epsilon(0.0, 0.0)
    if (known := by_failures(curve.steps, delta)) is not None:
        return Epsilon(known, 4.0 * UNIT * known if known < math.inf else 0.0)
    greatest = max(0.0, curve.greatest)
    at_zero = math.fsum(step.count * pair_delta(step.pair, 0.0) for step in curve.steps)  # deltas add up at 0
    value = 0.0
    if at_zero > delta:
        spread = _LIKELY if guess is None else _GUESSED
        if guess is None:
            guess = likely_epsilon(curve.steps, delta) if curve.infinite_mass < 1.0 else 1.0
        value = solve_epsilon(curve.value, delta, guess=guess, greatest=greatest, spread=spread)
    if math.isinf(value) or at_zero <= 0.5 * delta:
        return Epsilon(value, 0.0)
    found = curve.delta(value)
    off = max(0.0, found.value + found.error - delta) if value == 0.0 else abs(found.value - delta) + found.numerical
    if off == 0.0:
        return Epsilon(value, found.moved if value > 0.0 else 0.0)
    rounded = 8.0 * UNIT * value
    if abs(found.value - delta) > 1e-6 * delta and curve.delta(max(0.0, value - rounded)).value > delta:
        off, found = (found.numerical, found._replace(moved=found.moved + 2.0 * rounded))  # no float is nearer
    if (value > 0.0 and off > SAYS_LITTLE * delta) or (found.slope == 0.0 and off > 0.0):
        found_there = f"at epsilon={value:.6g} delta has an error of {off:.1g}: epsilon is unknown"
        raise AccuracyError(f"delta={delta!r}: {found_there}. {BEYOND_FLOATS}")
    slack = off / (found.slope * (1.0 - min(off / delta, 0.5))) if off > 0.0 else 0.0
    return Epsilon(value, slack + found.moved + 1e-11 * value)
