"""Reading person records: every rule has its error, and no error shows a record."""

import logging
from itertools import pairwise, takewhile

import numpy as np
import polars as pl
import pytest
from tests import toy_country as toy

from tallyveil.errors import TallyveilError
from tallyveil.products.safetab.confidential import records as safetab_records
from tallyveil.products.safetab.confidential.records import ConfidentialPersons, read_persons
from tallyveil.products.safetab.public.ages import STARTS_23
from tallyveil.products.safetab.public.plan import read_plan
from tallyveil.products.safetab.public.regions import read_regions


def read(tmp_path, rows=None, header=None, **changes):
    params = toy.write_params(tmp_path / "p", **changes)
    data = toy.write_data(tmp_path / "d", rows or toy.person_rows(50))
    if header:
        path = data / "person-records.txt"
        path.write_text(header + "\n" + path.read_text().split("\n", 1)[1])
    plan = read_plan(params)
    return read_persons(data, plan.config, plan.files, read_regions(data, plan.config))


def with_value(column, value, n=50):
    rows = [list(row) for row in toy.person_rows(n)]
    rows[7][toy.PERSON_HEADER.split("|").index(column)] = value
    return [tuple(row) for row in rows]


def test_records_become_arrays_in_block_order(tmp_path):
    rows = toy.person_rows(400)
    found = read(tmp_path, rows)
    assert sum(len(run.races) for run in found.values()) == 400
    us = found["US"]
    assert (np.diff(us.start) >= 0).all()
    assert us.start[-1] == len(us.races)
    assert us.cells.min() >= 0 <= us.cells.max() <= 45
    in_pr = sum(row[3] == "72" for row in rows)
    assert len(found["PR"].races) == in_pr
    assert "redacted" in repr(us)
    assert str(len(us.races)) not in repr(us)


def decoded(persons, regions, codes):
    """The people of a run as in the file: block, race codes, ethnicity code and cell, in order of the blocks."""
    found = []
    for block, (first, last) in enumerate(pairwise(persons.start.tolist())):
        for person in range(first, last):
            race = int(persons.races[person])
            own = [race] if race >= 0 else takewhile(lambda code: code >= 0, persons.lists[~race:].tolist())
            races, ethnicity = tuple(codes[code] for code in own), codes[persons.ethnicity[person]]
            found.append((int(regions.blocks[block]), races, ethnicity, int(persons.cells[person])))
    return found


def expected(rows):
    """The same from the rows."""
    found = []
    for row in rows:
        races = tuple(code for code in row[8:16] if code != "Null")
        group = sum(start <= int(row[0]) for start in STARTS_23) - 1
        found.append((int("".join(row[3:7])), races, row[16], 23 * (int(row[1]) - 1) + group))
    return sorted(found, key=lambda person: person[0])  # within a block in the order of the file


@pytest.mark.parametrize("piece", [101, 1 << 20])
@pytest.mark.parametrize("most", [1, 2, 8])
def test_every_person_is_kept_with_all_codes_and_their_cell(tmp_path, monkeypatch, piece, most):
    monkeypatch.setattr(safetab_records, "PIECE", piece)
    rows = toy.person_rows(300, most=most)
    if most == 1:
        rows = [(*row[:9], *["Null"] * 7, row[16]) for row in rows]
    params = toy.write_params(tmp_path / "p", max_race_codes=max(most, 1))
    data = toy.write_data(tmp_path / "d", rows)
    plan = read_plan(params)
    regions = read_regions(data, plan.config)
    found = read_persons(data, plan.config, plan.files, regions)
    assert found.keys() == {"US", "PR"}
    for run, persons in found.items():
        own = [row for row in rows if (row[3] == "72") == (run == "PR")]
        assert persons.run == run
        assert len(own) == len(persons.races) == len(persons.ethnicity) == len(persons.cells)
        assert decoded(persons, regions[run], plan.files.codes) == expected(own)
        assert (persons.lists == -1).sum() == (persons.races < 0).sum()
        assert len(persons.start) == len(regions[run].blocks) + 1


def test_blocks_with_the_largest_numbers_are_found(tmp_path):
    last = ("72", "999", "999999", "9999")
    rows = [(*row[:3], *last, *row[7:]) for row in toy.person_rows(5)]
    params = toy.write_params(tmp_path / "p", run_us=False)
    data = toy.write_data(tmp_path / "d", rows)
    toy.pipe(data / "GRF-C.txt", toy.GEOGRAPHY_HEADER, [*toy.block_rows(), (*last, "99999", "9999")])
    plan = read_plan(params)
    regions = read_regions(data, plan.config)
    found = read_persons(data, plan.config, plan.files, regions)["PR"]
    assert decoded(found, regions["PR"], plan.files.codes) == expected(rows)


