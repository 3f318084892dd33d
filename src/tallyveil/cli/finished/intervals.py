"""`tallyveil intervals`: an unbiased estimate, a standard error and an interval beside every published count."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli.frame.arguments import (
    ENTITIES,
    FAMILIES,
    AsJson,
    Executor,
    FinishedRelease,
    Quiet,
    Workers,
    cluster_of,
)
from tallyveil.cli.frame.names import names_if_any
from tallyveil.cli.frame.terminal import say

if TYPE_CHECKING:
    from tallyveil.postprocess.derived.district import District

LINES_SHOWN = 40


def intervals(
    release: FinishedRelease,
    *,
    tables: Annotated[
        str | None,
        typer.Option(
            "--tables", metavar="QUERY,...", help="Queries. Default: the queries of the release's tables."
        ),
    ] = None,
    entities: Annotated[
        Path | None,
        typer.Option(
            "--entities",
            metavar="FILE",
            help=f"{ENTITIES} Make intervals for them, too.",
        ),
    ] = None,
    families: Annotated[
        str | None,
        typer.Option(
            "--families",
            metavar="FAMILY,...",
            help=f"{FAMILIES} They are columns of --entities. Default: all columns of text.",
        ),
    ] = None,
    level: Annotated[float, typer.Option("--level", help="Coverage of each interval.")] = 0.95,
    simultaneous: Annotated[
        bool,
        typer.Option(
            "--simultaneous",
            help="Make intervals wide enough that all of a table, or of the district, have the level together.",
        ),
    ] = False,
    district: Annotated[
        Path | None,
        typer.Option(
            "--district",
            metavar="FILE",
            help="Write nothing. Show the counts of one district, which consists of the finest geounits in the column "
            "geocode of FILE. This does not need the measurements.",
        ),
    ] = None,
    minus: Annotated[
        Path | None,
        typer.Option(
            "--minus",
            metavar="FILE",
            help="With --district: subtract the counts of the district in this FILE.",
        ),
    ] = None,
    without_bounds: Annotated[
        bool,
        typer.Option(
            "--without-bounds",
            help="Do not use the release's public bounds. The intervals become wider and remain valid.",
        ),
    ] = False,
    leave_tables: Annotated[
        bool,
        typer.Option("--leave-tables", help="Write only RUN/intervals. Do not change RUN/tables."),
    ] = False,
    workers: Workers = None,
    executor: Executor = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Put an unbiased estimate, its standard error and an interval beside every published count.

    With Laplace noise there are estimates and standard errors, and no intervals.

    Reads the published measurements of RUN (measurements = "full" or "small") and nothing confidential, and costs no
    budget.
    Writes RUN/intervals, gives RUN/tables the same columns and a row for every answer, and updates RUN/report.html.
    """
    from tallyveil.errors import ConfigError

    queries = names_if_any(tables, "--tables")
    if families is not None and entities is None:
        raise ConfigError(
            "--families names columns of --entities FILE, which is not given. Give it as well.",
            code="bad-flag",
        )
    if district is not None:
        if executor is not None:
            raise ConfigError(
                "--executor is of no use with --district, which takes seconds.", code="bad-flag"
            )
        if entities is not None:
            raise ConfigError("give --district or --entities, not both.", code="bad-flag")
        files = [district] if minus is None else [district, minus]
        _district(
            release,
            files,
            queries,
            level,
            simultaneous,
            without_bounds=without_bounds,
            workers=workers,
            as_json=as_json,
        )
        return
    if minus is not None:
        raise ConfigError("--minus FILE can be given only together with --district FILE.", code="bad-flag")
    from tallyveil.cli.frame.progress import observer_for
    from tallyveil.face.add_intervals import add_intervals
    from tallyveil.face.products import marks_in

    with observer_for(quiet, as_json) as observer:
        outcome = add_intervals(
            release,
            queries=queries,
            entities=entities,
            families=names_if_any(families, "--families"),
            level=level,
            simultaneous=simultaneous,
            with_bounds=not without_bounds,
            in_tables=not leave_tables,
            observer=observer,
            workers=workers,
            cluster=cluster_of(executor),
        )
    marks = marks_in(release)
    if as_json:
        record = {key: value for key, value in outcome.manifest.items() if key != "files"}
        say(json.dumps({**record, **marks.entry()}))
    elif not quiet:
        for line in marks.lines():
            say(line)
        _show(outcome.manifest, release, release / "report.html")


