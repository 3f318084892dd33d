"""The expected accuracy of SafeTab and SafeTab-H, from the plan alone: margins by detail, and errors by group size."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from tallyveil.arrays import Floats, Integers
from tallyveil.noise.laws import Law
from tallyveil.products.safetab.public.estimates import DetailEstimator, estimator_of, noise_sum, quality_of
from tallyveil.products.safetab.public.household_tables import quality_of_sum
from tallyveil.products.safetab.public.households import NoisyHouseholdSet
from tallyveil.products.safetab.public.levels import GroupLevel
from tallyveil.products.safetab.public.plan import SafetabPlan

EXPECTED: Final = "expected.json"
"""The file of a release that has the expected errors of its plan."""
SIZES: Final = (0, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
"""True group sizes for which errors are predicted."""


@dataclass(frozen=True, slots=True)
class DetailError:
    """95 % margins of the numbers of one detail of a level, in records.

    Attributes:
        detail: The detail of its groups.
        from_count: Stage-1 count from which this detail is chosen; None for no such bound.
        total: Margin of a total's COUNT.
        total_estimate: Margin of a total's ESTIMATE, if stage 1 has its full weight.
        cell: Margin of one cell; None if there is no table.
        cell_estimate: Margin of its ESTIMATE.
        total_variance, total_estimate_variance: Variances of the two totals.
    """

    detail: str
    from_count: int | None
    total: float
    total_estimate: float
    cell: float | None
    cell_estimate: float | None
    total_variance: float
    total_estimate_variance: float


@dataclass(frozen=True, slots=True)
class SizeError:
    """What a group of adaptive detail with a given true size can expect.

    Attributes:
        size: True size.
        chances: Probabilities of the details.
        published: Probability that the total of the group is published.
        count_rmse, estimate_rmse: Root mean squared errors of the total's COUNT and ESTIMATE, averaged over the
            details. They do not include the effect of suppression, which selects among totals.
    """

    size: int
    chances: tuple[float, ...]
    published: float
    count_rmse: float
    estimate_rmse: float


def expected_errors(plan: SafetabPlan) -> dict[str, list[dict[str, Any]]]:
    """Margins of every level set and detail, and errors of groups of several sizes, without data."""
    sets = [
        ({"run": run.run, "geography": level_set.geography, "level": level_set.level}, level_set)
        for run in plan.runs
        for level_set in run.sets
    ]
    return {
        "details": [place | asdict(error) for place, level_set in sets for error in detail_errors(level_set)],
        "sizes": [place | asdict(error) for place, level_set in sets for error in size_errors(level_set)],
    }


def size_errors(level: GroupLevel) -> Iterator[SizeError]:
    """Expected errors of groups of adaptive detail of several sizes, without data."""
    # A level of total-only groups has no choice of detail to predict.
    for size in SIZES if level.n_adaptive else ():
        yield _of_size(level, size)


def detail_estimator(level: GroupLevel, detail: int) -> DetailEstimator:
    """The estimator of a detail of a level, but that of total-only groups."""
    return estimator_of(level.ladder.n_cells(detail), level.stage_1, level.stage_2, *level.bounds(detail))


def detail_errors(level: GroupLevel) -> Iterator[DetailError]:
    """Margins of every detail of a level, without data."""
    # The margins here are those far from a threshold; near one they depend on the true count.
    for detail in range(level.ladder.total_only if level.n_adaptive else 0):
        estimator = detail_estimator(level, detail)
        combined, measured = estimator.combined(estimator.n), estimator.measured(estimator.n)
        # Detail 0 is the total alone and has no cells.
        cells = (estimator.combined(1), estimator.measured(1)) if detail else (None, None)
        yield DetailError(
            level.ladder.names[detail],
            level.bounds(detail)[0],
            measured.margin,
            combined.margin,
            cells[1].margin if cells[1] else None,
            cells[0].margin if cells[0] else None,
            measured.variance,
            combined.variance,
        )
    if level.width > level.n_adaptive:
        quality = quality_of(level.total_only)
        margins = quality.margin, quality.margin, None, None
        yield DetailError(level.ladder.names[-1], None, *margins, quality.variance, quality.variance)


def detail_chances(level: GroupLevel, sizes: Integers) -> Floats:
    """Probabilities of the details, for groups of given true sizes; shape (sizes, details)."""
    # P(stage 1 is below each threshold); differences of neighbours are the chances of the details.
    bounds = np.array(level.thresholds, np.int64) - 1 - sizes[:, None]
    below = noise_sum(level.stage_1, 1).at_most(bounds)
    return np.diff(below, axis=1, prepend=0.0, append=1.0)


def publication_chance(level: GroupLevel, size: int) -> float:
    """Probability that the total of a group of adaptive detail with a given true size is published."""
    if level.keep_above is None:
        return 1.0
    # Tables are never suppressed, so only detail 0 can be left out.
    return 1 - float(detail_chances(level, np.array([size]))[0, 0]) * _at_most(
        level.stage_2, level.keep_above - size
    )


def _of_size(level: GroupLevel, size: int) -> SizeError:
    chances = tuple(detail_chances(level, np.array([size]))[0].tolist())
    estimators = [detail_estimator(level, detail) for detail in range(level.ladder.total_only)]
    # Both are unbiased but near a threshold, so root mean squares are roots of variances.
    errors = [(estimator.combined(estimator.n), estimator.measured(estimator.n)) for estimator in estimators]
    return SizeError(
        size,
        chances,
        publication_chance(level, size),
        sum(chance * measured.variance for chance, (_, measured) in zip(chances, errors, strict=True)) ** 0.5,
        sum(chance * combined.variance for chance, (combined, _) in zip(chances, errors, strict=True)) ** 0.5,
    )


def _at_most(law: Law, bound: int) -> float:
    """P(noise <= bound)."""
    far = int(60 * law.standard_deviation()) + 60  # beyond, the law is 0 or 1 to every digit of a float
    return float(bound > 0) if abs(bound) > far else float(law.cdf(bound).mid())


@dataclass(frozen=True, slots=True)
class HouseholdError:
    """95 % margins of one detail of a household set, in households.

    Attributes:
        run, table, geography, level: The household set.
        detail: Name of the published table.
        from_count: T1 count from which this detail is chosen; None for no such bound.
        cell, cell_variance: Margin and variance of a measured cell.
        total, total_variance: Margin and variance of the total, which is the sum of the cells.
    """

    run: str
    table: str
    geography: str
    level: int
    detail: str
    from_count: int | None
    cell: float
    cell_variance: float
    total: float
    total_variance: float

    def to_mapping(self) -> dict[str, Any]:
        """The same values as plain data."""
        return asdict(self)


def expected_household_errors(
    runs: Iterable[tuple[str, Sequence[NoisyHouseholdSet]]],
) -> tuple[HouseholdError, ...]:
    """Margins of every set and detail of some runs, each a name and its sets, without data."""
    errors = []
    for run, sets in runs:
        for household_set in sets:
            # A cell has the same law in every detail; only sums differ.
            cell = quality_of_sum(household_set, 1)
            for number, detail in enumerate(household_set.layout.details):
                total = quality_of_sum(household_set, detail.n_cells)
                errors.append(
                    HouseholdError(
                        run,
                        household_set.table,
                        household_set.geography,
                        household_set.level,
                        detail.folder,
                        household_set.thresholds[number - 1] if number else None,
                        cell.margin,
                        cell.variance,
                        total.margin,
                        total.variance,
                    )
                )
    return tuple(errors)
