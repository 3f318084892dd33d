"""The published microdata: columns and codes of the layouts, and what is refused."""

import hashlib

import numpy as np
import polars as pl
import pytest

from tallyveil.errors import GeographyError, SolverError
from tallyveil.files import histograms
from tallyveil.products.dhc.tables.microdata import (
    OF_RELGQ,
    ORDER,
    _check,
    persons_columns,
    units_columns,
    write_records,
)
from tallyveil.schema.counts import PublicCounts, compress_rows
from tallyveil.schema.presets import load_preset

GEOGRAPHY = ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLKGRPCE", "TABBLK"]
PERSONS = [
    *(
        "SCHEMA_TYPE_CODE",
        "SCHEMA_BUILD_ID",
        *GEOGRAPHY,
        "EPNUM",
        "RTYPE",
        "GQTYPE",
        "RELSHIP",
        "QSEX",
        "QAGE",
    ),
    *("CENHISP", "CENRACE", "LIVE_ALONE"),
]
UNITS = [
    *(
        "SCHEMA_TYPE_CODE",
        "SCHEMA_BUILD_ID",
        *GEOGRAPHY,
        "RTYPE",
        "GQTYPE",
        "TEN",
        "VACS",
        "HHSIZE",
        "HHT",
        "HHT2",
    ),
    *(
        "CPLT",
        "UPART",
        "MULTG",
        "THHLDRAGE",
        "THHSPAN",
        "THHRACE",
        "PAOC",
        "TP18",
        "TP60",
        "TP65",
        "TP75",
        "PAC",
    ),
    "HHSEX",
]
# SHA-256 of the values of ten columns for each of the 522 household types and both sexes, by the released rules.
OF_HOUSEHOLDS = "a39e9667b2b62692fa1e2902f3e10a6b07c8be39a5f91b37b9eea62b9f5f56de"
TEN = ("HHSIZE", "HHT", "HHT2", "CPLT", "UPART", "MULTG", "PAOC", "PAC", "TP18", "HHSEX")
BLOCKS = pl.Series("geocode", ["440010301001000", "440010301001001", "440010302002003"])


def words(columns: list[pl.Series]) -> dict[str, list[str]]:
    return {column.name: column.cast(pl.String).to_list() for column in columns}


def test_columns_of_households_have_the_released_values():
    pairs = [(code, sex) for code in range(522) for sex in (0, 1)]
    found = words(units_columns(np.array([(0, sex, 0, 0, 0, 0, code) for code, sex in pairs])))
    lines = [
        " ".join([str(code), str(sex), *(found[name][row] for name in TEN)])
        for row, (code, sex) in enumerate(pairs)
    ]
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest() == OF_HOUSEHOLDS


def test_columns_of_tenure_age_race_and_oldest():
    rows = [(tenure, 1, tenure, tenure % 2, tenure, tenure, 393) for tenure in range(4)]
    found = words(units_columns(np.array(rows)))
    assert found["TEN"] == ["1", "2", "3", "4"]
    assert found["VACS"] == ["0"] * 4
    assert found["THHLDRAGE"] == ["1", "2", "3", "4"]
    assert found["THHSPAN"] == ["1", "2", "1", "2"]
    assert found["THHRACE"] == ["01", "02", "03", "04"]
    assert [found[name] for name in ("TP60", "TP65", "TP75")] == [list("0111"), list("0011"), list("0001")]


def test_vacant_units_and_group_quarters_have_zeros():
    rows = [(code, 2, 9, 2, 7, 4, 522) for code in range(4, 35)]
    found = words(units_columns(np.array(rows)))
    assert list(found) == list(ORDER)
    assert found["VACS"] == [*"1234567", *["0"] * 24]
    assert found["RTYPE"] == ["2"] * 7 + ["4"] * 24
    assert found["GQTYPE"][:8] == ["000"] * 7 + ["101"]
    assert found["GQTYPE"][-1] == "997"
    for name in set(ORDER) - {"RTYPE", "GQTYPE", "VACS"}:
        assert set(found[name]) == ({"00"} if name in ("HHT2", "THHRACE") else {"0"}), name


def test_columns_of_persons():
    found = words(persons_columns(np.array([(code, code % 2, code, 0, 62) for code in range(42)])))
    assert found["RELSHIP"] == ["20", "20", *map(str, range(21, 37)), *["37"] * 15, *["38"] * 9]
    assert found["LIVE_ALONE"] == ["1", *["2"] * 17, *["0"] * 24]
    assert found["RTYPE"] == ["3"] * 18 + ["5"] * 24
    assert found["GQTYPE"][17:20] == ["000", "101", "102"]
    assert (found["GQTYPE"][33], found["GQTYPE"][41]) == ("501", "997")
    assert (found["QSEX"][:2], found["QAGE"][41], found["CENHISP"][0]) == (["1", "2"], "41", "1")
    assert set(found["CENRACE"]) == {"63"}
    assert all(len(values) == 42 for values in OF_RELGQ.values())


