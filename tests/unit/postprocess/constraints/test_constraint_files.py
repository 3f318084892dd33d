"""Public bounds: read from their table, refused where it is wrong, published, and read back."""

from dataclasses import replace
from datetime import date

import numpy as np
import polars as pl
import pytest

from tallyveil.errors import ConstraintError, SchemaError, StoreError
from tallyveil.estimation.problem import UNBOUNDED
from tallyveil.geography.areas import plain_hierarchies
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess import constraint_files, constraints
from tallyveil.postprocess.constraint_files import stated_bounds
from tallyveil.postprocess.constraints import bounds_table, public_zeros, zeros_of
from tallyveil.products.topdown.run.inputs import read_spine


@pytest.fixture
def plan(small_release):
    return load_plan(small_release)


@pytest.fixture
def spine(plan):
    return read_spine(plan.geography)


@pytest.fixture
def whole(spine):
    return plain_hierarchies(spine)


def changed(plan, **columns):
    path = plan.bounds[0].path
    pl.read_parquet(path).with_columns(**columns).write_parquet(path)


def test_rows_of_the_table_stand_at_their_place_and_others_are_zero(plan, spine, whole):
    table = bounds_table(plan, plan.bounds[0], whole)
    rows = pl.read_parquet(plan.bounds[0].path)
    lower, upper = table.bounds_of(2, 0, spine.n_geounits(2))
    given = {(g, h): (low, high) for g, h, low, high in rows.iter_rows()}
    for block, code in enumerate(spine.geocodes[2]):
        for answer, home in enumerate(("house", "barracks")):
            low, high = given.get((code, home), (0, 0))
            assert lower[block, answer] == low
            assert upper[block, answer] == (UNBOUNDED if high is None else high)


def test_bounds_without_a_row_may_be_open(plan, spine, whole):
    (open_ended,) = (replace(bounds, missing="unbounded") for bounds in plan.bounds)
    _, upper = bounds_table(plan, open_ended, whole).bounds_of(2, 0, spine.n_geounits(2))
    assert (upper == UNBOUNDED).all()


@pytest.mark.parametrize(
    ("columns", "code"),
    [
        ({"geocode": pl.lit("X0101")}, "bounds-geocode"),
        ({"home": pl.lit("tent")}, "bounds-answer"),
        ({"home": pl.lit("house"), "geocode": pl.lit("P0000")}, "bounds-twice"),
        ({"lower": pl.lit(-1)}, "bounds-value"),
        ({"lower": pl.lit(0.5)}, "bounds-value"),
        ({"lower": pl.lit("0.5").cast(pl.Decimal(9, 2))}, "bounds-value"),
        ({"upper": pl.lit(float("nan"))}, "bounds-value"),
        ({"upper": pl.lit("2.5")}, "bounds-value"),
        ({"lower": pl.lit("few")}, "bounds-value"),
        ({"lower": pl.lit(2**33)}, "bounds-value"),
        ({"lower": pl.lit(5), "upper": pl.lit(4)}, "bounds-crossed"),
        ({"lower": pl.concat_list("lower")}, "bad-counts"),
        ({"upper": pl.struct("upper")}, "bad-counts"),
        ({"upper": pl.lit(b"1")}, "bad-counts"),
        ({"lower": pl.lit(date(1970, 1, 2))}, "bad-counts"),
        ({"home": pl.concat_list("home")}, "unknown-level"),
        ({"geocode": pl.struct("geocode")}, "unknown-level"),
    ],
)
def test_a_wrong_table_is_refused(plan, whole, columns, code):
    changed(plan, **columns)
    with pytest.raises((ConstraintError, SchemaError)) as caught:
        bounds_table(plan, plan.bounds[0], whole)
    assert caught.value.code == code


def test_whole_numbers_may_be_written_as_floats(plan, whole):
    before = bounds_table(plan, plan.bounds[0], whole).digest()
    changed(plan, lower=pl.col("lower").cast(pl.Float64), upper=pl.col("upper").cast(pl.Float64))
    assert bounds_table(plan, plan.bounds[0], whole).digest() == before


def test_a_column_without_bounds_needs_no_type(plan, spine, whole):
    changed(plan, upper=pl.lit(None))
    lower, upper = bounds_table(plan, plan.bounds[0], whole).bounds_of(2, 0, spine.n_geounits(2))
    assert lower.any()
    assert upper.max() == UNBOUNDED


@pytest.mark.parametrize("at_once", [1, 7, 1 << 20])
def test_published_bounds_read_back(plan, spine, whole, tmp_path, monkeypatch, at_once):
    monkeypatch.setattr(constraint_files, "GEOUNITS_AT_ONCE", at_once)
    monkeypatch.setattr(constraints, "GEOUNITS_AT_ONCE", at_once)
    bounds = plan.bounds[0]
    table = bounds_table(plan, bounds, whole)
    (item,) = stated_bounds(plan.to_mapping()["bounds"], whole)
    item.write(tmp_path, table, {"run": "0"})
    zeros = zeros_of(item.read(tmp_path, plan.schema, spine), spine)
    assert zeros.geolevel == "Block"
    (wanted,) = public_zeros(plan, whole)
    assert np.array_equal(zeros.answers, wanted.answers)
    assert zeros.answers.any()
    assert not zeros.answers.all()


def test_published_bounds_that_are_missing_or_of_another_geography(plan, spine, whole, tmp_path):
    (item,) = stated_bounds(plan.to_mapping()["bounds"], whole)
    with pytest.raises(StoreError) as caught:
        item.read(tmp_path, plan.schema, spine)
    assert caught.value.code == "bounds-missing"
    item.write(tmp_path, bounds_table(plan, plan.bounds[0], whole), {})
    path = item.kind.path(tmp_path, 0)
    pl.read_parquet(path).with_columns(geocode=pl.lit("X0101")).write_parquet(path)
    with pytest.raises(StoreError) as caught:
        item.read(tmp_path, plan.schema, spine)
    assert caught.value.code == "release-damaged"
