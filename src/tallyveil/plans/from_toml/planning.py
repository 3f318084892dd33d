"""Make the plan that a release file describes: fill in presets and shares, and check what only the file says.

The table [spine] becomes the steps that make the spine. How large a schema and a strategy may be is checked
before any array is made. The plan of noisy measurements that others published is made in the same way, of what their
description says (`descriptions`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from typing import Final

from tallyveil.accounting.events import Neighbours
from tallyveil.budget.caps import Reference
from tallyveil.budget.guarantees import rho_for_target
from tallyveil.budget.presets import StrategyPreset, load_strategy_preset
from tallyveil.budget.queries import sensitivities_of
from tallyveil.budget.spine.presets import SpinePreset, bypass_rule, load_spine_preset
from tallyveil.budget.spine.regroup import Measure
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.errors import ConfigError, GeographyError, SchemaError
from tallyveil.geography.bypass import BypassRule
from tallyveil.geography.optimise import (
    Branch,
    CutByEntities,
    GroupByDistance,
    GroupByMembership,
    Step,
    geolevels_after,
)
from tallyveil.geography.steps import FanOutLimit
from tallyveil.noise.address import GEOLEVEL_BITS, QUERY_BITS
from tallyveil.plans.fitting import known_query, refuse_unfit
from tallyveil.plans.from_toml.estimation import (
    by_geolevel,
    estimation_in_passes,
    estimation_of,
    outer_of,
    refuse_full_measurements,
)
from tallyveil.plans.from_toml.models import (
    ExecutionTable,
    PrivacyTable,
    ReleaseFile,
    StrategyTable,
    SubspaceTable,
)
from tallyveil.plans.from_toml.spine_tables import GroupByMembershipTable, RegroupTable, SpineTable, StepTable
from tallyveil.plans.inputs import RecordsInput, Regroup, SpineInput, with_protected
from tallyveil.plans.release import ReleasePlan, SubspaceQuery, keys_of_budget, records_changed
from tallyveil.runs.executor import ClusterSettings
from tallyveil.schema.attribute import ranges_of
from tallyveil.schema.names import check_areas, check_table_name
from tallyveil.schema.presets import load_preset
from tallyveil.schema.schema import Schema

MOST_CELLS: Final = 1 << 27
"""The largest number of cells that a schema may have.

The largest schema of the 2020 census has about a hundredth of this. With this many cells, estimation would need several
GiB of memory.
"""
MOST_LAYERED_CELLS: Final = MOST_CELLS
"""The largest product of the number of cells and the number of layers of overlapping queries at a geolevel.

Estimation treats every layer as a query of its own (`BYTES_PER_ANSWERED_CELL`). A query has at most one layer for each
of its answers.
"""

BYTES_PER_CELL: Final = 32
"""Bytes that estimation holds for each cell."""
BYTES_PER_ANSWERED_CELL: Final = 28
"""Bytes that estimation holds for each pair of a cell and a layer of a query, in addition to `BYTES_PER_CELL`.

A query has one layer, unless its groups overlap.

