"""`tallyveil plan`: show the cost and the expected accuracy of a release before any data is opened."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli.explore import OpenIt, Shown, give_site
from tallyveil.cli.frame.arguments import ENTITIES, FAMILIES, AsJson, Quiet, names_if_any
from tallyveil.cli.frame.screen import Screen, headed
from tallyveil.cli.frame.tables import GroupedRows, plain_table, show_table
from tallyveil.cli.frame.terminal import say, say_json
from tallyveil.cli.programme import show_programme
from tallyveil.cli.spine import show_changes

if TYPE_CHECKING:
    from tallyveil.api.planned import BetterShares, Forecast
    from tallyveil.budget.optimal.choose import OptimalShares, ShareChoice
    from tallyveil.budget.strategy import ExpectedError
    from tallyveil.plans.release import ReleasePlan
    from tallyveil.plans.resources import Resources
    from tallyveil.postprocess.intervals.expected_deviations import AreaDeviations
    from tallyveil.products.topdown.run.shares_trial import Trial
    from tallyveil.schema.schema import Unit


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
    details: Annotated[
        bool,
        typer.Option(
            "--details",
            help="Show everything: the guarantee of every geolevel, the noise of every measured query, and advice.",
        ),
    ] = False,
) -> None:
    """Show what a release means for one person and how exact its tables will be, or what a programme will cost.

    The command opens the release file and nothing else: no records, and no public geography, bounds or entities unless
    --read-geography, --families or --optimise asks for it.
    """
    from tallyveil.api.planned import plan as make
    from tallyveil.api.products import is_programme
    from tallyveil.errors import ConfigError
    from tallyveil.plans.from_toml.load import release_file_schema

    # The schema is of no release, so that it needs no file.
    if schema:
        say_json(release_file_schema(), indent=2)
        return
    areas, asked = names_if_any(families, "--families"), names_if_any(queries, "--queries")
    if release_file is None:
        raise ConfigError("name a release file, or ask for --json-schema.", code="bad-flag")
    # Before the file is opened: flags that exclude each other need no release to be wrong.
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
            "--details": details,
        }
    )
    # A programme has releases of its own, and flags about one release would be unclear.
    if is_programme(release_file):
        if aims is not None or families is not None or details:
            raise ConfigError(
                f"{release_file} is the file of a programme, and --families, --optimise and --details are about one "
                "release. "
                "Give them with a release file of the programme.",
                code="bad-flag",
            )
        _plan_programme(
            release_file, blocks=blocks, people=people, geography=geography, quiet=quiet, as_json=as_json
        )
        return
    release = make(release_file)
    if workbench is not None:
        from tallyveil.api.planned import make_workbench

        page = make_workbench(
            release_file,
            workbench,
            compared=compare,
            blocks=blocks,
            geography=geography,
            entities=entities,
            families=areas,
            queries=asked,
        )
        why = [] if page.why is None else [f"It has no expected errors of estimates: {page.why}"]
        shown = Shown(quiet=quiet, as_json=as_json, opened=open_it)
        give_site(page, [f"{page.path} holds the workbench.", *why], shown)
        return
    if aims is not None:
        from tallyveil.api.planned import optimise

        better = optimise(release_file, aims, out=out, keys=keys, people=people)
        if as_json:
            say_json(_better_shares_record(better), indent=2)
        elif not quiet:
            _show_better_shares(better, out)
        return
    forecast = release.forecast(
        blocks=blocks, people=people, geography=geography, families=areas, entities=entities, queries=asked
    )
    if as_json:
        say_json(forecast.to_mapping(), indent=2)
    elif not quiet:
        _show(forecast, details=details)


def _plan_programme(
    path: Path,
    *,
    blocks: int | None,
    people: int | None,
    geography: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Show what all releases of a programme will cost, each and together."""
    from tallyveil.api.programme import plan_programme

    forecast = plan_programme(path).forecast(blocks=blocks, people=people, geography=geography)
    if as_json:
        say_json(forecast.to_mapping(), indent=2)
    elif not quiet:
        show_programme(forecast)
        _show_warnings(forecast.warnings)


