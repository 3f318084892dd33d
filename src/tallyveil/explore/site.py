"""Make the explorer of a release: a static site from its published files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tallyveil.explore.compared import ComparedRelease, open_compared
from tallyveil.explore.district import DISTRICT_FILE, write_district
from tallyveil.explore.files import OTHER, SITE_FILE, write_json_data
from tallyveil.explore.folder import replaced_site
from tallyveil.explore.lists import kind_entries, write_lists
from tallyveil.explore.mapped import write_map
from tallyveil.explore.opened import OpenedRelease, open_for_explorer
from tallyveil.explore.pages import copy_pages
from tallyveil.explore.tables import WrittenTables, write_other_tables, write_tables
from tallyveil.explore.wording import NO_INTERVALS, guarantee_sentences, intervals_entry, left_out
from tallyveil.release.marks import Marks, joint_marks, marks_of
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.outputs import refuse_output_inside
from tallyveil.version import VERSION

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Site:
    """A site that was made.

    Attributes:
        path: Its folder.
        files: Number of its files.
        size: Their bytes together.
        tables: The queries that it shows.
        marks: What must be said wherever the releases are shown.
        left_out: What the release has and the site does not show, in sentences.
    """

    path: Path
    files: int
    size: int
    tables: tuple[str, ...]
    marks: Marks
    left_out: tuple[str, ...]

    def to_mapping(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "site": str(self.path),
            "files": self.files,
            "bytes": self.size,
            "tables": list(self.tables),
            **self.marks.entry(),
            "left_out": list(self.left_out),
        }


def make_site(
    root: Path, site: Path, *, tables: Sequence[str] | None = None, compared: Path | None = None
) -> Site:
    """Make the explorer of a release.

    Args:
        root: Folder of a finished release.
        site: Folder of the site: it does not exist, is empty, or holds an earlier site, which is replaced.
        tables: The queries to show; None for those of the release's tables and of its intervals.
        compared: Folder of a second release of the same geography and queries, whose counts are shown beside, for the
            kinds of areas that both have; None without.
    Returns:
        What was made. The same releases give the same bytes.
    Raises:
        StoreError: a folder holds no finished release of the main product, or one that was changed, or the site's
            folder holds something else, or lies in a release.
        ConfigError: the release has no such table, or the second release has other areas or tables.
    Privacy: post-processing. It reads published files alone and spends nothing.
    """
    roots = [root] if compared is None else [root, compared]
    for folder in roots:
        refuse_output_inside(site, folder)
    with replaced_site(site, roots) as unfinished:
        release = open_for_explorer(root, tables)
        other = None if compared is None else open_compared(release, compared)
        copy_pages(unfinished)
        mapped = write_map(unfinished, root, release.areas)
        write_lists(unfinished, release.areas, mapped.boxes, release.tags)
        written = write_tables(unfinished, release)
        if other is not None:
            write_other_tables(unfinished, other.release, other.kinds, OTHER)
        lacking = write_district(unfinished, root, release.queries, release.areas.measured)
        content = _content(release, written, other) | {
            "map": mapped.entry,
            "no_map": mapped.why,
            "district": None if lacking is not None else {"file": DISTRICT_FILE},
            "no_district": lacking,
        }
        write_json_data(unfinished, SITE_FILE, content)
        sizes = [path.stat().st_size for path in unfinished.rglob("*") if path.is_file()]
    queries = tuple(group.name for group in release.queries)
    opened = [release] if other is None else [release, other.release]
    shown_marks = joint_marks({shown.name: shown.manifest for shown in opened})
    return Site(site, len(sizes), sum(sizes), queries, shown_marks, left_out(release))


def _content(release: OpenedRelease, written: WrittenTables, other: ComparedRelease | None) -> JsonObject:
    intervals = intervals_entry(release)
    return {
        "format": FORMAT,
        "name": release.name,
        "unit": release.schema.unit.many,
        "made_by": f"tallyveil {VERSION}",
        "run": release.manifest.run,
        "warnings": list(marks_of(release.manifest).warnings),
        "guarantee": guarantee_sentences(release),
        "kinds": kind_entries(release.areas),
        "finest": release.areas.finest,
        "tables": written.entries,
        "share_of": written.share_of,
        "intervals": intervals,
        "no_intervals": None if intervals is not None else NO_INTERVALS,
        "compared": None
        if other is None
        else {
            "name": other.release.name,
            "run": other.release.manifest.run,
            "warnings": list(marks_of(other.release.manifest).warnings),
            "intervals": intervals_entry(other.release),
            "tables": [other.release.has_intervals(group.name) for group in other.release.queries],
            "kinds": list(other.kinds),
        },
    }