def _show(manifest: dict[str, Any], release: Path, page: Path) -> None:
    from rich import box
    from rich.table import Table

    from tallyveil.cli.frame.terminal import Screen

    console = Screen()
    percent = f"{100 * manifest['level']:g} %"
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("geolevel or entities", no_wrap=True)
    table.add_column("query", overflow="fold")
    for heading in ("counts", "exact", "median st.error", "published outside"):
        table.add_column(heading, justify="right", no_wrap=True)
    last, none = None, manifest["kind"] == "none"
    for item in manifest["compared"]:
        if last not in (None, item["area"]):
            table.add_section()
        outside, error = item["below"] + item["above"], item["standard_error"]
        table.add_row(
            item["area"] if item["area"] != last else "",
            item["query"],
            f"{item['answers']:,}",
            f"{item['exact']:,}",
            "–" if error is None else f"{error:,.2f}",
            "–" if none else f"{100 * outside / max(item['answers'], 1):.2f} %",
        )
        last = item["area"]
    console.print(table)
    console.print(
        manifest["covers"] if none else f"{percent} intervals. {manifest['covers']}", soft_wrap=True
    )
    if manifest["bounds_left_out"]:
        console.print("Public bounds were left out, which widens the intervals.")
    console.print(f"Written to {release / 'intervals'}; see also {page}", soft_wrap=True)


def _district(
    release: Path,
    paths: list[Path],
    tables: list[str] | None,
    level: float,
    simultaneous: bool,
    *,
    without_bounds: bool,
    workers: int | None,
    as_json: bool,
) -> None:
    from tallyveil.postprocess.derived.district import district_answers
    from tallyveil.storage.read import read_table, require_text, scan_table

    for path in paths:
        require_text(scan_table(path, ["geocode"], "district"), "geocode", path, "district")
    geocodes = [read_table(path, ["geocode"], "district")["geocode"] for path in paths]
    found = district_answers(
        release,
        geocodes[0],
        minus=geocodes[1] if len(geocodes) > 1 else None,
        tables=tables,
        level=level,
        simultaneous=simultaneous,
        with_bounds=not without_bounds,
        workers=workers,
    )
    if as_json:
        answers = [line.to_mapping() for line in found.answers]
        record = {
            "finest_geounits": found.n_finest,
            "minus": found.n_minus,
            "level": found.level,
            "covers": found.covers,
            "unpublished": found.unpublished,
        }
        say(json.dumps({**record, "answers": answers}))
    else:
        _show_district(found)


def _show_district(found: "District") -> None:
    from rich import box
    from rich.table import Table

    from tallyveil.cli.frame.terminal import Screen

    console = Screen()
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("query", overflow="fold")
    table.add_column("answer", overflow="fold")
    for heading in ("published", "estimate", "st.error", f"{100 * found.level:g} % interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    for line in found.answers[:LINES_SHOWN]:
        table.add_row(
            line.query,
            line.answer,
            "–" if line.published is None else f"{line.published:,}",
            "–" if line.estimate is None else f"{line.estimate:,.1f}",
            _deviation(line.standard_error),
            "–" if line.lower is None else f"{line.lower:,} to {line.upper:,}",
        )
    less = "" if found.n_minus is None else f" less one of {found.n_minus:,}"
    console.print(f"District of {found.n_finest:,} finest geounits{less}")
    console.print(table)
    if len(found.answers) > LINES_SHOWN:
        console.print(f"{len(found.answers) - LINES_SHOWN:,} answers more with --json.")
    for reason in dict.fromkeys(line.lacking for line in found.answers if line.lacking is not None):
        queries = dict.fromkeys(line.query for line in found.answers if line.lacking == reason)
        console.print(f"No estimate in {', '.join(queries)}: {reason}.", soft_wrap=True)
    if found.unpublished is not None:
        console.print(f"No published counts: {found.unpublished}.", soft_wrap=True)
    if found.covers is not None:
        console.print(found.covers, soft_wrap=True)


def _deviation(error: float | None) -> str:
    if error is None:
        return "not determined"
    return "exact" if error == 0 else f"{error:,.2f}"