def _refuse_flags(flags: dict[str, bool]) -> None:
    """Refuse flags that do not go together.

    Args:
        flags: Whether each flag was given.
    Raises:
        ConfigError: two flags exclude each other, or one needs another that is not given.
    """
    from tallyveil.errors import ConfigError

    # Only flags that were given; defaults exclude nothing.
    chosen = {flag for flag, is_chosen in flags.items() if is_chosen}
    if {"--blocks", "--read-geography"} <= chosen:
        raise ConfigError("give --blocks or --read-geography, not both.", code="bad-flag")
    if "--people" in chosen and not chosen & {"--blocks", "--read-geography", "--try"}:
        raise ConfigError("--people needs --blocks N, --read-geography or --try as well.", code="bad-flag")
    if "--try" in chosen and "--optimise" not in chosen:
        raise ConfigError("--try needs --optimise AIMS.TOML.", code="bad-flag")
    if "--out" in chosen and "--optimise" not in chosen:
        raise ConfigError("--out needs --optimise AIMS.TOML.", code="bad-flag")
    # --people has two meanings: with --try it is the number of made-up records.
    others = {"--blocks", "--read-geography", "--families", "--details"} | (
        {"--people"} if "--try" not in chosen else set()
    )
    if "--optimise" in chosen and chosen & others:
        raise ConfigError(
            "--optimise shows other shares, not this plan. Give it with no other flags than --try (and with it "
            "--people), --out and --json.",
            code="bad-flag",
        )
    if "--workbench" not in chosen and chosen & {"--compare", "--open"}:
        raise ConfigError("--compare and --open need --workbench FOLDER.", code="bad-flag")
    if "--workbench" in chosen and chosen & {"--people", "--optimise", "--details"}:
        raise ConfigError(
            "--workbench writes a page. Give it without --people, --optimise and --details.", code="bad-flag"
        )
    if chosen & {"--families", "--workbench"} == set() and chosen & {"--entities", "--queries"}:
        raise ConfigError(
            "--families FAMILY,... and --entities FILE must be given together, and --queries needs --families.",
            code="bad-flag",
        )


def _show_resources(loaded: "ReleasePlan", resources: "Resources") -> None:
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
    console.print(f"time        {_duration(resources.total_seconds)} on two cores")
    longest = sorted(resources.seconds, key=lambda item: -item[1])[:4]
    spelled = ", ".join(f"{stage} {_duration(seconds)}" for stage, seconds in longest)
    console.print(f"            longest: {spelled}", soft_wrap=True)
    warning = warn_small_machine(resources)
    if warning is not None:
        console.print(headed("warning", f"     {warning}", "bold yellow"), soft_wrap=True)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _show(forecast: "Forecast", *, details: bool) -> None:
    loaded = forecast.plan
    _show_meaning(forecast)
    if details:
        _show_plan(forecast)
    show_changes(forecast.changes)
    _show_warnings(forecast.warnings)
    if forecast.deviations is not None:
        _show_deviations(forecast.deviations, loaded.schema.unit.many)
    if forecast.resources is not None:
        _show_resources(loaded, forecast.resources)
    if details:
        _show_advice(loaded)
    else:
        say("")
        say("--details shows the guarantee of every geolevel, the noise of every measured query, and advice.")


def _show_meaning(forecast: "Forecast") -> None:
    """Print what those ask who decide: what it means for one person, and how exact the tables will be."""
    from tallyveil.plans.record import CONFIDENCE
    from tallyveil.plans.table_errors import table_errors

    console = Screen()

    def tell(sentence: str) -> None:
        # Words stay whole on a terminal, and lines in a file.
        console.print(sentence, soft_wrap=not console.is_terminal)

    loaded = forecast.plan
    unit = loaded.schema.unit
    # What was opened is said in the heading, because a plan promises that no data are.
    opened = forecast.allocation is not None or forecast.deviations is not None
    what = "only the public geography was opened, no data" if opened else "no data was opened"
    console.print(headed(f"Plan of release {loaded.name}", f" ({what})"))
    console.print()
    console.print(headed(f"What it means for one {unit.one}"))
    tell(forecast.guess)
    tell(f"The guarantee: {_claim(forecast)}.")
    console.print()
    console.print(headed("How exact the tables will be"))
    table = plain_table(texts=("table",), numbers=loaded.geolevels)
    margins = {(item.table, item.geolevel): item for item in table_errors(loaded, CONFIDENCE)}
    for name in loaded.tables:
        row = [margins[name, level] for level in loaded.geolevels]
        table.add_row(
            name,
            *(
                "exact" if item.is_exact else "–" if item.margin is None else f"±{item.margin:,}"
                for item in row
            ),
        )
    console.print(table)
    tell(
        f"± how many {unit.many} a count may be off the true one, in 95 of 100 cases, if it is made from the "
        "measurements of its own area alone. The published counts also use those of the areas above and below, which "
        "makes most of them more exact."
    )
    if any(not item.is_exact and item.margin is None for item in margins.values()):
        tell(
            "– is not measured there by itself, only in parts or in other areas. --workbench shows its error."
        )
    for item in loaded.invariants:
        tell(f"Published exactly, without noise: {item.query} at {', '.join(item.geolevels)}.")


