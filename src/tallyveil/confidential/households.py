"""Derives records of households from records of persons, by the rules that a plan declares.

The record of a household is a function of the records of its members alone, whatever these are: its place is the least
geocode, its numbers count members, and its values are those of one member. If no member or more than one member fits
the rule, the value is the level `otherwise`.
So a person whose record changes in any way changes the records of at most two households: that which they leave, and
that which they enter.
"""

import polars as pl

from tallyveil.plans.inputs import Households

_ID = "__household"


def households_of(persons: pl.LazyFrame, rules: Households, geocode: str) -> pl.LazyFrame:
    """One row for each household, with its geocode and a column for each attribute.

    Args:
        persons: One row for each person.
        rules: How households follow from them.
        geocode: Column of the geocode.
    """
    identity = pl.col(rules.id)
    if persons.collect_schema()[rules.id].is_float():
        # As text, a number that is none would make one household of all persons without a number.
        identity = identity.fill_nan(None)
    identity = identity.cast(pl.String)
    place = pl.col(geocode)
    attributes = [
        # A place that is missing stays missing, so that it is noted as it is for every record.
        pl.when(place.is_null().any()).then(None).otherwise(place.min()).alias(geocode)
    ]
    for name, members in rules.number:
        counted = pl.len() if members.column is None else _is_one_of(members.column, members.values).sum()
        attributes.append(counted.cast(pl.Int64).alias(name))
    for name, member in rules.value:
        values = pl.col(member.column).cast(pl.String).filter(_is_one_of(member.where, (member.equals,)))
        only = pl.when(values.len() == 1).then(values.first()).otherwise(pl.lit(member.otherwise))
        attributes.append(only.alias(name))
    # A cell of spaces is as empty as one without them: it would make one household of all persons without a number.
    is_known = identity.is_not_null() & (identity.str.strip_chars() != "")
    known = persons.filter(is_known).with_columns(identity.alias(_ID))
    return known.group_by(_ID).agg(attributes).drop(_ID)


def _is_one_of(column: str, values: tuple[str, ...]) -> pl.Expr:
    return pl.col(column).cast(pl.String).is_in(values).fill_null(value=False)
