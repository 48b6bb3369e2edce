"""Delta of mechanisms with finitely many outcomes: the tilted law of each kind's sum, then every
pair of sums.

A kind whose losses are equally spaced is convolved by a Fourier transform over one period, which is
exact but for rounding; other kinds are enumerated while their sums are few. Kinds are joined in the
middle: for each sum of all kinds but the largest, the tail of the largest is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaln

from attacking.composition import Composition
from attacking.laws import LONG, Longs
from attacking.tilted import EPS, Floats, Tilted

if TYPE_CHECKING:
    from attacking.truth import Truth

_MOST_SUMS = 2**22
_MOST_PAIRS = 20_000_000
_NEGLIGIBLE = 1e-23


@dataclass(frozen=True)
class Sums:
    """Sums of losses less their mean, in rising order, their weights, the error of each weight, and
    the weight of sums that were left out.
    """

    offsets: Longs
    weights: Floats
    noise: float = 0.0
    lost: float = 0.0

    @classmethod
    def ordered(cls, offsets: Longs, weights: Floats, noise: float = 0.0) -> Sums:
        kept = weights > max(_NEGLIGIBLE * float(np.max(weights)), 0.0)
        order = np.argsort(offsets[kept], kind="stable")
        lost = float(np.sum(np.abs(weights[~kept])))
        return cls(offsets[kept][order], weights[kept][order], noise, lost)

    def joined(self, other: Sums) -> Sums:
        offsets = np.add.outer(self.offsets, other.offsets).ravel()
        noise = self.noise * float(np.max(other.weights)) + other.noise * float(np.max(self.weights))
        found = Sums.ordered(offsets, np.multiply.outer(self.weights, other.weights).ravel(), noise)
        return replace(found, lost=found.lost + self.lost + other.lost)


def delta(composition: Composition, order: Any, epsilon: float) -> Truth | None:
    """Delta of the finite losses, its error and how it was found; None where there are too many
    sums.
    """
    tilts = composition.tilted(order)
    kinds = []
    for tilted, (_, count) in zip(tilts, composition.parts, strict=True):
        assert isinstance(tilted, Tilted)
        sums = _of_kind(tilted, count)
        if sums is None:
            return None
        kinds.append(sums)
    kinds.sort(key=lambda kind: kind.offsets.size)
    rest = Sums(np.zeros(1, LONG), np.ones(1))
    for kind in kinds[:-1]:
        if rest.offsets.size * kind.offsets.size > _MOST_SUMS:
            return None
        rest = rest.joined(kind)
    if not kinds[-1].offsets.size:
        return None
    excess = composition.excess(tilts, epsilon)

    counts = [count for _, count in composition.parts]
    left_out = sum(n * t.dropped for n, t in zip(counts, tilts, strict=True) if isinstance(t, Tilted))

    # of e^{-order x} (1 - e^{-x}): a sum that was left out may be anywhere
    most = np.exp(-order * np.log1p(1 / order) - np.log1p(order))

    def at(shift: Any) -> tuple[Any, Any]:
        scale = np.exp(composition.log_scale(tilts, order, excess + shift))
        value, error = _paired(rest, kinds[-1], -excess - shift, order)
        lost = (rest.lost + kinds[-1].lost) * most
        return scale * value, scale * (error + left_out + lost)

    moved = sum(
        0.0 if law.exact else 4 * EPS * count * np.max(np.abs(law.loss), initial=0.0)
        for law, count in composition.parts
    )
    (value, error), (above, _) = at(LONG(0)), at(LONG(moved))
    from attacking.truth import Truth

    return Truth(float(value), float(error + abs(above - value)), "enumeration")


def _paired(rest: Sums, last: Sums, threshold: Any, order: Any) -> tuple[Any, Any]:
    """``E'[e^{-order x} (1 - e^{-x}); x > 0]`` of the sum ``x`` of both less the threshold, and its
    error.
    """
    above = threshold - rest.offsets
    if rest.offsets.size * last.offsets.size > _MOST_PAIRS:
        return _paired_by_tails(rest, last, above, order)
    value = error = 0.0
    rows = max(1, 2_000_000 // last.offsets.size)
    for start in range(0, above.size, rows):
        part = slice(start, start + rows)
        x = np.maximum(last.offsets - above[part, None], 0)
        gains = (np.exp(-order * x) * -np.expm1(-x)).astype(float)
        value += float(rest.weights[part] @ (gains @ last.weights))
        error += last.noise * float(rest.weights[part] @ gains.sum(axis=1)) + rest.noise * float(
            np.sum(gains @ last.weights)
        )
    return value, error + 1e-14 * value


def _paired_by_tails(rest: Sums, last: Sums, above: Longs, order: Any) -> tuple[Any, Any]:
    """The same as a difference of two tails of the larger law, in long doubles, for each sum of the
    smaller.
    """
    with np.errstate(divide="ignore"):
        logs = np.log(last.weights.astype(LONG))
    first = np.searchsorted(last.offsets, above, side="right")
    inside = first < last.offsets.size
    first, above, weights = first[inside], above[inside], rest.weights[inside].astype(LONG)
    tails = []
    for power in (order, order + 1):
        tail = np.logaddexp.accumulate((logs - power * last.offsets)[::-1])[::-1]
        tails.append(np.sum(weights * np.exp(tail[first] + power * above)))
    value = tails[0] - tails[1]
    gap = float(np.median(np.diff(last.offsets)))
    reached = min(last.offsets.size, 1 + 1 / (float(order) * gap)) if gap > 0 else last.offsets.size
    noise = (last.noise * float(np.sum(weights)) + rest.noise * weights.size) * reached
    return value, noise + 1e-14 * abs(value) + 200 * EPS * tails[0]


def _of_kind(tilted: Tilted, count: int) -> Sums | None:
    offsets, weights = tilted.offsets.astype(LONG), tilted.weights
    if count == 1 or offsets.size == 1:
        return Sums.ordered(offsets, weights)
    if offsets.size == 2:
        return _two(offsets, weights, count)
    if tilted.gap > 0:
        return _lattice(tilted, LONG(tilted.gap), count)
    if offsets.size == 3 and count <= 2000:
        return _three(offsets, weights, count)
    if offsets.size**count <= _MOST_SUMS:
        sums = one = Sums.ordered(offsets, weights)
        for _ in range(count - 1):
            sums = sums.joined(one)
        return sums
    return None


def _two(offsets: Longs, weights: Floats, count: int) -> Sums | None:
    """The binomial law, by the ratios of its neighbours from the mean outwards, so that its tails
    keep their digits.
    """
    low, high = np.argsort(offsets)
    one, other = LONG(weights[high]), LONG(weights[low])  # 1 less a share next to 1 has few digits
    mean, deviation = count * one / (one + other), np.sqrt(count * one * other) / (one + other)
    first, last = (max(0, math.floor(mean - 14 * deviation - 80)), min(count, math.ceil(mean + 14 * deviation + 80)))
    if last - first > _MOST_SUMS:
        return None
    n = np.arange(first, last + 1).astype(LONG)
    logs = np.concatenate(([LONG(0)], np.cumsum(np.log((count - n[:-1]) / (n[:-1] + 1) * (one / other)))))
    law = np.exp(logs - np.max(logs))
    return Sums.ordered(n * offsets[high] + (count - n) * offsets[low], (law / np.sum(law)).astype(float))


def _lattice(tilted: Tilted, gap: Any, count: int) -> Sums | None:
    """By the characteristic function at ``N`` angles: ``N`` covers the range of the sums, or
    fourteen standard deviations.
    """
    widest = round(float(np.ptp(tilted.offsets) / gap)) * count + 1
    deviation = math.sqrt(count * tilted.variance) / float(gap)
    reach = float(np.max(np.abs(tilted.offsets)) / gap)
    wanted = min(widest, int(28 * deviation + 80 * reach) + 64)
    size = 1 << max(4, (wanted - 1).bit_length())
    if size > _MOST_SUMS:
        return None
    least = LONG(np.min(tilted.offsets)) / gap * count
    centre = np.rint(-least)  # the place of the mean, counted from the least sum
    fraction = centre + least
    angles = 2 * np.pi * np.arange(size // 2 + 1) / size
    spectrum = np.zeros(angles.size, complex)
    for start in range(0, angles.size, 4096):
        part = angles[start : start + 4096]
        logs = count * tilted.log_ratio(part / float(gap))
        spectrum[start : start + 4096] = np.exp(logs - 1j * part * float(fraction))
        if count > 200 and np.max(logs.real) < -60:
            break
    law = np.fft.irfft(np.conj(spectrum), size)
    places = np.arange(size)
    end = min(size // 2, widest - centre) if size < widest else widest - centre
    places = np.where(places < end, places, places - size)  # sums may lie to one side of their mean
    inside = (places + centre >= 0) & (places + centre < widest)
    noise = 4e-16 * float(np.max(np.abs(law)))
    found = Sums.ordered((places[inside] + fraction) * gap, law[inside], noise)
    return replace(found, lost=found.lost + float(np.sum(np.abs(law[~inside]))))


def _three(offsets: Longs, weights: Floats, count: int) -> Sums:
    """All counts of three outcomes."""
    first, second = np.meshgrid(np.arange(count + 1), np.arange(count + 1), indexing="ij")
    held = first + second <= count
    counts = first[held], second[held], count - first[held] - second[held]
    logs = (
        gammaln(count + 1)
        - sum(gammaln(n + 1) for n in counts)
        + sum(n * np.log(w) for n, w in zip(counts, weights, strict=True))
    )
    sums = sum(n * offset for n, offset in zip(counts, offsets, strict=True))
    return Sums.ordered(np.asarray(sums, LONG), np.exp(logs))
