"""The data files: chunks, and columns of numbers as a page reads them."""

import numpy as np
import polars as pl
import pytest

from tallyveil.errors import StoreError
from tallyveil.explore.files import CHUNK, chunk_ranges, number_columns, write_data, write_json_data


def test_chunks_cover_every_area_once():
    assert list(chunk_ranges(CHUNK)) == [(0, 0, CHUNK)]
    assert list(chunk_ranges(CHUNK + 1)) == [(0, 0, CHUNK), (1, CHUNK, CHUNK + 1)]
    assert list(chunk_ranges(0)) == []


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (np.array([[1, -2]]), pl.Int32),
        (np.array([[1, 2**31]]), pl.Float64),
        (np.array([[1.0, np.nan]]), pl.Int32),
        (np.array([[np.nan, -(2.0**31)]]), pl.Float64),
        (np.zeros((0, 2), dtype=np.int64), pl.Int32),
    ],
)
def test_whole_numbers_are_never_64_bits(values, kind):
    """Pages would get numbers of 64 bits as another type, which does not mix with plain numbers."""
    frame = number_columns(["a", "b"], values, whole=True)
    assert frame.dtypes == [kind, kind]
    assert np.array_equal(frame.cast(pl.Float64).fill_null(np.nan).to_numpy(), values, equal_nan=True)


def test_nan_is_null():
    frame = number_columns(["a"], np.array([[np.nan], [0.5]]), whole=False)
    assert frame["a"].to_list() == [None, 0.5]


def test_the_same_table_has_the_same_bytes(tmp_path):
    frame = pl.DataFrame({"geocode": ["</script>", None], "p0": [1, 2]})
    for name in ("data/a.parquet", "data/b.parquet"):
        write_data(tmp_path, name, frame, {"run": "x"})
    assert (tmp_path / "data/a.parquet").read_bytes() == (tmp_path / "data/b.parquet").read_bytes()
    assert pl.read_parquet_metadata(tmp_path / "data/a.parquet")["tallyveil.run"] == "x"


def test_json_holds_no_nan(tmp_path):
    write_json_data(tmp_path, "data/x.json", {"é": [1, None]})
    assert (tmp_path / "data/x.json").read_text(encoding="utf-8") == '{"é":[1,null]}\n'
    with pytest.raises(ValueError, match="JSON"):
        write_json_data(tmp_path, "data/y.json", {"a": float("nan")})


def test_a_file_in_the_way(tmp_path):
    (tmp_path / "data").write_text("")
    with pytest.raises(StoreError):
        write_data(tmp_path, "data/a.parquet", pl.DataFrame({"a": [1]}), {})
    with pytest.raises(StoreError):
        write_json_data(tmp_path, "data/x.json", {})
