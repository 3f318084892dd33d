"""A family on several threads beside the same family on one: every bit is the same."""

from dataclasses import replace

import numpy as np
import pytest
from tests.unit.estimation.tile_samples import random_tiles

from tallyveil.estimation.tiles import chunk_of_one
from tallyveil.kernels.tiles import on_threads
from tallyveil.kernels.tiles.chunk import COMPONENTS_AT, CONTRADICTORY, STEPS_AT, solve_chunk
from tallyveil.kernels.tiles.on_threads import SHARED, Crew, solve_family


def solved_by(chunk, tolerance, threads, shared=0):
    with Crew(threads) as crew:
        return solve_family(chunk, tolerance, crew, shared)


def require_same(problem, threads, shared=0):
    expected = solve_chunk(chunk_of_one(problem), 0.1)
    solved = solved_by(chunk_of_one(problem), 0.1, threads, shared)
    for field in expected._fields:
        assert np.array_equal(getattr(solved, field), getattr(expected, field)), (field, threads)
        assert getattr(solved, field).dtype == getattr(expected, field).dtype
    return expected


@pytest.mark.parametrize(
    "threads", [pytest.param(1, marks=pytest.mark.nightly), pytest.param(2, marks=pytest.mark.nightly), 5]
)
def test_counts_do_not_depend_on_the_number_of_threads(threads):
    """With more parts than there are tables or children, too."""
    steps = 0
    for seed in range(12):
        problem, _ = random_tiles(
            seed, uneven=seed % 2 == 0, own=seed % 3 > 0, most_children=40, most_columns=120
        )
        steps += int(require_same(problem, threads).effort[0, STEPS_AT])
    assert steps > 12  # Newton's method, whose direction the threads find together


@pytest.mark.parametrize("shared", [40, SHARED])
def test_threads_share_large_components_and_take_small_ones_whole(shared, monkeypatch):
    n_large, made = [], on_threads._team
    monkeypatch.setattr(on_threads, "_team", lambda *parts: n_large.append(1) or made(*parts))
    components, steps = 0, 0
    for seed in range(12):
        problem, _ = random_tiles(seed, most_children=40, most_columns=120)
        if seed % 2:  # the counts by themselves are measured, which couples no tables
            problem = replace(problem, measured=problem.measured[2:])
        effort = require_same(problem, 3, shared).effort[0]
        components, steps = components + effort[COMPONENTS_AT], steps + effort[STEPS_AT]
    assert components > 12
    assert steps > 0
    assert 0 < len(n_large) < components if shared < SHARED else not n_large


def test_roots_are_the_same():
    for seed in range(3):
        require_same(random_tiles(seed, root=True)[0], 2)


def test_what_threads_cannot_reach_one_thread_solves():
    """A tolerance that no prices reach leads to the further rungs."""
    problem, _ = random_tiles(2, most_children=6)
    expected = solve_chunk(chunk_of_one(problem), 1e-14)
    solved = solved_by(chunk_of_one(problem), 1e-14, 2)
    assert np.array_equal(solved.counts, expected.counts)
    assert np.array_equal(solved.effort, expected.effort)


def test_a_family_that_contradicts_itself_has_no_counts():
    problem, _ = random_tiles(3)
    contradiction = chunk_of_one(problem)._replace(fixed=problem.fixed.reshape(-1) + 1)
    solved = solved_by(contradiction, 0.1, 2)
    assert solved.ended.tolist() == [CONTRADICTORY]
    assert not len(solved.counts)


def test_parts_cover_every_table_and_child_once(monkeypatch):
    teams = []
    made = on_threads._team

    def noted(crew, source, members, tables):
        team = made(crew, source, members, tables)
        teams.append((team, tables))
        return team

    monkeypatch.setattr(on_threads, "_team", noted)
    solved_by(chunk_of_one(random_tiles(5, most_children=30)[0]), 0.1, 3)
    for team, tables in teams:
        covered = [p for first, last in team.spans for p in range(first, last)]
        assert covered == list(range(tables.upright.size))
        children = np.concatenate([strip.child for strip in team.strips])
        assert sorted(children.tolist()) == list(range(tables.label_weight.shape[1]))
        assert np.array_equal(team.strips[0].begin, tables.row_begin[:-1])
        assert np.array_equal(team.strips[-1].end, tables.row_begin[1:])
