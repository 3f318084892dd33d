"""Stability: exact, attained by a record, and 9 for production."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.products.safetab.public.iterations import (
    View,
    common_record,
    groups_of,
    read_iterations,
    stability_of,
)
from tallyveil.products.safetab.public.plan import read_plan


def view_of(alone, combination, ethnicity, n_adaptive=99):
    maps = (np.array(m, np.int16) for m in (alone, combination, ethnicity))
    return View(1, True, (), n_adaptive, *maps)


@pytest.mark.parametrize("nationwide", [True, False])
@pytest.mark.parametrize("level", [1, 2])
def test_production_is_9_with_8_codes(production, level, nationwide):
    view = read_iterations(production).view(level, nationwide=nationwide)
    stability = stability_of(view, 8)
    assert stability.groups == stability.formula == 9
    assert len(stability.race_codes) == 8
    assert groups_of(view, stability.race_codes, stability.ethnicity_code) == 9


def test_production_has_one_record_that_attains_all_levels_at_once(production):
    for run in read_plan(production).runs:
        assert run.witness is not None
        races, ethnicity = run.witness
        files = read_iterations(production)
        own = [files.codes.index(code) for code in races]
        for one in run.sets:
            assert groups_of(one.view, own, files.codes.index(ethnicity)) == 9


maps = st.lists(st.integers(-1, 4), min_size=1, max_size=6)


@given(st.data(), st.integers(1, 4))
def test_the_maximum_is_that_of_all_records(data, k):
    alone = data.draw(maps)
    n = len(alone)
    columns = [data.draw(st.lists(st.integers(-1, 4), min_size=n, max_size=n)) for _ in range(2)]
    # Alone, combination and ethnicity iterations are different iterations.
    view = view_of(
        alone,
        [c + 10 if c >= 0 else -1 for c in columns[0]],
        [c + 20 if c >= 0 else -1 for c in columns[1]],
        13,
    )
    best = max(
        groups_of(view, races, ethnicity)
        for size in range(1, k + 1)
        for races in itertools.combinations(range(n), min(size, n))
        for ethnicity in range(n)
    )
    stability = stability_of(view, k)
    assert stability.groups == best
    assert groups_of(view, stability.race_codes, stability.ethnicity_code) == best
    assert 1 <= len(stability.race_codes) <= k
    only = max(
        sum(i >= 13 for i in _groups(view, races, ethnicity))
        for size in range(1, k + 1)
        for races in itertools.combinations(range(n), min(size, n))
        for ethnicity in range(n)
    )
    assert only <= stability.total_only <= stability.groups


def _groups(view, races, ethnicity):
    alone = {int(view.alone_of[c]) for c in races}
    found = {int(view.combination_of[c]) for c in races} | (alone if len(alone) == 1 else set())
    return (found | {int(view.ethnicity_of[ethnicity])}) - {-1}


def test_the_published_formula_is_no_bound_where_one_alone_iteration_spans_many_combinations():
    view = view_of([0] * 8, range(1, 9), [20] * 8)
    stability = stability_of(view, 8)
    assert stability.formula == 9
    assert stability.groups == 10
    assert groups_of(view, stability.race_codes, stability.ethnicity_code) == 10


def test_no_common_record_where_the_levels_pull_apart():
    """Two codes count twice at one level and once at the other."""
    first = view_of([-1] * 4, [0, 1, 2, 2], [-1] * 4)
    second = view_of([-1] * 4, [0, 0, 1, 2], [-1] * 4)
    found = [stability_of(view, 2) for view in (first, second)]
    assert common_record([first, second], found, 2) is not None
    apart = view_of([-1] * 4, [0, 0, -1, -1], [-1] * 4), view_of([-1] * 4, [-1, -1, 0, 0], [-1] * 4)
    assert common_record(apart, [stability_of(view, 1) for view in apart], 1) is None
