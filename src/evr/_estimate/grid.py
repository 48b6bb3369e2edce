"""The law of a tilted sum of losses on a grid, a ring: each step's points are spread on it and transformed."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from evr._estimate.atoms import Jumps, jump_of
from evr._estimate.closed_forms import TableError, table_error_of
from evr._estimate.points import LossPoints, Tilted, dot, points_of
from evr._estimate.spectrum import Complexes, Spectrum, spectrum
from evr._estimate.tilting import GridPlan
from evr._kernel.pairs import Floats, Step
from evr._kernel.pairs.law import UNIT

_PLACES = np.arange(6.0)
# values at eight places to the coefficients of a polynomial of degree 5, by least squares
_POWERS = np.vander(np.arange(-4.0, 4.0), 6, increasing=True)
_FIT = np.linalg.pinv(_POWERS)
_MISFIT = np.eye(8) - _POWERS @ _FIT
_EDGE = 16  # places at an end of the grid that must be empty
_MARGIN = 64  # places at each end of the grid, for what is spread beyond the range of the sum


@dataclass(frozen=True)
class TiltedLaw:
    """Probabilities of the tilted sum of losses up to a cap on ``origin + width * (first, first + 1, ...)``; the origin
    is held as two floats.

    ``atoms`` is the atomic part, accounted for elsewhere; on a ``lattice`` all is atomic and lies on the grid.
    ``noise`` is about the transform's relative rounding error, ``loss_error`` the error that rounded losses make in
    their sum. The law is ``narrow`` if the sum of usual losses is, so that the law of one step shows in that of all, by
    ``shows`` from 0 to 1; cells are finest at ``kinks``. It is ``spiky`` if it has atoms that are not accounted for
    elsewhere. ``comb`` is how far apart sums are where many losses are atoms and nothing fills the gaps between them.
    """

    order: float
    log_moment: float
    origin: tuple[float, float]
    first: int
    width: float
    probabilities: Floats
    atoms: Floats | None
    lattice: bool
    greatest_epsilon: float
    jumps: Jumps
    noise: float
    loss_error: float
    narrow: bool
    shows: float
    spiky: bool
    kinks: tuple[float, ...]
    table_error: TableError
    comb: float = 0.0

    @property
    def smooth(self) -> Floats:
        """All but the atoms."""
        return self.probabilities if self.atoms is None else self.probabilities - self.atoms

    def _above(self, epsilon: float) -> float:
        """The origin less epsilon."""
        return (self.origin[0] - epsilon) + self.origin[1]

    def _position(self, epsilon: float) -> float:
        """Where epsilon is on the grid."""
        return -self._above(epsilon) / self.width - self.first

    def covers(self, epsilon: float) -> bool:
        return epsilon <= self.greatest_epsilon and self._position(epsilon) > 0.0

    def above(self, epsilon: float) -> tuple[float, float]:
        """``E'[(1 - e^{-x})_+ e^{-order x}]`` of ``x = sum - epsilon``, and the part of ``e^{-x}`` in it, ``E'[e^{-x}
        e^{-order x}; x > 0]``: of the smooth part, the kink mended.
        """
        smooth, position = self.smooth, self._position(epsilon)
        first = max(0, math.floor(position) + 1)
        last = smooth.size
        if self.order > 0:
            last = min(last, first + 1 + math.ceil(50.0 / (self.order * self.width)))
        distance = self.width * (np.arange(first, last) - position)
        damped = np.exp(-self.order * distance)
        share = dot(smooth[first:last], -np.expm1(-distance) * damped)
        slope = dot(smooth[first:last], damped) - share
        if self.lattice:
            return share, slope
        with np.errstate(over="raise"):
            return share + self._kink(smooth, position, first), slope

    def _kink(self, smooth: Floats, position: float, first: int) -> float:
        """Euler-Maclaurin terms at epsilon, from the density's value and two derivatives there."""
        if not 4 <= first < smooth.size - 4:
            return 0.0
        theta = first - position  # in (0, 1]
        w, order = self.width, self.order
        fitted = _FIT @ (smooth[first - 4 : first + 4] / w)  # a polynomial in places after `first`
        powers = (-theta) ** np.arange(6)
        density = fitted @ powers
        slope = fitted[1:] @ (_PLACES[1:] * powers[:-1]) / w
        bend = fitted[2:] @ (_PLACES[2:] * _PLACES[1:-1] * powers[:-2]) / w**2
        second = 2 * (slope - order * density - density / 2)
        third = 6 * (bend / 2 + order**2 * density / 2 - order * slope - (slope - order * density) / 2 + density / 6)
        b2 = theta**2 - theta + 1 / 6
        b3 = theta**3 - 1.5 * theta**2 + 0.5 * theta
        b4 = theta**4 - 2 * theta**3 + theta**2 - 1 / 30
        return float(w**2 / 2 * b2 * density + w**3 / 6 * b3 * second + w**4 / 24 * b4 * third)

    def scale(self, epsilon: float) -> float:
        """The moments bound on delta, but for a factor below 1."""
        exponent = self.log_moment + self.order * self._above(epsilon)
        return math.exp(exponent) if exponent < 700 else math.inf

    def rounding(self, epsilon: float) -> float:
        """About the error that rounding makes in ``delta``."""
        return self._peak(epsilon) * (4.0 * UNIT * math.log2(self.probabilities.size) + self.noise)

    def wrapped(self, epsilon: float) -> float:
        """About the error of what is spread beyond the ends of the grid, where there should be nothing."""
        ends = np.concatenate((self.probabilities[:_EDGE], self.probabilities[-_EDGE:]))
        return self._peak(epsilon) * float(np.abs(ends).sum())

    def _peak(self, epsilon: float) -> float:
        """What a unit of the tilted mass may add to delta at most."""
        farthest = (self.probabilities.size - self._position(epsilon)) * self.width
        highest = -self.order * math.log1p(1.0 / self.order) - math.log1p(self.order) if self.order > 0 else 0.0
        peak = min(-math.expm1(-max(farthest, 0.0)), math.exp(highest))  # of (1 - e^{-x}) e^{-order x}
        return self.scale(epsilon) * peak

    def blur(self, epsilon: float) -> float:
        """Error of a coarse one-step law near epsilon, where the other steps do not smooth it: spikes are spread over
        some places, where the kink is not mended, and cells are as wide as these.
        """
        if not (self.narrow or self.comb):
            return 0.0
        position = math.floor(self._position(epsilon))
        near = np.abs(self.probabilities[max(0, position - 4) : position + 6])
        most = float(np.max(near, initial=0.0))
        # a sum over a comb, taken for an integral; finer grids tell its teeth apart
        found = min(self.comb, 8.0 * self.width) ** 2 / 4.0 * most / self.width
        if self.narrow and self.spiky:
            found += 0.3 * self.width * float(np.sum(near))
        elif self.narrow:
            nearest = min(abs(epsilon - kink) for kink in self.kinks)
            share = 0.0005 if nearest <= 4.0 * self.width else 0.005
            found += self.shows * share * self.width * most
        return self.scale(epsilon) * found

    def ragged(self, epsilon: float) -> float:
        """About the error of the mended kink where points of cells leave ripples that no polynomial fits."""
        smooth, first = self.smooth, max(0, math.floor(self._position(epsilon)) + 1)
        if self.lattice or not 4 <= first < smooth.size - 4:
            return 0.0
        misfit = float(np.max(np.abs(_MISFIT @ smooth[first - 4 : first + 4])))
        return 0.5 * self.scale(epsilon) * self.width * misfit

    def delta(self, epsilon: float) -> float:
        """Delta of losses up to the cap, without what the atoms add."""
        return self.scale(epsilon) * self.above(epsilon)[0]


