"""Tables from noisy measurements, and their published files, in the Census layout and for any records.

T1 has the total of each population group. T2 has its sex by age and its sexes. COUNT is what production
publishes: a noisy count, or a sum of noisy cells. ESTIMATE is the least-squares estimate of the same number
(`estimates`).

The files of the Census layout:

    t1/us.csv, t1/pr.csv, t1/headers.csv      REGION_ID|REGION_TYPE|ITERATION_CODE|COUNT
    t2/us.csv, t2/pr.csv, t2/headers.csv      REGION_ID|REGION_TYPE|ITERATION_CODE|AGESTART|AGEEND|SEX|COUNT
    t1-us.parquet, t2-us.parquet, ...         the same rows with variance, margin, estimate and its method

The files of a level of population groups in records of any kind:

    totals/<level>.parquet     one row for each group: its labels, COUNT, the quality columns, DETAIL
    cells/<level>.parquet      one row for each cell of a group with a table: its labels, DETAIL, CELL,
                               COUNT, the quality columns

Written files are read back and checked.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.errors import SolverError, StoreError
from tallyveil.products.safetab.public.ages import DETAILS, OLDEST, SEXES
from tallyveil.products.safetab.public.config import GEOGRAPHIES, NATIONWIDE, SafetabConfig
from tallyveil.products.safetab.public.estimates import noise_sum, quantile_of_sum
from tallyveil.products.safetab.public.files import some
from tallyveil.products.safetab.public.group_numbers import (
    QUALITY_COLUMNS,
    CollectedGroups,
    GroupMeasurements,
    NumberedGroups,
    numbers_of,
)
from tallyveil.products.safetab.public.group_plan import GroupPlan, MappedLevel
from tallyveil.products.safetab.public.levels import bounds_of
from tallyveil.products.safetab.public.plan import LADDER, LevelSet, SafetabPlan, suppression_bound
from tallyveil.products.safetab.public.regions import ID_DIGITS, Regions, Twin, base_name
from tallyveil.storage.paths import file_name, inside
from tallyveil.storage.read import UNREADABLE, read_published, read_text
from tallyveil.storage.write import write_file, write_parquet, write_text

T1_COLUMNS: Final = ("REGION_ID", "REGION_TYPE", "ITERATION_CODE", "COUNT")
T2_COLUMNS: Final = ("REGION_ID", "REGION_TYPE", "ITERATION_CODE", "AGESTART", "AGEEND", "SEX", "COUNT")
DETAIL_NAMES: Final = LADDER.names
TOTAL_ONLY_DETAIL: Final = LADDER.total_only
ANY: Final = "*"
"""Value of AGESTART and AGEEND in a row of a whole sex."""


class SetTables:
    """Collects the tables of one level set, part by part.

    Args:
        level_set: The level set.
        regions: The geography of the run.
        config: The config.
        exact: Whether the measurements have no noise. Then no estimate is made, and every margin is 0.
    """

    def __init__(
        self, level_set: LevelSet, regions: Regions, config: SafetabConfig, *, exact: bool = False
    ) -> None:
        self.set = level_set
        self.regions = regions
        self.allow_negative = config.allow_negative
        self._chance = config.suppression
        self._exact = exact
        self._collected = CollectedGroups(level_set)

    @property
    def n_counts(self) -> int:
        """Number of noisy counts in the measurements."""
        return self._collected.n_counts

    def add(self, part: GroupMeasurements) -> None:
        """Add the published groups of one part of the measurements."""
        self._collected.add(part)

    def t1(self, twins: Sequence[Twin] = ()) -> pl.DataFrame:
        """T1 with variances and margins, for the measured regions and their twins."""
        frames = [self._t1(*groups) for groups in self._groups(twins)]
        return pl.concat(frames) if frames else _empty(T1_COLUMNS, ("DETAIL", "SAME_AS"))

    def t2(self, twins: Sequence[Twin] = ()) -> pl.DataFrame:
        """T2 with variances and margins, for the measured regions and their twins."""
        frames = [
            self._t2(*groups) for groups in self._groups(twins) if 0 < groups[0].detail < TOTAL_ONLY_DETAIL
        ]
        return pl.concat(frames) if frames else _empty(T2_COLUMNS, ("SAME_AS",))

    def _groups(self, twins: Sequence[Twin]) -> Iterator[tuple[NumberedGroups, str, pl.Series, bool]]:
        """Groups of every detail: (groups, geography, region ids by position, whether they belong to twins)."""
        place = self.set.geography
        names = self.regions.names(place)
        for groups in self._collected.by_detail():
            yield groups, place, names, False
            # All twins in one geography have the thresholds of its level set.
            for geography in dict.fromkeys(twin.geography for twin in twins):
                of_geography = [twin for twin in twins if twin.geography == geography]
                for copied in self._copied(groups, of_geography):
                    yield copied, geography, self.regions.names(geography), True

    def _copied(self, groups: NumberedGroups, twins: Sequence[Twin]) -> Iterator[NumberedGroups]:
        """The groups of regions with a twin in one geography, at the twin's position and in the twin's detail.

        The twin's own thresholds and the measured stage-1 count choose the detail. It is at most as fine as the
        measured detail (`regions`), so its cells are sums of measured cells. Below the state, total-only groups are
        not tabulated and small totals are suppressed, whichever region was measured.
        """
        # By position of the measured region; -1 without a twin.
        twin_of = np.full(len(self.regions.ids[self.set.geography]), -1, np.int64)
        twin_of[[twin.measured for twin in twins]] = [twin.region for twin in twins]
        groups = groups.subset(twin_of[groups.rows] >= 0)
        groups = replace(groups, rows=twin_of[groups.rows])
        nationwide = twins[0].geography in NATIONWIDE
        # Below the state those iterations do not exist in the list.
        if groups.detail == TOTAL_ONLY_DETAIL:
            if nationwide and len(groups.rows):
                yield groups
            return
        thresholds = twins[0].thresholds
        details = np.searchsorted(np.array(thresholds), groups.stage_1, side="right")
        for detail in np.unique(details).tolist():
            of_detail = details == detail
            if detail == 0 and not nationwide and self._chance is not None:
                # The total may now be a sum of measured cells, whose noise is larger, so the bound is that of
                # the sum.
                of_detail &= groups.cells.sum(axis=1) > self._bound(groups.cells.shape[1], self._chance)
            if of_detail.any():
                # Stage 1 has passed both choices, so the estimate is corrected for both.
                bounds = _narrower(groups.bounds, bounds_of(thresholds, detail))
                yield replace(groups.subset(of_detail), detail=detail, bounds=bounds)

    def _bound(self, n: int, chance: Fraction) -> int:
        """The bound that a total from n cells must exceed to be published."""
        law = self.set.stage_2
        # For one draw the bound is certified; for a sum it is by floats and rounded up where they cannot
        # decide.
        return suppression_bound(law, chance) if n == 1 else quantile_of_sum(noise_sum(law, n), chance)

    def _t1(self, groups: NumberedGroups, geography: str, names: pl.Series, twin: bool) -> pl.DataFrame:
        n, size = groups.cells.shape[1], len(groups.rows)
        columns = {
            **self._keys(groups, geography, names, 1),
            **self._numbers(groups, [np.arange(n)]),
            "DETAIL": constant(DETAIL_NAMES[groups.detail], size),
            "SAME_AS": constant(self.set.geography if twin else "", size),
        }
        return pl.DataFrame(columns)

    def _t2(self, groups: NumberedGroups, geography: str, names: pl.Series, twin: bool) -> pl.DataFrame:
        """Rows of each group: its two sexes, then its cells."""
        detail, measured = DETAILS[groups.detail - 1], DETAILS[groups.measured - 1]
        size, into = len(groups.rows), measured.cells_in(detail)
        half = measured.n_cells // 2
        sums = [np.arange(half), np.arange(half, 2 * half)]
        # For a measured region the two details are the same and each sum has one cell.
        sums += [np.flatnonzero(into == cell) for cell in range(detail.n_cells)]
        spans = [(ANY, ANY)] * 2 + [(str(first), str(last)) for first, last in detail.spans] * 2
        sex = [*SEXES, *(s for s in SEXES for _ in range(detail.n_cells // 2))]
        columns: dict[str, Any] = {
            **self._keys(groups, geography, names, len(sums)),
            "AGESTART": _tiled([start for start, _ in spans], size),
            "AGEEND": _tiled([end for _, end in spans], size),
            "SEX": _tiled(sex, size),
            **self._numbers(groups, sums),
            "SAME_AS": constant(self.set.geography if twin else "", size * len(sums)),
        }
        return pl.DataFrame(columns)

    def _numbers(self, groups: NumberedGroups, sums: Sequence[Integers]) -> dict[str, Any]:
        return numbers_of(self.set, groups, sums, allow_negative=self.allow_negative, exact=self._exact)

    def _keys(
        self, groups: NumberedGroups, geography: str, names: pl.Series, times: int
    ) -> dict[str, pl.Series]:
        codes = pl.Series(self.set.view.codes)
        rows, columns = np.repeat(groups.rows, times), np.repeat(groups.columns, times)
        return {
            "REGION_ID": names.gather(rows),
            "REGION_TYPE": constant(geography, len(rows)),
            "ITERATION_CODE": codes.gather(columns),
        }


def _narrower(
    left: tuple[int | None, int | None], other: tuple[int | None, int | None]
) -> tuple[int | None, int | None]:
    """The bounds that satisfy both pairs of bounds."""
    lowest = [x for x in (left[0], other[0]) if x is not None]
    highest = [x for x in (left[1], other[1]) if x is not None]
    return max(lowest, default=None), min(highest, default=None)


def constant(text: str, n: int) -> pl.Series:
    """A column of one text, made without a query, which would take longer than the other columns of a small table."""
    return pl.Series([text], dtype=pl.String).new_from_index(0, n)


def _tiled(values: list[str], times: int) -> pl.Series:
    return pl.Series(values, dtype=pl.String).gather(np.tile(np.arange(len(values)), times))


def _empty(columns: Sequence[str], further: Sequence[str]) -> pl.DataFrame:
    # Empty tables keep the types, so that runs can be joined.
    kinds: dict[str, Any] = dict.fromkeys((*columns, *QUALITY_COLUMNS, *further), pl.String)
    kinds |= dict.fromkeys(QUALITY_COLUMNS[:-1], pl.Float64)
    return pl.DataFrame(schema=kinds | {"COUNT": pl.Int64})


TABLES: Final = {"t1": T1_COLUMNS, "t2": T2_COLUMNS}
HEADERS: Final = tuple(f"{name}/headers.csv" for name in TABLES)


def table_paths(run: str) -> list[str]:
    """Files that `write_tables` writes for a run, "US" or "PR", within the output folder."""
    stem = run.lower()
    return [path for name in TABLES for path in (f"{name}/{stem}.csv", f"{name}-{stem}.parquet")]


def write_headers(out: Path) -> None:
    """Write the headers of both tables, which all runs share. It raises the errors of `write_tables`."""
    for path, columns in zip(HEADERS, TABLES.values(), strict=True):
        write_text(out / path, "|".join(columns))


def write_tables(out: Path, run: str, t1: pl.DataFrame, t2: pl.DataFrame, tags: Mapping[str, str]) -> None:
    """Write both tables of a run, as text and as Parquet.

    Args:
        out: Output folder.
        run: "US" or "PR".
        t1, t2: Tables with quality columns, as `SetTables` makes them.
        tags: Metadata of the Parquet files.
    Raises:
        StoreError: a file cannot be written.
    """
    for name, frame in (("t1", t1), ("t2", t2)):
        columns = TABLES[name]
        # The published layout has no quality columns; they are in the Parquet file of the same rows.
        _write_text_table(inside(out, name, f"{run.lower()}.csv"), frame.select(columns))
        write_parquet(inside(out, f"{name}-{run.lower()}.parquet"), frame, {**tags, "table": name})


def _write_text_table(path: Path, frame: pl.DataFrame) -> None:
    def write(temporary: Path) -> None:
        frame.write_csv(temporary, separator="|", quote_style="never")

    write_file(path, write)


@dataclass(frozen=True, slots=True)
class OutputCheck:
    """One promise about the written files, and whether it is kept.

    Attributes:
        name: The promise.
        passed: Whether it is kept.
        problem: What was found if it is not kept.
    """

    name: str
    passed: bool
    problem: str = ""


def check_outputs(out: Path, plan: SafetabPlan) -> tuple[OutputCheck, ...]:
    """Read the published tables and compare them with the plan.

    Raises:
        StoreError: a table is missing or cannot be read.
    """
    checks: list[OutputCheck] = []
    for run in plan.runs:
        # Read back from the disk: what is checked is what will be published.
        t1, t2 = (read_text_table(out, run.run, name) for name in TABLES)
        for name, frame in (("t1", t1), ("t2", t2)):
            checks += [
                OutputCheck(f"{run.run} {name}: {check.name}", check.passed, check.problem)
                for check in (*_common(frame, TABLES[name], run.run, plan), *_twice(frame, TABLES[name]))
            ]
        checks += [
            OutputCheck(f"{run.run} t2: {check.name}", check.passed, check.problem)
            for check in (*_cell_checks(t2), *_agree(t1, t2))
        ]
    return tuple(checks)


def require_passed(checks: tuple[OutputCheck, ...]) -> None:
    """Refuse outputs that break a promise.

    Raises:
        SolverError: at least one check failed; the message lists all that failed.
    """
    failed = [f"{check.name}: {check.problem}" for check in checks if not check.passed]
    if failed:
        lines = "".join(f"\n- {line}" for line in failed)
        # Not a mistake of the user: the tables were written by this program a moment ago.
        raise SolverError(
            f"the written tables fail {len(failed)} check(s):{lines}\nDo not publish them. If the disk is not "
            "damaged, please report this.",
            code="safetab-output",
        )


def read_text_table(out: Path, run: str, name: str) -> pl.DataFrame:
    """The text of a published table of a run, "t1" or "t2", in its columns; raises StoreError."""
    path = out / name / f"{run.lower()}.csv"
    try:
        frame = read_text(path, "|", None)
    except UNREADABLE as error:
        raise StoreError(
            f"the table {path} cannot be read: {type(error).__name__}. Restore the table from a copy. "
            "Making the tables again would be a new spend.",
            code="release-unreadable",
        ) from None
    if tuple(frame.columns) != TABLES[name]:
        raise StoreError(
            f"the table {path} has columns {some(frame.columns)}, wanted {', '.join(TABLES[name])}. Restore the "
            "table from a copy.",
            code="release-damaged",
        )
    return frame


def _common(frame: pl.DataFrame, columns: tuple[str, ...], run: str, plan: SafetabPlan) -> list[OutputCheck]:
    """Checks of formats, regions in the run's states, known iterations, and integer counts of the allowed sign."""
    kind, region = pl.col("REGION_TYPE"), pl.col("REGION_ID")
    digits = {name: ID_DIGITS[base_name(name)] for name in GEOGRAPHIES[run]}
    known = frame.filter(kind.is_in(list(digits)))
    length = known["REGION_TYPE"].replace_strict(digits, return_dtype=pl.Int64)
    wrong_id = known.filter(
        ~pl.col("REGION_ID").str.contains(r"^[0-9]+$") | (pl.col("REGION_ID").str.len_chars() != length)
    )
    # Ids of the nation and of tribal areas do not begin with a state.
    free = kind.is_in(["USA", "AIANNH"])
    outside = frame.filter(~free & ~region.str.slice(0, 2).is_in(plan.config.states_of(run)))
    codes = [iteration.code for iteration in plan.files.iterations]
    # As text, so that 1.0 or 1e3 is refused as well.
    whole = frame.filter(~pl.col("COUNT").str.contains(r"^-?[0-9]+$").fill_null(value=False))
    negative = frame.filter(pl.col("COUNT").str.starts_with("-"))
    return [
        _check("region types of the run", frame.filter(~kind.is_in(list(digits)))),
        _check("region ids of the right length", wrong_id),
        _check("regions in the states of the run", outside),
        _check("known iterations", frame.filter(~pl.col("ITERATION_CODE").is_in(codes))),
        _check("whole counts", whole),
        _check("counts of the sign allowed", negative if not plan.config.allow_negative else negative[:0]),
        _check("no value missing", frame.filter(pl.any_horizontal(pl.col(columns).is_null()))),
    ]


