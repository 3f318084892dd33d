"""`tallyveil safetab`: adaptive tabulation of detailed population groups."""

from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli.frame.arguments import (
    DELTA,
    EPSILON,
    AsJson,
    Book,
    InsecureTestKey,
    NotPrivate,
    Quiet,
    TimingsFile,
    give,
    give_files,
    group_of_commands,
)
from tallyveil.cli.frame.screen import Screen, headed
from tallyveil.cli.frame.summary import opened_summary
from tallyveil.cli.frame.tables import GroupedRows, not_private_screen, plain_table, show_parameters
from tallyveil.cli.frame.terminal import say, say_json

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

    from tallyveil.api.opened import Opened
    from tallyveil.api.safetab import SafetabErrors


safetab = group_of_commands(
    "safetab", "Tabulate detailed population groups; the detail of each group depends on a noisy count."
)

Params = Annotated[
    Path, typer.Argument(help="Folder of config.json and the four code files.", metavar="PARAMS")
]
ParamsOrFile = Annotated[
    Path,
    typer.Argument(
        help="Folder of config.json and the four code files, or a TOML file of population groups in any records.",
        metavar="PARAMS",
    ),
]
DataOrRecords = Annotated[
    Path,
    typer.Argument(
        help="Folder of person-records and GRF-C; with a TOML file, the file of the records.", metavar="DATA"
    ),
]
Out = Annotated[
    Path,
    typer.Option(
        "--out", metavar="FOLDER", help="Folder of the tables: new, empty, or with an unfinished run."
    ),
]
NoNoise = Annotated[
    bool,
    typer.Option(
        "--no-noise",
        help="Tabulate the true counts, to verify an implementation. Needs --i-understand-this-is-not-private.",
    ),
]
T1 = "Folder of the SafeTab run that made T1."
FINISHED = "Folder of the finished run."


