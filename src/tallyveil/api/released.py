"""A finished release of the main product: its tables, estimates, intervals, and districts of it; and `open`."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, overload

import polars as pl

from tallyveil.api.areas import query_named
from tallyveil.api.arguments import (
    AnyPath,
    Name,
    Text,
    checked,
)
from tallyveil.api.measured import Measurements, WithMeasurements
from tallyveil.api.opened import Opened, with_page
from tallyveil.errors import ConfigError, StoreError
from tallyveil.exact import as_given
from tallyveil.files.finished import refuse_unfinished
from tallyveil.files.intervals import (
    BESIDE,
    INTERVALS,
    refuse_earlier_tables,
    refuse_format_1,
    unchanged_parts,
)
from tallyveil.files.manifest import ReleaseKind
from tallyveil.files.manifest_files import read_manifest
from tallyveil.files.tables import TABLES, has_zeros, table_name
from tallyveil.files.whole_tables import listed_rows, whole_table
from tallyveil.plans.machine import machine_memory
from tallyveil.schema.answer_columns import summed_out
from tallyveil.schema.names import as_named
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema, schema_from_mapping
from tallyveil.storage.paths import hive_folder
from tallyveil.storage.read import collect, parquet_metadata, scan_parquet

if TYPE_CHECKING:
    from tallyveil.plans.release import StatedPlan
    from tallyveil.runs.product import Outcome


_BYTES: Final = 16
"""Bytes of a field of a table in memory, at most: polars keeps a text of 16 bytes, or a reference to a longer one."""


class Release(WithMeasurements):
    """A finished release: counts of every geounit, made by `run` or `estimate`, or opened by `open`."""

    @property
    def name(self) -> str:
        """Name of the release."""
        return str(self.manifest.body["name"])

    @property
    def areas(self) -> tuple[str, ...]:
        """What there are tables of: geolevels, and families of entities."""
        hierarchies = self._hierarchies
        known = (hierarchies.spine.geolevels[level] for level in hierarchies.known_levels)
        replaced = (family.name for family in hierarchies.replaced)
        # Tables are of the areas that readers know: geolevels as published, replaced ones by their own name.
        return (*known, *replaced, *self.manifest.body["plan"].get("entities", []))

    @property
    def queries(self) -> tuple[str, ...]:
        """The queries that there are tables of."""
        return tuple(self.manifest.body["plan"]["tables"])

    @checked
    def table(self, area: Name, query: Name, *, zeros: bool = True) -> pl.DataFrame:
        """The published counts of a query.

        Args:
            area: A geolevel, or a family of entities.
            query: A query of the release's tables.
            zeros: Whether rows with a published count of 0 are there. Estimates add up over all rows alone: where the
                rows are chosen by their counts, sums and means of estimates are too high, and fewer true counts lie
                in their intervals than the stated share.
        Returns:
            One row for each answer of each area: `geocode`; one column for each attribute in the query, with the
            labels of its groups; `count`; after `add_intervals` also `estimate`, `standard_error`, `lower` and `upper`.
        Raises:
            ConfigError: the release has no such table, or all its rows do not fit into this machine's memory.
            StoreError: the table is damaged, or the folder was removed; or an earlier version left out rows with
                estimates, and `intervals/` does not hold them.
        """
        # Another process may have added intervals since this object was made.
        self._read_again()
        query = as_named(query, self.queries)
        refuse_earlier_tables(self.path, "Read their files directly")
        folder = table_name(area, query) + "/"
        # By the manifest, because a file that it does not list is no table of the release.
        if not any(name.startswith(folder) for name in self.manifest.digests):
            raise ConfigError(
                f"{self.path} has no table of {query!r} for {area!r}. It has tables of "
                f"{', '.join(self.queries)}, for {', '.join(self.areas)}.",
                code="no-table",
            )
        group = self._schema.query(query)
        if zeros:
            # Tables with zeros are stored so, and are no larger in memory than on disk; others would be filled up.
            if not has_zeros(group):
                self._refuse_large(area, group)
            frames = whole_table(self.path, self.manifest, area, group)
        else:
            frames = listed_rows(self.path, self.manifest, area, query)
        # Columns of attributes that the query sums out are empty.
        return pl.concat(frames).drop(summed_out(group))

    def interval(self, query: str, area: str) -> pl.DataFrame:
        """Unbiased estimates and intervals of a geounit or an entity.

        Args:
            query: A query of `intervals/`.
            area: Geocode of a geounit, name of an entity, or a name in the release's table of names.
        Returns:
            One row for each answer: `geolevel` (the geolevel or family), the labels, `count`, `estimate`,
            `standard_error`, `lower` and `upper`. If areas of several geolevels or families have this code or name, the
            rows of all of them.
        Raises:
            StoreError: the release has no intervals of the query; `add_intervals` makes them.
            GeographyError: nothing has this code or name.
        """
        from tallyveil.postprocess.derived.district import areas_asked

        self._read_again()
        group = query_named(self, query)
        tables = {
            parquet_metadata(parts[0])["tallyveil.geolevel"]: parts
            for parts in self._interval_parts(group.name)
        }
        # Intervals may be of entities that the release itself does not know, so their files are asked first. Looking up
        # the area in the hierarchies first would refuse such an entity.
        rows = self._interval_rows(group, tables, [(kind, area) for kind in tables if isinstance(area, str)])
        return rows if len(rows) else self._interval_rows(group, tables, areas_asked(self._hierarchies, area))

    @staticmethod
    def _interval_rows(
        group: QueryGroup, tables: Mapping[str, list[Path]], areas: Sequence[tuple[str, str]]
    ) -> pl.DataFrame:
        """The intervals of areas, each given by its geolevel or family and its code, as far as `tables` has them."""
        frames = []
        for kind, parts in tables.items():
            codes = [code for of, code in areas if of == kind]
            rows = (
                scan_parquet(*parts)
                .filter(pl.col("geocode").is_in(codes))
                .drop("geocode", *summed_out(group))
            )
            frames.append(
                collect(rows.select(pl.lit(kind).alias("geolevel"), pl.all()), parts[0], "intervals")
            )
        return pl.concat(frames)

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages of the labels, that which is shown without a choice first; none without labels."""
        return self._plan.languages

    @checked
    def with_labels(self, frame: pl.DataFrame, language: Text | None = None) -> pl.DataFrame:
        """A table, or an answer to a question, for people: with labels in the place of names of levels.

        Args:
            frame: Of this release; its columns of attributes and recodes are labelled.
            language: One of `languages`; None for the first.
        Raises:
            ConfigError: the release has no labels in this language.
        """
        from tallyveil.schema.answer_columns import with_labels

        if language is None and self.languages:
            language = self.languages[0]
        if language not in self.languages:
            raise ConfigError(
                f"{self.path} has no labels in {language or 'any language'}; it has them in "
                f"{', '.join(self.languages) or 'none'}. [labels] of the release file says them.",
                code="no-labels",
            )
        return with_labels(frame, self._schema, self._plan.labels_in(language))

    @cached_property
    def _plan(self) -> "StatedPlan":
        from tallyveil.files.finished import PLAN
        from tallyveil.plans.fitting import stated_plan

        return stated_plan(self.path / PLAN, self.manifest.body["plan"])

    def _refuse_large(self, area: str, group: QueryGroup) -> None:
        """Refuse a table of many answers whose rows do not fit into memory; raises ConfigError."""
        # Before anything is read: a table that does not fit would end the process and not raise.
        rows = len(self._hierarchies.codes_of(area)) * group.size
        columns = 2 + len(group.factors) + len(BESIDE)
        if rows * columns * _BYTES > machine_memory():
            raise ConfigError(
                f"the table of {group.name!r} for {area!r} has {rows:,} rows, one for each answer of each area, which "
                "do not fit into this machine's memory. Ask for the rows with a count above 0, with zeros=False, or "
                f"read the files of {self.path / TABLES} part by part.",
                code="table-large",
            )

    def _interval_parts(self, query: str) -> list[list[Path]]:
        """The files of a query's intervals, by geolevel or family."""
        folders = sorted((self.path / INTERVALS).glob(f"geolevel=*/{hive_folder('query', query)}"))
        # A folder may hold a query of some families only, so that empty lists are left out below.
        parts = [unchanged_parts(self.path, sorted(folder.glob("part-*.parquet"))) for folder in folders]
        if not any(parts):
            refuse_format_1(self.path / INTERVALS)
            raise StoreError(
                f"{self.path} holds no intervals of {query!r}. Make them with add_intervals(), or with `tallyveil "
                "intervals`.",
                code="intervals-missing",
            )
        return [files for files in parts if files]

    def _lead(self) -> str:
        from tallyveil.report.release_files import schema_titles
        from tallyveil.words.listing import listed

        titles = schema_titles(self._schema)
        attributes = listed([titles.factor(name) for name in self._schema.attribute_names])
        return (
            f"Counts of {titles.unit.many} by {attributes}. Noise was added before they were published. report() "
            "writes a page that explains them."
        )

    @property
    def _schema(self) -> Schema:
        return schema_from_mapping(self.manifest.body["plan"]["schema"])

    def _lines(self) -> list[tuple[str, str]]:
        guarantee, sizes = self.guarantee, self.manifest.body["sizes"]
        units = self._schema.unit
        areas = ", ".join(f"{item['geounits']:,} {name}" for name, item in sizes["geolevels"].items())
        with_intervals = (self.path / INTERVALS).is_dir()
        return [
            ("counts", f"{units.counted(sizes['records'])} in {areas}"),
            ("tables", ", ".join(self.queries)),
            ("intervals", "beside the counts" if with_intervals else "none yet; add_intervals() makes them"),
            ("privacy", guarantee.statement),
            *(("published exactly", name) for name in guarantee.invariants),
            *super()._lines(),
        ]