def _twice(frame: pl.DataFrame, columns: tuple[str, ...]) -> list[OutputCheck]:
    return [_check("each number once", frame.filter(frame.select(columns[:-1]).is_duplicated()))]


def _cell_checks(t2: pl.DataFrame) -> list[OutputCheck]:
    """Checks of age groups, sexes, and the number of rows of each group."""
    spans = {(ANY, ANY)} | {(str(a), str(b)) for detail in DETAILS for a, b in detail.spans}
    known = pl.DataFrame([*spans], schema=["AGESTART", "AGEEND"], orient="row")
    unknown = t2.join(known, on=["AGESTART", "AGEEND"], how="anti")
    # Two sexes and the cells: 2 + 8, 2 + 18 or 2 + 46 rows.
    sizes = t2.group_by(T2_COLUMNS[:3]).len().filter(~pl.col("len").is_in([2 + d.n_cells for d in DETAILS]))
    return [
        _check(f"age groups from 0 to {OLDEST}", unknown),
        _check("sexes", t2.filter(~pl.col("SEX").is_in(SEXES))),
        _check("10, 20 or 48 rows a group", sizes),
    ]


def _agree(t1: pl.DataFrame, t2: pl.DataFrame) -> list[OutputCheck]:
    """Checks that sexes and totals are the sums of the cells."""
    keys = list(T2_COLUMNS[:3])
    counts = pl.col("COUNT").cast(pl.Int64, strict=False)
    cells = t2.filter(pl.col("AGESTART") != ANY).group_by([*keys, "SEX"]).agg(counts.sum().alias("cells"))
    # Full: cells without a sex's row are a fault, too.
    sexes = t2.filter(pl.col("AGESTART") == ANY).join(cells, on=[*keys, "SEX"], how="full", coalesce=True)
    of_group = cells.group_by(keys).agg(pl.col("cells").sum())
    # Left: groups without a table are in T1 alone.
    totals = of_group.join(t1, on=keys, how="left")
    off = (counts != pl.col("cells")).fill_null(value=True)
    return [
        _check("sexes are the sums of their cells", sexes.filter(off)),
        _check("T1 is the sum of the cells", totals.filter(off)),
    ]