def _claim(forecast: "Forecast") -> str:
    """What is proved, in numbers; everything else that follows stands in the details."""
    from tallyveil.accounting.numbers import claim_sentence, claim_text, delta_text

    plan, exact = forecast.plan, forecast.privacy["exact"]
    if plan.budget_unit == "epsilon":
        # Pure differential privacy is more than a claim at one delta.
        return str(forecast.privacy["statement"])
    claim = claim_sentence(claim_text(exact["epsilon"]["upper"]), delta_text(plan.delta))
    return f"{claim}, {plan.neighbours.value} neighbours"


def _show_plan(forecast: "Forecast") -> None:
    from tallyveil.accounting.numbers import claim_text, delta_text, spent_cell
    from tallyveil.budget.strategy import expected_errors
    from tallyveil.plans.record import CONFIDENCE, groups_record, values_in_words

    console = Screen()
    loaded = forecast.plan
    guarantee, units = forecast.privacy, loaded.schema.unit.many
    console.print()
    console.print(headed("Details"))
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
    several = groups_record(loaded, forecast.allocation)
    groups = "; ".join(
        f"{item['size']} {units}: epsilon <= {claim_text(item['epsilon'], 3)}" for item in several["groups"]
    )
    console.print(
        f"groups      {groups}, at delta = {delta_text(loaded.delta)}; all of one {loaded.geolevels[-1]}",
        soft_wrap=True,
    )
    if several["tied"] is not None:
        console.print(f"tied        {several['tied']['sentence']}", soft_wrap=True)
    console.print(f"declared    {guarantee['budget_unit']} = {guarantee['declared']}")
    for invariant in guarantee["invariants"]:
        console.print(f"exact       {invariant} (published without noise)")
    for drawn in loaded.subspace:
        law = drawn.law(loaded.strategy.mechanism, loaded.strategy.neighbours)
        console.print(
            f"drawn       {drawn.query} at {drawn.geolevel} on the lattice of the invariants, then fixed: {law}; "
            f"{guarantee['budget_unit']} = {spent_cell(drawn.budget)}",
            soft_wrap=True,
        )
    for item in loaded.bounds:
        console.print(f"bounds      {item.name}: {item.query} at {item.geolevel} and above")
    console.print(f"values      {values_in_words(loaded)}", soft_wrap=True)
    console.print(f"schema      {loaded.schema.name}, {loaded.schema.size:,} cells")
    if loaded.spine is not None and loaded.spine.changes:
        kinds: list[str] = [step.kind for step in loaded.spine.steps]
        kinds += ["groups by variance"] if loaded.spine.regroup is not None else []
        kinds += ["bypassing"] if loaded.spine.bypassing is not None else []
        console.print(f"spine       {', '.join(loaded.geolevels)} (by {', '.join(kinds)})", soft_wrap=True)
        if loaded.spine.bypassing is not None:
            console.print(
                "            a bypassed geounit's share goes to one measurement of its area: less noise there than "
                "below; the cost is the same",
                soft_wrap=True,
            )
    console.print(
        "afterwards  whatever is computed from the noisy counts costs nothing more (post-processing)"
    )
    console.print()
    console.print(_levels(loaded, exact))
    console.print(_table(loaded, expected_errors(loaded.strategy, CONFIDENCE)))
    console.print(
        f"Variance ({units} squared), standard deviation and margin ({units}) of every noisy answer: with\n"
        "probability 95 % or more its noise lies within the margin. Estimation usually reduces the error.\n"
        "Alone: epsilon at delta 1e-10 of this query's noise by itself, without that of the others.",
        soft_wrap=True,
    )


