"""A confidential table: read whatever form it has, checked against what its owner states, and released or not."""

from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from tallyveil.errors import (
    ConfigError,
    ConstraintError,
    SchemaError,
    SolverError,
    StoreError,
    TallyveilError,
)
from tallyveil.noise import NoiseSource, insecure_key
from tallyveil.products.lattice import confidential as subspace_table
from tallyveil.products.lattice.confidential import (
    ConfidentialTable,
    check_stated_totals,
    keeps_invariants,
    read_confidential_table,
    release_table,
    require_summable,
    require_within,
    restricted_sampler,
    restricted_table,
)
from tallyveil.schema.attribute import Attribute
from tallyveil.schema.schema import Schema
from tallyveil.subspace.constraints import ConstraintSystem, recognise
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.lattice import lattice_of
from tallyveil.subspace.mechanisms import GeneralisedLaplace, Norm
from tallyveil.subspace.nonnegative import draw_restricted
from tallyveil.subspace.table import Margin, WeightedSum, constrain

SCHEMA = Schema("t", (Attribute("a", ("x", "y")), Attribute("b", ("1", "2", "3"))))
ROWS = [("x", "1", 4), ("y", "3", 7), ("x", "1", 2), ("x", "2", -5)]
COLUMNS = {"a": "first", "b": "second"}
COUNTS = [6, -5, 0, 0, 0, 7]


def written(path, rows=ROWS, count=True):
    frame = pl.DataFrame(rows, schema=["first", "second", "n"], orient="row")
    frame = frame if count else frame.drop("n")
    if path.suffix == ".csv":
        frame.write_csv(path)
    else:
        frame.write_parquet(path)
    return path


def read(path, count="n"):
    return read_confidential_table(path, count=count, columns=COLUMNS, schema=SCHEMA)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_rows_of_a_cell_add_up_and_missing_cells_are_zero(tmp_path, suffix):
    table = read(written(tmp_path / f"t{suffix}"))
    assert table.counts.tolist() == COUNTS
    with pytest.raises(ValueError, match="read-only"):
        table.counts[0] = 1
    persons = read(written(tmp_path / f"u{suffix}", count=False), None)
    assert persons.counts.tolist() == [2, 1, 0, 0, 0, 1]
    assert table.counts.dtype == persons.counts.dtype == np.int64


def test_levels_may_be_numbers(tmp_path):
    frame = pl.DataFrame({"first": ["x"], "second": [3], "n": [2.0]})
    frame.write_parquet(tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet").counts.tolist() == [0, 0, 2, 0, 0, 0]


def test_only_equal_counts_have_equal_digests_and_nothing_is_shown(tmp_path):
    table = read(written(tmp_path / "t.csv"))
    again = read(written(tmp_path / "u.parquet", list(reversed(ROWS))))
    other = read(written(tmp_path / "v.csv", [*ROWS, ("y", "1", 1)]))
    assert table.digest() == again.digest() != other.digest()
    assert repr(table) == "ConfidentialTable(counts=<redacted>)" or "redacted" in repr(table)
    assert not any(str(count) in repr(table) for count in (6, 7))


def test_the_digest_of_a_table_is_pinned():
    """A later version goes on with a run that this one began only if it finds the same digest."""
    assert (
        table_of(COUNTS).digest().hex() == "572f8aaede098b422245c1f6953c299c33457a58a4628bd16d231e54561be46f"
    )


@pytest.mark.parametrize("bad", [2.5, None, "four", 2**41])
def test_counts_that_are_none_are_refused(tmp_path, bad):
    frame = pl.DataFrame({"first": ["x", "y"], "second": ["1", "1"], "n": [bad, bad]}, strict=False)
    frame.write_parquet(tmp_path / "t.parquet")
    with pytest.raises(TallyveilError) as caught:
        read(tmp_path / "t.parquet")
    assert "four" not in str(caught.value)
    assert "2.5" not in str(caught.value)


@pytest.mark.parametrize("bad", ["z", None, ""])
def test_values_that_are_no_level_are_refused_by_column(tmp_path, bad):
    frame = pl.DataFrame(
        {"first": ["x", bad], "second": ["1", "1"], "n": [1, 1]}, schema_overrides={"first": pl.String}
    )
    frame.write_parquet(tmp_path / "t.parquet")
    with pytest.raises(SchemaError) as caught:
        read(tmp_path / "t.parquet")
    assert caught.value.code == "unknown-level"
    assert "'first'" in str(caught.value)
    assert "second" not in str(caught.value)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (("x", "1", None), "bad-counts"),
        (("x", "1", 2**40 + 1), "bad-counts"),
        (("x", "1", -(2**40) - 1), "bad-counts"),
        (("z", "1", 1), "unknown-level"),
        (("x", "4", 1), "unknown-level"),
    ],
)
def test_a_fault_in_any_batch_is_found(tmp_path, monkeypatch, suffix, place, bad, code):
    """Sound batches before it and after it do not make it forgotten."""
    monkeypatch.setattr("tallyveil.storage.read.ROWS_AT_ONCE", 1)
    with pytest.raises(SchemaError) as caught:
        read(written(tmp_path / f"t{suffix}", [*ROWS[:place], bad, *ROWS[place:]]))
    assert caught.value.code == code


