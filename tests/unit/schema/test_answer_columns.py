"""Columns of labels say what an answer counts, whatever the names, and say it back."""

import numpy as np
import polars as pl
import pytest

from tallyveil.errors import SchemaError
from tallyveil.schema.answer_columns import answer_expression, answer_of, label_columns
from tallyveil.schema.attribute import Attribute, Recode
from tallyveil.schema.schema import Schema

ODD = ("total", "None", "a=b", "100 %", "x/y", "ζ", "NULL", " ")
SCHEMA = Schema(
    "odd",
    (Attribute("sex", ("f", "m")), Attribute("answer", ODD), Attribute("a=b", ("1", "2", "3"))),
    (
        Recode("some", "answer", (("x/y", ("x/y", "ζ")), ("the others", ("NULL",)))),
        Recode("up_to", "a=b", (("1", ("1",)), ("2", ("1", "2")), ("3", ("1", "2", "3"))), overlapping=True),
    ),
)
QUERIES = ["total", "sex", "answer", "some", "up_to", "some*up_to", "sex*a=b", "a=b*sex", "detailed"]


@pytest.mark.parametrize("query", QUERIES)
def test_labels_say_what_an_answer_counts(query):
    group = SCHEMA.query(query)
    frame = pl.DataFrame(label_columns(group, np.arange(group.size)))
    assert frame.schema == dict.fromkeys(SCHEMA.attribute_names, pl.String)
    for number, row in enumerate(frame.iter_rows(named=True)):
        counted = group.label(number)
        for factor in group.factors:
            assert row[factor.attribute] == (None if factor.name is None else counted[factor.name])
        labels = {name: label for name, label in row.items() if label is not None}
        assert answer_of(group, labels) == number
    assert frame.is_unique().all()
    assert frame.select(answer_expression(group))["answer"].to_list() == list(range(group.size))


@pytest.mark.parametrize(
    ("query", "changed"),
    [("sex", {"sex": "x"}), ("sex", {"sex": None}), ("sex", {"answer": "a=b"}), ("total", {"sex": "f"})],
)
def test_labels_that_name_no_answer_are_told(query, changed):
    group = SCHEMA.query(query)
    row = pl.DataFrame(label_columns(group, np.array([0]))).with_columns(
        pl.lit(value, dtype=pl.String).alias(name) for name, value in changed.items()
    )
    assert row.select(answer_expression(group))["answer"].to_list() == [None]


@pytest.mark.parametrize(
    ("query", "labels"),
    [
        ("sex", {}),
        ("sex", {"sex": "x"}),
        ("sex", {"sex": "f", "answer": "a=b"}),
        ("total", {"sex": "f"}),
        ("some", {"some": "x/y"}),
        ("some", {"answer": "a=b"}),
    ],
)
def test_labels_of_one_answer_that_do_not_fit_are_refused(query, labels):
    with pytest.raises(SchemaError, match="label"):
        answer_of(SCHEMA.query(query), labels)