def _lattice(points: list[LossPoints], width: float) -> float | None:
    """A width above the wanted one on which all atoms lie, if the composition is made of atoms alone."""
    if not all(bool(p.is_atom.all()) for p in points):
        return None
    gaps = np.concatenate([np.diff(np.sort(p.losses)) for p in points])
    gaps = gaps[gaps > 1e-12 * max(float(np.max(np.abs(p.losses))) for p in points)]
    if not gaps.size or (gap := float(gaps.min())) < width:
        return None
    gap = float(np.median(gaps[gaps < 1.5 * gap]))
    for p in points:
        multiples = (p.losses - p.losses[0]) / gap
        if np.any(np.abs(multiples - np.round(multiples)) > 1e-10):
            return None
    return gap / math.floor(gap / width)  # no narrower: the grid has to hold the whole range


def table_error(steps: Iterable[Step]) -> TableError:
    """The error of all tables: relative errors of probabilities that are multiplied add up."""
    found = [(step.count, table_error_of(step.pair)) for step in steps]
    return TableError(
        math.expm1(math.fsum(count * one.relative for count, one in found)),
        math.fsum(count * one.beyond for count, one in found),
    )


def _shows(parts: Sequence[tuple[int, Spectrum]]) -> float:
    """How much of the ripples of one step's cells is left in the law of all: as the others' transforms are damped at
    the highest frequencies. In 18 settings a fifth of that was left at most; a thousandfold is taken. No theorem.
    """
    highest = parts[0][1].log_transform.size // 8
    ends = [one.log_transform[-highest:].real for _, one in parts]
    total = sum(count * end for (count, _), end in zip(parts, ends, strict=True))
    return min(1.0, 1000.0 * math.exp(max(float(np.max(total - end)) for end in ends)))


