"""The groups of the first pass: which exact counts make them, and what is refused before anything is spent."""

from dataclasses import replace

import numpy as np
import pytest
from tests.outer_worlds import UNITS

from tallyveil.errors import ConstraintError
from tallyveil.estimation.problem import UNBOUNDED
from tallyveil.geography.build import spine_from_columns
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.constraint_files import TakenOver
from tallyveil.postprocess.constraints import ConstraintTable, summed_upward
from tallyveil.postprocess.other_releases import AgreedCounts, summed_to_root
from tallyveil.postprocess.passes.exact_groups import first_groups
from tallyveil.schema.counts import PublicCounts, compress_rows
from tallyveil.schema.nested_queries import representative_cells

BLOCKS = {"Region": list("RRRR"), "Town": list("aabb"), "Block": list("1234")}
SPINE = spine_from_columns(BLOCKS, list(BLOCKS))
OCCUPIED = np.array([[3, 1], [0, 2], [4, 0], [5, 5]])
PRISONS = np.array([[0], [2], [0], [1]])


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "units.toml"
    path.write_text(UNITS)
    return load_plan(path)


def agreed(plan, query, values):
    group = plan.query(query)
    rows, answers = np.nonzero(values)
    finest = PublicCounts(
        "Block", *compress_rows(4, rows, representative_cells(group, answers), values[rows, answers])
    )
    return AgreedCounts(f"agreement {query}", group, summed_to_root(finest, SPINE, plan.schema.size))


def exact(plan, query, values, level=2):
    lower = summed_upward(values, level, SPINE)
    return ConstraintTable(f"invariant {query}", plan.query(query), lower, lower)


def bounds(plan, query, lower, upper):
    sides = (summed_upward(np.array(side), 2, SPINE) for side in (lower, upper))
    return ConstraintTable("bounds", plan.query(query), *sides)


def groups(plan, tables, taken_over):
    return first_groups(plan, tables, TakenOver(tuple(taken_over)), SPINE).known


def test_finest_exact_counts_are_the_groups_and_coarser_ones_are_implied(plan):
    housing = exact(plan, "housing", OCCUPIED.sum(axis=1, keepdims=True))
    total = exact(plan, "total", np.array([[23]]), 0)
    prisons = exact(plan, "quarters", PRISONS)
    found = groups(plan, [housing, prisons, total], [agreed(plan, "occupancy", OCCUPIED)])
    assert [query.name for query in found.queries] == ["occupancy", "quarters"]
    finest = found.levels[-1]
    dense = np.zeros((4, 3), dtype=np.int64)
    dense[np.repeat(np.arange(4), np.diff(finest.offsets)), finest.groups] = finest.counts
    assert np.array_equal(dense, np.hstack([OCCUPIED, PRISONS]))
    assert found.levels[0].counts.tolist() == [12, 8, 3]


def refused(plan, tables, taken_over):
    with pytest.raises(ConstraintError) as caught:
        groups(plan, tables, taken_over)
    return caught.value.code, str(caught.value)


def test_what_the_passes_could_not_keep_is_refused(plan):
    taken_over, prisons = agreed(plan, "occupancy", OCCUPIED), exact(plan, "quarters", PRISONS)
    code, words = refused(plan, [], [taken_over])
    assert code == "passes-groups"
    assert "tenure=prison" in words
    code, words = refused(plan, [], [])
    assert "Given: none" in words
    wrong = exact(plan, "housing", np.add(OCCUPIED.sum(axis=1, keepdims=True), [[0], [1], [0], [0]]))
    code, words = refused(plan, [prisons, wrong], [taken_over])
    assert code == "constraints-conflict"
    assert "invariant housing" in words
    assert "'R'" in words
    code, words = refused(plan, [prisons, exact(plan, "sex", np.ones((4, 2), dtype=np.int64))], [taken_over])
    assert code == "passes-groups"
    assert "no sums of the cells 'tenure'" in words
    code, words = refused(plan, [prisons, exact(plan, "ten2", np.ones((4, 2), dtype=np.int64))], [taken_over])
    assert code == "passes-groups"
    coarse = exact(plan, "quarters", np.array([[2], [1]]), 1)
    assert "tenure=prison" in refused(plan, [coarse], [taken_over])[1]


def test_bounds_on_sums_of_groups_hold_and_others_are_refused(plan):
    taken_over, prisons = agreed(plan, "occupancy", OCCUPIED), exact(plan, "quarters", PRISONS)
    free = np.full((4, 2), UNBOUNDED)
    groups(plan, [prisons, bounds(plan, "occupancy", OCCUPIED, free)], [taken_over])
    groups(plan, [prisons, bounds(plan, "ten2", np.zeros((4, 2), int), free)], [taken_over])  # says nothing
    code, words = refused(
        plan,
        [prisons, bounds(plan, "occupancy", np.add(OCCUPIED, [[0, 0], [0, 0], [0, 0], [0, 1]]), free)],
        [taken_over],
    )
    assert code == "constraints-conflict"
    assert "'R'" in words
    code, words = refused(plan, [prisons, bounds(plan, "ten2", np.ones((4, 2), int), free)], [taken_over])
    assert code == "passes-groups"
    assert "divide records" in words


def test_records_in_structural_zeros_are_refused(plan):
    taken_over, prisons = agreed(plan, "occupancy", OCCUPIED), exact(plan, "quarters", PRISONS)
    zero = replace(plan.schema.structural_zeros[0], name="no prisons", levels=(("tenure", ("prison",)),))
    barred = replace(
        plan, schema=replace(plan.schema, structural_zeros=(*plan.schema.structural_zeros, zero))
    )
    code, words = refused(barred, [prisons], [taken_over])
    assert code == "constraints-conflict"
    assert "structural zeros" in words


def test_of_counts_that_overlap_with_finer_ones_the_rest_is_taken(plan):
    taken_over, prisons = agreed(plan, "occupancy", OCCUPIED), exact(plan, "quarters", PRISONS)
    tenures = np.stack([OCCUPIED[:, 0] - [1, 0, 2, 5], [1, 0, 2, 0], [0, 0, 0, 5]], axis=1)
    by_tenure = agreed(plan, "rent", tenures)
    found = groups(plan, [prisons], [taken_over, by_tenure])
    assert [query.name for query in found.queries] == ["rent", "occupancy", "quarters"]
    finest = found.levels[-1]
    dense = np.zeros((4, 5), dtype=np.int64)
    dense[np.repeat(np.arange(4), np.diff(finest.offsets)), finest.groups] = finest.counts
    assert np.array_equal(dense, np.hstack([tenures, OCCUPIED[:, 1:], PRISONS]))
    code, words = refused(plan, [prisons], [taken_over, agreed(plan, "rent", tenures + 1)])
    assert code == "constraints-conflict"
    assert "agreement occupancy" in words
