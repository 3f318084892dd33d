"""The measurements of totals that the flags of `tallyveil spine` name: a preset's, or those of a release file."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tallyveil.budget.spine.measures import TotalMeasures

SCHEMA: Final = "pl94-persons"
"""Schema preset of a strategy preset if no other is named."""


def measures_of(strategy: str, schema: str | None, exact: Sequence[str]) -> "tuple[TotalMeasures, str]":
    """The measurements of totals under a strategy, and the name of the schema.

    Args:
        strategy: Name of a strategy preset, or path of a release file, which ends in `.toml`. Of a release file its
            queries, budget and mechanism are used, and the totals that its invariants publish.
        schema: Schema preset of a strategy preset; None for the usual one.
        exact: Geolevels whose totals are published, with a strategy preset.

    Raises:
        ConfigError: the release file is not sound, or a schema or exact totals are named beside it.
        BudgetError, SchemaError: there is no such preset, or it does not fit the schema.
    """
    if not strategy.endswith(".toml"):
        return _of_preset(strategy, schema or SCHEMA, exact)
    from tallyveil.errors import ConfigError
    from tallyveil.plans.from_toml.load import load_plan
    from tallyveil.products.topdown.run.spine_making import total_measures

    if schema is not None or exact:
        raise ConfigError(
            f"--strategy {strategy} is a release file, which states its own schema and invariants. Leave --schema and "
            "--exact out.",
            code="bad-flag",
        )
    plan = load_plan(Path(strategy))
    return total_measures(plan), plan.schema.name


def _of_preset(strategy: str, schema: str, exact: Sequence[str]) -> "tuple[TotalMeasures, str]":
    from tallyveil.budget import load_strategy_preset
    from tallyveil.budget.spine.measures import TotalMeasures
    from tallyveil.budget.spine.precision import totals_summed
    from tallyveil.schema import load_preset

    found = load_strategy_preset(strategy).strategy
    summed = totals_summed(load_preset(schema), found)
    return TotalMeasures(found, summed, tuple(dict.fromkeys(exact))), schema
