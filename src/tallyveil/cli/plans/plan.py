"""`tallyveil plan`: show the cost and the expected accuracy of a release before any data is opened."""

import json
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli.finished.explore import OpenIt, Shown
from tallyveil.cli.frame.arguments import ENTITIES, FAMILIES, AsJson, Quiet
from tallyveil.cli.frame.names import names_if_any
from tallyveil.cli.frame.terminal import say
from tallyveil.cli.plans.optimise import optimise
from tallyveil.cli.plans.sizes import Sizes, opened, predicted
from tallyveil.cli.plans.workbench import WorkbenchWish, make_page
from tallyveil.cli.runs.programme import plan_programme
from tallyveil.cli.show.area_changes import show_changes
from tallyveil.cli.show.plan_advice import show_advice, show_warnings
from tallyveil.cli.show.plan_entities import show_deviations

if TYPE_CHECKING:
    from tallyveil.budget.allocation import Allocation
    from tallyveil.budget.expected import ExpectedError
    from tallyveil.plans.release import ReleasePlan
    from tallyveil.plans.resources import Resources


def plan(
    release_file: Annotated[
        Path | None, typer.Argument(help="The release file (TOML).", metavar="RELEASE.TOML")
    ] = None,
    *,
    as_json: AsJson = False,
    quiet: Quiet = False,
    schema: Annotated[
        bool, typer.Option("--json-schema", help="Print the JSON Schema of a release file.")
    ] = False,
    blocks: Annotated[
        int | None,
        typer.Option(
            "--blocks", min=1, help="Number of finest geounits. Predict memory, time and disk for it."
        ),
    ] = None,
    people: Annotated[
        int | None,
        typer.Option(
            "--people",
            min=0,
            help="Number of people. --try makes up as many. Default: 40 for each finest geounit.",
        ),
    ] = None,
    geography: Annotated[
        bool,
        typer.Option("--read-geography", help="Predict for the geounits of the (public) geography table."),
    ] = False,
    families: Annotated[
        str | None,
        typer.Option(
            "--families",
            metavar="FAMILY,...",
            help=f"{FAMILIES} They are columns of --entities, or families of the release file's [spine]. Show exact "
            "standard deviations for them and for every geolevel.",
        ),
    ] = None,
    entities: Annotated[
        Path | None,
        typer.Option(
            "--entities",
            metavar="FILE",
            help=ENTITIES,
        ),
    ] = None,
    queries: Annotated[
        str | None,
        typer.Option(
            "--queries", metavar="QUERY,...", help="Queries for --families. Default: the release's tables."
        ),
    ] = None,
    aims: Annotated[
        Path | None,
        typer.Option(
            "--optimise",
            metavar="AIMS.TOML",
            help="Find better shares of the same budget for the aims in this file, and show the standard deviations "
            "of every aim before and after. The command opens the public geography and entities. It opens no records.",
        ),
    ] = None,
    keys: Annotated[
        int | None,
        typer.Option(
            "--try",
            metavar="KEYS",
            min=2,
            help="With --optimise: also make up records for this geography, schema and bounds, release them with the "
            "present and with the new shares under this many test keys, and show the errors measured. The command "
            "still opens no records. It takes as long as twice KEYS releases.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="File to write: with --optimise, the new tables [strategy] and [estimation] (TOML).",
        ),
    ] = None,
    workbench: Annotated[
        Path | None,
        typer.Option(
            "--workbench",
            metavar="FOLDER",
            help="Write a page in which budget and shares can be moved; cost and expected errors follow at once. The "
            "folder is new, empty, or holds an earlier site, which is replaced.",
        ),
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(
            "--compare",
            metavar="OTHER.TOML",
            help="A second release file, whose numbers the workbench shows beside.",
        ),
    ] = None,
    open_it: OpenIt = False,
) -> None:
    """Show what a release will cost and how exact every query will be, or what all releases of a programme will cost.

    The command opens the release file and nothing else: no records, and no public geography, bounds or entities unless
    --read-geography, --families or --optimise asks for it.
    """
    from tallyveil.api.planned import plan as make
    from tallyveil.api.products import is_programme
    from tallyveil.errors import ConfigError
    from tallyveil.plans.from_toml.load import release_file_schema

    if schema:
        say(json.dumps(release_file_schema(), indent=2))
        return
    wanted, asked = names_if_any(families, "--families"), names_if_any(queries, "--queries")
    if release_file is None:
        raise ConfigError("name a release file, or ask for --json-schema.", code="bad-flag")
    _refuse_flags(
        {
            "--blocks": blocks is not None,
            "--people": people is not None,
            "--read-geography": geography,
            "--families": families is not None,
            "--entities": entities is not None,
            "--queries": queries is not None,
            "--optimise": aims is not None,
            "--try": keys is not None,
            "--out": out is not None,
            "--workbench": workbench is not None,
            "--compare": compare is not None,
            "--open": open_it,
        }
    )
    if is_programme(release_file):
        sizes = Sizes(blocks, people, geography)
        others = aims is not None or families is not None
        plan_programme(release_file, sizes, quiet=quiet, as_json=as_json, others=others)
        return
    loaded = make(release_file).content
    if workbench is not None:
        wish = WorkbenchWish(release_file, workbench, compare, blocks, geography, entities, wanted, asked)
        make_page(loaded, wish, Shown(quiet=quiet, as_json=as_json, opened=open_it))
        return
    if aims is not None:
        optimise(release_file, aims, out, keys=keys, people=people, quiet=quiet, as_json=as_json)
        return
    if families is not None and entities is None and loaded.spine is None:
        raise ConfigError(
            "--families FAMILY,... and --entities FILE must be given together, because the release file has no "
            "[spine].",
            code="bad-flag",
        )
    allocation, changes, warnings = opened(loaded, geography=geography)
    resources = predicted(loaded, Sizes(blocks, people, geography), allocation)
    deviations = None
    if wanted is not None:
        from tallyveil.products.topdown.run.public import deviations_of

        deviations = deviations_of(loaded, entities, wanted, asked)
    if as_json:
        from tallyveil.plans.record import plan_record
        from tallyveil.postprocess.intervals.expected_deviations import deviations_record
        from tallyveil.products.topdown.run.spine_making import changes_record

        record = plan_record(loaded, resources, allocation, warnings)
        if deviations is not None:
            record["deviations"] = deviations_record(deviations)
        record |= changes_record(changes)
        say(json.dumps(record, indent=2))
    if as_json or quiet:
        return
    _show(loaded, allocation, opened=geography or deviations is not None)
    show_changes(changes)
    show_warnings(warnings)
    if deviations is not None:
        show_deviations(deviations, loaded.schema.unit.many)
    if resources is not None:
        _show_resources(loaded, resources)
    show_advice(loaded)


