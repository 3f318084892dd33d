"""`tallyveil measurements`: read and write noisy measurements in other layouts. No records are opened."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallyveil.cli.frame.arguments import (
    ENTITIES,
    AsJson,
    FilesOut,
    MeasurementsFolder,
    Quiet,
    TimingsFile,
    Workers,
    give,
    group_of_commands,
)
from tallyveil.cli.frame.summary import finish_measurements
from tallyveil.cli.verify import WRONG
from tallyveil.measurements.layouts.layout import Layout

if TYPE_CHECKING:
    pass


measurements = group_of_commands(
    "measurements", "Read and write noisy measurements in the layouts of others."
)


LayoutOfFiles = Annotated[Layout, typer.Option("--layout", help="Layout of the files.")]


@measurements.callback()
def options() -> None:
    """Read and write noisy measurements in the layouts of others. Nothing confidential is read or spent."""


@measurements.command(name="import")
def import_files(
    published: Annotated[Path, typer.Argument(help="Folder of the files.", metavar="DIR")],
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="FOLDER", help="Folder of the measurements; new, empty, or an unfinished import."
        ),
    ],
    description: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="DESCRIPTION",
            help="What describes the files: a TOML or JSON file, or the name of a description of the package.",
        ),
    ] = None,
    layout: Annotated[Layout | None, typer.Option("--layout", help="Layout of the files.")] = None,
    part: Annotated[
        bool,
        typer.Option(
            "--part", help="Leave unmeasured the geolevels, queries and geounits that the files lack."
        ),
    ] = False,
    *,
    totals: Annotated[
        Path | None,
        typer.Option(
            "--totals",
            metavar="FILE",
            help="Table of the exact totals of States, which the published files leave out: geocode, count.",
        ),
    ] = None,
    entities: Annotated[
        Path | None,
        typer.Option(
            "--entities",
            metavar="FILE",
            help=f"{ENTITIES} `tallyveil geography import` makes one. Releases then have tables of these areas.",
        ),
    ] = None,
    shapes: Annotated[
        Path | None,
        typer.Option(
            "--shapes",
            metavar="FILE",
            help="File of polygons or points of the finest geounits, for maps. Needs the extra `maps`.",
        ),
    ] = None,
    shapes_geocode: Annotated[
        str | None,
        typer.Option(
            "--shapes-geocode",
            metavar="COLUMN",
            help="Column of geocodes in --shapes. By default `geocode`.",
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    timings: TimingsFile = None,
) -> None:
    """Import noisy measurements that others published, for `tallyveil estimate` and `tallyveil ask`.

    --as names what describes the files of DIR. --layout census-2020 takes any redistricting data of 2020, and --layout
    tidy a folder of `tallyveil measurements export`. OUT is then a folder like that of `tallyveil measure`.
    """
    from tallyveil.api.exchange import import_measurements
    from tallyveil.cli.frame.progress import observer_for

    with observer_for(quiet, as_json, timings, out) as observer:
        imported = import_measurements(
            published,
            out,
            layout=None if layout is None else layout.value,
            description=description,
            part=part,
            totals=totals,
            entities=entities,
            shapes=shapes,
            shapes_geocode=shapes_geocode,
            observer=observer,
        )
    finish_measurements(imported, out, quiet, as_json)


@measurements.command(name="describe")
def describe_files(
    published: Annotated[Path, typer.Argument(help="Folder of the files.", metavar="DIR")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="File of the draft (TOML); printed without it."),
    ] = None,
    *,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Draft the description of a folder of noisy measurements, for `tallyveil measurements import --as`.

    Says which description of the package fits, if one does. What files do not say is marked with FILL IN.
    """
    from tallyveil.api.exchange import describe_measurements

    known, draft = describe_measurements(published, out)
    lines = (
        []
        if known is None
        else [f"# The description {known} fits: tallyveil measurements import {published} --as {known}"]
    )
    lines += draft.splitlines() if out is None else [str(out)]
    give({"fits": known, "draft": draft}, lines, quiet=quiet, as_json=as_json)


@measurements.command(name="export")
def export_files(
    measured: MeasurementsFolder,
    layout: LayoutOfFiles,
    out: FilesOut,
    jointly_with: Annotated[
        Path | None,
        typer.Option(
            "--jointly-with",
            metavar="MEASUREMENTS",
            help="Measurements of the same people by another product, whose cells are sums of those of the first.",
        ),
    ] = None,
    *,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write noisy measurements in another layout.

    "census-2020" is the layout of the US Census Bureau's noisy measurement files. "tidy" has a row for each noisy
    answer, with a column for each attribute. With --jointly-with the tidy files hold two products, which are then
    imported, asked and estimated as one.
    """
    from tallyveil.api.exchange import export_measurements
    from tallyveil.cli.frame.progress import observer_for
    from tallyveil.files.marks import marks_of

    with observer_for(quiet, as_json) as observer:
        exported = export_measurements(
            measured, out, layout=layout.value, jointly_with=jointly_with, observer=observer
        )
    run, marks = exported.manifest.spender, marks_of(exported.manifest)
    lines = [*marks.lines(), f"measurements of run {run} in the layout {layout.value} in {out}"]
    record = {"run": run, "layout": layout.value, "out": str(out), **marks.entry()}
    give(record, lines, quiet=quiet, as_json=as_json)


@measurements.command(name="check")
def check_measurements(
    measured: MeasurementsFolder, quiet: Quiet = False, as_json: AsJson = False, workers: Workers = None
) -> None:
    """Hold noisy answers to their joint estimate: geocodes, cells, exact counts and variances that are not as stated.

    Every query at every geolevel has a sum of squared residuals, which the stated variances predict. With more than
    65,536 cells, queries of more than 1,024 answers have one for each of their attributes. Exact counts and bounds are
    held to noisy answers that add up to them, too. The exit code is 0 if all are within the limits of chance, and 10 if
    one is not. Nothing is written or spent. `tallyveil report` draws a page of it.
    """
    from tallyveil.api.measured import check_in

    check = check_in(measured, workers)
    n_sums, n_right = len(check.residuals), sum(item.is_as_stated for item in check.residuals)
    lines = [
        f"{n_right} of {n_sums} sums, one for each geolevel and query, are as large as the stated variances say",
        *(
            [
                f"{sum(item.is_as_stated for item in check.constraints)} of {len(check.constraints)} constraints, one "
                "for each geolevel, are as near to noisy answers as the stated variances say"
            ]
            if check.constraints
            else []
        ),
        *(f"NOT AS STATED: {item}" for item in check.wrong),
        *(
            f"not checked against others: {item}, of which nothing else says anything, or which is too large for the "
            "memory of this machine"
            for item in check.unchecked
        ),
    ]
    give(check.to_mapping(), lines, quiet=quiet, as_json=as_json)
    if check.wrong:
        raise typer.Exit(WRONG)
