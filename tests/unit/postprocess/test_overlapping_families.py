"""Families whose measurements have overlapping groups: measured, estimated and stored as dense matrices say."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from tallyveil.budget.allocation import allocation_of
from tallyveil.confidential.measure import Measurer
from tallyveil.errors import BudgetError
from tallyveil.estimation.family import estimate_family
from tallyveil.estimation.least_squares import solve_passes
from tallyveil.estimation.problem import problem_from_mapping, problem_to_mapping
from tallyveil.measurements.answers import measure_one_by_one
from tallyveil.measurements.store import StoredMeasurements, write_support_measurements
from tallyveil.noise.key import insecure_key
from tallyveil.noise.source import NoiseSource
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.families.level import FamilyBuilder, Span, estimate_span
from tallyveil.products.topdown.run.inputs import read_histograms, read_spine
from tallyveil.schema.counts import PublicCounts, compress_rows

RECODES = """[[schema.recodes]]
name = "up_to"
attribute = "age"
overlapping = true
groups = { young = ["young"], middle = ["young", "middle"], any = ["young", "middle", "old"] }
[[schema.recodes]]
name = "places"
attribute = "home"
overlapping = true
groups = { house = ["house"], anywhere = ["house", "barracks"] }
[[schema.structural_zeros]]"""
SUPPORT = np.array([0, 2, 3, 4, 5])


@pytest.fixture
def builder(small_release, edit):
    """The builder of the towns, without constraints."""
    edit("[[schema.structural_zeros]]", RECODES)
    edit('grown = "1/4"', '"up_to*places" = "1/8"\nup_to = "1/8"')
    plan = load_plan(small_release)
    spine = read_spine(plan.geography)
    allocation = allocation_of(plan.strategy, spine)
    noise = NoiseSource(insecure_key("overlapping families"))
    source = Measurer(read_histograms(plan, spine), plan.schema, allocation, noise)
    queries = tuple(layer for name in plan.strategy.queries("Town") for layer in plan.query(name).layers)
    rounding = ((plan.query("total"),), (plan.query("age*home"),))
    return FamilyBuilder(plan, allocation, 1, source, (), queries, rounding)


@pytest.fixture
def above(builder):
    """Published counts of the two regions: many people in all cells, and few in two."""
    rows, cells = np.array([0] * 5 + [1] * 2), np.concatenate([SUPPORT, SUPPORT[[1, 3]]])
    counts = np.array([400, 500, 300, 600, 350, 3, 5])
    return PublicCounts("Region", *compress_rows(builder.spine.n_geounits(0), rows, cells, counts))


def matrix(builder, query):
    """The measured query as a dense matrix, straight from the groups."""
    schema = builder.plan.schema
    return schema.query(query).apply_dense(np.eye(schema.size, dtype=np.int64)).T


@pytest.mark.parametrize("query", ["up_to", "up_to*places", "total"])
def test_a_measurement_is_the_truth_plus_the_addressed_noise(builder, query):
    source, group = builder.source, builder.plan.query(query)
    truth = np.zeros((8, builder.plan.schema.size), dtype=np.int64)
    rows, cells, counts = source.histograms[1].rows(0, 8)
    truth[rows, cells] = counts
    position = builder.plan.strategy.queries("Town").index(query)
    law = builder.plan.strategy.law("Town", query)
    noise = source.noise.dense(law, 1, position, np.arange(8), group.size)
    whole = source.measure("Town", query, 0, 8, np.arange(group.size))
    assert np.array_equal(whole.values, truth @ matrix(builder, query).T + noise)
    assert (whole.variances == law.variance_float()).all()
    some = np.arange(0, group.size, 2)
    assert np.array_equal(source.measure("Town", query, 2, 5, some).values, whole.values[2:5][:, some])


def test_families_get_what_each_geounit_gets_alone(builder, above):
    wanted = builder.answers(0, 2, above)
    assert np.array_equal(builder.source.measure_families(wanted), measure_one_by_one(builder.source, wanted))


def test_a_measurer_refuses_a_strategy_that_forgets_the_overlap(builder):
    strategy = replace(builder.plan.strategy, sensitivities=())
    wrong = allocation_of(strategy, builder.spine, builder.allocation.shares)
    source = builder.source
    with pytest.raises(BudgetError, match="pays for"):
        Measurer(source.histograms, source.schema, wrong, source.noise)


def test_least_squares_is_that_of_the_dense_matrices(builder, above):
    """Few people would be held at zero, so the first region has many: there the bounds do not bind."""
    problem = builder.family(0, above)
    answer = solve_passes(problem, problem.allowed())
    assert (answer.estimate > 1).all()
    n, s = problem.n_children, len(SUPPORT)
    equal, equal_to = np.tile(np.eye(s), (1, n)), problem.parent_counts.astype(float)
    for names in builder.plan.estimation_of("Town").passes:
        normal, right = np.zeros((n * s, n * s)), np.zeros(n * s)
        for query in names:
            rows = matrix(builder, query)[:, SUPPORT]
            variance = builder.plan.strategy.law("Town", query).variance_float()
            noisy = builder.source.measure("Town", query, 0, n, np.arange(len(rows))).values
            normal += np.kron(np.eye(n), rows.T @ rows) / variance
            right += (noisy @ rows).ravel() / variance
        # minimise under the equations, by the null space of the equations
        particular = np.linalg.lstsq(equal, equal_to, rcond=None)[0]
        _, sizes, directions = np.linalg.svd(equal)
        free = directions[int((sizes > 1e-9 * sizes[0]).sum()) :].T
        step = np.linalg.lstsq(free.T @ normal @ free, free.T @ (right - normal @ particular), rcond=1e-11)[0]
        point = particular + free @ step
        # the later pass keeps the answers of the earlier one
        kept = np.concatenate([np.kron(np.eye(n), matrix(builder, query)[:, SUPPORT]) for query in names])
        equal, equal_to = np.concatenate([equal, kept]), np.concatenate([equal_to, kept @ point])
    np.testing.assert_allclose(answer.estimate.ravel(), point, atol=1e-4)


def test_the_compiled_loop_gives_the_counts_of_single_families(builder, above):
    span = Span(0, 0, 2, 1)
    found = estimate_span(builder, builder.rules(), span, above, None)
    begin = np.concatenate([[0], np.cumsum(found.lengths)])
    for family in range(2):
        single = estimate_family(builder.family(family, above))
        support, persons = above.entries(family)
        assert np.array_equal(single.counts.sum(axis=0), persons)
        first = int(builder.spine.child_offsets[0][family])
        for child, counts in enumerate(single.counts):
            own = slice(begin[first + child], begin[first + child + 1])
            assert np.array_equal(found.cells[own], support[counts > 0])
            assert np.array_equal(found.counts[own], counts[counts > 0])


def test_a_family_with_layers_is_written_and_read_back(builder, above):
    problem = builder.family(1, above)
    assert [one.layer for one in problem.measured if one.name == "up_to*places"] == list(range(6))
    again = problem_from_mapping(problem_to_mapping(problem))
    for one, other in zip(problem.measured, again.measured, strict=True):
        assert (one.name, one.layer) == (other.name, other.layer)
        assert np.array_equal(one.labels, other.labels)


def test_the_layers_of_a_query_are_stored_in_one_file(builder, above, tmp_path):
    wanted = builder.answers(0, 2, above)
    values = builder.source.measure_families(wanted)
    write_support_measurements(tmp_path, 0, wanted, values, builder.variances(0, 8), builder.spine, {})
    stored = StoredMeasurements(tmp_path, builder.spine)
    assert np.array_equal(stored.measure_families(wanted), values)
    (file,) = (tmp_path / "measurements" / "Town" / "up_to.places").glob("*.parquet")
    answers = pl.read_parquet(file)["answers"].to_list()
    assert all(one < other for own in answers for one, other in pairwise(own))
    assert len(answers[0]) == 6
