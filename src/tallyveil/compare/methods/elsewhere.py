"""What was published elsewhere: a finished release of this program, or a table of counts that anybody made."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import polars as pl
from pydantic import Field

from tallyveil.compare.inputs import Areas, PublicInput, SharedInput, TableName
from tallyveil.compare.methods.method import Method, Office
from tallyveil.compare.methods.topdown import finest_rows, published_release
from tallyveil.compare.published import ExactLaw, Limits, Published, PublishedTable, observed_law
from tallyveil.errors import ConfigError, GeographyError, SchemaError
from tallyveil.files.finished import MANIFEST
from tallyveil.files.geography import GEOGRAPHY, read_geography
from tallyveil.files.histograms import HISTOGRAM
from tallyveil.files.manifest import ReleaseKind
from tallyveil.files.manifest_files import read_manifest, require_unchanged_files
from tallyveil.measurements.names import FOLDER
from tallyveil.plans.fitting import stated_plan
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.addresses import InputPath
from tallyveil.storage.read import collect, require_text, scan_table, whole_number

ONCE = (
    "It was published once. So the attacker is granted its errors in these very tables, which nobody has, and attacks "
    "that need a second publication are left out."
)


class ReleaseFolder(Method):
    """A finished release of `tallyveil run`, as it stands in its folder."""

    family: ClassVar[str] = "TopDown"
    literature: ClassVar[str] = "Abowd et al. 2022"
    cannot: ClassVar[str] = "As TopDown; its folder says what it promises."
    strength: ClassVar[str] = "As TopDown."
    unbounded: ClassVar[str] = "None is stated."
    random: ClassVar[bool] = False
    repeatable: ClassVar[bool] = False

    kind: Literal["release"] = "release"
    path: InputPath = Field(description="Folder of the release.")

    def require_fit(self, public: PublicInput) -> None:
        """Refuse a folder that holds no such release.

        Raises:
            StoreError: the folder holds no finished release, or was changed.
            ConfigError: the release has another schema, or other finest geounits.
        """
        manifest = read_manifest(self.path, ReleaseKind.TOPDOWN)
        require_unchanged_files(self.path, manifest, {GEOGRAPHY, HISTOGRAM, FOLDER})
        plan = stated_plan(self.path / MANIFEST, manifest.body["plan"])
        if plan.schema.digest() != public.plan.schema.digest():
            raise ConfigError(
                f"the release in {self.path} has another schema than the release file of the comparison. Compare "
                "releases of one schema. Nothing was read.",
                code="other-release",
            )
        finest_rows(self.path, read_geography(self.path), public.geolevels[-1])

    def publish(self, office: Office) -> Published:
        """As in `Method`."""
        manifest = read_manifest(self.path, ReleaseKind.TOPDOWN)
        return published_release(self.path, manifest, office.shared, notes=(ONCE,))


class PublishedCounts(Method):
    """Counts that anybody published, as a table with a row for each.

    Its columns are areas (a geolevel or a family of entities), geocode, query, answer (the label of the answer) and
    count. A null count is one that is hidden.
    """

    family: ClassVar[str] = "elsewhere"
    literature: ClassVar[str] = ""
    cannot: ClassVar[str] = "Its makers know what it promises; nothing is known here but the counts."
    strength: ClassVar[str] = "It is what was really published."
    random: ClassVar[bool] = False
    repeatable: ClassVar[bool] = False

    kind: Literal["published"] = "published"
    path: InputPath = Field(description="Table of the counts (Parquet or CSV).")
    absent: Literal["hidden", "zero"] = Field(default="hidden", description="What a count without a row is.")

    def require_fit(self, public: PublicInput) -> None:
        """Refuse a table that does not fit.

        Raises:
            ConfigError, StoreError: the table or a column is missing, or a count is no whole number.
            GeographyError, SchemaError: a row is of an area or an answer that the comparison does not have.
        """
        published_tables(self.path, public.areas, public.queries, absent=self.absent)

    def publish(self, office: Office) -> Published:
        """As in `Method`."""
        shared = office.shared
        tables, notes = published_tables(self.path, shared.areas, shared.queries, absent=self.absent)
        least = _least_hidden(shared, tables)
        return Published(
            tables,
            observed_law(shared, tables),
            None,
            limits=None if least is None else Limits(shared, tables, ExactLaw(least)),
            notes=(ONCE, *notes),
        )


def published_tables(
    path: Path,
    all_areas: Sequence[Areas],
    queries: Sequence[QueryGroup],
    *,
    absent: Literal["hidden", "zero"],
) -> tuple[dict[TableName, PublishedTable], tuple[str, ...]]:
    """The tables of the input as a file of counts has them, and what of the file is not used.

    Args:
        path: The file.
        all_areas, queries: The areas and tables of the comparison.
        absent: What a count without a row is.
    Raises:
        ConfigError, StoreError: the table or a column is missing, or a count is no whole number.
        GeographyError, SchemaError: a row is of an area or an answer that is not there.
    """
    frame = read_counts(path)
    tables, used = {}, 0
    for areas in all_areas:
        for query in queries:
            rows = frame.filter((pl.col("areas") == areas.name) & (pl.col("query") == query.name))
            tables[areas.name, query.name] = _table(path, areas, query, rows, absent)
            used += rows.height
    left = frame.height - used
    notes = (f"{left:,} rows are of areas or queries that are not looked at here.",) if left else ()
    return tables, notes


def _table(path: Path, areas: Areas, query: QueryGroup, rows: pl.DataFrame, absent: str) -> PublishedTable:
    places = rows["geocode"].replace_strict(list(areas.codes), range(areas.n_areas), default=None)
    answers = rows["answer"].replace_strict(labels_of(query), range(query.size), default=None)
    if places.null_count():
        raise GeographyError(
            f"{path} has counts of '{query.name}' for areas of {areas.name} that the geography does not have. Give the "
            "geocodes of its geography.",
            code="unknown-geounit",
        )
    if answers.null_count():
        raise SchemaError(
            f"{path} has answers of '{query.name}' that this query does not have. It has "
            f"{', '.join(labels_of(query)[:20])}.",
            code="unknown-level",
        )
    shape = (areas.n_areas, query.size)
    hidden = np.full(shape, absent == "hidden")
    counts = np.zeros(shape, dtype=np.int64)
    at = places.cast(pl.Int64).to_numpy(), answers.cast(pl.Int64).to_numpy()
    hidden[at] = rows["count"].is_null().to_numpy()
    counts[at] = rows["count"].fill_null(0).to_numpy()
    return PublishedTable(counts, hidden)


def _least_hidden(shared: SharedInput, tables: Mapping[TableName, PublishedTable]) -> int | None:
    """The least true count that is hidden, where all shown counts are exact: an office says it of its rule."""
    hidden = [shared.truth[name][~table.shown] for name, table in tables.items()]
    exact = all(
        np.array_equal(table.counts[table.shown], shared.truth[name][table.shown])
        for name, table in tables.items()
    )
    counts = np.concatenate(hidden)
    return int(counts.min()) if exact and counts.size else None


def labels_of(query: QueryGroup) -> list[str]:
    """The label of each answer, as tables of a comparison name it: levels joined by " * ", "" for a total."""
    named = [factor.labels for factor in query.named_factors]
    labels = [""]
    for part in named:
        labels = [f"{first} * {second}" if first else second for first in labels for second in part]
    return labels


def read_counts(path: Path) -> pl.DataFrame:
    """A table of counts that somebody published; raises ConfigError or StoreError."""
    columns = ["areas", "geocode", "query", "answer", "count"]
    frame = scan_table(path, columns, "published counts")
    for column in columns[:-1]:
        require_text(frame, column, path, "published counts")
    stated = frame.select(
        *columns[:-1], whole_number("count").alias("count"), pl.col("count").is_null().alias("no count")
    )
    table = collect(stated, path, "published counts")
    if table.filter(pl.col("count").is_null() & ~pl.col("no count")).height:
        raise ConfigError(
            f"the column count of {path} has something that is no whole number. Leave it empty where a count is "
            "hidden.",
            code="bad-counts",
        )
    return table.with_columns(pl.col("answer").fill_null(""))
