"""Cell keys and rounding: published counts follow from counts and keys, and their laws are what they do."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from tests.comparisons import publications, small_input, targets_of

from tallyveil.compare.draws import Draws
from tallyveil.compare.methods.cell_key import CellKey, read_perturbation
from tallyveil.compare.methods.keyed import Perturbation
from tallyveil.compare.methods.method import Office
from tallyveil.compare.methods.rounding import RandomRounding, Rounding
from tallyveil.compare.published import IMPOSSIBLE, PublishedTable
from tallyveil.errors import ConfigError

KEYED = [
    CellKey(name="key", largest=2, variance=Fraction(1)),
    CellKey(name="key", largest=3, variance=Fraction(2), never=1, threshold=3),
    RandomRounding(name="random", base=3),
    Rounding(name="nearest", base=5),
]


def test_rows_beyond_the_last_are_used_again():
    """As the ONS's rows 501 to 750 are, here the rows 2 to 4."""
    table = Perturbation(np.arange(5)[:, None], 2)
    assert table.rows(np.array([0, 1, 4, 5, 6, 7, 8])).tolist() == [0, 1, 4, 2, 3, 4, 2]


@pytest.mark.parametrize("method", KEYED)
def test_the_law_is_the_share_of_the_keys(method):
    perturbation = publications(method, targets_of(small_input(24)))[0].law
    keys = np.arange(perturbation.n_keys)
    for count in range(9):
        published = perturbation.changed(np.full(keys.size, count), keys)
        shown = published.shown
        outcomes = [PublishedTable(np.array([value]), None if published.hidden is None else np.array([False]))
                    for value in np.unique(published.counts[shown])]  # fmt: skip
        shares = [float((published.counts[shown] == item.counts[0]).sum()) / keys.size for item in outcomes]
        if not shown.all():
            outcomes.append(PublishedTable(np.array([0]), np.array([True])))
            shares.append(float((~shown).mean()))
        logs = [float(perturbation.log_likelihood(("", ""), np.array([count]), item)[0]) for item in outcomes]
        assert np.allclose(np.exp(logs), shares)
        assert np.isclose(sum(shares), 1)


def test_impossible_counts_are_impossible():
    law = publications(Rounding(name="nearest", base=5), targets_of(small_input(24)))[0].law
    assert (
        law.log_likelihood(("", ""), np.array([-1, 3]), PublishedTable(np.array([0, 0]))).tolist()
        == [IMPOSSIBLE] * 2
    )


@pytest.mark.parametrize(
    ("largest", "variance", "never"), [(2, "1", 0), (5, "3", 0), (5, "3", 2), (10, "5", 0)]
)
def test_a_table_of_maximum_entropy_is_unbiased_and_no_wider_than_asked(largest, variance, never):
    table = CellKey(name="key", largest=largest, variance=Fraction(variance), never=never).stated_law()
    assert not table.shifts[0].any()
    for count in range(1, table.shifts.shape[0]):
        shifts = table.shifts[count]
        # A key is 1/65,536, and a change of 10 by half a key is 8e-5.
        assert abs(shifts.mean()) < 1e-3
        assert shifts.var() < Fraction(variance) + Fraction(1, 100)
        assert np.abs(shifts).max() <= largest
        published = count + shifts
        assert published.min() >= 0
        assert not ((published > 0) & (published <= never)).any()
    assert table.shifts[-1].var() > float(Fraction(variance)) - 0.01


def test_random_rounding_is_unbiased_and_fixes_multiples():
    law = publications(RandomRounding(name="random", base=3), targets_of(small_input(24)))[0].law
    assert (law.shifts.sum(axis=1) == 0).all()
    assert not law.shifts[0].any()


def test_the_same_records_have_the_same_count_in_every_table():
    """A town of one inhabited block is published as this block is."""
    shared = small_input(24)
    shared.counts[1:12] = 0
    published = publications(KEYED[0], targets_of(shared))[0]
    for query in shared.queries:
        town, block = (published.tables[areas, query.name].counts[0] for areas in ("Town", "Block"))
        assert town.tolist() == block.tolist()


def test_another_draw_has_other_keys_and_the_same_draw_the_same():
    targets = targets_of(small_input(24))
    tables = [publications(KEYED[0], targets, draw)[0].tables["Block", "group"].counts for draw in (0, 0, 1)]
    assert np.array_equal(tables[0], tables[1])
    assert not np.array_equal(tables[0], tables[2])


def test_a_table_of_the_package_ptable_is_read(tmp_path):
    rows = [(0, 0, 1.0, 0, 1.0), (1, 0, 0.25, -1, 0.25), (1, 1, 0.5, 0, 0.75), (1, 2, 0.25, 1, 1.0)]
    path = tmp_path / "ptable.csv"
    pl.DataFrame(rows, schema=["i", "j", "p", "v", "p_int_ub"], orient="row").write_csv(path, separator=";")
    table = read_perturbation(path)
    values, number = np.unique(table.shifts[1], return_counts=True)
    assert values.tolist() == [-1, 0, 1]
    assert (number / table.n_keys).tolist() == [0.25, 0.5, 0.25]
    assert table.rows(np.array([1, 2, 900])).tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "text", ["a,b\n1,2\n", "pcv,ckey,pvalue\n1,0,-1\n", "i,v,p_int_ub\n0,0,1\n1,1,0.5\n"]
)
def test_what_is_no_whole_table_is_refused(tmp_path, text):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_perturbation(path)
    assert refused.value.code == "perturbation-table"


def test_records_keep_their_keys_from_year_to_year():
    """Where nothing changed the published count is the same; a count that changed gets another key."""
    before = small_input(240)
    counts = before.counts.copy()
    moved = np.random.default_rng(5).random(counts.shape) < 0.2
    counts[moved] += 1
    after = replace(before, counts=counts, earlier=before.counts)
    method = CellKey(name="key", largest=5, variance=Fraction(3))
    first, second = (
        method.publish(Office(shared, None, "group", Draws(text), Draws("keys"), None)).tables
        for shared, text in ((before, "first"), (after, "second"))
    )
    same = first["Block", "age*group"].counts == second["Block", "age*group"].counts
    assert same[~moved].all()
    changes = second["Block", "age*group"].counts - first["Block", "age*group"].counts
    # Two independent changes of variance 3 each, or of less where the count is small.
    assert changes[moved].mean() == pytest.approx(1, abs=0.3)
    assert len(set(changes[moved].tolist())) > 4