@pytest.mark.parametrize("place", [0, 25, 50])
@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        ({0: "116"}, "safetab-person-values", ["QAGE"]),
        ({9: "Null", 10: "1000"}, "safetab-null-order", ["QRACE2"]),
        ({9: "1000", 10: "1000", 11: "2000"}, "safetab-extra-codes", ["QRACE4, QRACE5", "QRACE8"]),
        ({8: "1234"}, "safetab-person-code", ["QRACE1"]),
        ({9: "1000", 10: "1234"}, "safetab-person-code", ["QRACE3"]),
        ({16: "7777"}, "safetab-person-code", ["QSPAN"]),
        ({8: "1234", 16: "7777"}, "safetab-person-code", ["QRACE1, QSPAN"]),
        ({6: "2999"}, "safetab-person-block", ["GRF-C"]),
    ],
)
def test_a_fault_in_any_piece_is_found(tmp_path, monkeypatch, place, changes, code, said):
    """Sound pieces before it and after it do not make it forgotten."""
    monkeypatch.setattr(safetab_records, "PIECE", 101)
    rows = toy.person_rows(50)
    bad = ["31", "1", "True", "01", "001", "000100", "1000", "01", "1000", *["Null"] * 7, "9950"]
    for column, value in changes.items():
        bad[column] = value
    with pytest.raises(TallyveilError) as raised:
        read(tmp_path, [*rows[:place], tuple(bad), *rows[place:]])
    assert raised.value.code == code
    assert all(name in str(raised.value) for name in said)


def test_rules_of_a_kind_are_told_together_and_before_those_of_the_next(tmp_path):
    rows = [list(row) for row in toy.person_rows(50)]
    rows[1][6] = "2999"  # a block that is not there
    rows[2][8] = "1234"  # a code that is not there
    with pytest.raises(TallyveilError, match=r"2 problems with the person-records") as raised:
        read(tmp_path / "a", [tuple(row) for row in rows])
    assert raised.value.code == "safetab-person-code"
    assert "TABBLKST, TABBLKCOU, TABTRACTCE, TABBLK finds them" in str(raised.value)
    rows[3][9:12] = ["Null", "1000", "Null"]
    rows[4][9:12] = ["1000", "1000", "2000"]
    with pytest.raises(TallyveilError, match=r"2 problems with the person-records") as raised:
        read(tmp_path / "b", [tuple(row) for row in rows])
    assert raised.value.code == "safetab-null-order"
    rows[5][0] = "116"
    with pytest.raises(TallyveilError) as raised:
        read(tmp_path / "c", [tuple(row) for row in rows])
    assert raised.value.code == "safetab-person-values"


def made(run="US", start=(0, 2), races=(3, -1), lists=(4, 5, -1), ethnicity=(1, 2), cells=(7, 8)):
    """Two people, of whom the second has two race codes."""
    types = (np.int64, np.int32, np.int16, np.int16, np.int8)
    arrays = (start, races, lists, ethnicity, cells)
    return ConfidentialPersons(run, *(np.array(a, kind) for a, kind in zip(arrays, types, strict=True)))


def test_the_digest_of_people_is_pinned():
    """A later version goes on with a run that this one began only if it finds the same digest."""
    assert made().digest().hex() == "2d06234cea83f5bffe4cb9c6599229ba42ab90721894a646a8e243e6fb1cd151"


def test_people_that_differ_have_digests_that_differ():
    """Also where all numbers one after the other are the same, so that only lengths tell arrays apart."""
    others = [
        made("PR"),
        made(start=(0, 1)),
        made(races=(-1, 3)),
        made(lists=(5, 4, -1)),
        made(ethnicity=(2, 1)),
        made(cells=(8, 7)),
        made(lists=(4, 5), ethnicity=(-1, 1, 2)),
    ]
    digests = {one.digest() for one in (made(), *others)}
    assert len(digests) == 1 + len(others)
    assert made().digest() in digests


def test_the_log_says_that_records_were_read_and_no_number_of_them(tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="tallyveil")
    read(tmp_path)
    assert "valid" in caplog.text
    assert not any(character.isdigit() for record in caplog.records for character in record.getMessage())


def test_text_and_parquet_are_the_same(tmp_path):
    rows = toy.person_rows(300)
    text = read(tmp_path / "a", rows)
    params, data = toy.write_params(tmp_path / "p"), toy.write_data(tmp_path / "d", rows)
    for stem in ("person-records", "GRF-C"):
        frame = pl.read_csv(data / f"{stem}.txt", separator="|", infer_schema=False)
        frame.write_parquet(data / f"{stem}.parquet")
        (data / f"{stem}.txt").unlink()
    plan = read_plan(params)
    found = read_persons(data, plan.config, plan.files, read_regions(data, plan.config))
    assert {run: part.digest() for run, part in found.items()} == {run: p.digest() for run, p in text.items()}


def test_people_of_other_states_are_left_out(tmp_path):
    rows = toy.person_rows(300)
    found = read(tmp_path, rows, state_filter_us=["11"], run_pr=False)
    assert len(found["US"].races) == sum(row[3] == "11" for row in rows)


def test_one_record_more_gives_another_digest(tmp_path):
    rows = toy.person_rows(100)
    first = read(tmp_path / "a", rows)
    second = read(tmp_path / "b", [*rows, next(row for row in rows if row[3] == "01")])
    assert first["US"].digest() != second["US"].digest()
    assert first["PR"].digest() == second["PR"].digest()