The number of the answer in which the cell is counted takes 4 bytes, and 8 more while it is looked up. At most one noisy
value and its noise take 8 bytes each.
"""


def require_size(schema: Schema, strategy: Strategy) -> None:
    """Refuse a schema that is too large, before any array with one number for each cell is made.

    Raises:
        SchemaError: the schema has more cells than `MOST_CELLS`.
    """
    if schema.size <= MOST_CELLS:
        return
    # The geolevel with most queries needs the most memory, so it is the one that the message is about.
    queries = max(len(strategy.queries(geolevel)) for geolevel in strategy.geolevels)
    needed = schema.size * (BYTES_PER_CELL + queries * BYTES_PER_ANSWERED_CELL)
    raise SchemaError(
        f"schema '{schema.name}' has {schema.size:,} cells. Estimation holds numbers for every cell of a geounit in "
        f"memory, which would take about {needed / 2**30:,.0f} GiB for these queries. Wanted at most {MOST_CELLS:,} "
        "cells. Drop or coarsen an attribute.",
        code="schema-too-large",
    )


def require_possible(schema: Schema) -> None:
    """Refuse structural zeros that forbid every cell.

    Raises:
        SchemaError: no cell is possible.
    """
    if not schema.possible_answers(schema.query("total")).size:
        names = ", ".join(repr(zero.name) for zero in schema.structural_zeros)
        raise SchemaError(
            f"the structural zeros {names} of schema '{schema.name}' forbid every cell, so that no "
            f"{schema.unit.one} can be counted. A structural zero lists combinations of levels that no record has. "
            "Correct them.",
            code="nobody-fits",
        )


def require_addresses(strategy: Strategy) -> None:
    """Refuse more geolevels, or queries at a geolevel, than the addresses of the noise have numbers for.

    Raises:
        GeographyError, SchemaError: there are too many.
    """
    levels = len(strategy.geolevels)
    queries = max(len(strategy.queries(name)) for name in strategy.geolevels)
    # Two geolevels of one address would share their noise, which the guarantee does not allow for.
    if levels > 1 << GEOLEVEL_BITS:
        raise GeographyError(
            f"the spine has {levels:,} geolevels; wanted at most {1 << GEOLEVEL_BITS}, because the addresses of the "
            "noise have no numbers for more. Leave out geolevels."
        )
    if queries > 1 << QUERY_BITS:
        raise SchemaError(
            f"a geolevel measures {queries:,} queries; wanted at most {1 << QUERY_BITS:,}, because the addresses of "
            "the noise have no numbers for more. Measure fewer queries."
        )


def require_few_layers(schema: Schema, strategy: Strategy) -> None:
    """Refuse overlapping queries with too many layers, before any array with one number for each cell of one is made.

    Raises:
        SchemaError: there are more pairs of a layer and a cell than `MOST_LAYERED_CELLS`, or a query is unknown.
    """
    for geolevel in strategy.geolevels:
        groups = map(schema.query, strategy.queries(geolevel))
        # Queries without overlaps have one layer each, which `MOST_CELLS` already allows for.
        layers = sum(group.n_layers for group in groups if group.overlaps)
        if layers * schema.size > MOST_LAYERED_CELLS:
            raise SchemaError(
                f"the queries of {geolevel} whose groups overlap have {layers:,} layers, in each of which no groups "
                f"overlap. Estimation holds numbers for every layer and each of the {schema.size:,} cells. Wanted at "
                f"most {MOST_LAYERED_CELLS:,} pairs of a layer and a cell. Measure fewer overlapping groups.",
                code="schema-too-large",
            )


def spine_of(file: ReleaseFile) -> SpineInput | None:
    """The entities and steps that a release file names; None if it has no [spine].

    Raises:
        ConfigError: a step or an output names an unknown family, one name has two meanings, or a preset does not fit
            the geography.
        BudgetError: there is no such preset.
        GeographyError: a step names a geolevel that does not exist at that step.
    """
    table = file.spine
    if table is None:
        _refuse_unknown(file.outputs.entities, (), "[outputs] entities")
        return None
    preset = None if table.preset is None else load_spine_preset(table.preset)
    columns = _columns(table, preset)
    families = (*columns, *table.overlapping)
    if preset:
        steps = _preset_steps(table, preset, file.geography.geolevels)
    else:
        steps = tuple(_step(item, families) for item in table.steps)
    geolevels = geolevels_after(file.geography.geolevels, steps)
    _refuse_repeated(families, (*file.geography.geolevels, *geolevels))
    _refuse_unknown(file.outputs.entities, families, "[outputs] entities")
    return SpineInput(
        original=file.geography.geolevels,
        entities=table.entities,
        geocode=table.geocode,
        families=columns,
        steps=steps,
        preset=table.preset,
        overlapping=tuple(table.overlapping.items()),
        regroup=_regroup(table.regroup, families, geolevels, steps),
        bypassing=_bypassing(table, preset, file.privacy.mechanism),
        most_children=table.most_children,
    )


def _columns(table: SpineTable, preset: SpinePreset | None) -> tuple[str, ...]:
    """The columns of families: those that the preset needs and the file does not name, then those it names."""
    needed = () if preset is None else preset.families
    return (*(name for name in needed if name not in table.families), *table.families)


def _preset_steps(table: SpineTable, preset: SpinePreset, geolevels: Sequence[str]) -> tuple[Step, ...]:
    if preset.geolevels != tuple(geolevels):
        raise ConfigError(
            f"spine preset '{preset.name}' starts from {', '.join(preset.geolevels)}; [geography] has "
            f"{', '.join(geolevels)}. Give the geolevels the names of the preset, or write out steps of your own.",
            code="unknown-geolevel",
        )
    if table.parts is None:
        return preset.steps
    if not any(isinstance(step, Branch) for step in preset.steps):
        raise ConfigError(
            f"[spine] parts is given, but spine preset '{preset.name}' has no step of kind branch. Leave parts out.",
            code="unknown-geolevel",
        )
    return tuple(
        replace(step, parts=table.parts) if isinstance(step, Branch) else step for step in preset.steps
    )


def _regroup(
    table: RegroupTable | None, families: Sequence[str], geolevels: Sequence[str], steps: Sequence[Step]
) -> Regroup | None:
    if table is None:
        return None
    unknown = [name for name in (table.geolevel, *table.aim) if name not in (*families, *geolevels)]
    if unknown or table.geolevel not in geolevels:
        raise ConfigError(
            f"[spine.regroup] names {', '.join(unknown or [table.geolevel])}; geolevels of the spine are "
            f"{', '.join(geolevels)}, families {', '.join(families) or 'none'}. Use these names.",
            code="unknown-entity",
        )
    asked = Regroup(
        table.geolevel,
        FanOutLimit(table.cutoff, table.at_most),
        tuple(table.aim.items()),
        Measure(table.measure),
        table.most_loss,
        Reference(table.reference),
        tuple(table.may_worsen),
    )
    return with_protected(asked, steps)


def _bypassing(table: SpineTable, preset: SpinePreset | None, mechanism: str) -> BypassRule | None:
    """The rule by which geounits are bypassed, that of the mechanism if the file names none; None for no bypassing.

    If the file does not say whether to bypass, the preset decides.

    Raises:
        ConfigError: a limit on bypassing is given where nothing is bypassed.
    """
    bypasses = table.bypass if table.bypass is not None else preset is not None and preset.bypasses
    if not bypasses and table.most_children is not None:
        raise ConfigError(
            f"[spine] most_children is {table.most_children}, but no geounit is bypassed. Add bypass = true, or leave "
            "most_children out.",
            code="spine-step",
        )
    if table.bypass == "every_query":
        return BypassRule.EVERY_QUERY
    return bypass_rule(Mechanism(mechanism)) if bypasses else None


def require_whole(name: str, original: Sequence[str], after: Sequence[str], where: str) -> None:
    """Refuse a name that is no geolevel of the geography, or is one that the steps do not leave on the spine.

    This cannot check whether the steps cut geounits of the geolevel: that is known only when the geography is read.

    Raises:
        ConfigError: the name is no geolevel, or the steps remove or make this geolevel.
    """
    if name in original and name in after:
        return
    if name in original or name in after:
        what = "removed by the steps of [spine]" if name in original else "made by the steps of [spine]"
        on_both = [level for level in original if level in after]
        raise ConfigError(
            f"{where} names geolevel '{name}', which is {what}. Only geolevels of [geography] that the spine keeps "
            f"can be named here: {', '.join(on_both)}.",
            code="not-on-spine",
        )
    raise ConfigError(
        f"{where} names geolevel '{name}', which does not exist. The geolevels are: {', '.join(original)}.",
        code="unknown-geolevel",
    )


def _step(item: StepTable, families: Sequence[str]) -> Step:
    named = [item.family] if isinstance(item, Branch) else item.families
    _refuse_unknown(named, families, f"a step of kind {item.kind} in [[spine.steps]]")
    if isinstance(item, Branch | CutByEntities):
        return item
    limit = FanOutLimit(item.cutoff, item.at_most)
    if isinstance(item, GroupByMembershipTable):
        return GroupByMembership(tuple(item.families), item.geolevel, item.children, limit)
    return GroupByDistance(
        tuple(item.families),
        item.geolevel,
        item.children,
        limit,
        item.remainders,
        item.gains_first,
        item.measure,
    )


def _refuse_unknown(names: Sequence[str], families: Sequence[str], where: str) -> None:
    unknown = [name for name in names if name not in families]
    if unknown:
        raise ConfigError(
            f"{where} names {', '.join(unknown)}, which is not an entity family of [spine]. Its families are: "
            f"{', '.join(families) or 'none'}. Add the column to [spine] families.",
            code="unknown-entity",
        )


def _refuse_repeated(families: Sequence[str], geolevels: Sequence[str]) -> None:
    repeated = [
        name for number, name in enumerate(families) if name in families[:number] or name in geolevels
    ]
    if repeated:
        raise ConfigError(
            f"[spine] families names {', '.join(repeated)}, which is given twice or is also the name of a geolevel. "
            "Tables are found by these names, so each name must mean one thing. Rename the column.",
            code="name-twice",
        )


def plan_of(file: ReleaseFile) -> ReleasePlan:
    """Make the plan that a release file describes.

    Args:
        file: The parsed file.
    Raises:
        ConfigError: a name is unknown, or parts of the file do not fit each other.
        SchemaError, BudgetError: the schema or the shares are wrong.
    """
    table = file.universe
    schema = load_preset(table.preset) if table.preset is not None else table.schema()
    # First of all: every size checked below is one of the schema without the queries that nobody names.
    schema = schema.without_unused_overlaps(_named_queries(file))
    geography, outputs = file.geography, file.outputs
    preset = load_strategy_preset(file.strategy.preset) if file.strategy.preset else None
    spine = spine_of(file)
    # Shares and constraints are stated for the geolevels that the spine has after its steps.
    geolevels = geography.geolevels if spine is None else geolevels_after(geography.geolevels, spine.steps)
    families = () if spine is None else (*spine.families, *(name for name, _ in spine.overlapping))
    check_areas((*geography.geolevels, *geolevels), families, outputs.entities)
    strategy = _strategy(file, preset, geolevels, schema)
    # From here: sizes are refused before any array with one number for each cell is made.
    require_addresses(strategy)
    require_size(schema, strategy)
    require_possible(schema)
    require_few_layers(schema, strategy)
    _refuse_twice(file, schema)
    _refuse_parts(file, geolevels)
    drawn = tuple(_drawn(item, strategy) for item in file.subspace)
    outer = outer_of(
        file.estimation, schema, preset, file.agreement, file.residents, drawn=bool(file.subspace)
    )
    if outer:
        refuse_full_measurements(strategy, schema, outputs.measurements)
        estimation = estimation_in_passes(outer, strategy, schema)
    else:
        estimation = estimation_of(file.estimation, strategy, preset, drawn=bool(file.subspace))
    for name in outputs.tables:
        known_query(schema, name, "outputs.tables")
        check_table_name(name, "query")
    plan = ReleasePlan(
        **vars(file.release),
        schema=schema,
        records=_records(file.records, schema),
        geolevels=geolevels,
        **keys_of_budget(strategy, drawn),
        declared=_declared(file.privacy, file.strategy, strategy),
        delta=file.privacy.delta,
        invariants=tuple(file.invariants),
        bounds=tuple(file.bounds),
        estimation=estimation,
        **{
            **vars(outputs),
            "tables": tuple(dict.fromkeys(outputs.tables)),
            "entities": None if spine is None else tuple(dict.fromkeys(outputs.entities)),
        },
        subspace=drawn,
        outer=outer,
        agreement=tuple(file.agreement),
        residents=tuple(file.residents),
        names=geography.names is not None,
        geometry=geography.geometry is not None,
        spine=spine,
        geography=geography,
        cluster=_cluster(file.execution),
        book=None if file.book is None else file.book.path,
        labels=file.labels,
    )
    # Last, because it looks at the parts of the plan together; each has been checked by itself.
    refuse_unfit(plan)
    return plan


def _cluster(table: ExecutionTable) -> ClusterSettings | None:
    """The cluster that does the work; None for threads."""
    if table.executor == "threads":
        return None
    return ClusterSettings(table.address, open_allowed=table.open_cluster)


def _named_queries(file: ReleaseFile) -> Iterator[str]:
    """Every query that a release file names."""
    for shares in file.strategy.queries.values():
        yield from shares
    for stages in file.estimation.rounding.values():
        yield from chain(*stages)
    yield from file.outputs.tables
    yield from (item.query for item in file.invariants)
    yield from (item.query for item in file.bounds)
    yield from (item.query for item in file.subspace)
    yield from (item.query for item in file.agreement)
    yield from (item.households for item in file.residents if item.households is not None)
    yield from (name for item in file.estimation.outer for name in item.queries)


def _records(records: RecordsInput, schema: Schema) -> RecordsInput:
    """The table of records, with the column of every attribute in the order of the schema."""
    columns = dict(records.columns)
    unknown = sorted(set(columns) - set(schema.attribute_names))
    if unknown:
        raise ConfigError(
            f"[records] columns names {', '.join(unknown)}, which schema '{schema.name}' does not have. Its "
            f"attributes are: {', '.join(schema.attribute_names)}.",
            code="unknown-attribute",
        )
    # dict.fromkeys drops repeats and keeps the order, unlike a set.
    numbers = tuple(dict.fromkeys(records.numbers))
    for name in numbers:
        ranges_of(schema.attribute(name, "[records] numbers").levels, name)
    for name, level in records.missing:
        # Neither is quoted where it is unknown: somebody may have put a table of records here.
        if name not in schema.attribute_names:
            raise ConfigError(
                f"[records] missing names an attribute that schema '{schema.name}' does not have. Its attributes are: "
                f"{', '.join(schema.attribute_names)}.",
                code="unknown-attribute",
            )
        if level not in schema.attribute(name).levels:
            raise ConfigError(
                f"[records] missing gives {name} a level that the attribute does not have. Add it to its levels.",
                code="unknown-level",
            )
        if name in numbers:
            raise ConfigError(
                f"[records] missing gives {name} a level, and numbers names it: its levels are ranges, and a record "
                "without a number is in none. Give every record a number, or store the levels as text.",
                code="unknown-level",
            )
    every = tuple((name, columns.get(name, name)) for name in schema.attribute_names)
    return replace(records, columns=every, numbers=numbers)


def _strategy(
    file: ReleaseFile, preset: StrategyPreset | None, geolevels: Sequence[str], schema: Schema
) -> Strategy:
    table, privacy = file.strategy, file.privacy
    geolevel_shares = _geolevel_shares(table, preset, geolevels)
    shares = _shares_of_queries(table, preset, geolevels)
    _check_queries(shares, schema)
    shape = Strategy(
        Mechanism(privacy.mechanism),
        Neighbours(privacy.neighbours),
        Fraction(1),
        geolevel_shares,
        shares,
        sensitivities_of(schema, (query for _, pairs in shares for query, _ in pairs)),
        records_changed(file.records),
    )
    return replace(shape, total=_spent(table, privacy, preset, shape))


def _spent(
    table: StrategyTable, privacy: PrivacyTable, preset: StrategyPreset | None, shape: Strategy
) -> Fraction:
    """What the strategy spends, in its own unit. A target (epsilon, delta) is turned into the rho that meets it."""
    if shape.budget_unit == "epsilon":
        if table.rho is not None or table.delta is not None:
            raise ConfigError(
                "[strategy] gives its budget in the wrong unit: the discrete_laplace mechanism has its budget in "
                "epsilon. Give epsilon.",
                code="wrong-unit",
            )
        budget = table.epsilon
    elif table.epsilon is not None:
        return rho_for_target(shape, table.epsilon, table.delta or privacy.delta)
    else:
        budget = table.rho or (preset.strategy.total if preset else None)
    if budget is None:
        raise ConfigError(
            f"[strategy] {shape.budget_unit} is required. Give the privacy-loss budget that the strategy spends.",
            code="no-budget",
        )
    return budget


def _declared(privacy: PrivacyTable, table: StrategyTable, strategy: Strategy) -> Fraction:
    """The declared budget in the strategy's unit. For Gaussian noise, a declared epsilon is turned into a rho."""
    if privacy.rho is not None:
        return privacy.rho
    if privacy.epsilon is None:
        raise ConfigError(
            "[privacy] declares no privacy-loss budget. Give rho, or epsilon and delta.", code="no-budget"
        )
    if strategy.budget_unit == "epsilon":
        return privacy.epsilon
    if (table.epsilon, table.delta or privacy.delta) == (privacy.epsilon, privacy.delta):
        return (
            strategy.total
        )  # the strategy was calibrated to the same target; calibrating again takes seconds
    return rho_for_target(strategy, privacy.epsilon, privacy.delta)


