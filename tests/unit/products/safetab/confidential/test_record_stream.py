"""Records are the same however they are cut, from text and from Parquet; and they stay small."""

from contextlib import contextmanager
from typing import Any

import polars as pl
import pytest
from tests import toy_country as toy
from tests.samples import nightly

from tallyveil.errors import StoreError, TallyveilError
from tallyveil.products.safetab.confidential import records as safetab_records
from tallyveil.products.safetab.confidential.records import read_persons
from tallyveil.products.safetab.public.files import GEOGRAPHY, PERSONS
from tallyveil.products.safetab.public.plan import read_plan
from tallyveil.products.safetab.public.regions import read_regions

ANOTHER = ("31", "1", "True", "01", "001", "000100", "1000", "01", "1000", *["Null"] * 7, "9950")


@pytest.fixture
def folders(tmp_path):
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
    monkeypatch.setattr(safetab_records, "PIECE", piece)
    assert digests(*folders) == whole


@pytest.mark.parametrize("rows", [nightly(1), 64, 499, 500])
def test_parquet_may_be_cut_anywhere(folders, monkeypatch, rows):
    whole = digests(*folders)
    as_parquet(folders[1])
    monkeypatch.setattr(safetab_records, "ROWS", rows)
    assert digests(*folders) == whole


@pytest.mark.parametrize("piece", [101, 997, 1 << 20])
def test_line_ends_do_not_matter(folders, monkeypatch, piece):
    whole = digests(*folders)
    monkeypatch.setattr(safetab_records, "PIECE", piece)
    path = folders[1] / "person-records.txt"
    text = path.read_bytes()
    for changed in (text.rstrip(b"\n"), text.replace(b"\n", b"\r\n") + b"\r\n\n"):
        path.write_bytes(changed)
        assert digests(*folders) == whole


def test_the_order_of_the_file_matters_within_a_block_only(folders):
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
    assert str(data / "person-records.parquet") in str(raised.value)


def test_a_file_of_short_wrong_lines_is_refused(folders):
    """Lines shorter than any right one: there are more of them than room was set aside for."""
    params, data = folders
    path = data / "person-records.txt"
    header = path.read_text().split("\n")[0]
    path.write_text("\n".join([header, *["|" * (len(PERSONS.columns) - 1)] * 3000, ""]))
    with pytest.raises(TallyveilError) as raised:
        digests(params, data)
    assert raised.value.code == "safetab-person-values"
    path.write_text(header + "\n" + "1" * (safetab_records.PIECE * 2 + 5))
    with pytest.raises(TallyveilError) as raised:
        digests(params, data)
    assert raised.value.code == "input-unreadable"


def test_only_a_few_pieces_are_read_ahead(tmp_path, monkeypatch):
    """The memory needed does not grow with the file, and other threads have something to parse."""
    path, read = tmp_path / "person-records.txt", []
    toy.pipe(path, toy.PERSON_HEADER, toy.person_rows(60))
    (text,) = safetab_records._text_pieces(path)
    pieces = text.splitlines(keepends=True)

    def watched(_):
        for piece in pieces:
            read.append(piece)
            yield piece

    monkeypatch.setattr(safetab_records, "_text_pieces", watched)
    for n, part in enumerate(safetab_records.parsed_records(path, PERSONS), start=1):
        assert len(part.values) == 1
        assert len(read) == min(n + safetab_records.AHEAD, 60)


SHORTEST = ("0", "1", "True", "01", "001", "000100", "1000", "01", "1000", *["Null"] * 7, "9950")
"""A record as short as the rules allow: no word and no number of it can be shorter."""


@pytest.mark.parametrize("n", [1, 2, 1000])
def test_there_is_room_for_all_records_and_not_for_many_more(tmp_path, n):
    path = tmp_path / "person-records.txt"
    toy.pipe(path, toy.PERSON_HEADER, [SHORTEST] * n)
    (part,) = safetab_records.parsed_records(path, PERSONS)
    assert len(part.values) == n
    assert not part.broken.any()
    in_header = len(toy.PERSON_HEADER + "\n") // len(
        "|".join(SHORTEST) + "\n"
    )  # as many as its bytes could be
    assert n <= safetab_records.most_records(path, PERSONS) <= n + in_header + 1
    pl.read_csv(path, separator="|", infer_schema=False).write_parquet(path.with_suffix(".parquet"))
    assert safetab_records.most_records(path.with_suffix(".parquet"), PERSONS) == n


def number_of(value):
    """The number that a value of the records stands for."""
    return {"Null": 0, "False": 0, "True": 1}.get(value) if value.isalpha() else int(value)


