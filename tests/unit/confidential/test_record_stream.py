"""Records are the same however they are cut, from text and from Parquet; and they stay small."""

import importlib.util
import sys
from pathlib import Path

import polars as pl
import pytest

from tallyveil.confidential import record_stream
from tallyveil.confidential.safetab_records import read_persons
from tallyveil.errors import TallyveilError
from tallyveil.safetab.files import GEOGRAPHY, PERSONS
from tallyveil.safetab.plan import read_plan
from tallyveil.safetab.regions import read_regions

ANOTHER = ("31", "1", "True", "01", "001", "000100", "1000", "01", "1000", *["Null"] * 7, "9950")


@pytest.fixture(scope="module")
def toy():
    path = Path(__file__).parents[1] / "safetab" / "conftest.py"
    spec = importlib.util.spec_from_file_location("toy_country_stream", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["toy_country_stream"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folders(toy, tmp_path):
    return toy.write_params(tmp_path / "p"), toy.write_data(tmp_path / "d", toy.person_rows(500))


def digests(params, data):
    plan = read_plan(params)
    found = read_persons(data, plan.config, plan.files, read_regions(data, plan.config))
    return {run: persons.digest() for run, persons in found.items()}


def as_parquet(data, **changes):
    path = data / "person-records.txt"
    frame = pl.read_csv(path, separator="|", infer_schema=False, quote_char=None).with_columns(**changes)
    frame.write_parquet(data / "person-records.parquet", row_group_size=37)
    path.unlink()


@pytest.mark.parametrize("piece", [101, 997, 1 << 20])
def test_text_may_be_cut_anywhere(folders, monkeypatch, piece):
    whole = digests(*folders)
    monkeypatch.setattr(record_stream, "PIECE", piece)
    assert digests(*folders) == whole


@pytest.mark.parametrize("rows", [1, 64, 499, 500])
def test_parquet_may_be_cut_anywhere(folders, monkeypatch, rows):
    whole = digests(*folders)
    as_parquet(folders[1])
    monkeypatch.setattr(record_stream, "ROWS", rows)
    assert digests(*folders) == whole


def test_line_ends_do_not_matter(folders):
    whole = digests(*folders)
    path = folders[1] / "person-records.txt"
    text = path.read_bytes()
    for changed in (text.rstrip(b"\n"), text.replace(b"\n", b"\r\n") + b"\r\n\n"):
        path.write_bytes(changed)
        assert digests(*folders) == whole


def test_the_order_of_the_file_matters_within_a_block_only(folders, toy):
    params, data = folders
    rows = toy.person_rows(500)
    toy.write_data(data, sorted(rows, key=lambda row: row[3:7]))
    sorted_once = digests(params, data)
    toy.write_data(data, rows)
    assert digests(params, data) == sorted_once


@pytest.mark.parametrize(
    ("column", "value", "code"),
    [
        ("QAGE", None, "safetab-person-values"),
        ("QAGE", "5|1", "input-unreadable"),
        ("QSPAN", "9950\n", "input-unreadable"),
        ("QSPAN", "9950\r", "input-unreadable"),
        ("QSPAN", "9950\n" + "|".join(ANOTHER), "input-unreadable"),
        ("QRACE2", "", "safetab-person-values"),
        ("HOUSEHOLDER", "\u00e9", "safetab-person-values"),
    ],
)
def test_a_parquet_value_cannot_pass_for_other_columns(folders, column, value, code):
    params, data = folders
    first = pl.int_range(pl.len()) == 3
    as_parquet(data, **{column: pl.when(first).then(pl.lit(value, dtype=pl.String)).otherwise(column)})
    with pytest.raises(TallyveilError) as raised:
        digests(params, data)
    assert raised.value.code == code


def test_a_file_of_short_wrong_lines_is_refused(folders):
    """Lines shorter than any right one: there are more of them than room was set aside for."""
    params, data = folders
    path = data / "person-records.txt"
    header = path.read_text().split("\n")[0]
    path.write_text("\n".join([header, *["|" * (len(PERSONS.columns) - 1)] * 3000, ""]))
    with pytest.raises(TallyveilError) as raised:
        digests(params, data)
    assert raised.value.code == "safetab-person-values"
    path.write_text(header + "\n" + "1" * (record_stream.PIECE * 2 + 5))
    with pytest.raises(TallyveilError) as raised:
        digests(params, data)
    assert raised.value.code == "input-unreadable"


def test_formats_without_number_rules_are_no_records(folders):
    with pytest.raises(TypeError):
        list(record_stream.parsed_records(folders[1] / "GRF-C.txt", GEOGRAPHY))


def test_a_person_takes_less_than_nine_bytes(toy, tmp_path):
    params, data = toy.write_params(tmp_path / "p"), toy.write_data(tmp_path / "d", toy.person_rows(20_000))
    plan = read_plan(params)
    found = read_persons(data, plan.config, plan.files, read_regions(data, plan.config)).values()
    size = sum(a.nbytes for p in found for a in (p.start, p.races, p.lists, p.ethnicity, p.cells))
    several = sum((p.races < 0).sum() for p in found)
    assert several > 5000  # far more than in production
    assert size / 20_000 < 7 + 3 * 2 * several / 20_000 + 2