@pytest.mark.parametrize("count", [2**40, -(2**40)])
def test_one_count_may_be_the_largest(tmp_path, count):
    assert read(written(tmp_path / "t.csv", [("x", "2", count)])).counts.tolist() == [0, count, 0, 0, 0, 0]


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_batches_are_added_up_to_the_largest_sum_of_absolute_values(tmp_path, monkeypatch, at_once):
    monkeypatch.setattr("tallyveil.storage.read.ROWS_AT_ONCE", at_once)
    assert read(written(tmp_path / "t.csv")).counts.tolist() == COUNTS
    monkeypatch.setattr(subspace_table, "LARGEST_COUNT", 18)  # 4 + 7 + 2 + 5
    assert read(written(tmp_path / "t.csv")).counts.tolist() == COUNTS
    monkeypatch.setattr(subspace_table, "LARGEST_COUNT", 17)
    with pytest.raises(SchemaError) as caught:
        read(written(tmp_path / "t.csv"))
    assert caught.value.code == "bad-counts"


def test_a_whole_column_of_levels_is_told_with_its_own_name(tmp_path):
    rows = [("z", "1", 1), ("x", "9", 1)]
    with pytest.raises(SchemaError, match=r"'first', 'second'"):
        read(written(tmp_path / "t.csv", rows))


@pytest.mark.parametrize(
    ("column", "values", "code"),
    [
        ("first", pl.Series([["x"], ["y"]]), "unknown-level"),
        ("n", pl.Series([3, 4], dtype=pl.Int32).cast(pl.Date), "bad-counts"),
    ],
)
def test_columns_of_a_kind_that_holds_no_levels_or_counts_are_refused(tmp_path, column, values, code):
    frame = pl.DataFrame({"first": ["x", "y"], "second": ["1", "2"], "n": [1, 2]})
    frame.with_columns(values.alias(column)).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(SchemaError) as caught:
        read(tmp_path / "t.parquet")
    assert caught.value.code == code
    assert f"of the table file {tmp_path / 't.parquet'} hold" in str(caught.value)


def test_files_and_columns_that_are_missing(tmp_path):
    with pytest.raises(StoreError, match=r"the table file .* does not exist"):
        read(tmp_path / "nowhere.csv")
    with pytest.raises(ConfigError, match=r"the table file (.|\n)*'weight'") as caught:
        read(written(tmp_path / "t.csv"), "weight")
    assert "second" not in str(caught.value)  # what stands in the file is not shown
    (tmp_path / "t.csv").write_text((tmp_path / "t.csv").read_text() + "x,1,1,secret\n")
    with pytest.raises(StoreError, match="reading the table file") as caught:
        read(tmp_path / "t.csv")
    assert "secret" not in str(caught.value)


def table_of(counts):
    return ConfidentialTable(np.array(counts, np.int64))


def stated(total):
    terms = (((("a", ("x",)),), 1.0),)
    return constrain(SCHEMA, (Margin("b", ("b",)), WeightedSum("all x", terms, total)))


def test_stated_totals_that_the_table_has_not_are_refused_without_a_number():
    table = table_of(COUNTS)
    check_stated_totals(table, stated(1))
    check_stated_totals(table, constrain(SCHEMA, ()))
    for total in (0, 2, -1):
        with pytest.raises(ConstraintError) as caught:
            check_stated_totals(table, stated(total))
        assert caught.value.code == "subspace-totals-broken"
        assert "all x" in str(caught.value)
        assert not any(character.isdigit() for character in str(caught.value))


def test_at_most_eight_constraints_are_named():
    def said(n):
        sums = (WeightedSum(f"sum {name}", (((("a", ("x",)),), 1.0),), 0) for name in "abcdefghi"[:n])
        with pytest.raises(ConstraintError) as caught:
            check_stated_totals(table_of(COUNTS), constrain(SCHEMA, tuple(sums)))
        return str(caught.value)

    assert "('sum a', 'sum b')" in said(2)
    assert "'sum h')" in said(9)


