"""`tallyveil ask`: answer a question about any counts of a finished release."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallyveil.cli.frame.arguments import (
    AsJson,
    District,
    DistrictColumn,
    FinishedRelease,
    LabelLanguage,
    Level,
    Quiet,
    Workers,
)
from tallyveil.cli.frame.screen import Screen
from tallyveil.cli.frame.tables import plain_table
from tallyveil.cli.frame.terminal import say, say_json
from tallyveil.postprocess.derived.question import LIMIT

if TYPE_CHECKING:
    import polars as pl

    from tallyveil.postprocess.derived.answer import Answer

ROWS_SHOWN = 40
"""Rows that are printed, about a screen. Twice as many scroll the headings away. --out and --json have all."""
NUMBERS = ("count", "of", "published", "estimate", "standard_error")


def ask(
    release: FinishedRelease,
    question: Annotated[
        str,
        typer.Argument(
            help='The question, such as "sex by age5 by Town where citizenship = foreign".',
            metavar="QUESTION",
        ),
    ],
    *,
    level: Level = 0.95,
    limit: Annotated[
        float,
        typer.Option(
            "--limit",
            help="Greatest half width of an interval, as a part of the number, of a number that is usable.",
        ),
    ] = LIMIT,
    district: District = None,
    district_column: DistrictColumn = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold",
            help="A count, a share, or a deviation without its sign: say with which probability each row is above it "
            "(a deviation: within it), and what is safe to say.",
        ),
    ] = None,
    per: Annotated[
        Path | None,
        typer.Option(
            "--per",
            metavar="FILE",
            help="Table with the columns geocode and number (CSV or Parquet): a public number for each area, by which "
            "its counts are divided.",
        ),
    ] = None,
    earlier: Annotated[
        Path | None,
        typer.Option(
            "--earlier",
            metavar="RUN",
            help="Folder of an earlier release, whose answer to the same question is subtracted.",
        ),
    ] = None,
    from_draws: Annotated[
        Path | None,
        typer.Option(
            "--from-draws",
            metavar="DRAWS",
            help="Folder with draws of RUN (`tallyveil draws`): each number is computed from them, too.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="File of the answer, by its name: CSV, Parquet, .json (JSON-stat), .px or .xlsx.",
        ),
    ] = None,
    language: LabelLanguage = None,
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Answer a question about any counts of RUN: published counts, estimates, standard errors and intervals.

    RUN may also hold measurements alone, made by `tallyveil measure` or `tallyveil measurements import`. Answers then
    have no published counts.

    QUESTION has the form: [MEASURE of] NAMES [into GROUPS] [across GEOLEVEL] [where CONDITIONS] [in AREAS]
    [minus AREAS] [as share of NAMES | as deviation]. A MEASURE is median, quantile NUMBER, entropy, dissimilarity,
    gini or theil. The page "ask" of the documentation explains it.

    Reads the published measurements of RUN (measurements = "full" or "small") and nothing confidential, and costs no
    budget. Writes nothing into RUN. With --language, labels of RUN are shown in the place of names of levels, also
    in files of JSON-stat, PX and Excel; CSV, Parquet and --json keep the names.
    """
    import polars as pl

    from tallyveil.api.asking import answer_in_file
    from tallyveil.api.released import open as open_release

    # Before anything is computed: a language that the release does not have is refused.
    opened = None if language is None else open_release(release)
    if opened is not None:
        opened.with_labels(pl.DataFrame(), language)
    answer = answer_in_file(
        release,
        question,
        district=district,
        district_column=district_column,
        per=per,
        threshold=threshold,
        earlier=earlier,
        draws=from_draws,
        out=out,
        language=language,
        level=level,
        limit=limit,
        workers=workers,
    )
    if as_json:
        record = {"level": answer.level, "limit": answer.limit, "covers": answer.covers}
        of_draws = {"of_draws": answer.of_draws} if answer.of_draws else {}
        say_json({**record, **of_draws, "warnings": list(answer.warnings), "rows": answer.table.to_dicts()})
    elif not quiet:
        _show(answer, out, answer.table if opened is None else opened.with_labels(answer.table, language))


def _show(answer: "Answer", out: Path | None, frame: "pl.DataFrame") -> None:
    for line in answer.warnings:
        say(line)
    console = Screen()
    numbers = [name for name in NUMBERS if name in frame.columns]
    table = plain_table()
    for name in answer.keys:
        table.add_column(name, overflow="fold", min_width=len(name))
    said = ["probability", "statement"] if "statement" in frame.columns else []
    headings = ("st.error" if name == "standard_error" else name for name in numbers)
    drawn = ["from draws", f"{100 * answer.level:g} % of draws"] if answer.of_draws else []
    for heading in (*headings, f"{100 * answer.level:g} % interval", "usable", *said, *drawn):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in frame.head(ROWS_SHOWN).iter_rows(named=True):
        usable = {True: "yes", False: "no", None: "–"}[row["usable"]]
        from_draws = (
            (_text(row["drawn"]), _ends(row["drawn_lower"], row["drawn_upper"])) if answer.of_draws else ()
        )
        table.add_row(
            *(str(row[name]) for name in answer.keys),
            *(_text(row[name]) for name in numbers),
            _ends(row["lower"], row["upper"]),
            usable,
            *(_text(row[name]) for name in said),
            *from_draws,
        )
    # A file or a pipe has no width to respect. 160 characters hold the widest of these tables, shares with statements.
    console.print(table) if console.is_terminal else Screen(width=160).print(table)
    if frame.height > ROWS_SHOWN:
        console.print(f"{frame.height - ROWS_SHOWN:,} rows more with --out FILE or --json.")
    for reason in frame["lacking"].drop_nulls().unique(maintain_order=True):
        console.print(f"No estimate: {reason}.", soft_wrap=True)
    for said_of in filter(None, (answer.covers, answer.of_draws)):
        console.print(said_of, soft_wrap=True)
    if out is not None:
        console.print(f"Written to {out}", soft_wrap=True)


def _ends(low: float | str | None, high: float | str | None) -> str:
    return "–" if low is None else f"{_text(low)} to {_text(high)}"


def _text(value: float | str | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    # Shares need the digits that counts do not.
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:,.4f}"
