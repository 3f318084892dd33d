"""Whole cells from the counts of passes, and the random choice of what the last pass leaves open."""

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import chi2
from tests.outer_worlds import UNITS

from tallyveil.errors import SolverError
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.passes import whole_cells
from tallyveil.postprocess.passes.whole_cells import Choice, whole_counts
from tallyveil.schema.counts import PublicCounts, compress_rows
from tallyveil.schema.nested_queries import representative_cells


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Units in 40 blocks: true cells, and what three passes count of them."""
    folder = tmp_path_factory.mktemp("plan")
    (folder / "units.toml").write_text(UNITS)
    plan = load_plan(folder / "units.toml")
    schema, rng = plan.schema, np.random.default_rng(4)
    cells = np.arange(schema.size)
    cells = cells[schema.possible(cells)]
    rows, chosen = (grid.reshape(-1) for grid in np.meshgrid(np.arange(40), cells, indexing="ij"))
    counts = rng.integers(0, 4, len(rows)) * (rows % 7 != 2)
    passes = [plan.query(one.cells) for one in plan.outer]
    made = []
    for group in passes:
        answers = group.answers_of(chosen)
        inside = answers >= 0
        triplets = rows[inside], representative_cells(group, answers[inside]), counts[inside]
        made.append(PublicCounts("Block", *compress_rows(40, *triplets)))
    return schema, passes, made


def test_every_pass_is_kept_and_places_do_not_matter(world, monkeypatch):
    schema, passes, made = world
    whole = whole_counts(schema, passes, made)
    assert schema.possible(whole.cells).all()
    for group, counts in zip(passes, made, strict=True):
        rows, cells, persons = whole.rows(0, 40)
        answers = group.answers_of(cells)
        inside = answers >= 0
        triplets = rows[inside], representative_cells(group, answers[inside]), persons[inside]
        for found, wanted in zip(
            compress_rows(40, *triplets), (counts.offsets, counts.cells, counts.counts), strict=True
        ):
            assert np.array_equal(found, wanted)
    for entries, records in ((4, 1 << 20), (40, 2), (160, 16)):
        monkeypatch.setattr(whole_cells, "ENTRIES_AT_ONCE", entries)
        monkeypatch.setattr(whole_cells, "RECORDS_AT_ONCE", records)
        again = whole_counts(schema, passes, made)
        assert np.array_equal(again.cells, whole.cells)
        assert np.array_equal(again.counts, whole.counts)


def test_every_choice_of_records_is_equally_likely(world):
    """Four renters of different kinds, two of whom pay nothing: six choices, 3,000 blocks.

    Size: 0.001 by the chi-square law with 5 degrees of freedom. Power: a choice that is 25 % too likely fails with
    probability above 0.97, as the last lines show.
    """
    schema, passes, _ = world
    n = 3000
    kinds = schema.encode([[1, holder, size] for holder in (0, 1) for size in (0, 1)])
    cells = representative_cells(passes[-1], passes[-1].answers_of(kinds))
    tenures = representative_cells(passes[0], np.array([1, 2]))
    rows = np.arange(n)
    own = np.repeat(rows, 4), np.tile(np.sort(cells), n), np.ones(4 * n, dtype=np.int64)
    earlier = np.repeat(rows, 2), np.tile(tenures, n), np.full(2 * n, 2)
    choice = Choice.of(passes[-1], passes[0], bytes(32))
    found_rows, found, persons = choice.cells(own, earlier, 0, n)
    assert persons.sum() == 4 * n
    codes = schema.decode(found)
    free = codes[:, 0] == 2
    marks = np.zeros((n, 4), dtype=bool)
    marks[found_rows[free], codes[free][:, 1] * 2 + codes[free][:, 2]] = True
    assert (marks.sum(axis=1) == 2).all()
    patterns = [tuple(p) for p in sorted(set(permutations((True, True, False, False))))]
    counted = np.array([(marks == pattern).all(axis=1).sum() for pattern in patterns])
    assert ((counted - n / 6) ** 2 / (n / 6)).sum() < chi2.isf(0.001, 5)
    expected = np.full(6, n / 6 * (1 - 0.25 / 5))
    expected[0] = n / 6 * 1.25
    shift = ((expected - n / 6) ** 2 / (n / 6)).sum()
    assert shift > 2 * chi2.isf(0.001, 5) / 1.5


def test_passes_that_contradict_each_other_stop_the_run(world):
    schema, passes, made = world
    changed = made[0].counts.copy()
    changed[0] += 1
    wrong = PublicCounts("Block", made[0].offsets, made[0].cells, changed)
    with pytest.raises(SolverError, match="different numbers"):
        whole_counts(schema, passes, [wrong, *made[1:]])
