"""The tables [estimation] and [[estimation.outer]] of a release file: passes, stages and outer passes.

Names that these and other tables use are looked up among the geolevels and queries that the file defines.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final, TypeVar

from tallyveil.budget.outer_pass import OuterPass
from tallyveil.budget.presets import StrategyPreset
from tallyveil.budget.strategy import Strategy
from tallyveil.errors import ConfigError
from tallyveil.plans.constraints import Agreement, Residents
from tallyveil.plans.estimating import GeolevelEstimation, MeasurementFiles, Values
from tallyveil.plans.fitting import known_query, partition_query
from tallyveil.plans.from_toml.models import EVERY_GEOLEVEL, EstimationTable
from tallyveil.plans.lifts import refuse_lifts
from tallyveil.plans.outer import measured_by_pass, refuse_outer
from tallyveil.schema.schema import Schema

Item = TypeVar("Item")


def by_geolevel(
    where: str, table: Mapping[str, Item], geolevels: Sequence[str], default: Item | None
) -> dict[str, Item]:
    """The entry of a table for each geolevel: the geolevel's own, else the entry "*", else the default.

    Raises:
        ConfigError: the table names an unknown geolevel, or a geolevel has no entry and there is no default.
    """
    unknown = [name for name in table if name not in geolevels and name != EVERY_GEOLEVEL]
    if unknown:
        raise ConfigError(
            f'{where} names {", ".join(unknown)}, which is neither a geolevel of the spine nor "*". The geolevels '
            f"are: {', '.join(geolevels)}.",
            code="unknown-geolevel",
        )
    entries = {}
    for name in geolevels:
        item = table.get(name, table.get(EVERY_GEOLEVEL, default))
        if item is None:
            raise ConfigError(
                f'{where} says nothing of {name}, and has no "*", which stands for all geolevels that are not named. '
                "Add one of the two.",
                code="missing-geolevel",
            )
        entries[name] = item
    return entries


DEFAULT_PASSES = [["*"]]
DEFAULT_ROUNDING = [["total"], ["detailed"]]
REST = "*"
MOST_ANSWERS_IN_FULL: Final = 1 << 17
"""Largest number of measured answers of a geounit that a release with outer passes writes in full."""


def estimation_of(
    table: EstimationTable,
    strategy: Strategy,
    preset: StrategyPreset | None,
    *,
    drawn: bool,
) -> tuple[tuple[str, GeolevelEstimation], ...]:
    """How each geolevel is estimated: what the file says, else what the preset says, else the defaults.

    Args:
        table: What the file says.
        strategy: What is measured.
        preset: Where what the file leaves out is taken from; None for the defaults.
        drawn: Whether counts are drawn on a lattice, which the values of the tree cannot use.

    Raises:
        ConfigError: a geolevel or a query is unknown, or the passes do not use every measured query once.
    """
    geolevels = [name for name, _ in strategy.geolevel_shares]
    passes = table.passes or (_lists(preset.passes) if preset else {})
    rounding = table.rounding or (_lists(preset.rounding) if preset else {})
    slack = table.slack if table.slack is not None else preset.slack if preset else Fraction(0)
    target = table.rounding_target or (preset.rounding_target if preset else "fraction")
    values = table.values or _default_values(preset, drawn=drawn)
    _refuse_idle(table, geolevels[-1])
    passes_of = by_geolevel("[estimation.passes]", passes, geolevels, DEFAULT_PASSES)
    rounding_of = by_geolevel("[estimation.rounding]", rounding, geolevels, DEFAULT_ROUNDING)
    return tuple(
        (
            name,
            GeolevelEstimation(
                passes=_filled_passes(passes_of[name], strategy.queries(name), name),
                slack=slack,
                rounding=tuple(map(tuple, rounding_of[name])),
                target=target,
                values="own" if name == geolevels[-1] else values,
                method=(table.blocks or "families") if name == geolevels[-1] else "families",
            ),
        )
        for name in geolevels
    )


def _refuse_idle(table: EstimationTable, finest: str) -> None:
    """Refuse passes or rounding of a geolevel that is allocated, which would have no effect; raises ConfigError."""
    for name, steps in (("passes", table.passes), ("rounding", table.rounding)):
        if table.blocks == "allocation" and finest in steps:
            raise ConfigError(
                f'[estimation.{name}] names {finest}, and blocks is "allocation": the counts of {finest} then follow '
                "from a model and not from passes and rounding, so that this would have no effect. Leave it out.",
                code="allocation-unsuited",
            )


def _default_values(preset: StrategyPreset | None, *, drawn: bool) -> Values:
    """What families are fitted to where the file does not say it."""
    if drawn:
        return "own"
    return preset.values if preset else "tree"


def _lists(steps: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]) -> dict[str, list[list[str]]]:
    return {geolevel: [list(names) for names in step] for geolevel, step in steps}


def _filled_passes(
    passes: Sequence[Sequence[str]], measured: Sequence[str], geolevel: str
) -> tuple[tuple[str, ...], ...]:
    """The passes, with "*" replaced by the measured queries that no pass names.

    Raises:
        ConfigError: the passes together do not use every measured query exactly once.
    """
    named = [query for names in passes for query in names if query != REST]
    # In the order of the strategy, so that one file always gives one order of passes.
    rest = [query for query in measured if query not in named]
    filled = [tuple(q for name in names for q in (rest if name == REST else [name])) for names in passes]
    flat = [query for names in filled for query in names]
    # Sorted lists, not sets: a query that two passes use would count twice.
    if sorted(flat) != sorted(measured):
        missing = sorted(set(measured) - set(flat))
        extra = sorted(query for query in flat if flat.count(query) > 1 or query not in measured)
        raise ConfigError(
            f"[estimation.passes] at {geolevel} must use every measured query once"
            + (f"; left out: {', '.join(missing)}" if missing else "")
            + (f"; not measured there or repeated: {', '.join(dict.fromkeys(extra))}" if extra else "")
            + '. Write "*" for the queries no pass names.',
            code="bad-passes",
        )
    # "*" stands for nothing where all queries are named: such a pass is left out.
    return tuple(names for names in filled if names)


def outer_of(
    table: EstimationTable,
    schema: Schema,
    preset: StrategyPreset | None,
    agreement: Sequence[Agreement] = (),
    residents: Sequence[Residents] = (),
    *,
    drawn: bool,
) -> tuple[OuterPass, ...]:
    """The outer passes that a file states, else those of the preset; checked.

    Args:
        table: What the file says.
        schema: The universe.
        preset: The strategy's preset, if it has one.
        agreement: The agreements that the file states.
        residents: The residents that it states.
        drawn: Whether counts are drawn on a lattice.
    Raises:
        ConfigError: the passes do not fit the schema or each other, the file also states passes of geolevels, or counts
            are drawn on a lattice.
        SchemaError: a query is unknown.
    """
    # The passes of the file replace those of the preset as a whole: passes depend on one another.
    outer = tuple(table.outer) or (preset.outer if preset else ())
    if not outer:
        # Residents act only through a pass that names them.
        if residents:
            raise ConfigError(
                f"[[residents]] '{residents[0].name}' has no effect without [[estimation.outer]]. Add a pass with a "
                "part and these residents, or leave the table out.",
                code="outer-pass",
            )
        return ()
    _refuse_other_settings(table, None if table.outer else preset)
    if drawn:
        raise ConfigError(
            "[[subspace]]: outer passes keep invariants, agreements and bounds, and no counts that are drawn on a "
            "lattice after the spend. Leave [[subspace]] out, or estimate without outer passes.",
            code="outer-pass",
        )
    for number, outer_pass in enumerate(outer, start=1):
        for name in outer_pass.queries:
            known_query(schema, name, f"estimation.outer[{number}]")
    for item in residents:
        if item.households is not None:
            partition_query(schema, item.households, f"residents '{item.name}'")
    # Before the lifts: `refuse_lifts` takes it that the passes fit each other.
    refuse_outer(schema, outer)
    refuse_lifts(schema, outer, agreement, residents)
    return outer


def estimation_in_passes(
    outer: Sequence[OuterPass], strategy: Strategy, schema: Schema
) -> tuple[tuple[str, GeolevelEstimation], ...]:
    """How each geolevel is estimated by outer passes: the queries of each pass that has some, and all chains.

    Raises:
        ConfigError: no pass determines one of the measured queries.
    """
    # Each chain ends at the cells of its pass: they are what the pass finds.
    rounding = tuple((*item.rounding, item.cells) for item in outer)
    return tuple(
        (
            name,
            GeolevelEstimation(
                passes=tuple(filter(None, measured_by_pass(schema, outer, strategy.queries(name)))),
                slack=Fraction(0),
                rounding=rounding,
            ),
        )
        for name in strategy.geolevels
    )


def refuse_full_measurements(strategy: Strategy, schema: Schema, measurements: MeasurementFiles) -> None:
    """Refuse to write all noisy answers of a release with outer passes whose queries have very many.

    Raises:
        ConfigError: a geounit has more measured answers than `MOST_ANSWERS_IN_FULL`.
    """
    if measurements != "full":
        return
    for geolevel in strategy.geolevels:
        answers = sum(schema.query(name).size for name in strategy.queries(geolevel))
        if answers > MOST_ANSWERS_IN_FULL:
            raise ConfigError(
                f'[outputs] measurements is "full", and each {geolevel} has {answers:,} measured answers. All of them '
                "would be drawn and written for every geounit, although nearly all are noise around zero. At most "
                f'{MOST_ANSWERS_IN_FULL:,} answers are written in full. Write measurements = "small" for all answers '
                'of the small queries, "support" for the answers in which the parent\'s published counts lie, or '
                '"none".',
                code="many-answers",
            )


def _refuse_other_settings(table: EstimationTable, preset: StrategyPreset | None) -> None:
    """Refuse settings of single geolevels beside outer passes, which would have no effect."""
    settings = [
        name
        for name, is_set in (
            ("passes", bool(table.passes)),
            ("rounding", bool(table.rounding)),
            ("slack", bool(table.slack)),
            ("rounding_target", table.rounding_target == "nearest"),
            ("values", table.values == "tree"),
            ("blocks", table.blocks == "allocation"),
        )
        if is_set
    ]
    if settings:
        source = (
            "[[estimation.outer]]"
            if preset is None
            else f"the outer passes of strategy preset '{preset.name}'"
        )
        raise ConfigError(
            f"[estimation] {', '.join(settings)}: with {source}, the passes go over the whole spine, are fitted to "
            "each geounit's own noisy answers and round towards the estimates, so that this would have no effect. "
            "Leave it out.",
            code="outer-pass",
        )