def _between(epsilon: dict[str, float]) -> str:
    """Both bounds on an epsilon in words; only the upper one if the lower bound is 0."""
    from tallyveil.accounting.numbers import Bounds, both_ends, within

    bounds = Bounds(**epsilon)
    # A lower bound of 0 says nothing, and would only confuse.
    return f"at most {both_ends(bounds)[1]}" if bounds.lower <= 0 else within(bounds)


def _levels(loaded: "ReleasePlan", exact: dict[str, Any]) -> Any:
    from tallyveil.accounting.numbers import at_most, bound_cell, spent_cell

    unit = loaded.strategy.budget_unit
    others = ("epsilon, zCDP", "textbook") if unit == "rho" else ("epsilon, pure",)
    table = plain_table("each geolevel alone", numbers=(unit, "epsilon <=", *others))
    for level in exact["geolevels"]:
        table.add_row(
            level["geolevel"],
            spent_cell(Fraction(level["spent"])),
            bound_cell(level["epsilon"]["upper"]),
            *(
                at_most(level[key], places=3)
                for key in ("classical_epsilon", "textbook_epsilon")
                if key in level
            ),
        )
    return table


def _table(loaded: "ReleasePlan", expected: "tuple[ExpectedError, ...]") -> Any:
    from tallyveil.accounting.numbers import at_most, spent_cell
    from tallyveil.budget.guarantees import query_parameters

    unit, alone = loaded.strategy.budget_unit, query_parameters(loaded.strategy)
    table = plain_table(
        "geolevel", texts=("query",), numbers=("cells", unit, "variance", "st.dev.", "margin", "alone")
    )
    rows = GroupedRows(table)
    for item in expected:
        rows.add(
            (item.geolevel,),
            item.query,
            f"{loaded.query(item.query).size:,}",
            spent_cell(item.share),
            f"{item.variance:,.2f}",
            f"{item.standard_deviation:,.2f}",
            f"±{item.margin:,}",
            at_most(alone[item.geolevel, item.query].epsilons["1e-10"], places=3),
        )
    return table


def _show_warnings(warnings: Sequence[str]) -> None:
    """Print what a plan allows and seldom means."""
    console = Screen()
    for sentence in warnings:
        console.print()
        console.print(headed("warning", "  ", "bold yellow"), end="")
        console.print(sentence, soft_wrap=True, markup=False)


def _show_advice(loaded: "ReleasePlan") -> None:
    """Print the advice that applies to this plan, and TOML tables that can replace those of the release file."""
    from tallyveil.plans.record import advice_record

    record = advice_record(loaded)
    console = Screen()
    fixed, spine = record["fixed_by_invariants"], record["spine_advice"]
    said = [("shares", text) for text in (fixed["sentences"] if fixed is not None else [])]
    said += [("spine", spine)] if spine is not None else []
    for name, text in said:
        console.print()
        console.print(headed("note", f" ({name})  ", "bold yellow"), end="")
        console.print(text, soft_wrap=True)
    if fixed is not None and fixed["toml"] is not None:
        console.print()
        console.print(fixed["toml"], soft_wrap=True)


ENTITIES_SHOWN = 12
"""Entities of a family that are printed, at evenly spaced ranks of size; --json has all."""


def _show_deviations(deviations: "Sequence[AreaDeviations]", units: str) -> None:
    """Print a summary of each area and query, then entities of each family from the smallest to the largest.

    Args:
        deviations: The standard deviations.
        units: Plural of what a record is, such as "people".
    """
    console = Screen()
    table = plain_table(
        "st.dev. of estimates", texts=("query",), numbers=("number", "smallest", "median", "largest")
    )
    rows = GroupedRows(table)
    for item in deviations:
        summary = item.summary()
        values = [_deviation(summary[name]) for name in ("smallest", "median", "largest")]
        rows.add((item.area,), item.query, f"{summary['n']:,}", *values)
    console.print(table)
    for family in dict.fromkeys(item.area for item in deviations if item.is_entity):
        _show_family(console, [item for item in deviations if item.is_entity and item.area == family])
    console.print(
        f"Standard deviations, in {units}, of the unbiased estimates that all noisy answers together allow: exact, "
        "of the privacy noise alone, the same whatever the data. Of a query's several answers the largest is shown.",
        soft_wrap=True,
    )