def _refuse_flags(flags: dict[str, bool]) -> None:
    """Refuse flags that do not go together.

    Args:
        flags: Whether each flag was given.
    Raises:
        ConfigError: two flags exclude each other, or one needs another that is not given.
    """
    from tallyveil.errors import ConfigError

    given = {flag for flag, is_given in flags.items() if is_given}
    if {"--blocks", "--read-geography"} <= given:
        raise ConfigError("give --blocks or --read-geography, not both.", code="bad-flag")
    if "--people" in given and not given & {"--blocks", "--read-geography", "--try"}:
        raise ConfigError("--people needs --blocks N, --read-geography or --try as well.", code="bad-flag")
    if "--try" in given and "--optimise" not in given:
        raise ConfigError("--try needs --optimise AIMS.TOML.", code="bad-flag")
    if "--out" in given and "--optimise" not in given:
        raise ConfigError("--out needs --optimise AIMS.TOML.", code="bad-flag")
    others = {"--blocks", "--read-geography", "--families"} | (
        {"--people"} if "--try" not in given else set()
    )
    if "--optimise" in given and given & others:
        raise ConfigError(
            "--optimise shows other shares, not this plan. Give it with no other flags than --try (and with it "
            "--people), --out and --json.",
            code="bad-flag",
        )
    if "--workbench" not in given and given & {"--compare", "--open"}:
        raise ConfigError("--compare and --open need --workbench FOLDER.", code="bad-flag")
    if "--workbench" in given and given & {"--people", "--optimise"}:
        raise ConfigError(
            "--workbench writes a page. Give it without --people and --optimise.", code="bad-flag"
        )
    if given & {"--families", "--workbench"} == set() and given & {"--entities", "--queries"}:
        raise ConfigError(
            "--families FAMILY,... and --entities FILE must be given together, and --queries needs --families.",
            code="bad-flag",
        )


