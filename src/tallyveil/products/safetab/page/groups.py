"""The report of a run on population groups of any records, from its published files, and a report of its errors."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import polars as pl

from tallyveil.accounting.numbers import short_decimal
from tallyveil.declared import ContentInPart
from tallyveil.files.evaluation import FOLDER
from tallyveil.files.manifest import Manifest, ReleaseKind
from tallyveil.files.manifest_files import read_listed, read_listed_table, read_manifest
from tallyveil.products.safetab.page.persons import (
    error_plot,
    from_least_to_most,
    level_parameters,
    plots_points,
    privacy_texts,
    run_facts,
    short_values,
    value_title,
)
from tallyveil.products.safetab.public.evaluation import SIZES, size_of
from tallyveil.products.safetab.public.expected import EXPECTED
from tallyveil.products.safetab.public.group_plan import StatedGroupPlan
from tallyveil.products.safetab.public.privacy import with_runs
from tallyveil.report.page import REPORT, frame_texts, write_page, write_release_page
from tallyveil.report.release_files import Matrix
from tallyveil.report.svg import Picture, dot_plot
from tallyveil.report.wording import detail_title, grouped, groups_counted, rounded
from tallyveil.schema.schema import Unit, unit_of
from tallyveil.storage.paths import file_name

MOST_SERIES: Final = 10
"""Largest number of levels that a plot shows. Tables show all of them."""


class ExpectedGroupDetail(ContentInPart):
    """Margins of a detail of a level."""

    level: str
    detail: str


class ExpectedGroupSize(ContentInPart):
    """Expected errors of a group of some true size."""

    level: str
    size: int
    count_rmse: float
    estimate_rmse: float


class GroupsExpected(ContentInPart):
    """What the page reads of `expected.json`."""

    details: list[ExpectedGroupDetail]
    sizes: list[ExpectedGroupSize]


def write_groups_report(out: Path) -> Path:
    """Write `report.html`: the guarantee, the expected errors and the published numbers.

    Args:
        out: Folder of the finished run.
    Raises:
        StoreError: a published file is missing or cannot be read.
    Privacy: reads published files only, so the page adds nothing to what they reveal.
    """
    manifest = with_runs(out, read_manifest(out, ReleaseKind.GROUPS))
    plan = read_listed(out, manifest, "plan.json", StatedGroupPlan)
    expected = read_listed(out, manifest, EXPECTED, GroupsExpected)
    unit, levels = _unit(plan), [level["name"] for level in plan["levels"]]
    published = {name: _published(out, manifest, name) for name in levels}
    totals = [frame.select("COUNT", "MARGIN", "SIZE") for frame in published.values()]
    adaptive = list(dict.fromkeys(level["level"] for level in expected["sizes"]))
    values = {
        **run_facts(manifest, plan),
        **short_values(out, manifest, pl.concat(totals), unit, "A first noisy total of the group"),
        "name": manifest.body["name"],
        "unit_of_record": unit.one,
        "units": unit.many,
        "privacy": [privacy_texts(level["run"], level) for level in manifest.privacy.values()],
        "levels": [{**level, "budget": short_decimal(Fraction(level["budget"]))} for level in plan["levels"]],
        "details": [{**level, "detail": detail_title(level["detail"])} for level in expected["details"]],
        "expected": _expected(expected["sizes"], adaptive),
        "expected_plot": _expected_plot(expected["sizes"], adaptive[:MOST_SERIES], unit)
        if adaptive
        else None,
        "shown": _shown(adaptive),
        "published": _by_size(published),
        "details_given": _by_detail(published, plan["levels"]),
    }
    return write_release_page(out, "safetab_groups.html.j2", values, module=__name__)


def write_groups_evaluation(out: Path, errors: Mapping[str, pl.DataFrame]) -> Path:
    """Write `evaluation/report.html`: errors of a run, or of several simulated runs, by size of the group.

    Privacy: none. The page begins with a warning.
    """
    manifest = read_manifest(out, ReleaseKind.GROUPS)
    unit = _unit(read_listed(out, manifest, "plan.json", StatedGroupPlan))
    totals = errors["errors-totals"]
    adaptive = totals.filter(~pl.col("TOTAL_ONLY"))
    levels = list(dict.fromkeys(adaptive["LEVEL"]))
    series = levels[:MOST_SERIES]
    drawn = adaptive.filter(pl.col("LEVEL").is_in(series))
    plots = [
        (value, error_plot(value.lower(), value, drawn, series, by="LEVEL", units=unit.many))
        for value in (("COUNT", "ESTIMATE") if series else ())
    ]
    values = {
        "name": manifest.body["name"],
        "run": manifest.run,
        "points": plots_points(plots),
        "plots": plots,
        "shown": _shown(levels),
        "totals": frame_texts(totals, value_title),
        "cells": frame_texts(errors["errors-cells"], value_title),
        "parameters": level_parameters(errors),
        "version": ", ".join(manifest.tallyveil),
    }
    return write_page(out / FOLDER / REPORT, "safetab_groups_evaluation.html.j2", values, module=__name__)


def _unit(plan: dict[str, Any]) -> Unit:
    return unit_of(plan["schema"].get("unit"), plan["schema"].get("units"))


def _shown(levels: Sequence[str]) -> str:
    """The end of a figure's caption."""
    return "." if len(levels) <= MOST_SERIES else f", the first {MOST_SERIES} of {len(levels)} levels."


