"""`tallyveil safetab`: adaptive tabulation of detailed population groups."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli.frame.arguments import DELTA, AsJson, InsecureTestKey, NotPrivate, Quiet
from tallyveil.cli.frame.terminal import say
from tallyveil.cli.frame.whole_help import WholeHelp
from tallyveil.cli.safetab.calibrate import calibrate
from tallyveil.cli.safetab.files import consistent, general_form, long_form
from tallyveil.cli.safetab.groups import (
    FILE_SUFFIX,
    evaluate_of_groups,
    plan_of_groups,
    refuse_census_options,
    run_of_groups,
    validate_of_groups,
)
from tallyveil.cli.safetab.said import give_errors, give_plan, give_validation, run_summary

if TYPE_CHECKING:
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
USUAL_DELTA = "1e-10"
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
        typer.Option("--delta", help=f"{DELTA} Epsilon is stated at it. Default: {USUAL_DELTA}."),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Show the privacy guarantee and the expected errors of a run, before any record is opened."""
    if params.suffix == FILE_SUFFIX:
        refuse_census_options({"DATA": data is not None, "--delta": delta is not None})
        plan_of_groups(params, out, quiet=quiet, as_json=as_json)
        return
    from tallyveil.cli.show.safetab import show_plan
    from tallyveil.products.safetab.public.plan import read_plan
    from tallyveil.products.safetab.public.plan_record import plan_record

    read = read_plan(params)
    give_plan(
        plan_record(read, _exact(delta or USUAL_DELTA), data), out, show_plan, quiet=quiet, as_json=as_json
    )


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
    if params.suffix == FILE_SUFFIX:
        validate_of_groups(params, data, finished, quiet=quiet, as_json=as_json)
        return
    from tallyveil.files.kinds import ReleaseKind
    from tallyveil.files.manifest_files import read_manifest
    from tallyveil.products.safetab.public.outputs import check_outputs, require_passed
    from tallyveil.products.safetab.run.run import read_safetab_inputs

    if finished is not None:
        read_manifest(finished, ReleaseKind.SAFETAB)
    inputs = read_safetab_inputs(params, data)
    said = {
        "valid": True,
        "runs": [run.run for run in inputs.plan.runs],
        "codes": len(inputs.plan.files.codes),
        "iterations": len(inputs.plan.files.iterations),
        "blocks": {run: len(regions.blocks) for run, regions in inputs.regions.items()},
    }
    if finished is not None:
        checks = check_outputs(finished, inputs.plan)
        require_passed(checks)
        said["output_checks_passed"] = len(checks)
    give_validation(
        said, finished, "Parameters, geography and person records are valid.", quiet=quiet, as_json=as_json
    )


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
    if params.suffix == FILE_SUFFIX:
        refuse_census_options(
            {
                "--coterminous-apart": coterminous_apart,
                "--no-noise": no_noise,
                "--i-understand-this-is-not-private": not_private,
            }
        )
        run_of_groups(params, data, out, test_key=insecure_test_key, quiet=quiet, as_json=as_json)
        return
    if _exactly(no_noise, not_private, insecure_test_key):
        from tallyveil.products.safetab.run.exact import tabulate_exactly

        _show_exact(tabulate_exactly(params, data, out), out, quiet=quiet, as_json=as_json)
        return
    from tallyveil.api.products import write_page
    from tallyveil.cli.frame.progress import observer_for
    from tallyveil.noise.key import insecure_key
    from tallyveil.products.safetab.run.run import run_safetab

    key = insecure_key(insecure_test_key) if insecure_test_key is not None else None
    with observer_for(quiet, as_json) as observer:
        outcome = run_safetab(
            params, data, out, coterminous_once=not coterminous_apart, test_key=key, observer=observer
        )
    if not (out / "report.html").exists():
        write_page(out)
    _show_run(outcome.manifest, out, outcome.already_finished, quiet=quiet, as_json=as_json)


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
    from tallyveil.errors import ConfigError

    if not not_private:
        raise ConfigError(
            "the errors of a run reveal its true counts: everyone who sees them can learn about single people. If "
            "that is acceptable here, add --i-understand-this-is-not-private. Nothing was read.",
            code="not-private",
        )
    if params.suffix == FILE_SUFFIX:
        refuse_census_options({"--t1": published is not None})
        evaluate_of_groups(params, data, finished, repeats=runs - 1, quiet=quiet, as_json=as_json)
        return
    from tallyveil.api.products import EVALUATE_SAFETAB, require_evaluation, write_page
    from tallyveil.files.kinds import ReleaseKind
    from tallyveil.products.safetab.page.households import write_households_evaluation
    from tallyveil.products.safetab.page.persons import write_safetab_evaluation
    from tallyveil.products.safetab.run.evaluate import evaluate_safetab
    from tallyveil.products.safetab.run.evaluate_households import evaluate_households

    kind = require_evaluation(finished, EVALUATE_SAFETAB)
    write_page(finished)  # a run whose page cannot be made is refused before its ledger gets an entry
    if kind is ReleaseKind.HOUSEHOLDS:
        errors = evaluate_households(params, data, finished, published=published, repeats=runs - 1)
        path = write_households_evaluation(finished, errors)
    else:
        errors = evaluate_safetab(params, data, finished, repeats=runs - 1)
        path = write_safetab_evaluation(finished, errors)
    write_page(finished)  # it has another mark now
    from tallyveil.cli.show.safetab import show_errors, show_household_errors

    show = show_errors if "errors-t1" in errors else show_household_errors
    give_errors(errors, path, show, quiet=quiet, as_json=as_json)


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
    if _exactly(no_noise, not_private, insecure_test_key):
        from tallyveil.products.safetab.run.exact import tabulate_households_exactly

        manifest = tabulate_households_exactly(params, data, out, published=published)
        _show_exact(manifest, out, quiet=quiet, as_json=as_json)
        return
    from tallyveil.api.products import write_page
    from tallyveil.cli.frame.progress import observer_for
    from tallyveil.noise.key import insecure_key
    from tallyveil.products.safetab.run.households import run_households

    key = insecure_key(insecure_test_key) if insecure_test_key is not None else None
    with observer_for(quiet, as_json) as observer:
        outcome = run_households(params, data, out, published=published, test_key=key, observer=observer)
    if not (out / "report.html").exists():
        write_page(out)
    if as_json:
        say(json.dumps(run_summary(outcome.manifest, out, outcome.already_finished)))
    elif not quiet:
        from tallyveil.cli.show.safetab import show_households

        show_households(outcome.manifest, out, outcome.already_finished)


