"""`tallyveil safetab calibrate`: a parameter folder with the budgets that margins need, or that an epsilon allows."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tallyveil.cli.frame.arguments import DELTA, EPSILON, AsJson, Quiet
from tallyveil.cli.frame.terminal import say
from tallyveil.cli.safetab.groups import FILE_SUFFIX


class Margins(StrEnum):
    """How a budget follows from a margin."""

    EXACT = "exact"
    PRINTED = "printed"


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
    from tallyveil.budget.fractions import parse_fraction
    from tallyveil.errors import ConfigError
    from tallyveil.products.safetab.public.calibrate import (
        parse_margins,
        plan_for_epsilon,
        plan_for_margins,
        write_parameters,
    )
    from tallyveil.products.safetab.public.plan import read_plan
    from tallyveil.products.safetab.public.plan_record import plan_record
    from tallyveil.storage.outputs import own_folder, refuse_inputs

    if params.suffix == FILE_SUFFIX:
        raise ConfigError(
            f"{params} is a file of population groups, and only parameter folders of the Census layout are "
            "calibrated. Change the budgets in the file, and look at them with `tallyveil safetab plan`.",
            code="bad-flag",
        )
    if (margins is None) == (epsilon is None):
        raise ConfigError("give either --margins or --epsilon, and not both.", code="bad-flag")
    at = parse_fraction(delta, "--delta")
    read = read_plan(params)
    if margins is not None:
        plan = plan_for_margins(read, parse_margins(margins), formula.value)
    else:
        plan = plan_for_epsilon(read, parse_fraction(epsilon, "--epsilon"), at)
    record = plan_record(plan, at, None)
    refuse_inputs(out, [params])
    with own_folder(out, "safetab calibrate"):
        write_parameters(params, out, plan)
    if as_json:
        say(json.dumps(record, indent=2))
    elif not quiet:
        from tallyveil.cli.show.safetab import show_plan

        show_plan(record)
        say(str(out))
