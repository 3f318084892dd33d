"""Make the plan that a release file describes: fill in presets and shares, and check what only the file says."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain

from tallyveil.accounting.events import Neighbours
from tallyveil.budget.guarantees import rho_for_target
from tallyveil.budget.presets import StrategyPreset, load_strategy_preset
from tallyveil.budget.queries import sensitivities_of
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.errors import ConfigError
from tallyveil.geography.optimise import geolevels_after
from tallyveil.plans.fitting import known_query, refuse_unfit
from tallyveil.plans.from_toml.estimation import (
    estimation_in_passes,
    estimation_of,
    outer_of,
    refuse_full_measurements,
)
from tallyveil.plans.from_toml.lookups import by_geolevel
from tallyveil.plans.from_toml.models import (
    ExecutionTable,
    PrivacyTable,
    ReleaseFile,
    StrategyTable,
    SubspaceTable,
)
from tallyveil.plans.from_toml.schema import (
    require_addresses,
    require_few_layers,
    require_possible,
    require_size,
)
from tallyveil.plans.from_toml.spine import require_whole, spine_of
from tallyveil.plans.inputs import RecordsInput
from tallyveil.plans.release import ReleasePlan, keys_of_budget
from tallyveil.plans.subspace_query import SubspaceQuery
from tallyveil.runs.cluster.site import ClusterSettings
from tallyveil.schema.attribute import ranges_of
from tallyveil.schema.names import check_areas, check_table_name
from tallyveil.schema.presets import load_preset
from tallyveil.schema.schema import Schema


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
    strategy = _strategy(file.strategy, file.privacy, preset, geolevels, schema)
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
    every = tuple((name, columns.get(name, name)) for name in schema.attribute_names)
    return replace(records, columns=every, numbers=numbers)


def _strategy(
    table: StrategyTable,
    privacy: PrivacyTable,
    preset: StrategyPreset | None,
    geolevels: Sequence[str],
    schema: Schema,
) -> Strategy:
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