def counts_of(preset: str, records: list[tuple[int, tuple[int, ...], int]]) -> PublicCounts:
    """Counts of blocks from (block, level codes, count)."""
    cells = load_preset(preset).encode(np.array([codes for _, codes, _ in records]))
    block, count = (np.array(column) for column in zip(*[(b, c) for b, _, c in records], strict=True))
    return PublicCounts("Block", *compress_rows(len(BLOCKS), block, cells, count))


PEOPLE = [(0, (1, 0, 40, 0, 0), 2), (0, (2, 1, 38, 1, 5), 1), (2, (18, 0, 30, 0, 61), 3)]
HOMES = [(0, (0, 0, 3, 1, 1, 0, 66), 2), (0, (7, 2, 9, 2, 7, 4, 522), 1), (2, (33, 2, 9, 2, 7, 4, 522), 1)]


@pytest.mark.parametrize(
    ("records", "rows", "columns"), [("persons", PEOPLE, PERSONS), ("units", HOMES, UNITS)]
)
def test_files_have_the_published_columns_and_one_row_for_each_record(
    tmp_path, monkeypatch, records, rows, columns
):
    monkeypatch.setattr(histograms, "PERSONS_PER_PART", 2)
    preset = f"dhc-{records}"
    written = write_records(tmp_path, records, counts_of(preset, rows), BLOCKS, load_preset(preset), {})
    assert written == [f"microdata/{records}.parquet", f"microdata/{records}.txt"]
    text = (tmp_path / "microdata" / f"{records}.txt").read_text().splitlines()
    assert text[0] == "|".join(columns)
    assert len(text) == 1 + sum(count for _, _, count in rows)
    kind = {"persons": "MPD", "units": "MUD"}[records]
    assert [line.split("|")[:7] for line in text[1:3]] == [
        [kind, "1.1.0", "44", "001", "030100", "1", "1000"]
    ] * 2
    assert text[-1].split("|")[2:7] == ["44", "001", "030200", "2", "2003"]
    frame = pl.read_parquet(tmp_path / "microdata" / f"{records}.parquet")
    numbers = {"EPNUM": pl.Int64, "QAGE": pl.Int64} if records == "persons" else {}
    assert {name: kind for name, kind in frame.schema.items() if kind.is_integer()} == numbers
    if records == "persons":
        assert frame["EPNUM"].to_list() == list(range(1, 7))
        assert text[1] == "MPD|1.1.0|44|001|030100|1|1000|1|3|000|20|1|40|1|01|2"
    else:
        assert text[1].endswith("|2|000|1|0|2|1|02|1|5|0|4|2|02|4|0|0|0|0|4|1")


def test_no_records_make_files_with_a_header_only(tmp_path):
    nothing = PublicCounts("Block", *compress_rows(3, *[np.empty(0, dtype=np.int64)] * 3))
    write_records(tmp_path, "units", nothing, BLOCKS, load_preset("dhc-units"), {})
    assert (tmp_path / "microdata" / "units.txt").read_text() == "|".join(UNITS) + "\n"


def test_codes_that_are_no_blocks_are_refused(tmp_path):
    counts = counts_of("dhc-persons", PEOPLE)
    with pytest.raises(GeographyError, match="block codes of 15 digits, and the Block 'A1'"):
        write_records(
            tmp_path, "persons", counts, pl.Series(["A1", *BLOCKS[1:]]), load_preset("dhc-persons"), {}
        )


@pytest.mark.parametrize(
    "change", [pl.col("QAGE") + 1, pl.lit("9999").alias("TABBLK"), pl.lit("2").alias("QSEX")]
)
def test_changed_records_are_noticed(tmp_path, change):
    counts, schema = counts_of("dhc-persons", PEOPLE), load_preset("dhc-persons")
    write_records(tmp_path, "persons", counts, BLOCKS, schema, {})
    path = tmp_path / "microdata" / "persons.parquet"
    frame = pl.read_parquet(path)
    frame.with_columns(change.cast(frame.schema[change.meta.output_name()], strict=False)).write_parquet(path)
    with pytest.raises(SolverError, match="microdata hold exactly the records"):
        _check(path, "persons", counts, BLOCKS, schema)