def _show_family(console: Any, items: "Sequence[AreaDeviations]") -> None:
    """Print some entities of a family, at evenly spaced ranks of size."""
    first = items[0]
    # By size, then by code, so that the choice of rows is the same every time.
    order = sorted(range(len(first.codes)), key=lambda row: (int(first.n_finest[row]), first.codes[row]))
    n = min(ENTITIES_SHOWN, len(order))
    # Evenly over the ranks, from the smallest to the largest.
    shown = [order[round(place * (len(order) - 1) / max(n - 1, 1))] for place in range(n)]
    table = plain_table(texts=(first.area,), numbers=("finest geounits",))
    for item in items:
        table.add_column(item.query, justify="right", overflow="fold")
    for row in shown:
        largest = [float(item.largest[row]) for item in items]
        table.add_row(first.codes[row], f"{int(first.n_finest[row]):,}", *map(_deviation, largest))
    console.print(table)
    if len(order) > n:
        console.print(f"{n} of {len(order):,} entities of {first.area}; all of them with --json.")


def _deviation(value: float | None) -> str:
    if value is None or value == float("inf"):
        return "not determined"
    # What rounds to nothing at this size is exact up to the rounding of floats.
    return "exact" if value < 1e-6 else f"{value:,.2f}"


GOALS = {
    "sum": "the weighted sum of variances",
    "maximum": "the largest weighted variance",
    "rho": "rho, as the targets allow",
}
MODELS = {
    "topdown": "estimates from each geolevel's own measurements, from the root downwards, before counts are made "
    "non-negative integers",
    "least_squares": "estimates from all measurements, as tallyveil intervals makes them, without public bounds",
}


def _show_better_shares(better: "BetterShares", out: Path | None) -> None:
    """Print better shares for readers.

    Args:
        better: The shares.
        out: The file with the resulting tables, or None.
    """
    plan, shares = better.plan, better.shares
    _show_optimal(shares, plan.schema.unit.many)
    if better.trial is None:
        say(
            "These numbers are the model's, which knows neither that released counts are never negative nor public "
            "bounds. Released counts can gain less than shown, and an aim can become worse. --try KEYS measures "
            "releases of made-up records."
        )
    else:
        _show_trial(shares, better.trial, plan.schema.unit)
    if shares.aims.model.value == "topdown" and any(item.values == "tree" for _, item in plan.estimation):
        say(
            'This release has values = "tree": it also uses what is measured below a geounit, which the model does '
            "not. So its errors above the finest geolevel are usually smaller than shown, before and after."
        )
    if better.needs_more:
        say(
            "The targets need more rho than [privacy] declares. `tallyveil plan` accepts these shares only if "
            "[privacy] declares more, which is for policy to decide."
        )
    if out is not None:
        say(f"{out}: put its tables in the place of [strategy] and [estimation].")


def _better_shares_record(better: "BetterShares") -> dict[str, Any]:
    """Better shares as plain data, with what a trial measured."""
    record, trial = _shares_record(better.shares), better.trial
    if trial is not None:
        record["trial"] = {
            "records": trial.records,
            "keys": trial.keys,
            "root_mean_square_ratio": trial.mean_ratio,
        }
        measured = _measured(better.shares, trial)
        for item, (_, before, after, ratio, spread) in zip(record["aims"], measured, strict=True):
            item["measured"] = {
                "error": {"before": before, "after": after},
                "ratio": ratio,
                "margin": spread,
            }
    return record


