"""`tallyveil attack`: what an outsider would claim of published numbers and, with the records, whether he is right."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallyveil.cli.frame.arguments import AsJson, NotPrivate, Quiet
from tallyveil.cli.frame.screen import Screen
from tallyveil.cli.frame.tables import not_private_screen, plain_table, show_marks
from tallyveil.cli.frame.terminal import say, say_json

if TYPE_CHECKING:
    from tallyveil.compare.results import Attacked


def attack(
    file: Annotated[
        Path,
        typer.Argument(help="What was published (TOML; docs/compare.md).", metavar="ATTACK.TOML"),
    ],
    *,
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Folder of the claims and the page; new or empty.")
    ],
    truth: Annotated[
        Path | None,
        typer.Option("--truth", help="File of the true records that the release was made from."),
    ] = None,
    not_private: NotPrivate = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Say what an outsider would claim of published numbers. With --truth the results are NOT PRIVATE.

    The command attacks a finished release, or a table of counts that anybody published. It writes attack.html and the
    claims as CSV and Parquet. With --truth it says how often claims are right, makes the attacks of a comparison, and
    enters into the ledger that true counts were looked at.
    """
    from tallyveil.api.products import require_understood
    from tallyveil.compare.attack_job import attack as attack_published
    from tallyveil.compare.attack_page import PAGE, summary_of
    from tallyveil.compare.page import finding_texts

    if truth is not None:
        require_understood(
            not_private,
            "what claims are right reveals true counts: everyone who sees it can learn about single records. If that "
            "is acceptable here, add --i-understand-this-is-not-private.",
        )
    elif not_private:
        from tallyveil.errors import ConfigError

        raise ConfigError(
            "--i-understand-this-is-not-private can be given only together with --truth: without the records nothing "
            "confidential is read. Nothing was read.",
            code="bad-flag",
        )
    silent = quiet or as_json
    attacked = attack_published(file, out, truth, lambda words: None if silent else say(words, err=True))
    if as_json:
        findings = [finding_texts(item) for item in attacked.findings]
        say_json(
            {
                **attacked.marked(),
                "page": str(out / PAGE),
                "claims": summary_of(attacked),
                "findings": findings,
            }
        )
    elif not quiet:
        _show(attacked, out / PAGE)


def _show(attacked: "Attacked", page: Path) -> None:
    from tallyveil.compare.attack_page import summary_of
    from tallyveil.report.wording import percent

    judged = attacked.right is not None
    console = not_private_screen() if judged else Screen()
    show_marks(console, attacked.marks.lines())
    table = plain_table(
        "claim", texts=("probability",), numbers=("claims", "surprising", *(("right",) if judged else ()))
    )
    for row in summary_of(attacked):
        right = () if row["right"] is None else (percent(row["right"]),)
        table.add_row(
            row["claim"], row["probability"], f"{row['claims']:,}", f"{row['surprising']:,}", *right
        )
    console.print(table)
    for name, why in attacked.refused.items():
        console.print(f"Not shown: {name}. {why}")
    console.print(str(page), soft_wrap=True)
