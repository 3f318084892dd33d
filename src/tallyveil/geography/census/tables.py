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
    # Before anything is removed: an input in the same folder would be lost.
    refuse_inputs(folder, imported.inputs)
    tables = {
        "geography": imported.geography,
        "entities": imported.entities,
        "facilities": imported.facilities,
    }
    paths = {name: folder / f"{name}.parquet" for name in tables}
    paths |= {"import.json": folder / "import.json", "import.txt": folder / "import.txt"}
    with own_folder(folder, COMMAND):
        # All old files go before the first new one: tables of two imports would fit each other in form, and in nothing
        # else.
        for path in paths.values():
            remove(path)
        for name, table in tables.items():
            if table is None:
                del paths[name]
            else:
                write_parquet(paths[name], table, TAGS)
        write_text(paths["import.txt"], "\n".join(report_lines(imported.report)) + "\n")
        # The JSON is written last: a folder with it has everything else.
        write_json(paths["import.json"], imported.report)
    return paths


def report_lines(report: dict[str, Any]) -> Iterator[str]:
    """The report as lines of text that are safe to print."""
    for line in _lines(report):
        yield shown(line)


def _lines(report: dict[str, Any]) -> Iterator[str]:
    yield f"Blocks: {report['blocks']:,}. States: {len(report['states'])}."
    yield "\nFiles"
    for source_file in report["files"]:
        yield f"  {source_file['path']}: {source_file['what']}, {source_file['rows']:,} rows"
    yield "\nStates, and the rule for each"
    for state in report["states"]:
        yield from _state_lines(state)
    yield "\nTribal areas"
    yield from (_tribal_line(area) for area in report["tribal_areas"])
    if not report["tribal_areas"]:
        yield "  none"
    yield "\nFamilies of the entity table"
    for name, counts in report["families"].items():
        yield f"  {name}: {counts['entities']:,} entities, {counts['blocks']:,} blocks"
    yield "\nWhat did not fit"
    yield from (f"  {misfit}" for misfit in report["misfits"] or ["nothing"])


def _state_lines(state: dict[str, Any]) -> Iterator[str]:
    yield (
        f"  {state['state']} {state['name']}, from {state['source']}. Counties: {state['counties']:,}; "
        f"tracts: {state['tracts']:,}; block groups: {state['block_groups']:,}; blocks: {state['blocks']:,}."
    )
    yield f"    Rule: {state['rule']}."
    yield (
        f"    Minor civil divisions: {state['county_subdivisions']:,} with {state['blocks_in_county_subdivisions']:,} "
        f"blocks; places: {state['places']:,} with {state['blocks_in_places']:,}; blocks in neither: "
        f"{state['blocks_in_neither']:,}."
    )
    branch = "divide the State" if state["is_divided_by_tribal_branch"] else "do not divide the State"
    yield (
        f"    Tribal areas of the spine: {state['tribal_areas']:,} with {state['blocks_in_tribal_areas']:,} blocks; "
        f"they {branch}."
    )


def _tribal_line(area: dict[str, Any]) -> str:
    parts = "".join(f"; component {kind}: {number:,}" for kind, number in area["components"].items())
    use = "in the spine" if area["in_spine"] else "not in the spine"
    return (
        f"  {area['code']}, {area['class']}, {use}. States: {', '.join(area['states'])}; "
        f"counties: {area['counties']:,}; block groups: {area['block_groups']:,}; blocks: {area['blocks']:,}{parts}."
    )