def _check(name: str, broken: pl.DataFrame) -> OutputCheck:
    if broken.is_empty():
        return OutputCheck(name, passed=True)
    keys = [column for column in T2_COLUMNS[:3] if column in broken.columns]
    # One group is enough to look at; published ids may be shown.
    first = ", ".join(str(value) for value in broken.select(keys).row(0))
    return OutputCheck(name, passed=False, problem=f"{broken.height} row(s), the first of {first}")


_SUM: Final = "cells/sum"
_ROWS: Final = "cells/rows"
"""Columns of a check. No grouping has such a name, because no name holds a slash."""


def group_table_paths(level: str) -> list[str]:
    """Files of a level, by its name, within the output folder."""
    return [f"{folder}/{file_name(level)}.parquet" for folder in ("totals", "cells")]


def group_tables(level: MappedLevel, collected: CollectedGroups) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Totals and cells of all groups of a level."""
    parts = list(collected.by_detail())
    totals = pl.concat([_totals(level, groups) for groups in parts])
    # Groups were collected by detail; readers expect them in the order of the plan.
    order = np.argsort(np.concatenate([_places(level, groups) for groups in parts]))
    cells = [_cells(level, groups) for groups in parts if 0 < groups.detail < level.ladder.total_only]
    return totals[order], pl.concat(cells) if cells else _no_cells(level)


def write_group_tables(
    out: Path, level: MappedLevel, tables: tuple[pl.DataFrame, pl.DataFrame], tags: Mapping[str, str]
) -> None:
    """Write both tables of a level.

    Raises:
        StoreError: a file cannot be written.
    """
    for path, frame in zip(group_table_paths(level.name), tables, strict=True):
        write_parquet(inside(out, *path.split("/")), frame, {**tags, "table": path.split("/")[0]})


def read_group_tables(out: Path, level: MappedLevel) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The published totals and cells of a level.

    Raises:
        StoreError: a table is missing or cannot be read.
    """
    totals, cells = (read_published(inside(out, *path.split("/"))) for path in group_table_paths(level.name))
    return totals, cells


