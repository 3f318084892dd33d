"""Tables whose numbers agree: post-processing that reads published tables and public files, and costs nothing.

Production does not enforce consistency, and a run does not either. `consistent_tables` gives every row of T1 and T2 a
number that keeps all rules of `consistent_groups`, by the methods of `consistent_numbers`. The consistent tables of a
finished run are written to another folder.

*Variances* are those of least squares, and nowhere larger than before.

*Intervals.* The interval of the estimate covers the true count with 95 % or more; below the state, where totals are
published for their size, this holds only before the selection. It is extended to the consistent
number where that lies outside, so that it covers at least as often. Least squares lowers the variance of a nation and
its states by little, because each of them is measured about as exactly as any other; the interval is not narrowed.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from tallyveil.arrays import Floats, Integers
from tallyveil.errors import SchemaError
from tallyveil.files.manifest import ReleaseKind
from tallyveil.files.manifest_files import read_listed_table, read_manifest
from tallyveil.products.safetab.public.config import GEOGRAPHIES
from tallyveil.products.safetab.public.consistent_groups import (
    DETAIL_NUMBER,
    GROUP,
    LADDER_CELLS,
    REGION,
    Groups,
    IterationCodes,
    cell_places,
    cells_in,
    contained_groups,
    contained_pairs,
    groups_of,
    iteration_codes,
    nation_sums,
    region_names,
    rules_of,
)
from tallyveil.products.safetab.public.consistent_numbers import (
    Reduction,
    broken_rules,
    consistent_cells,
    least_squares,
)
from tallyveil.products.safetab.public.files import read_rows, some
from tallyveil.products.safetab.public.group_totals import require_groups_once, totals_format
from tallyveil.products.safetab.public.plan import coterminous_once, read_plan
from tallyveil.products.safetab.public.regions import Regions, read_regions
from tallyveil.products.safetab.public.tables import TABLES
from tallyveil.storage.outputs import own_folder, remove
from tallyveil.storage.read import published_tags
from tallyveil.storage.write import entries_of_tags, write_parquet

CONSISTENT: Final = "CONSISTENT"
CONSISTENT_VARIANCE: Final = "CONSISTENT_VARIANCE"
CONSISTENT_LOWEST: Final = "CONSISTENT_LOWEST"
CONSISTENT_HIGHEST: Final = "CONSISTENT_HIGHEST"

PUBLISHED: Final = totals_format(r"^[0-9]{1,10}$", "a whole number from 0 on, of at most ten digits")
"""Layout of totals that are published elsewhere: T1's, without negative counts."""

NOTHING_PUBLISHED: Final = pl.DataFrame(schema=dict.fromkeys(GROUP, pl.String) | {"COUNT": pl.Int64})
"""No totals that are published elsewhere."""


def consistent_tables(
    tables: tuple[pl.DataFrame, pl.DataFrame],
    regions: Regions,
    iterations: dict[str, IterationCodes],
    *,
    whole: bool = False,
    published: pl.DataFrame = NOTHING_PUBLISHED,
) -> tuple[pl.DataFrame, pl.DataFrame, dict[str, int]]:
    """T1 and T2 of a run with numbers that keep all rules.

    Args:
        tables: T1 and T2 with quality columns.
        regions: The geography of the run.
        iterations: All iterations.
        whole: Whether the numbers are whole and 0 or more. Others may break a rule by a millionth of a person.
        published: Totals that are published elsewhere, which the numbers agree with: REGION_TYPE, REGION_ID,
            ITERATION_CODE, COUNT.
    Returns:
        The same rows with CONSISTENT, CONSISTENT_VARIANCE, CONSISTENT_LOWEST and CONSISTENT_HIGHEST; and the number of
        `rules`, and of those that were `broken_before`.
    Raises:
        ConfigError: the totals that are published elsewhere contradict each other.
        SchemaError: the tables are of another geography.
        SolverError: a solver stopped early.
    """
    t1, t2 = tables
    groups = groups_of(t1, t2, regions, published)
    sums = nation_sums(groups, regions)
    rules = rules_of(groups, sums, contained_groups(groups, contained_pairs(iterations)))
    linear = least_squares(groups, sums)
    final = consistent_cells(groups, rules, linear.cells, whole=whole)
    totals, lowered = groups.sums(final)[groups.t1], np.zeros(len(groups.detail))
    for group, reductions in linear.reductions.items():
        lowered[group] = sum(reduction.covariance.sum() for reduction in reductions)
    counts = {
        "rules": sum(len(of_detail.right) for of_detail in rules),
        "broken_before": broken_rules(groups, rules, groups.cells),
    }
    return (
        _with_numbers(t1, totals, lowered[groups.t1]),
        _with_numbers(t2, *_rows_of_t2(t1, t2, groups, final, linear.reductions)),
        counts,
    )


