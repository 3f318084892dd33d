"""Thresholds of detail from how exact a cell must be, and the detail that groups of public sizes can expect.

*A table is worth its noise* for a group whose mean cell is large beside the margin of a cell: a table of n cells with a
95 % margin m, for a wanted relative margin r, from the size n m / r on, rounded up. Worked case: 8 cells, a margin of 3
and r = 1/10 make 240.

*Thresholds* are compared with the noisy count of stage 1. So a group whose size is near a threshold may get another
detail than the one that is worth its noise. Where the sizes of groups are known from public numbers, each threshold is
moved to where the expected number of groups on the wrong side is least: upwards, where more groups are smaller.
Otherwise it is the size itself.

*Expected groups* follow from the public sizes and the law of stage 1 alone. The public numbers must come from an
earlier publication: a table that was counted from the records for this purpose would disclose them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.errors import ConfigError
from tallyveil.exact import as_given
from tallyveil.products.safetab.public.config import Level
from tallyveil.products.safetab.public.estimates import CONFIDENCE, NoiseSum, noise_sum, quality_of
from tallyveil.products.safetab.public.evaluation import SIZES, size_of
from tallyveil.products.safetab.public.expected import detail_chances
from tallyveil.products.safetab.public.files import read_rows
from tallyveil.products.safetab.public.group_totals import require_groups_once, totals_format
from tallyveil.products.safetab.public.levels import GroupLevel
from tallyveil.products.safetab.public.plan import LevelSet, SafetabPlan, make_plan

SIZES_FILE: Final = totals_format(r"^-?[0-9]{1,9}$", "a whole number of at most nine digits")
"""Layout of an earlier table whose totals are sizes to expect: T1's, with counts of people."""

Sizes = Mapping[Level, Integers]
"""Sizes of the groups with adaptive detail of each level set, in any order; 0 or more."""


def read_sizes(path: Path, plan: SafetabPlan) -> Sizes:
    """Sizes to expect, from the totals of an earlier table. Negative totals count as 0.

    Args:
        path: File in the layout of T1, as text or Parquet.
        plan: Its iterations; groups that have no adaptive detail in it are left out.
    Raises:
        SchemaError: the file breaks its format, repeats a group, or has an iteration that the lists do not have.
        StoreError: it cannot be read.
    """
    frame = read_rows(path, SIZES_FILE)
    require_groups_once(path, frame, [iteration.code for iteration in plan.files.iterations])
    counts = frame.with_columns(pl.col("COUNT").cast(pl.Int64).clip(0))
    return {
        level_set.place: counts.filter(
            pl.col("REGION_TYPE") == level_set.geography,
            pl.col("ITERATION_CODE").is_in(level_set.view.codes[: level_set.n_adaptive]),
        )["COUNT"].to_numpy()
        for run in plan.runs
        for level_set in run.sets
    }


