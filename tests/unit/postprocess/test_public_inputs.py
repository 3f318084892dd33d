"""Constraints are read back from their public files as they were compiled."""

import dataclasses

import pytest

from tallyveil.errors import SolverError, StoreError
from tallyveil.files.geography import write_geography
from tallyveil.geography.areas import plain_hierarchies
from tallyveil.plans.constraints import Invariant
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.constraint_files import EXACT, stated_constraints
from tallyveil.postprocess.constraints import bounds_table
from tallyveil.postprocess.measured import check_public_inputs, read_constraints
from tallyveil.products.topdown.run.inputs import read_histograms, read_spine
from tallyveil.products.topdown.run.preparation import compile_constraints

INVARIANTS = (
    Invariant("total", ("Region",)),
    Invariant("age*home", ("Town",)),
    Invariant("home", ("Block",)),
)


@pytest.fixture(params=["zero", "unbounded"])
def written(edit, tmp_path, request):
    plan = load_plan(edit('missing = "zero"', f'missing = "{request.param}"'))
    plan = dataclasses.replace(plan, invariants=INVARIANTS)
    spine = read_spine(plan.geography)
    whole = plain_hierarchies(spine)
    tables = compile_constraints(
        plan, whole, read_histograms(plan, spine), [bounds_table(plan, item, whole) for item in plan.bounds]
    )
    write_geography(tmp_path, whole, {})
    for item, table in zip(stated_constraints(plan.to_mapping(), whole), tables, strict=True):
        item.write(tmp_path, table, {})
    return tmp_path, plan, spine, tables


def test_they_are_what_they_were(written):
    root, plan, spine, tables = written
    found = read_constraints(root, plan.to_mapping(), plan.schema, plain_hierarchies(spine))
    assert [table.digest() for table in found] == [table.digest() for table in tables]
    assert check_public_inputs(root, plan.to_mapping(), plan.schema, spine, tables)


def test_other_constraints_than_were_written_stop_the_run(written):
    root, plan, spine, tables = written
    with pytest.raises(SolverError, match="read back"):
        check_public_inputs(root, plan.to_mapping(), plan.schema, spine, tables[1:])


def test_a_missing_file_or_another_geography_is_an_error(written):
    root, plan, spine, tables = written
    _, towns, blocks, _ = stated_constraints(plan.to_mapping(), plain_hierarchies(spine))
    with pytest.raises(StoreError) as caught:
        dataclasses.replace(blocks, number=9).read(root, plan.schema, spine)
    assert caught.value.code == "measurements-missing"
    dataclasses.replace(towns, number=2).write(root, tables[1], {})
    with pytest.raises(StoreError) as damaged:
        blocks.read(root, plan.schema, spine)
    assert damaged.value.code == "release-damaged"
    EXACT.path(root, 2).write_bytes(b"PAR1")
    with pytest.raises(StoreError):
        blocks.read(root, plan.schema, spine)
