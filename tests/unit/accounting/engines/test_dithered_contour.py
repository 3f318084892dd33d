"""The trapezoid rule for a dithered loss, against the dithered delta by enumeration: value, errors, and each bound."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest
from mpmath import binomial, exp, factorial, mp, mpf
from tests.samples import few

from tallyveil.accounting.engines.dithered import DitheredContour, Scan, _dithered, contour_at
from tallyveil.accounting.engines.loss_transform import Depth, GaussianFactors, Windows, find_windows
from tallyveil.accounting.losses import GaussianLoss, LaplaceLoss, LossFactor

HALF_WIDTH, PARTS = 0.5, 10
FINE, COARSE = 36.0, 9.0
"""Depths with which what is left out is negligible, and with which it is the largest error."""

COMPOSITIONS: dict[str, tuple[list[GaussianLoss], tuple[LossFactor, ...]]] = {
    "two variances": ([GaussianLoss(Fraction(5, 2), 1, 2), GaussianLoss(Fraction(4), 2, 1)], ()),
    "images that count": ([GaussianLoss(Fraction(3, 10), 1, 3), GaussianLoss(Fraction(7), 1, 1)], ()),
    "listed losses": (
        [GaussianLoss(Fraction(3), 1, 1)],
        (GaussianLoss(Fraction(1, 5), 1, 1), LaplaceLoss(Fraction(3, 2), 2, 2)),
    ),
}
EMPTY = np.zeros(0)
TILTS = (-0.6, 0.4, 2.0)


@cache
def scan_of(name: str, depth: float) -> Scan:
    wide, others = COMPOSITIONS[name]
    gaussians, scanned = GaussianFactors.of(wide), Depth(depth, HALF_WIDTH, PARTS)
    windows = find_windows(gaussians.decay, scanned)
    return Scan(gaussians, others, scanned, windows, math.sqrt(gaussians.variance) + len(others))


@cache
def law_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """All losses and their probabilities."""
    wide, others = COMPOSITIONS[name]
    losses, masses = np.zeros(1), np.ones(1)
    for factor in (*wide, *others):
        if isinstance(factor, GaussianLoss):
            x = np.arange(-60, 61)
            one = np.exp(-x * x / (2 * float(factor.variance)))
        else:
            x, k, a = (
                np.arange(factor.sensitivity + 1),
                factor.sensitivity,
                math.exp(-1 / float(factor.scale)),
            )
            one = np.where(x == k, 1.0, np.where(x == 0, a**k, (1 - a) * a ** (k - x)))
        for _ in range(factor.multiplicity):
            sums = np.add.outer(losses, float(factor.offset) + float(factor.step) * x).ravel()
            losses, place = np.unique(sums.round(11), return_inverse=True)
            masses = np.bincount(place, np.multiply.outer(masses, one / one.sum()).ravel())
            losses, masses = losses[masses > 1e-40], masses[masses > 1e-40]
    return losses, masses


def smoothed(x: float, half_width: float) -> float:
    """E max(0, 1 - exp(-x - D)) for the dither D: differences of the p-fold integral of the function."""

    def integral(y: mpf) -> mpf:
        if y <= 0:
            return mpf(0)
        series = sum((-y) ** k / factorial(k) for k in range(PARTS))
        return y**PARTS / factorial(PARTS) - (-1) ** PARTS * (exp(-y) - series)

    width = 2 * mpf(half_width) / PARTS
    steps = [mpf(x) + half_width - j * width for j in range(PARTS + 1)]
    found = sum((-1) ** j * binomial(PARTS, j) * integral(y) for j, y in enumerate(steps))
    return float(found / width**PARTS)


def dithered_delta(name: str, epsilon: float, half_width: float, *, rest: bool) -> float:
    """Delta of the dithered loss, or 1 - delta."""
    losses, masses = law_of(name)
    x = losses - epsilon
    damping = (math.sinh(half_width / PARTS) / (half_width / PARTS)) ** PARTS  # E exp(-D)
    parts = np.where(x < 0, 1.0, np.exp(-np.maximum(x, 0.0)) * damping)
    with mp.workdps(60):
        for place in np.flatnonzero(np.abs(x) < half_width):
            parts[place] = 1 - smoothed(float(x[place]), half_width)
    return math.fsum(masses * (parts if rest else 1 - parts))


def contour_of(name: str, tilt: float, depth: float, period: float = 100.0) -> DitheredContour:
    return contour_at(scan_of(name, depth), tilt, period, tilt + 1.5 if tilt > 0 else -1.0)


@pytest.mark.parametrize("wide", few(1, [0, 1]))
@pytest.mark.parametrize("tilt", few(2, TILTS))
@pytest.mark.parametrize("name", COMPOSITIONS)
def test_the_rule_gives_the_dithered_delta_or_its_rest(name: str, tilt: float, wide: int) -> None:
    contour = contour_of(name, tilt, FINE)
    mean = float(contour.centre)
    for epsilon in (mean - 1.3, mean, mean + 0.9 + 2 * max(tilt, 0.0)):
        variants = [(wide, Fraction(0))]
        (((lower, upper), (least, most)),) = _dithered(contour, [Fraction(epsilon)], variants)
        true = dithered_delta(name, epsilon, HALF_WIDTH * (wide + 1), rest=tilt < 0)
        assert lower[0] * math.exp(least[0]) <= true * (1 + 1e-10)
        assert upper[0] * math.exp(most[0]) >= true * (1 - 1e-10)
        size = np.abs(contour.terms[wide]).sum()
        assert upper[0] - lower[0] < 1e-11 * size
        assert most[0] - least[0] < 1e-11
        ((_, errors),) = contour.sums_at([Fraction(epsilon)], variants)
        assert errors[0] > 2.0**-53 * np.abs(contour.terms[wide]).sum()


@pytest.mark.parametrize("tilt", TILTS)
@pytest.mark.parametrize("name", COMPOSITIONS)
def test_nodes_left_out_are_below_their_bound(name: str, tilt: float) -> None:
    kept, every = contour_of(name, tilt, COARSE), contour_of(name, tilt, FINE)
    assert kept.frequencies.size < every.frequencies.size
    there = np.isin(every.frequencies, kept.frequencies)
    for wide in (0, 1):
        assert np.abs(every.terms[wide][~there]).sum() <= kept._left_out(wide + 1)


@pytest.mark.parametrize(
    ("tilt", "depth", "windows", "loose"),
    [
        # All in the first segment; in six more of them; beyond the end of the scan.
        (0.05, Depth(5.0, 0.5, PARTS), Windows(EMPTY, EMPTY, 1e5, 1e5, 1), 1.5),
        (-0.96, Depth(5.0, 0.5, PARTS), Windows(EMPTY, EMPTY, 1e5, 1e5, 1), 1.6),
        (6.0, Depth(5.0, 0.01, PARTS), Windows(EMPTY, EMPTY, 30.0, 960.0, 6), 2.5),
        (0.7, Depth(90.0, 0.5, PARTS), Windows(EMPTY, EMPTY, 0.3, 38.4, 8), 1.02),
    ],
)
def test_the_bound_on_nodes_left_out_is_the_sum_over_the_largest_terms(
    tilt: float, depth: Depth, windows: Windows, loose: float
) -> None:
    """A transform that is everywhere as large as it may be outside the windows, added up node by node."""
    scan = replace(scan_of("images that count", FINE), depth=depth, windows=windows)
    contour = replace(contour_of("images that count", tilt, FINE, 200.0), scan=scan)
    step = 2 * math.pi / contour.period
    u = np.arange(400_000) * step
    begins = windows.first * 2.0 ** np.floor(np.log2(np.maximum(u, windows.first) / windows.first))
    dither = np.minimum(0.0, PARTS * np.log(PARTS / (depth.half_width * np.maximum(u, 1e-9))))
    of_dither = np.minimum(0.0, PARTS * np.log(PARTS / (depth.half_width * begins)))
    # exp(-t(u)), without what the dither adds to it in the first segment and beyond the end.
    logs = np.where(u < windows.first, -depth.depth, -depth.depth + np.log(begins) - of_dither + dither)
    logs = np.where(u < windows.end, logs, dither)
    size = math.exp(abs(tilt) * depth.half_width + scan.gaussians.log_norm)
    nearest = min(abs(tilt), abs(1 + tilt))  # the poles are at 0 and -1
    terms = np.where(u == 0, 1.0, 2.0) * np.exp(logs) / (nearest**2 + u**2)
    added = size * float(terms.sum()) * step / (2 * math.pi)
    assert added <= contour._left_out(1) <= loose * added
    assert contour._left_out(2) == pytest.approx(
        contour._left_out(1) * math.exp(abs(tilt) * depth.half_width)
    )


@pytest.mark.parametrize("wide", [0, 1])
@pytest.mark.parametrize("name", COMPOSITIONS)
def test_what_wraps_around_is_added_and_bounded(name: str, wide: int) -> None:
    scan, exact = scan_of(name, FINE), {tilt: contour_of(name, tilt, FINE) for tilt in TILTS}
    mean = float(exact[TILTS[0]].centre)
    for tilt, period, epsilon in product(TILTS, (8.0, 16.0), (0.0, 1.5)):
        further = max(tilt + 0.5, (epsilon + period - mean) / scan.spread**2) if tilt > 0 else -1.0
        short = contour_at(scan, tilt, period, further)
        few, many = (
            one.sums_at([Fraction(epsilon)], [(wide, Fraction(0))])[0][0][0] for one in (short, exact[tilt])
        )
        bound = short.wrap_around(np.array([epsilon]), wide + 1)[0]
        assert -1e-14 < few - many <= bound + 1e-14
        if name == "two variances" and not wide:  # a normal law, nearly: so Chernoff's bound is not far off
            assert bound <= 5000 * (few - many) + 1e-10
        if name == "two variances" and tilt == 0.4 and period == 16:
            assert bound <= 1.001 * (few - many)
