"""The published numbers of population groups and their quality, for every layout of the tables.

COUNT is a measurement itself: a noisy count, or a sum of noisy cells. ESTIMATE is an estimate of the same number from
both stages, by least squares and corrected near a threshold (`estimates`). *Quality* is the variance and the margin.

*Near a threshold* (`near_threshold`) they depend on the choice. A group has true count theta. Its stage-1 count Y1 =
theta + Z1 chose the detail: lo <= Y1 < hi. The noise of the detail's n cells adds up to Z, and S = theta + Z. The
estimate E of the total is a function of Y1 and S. This module finds a margin m that depends on the measurements alone
and holds P(|E - theta| <= m | choice) >= 95 % for every theta. It does the same for the sum of k of the n cells, whose
estimate is their noisy sum plus k / n (E - S).

*The law.* Given theta and the choice, Y1 has the law of theta + Z1 truncated at the thresholds, and S is independent
of it. Let z be the noise of the k cells and r that of the others. The error is e = z + (k / n) (E - S), with S = theta
+ z + r. For fixed Y1 and r it increases with z, so P(|e| <= m | choice, theta) is a sum, over Y1 and r, of the
probability that z is in an interval. With Gaussian noise E = G(T), and the interval follows from the inverse of a
function of T alone; with Laplace noise E = S + a (Y1 - S), where a depends only on Y1, and e is linear in z:

    e = H(T) - theta - r - (1 - k / n) w Y1 / (1 - w),
    H(T) = T (1 - w k / n) / (1 - w) - (k / n) (T - G(T)),   z = (T - w Y1) / (1 - w) - r - theta.

*The margin.* Let c_k(theta) be the smallest multiple of 1/64 with P(|e| <= c_k(theta)) >= 95 %, tabulated for all
theta near a threshold. Farther away, the margin is that of the combined estimate. A total's margin is m(E) = max { |E
- theta| : |E - theta| <= c_n(theta) }, the distance to the farthest true count that E does not contradict. For k < n
cells, let r(theta) be the bound that |E - theta| keeps with 99.9 %, and take c_k at 95.1 %: m_k(E) is the largest
c_k(theta) with |E - theta| <= r(theta), and fails with probability at most 0.1 % + 4.9 %. The stated variance is the
largest mean squared error at these theta; for k cells E[e_k^2] = k v2 + (k / n)^2 (E[e_n^2] - n v2), because the cells
are alike.

*Exactness and stopping rules.* Up to a standard deviation of 16, all sums are over single integers, and every theta is
tabulated. Beyond that, Y1 and r are taken in steps of an eighth of their standard deviation, and theta in steps of a
sixth of the smallest one. The required coverage is then increased by 0.02 percentage points, which is more than the
coverage that is lost by the steps. The table ends where the probability of a choice is 1e-9. Each c_k(theta) is found
by bisection, down to 1/64.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Floats, Integers
from tallyveil.kernels.threshold_coverage import interval_chance, mean_squared_error
from tallyveil.products.safetab.public.estimates import (
    CONFIDENCE,
    MARGIN_STEPS,
    NEAR,
    UNIT,
    DetailEstimator,
    Method,
    NoiseSum,
    Quality,
    chosen_law,
    correction_of,
    estimator_of,
    fade_of,
    first_enough,
    noise_sum,
    quality_of,
    raised_margin,
)
from tallyveil.products.safetab.public.levels import GroupLevel
from tallyveil.products.safetab.public.plan import LevelSet


@dataclass(frozen=True, slots=True, eq=False)
class TableMeasurements:
    """Noisy tables of the groups with one chosen detail.

    Attributes:
        places: Flat position of each group in the array (rows, adaptive groups); int64, ascending.
        values: Noisy cells; int64, shape (groups, cells).
    """

    places: Integers
    values: Integers


@dataclass(frozen=True, slots=True, eq=False)
class GroupMeasurements:
    """Noisy measurements of all population groups of some rows of one level, including empty groups.

    Attributes:
        rows: Position of each row, in the Census layout that of its region; int64, shape (rows,).
        stage_1: Totals that chose the detail; int64, shape (rows, adaptive groups).
        detail: The chosen detail; int8, the same shape.
        totals: Totals of stage 2 if the detail is 0, otherwise 0; int64, the same shape.
        listed: Flat positions of the groups of detail 0 whose total is above the suppression bound; int64, ascending.
        tables: Tables of details 1, 2 and so on.
        total_only: Totals of the total-only groups; int64, shape (rows, total-only groups).
    """

    rows: Integers
    stage_1: Integers
    detail: NDArray[np.int8]
    totals: Integers
    listed: Integers
    tables: tuple[TableMeasurements, ...]
    total_only: Integers

    @property
    def n_counts(self) -> int:
        """Number of noisy counts in these measurements: two for a group, or one and its cells, or one if total-only."""
        # Each tabulated group has its cells in the place of the second total.
        in_tables = sum(table.values.size - table.places.size for table in self.tables)
        return 2 * self.stage_1.size + in_tables + self.total_only.size


class GroupSource(Protocol):
    """A source of measurements of groups, behind the wall."""

    def measure(self, level_set: LevelSet, rows: Integers) -> Iterator[GroupMeasurements]:
        """Measurements of the given rows, in order, in parts of limited size."""
        ...


RAREST: Final = 1e-9
"""True counts at which a choice has a smaller probability than this are not tabulated."""

_LEFT_OUT: Final = 0.001  # probability that the true count is not one of those used for the margin of a cell
_NEGLIGIBLE: Final = 1e-10  # relative to the largest probability of a sum
_TOLERANCE: Final = 1e-7  # more than the omitted negligible probabilities
_STEPPED: Final = 2e-4  # added to the required coverage if sums are in steps
_STEPS_A_SPREAD: Final = 8
_FINE_STEPS_A_SPREAD: Final = 256  # for a total, whose sums are over stage 1 alone
_COUNTS_A_SPREAD: Final = 6


@dataclass(frozen=True, slots=True, eq=False)
class NearThreshold:
    """Margins and variances of one sum of cells by true count, near the thresholds. Made by `near_threshold`.

    Attributes:
        first, last: First and last true count of each row of the table, integers; float64, ascending.
        low_end, high_end: Estimates below `low_end`, or from `high_end`, are near a threshold; infinite if there is no
            such threshold.
        within: Bound that |E - theta| of the total keeps there with 95 % (k = n) or 99.9 % (k < n).
        margins: c_k of each row.
        variances: Largest mean squared error of each row.
        far: Quality if both stages have their full weight.
        total: Whether this is the total.
    """

    first: Floats
    last: Floats
    low_end: float
    high_end: float
    within: Floats
    margins: Floats
    variances: Floats
    far: Quality
    total: bool

    def qualities(self, estimates: Floats) -> tuple[Floats, Floats]:
        """Variance and margin of the sum in each group, from the estimate of the group's total."""
        # The rows that are not contradicted lie between the first row whose upper end, and the last row whose lower
        # end, reaches the estimate. The ends are made monotone, so that all rows between are included.
        # O(groups log rows): estimates of millions of groups meet a table of some thousand rows.
        upper = np.maximum.accumulate(self.last + self.within)
        lower = np.minimum.accumulate((self.first - self.within)[::-1])[::-1]
        begin = np.minimum(np.searchsorted(upper, estimates, side="left"), len(upper) - 1)
        end = np.maximum(np.searchsorted(lower, estimates, side="right") - 1, begin)
        # Few pairs of ends occur, so the maxima over the rows between are taken once for each.
        pairs, back = np.unique(begin * len(upper) + end, return_inverse=True)
        variances, margins = np.empty(len(pairs)), np.empty(len(pairs))
        for number, pair in enumerate(pairs.tolist()):
            rows = slice(pair // len(upper), pair % len(upper) + 1)
            variances[number], margins[number] = self.variances[rows].max(), self.margins[rows].max()
        variance, margin = np.maximum(variances[back], self.far.variance), margins[back]
        if self.total:
            # m(E) of the total: the farthest true count that E does not contradict.
            farthest = np.maximum(estimates - self.first[begin], self.last[end] - estimates)
            margin = np.minimum(margin, np.maximum(farthest, 0.0))
        # For a true count beyond the table, the stated margin is that far from the thresholds.
        return variance, np.maximum(margin, self.far.margin)

    def applies(self, estimates: Floats) -> NDArray[np.bool_]:
        """Whether the estimate of a total is so near to a threshold that the table is needed."""
        return (estimates < self.low_end) | (estimates >= self.high_end)


@dataclass(frozen=True, slots=True, eq=False)
class _SumOfCells:
    """The law of one sum of k cells, together with the other n - k cells and stage 1."""

    estimator: DetailEstimator
    parts: int
    noise: NoiseSum
    below: Floats
    sums: tuple[Floats, Floats]
    others: tuple[Floats, Floats]
    stage_1: NoiseSum
    step: int

    def coverage(
        self, count: float, stage_1: tuple[Floats, Floats, Floats], margins: tuple[float, float]
    ) -> float:
        """P(low <= e <= high | choice) at a true count, given its stage-1 law from `chosen`."""
        # Towards the inside, so that the computed coverage is not larger than the true one.
        slack = 2 * self.parts / UNIT  # shifts are rounded to integer multiples of 1/4096
        ends = margins[0] + slack, margins[1] - slack
        share, levels = self.parts / self.estimator.n, self._levels()
        return float(interval_chance(count, ends, share, stage_1, self.others, self.below, levels))

    def mean_square(self, count: int) -> float:
        """E[e**2 | choice] at a true count, only for the total."""
        y1, chances, weights = self.chosen(count)
        estimator = self.estimator
        if not estimator.gaussian:  # S is independent of Y1, and the estimate is linear in S
            measured = estimator.measured(estimator.n).variance
            return float(chances @ ((1 - weights) ** 2 * measured + (weights * (y1 - count)) ** 2))
        return float(mean_squared_error(count, estimator.weight, (y1, chances), self.sums, self._levels()))

    def chosen(self, count: int) -> tuple[Floats, Floats, Floats]:
        """Stage-1 counts that choose the detail, their probabilities given the choice, and the weights of stage 1."""
        estimator = self.estimator
        whole, chances = chosen_law(self.stage_1, count, estimator.lowest, estimator.highest)
        # Relative to the largest: near a threshold all chances are small, and it is the law given the choice
        # that matters.
        likely = chances > _NEGLIGIBLE * chances.max()
        y1, chances = _stepped(
            whole[likely].astype(np.float64), chances[likely] / chances[likely].sum(), self.step
        )
        if estimator.gaussian:
            return y1, chances, np.full(len(y1), estimator.weight)
        fade = fade_of(estimator)
        faded = fade.of(np.rint(y1).astype(np.int64), estimator.lowest, estimator.highest)
        return y1, chances, estimator.weight * faded / fade.width

    def _levels(self) -> tuple[Floats, Floats]:
        return _levels(self.estimator, self.parts) if self.estimator.gaussian else (np.empty(0), np.empty(0))


@lru_cache(maxsize=256)
def near_threshold(estimator: DetailEstimator, parts: int) -> NearThreshold:
    """The table of an estimator with a threshold, for a sum of `parts` of its cells."""
    counts, step, ends = _counts(estimator, parts)
    noisy_sum = _sum_of(estimator, parts)
    total = parts == estimator.n
    # 95 % for a total; 95.1 % for cells, whose 0.1 % is spent on where the true count is.
    level = float(CONFIDENCE) if total else float(CONFIDENCE) + _LEFT_OUT
    far = estimator.combined(parts)
    margins = _quantiles(noisy_sum, counts, level, far.margin)
    if total:
        # E[e_n^2] is only computed for the total; for cells it follows from it.
        within, squares = margins, _mean_squares(noisy_sum, counts)
    else:
        within, squares = _of_total(estimator)
    n, v2 = estimator.n, estimator.stage_2.variance_float()
    # E[e_k^2] = k v2 + (k / n)^2 (E[e_n^2] - n v2), because the cells are alike.
    variances = parts * v2 + (parts / n) ** 2 * (squares - n * v2)
    if step > 1:  # a row represents the counts around it, so it must also cover its neighbours
        margins, within, variances = (_neighbours(column) for column in (margins, within, variances))
    # A row stands for `step` integers around its count; together the rows leave no integer out.
    half = (step - 1) // 2
    return NearThreshold(
        counts - half, counts + (step - 1 - half), *ends, within, margins, variances, far, total
    )


@lru_cache(maxsize=256)
def _of_total(estimator: DetailEstimator) -> tuple[Floats, Floats]:
    """Bound that |E - theta| of the total keeps with 99.9 %, and its mean square, at the rows for all k < n."""
    counts, _, _ = _counts(estimator, 1)
    whole = _sum_of(estimator, estimator.n)
    # Only where the search begins: 99.9 % lies some 1.7 times as far out as 95 % (3.29 to 1.96).
    guess = 1.7 * estimator.combined(estimator.n).margin
    return _quantiles(whole, counts, 1 - _LEFT_OUT, guess), _mean_squares(whole, counts)


def _mean_squares(whole: _SumOfCells, counts: Floats) -> Floats:
    return np.array([whole.mean_square(int(count)) for count in counts])


def _sum_of(estimator: DetailEstimator, parts: int) -> _SumOfCells:
    parts_noise, others = (
        noise_sum(estimator.stage_2, parts),
        noise_sum(estimator.stage_2, estimator.n - parts),
    )
    below = np.concatenate([[0.0], np.cumsum(parts_noise.probabilities)])
    stage_1 = noise_sum(estimator.stage_1, 1)
    step = _step(stage_1, _FINE_STEPS_A_SPREAD if parts == estimator.n else _STEPS_A_SPREAD)
    return _SumOfCells(
        estimator, parts, parts_noise, below, _atoms(parts_noise), _atoms(others), stage_1, step
    )


def _atoms(noise: NoiseSum) -> tuple[Floats, Floats]:
    """The values with relevant probability, and their probabilities, in steps."""
    likely = noise.probabilities > _NEGLIGIBLE * noise.probabilities.max()
    values = np.arange(-noise.reach, noise.reach + 1.0)[likely]
    return _stepped(
        values, noise.probabilities[likely] / noise.probabilities[likely].sum(), _step(noise, _STEPS_A_SPREAD)
    )


def _counts(estimator: DetailEstimator, parts: int) -> tuple[Floats, int, tuple[float, float]]:
    """True counts to tabulate, the step between them, and the range of estimates that are near no threshold."""
    noise = noise_sum(estimator.stage_1, 1)
    # How far a true count may be on the wrong side of a threshold before the choice is rarer than 1e-9.
    wrong = noise.reach - int(np.argmax(np.cumsum(noise.probabilities) >= RAREST)) + 1
    spread = estimator.combined(estimator.n).variance ** 0.5
    if estimator.gaussian:
        # On the right side: as far as a correction reaches, and then 6.2 spreads of the estimate.
        right = max(wrong, int((NEAR + 0.5) * estimator.spread + 6.2 * spread) + 1)
        least = min(estimator.spread, spread)
    else:
        fade = fade_of(estimator)
        right, least = fade.begin + fade.width + wrong, 3 * spread
    # Sums of few cells hardly depend on the true count, and take the most time.
    step = max(1, int(least / _COUNTS_A_SPREAD * (1 if parts == estimator.n else 4)))
    right += int(4 * spread) + 1  # so that an estimate beyond the table contradicts no true count at its end
    steps = np.arange(-wrong, right, step)
    sides = [estimator.lowest + steps] if estimator.lowest is not None else []
    sides += [estimator.highest - 1 - steps] if estimator.highest is not None else []
    inside = np.unique(np.concatenate(sides))
    # Counts between two thresholds may be so unlikely to choose this detail that they are left out.
    chance = [chosen_law(noise, int(count), estimator.lowest, estimator.highest)[1].sum() for count in inside]
    ends = (
        -np.inf if estimator.lowest is None else float(estimator.lowest + right - 4 * spread),
        np.inf if estimator.highest is None else float(estimator.highest - 1 - right + 4 * spread),
    )
    return inside[np.array(chance) >= RAREST / 2].astype(np.float64), step, ends


def _quantiles(noisy_sum: _SumOfCells, counts: Floats, level: float, guess: float) -> Floats:
    """At every true count, the smallest multiple of 1/64 that |e| does not exceed with probability `level`."""
    stepped = (
        max(
            noisy_sum.step,
            _step(noise_sum(noisy_sum.estimator.stage_2, noisy_sum.estimator.n), _STEPS_A_SPREAD),
        )
        > 1
    )
    # Never more than a fifth of what is left to 1, so that 99.9 % stays below 1.
    wanted = level + (min(_STEPPED, (1 - level) / 5) if stepped else _TOLERANCE)
    quantiles, steps = np.empty(len(counts)), max(1, round(guess * MARGIN_STEPS))
    for place, count in enumerate(counts):
        stage_1 = noisy_sum.chosen(int(count))

        def enough(steps: int, count: float = count, chosen: tuple[Floats, Floats, Floats] = stage_1) -> bool:
            return noisy_sum.coverage(count, chosen, (-steps / MARGIN_STEPS, steps / MARGIN_STEPS)) >= wanted

        # From the neighbour's answer: neighbouring counts have nearly the same margin, so few coverages are computed.
        quantile = first_enough(enough, steps)
        quantiles[place], steps = quantile / MARGIN_STEPS, max(quantile, 1)
    return quantiles


@lru_cache(maxsize=64)
def _levels(estimator: DetailEstimator, parts: int) -> tuple[Floats, Floats]:
    """Knots of T and the values of H there, extended far beyond the table. For the total, H is G."""
    correction = correction_of(estimator)
    reach = noise_sum(estimator.stage_1, 1).reach + noise_sum(estimator.stage_2, estimator.n).reach
    far = UNIT * 10 * (1 + reach)  # the smallest noise has reach 0
    ends = correction.knots[0] - far, correction.knots[-1] + far
    knots = np.concatenate([[ends[0]], correction.knots, [ends[1]]])
    # H(T) of the module's text.
    w, share = estimator.weight, parts / estimator.n
    corrections = estimator.n * correction.of(knots) / UNIT
    totals = knots / UNIT
    # Made monotone against the rounding of knots, since the interval is found by inverting it.
    return totals, np.maximum.accumulate(totals * (1 - share * w) / (1 - w) - share * corrections)


def _step(noise: NoiseSum, steps_a_spread: int) -> int:
    """Number of neighbouring integers that are treated together."""
    values = np.arange(-noise.reach, noise.reach + 1.0)
    return max(1, int(float(noise.probabilities @ values**2) ** 0.5 / steps_a_spread))


def _stepped(values: Floats, chances: Floats, step: int) -> tuple[Floats, Floats]:
    """Means and probabilities of groups of `step` neighbouring values."""
    if step == 1:
        return values, chances
    # Group means keep the mean of the law exactly; its variance loses a share below (step / spread)**2 / 12.
    starts = np.arange(0, len(values), step)
    mass = np.add.reduceat(chances, starts)
    return np.add.reduceat(chances * values, starts) / mass, mass


def _neighbours(column: Floats) -> Floats:
    """For each value, the largest of it and its neighbours."""
    # The ends are their own neighbours.
    wide = np.concatenate([column[:1], column, column[-1:]])
    return np.asarray(np.maximum(np.maximum(wide[:-2], wide[1:-1]), wide[2:]))


def quality_arrays(
    estimator: DetailEstimator, parts: int, estimates: Floats
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Variance and margin of a sum of `parts` cells, and whether a threshold is near.

    Args:
        estimator: The estimator that made the estimates.
        parts: Number of cells in the sum.
        estimates: Estimates of the totals of the groups.
    """
    far = estimator.combined(parts)
    variances, margins = np.full(len(estimates), far.variance), np.full(len(estimates), far.margin)
    near = np.zeros(len(estimates), bool)
    if estimator.bounds and estimator.unit and len(estimates):
        # Nearness is judged by the total, whatever the sum.
        near = near_threshold(estimator, estimator.n).applies(estimates)
        if near.any():
            variances[near], margins[near] = near_threshold(estimator, parts).qualities(estimates[near])
    return variances, margins, near


Worth: TypeAlias = tuple[Quality, NDArray[np.float64] | float, NDArray[np.float64] | float]
"""Quality of a measured number; variance and margin of its estimate."""

QUALITY_COLUMNS: Final = (
    "VARIANCE",
    "MARGIN",
    "ESTIMATE",
    "ESTIMATE_VARIANCE",
    "ESTIMATE_MARGIN",
    "METHOD",
)
METHODS: Final = ("measured", "combined", "corrected", "partly", "exact")


@dataclass(frozen=True, slots=True, eq=False)
class NumberedGroups:
    """Published groups of one detail of a level, with the measurements that their tables are made from.

    Attributes:
        detail: Number of the detail in the level's ladder, or the number that stands for total-only groups.
        measured: The measured detail. It is finer than `detail` only for a region with the same blocks as another.
        bounds: Stage-1 counts that choose both details: lowest <= count < highest. None means no bound.
        rows, columns: Positions; int64, shape (groups,).
        stage_1: Counts that chose the detail; int64; zeros for total-only groups.
        cells: Noisy cells as measured, one column for a total; int64, shape (groups, n).
    """

    detail: int
    measured: int
    bounds: tuple[int | None, int | None]
    rows: Integers
    columns: Integers
    stage_1: Integers
    cells: Integers

    def subset(self, which: NDArray[np.bool_]) -> "NumberedGroups":
        """Some of the groups."""
        arrays = (a[which] for a in (self.rows, self.columns, self.stage_1, self.cells))
        return NumberedGroups(self.detail, self.measured, self.bounds, *arrays)


class CollectedGroups:
    """Collects the published groups of one level, part by part.

    Args:
        level: The level.
    """

    def __init__(self, level: GroupLevel) -> None:
        self.level = level
        self.n_counts = 0
        self._parts: list[list[NumberedGroups]] = [[] for _ in level.ladder.names]

    def add(self, part: GroupMeasurements) -> None:
        """Add the published groups of one part of the measurements."""
        width, only = self.level.n_adaptive, part.total_only
        self.n_counts += part.n_counts
        self._add(part, 0, part.listed, part.totals.reshape(-1)[part.listed][:, None], width)
        # Detail k is the k-th table of the ladder; detail 0 was added before as totals of one cell.
        for number, table in enumerate(part.tables, start=1):
            self._add(part, number, table.places, table.values, width)
        self._add(
            part, self.level.ladder.total_only, np.arange(only.size), only.reshape(-1, 1), only.shape[1]
        )

    def by_detail(self) -> Iterator[NumberedGroups]:
        """The groups of every detail that at least one group has."""
        for parts in self._parts:
            if parts:
                names = ("rows", "columns", "stage_1", "cells")
                arrays = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
                yield NumberedGroups(parts[0].detail, parts[0].measured, parts[0].bounds, *arrays)

    def _add(
        self, part: GroupMeasurements, detail: int, places: Integers, cells: Integers, width: int
    ) -> None:
        if not len(places):
            return
        rows, columns = np.divmod(places, width)
        if detail == self.level.ladder.total_only:
            # Total-only groups have no stage 1, and their estimator does not ask for it.
            stage_1 = np.zeros(len(places), np.int64)
            columns = columns + self.level.n_adaptive
        else:
            stage_1 = part.stage_1.reshape(-1)[places]
        bounds = self.level.bounds(detail)
        self._parts[detail].append(
            NumberedGroups(detail, detail, bounds, part.rows[rows], columns, stage_1, cells)
        )


def numbers_of(
    level: GroupLevel,
    groups: NumberedGroups,
    sums: Sequence[Integers],
    *,
    allow_negative: bool,
    exact: bool = False,
) -> dict[str, Any]:
    """COUNT and quality columns for several sums of cells of each group. The sums of a group are adjacent rows.

    Args:
        level: The level.
        groups: Its groups of one detail.
        sums: The cells of each sum.
        allow_negative: Whether negative counts remain. Otherwise every negative noisy cell is raised to 0.
        exact: Whether the measurements have no noise. Then no estimate is made, and every margin is 0.
    """
    size = len(groups.rows)
    # Without an estimator ESTIMATE is COUNT before negatives are raised.
    shifts, methods = np.zeros(size, np.int64), np.full(size, Method.MEASURED, np.int64)
    if exact:
        methods[:], worth = Method.EXACT, _exact_worth
    elif groups.detail == level.ladder.total_only:
        worth = partial(total_only_worth, level)
    else:
        estimator = estimator_of(groups.cells.shape[1], level.stage_1, level.stage_2, *groups.bounds)
        totals = groups.cells.sum(axis=1)
        shifts = estimator.shifts(groups.stage_1, totals)
        # Totals of the groups: whether a threshold is near is judged by the total, also for cells.
        estimates = (totals * UNIT + estimator.n * shifts) / UNIT
        methods = methods_of(estimator, estimates)
        worth = partial(worth_of, estimator, estimates)
    # Variance and margin depend on how many cells a sum has, not on which: one computation for all sums
    # alike.
    of_parts = {parts: worth(parts) for parts in {len(cells) for cells in sums}}
    # True counts are not negative, so nothing is raised in a table without noise.
    raised = not allow_negative and not exact
    columns = [_number(groups, cells, shifts, of_parts[len(cells)], allow_negative, raised) for cells in sums]
    names = ("COUNT", *QUALITY_COLUMNS[:-1])
    numbers: dict[str, Any] = {
        # Sums of a group become adjacent rows: stacked as columns, then read row by row.
        name: np.stack([np.broadcast_to(column[name], size) for column in columns], axis=1).reshape(-1)
        for name in names
    }
    return numbers | {"METHOD": pl.Series(METHODS).gather(np.repeat(methods, len(sums)))}


def _number(
    groups: NumberedGroups,
    cells: Integers,
    shifts: Integers,
    worth: Worth,
    allow_negative: bool,
    raised: bool,
) -> dict[str, Any]:
    """COUNT and its quality for the sum of some of the cells of each group."""
    cells_of_detail = groups.cells[:, cells]
    plain = cells_of_detail.sum(axis=1)
    # Cells are raised before they are summed, as production does; the sum is then biased upwards.
    count = plain if allow_negative else np.maximum(cells_of_detail, 0).sum(axis=1)
    # An integer below 2**53 divided by a power of two is exact.
    estimates = (plain * UNIT + len(cells) * shifts) / UNIT
    measured, variances, margins = worth
    return {
        "COUNT": count,
        "VARIANCE": measured.variance,
        "MARGIN": raised_margin(plain, count, measured.margin) if raised else measured.margin,
        "ESTIMATE": estimates if allow_negative else np.maximum(estimates, 0.0),
        "ESTIMATE_VARIANCE": variances,
        "ESTIMATE_MARGIN": margins,
    }


def _exact_worth(_: int) -> Worth:
    return Quality(0.0, 0.0), 0.0, 0.0


def total_only_worth(level: GroupLevel, _: int) -> Worth:
    """Quality of a total-only group, which has no other estimate than its count."""
    measured = quality_of(level.total_only)
    return measured, measured.variance, measured.margin


def methods_of(estimator: DetailEstimator, estimates: Floats) -> NDArray[np.int64]:
    """The `Method` of groups whose totals have these estimates; int64."""
    near = quality_arrays(estimator, estimator.n, estimates)[2]
    return np.where(near, Method.CORRECTED if estimator.gaussian else Method.PARTLY, Method.COMBINED)


def worth_of(estimator: DetailEstimator, estimates: NDArray[np.float64], parts: int) -> Worth:
    """Quality of a sum of `parts` cells, and variances and margins of its estimate in groups with these totals."""
    variances, margins, _ = quality_arrays(estimator, parts, estimates)
    return estimator.measured(parts), variances, margins
