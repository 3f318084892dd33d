"""`tallyveil safetab`: adaptive tabulation of detailed population groups."""

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli.frame.arguments import (
    DELTA,
    EPSILON,
    AsJson,
    InsecureTestKey,
    NotPrivate,
    Quiet,
    WholeHelp,
    give,
    give_files,
)
from tallyveil.cli.frame.terminal import say

if TYPE_CHECKING:
    from tallyveil.api.safetab import SafetabErrors
    from tallyveil.files.manifest import Manifest


safetab = typer.Typer(
    name="safetab",
    cls=WholeHelp,
    no_args_is_help=True,
    help="Tabulate detailed population groups; the detail of each group depends on a noisy count.",
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
Data = Annotated[Path, typer.Argument(help="Folder of person-records and GRF-C.", metavar="DATA")]
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
    from tallyveil.cli.safetab_tables import show_group_plan, show_plan

    record = plan_safetab(params, data, delta=delta, out=out)
    if as_json:
        say(json.dumps(record, indent=2))
    elif not quiet:
        (show_group_plan if is_group_file(params) else show_plan)(record)


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
    no_noise: NoNoise = False,
    not_private: NotPrivate = False,
) -> None:
    """Tabulate population groups in T1 and T2, with margins of error.

    The command reads and checks every input, enters the spend into the ledger, and then measures. After an
    interruption, the same command resumes the run. It gives the same tables at no further cost. With a TOML file, the
    groups, levels and details are those of the file, and each level has a table of totals and one of cells.
    """
    from tallyveil.api.safetab import is_group_file, refuse_census_options, run_safetab
    from tallyveil.cli.frame.progress import observer_for
    from tallyveil.cli.safetab_tables import show_group_summary, show_summary

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
    with observer_for(quiet, as_json) as observer:
        finished = run_safetab(
            params,
            data,
            out,
            coterminous_apart=coterminous_apart,
            insecure_test_key=insecure_test_key,
            observer=observer,
        )
    manifest = finished.manifest
    if as_json:
        summary = run_summary(manifest, out, finished.already_finished)
        say(json.dumps({**summary, "privacy": list(manifest.privacy.values())}))
    elif not quiet:
        show = show_group_summary if is_group_file(params) else show_summary
        show(manifest, out, finished.already_finished)


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
        say(json.dumps({**marked, **tables}))
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
    no_noise: NoNoise = False,
    not_private: NotPrivate = False,
) -> None:
    """Tabulate groups of households (SafeTab-H) in T3 and T4; a published table T1 chooses their detail."""
    from tallyveil.api.safetab import run_safetab_households
    from tallyveil.cli.frame.progress import observer_for
    from tallyveil.cli.safetab_tables import show_households

    if no_noise or not_private:
        asked = (no_noise, not_private, insecure_test_key)
        _tabulate_exactly(params, data, out, published, asked, quiet, as_json, households=True)
        return
    with observer_for(quiet, as_json) as observer:
        finished = run_safetab_households(
            params, data, out, published=published, insecure_test_key=insecure_test_key, observer=observer
        )
    if as_json:
        say(json.dumps(run_summary(finished.manifest, out, finished.already_finished)))
    elif not quiet:
        show_households(finished.manifest, out, finished.already_finished)


class Margins(StrEnum):
    """How a budget follows from a margin."""

    EXACT = "exact"
    PRINTED = "printed"


@safetab.command()
def calibrate(
    params: Annotated[
        Path, typer.Argument(help="Folder of config.json and the four code files.", metavar="PARAMS")
    ],
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder of the new parameters.")],
    margins: Annotated[
        str | None,
        typer.Option(
            "--margins",
            metavar="TEXT",
            help='95 % margins of a cell by level set, such as "USA 2 = 6, COUNTY 1 = 50". Others get no budget.',
        ),
    ] = None,
    epsilon: Annotated[
        str | None,
        typer.Option("--epsilon", help=f"{EPSILON} Scale all budgets to at most this epsilon at delta."),
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
    """Write a parameter folder with other budgets, and show its plan. No data is opened.

    Either the margins of error of a cell are given (--margins), or the epsilon of each run (--epsilon). The lists, the
    thresholds and all switches are those of PARAMS.
    """
    from tallyveil.api.safetab import calibrate_safetab
    from tallyveil.cli.safetab_tables import show_plan

    record = calibrate_safetab(
        params, out, margins=margins, epsilon=epsilon, formula=formula.value, delta=delta
    )
    if as_json:
        say(json.dumps(record, indent=2))
    elif not quiet:
        show_plan(record)
        say(str(out))


class Rule(StrEnum):
    """Rules that `safetab consistent` can impose."""

    STATES = "states"
    ALONE = "alone"


@safetab.command()
def consistent(
    params: Annotated[
        Path, typer.Argument(help="Folder of config.json and the four code files.", metavar="PARAMS")
    ],
    run: Annotated[Path, typer.Argument(help="Folder of the finished run.", metavar="RUN")],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder of the consistent tables.")],
    rule: Annotated[
        Rule,
        typer.Option(
            "--rule",
            help="states: the nation is the sum of its states. alone: a race alone is at most the same race alone or "
            "in combination.",
        ),
    ] = Rule.STATES,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Make the estimates of T1 consistent by one rule. This is post-processing and costs nothing."""
    from tallyveil.api.safetab import make_safetab_consistent

    give_files(make_safetab_consistent(params, run, out, rule.value), quiet=quiet, as_json=as_json)


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
    params: Annotated[
        Path, typer.Argument(help="Folder of config.json and the four code files.", metavar="PARAMS")
    ],
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
    from tallyveil.cli.frame.tables import show_parameters
    from tallyveil.cli.safetab_tables import show_errors, show_group_errors, show_household_errors
    from tallyveil.files.evaluation import PARAMETERS

    name = next(iter(errors.tables))
    presenters = {"errors-t1": show_errors, "errors-households": show_household_errors}
    presenters.get(name, show_group_errors)(errors.tables[name])
    say("What this accuracy costs, for each level by itself and for all together:")
    show_parameters(errors.tables[PARAMETERS].to_dicts())
    say(str(errors.page))


def run_summary(manifest: "Manifest", out: Path, already_finished: bool) -> dict[str, Any]:
    """The summary of a run, for JSON."""
    from tallyveil.files.marks import marks_of

    return {
        "run": manifest.run,
        **marks_of(manifest).entry(),
        "sizes": manifest.body["sizes"],
        "privacy": manifest.privacy,
        "checks_passed": len(manifest.checks),
        "already_finished": already_finished,
        "out": str(out),
    }
