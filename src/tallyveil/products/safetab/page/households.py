"""The report of a SafeTab-H run, from its published files only, and a separate report of its errors."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl

from tallyveil.files.evaluation.store import FOLDER
from tallyveil.files.kinds import ReleaseKind
from tallyveil.files.manifest import Manifest
from tallyveil.files.manifest_files import read_listed, read_listed_table, read_manifest
from tallyveil.products.safetab.page.persons import (
    ExpectedDetail,
    error_plot,
    level_parameters,
    plots_points,
    privacy_texts,
    run_values,
    short_values,
)
from tallyveil.products.safetab.page.short import geography_title, value_title
from tallyveil.products.safetab.public.evaluation import SIZES, size_of
from tallyveil.products.safetab.public.households import StatedHouseholdPlan
from tallyveil.report.accuracy import Matrix
from tallyveil.report.page import REPORT, frame_texts, write_page
from tallyveil.report.wording import groups_counted, rounded
from tallyveil.schema.unit import Unit

HOUSEHOLD: Final = Unit("household", "households")


def write_households_report(out: Path) -> Path:
    """Write `report.html` of a SafeTab-H run: the guarantee, the expected errors and the published numbers.

    Args:
        out: Folder of the finished run, with expected.json.
    Raises:
        StoreError: a published file is missing or cannot be read.
    Privacy: reads published files only, so the page adds nothing to what they reveal.
    """
    manifest = read_manifest(out, ReleaseKind.HOUSEHOLDS)
    plan = read_listed(out, manifest, "plan.json", StatedHouseholdPlan)
    expected = read_listed(out, manifest, "expected.json", list[ExpectedDetail])
    geographies = list(dict.fromkeys(detail["geography"] for detail in expected))
    published = {
        table: _published(out, manifest, table, list(manifest.body["sizes"])) for table in ("t3", "t4")
    }
    totals = [frame.select("COUNT", "MARGIN", "SIZE") for frame in published.values()]
    values = {
        **run_values(out, manifest, plan, _name),
        **short_values(out, manifest, pl.concat(totals), HOUSEHOLD, "A published count of people"),
        "privacy": [privacy_texts(run, privacy) for run, privacy in manifest.privacy.items()],
        "details": [{**detail, "geography": geography_title(detail["geography"])} for detail in expected],
        "published": [(name.upper(), _by_size(frame, geographies)) for name, frame in published.items()],
    }
    return write_page(out / REPORT, "safetab_households.html.j2", values, module=__name__)


def write_households_evaluation(out: Path, errors: Mapping[str, pl.DataFrame]) -> Path:
    """Write `evaluation/report.html`: errors of a SafeTab-H run, or of several simulated runs, by size of the group.

    Privacy: none. The page begins with a warning.
    """
    manifest = read_manifest(out, ReleaseKind.HOUSEHOLDS)
    frame = errors["errors-households"]
    geographies = list(dict.fromkeys(frame["REGION_TYPE"]))
    detailed = frame.filter(pl.col("LEVEL") == frame["LEVEL"].max(), pl.col("ROW") == "cell")
    plots = [
        (
            name,
            error_plot(
                name.lower(),
                "COUNT",
                detailed.filter(pl.col("TABLE") == name),
                geographies,
                units=HOUSEHOLD.many,
            ),
        )
        for name in ("T3", "T4")
    ]
    tables = [
        (name, frame_texts(frame.filter(pl.col("TABLE") == name).drop("TABLE"), value_title))
        for name in ("T3", "T4")
    ]
    values = {
        "run": manifest.run,
        "points": plots_points(plots),
        "plots": plots,
        "tables": tables,
        "parameters": level_parameters(errors),
        "version": ", ".join(manifest.tallyveil),
    }
    return write_page(out / FOLDER / REPORT, "safetab_households_evaluation.html.j2", values, module=__name__)


def _name(entry: dict[str, Any]) -> str:
    return f"{entry['table']} {entry['geography']} level {entry['level']}"


def _published(out: Path, manifest: Manifest, table: str, runs: list[str]) -> pl.DataFrame:
    """Groups of all runs, with the size class of the published total, the detail and the margins."""
    frames = []
    for run in runs:
        frame = read_listed_table(out, manifest, f"{table}-{run.lower()}.parquet")
        frames.append(frame.filter(pl.col(f"{table.upper()}_DATA_CELL") == "0"))
    return pl.concat(frames).with_columns(size_of(pl.max_horizontal(pl.col("COUNT"), 0)).alias("SIZE"))


def _by_size(published: pl.DataFrame, geographies: list[str]) -> Matrix:
    numbers = {
        (row["REGION_TYPE"], row["SIZE"]): row
        for row in published.group_by("REGION_TYPE", "SIZE")
        .agg(pl.len(), pl.col("MARGIN").median())
        .iter_rows(named=True)
    }

    def text(geography: str, size: str) -> str | None:
        row = numbers.get((geography, size))
        return None if row is None else f"{groups_counted(row['len'])}, ± {rounded(row['MARGIN'])}"

    present = [size for size in SIZES if any((g, size) in numbers for g in geographies)]
    rows = tuple(
        ("0 or less" if size == "0" else size, tuple(text(g, size) for g in geographies)) for size in present
    )
    return Matrix(tuple(geography_title(column) for column in geographies), rows)
