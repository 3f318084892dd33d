"""Writes an imported geography: Parquet tables, and its report as JSON and as text."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tallyveil.geography.census.importing import Imported
from tallyveil.printable import shown
from tallyveil.storage.outputs import own_folder, refuse_inputs, remove
from tallyveil.storage.write import write_json, write_parquet, write_text

COMMAND: Final = "geography import"
TAGS: Final = {"source": "census"}


def write_imported(imported: Imported, folder: Path) -> dict[str, Path]:
    """Write the tables and the report; until all are written, the folder is marked as unfinished.

    The files of an earlier import are removed before the first new one is written, because tables of two imports are of
    different blocks.

    Args:
        imported: The geography.
        folder: A new or empty folder, or one that an import wrote to before. It is made if it does not exist.

    Returns:
        Paths by name: geography, entities, facilities (if there are any), import.json and import.txt.

    Raises:
        StoreError: the folder holds other files or one of the inputs, another process writes it, or a file cannot be
            written.
    """
    refuse_inputs(folder, imported.inputs)
    tables = {
        "geography": imported.geography,
        "entities": imported.entities,
        "facilities": imported.facilities,
    }
    paths = {name: folder / f"{name}.parquet" for name in tables}
    paths |= {"import.json": folder / "import.json", "import.txt": folder / "import.txt"}
    with own_folder(folder, COMMAND):
        for path in paths.values():
            remove(path)
        for name, table in tables.items():
            if table is None:
                del paths[name]
            else:
                write_parquet(paths[name], table, TAGS)
        write_text(paths["import.txt"], "\n".join(report_lines(imported.report)) + "\n")
        write_json(paths["import.json"], imported.report)
    return paths


def report_lines(report: dict[str, Any]) -> Iterator[str]:
    """The report as lines of text that are safe to print."""
    for line in _lines(report):
        yield shown(line)


def _lines(report: dict[str, Any]) -> Iterator[str]:
    yield f"Blocks: {report['blocks']:,}. States: {len(report['states'])}."
    yield "\nFiles"
    for one in report["files"]:
        yield f"  {one['path']}: {one['what']}, {one['rows']:,} rows"
    yield "\nStates, and the rule for each"
    for one in report["states"]:
        yield from _state_lines(one)
    yield "\nTribal areas"
    yield from (_tribal_line(one) for one in report["tribal_areas"])
    if not report["tribal_areas"]:
        yield "  none"
    yield "\nFamilies of the entity table"
    for name, one in report["families"].items():
        yield f"  {name}: {one['entities']:,} entities, {one['blocks']:,} blocks"
    yield "\nWhat did not fit"
    yield from (f"  {one}" for one in report["misfits"] or ["nothing"])


def _state_lines(one: dict[str, Any]) -> Iterator[str]:
    yield (
        f"  {one['state']} {one['name']}, from {one['source']}. Counties: {one['counties']:,}; tracts: "
        f"{one['tracts']:,}; block groups: {one['block_groups']:,}; blocks: {one['blocks']:,}."
    )
    yield f"    Rule: {one['rule']}."
    yield (
        f"    Minor civil divisions: {one['county_subdivisions']:,} with {one['blocks_in_county_subdivisions']:,} "
        f"blocks; places: {one['places']:,} with {one['blocks_in_places']:,}; blocks in neither: "
        f"{one['blocks_in_neither']:,}."
    )
    branch = "divide the State" if one["is_divided_by_tribal_branch"] else "do not divide the State"
    yield (
        f"    Tribal areas of the spine: {one['tribal_areas']:,} with {one['blocks_in_tribal_areas']:,} blocks; they "
        f"{branch}."
    )


def _tribal_line(one: dict[str, Any]) -> str:
    parts = "".join(f"; component {kind}: {number:,}" for kind, number in one["components"].items())
    use = "in the spine" if one["in_spine"] else "not in the spine"
    return (
        f"  {one['code']}, {one['class']}, {use}. States: {', '.join(one['states'])}; counties: {one['counties']:,}; "
        f"block groups: {one['block_groups']:,}; blocks: {one['blocks']:,}{parts}."
    )
