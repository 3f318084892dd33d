"""The intervals of a release, as text for readers who are not specialists."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from markupsafe import Markup

from tallyveil.errors import StoreError
from tallyveil.release import manifest_shapes as shapes
from tallyveil.release.intervals import AGAIN, DECIMALS, INTERVALS, intervals_manifest, read_interval_table
from tallyveil.report.accuracy import Matrix
from tallyveil.report.interval_plot import Panel, interval_plot
from tallyveil.report.release_files import ReleaseFiles
from tallyveil.report.wording import geolevel_title, grouped, percent, query_title, rounded
from tallyveil.storage.json_files import read_shaped
from tallyveil.storage.read import collect

POINTS = 48
"""Largest number of counts of one geolevel in the figure."""
EXACT = 10.0**-DECIMALS


@dataclass(frozen=True, slots=True)
class Example:
    """One count as an example for the reader.

    Attributes:
        geolevel, geocode, query: They identify the count.
        published, estimate, standard_error, lower, upper: Its numbers, as text.
    """

    geolevel: str
    geocode: str
    query: str
    published: str
    estimate: str
    standard_error: str
    lower: str
    upper: str


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """The content of the page's section on intervals.

    Attributes:
        level: Coverage, as text.
        share: The same as "95 of 100".
        simultaneous: Whether all intervals of a table together have this coverage.
        covers: What the intervals cover and what they do not, or why there are none.
        given: Whether there are intervals; Laplace noise has estimates and standard errors alone.
        bounds_left_out: Names of public bounds that were not used.
        example: A count of medium size; None if no count has an interval.
        outside: Share of published counts outside their interval, by query and geolevel; None without intervals.
        errors: Median standard errors, by query and geolevel.
        entities_outside: The same as `outside` for families of entities; None without entities or intervals.
        entities_errors: The same as `errors` for families of entities; None without entities.
        plot: Figure of published counts against estimates; None if there is nothing to draw.
        plotted: Title of the query in the figure.
        in_tables: Whether the published tables have the same columns.
    """

    level: str
    share: str
    simultaneous: bool
    covers: str
    given: bool
    bounds_left_out: tuple[str, ...]
    example: Example | None
    outside: Matrix | None
    errors: Matrix
    entities_outside: Matrix | None
    entities_errors: Matrix | None
    plot: Markup | None
    plotted: str
    in_tables: bool


def uncertainty_of(files: ReleaseFiles) -> Uncertainty | None:
    """Read and summarise the intervals of a release; None if it has none.

    Raises:
        StoreError: the intervals belong to another run, or cannot be read.
    """
    path = intervals_manifest(files.root)
    if path is None:
        return None
    manifest: dict[str, Any] = read_shaped(path, shapes.INTERVALS, AGAIN)
    if manifest["run"] != files.manifest.run:
        raise StoreError(
            f"{path} belongs to run {manifest['run']}, but the release belongs to run {files.manifest.run}. Remove "
            "that folder and make the intervals again.",
            code="release-damaged",
        )
    compared = manifest["compared"]
    levels = [item for item in compared if not item["is_entity"]]
    entities = [item for item in compared if item["is_entity"]]
    query = levels[0]["query"]
    given = manifest.get("kind") != "none"
    samples = _samples(files, levels, query) if given else []
    panels = [_panel(geolevel, sample) for geolevel, sample in samples]
    return Uncertainty(
        level=f"{100 * manifest['level']:g} %",
        share=f"{100 * manifest['level']:g} of 100",
        simultaneous=bool(manifest.get("simultaneous")),
        covers=manifest["covers"],
        given=given,
        bounds_left_out=tuple(manifest["bounds_left_out"]),
        example=_example(samples, query),
        outside=_by_level(levels, _outside) if given else None,
        errors=_by_level(levels, _error),
        entities_outside=_by_family(entities, _outside) if entities and given else None,
        entities_errors=_by_family(entities, _error) if entities else None,
        plot=interval_plot(panels, files.unit) if panels else None,
        plotted=query_title(query),
        in_tables=bool(files.manifest.body.get("intervals", {}).get("tables")),
    )


def _outside(item: dict[str, Any]) -> str:
    inexact = item["answers"] - item["exact"] - item["undetermined"]
    return percent((item["below"] + item["above"]) / inexact) if inexact else "exact"


def _error(item: dict[str, Any]) -> str:
    return "exact" if item["standard_error"] is None else rounded(item["standard_error"])


def _by_level(items: Sequence[dict[str, Any]], text: Any) -> Matrix:
    """A table with queries in rows and geolevels in columns."""
    areas = list(dict.fromkeys(item["area"] for item in items))
    queries = list(dict.fromkeys(item["query"] for item in items))
    texts = {(item["query"], item["area"]): text(item) for item in items}
    return Matrix(
        tuple(geolevel_title(area) for area in areas),
        tuple((query_title(query), tuple(texts.get((query, area)) for area in areas)) for query in queries),
    )


def _by_family(items: Sequence[dict[str, Any]], text: Any) -> Matrix:
    """A table with families in rows and queries in columns, because there may be many families."""
    areas = list(dict.fromkeys(item["area"] for item in items))
    queries = list(dict.fromkeys(item["query"] for item in items))
    texts = {(item["query"], item["area"]): text(item) for item in items}
    return Matrix(
        tuple(query_title(query) for query in queries),
        tuple((geolevel_title(area), tuple(texts.get((query, area)) for query in queries)) for area in areas),
    )


def _samples(
    files: ReleaseFiles, levels: Sequence[dict[str, Any]], query: str
) -> list[tuple[str, pl.DataFrame]]:
    """For each geolevel, counts at evenly spaced ranks from the smallest to the largest, without exact counts."""
    found = []
    for item in levels:
        if item["query"] != query:
            continue
        rows = read_interval_table(files.root, item["area"], query).filter(pl.col("standard_error") >= EXACT)
        frame = collect(rows, files.root / INTERVALS, "intervals")
        if frame.height:
            order = np.argsort(frame["count"].to_numpy(), kind="stable")
            places = np.unique(
                np.linspace(0, frame.height - 1, min(POINTS, frame.height)).round().astype(int)
            )
            found.append((item["area"], frame[order[places]]))
    return found


def _panel(geolevel: str, sample: pl.DataFrame) -> Panel:
    columns = {name: sample[name].to_numpy() for name in ("estimate", "lower", "upper")}
    return Panel(geolevel_title(geolevel), published=sample["count"].to_numpy(), **columns)


def _example(samples: Sequence[tuple[str, pl.DataFrame]], query: str) -> Example | None:
    """The count in the middle of the sample of the middle geolevel; None if there is no sample."""
    if not samples:
        return None
    geolevel, sample = samples[len(samples) // 2]
    row = sample.row(sample.height // 2, named=True)
    return Example(
        geolevel=geolevel_title(geolevel),
        geocode=row["geocode"],
        query=query_title(query),
        published=grouped(row["count"]),
        estimate=f"{row['estimate']:,.1f}".replace("-", "−"),
        standard_error=rounded(row["standard_error"]),
        lower=grouped(row["lower"]),
        upper=grouped(row["upper"]),
    )