def _published(out: Path, manifest: Manifest, level: str) -> pl.DataFrame:
    """Totals of a level, with the size class of the published count."""
    totals = read_listed_table(out, manifest, f"totals/{file_name(level)}.parquet")
    return totals.with_columns(size_of(pl.max_horizontal(pl.col("COUNT"), 0)).alias("SIZE"))


def _expected(sizes: list[dict[str, Any]], levels: Sequence[str]) -> Matrix:
    of_pair = {
        (error["level"], error["size"]): f"{rounded(error['count_rmse'])} → {rounded(error['estimate_rmse'])}"
        for error in sizes
    }
    every = sorted({error["size"] for error in sizes})
    rows = tuple((level, tuple(of_pair[level, size] for size in every)) for level in levels)
    return Matrix(tuple(grouped(size) for size in every), rows)


def _expected_plot(sizes: list[dict[str, Any]], levels: Sequence[str], unit: Unit) -> Picture:
    values = {
        (grouped(error["size"]), error["level"]): error["estimate_rmse"]
        for error in sizes
        if error["level"] in levels
    }
    svg = dot_plot(
        "expected",
        list(dict.fromkeys(grouped(error["size"]) for error in sizes)),
        levels,
        values,
        axis=f"root mean squared error of ESTIMATE, {unit.many} (logarithmic)",
        description="Expected errors by true size of the group; the table below gives each.",
    )
    return Picture(svg, from_least_to_most(values, "expected error", unit.many))


def _by_size(published: Mapping[str, pl.DataFrame]) -> Matrix:
    """Groups and margins of each level, by size of the published count."""
    numbers = {
        (
            level,
            row["SIZE"],
        ): f"{groups_counted(row['len'])}, ± {rounded(row['MARGIN'])} → {rounded(row['better'])}"
        for level, totals in published.items()
        for row in totals.group_by("SIZE")
        .agg(pl.len(), pl.col("MARGIN").median(), pl.col("ESTIMATE_MARGIN").median().alias("better"))
        .iter_rows(named=True)
    }
    present = [size for size in SIZES if any((level, size) in numbers for level in published)]
    rows = tuple((level, tuple(numbers.get((level, size)) for size in present)) for level in published)
    return Matrix(tuple("0 or less" if size == "0" else size for size in present), rows)


def _by_detail(published: Mapping[str, pl.DataFrame], levels: list[dict[str, Any]]) -> Matrix:
    """Groups of each level, by the detail that they were given."""
    details = levels[0]["details"]
    by_level = {
        level: dict(totals["DETAIL"].value_counts().iter_rows()) for level, totals in published.items()
    }
    rows = tuple(
        (
            level,
            tuple(grouped(groups_by_detail[name]) if name in groups_by_detail else None for name in details),
        )
        for level, groups_by_detail in by_level.items()
    )
    return Matrix(tuple(detail_title(name) for name in details), rows)
