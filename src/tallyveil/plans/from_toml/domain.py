"""Turn a parsed release file into a plan: look up names, fill in presets, and check that the parts fit together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from pathlib import Path

from tallyveil.accounting.neighbours import Neighbours
from tallyveil.budget.presets import StrategyPreset, load_strategy_preset
from tallyveil.budget.sensitivity import sensitivities_of
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.budget.target import rho_for_target
from tallyveil.errors import ConfigError
from tallyveil.geography.optimise import geolevels_after
from tallyveil.plans.constraints import Bounds, Invariant
from tallyveil.plans.estimating import refuse_drawn_counts
from tallyveil.plans.from_toml.estimation import estimation_of
from tallyveil.plans.from_toml.lookups import by_geolevel, known_query, partition_query
from tallyveil.plans.from_toml.models import (
    BoundsTable,
    ExecutionTable,
    InvariantTable,
    OutputsTable,
    PrivacyTable,
    ReleaseFile,
    StrategyTable,
    SubspaceTable,
)
from tallyveil.plans.from_toml.outer import (
    agreements_of,
    estimation_in_passes,
    outer_of,
    refuse_full_measurements,
    residents_of,
)
from tallyveil.plans.from_toml.schema import (
    require_addresses,
    require_few_layers,
    require_possible,
    require_size,
    schema_of,
)
from tallyveil.plans.from_toml.spine import spine_of, whole_geolevel
from tallyveil.plans.inputs import GeographyInput, RecordsInput
from tallyveil.plans.release import ReleasePlan
from tallyveil.plans.subspace_query import SubspaceQuery
from tallyveil.runs.cluster.site import ClusterSettings
from tallyveil.schema.limits import LARGEST_LEVEL
from tallyveil.schema.names import check_areas, check_table_name
from tallyveil.schema.ranges import ranges_of
from tallyveil.schema.schema import Schema
from tallyveil.storage.addresses import located


def plan_of(file: ReleaseFile, folder: Path) -> ReleasePlan:
    """Make the plan that a release file describes.

    Args:
        file: The parsed file.
        folder: Relative paths in the file start from this folder.
    Raises:
        ConfigError: a name is unknown, or parts of the file do not fit each other.
        SchemaError, BudgetError: the schema or the shares are wrong.
    """
    schema = schema_of(file.universe).without_unused_overlaps(_named_queries(file))
    geography = _geography(file, folder)
    preset = load_strategy_preset(file.strategy.preset) if file.strategy.preset else None
    spine = spine_of(file, folder)
    geolevels = geography.geolevels if spine is None else geolevels_after(geography.geolevels, spine.steps)
    families = () if spine is None else (*spine.families, *(name for name, _ in spine.overlapping))
    check_areas((*geography.geolevels, *geolevels), families, file.outputs.entities)
    strategy = _strategy(file.strategy, file.privacy, preset, geolevels, schema)
    require_addresses(strategy)
    require_size(schema, strategy)
    require_possible(schema)
    require_few_layers(schema, strategy)
    agreement = agreements_of(file.agreement, schema, folder)
    residents = tuple(
        residents_of(item, schema, geography.geolevels, geolevels, folder) for item in file.residents
    )
    outer = outer_of(file.estimation, schema, preset, agreement, residents, drawn=bool(file.subspace))
    if outer:
        refuse_full_measurements(strategy, schema, file.outputs.measurements)
        estimation = estimation_in_passes(outer, strategy, schema)
    else:
        estimation = estimation_of(file.estimation, strategy, schema, preset, drawn=bool(file.subspace))
    invariants = tuple(_invariant(item, schema, geography.geolevels, geolevels) for item in file.invariants)
    _refuse_twice(invariants, file.bounds, schema)
    plan = ReleasePlan(
        name=file.release.name,
        licence=file.release.licence,
        citation=file.release.citation,
        schema=schema,
        records=_records(file, schema, folder),
        geography=geography,
        strategy=strategy,
        declared=_declared(file.privacy, file.strategy, strategy),
        delta=file.privacy.delta,
        invariants=invariants,
        bounds=tuple(_bounds(item, schema, geography.geolevels, geolevels, folder) for item in file.bounds),
        estimation=estimation,
        tables=tuple(_table(schema, name) for name in dict.fromkeys(file.outputs.tables)),
        measurements=file.outputs.measurements,
        microdata=file.outputs.microdata,
        spine=spine,
        entities=tuple(dict.fromkeys(file.outputs.entities)),
        intervals=_intervals(file.outputs, strategy),
        subspace=_subspace(file.subspace, strategy, schema, geography.geolevels, geolevels),
        outer=outer,
        agreement=agreement,
        residents=residents,
        cluster=_cluster(file.execution),
    )
    refuse_drawn_counts(plan.estimation, drawn=bool(plan.subspace))
    return plan


def _cluster(table: ExecutionTable) -> ClusterSettings | None:
    """The cluster that does the work; None for threads."""
    if table.executor == "threads":
        return None
    return ClusterSettings(table.address, open_allowed=table.open_cluster)


def _table(schema: Schema, name: str) -> str:
    """The name of a query with a table, after a check that the schema has it and that a folder can have its name."""
    check_table_name(known_query(schema, name, "outputs.tables"), "query")
    return name


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
    yield from (name for one in file.estimation.outer for name in one.as_pass().queries)


def _records(file: ReleaseFile, schema: Schema, folder: Path) -> RecordsInput:
    unknown = sorted(set(file.records.columns) - set(schema.attribute_names))
    if unknown:
        raise ConfigError(
            f"[records] columns names {', '.join(unknown)}, which schema '{schema.name}' does not have. Its "
            f"attributes are: {', '.join(schema.attribute_names)}.",
            code="unknown-attribute",
        )
    columns = tuple((name, file.records.columns.get(name, name)) for name in schema.attribute_names)
    numbers = tuple(dict.fromkeys(file.records.numbers))
    for name in numbers:
        ranges_of(schema.attribute(name, "[records] numbers").levels, name)
    records = file.records
    return RecordsInput(located(folder, records.path), records.geocode, records.count, columns, numbers)


def _geography(file: ReleaseFile, folder: Path) -> GeographyInput:
    table = file.geography
    return GeographyInput(
        path=located(folder, table.path),
        geocode=table.geocode,
        geolevels=tuple(table.geolevels),
        prefix_lengths=tuple(table.prefix_lengths) if table.prefix_lengths is not None else None,
        parent_columns=tuple(table.parent_columns) if table.parent_columns is not None else None,
        names=None if table.names is None else located(folder, table.names),
        geometry=None if table.geometry is None else located(folder, table.geometry),
        geometry_geocode=table.geometry_geocode,
    )


def _strategy(
    table: StrategyTable,
    privacy: PrivacyTable,
    preset: StrategyPreset | None,
    geolevels: Sequence[str],
    schema: Schema,
) -> Strategy:
    geolevel_shares = _geolevel_shares(table, preset, geolevels)
    shares = preset.strategy.query_shares if preset else _query_shares(table, geolevels)
    _check_queries(shares, schema)
    shape = Strategy(
        mechanism=Mechanism(privacy.mechanism),
        neighbours=Neighbours(privacy.neighbours),
        total=Fraction(1),
        geolevel_shares=geolevel_shares,
        query_shares=shares,
        sensitivities=sensitivities_of(schema, (query for _, own in shares for query, _ in own)),
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
        given = table.epsilon
    elif table.epsilon is not None:
        return rho_for_target(shape, table.epsilon, table.delta or privacy.delta)
    else:
        given = table.rho or (preset.strategy.total if preset else None)
    if given is None:
        raise ConfigError(
            f"[strategy] {shape.budget_unit} is required. Give the privacy-loss budget that the strategy spends.",
            code="no-budget",
        )
    return given


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


def _query_shares(
    table: StrategyTable, geolevels: Sequence[str]
) -> tuple[tuple[str, tuple[tuple[str, Fraction], ...]], ...]:
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


def _check_queries(
    query_shares: Sequence[tuple[str, Sequence[tuple[str, Fraction]]]], schema: Schema
) -> None:
    """Check that every measured query exists, and that no geolevel measures one query under two names."""
    for geolevel, shares in query_shares:
        names: dict[object, str] = {}
        for name, _ in shares:
            factors = schema.query(known_query(schema, name, f"strategy.queries.{geolevel}")).factors
            if factors in names:
                raise ConfigError(
                    f"strategy.queries.{geolevel}: '{names[factors]}' and '{name}' are the same query. Add their "
                    "shares under one name.",
                    code="query-twice",
                )
            names[factors] = name


def _invariant(
    item: InvariantTable, schema: Schema, original: Sequence[str], geolevels: Sequence[str]
) -> Invariant:
    where = f"the invariant on '{item.query}'"
    return Invariant(
        partition_query(schema, item.query, "invariants"),
        tuple(whole_geolevel(name, original, geolevels, where) for name in item.geolevels),
    )


def _refuse_twice(invariants: Sequence[Invariant], bounds: Sequence[BoundsTable], schema: Schema) -> None:
    """Refuse an invariant that is stated twice, and bounds of one name, which reports could not tell apart."""
    stated: set[tuple[object, str]] = set()
    for invariant in invariants:
        for geolevel in invariant.geolevels:
            place = (schema.query(invariant.query).factors, geolevel)
            if place in stated:
                raise ConfigError(
                    f"the invariant on '{invariant.query}' is stated twice for {geolevel}. State it once.",
                    code="stated-twice",
                )
            stated.add(place)
    names = [item.name for item in bounds]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(
            f"[[bounds]] gives the name {', '.join(map(repr, twice))} twice. Give each a name of its own.",
            code="stated-twice",
        )


def _intervals(table: OutputsTable, strategy: Strategy) -> Fraction | None:
    """The coverage that the release file asks for, after a check that this release can have intervals."""
    level = table.intervals
    if level is None:
        return None
    if not Fraction(1, 2) <= level <= Fraction(LARGEST_LEVEL):
        raise ConfigError(
            f"[outputs] intervals is {level!s:.80}; wanted a coverage of at least 1/2 and at most {LARGEST_LEVEL!r}, "
            'such as "0.95".',
            code="interval-level",
        )
    if strategy.mechanism is not Mechanism.DISCRETE_GAUSSIAN:
        raise ConfigError(
            f"[outputs] intervals needs discrete Gaussian noise; [privacy] mechanism is {strategy.mechanism.value}. "
            "The sum of a few draws of such noise has heavier tails than a normal law, so that intervals would "
            "cover too seldom. Leave intervals out, or measure with rho; `tallyveil intervals` adds estimates and "
            "standard errors to a finished release with any noise.",
            code="interval-noise",
        )
    if table.measurements not in ("full", "small") or not table.tables:
        lacking = (
            "tables" if not table.tables else f'measurements = "full" or "small", not "{table.measurements}"'
        )
        raise ConfigError(
            f"[outputs] intervals needs {lacking}: intervals are written beside published tables and are computed "
            "from all noisy answers, or from those of small queries. Add it, or leave intervals out.",
            code="interval-tables",
        )
    return level


def _subspace(
    tables: Sequence[SubspaceTable],
    strategy: Strategy,
    schema: Schema,
    original: Sequence[str],
    geolevels: Sequence[str],
) -> tuple[SubspaceQuery, ...]:
    """The queries whose counts are drawn on the lattice of the invariants.

    Each query may be named once. Its cost must be given in the strategy's unit.
    """
    found: list[SubspaceQuery] = []
    for item in tables:
        where = f"subspace '{item.query}'"
        partition_query(schema, item.query, where)
        geolevel = whole_geolevel(item.geolevel, original, geolevels, where)
        given, other = (item.rho, item.epsilon) if strategy.budget_unit == "rho" else (item.epsilon, item.rho)
        if given is None or other is not None or given <= 0:
            raise ConfigError(
                f"{where} must give {strategy.budget_unit}, above 0, and no other budget: that is the unit of "
                f"[privacy] mechanism {strategy.mechanism.value}.",
                code="wrong-unit",
            )
        if any(schema.query(known.query).factors == schema.query(item.query).factors for known in found):
            raise ConfigError(
                f"{where} is drawn twice. The sums of one draw would contradict those of the other. Keep one of the "
                "two.",
                code="query-twice",
            )
        found.append(SubspaceQuery(item.query, geolevel, given))
    return tuple(found)


def _bounds(
    item: BoundsTable, schema: Schema, original: Sequence[str], geolevels: Sequence[str], folder: Path
) -> Bounds:
    return Bounds(
        name=item.name,
        query=partition_query(schema, item.query, f"bounds '{item.name}'"),
        geolevel=whole_geolevel(item.geolevel, original, geolevels, f"bounds '{item.name}'"),
        path=located(folder, item.path),
        missing_upper=0 if item.missing == "zero" else None,
    )
