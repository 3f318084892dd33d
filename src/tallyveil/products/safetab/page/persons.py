"""The reports of SafeTab and SafeTab-H runs, from published files only, and separate reports of their errors.

A report begins with a few sentences for readers who have never heard of differential privacy.
"""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import polars as pl

from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.accounting.ledger.lines import LEDGER
from tallyveil.accounting.numbers import bound_cell, short_decimal
from tallyveil.budget.strategy import Mechanism
from tallyveil.declared import ContentInPart
from tallyveil.files.evaluation import FOLDER, PARAMETERS, WARNING
from tallyveil.files.manifest import Manifest, ReleaseKind
from tallyveil.files.manifest_files import read_listed, read_listed_table, read_manifest
from tallyveil.files.marks import marks_of
from tallyveil.plans.guess import NO_SECRET, guess_words, ledger_guess
from tallyveil.products.safetab.public.evaluation import SIZES, size_of
from tallyveil.products.safetab.public.expected import EXPECTED
from tallyveil.products.safetab.public.households import StatedHouseholdPlan
from tallyveil.products.safetab.public.levels import NEIGHBOURS
from tallyveil.products.safetab.public.plan import StatedSafetabPlan
from tallyveil.products.safetab.public.privacy import with_runs
from tallyveil.report.page import (
    REPORT,
    NumberTile,
    SummaryPoint,
    evaluation_points,
    frame_texts,
    write_page,
    write_release_page,
)
from tallyveil.report.privacy import (
    MECHANISMS,
    ParameterTable,
    guess_tile,
    parameter_table,
)
from tallyveil.report.release_files import Matrix
from tallyveil.report.svg import Picture, dot_plot
from tallyveil.report.wording import (
    detail_title,
    file_size,
    grouped,
    groups_counted,
    percent,
    power_of_ten,
    rounded,
)
from tallyveil.schema.schema import PERSON, Unit

GEOGRAPHIES: Final = {
    "USA": "nation",
    "STATE": "state",
    "COUNTY": "county",
    "TRACT": "tract",
    "PLACE": "place",
    "AIANNH": "tribal area",
    "PR-STATE": "Puerto Rico",
    "PR-COUNTY": "county of Puerto Rico",
    "PR-TRACT": "tract of Puerto Rico",
    "PR-PLACE": "place of Puerto Rico",
}
"""How the regions of the Census layout are called."""


_LEFT_OUT: Final = (
    " In small areas, small totals were left out: a group without a count may have members there. So the sum of such "
    "totals is no estimate of the total of several areas."
)


def groups_guess(out: Path) -> Fraction:
    """Upper bound of the share of right guesses about one record, from the ledger of a run."""
    declaration, entries = read_ledger(out / LEDGER)
    return ledger_guess(entries, declaration)


def group_tiles(
    published: pl.DataFrame, unit: Unit, right: Fraction, *, is_protected: bool
) -> tuple[NumberTile, ...]:
    """The numbers that stand out: how many groups have a count, the typical margins, and the best guess."""
    tiles = [
        NumberTile(
            "Groups with a published count", grouped(published.height), "each with a margin of its own"
        )
    ]
    tiles += [
        NumberTile(
            f"A typical count of {_size(size)}", f"± {_margin(margin)}", f"{unit.many}, in 95 of 100 cases"
        )
        for size, margin in _ends(published)
    ]
    return (*tiles, guess_tile(right, unit, is_protected=is_protected))


def group_points(
    published: pl.DataFrame,
    unit: Unit,
    right: Fraction,
    *,
    chosen_by: str,
    is_protected: bool,
    some_left_out: bool = False,
) -> tuple[SummaryPoint, ...]:
    """What was done, how sure a count is, what may not be concluded, and what it means for one record.

    Args:
        published: Totals of all groups: `COUNT`, `MARGIN` and `SIZE`, the class of the count.
        unit: What a record stands for.
        right: Upper bound of the share of right guesses.
        chosen_by: What decided how much detail a group gets, as the subject of a sentence.
        is_protected: Whether the key of the noise was secret.
        some_left_out: Whether small totals were left out.
    """
    guess = guess_words(right, NEIGHBOURS, unit)
    without_secret = "" if is_protected else f"{NO_SECRET} "
    return (
        SummaryPoint(
            "What was done",
            "A random whole number, called noise, was added to every count. It may be positive or negative, and it is "
            f"public how large such numbers usually are. {chosen_by} decided how much detail each group gets.",
        ),
        SummaryPoint("How sure a count is", _sure(published, unit)),
        SummaryPoint("What not to conclude", _not(published, unit) + (_LEFT_OUT if some_left_out else "")),
        SummaryPoint(f"What it means for one {unit.one}", without_secret + guess),
    )


