"""`tallyveil geography`: geography tables from public files. No records are opened."""

from pathlib import Path
from typing import Annotated

import typer

from tallyveil.cli.frame.arguments import AsJson, Quiet, group_of_commands
from tallyveil.cli.frame.terminal import say, say_json

geography = group_of_commands("geography", "Make geography and entity tables from public files.")


@geography.callback()
def options() -> None:
    """Make geography and entity tables from public files. Nothing confidential is read, and nothing is spent."""


@geography.command(name="import")
def import_files(
    *,
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Folder of the tables and the report.")
    ],
    baf: Annotated[
        list[Path] | None,
        typer.Option(
            "--baf",
            metavar="FOLDER",
            help="Folder with block assignment files of one State or several. May be repeated.",
        ),
    ] = None,
    grf: Annotated[
        list[Path] | None,
        typer.Option(
            "--grf",
            metavar="FILE",
            help="Geographic reference file, with a row for each block and all its codes. May be repeated.",
        ),
    ] = None,
    facilities: Annotated[
        Path | None,
        typer.Option(
            "--facilities",
            help="Table of group quarters, with the columns BLOCKID, GQTYPE and FACILITIES.",
        ),
    ] = None,
    zcta: Annotated[
        Path | None,
        typer.Option(
            "--zcta", help="The Bureau's relationship file of ZIP Code tabulation areas and blocks."
        ),
    ] = None,
    areas: Annotated[
        list[Path] | None,
        typer.Option(
            "--areas",
            metavar="FILE",
            help="The Bureau's list of places or of county subdivisions, with functional statuses. With both, block "
            "assignment files give primitives, too. May be repeated.",
        ),
    ] = None,
    cbsa: Annotated[
        Path | None,
        typer.Option(
            "--cbsa",
            help="The list of metropolitan and micropolitan statistical areas and their counties, saved as CSV.",
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Import blocks and areas from files of the United States Census Bureau.

    Writes geography.parquet (every block), entities.parquet (the areas of every block, as the spine presets use them
    and as they are published), facilities.parquet (bounds on group quarters), and the report import.json and
    import.txt.
    """
    from tallyveil.api.exchange import import_geography
    from tallyveil.geography.census.importing import report_lines

    imported, paths = import_geography(
        out, baf=baf or (), grf=grf or (), facilities=facilities, zcta=zcta, areas=areas or (), cbsa=cbsa
    )
    if as_json:
        say_json(imported.report, indent=2)
    elif not quiet:
        for line in report_lines(imported.report):
            say(line)
        say(f"\n{', '.join(path.name for path in paths.values())} in {out}")
