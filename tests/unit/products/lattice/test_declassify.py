"""The true counts of a table: the ledger knows first."""

import numpy as np
import polars as pl
import pytest

from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.errors import BudgetError, ConstraintError, SchemaError, StoreError
from tallyveil.products.lattice.confidential import declassify_table
from tallyveil.schema.attribute import Attribute
from tallyveil.schema.schema import Schema
from tallyveil.subspace.constraints import ConstraintSystem


def entries(tmp_path):
    return read_ledger(tmp_path / "ledger.jsonl")[1]


def table_of(tmp_path, ledger, levels=("x", "y", "x"), released=(5, 0)):
    path = tmp_path / "table.csv"
    pl.DataFrame({"letter": levels, "n": [4, -1, 2]}).write_csv(path)
    schema = Schema("t", (Attribute("a", ("x", "y")),))
    return declassify_table(
        path,
        count="n",
        columns={"a": "letter"},
        schema=schema,
        ledger=ledger,
        reason="a figure",
        released=np.array(released),
        exact=ConstraintSystem.from_sets([[0, 1]], 2),
    )


def test_a_true_table_is_handed_out_after_the_entry(ledger, tmp_path):
    assert table_of(tmp_path, ledger).tolist() == [6, -1]
    (entry,) = entries(tmp_path)
    assert (entry.kind, entry.event.reason) == ("declassify", "a figure")
    assert "declassified" in entry.description
    with pytest.raises(SchemaError):
        table_of(tmp_path, ledger, ("x", "y", "z"))
    with pytest.raises(ConstraintError) as caught:
        table_of(tmp_path, ledger, released=(5, 1))
    assert caught.value.code == "truth-contradicts"
    assert len(entries(tmp_path)) == 1
    ledger.close()
    with pytest.raises((BudgetError, StoreError, ValueError)):
        table_of(tmp_path, ledger)
