"""The published layout of T1 and T2, the same tables as Parquet, and checks of the written files.

t1/us.csv, t1/pr.csv, t1/headers.csv      REGION_ID|REGION_TYPE|ITERATION_CODE|COUNT
t2/us.csv, t2/pr.csv, t2/headers.csv      REGION_ID|REGION_TYPE|ITERATION_CODE|AGESTART|AGEEND|SEX|COUNT
t1-us.parquet, t2-us.parquet, ...         the same rows with variance, margin, estimate and its method
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from tallyveil.errors import SolverError, StoreError
from tallyveil.products.safetab.public.ages import DETAILS, OLDEST, SEXES
from tallyveil.products.safetab.public.config import GEOGRAPHIES
from tallyveil.products.safetab.public.input_errors import some
from tallyveil.products.safetab.public.plan import SafetabPlan
from tallyveil.products.safetab.public.regions import ID_DIGITS, base_name
from tallyveil.products.safetab.public.tables import ANY, T1_COLUMNS, T2_COLUMNS
from tallyveil.storage.paths import inside
from tallyveil.storage.read import UNREADABLE, read_text
from tallyveil.storage.write import write_file, write_parquet, write_text

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
        t1, t2 = (_read(out / name / f"{run.run.lower()}.csv", name) for name in TABLES)
        for name, frame in (("t1", t1), ("t2", t2)):
            checks += [
                OutputCheck(f"{run.run} {name}: {check.name}", check.passed, check.problem)
                for check in (*_common(frame, TABLES[name], run.run, plan), *_twice(frame, TABLES[name]))
            ]
        checks += [
            OutputCheck(f"{run.run} t2: {check.name}", check.passed, check.problem)
            for check in (*_cells(t2), *_agree(t1, t2))
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


def _read(path: Path, name: str) -> pl.DataFrame:
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


def _cells(t2: pl.DataFrame) -> list[OutputCheck]:
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
