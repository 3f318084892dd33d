"""A column of text for each attribute, which says what an answer of a query counts; and the way back to the answer."""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.errors import SchemaError
from tallyveil.exact import type_of
from tallyveil.schema.labels import Labels
from tallyveil.schema.query_group import Factor, QueryGroup
from tallyveil.schema.schema import Schema

LABELS_SHOWN = 12
"""Labels that a message lists."""


def label_columns(group: QueryGroup, answers: Integers) -> list[pl.Series]:
    """What each answer counts: a column for each attribute of the schema, with the label of the answer's group.

    A column is null if the query sums the attribute out. The columns are text, not categories: files with other labels,
    also of other releases, then have the same types.

    Args:
        group: The query.
        answers: Numbers of answers, 0 to `group.size` - 1.
    Returns:
        For each attribute a column of text, as long as `answers`.
    """
    places = np.unravel_index(answers, group.shape)
    return [_labels(factor, place) for factor, place in zip(group.factors, places, strict=True)]


def _labels(factor: Factor, groups: Integers) -> pl.Series:
    if factor.name is None:
        return pl.Series(factor.attribute, [None], dtype=pl.String).new_from_index(0, len(groups))
    return pl.Series(factor.attribute, factor.labels, dtype=pl.String).gather(groups)


def with_labels(frame: pl.DataFrame, schema: Schema, labels: Labels) -> pl.DataFrame:
    """A frame whose columns of attributes and recodes say for people what each row counts.

    Args:
        frame: Text columns named by attributes, with names of levels or of groups of a recode, or by recodes.
        schema: The universe.
        labels: In the language of the reader. What has none stays as it is.
    """
    given = {name: dict(words) for name, words in labels.levels}
    columns = []
    for name in frame.columns:
        # In a column of an attribute may stand groups of its recodes, whose names are their own.
        sources = [item.name for item in schema.recodes if item.attribute == name]
        words = {level: word for source in (*sources, name) for level, word in given.get(source, {}).items()}
        if words and frame.schema[name] == pl.String:
            columns.append(pl.col(name).replace(words))
    return frame.with_columns(columns)


def answer_expression(group: QueryGroup) -> pl.Expr:
    """The number of the answer that the columns of `label_columns` name; null where they name none."""
    answer = pl.lit(0, dtype=pl.Int64)
    for factor in group.factors:
        summed_out = pl.when(pl.col(factor.attribute).is_null()).then(pl.lit(0, dtype=pl.Int64))
        code = summed_out if factor.name is None else code_expression(factor.attribute, factor.labels)
        answer = answer * factor.size + code
    return answer.alias("answer")


def code_expression(name: str, words: Sequence[str]) -> pl.Expr:
    """The position of each text of a column in a list of words; null where it is none of them."""
    return pl.col(name).cast(pl.String).cast(pl.Enum(list(words)), strict=False).to_physical().cast(pl.Int64)


def summed_out(group: QueryGroup) -> list[str]:
    """Attributes that a query sums out, whose columns are null."""
    return [factor.attribute for factor in group.factors if factor.name is None]


def answer_of(group: QueryGroup, labels: Mapping[str, str]) -> int:
    """The number of the answer that labels name.

    Args:
        group: The query.
        labels: For each attribute that the query does not sum out, the label of a group.
    Raises:
        SchemaError: an attribute is missing or not in the query, or has no such label.
    """
    if not isinstance(labels, Mapping) or not all(
        isinstance(text, str) for pair in labels.items() for text in pair
    ):
        raise SchemaError(
            f"labels for query {group.name!r} are {type_of(labels)}, wanted a mapping from attributes to labels, both "
            "as text, such as {'age': '18-64'}."
        )
    named = group.named_factors
    wanted = [factor.attribute for factor in named]
    if sorted(labels) != sorted(wanted):
        raise SchemaError(
            f"query {group.name!r} has labels of {', '.join(labels) or 'nothing'}, wanted one label of each of "
            f"{', '.join(wanted) or 'nothing'}. Name the attributes as the columns of the tables are named."
        )
    answer = 0
    for factor in named:
        label = labels[factor.attribute]
        if label not in factor.labels:
            raise SchemaError(
                f"query {group.name!r} has no label {label!r} of {factor.attribute!r}; it has "
                f"{', '.join(factor.labels[:LABELS_SHOWN])}{', ...' * (factor.size > LABELS_SHOWN)}. Use one of these."
            )
        answer = answer * factor.size + factor.labels.index(label)
    return answer