def _points(plan: GridPlan, steps: tuple[Step, ...], cells: int, width: float) -> list[LossPoints]:
    """Those of each step, finest where the sum is epsilon: of a narrow law, each epsilon that is asked for."""
    asked = None if plan.bulk <= 3.0 * width else 1
    make = partial(points_of, order=plan.order, cap=plan.cap, cells=cells, width=width, bottom=plan.bottom)
    return [make(step.pair, kinks=plan.kinks.get(step.pair, ())[:asked]) for step in steps]


def law_on_grid(plan: GridPlan, steps: tuple[Step, ...], size: int, *, with_atoms: bool) -> TiltedLaw:
    """The law of the tilted sum of the steps, on a grid of so many places."""
    width = (plan.high - plan.low) / (size - 2 * _MARGIN)
    points = _points(plan, steps, 3 * size // 4, width)
    jumps = [jump_of(step.pair, plan.cap) for step in steps]
    lattice = _lattice(points, width)
    width = lattice or width
    parts = [
        (
            step.count,
            spectrum(p, plan.order, width, size, jump.log_others, lattice=lattice is not None, with_atoms=with_atoms),
        )
        for step, p, jump in zip(steps, points, jumps, strict=True)
    ]
    origin = sum((count * Fraction(one.origin) for count, one in parts), Fraction(0))
    first = math.floor((plan.low - float(origin - Fraction(plan.centre))) / width) - _MARGIN

    def invert(log_transforms: Iterable[Complexes]) -> Floats:
        return np.roll(np.fft.irfft(np.exp(sum(log_transforms)), size), -first)

    atoms = [(count, one.atomic) for count, one in parts if one.atomic is not None]
    has_atoms = any(bool(p.is_atom.any()) for p in points)
    counts = [step.count for step in steps]
    return TiltedLaw(
        order=plan.order,
        log_moment=math.fsum(count * one.log_moment for count, one in parts),
        origin=(float(origin), float(origin - Fraction(float(origin)))),
        first=first,
        width=width,
        probabilities=invert(count * one.log_transform for count, one in parts),
        atoms=invert(count * transform for count, transform in atoms) if atoms else None,
        lattice=lattice is not None,
        greatest_epsilon=plan.epsilon,
        jumps=Jumps.of(zip(counts, jumps, strict=True)),
        noise=math.fsum(count * one.noise for count, one in parts),
        loss_error=math.fsum(count * one.loss_error for count, one in parts),
        narrow=lattice is None and plan.bulk <= 3.0 * width,
        shows=_shows(parts),
        spiky=has_atoms and not atoms,
        kinks=plan.asked,
        table_error=table_error(steps),
        comb=_widest_comb(points, counts, plan.order) if has_atoms and lattice is None else 0.0,
    )


def _widest_comb(points: list[LossPoints], counts: list[int], order: float) -> float:
    """The greatest gap between the two heaviest atoms of a step whose sums make a comb that finer steps do not fill."""
    combs = []
    for count, p in zip(counts, points, strict=True):
        tilted = Tilted.of(p, order)
        if p.is_atom.all():
            gap = float(np.ptp(tilted.deviations[np.argsort(tilted.weights)[-2:]]))
            combs.append((gap, count * tilted.variance))
        else:
            combs.append((0.0, count * tilted.bulk()[1] ** 2))
    found = 0.0
    for gap, square in combs:
        finer = math.fsum(other for narrow, other in combs if narrow < gap)
        if gap > 0.0 and finer < gap**2 <= square:
            found = max(found, gap)
    return found