def _show_optimal(shares: "OptimalShares", units: str) -> None:
    """Print the result.

    Args:
        shares: The shares.
        units: What records are called, in the plural.
    """
    from tallyveil.accounting.numbers import at_most, delta_text

    console = Screen()
    console.print(headed("Better shares", f" (smallest {GOALS[shares.aims.goal.value]})"))
    console.print(f"variances   of {MODELS[shares.aims.model.value]}", soft_wrap=True)
    console.print(f"gap         no shares can be better by more than {at_most(100 * shares.gap, places=2)} %")
    if shares.held:
        console.print(
            f"floor       {', '.join(shares.held)} keep at least {shares.aims.floor} of their present shares, because "
            "they determine what public bounds limit",
            soft_wrap=True,
        )
    console.print(
        f"epsilon     at most {at_most(shares.epsilon)} at delta = {delta_text(shares.delta)}", end=""
    )
    console.print(f"; with the present shares {at_most(shares.epsilon_before)}")
    console.print(
        f"rho         {at_most(shares.strategy.total, places=6)}; with the present shares "
        f"{at_most(shares.before.total, places=6)}"
    )
    headings = ["area", "query", f"st.dev. before ({units})", "after", "ratio"]
    with_targets = bool(shares.aims.targets)
    rows: list[list[Any]] = [
        [aim.area, aim.query, _short(aim.before), _short(aim.after), f"{aim.ratio:.3f}"]
        + ([None if aim.wanted is None else _short(float(aim.wanted))] if with_targets else [])
        for aim in shares.outcomes
    ]
    show_table(headings + (["wanted"] if with_targets else []), rows, False)
    say(
        f"Root mean square of the ratios: {shares.mean_ratio:.3f}. A standard deviation is the root of the mean "
        "variance over all answers of all geounits or entities of the area."
    )


def _show_trial(shares: "OptimalShares", trial: "Trial", unit: "Unit") -> None:
    """Print what releases of made-up records obtain, beside what the model promises.

    Args:
        shares: The shares.
        trial: What was measured.
        unit: What records are.
    """

    console = Screen()
    console.print()
    records = f"{unit.counted(trial.records)}, made up, under {trial.keys} test keys"
    console.print(headed("Measured", f" in releases of {records} (no record was opened)"), soft_wrap=True)
    rows: list[list[Any]] = [
        [
            aim.area,
            aim.query,
            _short(before),
            _short(after),
            f"{ratio:.3f}",
            f"{spread:.3f}",
            f"{aim.ratio:.3f}",
        ]
        for aim, before, after, ratio, spread in _measured(shares, trial)
    ]
    headings = ["area", "query", f"error before ({unit.many})", "after", "ratio", "±", "promised ratio"]
    show_table(headings, rows, False)
    worse = [
        f"'{aim.query}' at {aim.area}"
        for aim, _, _, ratio, spread in _measured(shares, trial)
        if ratio - spread > 1
    ]
    listed = f": {'; '.join(worse)}" if worse else ""
    say(
        f"Root mean square of the measured ratios: {trial.mean_ratio:.3f}; the model promises {shares.mean_ratio:.3f}. "
        f"{len(worse)} of {len(shares.outcomes)} became worse beyond the margin ± of 95 % that each ratio has by "
        f"itself{listed}. An error is the root of the mean squared difference between released and made-up counts."
    )


def _measured(
    shares: "OptimalShares", trial: "Trial"
) -> "Iterator[tuple[ShareChoice, float, float, float, float]]":
    """Every outcome with its measured error before and after, their ratio, and the ratio's margin."""
    before, after = trial.deviations
    numbers = (before.tolist(), after.tolist(), trial.ratios.tolist(), trial.margins.tolist())
    return zip(shares.outcomes, *numbers, strict=True)


def _shares_record(shares: "OptimalShares") -> dict[str, Any]:
    return {
        "model": shares.aims.model.value,
        "minimise": shares.aims.goal.value,
        "spare": shares.aims.spare,
        "floor": {"part": str(shares.aims.floor), "queries": list(shares.held)},
        "gap": shares.gap,
        "delta": str(shares.delta),
        "epsilon": {"before": shares.epsilon_before, "after": shares.epsilon},
        "rho": {"before": str(shares.before.total), "after": str(shares.strategy.total)},
        "root_mean_square_ratio": shares.mean_ratio,
        "aims": [
            {
                "area": aim.area,
                "query": aim.query,
                "weight": None if aim.weight is None else str(aim.weight),
                "wanted": None if aim.wanted is None else float(aim.wanted),
                "standard_deviation": {"before": aim.before, "after": aim.after},
                "ratio": aim.ratio,
            }
            for aim in shares.outcomes
        ],
        "geolevel_shares": {name: str(share) for name, share in shares.strategy.geolevel_shares},
        "query_shares": {
            name: {query: str(share) for query, share in parts}
            for name, parts in shares.strategy.query_shares
        },
    }


def _short(value: float) -> str:
    return f"{value:,.2f}" if value >= 1 else f"{value:.3g}"
