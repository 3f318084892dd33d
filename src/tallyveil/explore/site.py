"""Make the site of a finished release: its files, a second release beside it, and what it says in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tallyveil.declared import ContentInPart, Many
from tallyveil.errors import ConfigError
from tallyveil.explore.areas import Kind, kind_entries, write_lists
from tallyveil.explore.asking import asking_entry
from tallyveil.explore.district import DISTRICT_FILE, write_district
from tallyveil.explore.editions import edition_entries, guarantee_sentences, signature_sentence
from tallyveil.explore.files import (
    EXPLORER,
    OTHER,
    SITE_FILE,
    copy_pages,
    copy_words,
    replaced_site,
    write_json_data,
)
from tallyveil.explore.maps import write_map
from tallyveil.explore.opened import OpenedRelease, open_for_explorer
from tallyveil.explore.tables import NO_INTERVALS, WrittenTables, write_other_tables, write_tables
from tallyveil.files.finished import MANIFEST
from tallyveil.files.marks import Marks, joint_marks, marks_of
from tallyveil.files.signatures import Signature, signature_of
from tallyveil.report.release_files import schema_titles
from tallyveil.storage.json_files import JsonObject, read_declared, read_json_object
from tallyveil.storage.outputs import refuse_output_inside
from tallyveil.version import VERSION
from tallyveil.words.language import language_of
from tallyveil.words.listing import listed


@dataclass(frozen=True, slots=True, eq=False)
class ComparedRelease:
    """The release that another one is compared with.

    Attributes:
        release: The release.
        kinds: The kinds of areas that both have: for the number of a kind in the first, its number in this one.
    """

    release: OpenedRelease
    kinds: Mapping[int, int]


def open_compared(release: OpenedRelease, root: Path) -> ComparedRelease:
    """Open the release that another one is compared with.

    The two may have different kinds of areas, such as a root that only one has. Kinds of one name are the same areas.

    Args:
        release: The one that is shown.
        root: Folder of the other.
    Raises:
        StoreError: the folder holds no finished release, or one that was changed.
        ConfigError: they have no kind of areas in common, or the areas of one kind or the answers of a table differ.
    """
    # With the same queries, so that the two tables can stand side by side.
    other = open_for_explorer(root, [group.name for group in release.queries])
    if not (release.has_counts and other.has_counts):
        raise ConfigError(
            f"{root} and {release.root} cannot be compared in one site, because one of them holds measurements, which "
            "have no published counts. Make a site of each.",
            code="not-comparable",
        )
    numbers = {kind.name: number for number, kind in enumerate(other.areas.kinds)}
    kinds = {
        number: numbers[kind.name] for number, kind in enumerate(release.areas.kinds) if kind.name in numbers
    }
    # Areas and answers are compared, and not the plans: two plans may publish the same tables.
    difference = _difference(release, other, kinds)
    if difference is not None:
        raise ConfigError(
            f"{root} cannot be compared with {release.root}: {difference}. Areas of one geolevel or family, and the "
            "answers of the tables, must be the same. Name a release of the same geography, and with --tables those "
            "queries that both have.",
            code="not-comparable",
        )
    return ComparedRelease(other, kinds)


def _difference(release: OpenedRelease, other: OpenedRelease, kinds: Mapping[int, int]) -> str | None:
    """The first thing in which two releases differ, in words; None if they can be compared."""
    if not kinds:
        first, second = (
            ", ".join(kind.name for kind in first_query.areas.kinds) for first_query in (release, other)
        )
        return f"it has areas of {second}, and the first has {first}"
    for number, its in kinds.items():
        difference = _areas_differ(release.areas.kinds[number], other.areas.kinds[its])
        if difference is not None:
            return difference
    for first_query, second_query in zip(release.queries, other.queries, strict=True):
        if first_query.labels() != second_query.labels():
            return f"its answers of '{first_query.name}' are others"
    return None


def _areas_differ(first: Kind, second: Kind) -> str | None:
    # The order too: rows of the site stand for areas.
    if first.codes.equals(second.codes):
        return None
    if first.codes.sort().equals(second.codes.sort()):
        return f"its areas of {first.name} stand in another order, because they lie in other areas"
    return f"its areas of {first.name} are others"


def intervals_entry(release: OpenedRelease) -> JsonObject | None:
    """What `site.json` says of the intervals; None if the release has none."""
    intervals = release.intervals
    if intervals is None:
        return None
    return {name: intervals[name] for name in ("level", "kind", "simultaneous", "covers", "bounds_used")}


def left_out(release: OpenedRelease) -> tuple[str, ...]:
    """What the release has and the site does not show, in sentences."""
    known = {kind.name for kind in release.areas.kinds}
    compared = [] if release.intervals is None else release.intervals["compared"]
    # Intervals can be of families that were given later, and whose blocks the release does not know.
    others = [name for name in dict.fromkeys(item["area"] for item in compared) if name not in known]
    if not others:
        return ()
    return (
        f"Left out: intervals of {listed(others)}. The release does not say which areas these consist of, because they "
        "were not among its own entities.",
    )


# Version of what the pages read. A change of its meaning needs the next number, here and in `app/`.
FORMAT = 1


@dataclass(frozen=True, slots=True)
class ExplorerSite:
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
) -> ExplorerSite:
    """Make the explorer of a release.

    Args:
        root: Folder of a finished release, or of measurements with intervals.
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
    # Before anything is opened, because the site would become a part of what it shows.
    for folder in roots:
        refuse_output_inside(site, folder)
    # In a folder of its own that takes the place of the old site when it is whole.
    with replaced_site(site, roots) as unfinished:
        release = open_for_explorer(root, tables)
        other = None if compared is None else open_compared(release, compared)
        copy_pages(unfinished, EXPLORER)
        copy_words(unfinished, release.plan.languages)
        mapped = write_map(unfinished, root, release.areas)
        write_lists(unfinished, release.areas, mapped.boxes, release.tags)
        written = write_tables(unfinished, release)
        if other is not None:
            # The second release below a folder of its own, with the numbers of the first.
            write_other_tables(unfinished, other.release, other.kinds, OTHER)
        lacking = write_district(unfinished, root, release.queries, release.areas.measured)
        content = _content(release, written, other) | {
            "map": mapped.entry,
            "no_map": mapped.why,
            "district": None if lacking is not None else {"file": DISTRICT_FILE},
            "no_district": lacking,
        }
        # Last, because pages begin with this file: what it names is there.
        write_json_data(unfinished, SITE_FILE, content)
        # After all is written, so that the number of bytes is that of the site.
        sizes = [path.stat().st_size for path in unfinished.rglob("*") if path.is_file()]
    queries = tuple(group.name for group in release.queries)
    opened = [release] if other is None else [release, other.release]
    shown_marks = joint_marks({shown.name: shown.manifest for shown in opened})
    return ExplorerSite(site, len(sizes), sum(sizes), queries, shown_marks, left_out(release))


