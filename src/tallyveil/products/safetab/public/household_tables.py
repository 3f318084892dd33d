"""SafeTab-H: the groups that a published T1 lists, their detail, and tables T3 and T4 from their measurements."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.errors import SchemaError, StoreError
from tallyveil.products.safetab.public.config import GEOGRAPHIES
from tallyveil.products.safetab.public.estimates import Quality, margin_of_sum, noise_sum, raised_margin
from tallyveil.products.safetab.public.files import find_file, read_file, read_rows, some
from tallyveil.products.safetab.public.group_totals import GROUP_TOTALS, KEYS, require_groups_once
from tallyveil.products.safetab.public.households import (
    TABLES,
    HouseholdDetail,
    HouseholdPlan,
    HouseholdSet,
    HouseholdTable,
    NoisyHouseholdSet,
)
from tallyveil.products.safetab.public.regions import Regions
from tallyveil.products.safetab.public.tables import OutputCheck, constant
from tallyveil.storage.paths import inside
from tallyveil.storage.read import read_text
from tallyveil.storage.write import write_file, write_parquet


@dataclass(frozen=True, slots=True, eq=False)
class ListedGroups:
    """The groups of one household set that T1 lists.

    Attributes:
        regions, iterations: Positions, ascending; int64.
        detail: The detail that the published count chooses; int64.
    """

    regions: NDArray[np.int64]
    iterations: NDArray[np.int64]
    detail: NDArray[np.int64]


def read_group_totals(data: Path, published: Path | None, plan: HouseholdPlan) -> pl.DataFrame:
    """Read the published totals that choose the detail: pop-group-totals, or T1 of a SafeTab run.

    Args:
        data: Folder of pop-group-totals. It is ignored if `published` is given.
        published: Folder of a SafeTab run, or None.
        plan: Plan with the runs to read.
    Raises:
        ConfigError, SchemaError, StoreError: the file is missing, breaks its format, lists a group twice, or lists an
            iteration that the iteration files do not have.
    """
    if published is None:
        path = find_file(data, GROUP_TOTALS)
        _, frame = read_file(data, GROUP_TOTALS)
    else:
        path = published / "t1"
        parts = []
        for run in plan.runs:
            part = path / f"{run.run.lower()}.csv"
            if not part.is_file():
                raise StoreError(
                    f"{part} does not exist. Name the folder of a finished SafeTab run.", code="input-missing"
                )
            parts.append(read_rows(part, GROUP_TOTALS))
        frame = pl.concat(parts)
    # A group that is listed twice would be measured twice with the same noise, and its detail would be unclear.
    require_groups_once(path, frame, [iteration.code for iteration in plan.files.iterations])
    return frame.with_columns(pl.col("COUNT").cast(pl.Int64))


def listed_groups(
    totals: pl.DataFrame, run: str, household_set: HouseholdSet, regions: Regions
) -> ListedGroups:
    """Groups of a set that T1 lists, with the detail that its counts choose.

    Iterations that are not tabulated at this geography are ignored, as in production. T1 may list them for regions that
    took the numbers of a region with the same blocks.

    Raises:
        SchemaError: T1 lists a region that the geography does not have, such as a region of another state.
    """
    of_set = totals.filter(
        pl.col("REGION_TYPE") == household_set.geography,
        pl.col("ITERATION_CODE").is_in(household_set.view.codes),
    )
    names = regions.names(household_set.geography)
    places = pl.DataFrame({"REGION_ID": names, "region": np.arange(len(names), dtype=np.int64)})
    codes = pl.DataFrame(
        {
            "ITERATION_CODE": household_set.view.codes,
            "iteration": np.arange(len(household_set.view.codes), dtype=np.int64),
        },
        schema={"ITERATION_CODE": pl.String, "iteration": pl.Int64},
    )
    # Left joins, so that an unknown region is seen as null instead of vanishing.
    joined = of_set.join(places, on="REGION_ID", how="left").join(codes, on="ITERATION_CODE", how="left")
    lost = joined.filter(pl.col("region").is_null())
    if lost.height:
        raise SchemaError(
            f"the published totals list {lost['REGION_ID'].n_unique()} region(s) of {household_set.geography} that "
            f"GRF-C does not have in the {run} run: {some(lost['REGION_ID'].unique(maintain_order=True).to_list())}. "
            "Give the T1 of these states, and the same geography.",
            code="safetab-group-totals",
        )
    # Measuring cuts this list into slices by region.
    joined = joined.sort("region", "iteration")
    # "right": a count equal to a threshold gets the finer detail, as in SafeTab.
    detail = np.searchsorted(np.array(household_set.thresholds), joined["COUNT"].to_numpy(), side="right")
    return ListedGroups(joined["region"].to_numpy(), joined["iteration"].to_numpy(), detail.astype(np.int64))


def require_groups(run: str, n_groups: int) -> None:
    """Refuse totals without groups of a run. Most likely they belong to the other run.

    Raises:
        SchemaError: there is no group.
    """
    if not n_groups:
        raise SchemaError(
            f"the published totals list no population group of the {run} run ({', '.join(GEOGRAPHIES[run])}) at a "
            "level that has a budget. Give the T1 of that run, or switch the run off.",
            code="safetab-group-totals",
        )


def totals_digest(totals: pl.DataFrame) -> bytes:
    """SHA-256 of the published totals; it does not depend on their order."""
    # Sorted, because the order of the rows of T1 means nothing.
    text = totals.select(*KEYS, "COUNT").sort(KEYS).write_csv(separator="|")
    return hashlib.sha256(text.encode()).digest()


def household_rows(
    household_set: HouseholdSet,
    regions: Regions,
    groups: ListedGroups,
    cells: Sequence[NDArray[np.int64]],
    *,
    allow_negative: bool,
) -> pl.DataFrame:
    """Published rows of a set, with variances and margins.

    Args:
        household_set: The set.
        regions: The geography.
        groups: The groups of the set.
        cells: For each detail in order, the noisy cells of its groups; int64, shape (groups, n_cells).
        allow_negative: Whether negative cells remain.
    """
    names, codes = (
        regions.names(household_set.geography),
        pl.Series(household_set.view.codes, dtype=pl.String),
    )
    frames = []
    for number, (detail, noisy) in enumerate(zip(household_set.layout.details, cells, strict=True)):
        places = np.flatnonzero(groups.detail == number)
        for cell, parts in detail.sums:
            quality = quality_of_sum(household_set, len(parts))
            measured = noisy[:, list(parts)]
            # Each published number sums measured cells; no number is measured twice.
            plain, margin = measured.sum(axis=1), np.full(len(places), quality.margin)
            count = plain if allow_negative else np.maximum(measured, 0).sum(axis=1)
            if not allow_negative:
                margin = raised_margin(plain, count, quality.margin)
            frames.append(
                pl.DataFrame(
                    {
                        "REGION_ID": names.gather(groups.regions[places]),
                        "REGION_TYPE": constant(household_set.geography, len(places)),
                        "ITERATION_CODE": codes.gather(groups.iterations[places]),
                        household_set.layout.column: constant(str(cell), len(places)),
                        "COUNT": count,
                        "VARIANCE": np.full(len(places), quality.variance),
                        "MARGIN": margin,
                        "TABLE": constant(detail.folder, len(places)),
                    }
                )
            )
    return pl.concat(frames).sort("TABLE", *KEYS, household_set.layout.column)


def quality_of_sum(household_set: NoisyHouseholdSet, n: int) -> Quality:
    """Variance and margin of a sum of n measured cells."""
    return Quality(
        n * household_set.law.variance_float(), float(margin_of_sum(noise_sum(household_set.law, n)))
    )


def household_table_paths(run: str) -> list[str]:
    """Files that `write_household_tables` writes for a run, "US" or "PR", within the output folder."""
    stem = run.lower()
    texts = [f"{table.name}/{detail.folder}/{stem}.csv" for table in TABLES for detail in table.details]
    return [*texts, *(f"{table.name}-{stem}.parquet" for table in TABLES)]


def write_household_tables(
    out: Path, run: str, table: HouseholdTable, frame: pl.DataFrame, tags: Mapping[str, str]
) -> None:
    """Write a table in the published layout, with a folder for each detail, and as Parquet with variance and margin.

    Raises:
        StoreError: a file cannot be written.
    """
    columns = [*KEYS, table.column, "COUNT"]
    for detail in table.details:
        part = frame.filter(pl.col("TABLE") == detail.folder).select(columns)

        # Bound as a default, because the loop variable will have changed when the file is written.
        def write(path: Path, part: pl.DataFrame = part) -> None:
            part.write_csv(path, separator="|", quote_style="never")

        write_file(inside(out, table.name, detail.folder, f"{run.lower()}.csv"), write)
    write_parquet(inside(out, f"{table.name}-{run.lower()}.parquet"), frame, {**tags, "table": table.name})


def read_household_text(out: Path, run: str, table: HouseholdTable, detail: HouseholdDetail) -> pl.DataFrame:
    """The text of a published sub-table."""
    return read_text(inside(out, table.name, detail.folder, f"{run.lower()}.csv"), "|")


def check_household_tables(
    out: Path, run: str, table: HouseholdTable, groups: int, *, allow_negative: bool
) -> tuple[OutputCheck, ...]:
    """Read every published sub-table and check layout, cells, sums, signs, and that every group is there once.

    Args:
        out: Output folder.
        run: "US" or "PR".
        table: T3 or T4.
        groups: Number of groups that the published totals list.
        allow_negative: Whether negative counts are allowed.
    """
    checks, seen = [], 0
    for detail in table.details:
        frame = read_household_text(out, run, table, detail)
        name = f"{run} {detail.folder}"
        numbers = frame.with_columns(pl.col("COUNT").cast(pl.Int64, strict=False))
        checks.append(_check(f"{name}: whole counts", numbers["COUNT"].null_count() == 0))
        # A group a row and a cell a column: a null is then a missing cell.
        wide = numbers.pivot(on=table.column, index=KEYS, values="COUNT", sort_columns=True)
        wanted = {str(cell) for cell, _ in detail.sums}
        complete = not frame.height or (
            set(wide.columns) - set(KEYS) == wanted and not wide.null_count().sum_horizontal().item()
        )
        checks.append(_check(f"{name}: every cell of every group", complete))
        checks.append(
            _check(f"{name}: each number once", not frame.select(frame.columns[:-1]).is_duplicated().any())
        )
        checks.append(
            _check(f"{name}: sums", not frame.height or (complete and _sums_hold(wide, detail.sums)))
        )
        signs = allow_negative or not (numbers["COUNT"] < 0).any()
        checks.append(_check(f"{name}: counts of the sign allowed", signs))
        # Every group has one detail, so the heights of all details add up to the groups of T1.
        seen += wide.height
    checks.append(_check(f"{run} {table.name}: every group of T1, once", seen == groups))
    return tuple(checks)


def _sums_hold(wide: pl.DataFrame, sums: Sequence[tuple[int, tuple[int, ...]]]) -> bool:
    # Published cells that are one measured cell; the others must be sums of these.
    single = {parts[0]: str(cell) for cell, parts in sums if len(parts) == 1}
    return all(
        bool((wide[str(cell)] == wide.select(single[p] for p in parts).sum_horizontal()).all())
        for cell, parts in sums
    )


def _check(name: str, passed: bool) -> OutputCheck:
    return OutputCheck(name, passed=passed, problem="" if passed else "it does not hold")