def _geolevel_shares(
    table: StrategyTable, preset: StrategyPreset | None, geolevels: Sequence[str]
) -> tuple[tuple[str, Fraction], ...]:
    if preset is None:
        _same_names("[strategy.geolevels]", table.geolevels, geolevels)
        return tuple((name, table.geolevels[name]) for name in geolevels)
    if preset.strategy.geolevels != tuple(geolevels):
        raise ConfigError(
            f"strategy preset '{preset.name}' divides its budget over {', '.join(preset.strategy.geolevels)}; the "
            f"spine has {', '.join(geolevels)}. Give the geolevels the names of the preset, or write out shares of "
            "your own.",
            code="unknown-geolevel",
        )
    return preset.strategy.geolevel_shares


def _shares_of_queries(
    table: StrategyTable, preset: StrategyPreset | None, geolevels: Sequence[str]
) -> tuple[tuple[str, tuple[tuple[str, Fraction], ...]], ...]:
    if preset is not None:
        return tuple((name, preset.strategy.shares_of(name)) for name in preset.strategy.geolevels)
    shares = by_geolevel("[strategy.queries]", table.queries, geolevels, None)
    return tuple((name, tuple(shares[name].items())) for name in geolevels)


def _same_names(where: str, got: Mapping[str, object], wanted: Sequence[str]) -> None:
    missing = [name for name in wanted if name not in got]
    unknown = [name for name in got if name not in wanted]
    if missing or unknown:
        raise ConfigError(
            f"{where} must name the geolevels of the spine, each once"
            + (f"; missing: {', '.join(missing)}" if missing else "")
            + (f"; unknown: {', '.join(unknown)}" if unknown else "")
            + ".",
            code="unknown-geolevel",
        )


