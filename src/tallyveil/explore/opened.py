"""A finished release, opened for its explorer: only published files, each held to its digest."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tallyveil.errors import ConfigError, StoreError
from tallyveil.explore.kinds import Areas, areas_of
from tallyveil.explore.rows import BESIDE, COUNT, TableRows
from tallyveil.files.geography import GEOGRAPHY, GEOMETRY, NAMES, read_hierarchies
from tallyveil.files.intervals import (
    INTERVALS,
    known_queries,
    made_intervals,
    refuse_earlier_tables,
    refuse_format_1,
    unchanged_parts,
)
from tallyveil.files.manifest import Manifest, ReleaseKind
from tallyveil.files.manifest_files import read_manifest, require_unchanged
from tallyveil.files.tables import TABLES, table_name
from tallyveil.schema.names import as_named
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema, schema_from_mapping
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.paths import inside


@dataclass(frozen=True, slots=True, eq=False)
class OpenedRelease:
    """What the explorer shows of a release.

    Attributes:
        root: Its folder.
        manifest: Content of its `manifest.json`.
        schema: The universe.
        areas: Its areas.
        queries: The tables to show, in order.
        intervals: Content of the manifest of its intervals; None if it has none.
    """

    root: Path
    manifest: Manifest
    schema: Schema
    areas: Areas
    queries: tuple[QueryGroup, ...]
    intervals: JsonObject | None

    @property
    def name(self) -> str:
        """Name of the release."""
        return str(self.manifest.body["name"])

    @property
    def tags(self) -> dict[str, str]:
        """Metadata of the files of its site."""
        return self.manifest.file_tags

    def has_intervals(self, query: str) -> bool:
        """Whether the release has intervals of a query, beside the counts of every kind that it has a table of."""
        return self.intervals is not None and any(
            item["query"] == query for item in self.intervals["compared"]
        )

    def rows(self, number: int, group: QueryGroup) -> TableRows | None:
        """The table of a query for a kind of areas; None if the release has none.

        Raises:
            StoreError: a file of it is missing or was changed.
        """
        kind, with_intervals = self.areas.kinds[number], self.has_intervals(group.name)
        parts = self._listed(table_name(kind.name, group.name, INTERVALS if with_intervals else TABLES))
        if not parts:
            return None
        if with_intervals:
            unchanged_parts(self.root, parts)
        else:
            for part in parts:
                require_unchanged(self.root, self.manifest, part)
        return TableRows(parts, kind, group, (COUNT, *BESIDE) if with_intervals else (COUNT,))

    def _listed(self, folder: str) -> list[Path]:
        """The files of a folder that the manifests of the release and of its intervals list, in order."""
        beside = [] if self.intervals is None else [file["path"] for file in self.intervals["files"]]
        names = [name for name in (*self.manifest.digests, *beside) if name.startswith(f"{folder}/")]
        return [inside(self.root, *name.split("/")) for name in sorted(names)]


def open_for_explorer(root: Path, tables: Sequence[str] | None) -> OpenedRelease:
    """Open a release.

    Args:
        root: Its folder.
        tables: The queries to show; None for those of its tables.
    Raises:
        StoreError: the folder holds no finished release of the main product, or a file in it was changed.
        ConfigError: the release has no such table.
    """
    manifest = read_manifest(root)
    if manifest.kind not in (ReleaseKind.TOPDOWN, ReleaseKind.MEASUREMENTS):
        raise StoreError(
            f"{root} holds a release of `{manifest.kind.command}`. There is an explorer only for releases of "
            "`tallyveil run` and `tallyveil estimate`, which have counts of every area of a geography. "
            f"`tallyveil report {root}` writes the page of this release.",
            code="no-explorer",
        )
    manifest = read_manifest(root, ReleaseKind.TOPDOWN)
    refuse_earlier_tables(root, "Read their files directly")
    refuse_format_1(root / INTERVALS)
    for name in (GEOGRAPHY, NAMES, GEOMETRY):
        if name in manifest.digests:  # a file that is missing is refused, too
            require_unchanged(root, manifest, root / name)
    plan = manifest.body["plan"]
    intervals = made_intervals(root, manifest.run)
    schema = schema_from_mapping(plan["schema"])
    names = _table_names(root, manifest, tables)
    return OpenedRelease(
        root,
        manifest,
        schema,
        areas_of(read_hierarchies(root), plan),
        tuple(schema.query(name) for name in names),
        intervals,
    )


def _table_names(root: Path, manifest: Manifest, tables: Sequence[str] | None) -> list[str]:
    """The queries to show, in the order of the release."""
    known = known_queries(root, manifest)
    wanted = known if tables is None else [as_named(name, known) for name in tables]
    missing = [name for name in wanted if name not in known]
    if missing or not wanted:
        what = f"has no table of {', '.join(missing)}" if missing else "has no tables to show"
        raise ConfigError(
            f"{root} {what}. It has tables of {', '.join(known) or 'nothing'}. Name some of these, or make intervals "
            "of other queries first: `tallyveil intervals RUN --tables QUERY,...` writes their counts, too.",
            code="no-table",
        )
    return [name for name in known if name in wanted]