def sizes_worth_a_table(level: GroupLevel, relative_margin: Fraction) -> tuple[int, ...]:
    """The size from which each table is worth its noise.

    Args:
        level: The level.
        relative_margin: Largest 95 % margin of a cell, as a share of the mean cell of the group; above 0.
    """
    margin = Fraction(quality_of(level.stage_2).margin)
    return tuple(-int(-table.n_cells * margin / relative_margin // 1) for table in level.ladder.tables)


def with_thresholds(plan: SafetabPlan, relative_margin: Fraction, sizes: Sizes) -> SafetabPlan:
    """The plan with thresholds that follow from a relative margin and, if there are any, from sizes.

    Args:
        plan: The plan; its budgets determine the margins.
        relative_margin: As for `sizes_worth_a_table`.
        sizes: Of `read_sizes`; level sets without sizes have their thresholds at the sizes that are worth a table.
    Raises:
        ConfigError: the relative margin is not above 0, or so small that no population is large enough.
    """
    if not Fraction(1, 10**6) <= relative_margin <= 10**6:
        raise ConfigError(
            f"--relative-margin is {as_given(relative_margin)}, wanted a number from 1e-6 to 1e6. For example, 1/10 "
            "gives a group a table if the margin of its mean cell is at most a tenth of the cell.",
            code="bad-flag",
        )
    thresholds = dict(plan.config.thresholds)
    for run in plan.runs:
        for level_set in run.sets:
            first, second, third = _thresholds_of(
                level_set,
                sizes_worth_a_table(level_set, relative_margin),
                sizes.get(level_set.place, _NO_SIZES),
            )
            thresholds[level_set.place] = first, second, third
    return make_plan(replace(plan.config, thresholds=thresholds), plan.files)


_NO_SIZES: Final = np.zeros(0, np.int64)


def _thresholds_of(level: GroupLevel, worth: tuple[int, ...], sizes: Integers) -> Iterator[int]:
    """The thresholds of a level."""
    noise, reach = noise_sum(level.stage_1, 1), level.stage_1.margin(CONFIDENCE)
    # Two tables may be worth their noise from sizes that are near each other.
    return accumulate((_best_threshold(noise, size, reach, sizes) for size in worth), max)


def _best_threshold(noise: NoiseSum, worth: int, reach: int, sizes: Integers) -> int:
    """The threshold within `reach` of a size at which the fewest groups are expected on the wrong side of it."""
    candidates = np.arange(max(worth - reach, 1), worth + reach + 1)
    # Sizes farther away are on the right side of every candidate.
    near, groups = np.unique(sizes[np.abs(sizes - worth) <= reach + noise.reach], return_counts=True)
    below = noise.at_most(candidates[:, None] - 1 - near)
    wrong = np.where(near >= worth, below, 1 - below) @ groups
    # Differences of less than a billionth of a group are rounding.
    order = np.lexsort((np.abs(candidates - worth), np.round(wrong, 9)))
    return int(candidates[order[0]])


def expected_groups(
    plan: SafetabPlan, sizes: Sizes, relative_margin: Fraction | None
) -> list[dict[str, Any]]:
    """How many groups of public sizes get each detail on average.

    Args:
        plan: The plan.
        sizes: Of `read_sizes`.
        relative_margin: As for `sizes_worth_a_table`; None for none.
    Returns:
        For each level set and size class with groups: "run", "geography", "level", "size" (a name of
        `evaluation.SIZES`), "groups", "details" (the expected number of each) and, with a relative margin,
        "misplaced", the expected number of groups that get a coarser or finer detail than is worth its
        noise.
    """
    return [
        {"run": run.run, "geography": level_set.geography, "level": level_set.level, **row}
        for run in plan.runs
        for level_set in run.sets
        for row in _expected_of(level_set, sizes[level_set.place], relative_margin)
    ]


def _expected_of(level: LevelSet, sizes: Integers, relative_margin: Fraction | None) -> list[dict[str, Any]]:
    unique, groups = np.unique(sizes, return_counts=True)
    chances = detail_chances(level, unique)
    details = [f"detail {number}" for number in range(chances.shape[1])]
    frame = pl.DataFrame({"COUNT": unique, "groups": groups}).with_columns(
        size_of(pl.col("COUNT")).alias("size"),
        *(pl.Series(name, chances[:, number] * groups) for number, name in enumerate(details)),
        misplaced=pl.lit(None, pl.Float64),
    )
    if relative_margin is not None:
        worth = np.searchsorted(sizes_worth_a_table(level, relative_margin), unique, side="right")
        right = chances[np.arange(len(unique)), worth]
        frame = frame.with_columns(misplaced=pl.Series((1 - right) * groups))
    sums = {
        row["size"]: row
        for row in frame.group_by("size").agg(pl.col("groups", *details, "misplaced").sum()).to_dicts()
    }
    return [
        {
            "size": size,
            "groups": sums[size]["groups"],
            "details": [sums[size][name] for name in details],
            **({} if relative_margin is None else {"misplaced": sums[size]["misplaced"]}),
        }
        for size in SIZES
        if size in sums
    ]