class _StatedTable(ContentInPart):
    name: str


class _StatedRelease(ContentInPart):
    signature: str


class _StatedEdition(_StatedRelease):
    tag: str


class _StatedSite(_StatedRelease):
    tables: Many[_StatedTable]
    compared: _StatedRelease | None
    editions: Many[_StatedEdition] = ()


_MEND: Final = "Make the site again."


def copy_program(site: Path, out: Path) -> None:
    """Copy the pages of a site and their sentences in its languages, so that the two can be compared.

    Args:
        site: Folder of a site.
        out: Folder to fill.
    Raises:
        StoreError: the site does not say what it shows, or a file cannot be written.
    """
    _, stated = read_declared(site / SITE_FILE, _StatedSite, _MEND)
    copy_pages(out, EXPLORER)
    copy_words(out, [edition.tag for edition in stated.editions])


def remake_site(site: Path, out: Path, roots: Sequence[Path]) -> None:
    """Make a site once more, so that the two can be compared.

    A site stays as it was made. Where it says that a release was unsigned, the new one says so, too: the release may
    have been signed since.

    Args:
        site: Folder of a site.
        out: Folder of the new one, with the same tables.
        roots: Folder of its release, and of the one that it is compared with.
    Raises:
        StoreError, ConfigError: as for `make_site`, or the site does not say what it shows.
    """
    _, stated = read_declared(site / SITE_FILE, _StatedSite, _MEND)
    compared = roots[1] if len(roots) > 1 else None
    make_site(roots[0], out, tables=[table.name for table in stated.tables], compared=compared)
    content = read_json_object(out / SITE_FILE, _MEND)
    unsigned = signature_sentence(Signature())
    for release, entry in ((stated, content), (stated.compared, content["compared"])):
        if release is not None and entry is not None and release.signature == unsigned:
            entry["signature"] = unsigned
    for edition in content.get("editions", ()) if stated.signature == unsigned else ():
        edition["signature"] = signature_sentence(Signature(), language_of(edition["tag"]))
    write_json_data(out, SITE_FILE, content)


def _content(release: OpenedRelease, written: WrittenTables, other: ComparedRelease | None) -> JsonObject:
    intervals, signature = intervals_entry(release), signature_of(release.root / MANIFEST)
    editions = edition_entries(release, signature)
    return {
        "format": FORMAT,
        "name": release.name,
        "unit": release.schema.unit.many,
        "made_by": f"tallyveil {VERSION}",
        "run": release.manifest.run,
        "warnings": list(marks_of(release.manifest).warnings),
        "guarantee": guarantee_sentences(release, schema_titles(release.schema)),
        "signature": signature_sentence(signature),
        "kinds": kind_entries(release.areas),
        "finest": release.areas.finest,
        "tables": written.entries,
        "share_of": written.share_of,
        "intervals": intervals,
        "no_intervals": None if intervals is not None else NO_INTERVALS,
        "asking": asking_entry(release),
        # Only said where it differs from what all releases have.
        **({} if release.has_counts else {"counts": False}),
        "compared": None
        if other is None
        else {
            "name": other.release.name,
            "run": other.release.manifest.run,
            "warnings": list(marks_of(other.release.manifest).warnings),
            "signature": signature_sentence(signature_of(other.release.root / MANIFEST)),
            "intervals": intervals_entry(other.release),
            "tables": [other.release.has_intervals(group.name) for group in other.release.queries],
            "kinds": list(other.kinds),
        },
        **({"editions": editions} if editions else {}),
    }
