"""The report of a SafeTab run, from its published files only, and a separate report of its errors."""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl

from tallyveil.accounting.decimals import bound_cell, short_decimal
from tallyveil.budget.strategy import Mechanism
from tallyveil.declared import ContentInPart
from tallyveil.files.evaluation.store import FOLDER, PARAMETERS, WARNING
from tallyveil.files.kinds import ReleaseKind
from tallyveil.files.manifest import Manifest
from tallyveil.files.manifest_files import read_listed, read_listed_table, read_manifest
from tallyveil.files.marks import marks_of
from tallyveil.products.safetab.page.short import (
    geography_title,
    group_points,
    group_tiles,
    groups_guess,
    value_title,
)
from tallyveil.products.safetab.public.evaluation import SIZES, size_of
from tallyveil.products.safetab.public.plan import StatedSafetabPlan
from tallyveil.report.accuracy import Matrix
from tallyveil.report.dot_plot import dot_plot
from tallyveil.report.figure import Picture
from tallyveil.report.page import REPORT, frame_texts, write_page
from tallyveil.report.parameters import ParameterTable, parameter_table
from tallyveil.report.points import SummaryPoint, evaluation_points
from tallyveil.report.privacy import MECHANISMS
from tallyveil.report.wording import (
    duration,
    file_size,
    grouped,
    groups_counted,
    percent,
    power_of_ten,
    rounded,
)
from tallyveil.schema.unit import PERSON, Unit


class ExpectedDetail(ContentInPart):
    """Margins of a detail of a level set."""

    geography: str
    level: int


class ExpectedSize(ContentInPart):
    """Expected errors of a group of some true size."""

    geography: str
    level: int
    size: int
    published: float
    count_rmse: float
    estimate_rmse: float


class SafetabExpected(ContentInPart):
    """What the page reads of `expected.json`."""

    details: list[ExpectedDetail]
    sizes: list[ExpectedSize]


def write_safetab_report(out: Path) -> Path:
    """Write `report.html` of a SafeTab run: the guarantee, the expected errors and the published numbers.

    Args:
        out: Folder of the finished run, with expected.json.
    Raises:
        StoreError: a published file is missing or cannot be read.
    Privacy: reads published files only, so the page adds nothing to what they reveal.
    """
    manifest = read_manifest(out, ReleaseKind.SAFETAB)
    plan = read_listed(out, manifest, "plan.json", StatedSafetabPlan)
    expected = read_listed(out, manifest, "expected.json", SafetabExpected)
    published = _published(out, manifest, plan, list(manifest.body["sizes"]))
    geographies = list(dict.fromkeys(privacy["geography"] for privacy in expected["details"]))
    values = {
        **run_values(out, manifest, plan, _name),
        **short_values(
            out,
            manifest,
            published,
            PERSON,
            "A first noisy total of the group",
            some_left_out=any(
                privacy.get("keep_above") is not None
                for run in plan["runs"].values()
                for privacy in run["sets"]
            ),
        ),
        "privacy": [privacy_texts(privacy["run"], privacy) for privacy in manifest.privacy.values()],
        "details": [
            {**privacy, "geography": geography_title(privacy["geography"])} for privacy in expected["details"]
        ],
        "expected": [
            (f"Level {level}", _expected(expected["sizes"], level, geographies)) for level in (1, 2)
        ],
        "expected_plot": _expected_plot(expected["sizes"], geographies),
        "published": [(f"Level {level}", _by_size(published, level, geographies)) for level in (1, 2)],
    }
    return write_page(out / REPORT, "safetab.html.j2", values, module=__name__)


def write_safetab_evaluation(out: Path, errors: Mapping[str, pl.DataFrame]) -> Path:
    """Write `evaluation/report.html`: errors of a SafeTab run, or of several simulated runs, by size of the group.

    Privacy: none. The page begins with a warning.
    """
    manifest = read_manifest(out, ReleaseKind.SAFETAB)
    t1, t2 = errors["errors-t1"].drop_nulls("published"), errors["errors-t2"]
    geographies = list(dict.fromkeys(t1["REGION_TYPE"]))
    adaptive = t1.filter(~pl.col("TOTAL_ONLY"), pl.col("LEVEL") == t1["LEVEL"].max())
    plots = [
        (title, error_plot(value.lower(), value, adaptive, geographies))
        for title, value in (("COUNT, as production publishes", "COUNT"), ("ESTIMATE", "ESTIMATE"))
    ]
    values = {
        "run": manifest.run,
        "warning": WARNING,
        "points": plots_points(plots),
        "plots": plots,
        "totals": frame_texts(t1, value_title),
        "cells": frame_texts(t2, value_title),
        "parameters": level_parameters(errors),
        "version": ", ".join(manifest.tallyveil),
    }
    return write_page(out / FOLDER / REPORT, "safetab_evaluation.html.j2", values, module=__name__)