def _ends(published: pl.DataFrame) -> list[tuple[str, float]]:
    """The smallest and the largest class of counts that occurs, each with its median margin."""
    medians = dict(published.group_by("SIZE").agg(pl.col("MARGIN").median()).iter_rows())
    present = [size for size in SIZES if size in medians]
    return [(size, medians[size]) for size in dict.fromkeys((*present[:1], *present[-1:]))]


def _margin(value: float) -> str:
    return grouped(int(value)) if value == int(value) else rounded(value)


def _size(size: str) -> str:
    return "0 or less" if size == "0" else size.replace("-", " to ")


def _sure(published: pl.DataFrame, unit: Unit) -> str:
    if published.is_empty():
        return "No group has a published count."
    margins = [
        f"at most {_margin(margin)} {unit.many} for a typical published total of {_size(size)}"
        for size, margin in _ends(published)
    ]
    return (
        f"In 95 of 100 cases the noise is {', and '.join(margins)}. Every published number has its own margin in the "
        "same row."
    )


def _not(published: pl.DataFrame, unit: Unit) -> str:
    within = published.filter(pl.col("COUNT") <= pl.col("MARGIN")).height
    text = "Do not add up the counts of groups: a record may be in several. "
    if not within:
        return f"{text}Two counts that differ by less than their margins may be equal before noise."
    share = percent(within / published.height)
    below = " A count below zero is noise, not a mistake." if (published["COUNT"] < 0).any() else ""
    return (
        f"{text}{grouped(within)} of the {grouped(published.height)} published totals ({share}) are no larger than "
        f"their margins: such a group may have no {unit.many} at all.{below}"
    )


def geography_title(name: str) -> str:
    """How a geography of the Census layout is called; any other text stays as it is."""
    return GEOGRAPHIES.get(name, name)


def value_title(value: str) -> str:
    """A text of a table, as a page shows it."""
    return geography_title(detail_title(value))


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
    manifest = with_runs(out, read_manifest(out, ReleaseKind.SAFETAB))
    plan = read_listed(out, manifest, "plan.json", StatedSafetabPlan)
    expected = read_listed(out, manifest, EXPECTED, SafetabExpected)
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
    return write_release_page(out, "safetab.html.j2", values, module=__name__)


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


HOUSEHOLD: Final = Unit("household", "households")


def write_households_report(out: Path) -> Path:
    """Write `report.html` of a SafeTab-H run: the guarantee, the expected errors and the published numbers.

    Args:
        out: Folder of the finished run, with expected.json.
    Raises:
        StoreError: a published file is missing or cannot be read.
    Privacy: reads published files only, so the page adds nothing to what they reveal.
    """
    manifest = with_runs(out, read_manifest(out, ReleaseKind.HOUSEHOLDS))
    plan = read_listed(out, manifest, "plan.json", StatedHouseholdPlan)
    expected = read_listed(out, manifest, EXPECTED, list[ExpectedDetail])
    geographies = list(dict.fromkeys(detail["geography"] for detail in expected))
    published = {
        table: _published_households(out, manifest, table, list(manifest.body["sizes"]))
        for table in ("t3", "t4")
    }
    totals = [frame.select("COUNT", "MARGIN", "SIZE") for frame in published.values()]
    values = {
        **run_values(out, manifest, plan, _name_of_set),
        **short_values(out, manifest, pl.concat(totals), HOUSEHOLD, "A published count of people"),
        "privacy": [privacy_texts(run, privacy) for run, privacy in manifest.privacy.items()],
        "details": [{**detail, "geography": geography_title(detail["geography"])} for detail in expected],
        "published": [
            (name.upper(), _households_by_size(frame, geographies)) for name, frame in published.items()
        ],
    }
    return write_release_page(out, "safetab_households.html.j2", values, module=__name__)


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


def _name_of_set(entry: dict[str, Any]) -> str:
    return f"{entry['table']} {entry['geography']} level {entry['level']}"


def _published_households(out: Path, manifest: Manifest, table: str, runs: list[str]) -> pl.DataFrame:
    """Groups of all runs, with the size class of the published total, the detail and the margins."""
    frames = []
    for run in runs:
        frame = read_listed_table(out, manifest, f"{table}-{run.lower()}.parquet")
        frames.append(frame.filter(pl.col(f"{table.upper()}_DATA_CELL") == "0"))
    return pl.concat(frames).with_columns(size_of(pl.max_horizontal(pl.col("COUNT"), 0)).alias("SIZE"))


def _households_by_size(published: pl.DataFrame, geographies: list[str]) -> Matrix:
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
