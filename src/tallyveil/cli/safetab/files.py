"""`tallyveil safetab consistent`, `long-form` and `general-form`: new files from published tables and public lists."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tallyveil.cli.frame.arguments import AsJson, Quiet, give, give_files


class Rule(StrEnum):
    """Rules that `safetab consistent` can impose."""

    STATES = "states"
    ALONE = "alone"


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
    from tallyveil.products.safetab.run.consistent import write_consistent
    from tallyveil.storage.outputs import refuse_inputs

    refuse_inputs(out, [params, run])
    paths = write_consistent(params, run, out, rule.value)
    give_files(paths, quiet=quiet, as_json=as_json)


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
    from tallyveil.products.safetab.public.short_form import convert_short_form
    from tallyveil.storage.outputs import claim_file

    claim_file(out, [short, codes])
    rows = convert_short_form(short, codes, out)
    record = {"file": str(out), "rows": rows}
    give(record, [f"{rows:,} rows written to {out}"], quiet=quiet, as_json=as_json)


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
    from tallyveil.products.safetab.public.general_form import write_general_form
    from tallyveil.products.safetab.public.plan import read_plan
    from tallyveil.products.safetab.public.regions import read_regions
    from tallyveil.storage.outputs import own_folder, refuse_inputs

    refuse_inputs(out, [params, data])
    plan = read_plan(params)
    regions = read_regions(data, plan.config)
    with own_folder(out, "safetab general-form"):
        paths = write_general_form(plan, regions, out)
    give_files(paths, quiet=quiet, as_json=as_json)
