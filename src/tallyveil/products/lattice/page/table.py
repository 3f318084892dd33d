"""The report of a released table, from its published files only, and a separate report of its errors."""

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import polars as pl

from tallyveil.accounting.events import Neighbours
from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.accounting.ledger.lines import LEDGER
from tallyveil.accounting.numbers import at_most, short_decimal
from tallyveil.files.evaluation import FOLDER
from tallyveil.files.manifest import Manifest, ReleaseKind
from tallyveil.files.manifest_files import read_listed, read_listed_table, read_manifest
from tallyveil.files.marks import marks_of
from tallyveil.plans.guess import NO_SECRET, guess_of_pair, guess_words
from tallyveil.products.lattice.public.plan import StatedSubspacePlan
from tallyveil.products.lattice.public.verified import with_table
from tallyveil.report.page import (
    REPORT,
    SummaryPoint,
    evaluation_points,
    frame_texts,
    write_page,
    write_release_page,
)
from tallyveil.report.release_files import Titles, schema_titles
from tallyveil.report.wording import file_size, grouped, percent, rounded
from tallyveil.schema.schema import Unit, schema_from_mapping
from tallyveil.words.listing import listed

MOST_ROWS: Final = 500
"""Number of rows of a table that the page shows; the files have all of them."""

_HEADINGS: Final = {
    "noisy": "count before negative ones were removed",
    "margin": "margin (±)",
    "sum": "sum of",
}
"""What columns are called on the page."""


def write_table_report(out: Path) -> Path:
    """Write `report.html` of a released table: the guarantee, the noise, the counts with their margins, the checks.

    Args:
        out: Folder of the finished release.
    Raises:
        StoreError: a published file is missing or cannot be read.
    Privacy: reads published files only, so the page adds nothing to what they reveal.
    """
    manifest = with_table(out, read_manifest(out, ReleaseKind.SUBSPACE))
    plan = read_listed(out, manifest, "plan.json", StatedSubspacePlan)
    titles = schema_titles(schema_from_mapping(plan["schema"]))
    # Only what the manifest lists: releases of earlier versions may lack the sums.
    frames = {
        title: read_listed_table(out, manifest, name)
        for title, name in (("Counts", "table.parquet"), ("Sums", "sums.parquet"))
        if any(file.path == name for file in manifest.files)
    }
    values = {
        **_about(manifest),
        "law": plan["law"],
        "units": titles.unit.many,
        "attributes": listed([titles.factor(name) for name in titles.factors]),
        "points": table_points(manifest, plan, frames["Counts"], titles.unit),
        "tables": [(title, _shown(frame, titles)) for title, frame in frames.items()],
        "noise": manifest.body["noise"],
        "margins": _margins(manifest),
        "lines": [
            (entry.sequence, entry.kind, entry.description, "–" if entry.cost is None else str(entry.cost))
            for entry in read_ledger(out / LEDGER)[1]
        ],
    }
    return write_release_page(out, "table.html.j2", values, module=__name__)


def write_table_evaluation(out: Path, errors: pl.DataFrame) -> Path:
    """Write `evaluation/report.html`: errors of a released table by the true size of its cells.

    Privacy: none. The page begins with a warning.
    """
    whole = errors.row(0, named=True)
    error = rounded(whole["mean_absolute_error"])
    far = f"The mean error of a count is {error}, over all {grouped(whole['cells'])} counts."
    values = {
        **_about(read_manifest(out, ReleaseKind.SUBSPACE)),
        "points": evaluation_points(far),
        "errors": frame_texts(errors),
    }
    return write_page(out / FOLDER / REPORT, "table_evaluation.html.j2", values, module=__name__)


def _about(manifest: Manifest) -> dict[str, Any]:
    spent = manifest.spent
    return {
        "name": manifest.body["name"],
        "run": manifest.run,
        "is_protected": manifest.protected,
        "marks": marks_of(manifest).lines(),
        "statement": manifest.privacy["statement"],
        "unit": spent.unit,
        "declared": short_decimal(spent.declared),
        "spent": at_most(spent.spent),
        "checks": manifest.checks,
        "files": [(file.path, file_size(file.bytes), file.sha256) for file in manifest.files],
        "version": ", ".join(manifest.tallyveil),
    }


def _margins(manifest: Manifest) -> str:
    """What the margins mean, in words."""
    record = manifest.body.get("margins")
    if record is None:
        return "The release has no margins of error."
    level, confidence = (percent(float(Fraction(record[name]))) for name in ("level", "confidence"))
    return (
        f"The noise of a count or sum is at most its margin, in absolute value, with probability {level} or more. Each "
        f"margin was measured on {grouped(record['draws'])} draws of noise with a public key, and is large enough with "
        f"{confidence} confidence. Sums with margin 0 are exact."
    )


