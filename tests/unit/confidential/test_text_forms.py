"""Records in the text files that offices have: other delimiters, encodings and decimal signs, and gaps."""

from pathlib import Path

import pytest

from tallyveil.confidential.records import read_records
from tallyveil.errors import ConfigError, SchemaError, StoreError
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.schema.attribute import Attribute
from tallyveil.schema.schema import Schema
from tallyveil.storage.read import TextForm

SCHEMA = Schema(
    "people",
    (Attribute("age", ("0-17", "18+")), Attribute("home", ("Häuschen", "Kaserne", "not asked"))),
)
SPINE = spine_from_prefixes(["Ä1", "B1"], ("Region", "Town"), (1, 2))
ROWS = "area;age;home\r\nÄ1;7,0;Häuschen\r\nB1;40;Kaserne\r\nB1;18;\r\n"


def read(path: Path, form: TextForm, missing: dict[str, str] | None = None):
    counts = read_records(
        path,
        geocode="area",
        count=None,
        columns={"age": "age", "home": "home"},
        numbers=("age",),
        missing=missing,
        form=form,
        schema=SCHEMA,
        spine=SPINE,
    )
    return sorted(zip(counts.cells.tolist(), counts.counts.tolist(), strict=True))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "iso-8859-1", "windows-1252"])
@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_the_same_records_in_every_form(tmp_path, encoding, delimiter):
    path = tmp_path / "people.csv"
    path.write_bytes(ROWS.replace(";", delimiter).encode(encoding))
    form = TextForm(delimiter, "utf-8" if encoding == "utf-8-sig" else encoding, ",")
    assert read(path, form, {"home": "not asked"}) == [(0, 1), (4, 1), (5, 1)]


def test_a_gap_without_a_declared_level_is_refused(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(ROWS, encoding="utf-8")
    with pytest.raises(SchemaError, match="home"):
        read(path, TextForm(";", decimal=","))


def test_a_wrong_declaration_is_refused_without_a_word_of_the_records(tmp_path):
    path = tmp_path / "people.csv"
    path.write_bytes(ROWS.encode("iso-8859-1"))
    with pytest.raises(StoreError, match="encoding") as error:
        read(path, TextForm(";"))
    assert "Kaserne" not in str(error.value)
    path.write_bytes(ROWS.encode("windows-1252").replace(b"Kaserne", b"\x81"))
    with pytest.raises(StoreError, match="windows-1252") as error:
        read(path, TextForm(";", "windows-1252"))
    assert "x81" not in str(error.value)
    path.write_text(ROWS, encoding="utf-8")
    with pytest.raises(ConfigError, match="lacks"):
        read(path, TextForm(","))