def _check_queries(divided: Sequence[tuple[str, Sequence[tuple[str, Fraction]]]], schema: Schema) -> None:
    """Check that every measured query exists, and that no geolevel measures one query under two names."""
    for geolevel, shares in divided:
        names: dict[object, str] = {}
        for name, _ in shares:
            factors = known_query(schema, name, f"strategy.queries.{geolevel}").factors
            if factors in names:
                raise ConfigError(
                    f"strategy.queries.{geolevel}: '{names[factors]}' and '{name}' are the same query. Add their "
                    "shares under one name.",
                    code="query-twice",
                )
            names[factors] = name


def _refuse_twice(file: ReleaseFile, schema: Schema) -> None:
    """Refuse what is stated twice under one name, which reports could not tell apart, or has two meanings."""
    stated: set[tuple[object, str]] = set()
    for invariant in file.invariants:
        # By factors, not by name: two names of one query are one statement.
        factors = known_query(schema, invariant.query, "invariants").factors
        for geolevel in invariant.geolevels:
            if (factors, geolevel) in stated:
                raise ConfigError(
                    f"the invariant on '{invariant.query}' is stated twice for {geolevel}. State it once.",
                    code="stated-twice",
                )
            stated.add((factors, geolevel))
    if twice := _repeated(item.name for item in file.bounds):
        raise ConfigError(
            f"[[bounds]] gives the name {', '.join(map(repr, twice))} twice. Give each a name of its own.",
            code="stated-twice",
        )
    if twice := _repeated(item.name for item in file.agreement):
        raise ConfigError(
            f"[[agreement]] '{twice[0]}' is there more than once. Give each agreement a name of its own. If two are "
            "with the same release of a programme, name that release by 'release'."
        )
    drawn = [known_query(schema, item.query, f"subspace '{item.query}'").factors for item in file.subspace]
    for number, item in enumerate(file.subspace):
        if drawn[number] in drawn[:number]:
            raise ConfigError(
                f"subspace '{item.query}' is drawn twice. The sums of one draw would contradict those of the other. "
                "Keep one of the two.",
                code="query-twice",
            )