safetab.command()(calibrate)
safetab.command()(consistent)
safetab.command()(long_form)
safetab.command()(general_form)


def _exactly(no_noise: bool, not_private: bool, test_key: str | None) -> bool:
    """Whether tables without noise are asked for; both flags must be given."""
    from tallyveil.errors import ConfigError

    if no_noise != not_private:
        raise ConfigError(
            "tables without noise are the true counts: everyone who sees them learns about single people. If you "
            "want such tables, give both --no-noise and --i-understand-this-is-not-private; otherwise give neither. "
            "Nothing was read.",
            code="not-private",
        )
    if no_noise and test_key is not None:
        raise ConfigError("--no-noise needs no key. Leave --insecure-test-key out.", code="bad-flag")
    return no_noise


def _show_exact(manifest: dict[str, Any], out: Path, *, quiet: bool, as_json: bool) -> None:
    say(manifest["warnings"][0], err=True)
    if as_json:
        said = {key: manifest[key] for key in ("kind", "protected", "warnings")}
        say(json.dumps({**said, **manifest["body"], "out": str(out)}))
    elif not quiet:
        say(str(out))


def _exact(text: str) -> Any:
    from tallyveil.budget.fractions import parse_fraction
    from tallyveil.errors import ConfigError

    value = parse_fraction(text, "--delta")
    if not 0 < value < 1:
        raise ConfigError(f"--delta is {text}, wanted a number between 0 and 1.", code="bad-flag")
    return value


def _show_run(manifest: "Manifest", out: Path, already_finished: bool, *, quiet: bool, as_json: bool) -> None:
    if as_json:
        summary = run_summary(manifest, out, already_finished)
        say(json.dumps({**summary, "privacy": list(manifest.privacy.values())}))
    elif not quiet:
        from tallyveil.cli.show.safetab import show_summary

        show_summary(manifest, out, already_finished)
