"""What the estimator is given of a family: the parent's support, the children's noisy answers, and nothing else."""

import numpy as np
import pytest

from tallyveil.confidential.measure import Measurer
from tallyveil.noise.key import insecure_key
from tallyveil.noise.source import NoiseSource
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.families.level import FamilyBuilder
from tallyveil.products.topdown.run.inputs import read_histograms
from tallyveil.products.topdown.run.preparation import compile_constraints
from tallyveil.products.topdown.run.public import read_public
from tallyveil.schema.counts import PublicCounts, compress_rows


@pytest.fixture
def builders(small_release):
    plan = load_plan(small_release)
    public = read_public(plan)
    spine, allocation = public.hierarchies.spine, public.allocation
    histograms = read_histograms(plan, spine)
    source = Measurer(histograms, plan.schema, allocation, NoiseSource(insecure_key("families")))
    constraints = compile_constraints(plan, public.hierarchies, histograms, public.bounds)

    def build(level):
        geolevel = spine.geolevels[level]
        queries = tuple(plan.query(name) for name in plan.strategy.queries(geolevel))
        stages = plan.estimation_of(geolevel).rounding
        rounding = tuple(tuple(plan.query(name) for name in stage) for stage in stages)
        return FamilyBuilder(plan, allocation, level, source, constraints, queries, rounding)

    return build


def parents(builder, entries):
    rows, cells, counts = (np.array(values, np.int64) for values in zip(*entries, strict=True))
    n = builder.spine.n_geounits(builder.level - 1)
    return PublicCounts(builder.spine.geolevels[builder.level - 1], *compress_rows(n, rows, cells, counts))


def test_a_root_may_have_every_possible_cell(builders):
    builder = builders(0)
    problem = builder.root(0, 1)
    assert problem.parent_counts is None
    assert problem.n_children == 1
    assert problem.support.tolist() == [0, 2, 3, 4, 5]  # the young in barracks are a structural zero
    assert {query.name for query in problem.measured} == {"total", "grown", "age*home"}


def test_a_family_has_its_parents_cells_and_its_childrens_answers(builders):
    builder = builders(1)
    above = parents(builder, [(0, 0, 50), (0, 4, 9), (1, 2, 7)])
    problem = builder.family(0, above)
    assert problem.support.tolist() == [0, 4]
    assert problem.parent_counts.tolist() == [50, 9]
    start, stop = builder.spine.child_offsets[0][:2]
    assert problem.children == tuple(builder.spine.geocodes[1][start:stop])
    for group in builder.queries:
        (measured,) = (one for one in problem.measured if one.name == group.name)
        labels = group.answers_of(problem.support)
        wanted = np.unique(labels[labels >= 0])
        values = builder.source.measure("Town", group.name, int(start), int(stop), wanted).values
        assert np.array_equal(measured.values, values)
        assert np.array_equal(wanted[measured.labels[labels >= 0]], labels[labels >= 0])


@pytest.mark.parametrize("level", [1, 2])
def test_weights_are_those_of_the_plan(builders, level):
    builder = builders(level)
    n = builder.spine.n_geounits(level)
    weights = builder.weights(0, n)
    assert weights.shape == (len(builder.queries), n)
    for own, group in zip(weights, builder.queries, strict=True):
        law = builder.plan.strategy.law(builder.geolevel, group.name)
        np.testing.assert_allclose(own, 1 / law.variance_float())


def test_what_is_settled_is_not_measured(builders):
    """An empty parent has empty children."""
    builder = builders(2)
    above = parents(builder, [(0, 0, 5), (2, 3, 1)])
    wanted = builder.answers(0, builder.spine.n_geounits(1), above)
    widths = np.asarray(wanted.widths)
    assert widths.shape[0] == builder.spine.n_geounits(1) or widths.shape[-1] == builder.spine.n_geounits(1)
    by_parent = widths if widths.shape[0] == builder.spine.n_geounits(1) else widths.T
    assert (by_parent[[0, 2]] > 0).any(axis=1).all()
    assert not by_parent[[1, 3, 4, 5, 6, 7]].any()
    assert builder.family(1, above).measured == ()


def test_the_rules_number_passes_and_stages(builders):
    rules = builders(1).rules()
    assert rules.pass_queries.tolist() == [[True, False, False], [False, True, True]]
    assert rules.stage.tolist() == [0, 1, 1]
    assert not rules.nearest.any()
    assert rules.slack.tolist() == [0.0, 0.0]


def test_only_constraints_that_reach_a_geolevel_bound_it(builders):
    assert [table.name for table in builders(0).bounding] == ["invariant total", "barracks"]
    assert [table.name for table in builders(2).bounding] == ["barracks"]