def _repeated(names: Iterable[str]) -> list[str]:
    return sorted(name for name, times in Counter(names).items() if times > 1)


def _refuse_parts(file: ReleaseFile, geolevels: Sequence[str]) -> None:
    """Refuse constraints at geolevels whose geounits the steps of the spine may have cut or replaced."""
    stated = [
        *(
            (f"the invariant on '{item.query}'", geolevel)
            for item in file.invariants
            for geolevel in item.geolevels
        ),
        *((f"bounds '{item.name}'", item.geolevel) for item in file.bounds),
        *((f"subspace '{item.query}'", item.geolevel) for item in file.subspace),
        *((f"residents '{item.name}'", item.geolevel) for item in file.residents if item.geolevel),
    ]
    for where, geolevel in stated:
        require_whole(geolevel, file.geography.geolevels, geolevels, where)


def _drawn(item: SubspaceTable, strategy: Strategy) -> SubspaceQuery:
    """A query whose counts are drawn on the lattice of the invariants; its cost has the strategy's unit."""
    budget, other = (item.rho, item.epsilon) if strategy.budget_unit == "rho" else (item.epsilon, item.rho)
    if budget is None or other is not None or budget <= 0:
        raise ConfigError(
            f"subspace '{item.query}' must give {strategy.budget_unit}, above 0, and no other budget: that is the unit "
            f"of [privacy] mechanism {strategy.mechanism.value}.",
            code="wrong-unit",
        )
    return SubspaceQuery(item.query, item.geolevel, budget)
