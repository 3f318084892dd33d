"""Families of a pass as the compiled loop takes them, beside the same families gathered one by one."""

import numpy as np
import pytest
from tests.outer_worlds import write_persons

from tallyveil.budget.allocation import allocation_of
from tallyveil.confidential.measure import Measurer
from tallyveil.estimation.problem import MeasuredQuery, TileProblem
from tallyveil.estimation.tiles import estimate_tiles
from tallyveil.kernels.tiles.chunk import solve_chunk
from tallyveil.measurements import answers as family_answers
from tallyveil.noise.key import insecure_key
from tallyveil.noise.source import NoiseSource
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.plans.outer import measured_by_pass
from tallyveil.postprocess.passes.groups import FixedGroups, in_groups
from tallyveil.postprocess.passes.level import PassBuilder
from tallyveil.products.topdown.run.inputs import read_histograms, read_spine
from tallyveil.schema.counts import PublicCounts, compress_rows
from tallyveil.schema.nested_queries import representative_cells


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    _, path = write_persons(tmp_path_factory.mktemp("world"))
    plan = load_plan(path)
    spine = read_spine(plan.geography)
    histograms = read_histograms(plan, spine)
    allocation = allocation_of(plan.strategy, spine)
    source = Measurer(histograms, plan.schema, allocation, NoiseSource(insecure_key("families")))
    return plan, spine, histograms, allocation, source


def counted(histogram, group):
    """True counts of the cells of a pass, as if they were estimates."""
    rows, cells, counts = histogram.rows(0, histogram.n_geounits)
    named = representative_cells(group, group.answers_of(cells))
    return PublicCounts(histogram.geolevel, *compress_rows(histogram.n_geounits, rows, named, counts))


def builder_of(world, level, number):
    plan, _, histograms, allocation, source = world
    own = (plan.query("home*grown"),) if number == 0 else (plan.query(plan.outer[0].cells),)
    levels = tuple(in_groups(own, counted(one, plan.query(plan.outer[number].cells))) for one in histograms)
    measured = measured_by_pass(plan.schema, plan.outer, plan.strategy.queries("Town"))[number]
    return PassBuilder(
        schema=plan.schema,
        allocation=allocation,
        source=source,
        level=level,
        cells=plan.query(plan.outer[number].cells),
        groups=FixedGroups(own, levels),
        queries=tuple(plan.query(name) for name in measured),
        chain=tuple(plan.query(name) for name in plan.outer[number].rounding),
    )


def plain_problem(builder, parent, above):
    """The problem of one parent, from dense tables."""
    cells, persons = above.entries(parent)
    start, stop = (int(builder.spine.child_offsets[builder.level - 1][parent + i]) for i in (0, 1))
    offsets, groups, counts = builder.groups.levels[builder.level]
    dense = np.zeros((stop - start, builder.groups.size), dtype=np.int64)
    for child in range(start, stop):
        own = slice(offsets[child], offsets[child + 1])
        dense[child - start, groups[own]] = counts[own]
    of_cells = builder.groups.groups_of(cells)
    present = sorted(set(of_cells.tolist()))
    measured = []
    for group in builder.queries:
        answers = sorted(set(group.answers_of(cells).tolist()) - {-1})
        labels = np.array(
            [answers.index(a) if a in answers else -1 for a in group.answers_of(cells).tolist()]
        )
        noisy = builder.source.measure(
            builder.geolevel, group.name, start, stop, np.array(answers, dtype=np.int64)
        )
        measured.append(
            MeasuredQuery(group.name, labels.astype(np.int32), noisy.values.astype(float), noisy.variances)
        )
    chain: list[np.ndarray] = []
    sets: list[tuple[int, ...]] = [(present.index(g),) for g in of_cells.tolist()]
    for group in builder.chain:
        sets = [(*own, a) for own, a in zip(sets, group.answers_of(cells).tolist(), strict=True)]
        known = sorted(set(sets))
        chain.append(np.array([known.index(own) for own in sets], dtype=np.int32))
    code = str(builder.spine.geocodes[builder.level - 1][parent])
    return TileProblem(
        geocode=code,
        geolevel=builder.spine.geolevels[builder.level - 1],
        children=tuple(str(c) for c in range(start, stop)),
        columns=cells,
        parent_counts=persons,
        group=np.array([present.index(g) for g in of_cells.tolist()], dtype=np.int32),
        fixed=dense[:, present],
        measured=tuple(measured),
        chain=tuple(chain),
        chain_weights=np.ones(len(chain)),
    )


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("number", [0, 1])
def test_a_chunk_holds_the_families_one_by_one(world, level, number, monkeypatch):
    monkeypatch.setattr(family_answers, "MOST_CELLS_KEPT", 0 if number else 1 << 18)
    builder = builder_of(world, level, number)
    above = counted(world[2][level - 1], builder.cells)
    wanted = builder.answers(0, above.n_geounits, above)
    chunk = builder.chunk(0, above.n_geounits, above, wanted, builder.source.measure_families(wanted))
    solved = solve_chunk(chunk, 0.1)
    for parent in range(above.n_geounits):
        problem = plain_problem(builder, parent, above)
        solution = estimate_tiles(problem)
        begin = int(chunk.child_begin[parent])
        for child in range(len(problem.children)):
            own = slice(int(solved.offsets[begin + child]), int(solved.offsets[begin + child + 1]))
            found = np.zeros(len(problem.columns), dtype=np.int64)
            found[solved.columns[own]] = solved.counts[own]
            assert np.array_equal(found, solution.counts[child])
    # The same families in two chunks.
    half = above.n_geounits // 2
    parts = []
    for first, last in ((0, half), (half, above.n_geounits)):
        wanted = builder.answers(first, last, above)
        parts.append(
            solve_chunk(
                builder.chunk(first, last, above, wanted, builder.source.measure_families(wanted)), 0.1
            )
        )
    assert np.array_equal(np.concatenate([one.counts for one in parts]), solved.counts)