def _show_resources(loaded: "ReleasePlan", resources: "Resources") -> None:
    from tallyveil.cli.frame.terminal import Screen, headed
    from tallyveil.plans.machine import in_gib
    from tallyveil.plans.resources import warn_small_machine

    console = Screen()
    finest = f"{resources.sizes.geounits[-1]:,} {loaded.geolevels[-1]} geounits"
    console.print()
    console.print(
        headed(
            f"A run for {finest} and {loaded.schema.unit.counted(resources.sizes.people)}",
            " is expected to need",
        )
    )
    console.print(f"memory      {in_gib(resources.memory)}")
    console.print(f"disk        {in_gib(resources.disk)}")
    what = "of processor time, an upper estimate" if loaded.outer else "on two cores"
    console.print(f"time        {_duration(resources.total_seconds)} {what}")
    longest = sorted(resources.seconds, key=lambda item: -item[1])[:4]
    spelled = ", ".join(f"{stage} {_duration(seconds)}" for stage, seconds in longest)
    console.print(f"            longest: {spelled}", soft_wrap=True)
    warning = warn_small_machine(resources)
    if warning is not None:
        console.print(headed("warning", f"     {warning}", "bold yellow"), soft_wrap=True)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _show(loaded: "ReleasePlan", allocation: "Allocation | None", *, opened: bool) -> None:
    from tallyveil.accounting.decimals import at_most, claim_text, delta_text
    from tallyveil.budget.expected import expected_errors
    from tallyveil.cli.frame.terminal import Screen, headed
    from tallyveil.plans.estimating import values_in_words
    from tallyveil.plans.guarantee import guarantee_of
    from tallyveil.plans.inputs import STEP_KINDS
    from tallyveil.plans.record import CONFIDENCE

    console = Screen()
    guarantee, units = guarantee_of(loaded.terms, allocation), loaded.schema.unit.many
    what = "only the public geography was opened, no data" if opened else "no data was opened"
    console.print(headed(f"Plan of release {loaded.name}", f" ({what})"))
    console.print(f"privacy     {guarantee['statement']}", soft_wrap=True)
    exact = guarantee["exact"]
    console.print(
        f"exactly     epsilon is {_between(exact['epsilon'])} at delta = {delta_text(loaded.delta)} "
        f"(by {', '.join(exact['engines'])})",
        soft_wrap=True,
    )
    if "textbook_epsilon" in guarantee:
        console.print(
            f"textbook    epsilon <= {claim_text(guarantee['textbook_epsilon'])} by "
            "rho + 2 sqrt(rho ln(1 / delta)), as published tables have it",
            soft_wrap=True,
        )
    console.print(f"neighbours  {guarantee['neighbours_in_words']}")
    console.print(f"declared    {guarantee['budget_unit']} = {guarantee['declared']}")
    for invariant in guarantee["invariants"]:
        console.print(f"exact       {invariant} (published without noise)")
    for drawn in loaded.subspace:
        law = drawn.law(loaded.strategy.mechanism, loaded.strategy.neighbours)
        console.print(
            f"drawn       {drawn.query} at {drawn.geolevel} on the lattice of the invariants, then fixed: {law}; "
            f"{guarantee['budget_unit']} = {at_most(drawn.budget, places=5)}",
            soft_wrap=True,
        )
    for item in loaded.bounds:
        console.print(f"bounds      {item.name}: {item.query} at {item.geolevel} and above")
    values = values_in_words(loaded.estimation, drawn=bool(loaded.subspace))
    console.print(f"values      {values}", soft_wrap=True)
    console.print(f"schema      {loaded.schema.name}, {loaded.schema.size:,} cells")
    if loaded.spine is not None and loaded.spine.changes:
        kinds = [STEP_KINDS[type(step)] for step in loaded.spine.steps]
        kinds += ["groups by variance"] if loaded.spine.regroup is not None else []
        kinds += ["bypassing"] if loaded.spine.bypassing is not None else []
        console.print(f"spine       {', '.join(loaded.geolevels)} (by {', '.join(kinds)})", soft_wrap=True)
        if loaded.spine.bypassing is not None:
            console.print(
                "            a bypassed geounit's share goes to one measurement of its area: less noise there than "
                "below; the cost is the same",
                soft_wrap=True,
            )
    console.print("afterwards  estimation and everything after it cost nothing (post-processing)")
    console.print()
    console.print(_levels(loaded, exact))
    console.print(_table(loaded, expected_errors(loaded.strategy, CONFIDENCE)))
    console.print(
        f"Variance ({units} squared), standard deviation and margin ({units}) of every noisy answer: with\n"
        "probability 95 % or more its noise lies within the margin. Estimation usually reduces the error.\n"
        "Alone: epsilon at delta 1e-10 of this query's noise by itself, before all is composed.",
        soft_wrap=True,
    )


