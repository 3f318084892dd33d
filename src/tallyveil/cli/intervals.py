"""`tallyveil intervals`: an unbiased estimate, a standard error and an interval beside every published count."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli.frame.arguments import (
    ENTITIES,
    FAMILIES,
    AsJson,
    District,
    DistrictColumn,
    Executor,
    FinishedRelease,
    Level,
    Quiet,
    TimingsFile,
    Workers,
    cluster_of,
    names_if_any,
)
from tallyveil.cli.frame.screen import Screen
from tallyveil.cli.frame.tables import GroupedRows, plain_table
from tallyveil.cli.frame.terminal import say, say_json

if TYPE_CHECKING:
    from rich.table import Table

    from tallyveil.api.areas import DistrictsOfFile
    from tallyveil.files.marks import Marks
    from tallyveil.postprocess.derived.district import District as DistrictCounts
    from tallyveil.postprocess.derived.district import DistrictAnswer


LINES_SHOWN = 40
"""Answers of districts that are printed, about a screen. Twice as many scroll the headings away. --json has all."""


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
    level: Level = 0.95,
    simultaneous: Annotated[
        bool,
        typer.Option(
            "--simultaneous",
            help="Make intervals wide enough that all of a table, or of the district, have the level together.",
        ),
    ] = False,
    district: District = None,
    district_column: DistrictColumn = None,
    minus: Annotated[
        Path | None,
        typer.Option(
            "--minus",
            metavar="FILE",
            help="With --district: subtract the counts of the one district in this FILE.",
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
    timings: TimingsFile = None,
) -> None:
    """Put an unbiased estimate, its standard error and an interval beside every published count.

    With Laplace noise there are estimates and standard errors, and no intervals.

    Reads the published measurements of RUN (measurements = "full" or "small") and nothing confidential, and costs no
    budget. RUN may be a folder of measurements, which has no counts and no tables: it gets RUN/intervals alone.
    Writes RUN/intervals, gives RUN/tables the same columns and a row for every answer, and updates RUN/report.html.
    """
    from tallyveil.errors import ConfigError

    # A name that is wrong is refused before any file is read.
    queries = names_if_any(tables, "--tables")
    if families is not None and entities is None:
        raise ConfigError(
            "--families names columns of --entities FILE, which is not given. Give it as well.",
            code="bad-flag",
        )
    # A district is printed and written nowhere, and takes other flags than a whole release.
    if district is not None:
        if executor is not None:
            raise ConfigError(
                "--executor is of no use with --district, which takes seconds.", code="bad-flag"
            )
        if entities is not None:
            raise ConfigError("give --district or --entities, not both.", code="bad-flag")
        from tallyveil.api.areas import districts_of_file

        counts = districts_of_file(
            release,
            district,
            column=district_column,
            minus=minus,
            queries=queries,
            level=level,
            simultaneous=simultaneous,
            with_bounds=not without_bounds,
            workers=workers,
        )
        _show_districts(counts, release, as_json)
        return
    # These would be ignored without a district, and somebody would believe that they were not.
    for flag, value in {"--minus FILE": minus, "--district-column NAME": district_column}.items():
        if value is not None:
            raise ConfigError(f"{flag} can be given only together with --district FILE.", code="bad-flag")
    from tallyveil.api.measured import add_intervals
    from tallyveil.api.products import marks_in
    from tallyveil.cli.frame.progress import observer_for

    with observer_for(quiet, as_json, timings) as observer:
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
        # The list of files is long, and is in the folder.
        record = {key: value for key, value in outcome.manifest.items() if key != "files"}
        say_json({**record, **marks.entry()})
    elif not quiet:
        _say_marks(marks)
        _show(outcome.manifest, release, release / "report.html")


def _show(manifest: dict[str, Any], release: Path, page: Path) -> None:
    console = Screen()
    percent = f"{100 * manifest['level']:g} %"
    table = plain_table(
        "geolevel or entities",
        texts=("query",),
        numbers=("counts", "exact", "median st.error", "published outside"),
    )
    rows, none = GroupedRows(table), manifest["kind"] == "none"
    counts = manifest.get("counts", True)
    for item in manifest["compared"]:
        outside, error = item["below"] + item["above"], item["standard_error"]
        rows.add(
            (item["area"],),
            item["query"],
            f"{item['answers']:,}",
            f"{item['exact']:,}",
            "–" if error is None else f"{error:,.2f}",
            "–" if none or not counts else f"{100 * outside / max(item['answers'], 1):.2f} %",
        )
    console.print(table)
    console.print(
        manifest["covers"] if none else f"{percent} intervals. {manifest['covers']}", soft_wrap=True
    )
    if manifest["bounds_left_out"]:
        console.print("Public bounds were left out, which widens the intervals.")
    see = f"; see also {page}" if counts else ""
    console.print(f"Written to {release / 'intervals'}{see}", soft_wrap=True)


def _show_districts(districts: "DistrictsOfFile", release: Path, as_json: bool) -> None:
    """Show one district, one less another, or all districts of a plan."""
    from tallyveil.files.manifest_files import written_manifest
    from tallyveil.files.marks import marks_of

    marks = marks_of(written_manifest(release))  # a district needs no ledger
    column, by_name = districts.column, districts.by_name
    if as_json:
        listed = [{"district": name, **_record(district)} for name, district in by_name.items()]
        record = {"column": column, "districts": listed} if column is not None else _record(by_name[""])
        say_json({**record, **marks.entry()})
        return
    _say_marks(marks)
    if column is None:
        _show_district(by_name[""])
    else:
        _show_plan(by_name, column)


def _say_marks(marks: "Marks") -> None:
    for line in marks.lines():
        say(line)


def _record(district: "DistrictCounts") -> dict[str, Any]:
    return {
        "finest_geounits": district.n_finest,
        "minus": district.n_minus,
        "level": district.level,
        "covers": district.covers,
        "unpublished": district.unpublished,
        "answers": [line.to_mapping() for line in district.answers],
    }


def _show_district(district: "DistrictCounts") -> None:
    console = Screen()
    table = plain_table(
        texts=(
            "query",
            "answer",
        )
    )
    _add_numbers(table, district)
    for line in district.answers[:LINES_SHOWN]:
        table.add_row(line.query, line.answer, *_numbers(line))
    less = "" if district.n_minus is None else f" less one of {district.n_minus:,}"
    console.print(f"District of {district.n_finest:,} finest geounits{less}")
    console.print(table)
    _show_more(console, len(district.answers), [district])


def _show_plan(rows: "dict[str | None, DistrictCounts]", column: str) -> None:
    """One row for each district and answer, answer by answer."""
    console, districts = Screen(), list(rows.values())
    table = plain_table()
    for heading in ("query", "answer", "district"):
        table.add_column(heading, overflow="fold", min_width=len(heading))
    table.add_column("geounits", justify="right", no_wrap=True)
    _add_numbers(table, districts[0])
    n_answers = len(districts[0].answers)
    # As many answers of all districts as fit, so that districts can be compared line by line.
    n_shown = max(LINES_SHOWN // len(rows), 1)
    for number in range(min(n_answers, n_shown)):
        table.add_section()
        for name, district in rows.items():
            line = district.answers[number]
            table.add_row(
                line.query,
                line.answer,
                "(none)" if name is None else name,
                f"{district.n_finest:,}",
                *_numbers(line),
            )
    n_districts = len(rows) - (None in rows)
    console.print(f"Districts by column {column}: {n_districts:,}", markup=False)
    console.print(table)
    if None in rows:
        console.print(
            f"(none): {rows[None].n_finest:,} finest geounits are in no district, because the file leaves them blank "
            "or out.",
            soft_wrap=True,
        )
    _show_more(console, n_answers * len(rows), districts, n_shown * len(rows))


def _add_numbers(table: "Table", district: "DistrictCounts") -> None:
    for heading in ("published", "estimate", "st.error", f"{100 * district.level:g} % interval"):
        table.add_column(heading, justify="right", no_wrap=True)


def _numbers(line: "DistrictAnswer") -> tuple[str, ...]:
    return (
        "–" if line.published is None else f"{line.published:,}",
        "–" if line.estimate is None else f"{line.estimate:,.1f}",
        _deviation(line.standard_error),
        "–" if line.lower is None else f"{line.lower:,} to {line.upper:,}",
    )


def _show_more(
    console: Screen, n_lines: int, districts: "list[DistrictCounts]", n_shown: int = LINES_SHOWN
) -> None:
    """What is not in the table, and why numbers are lacking."""
    if n_lines > n_shown:
        console.print(f"{n_lines - n_shown:,} answers more with --json.")
    lines = [line for district in districts for line in district.answers]
    # Each reason once, with all queries that it holds for.
    for reason in dict.fromkeys(line.lacking for line in lines if line.lacking is not None):
        queries = dict.fromkeys(line.query for line in lines if line.lacking == reason)
        console.print(f"No estimate in {', '.join(queries)}: {reason}.", soft_wrap=True)
    for sentence in dict.fromkeys(district.unpublished for district in districts):
        if sentence is not None:
            console.print(f"No published counts: {sentence}.", soft_wrap=True)
    for sentence in dict.fromkeys(district.covers for district in districts):
        if sentence is not None:
            console.print(sentence, soft_wrap=True)


def _deviation(error: float | None) -> str:
    if error is None:
        return "not determined"
    return "exact" if error == 0 else f"{error:,.2f}"
