"""Sensitivities of query groups. A sensitivity is the largest number of answers in which one record counts.

A query group of sensitivity s gets s times the variance (Gaussian) or s times the scale (Laplace) at the same budget.
"""

from collections.abc import Iterable

from tallyveil.budget.strategy import Strategy
from tallyveil.errors import BudgetError
from tallyveil.schema.schema import Schema


def sensitivities_of(schema: Schema, queries: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """The sensitivity of each query group whose groups overlap, for `Strategy.sensitivities`; sorted by name.

    Args:
        schema: The universe.
        queries: Specifications of query groups, which may repeat.
    Raises:
        SchemaError: the schema has overlapping recodes, and lacks one of the queries.
    """
    if not any(recode.overlapping for recode in schema.recodes):
        return ()
    groups = (schema.query(name) for name in sorted(set(queries)))
    return tuple((group.name, group.sensitivity) for group in groups if group.overlaps)


def require_sensitivities(strategy: Strategy, schema: Schema) -> None:
    """Refuse a strategy that assumes that a record counts in fewer or more answers than it does.

    Raises:
        BudgetError: a measured query group has another sensitivity than the strategy states.
        SchemaError: the schema lacks a measured query.

    Privacy: without this condition, the stated cost of the strategy could be too low.
    """
    for geolevel in strategy.geolevels:
        for query in strategy.queries(geolevel):
            moved = schema.query(query).sensitivity * strategy.neighbours.answers_moved
            if strategy.answers_moved(query) != moved:
                raise BudgetError(
                    f"query '{query}' at {geolevel} moves {moved} answers between {strategy.neighbours.value} "
                    f"neighbours, and the strategy pays for {strategy.answers_moved(query)}. Give the strategy the "
                    "sensitivities that `sensitivities_of` finds in the schema."
                )