def short_values(
    out: Path,
    manifest: Manifest,
    published: pl.DataFrame,
    unit: Unit,
    chosen_by: str,
    *,
    some_left_out: bool = False,
) -> dict[str, Any]:
    """The summary of a page of population groups; the arguments are those of `group_points`."""
    right = groups_guess(out)
    return {
        "tiles": group_tiles(published, unit, right, is_protected=manifest.protected),
        "points": group_points(
            published,
            unit,
            right,
            chosen_by=chosen_by,
            is_protected=manifest.protected,
            some_left_out=some_left_out,
        ),
    }


def run_values(
    out: Path, manifest: Manifest, plan: dict[str, Any], name: Callable[[dict[str, Any]], str]
) -> dict[str, Any]:
    """The values that the pages of all SafeTab runs show.

    Args:
        out: Folder of the finished run.
        manifest: Its manifest.
        plan: Its plan.
        name: Name of a level set among the manifest's sizes.
    """
    return {
        **run_facts(manifest, plan),
        "sets": [
            {
                **level_set,
                "geography": geography_title(level_set["geography"]),
                "budget": short_decimal(Fraction(level_set["budget"])),
                "groups": manifest.body["sizes"][run]["groups"][name(level_set)],
            }
            for run, content in plan["runs"].items()
            for level_set in content["sets"]
        ],
    }


def run_facts(manifest: Manifest, plan: dict[str, Any]) -> dict[str, Any]:
    """What the pages of population groups of any layout say of a run: its noise, its sizes, how it was made."""
    return {
        "run": manifest.run,
        "is_protected": manifest.protected,
        "marks": marks_of(manifest).lines(),
        "unit": manifest.spent.unit,
        "mechanism": MECHANISMS[Mechanism(plan["mechanism"])][0],
        "sizes": manifest.body["sizes"],
        "checks": len(manifest.checks),
        "stages": [
            (stage.stage, duration(stage.seconds), f"{grouped(stage.peak_memory_mib)} MiB")
            for stage in manifest.performance
        ],
        "files": [(file.path, file_size(file.bytes), file.sha256) for file in manifest.files],
        "version": ", ".join(manifest.tallyveil),
    }


def _published(out: Path, manifest: Manifest, plan: dict[str, Any], runs: Sequence[str]) -> pl.DataFrame:
    """T1 of all runs, with the size class of the published count and the margins."""
    frames = []
    levels = {code: level for code, _, level, *_ in plan["iterations"]}
    for run in runs:
        frames.append(read_listed_table(out, manifest, f"t1-{run.lower()}.parquet"))
    return pl.concat(frames).with_columns(
        size_of(pl.max_horizontal(pl.col("COUNT"), 0)).alias("SIZE"),
        pl.col("ITERATION_CODE").replace_strict(levels, return_dtype=pl.Int64).alias("LEVEL"),
    )


def privacy_texts(run: str, privacy: dict[str, Any]) -> dict[str, Any]:
    """The guarantee of one run by every accountant that it states, as text."""
    others = {name: privacy[name] for name in ("renyi", "zcdp", "zcdp_textbook", "pure") if name in privacy}
    return {
        "run": run,
        "budget": short_decimal(Fraction(privacy["budget"])),
        "delta": power_of_ten(Fraction(privacy["delta"])),
        "exact": bound_cell(privacy["epsilon"]["upper"]),
        "changed": bound_cell(privacy["changed"]["epsilon"]["upper"]),
        **{name: "–" if value is None else bound_cell(value) for name, value in others.items()},
    }


def _name(entry: dict[str, Any]) -> str:
    return f"{entry['geography']} level {entry['level']}"


