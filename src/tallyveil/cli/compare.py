"""`tallyveil compare`: methods of disclosure control side by side on one input, which declassifies records."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli.frame.arguments import AsJson, NotPrivate, Quiet, Workers
from tallyveil.cli.frame.tables import not_private_screen, plain_table
from tallyveil.cli.frame.terminal import say, say_json

if TYPE_CHECKING:
    from tallyveil.compare.results import Comparison


def compare(
    file: Annotated[
        Path, typer.Argument(help="What is compared (TOML; docs/compare.md).", metavar="COMPARE.TOML")
    ],
    *,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FOLDER", help="Folder of the page and the numbers; new or empty."),
    ],
    not_private: NotPrivate = False,
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Compare methods of disclosure control on one input. The results are NOT PRIVATE.

    The command publishes the same tables by every method of COMPARE.TOML, measures what users lose, and attacks what
    was published. It writes comparison.html, the numbers as CSV and Parquet, and a ledger that says that true counts
    were looked at.
    """
    from tallyveil.api.products import require_understood
    from tallyveil.compare.job import compare as compare_methods
    from tallyveil.compare.page import PAGE

    require_understood(
        not_private,
        "a comparison reveals true counts: everyone who sees it can learn about single records. If that is acceptable "
        "here, add --i-understand-this-is-not-private.",
    )
    silent = quiet or as_json
    comparison = compare_methods(file, out, lambda words: None if silent else say(words, err=True), workers)
    if as_json:
        from tallyveil.files.evaluation import WARNING

        page = str(out / PAGE)
        say_json({"protected": False, "warning": WARNING, "page": page, "methods": _records(comparison)})
    elif not quiet:
        _show(comparison, out / PAGE)


def _records(comparison: "Comparison") -> list[dict[str, Any]]:
    from tallyveil.compare.columns import columns_of

    columns = columns_of(comparison)
    return [
        {"name": result.method.name, **{column.title: column.value(result) for column in columns}}
        for result in comparison.results
    ]


def _show(comparison: "Comparison", page: Path) -> None:
    from tallyveil.compare.columns import columns_of

    columns = columns_of(comparison)
    console = not_private_screen()
    for result in comparison.results:
        table = plain_table(texts=(result.method.name,), numbers=("",))
        for column in columns:
            table.add_row(column.title, column.written(result))
        console.print(table)
    for attack, why in comparison.refused.items():
        console.print(f"Not shown: {attack}. {why}")
    console.print(str(page), soft_wrap=True)