BAD_VALUES = [
    ("QAGE", "116"),
    ("QAGE", "-1"),
    ("QAGE", "4.5"),
    ("QAGE", ""),
    ("QSEX", "3"),
    ("QSEX", "M"),
    ("HOUSEHOLDER", "yes"),
    ("TABBLKST", "1"),
    ("TABBLKCOU", "01"),
    ("TABTRACTCE", "1234567"),
    ("TABBLK", "12x4"),
    ("CENRACE", "64"),
    ("CENRACE", "00"),
    ("QRACE1", "Null"),
    ("QRACE1", "0100"),
    ("QRACE2", "12"),
    ("QRACE8", "null"),
    ("QSPAN", "Null"),
]


@pytest.mark.parametrize(("column", "value"), BAD_VALUES)
def test_every_column_has_its_rule(tmp_path, column, value):
    with pytest.raises(TallyveilError) as raised:
        read(tmp_path, with_value(column, value))
    said = str(raised.value)
    assert raised.value.code == "safetab-person-values"
    assert column in said
    assert "person-records.txt" in said
    assert not value or f"'{value}'" not in said


@pytest.mark.parametrize("age", ["0", "00", "000", "028", "115", "99"])
def test_ages_may_have_leading_zeros(tmp_path, age):
    read(tmp_path, with_value("QAGE", age))


def test_several_columns_are_told_at_once(tmp_path):
    rows = [list(row) for row in toy.person_rows(50)]
    rows[3][0], rows[9][1] = "200", "9"
    with pytest.raises(TallyveilError, match=r"2 problems(.|\n)*QAGE(.|\n)*QSEX"):
        read(tmp_path, [tuple(row) for row in rows])


RACE_2, RACE_3, RACE_4 = 9, 10, 11


@pytest.mark.parametrize(
    ("places", "code"),
    [
        ({RACE_2: "Null", RACE_3: "1000"}, "safetab-null-order"),
        ({RACE_2: "1000", RACE_3: "1000", RACE_4: "2000"}, "safetab-extra-codes"),
        ({8: "1234"}, "safetab-person-code"),
        ({16: "7777"}, "safetab-person-code"),
        ({6: "2999"}, "safetab-person-block"),
        ({3: "11", 4: "003"}, "safetab-person-block"),
    ],
)
def test_rules_that_take_several_columns_or_files(tmp_path, places, code):
    rows = [list(row) for row in toy.person_rows(50)]
    for place, value in places.items():
        rows[4][place] = value
    with pytest.raises(TallyveilError) as raised:
        read(tmp_path, [tuple(row) for row in rows])
    assert raised.value.code == code
    for value in places.values():
        assert value == "Null" or f"'{value}'" not in str(raised.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda header: header.replace("QSEX|", ""), "missing 'QSEX'"),
        (lambda header: header + "|EXTRA", "unexpected others, not shown"),
        (lambda header: header.replace("QAGE|QSEX", "QSEX|QAGE"), "out of order"),
    ],
)
def test_the_header_is_checked(tmp_path, change, said):
    with pytest.raises(TallyveilError) as raised:
        read(tmp_path, header=change(toy.PERSON_HEADER))
    assert raised.value.code == "safetab-columns"
    assert said in str(raised.value)


def test_an_empty_or_absent_file(tmp_path):
    params, data = toy.write_params(tmp_path / "p"), toy.write_data(tmp_path / "d", [])
    plan = read_plan(params)
    regions = read_regions(data, plan.config)
    with pytest.raises(TallyveilError) as raised:
        read_persons(data, plan.config, plan.files, regions)
    assert raised.value.code == "safetab-empty"
    (data / "person-records.txt").unlink()
    with pytest.raises(TallyveilError) as raised:
        read_persons(data, plan.config, plan.files, regions)
    assert raised.value.code == "input-missing"


def test_a_ragged_or_damaged_file_shows_nothing_of_itself(tmp_path):
    params, data = toy.write_params(tmp_path / "p"), toy.write_data(tmp_path / "d", toy.person_rows(30))
    plan = read_plan(params)
    regions = read_regions(data, plan.config)
    path = data / "person-records.txt"
    text = path.read_text()
    path.write_text(text + "31|1|True|secret|x|x|x|x|x|x|x|x|x|x|x|x|x|x|x|x\n")
    with pytest.raises(TallyveilError) as raised:
        read_persons(data, plan.config, plan.files, regions)
    assert raised.value.code in ("input-unreadable", "safetab-person-values")
    assert "secret" not in str(raised.value)
    path.write_bytes(text.encode() + b"\xff\xfe|1\n")
    with pytest.raises(TallyveilError):
        read_persons(data, plan.config, plan.files, regions)
    (data / "person-records.txt").unlink()
    (data / "person-records.parquet").write_bytes(b"no parquet")
    with pytest.raises(TallyveilError) as raised:
        read_persons(data, plan.config, plan.files, regions)
    assert raised.value.code == "input-unreadable"