@safetab.command()
def plan(
    params: ParamsOrFile,
    data: Annotated[
        Path | None,
        typer.Argument(
            help="Folder of GRF-C, to count groups. Person records are not opened.", metavar="DATA"
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FOLDER", help="Folder in which the plan is written, as safetab-plan.json."
        ),
    ] = None,
    delta: Annotated[
        str | None,
        typer.Option("--delta", help=f"{DELTA} Epsilon is stated at it. Default: 1e-10."),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Show the privacy guarantee and the expected errors of a run, before any record is opened."""
    from tallyveil.api.safetab import is_group_file, plan_safetab

    record = plan_safetab(params, data, delta=delta, out=out)
    if as_json:
        say_json(record, indent=2)
    elif not quiet:
        (_show_group_plan if is_group_file(params) else _show_plan)(record)


@safetab.command()
def validate(
    params: ParamsOrFile,
    data: DataOrRecords,
    finished: Annotated[
        Path | None,
        typer.Option("--finished", metavar="RUN", help=f"{FINISHED} Its tables are checked as well."),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Check all inputs, in three phases. Nothing is written or spent."""
    from tallyveil.api.safetab import is_group_file, validate_safetab

    record = validate_safetab(params, data, finished=finished)
    valid = (
        "The file and the records are valid. Nothing was written or spent."
        if is_group_file(params)
        else "Parameters, geography and person records are valid."
    )
    passed = f"The tables in {finished} pass all {record.get('output_checks_passed')} checks."
    give(record, [valid, passed][: 1 if finished is None else 2], quiet=quiet, as_json=as_json)


@safetab.command()
def run(
    params: ParamsOrFile,
    data: DataOrRecords,
    *,
    out: Out,
    quiet: Quiet = False,
    as_json: AsJson = False,
    coterminous_apart: Annotated[
        bool,
        typer.Option(
            "--coterminous-apart",
            help="Measure regions that have the same blocks separately, as production did.",
        ),
    ] = False,
    insecure_test_key: InsecureTestKey = None,
    book: Book = None,
    no_noise: NoNoise = False,
    not_private: NotPrivate = False,
    timings: TimingsFile = None,
) -> None:
    """Tabulate population groups in T1 and T2, with margins of error.

    The command reads and checks every input, enters the spend into the ledger, and then measures. After an
    interruption, the same command resumes the run. It gives the same tables at no further cost. With a TOML file, the
    groups, levels and details are those of the file, and each level has a table of totals and one of cells.
    """
    from tallyveil.api.safetab import is_group_file, refuse_census_options, run_safetab
    from tallyveil.cli.frame.progress import observer_for

    if is_group_file(params):
        refuse_census_options(
            {
                "--coterminous-apart": coterminous_apart,
                "--no-noise": no_noise,
                "--i-understand-this-is-not-private": not_private,
            }
        )
    if no_noise or not_private:
        _tabulate_exactly(params, data, out, None, (no_noise, not_private, insecure_test_key), quiet, as_json)
        return
    with observer_for(quiet, as_json, timings, out) as observer:
        finished = run_safetab(
            params,
            data,
            out,
            coterminous_apart=coterminous_apart,
            insecure_test_key=insecure_test_key,
            book=book,
            observer=observer,
        )
    if as_json:
        say_json({**run_summary(finished), "privacy": list(finished.privacy.values())})
    elif not quiet:
        show = _show_group_summary if is_group_file(params) else _show_summary
        show(finished)


@safetab.command()
def evaluate(
    params: ParamsOrFile,
    data: DataOrRecords,
    *,
    finished: Annotated[
        Path,
        typer.Option(
            "--finished", metavar="RUN", help=f"{FINISHED} Errors are written to its folder evaluation."
        ),
    ],
    not_private: NotPrivate = False,
    runs: Annotated[
        int,
        typer.Option(
            "--runs",
            min=1,
            help="Number of runs that errors are computed from: the finished run and simulated runs like it.",
        ),
    ] = 1,
    published: Annotated[
        Path | None,
        typer.Option("--t1", metavar="RUN", help=f"{T1} For tables of households."),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Compare tables with the true counts, by the size of the group. The results are NOT PRIVATE.

    The command writes true tables, errors and a report to RUN/evaluation, all marked as not private, and it adds
    entries to the ledger of RUN.
    """
    from tallyveil.api.safetab import evaluate_safetab

    errors = evaluate_safetab(
        params,
        data,
        finished,
        runs=runs,
        published=published,
        i_understand_this_is_not_private=not_private,
    )
    if as_json:
        from tallyveil.files.evaluation import WARNING

        marked = {"protected": False, "warning": WARNING}
        tables = {name: frame.to_dicts() for name, frame in errors.tables.items()}
        say_json({**marked, **tables})
    elif not quiet:
        _show_errors(errors)


@safetab.command()
def households(
    params: Params,
    data: Annotated[
        Path,
        typer.Argument(
            help="Folder of household-records, GRF-C and pop-group-totals (a table T1).", metavar="DATA"
        ),
    ],
    *,
    out: Out,
    published: Annotated[
        Path | None,
        typer.Option("--t1", metavar="RUN", help=f"{T1} It takes the place of pop-group-totals."),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    insecure_test_key: InsecureTestKey = None,
    book: Book = None,
    no_noise: NoNoise = False,
    not_private: NotPrivate = False,
    timings: TimingsFile = None,
) -> None:
    """Tabulate groups of households (SafeTab-H) in T3 and T4; a published table T1 chooses their detail."""
    from tallyveil.api.safetab import run_safetab_households
    from tallyveil.cli.frame.progress import observer_for

    if no_noise or not_private:
        asked = (no_noise, not_private, insecure_test_key)
        _tabulate_exactly(params, data, out, published, asked, quiet, as_json, households=True)
        return
    with observer_for(quiet, as_json, timings, out) as observer:
        finished = run_safetab_households(
            params,
            data,
            out,
            published=published,
            insecure_test_key=insecure_test_key,
            book=book,
            observer=observer,
        )
    if as_json:
        say_json(run_summary(finished))
    elif not quiet:
        _show_households(finished)


class Margins(StrEnum):
    """How a budget follows from a margin."""

    EXACT = "exact"
    PRINTED = "printed"


@safetab.command()
def calibrate(
    params: Params,
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder of the new parameters.")],
    margins: Annotated[
        str | None,
        typer.Option(
            "--margins",
            metavar="TEXT",
            help='95 % margins of a cell by level set, such as "USA 2 = 6, COUNTY 1 = 50". A level set '
            "without any margin gets no budget.",
        ),
    ] = None,
    total_margins: Annotated[
        str | None,
        typer.Option(
            "--total-margins",
            metavar="TEXT",
            help="95 % margins of the estimate of a total, likewise. They also determine the share of stage 1.",
        ),
    ] = None,
    epsilon: Annotated[
        str | None,
        typer.Option("--epsilon", help=f"{EPSILON} Scale all budgets to at most this epsilon at delta."),
    ] = None,
    relative_margin: Annotated[
        str | None,
        typer.Option(
            "--relative-margin",
            metavar="SHARE",
            help="Give a group a table where the margin of its mean cell is at most this share of the cell.",
        ),
    ] = None,
    sizes: Annotated[
        Path | None,
        typer.Option(
            "--group-sizes",
            metavar="FILE",
            help="Totals of an earlier public table, in the layout of T1: how large groups are expected to be.",
        ),
    ] = None,
    formula: Annotated[
        Margins,
        typer.Option(
            "--formula",
            help="exact: the least budget with 95 % coverage. printed: the formulas of the paper, corrected.",
        ),
    ] = Margins.EXACT,
    delta: Annotated[str, typer.Option("--delta", help=f"{DELTA} Epsilon is stated at it.")] = "1e-10",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write a parameter folder with other budgets and thresholds, and show its plan. No data is opened.

    Margins of cells and of totals get the least budgets and the best share of stage 1. --epsilon scales these budgets,
    or those of PARAMS, so that all margins become wider or narrower. All other settings are those of PARAMS.
    """
    from tallyveil.api.safetab import calibrate_safetab

    record = calibrate_safetab(
        params,
        out,
        margins=margins,
        total_margins=total_margins,
        epsilon=epsilon,
        relative_margin=relative_margin,
        sizes=sizes,
        formula=formula.value,
        delta=delta,
    )
    if as_json:
        say_json(record, indent=2)
    elif not quiet:
        console = _show_plan(record)
        console.print(f"Share of stage 1: {_decimal(record['plan']['stage_1_fraction'])}")
        if "expected_groups" in record:
            _show_expected(console, record["expected_groups"])
        else:
            _show_chances(console, record["sizes"])
        say(str(out))


@safetab.command()
def consistent(
    params: Params,
    data: Annotated[Path, typer.Argument(help="Folder of GRF-C. Records are not opened.", metavar="DATA")],
    *,
    finished: Annotated[Path, typer.Option("--finished", metavar="RUN", help=FINISHED)],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder of the consistent tables.")],
    whole_numbers: Annotated[
        bool, typer.Option("--whole-numbers", help="Make whole numbers of 0 or more.")
    ] = False,
    published: Annotated[
        Path | None,
        typer.Option(
            "--published",
            metavar="FILE",
            help="Totals that are published elsewhere, in the layout of T1. The numbers agree with them.",
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write T1 and T2 with numbers that agree with each other. This is post-processing and costs nothing.

    The nation is the sum of its states. An iteration alone is at most the same one in combination, a detailed one at
    most the regional one that contains it.
    """
    from tallyveil.api.safetab import make_safetab_consistent

    record = make_safetab_consistent(
        params, data, finished, out, whole_numbers=whole_numbers, published=published
    )
    files = [str(path) for path in record["files"]]
    lines = [
        f"{run}: {counts['rules']:,} rules, of which the estimates break {counts['broken_before']:,}, and the "
        "consistent numbers none"
        for run, counts in record["runs"].items()
    ]
    give({**record, "files": files}, [*lines, *files], quiet=quiet, as_json=as_json)


@safetab.command()
def long_form(
    short: Annotated[
        Path, typer.Argument(help="File of iteration codes with ranges of race codes.", metavar="SHORT")
    ],
    codes: Annotated[Path, typer.Argument(help="The file race-and-ethnicity-codes.txt.", metavar="CODES")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="File to write: the long form.")],
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write race-and-ethnicity-code-to-iteration in long form, with one row for each code, from ranges of codes."""
    from tallyveil.api.safetab import write_safetab_long_form

    rows = write_safetab_long_form(short, codes, out)
    record = {"file": str(out), "rows": rows}
    give(record, [f"{rows:,} rows written to {out}"], quiet=quiet, as_json=as_json)


@safetab.command()
def general_form(
    params: Params,
    data: Annotated[Path, typer.Argument(help="Folder of GRF-C. Records are not opened.", metavar="DATA")],
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FOLDER", help="Folder of the files: new, empty, or written before."),
    ],
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write the Census layout as TOML files of population groups, one for each run, with the tables of their maps."""
    from tallyveil.api.safetab import write_safetab_general_form

    give_files(write_safetab_general_form(params, data, out), quiet=quiet, as_json=as_json)


def _tabulate_exactly(
    params: Path,
    data: Path,
    out: Path,
    published: Path | None,
    asked: tuple[bool, bool, str | None],
    quiet: bool,
    as_json: bool,
    *,
    households: bool = False,
) -> None:
    """Tabulate the true counts and print where they are.

    Args:
        params, data, out, published: As the command has them.
        asked: The values of --no-noise, of --i-understand-this-is-not-private and of --insecure-test-key.
        quiet, as_json: As for every command.
        households: Whether the groups are of households.
    Raises:
        ConfigError: not both flags are given, or a key is given.
    """
    from tallyveil.api.safetab import tabulate_safetab_exactly
    from tallyveil.errors import ConfigError

    no_noise, not_private, test_key = asked
    if no_noise and not_private and test_key is not None:
        raise ConfigError("--no-noise needs no key. Leave --insecure-test-key out.", code="bad-flag")
    manifest = tabulate_safetab_exactly(
        params,
        data,
        out,
        households=households,
        published=published,
        i_understand_this_is_not_private=no_noise and not_private,
    )
    say(manifest["warnings"][0], err=True)
    record = {key: manifest[key] for key in ("kind", "protected", "warnings")}
    give({**record, **manifest["body"], "out": str(out)}, [str(out)], quiet=quiet, as_json=as_json)


def _show_errors(errors: "SafetabErrors") -> None:
    """Print the first table of errors, and the privacy parameters beside it."""
    from tallyveil.files.evaluation import PARAMETERS

    name = next(iter(errors.tables))
    presenters = {"errors-t1": _show_t1_errors, "errors-households": _show_household_errors}
    presenters.get(name, _show_group_errors)(errors.tables[name])
    say("What this accuracy costs, for each level by itself and for all together:")
    show_parameters(errors.tables[PARAMETERS].to_dicts())
    say(str(errors.page))


def run_summary(finished: "Opened") -> dict[str, Any]:
    """The summary of a run, for JSON."""
    from tallyveil.files.marks import marks_of

    manifest = finished.manifest
    return {
        "run": manifest.run,
        **marks_of(manifest).entry(),
        "sizes": manifest.body["sizes"],
        "privacy": finished.privacy,
        "checks_passed": len(manifest.checks),
        "already_finished": finished.already_finished,
        "out": str(finished.path),
    }


_ACCOUNTANTS = {"renyi": "Renyi", "zcdp": "zCDP", "zcdp_textbook": "textbook zCDP", "pure": "pure"}
"""Accountants beside the exact one, as a record names them, in words."""


def _show_plan(record: dict[str, Any]) -> Screen:
    """Print the plan of a SafeTab run."""
    console = Screen()
    opened = "only the public geography was opened" if "groups" in record else "no data was opened"
    console.print(headed("SafeTab plan", f" ({opened}; one person's record is added or removed)"))
    console.print(_privacy_table(record["privacy"], record["budget_unit"]))
    console.print(
        "A record that is changed leaves its groups and enters as many others: twice the budget.",
        soft_wrap=True,
    )
    console.print(_sets(record))
    _show_details(console, record["details"], "persons", "what production publishes")
    return console


_DETAILS = ("total", "4 ages", "9 ages", "23 ages")


def _show_chances(console: Screen, sizes: list[dict[str, Any]]) -> None:
    """Print the chance of each detail for groups of some true sizes. Level sets of equal chances stand together."""
    table = plain_table("level sets", "true size", numbers=_DETAILS)
    by_set: dict[str, list[tuple[str, ...]]] = {}
    for row in sizes:
        chances = tuple(f"{chance:.1%}" for chance in row["chances"])
        by_set.setdefault(f"{row['geography']} {row['level']}", []).append((f"{row['size']:,}", *chances))
    together: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for name, of_set in by_set.items():
        together.setdefault(tuple(of_set), []).append(name)
    for chances_of_sets, names in together.items():
        for number, shown in enumerate(chances_of_sets):
            table.add_row(", ".join(names) if not number else "", *shown)
        table.add_section()
    console.print(table)


def _show_expected(console: Screen, expected: list[dict[str, Any]]) -> None:
    """Print how many groups of public sizes are expected to get each detail."""
    misplaced = any("misplaced" in row for row in expected)
    table = plain_table(
        "level set", "size", numbers=("groups", *_DETAILS, *(["misplaced"] if misplaced else []))
    )
    rows = GroupedRows(table)
    for row in expected:
        numbers = [*row["details"], *([row["misplaced"]] if misplaced else [])]
        rows.add(
            (f"{row['geography']} {row['level']}",),
            row["size"],
            f"{row['groups']:,}",
            *(f"{number:,.1f}" for number in numbers),
        )
    console.print(table)
    console.print(
        "Groups of the earlier table by their size there, and how many are expected to get each detail. Misplaced "
        "groups get a coarser or finer detail than the one that is worth its noise.",
        soft_wrap=True,
    )


def _show_summary(finished: "Opened") -> None:
    """Print the summary of a run."""
    manifest = finished.manifest
    console = opened_summary(
        manifest, finished.path, finished.already_finished, "this finished run", "a new one"
    )
    table = _summary_table(f"SafeTab (run {manifest.run})")
    for run, privacy in finished.privacy.items():
        table.add_row(f"privacy, {run}", _guarantee_text(privacy, manifest.spent.unit))
    for run, sizes in manifest.body["sizes"].items():
        groups = sum(sizes["groups"].values())
        table.add_row(f"{run}", f"{groups:,} groups measured with {sizes['noisy_counts']:,} noisy counts")
        table.add_row("", f"{sizes['t1_rows']:,} rows of T1, {sizes['t2_rows']:,} of T2 published")
    _print_summary(console, table, finished)


def _show_households(finished: "Opened") -> None:
    """Print the summary of a SafeTab-H run."""
    manifest = finished.manifest
    console = opened_summary(manifest, finished.path, finished.already_finished, "this finished run")
    table = _summary_table(f"SafeTab-H (run {manifest.run})")
    for run, sizes in manifest.body["sizes"].items():
        privacy = finished.privacy[run]
        table.add_row(f"privacy, {run}", _guarantee_text(privacy, manifest.spent.unit))
        table.add_row(run, f"{sizes['t3_rows']:,} rows of T3, {sizes['t4_rows']:,} of T4")
    _print_summary(console, table, finished)


def _show_details(console: Screen, details: list[dict[str, Any]], units: str, count: str) -> None:
    """Print margins by detail, and say what they mean.

    Args:
        console: Where they are printed.
        details: Margins of every level and detail.
        units: What the records are, in the plural.
        count: What COUNT is, in words.
    """
    console.print(_details_table(details))
    console.print(
        f"Margins in {units}: with probability 95 % or more the noise lies within them. COUNT is {count}.\n"
        "ESTIMATE uses all measurements of a group, and usually comes closer. Post-processing costs nothing.",
        soft_wrap=True,
    )


def _summary_table(title: str) -> "Table":
    from rich.table import Table

    return Table(title=title, show_header=False)


def _print_summary(console: Screen, table: "Table", finished: "Opened") -> None:
    """Print the summary of a run, with the rows that every summary ends with."""
    table.add_row("checks passed", str(len(finished.manifest.checks)))
    table.add_row("report", str(finished.path / "report.html"))
    console.print(table)


def _show_t1_errors(errors: "pl.DataFrame") -> None:
    """Print the errors of T1 by size class, for each level set over all its geographies."""
    console = not_private_screen()
    table = plain_table(
        "level set", "true size", numbers=("groups", "published", "rms: COUNT", "ESTIMATE", "covered", "")
    )
    rows = GroupedRows(table)
    for row in errors.filter(~errors["TOTAL_ONLY"]).iter_rows(named=True):
        if row["published"] is None:
            continue
        rows.add(
            (f"{row['REGION_TYPE']} {row['LEVEL']}",),
            row["SIZE"],
            f"{row['groups']:,}",
            f"{row['published']:,.0f}",
            f"{row['COUNT: root mean square']:,.2f}",
            f"{row['ESTIMATE: root mean square']:,.2f}",
            f"{row['COUNT: within margin']:.0%}",
            f"{row['ESTIMATE: within margin']:.0%}",
        )
    console.print(table)
    console.print(
        "Root mean squared errors in persons, and the share of numbers within their margin. Below the state totals\n"
        "were published because they passed a bound: those errors are of a selection.",
        soft_wrap=True,
    )


def _show_household_errors(errors: "pl.DataFrame") -> None:
    """Print the errors of T3 and T4 by size class, separately for measured cells and for sums."""
    console = not_private_screen()
    table = plain_table(
        "table", "level set", "true size", "", numbers=("numbers", "mean error", "rms", "covered", "")
    )
    rows = GroupedRows(table)
    for row in errors.iter_rows(named=True):
        rows.add(
            (row["TABLE"], f"{row['REGION_TYPE']} {row['LEVEL']}"),
            row["SIZE"],
            row["ROW"],
            f"{row['rows']:,}",
            f"{row['COUNT: mean error']:,.2f}",
            f"{row['COUNT: root mean square']:,.2f}",
            f"{row['COUNT: within margin']:.0%}",
        )
    console.print(table)
    console.print("Errors in households, and the share of numbers within their margin.", soft_wrap=True)


def _guarantee_text(privacy: dict[str, Any], unit: str) -> str:
    """The guarantee of one run, in words."""
    from tallyveil.accounting.numbers import bound_cell, claim_sentence

    claim = claim_sentence(bound_cell(privacy["epsilon"]["upper"]), _delta(privacy["delta"]))
    changed = bound_cell(privacy["changed"]["epsilon"]["upper"])
    return (
        f"{claim}, composed exactly; "
        f"{unit} = {_decimal(privacy['budget'])}; where a record is changed, epsilon <= {changed}; "
        f"{unit} = {_decimal(privacy['changed']['budget'])}"
    )


def _delta(text: str) -> str:
    from tallyveil.accounting.numbers import at_most

    return at_most(Fraction(text))


def _privacy_table(privacy: list[dict[str, Any]], unit: str) -> "Table":
    """The guarantee of each run: its cost, and epsilon by every accountant that has one."""
    from tallyveil.accounting.numbers import bound_cell

    table = plain_table("guarantee")
    for part in privacy:
        table.add_column(part["run"], justify="right", no_wrap=True)
    table.add_row(unit, *(_decimal(part["budget"]) for part in privacy))
    table.add_row("delta", *(_delta(part["delta"]) for part in privacy))
    table.add_row("epsilon, exact", *(bound_cell(part["epsilon"]["upper"]) for part in privacy))
    table.add_row(
        "the same, a record changed", *(bound_cell(part["changed"]["epsilon"]["upper"]) for part in privacy)
    )
    for key, accountant in _ACCOUNTANTS.items():
        if any(part[key] is not None for part in privacy):
            epsilons = ("" if part[key] is None else bound_cell(part[key]) for part in privacy)
            table.add_row(f"epsilon, {accountant}", *epsilons)
    return table


def _sets(record: dict[str, Any]) -> "Table":
    table = plain_table("level set", numbers=("budget", "stability", "iterations", "kept above", "groups"))
    for run, content in record["plan"]["runs"].items():
        for level_set in content["sets"]:
            groups = (
                record.get("groups", {})
                .get(run, {})
                .get(f"{level_set['geography']} level {level_set['level']}")
            )
            table.add_row(
                f"{level_set['geography']} {level_set['level']}",
                _decimal(level_set["budget"]),
                str(level_set["stability"]),
                f"{level_set['iterations']:,}",
                "" if level_set["keep_above"] is None else f"{level_set['keep_above']:,}",
                "" if groups is None else f"{groups:,}",
            )
        table.add_section()
    return table


def _details_table(details: list[dict[str, Any]]) -> "Table":
    """Margins of error by amount of detail. Levels with the same margins share their rows."""
    table = plain_table("level sets", "detail", numbers=("from", "total ±", "ESTIMATE", "cell ±", "ESTIMATE"))
    together: dict[tuple[Any, ...], list[str]] = {}
    by_set: dict[str, list[tuple[Any, ...]]] = {}
    for detail_row in details:
        numbers = (
            detail_row["total"],
            detail_row["total_estimate"],
            detail_row["cell"],
            detail_row["cell_estimate"],
        )
        row = (detail_row["detail"], detail_row["from_count"], *numbers)
        by_set.setdefault(f"{detail_row.get('geography', '')} {detail_row['level']}".strip(), []).append(row)
    for name, rows in by_set.items():
        together.setdefault(tuple(rows), []).append(name)
    for rows_of_set, names in together.items():
        each = -(-len(names) // len(rows_of_set))  # names in each row, rounded up
        for number, (detail, first, *numbers) in enumerate(rows_of_set):
            shown = ("" if x is None else f"{x:,.4g}" for x in numbers)
            table.add_row(
                ", ".join(names[each * number : each * (number + 1)]),
                detail,
                "" if first is None else f"{first:,}",
                *shown,
            )
        table.add_section()
    return table


def _decimal(text: str) -> str:
    """An exact fraction, written as a decimal if that is exact and short."""
    from tallyveil.accounting.numbers import short_decimal

    return short_decimal(Fraction(text))


def _show_group_plan(record: dict[str, Any]) -> None:
    """Print the plan of a file of population groups."""
    console = Screen()
    said = " (no records were opened; one record is added or removed)"
    console.print(headed(f"Plan of {record['plan']['name']}", said))
    console.print(_privacy_table(record["privacy"], record["budget_unit"]))
    table = plain_table("level", numbers=("budget", "stability", "groups", "total only"))
    for level in record["plan"]["levels"]:
        numbers = (level["stability"], level["groups"], level["total_only_groups"])
        budget = _decimal(level["budget"])
        table.add_row(level["name"], budget, *(f"{number:,}" for number in numbers))
    console.print(table)
    _show_details(console, record["details"], "records", "what was measured")


def _show_group_summary(finished: "Opened") -> None:
    """Print the summary of a run."""
    manifest = finished.manifest
    console = opened_summary(
        manifest, finished.path, finished.already_finished, "this finished run", "a new one"
    )
    table = _summary_table(f"Groups of {manifest.body['name']} (run {manifest.run})")
    for privacy in finished.privacy.values():
        table.add_row("privacy", _guarantee_text(privacy, manifest.spent.unit))
    for name, sizes in manifest.body["sizes"].items():
        table.add_row(
            name,
            f"{sizes['groups']:,} groups, {sizes['noisy_counts']:,} noisy counts, {sizes['cells_rows']:,} cells",
        )
    _print_summary(console, table, finished)


def _show_group_errors(errors: "pl.DataFrame") -> None:
    """Print the errors of the totals of groups with adaptive detail, by level and size class."""
    console = not_private_screen()
    table = plain_table()
    table.add_column("level", overflow="fold")
    table.add_column("true size", no_wrap=True)
    for heading in ("groups", "rms: COUNT", "ESTIMATE", "covered", ""):
        table.add_column(heading, justify="right", no_wrap=True)
    rows = GroupedRows(table)
    for row in errors.filter(~errors["TOTAL_ONLY"]).iter_rows(named=True):
        rows.add(
            (row["LEVEL"],),
            row["SIZE"],
            f"{row['groups']:,}",
            f"{row['COUNT: root mean square']:,.2f}",
            f"{row['ESTIMATE: root mean square']:,.2f}",
            f"{row['COUNT: within margin']:.0%}",
            f"{row['ESTIMATE: within margin']:.0%}",
        )
    console.print(table)
    console.print(
        "Root mean squared errors in records, and the share of numbers within their margin.", soft_wrap=True
    )
