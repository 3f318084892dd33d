"""What is found of a text file is its form and its columns, and no value."""

from pathlib import Path

import polars as pl
import pytest

from tallyveil.errors import StoreError
from tallyveil.storage.read import TextForm
from tallyveil.storage.text_forms import shape_of

ROWS = "area;age;höme;income\r\nÄ1;7;house;1,5\r\nB1;;tent;20\r\n"


@pytest.mark.parametrize(
    ("encoding", "found"),
    [
        ("utf-8", "utf-8"),
        ("utf-8-sig", "utf-8"),
        ("iso-8859-1", "iso-8859-1"),
        ("windows-1252", "windows-1252"),
    ],
)
@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_the_form_is_found(tmp_path: Path, encoding: str, found: str, delimiter: str) -> None:
    path = tmp_path / "people.csv"
    text = ROWS if encoding != "windows-1252" else ROWS.replace("tent", "tent €")
    path.write_bytes(text.replace(";", delimiter).encode(encoding))
    shape = shape_of(path, "records")
    assert shape.form == TextForm(delimiter, found, ",")
    assert shape.columns == ("area", "age", "höme", "income")
    assert shape.numbers == ("age", "income")
    assert shape.byte_order_mark == (encoding == "utf-8-sig")


def test_plain_files_and_parquet(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text('area,age,home\n"a,1",7,x\n')
    assert shape_of(path, "records").form == TextForm(",")
    assert shape_of(path, "records", TextForm(",", "iso-8859-1", ",")).form.decimal == ","
    pl.DataFrame({"area": ["a"]}).write_parquet(tmp_path / "p.parquet")
    assert shape_of(tmp_path / "p.parquet", "records").columns == ("area",)
    with pytest.raises(StoreError, match="does not exist"):
        shape_of(tmp_path / "none.csv", "records")


@pytest.mark.parametrize("first", ["A1;47;canary", "A1;;canary", "A1;A1;canary", "", "2026-01-01;canary"])
def test_a_record_in_the_place_of_the_header_is_not_shown(tmp_path: Path, first: str) -> None:
    path = tmp_path / "people.csv"
    path.write_text(f"{first}\nB1;9;tent\n")
    with pytest.raises(StoreError, match="names of its columns") as error:
        shape_of(path, "records")
    assert "canary" not in str(error.value)
