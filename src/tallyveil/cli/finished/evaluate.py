"""`tallyveil evaluate`: errors of a release against the true counts, which declassifies records."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli.frame.terminal import say

if TYPE_CHECKING:
    import polars as pl

    from tallyveil.files.evaluation import Evaluation

from tallyveil.cli.frame.arguments import AsJson, FinishedRelease, NotPrivate, Quiet
from tallyveil.cli.frame.names import names_if_any
from tallyveil.cli.show.parameters import show_parameters


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
    from tallyveil.errors import ConfigError

    if not not_private:
        raise ConfigError(
            "the errors of a release reveal its true counts: everyone who sees them can learn about single records. "
            "If that is acceptable here, add --i-understand-this-is-not-private. Nothing was read.",
            code="not-private",
        )
    from tallyveil.api.products import EVALUATE, require_evaluation, write_page_of_programme
    from tallyveil.files.kinds import ReleaseKind
    from tallyveil.products.topdown.page.release import write_report
    from tallyveil.products.topdown.run.evaluate import evaluate_release
    from tallyveil.report.evaluation_page import write_evaluation_report

    queries = names_if_any(tables, "--tables")
    if require_evaluation(release, EVALUATE) is ReleaseKind.SUBSPACE:
        if tables is not None:
            raise ConfigError(
                f"{release} holds a table that was drawn as a whole, whose only counts are those of its cells; "
                "--tables names queries of a release by geolevel. Leave out --tables. Nothing was read.",
                code="bad-flag",
            )
        _evaluate_table(release, truth, quiet, as_json)
        return
    write_report(release)  # a release whose report cannot be made is refused before its ledger gets an entry
    evaluation = evaluate_release(release, truth, queries)
    path = write_evaluation_report(release, evaluation)
    write_report(release)  # its ledger now shows the declassification
    write_page_of_programme(release)
    if as_json:
        say(json.dumps(evaluation.to_mapping()))
    elif not quiet:
        _show(evaluation, path)


def _evaluate_table(release: Path, truth: Path, quiet: bool, as_json: bool) -> None:
    from tallyveil.files.evaluation.store import WARNING
    from tallyveil.products.lattice.page.table import write_table_evaluation, write_table_report
    from tallyveil.products.lattice.run.evaluate import evaluate_table

    write_table_report(release)
    errors = evaluate_table(release, truth)
    path = write_table_evaluation(release, errors)
    write_table_report(release)
    if as_json:
        say(json.dumps({"protected": False, "warning": WARNING, "errors": errors.to_dicts()}))
    elif not quiet:
        from tallyveil.cli.frame.terminal import Screen, headed

        console = Screen()
        console.print(headed("NOT PRIVATE", ": computed from the true counts; do not publish.", "bold red"))
        for row in errors.filter(size_class="all").iter_rows(named=True):
            console.print(
                f"{row['counts']}: mean absolute error {row['mean_absolute_error']:,.2f}, bias {row['bias']:+,.3f}, "
                f"over {row['cells']:,} cells"
            )
        console.print(str(path), soft_wrap=True)


def _show(evaluation: "Evaluation", path: Path) -> None:
    from tallyveil.cli.frame.terminal import Screen, headed

    frame, units = evaluation.errors, evaluation.unit.many

    console = Screen()
    console.print(headed("NOT PRIVATE", ": computed from the true counts; do not publish.", "bold red"))
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
    from rich import box
    from rich.table import Table

    from tallyveil.report.artefact_lines import artefact_lines
    from tallyveil.report.titles import Titles

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(f"{evaluation.finest} geounits", overflow="fold")
    for heading in ("truly", "published", f"{evaluation.unit.many} in them"):
        table.add_column(heading, justify="right", no_wrap=True)
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
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("geolevel", no_wrap=True)
    table.add_column("query", overflow="fold")
    for heading in ("mean", "mean square", "median", "p95", "bias"):
        table.add_column(heading, justify="right", no_wrap=True)
    last = None
    for row in frame.filter(size_class="all").iter_rows(named=True):
        if last not in (None, row["geolevel"]):
            table.add_section()
        table.add_row(
            row["geolevel"] if row["geolevel"] != last else "",
            row["query"],
            f"{row['mean_absolute_error']:,.2f}",
            f"{row['mean_squared_error']:,.2f}",
            f"{row['median_absolute_error']:,.1f}",
            f"{row['p95_absolute_error']:,.1f}",
            f"{row['bias']:+,.3f}",
        )
        last = row["geolevel"]
    return table