@pytest.mark.parametrize("ending", ["txt", "parquet"])
@pytest.mark.parametrize("rows", [1, 7, 1 << 17])
def test_every_value_is_parsed_and_a_broken_rule_is_told_with_its_piece(folders, monkeypatch, ending, rows):
    monkeypatch.setattr(safetab_records, "ROWS", rows)
    monkeypatch.setattr(safetab_records, "PIECE", 100 * rows)
    persons = [list(row) for row in toy.person_rows(60)]
    persons[31][PERSONS.columns.index("QAGE")] = "116"
    toy.write_data(folders[1], [tuple(row) for row in persons])
    if ending == "parquet":
        as_parquet(folders[1])
    parts = list(safetab_records.parsed_records(folders[1] / f"person-records.{ending}", PERSONS))
    persons[31][PERSONS.columns.index("QAGE")] = "0"
    values = [row for part in parts for row in part.values.tolist()]
    assert values == [[number_of(value) for value in row] for row in persons]
    assert all("redacted" in repr(part) for part in parts)
    first = 0
    for part in parts:
        last = first + len(part.values)
        broken = [name for name, is_broken in zip(PERSONS.columns, part.broken, strict=True) if is_broken]
        assert broken == (["QAGE"] if first <= 31 < last else [])
        first = last
    assert len(parts) == 1 or len(parts) >= 60 // (2 * rows)


@pytest.mark.parametrize("piece", [80, 1 << 20])
@pytest.mark.parametrize("place", [0, 30, 60])
@pytest.mark.parametrize("line", ["1|2", "|" * 17])
def test_a_line_of_another_number_of_columns_is_refused_anywhere(folders, monkeypatch, piece, place, line):
    monkeypatch.setattr(safetab_records, "PIECE", piece)
    rows = toy.person_rows(60)
    toy.write_data(folders[1], [*rows[:place], (line,), *rows[place:]])
    path = folders[1] / "person-records.txt"
    with pytest.raises(StoreError) as raised:
        list(safetab_records.parsed_records(path, PERSONS))
    assert raised.value.code == "input-unreadable"
    assert str(path) in str(raised.value)


def test_a_line_may_be_as_long_as_a_piece_and_no_longer(tmp_path, monkeypatch):
    path = tmp_path / "person-records.txt"
    monkeypatch.setattr(safetab_records, "PIECE", 200)
    for length, refused in ((200, False), (201, True)):
        path.write_text(toy.PERSON_HEADER + "\n" + "|".join([*ANOTHER, "x" * 200])[:length])
        pieces = safetab_records._text_pieces(path)
        if refused:
            with pytest.raises(StoreError) as raised:
                list(pieces)
            assert str(path) in str(raised.value)
        else:
            assert [len(piece) for piece in pieces] == [length + 1]


@pytest.mark.parametrize("ending", ["txt", "parquet"])
def test_a_file_that_goes_away_meanwhile_is_an_error_of_the_store(folders, ending):
    if ending == "parquet":
        as_parquet(folders[1])
    path = folders[1] / f"person-records.{ending}"
    pieces = (
        safetab_records._text_pieces(path)
        if ending == "txt"
        else safetab_records._parquet_pieces(path, pl.scan_parquet(path))
    )
    path.unlink()
    with pytest.raises(StoreError) as raised:
        next(pieces)
    assert raised.value.code == "input-unreadable"
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("ending", ["txt", "parquet"])
def test_an_input_is_held_from_the_first_piece_to_the_last(folders, monkeypatch, ending):
    """What is held is found out if it is replaced meanwhile, as an object in an object store can be."""
    if ending == "parquet":
        as_parquet(folders[1])
    path = folders[1] / f"person-records.{ending}"
    said: list[Any] = []

    @contextmanager
    def watched(*held):
        said.append(held)
        yield
        said.append("let go")

    monkeypatch.setattr(safetab_records, "held", watched)
    monkeypatch.setattr(safetab_records, "ROWS", 100)
    monkeypatch.setattr(safetab_records, "PIECE", 8000)
    for part in safetab_records.parsed_records(path, PERSONS):
        said.append(len(part.values))
    assert said[0] == (path, "person-records")
    # Pieces are read ahead, so it is let go before the last ones are handed out, but after the first.
    assert said.count("let go") == 1
    assert said.index("let go") > 1
    assert sum(n for n in said if isinstance(n, int)) == 500


def test_formats_without_number_rules_are_no_records(folders):
    with pytest.raises(TypeError):
        list(safetab_records.parsed_records(folders[1] / "GRF-C.txt", GEOGRAPHY))


def test_a_person_takes_less_than_nine_bytes(tmp_path):
    params, data = toy.write_params(tmp_path / "p"), toy.write_data(tmp_path / "d", toy.person_rows(20_000))
    plan = read_plan(params)
    found = read_persons(data, plan.config, plan.files, read_regions(data, plan.config)).values()
    size = sum(a.nbytes for p in found for a in (p.start, p.races, p.lists, p.ethnicity, p.cells))
    several = sum((p.races < 0).sum() for p in found)
    assert several > 5000  # far more than in production
    assert size / 20_000 < 7 + 3 * 2 * several / 20_000 + 2