def check_group_tables(out: Path, plan: GroupPlan) -> tuple[OutputCheck, ...]:
    """Read the published tables, and compare them with the plan.

    Raises:
        StoreError: a table is missing or cannot be read.
    """
    return tuple(check for level in plan.levels for check in _checks(out, level))


def _totals(level: MappedLevel, groups: NumberedGroups) -> pl.DataFrame:
    size, n = len(groups.rows), groups.cells.shape[1]
    return pl.DataFrame(
        {
            **level.listed.labels(_places(level, groups)),
            **numbers_of(level, groups, [np.arange(n)], allow_negative=True),
            # new_from_index repeats one value without building a list.
            "DETAIL": pl.Series([level.ladder.names[groups.detail]], dtype=pl.String).new_from_index(0, size),
        }
    )


def _cells(level: MappedLevel, groups: NumberedGroups) -> pl.DataFrame:
    size, labels = len(groups.rows), level.cell_labels(groups.detail)
    n = len(labels)
    return pl.DataFrame(
        {
            **level.listed.labels(np.repeat(_places(level, groups), n)),
            "DETAIL": pl.Series([level.ladder.names[groups.detail]], dtype=pl.String).new_from_index(
                0, size * n
            ),
            "CELL": pl.Series(labels, dtype=pl.String).gather(np.tile(np.arange(n), size)),
            **numbers_of(level, groups, list(np.arange(n)[:, None]), allow_negative=True),
        }
    )


