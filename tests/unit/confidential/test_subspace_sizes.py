"""Counts of a table are held to a range in which no sum overflows."""

import polars as pl
import pytest

from tallyveil.errors import SchemaError
from tallyveil.products.lattice.confidential import read_confidential_table
from tallyveil.schema.attribute import Attribute
from tallyveil.schema.schema import Schema


@pytest.mark.parametrize(
    "counts", [[2**40 + 1], [2**40, 1], [-(2**40), -1], [2**63 - 1, 2**63 - 1], [2**39] * 3]
)
def test_counts_too_large_together_are_refused_without_their_size(tmp_path, counts):
    path = tmp_path / "t.csv"
    pl.DataFrame({"a": ["x"] * len(counts), "n": counts}).write_csv(path)
    schema = Schema("t", (Attribute("a", ("x", "y")),))
    with pytest.raises(SchemaError) as caught:
        read_confidential_table(path, count="n", columns={"a": "a"}, schema=schema)
    assert not any(str(abs(count)) in str(caught.value) for count in counts if abs(count) > 1)


def test_the_largest_table_allowed_is_read(tmp_path):
    path = tmp_path / "t.csv"
    pl.DataFrame({"a": ["x", "y"], "n": [2**39, -(2**39)]}).write_csv(path)
    schema = Schema("t", (Attribute("a", ("x", "y")),))
    table = read_confidential_table(path, count="n", columns={"a": "a"}, schema=schema)
    assert table.counts.tolist() == [2**39, -(2**39)]
