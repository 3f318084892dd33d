"""`tallyveil publish`, `copy` and `report`: a finished release in other forms, in another place, or with a new page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallyveil.cli.frame.arguments import (
    AsJson,
    Csv,
    FilesOut,
    FinishedRelease,
    LabelLanguage,
    Quiet,
    give,
    group_of_commands,
    names_if_any,
    names_of,
)
from tallyveil.cli.frame.terminal import say, say_json

if TYPE_CHECKING:
    from tallyveil.api.exchange import FormName
    from tallyveil.products.topdown.pl94.publication import Publication


publish = group_of_commands("publish", "Write the tables of finished releases in other forms.")


@publish.callback()
def options() -> None:
    """Write the tables of finished releases in other forms. Nothing confidential is read, and nothing is spent."""


@publish.command()
def pl94(
    persons: Annotated[
        Path, typer.Argument(help="Folder of a finished release of persons.", metavar="PERSONS")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder of the tables; new or empty.")],
    units: Annotated[
        Path | None,
        typer.Argument(
            help="Folder of a finished release of housing units, with the same geography.", metavar="UNITS"
        ),
    ] = None,
    csv: Csv = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Publish the redistricting tables (P.L. 94-171): P1 to P5 and, with UNITS, H1.

    They have the identifiers and labels of the Census Bureau and are made for every geolevel of the releases, and for
    every family of entities that a release publishes tables of.
    """
    from tallyveil.api.exchange import publish_pl94

    publication = publish_pl94(persons, out, units, csv=csv)
    if as_json:
        say_json(publication.content)
    elif not quiet:
        _show_publication(publication, out)


