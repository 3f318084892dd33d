"""`tallyveil evaluate`: errors of a release against the true counts, which declassifies records."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli.frame.arguments import AsJson, FinishedRelease, NotPrivate, Quiet, names_if_any
from tallyveil.cli.frame.tables import GroupedRows, not_private_screen, plain_table, show_parameters
from tallyveil.cli.frame.terminal import say_json

if TYPE_CHECKING:
    import polars as pl

    from tallyveil.api.evaluating import TableErrors
    from tallyveil.files.evaluation import Evaluation


def evaluate(
    release: FinishedRelease,
    truth: Annotated[
        Path, typer.Option("--truth", help="File of the true records that the release was made from.")
    ],
    tables: Annotated[
        str | None,
        typer.Option(
            "--tables",
            metavar="QUERY,...",
            help="Queries. Default: those of the release's tables, and all that it measured.",
        ),
    ] = None,
    not_private: NotPrivate = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Compare a release with the true counts. The results are NOT PRIVATE.

    The command writes tables and a report to RUN/evaluation, all marked as not private, and it adds an entry to the
    ledger of RUN.
    """
    from tallyveil.api.evaluating import TableErrors
    from tallyveil.api.evaluating import evaluate as compare
    from tallyveil.files.evaluation import WARNING

    errors = compare(
        release,
        truth,
        names_if_any(tables, "--tables"),
        i_understand_this_is_not_private=not_private,
    )
    if isinstance(errors, TableErrors):
        record = {"protected": False, "warning": WARNING, "errors": errors.errors.to_dicts()}
    else:
        record = errors.evaluation.to_mapping()
    if as_json:
        say_json(record)
    elif quiet:
        return
    elif isinstance(errors, TableErrors):
        _show_table(errors)
    else:
        _show(errors.evaluation, errors.page)


def _show_table(errors: "TableErrors") -> None:
    console = not_private_screen()
    for row in errors.errors.filter(size_class="all").iter_rows(named=True):
        console.print(
            f"{row['counts']}: mean absolute error {row['mean_absolute_error']:,.2f}, bias {row['bias']:+,.3f}, "
            f"over {row['cells']:,} cells"
        )
    console.print(str(errors.page), soft_wrap=True)


def _show(evaluation: "Evaluation", path: Path) -> None:
    frame, units = evaluation.errors, evaluation.unit.many

    console = not_private_screen()
    console.print(_table(frame))
    console.print(
        f"Errors in {units}, over all answers of a query at a geolevel. By size of the geounit, with plots:"
    )
    console.print(str(path), soft_wrap=True)
    console.print(
        "What this accuracy costs, for the measurements of each geolevel alone and of all together:"
    )
    show_parameters(evaluation.parameters)
    console.print(_artefacts(evaluation))
    console.print(_bias_by_size(evaluation), soft_wrap=True)


def _artefacts(evaluation: "Evaluation") -> Any:
    from tallyveil.products.topdown.page.evaluation import artefact_lines
    from tallyveil.report.release_files import Titles

    table = plain_table(
        texts=(f"{evaluation.finest} geounits",),
        numbers=("truly", "published", f"{evaluation.unit.many} in them"),
    )
    for line in artefact_lines(evaluation.artefacts, evaluation.finest, Titles(evaluation.unit, {})):
        table.add_row(line.title, line.true, line.published, line.records)
    return table


def _bias_by_size(evaluation: "Evaluation") -> str:
    """Mean error at the finest geolevel, by the true size of the geounit."""
    finest = evaluation.errors.filter(geolevel=evaluation.finest)
    queries = finest["query"].unique(maintain_order=True).to_list()
    query = "total" if "total" in queries else queries[0]
    rows = [row for row in finest.filter(query=query).rows(named=True) if row["size_class"] != "all"]
    spelled = "; ".join(f"{row['size_class']}: {row['bias']:+,.3f}" for row in rows)
    return f"Bias of {query} at {evaluation.finest}, by the true number of {evaluation.unit.many}: {spelled}"


def _table(frame: "pl.DataFrame") -> Any:
    table = plain_table(
        "geolevel", texts=("query",), numbers=("mean", "mean square", "median", "p95", "bias")
    )
    rows = GroupedRows(table)
    for row in frame.filter(size_class="all").iter_rows(named=True):
        rows.add(
            (row["geolevel"],),
            row["query"],
            f"{row['mean_absolute_error']:,.2f}",
            f"{row['mean_squared_error']:,.2f}",
            f"{row['median_absolute_error']:,.1f}",
            f"{row['p95_absolute_error']:,.1f}",
            f"{row['bias']:+,.3f}",
        )
    return table