def _rows_of_t2(
    t1: pl.DataFrame,
    t2: pl.DataFrame,
    groups: Groups,
    final: Floats | Integers,
    reductions: dict[int, list[Reduction]],
) -> tuple[Floats | Integers, Floats]:
    """The number of each row of T2, and by how much its variance is lower."""
    # A region that takes numbers of another may publish them in a coarser table.
    rows = cell_places(t2).join(
        t1.select(*GROUP, detail=DETAIL_NUMBER), on=GROUP, how="left", maintain_order="left"
    )
    published, place = rows["detail"].to_numpy(), rows["place"].to_numpy()
    numbers: Floats | Integers = np.zeros(t2.height, np.int64)
    if final.dtype != np.int64:
        numbers = np.zeros(t2.height)
    lowered = np.zeros(t2.height)
    for detail, coarser, these in _details(groups.detail[groups.t2], published):
        members, number = np.unique(groups.t2[these], return_inverse=True)
        cells = final[groups.first[members, None] + np.arange(LADDER_CELLS[detail])]
        sums = _sums(detail, coarser)
        numbers[these] = (cells @ sums.astype(final.dtype))[number, place[these]]
        by_member = np.zeros((len(members), sums.shape[1]))
        for n, group in enumerate(members.tolist()):
            for reduction in reductions.get(group, ()):
                by_member[n] += _lowered(sums, groups.noise[groups.span(group)], detail, reduction)
        lowered[these] = by_member[number, place[these]]
    return numbers, lowered


def _details(details: Integers, published: Integers) -> Iterator[tuple[int, int, Integers]]:
    """Pairs of a group's detail and a published one, with the positions of their rows."""
    for detail, coarser in sorted(set(zip(details.tolist(), published.tolist(), strict=True))):
        yield detail, coarser, np.flatnonzero((details == detail) & (published == coarser))


def _sums(detail: int, published: int) -> Integers:
    """Which cells of a detail each row of a coarser table sums, the whole sexes last: shape (cells, rows)."""
    into, n = cells_in(detail, published), LADDER_CELLS[published]
    sums = np.zeros((len(into), n + 2), np.int64)
    sums[np.arange(len(into)), into] = 1
    half = len(into) // 2
    sums[:half, n], sums[half:, n + 1] = 1, 1
    return sums


def _lowered(sums: Integers, noise: Floats, detail: int, reduction: Reduction) -> Floats:
    """By how much the variance of each row of a table is lower."""
    into = cells_in(detail, reduction.detail)
    # Within a cell of the reduction, finer cells move in proportion to their noise.
    shares = np.zeros((LADDER_CELLS[reduction.detail], sums.shape[1]))
    np.add.at(shares, into, sums * (noise / np.bincount(into, noise)[into])[:, None])
    return np.asarray(np.einsum("cr,cd,dr->r", shares, reduction.covariance, shares))


