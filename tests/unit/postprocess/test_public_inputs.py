"""Constraints are read back from their public files as they were compiled."""

import dataclasses

import pytest

from tallyveil.errors import SolverError, StoreError
from tallyveil.files.geography import write_geography
from tallyveil.geography.areas import plain_hierarchies
from tallyveil.plans.constraints import Invariant
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.constraints.bounds_files import stated_bounds, write_bounds
from tallyveil.postprocess.constraints.geolevels import bounds_table
from tallyveil.postprocess.constraints.invariant_files import (
    invariant_path,
    read_invariant,
    stated_invariant,
    write_invariant,
)
from tallyveil.postprocess.public_inputs import check_public_inputs, read_constraints
from tallyveil.products.topdown.run.inputs import read_histograms, read_spine
from tallyveil.products.topdown.run.true_constraints import compile_constraints

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
    for number, (invariant, table) in enumerate(zip(INVARIANTS, tables[:3], strict=True)):
        stated = stated_invariant(whole, invariant.query, invariant.geolevels)
        write_invariant(tmp_path, number, table, stated, {})
    bounds = plan.to_mapping()["bounds"][0]
    write_bounds(tmp_path, 0, bounds, tables[3], stated_bounds(whole, bounds), {})
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
    invariant, whole = plan.to_mapping()["invariants"][2], plain_hierarchies(spine)
    with pytest.raises(StoreError) as caught:
        read_invariant(root, 9, invariant, plan.schema, whole)
    assert caught.value.code == "measurements-missing"
    towns = stated_invariant(whole, INVARIANTS[1].query, INVARIANTS[1].geolevels)
    write_invariant(root, 2, tables[1], towns, {})
    with pytest.raises(StoreError) as damaged:
        read_invariant(root, 2, invariant, plan.schema, whole)
    assert damaged.value.code == "release-damaged"
    invariant_path(root, 2).write_bytes(b"PAR1")
    with pytest.raises(StoreError):
        read_invariant(root, 2, invariant, plan.schema, whole)