def _between(epsilon: dict[str, float]) -> str:
    """Both bounds on an epsilon in words; only the upper one if the lower bound is 0."""
    from tallyveil.accounting.bounds import Bounds
    from tallyveil.accounting.decimals import both_ends

    lower, upper = both_ends(Bounds(**epsilon))
    return f"at most {upper}" if epsilon["lower"] <= 0 else f"between {lower} and {upper}"


def _levels(loaded: "ReleasePlan", exact: dict[str, Any]) -> Any:
    from rich import box
    from rich.table import Table

    from tallyveil.accounting.decimals import at_most

    unit = loaded.strategy.budget_unit
    others = ("epsilon, zCDP", "textbook") if unit == "rho" else ("epsilon, pure",)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("each geolevel alone", no_wrap=True)
    for heading in (unit, "epsilon <=", *others):
        table.add_column(heading, justify="right", no_wrap=True)
    for level in exact["geolevels"]:
        table.add_row(
            level["geolevel"],
            at_most(Fraction(level["spent"]), places=5),
            at_most(level["epsilon"]["upper"], places=6),
            *(
                at_most(level[key], places=3)
                for key in ("classical_epsilon", "textbook_epsilon")
                if key in level
            ),
        )
    return table


def _table(loaded: "ReleasePlan", expected: "tuple[ExpectedError, ...]") -> Any:
    from rich import box
    from rich.table import Table

    from tallyveil.accounting.decimals import at_most
    from tallyveil.budget.parameters import query_parameters

    unit, alone = loaded.strategy.budget_unit, query_parameters(loaded.strategy)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("geolevel", no_wrap=True)
    table.add_column("query", overflow="fold")
    for heading in ("cells", unit, "variance", "st.dev.", "margin", "alone"):
        table.add_column(heading, justify="right", no_wrap=True)
    last = None
    for item in expected:
        if last not in (None, item.geolevel):
            table.add_section()
        table.add_row(
            item.geolevel if item.geolevel != last else "",
            item.query,
            f"{loaded.query(item.query).size:,}",
            at_most(item.share, places=5),
            f"{item.variance:,.2f}",
            f"{item.standard_deviation:,.2f}",
            f"±{item.margin:,}",
            at_most(alone[item.geolevel, item.query].epsilons["1e-10"], places=3),
        )
        last = item.geolevel
    return table