@pytest.mark.parametrize(("largest", "refused"), [(2**40 - 1, False), (2**40, True)])
def test_sums_may_be_as_large_as_noise_leaves_room_for(largest, refused):
    """2**21 times the largest count and the largest noise, 2**40 each, is 2**62, the least that is refused."""
    system = ConstraintSystem.from_matrix([[2**20, 0, -(2**20), 0, 0, 0], [0, 1, 1, 1, 1, 0]])
    for counts in ([1, 0, largest, 0, 0, 0], [0, 0, -largest, 0, 0, 0]):
        if refused:
            with pytest.raises(ConstraintError) as caught:
                require_summable(table_of(counts), system)
            assert caught.value.code == "subspace-constraints"
        else:
            require_summable(table_of(counts), system)


def test_a_table_without_constraints_has_no_sums_that_overflow():
    require_summable(table_of([2**40, 0, 0, 0, 0, 0]), constrain(SCHEMA, ()).system)


def test_only_tables_without_negative_counts_have_tables_beside_them_without():
    require_within(table_of([0, 0, 1, 2, 3, 4]), None)
    require_within(table_of([0, 0, 1, 2, 3, 4]), 4)
    with pytest.raises(SchemaError, match="a count above 3"):
        require_within(table_of([0, 0, 1, 2, 3, 4]), 3)
    for place in range(SCHEMA.size):
        counts = np.zeros(SCHEMA.size, np.int64)
        counts[place] = -1
        with pytest.raises(SchemaError) as caught:
            require_within(ConfidentialTable(counts), None)
        assert caught.value.code == "bad-counts"
        assert not any(character.isdigit() for character in str(caught.value))


def test_sums_that_may_overflow_are_refused():
    heavy = ConstraintSystem.from_matrix([[2**22, 0, 0, 0, 0, 2**22]])
    constraints = type(stated(1))(heavy, ())
    with pytest.raises(ConstraintError) as caught:
        check_stated_totals(table_of(COUNTS), constraints)
    assert caught.value.code == "subspace-constraints"


def test_a_restricted_table_is_drawn_around_the_true_one():
    table = table_of([6, 5, 0, 0, 0, 7])
    structure = recognise(ConstraintSystem.from_sets([range(3), range(3, 6)], SCHEMA.size))
    place = NoiseAddress(NoiseSource(insecure_key("table")), 3, 4)
    half, wide = GeneralisedLaplace(Norm.L1, Fraction(1, 2)), GeneralisedLaplace(Norm.L1, Fraction(50))
    found = restricted_table(table, place, structure, half, None, None)
    assert found.tolist() == draw_restricted(place, table.counts, structure, Fraction(1, 2)).tolist()
    assert (found.reshape(2, 3).sum(axis=1) == [11, 7]).all()
    assert (found >= 0).all()
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 0
    assert restricted_table(table, place, structure, wide, None, None).tolist() == table.counts.tolist()


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_restricted_table_under_sums_that_cross_is_drawn_from_their_states(norm):
    table, law = table_of([1, 1, 0, 0, 0, 1]), GeneralisedLaplace(norm, Fraction(1, 2))
    lattice = lattice_of(ConstraintSystem.from_sets([[0, 1, 2], [0, 3], [1, 4]], SCHEMA.size))
    place = NoiseAddress(NoiseSource(insecure_key("table")), 3, 4)
    sampler = restricted_sampler(table, lattice, law, 1)
    assert sampler is not None
    found = {
        tuple(
            restricted_table(
                table, NoiseAddress(place.source, 3, i), lattice.structure, law, sampler, 1
            ).tolist()
        )
        for i in range(20)
    }
    assert len(found) > 2
    for counts in found:
        assert set(counts) <= {0, 1}
        assert keeps_invariants(table, np.array(counts), lattice.system)
    blocks = lattice_of(ConstraintSystem.from_sets([range(6)], SCHEMA.size))
    assert (restricted_sampler(table, blocks, law, None) is None) is (norm == "l1")


def test_only_noise_that_leaves_the_invariants_alone_is_released():
    table, system = table_of(COUNTS), stated(1).system
    noise = np.array([1, -1, 0, -1, 1, 0])
    noisy = release_table(table, noise, system)
    assert noisy.tolist() == (np.array(COUNTS) + noise).tolist()
    assert keeps_invariants(table, noisy, system)
    with pytest.raises(ValueError, match="read-only"):
        noisy[0] = 0
    for cell in range(SCHEMA.size):
        wrong = noise.copy()
        wrong[cell] += 1
        with pytest.raises(SolverError) as caught:
            release_table(table, wrong, system)
        assert caught.value.code == "check-failed"
        assert not keeps_invariants(table, table.counts + wrong, system)