def _places(level: MappedLevel, groups: NumberedGroups) -> Integers:
    """Positions of groups in the list of the level, counted row by row."""
    return groups.rows * level.width + groups.columns


def _no_cells(level: MappedLevel) -> pl.DataFrame:
    texts = (*(grouping.name for grouping in level.listed.groupings), "DETAIL", "CELL")
    kinds: dict[str, type[pl.DataType]] = dict.fromkeys(texts, pl.String)
    kinds |= {"COUNT": pl.Int64, **dict.fromkeys(QUALITY_COLUMNS, pl.Float64), "METHOD": pl.String}
    return pl.DataFrame(schema=kinds)


def _checks(out: Path, level: MappedLevel) -> Iterator[OutputCheck]:
    totals, cells = read_group_tables(out, level)
    keys = [grouping.name for grouping in level.listed.groupings]
    wanted = pl.DataFrame(level.listed.labels(np.arange(level.groups)))
    # Sorted on both sides, since the order is not promised. A level without groupings has one group and no
    # label.
    once = (
        totals.height == level.groups and totals.select(keys).sort(keys).equals(wanted.sort(keys))
        if keys
        else (totals.height == 1)
    )
    yield OutputCheck(f"{level.name}: every group once", once, "" if once else f"{totals.height} rows")
    sizes = {name: level.ladder.n_cells(n) for n, name in enumerate(level.ladder.names)}
    tabulated = totals.filter(pl.col("DETAIL").is_in(list(level.ladder.names[1:-1])))
    sums = cells.group_by([*keys, "DETAIL"]).agg(pl.col("COUNT").sum().alias(_SUM), pl.len().alias(_ROWS))
    # Full: a table without a total and a total without a table are both faults.
    joined = tabulated.join(sums, on=[*keys, "DETAIL"], how="full", coalesce=True)
    n_cells = pl.col("DETAIL").replace_strict(sizes, return_dtype=pl.Int64)
    off = joined.filter(
        # A null means that one side is missing, and so counts as a fault.
        ((pl.col("COUNT") != pl.col(_SUM)) | (pl.col(_ROWS) != n_cells)).fill_null(value=True)
    )
    problem = "" if off.is_empty() else f"{off.height} group(s)"
    yield OutputCheck(f"{level.name}: totals are the sums of their cells", off.is_empty(), problem)