def _with_numbers(table: pl.DataFrame, numbers: Floats | Integers, lowered: Floats) -> pl.DataFrame:
    estimate, margin, value = pl.col("ESTIMATE"), pl.col("ESTIMATE_MARGIN"), pl.col(CONSISTENT)
    return table.with_columns(pl.Series(CONSISTENT, numbers)).with_columns(
        # Rounding errors may leave a little below 0 where a published total leaves nothing.
        (pl.col("ESTIMATE_VARIANCE") - pl.Series(np.maximum(lowered, 0.0)))
        .clip(0.0)
        .alias(CONSISTENT_VARIANCE),
        # True counts are not negative.
        pl.min_horizontal((estimate - margin).clip(0.0), value).alias(CONSISTENT_LOWEST),
        pl.max_horizontal(estimate + margin, value).alias(CONSISTENT_HIGHEST),
    )


def read_published_totals(
    path: Path, regions: dict[str, Regions], iterations: dict[str, IterationCodes]
) -> pl.DataFrame:
    """Totals that are published elsewhere.

    Args:
        path: File in the layout of T1, as text or Parquet.
        regions: The geography of each run.
        iterations: All iterations, those of level 0 among them.
    Raises:
        SchemaError: the file breaks its format, repeats a group, or has an unknown region or iteration.
        StoreError: it cannot be read.
    """
    frame = read_rows(path, PUBLISHED)
    require_groups_once(path, frame, iterations)
    names = pl.concat(map(region_names, regions.values()))
    lost = frame.join(names, on=REGION, how="anti")
    if lost.height:
        ids = lost.select(pl.concat_str(REGION, separator=" ").unique(maintain_order=True)).to_series()
        raise SchemaError(
            f"{path}: {lost.height} row(s) have a region that GRF-C does not have in the runs of the config: "
            f"{some(ids.to_list())}. Remove the rows.",
            code="safetab-group-totals",
        )
    return frame.select(*GROUP, pl.col("COUNT").cast(pl.Int64))


def write_consistent(
    params: Path, data: Path, run: Path, out: Path, *, whole: bool = False, published: Path | None = None
) -> dict[str, Any]:
    """Write T1 and T2 of a finished run with consistent numbers beside the published ones.

    Args:
        params: Parameter folder of the run.
        data: Folder of GRF-C. Records are not opened.
        run: Folder of the finished run.
        out: Folder to write to.
        whole: Whether the numbers are whole and 0 or more.
        published: File of totals that are published elsewhere, in the layout of T1; None for none.
    Returns:
        "files", which have the names of the run's files; and by run the number of "rules" and how many were
        "broken_before".
    Raises:
        ConfigError: the totals that are published elsewhere contradict each other.
        SchemaError: a file breaks its format, or the tables are of another geography.
        StoreError: the run is not finished or had other parameters, or a file cannot be read or written.
    """
    manifest = read_manifest(run, ReleaseKind.SAFETAB)
    plan = read_plan(params)
    coterminous_once(plan, manifest.plan_digest, run)
    regions, iterations = read_regions(data, plan.config), iteration_codes(params)
    totals = NOTHING_PUBLISHED if published is None else read_published_totals(published, regions, iterations)
    written: dict[str, pl.DataFrame] = {}
    counts: dict[str, dict[str, int]] = {}
    with own_folder(out, "safetab consistent"):
        for name, of_run in regions.items():
            paths = [f"{kind}-{name.lower()}.parquet" for kind in TABLES]
            # Checked against the manifest's SHA-256: consistency of a changed table would mean nothing.
            t1, t2 = (read_listed_table(run, manifest, path) for path in paths)
            of_published = totals.filter(pl.col("REGION_TYPE").is_in(GEOGRAPHIES[name]))
            *tables, counts[name] = consistent_tables(
                (t1, t2), of_run, iterations, whole=whole, published=of_published
            )
            written |= dict(zip(paths, tables, strict=True))
        # Tables of another run, written here before, would be taken for some of this one.
        for kind, name in product(TABLES, GEOGRAPHIES):
            remove(out / f"{kind}-{name.lower()}.parquet")
        for path, table in written.items():
            # The guarantee of the run stays with its numbers: this is post-processing and costs nothing.
            tags = entries_of_tags(published_tags(run / path))
            write_parquet(out / path, table, {**tags, "consistent": "whole" if whole else "exact to 1e-6"})
    return {"files": [out / path for path in written], "runs": counts}