@publish.command()
def dhc(
    releases: Annotated[
        list[Path],
        typer.Argument(
            help="Folders of finished releases of persons and of units: one of them, or one of each with the same "
            "geography.",
            metavar="RELEASE...",
        ),
    ],
    out: FilesOut,
    tables: Annotated[
        str | None,
        typer.Option(
            "--named",
            metavar="NUMBER,...",
            help='Tables by their numbers, such as "P12,H4". Default: all that the releases have.',
        ),
    ] = None,
    microdata: Annotated[
        bool, typer.Option("--microdata", help="Write microdata in the published layouts, too.")
    ] = False,
    csv: Csv = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Publish tables and microdata of the Demographic and Housing Characteristics (DHC).

    The tables are made for every geolevel of the releases, and for every family of entities that a release publishes
    tables of. A table by race and Hispanic origin has a letter, such as P12A.
    """
    from tallyveil.api.exchange import publish_dhc

    names = names_if_any(tables, "--named")
    publication = publish_dhc(releases, out, tables=names, microdata=microdata, csv=csv)
    if as_json:
        say_json(publication.content)
    elif not quiet:
        _show_publication(publication, out)


@publish.command("csv")
def tables_as_csv(
    release: FinishedRelease,
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Folder of the CSV files; new or empty.")
    ],
    no_zeros: Annotated[
        bool, typer.Option("--no-zeros", help="Leave out rows with a published count of 0.")
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write every table of a release as a CSV file, with a row for every answer of every area.

    Estimates add up over all rows alone. Where rows are chosen by their published counts, as with --no-zeros, sums of
    their estimates are too high.
    """
    from tallyveil.api.exchange import publish_csv
    from tallyveil.files.marks import mark_lines

    content = publish_csv(release, out, zeros=not no_zeros)
    # Other files of the folder are of no query.
    tables = [file["path"] for file in content["files"] if "query" in file]
    record = {
        "files": tables,
        "out": str(out),
        "protected": content["protected"],
        "warnings": content["warnings"],
    }
    lines = [*mark_lines(content["warnings"]), f"tables as CSV: {len(tables)} files in {out}"]
    give(record, lines, quiet=quiet, as_json=as_json)


Tables = Annotated[str | None, typer.Option("--tables", metavar="QUERY,...", help="Queries. Default: all.")]
Geolevel = Annotated[
    str | None,
    typer.Option("--geolevel", metavar="NAME", help="Geolevel, or family of entities. Default: all."),
]
Period = Annotated[
    str | None,
    typer.Option(
        "--period", metavar="TIME", help="Reference period, such as 2026, 2026-03, 2026-Q1 or 2026-03-31."
    ),
]


@publish.command()
def sdmx(
    release: FinishedRelease,
    out: FilesOut,
    *,
    tables: Tables = None,
    geolevel: Geolevel = None,
    period: Period = None,
    language: LabelLanguage = None,
    agency: Annotated[
        str | None,
        typer.Option(
            "--agency", metavar="ID", help="Agency that maintains the structures. Default: TALLYVEIL."
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write tables of a release as SDMX-CSV 2.0, with a structure message (SDMX-ML 3.0).

    Status, standard error and interval of every number are attributes of the observation. Names stand in all languages
    of the release.
    """
    _publish_cubes(
        "sdmx",
        release,
        out,
        tables=tables,
        geolevel=geolevel,
        period=period,
        language=language,
        agency=agency,
        quiet=quiet,
        as_json=as_json,
    )


def _publish_cubes(
    form: "FormName",
    release: Path,
    out: Path,
    *,
    tables: str | None,
    geolevel: str | None,
    quiet: bool,
    as_json: bool,
    period: str | None,
    language: str | None,
    agency: str | None = None,
) -> None:
    from tallyveil.api.exchange import publish_tables
    from tallyveil.files.marks import mark_lines

    content = publish_tables(
        release,
        form,
        out,
        tables=names_if_any(tables, "--tables"),
        geolevel=geolevel,
        period=period,
        language=language,
        agency=agency,
    )
    files = [file["path"] for file in content["files"]]
    record = {"files": files, "out": str(out), **{key: content[key] for key in ("protected", "warnings")}}
    lines = [*mark_lines(content["warnings"]), f"{form}: {len(files)} files in {out}"]
    give(record, lines, quiet=quiet, as_json=as_json)


def _command_of(form: "FormName", about: str) -> None:
    """Add the command of a form that takes the flags of all forms and no others."""

    def command(
        release: FinishedRelease,
        out: FilesOut,
        *,
        tables: Tables = None,
        geolevel: Geolevel = None,
        period: Period = None,
        language: LabelLanguage = None,
        quiet: Quiet = False,
        as_json: AsJson = False,
    ) -> None:
        _publish_cubes(
            form,
            release,
            out,
            tables=tables,
            geolevel=geolevel,
            period=period,
            language=language,
            quiet=quiet,
            as_json=as_json,
        )

    command.__doc__ = about
    publish.command(form)(command)


_command_of(
    "json-stat",
    """Write tables of a release as JSON-stat 2.0 data sets.

    The last dimension of a data set says which number a value is: the published one, its estimate, and so on.
    """,
)
_command_of(
    "px",
    """Write tables of a release as PX files, for PxWeb and PC-Axis.

    Texts stand in all languages of the release.
    """,
)
_command_of(
    "xlsx",
    """Write tables of a release as one Excel workbook with a cover. Needs the extra `xlsx`.

    Every table is a sheet with a row for each number, its estimate and its interval. Longer tables than a sheet holds
    are refused.
    """,
)


@publish.command()
def clean(release: FinishedRelease, quiet: Quiet = False, as_json: AsJson = False) -> None:
    """Take seconds, memory, times and names of machines out of a release, or of a programme, of an earlier version.

    They are facts about the machines that did the work and not the output of a mechanism. The page is drawn anew. Sign
    a release afterwards. This version writes nothing of the kind into a release.
    """
    from tallyveil.api.products import publish_clean

    names = [str(folder) for folder in publish_clean(release)]
    give({"releases": names}, [f"cleaned: {name}" for name in names], quiet=quiet, as_json=as_json)


@publish.command("geoparquet")
def tables_on_a_map(
    release: FinishedRelease,
    geolevel: Annotated[
        str, typer.Option("--geolevel", metavar="NAME", help="Geolevel, or family of entities.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="File to write (GeoParquet).")],
    tables: Annotated[
        str,
        typer.Option("--tables", metavar="QUERY,...", help="Queries. Default: total."),
    ] = "total",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write tables of a release with the shapes of its areas, for QGIS and the like. Needs the extra `maps`.

    The file has a row for each area and a column for each answer. RUN may be a folder of measurements, whose estimates
    `tallyveil intervals` has made.
    """
    from tallyveil.api.exchange import publish_geoparquet

    map_file = publish_geoparquet(release, geolevel, out, tables=names_of(tables, "--tables"))
    numbers = {"areas": map_file.areas, "columns": map_file.columns, "n_missing": map_file.n_missing}
    record = {**numbers, **map_file.marks.entry(), "out": str(out)}
    lines = [
        *map_file.marks.lines(),
        f"{map_file.areas:,} areas, {map_file.columns:,} columns of numbers in {out}",
    ]
    lines += [f"without a shape: {map_file.n_missing:,} areas"] * (map_file.n_missing > 0)
    give(record, lines, quiet=quiet, as_json=as_json)


def _show_publication(publication: "Publication", out: Path) -> None:
    from tallyveil.files.marks import mark_lines
    from tallyveil.products.topdown.pl94.publication import cost_lines

    content = publication.content
    for line in mark_lines(content["warnings"]):
        say(line)
    say(f"tables: {', '.join(content['tables'])}")
    if content.get("microdata"):
        say(f"microdata: {', '.join(content['microdata'])}")
    say("areas: " + ", ".join(f"{number:,} {name}" for name, number in content["areas"].items()))
    for line in cost_lines(content):
        say(line)
    say(f"checks passed: {len(content['checks'])}; files: {publication.files + 1} in {out}")


MOST_NAMES = 20
"""How many names of files are printed that were not copied."""


def copy(
    source: Annotated[
        Path, typer.Argument(help="Folder or address of a finished release.", metavar="RELEASE")
    ],
    target: Annotated[
        Path, typer.Argument(help="Address such as s3://BUCKET/NAME, or folder, of the copy.", metavar="COPY")
    ],
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Copy a finished release from a folder to an object store (s3://BUCKET/NAME), or from there to a folder.

    Every file of the copy is read back and held to its SHA-256, and the manifest is written last. After an
    interruption, the same command goes on. Credentials come from the environment.
    """
    from tallyveil.api.exchange import copy_release
    from tallyveil.cli.frame.progress import observer_for
    from tallyveil.files.marks import marks_of
    from tallyveil.storage.addresses import shown_path

    with observer_for(quiet, as_json) as observer:
        copied = copy_release(source, target, observer=observer)
    # Long lists are cut on the screen; the record below has all of them.
    place, others = shown_path(target), len(copied.left_out) - MOST_NAMES
    marks = marks_of(copied.manifest)
    record = {
        "run": copied.manifest.run,
        **marks.entry(),
        "copy": place,
        "files": copied.files,
        "bytes": copied.bytes,
        "already_there": copied.already_there,
        "left_out": list(copied.left_out),
    }
    lines = [
        *marks.lines(),
        f"{place} holds the release of run {copied.manifest.run}: {copied.files:,} files, "
        f"{copied.bytes / 1e6:,.1f} MB, each with its SHA-256 ({copied.already_there:,} were there already).",
        *(f"left out: {name}" for name in copied.left_out[:MOST_NAMES]),
        *([] if others <= 0 else [f"left out: {others:,} more"]),
    ]
    give(record, lines, quiet=quiet, as_json=as_json)


def report(
    release: FinishedRelease,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write report.html of any release again, from the published files alone."""
    from tallyveil.api.products import marks_in, write_page

    page = str(write_page(release))
    marks = marks_in(release)
    give({"page": page, **marks.entry()}, [*marks.lines(), page], quiet=quiet, as_json=as_json)
