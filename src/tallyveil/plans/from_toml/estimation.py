"""The table [estimation] of a release file: the passes and the rounding stages of every geolevel."""

from collections.abc import Sequence
from fractions import Fraction

from tallyveil.budget.presets import StrategyPreset
from tallyveil.budget.strategy import Strategy
from tallyveil.errors import ConfigError
from tallyveil.plans.estimating import GeolevelEstimation, Values
from tallyveil.plans.from_toml.lookups import by_geolevel, partition_query
from tallyveil.plans.from_toml.models import EstimationTable
from tallyveil.schema.schema import Schema

DEFAULT_PASSES = [["*"]]
DEFAULT_ROUNDING = [["total"], ["detailed"]]
REST = "*"


def estimation_of(
    table: EstimationTable,
    strategy: Strategy,
    schema: Schema,
    preset: StrategyPreset | None,
    *,
    drawn: bool,
) -> tuple[tuple[str, GeolevelEstimation], ...]:
    """How each geolevel is estimated: what the file says, else what the preset says, else the defaults.

    Args:
        table: What the file says.
        strategy: What is measured.
        schema: The universe.
        preset: Where what the file leaves out is taken from; None for the defaults.
        drawn: Whether counts are drawn on a lattice, which the values of the tree cannot use.

    Raises:
        ConfigError: a geolevel or a query is unknown, groups of a rounded query or of a query before the last pass
            overlap, or the passes do not use every measured query once.
    """
    geolevels = [name for name, _ in strategy.geolevel_shares]
    passes = table.passes or (_lists(preset.passes) if preset else {})
    rounding = table.rounding or (_lists(preset.rounding) if preset else {})
    slack = table.slack if table.slack is not None else preset.slack if preset else Fraction(0)
    target = table.rounding_target or (preset.rounding_target if preset else "fraction")
    values = table.values or _default_values(preset, drawn=drawn)
    passes_of = by_geolevel("[estimation.passes]", passes, geolevels, DEFAULT_PASSES)
    rounding_of = by_geolevel("[estimation.rounding]", rounding, geolevels, DEFAULT_ROUNDING)
    return tuple(
        (
            name,
            GeolevelEstimation(
                passes=_without_early_overlaps(
                    _filled_passes(passes_of[name], strategy.queries(name), name), schema, name
                ),
                slack=slack,
                rounding=tuple(
                    tuple(partition_query(schema, query, f"estimation.rounding.{name}") for query in stage)
                    for stage in rounding_of[name]
                ),
                target=target,
                values="own" if name == geolevels[-1] else values,
            ),
        )
        for name in geolevels
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
    rest = [query for query in measured if query not in named]
    filled = [tuple(q for name in names for q in (rest if name == REST else [name])) for names in passes]
    flat = [query for names in filled for query in names]
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
    return tuple(names for names in filled if names)


def _without_early_overlaps(
    passes: tuple[tuple[str, ...], ...], schema: Schema, geolevel: str
) -> tuple[tuple[str, ...], ...]:
    """The passes unchanged, after a check that groups overlap only in the last one.

    A later pass keeps the answers of earlier ones. The kept answers of overlapping groups are many equations on few
    cells. Least squares then needs its slow methods for more families (for 11 of 100 families of made-up blocks with
    `hispanic*racecomb`, for 1 of 100 with `hispanic*cenrace`). A family that no method certifies would stop a run after
    its spend.

    Raises:
        ConfigError: a query of an earlier pass has groups that overlap.
    """
    for names in passes[:-1]:
        for name in names:
            if schema.query(name).overlaps:
                raise ConfigError(
                    f"[estimation.passes] at {geolevel}: groups of the query '{name}' overlap, and it is not in the "
                    "last pass. Move it to the last pass.",
                    code="overlapping-query",
                )
    return passes