def _shown(frame: pl.DataFrame, titles: Titles) -> dict[str, Any]:
    """The first rows of a table as texts, and how many there are; counts stand to the right."""
    numbers = [name for name in ("count", "noisy", "margin") if name in frame.columns]
    # Numbers stay numbers until they are grouped; names of levels become text.
    first = frame.head(MOST_ROWS).with_columns(pl.exclude(numbers).cast(pl.String))
    rows = [
        [grouped(value) if isinstance(value, int) else str(value) for value in row] for row in first.rows()
    ]
    return {
        "headings": [_HEADINGS.get(name, titles.factor(name)) for name in frame.columns],
        "names": len(frame.columns) - len(numbers),
        "rows": rows,
        "left_out": max(0, frame.height - MOST_ROWS),
    }


_NAMES_SHOWN: Final = 4
"""Exact sums that the sentence names; it counts the others."""

_DONE: Final = {
    "free": "A random whole number, called noise, was added to every count. It may be positive or negative, so a count "
    "may be negative, too. It is too high as often as too low, and by as much.",
    "nonnegative": "A random whole number, called noise, was added to every count. Then the nearest table without "
    "negative counts was taken. So small counts tend to be too large, and large ones too small.",
    "restricted": "The table was drawn at random from all tables without negative counts that have the same exact "
    "sums. Tables near the true one are likelier. So small counts tend to be too large, and large ones too small.",
}


def table_points(
    manifest: Manifest, plan: Mapping[str, Any], counts: pl.DataFrame, unit: Unit
) -> tuple[SummaryPoint, ...]:
    """What was done, how sure a count is, what may not be concluded, and what it means for one record.

    Args:
        manifest: Of the release.
        plan: Its plan.
        counts: Its table: `count` and, if there are margins, `margin`.
        unit: What a record stands for.
    """
    return (
        SummaryPoint(
            "What was done", f"{_DONE[plan.get('outputs', 'free')]} {_largest(plan)}{_exact_sums(plan)}"
        ),
        SummaryPoint("How sure a count is", _sure(manifest, counts, unit)),
        SummaryPoint("What not to conclude", _not(counts, unit)),
        SummaryPoint(f"What it means for one {unit.one}", _single_counts(manifest, plan, unit)),
    )


def _largest(plan: Mapping[str, Any]) -> str:
    largest = plan.get("largest")
    return "" if largest is None else f"Only tables without a count above {grouped(largest)} can come out. "


def _exact_sums(plan: Mapping[str, Any]) -> str:
    names = list(plan.get("constraints", ()))
    if not names:
        return "No sum is published exactly."
    more = len(names) - _NAMES_SHOWN
    shown = names[:_NAMES_SHOWN] + ([f"{grouped(more)} more"] if more > 0 else [])
    return f"These sums are published exactly, without noise: {listed(shown)}."


def _sure(manifest: Manifest, counts: pl.DataFrame, unit: Unit) -> str:
    margins = manifest.body.get("margins")
    if margins is None:
        return "This release has no margins of error. How far a count may lie from the true one is not known from it."
    level = percent(float(Fraction(margins["level"])))
    noisy = counts.filter(pl.col("margin") > 0)
    if noisy.is_empty():
        return "All counts follow from sums that are published exactly."
    # Lower medians of both columns, each by itself: whole numbers that occur in the table.
    margin, count = (int(noisy[name].sort()[(noisy.height - 1) // 2]) for name in ("margin", "count"))
    return (
        f"The noise of a typical count (about {grouped(count)}) is at most {grouped(margin)} {unit.many} in {level} of "
        "cases. Typical means that this or better holds for at least half of the counts. Each count has its own margin."
    )


def _not(counts: pl.DataFrame, unit: Unit) -> str:
    text = "Do not take a single small count for the truth, and do not add up margins."
    if "margin" not in counts.columns:
        return text
    # A count within its margin may be zero in truth.
    within = counts.filter(pl.col("margin") > 0, pl.col("count") <= pl.col("margin")).height
    if not within:
        return text
    return (
        f"{text} {grouped(within)} of the {grouped(counts.height)} counts are no larger than their margins: in truth "
        f"there may be no {unit.many} there."
    )


def _single_counts(manifest: Manifest, plan: Mapping[str, Any], unit: Unit) -> str:
    privacy = manifest.privacy
    # The guarantee covers tables at a distance. Whether one record can make it depends on the invariants.
    if not privacy.get("about_one_record") or "epsilon" not in privacy:
        return (
            "The noise hides which of several tables with the same exact sums is the true one. What this means for "
            f"one {unit.one} depends on these sums; the section on privacy has the exact statement."
        )
    right: Fraction = guess_of_pair(float(privacy["epsilon"]), float(privacy["delta"]))
    words = guess_words(right, Neighbours.of(plan["neighbours"]), unit)
    without_secret = "" if manifest.protected else f"{NO_SECRET} "
    return f"{without_secret}{words} What the exact sums reveal is not covered."
