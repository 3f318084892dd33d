"""Geocodes read like an array of text."""

import numpy as np
import polars as pl
import pytest

from tallyveil.geography.build import spine_from_columns, spine_from_prefixes
from tallyveil.geography.spine import geocodes_of


@pytest.fixture
def codes():
    return geocodes_of(["01", "02", "é"], "Town")


def test_elements_slices_and_selections(codes):
    assert codes[1] == codes[np.int64(1)] == "02"
    assert codes[-1] == "é"
    assert codes[1:].tolist() == ["02", "é"]
    assert codes[np.array([2, 0])].tolist() == ["é", "01"]
    assert codes[np.array([True, False, True])].tolist() == ["01", "é"]
    assert [str(code) for code in codes] == ["01", "02", "é"]
    assert len(codes) == 3


def test_numpy_and_polars_take_them(codes):
    assert np.asarray(codes).dtype == np.dtype("U2")
    assert np.array_equal(np.array(["01", "02", "é"], dtype=object), codes)
    assert np.asarray(codes[:0]).shape == (0,)
    assert pl.Series(codes, dtype=pl.String).to_list() == ["01", "02", "é"]
    assert pl.DataFrame({"geocode": codes})["geocode"].to_list() == ["01", "02", "é"]


def test_whether_they_rise_is_known(codes):
    assert codes.rises
    assert codes[1:].rises
    assert not geocodes_of(["2", "1"], "Town").rises
    assert not codes[np.array([2, 0])].rises


def test_nothing_of_a_population_is_shown(codes):
    assert repr(codes) == "Geocodes(3)"


def test_a_stretch_of_the_geolevel_is_enough_to_find_geocodes():
    spine = spine_from_prefixes([f"{town:03d}" for town in range(200)], ("Region", "Town"), (1, 3))
    asked = pl.Series(["050", "050", "xyz", None, "051", "050", "0500"])
    assert spine.locate(1, asked).tolist() == [50, 50, -1, -1, 51, 50, -1]
    assert spine.locate(1, pl.Series([None, None], dtype=pl.String)).tolist() == [-1, -1]
    assert spine.locate(1, ["zzz"]).tolist() == [-1]


def test_rows_in_order_of_their_paths_need_no_sorting(monkeypatch):
    table = {"A": ["1", "1", "2"], "B": ["x", "y", "a"]}
    expected = spine_from_columns({name: column[::-1] for name, column in table.items()}, ("A", "B")).digest()
    monkeypatch.setattr("tallyveil.geography.build.row_order", None)
    assert spine_from_columns(table, ("A", "B")).digest() == expected