def finished(outcome: "Outcome") -> Release:
    """The release that a run has finished. Its page is written, unless it is there already.

    Raises:
        StoreError: the page cannot be written.
    """
    return with_page(Release(outcome.path, outcome.manifest, already_finished=outcome.already_finished))


# What a folder holds is not known before it is read. Without `kind`, a type checker is told of a `Release`, which is
# what most people open, or something else: it takes what a `Release` has, and what it is handed to.
@overload
def open_folder(folder: str | Path, *, kind: None = None) -> Release | Any: ...
@overload
def open_folder(folder: str | Path, *, kind: Literal["topdown"]) -> Release: ...
@overload
def open_folder(folder: str | Path, *, kind: Literal["topdown-measurements"]) -> Measurements: ...
@overload
def open_folder(
    folder: str | Path,
    *,
    kind: Literal["safetab", "safetab-households", "safetab-groups", "integer-subspace"],
) -> Opened: ...
@checked
def open_folder(folder: AnyPath, *, kind: Name | None = None) -> Opened:
    """Open a finished release or finished measurements.

    Args:
        folder: A folder that `run`, `estimate`, `measure` or a command of `tallyveil` has made.
        kind: The kind that the folder must hold, as in its manifest; None for any. With it, type checkers know the
            class of the result.
    Returns:
        A `Release` for a folder of the main product (`topdown`), `Measurements` for a folder of `measure`
        (`topdown-measurements`), and for other products an `Opened` with the manifest, the guarantee as plain data and
        the page.
    Raises:
        ConfigError: the folder is no path, or there is no such kind.
        StoreError: the folder holds nothing finished or another kind, or was changed.
    """
    path, wanted = Path(folder), _kinds_of(kind)
    # Before the manifest is read: its absence means something else while a run is going on.
    refuse_unfinished(path)
    manifest = read_manifest(path, *wanted)
    if manifest.kind is ReleaseKind.TOPDOWN:
        return Release(path, manifest)
    if manifest.kind is ReleaseKind.MEASUREMENTS:
        return Measurements(path, manifest)
    return Opened(path, manifest)


open = open_folder  # noqa: A001 - read as `tallyveil.open`


def _kinds_of(kind: str | None) -> tuple[ReleaseKind, ...]:
    """The kinds that a folder may hold."""
    if kind is None:
        return tuple(ReleaseKind)
    wanted = tuple(known for known in ReleaseKind if known.value == kind)
    if not wanted:
        raise ConfigError(
            f"kind is {as_given(kind)}, wanted {', '.join(ReleaseKind)}, or nothing for any of them.",
            code="bad-argument",
        )
    return wanted