def _expected(sizes: list[dict[str, Any]], level: int, geographies: Sequence[str]) -> Matrix:
    rows = {(error["geography"], error["size"]): error for error in sizes if error["level"] == level}

    def text(geography: str, size: int) -> str | None:
        if (geography, size) not in rows:
            return None
        error = rows[geography, size]
        shown = (
            ""
            if error["published"] > 0.9995
            else f", published {percent(max(error['published'], 0))} of the time"
        )
        return f"{rounded(error['count_rmse'])} → {rounded(error['estimate_rmse'])}{shown}"

    every = sorted({error["size"] for error in sizes})
    return Matrix(
        _titles(geographies), tuple((grouped(s), tuple(text(g, s) for g in geographies)) for s in every)
    )


def _titles(geographies: Sequence[str]) -> tuple[str, ...]:
    return tuple(geography_title(geography) for geography in geographies)


def _expected_plot(sizes: list[dict[str, Any]], geographies: Sequence[str]) -> Picture:
    level = max(error["level"] for error in sizes)
    values = {
        (grouped(error["size"]), geography_title(error["geography"])): error["estimate_rmse"]
        for error in sizes
        if error["level"] == level
    }
    svg = dot_plot(
        "expected",
        list(dict.fromkeys(grouped(error["size"]) for error in sizes)),
        _titles(geographies),
        values,
        axis=f"root mean squared error of ESTIMATE, level {level}, people (logarithmic)",
        description="Expected errors by true size of the group; the tables below give each.",
    )
    return Picture(svg, from_least_to_most(values, "expected error", PERSON.many))


def from_least_to_most(values: Mapping[tuple[str, str], float], what: str, units: str) -> str:
    """A sentence with the smallest and the largest of some errors, by size of the group and series."""
    if not values:
        return f"No {what} is known."
    least, most = min(values, key=lambda pair: values[pair]), max(values, key=lambda pair: values[pair])
    ends = [f"{rounded(values[pair])} {units} ({pair[1]}, groups of {pair[0]})" for pair in (least, most)]
    return f"The {what} lies between {ends[0]} and {ends[1]}."


def _by_size(published: pl.DataFrame, level: int, geographies: Sequence[str]) -> Matrix:
    of_level = published.filter(pl.col("LEVEL") == level)
    numbers = {
        (row["REGION_TYPE"], row["SIZE"]): row
        for row in of_level.group_by("REGION_TYPE", "SIZE")
        .agg(pl.len(), pl.col("MARGIN").median(), pl.col("ESTIMATE_MARGIN").median().alias("better"))
        .iter_rows(named=True)
    }

    def text(geography: str, size: str) -> str | None:
        row = numbers.get((geography, size))
        if row is None:
            return None
        return f"{groups_counted(row['len'])}, ± {rounded(row['MARGIN'])} → {rounded(row['better'])}"

    present = [size for size in SIZES if any((g, size) in numbers for g in geographies)]
    return Matrix(
        _titles(geographies),
        tuple(
            ("0 or less" if size == "0" else size, tuple(text(g, size) for g in geographies))
            for size in present
        ),
    )


def error_plot(
    name: str,
    value: str,
    frame: pl.DataFrame,
    series: Sequence[str],
    *,
    by: str = "REGION_TYPE",
    units: str = "people",
) -> Picture:
    """A plot of root mean squared errors by size, with a series for each value of a column."""
    rows = {
        (row["SIZE"], geography_title(row[by])): row[f"{value}: root mean square"]
        for row in frame.iter_rows(named=True)
    }
    positive = [error for error in rows.values() if error > 0]
    svg = dot_plot(
        name,
        [size for size in SIZES if any(size == s for s, _ in rows)],
        [geography_title(geography) for geography in series],
        rows,
        axis=f"root mean squared error, {units} (logarithmic)",
        description="Errors by true size of the group; the tables below give each.",
        below=min(positive, default=1.0) / 2 if len(positive) < len(rows) else None,
    )
    return Picture(svg, from_least_to_most(rows, "error", units))


def plots_points(plots: Sequence[tuple[str, Picture]]) -> tuple[SummaryPoint, ...]:
    """The summary of a page of errors: the first figure says how far off counts are."""
    return evaluation_points(
        plots[0][1].sentence if plots else "The tables below have the errors by the true size of the group."
    )


def level_parameters(errors: Mapping[str, pl.DataFrame]) -> ParameterTable:
    """The privacy parameters beside some errors, as text."""
    return parameter_table(errors[PARAMETERS].to_dicts(), "level")
